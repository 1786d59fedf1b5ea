"""Indexed reads and writes in NumPy, compared with XLA: duplicates and indices out of bounds included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, HOST, LOWERING, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import DTYPES, check, data

S = np.s_


def ints(*values: Any, dtype: str = "int32") -> np.ndarray:
    return np.array(values, dtype)


NUMBERS = [
    S[0], S[-1], S[1, 2], S[1, 2, 0], S[..., 1], S[:, -2], S[1:3], S[::2], S[::-1], S[3:0:-2], S[:2, 1:, ::-1], S[2:2],
    S[None], S[None, 1, :, None], S[1:2, None, ..., 0], S[:, 4:1:-3, 1], S[-3:], S[..., None],
]  # fmt: skip


@pytest.mark.parametrize("start", range(0, len(NUMBERS), 6))
def test_reads_numbers(start: int) -> None:
    check(lambda mx, x: [x[index] for index in NUMBERS[start : start + 6]], data((4, 5, 3), "float32"))


ARRAYS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "first": (lambda x, i: S[i], [ints(1, 0, 3, 1)]),
    "negative": (lambda x, i: S[i], [ints(-1, 2, -4)]),
    "beyond": (lambda x, i: S[i], [ints(-1, 7, -9, 2)]),
    "wide": (lambda x, i: S[i], [ints(-1, 7, 2**32 + 1, -(2**40), dtype="int64")]),
    "unsigned": (lambda x, i: S[i], [ints(2, 0, 2**31 + 5, dtype="uint32")]),
    "unsigned_wide": (lambda x, i: S[i], [ints(2, 2**32 + 1, 1, dtype="uint64")]),
    "small": (lambda x, i: S[:, i], [ints(-1, 4, 2, 2, dtype="int8")]),
    "matrix": (lambda x, i: S[:, i], [ints([3, 1], [1, 0], [4, 3])]),
    "last": (lambda x, i: S[..., i], [ints(2, 0)]),
    "none": (lambda x, i: S[i], [np.zeros((0,), np.int32)]),
    "zero_dim": (lambda x, i: S[i], [np.array(-2, np.int32)]),
    "zero_dim_beyond": (lambda x, i: S[1, i, 1:], [np.array(9, np.int32)]),
    "zero_dims": (lambda x, i, j: S[i, :, j], [np.array(-2, np.int32), np.array(1, np.uint8)]),
    "pair": (lambda x, i, j: S[i, j], [ints(1, 0, 1), ints(2, -1, 2)]),
    "outer": (lambda x, i, j: S[i, j], [ints([1], [0]), ints(2, -1, 2)]),
    "outer_beyond": (lambda x, i, j: S[i, j], [ints([1], [8], [-9]), ints(2, -7, 2)]),
    "apart": (lambda x, i, j: S[i, :, j], [ints(1, 0, 1), ints(2, -1, 2)]),
    "apart_beyond": (lambda x, i, j: S[i, 1:4, j], [ints(1, 5, 1), ints(2, -1, -8)]),
    "new_axis_between": (lambda x, i, j: S[:, i, None, j], [ints(1, 0, 1), ints(2, -1, 2)]),
    "new_axes": (lambda x, i: S[None, :, i, None], [ints(1, 0, 1)]),
    "beside_an_int": (lambda x, i: S[i, 2], [ints(1, 0, 1)]),
    "apart_from_an_int": (lambda x, i: S[1, ..., i], [ints(1, 0, 1)]),
    "int_between": (lambda x, i, j: S[i, 2, j], [ints(1, 0, 1), ints(2, 2, 2)]),
    "beside_slices": (lambda x, i: S[1:3, i, ::-1], [ints([1, 0, 1])]),
    "three": (lambda x, i, j, k: S[i, j, k], [ints(1, 3, 1), ints([0], [4]), np.array(1, np.int32)]),
}
"""Subscripts for an array of shape (4, 5, 3) and arrays of indices."""


@pytest.mark.parametrize("name", ARRAYS)
def test_reads_arrays(name: str) -> None:
    index, arrays = ARRAYS[name]
    check(lambda mx, x, *i: x[index(x, *i)], data((4, 5, 3), "float32"), *arrays)


@pytest.mark.parametrize("name", ["beyond", "outer", "apart", "beside_an_int"])
@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "uint8", "bool"])
def test_reads_dtypes(name: str, dtype: str) -> None:
    index, arrays = ARRAYS[name]
    check(lambda mx, x, *i: x[index(x, *i)], data((4, 5, 3), dtype), *arrays, jvp=False, batch=False)


def test_reads_of_rows_longer_than_what_is_summed_element_by_element() -> None:
    check(lambda mx, x, i: x[i], data((4, 300), "float32"), ints(1, 3, 1, 1, -1), batch=False)
    check(lambda mx, x, i: x[:, i], data((300, 4), "float32"), ints(1, 3, 1, 1, 9), batch=False)


def test_take() -> None:
    x = data((4, 5, 3), "float32")

    def call(mx: Any, x: Any, i: Any) -> list:
        return [mx.take(y, i, axis) for y, axis in ((x, None), (x, 1), (x, -1), (x[0, 0], 0))] + [mx.take(x, 3)]

    check(call, x, ints([1, -2], [0, 60]))
    check(call, x.transpose(2, 0, 1), ints([1, -2], [0, 60]), batch=False)


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((4, 5), ints([1, 0, -1, 4, 1], [0, 0, 0, 2, -9]), 0),
        ((4, 5), ints([1], [0], [-1], [9]), 1),
        ((4, 5), ints([1, 3, 3, -2]), -1),
        ((4, 1, 3), np.zeros((1, 5, 3), np.uint8), 0),
        ((4, 5), ints(1, 19, -3, 40), None),
        ((4, 5), np.zeros((4, 0), np.int64), 1),
    ],
)
def test_take_along_axis(shape: tuple[int, ...], indices: np.ndarray, axis: int | None) -> None:
    check(lambda mx, x, i: mx.take_along_axis(x, i, axis), data(shape, "float32"), indices)


@pytest.mark.parametrize(
    ("starts", "axes", "size"),
    [([1, 2], (0, -1), (2, 5, 1)), ([9], (1,), (4, 3, 3)), ([-2], (1,), (1, 2, 3)), ([-9, 1], (2, 0), (1, 1, 1))],
)
def test_dynamic_slices(starts: list[int], axes: tuple[int, ...], size: tuple[int, ...]) -> None:
    def call(mx: Any, x: Any, u: Any) -> list:
        at = mx.array(starts)
        return [mx.slice(x, at, axes, size), mx.slice_update(x, u, at, axes), mx.slice_update(x, u[0, :1], at, axes)]

    check(call, data((4, 5, 3), "float32"), data(size, "float32", 3))
    check(call, data((4, 5, 3), "int8"), data(size, "float32", 3), batch=False)


def assigned(mx: Any, x: Any, index: Any, value: Any, mode: str) -> Any:
    if mode != "set":
        return getattr(x.at[index], mode)(value)
    x[index] = value
    return x


MODES = ["set", "add", "subtract", "multiply", "divide", "maximum", "minimum"]

WRITES: list[tuple[Any, tuple[int, ...]]] = [
    (S[1], (5, 3)), (S[1], ()), (S[-1, 2], (3,)), (S[1, 2, 0], ()), (S[..., 1], (4, 5)),
    (S[1:3], (2, 5, 3)), (S[1:3], (5, 1)), (S[::2], (3,)), (S[::-1], (4, 1, 3)), (S[3:0:-2, ::3], (2, 2, 3)),
    (S[2:2], (3,)), (S[1:3, None, 0, ::-1], (2, 1, 3)), (S[:, 1], (4, 3)), (S[None, 1, :, None], (5, 1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["set", "multiply", "maximum"])
def test_writes_numbers(mode: str) -> None:
    """Compare writes of values with ties, where extremes share their gradient."""
    x = data((4, 5, 3), "float32")

    def call(mx: Any, x: Any, v: Any) -> list:
        values = [mx.reshape(v[: int(np.prod(shape))], shape) for _, shape in WRITES]
        return [assigned(mx, mx.reshape(x, (4, 5, 3)), i, v, mode) for (i, _), v in zip(WRITES, values, strict=True)]

    check(call, x, x.reshape(-1).copy(), jvp=mode != "set", batch=mode == "set")


def picked(index: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[int, ...]:
    """Return the shape of a value to write at an index. Ints beside index arrays do not count as axes."""
    whole = np.empty((4, 5, 3))
    items = index(whole, *[np.zeros(i.shape, int) for i in arrays])
    if not isinstance(items, tuple):
        items = (items,)
    if any(i.ndim for i in arrays):
        sizes = iter([n for n, e in zip(whole.shape, _spelled(items), strict=False) if not isinstance(e, int)])
        items = tuple([e for e in _spelled(items) if not isinstance(e, int)])
        whole = np.empty([next(sizes) for e in items if e is not None] + [*sizes])
    return whole[items].shape


def _spelled(items: tuple) -> tuple:
    if not any(e is Ellipsis for e in items):
        return items + (S[:],) * (3 - sum(e is not None for e in items))
    k = next(k for k, e in enumerate(items) if e is Ellipsis)
    free = 3 - sum(e is not None for e in items) + 1
    return (*items[:k], *[S[:]] * free, *items[k + 1 :])


@pytest.mark.parametrize("name", ARRAYS)
def test_writes_arrays(name: str) -> None:
    index, arrays = ARRAYS[name]
    values = data(picked(index, arrays), "float32", 3)
    check(
        lambda mx, x, v, *i: assigned(mx, x, index(x, *i), v, "set"), data((4, 5, 3), "float32"), values, *arrays,
        jvp=name in ("first", "beyond"),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("name", ["first", "zero_dim", "outer_beyond", "apart", "int_between"])
def test_updates_arrays(name: str, mode: str) -> None:
    """Compare updates with ties, and with factors of zero."""
    index, arrays = ARRAYS[name]
    x = data((4, 5, 3), "int32").astype(np.float32) % 3
    values = data(picked(index, arrays), "int32", 3).astype(np.float32) % 3
    check(lambda mx, x, v, *i: assigned(mx, x, index(x, *i), v, mode), x, values, *arrays, batch=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_dtypes(dtype: str) -> None:
    """Compare updates with duplicate indices, and a value of another dtype, which is cast."""
    update_dtype = "float32" if dtype in ("uint8", "int64", "bfloat16", "bool") else dtype
    modes = MODES if dtype in ("int8", "float32") else ["set", "add", "multiply", "maximum"]

    def call(mx: Any, x: Any, v: Any, i: Any) -> list:
        out = [assigned(mx, mx.reshape(x, (4, 3)), i, v, m) for m in modes]
        return [*out, assigned(mx, mx.reshape(x, (4, 3)), S[1:, 1], v[:3, 0], "add")]

    check(
        call, data((4, 3), dtype), data((5, 3), update_dtype, 1, 0.5, 2), ints(1, 0, 1, 9, -1), jvp=False, batch=False,
        grad=dtype in ("bfloat16", "complex64"), tolerance=2.5e-2 if dtype == "bfloat16" else None,
    )  # fmt: skip  # XLA rounds at each of the duplicates


def test_the_last_of_duplicates_wins_however_they_lie_in_memory() -> None:
    x = data((4, 5), "float32")
    i, j, v = (np.random.default_rng(0).integers(0, n, (3, 7)) for n in (2, 3, 100))
    values = v.astype(np.float32)
    for turn in (lambda a: a, lambda a: a[::-1, ::-1], lambda a: np.asfortranarray(a)):
        check(
            lambda mx, x, v, i, j: assigned(mx, x, (i, j), v, "set"), x, turn(values), turn(i), turn(j),
            grad=False, jvp=False, batch=False,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (ints([1, 0, 1], [0, 1, 1], dtype="bool"), ()),
        (ints([1, 0, 1], [0, 1, 1], dtype="bool"), (6, 4)),
        (ints([1, 0, 1], [0, 1, 1], dtype="bool"), (6, 1)),
        (ints(0, 1, dtype="bool"), (2, 3, 4)),
        (ints(0, 1, dtype="bool"), (3, 1)),
        (ints(0, 0, dtype="bool"), (2, 3, 4)),
        (np.array(True), (3, 4)),
    ],
)
def test_masks(mask: np.ndarray, value: tuple[int, ...]) -> None:
    def call(mx: Any, x: Any, v: Any) -> Any:
        x[mx.array(mask)] = v
        return x

    check(call, data((2, 3, 4), "float32"), data(value, "float32", 3))


def test_masks_cast_the_value() -> None:
    def call(mx: Any, x: Any, v: Any, mask: Any) -> Any:
        x[mask] = v
        return x

    check(call, data((2, 3, 4), "uint8"), data((), "bfloat16", 3), data((2, 3, 4), "bool"), batch=False)


@pytest.mark.parametrize(
    ("shape", "indices", "values", "axis"),
    [
        ((4, 5), ints([1, 0, -1, 3, 1], [1, 0, 0, 2, -9]), (2, 5), 0),
        ((4, 5), ints([1], [0], [-1], [9]), (4, 1), 1),
        ((4, 5), ints([1, 3, 3, -2]), (4, 4), -1),
        ((4, 5), ints([1, 3, 3, -2]), (), -1),
        ((4, 5), ints([2]), (4, 3), -1),
        ((4, 5), ints(1, 19, 1, 40), (4,), None),
        ((4, 5), np.zeros((4, 0), np.int64), (4, 0), 1),
    ],
)
def test_put_along_axis(shape: tuple[int, ...], indices: np.ndarray, values: tuple[int, ...], axis: int | None) -> None:
    check(
        lambda mx, x, v, i: mx.put_along_axis(x, i, v, axis), data(shape, "float32"), data(values, "float32", 3),
        indices,
    )  # fmt: skip


@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((1, 1, 3), "float32"), ((2, 3), "bfloat16")])
def test_fills(shape: tuple[int, ...], dtype: str) -> None:
    def call(mx: Any, x: Any, v: Any) -> list:
        return [assigned(mx, mx.reshape(x, (2, 3)), i, v, "set") for i in (S[:], S[...], S[:, :])]

    check(call, data((2, 3), "float32"), data(shape, dtype, 3))
    check(call, data((2, 3), "uint8"), data(shape, dtype, 3), batch=False)


def test_empty() -> None:
    def call(mx: Any, x: Any, i: Any) -> list:
        return [x[:, i], x[i[:0]], x[1:, 0:2]]

    check(call, data((0, 3), "float32"), ints(0, 1), batch=False)


def test_every_op_has_its_rules() -> None:
    family = [op for op in TABLE.values() if LOWERING[op].__module__.startswith("mxcompat._ops.indexing")]
    assert len(family) == 13
    for rules in (HOST, PULLBACK, PUSHFORWARD, BATCH):
        assert {op.name for op in family if op not in rules} == set()
