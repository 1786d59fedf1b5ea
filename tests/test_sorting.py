"""Sorting and searching: axes, edge cases and errors, against real MLX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.expressions import cases, check_derivatives, evaluate
from tests.oracle import check, ours

SORTING = """
mx.argpartition(A([3,1,2,0]),-5)
mx.argpartition(A([3,1,2,0]),5)
mx.argpartition(A([[3,1],[2,0]]),1,None)
mx.argsort(A([]))
mx.argsort(A([nan,1,-inf,inf,-0.,0.]))
mx.argsort(A([1,1,0,0]))
mx.argsort(A([[3,1],[2,0]]),None)
mx.argsort(A(3))
mx.argsort(A([[3,1],[2,0]]),-3)
mx.argsort(A([1.,2,-1],dtype=mx.float16))
mx.partition(A([3,1,2,0]),4)
mx.partition(A([3,1,2,0]),-5)
mx.partition(A([[3,1],[2,0]]),1,None)
mx.partition(A([[3,1],[2,0]]),1,0)
mx.partition(A([[3,1],[2,0]]),1,2)
mx.partition(A(3),0)
mx.partition(A([[3,1]]),0.5)
mx.searchsorted(A([1,3,5]),A([0,1,2,6]))
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),side='right')
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),'right')
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),side='foo')
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),side='middle')
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),side='')
mx.searchsorted(A([1,3,5]),A([0,1,2,6]),side=None)
mx.searchsorted(A([1,3,5]),3)
mx.searchsorted(A([1,3,5]),A(2.5))
mx.searchsorted(A([[1,3,5],[2,4,6]]),A([[3],[3]]))
mx.searchsorted(A([[1,3,5],[2,4,6]]),A([3,4]))
mx.searchsorted(A([[1,3,5],[2,4,6]]),A([[3,4]]))
mx.searchsorted(A(3),A([3,4]))
mx.searchsorted(A([]),A([3,4]))
mx.searchsorted(A([1,3,nan]),A([nan,2]))
mx.searchsorted(A([1+1j,3]),A([2j,2]))
mx.searchsorted(A([1,3,5]),A([[0,1],[2,6]]))
mx.searchsorted(A([True,False]),A([1]))
mx.searchsorted(A([1.,2,4],dtype=mx.bfloat16),A([2,3]))
mx.sort(A([]))
mx.sort(A([3,1,2]))
mx.sort(A([[3,1],[2,0]]),None)
mx.sort(A([[3,1],[2,0]]),0)
mx.sort(A([[3,1],[2,0]]),2)
mx.sort(A(3))
mx.sort(A(3),None)
mx.sort(A([nan,1,-inf,inf,-0.,0.]))
mx.sort(A([nan,1,-nan,inf],dtype=mx.float16))
mx.sort(A([2+1j,1+2j,1+1j]))
mx.sort(A([complex(nan,1),1,complex(1,nan)]))
mx.sort(A([True,False]))
mx.sort(A([[3,1]]),axis=1.5)
mx.sort(A([3,1]),axis=-2)
mx.sort(A([1.,2,-1],dtype=mx.bfloat16))
mx.topk(A([[3,1],[2,0]]),5,None)
mx.topk(A([3,1,2,0]),2)
mx.topk(A([3,1,2,0]),0)
mx.topk(A([3,1,2,0]),4)
mx.topk(A([3,1,2,0]),5)
mx.topk(A([3,1,2,0]),-1)
mx.topk(A([[3,1],[2,0]]),1,None)
mx.topk(A([[3,1],[2,0]]),1,axis=0)
mx.topk(A([[3,1],[2,0]]),1,axis=2)
mx.topk(A(3),1)
mx.topk(A([3,nan,2,0]),2)
mx.topk(A([1,2,3]),2,None)
mx.topk(A([3+1j,2,5]),2)
mx.topk(A([True,False]),1)
mx.topk(A([[3,1,2],[6,5,7]]),2,-1)
mx.topk(A([1,2]),1.5)
mx.topk(A([1.,2,-1],dtype=mx.bfloat16),2)
mx.topk(A([1.,2,-1],dtype=mx.float64),2)
mx.topk(A([1,2,200],dtype=mx.uint8),2)
mx.topk(A([1,2,2**60],dtype=mx.int64),2)
mx.unique(A([3,1,1,2]),size=3)
mx.unique(A([3,1,1,2]),3)
mx.unique(A([3,1,1,2]),size=5)
mx.unique(A([3,1,1,2]),size=2)
mx.unique(A([3,1,1,2]),size=5,fill_value=-1)
mx.unique(A([3,1,1,2]),size=5,fill_value=A(7))
mx.unique(A([3,1,1,2]),size=5,fill_value=1.5)
mx.unique(A([3,1,1,2]),5,True,True,True)
mx.unique(A([3,1,1,2]),3,True,True,True)
mx.unique(A([3,1,1,2]),2,True,True,True)
mx.unique(A([[3,1],[1,2]]),3,True,True,True)
mx.unique(A([nan,1,nan]),3,True,True,True)
mx.unique(A([]),0)
mx.unique(A([]),2,True,True,True)
mx.unique(A([1,2]),0,True,True,True)
mx.unique(A([1,2]),-1)
mx.unique(A(3),1,True,True,True)
mx.unique(A([1j,1j,2]),2)
mx.unique(A([True,False,True]),2)
mx.unique(A([1,2]))
mx.unique(A([3,1,1,2]),5,return_counts=True)
mx.unique(A([]),2,True,True,True,fill_value=3)
mx.unique(A([3,1,1,2]),5,True,True,True,fill_value=9)
mx.unique(A([3,1,1,2]),5,True,True,True,fill_value=A([9,8]))
mx.unique(A([3,1,1,2]),5,True,True,True,fill_value=A([9]))
mx.unique(A([3.,1,1,2]),5,fill_value=9)
mx.unique(A([3,1,1,2]),1,True,True,True)
mx.unique(A([0.,-0.]),2)
mx.unique(mx.zeros((0,3)),0,True,True,True)
mx.unique(A([1.,2,1],dtype=mx.bfloat16),2)
"""

GRADIENTS = """
mx.sort(x,-1)
mx.sort(x,0)
mx.sort(x,None)
mx.topk(x,2)
mx.topk(x,1,axis=0)
mx.partition(x,1)
mx.take_along_axis(x,mx.stop_gradient(mx.argsort(x,-1)),-1)
"""


@pytest.mark.parametrize("expression", cases(GRADIENTS))
def test_derivatives(expression: str) -> None:
    ties = np.array([[1, 2, 2], [0, 0, 3]], np.float32)
    check_derivatives(expression, ties)


def test_partition_puts_the_kth_in_its_place() -> None:
    x = np.array([[5, 1, 4, 2, 3, 0]], np.int32)
    for kth in (0, 2, -1):
        out = np.array(ours.partition(ours.array(x), kth))[0]
        index = np.array(ours.argpartition(ours.array(x), kth))[0]
        assert out[kth] == x[0, index[kth]] == np.sort(x[0])[kth]
        assert sorted(out.tolist()) == sorted(x[0, index].tolist()) == [0, 1, 2, 3, 4, 5]
        assert max(out[: kth % 6], default=-1) <= out[kth] <= min(out[kth % 6 :])


def test_vmap() -> None:
    x = ours.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    mapped = ours.vmap(lambda row: (ours.sort(row), ours.argsort(row), ours.topk(row, 2)))(x)
    rows = [ours.sort(x, -1), ours.argsort(x, -1), ours.topk(x, 2, axis=-1)]
    ours.eval(mapped, rows)
    for got, want in zip(mapped, rows, strict=True):
        assert got.tolist() == want.tolist()


def test_unique_is_lazy_and_can_be_compiled() -> None:
    results = ours.compile(lambda x: ours.unique(x, size=3, return_counts=True))(ours.array([2, 1, 2, 3]))
    assert [x.tolist() for x in results] == [[1, 2, 3], [1, 2, 1]]


@pytest.mark.parametrize("expression", cases(SORTING))
def test_sorting(expression: str) -> None:
    check(evaluate(expression))


DTYPES = (
    "float32", "float16", "bfloat16", "int8", "int32", "uint16", "uint32", "int64", "uint64", "bool_", "complex64",
)  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_are_stable(dtype: str, axis: int | None) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-40, 40, (60, 50)).astype(np.float32)
    if dtype.startswith(("f", "bf", "c")):
        values[rng.random((60, 50)) < 0.1] = np.nan
        values[rng.random((60, 50)) < 0.1] *= -0.0
        values[rng.random((60, 50)) < 0.05] = -np.inf
    elif dtype.startswith("u"):
        values = np.abs(values)

    def case(mx, values):
        x = mx.array(values).astype(getattr(mx, dtype))
        if dtype == "uint32":
            x = x * 100_000_000  # some values need all bits
        return mx.sort(x, axis=axis), mx.argsort(x, axis=axis)

    check(case, values)


SELECTED = [
    (7, 5000, 0),
    (7, 5000, 3),
    (4990, 5000, 3),
    (-1, 5000, 0),
    (250, 5000, 2),
    (0, 5000, 5000),
    (4700, 5000, 9),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("kth", "n", "special"), SELECTED)
def test_partitions_of_long_rows(kth: int, n: int, special: int, dtype: str) -> None:
    """Compare partitions of long rows, which sort only a few elements."""
    rng = np.random.default_rng(special)
    values = rng.integers(-300, 300, (2, n)).astype(np.float32)
    values[:, rng.choice(n, special, replace=False)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], special)
    for axis in (-1, 0):
        x = ours.array(values if axis else values.T).astype(getattr(ours, dtype))
        order = np.array(ours.argpartition(x, kth, axis=axis))
        moved = np.array(ours.partition(x, kth, axis=axis).astype(ours.float32))
        rows, places, out = (np.moveaxis(np.array(a), axis, -1) for a in (x.astype(ours.float32), order, moved))
        for row, place, got in zip(rows, places, out, strict=True):
            assert np.array_equal(np.sort(place), np.arange(n))
            assert np.array_equal(row[place], got, equal_nan=True)
            edge = kth % n
            assert np.array_equal(got[edge], np.sort(row)[edge], equal_nan=True)
            assert np.array_equal(np.sort(got[:edge]), np.sort(row)[:edge], equal_nan=True)


def test_derivatives_of_partitions_of_long_rows() -> None:
    x = ours.array(np.random.default_rng(0).permutation(5000).astype(np.float32))
    weights = ours.arange(5000.0)
    gradient = ours.grad(lambda x: (ours.partition(x, 4) * weights).sum())(x)
    assert gradient.tolist() == ours.zeros(5000).at[ours.argpartition(x, 4)].add(weights).tolist()
    rows = ours.stack([x, -x])
    mapped = ours.vmap(lambda row: ours.argpartition(row, 4, axis=-1))(rows)
    assert ours.array_equal(mapped, ours.argpartition(rows, 4, axis=-1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_extremes_of_long_rows(name: str, dtype: str) -> None:
    """Compare extremes of long rows, which take two passes."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 50, (3, 4100)).astype(np.float32)
    rows = [values, values.T.copy(), -values]
    if dtype.startswith(("f", "bf", "c")):
        rows.append(np.where(rng.random(values.shape) < [[0.001], [0], [0.0005]], np.nan, values).astype(np.float32))

    def case(mx, x):
        x = mx.array(x).astype(getattr(mx, dtype))
        find = getattr(mx, name)
        return find(x), find(x, axis=0), find(x, axis=1, keepdims=True)

    for x in rows:
        check(case, x)
    x = ours.array(values)
    find = getattr(ours, name)
    assert ours.vmap(find)(x).tolist() == find(x, axis=1).tolist()
    rounded = x * 0.1 + 0.3  # XLA may compute it twice, differently
    assert find(rounded * rounded + rounded, axis=1).tolist() == getattr(values, name)(axis=1).tolist()
