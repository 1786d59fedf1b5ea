"""Reads of a buffer's first n entries: one program serves every n, and agrees with real MLX.

Each function below attends to the filled part of a cache, in one of the ways that models use. The rest of each
buffer holds NaN, which must not reach a result.
"""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mxcompat as mx
from mxcompat._graph.run.background import settle
from mxcompat._graph.run.events import stats
from mxcompat.ext.debug import clear_cache
from tests.oracle import check, ours, real, run, same

on_both_tiers = pytest.mark.usefixtures("tier")
by_xla = pytest.mark.usefixtures("xla_only")

ROOT = Path(__file__).parent.parent
RNG = np.random.default_rng(0)
ROOM, HEADS, WIDTH = 24, 2, 64


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


KEYS, VALUES = draw(2, HEADS, ROOM, WIDTH), draw(2, HEADS, ROOM, WIDTH)
QUERY, QUERIES, WIDE_QUERY = draw(2, HEADS, 1, WIDTH), draw(2, HEADS, 3, WIDTH), draw(2, 2 * HEADS, 1, WIDTH)
SINKS, LATENT = draw(2 * HEADS), draw(2, HEADS, 1, 16)


def attention(mx, q, k, v, n, **options):
    return mx.fast.scaled_dot_product_attention(mx.array(q), k[..., :n, :], v[..., :n, :], scale=0.2, **options)


def causal(mx, rows, n, window=None):
    """Return the mask of an mlx-lm batch with left-padded prompts."""
    columns, rows = mx.arange(n)[None], mx.arange(n - rows, n)[:, None]
    mask = rows >= columns
    if window:
        mask = mask & (rows < columns + window)
    return mask & (mx.expand_dims(mx.array([1, 0]), (1, 2, 3)) <= columns)


def quantized(mx, q, k, v, n, bits, group, mode="affine", masked=False):
    """Attend to a quantized cache as mlx-lm does: read the buffers of packed words, scales and biases."""
    how = {"bits": bits, "group_size": group, "mode": mode}
    k, v = ([spoilt(mx, a, n)[..., :n, :] for a in mx.quantize(x[..., :n, :], **how)] for x in (k, v))
    q = mx.array(q).reshape(2, HEADS, -1, 1, WIDTH)
    k, v = ([mx.expand_dims(a, -3) for a in part] for part in (k, v))
    scores = mx.quantized_matmul(q * 0.2, *k, transpose=True, **how)
    if masked:
        mask = mx.expand_dims(causal(mx, 1, n), -3)
        scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)
    return mx.quantized_matmul(mx.softmax(scores, axis=-1, precise=True), *v, transpose=False, **how)


def spoilt(mx, part, n):
    """Return a buffer with these first entries and invalid values behind them."""
    rest = mx.full((*part.shape[:2], ROOM - n, part.shape[-1]), float("nan") if part.dtype == mx.float32 else 255)
    both = mx.concatenate([part, rest.astype(part.dtype)], axis=2)
    mx.eval(both)
    return both


def by_hand(mx, q, k, v, n, cap=None, repeated=False):
    q, k, v = mx.array(q), k[..., :n, :], v[..., :n, :]
    if repeated:
        k, v = mx.repeat(k, 2, axis=1), mx.repeat(v, 2, axis=1)
    scores = (q * 0.2) @ k.swapaxes(-1, -2)
    if cap:
        scores = mx.tanh(scores / cap) * cap
    scores = mx.where(causal(mx, 1, n), scores, -1e9)
    return mx.softmax(scores.astype(mx.float32), axis=-1).astype(q.dtype) @ v


def latent(mx, k, v, n):
    """Attend as DeepSeek does: the scores of positions are an additive mask."""
    positions = v[..., :n, :16]
    scores = mx.where(causal(mx, 1, n), mx.array(LATENT) @ positions.swapaxes(-1, -2), -1e9)
    return attention(mx, QUERY, k, v, n, mask=scores)


WAYS = {
    "plain": lambda mx, k, v, n: attention(mx, QUERY, k, v, n),
    "grouped heads": lambda mx, k, v, n: attention(mx, WIDE_QUERY, k, v, n),
    "several queries": lambda mx, k, v, n: attention(mx, QUERIES, k, v, n, mask="causal"),
    "sinks": lambda mx, k, v, n: attention(mx, WIDE_QUERY, k, v, n, sinks=mx.array(SINKS)),
    "batch": lambda mx, k, v, n: attention(mx, WIDE_QUERY, k, v, n, mask=causal(mx, 1, n)),
    "batch, sinks": lambda mx, k, v, n: attention(
        mx, WIDE_QUERY, k, v, n, mask=causal(mx, 1, n), sinks=mx.array(SINKS)
    ),
    "batch, several queries": lambda mx, k, v, n: attention(mx, QUERIES, k, v, n, mask=causal(mx, 3, n)),
    "window": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=causal(mx, 1, n, window=4)),
    "nothing to see": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.arange(n) > 99),
    "slopes": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.arange(1 - n, 1).astype(mx.float32) / 8),
    "broadcast mask": lambda mx, k, v, n: attention(
        mx, QUERY, k, v, n, mask=mx.broadcast_to(causal(mx, 1, n), (2, HEADS, 1, n))
    ),
    "mask from a buffer": lambda mx, k, v, n: attention(
        mx, QUERY, k, v, n, mask=mx.squeeze(mx.flatten(v[:1, 1:, :n, 3:4], 2, 3), 0).reshape(1, 1, 1, n)
    ),
    "8 bits": lambda mx, k, v, n: quantized(mx, QUERY, k, v, n, 8, 64),
    "8 bits, groups of 32": lambda mx, k, v, n: quantized(mx, WIDE_QUERY, k, v, n, 8, 32),
    "4 bits": lambda mx, k, v, n: quantized(mx, WIDE_QUERY, k, v, n, 4, 64),
    "4 bits, groups of 32, masked": lambda mx, k, v, n: quantized(mx, WIDE_QUERY, k, v, n, 4, 32, masked=True),
    "3 bits": lambda mx, k, v, n: quantized(mx, QUERY, k, v, n, 3, 64),
    "mxfp8": lambda mx, k, v, n: quantized(mx, WIDE_QUERY, k, v, n, 8, 32, "mxfp8"),
    "by hand": lambda mx, k, v, n: by_hand(mx, QUERY, k, v, n),
    "by hand, soft cap": lambda mx, k, v, n: by_hand(mx, QUERY, k, v, n, cap=5.0),
    "by hand, repeated heads": lambda mx, k, v, n: by_hand(mx, WIDE_QUERY, k, v, n, repeated=True),
    "latent": lambda mx, k, v, n: latent(mx, k, v, n),
}  # fmt: skip

EXACT = {
    "rolled mask": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.roll(mx.arange(n) > 2, 1)),
    "sorted mask": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.sort(v[0, 0, :n, 0])),
    "mask that adds up": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.cumsum(mx.arange(n) / 8)),
    "mask that is there": lambda mx, k, v, n: attention(mx, QUERY, k, v, n, mask=mx.array(VALUES[0, 0, :n, 0])),
    "values from elsewhere": lambda mx, k, v, n: mx.fast.scaled_dot_product_attention(
        mx.array(QUERY), k[..., :n, :], v[..., ROOM // 2 : ROOM // 2 + n, :] * 0 + 1, scale=1.0
    ),
    "values that add up": lambda mx, k, v, n: mx.softmax(k[..., :1, :n], axis=-1) @ mx.cumsum(v[..., :n, :], axis=2),
    "other axes": lambda mx, k, v, n: mx.softmax(k[..., :n, :n], axis=-2) @ v[..., :n, :],
    "keys that are shown": lambda mx, k, v, n: [attention(mx, QUERY, k, v, n), k[..., :n, :], mx.arange(n)],
    "a prompt": lambda mx, k, v, n: attention(mx, KEYS[..., :n, :], k, v, n, mask="causal"),
    "the first token": lambda mx, k, v, n: attention(mx, QUERY, k, v, 1, mask=mx.arange(1) >= n),
    "the whole buffer": lambda mx, k, v, n: attention(mx, QUERY, k * 0 + n, v, ROOM, mask=mx.arange(ROOM) >= n),
}  # fmt: skip


def spoil(x, n):
    return np.where(np.arange(ROOM)[:, None] < n, x, np.nan).astype(np.float32)


def compiled(way, sizes):
    """Return the number of compilations for these sizes."""
    settle()
    before = stats.compiles
    for n in sizes:
        keys, values = ours.array(KEYS), ours.array(VALUES)
        ours.eval(keys, values)
        ours.eval(way(ours, keys, values, n))
    settle()
    return stats.compiles - before


@by_xla
@pytest.mark.parametrize("name", [name for name in WAYS if "bits" not in name and name != "mxfp8"])
def test_one_program_for_every_size(name):
    """Assert that one program serves every size. Quantized ways are in `test_quantized_cache`, as new buffers
    recompile."""
    compiled(WAYS[name], (5, 6))
    assert compiled(WAYS[name], (7, 9, 15, 16, 20)) == 0


@on_both_tiers
@pytest.mark.parametrize("name", [*WAYS, *EXACT])
def test_the_numbers_of_real_mlx(name):
    way = (WAYS | EXACT)[name]
    whole = name in ("the whole buffer", "values from elsewhere")
    for n in (5, 6, 11):
        k, v = (x if whole else spoil(x, n) for x in (KEYS, VALUES))
        check(lambda mx, k, v: way(mx, k, v, n), k, v)  # noqa: B023  it runs at once


@by_xla
@pytest.mark.parametrize(("bits", "group"), [(8, 64), (8, 32), (4, 64), (4, 32), (6, 32)])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_quantized_cache(bits, group, dtype):
    """Update a cache token by token, as mlx-lm does."""
    how = {"bits": bits, "group_size": group}

    def begin(mx):
        parts = mx.quantize(mx.zeros((2, HEADS, ROOM, WIDTH), getattr(mx, dtype)), **how)
        return parts, mx.quantize(mx.zeros((2, HEADS, ROOM, WIDTH), getattr(mx, dtype)), **how)

    def step(mx, cache, n):
        cast = getattr(mx, dtype)
        for part, x in zip(cache, (KEYS, VALUES), strict=True):
            for buffer, new in zip(part, mx.quantize(mx.array(x[:, :, n : n + 1]).astype(cast), **how), strict=True):
                buffer[..., n : n + 1, :] = new
        k, v = ([mx.expand_dims(a[..., : n + 1, :], -3) for a in part] for part in cache)
        q = mx.array(WIDE_QUERY).reshape(2, HEADS, 2, 1, WIDTH).astype(cast)
        scores = mx.softmax(mx.quantized_matmul(q, *k, transpose=True, **how), axis=-1, precise=True)
        out = mx.quantized_matmul(scores, *v, transpose=False, **how)
        mx.eval(out)
        return out

    caches = [begin(real), begin(ours)]
    for n in range(12):
        if n == 4:
            settle()
            before = stats.compiles
        want, got = (step(mx, kept, n) for mx, kept in zip((real, ours), caches, strict=True))
        # real MLX accumulates products of halves in half precision
        same(got, want, 2e-2 if dtype == "float16" else 1e-4)
    settle()
    assert stats.compiles == before


def test_the_cache_in_numpy():
    """Assert that a generation step in NumPy's tier needs no executable."""
    clear_cache()
    before = stats.executions
    for name in ("plain", "batch", "sinks", "by hand", "latent"):
        k, v = mx.array(KEYS), mx.array(VALUES)
        mx.eval(WAYS[name](mx, k, v, 5))
    assert stats.executions == before


@by_xla
def test_what_is_read_is_the_buffer():
    """Assert that attention reads the whole buffer: no other op reads the slice, so no program has its shape."""
    k, v = mx.array(KEYS), mx.array(VALUES)
    mx.eval(k, v)
    out = WAYS["batch"](mx, k, v, 7)
    mx.eval(mx.zeros(1) + 1)  # any evaluation rewrites the recorded slices
    attended = out._node
    assert attended.inputs[1].aval.shape == KEYS.shape
    assert attended.inputs[4].aval.shape == (2, 1, 1, ROOM)
    same(out, run(real, lambda mx, k, v: WAYS["batch"](mx, k, v, 7), (KEYS, VALUES)))


def test_a_long_buffer_is_read_in_part():
    k, v = (mx.array(np.resize(x, (1, HEADS, 1000, WIDTH))) for x in (KEYS, VALUES))
    mx.eval(k, v)
    for n, room in ((7, 256), (256, 256), (257, 1000), (600, 1000)):
        out = mx.fast.scaled_dot_product_attention(mx.array(QUERY[:1]), k[..., :n, :], v[..., :n, :], scale=1.0)
        mx.eval(mx.zeros(1) + 1)
        assert out._node.inputs[1].aval.shape[2] == room


def test_deep_masks_keep_their_shape():
    def way(mx, k, v):
        mask = mx.arange(7).astype(mx.float32)
        for _ in range(200):
            mask = mask * 0.5 + 0.1
        return attention(mx, QUERY, k, v, 7, mask=mask)

    check(way, KEYS, VALUES)


JOBS = ("8 bits, groups of 64", "batch", "rotating batch", "attention by hand")
MORE = ("4 bits, groups of 32", "chunked", "rotating")


@functools.cache
def outcomes(folder, jobs):
    """Return the records of `padding_worker` on real MLX and on mxcompat."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MXCOMPAT_HOST": "0"}  # each step counts as a compile
    for side, runner in (("real", ()), ("ours", ("-m", "mxcompat"))):
        command = [sys.executable, *runner, "tests/padding_worker.py", str(folder / side), *jobs]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=900)
    return [json.loads((folder / side).read_text()) for side in ("real", "ours")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("padding")


@pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None, reason="mlx-lm is not installed")
@pytest.mark.parametrize("job", [*JOBS, *[pytest.param(job, marks=pytest.mark.exhaustive) for job in MORE]])
def test_generation(job, folder):
    """Compare 200 sampled tokens with real MLX.

    Only the first tokens, and the token that fills a rotating cache, compile.
    """
    want, got = (side[job] for side in outcomes(folder, JOBS if job in JOBS else MORE))
    assert got["tokens"] == want["tokens"]
    compiles = got["compiles"]
    assert compiles[-1] == compiles[60]
    if "rotating" not in job:
        assert compiles[-1] == compiles[5]
    else:
        assert compiles[-1] - compiles[5] <= 8


LINE = {
    "range": lambda mx, k, n: mx.arange(n).astype(mx.float32) / 16,
    "from the end": lambda mx, k, n: mx.arange(1 - n, 1).astype(mx.float32) / 8,
    "of the buffer": lambda mx, k, n: k[0, 0, :n, 3],
    "of the buffer, the other way": lambda mx, k, n: mx.swapaxes(k[1, :, :n, :2], 1, 2)[1, 0],
    "compared": lambda mx, k, n: (k[1, 1, :n, 0] > 0).astype(mx.float32),
}
"""Ways to make an index array of a growing length n."""

CHANGE = {
    "exp": lambda mx, x, y: mx.exp(mx.minimum(x, 2.0)),
    "sum": lambda mx, x, y: x + y,
    "larger": lambda mx, x, y: mx.maximum(x, y),
    "choice": lambda mx, x, y: mx.where(y > 0.2, x, -1.0),
    "axes": lambda mx, x, y: mx.unflatten(mx.expand_dims(x, (0, 2)), 0, (1, 1)).reshape(-1),
    "repeated": lambda mx, x, y: mx.repeat(x[None], 2, axis=0)[1],
    "joined": lambda mx, x, y: mx.concatenate([x[None], y[None]], axis=0)[1],
    "mixed": lambda mx, x, y: (mx.array([[0.3, -0.2]]) @ mx.concatenate([x[None], y[None]], axis=0))[0],
    "mixed from the left": lambda mx, x, y: (mx.concatenate([x[:, None], y[:, None]], axis=1) @ mx.ones((2, 1)))[:, 0],
    "weights": lambda mx, x, y: mx.softmax(mx.concatenate([x[None], y[None]], axis=0), axis=0)[0],
    "normalised": lambda mx, x, y: mx.softmax(x, axis=-1) * 4,
    "broadcast": lambda mx, x, y: mx.broadcast_to(x, (3, x.shape[0]))[2],
    "rolled": lambda mx, x, y: mx.roll(x, 1),
    "scanned": lambda mx, x, y: mx.cumsum(y) / 8,
    "backwards": lambda mx, x, y: x[::-1],
    "the first again": lambda mx, x, y: mx.concatenate([x[:2], y[2:]]),
}
"""Ways to combine two such arrays into a mask."""


STAYS_EXACT = ("rolled", "scanned", "backwards", "the first again")


@pytest.mark.parametrize("name", CHANGE)
def test_what_a_padded_mask_survives(name):
    k, v = mx.array(KEYS), mx.array(VALUES)
    mx.eval(k, v)
    out = attention(mx, QUERY, k, v, 9, mask=CHANGE[name](mx, LINE["range"](mx, k, 9), LINE["compared"](mx, k, 9)))
    mx.eval(mx.zeros(1) + 1)  # any evaluation rewrites the recorded slices
    assert out._node.inputs[1].aval.shape[2] == (9 if name in STAYS_EXACT else ROOM)


@settings(max_examples=40)
@given(
    lines=st.lists(st.sampled_from(sorted(LINE)), min_size=2, max_size=2),
    changes=st.lists(st.sampled_from(sorted(CHANGE)), max_size=4),
    n=st.integers(2, ROOM - 1),
)
def test_whatever_becomes_of_a_mask(lines, changes, n):
    def way(mx, k, v):
        x, y = (LINE[name](mx, k, n) for name in lines)
        for name in changes:
            x, y = CHANGE[name](mx, x, y), x
        return attention(mx, QUERY, k, v, n, mask=x)

    check(way, spoil(KEYS, n), spoil(VALUES, n), tol=1e-4)  # errors of the mask become errors of the exponents


@by_xla
@pytest.mark.parametrize("tool", [mx.ext.debug.eager, mx.ext.debug.nan_check])
def test_op_by_op(tool):
    with tool():
        got = run(ours, lambda mx, k, v: WAYS["batch"](mx, k, v, 6), (KEYS, VALUES))
    same(got, run(real, lambda mx, k, v: WAYS["batch"](mx, k, v, 6), (KEYS, VALUES)))


TRANSFORMED = ("plain", "batch", "window", "sinks", "by hand, soft cap", "latent")


@on_both_tiers
@pytest.mark.parametrize("name", TRANSFORMED)
class TestTransforms:
    """Assert that padding does not reach a gradient: the bodies of transforms keep their exact shapes."""

    def test_gradient(self, name):
        def loss(mx, k, v):
            return mx.grad(lambda k, v: mx.square(WAYS[name](mx, k, v, 6)).sum(), argnums=(0, 1))(k, v)

        check(loss, spoil(KEYS, 6), spoil(VALUES, 6), tol=1e-4)  # the loss is a sum of squares

    def test_vmap(self, name):
        def mapped(mx, k, v):
            return mx.vmap(lambda a: WAYS[name](mx, k * a, v, 6))(mx.array([1.0, 0.5]))

        check(mapped, spoil(KEYS, 6), spoil(VALUES, 6))

    def test_compile(self, name):
        check(lambda mx, k, v: mx.compile(lambda k, v: WAYS[name](mx, k, v, 6))(k, v), spoil(KEYS, 6), spoil(VALUES, 6))

    def test_what_a_transform_captures(self, name):
        def captured(mx, k, v):
            seen = WAYS[name](mx, k, v, 6)
            return [mx.grad(lambda a: (seen * a).sum())(mx.array(2.0)), seen]

        check(captured, spoil(KEYS, 6), spoil(VALUES, 6), tol=1e-4)  # the result is a long sum

    def test_inside_jax(self, name):
        def loss(k, v):
            out = WAYS[name](mx, mx.array(k), mx.array(v), 6)
            return jnp.square(out.__jax_array__()).sum()

        k, v = spoil(KEYS, 6), spoil(VALUES, 6)
        want = run(real, lambda mx, k, v: mx.square(WAYS[name](mx, k, v, 6)).sum(), (k, v))
        np.testing.assert_allclose(jax.jit(loss)(k, v), want.item(), rtol=1e-4)
        slopes = run(real, lambda mx, k, v: mx.grad(lambda k: mx.square(WAYS[name](mx, k, v, 6)).sum())(k), (k, v))
        np.testing.assert_allclose(jax.grad(loss)(k, v), np.array(slopes), rtol=1e-4, atol=1e-4)
