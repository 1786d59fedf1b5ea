"""A costly value with many readers is computed once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.materialize_shared import materialize_shared

TABLE = np.linspace(0, 3, 512 * 32, dtype=np.float32).reshape(512, 32)
ROWS = np.ones((8, 512, 32), np.float32)


def long(x, count):
    for k in range(count):
        x = x * 1.5 if k % 2 else x + k
    return x


def calls(f, *inputs):
    lowered = jax.jit(f).lower(*inputs)
    module = lowered.compiler_ir("stablehlo")
    materialize_shared(module)
    text = str(module)
    compiled = lowered.compile()
    assert compiled.as_text().count("to_apply=%kept_") == text.count("call @kept_")  # XLA keeps all of them
    return text.count("call @kept_")


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda t, x: jnp.cos(t) * x, 1),
        (lambda t, x: jnp.concatenate([jnp.cos(t), -jnp.sin(t)], -1)[:, 16:48] * x + 1, 1),
        (lambda t, x: jnp.exp(t - t.max(0)) / 2 * x + jnp.tanh(t) * x, 2),
        (lambda t, x: jnp.log(t)[jnp.arange(4096) % 7], 1),
        (lambda t, x: jnp.log(t)[jnp.arange(512) % 7], 0),
        (lambda t, x: t * x, 0),  # not costly
        (lambda t, x: long(t, 5) * x, 0),
        (lambda t, x: long(t, 20) * x, 1),
        (lambda t, x: sum(jnp.pad(t[k:], ((0, k), (0, 0))) for k in range(9)) * x, 1),  # calls, of functions that pad
        (lambda t, x: jnp.where(long(t, 20) > 1, t, 0.0) * x, 1),
        (lambda t, x: jnp.sort(long(t, 20)) * x, 0),  # a call materializes its operands
        (lambda t, x: jnp.cos(t)[:4] * x[:, :4], 0),  # little
        (lambda t, x: jnp.cos(t) * x[:2], 0),  # not often
        (lambda t, x: jnp.cos(t[0, 0]) * x, 0),  # one number
        (lambda t, x: jnp.cos(t).sum(0) * x, 0),  # materialized in any case
        (lambda t, x: jax.lax.scan(lambda s, r: (s, jnp.cos(t) * x), 0.0, x[:2])[1], 1),
    ],
)
def test_what_is_kept(f, expected):
    assert calls(f, TABLE, ROWS) == expected


def test_rope_is_right(xla_only):
    x = np.random.default_rng(0).standard_normal((2, 8, 64, 32)).astype(np.float32)
    rope = mx.compile(lambda x: mx.fast.rope(x, 32, traditional=False, base=1e4, scale=1.0, offset=3))
    angles = (np.arange(64)[:, None] + 3) * 1e4 ** (-np.arange(16) / 16)
    cos, sin = np.cos(angles), np.sin(angles)
    expected = np.concatenate([x[..., :16] * cos - x[..., 16:] * sin, x[..., :16] * sin + x[..., 16:] * cos], -1)
    with ext.reproducible():
        np.testing.assert_allclose(np.array(rope(mx.array(x))), expected, rtol=1e-4, atol=1e-4)
        gradient = mx.grad(lambda x: (rope(x) * mx.array(expected)).sum())(mx.array(x))
        np.testing.assert_allclose(np.array(gradient), x, rtol=1e-3, atol=1e-3)  # a rotation, and back
