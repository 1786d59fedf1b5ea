"""Attention of few queries, which C computes in NumPy's and in XLA's programs, compared with float64."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph import policy
from mxcompat._graph.run.foreign import ATTEND
from mxcompat._native import native

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

STEPS = {"float32": 2e-6, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""The largest relative errors by dtype: one rounding, and for float32 that of the sums."""


@pytest.fixture(params=["NumPy", "XLA"])
def tier(request, monkeypatch):
    monkeypatch.setattr(policy, "HOST", request.param == "NumPy")


def exact(q, k, v, scale, mask, sinks):
    """Return attention in float64, by its definition."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    k, v = (x.repeat(heads // x.shape[1], 1) for x in (k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    if isinstance(mask, str):
        mask = np.arange(keys) < np.arange(keys - queries, keys)[:, None] + 1
    if mask is not None and mask.dtype == bool:
        scores = np.where(mask, scores, np.finfo(np.float32).min)
    elif mask is not None:
        scores = scores + mask.astype(np.float64)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights[..., :keys] @ v


def normal(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32).astype(dtype) for shape in shapes]


SIZES = {
    "one token": (1, 8, 8, 1, 300, 64, 64),
    "shared keys": (2, 6, 2, 1, 131, 64, 32),
    "several queries": (1, 4, 2, 5, 257, 48, 64),
    "odd widths": (3, 2, 1, 3, 9, 33, 7),
    "one key": (1, 4, 2, 1, 1, 64, 64),
    "fewer keys than queries": (1, 1, 1, 16, 3, 16, 16),
}
"""Batches, heads, heads of keys, queries, keys, width of keys, width of values."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_values(sizes, dtype, tier, instructions):
    batch, heads, groups, queries, keys, width, depth = sizes
    shapes = (batch, heads, queries, width), (batch, groups, keys, width), (batch, groups, keys, depth), (heads,)
    q, k, v, sinks = normal(*shapes, dtype=getattr(ml_dtypes, dtype, dtype))
    for mask in (None, "causal", *masks(batch, heads, queries, keys, q.dtype)):
        for extra in (None, sinks):
            out = mx.fast.scaled_dot_product_attention(
                *map(mx.array, (q, k, v)), scale=0.3, mask=mx.array(mask) if isinstance(mask, np.ndarray) else mask,
                sinks=None if extra is None else mx.array(extra),
            )  # fmt: skip
            expected = exact(q, k, v, 0.3, mask, None if extra is None else extra.astype(np.float64))
            assert out.dtype == getattr(mx, dtype)
            near = {"rtol": STEPS[dtype], "atol": STEPS[dtype] * np.abs(expected).max()}
            np.testing.assert_allclose(np.array(out.astype(mx.float32)), expected, **near)


def masks(batch, heads, queries, keys, dtype):
    """Return masks of several shapes: of bools, of which one hides all keys from a query, and of scores."""
    rng = np.random.default_rng(1)
    seen = rng.random((batch, 1, queries, keys)) < 0.5
    seen[0, 0, 0] = False
    (terms, row) = normal((heads, queries, keys), (keys,), dtype=dtype)
    terms[:, :, keys // 2 + 1 :] = -np.inf
    return seen, seen[:, :, :, :1], terms, row, row[:1], np.ones((), bool)


def test_scores_of_any_size(tier, instructions):
    """Scores far from the largest one count nothing, and infinite or missing numbers show as in the definition."""
    keys = np.array([-1e30, -200.0, -88.0, -50.0, -1.0, 0.0], np.float32).reshape(1, 1, 6, 1)
    values = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6, 1)
    one = np.ones((1, 1, 1, 1), np.float32)

    def attention(k, v=values):
        return mx.fast.scaled_dot_product_attention(mx.array(one), mx.array(k), mx.array(v), scale=1.0).item()

    assert attention(keys) == pytest.approx(exact(one, keys, values, 1.0, None, None).item(), rel=1e-6)
    assert attention(keys + 1e4 * (keys > -1e3)) == pytest.approx(attention(keys), rel=1e-3)
    lowest = keys.copy()
    lowest[..., :3, :] = -np.inf
    assert attention(lowest) == pytest.approx(exact(one, lowest, values, 1.0, None, None).item(), rel=1e-6)
    for number in (np.nan, np.inf):
        assert np.isnan(attention(np.where(keys == 0, np.float32(number), keys)))
    assert np.isnan(attention(np.full_like(keys, -np.inf)))
    assert attention(keys, np.where(values == 6, np.float32(np.inf), values)) == np.inf


def test_views_of_a_cache_are_read_in_place(tier):
    q, cache = normal((1, 4, 1, 64), (1, 2, 512, 64))
    buffer = mx.array(cache)
    k, v = buffer[:, :, :77], buffer[:, :, 100:177]
    out = mx.fast.scaled_dot_product_attention(mx.array(q), k, v, scale=0.1)
    expected = exact(q, cache[:, :, :77], cache[:, :, 100:177], 0.1, None, None)
    np.testing.assert_allclose(np.array(out), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_entries_after_the_valid_ones_do_not_count(dtype, tier):
    """A cache that grows is read as a whole buffer, whose other entries may be anything."""
    q, cache = normal((1, 4, 1, 64), (1, 2, 512, 64))
    cache[:, :, 300:] = np.nan
    buffer = mx.array(cache).astype(getattr(mx, dtype))
    mx.eval(buffer)
    queries = mx.array(q).astype(buffer.dtype)
    for n in (2, 127, 128, 129, 299):
        k = buffer[:, :, :n]
        mask = np.arange(n) % 3 > 0
        out = mx.fast.scaled_dot_product_attention(queries, k, k, scale=0.1, mask=mx.array(mask))
        rows = np.array(k.astype(mx.float32))
        expected = exact(np.array(queries.astype(mx.float32)), rows, rows, 0.1, mask, None)
        np.testing.assert_allclose(np.array(out.astype(mx.float32)), expected, rtol=0.01, atol=0.01)


def attention(q, k, v, **options):
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, **options)


@pytest.fixture
def without_c():
    """A context in which C computes no attention."""

    @contextmanager
    def context():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(policy, "FEW_QUERIES", 0)
            yield

    return context


def test_derivatives(tier, without_c):
    q, k, v = (mx.array(x) for x in normal((2, 4, 2, 8), (2, 2, 7, 8), (2, 2, 7, 5)))
    tangents = [mx.array(x) for x in normal((2, 4, 2, 8), (2, 2, 7, 8), (2, 2, 7, 5))]

    mask = mx.array(normal((2, 7))[0])

    def derivatives():
        def loss(*args):
            return mx.sum(mx.square(attention(*args, mask=mask)))

        first = mx.grad(loss, argnums=(0, 1, 2))(q, k, v)
        second = mx.grad(lambda q: mx.sum(mx.square(mx.grad(loss)(q, k, v))))(q)
        of_mask = mx.grad(lambda mask: mx.sum(mx.square(attention(q, k, v, mask=mask))))(mask)
        return [np.array(x) for x in (*first, second, of_mask, *mx.jvp(loss, [q, k, v], tangents)[1])]

    results = derivatives()
    with without_c():
        for result, expected in zip(results, derivatives(), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_vmap(tier, without_c):
    q, k, v = (mx.array(x) for x in normal((3, 2, 4, 1, 8), (2, 2, 7, 8), (2, 2, 3, 7, 8)))
    axes = (0, None, 2)
    result = np.array(mx.vmap(attention, in_axes=axes)(q, k, v))
    with without_c():
        expected = np.array(mx.vmap(attention, in_axes=axes)(q, k, v))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_xla_calls_c():
    """XLA's program reads keys and values by one call of C, without a product and a copy of its own."""

    def text(function, *shapes):
        def traced(*arrays):
            return ext.to_jax(function(*map(ext.from_jax, arrays)))

        return jax.jit(traced).lower(*map(jnp.asarray, normal(*shapes))).as_text()

    few = (1, 4, 1, 64), (1, 2, 32, 64), (1, 2, 32, 64)
    assert text(attention, *few).count(ATTEND) == 1
    assert "dot_general" not in text(attention, *few)
    assert "transpose" not in text(attention, *few)
    assert text(partial(attention, mask=mx.zeros((32,))), *few).count(ATTEND) == 1
    assert ATTEND not in text(attention, (1, 4, 1 + policy.FEW_QUERIES // 2, 64), *few[1:])


def test_exported_programs_do_not_call_c(tmp_path):
    path = str(tmp_path / "attention.mlxfn")
    arrays = [mx.array(x) for x in normal((1, 4, 1, 64), (1, 2, 32, 64), (1, 2, 32, 64))]
    assert ATTEND not in ext.stablehlo(attention, *arrays).text
    mx.export_function(path, attention, *arrays)
    (result,) = mx.import_function(path)(*arrays)
    np.testing.assert_allclose(np.array(result), np.array(attention(*arrays)), rtol=1e-5, atol=1e-6)


def test_numbers_that_do_not_fit_raise():
    """C checks the sizes and dtypes of XLA's arrays against the numbers of the call."""
    q, k, v = (jnp.asarray(x) for x in normal((1, 4, 1, 8), (1, 2, 5, 8), (1, 2, 5, 3)))
    call = jax.ffi.ffi_call(ATTEND, jax.ShapeDtypeStruct((1, 4, 1, 3), jnp.float32))
    scale, length, sinks = jnp.float32(0.3), jnp.int32(4), jnp.ones(4, jnp.float32)

    def run(*arrays, numbers):
        numbers = np.array(numbers, np.int64)
        return np.asarray(jax.jit(lambda *arrays: call(*arrays, numbers=numbers))(*arrays))

    sizes, flags = (1, 2, 2, 1, 5, 8, 3, 0, 0, 0, 1), (0, 1, 1, 1)
    mask = jnp.zeros(5, jnp.float32)
    result = run(q, k, v, scale, mask, length, sinks, numbers=(*flags, *sizes))
    expected = exact(*(np.asarray(x) for x in (q, k[:, :, :4], v[:, :, :4])), 0.3, None, np.ones(4))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    for arrays, numbers in (
        ((q, k, v, scale, mask, length, sinks), sizes),
        ((q, k, v, scale, mask, length), (*flags, *sizes)),
        ((q, k, v, scale, mask[:4], length, sinks), (*flags, *sizes)),
        ((q, k, v, scale, mask.astype(jnp.int32), length, sinks), (*flags, *sizes)),
        ((q, k, v, scale, mask, length.astype(jnp.int16), sinks), (*flags, *sizes)),
        ((q, k, v, scale, mask, length, sinks[:3]), (*flags, *sizes)),
        ((q, k, v, length, mask, length, sinks), (*flags, *sizes)),
        ((q, k.astype(jnp.float16), v, scale, mask, length, sinks), (*flags, *sizes)),
        ((q, k[:, :, :4], v, scale, mask, length, sinks), (*flags, *sizes)),
        ((q, k, v[:, :, :4], scale, mask, length, sinks), (*flags, *sizes)),
    ):
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            run(*arrays, numbers=numbers)
