"""Elementwise ops, comparisons, bitwise ops and casts: edge cases and errors, against real MLX."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from tests.expressions import cases, check_derivatives, evaluate, vjp
from tests.oracle import check, check_together, ours, real

ARITHMETIC = """
A([7,-7,0])//0
A([7,-7,0])%0
A([7,-7,0],dtype=mx.uint8)//0
A([7.,-7,0])//0
A([7.,-7,0])%0
A([7,-7,6,-6])%3
A([7,-7,6,-6])%-3
A([7,-7,6,-6])//-3
A([7,-7,6,-6])//3
A([7.5,-7.5,6,-6])%3
A([7.5,-7.5,6,-6])%-3
A([7.5,-7.5,6,-6])//-3.
A([True,False])//True
A([True,False])%True
A([True,False])-True
A([True,False])*True
A([True,False])/True
A([True,False])**True
A([True,False])**2
A([2,3])**-1
A([2,3,0,1,-1])**A([-1,-1,-1,-1,-3])
A([2,3])**2.5
A([2.,-3])**2.5
A([2.,-3])**3
A([2,3],dtype=mx.uint8)**9
A([1+2j])**2
A([1+2j,0,-1])**(1+1j)
A([1+2j])//2
A([1+2j])%2
A([1],dtype=mx.int64)/2
A([1],dtype=mx.uint64)/A([3],dtype=mx.int64)
A([2],dtype=mx.uint8)-3
A([200],dtype=mx.uint8)+100
A([1,2])+A([1,2,3])
-A([3],dtype=mx.uint8)
-A([True])
abs(A([-1,2]))
round(A([1.26,2.5]),1)
A([1.26,2.5]).round(1)
A([nan,inf,1])*A([True,False,False]).astype(mx.float32)
A([1+2j]).conj()
A([1+2j]).real
A([4.]).rsqrt()
A([1,2,3]).square()
A([4.]).reciprocal()
mx.abs(A([-128],dtype=mx.int8))
mx.abs(A([3+4j]))
mx.abs(-3)
mx.abs(True)
mx.abs(A([0j]))
mx.add([1,2],3)
mx.add(1,2)
mx.add(1,2.5)
mx.add(True,2)
mx.add(True,True)
mx.add(A(1),None)
mx.arctan2(1,2)
mx.arctan2(A([1],dtype=mx.int64),2)
mx.arctan2(A([1j]),2)
mx.clip(A([1,2,3]),None,None)
mx.clip(A([1,2,3]),1.5,None)
mx.clip(A([1,2,3]),None,2)
mx.clip(A([1,2,3]),2,1)
mx.clip(A([1.,nan,3]),2,2.5)
mx.clip(A([1.,2,3]),A([2,2,2]),A([[3.],[2]]))
mx.clip(A([1,2,3]),a_min=0,a_max=2)
mx.clip(A([1,2,3],dtype=mx.uint8),-1,2)
mx.clip(1.5,0,1)
mx.clip(A([1,2]),A(1.5),None)
mx.clip(A([nan,1]),nan,1)
mx.clip(A([1+1j]),0,None)
mx.clip(A([1,2]),A([1,2,3]),None)
mx.conj(A([1,2]))
mx.conj(a=A([1+2j,2]))
mx.conj(1+2j)
mx.conj(A([1+2j])).view(mx.float32)
mx.degrees(2)
mx.degrees([2])
mx.degrees(True)
mx.divide(A([1+2j,1]),A([0j,2j]))
mx.divide(1,0)
mx.divide(A([True,False,True,False]),A([True,True,False,False]))
mx.divide(A([1,2],dtype=mx.int64),A([3],dtype=mx.float16))
mx.divide(A([1],dtype=mx.float16),A([3],dtype=mx.bfloat16))
mx.divmod(A([7,-7]),3)
mx.divmod(A([7.5,-7.5]),2)
mx.divmod(A([1+2j]),2)
mx.divmod(A([True,False]),True)
mx.divmod(A([5],dtype=mx.uint8),A([3],dtype=mx.uint8))
mx.divmod(A([-5.5,5.5,-5.5]),A([2.,-2.,0]))
mx.divmod(1,2)
mx.erf(A([-inf,inf,0,nan,3.9,0.5]))
mx.erfinv(A([-1.,1.,0,2,0.5,-0.9999,nan]))
mx.floor(A([1.5+2.5j]))
mx.floor_divide(A([nan,inf,1,-1,1,-1e-20]),A([1,1,inf,inf,-inf,1]))
mx.floor_divide(A([-128],dtype=mx.int8),A([-1],dtype=mx.int8))
mx.floor_divide(A([7.5],dtype=mx.float16),2)
mx.floor_divide(A([7+3j]),2)
mx.floor_divide(A([True,False,True,False]),A([True,True,False,False]))
mx.imag(A([1,2]))
mx.isfinite(A([complex(inf,1),1]))
mx.isinf(A([complex(inf,1),complex(0,-inf),complex(nan,inf)]))
mx.isnan(A([1]))
mx.isnan(A([complex(nan,1)]))
mx.isneginf(A([1,2]))
mx.isposinf(A([complex(inf,1),1]))
mx.log(A([0.,-1]))
mx.log10(A([0j,-1,1j,2]))
mx.log1p(A([-1.,-2.,1e-10]))
mx.log1p(A([0j,-1,1j,2,1e-5+1e-5j]))
mx.log2(A([0j,-1,1j,2]))
mx.logaddexp(1,2)
mx.logaddexp(A([1+2j]),2)
mx.logaddexp(A([-inf]),-inf)
mx.logaddexp(A([inf]),inf)
mx.logaddexp(A([nan]),inf)
mx.logaddexp(A([True]),A([False]))
mx.maximum(1,2)
mx.maximum(A([nan,1]),A([1,nan]))
mx.maximum(A([1+2j,1+3j,complex(nan,0)]),A([1+3j,2,3]))
mx.maximum(A([True,False]),A([False,False]))
mx.maximum(0.,-0.)
mx.maximum(-0.,0.)
mx.minimum(A([nan,1]),A([1,nan]))
mx.minimum(A([1+2j,1+3j]),A([1+3j,2]))
mx.minimum(A([True,False,True,False]),A([True,True,False,False]))
mx.minimum(0.,-0.)
mx.minimum(-0.,0.)
mx.nan_to_num(A([nan,inf,-inf]))
mx.nan_to_num(A([nan,inf,-inf],dtype=mx.float16))
mx.nan_to_num(A([nan,inf,-inf],dtype=mx.bfloat16),1,2,3)
mx.nan_to_num(1.5)
mx.nan_to_num(A([1]))
mx.nan_to_num(A([complex(nan,1)]))
mx.nan_to_num(A([1.,nan],dtype=mx.float64))
mx.nan_to_num(A([nan]),nan=1,posinf=2.,neginf=None)
mx.nan_to_num(A([True]))
mx.nan_to_num(A([nan]),nan=A(3.))
mx.nan_to_num(A([nan]),nan=None)
mx.positive(A([True]))
mx.power(2,3)
mx.power(0,0)
mx.power(0.,0.)
mx.power(A([-8.]),1/3)
mx.power(A([2],dtype=mx.uint8),-1)
mx.power(A([2],dtype=mx.float16),3)
mx.power(A([2]),A([40]))
mx.power(A([2],dtype=mx.int64),A([40]))
mx.power(A([-2],dtype=mx.int8),A([3],dtype=mx.int8))
mx.power(A([3]),A([-1]))
mx.power(A([2,3]),A([2,3,4]))
mx.power(A([True,False,True,False]),A([True,True,False,False]))
mx.real(A([1,2]))
mx.real(A([1+2j]))
mx.reciprocal(A([2,0]))
mx.remainder(A([5,250],dtype=mx.uint8),A([3,7],dtype=mx.uint8))
mx.remainder(A([nan,inf,1,-1,-0.,0.]),A([1,1,inf,inf,3,-3]))
mx.remainder(A([7],dtype=mx.int64),A([-2],dtype=mx.uint32))
mx.remainder(A([True,False,True,False]),A([True,True,False,False]))
mx.round(A([1.25,2.75,-1.5,0.5]),1)
mx.round(A([125,135,-125]),-1)
mx.round(A([125,135,-125]),1)
mx.round(1.5)
mx.round(A([True]))
mx.round(A([1.5+2.5j]))
mx.round(A([1.55+2.55j]),1)
mx.round(A([0.5,1.5,2.5,-0.5,-2.5,nan,inf]))
mx.round(A([2.675,1e30]),2)
mx.round(A([123.456]),-1)
mx.round(A([1.25,2.5],dtype=mx.float16),1)
mx.round(A([55,45,-55],dtype=mx.int8),-1)
mx.round(A([55,45],dtype=mx.uint8),-1)
mx.round(A([True]),-1)
mx.round(A([1.2345],dtype=mx.float64),2)
mx.round(A([1.5]),1.5)
mx.round(A([1.26]),decimals=A(1))
mx.round(A([1.26]),None)
mx.rsqrt(A([0.,-1.,4.]))
mx.sigmoid(A([-100.,100.,0,-5,nan,-inf]))
mx.sign(A([nan,-0.0,2,-3]))
mx.nan_to_num(A([1.5,nan,inf,-inf],dtype=mx.float64),posinf=2,neginf=3)
mx.nan_to_num(A([1.5,nan,inf,-inf],dtype=mx.float64),posinf=2)
mx.nan_to_num(A([complex(nan,1),complex(1,nan),inf,-inf,complex(-inf,inf),2+3j]),9,7,5)
mx.nan_to_num(A([1j]),neginf=3)
mx.sign(A([1+2j,0j,-3+0j]))
mx.sign(A([complex(nan,0),complex(inf,1),complex(1,-inf),complex(0,nan)]))
mx.degrees(A([complex(inf,1),complex(1,-inf),complex(nan,0),1+2j]))
mx.radians(A([complex(inf,1),complex(1,-inf),complex(nan,0),1+2j]))
mx.sign(A([3,0],dtype=mx.uint8))
mx.sign(A([True,False]))
mx.sign(A([-5],dtype=mx.int8))
mx.sin([1,2])
mx.sin(1)
mx.sin(1.5)
mx.sin("a")
mx.sin(None)
mx.sin(np.array([1.0,2]))
mx.square(A([True,False]))
mx.square(A([100],dtype=mx.int8))
mx.square(A([1+2j]))
mx.subtract(A([True,False,True,False]),A([True,True,False,False]))
mx.trunc(A([1.7,-1.7,nan,inf,-0.5]))
mx.where(True,1,2)
mx.where(A([1,0]),1,2.)
mx.where(A([True,False]),A([1,2],dtype=mx.float16),2.)
mx.where(A([True,False]),1,A([1,2],dtype=mx.int8))
mx.where(A([0.5,0.]),1,2)
mx.where(A([True,False]),True,2)
mx.where(A([[True],[False]]),A([1,2]),A(2.5))
mx.where(A([True]),A([1,2]),A([1,2,3]))
mx.where(A([True,False]),A([1j]),2)
mx.where(1.5,1,2)
mx.where(None,1,2)
mx.where(A(True),"a",1)
mx.where(mx.zeros(3),mx.zeros(2),mx.zeros(2))
mx.where(mx.zeros(3),mx.zeros(2),mx.zeros(1))
mx.where(mx.zeros(2),mx.zeros((3,1)),mx.zeros((3,3)))
"""

COMPARISON = """
mx.allclose(A([1.,2]),A([1.,2.1]),rtol=0.2)
mx.allclose(A([]),A([]))
mx.allclose(A([1.,2]),A([1.,2,3]))
mx.array_equal(A([1,2]),A([1,2]))
mx.array_equal(A([1,2]),A([1,2,3]))
mx.array_equal(A([1,2]),1)
mx.array_equal(A([nan,2]),A([nan,2]))
mx.array_equal(A([nan,2]),A([nan,2]),equal_nan=True)
mx.array_equal(A([1,2]),A([1.,2.]))
mx.array_equal(A([]),A([]))
mx.array_equal(1,1)
mx.array_equal(A([1]),"a")
mx.array_equal(A([1,2],dtype=mx.uint64),A([1,2],dtype=mx.int64))
mx.broadcast_shapes((1,2),(3,1))
mx.broadcast_shapes((1,2),(3,1),[2])
mx.broadcast_shapes()
mx.broadcast_shapes((2,))
mx.broadcast_shapes((2,),(3,))
mx.broadcast_shapes((0,),(1,))
mx.broadcast_shapes((0,),(3,))
mx.broadcast_shapes(2)
mx.broadcast_shapes((1,2),(3,1),(4,4))
mx.broadcast_shapes((3,),(2,3),(4,))
mx.broadcast_shapes((1.5,))
mx.broadcast_shapes("ab")
mx.broadcast_shapes(None)
mx.equal(A([1,2]),A([1.,3.]))
mx.equal(A([nan]),A([nan]))
mx.equal(A([1j]),A([1j]))
mx.equal(A([1],dtype=mx.uint8),1.5)
mx.equal(A([1,2]),A([1,2,3]))
mx.equal(A([2**63-1],dtype=mx.int64),A([2**63-1],dtype=mx.uint64))
mx.greater(A([1j,1+1j]),A([2j,1]))
mx.greater_equal(A([1j,1+1j,1]),A([2j,1,1]))
mx.isclose(A([1.,inf,-inf,nan,1.00001]),A([1.,inf,inf,nan,1.]))
mx.isclose(A([1.,inf,-inf,nan]),A([1.,inf,inf,nan]),equal_nan=True)
mx.isclose(A([1,2]),A([1,3]))
mx.isclose(A([1+1j]),A([1+1j]))
mx.isclose(A([1.]),1.0)
mx.isclose(A([1,2,3]),A([1.,2.,3.]),0.1,0.1)
mx.isclose(A([1.,2]),A([1.,2.1]),0.1,0.1,True)
mx.isclose(A([True]),A([True]))
mx.isclose(A([1],dtype=mx.float16),A([1.001],dtype=mx.float16))
mx.isclose(A([1]),A([1,2,3]))
mx.isclose(A([1,2]),A([1,2,3]))
mx.isclose(A([200],dtype=mx.uint8),A([201],dtype=mx.uint8))
mx.isclose(A([1],dtype=mx.uint8),A([2],dtype=mx.uint8),atol=2)
mx.isclose(A([2],dtype=mx.uint8),A([1],dtype=mx.uint8),atol=2)
mx.isclose(A([True,False]),A([False,True]),1,0)
mx.less(A([1j,1+1j,2,complex(nan,1)]),A([2j,1,1+5j,1]))
mx.less(A([True]),A([False]))
mx.less(1,2)
mx.less(A([1],dtype=mx.uint8),-1)
mx.less(A([-1],dtype=mx.int32),A([1],dtype=mx.uint32))
mx.less_equal(A([1j,1+1j,1+1j]),A([2j,1,1+1j]))
mx.logical_and(1,2)
mx.logical_and(True,A(1))
mx.logical_and(A([1,0,nan]),A([1.,1,1]))
mx.logical_and(A([1,2]),A([1,2,3]))
mx.logical_and(A([1,2]),None)
mx.logical_not(A([0.5,0,nan]))
mx.logical_not(1)
mx.logical_or(A([0,0]),A([0j,1j]))
mx.logical_xor(1,2)
mx.logical_xor(A([1,0]),A([2,2]))
mx.logical_xor(A([True,False]),True)
"""

BITWISE = """
mx.bitwise_and(A([True]),A([1]))
mx.bitwise_and(A([True]),A([False]))
mx.bitwise_and(A([1.5]),A([1]))
mx.bitwise_and(1,2)
mx.bitwise_and(1.5,2)
mx.bitwise_and(A([1],dtype=mx.uint64),A([1],dtype=mx.int64))
mx.bitwise_and(A([1],dtype=mx.float16),A([1]))
mx.bitwise_invert(3)
mx.bitwise_invert(True)
mx.bitwise_invert(1.5)
mx.bitwise_or(A([1.5]),1)
mx.bitwise_xor(A([1j]),1)
mx.left_shift(A([1,-1,1,1]),A([31,1,32,33]))
mx.left_shift(A([1,1,1,255],dtype=mx.uint8),A([7,8,9,1],dtype=mx.uint8))
mx.left_shift(A([1]),-1)
mx.left_shift(A([True]),A([True]))
mx.left_shift(A([True,False]),1)
mx.left_shift(1.5,A([1]))
mx.left_shift(A([1],dtype=mx.int64),A([63]))
mx.left_shift(A([1],dtype=mx.int8),A([7],dtype=mx.int8))
mx.left_shift(A([1],dtype=mx.int8),A([8],dtype=mx.int8))
mx.left_shift(A([1],dtype=mx.uint64),A([1],dtype=mx.int64))
mx.left_shift(A([1,2]),A([1,2,3]))
mx.left_shift(A([1],dtype=mx.float16),A([1]))
mx.right_shift(A([-8,8,-8,8]),A([1,1,32,33]))
mx.right_shift(A([8,8,255],dtype=mx.uint8),A([1,8,9],dtype=mx.uint8))
mx.right_shift(A([-8]),-1)
mx.right_shift(1.5,A([1]))
mx.right_shift(A([True,False]),A([True,True]))
mx.right_shift(A([1]),1.5)
mx.right_shift(A([1],dtype=mx.float16),A([1]))
mx.right_shift(A([1],dtype=mx.uint64),A([1],dtype=mx.int64))
"""

CASTS = """
A([1]).astype(dtype=mx.float32)
A([1.5]).view(mx.int32)
mx.astype(A([1.7,-1.7,300.,nan,inf]),mx.int32)
mx.astype(A([1.7,-1.7,300.,nan,inf,3e9]),mx.int8)
mx.astype(A([1.7,-1.7,300.,nan,inf,3e9]),mx.int16)
mx.astype(A([1.7,-1.7,300.,nan,inf,3e9]),mx.int64)
mx.astype(A([1.7,-1.7,300.,nan,inf,3e9]),mx.bool_)
mx.astype(A([1+2j,0]),mx.float32)
mx.astype(A([1+2j,0,1j]),mx.bool_)
mx.astype(A([1+2j,0]),mx.int32)
mx.astype(A([300,-1]),mx.uint8)
mx.astype(A([300,-1]),mx.complex64)
mx.astype(1,mx.float32)
mx.astype(A([1]),"float32")
mx.contiguous(A([1]),allow_col_major=True)
mx.contiguous(A([1]),True)
mx.depends(A([1.]),A([2.]))
mx.depends([A([1.]),A([3.])],[A([2.])])
mx.depends((A([1.]),),A([2.]))
mx.stop_gradient(3)
mx.view(A([1,2]),mx.float32)
mx.view(A([1,2]),mx.int16)
mx.view(A([1,2]),mx.int64)
mx.view(A([1,2,3]),mx.int64)
mx.view(A(1),mx.int16)
mx.view(A(1),mx.float32)
mx.view(A([[1,2],[3,4]],dtype=mx.int8),mx.int16)
mx.view(A([[1,2],[3,4]],dtype=mx.int8).T,mx.int16)
mx.view(A([1+2j]),mx.float32)
mx.view(A([1+2j]),mx.uint64)
mx.view(A([True,False]),mx.uint8)
mx.view(A([2,0],dtype=mx.uint8),mx.bool_)
mx.view(1,mx.float32)
mx.view(A([],dtype=mx.int8),mx.int16)
mx.view(A([1.,2.]),mx.complex64)
mx.view(A([1,2]),mx.int32)
mx.view(A([1.,2,1,5],dtype=mx.bfloat16),mx.uint8)
mx.view(A([1.,2,1,5],dtype=mx.float64),mx.complex64)
mx.view(A([1+2j],dtype=mx.complex64),mx.uint8)
mx.view(A([1,2,3,4,5,6,7,8]*2,dtype=mx.uint8),mx.complex64)
mx.view(A(1+2j),mx.float64)
mx.view(mx.zeros((2,0),dtype=mx.int8),mx.int32)
mx.view(mx.zeros((0,3),dtype=mx.int32),mx.int8)
"""

EDGES = {
    "mx.abs(x)": ([0.0, -0.0, -2.0],),
    "mx.sqrt(x) * 0": ([0.0, 1.0],),
    "mx.sign(x)": ([0.0, -2.0],),
    "mx.reciprocal(x)": ([0.0, 2.0],),
    "mx.log(x)": ([0.0, -1.0],),
    "mx.rsqrt(x)": ([0.0, 4.0],),
    "mx.round(x, 1)": ([0.26, 1.5],),
    "mx.nan_to_num(x)": ([float("nan"), 1.0],),
    "mx.clip(x, 1, 2)": ([0.0, 1.0, 1.5, 2.0, 3.0],),
    "mx.clip(x, y, z)": ([1.0, 2.0, 3.0, 0.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]),
    "mx.maximum(x, y)": ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
    "mx.minimum(x, y)": ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
    "mx.where(x > y, x, y * y)": ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
    "mx.logaddexp(x, y)": ([-np.inf, 1.0, np.inf], [-np.inf, -np.inf, 1.0]),
    "x // y": ([7.0, -7.0, 3.0], [2.0, 2.0, -2.0]),
    "x % y": ([7.0, -7.0, 3.0], [2.0, 2.0, -2.0]),
    "x ** 2": ([0.0, -1.0],),
    "x ** 0": ([0.0, -1.0],),
    "x ** 0.5": ([0.0, 4.0],),
    "x ** -1": ([0.5, 4.0],),
    "2 ** x": ([0.0, -1.0],),
    "x ** y": ([0.0, 2.0, -2.0], [1.0, 3.0, 2.0]),
    "mx.arctan2(x, y)": ([0.0, 1.0], [1.0, 0.0]),
    "x + y": ([[1.0], [2.0]], [1.0, 2.0, 3.0]),
    "x * y": ([[1.0], [2.0]], [1.0, 2.0, 3.0]),
    "mx.astype(x, mx.float16)": ([1.5, 2.0],),
    "mx.stop_gradient(x) * x": ([1.5, 2.0],),
    "mx.depends(x, x)": ([1.5, 2.0],),
}
"""Points at which derivatives are conventions."""


@pytest.mark.parametrize("expression", EDGES)
def test_derivatives_at_edges(expression: str) -> None:
    arrays = [np.array(x, np.float32) for x in EDGES[expression]]
    check_derivatives(expression, *arrays)


@pytest.mark.parametrize("expression", cases(ARITHMETIC))
def test_arithmetic(expression: str) -> None:
    check(evaluate(expression))


@pytest.mark.parametrize("expression", cases(COMPARISON))
def test_comparison(expression: str) -> None:
    check(evaluate(expression))


@pytest.mark.parametrize("expression", cases(BITWISE))
def test_bitwise(expression: str) -> None:
    check(evaluate(expression))


@pytest.mark.parametrize("expression", cases(CASTS))
def test_casts(expression: str) -> None:
    check(evaluate(expression))


def test_casting_wraps_as_in_c() -> None:
    check(evaluate("[A([1.7, -1.7, 300.0, -300.0]).astype(t) for t in (mx.int8, mx.uint8, mx.int16, mx.uint16)]"))
    check(evaluate("[A([3e9, -3e9, nan, inf]).astype(t) for t in (mx.int8, mx.uint8, mx.int32)]"))


@pytest.mark.parametrize("name", ["bool_", "uint8", "int16", "uint32", "int64", "float16", "bfloat16", "complex64"])
def test_views_round_trip(name: str) -> None:
    x = ours.arange(16).astype(getattr(ours, name))
    for other in (ours.uint8, ours.uint16, ours.float32, ours.uint64):
        assert ours.array_equal(x.view(other).view(x.dtype), x), other


def test_sqrt_behind_where_has_a_nan_gradient() -> None:
    check(vjp("mx.where(x > 0, mx.sqrt(x), 0)"), np.array([0.0, 4.0], np.float32))


def test_integer_division_by_zero_is_defined() -> None:
    quotient, rest = ours.divmod(ours.array([7, -7]), 0)
    assert quotient.tolist() == [0, 0]
    assert rest.tolist() == [7, -7]


def test_division_of_the_lowest_integer_wraps() -> None:
    lowest = ours.array([-(2**31)])
    assert (lowest // -1).tolist() == [-(2**31)]
    assert (lowest % -1).tolist() == [0]


def test_a_dependency_is_evaluated_with_its_dependents() -> None:
    x = ours.array([1.0])
    y = ours.depends(x * 2, [x * 3])
    assert y.tolist() == [2.0]


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int8", "uint64", "float16", "complex64"])
def test_numbers_beside_logical_operands_keep_their_dtype(name, dtype):
    def function(mx, number, is_first):
        x = mx.array([0, 1, 2]).astype(getattr(mx, dtype))
        return getattr(mx, name)(*((number, x) if is_first else (x, number)))

    numbers = (300, -1, 2**31, 2**40, 0, 1.5, float("nan"), 2j)
    cases = itertools.product(numbers, (False, True))
    check_together(
        {f"{number}, {is_first}": partial(function, number=number, is_first=is_first) for number, is_first in cases}
    )


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_floats_that_are_no_uint64(dtype: str) -> None:
    values = [float("nan"), float("inf"), -float("inf"), -1.5, 1e10, 1e20, -1e20, 2.0**63, 3.0]
    check(lambda mx: mx.array(values * 3, getattr(mx, dtype)).astype(mx.uint64))


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "erf", "erfinv"]
)
def test_odd_functions_are_odd_to_the_last_bit(name: str, dtype: str) -> None:
    end = 0.999 if name in ("arcsin", "arctanh", "erfinv") else 80.0
    x = np.concatenate([np.linspace(0, 0.999, 2048), np.linspace(1e-20, end, 2048)]).astype(np.float32)
    for mx in (real, ours):
        both = mx.array(np.concatenate([x, -x])).astype(getattr(mx, dtype))
        there, mirrored = np.split(np.array(getattr(mx, name)(both).astype(mx.float32)), 2)
        np.testing.assert_array_equal(mirrored, -there)
