"""The state of the walk: the mask of active threads, variables and memory; and stores of values.

All threads run in lockstep. The mask holds the threads that are active at the current statement. Branches and exits
narrow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import bounds
from .arrays import LocalArrays
from .buffers import Memory, Shifted, as_index
from .errors import Place as TextPlace
from .errors import Problem
from .memory import Traffic
from .numbers import Numbers
from .places import Place, Scope
from .space import Space
from .types import (
    BOOL,
    COMPLEX,
    INT,
    ArrayType,
    PointerType,
    ScalarType,
    StructType,
    Type,
    VectorType,
    alignment,
    common,
    scalar_leaves,
    size_of,
)  # fmt: skip
from .values import (
    TRUE,
    Array,
    Cell,
    Either,
    NoValue,
    Pointer,
    Scalar,
    Stack,
    Struct,
    Value,
    Vector,
    leaves,
    rebuild,
    static,
)  # fmt: skip

__all__ = ["Records", "WalkBase"]


class Records:
    """Memory of structs, with a separate buffer for each field."""

    __slots__ = ("parts", "type")

    def __init__(self, type: StructType, parts: tuple[Any, ...]) -> None:
        self.type, self.parts = type, parts


class WalkBase(LocalArrays):
    """The state of a walk."""

    index_type = INT
    checked = False

    def __init__(self, space: Space, n: Numbers) -> None:
        self.space, self.n, self.axes = space, n, n.axes
        self.traffic = Traffic(n)
        self.mask: Scalar = TRUE
        self.depth = 0
        self.cells = self.group_cells = 0
        self.logs: list[dict[Any, Any]] = []
        self.scope = Scope()
        self.place_now: TextPlace | None = None
        # the iteration of a loop that is being traced; its arrays cannot be used outside of it
        self.trace: object = None

    def cell(self, value: Any, const: bool = False) -> Cell:
        """Return a new variable."""
        self.cells += 1
        return Cell(value, self.depth, self.cells, self.mask, const)

    def log(self, cell: Any, old: Any) -> None:
        """Record the old value of a cell that is about to change, for the innermost loop."""
        if self.logs and cell not in self.logs[-1]:
            self.logs[-1][cell] = old

    def read_cell(self, cell: Cell) -> Value:
        """Return the value of a variable for use by the threads of the mask."""
        if cell.value is None:
            raise Problem("this variable has no value here")
        if not self.space.traced or cell.mask is self.mask or self.mask.static:
            return cell.value
        by = (self.mask, cell.value, self.trace)
        if cell.guarded is None or any(a is not b for a, b in zip(cell.guarded[0], by, strict=True)):
            cell.guarded = (by, self.guarded(cell.value))
        return cell.guarded[1]

    def guarded(self, value: Value) -> Value:
        """Return the value for use by the threads of the mask. The other threads send no cotangent back to it."""
        if isinstance(value, Stack):
            kinds = scalar_leaves(value.element)
            arrays = [
                self.space.guard(self.mask.base, a) if t.kind == "f" else a
                for a, t in zip(value.arrays, kinds, strict=True)
            ]
            return Stack(value.element, value.type.count, tuple(arrays))  # type: ignore[attr-defined]
        old = leaves(value)
        new = [self.n.guarded(self.mask, leaf) if isinstance(leaf, Scalar) else leaf for leaf in old]
        return value if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(value, iter(new))

    def assign_cell(self, cell: Cell, value: Value) -> None:
        """Assign to a variable in the threads of the mask. The other threads keep the old value."""
        if self.mask.static and not self.mask.base:
            return
        self.log(cell, cell.value)
        if cell.depth != self.depth and cell.value is not None:
            value = self.select(self.mask, value, cell.value)
        cell.value, cell.mask, cell.guarded = value, self.mask, None

    def select(self, mask: Scalar, a: Value, b: Value) -> Value:
        """Return `mask ? a : b` for values of the same type."""
        if a is b:
            return a
        if mask.static:
            return a if mask.base else b
        a, b = self.alike(a, b)
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.target is not b.target:
            if a.target is None or b.target is None:
                return b if a.target is None else a
            return Pointer(a.type.element, Either(mask, a, b), static(self.index_type, 0))  # type: ignore[attr-defined]
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.offset.type is not b.offset.type:
            of = common(a.offset.type, b.offset.type)
            a, b = (Pointer(p.type.element, p.target, self.n.convert(p.offset, of)) for p in (a, b))  # type: ignore[attr-defined]
        xs, ys = leaves(a), leaves(b)
        if len(xs) != len(ys):
            raise Problem("the values of two branches have different types")
        return rebuild(a, iter([self._chosen(mask, x, y) for x, y in zip(xs, ys, strict=True)]))

    def _chosen(self, mask: Scalar, a: Any, b: Any) -> Any:
        if isinstance(a, Scalar):
            return self.n.select(mask, a, b)
        return a if a is b else self.space.where(mask.base, a, b)

    def peek(self, place: Place) -> Value:
        """Return the value of a place without a mask, so that a part of it can be replaced."""
        from .places import CellPlace, PartPlace

        if isinstance(place, CellPlace):
            return place.cell.value
        if isinstance(place, PartPlace):
            whole = self.peek(place.of)
            if not isinstance(whole, Stack):
                return whole.parts[place.position]  # type: ignore[attr-defined]
        return place.get(self)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """Open a nested scope for the duration of a context."""
        outer, self.scope = self.scope, Scope(self.scope)
        try:
            yield
        finally:
            self.scope = outer

    def zero(self, type: Type, plain: bool = False) -> Value:
        """Return the value of an uninitialized variable: zeros. It is a `Stack` for a large array, unless `plain` is
        set."""
        if isinstance(type, ScalarType):
            return static(type, 0)
        if isinstance(type, VectorType):
            return Vector(type, (static(type.element, 0),) * type.count)
        if isinstance(type, StructType):
            return Struct(type, tuple([self.zero(t, plain) for _, t in type.fields]))
        if isinstance(type, ArrayType):
            from mxcompat._graph import policy

            if type.count > policy.MOST_REGISTERS and scalar_leaves(type.element) and not plain:
                return self.empty_stack(type)
            return Array(type.element, (self.zero(type.element, plain),) * type.count, type)
        if isinstance(type, PointerType):
            return Pointer(type.element, None, static(self.index_type, 0))
        return NoValue(type)

    def empty_stack(self, type: ArrayType) -> Stack:
        shape = (type.count,) + (1,) * self.axes.rank
        arrays = tuple([self.space.xp.zeros(shape, leaf.dtype) for leaf in scalar_leaves(type.element)])
        return Stack(type.element, type.count, arrays)

    def check_local(self, type: ArrayType | VectorType, index: Scalar, verb: str) -> None:
        """Check an index into a local array or a vector, if indices are checked."""
        if self.checked:
            bounds.check_index(self, f"element {{}} of a {type}", type.count, index, verb)

    def load(self, memory: Any, type: Type, index: Scalar) -> Value:
        """Return the values that active threads read, with 0 for an index out of bounds."""
        if isinstance(type, ScalarType):
            if self.checked:
                bounds.check(self, memory, type, index, "reads")
            loaded = self.n.make(type, self.traffic.read(memory, type, as_index(self.n, index)))
            if type in (BOOL,) or (type.kind in "ui" and type.bits < 32):
                loaded.low, loaded.high = (loaded.low, loaded.high) if loaded.static else (type.low, type.high)
            return self.n.guarded(self.mask, loaded)
        parts = [self.load(m, t, i) for m, t, i in self.parts(memory, type, index)]
        if isinstance(type, VectorType):
            return Vector(type, tuple(parts))  # type: ignore[arg-type]
        if isinstance(type, StructType):
            return Struct(type, tuple(parts))
        if isinstance(type, ArrayType):
            return Array(type.element, tuple(parts), type)
        raise Problem(f"a value of type {type} cannot be read from memory")

    def store(self, memory: Any, type: Type, index: Scalar, value: Value) -> None:
        """Write the values of active threads to memory."""
        if isinstance(type, ScalarType):
            assert isinstance(value, Scalar)
            if memory.const:
                raise Problem(f"{memory.name} cannot be written to")
            if self.checked:
                bounds.check(self, memory, type, index, "writes")
            self.log(memory, memory.held)
            self.traffic.write(memory, type, as_index(self.n, index), self.n.array(value), self.mask)
            return
        for (m, t, i), part in zip(self.parts(memory, type, index), value.parts, strict=True):  # type: ignore[attr-defined]
            self.store(m, t, i, part)

    def parts(self, memory: Any, type: Type, index: Scalar) -> list[tuple[Any, Type, Scalar]]:
        """Return the memory, the type and the index of each part of a vector, struct or array in memory."""
        n, of = self.n, self.index_type
        if isinstance(type, VectorType):
            start = n.binary("*", index, static(of, type.room))
            if isinstance(memory, Shifted):
                start, memory = index, memory.memory
            return [(memory, type.element, n.binary("+", start, static(of, k))) for k in range(type.count)]
        if isinstance(type, ArrayType):
            start = n.binary("*", index, static(of, type.count))
            return [(memory, type.element, n.binary("+", start, static(of, k))) for k in range(type.count)]
        if isinstance(type, StructType):
            if isinstance(memory, Records):
                return [(m, t, index) for m, (_, t) in zip(memory.parts, type.fields, strict=True)]
            return self._fields_in_buffer(memory, type, index)
        raise Problem(f"a value of type {type} cannot be in memory")

    def _fields_in_buffer(self, memory: Memory, type: StructType, index: Scalar) -> list[tuple[Any, Type, Scalar]]:
        """Return the memory, the type and the index of each field of a struct in a buffer, by C's memory layout."""
        fields: list[tuple[Any, Type, Scalar]] = []
        size, offset = size_of(type), 0
        for _, t in type.fields:
            align = alignment(t)
            offset = 0 if type.union else -(-offset // align) * align
            unit = size_of(t)
            if size % unit or offset % unit:
                raise Problem(f"the field of type {t} of {type} does not lie at a multiple of its size in memory")
            scaled = self.n.binary("*", index, static(self.index_type, size // unit))
            fields.append((memory, t, self.n.binary("+", scaled, static(self.index_type, offset // unit))))
            offset += unit
        return fields

    def group_memory(self, name: str, type: Type, count: int) -> Any:
        """Return zeroed memory for `count` elements of a type in each group."""
        if isinstance(type, ArrayType):
            return self.group_memory(name, type.element, count * type.count)
        if isinstance(type, StructType) and type is not COMPLEX:
            parts = [self.group_memory(f"{name}.{field}", t, count) for field, t in type.fields]
            return Records(type, tuple(parts))
        if isinstance(type, VectorType):
            return self.group_memory(name, type.element, count * type.room)
        if type is COMPLEX:
            return self.group_memory(name, COMPLEX.fields[0][1], count * 2)
        if not isinstance(type, ScalarType):
            raise Problem(f"threadgroup memory of type {type} is not in the supported language")
        shape = (*self.axes.extents[: self.axes.batch], count)
        # unlike a variable's key, this one is negative: every loop carries this memory, even a loop that declares it
        self.group_cells -= 1
        return Memory(
            name, type, None if self.space.traced else self.space.xp.zeros(shape, type.dtype), self.axes.batch,
            self.group_cells, initial=lambda: self.space.xp.zeros(shape, type.dtype),
        )  # fmt: skip
