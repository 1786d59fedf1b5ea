"""Local variables that are read and written as values of another type, through a pointer that was cast."""

from __future__ import annotations

from typing import Any

from .errors import Problem
from .places import Place
from .types import INT, SCALARS, ArrayType, ScalarType, StructType, Type, VectorType, scalar_leaves, size_of
from .values import Array, Scalar, Value, leaves, rebuild, static

__all__ = ["ViewPlace"]


class ViewPlace(Place):
    """Values of a type at the place of others: `((thread float4*)array)[offset]`.

    Args:
        type: the type that is read.
        of: the variable; all its numbers are of one type.
        offset: the index of the first value, in values of the type.
    """

    __slots__ = ("of", "offset")

    def __init__(self, type: Type, of: Place, offset: Scalar) -> None:
        self.type, self.of, self.offset = type, of, offset
        if len(set(scalar_leaves(of.type))) != 1 or len(set(scalar_leaves(type))) != 1:
            raise Problem(f"a pointer to {of.type} is read as one to {type}, which is not in the supported language")

    def get(self, walk: Any) -> Value:
        old, new = scalar_leaves(self.of.type)[0], scalar_leaves(self.type)[0]
        kinds = scalar_leaves(self.type)
        if old.bits <= new.bits:
            ratio = new.bits // old.bits
            parts = [self._source(walk, k, len(kinds) * ratio).get(walk) for k in range(len(kinds) * ratio)]
            numbers = [walk.bits_as(_array(parts[k : k + ratio]), new) for k in range(0, len(parts), ratio)]
        else:
            numbers = [self._piece(walk, k, old, new) for k in range(len(kinds))]
        return rebuild(walk.zero(self.type), iter(numbers))

    def set(self, walk: Any, value: Value) -> None:
        old, new = scalar_leaves(self.of.type)[0], scalar_leaves(self.type)[0]
        numbers = leaves(value)
        if old.bits > new.bits:
            for k, part in enumerate(numbers):
                self._put_piece(walk, k, old, new, part)
            return
        ratio = new.bits // old.bits
        for k, part in enumerate(numbers):
            bits = walk.bits_as(part, old if ratio == 1 else VectorType(old, ratio, True))
            for j, piece in enumerate(leaves(bits)):
                self._source(walk, k * ratio + j, len(numbers) * ratio).set(walk, piece)

    def _source(self, walk: Any, k: int, count: int) -> Place:
        """Return the place of element `k` of the value that the view covers. A vector of three takes the memory of
        four."""
        count = size_of(self.type) // (size_of(scalar_leaves(self.of.type)[0])) if count > 1 else count
        start = walk.n.binary("*", self.offset, static(walk.index_type, count))
        return _number(walk, self.of, walk.n.binary("+", start, static(walk.index_type, k)))

    def _at(self, walk: Any, k: int, old: ScalarType, new: ScalarType) -> tuple[Place, Scalar]:
        """Return the place of the stored number that contains element `k`, and the element's position there in bits."""
        ratio = static(walk.index_type, old.bits // new.bits)
        start = walk.n.binary("*", self.offset, static(walk.index_type, size_of(self.type) * 8 // new.bits))
        index = walk.n.binary("+", start, static(walk.index_type, k))
        shift = walk.n.binary("*", walk.n.binary("%", index, ratio), static(INT, new.bits))
        return _number(walk, self.of, walk.n.binary("/", index, ratio)), shift

    def _piece(self, walk: Any, k: int, old: ScalarType, new: ScalarType) -> Value:
        place, shift = self._at(walk, k, old, new)
        whole = walk.bits_as(place.get(walk), _unsigned(old))
        return walk.bits_as(walk.n.convert(walk.n.shift(">>", whole, shift), _unsigned(new)), new)

    def _put_piece(self, walk: Any, k: int, old: ScalarType, new: ScalarType, part: Scalar) -> None:
        n, wide = walk.n, _unsigned(old)
        place, shift = self._at(walk, k, old, new)
        whole = walk.bits_as(place.get(walk), wide)
        hole = n.shift("<<", static(wide, (1 << new.bits) - 1), shift)
        kept = n.same_type("&", whole, n.convert(n.unary("~", hole), wide))
        shifted = n.shift("<<", n.convert(walk.bits_as(part, _unsigned(new)), wide), shift)
        place.set(walk, walk.bits_as(n.same_type("|", kept, n.convert(shifted, wide)), old))


def _unsigned(of: ScalarType) -> ScalarType:
    return SCALARS[f"uint{of.bits}_t"]


def _array(parts: list[Any]) -> Value:
    return parts[0] if len(parts) == 1 else Array(parts[0].type, tuple(parts))


def _number(walk: Any, of: Place, index: Scalar) -> Place:
    """Return the place of a number within a variable. The index counts the numbers of all its parts."""
    kind = of.type
    if isinstance(kind, StructType):
        if not index.static:
            raise Problem(f"a number within a {kind} is chosen by what is not known")
        left = int(index.base)
        for name, field in kind.fields:
            count = len(scalar_leaves(field))
            if left < count:
                return _number(walk, walk.member(of, name), static(INT, left))
            left -= count
        raise Problem(f"a place behind the end of a {kind} is read")
    if not isinstance(kind, (ArrayType, VectorType)):
        return of
    if isinstance(kind.element, ScalarType):
        return walk.element(of, index)
    inner = static(walk.index_type, size_of(kind.element) // size_of(scalar_leaves(kind.element)[0]))
    return _number(walk, walk.element(of, walk.n.binary("/", index, inner)), walk.n.binary("%", index, inner))
