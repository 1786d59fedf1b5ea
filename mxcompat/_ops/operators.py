"""Operators: the special methods of `array`, made from functions of the op table.

Their errors for an operand that cannot become an array differ from those of the functions. Operators are the most
frequent calls of a program: the node of `x + 2.0` takes about half a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import type_name
from mxcompat._array.errors import expected, incompatible
from mxcompat._array.operands import operand
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op

__all__ = ["attach_operators"]

Combine = Callable[[Node, Any], Node | None]
"""A function that applies a binary op to an array's node and another operand; None if that cannot become an array."""

Check = Callable[[Dtype, Dtype], None]
"""A check that raises for dtypes that the operator refuses, where the function accepts them or raises another error."""

_ARITHMETIC = {
    "add": ("add", "addition"),
    "subtract": ("sub", "subtraction"),
    "multiply": ("mul", "multiplication"),
    "divide": ("truediv", "division"),
    "floor_divide": ("floordiv", "floor division"),
    "remainder": ("mod", "modulus"),
    "power": ("pow", "power"),
}
"""For each op, the name of its operator in methods (`__add__`) and in messages. These operators have a plain, a
reflected and an in-place method."""

_BITWISE = {
    "bitwise_and": ("and", "bitwise and"),
    "bitwise_or": ("or", "bitwise or"),
    "bitwise_xor": ("xor", "bitwise xor"),
    "left_shift": ("lshift", "left shift"),
    "right_shift": ("rshift", "right shift"),
}
"""As _ARITHMETIC, for operators that have a plain and an in-place method. MLX lacks the reflected method, see
`_reflected`."""

_COMPARISONS = {
    "less": ("lt", "less than"),
    "less_equal": ("le", "less than or equal"),
    "greater": ("gt", "greater than"),
    "greater_equal": ("ge", "greater than or equal"),
}

_UNARY = {"negative": "__neg__", "positive": "__pos__", "abs": "__abs__"}


def attach_operators(functions: Mapping[str, Any]) -> None:
    """Add the operators to `array`. `functions` are the public functions by name; missing ones are skipped."""

    def each(table: Mapping[str, tuple[str, str]]) -> list[tuple[Op, str, str]]:
        return [(functions[name].op, *row) for name, row in table.items() if name in functions]

    for record, name, noun in each(_ARITHMETIC):
        inplace = _no_integers if name == "truediv" else None
        _set(f"__{name}__", _arithmetic(record, name, noun))
        swapped = name not in ("add", "mul")  # in MLX, too, `2 * x` and `x * 2` build the same graph
        _set(f"__r{name}__", _arithmetic(record, f"r{name}", noun, swapped))
        _set(f"__i{name}__", _inplace(_combine(record, inplace), f"i{name}", noun))
    for record, name, noun in each(_BITWISE):
        _set(f"__{name}__", _operator(_combine(record, _no_floats(f"with {noun}")), name, noun))
        _set(f"__r{name}__", _reflected(vars(array)[f"__{name}__"]))
        short = noun if name == "xor" else f"with {noun}"  # MLX's message, word for word
        _set(f"__i{name}__", _inplace(_combine(record, _no_floats(short)), f"i{name}", noun))
    for record, name, noun in each(_COMPARISONS):
        _set(f"__{name}__", _operator(_combine(record), name, noun))
    for name, dunder in _UNARY.items():
        if name in functions:
            _set(dunder, _unary(functions[name].op))
    if "divide" in functions:
        _set("__div__", vars(array)["__truediv__"])
        _set("__rdiv__", vars(array)["__rtruediv__"])
    if "equal" in functions:
        _set("__eq__", _equality(_combine(functions["equal"].op), "eq", False))
        _set("__ne__", _equality(_combine(functions["not_equal"].op), "ne", True))
    if "bitwise_invert" in functions:
        _set("__invert__", _invert(functions["bitwise_invert"]))
    if "matmul" in functions:
        _set_matmul(functions["matmul"])


def _set(name: str, method: Any) -> None:
    if name not in ("__div__", "__rdiv__"):
        method.__name__ = name
        method.__qualname__ = f"array.{name}"
    setattr(array, name, method)


def _combine(record: Op, check: Check | None = None) -> Combine:
    def combine(x: Node, other: Any) -> Node | None:
        if type(other) is array:
            y = other._node
        else:
            try:
                y = operand(other, x.aval.dtype)
            except (ValueError, RuntimeError):  # the number is out of range for the dtype
                if check is _no_integers:  # MLX reports a wrong dtype before a number out of range
                    check(x.aval.dtype, x.aval.dtype)
                raise
            if y is None:
                return None
        if check is not None:
            check(x.aval.dtype, y.aval.dtype)
        return apply(record, (x, y))

    return combine


def _refuse(noun: str, name: str, other: Any) -> Exception:
    if other is None:
        return expected(f"__{name}__", "a number or an array", None)
    return ValueError(f"Cannot perform {noun} on an mlx.core.array and {type_name(other)}")


def _arithmetic(record: Op, name: str, noun: str, swapped: bool = False) -> Callable[[array, Any], array]:
    """Return the same method as `_operator(_combine(record))`, but as a single function, because calls of it are the
    most frequent."""

    def method(self: array, other: Any) -> array:
        x = self._node
        if type(other) is array:
            y = other._node
        else:
            y = operand(other, x.aval.dtype)
            if y is None:
                raise _refuse(noun, name, other)
        if swapped:
            x, y = y, x
        return wrap(apply(record, (x, y)))

    return method


def _operator(combine: Combine, name: str, noun: str) -> Callable[[array, Any], array]:

    def method(self: array, other: Any) -> array:
        node = combine(self._node, other)
        if node is None:
            raise _refuse(noun, name, other)
        return wrap(node)

    return method


def _reflected(method: Callable[[array, Any], array]) -> Callable[[array, Any], Any]:
    """Return the reflected operator. It accepts an integer beside an array of integers or bools. Otherwise it raises
    Python's TypeError, as in MLX."""

    def reflected(self: array, other: Any) -> Any:
        if not isinstance(other, int) or self._node.aval.dtype._kind not in "bui":
            return NotImplemented
        try:
            left = operand(other, self._node.aval.dtype)
        except (ValueError, RuntimeError):  # the integer is out of range
            return NotImplemented
        return method(wrap(left), self)

    return reflected


def _inplace(combine: Combine, name: str, noun: str) -> Callable[[array, Any], array]:
    """Return an in-place operator: it points the handle at the result, so that every alias sees it.

    The result may have another shape and dtype.
    """

    def method(self: array, other: Any) -> array:
        node = combine(self._node, other)
        if node is None:
            raise _refuse(f"inplace {noun}", name, other)
        self._node = node
        return self

    return method


def _equality(combine: Combine, name: str, otherwise: bool) -> Callable[[array, Any], array | bool]:
    """Return `==` or `!=`. An array is unequal to a value that cannot become an array. None raises, as in MLX."""

    def method(self: array, other: Any) -> array | bool:
        node = combine(self._node, other)
        if node is None:
            if other is None:
                raise _refuse("", name, other)
            return otherwise
        return wrap(node)

    return method


def _unary(record: Op) -> Callable[[array], array]:
    def method(self: array) -> array:
        return wrap(apply(record, (self._node,)))

    return method


def _invert(function: Any) -> Callable[[array], array]:
    def method(self: array) -> array:
        if self.dtype._kind in "fc":
            raise ValueError("Floating point types not allowed with bitwise inversion.")
        return function(self)

    return method


def _set_matmul(function: Any) -> None:
    def matmul(self: array, other: array) -> array:
        if not isinstance(other, array):
            raise incompatible("__matmul__", f"Expected an array, got {type_name(other)}.")
        return function(self, other)

    def imatmul(self: array, other: array) -> array:
        self._node = matmul(self, other)._node
        return self

    _set("__matmul__", matmul)
    _set("__imatmul__", imatmul)


def _no_floats(where: str) -> Check:
    def check(a: Dtype, b: Dtype) -> None:
        if a._kind in "fc" or b._kind in "fc":
            raise ValueError(f"Floating point types not allowed {where}.")

    return check


def _no_integers(a: Dtype, b: Dtype) -> None:
    if a._kind not in "fc":
        raise ValueError("In place division cannot cast to non-floating point type.")
