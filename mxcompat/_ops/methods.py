"""Methods: ops that are also methods and properties of `array`, added to it by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mxcompat._array.array import array
from mxcompat._array.errors import bad_cast
from mxcompat._graph.ir.aval import Dtype

from .arguments import is_sequence, plain
from .operators import attach_operators

__all__ = ["attach"]

_SAME = (
    "abs", "all", "any", "argmax", "argmin", "conj", "cos", "cummax", "cummin", "cumprod", "cumsum", "diag", "diagonal",
    "exp", "flatten", "log", "log10", "log1p", "log2", "logcumsumexp", "logsumexp", "max", "mean", "min", "moveaxis",
    "prod", "reciprocal", "round", "rsqrt", "sin", "split", "sqrt", "square", "squeeze", "std", "sum", "swapaxes",
    "var", "view",
)  # fmt: skip
"""Methods that take the same arguments as the function, without its first one."""

_PROPERTIES = {"transpose": "T", "matrix_transpose": "mT", "real": "real", "imag": "imag"}


def attach(functions: Mapping[str, Any]) -> None:
    """Add the methods, properties and operators that are ops to `array`. `functions` are the public functions by
    name."""
    for name in _SAME:
        if name in functions:
            setattr(array, name, functions[name])
    for name, adapt in _ADAPTED.items():
        if name in functions:
            method = adapt(functions[name])
            method.__name__ = name
            method.__qualname__ = f"array.{name}"
            method.__doc__ = functions[name].__doc__
            setattr(array, name, method)
    for name, attribute in _PROPERTIES.items():
        if name in functions:
            summary = (functions[name].__doc__ or "").partition("\n")[0]
            setattr(array, attribute, property(functions[name], doc=summary))
    attach_operators(functions)


def _ints(arguments: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """Return ints that are given as separate arguments, or as a sequence in the first one. MLX ignores arguments after
    a sequence."""
    listed = bool(arguments) and type(arguments[0]) is not int and is_sequence(arguments[0])
    try:
        return plain(arguments[0] if listed else arguments)
    except (TypeError, OverflowError) as error:
        if listed and isinstance(error, OverflowError):
            raise
        raise bad_cast(f"expected {what} as ints of 32 bits, or as a sequence of them") from None


def _reshape(function: Any) -> Any:
    def reshape(self: array, *shape: Any, stream: Any = None) -> array:
        return function(self, _ints(shape, "a shape"), stream=stream)

    return reshape


def _transpose(function: Any) -> Any:
    def transpose(self: array, *axes: Any, stream: Any = None) -> array:
        return function(self, _ints(axes, "axes") if axes else None, stream=stream)

    return transpose


def _astype(function: Any) -> Any:
    def astype(self: array, dtype: Dtype, stream: Any = None) -> array:
        return function(self, dtype, stream=stream)

    return astype


_ADAPTED = {"reshape": _reshape, "transpose": _transpose, "astype": _astype}
"""Methods whose arguments differ from those of the functions."""
