"""Local arrays in the walk. They are values, one for each element, or a stack, whose index need not be known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .axes import Axes
from .buffers import as_index
from .errors import Problem
from .numbers import Numbers
from .places import Place, with_parts
from .space import Space
from .types import ScalarType, scalar_leaves
from .values import Array, Pointer, Scalar, Stack, Struct, Value, Vector, leaves, rebuild, static

__all__ = ["LocalArrays"]


class LocalArrays:
    """Local arrays."""

    # The subclasses define these names.
    axes: Axes
    index_type: ScalarType
    mask: Scalar
    n: Numbers
    space: Space
    zero: Callable[..., Value]

    def alike(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Convert matching local arrays in two values to the same form. If one of them is a stack, both become one."""
        if isinstance(a, (Array, Stack)) and isinstance(b, (Array, Stack)) and type(a) is not type(b):
            return self.as_stack(a), self.as_stack(b)
        if isinstance(a, (Array, Struct)) and type(a) is type(b) and len(a.parts) == len(b.parts):  # type: ignore[attr-defined]
            pairs = [self.alike(x, y) for x, y in zip(a.parts, b.parts, strict=True)]  # type: ignore[attr-defined]
            first, second = (tuple([pair[k] for pair in pairs]) for k in range(2))
            if any(x is not y for x, y in zip((*a.parts, *b.parts), (*first, *second), strict=True)):  # type: ignore[attr-defined]
                return with_parts(a, first), with_parts(b, second)
        return a, b

    def unstacked(self, value: Value) -> Value:
        """Return the value with every local array as an `Array` of separate elements, not as a stack."""
        if isinstance(value, Stack):
            index = [static(self.index_type, k) for k in range(value.type.count)]  # type: ignore[attr-defined]
            return Array(value.element, tuple([self.stack_element(value, k) for k in index]))
        if isinstance(value, (Array, Struct)):
            return with_parts(value, tuple([self.unstacked(part) for part in value.parts]))
        return value

    def as_stack(self, value: Value) -> Stack:
        """Return a local array as a stack: arrays with an axis of elements."""
        if isinstance(value, Stack):
            return value
        if not isinstance(value, Array) or not value.parts:
            raise Problem("this value has no elements")
        kinds = scalar_leaves(value.type.element)  # type: ignore[attr-defined]
        rows = [leaves(self.unstacked(part)) for part in value.parts]
        if not kinds or any(isinstance(p, Pointer) for p in value.parts):
            raise Problem("an array of pointers is indexed by what is not known")
        arrays = []
        for k, kind in enumerate(kinds):
            parts = [self.space.asarray(self.n.array(row[k]), kind.dtype) for row in rows]
            shape = [1] * self.axes.rank
            for part in parts:
                for axis, size in enumerate(part.shape if part.ndim else ()):
                    shape[axis] = max(shape[axis], size)
            arrays.append(self.space.xp.stack([self.space.broadcast(part, shape) for part in parts]))
        return Stack(value.type.element, len(value.parts), tuple(arrays))  # type: ignore[attr-defined]

    def stacked(self, place: Place) -> Stack:
        """Return the value of a place, a local array or a vector, as a stack."""
        walk: Any = self
        value = place.get(walk)
        if isinstance(value, Vector):
            value = Array(value.type.element, value.parts)
        return self.as_stack(value)

    def stack_element(self, whole: Stack, index: Scalar) -> Value:
        """Return an element of a local array, or 0 if the index is out of bounds."""
        count = whole.type.count  # type: ignore[attr-defined]
        kinds = scalar_leaves(whole.element)
        index = as_index(self.n, index)
        elements = []
        for array, kind in zip(whole.arrays, kinds, strict=True):
            elements.append(self.n.make(kind, self._element(array, count, index)))
        return rebuild(self.zero(whole.element, plain=True), iter(elements))

    def _element(self, array: Any, count: int, index: Scalar) -> Any:
        xp = self.space.xp
        if index.static:
            i = int(index.base)
            return array[i] if 0 <= i < count else xp.zeros_like(array[0])
        where = self.space.asarray(self.n.array(index))
        inside = (where >= 0) & (where < count)
        known = index.low is not None and index.high is not None and index.low >= 0 and index.high < count
        safe = where if known else xp.clip(where, 0, count - 1)
        if where.size == 1:
            elements = array[safe.reshape(())]
        else:
            shape = list(where.shape)
            for axis, size in enumerate(array.shape[1:]):
                shape[axis] = max(shape[axis], size)
            wide = self.space.broadcast(array, (count, *shape))
            elements = xp.take_along_axis(wide, self.space.broadcast(safe, shape)[None], 0)[0]
        return elements if known else self.space.where(inside, elements, elements.dtype.type(0))

    def stack_update(self, whole: Stack, index: Scalar, value: Value) -> Stack:
        """Return a local array with an element replaced in all threads. Its assignment applies the mask."""
        index = as_index(self.n, index)
        count = whole.type.count  # type: ignore[attr-defined]
        arrays = []
        for array, leaf in zip(whole.arrays, leaves(self.unstacked(value)), strict=True):
            arrays.append(self._replaced(array, count, index, self.n.array(leaf)))
        return Stack(whole.element, count, tuple(arrays))

    def _replaced(self, array: Any, count: int, index: Scalar, value: Any) -> Any:
        xp = self.space.xp
        value = self.space.asarray(value, array.dtype)
        where = self.n.array(index)
        mask = self.mask.base
        shape = list(array.shape[1:])
        parts = [value.shape, getattr(where, "shape", ()), getattr(mask, "shape", ())]
        for part in parts:
            for axis, size in enumerate(part):
                shape[axis] = max(shape[axis], size)
        wide = array if tuple(shape) == array.shape[1:] else self.space.broadcast(array, (count, *shape))
        value = self.space.broadcast(value, shape)
        if index.static:
            i = int(index.base)
            if not 0 <= i < count:
                return array
            if self.space.traced:
                return wide.at[i].set(value)
            updated = wide.copy()
            updated[i] = value
            return updated
        where = self.space.asarray(where)
        if self.space.traced and where.size == 1:
            return wide.at[where.reshape(())].set(value, mode="drop", wrap_negative_indices=False)
        here = xp.arange(count, dtype=np.int32).reshape(count, *[1] * len(shape)) == where[None]
        return self.space.where(here, value[None], wide)

    def vector_update(self, whole: Vector, index: Scalar, value: Value) -> Vector:
        """Return a vector with the component at an unknown position replaced."""
        assert isinstance(value, Scalar)
        index = as_index(self.n, index)
        parts = [
            self.n.select(self.n.compare("==", index, static(index.type, k)), value, part)
            for k, part in enumerate(whole.parts)
        ]
        return Vector(whole.type, tuple(parts))
