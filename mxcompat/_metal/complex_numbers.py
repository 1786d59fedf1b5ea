"""Arithmetic of `complex64_t`, a struct of two floats."""

from __future__ import annotations

from typing import Any

from .errors import Problem
from .types import COMPLEX
from .values import Scalar, Struct, Value

__all__ = ["operator"]


def operator(walk: Any, name: str, operands: list[Value]) -> Value:
    """Apply an operator to complex numbers."""
    op = name.removeprefix("operator")
    n = walk.n
    parts = [walk.as_type(o, COMPLEX).parts for o in operands]

    def do(sign: str, a: Scalar, b: Scalar) -> Scalar:
        return n.binary(sign, a, b)

    if len(parts) == 1:
        ((a, b),) = parts
        if op == "-":
            return Struct(COMPLEX, (n.unary("-", a), n.unary("-", b)))
        raise Problem(f"{op} of a complex number")
    (a, b), (c, d) = parts
    if op in ("+", "-"):
        return Struct(COMPLEX, (do(op, a, c), do(op, b, d)))
    if op == "*":
        real = do("-", do("*", a, c), do("*", b, d))
        return Struct(COMPLEX, (real, do("+", do("*", a, d), do("*", b, c))))
    if op == "/":
        size = do("+", do("*", c, c), do("*", d, d))
        real = do("+", do("*", a, c), do("*", b, d))
        imag = do("-", do("*", b, c), do("*", a, d))
        return Struct(COMPLEX, (do("/", real, size), do("/", imag, size)))
    if op in ("==", "!="):
        same = n.logical("&", do("==", a, c), do("==", b, d))
        return same if op == "==" else n.negate(same)
    if op in ("<", ">", "<=", ">="):  # the imaginary parts decide if the real parts are equal
        equal = do("==", a, c)
        return n.select(equal, do(op, b, d), do(op, a, c))
    raise Problem(f"{op} of complex numbers")
