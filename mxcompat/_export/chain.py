"""MLX's ops on a chain of its primitives: one of our ops becomes a sequence of MLX primitives.

The rule of an op (see `primitives`) uses these methods to state what MLX does, for any dtypes. As in MLX, operands are
cast to their promoted dtype and broadcast, and operations that would change nothing are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.aval import Aval, Dtype, aval, bool_, complex64, float32, int32, uint32

__all__ = ["ALL", "ANY", "MAX", "MIN", "PROD", "SUM", "Chain", "Constant", "Entry", "Group", "Member", "Part", "Source"]

ALL, ANY, SUM, PROD, MIN, MAX = range(6)
"""MLX's numbers of reductions."""


class Constant(NamedTuple):
    """A constant that MLX makes for a primitive: a number, or an array filled with it."""

    value: Any
    dtype: Dtype
    shape: tuple[int, ...] = ()


class Part(NamedTuple):
    """One of the results of a primitive; `of` is the primitive's source `~k`."""

    of: int
    number: int


Source = int | Constant | Part
"""`k` is input k of the op; `~k` is the (first) result of primitive k."""


class Group(NamedTuple):
    """A value of ours that stands for several values of MLX's. Only a `Member` selects from it."""

    parts: list[Source]


class Member(NamedTuple):
    """One value of a group. `of` is the number of the input that is the group, `number` the value's place in it."""

    of: int
    number: int


class Entry(NamedTuple):
    """An entry of a chain: a primitive's name, operands, result avals and arguments."""

    name: str
    inputs: list[Source]
    results: list[Aval]
    arguments: list[Any]


class Chain:
    """The primitives of one op.

    Args:
        in_avals: the avals of the op's inputs.
        numbers: for each input, its value if it is a Python number, else None.
        out_avals: the avals of the op's results.
        any_shape: whether the export is for any shapes. MLX then has additional primitives wherever a size matters: all
            operands are broadcast together, and elements are counted.
    """

    def __init__(
        self, in_avals: Sequence[Aval], numbers: Sequence[Any], out_avals: Sequence[Aval], any_shape: bool = False
    ) -> None:
        self.in_avals = in_avals
        self.any_shape = any_shape
        self.numbers = numbers
        self.out_avals = out_avals
        self.primitives: list[Entry] = []

    def of(self, x: Source) -> Aval:
        if isinstance(x, Constant):
            return aval(x.shape, x.dtype)
        if isinstance(x, Part):
            return self.primitives[~x.of].results[x.number]
        return self.in_avals[x] if x >= 0 else self.primitives[~x].results[0]

    def shape(self, x: Source) -> tuple[int, ...]:
        return self.of(x).shape

    def dtype(self, x: Source) -> Dtype:
        return self.of(x).dtype

    def float_of(self, x: Source) -> Dtype:
        """Return the dtype of `x`, or float32 if it is not a float."""
        dtype = self.dtype(x)
        return dtype if dtype._kind in "fc" else float32

    def add(
        self, name: str, inputs: Sequence[Source], shape: Sequence[int], *arguments: Any, dtype: Dtype | None = None
    ) -> int:
        """Append a primitive and return its result. The dtype is that of its first input by default."""
        (part,) = self.several(name, inputs, [aval(tuple(shape), dtype or self.dtype(inputs[0]))], *arguments)
        return part.of

    def several(self, name: str, inputs: Sequence[Source], results: Sequence[Aval], *arguments: Any) -> list[Part]:
        """Append a primitive with several results."""
        self.primitives.append(Entry(name, list(inputs), list(results), list(arguments)))
        return [Part(~(len(self.primitives) - 1), k) for k in range(len(results))]

    def unary(self, name: str, x: Source, *arguments: Any) -> int:
        return self.add(name, [x], self.shape(x), *arguments)

    def cast(self, x: Source, dtype: Dtype) -> Source:
        return x if self.dtype(x) is dtype else self.copy(x, dtype)

    def copy(self, x: Source, dtype: Dtype) -> int:
        """Append a cast, even if the dtype stays the same."""
        return self.add("AsType", [x], self.shape(x), dtype, dtype=dtype)

    def floating(self, x: Source) -> Source:
        return self.cast(x, self.float_of(x))

    def together(self, xs: Sequence[Source], dtype: Dtype | None = None) -> list[Source]:
        """Cast operands to one dtype (by default the promoted one), and broadcast them to one shape."""
        return self.of_one_shape(self.of_one_dtype(xs, dtype))

    def of_one_dtype(self, xs: Sequence[Source], dtype: Dtype | None = None) -> list[Source]:
        dtype = dtype or reduce(promote, [self.dtype(x) for x in xs])
        return [self.cast(x, dtype) for x in xs]

    def of_one_shape(self, xs: Sequence[Source]) -> list[Source]:
        shape = np.broadcast_shapes(*[self.shape(x) for x in xs])
        if not self.any_shape or len(xs) == 1:
            return [self.broadcast(x, shape) for x in xs]
        return [self.add("Broadcast", [x, *xs[:k], *xs[k + 1 :]], shape, shape) for k, x in enumerate(xs)]

    def but_for(self, xs: Sequence[Source], shapes: Sequence[tuple[int, ...]], axes: list[int]) -> list[Source]:
        """Broadcast operands to these shapes, which may differ only along `axes`."""
        if not self.any_shape:
            return [self.broadcast(x, shape) for x, shape in zip(xs, shapes, strict=True)]
        others = [[x, *xs[:k], *xs[k + 1 :]] for k, x in enumerate(xs)]
        return [self.add("BroadcastAxes", o, shape, axes) for o, shape in zip(others, shapes, strict=True)]

    def op(
        self, name: str, *xs: Source, arguments: Sequence[Any] = (), dtype: Dtype | None = None,
        result: Dtype | None = None,
    ) -> int:  # fmt: skip
        """Append an elementwise primitive, computed in `dtype`; the result has this dtype by default."""
        xs = tuple(self.together(xs, dtype))
        return self.add(name, xs, self.shape(xs[0]), *arguments, dtype=result)

    def test(self, name: str, *xs: Source, arguments: Sequence[Any] = (), dtype: Dtype | None = None) -> int:
        """Append an elementwise primitive whose result is bool."""
        return self.op(name, *xs, arguments=arguments, dtype=dtype, result=bool_)

    def equal(self, x: Source, y: Source, equal_nan: bool = False) -> int:
        return self.test("Equal", x, y, arguments=[equal_nan])

    def logical(self, name: str, *xs: Source) -> int:
        return self.test(name, *xs, dtype=bool_)

    def select(self, where: Source, x: Source, y: Source) -> int:
        inputs = self.of_one_shape([self.cast(where, bool_), *self.of_one_dtype([x, y])])
        return self.add("Select", inputs, self.shape(inputs[0]), dtype=self.dtype(inputs[1]))

    def constant(self, value: Any, like: Source) -> Constant:
        return Constant(value, self.dtype(like))

    def full(self, value: Source, shape: Sequence[int], dtype: Dtype | None = None) -> int:
        value = self.broadcast(value, tuple(shape))
        return self.unary("Full", self.cast(value, dtype or self.dtype(value)))

    def filled(self, value: Any, shape: Sequence[int], dtype: Dtype) -> int:
        return self.full(Constant(value, dtype), shape)

    def broadcast(self, x: Source, shape: Sequence[int]) -> Source:
        shape = tuple(shape)
        return x if self.shape(x) == shape else self.add("Broadcast", [x], shape, shape)

    def reshape(self, x: Source, shape: Sequence[int], told: Sequence[int] | None = None) -> Source:
        """Reshape. `told` is the shape as the user gave it, if it contains -1."""
        shape = tuple(shape)
        return x if self.shape(x) == shape else self.add("Reshape", [x], shape, tuple(told or shape))

    def flat(self, x: Source) -> Source:
        a = self.of(x)
        return self.flatten(x, 0, a.ndim - 1) if a.ndim else self.reshape(x, (1,))

    def flatten(self, x: Source, start: int, end: int) -> Source:
        """Merge the axes from `start` to `end`, inclusive, into one."""
        shape = self.shape(x)
        if start == end:
            return x
        return self.add("Flatten", [x], (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]), start, end)

    def unflatten(self, x: Source, axis: int, sizes: tuple[int, ...]) -> int:
        shape = self.shape(x)
        return self.add("Unflatten", [x], (*shape[:axis], *sizes, *shape[axis + 1 :]), axis, sizes)

    def transpose(self, x: Source, order: Sequence[int]) -> int:
        """Append a transpose, even if the order stays the same, as MLX does."""
        return self.add("Transpose", [x], [self.shape(x)[k] for k in order], list(order))

    def swapped(self, x: Source) -> int:
        """Swap the last two axes."""
        n = self.of(x).ndim
        return self.transpose(x, [*range(n - 2), n - 1, n - 2])

    def expand(self, x: Source, axes: Sequence[int]) -> int:
        """Insert new axes, numbered as in the result."""
        shape = list(self.shape(x))
        for k in axes:
            shape.insert(k, 1)
        return self.add("ExpandDims", [x], shape, list(axes))

    def squeeze(self, x: Source, axes: Sequence[int]) -> Source:
        axes = list(axes)
        if not axes:
            return x
        return self.add("Squeeze", [x], [n for k, n in enumerate(self.shape(x)) if k not in axes], axes)

    def concatenate(self, xs: Sequence[Source], axis: int) -> Source:
        if len(xs) == 1:
            return xs[0]
        shape = list(self.shape(xs[0]))
        shape[axis] = sum(self.shape(x)[axis] for x in xs)
        return self.add("Concatenate", self.of_one_dtype(xs), shape, axis)

    def split(self, x: Source, places: Sequence[int], axis: int) -> list[Source]:
        """Split along an axis. Like MLX, append slices instead if a place is not strictly inside the axis."""
        a = self.of(x)
        ends = list(pairwise([0, *places, a.shape[axis]]))
        if any(not 0 < place < a.shape[axis] for place in places):
            return [self.along(x, axis, *two) for two in ends]
        results = [aval((*a.shape[:axis], n - m, *a.shape[axis + 1 :]), a.dtype) for m, n in ends]
        return [*self.several("Split", [x], results, tuple(places), axis)]

    def slice(
        self, x: Source, starts: Sequence[int], stops: Sequence[int], told: Sequence[int] | None = None
    ) -> Source:
        """Slice with steps of one. `told` is the stops as MLX was given them."""
        shape = self.shape(x)
        if not any(starts) and tuple(stops) == shape:
            return x
        lengths = [b - a for a, b in zip(starts, stops, strict=True)]
        return self.add("Slice", [x], lengths, tuple(starts), tuple(told or stops), (1,) * len(shape))

    def along(self, x: Source, axis: int, start: int, stop: int) -> Source:
        """Slice one axis."""
        shape = self.shape(x)
        starts = [start if k == axis else 0 for k in range(len(shape))]
        return self.slice(x, starts, [stop if k == axis else n for k, n in enumerate(shape)])

    def turned(self, x: Source, axis: int) -> int:
        """Reverse one axis."""
        shape = self.shape(x)
        starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], stops[axis], steps[axis] = shape[axis] - 1, -shape[axis] - 1, -1
        return self.add("Slice", [x], shape, tuple(starts), tuple(stops), tuple(steps))

    def whole(self, x: Source) -> int:
        """Append a slice of the whole array, for slices whose step has no effect."""
        shape = self.shape(x)
        return self.add("Slice", [x], shape, (0,) * len(shape), shape, (1,) * len(shape))

    def update(self, x: Source, value: Source, starts: Sequence[int], mode: int = 4) -> Source:
        """Write values into a box of an array. `mode` is MLX's number for the way to combine old and new values."""
        shape, lengths = self.shape(x), self.shape(value)
        if shape == lengths:
            return self.cast(value, self.dtype(x))
        stops = [a + n for a, n in zip(starts, lengths, strict=True)]
        inputs = [x, self.cast(value, self.dtype(x))]
        return self.add("SliceUpdate", inputs, shape, mode, tuple(starts), tuple(stops), (1,) * len(shape))

    def arange(self, start: float, stop: float, step: float = 1, dtype: Dtype = int32) -> int:
        length = max(int(np.ceil((stop - start) / step)), 0)
        return self.add("Arange", [], (length,), float(start), float(stop), float(step), dtype=dtype)

    def below(self, rows: int, columns: int, k: int) -> Source:
        """Return a mask of the elements on and below diagonal `k`."""
        up, across = self.expand(self.arange(0, rows), [1]), self.expand(self.arange(-k, columns - k), [0])
        return self.test("GreaterEqual", up, across)

    def reduce(self, x: Source, kind: int, axes: Sequence[int], dtype: Dtype) -> Source:
        """Reduce axes and keep them with size 1. As in MLX, there is no primitive if they have size 1 already."""
        shape = self.shape(x)
        if all(shape[k] == 1 for k in axes) and not (self.any_shape and axes):
            return self.cast(x, dtype)
        kept = [1 if k in axes else n for k, n in enumerate(shape)]
        return self.add("Reduce", [x], kept, kind, list(axes), dtype=dtype)

    def reduced(self, x: Source, kind: int, axes: Sequence[int], keepdims: bool = False) -> Source:
        axes = sorted(axes)
        if not axes and kind in (SUM, PROD):
            return x
        dtype = bool_ if kind in (ALL, ANY) else summed_dtype(self.dtype(x)) if kind in (SUM, PROD) else self.dtype(x)
        result = self.reduce(x, kind, axes, dtype)
        return result if keepdims else self.squeeze(result, axes)

    def sum(self, x: Source, axes: Sequence[int], keepdims: bool = False) -> Source:
        return self.reduced(x, SUM, axes, keepdims)

    def mean(self, x: Source, axes: Sequence[int], keepdims: bool) -> int:
        dtype = self.float_of(x)
        total = self.cast(self.sum(x, axes, keepdims), dtype)
        return self.op("Multiply", total, self.one_over_size(x, axes, dtype))

    def one_over_size(self, x: Source, axes: Sequence[int], dtype: Dtype) -> Source:
        """Return one over the number of elements along axes."""
        if self.any_shape:
            return self._counted(x, axes, True, dtype)
        size = prod(self.shape(x)[k] for k in axes)
        return Constant(float(np.float64(1) / size) if size else float("inf"), dtype)

    def size(self, x: Source, axes: Sequence[int], dtype: Dtype) -> Source:
        """Return the number of elements along axes."""
        if self.any_shape:
            return self._counted(x, axes, False, dtype)
        return Constant(prod(self.shape(x)[k] for k in axes), dtype)

    def _counted(self, x: Source, axes: Sequence[int], inverted: bool, dtype: Dtype) -> int:
        return self.add("NumberOfElements", [x], (), list(axes), inverted, dtype, dtype=dtype)

    def squares(self, x: Source) -> Source:
        """Return the squares of the absolute values."""
        if self.dtype(x) is not complex64:
            return self.unary("Square", x)
        product = self.op("Multiply", x, self.unary("Conjugate", x))
        return self.add("Real", [product], self.shape(product), dtype=float32)

    def from_mean(self, x: Source, axes: Sequence[int]) -> int:
        """Return the deviations from the mean."""
        return self.op("Subtract", self.floating(x), self.mean(x, axes, True))

    def variance(self, x: Source, axes: Sequence[int], keepdims: bool, ddof: int) -> int:
        squares = self.squares(self.from_mean(x, axes))
        total = self.sum(squares, axes, keepdims)
        if not ddof:
            return self.op("Multiply", total, self.one_over_size(x, axes, self.dtype(squares)))
        size = self.size(x, axes, self.dtype(squares))
        freedom = self.op("Subtract", size, self.constant(ddof, squares))
        return self.op("Divide", total, self.op("Maximum", freedom, self.constant(0, squares)))

    def matmul(self, x: Source, y: Source) -> Source:
        """Multiply matrices or batches of matrices; a vector counts as a matrix."""
        x, y, gone = self.matrices(x, y)
        x, y = self.of_one_dtype([x, y])
        batch = self.shape(x)[:-2]
        if batch and self.of(y).ndim == 2 and not self.any_shape:
            rows = self.flatten(x, 0, len(batch))
            product = self.add("Matmul", [rows, y], (self.shape(rows)[0], self.shape(y)[1]))
            out: Source = self.unflatten(product, 0, self.shape(x)[:-1])
        else:
            batch = np.broadcast_shapes(batch, self.shape(y)[:-2])
            if self.of(x).ndim > 2 or self.of(y).ndim > 2:
                x, y = self.of_one_batch(x, y)
            out = self.add("Matmul", [x, y], (*batch, self.shape(x)[-2], self.shape(y)[-1]))
        return self.squeeze(out, sorted(self.of(out).ndim + k for k in gone))

    def of_one_batch(self, x: Source, y: Source) -> list[Source]:
        """Broadcast the batch axes of two operands."""
        batch = np.broadcast_shapes(self.shape(x)[:-2], self.shape(y)[:-2])
        shapes = [(*batch, *self.shape(k)[-2:]) for k in (x, y)]
        return self.but_for([x, y], shapes, [-2, -1])

    def matrices(self, x: Source, y: Source) -> tuple[Source, Source, list[int]]:
        """Turn vector operands of a product into matrices. Also return the axes to remove from the product."""
        gone = []
        if self.of(x).ndim == 1:
            x, gone = self.expand(x, [0]), [-2]
        if self.of(y).ndim == 1:
            y, gone = self.expand(y, [1]), [*gone, -1]
        return x, y, gone

    def gather(self, x: Source, indices: Sequence[Source], axes: Sequence[int], sizes: Sequence[int]) -> int:
        """Gather boxes of these sizes, at indices along some axes."""
        return self.add("Gather", [x, *indices], (*self.shape(indices[0]), *sizes), list(axes), tuple(sizes))

    def numbered(self, shape: tuple[int, ...]) -> Source:
        """Return the numbers 0, 1, … in this shape."""
        return self.reshape(self.arange(0, prod(shape), dtype=uint32), shape)
