"""C's arithmetic on scalars: conversions, operators, comparisons. Known values are folded; affine forms and bounds
are kept."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .axes import Axes
from .congruence import UNKNOWN, Congruence, joined, product, total, within, wrapped
from .logic import COMPARE, Logic
from .space import Space
from .types import BOOL, INT, ScalarType, common, promoted
from .values import Scalar, static

__all__ = ["Numbers"]

_BITS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
_RING = {"+": operator.add, "-": operator.sub, "*": operator.mul}


class Numbers(Logic):
    """Arithmetic on the scalars of all threads at once: a scalar is an array in `space`, with the threads along
    `axes`."""

    def __init__(self, space: Space, axes: Axes) -> None:
        self.space, self.axes = space, axes

    def make(
        self, type: ScalarType, base: Any, low: int | None = None, high: int | None = None,
        known: Congruence = UNKNOWN,
    ) -> Scalar:  # fmt: skip
        """Return a scalar with a computed array as its base."""
        if isinstance(base, (int, float, np.generic)):
            return static(type, base)
        return Scalar(type, base, (), low, high, (), known)

    def array(self, a: Scalar) -> Any:
        """Return the value as an array, or as a NumPy scalar if it is known."""
        dtype = a.type.dtype
        if a.type.kind == "f":
            return a.base
        base = dtype.type(a.type.wrap(a.base)) if isinstance(a.base, int) and a.type is not BOOL else a.base
        if a.type is BOOL and isinstance(base, bool):
            return np.bool_(base)
        for axis, c in a.coefs:
            base = base + self.positions(axis, a.type) * dtype.type(a.type.wrap(c))
        return base

    def positions(self, axis: int, type: ScalarType) -> Any:
        """Return the positions along an axis, in an integer type."""
        return self.space.iota(self.axes.extents[axis], axis, self.axes.rank, type.dtype)

    def whole(self, a: Scalar) -> Congruence:
        """Return the congruence of an integer, not only of its base."""
        known = a.congruence
        for _, c in a.coefs:
            known = total(known, (c, 0))
        return within(a.type, a.low, a.high, known)

    def bounds(self, a: Scalar) -> tuple[int | None, int | None]:
        """Return the bounds of the value, or (None, None) if it may have wrapped around."""
        if a.low is None or a.high is None or a.low < a.type.low or a.high > a.type.high:
            return None, None
        return a.low, a.high

    def is_exact(self, a: Scalar) -> bool:
        return self.bounds(a)[0] is not None

    def convert(self, a: Scalar, type: ScalarType) -> Scalar:
        """Convert a scalar to another type, as C does."""
        old = a.type
        if old is type:
            return a
        if type is BOOL:
            return self.compare("!=", a, static(old, 0))
        if a.static:
            return self._convert_static(a, type)
        if old.kind == "f" or type.kind == "f":
            return self.make(type, self.space.cast(self.array(a), type.dtype))
        if old is BOOL:
            return Scalar(type, self.space.cast(a.base, type.dtype), (), 0, 1)
        if type.bits > old.bits and not self.is_exact(a):
            limits = (old.low, old.high) if type.low <= old.low else (None, None)
            known = within(type, *limits, self.whole(a))
            return self.make(type, self.space.cast(self.array(a), type.dtype), *limits, known)
        base = a.base if isinstance(a.base, int) else self.space.cast(a.base, type.dtype)
        converted = Scalar(type, base, a.coefs, a.low, a.high, (), a.known)
        if not (self.is_exact(a) and self.is_exact(converted)):
            converted.known = wrapped(min(type.bits, old.bits), a.known)
        return converted

    def _convert_static(self, a: Scalar, type: ScalarType) -> Scalar:
        if a.type.kind == "f" and type.kind in "iu":
            value = float(a.base)
            if value != value:
                return static(type, 0)
            return static(type, min(max(int(min(max(value, -1e30), 1e30)), type.low), type.high))
        if type.kind == "f" and a.type.kind == "f":
            return static(type, np.asarray(a.base).astype(type.dtype)[()])
        if type.kind == "f":
            return static(type, np.asarray(int(a.base), a.type.dtype).astype(type.dtype)[()])
        return static(type, int(a.base))

    def binary(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """Apply a binary operator after C's usual arithmetic conversions."""
        if op in COMPARE:
            kind = common(a.type, b.type)
            return self.compare(op, self.convert(a, kind), self.convert(b, kind))
        if op in ("<<", ">>"):
            kind = promoted(a.type)
            return self.shift(op, self.convert(a, kind), b)
        kind = common(a.type, b.type)
        if op in _BITS and a.type is BOOL and b.type is BOOL:
            return self.convert(self.logical(op, a, b), INT)
        return self.same_type(op, self.convert(a, kind), self.convert(b, kind))

    def same_type(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """Apply an arithmetic operator to operands of the same type. The result has this type, too."""
        if op in _BITS:
            return self._bits(op, a, b)
        if op in ("/", "%") and a.type.kind != "f":
            return self._quotient(op, a, b)
        if a.type.kind == "f":
            x, y = self.array(a), self.array(b)
            if op == "%":
                return self.make(a.type, self.space.remainder(x, y))
            return self.make(a.type, self.space.quotient(x, y) if op == "/" else _RING[op](x, y))
        if a.type is BOOL:
            a, b = self.convert(a, INT), self.convert(b, INT)
        return self._ring(op, a, b)

    def _ring(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """+, - and * of integers."""
        kind = a.type
        if a.static and b.static:
            return static(kind, _RING[op](int(a.base), int(b.base)))
        low, high = _bounds_of(op, a, b)
        if op == "*":
            if a.static:
                a, b = b, a
            if not b.static:
                x, y = self.array(a), self.array(b)
                known = within(kind, low, high, product(self.whole(a), self.whole(b)))
                return Scalar(kind, x * y, (), low, high, (), known)
            c = int(b.base)
            if c == 0:
                return static(kind, 0)
            if c == 1:
                return a
            base = a.base * c if isinstance(a.base, int) else a.base * kind.dtype.type(kind.wrap(c))
            known = within(kind, low, high, product(a.congruence, (0, c)))
            return Scalar(kind, base, tuple([(axis, k * c) for axis, k in a.coefs]), low, high, (), known)
        sign = -1 if op == "-" else 1
        coefs = dict(a.coefs)
        for axis, c in b.coefs:
            coefs[axis] = coefs.get(axis, 0) + sign * c
        base = self._add(a.base, b.base, kind, op)
        return self._affine(kind, base, coefs, low, high, total(a.congruence, b.congruence, sign))

    def _add(self, a: Any, b: Any, kind: ScalarType, op: str) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return _RING[op](a, b)
        if isinstance(b, int) and b == 0:
            return a
        x = kind.dtype.type(kind.wrap(a)) if isinstance(a, int) else a
        y = kind.dtype.type(kind.wrap(b)) if isinstance(b, int) else b
        return _RING[op](x, y)

    def _affine(
        self, kind: ScalarType, base: Any, coefs: dict[int, int], low: Any, high: Any, known: Congruence = UNKNOWN
    ) -> Scalar:
        """Make a scalar in affine form. Terms along axes on which the base depends are added to the base."""
        shape = getattr(base, "shape", ())
        kept = []
        for axis, c in sorted(coefs.items()):
            if not c:
                continue
            if len(shape) and shape[axis] > 1:
                base = base + self.positions(axis, kind) * kind.dtype.type(kind.wrap(c))
                known = total(known, (c, 0))
            else:
                kept.append((axis, c))
        if not kept and isinstance(base, int):
            return static(kind, base)
        return Scalar(kind, base, tuple(kept), low, high, (), within(kind, low, high, known))

    def _bits(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        kind = a.type
        if a.static and b.static:
            return static(kind, _BITS[op](int(a.base), int(b.base)))
        if op == "&" and kind is not BOOL:
            for x, y in ((a, b), (b, a)):
                if y.static and int(y.base) >= 0 and not (int(y.base) + 1) & int(y.base):
                    low, _ = self.bounds(x)
                    if low is not None and low >= 0:
                        return self._quotient("%", x, static(kind, int(y.base) + 1)) if int(y.base) < kind.high else x
                    return self.make(kind, self.array(x) & self.array(y), 0, int(y.base))
        low = high = None
        (al, ah), (bl, bh) = self.bounds(a), self.bounds(b)
        if al is not None and bl is not None and al >= 0 and bl >= 0:
            assert ah is not None
            assert bh is not None
            low, high = 0, min(ah, bh) if op == "&" else (1 << max(ah.bit_length(), bh.bit_length())) - 1
        return self.make(kind, _BITS[op](self.array(a), self.array(b)), low, high)

    def shift(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """`<<` and `>>`: the count is taken modulo the width."""
        kind = a.type
        if b.static:
            count = int(b.base) & (kind.bits - 1)
            if op == "<<":
                return self._ring("*", a, Scalar(kind, 1 << count, (), 1 << count, 1 << count))
            if a.static:
                return static(kind, int(a.base) >> count)
            low, high = self.bounds(a)
            if low is not None and low >= 0:
                return self._quotient("/", a, static(kind, 1 << count)) if count < kind.bits - 1 else static(kind, 0)
            return self.make(kind, self.space.shift_right(self.array(a), kind.dtype.type(count)))
        count = self.array(self._bits("&", self.convert(b, kind), static(kind, kind.bits - 1)))
        x = self.array(a)
        if op == "<<":
            return self.make(kind, x << count)
        low, high = self.bounds(a)
        known = (0, high) if low is not None and low >= 0 else (None, None)
        return self.make(kind, self.space.shift_right(x, count), *known)

    def _quotient(self, op: str, a: Scalar, b: Scalar) -> Scalar:
        """/ and % of integers."""
        kind = a.type
        if a.static and b.static and int(b.base):
            x, y = int(a.base), int(b.base)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return static(kind, quotient if op == "/" else x - quotient * y)
        low, high = self.bounds(a)
        if b.static and int(b.base) > 0 and low is not None and low >= 0:
            assert high is not None
            c = int(b.base)
            if high < c:
                return a if op == "%" else static(kind, 0)
            if c == 1:
                return a if op == "/" else static(kind, 0)
            parts = self._divided(a, c)
            if parts is not None:
                return parts[op == "%"]
            limits = (low // c, high // c) if op == "/" else (0, min(c - 1, high))
        else:
            (bl, bh) = self.bounds(b)
            limits: Any = (None, None)
            if low is not None and low >= 0 and bl is not None and bl > 0:
                assert high is not None
                assert bh is not None
                limits = (0, high // bl) if op == "/" else (0, min(high, bh - 1))
        x, y = self.array(a), self.array(b)
        return self.make(kind, (self.space.divide if op == "/" else self.space.remainder)(x, y), *limits)

    def _divided(self, a: Scalar, c: int) -> tuple[Scalar, Scalar] | None:
        """Return the quotient and the remainder in affine form, or None. May raise Resplit for an axis."""
        extents, kind = self.axes.extents, a.type
        whole = {axis: k for axis, k in a.coefs if k % c == 0}
        rest = {axis: k for axis, k in a.coefs if k % c}
        if isinstance(a.base, int):
            quotient, base = divmod(a.base, c)
            low = high = base
        else:
            quotient, base = 0, a.base
            assert a.low is not None
            assert a.high is not None
            low = a.low - sum(min(0, k * (extents[axis] - 1)) for axis, k in a.coefs)
            high = a.high - sum(max(0, k * (extents[axis] - 1)) for axis, k in a.coefs)
        known = a.known
        if not isinstance(base, int) and known[0] % c == 0 and low >= 0:
            remainder = known[1] % c  # the base may be divided by itself
            rounded = self._add(base, remainder, kind, "-")
            quotient, base = self.space.divide(rounded, self.space.asarray(c, kind.dtype)), remainder
            known = (known[0] // c, known[1] // c)
            low = high = remainder
        low += sum(min(0, k * (extents[axis] - 1)) for axis, k in rest.items())
        high += sum(max(0, k * (extents[axis] - 1)) for axis, k in rest.items())
        if low < 0 or high >= c:
            for axis, k in rest.items():
                self.axes.want_split(axis, k, c)
            return None
        assert a.low is not None
        assert a.high is not None
        over = {axis: k // c for axis, k in whole.items()}
        return (
            self._affine(kind, quotient, over, a.low // c, a.high // c, known),
            self._affine(kind, base, rest, low, high, known),
        )

    def unary(self, op: str, a: Scalar) -> Scalar:
        """Apply the unary operator `+`, `-`, `~` or `!`."""
        if op == "!":
            return self.compare("==", a, static(a.type, 0)) if a.type is not BOOL else self.negate(a)
        kind = promoted(a.type)
        a = self.convert(a, kind)
        if op == "+":
            return a
        if op == "-":
            if kind.kind == "f":
                return self.make(kind, -self.array(a))
            return self._ring("-", static(kind, 0), a)
        return self._ring("-", static(kind, -1), a)

    def select(self, mask: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """Return `mask ? a : b` for scalars of the same type."""
        if a is b or mask.static:
            return a if a is b or mask.base else b
        if (
            a.static
            and b.static
            and a.base == b.base
            and (a.type.kind != "f" or np.signbit(a.base) == np.signbit(b.base))
        ):
            return a
        low = high = None
        if a.low is not None and b.low is not None and a.high is not None and b.high is not None:
            low, high = min(a.low, b.low), max(a.high, b.high)
        kind = a.type
        if a.coefs == b.coefs and a.coefs and not self._depends(mask.base, a.coefs):
            base = self.space.where(mask.base, self._plain(a), self._plain(b))
            return Scalar(kind, base, a.coefs, low, high, (), joined(a.congruence, b.congruence))
        known = joined(self.whole(a), self.whole(b)) if kind.kind in "ui" else UNKNOWN
        return self.make(kind, self.space.where(mask.base, self.array(a), self.array(b)), low, high, known)

    def _plain(self, a: Scalar) -> Any:
        return a.type.dtype.type(a.type.wrap(a.base)) if isinstance(a.base, int) else a.base

    def _depends(self, array: Any, coefs: Sequence[tuple[int, int]]) -> bool:
        shape = getattr(array, "shape", ())
        return bool(len(shape)) and any(shape[axis] > 1 for axis, _ in coefs)

    def guarded(self, mask: Scalar, a: Scalar) -> Scalar:
        """Return the value for use by the threads of a mask. The other threads send no cotangent back to it."""
        if mask.static or not self.space.traced or a.type.kind != "f" or isinstance(a.base, np.generic):
            return a
        return Scalar(a.type, self.space.guard(mask.base, a.base))


def _bounds_of(op: str, a: Scalar, b: Scalar) -> tuple[int | None, int | None]:
    """Return the bounds of a sum, difference or product of integers without wrap-around."""
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return None, None
    if op == "+":
        return a.low + b.low, a.high + b.high
    if op == "-":
        return a.low - b.high, a.high - b.low
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)
