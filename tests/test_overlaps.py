"""What is written into an array and read from that array, at places that overlap: XLA's loops read what they wrote."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.overlaps import read_before_writing

SHAPES = [(4, 4), (8, 8), (64, 64), (1000, 1), (5, 1000), (32, 16)]


def down(x):
    x[1:] = x[:-1]
    return x


def up(x):
    x[:-1] = x[1:]
    return x


def aside(x):
    x[:, 1:] = x[:, :-1] * 2 + 1
    return x


def far(x):
    x[3:] = x[:-3] + x[3:]
    return x


def turned(x):
    x[1:] = x[:-1][::-1]
    return x


@pytest.mark.parametrize("write", [down, up, aside, far, turned], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_read_before(shape, write):
    n = shape[0] * shape[1]
    values = np.arange(n, dtype=np.float32).reshape(shape) * 2 + 1
    expected = write(values.copy())  # NumPy reads first, too
    for made in (
        lambda: mx.arange(n).reshape(shape) * 2.0 + 1,
        lambda: (mx.array(values).reshape(-1) * 1.0).reshape(shape),
        lambda: mx.array(values),
    ):
        for mode in (ext.reproducible, ext.debug.host_disabled):
            with mode():
                for _ in range(2):
                    np.testing.assert_array_equal(np.array(write(made())), expected)


@pytest.mark.parametrize(
    ("f", "chosen"),
    [
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y, y[:3], (i, 0)))(x + 1), True),
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y.ravel(), y.ravel()[:14], (i,)))(x * 2), True),
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y, y[:1] * 2, (i, 0)))(x * 2), False),  # a single row
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y, x[:3], (i, 0)))(x * 2), False),  # of another
        (lambda x, i: lax.dynamic_update_slice(x, x[:3], (i, 0)), False),  # of an argument, which XLA sees
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y, (y @ y)[:3], (i, 0)))(x * 2), False),  # another loop
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y, y * 3, (i, 0)))(x * 2), False),  # all of it
    ],
)
def test_which_writes_are_choices(f, chosen):
    x = jnp.arange(16.0).reshape(4, 4)
    lowered = jax.jit(f).lower(x, 1)
    module = lowered.compiler_ir("stablehlo")
    expected = np.asarray(jax.jit(f)(x, 1))
    read_before_writing(module)
    module.operation.verify()
    assert ("xi1>" in str(module)) is chosen
    np.testing.assert_array_equal(np.asarray(lowered.compile()(x, 1)), expected)


@pytest.mark.parametrize("dtype", ["bool_", "int8", "uint16", "int64", "float16", "bfloat16", "complex64"])
def test_of_every_kind(dtype):
    x = mx.arange(64).reshape(8, 8) % 5
    with ext.reproducible():
        y = (x.reshape(-1) + 0).reshape(8, 8).astype(getattr(mx, dtype))
        y[1:] = y[:-1]
        found = np.array(y.astype(mx.float32))
    values = np.array(x.astype(getattr(mx, dtype)).astype(mx.float32))
    np.testing.assert_array_equal(found, np.concatenate([values[:1], values[:-1]]))
