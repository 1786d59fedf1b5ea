"""Errors of quantization and of products with quantized matrices, with real MLX's messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle import check, ours
from tests.test_quantized import CODED, MODES, SMALL, STACK, X3, L, R, X


def _q(mx: Any, w: Any, mode: str = "affine") -> Any:
    return mx.quantize(w, mode=mode)


QUANTIZE_ERRORS = [
    *[{"mode": m, "bits": b} for m in CODED for b in (3, 4 if m == "mxfp8" else 8)],
    *[{"mode": m, "group_size": g} for m in CODED for g in (64, 48)],
    *[{"bits": b} for b in (0, 7, 9, 16, -1)],
    *[{"group_size": g} for g in (-1, 8, 16, 256)],
    {"mode": "foo"}, {"mode": "foo", "bits": 7},
]  # fmt: skip


@pytest.mark.parametrize("options", QUANTIZE_ERRORS, ids=str)
def test_quantize_errors(options: dict[str, Any]) -> None:
    check(lambda mx, w: mx.quantize(w, **options), SMALL)


@pytest.mark.parametrize("mode", MODES)
def test_quantize_bad_arrays(mode: str) -> None:
    check(lambda mx, w: mx.quantize(w[0], mode=mode), SMALL)
    check(lambda mx, w: mx.quantize(w[:, :100], mode=mode), SMALL)
    check(lambda mx, w: mx.quantize(np.ones((4, 64)), mode=mode), SMALL)
    for dtype in ("int32", "bool_", "complex64"):
        check(lambda mx, w: mx.quantize(w.astype(getattr(mx, dtype)), mode=mode), SMALL)  # noqa: B023
    if mode == "affine":
        check(lambda mx, w: mx.quantize(w.astype(mx.float64), mode=mode), SMALL)
    for scale in (np.ones(2, np.float32), np.float16(1)):
        check(lambda mx, w: mx.quantize(w, mode=mode, global_scale=mx.array(np.asarray(scale))) and None, SMALL)  # noqa: B023


def _wrong(mx: Any, fn: Any, q: list, mode: str) -> list:
    """Return wrong calls of a function with quantized arrays."""
    w, s, *b = q
    return [
        lambda: fn(w.astype(mx.int32), s, *b, mode=mode),
        lambda: fn(w, s.astype(mx.int32), *[a.astype(mx.int32) for a in b], mode=mode),
        lambda: fn(w, s.astype(mx.float16), *[a.astype(mx.int32) for a in b], mode=mode),
        lambda: fn(w, s, mode=mode),
        lambda: fn(w, s, s, mode=mode),
        lambda: fn(w, s, *b, mode=mode, bits=3),
        lambda: fn(w, s, *b, mode=mode, bits=7),
        lambda: fn(w, s, *b, mode=mode, group_size=31),
        lambda: fn(w, s, *b, mode=mode, group_size=128),
        lambda: fn(w, s[:, :1], *[a[:, :1] for a in b], mode=mode),
        lambda: fn(w[None], s, *b, mode=mode),
        lambda: fn(w, s, *b, mode="foo"),
        lambda: fn(w.astype(mx.int32), s, *b, mode="foo"),
        lambda: fn(np.ones((2, 3)), s, *b, mode=mode),
    ]


@pytest.mark.parametrize("case", range(14))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["dequantize", "quantized_matmul", "gather_qmm"])
def test_wrong_arrays(name: str, mode: str, case: int) -> None:
    def both(mx: Any, w: Any, x: Any) -> Any:
        def fn(*args: Any, **options: Any) -> Any:
            if name == "dequantize":
                return mx.dequantize(*args, **options)
            if name == "quantized_matmul":
                return mx.quantized_matmul(x, *args, **options)
            return mx.gather_qmm(x, *args, rhs_indices=mx.array([0, 0]), **options)

        return _wrong(mx, fn, mx.quantize(w, mode=mode), mode)[case]() and None

    check(both, SMALL, X)


@pytest.mark.parametrize("mode", MODES)
def test_dequantize_errors(mode: str) -> None:
    check(lambda mx, w: mx.dequantize(*_q(mx, w, mode), mode=mode, dtype=mx.int32), SMALL)
    for wrong in ({"bits": 3}, {"group_size": 48}, {"bits": 0}):  # the error names the dtype first
        check(lambda mx, w, o: mx.dequantize(*_q(mx, w, mode), mode=mode, dtype=mx.complex64, **o), SMALL, wrong)
    scaled = lambda mx, w, one: mx.dequantize(*_q(mx, w, mode), mode=mode, dtype=mx.int32, global_scale=one)  # noqa: E731
    check(scaled, SMALL, np.array([1, 2]))
    check(lambda mx, w: mx.dequantize(*[a[0] for a in _q(mx, w, mode)], mode=mode), SMALL)
    check(lambda mx, w: mx.dequantize(*_q(mx, w, mode), mode=mode, global_scale=mx.array([1.0, 2.0])), SMALL)
    check(lambda mx, w: mx.dequantize(*_q(mx, w, mode), mode=mode, global_scale=mx.array(1)), SMALL)
    q = ours.quantize(ours.array(SMALL), mode=mode)
    with pytest.raises(ValueError, match=r"Invalid value for bits: 0|requires bits"):  # real MLX kills the process
        ours.dequantize(*q, mode=mode, bits=0)
    with pytest.raises(ValueError, match=r"Invalid value for group_size: 0|requires group size"):
        ours.dequantize(*q, mode=mode, group_size=0)


@pytest.mark.parametrize("mode", MODES)
def test_product_errors(mode: str) -> None:
    for change in (
        lambda x: x[:, :64], lambda x: x.astype("complex64"), lambda x: x[0, 0], lambda x: x.astype("float64"),
        lambda x: x.astype("int32"),
    ):  # fmt: skip
        for options in ({}, {"transpose": False}):

            def both(mx: Any, x: Any, w: Any) -> Any:
                x = change(_Named(mx, x))  # noqa: B023
                x = x.x if isinstance(x, _Named) else x
                return mx.quantized_matmul(x, *_q(mx, w, mode), mode=mode, **options)  # noqa: B023

            if mode == "affine" or not options:
                check(both, X, SMALL, tol=1e-2)  # products are large for an int32 x


class _Named:
    """An array with an `astype` that takes names."""

    def __init__(self, mx: Any, x: Any) -> None:
        self.mx, self.x = mx, x

    def __getitem__(self, key: Any) -> Any:
        return self.x[key]

    def astype(self, name: str) -> Any:
        return self.x.astype(getattr(self.mx, name))


@pytest.mark.parametrize("mode", MODES)
def test_gather_errors(mode: str) -> None:
    def call(**changes: Any) -> Any:
        def both(mx: Any, x: Any, w: Any) -> Any:
            options = {k: mx.array(v) for k, v in {"lhs_indices": L, "rhs_indices": R, **changes}.items()}
            return mx.gather_qmm(x, *_q(mx, w, mode), mode=mode, **options) and None

        return both

    for changes in (
        {"rhs_indices": R.astype(np.float32)}, {"lhs_indices": L.astype(bool)}, {"rhs_indices": R[:2]},
        {"lhs_indices": L.astype(np.float32)},
    ):  # fmt: skip
        check(call(**changes), X3, STACK)
    check(lambda mx, x, w: mx.gather_qmm(x[0, 0], *_q(mx, w, mode), mode=mode, rhs_indices=mx.array(R)), X3, STACK)
    check(lambda mx, x, w: mx.gather_qmm(x, *_q(mx, w, mode), mode=mode), X3, STACK)
    half = np.ones(4, np.float16)
    check(call(global_scale=half), X3, STACK)
    if mode == "nvfp4":
        check(call(global_scale=np.float32(1)), X3, STACK)


@pytest.mark.parametrize("mode", MODES)
def test_qqmm_errors(mode: str) -> None:
    def q(mx: Any, w: Any) -> Any:
        return mx.quantize(w, mode=mode)[:2]

    for wrong in (
        lambda mx, x, w: mx.qqmm(x, q(mx, w)[0], mode=mode),
        lambda mx, x, w: mx.qqmm(x.astype(mx.int32), w, mode=mode),
        lambda mx, x, w: mx.qqmm(x.astype(mx.float64), w, mode=mode),
        lambda mx, x, w: mx.qqmm(x, w.astype(mx.int32), mode=mode),
        lambda mx, x, w: mx.qqmm(x[None], w[None], mode=mode),
        lambda mx, x, w: mx.qqmm(x[:, :64], w, mode=mode),
        lambda mx, x, w: mx.qqmm(x, w[0], mode=mode),
        lambda mx, x, w: mx.qqmm(x, w, mode="foo"),
        lambda mx, x, w: mx.qqmm(x, w, mode=mode, global_scale_x=mx.array(1.0)),
        lambda mx, x, w: mx.qqmm(x, w, mode=mode, global_scale_w=mx.array(1)),
        lambda mx, x, w: mx.gather_qqmm(x[None], w[None], lhs_indices=mx.array([0.5]), mode=mode),
        lambda mx, x, w: mx.gather_qqmm(x[None], w[None], rhs_indices=mx.array([0]), mode="foo"),
    ):
        check(wrong, X, SMALL)
    if mode != "affine":
        check(lambda mx, x, w: mx.qqmm(x[:, :64], *q(mx, w), mode=mode), X, SMALL)
        check(lambda mx, x, w: mx.qqmm(x, *q(mx, w), mode=mode, group_size=128), X, SMALL)


@pytest.mark.parametrize("other", [(), (64,), (32, 64), (2, 32, 64)])
@pytest.mark.parametrize("shape", [(), (2,), (0,), (63,), (3, 63), (2, 64, 2), (2, 3, 63), (2, 0, 3), (1, 2, 3, 4, 5)])
def test_products_of_other_shapes(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Compare the messages: `qqmm` names its first input as a matrix, and the numbers of axes are checked first."""

    def product(mx: Any, *packed: Any, name: str = "qqmm", dtype: str = "float32", **options: Any) -> Any:
        return getattr(mx, name)(mx.ones(shape, getattr(mx, dtype)), *packed, **options)

    for name in ("qqmm", "gather_qqmm") if min(len(shape), len(other)) < 2 else ("qqmm",):
        check(lambda mx: product(mx, mx.ones(other), name=name))  # noqa: B023
        check(lambda mx: product(mx, mx.ones(other), name=name, dtype="int32"))  # noqa: B023
        check(lambda mx: product(mx, mx.ones(other), name=name, global_scale_x=mx.ones(2)))  # noqa: B023
        check(lambda mx: product(mx, mx.zeros(other, mx.uint32), name=name))  # noqa: B023
        check(lambda mx: product(mx, mx.zeros(other, mx.uint32), mx.ones(other), name=name, mode="affine"))  # noqa: B023
        if len(other) > 1:
            check(lambda mx: product(mx, *mx.quantize(mx.ones(other), mode="nvfp4"), name=name))  # noqa: B023


@pytest.mark.parametrize("dtype", ["int32", "uint8", "complex64", "bool_"])
def test_fp8_errors(dtype: str) -> None:
    check(lambda mx: mx.to_fp8(mx.ones(2).astype(getattr(mx, dtype))))
    check(lambda mx: mx.from_fp8(mx.array([1], dtype=mx.uint8), getattr(mx, dtype)))
    check(lambda mx: mx.from_fp8(mx.ones(2).astype(getattr(mx, dtype))).shape)
    check(lambda mx: mx.to_fp8(3.0))
    check(lambda mx: mx.from_fp8(mx.array([1], dtype=mx.uint8), None))


@pytest.mark.parametrize("mode", ["affine", "mxfp4", "nvfp4", "mxfp8"])
@pytest.mark.parametrize("which", ["words", "scales", "indices"])
def test_derivatives_with_respect_to_what_is_packed(mode: str, which: str) -> None:
    def fn(mx, transform, gather):
        w, *rest = mx.quantize(mx.arange(2 * 32 * 64.0).reshape(2, 32, 64), mode=mode)
        x, places, scales = mx.ones((1, 2, 64)), mx.array([0, 1], mx.uint32), rest.pop(0)

        def product(words, scales, indices):
            if not gather:
                return mx.quantized_matmul(x, words, scales, *rest, mode=mode)
            return mx.gather_qmm(x, words, scales, *rest, rhs_indices=indices, mode=mode)

        operands = {"words": w, "scales": scales, "indices": places}
        a = operands[which]

        def f(a):
            return product(**{**operands, which: a}).sum()

        return mx.grad(f)(a) if transform == "grad" else mx.jvp(f, [a], [mx.ones_like(a)])

    for transform in ("grad", "jvp"):
        for gather in (False, True):
            lacking = (transform, mode, which) == ("jvp", "affine", "scales")  # mxcompat supports this
            if not lacking and (gather or which != "indices"):
                check(fn, transform, gather, tol=1e-3)


def test_the_gradient_with_respect_to_words_that_are_unpacked_is_zero() -> None:
    check(lambda mx: (w := mx.quantize(mx.ones((32, 64)))) and mx.grad(lambda x: mx.dequantize(x, *w[1:]).sum())(w[0]))


@pytest.mark.parametrize("shape", [(0, 64), (2, 0), (0, 0), (3, 0, 64), (0, 2, 64), (2, 3, 0), (0, 48)])
@pytest.mark.parametrize("mode", MODES)
def test_nothing_to_quantize(mode: str, shape: tuple[int, ...]) -> None:
    check(lambda mx, w: mx.quantize(w, mode=mode), np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(0, 64), (2, 0), (0, 0), (3, 0, 64), (0, 2, 64), (2, 3, 0)])
@pytest.mark.parametrize("mode", MODES)
def test_nothing_to_dequantize(mode: str, shape: tuple[int, ...]) -> None:
    *lead, size = shape
    group_size, bits = {"affine": (64, 4), "mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}[mode]
    words = np.zeros((*lead, size * bits // 32), np.uint32)
    scales = np.zeros((*lead, size // group_size), np.float32 if mode == "affine" else np.uint8)
    parts = [words, scales, scales] if mode == "affine" else [words, scales]
    check(lambda mx, *parts: mx.dequantize(*parts, mode=mode), *parts)
    for dtype in ("float16", "int32"):
        check(lambda mx, *parts: mx.dequantize(*parts, mode=mode, dtype=getattr(mx, dtype)), *parts)  # noqa: B023
    one = np.float32(1)
    check(lambda mx, one, *parts: mx.dequantize(*parts, mode=mode, global_scale=one), np.asarray(one), *parts)
