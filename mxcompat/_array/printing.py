"""Printing: the text of an array as in MLX, and its options.

    array([1, 2.5, 1e-08], dtype=float32)

Numbers have six significant digits, or the number of decimal places given to `set_printoptions`. An axis longer than
six shows its first and last three entries.
"""

from __future__ import annotations

import reprlib
from functools import lru_cache
from types import NoneType
from typing import Any

import numpy as np

from mxcompat._graph.ir.node import SCALAR, TRACED, Node
from mxcompat._graph.run.evaluate import evaluated_on_host
from mxcompat._jax import is_array

from .convert import item
from .errors import small_int

__all__ = [
    "PrintOptions", "_PrintOptionsContext", "formatted", "get_printoptions", "printoptions", "render",
    "set_printoptions",
]  # fmt: skip

_EDGE = 3
"""Number of entries shown at each end of a long axis; an axis is long if it has more than twice as many."""
_ENDS = np.array([*range(_EDGE), *range(-_EDGE, 0)])


class PrintOptions:
    """Options for printing arrays.

    Args:
        precision: decimal places of floating-point numbers; -1 for six significant digits.

    Raises:
        TypeError: if `precision` is not an int.

    Example:
        >>> mx.PrintOptions(precision=3).precision
        3
    """

    __slots__ = ("precision",)

    precision: int

    def __init__(self, precision: int = -1) -> None:
        self.precision = small_int(precision, "PrintOptions", "precision")


_options = PrintOptions()


def set_printoptions(precision: int = -1) -> None:
    """Set the options for printing arrays.

    Args:
        precision: decimal places of floating-point numbers; -1 for six significant digits.

    Raises:
        TypeError: if `precision` is not an int.

    Example:
        >>> before = mx.get_printoptions().precision
        >>> mx.set_printoptions(precision=2)
        >>> mx.array([1 / 3])
        array([0.33], dtype=float32)
        >>> mx.set_printoptions(precision=before)
    """
    _options.precision = small_int(precision, "set_printoptions", "precision")


def get_printoptions() -> PrintOptions:
    """Return the current options for printing arrays.

    Returns:
        A copy, as a `PrintOptions`.

    Example:
        >>> mx.get_printoptions().precision
        -1
    """
    return PrintOptions(_options.precision)


class _PrintOptionsContext:
    """A context that sets options on entry and restores the previous ones on exit."""

    __slots__ = ("_before", "_options")

    def __init__(self, options: PrintOptions, /) -> None:
        self._options = options
        self._before = options

    def __enter__(self) -> _PrintOptionsContext:
        self._before = get_printoptions()
        set_printoptions(self._options.precision)
        return self

    def __exit__(self, *args: object) -> None:
        set_printoptions(self._before.precision)


def printoptions(precision: int = -1) -> _PrintOptionsContext:
    """Return a context in which arrays are printed with these options.

    Args:
        precision: decimal places of floating-point numbers; -1 for six significant digits.

    Returns:
        A context.

    Raises:
        TypeError: if `precision` is not an int.

    Example:
        >>> with mx.printoptions(precision=1):
        ...     print(mx.array([1 / 3]))
        array([0.3], dtype=float32)
    """
    return _PrintOptionsContext(PrintOptions(precision))


def render(node: Node) -> str:
    """Return the text of an array, after evaluating it."""
    if node.aval is None:
        return f"array({node.value})"  # JAX puts such an object in an array's place in a pytree
    value = node.value
    known = isinstance(value, (np.ndarray, NoneType)) or is_array(value) or node.op is SCALAR
    if node.op is TRACED or not known:
        return f"array({value})"
    data = evaluated_on_host(node)
    dtype = node.aval.dtype
    shape = data.shape
    if shape and max(shape) > 2 * _EDGE:
        data = _edges(data)
    if dtype._label == "bfloat16":
        data = data.astype(np.float32)
    kind, values = dtype._kind, data.ravel().tolist()
    if kind == "c":
        text = _template(shape, "%s") % tuple(map(_complex, values))
    elif kind != "f":
        text = _template(shape, "%s") % tuple(values)
    else:
        text = _template(shape, _number_format()) % tuple(values)
        if "nan" in text and dtype._label != "bfloat16":  # MLX prints every bfloat16 NaN as positive
            text = _template(shape, "%s") % tuple(map(_float, values))
    return f"array({text}, dtype={dtype._label})"


def _edges(data: np.ndarray) -> np.ndarray:
    """Return the elements that are shown: the first and last few along each long axis."""
    for axis, n in enumerate(data.shape):
        if n > 2 * _EDGE:
            data = data.take(_ENDS, axis)
    return data


@lru_cache(maxsize=256)
def _template(shape: tuple[int, ...], number: str, depth: int = 0) -> str:
    """Return the text of an array, with a placeholder for each number that is shown."""
    if not shape:
        return number
    n, *rest = shape
    part = _template(tuple(rest), number, depth + 1)
    parts = [part] * n if n <= 2 * _EDGE else [*[part] * _EDGE, "...", *[part] * _EDGE]
    between = ",\n" + " " * (len("array([") + depth) if rest else ", "
    return f"[{between.join(parts)}]"


def formatted(node: Node, spec: str) -> str:
    """Return `format(x, spec)`: a formatted number if there are no axes, else the text of the array."""
    if node.aval is not None and not node.aval.ndim:
        return format(item(node), spec)
    if spec:
        raise TypeError("unsupported format string passed to mx.array.__format__")
    return render(node)


def _number_format() -> str:
    """Return the `%` format of a float."""
    precision = _options.precision
    return "%.6g" if precision == -1 else f"%.{precision if precision >= 0 else 6}f"


def _float(x: float) -> str:
    text = _number_format() % x
    return "-nan" if text == "nan" and np.signbit(x) else text


def _complex(z: complex) -> str:
    sign = "+" if z.imag >= 0 or z.imag != z.imag else ""
    return f"{_float(z.real)}{sign}{_float(z.imag)}j"


def _repr_array(self: reprlib.Repr, x: Any, level: int) -> str:
    if isinstance(getattr(x, "_node", None), Node):
        return self.repr_instance(x, level)
    return _repr_standard_array(self, x, level)


_repr_standard_array = reprlib.Repr.repr_array
reprlib.Repr.repr_array = _repr_array  # type: ignore[method-assign]
"""Register `array` here: otherwise `reprlib`, used by debuggers and pytest, treats it as Python's own `array`."""
