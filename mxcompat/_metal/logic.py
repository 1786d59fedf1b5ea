"""Comparisons of scalars, and the logic of bools. Bounds and affine forms decide many of them before a kernel runs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .axes import Axes
from .types import BOOL
from .values import FALSE, TRUE, Scalar

__all__ = ["COMPARE", "Logic"]

COMPARE = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Logic:
    """Comparisons and logic."""

    # The subclasses define these names.
    axes: Axes
    array: Callable[[Scalar], Any]
    is_exact: Callable[[Scalar], bool]
    make: Callable[..., Scalar]

    def compare(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """Return the comparison of two operands of the same type."""
        kind = a.type
        if a.static and b.static:
            return TRUE if COMPARE[op](a.base, b.base) else FALSE
        if kind is BOOL:
            if op in ("==", "!=") and (a.static or b.static):
                known, other = (a, b) if a.static else (b, a)
                return other if bool(known.base) == (op == "==") else self.negate(other)
            x, y = self.array(a), self.array(b)
            return Scalar(BOOL, x == y if op == "==" else x != y if op == "!=" else COMPARE[op](x, y), (), 0, 1)
        if kind.kind != "f" and self.is_exact(a) and self.is_exact(b):
            decided = self._decided(op, a, b)
            if decided is not None:
                return decided
        return self.make(BOOL, COMPARE[op](self.array(a), self.array(b)), 0, 1)

    def _decided(self, op: str, a: Scalar, b: Scalar) -> Scalar | None:
        """Return a comparison that the bounds decide, or that can hold at only one position along an axis. Otherwise
        return None."""
        wide = self._difference(a, b)
        if wide is None:
            return None
        low, high, coefs, base = wide
        if op in ("<", ">=") and (high < 0 or low >= 0):
            return TRUE if (high < 0) == (op == "<") else FALSE
        if op in (">", "<=") and (low > 0 or high <= 0):
            return TRUE if (low > 0) == (op == ">") else FALSE
        if op in ("==", "!=") and (low > 0 or high < 0 or low == high == 0):
            return TRUE if (low == high == 0) == (op == "==") else FALSE
        if not isinstance(base, int) or not coefs:
            return None
        pins = self._pins(op, base, coefs, low, high)
        array = COMPARE[op](self.array(a), self.array(b))
        return Scalar(BOOL, array, (), 0, 1, pins)

    def _pins(self, op: str, base: int, coefs: dict[int, int], low: int, high: int) -> tuple[tuple[int, int], ...]:
        extents = self.axes.extents
        if op == "!=":
            return ()
        if (op in ("==", "<=") and low == 0) or (op == "<" and low == -1):
            return tuple([(axis, 0 if c > 0 else extents[axis] - 1) for axis, c in sorted(coefs.items())])
        if (op in ("==", ">=") and high == 0) or (op == ">" and high == 1):
            return tuple([(axis, extents[axis] - 1 if c > 0 else 0) for axis, c in sorted(coefs.items())])
        if op == "==" and len(coefs) == 1:
            ((axis, c),) = coefs.items()
            if base % c == 0 and 0 <= -base // c < extents[axis]:
                return ((axis, -base // c),)
        return ()

    def _difference(self, a: Scalar, b: Scalar) -> tuple[int, int, dict[int, int], Any] | None:
        """Return the bounds, the coefficients and the base of a - b."""
        assert a.low is not None
        assert a.high is not None
        assert b.low is not None
        assert b.high is not None
        if isinstance(a.base, int) and isinstance(b.base, int):
            coefs = dict(a.coefs)
            for axis, c in b.coefs:
                coefs[axis] = coefs.get(axis, 0) - c
            coefs = {axis: c for axis, c in coefs.items() if c}
            base = a.base - b.base
            ends = [c * (self.axes.extents[axis] - 1) for axis, c in coefs.items()]
            return base + sum(min(0, e) for e in ends), base + sum(max(0, e) for e in ends), coefs, base
        return a.low - b.high, a.high - b.low, {}, None

    def logical(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """Return the "&", "|" or "^" of two bools."""
        if op == "&":
            if a.static:
                return b if a.base else FALSE
            if b.static:
                return a if b.base else FALSE
            if a is b:
                return a
            return Scalar(BOOL, a.base & b.base, (), 0, 1, tuple(sorted({**dict(a.pins), **dict(b.pins)}.items())))
        if op == "|":
            if a.static:
                return TRUE if a.base else b
            if b.static:
                return TRUE if b.base else a
            return a if a is b else Scalar(BOOL, a.base | b.base, (), 0, 1)
        if a.static or b.static:
            known, other = (a, b) if a.static else (b, a)
            return self.negate(other) if known.base else other
        return Scalar(BOOL, a.base ^ b.base, (), 0, 1)

    def negate(self, a: Scalar) -> Scalar:
        """Return the negation of a bool."""
        return (FALSE if a.base else TRUE) if a.static else Scalar(BOOL, ~a.base, (), 0, 1)
