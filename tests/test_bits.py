"""Ops that only move elements preserve their bits, including NaN payloads; `view` sees the bits that real MLX sees."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as ours
from mxcompat.ext.debug import host_disabled

SIZES = {
    "bool_": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2, "uint32": 4, "int32": 4,
    "float32": 4, "uint64": 8, "int64": 8, "float64": 8, "complex64": 8,
}  # fmt: skip
SPECIAL = {  # NaNs that are quiet, signalling and negative, with payloads; a subnormal number; -0
    "float16": [0x7E01, 0x7D55, 0xFC01, 0xFFFF, 1, 0x8000],
    "bfloat16": [0x7FC1, 0x7F81, 0xFF83, 0xFFFF, 1, 0x8000],
    "float32": [0x7FC12345, 0x7F812345, 0xFF812345, 0xFFFFFFFF, 1, 0x80000000],
    "float64": [0x7FF8000000000123, 0x7FF0000000000123, 0xFFF0000000000FFF, (1 << 64) - 1, 1, 1 << 63],
    "complex64": [0x7FC123457F812345, 0x7F81234500000001, 0xFF81234580000000, 0x800000007F800001, 0xFFFFFFFF00000001],
}
RNG = np.random.default_rng(0)
MASK = RNG.integers(0, 2, (4, 4, 8)).astype(bool)
INDEX = np.array([2, 0, 3], np.int32)


def written(mx: Any, x: Any, place: Any) -> Any:
    y = mx.array(x)
    y[place] = x[:3]
    return y


ARRANGED: dict[str, Callable[..., Any]] = {
    "itself": lambda mx, x, i, m: x,
    "transposed": lambda mx, x, i, m: x.transpose(1, 0, 2),
    "turned": lambda mx, x, i, m: x.transpose(2, 1, 0),
    "sliced": lambda mx, x, i, m: x[1:3, ::2, 4:],
    "backwards": lambda mx, x, i, m: x[::-1, :, ::-1],
    "broadcast": lambda mx, x, i, m: mx.broadcast_to(x[:1], (3, 4, 8)),
    "broadcast rows": lambda mx, x, i, m: mx.broadcast_to(x[:, :, :1], (4, 4, 8)),
    "broadcast and transposed": lambda mx, x, i, m: mx.broadcast_to(x[:, None], (4, 2, 4, 8)).transpose(1, 3, 0, 2),
}
MOVED: dict[str, Callable[..., Any]] = {
    "concatenate": lambda mx, x, i, m: mx.concatenate([x, x[:2]], 0),
    "concatenate rows": lambda mx, x, i, m: mx.concatenate([x, x], 2),
    "stack": lambda mx, x, i, m: mx.stack([x, x], 1),
    "take": lambda mx, x, i, m: mx.take(x, i, axis=0),
    "gather": lambda mx, x, i, m: x[i],
    "gather behind": lambda mx, x, i, m: x[:, i],
    "take_along_axis": lambda mx, x, i, m: mx.take_along_axis(x, mx.broadcast_to(i[:, None, None], (3, 4, 8)), 0),
    "where": lambda mx, x, i, m: mx.where(m, x, x[::-1]),
    "where zero": lambda mx, x, i, m: mx.where(m, x, mx.zeros_like(x)),
    "copy": lambda mx, x, i, m: mx.array(x),
    "contiguous": lambda mx, x, i, m: mx.contiguous(x.transpose(1, 0, 2)),
    "reshape": lambda mx, x, i, m: x.transpose(1, 0, 2).reshape(8, 2, 8),
    "repeat": lambda mx, x, i, m: mx.repeat(x, 2, axis=1),
    "tile": lambda mx, x, i, m: mx.tile(x, (2, 1, 2)),
    "roll": lambda mx, x, i, m: mx.roll(x, 3, axis=2),
    "pad": lambda mx, x, i, m: mx.pad(x, ((0, 0), (1, 1), (0, 8))),
    "pad by the edge": lambda mx, x, i, m: mx.pad(x, ((0, 0), (1, 1), (0, 8)), mode="edge"),
    "split": lambda mx, x, i, m: mx.split(x, 2, axis=2)[1],
    "write": lambda mx, x, i, m: written(mx, x, slice(1, 4)),
    "scatter": lambda mx, x, i, m: written(mx, x, i),
    "put_along_axis": lambda mx, x, i, m: mx.put_along_axis(
        x, mx.broadcast_to(i[:1, None, None], (1, 4, 8)), x[2:3], 0
    ),
    "as_strided": lambda mx, x, i, m: mx.as_strided(x, (4, 8), (8, 1), 16),
    "diagonal": lambda mx, x, i, m: mx.diagonal(x, 0, 0, 1),
    "tril": lambda mx, x, i, m: mx.tril(x),
    "stop_gradient": lambda mx, x, i, m: mx.stop_gradient(x),
    "slice": lambda mx, x, i, m: mx.slice(x, i[1:2] + 1, (0,), (2, 4, 8)),
    "slice_update": lambda mx, x, i, m: mx.slice_update(x, x[:2], i[1:2] + 1, (0,)),
    "one row": lambda mx, x, i, m: x[i[0]],
    "vmap": lambda mx, x, i, m: mx.vmap(lambda a: a[::-1].T)(x),
    "compile": lambda mx, x, i, m: mx.compile(lambda a: a.transpose(0, 2, 1)[:, i])(x),
}


def words(dtype: str) -> np.ndarray:
    """Return random and special bits as unsigned integers."""
    bits = RNG.integers(0, 256, (4, 4, 8, SIZES[dtype]), dtype=np.uint8).view(f"u{SIZES[dtype]}")[..., 0]
    if dtype == "bool_":
        return bits & 1
    flat, special = bits.reshape(-1), np.array(2 * SPECIAL.get(dtype, []), bits.dtype)
    flat[RNG.permutation(flat.size)[: special.size]] = special
    return bits


def taken_for(mx: Any, a: Any, dtype: str) -> Any:
    return mx.view(a, getattr(mx, dtype), **({"stream": mx.cpu} if mx is real else {}))


def seen(mx: Any, dtype: str, bits: np.ndarray, cases: dict[str, Callable[..., Any]], views: list[str]) -> list[Any]:
    """Return the bits of each case, for each dtype, or the exception."""
    x = mx.array(bits).astype(mx.bool_) if dtype == "bool_" else taken_for(mx, mx.array(bits), dtype)
    i, m = mx.array(INDEX), mx.array(MASK)
    results: list[Any] = []
    with mx.stream(mx.cpu):
        for case in cases.values():
            y = case(mx, x, i, m)
            for other in views:
                try:
                    results.append(taken_for(mx, y, other))
                except ValueError as error:
                    results.append(error)
        mx.eval([a for a in results if isinstance(a, mx.array)])
        return [str(a) if isinstance(a, Exception) else plain(mx, a) for a in results]


def plain(mx: Any, a: Any) -> np.ndarray:
    """Return the data. A byte viewed as a bool is true if it is not 0; its other bits do not matter."""
    if a.dtype == mx.bfloat16:
        return np.array(a.view(mx.uint16))
    return np.array(a).view(np.uint8) != 0 if a.dtype == mx.bool_ else np.array(a)


def check(dtype: str, cases: dict[str, Callable[..., Any]], views: list[str], tier: Any) -> None:
    bits = words(dtype)
    want = seen(real, dtype, bits, cases, views)
    with tier():
        got = seen(ours, dtype, bits, cases, views)
    labels = [(case, other) for case in cases for other in views]
    for label, w, g in zip(labels, want, got, strict=True):
        if isinstance(w, str):
            assert g == w, label
        else:
            assert (g.dtype, g.shape) == (w.dtype, w.shape), label
            assert g.tobytes() == w.tobytes(), label


TIERS = pytest.mark.parametrize("tier", [nullcontext, host_disabled], ids=["numpy", "xla"])
COMPILED = ("bool_", "uint8", "float16", "bfloat16", "float32", "int64", "complex64")
"""Dtypes that XLA compiles by default: each size and kind, since a cell is three seconds of processor time."""
CELLS = pytest.mark.parametrize(
    ("dtype", "tier"),
    [
        *(pytest.param(dtype, nullcontext, id=f"{dtype}-numpy") for dtype in SIZES),
        *(
            pytest.param(
                dtype, host_disabled, id=f"{dtype}-xla", marks=[] if dtype in COMPILED else pytest.mark.exhaustive
            )
            for dtype in SIZES
        ),
    ],
)


@CELLS
def test_view(dtype: str, tier: Any) -> None:
    check(dtype, ARRANGED, [*SIZES], tier)


@CELLS
def test_chains_of_views(dtype: str, tier: Any) -> None:
    """Compare chains of views to wider and narrower types, in one graph."""
    others = [d for d in SIZES if d != "bool_"]
    cases = {
        f"{wide}, {narrow}": lambda mx, x, i, m, a=wide, b=narrow: taken_for(mx, taken_for(mx, x[:, ::2], a), b)
        for wide in others
        for narrow in others
    }
    check(dtype, cases, ["uint8"], tier)


@TIERS
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_view_over_an_axis(axis: int, tier: Any) -> None:
    """Compare views to types of all sizes under `vmap`, for each mapped axis."""

    def run(mx: Any) -> list:
        x = mx.arange(512).reshape(8, 8, 8)
        over = [mx.vmap(lambda y, d=d: y.view(getattr(mx, d)), in_axes=axis) for d in SIZES if d != "bool_"]
        kinds = (mx.uint8, mx.int32, mx.complex64)
        return [np.array(f(x.astype(k)).view(mx.uint8)) for f in over for k in kinds]

    with tier():
        got = run(ours)
    for a, b in zip(got, run(real), strict=True):
        np.testing.assert_array_equal(a, b)


@CELLS
def test_moves(dtype: str, tier: Any) -> None:
    check(dtype, MOVED, [{1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}[SIZES[dtype]]], tier)


@TIERS
def test_gradients_of_moves_of_bfloat16(tier: Any) -> None:
    """Compare gradients in both modes, through indices, `vmap` and a second derivative."""

    def run(mx: Any) -> list[np.ndarray]:
        x = (mx.arange(4 * 4 * 8).reshape(4, 4, 8) / 64).astype(mx.bfloat16)
        i, m = mx.array(INDEX), mx.array(MASK)
        gradients = []
        for name in ("concatenate", "gather", "where", "pad", "write", "scatter", "roll", "tril", "split"):
            move = MOVED[name]

            def loss(x: Any, move: Any = move) -> Any:
                return (move(mx, x, i, m).astype(mx.float32) ** 2).sum()

            gradients.append(mx.grad(loss)(x))
            if mx is ours:  # real MLX has no forward mode for all of these
                along = (gradients[-1].astype(mx.float32) * x.astype(mx.float32)).sum().item()
                assert mx.jvp(loss, [x], [x])[1][0].item() == pytest.approx(along, rel=2e-2)
        rows = mx.grad(lambda x: (mx.vmap(lambda a: a[::-1][i])(x).astype(mx.float32) ** 3).sum())
        gradients += [rows(x), mx.grad(lambda x: rows(x).astype(mx.float32).sum())(x)]
        return [np.array(a.astype(mx.float32)) for a in gradients]

    want = run(real)
    with tier():
        got = run(ours)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1.6e-2, atol=1.6e-2)
