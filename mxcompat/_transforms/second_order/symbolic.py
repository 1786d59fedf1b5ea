"""Symbolic arrays: a NumPy rule that runs on them builds graph nodes instead of computing values.

NumPy dispatches functions on such an array to the array itself (`__array_ufunc__`, `__array_function__`). NoRule is
raised for functions without an op, for writes into an array, and for reads of a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import aval, complex64, from_numpy
from mxcompat._graph.ir.node import Node, apply, items, leaf
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import ASTYPE
from mxcompat._ops.indexing.gather import GATHER_AXIS
from mxcompat._ops.linalg.eigen import EIGH
from mxcompat._ops.linalg.solve import INV, SOLVE

from ..tracing import CONSTANT

__all__ = ["Symbolic"]

_UFUNCS = {
    np.absolute: "abs", np.add: "add", np.bitwise_and: "bitwise_and", np.bitwise_or: "bitwise_or", np.cos: "cos",
    np.cosh: "cosh", np.divide: "divide", np.equal: "equal", np.exp: "exp", np.floor: "floor", np.greater: "greater",
    np.greater_equal: "greater_equal", np.invert: "bitwise_invert", np.isfinite: "isfinite", np.less: "less",
    np.less_equal: "less_equal", np.log: "log", np.matmul: "matmul", np.multiply: "multiply", np.negative: "negative",
    np.not_equal: "not_equal", np.power: "power", np.sign: "sign", np.sin: "sin", np.sinh: "sinh", np.sqrt: "sqrt",
    np.square: "square", np.subtract: "subtract",
}  # fmt: skip
"""The name of the op for each ufunc."""


class Symbolic(NDArrayOperatorsMixin):
    """A proxy of a NumPy array that holds a node of a capture instead of data."""

    __slots__ = ("dtype", "ndim", "node", "shape", "size")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.shape: tuple[int, ...] = node.aval.shape
        self.ndim: int = node.aval.ndim
        self.size: int = node.aval.size
        self.dtype: np.dtype = node.aval.dtype._numpy

    def op(self, name: str, *others: Any, params: tuple = ()) -> Symbolic:
        """Apply an op to this array and others. A Python number gets this array's dtype."""
        return Symbolic(apply(TABLE[name], (self.node, *[self._node_of(x) for x in others]), params))

    def _node_of(self, x: Any) -> Node:
        if isinstance(x, Symbolic):
            return x.node
        if isinstance(x, (np.generic, np.ndarray)):
            dtype = from_numpy(x.dtype)
            if dtype is None:
                raise NoRule(f"an array of {x.dtype}")
            if x.ndim:
                return leaf(x, aval(x.shape, dtype))
            x = x.item()
        elif isinstance(x, (int, float)):
            dtype = self.node.aval.dtype
        elif isinstance(x, complex):
            dtype = complex64
        else:
            raise NoRule(f"an object of type {type(x).__name__}")
        return Node(CONSTANT, (x, dtype), (), aval((), dtype), self.node.trace)

    def like(self, x: Any) -> Symbolic:
        """Convert a number or NumPy array to a symbolic array; a symbolic array is returned as it is."""
        return Symbolic(self._node_of(x))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.add and method == "reduce" and kwargs.get("out") in (None, (None,)):
            return self.sum(kwargs.get("axis", 0), kwargs.get("dtype"), kwargs.get("keepdims", False))
        if method != "__call__" or kwargs:
            raise NoRule(f"{ufunc.__name__}.{method} of {sorted(kwargs)}")
        if ufunc is np.conjugate:
            return self.conj()
        if ufunc is np.vecdot:
            return (inputs[0] * inputs[1]).sum(-1)
        name = _UFUNCS.get(ufunc)
        if name is None or (ufunc is np.invert and self.dtype.kind != "b"):
            raise NoRule(ufunc.__name__)
        first = inputs[0] if isinstance(inputs[0], Symbolic) else self.like(inputs[0])
        return first.op(name, *inputs[1:])

    def __array_function__(self, function: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        rule = _FUNCTIONS.get(function)
        if rule is None or not kwargs.keys() <= {"axis"}:
            raise NoRule(f"{function.__name__} of {sorted(kwargs)}")
        return rule(self, *args, **kwargs)

    def _no_value(self, *_: Any, **__: Any) -> NoReturn:
        raise NoRule("what depends on a value")

    __array__ = __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = __setitem__ = _no_value

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NoRule(name)

    def __getitem__(self, index: Any) -> Symbolic:
        return Symbolic(wrap(self.node)[index]._node)

    def reshape(self, *shape: Any) -> Symbolic:
        sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
        if -1 in sizes:
            others = -math.prod(sizes)
            sizes[sizes.index(-1)] = self.size // others if others else 0
        return self if self.shape == (*sizes,) else self.op("reshape", params=((*sizes,),))

    def ravel(self) -> Symbolic:
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> Symbolic:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple([int(k) % self.ndim for k in order]) if len(order) else tuple(range(self.ndim))[::-1]
        return self.op("transpose", params=(order,))

    @property
    def T(self) -> Symbolic:
        return self.transpose()

    def swapaxes(self, first: int, second: int) -> Symbolic:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(order)

    def astype(self, dtype: Any, copy: bool = True) -> Symbolic:
        target = from_numpy(np.dtype(dtype))
        if target is None:
            raise NoRule(f"a cast to {dtype}")
        return self if target is self.node.aval.dtype else Symbolic(apply(ASTYPE, (self.node,), (target,)))

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Symbolic:
        x = self if dtype is None else self.astype(dtype)
        axes = range(self.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        return x.op("sum", params=(tuple([k % self.ndim for k in axes]), keepdims))

    def dot(self, other: Any) -> Symbolic:
        if not isinstance(other, Symbolic) or not self.ndim or not other.ndim or other.ndim > 2:
            raise NoRule("another product")
        return self.op("matmul", other)

    def conj(self) -> Symbolic:
        return self.op("conj") if self.dtype.kind == "c" else self

    @property
    def real(self) -> Symbolic:
        return self.op("real") if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Symbolic:
        return self.op("imag")


def _where(x: Symbolic, condition: Any, *values: Any) -> Symbolic:
    if len(values) != 2:
        raise NoRule("places, which depend on values")
    a, b = values
    typed = next((v for v in (a, b) if hasattr(v, "dtype")), x)
    typed = typed if isinstance(typed, Symbolic) else x.like(typed)
    return x.like(condition).op("where", typed.like(a), typed.like(b))


def _broadcast_to(_: Symbolic, x: Symbolic, shape: Sequence[int]) -> Symbolic:
    return x.op("broadcast_to", params=(tuple(shape),))


def _expand_dims(_: Symbolic, x: Symbolic, axis: int) -> Symbolic:
    at = axis % (x.ndim + 1)
    return x.reshape(*x.shape[:at], 1, *x.shape[at:])


def _triangle(upper: bool) -> Callable[..., Symbolic]:
    return lambda _, x, k=0: x.op("triangle", params=(k, upper))


def _place(name: str) -> Callable[..., Symbolic]:
    return lambda _, x, axis: x.op(name, params=(axis % x.ndim, False))


def _take_along_axis(_: Symbolic, x: Symbolic, places: Symbolic, axis: int) -> Symbolic:
    return Symbolic(apply(GATHER_AXIS, (x.node, places.node), (axis % x.ndim,)))


def _of(op: Op) -> Callable[..., Symbolic]:
    return lambda _, *xs: Symbolic(apply(op, tuple([x.node for x in xs])))


def _eigh(_: Symbolic, a: Symbolic, uplo: str) -> list[Symbolic]:
    return [Symbolic(n) for n in items(apply(EIGH, (a.node,), (uplo == "L",)))]


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.broadcast_to: _broadcast_to,
    np.expand_dims: _expand_dims,
    np.tril: _triangle(False),
    np.triu: _triangle(True),
    np.argmax: _place("argmax"),
    np.argmin: _place("argmin"),
    np.take_along_axis: _take_along_axis,
    np.linalg.inv: _of(INV),
    np.linalg.solve: _of(SOLVE),
    np.linalg.eigh: _eigh,
}
