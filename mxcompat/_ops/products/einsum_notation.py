"""The notation of `einsum`: subscripts made explicit and checked against shapes, with MLX's messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mxcompat._graph.ir.aval import format_shape

__all__ = ["Equation", "parse"]


class Equation(NamedTuple):
    """The meaning of an einsum for operands of known shapes.

    Args:
        terms: a label for each axis of each operand. The axes of an ellipsis have digits as labels.
        output: the labels of the result's axes.
        sizes: the size of each label.
    """

    terms: tuple[str, ...]
    output: str
    sizes: dict[str, int]


def parse(subscripts: str, shapes: Sequence[tuple[int, ...]], name: str) -> Equation:
    """Return the equation of subscripts. Raises MLX's ValueErrors."""
    if not shapes:
        raise ValueError(f"[{name}] At least one operand is required.")
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ValueError(
            f"[{name}] Number of operands, {len(shapes)}, does not match number of input subscripts, {len(terms)}"
        )
    for term in (*terms, right):
        _check_letters(term, name)
    hidden = 0
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if "..." in term:
            letters = len(term) - 3
            if letters > len(shape):
                raise ValueError(
                    f"[{name}] Operand {k} with shape {format_shape(shape)} has insufficient dimensions for subscript "
                    f"'{term}'. The ellipsis requires at least {letters} dimensions but the operand has {len(shape)} "
                    "dimensions."
                )
            hidden = max(hidden, len(shape) - letters)
    digits = "".join(chr(0x100 + k) for k in range(hidden))
    terms = [_expanded(term, shape, digits) for term, shape in zip(terms, shapes, strict=True)]
    if arrow:
        output = right.replace("...", digits)
    else:
        joined = "".join(terms)
        output = "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in digits))
        output = digits + output
    if len(set(output)) < len(output):
        raise ValueError(f"[{name}] Repeat indices not allowed in output.")
    return Equation(tuple(terms), output, _sizes(terms, shapes, name))


def _check_letters(term: str, name: str) -> None:
    """Raise for the first character, from the left, that is neither a letter nor part of the single ellipsis."""
    for part in term.split("...", 1):
        for k, c in enumerate(part):
            if part.startswith("...", k):
                raise ValueError(f"[{name}] Only one ellipsis per subscript is allowed but found more in '{term}'.")
            if not (c.isascii() and c.isalpha()):
                raise ValueError(f"[{name}] Subscripts must be letters, but got '{c}'.")


def _expanded(term: str, shape: tuple[int, ...], digits: str) -> str:
    """Return the term with labels in place of its ellipsis. It takes the last labels, because ellipses broadcast from
    the right."""
    missing = len(shape) - len(term) + 3
    return term.replace("...", digits[len(digits) - missing :]) if "..." in term else term


def _sizes(terms: Sequence[str], shapes: Sequence[tuple[int, ...]], name: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for k, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        if len(term) != len(shape):
            raise ValueError(
                f"[{name}] Invalid number of subscripts {len(term)} for input {k} with {len(shape)} dimensions."
            )
        own: dict[str, int] = {}
        for c, n in zip(term, shape, strict=True):
            if own.setdefault(c, n) != n:
                raise ValueError(
                    f"[{name}] Dimensions of repeated subscripts do not have the same size ({own[c]} != {n})."
                )
        for axis, (c, n) in enumerate(zip(term, shape, strict=True)):
            if sizes.get(c, 1) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                raise ValueError(
                    f"[{name}] Cannot broadcast dimension {axis} of input {k} with shape {format_shape(shape)} "
                    f"to size {sizes[c]}."
                )
    return sizes
