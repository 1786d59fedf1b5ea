"""Methods: the ops that are also methods and operators of `array`, attached by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxcompat._array.array import array

from .define import operator

__all__ = ["attach"]

_METHODS = (
    "abs", "all", "any", "argmax", "argmin", "astype", "conj", "cos", "cummax", "cummin", "cumprod", "cumsum", "diag",
    "diagonal", "exp", "flatten", "log", "log10", "log1p", "log2", "logcumsumexp", "logsumexp", "max", "maximum", "mean",
    "min", "minimum", "moveaxis", "prod", "reciprocal", "reshape", "round", "rsqrt", "sin", "split", "sqrt", "square",
    "squeeze", "std", "sum", "swapaxes", "transpose", "unflatten", "var", "view",
)  # fmt: skip


def attach(functions: Mapping[str, Any]) -> None:
    """Give `array` the methods that are ops. `functions` are the public functions by name."""
    for name in _METHODS:
        if name in functions and name not in vars(array):
            setattr(array, name, functions[name])


_OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "floor_divide": "floordiv",
              "remainder": "mod", "power": "pow"}  # fmt: skip


def attach_operators(functions: Mapping[str, Any]) -> None:
    """Give `array` its arithmetic operators, plain and reflected."""
    for name, dunder in _OPERATORS.items():
        if name in functions:
            setattr(array, f"__{dunder}__", operator(functions[name]))
            setattr(array, f"__r{dunder}__", operator(functions[name], swapped=True))
