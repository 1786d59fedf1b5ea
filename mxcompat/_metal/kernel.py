"""A kernel: its text, parsed once, and run for a grid.

The walk goes over the header and the body for each region of the grid: the whole groups, and those cut at the edges.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph import policy
from mxcompat._jax import lax

from .axes import Axes, Region, Resplit, cut_region, lane_splits, regions
from .check import check
from .congruence import reduced
from .cuda import CUDA_PRELUDE
from .errors import KernelError, Place, Problem
from .lexer import Token
from .masks import children
from .names import bind
from .numbers import Numbers
from .parse_base import BUILTIN_TEMPLATES
from .parser import Parser
from .prelude import METAL_MACROS, PRELUDE
from .preprocess import Macro, preprocess
from .signature import Input, Output, Signature
from .simd_matrices import SIMD_MATRICES, uses_simd_matrices
from .space import JaxSpace, NumpySpace, Space
from .syntax import Binary, Conditional, Declarator, Expression, Literal, Statement, Unary
from .tree import may_not_end
from .types import UINT, dtype_named
from .values import Scalar
from .walk import Walk

__all__ = ["Kernel"]


_OF_GROUPS = (
    "threadgroup", "simd", "quad", "threads_per_group", "thread_index_in", "threadIdx", "blockIdx", "blockDim",
    "__shared__", "__syncthreads", "cooperative_groups", "lane",
)  # fmt: skip


_OF_LANES = ("simd", "quad", "shfl", "_sync", "lane", "warp", "tile", "__activemask")


class Launch(NamedTuple):
    """The parameters of a run: see `Kernel.run`."""

    space: Space
    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    most_steps: int | None
    checked: bool


class Kernel:
    """A kernel that has been parsed."""

    def __init__(self, source: str, header: str, signature: Signature) -> None:
        self.source, self.header, self.signature = source, header, signature
        self.prelude_text = PRELUDE + (CUDA_PRELUDE if signature.language == "cuda" else METAL_MACROS)
        if uses_simd_matrices(header + source):
            self.prelude_text += SIMD_MATRICES
        self.forms: dict[Any, Any] = {}
        self.together = any(word in source or word in header for word in _OF_GROUPS)
        self.lanes = any(word in source or word in header for word in _OF_LANES)
        try:
            self._parse()
        except Problem as problem:
            raise self.error(problem) from None

    def _parse(self) -> None:
        macros: dict[str, Macro] = {}
        types: set[str] = set()
        templates = {name for name in BUILTIN_TEMPLATES if name not in ("vec",)} | {"vec"}
        spaces = {"metal", "fast", "precise", "std", "mlx", "cg", "cooperative_groups", "cuda", "steel", "simd_vote"}
        types |= {value.name for value in self.signature.template if value.kind == "dtype"}
        start = Place("source", 1, 1)
        parts: list[list[Statement]] = []
        for text, part in ((self.prelude_text, "prelude"), (self.header, "header"), (self.source, "source")):
            tokens = preprocess(text, part, macros, _condition)
            parser = Parser(tokens, start._replace(part=part), types, templates, spaces)
            parts.append(parser.text())
        check(parts)
        self.prelude, self.declared, self.body = parts
        self.may_not_end = any(map(may_not_end, (*self.declared, *self.body)))
        self.arrays = any(_has_arrays(statement) for statement in (*self.declared, *self.body))

    def error(self, problem: Problem, place: Place | None = None) -> KernelError:
        """Return the KernelError of a problem, at its place in the source."""
        at = problem.place or place or Place("source", 1, 1)
        text = {"source": self.source, "header": self.header, "prelude": self.prelude_text}[at.part]
        lines = text.split("\n")
        line = lines[at.line - 1] if at.line <= len(lines) else ""
        return KernelError(self.signature.name, at.line, at.column, line, problem.reason, at.part)

    def run(
        self, xp: Any, inputs: Sequence[Any], grid: tuple[int, int, int], threadgroup: tuple[int, int, int],
        init_value: float | None = None, *, most_steps: int | None = None, checked: bool = False,
        quotient: Callable[[Any, Any], Any] = operator.truediv,
    ) -> list[Any]:  # fmt: skip
        """Run the kernel.

        Args:
            xp: NumPy, to compute at once, or `jax.numpy`, to trace.
            inputs: an array for each input. An input without axes may be a NumPy scalar, which is then a constant.
            grid: the number of threads along x, y and z.
            threadgroup: the number of threads of a group along x, y and z.
            init_value: the initial value of the outputs; 0 by default.
            most_steps: the number of iterations of loops after which NumPy gives up; None for no limit.
            checked: True if NumPy should check for indices out of bounds.
            quotient: divides floats in traced code. A plain division by a constant would become a product in XLA.

        Returns:
            The outputs.

        Raises:
            KernelError: if the kernel does something outside of the supported language.
            TooLong: after `most_steps` steps of loops.
            IndexError: if `checked`, and a thread reads or writes out of bounds.
        """
        space: Space = NumpySpace() if xp is np else JaxSpace(quotient)
        group: Any = tuple([max(1, min(t, n)) for t, n in zip(threadgroup, grid, strict=True)])
        start = Launch(space, grid, group, most_steps, checked)
        flat = [self._flat(space, x, i) for x, i in zip(inputs, self.signature.inputs, strict=True)]
        outputs = [self._empty(space, o, init_value) for o in self.signature.outputs]
        if min(grid) > 0:
            with np.errstate(all="ignore"):
                for region in regions(grid, group) if self.together else [Region((0, 0, 0), (1, 1, 1), grid)]:
                    outputs = self._pieces(start, region, flat, outputs)
        return [self._shaped(space, x, o) for x, o in zip(outputs, self.signature.outputs, strict=True)]

    def _pieces(self, start: Launch, region: Region, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        """Run the threads of a region in pieces that fit into memory, and return the outputs."""
        most = policy.MOST_THREADS if start.space.traced else policy.MOST_HOST_THREADS
        if start.space.traced and self.arrays:
            most //= policy.ARRAY_SHARE
        cut = cut_region(region, most, self.together)
        if cut is None:
            return self._region(start, region, inputs, outputs)
        piece, axis, count, rest = cut
        size = (piece.groups if self.together else piece.size)[axis]
        first, last = piece.first[axis], piece.first[axis] + (count - 1) * size

        def one(k: Any, outputs: Any) -> Any:
            by = start.space.cast(k, UINT.dtype) * UINT.dtype.type(size) + UINT.dtype.type(first)
            position = Scalar(UINT, by, (), first, last, (), reduced(size, first))
            return tuple(self._region(start, piece, inputs, list(outputs), (axis, position)))

        if start.space.traced:
            results = lax.fori_loop(np.int32(0), np.int32(count), one, tuple(outputs))
        else:
            results = tuple(outputs)
            for k in range(count):
                results = one(np.asarray(k, np.int32), results)
        return self._pieces(start, rest, inputs, list(results)) if rest is not None else list(results)

    def _region(
        self, start: Launch, region: Region, inputs: list[Any], outputs: list[Any],
        moved: tuple[int, Scalar] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Return the outputs after the threads of a region have run. If `moved` is an axis and a position, the region
        begins at this position along the axis, not at `region.first`."""
        coordinates, splits = self._coordinates(region)
        while True:
            axes = Axes(coordinates, splits)
            walk = Walk(start.space, Numbers(start.space, axes), self, start.most_steps, start.checked)
            try:
                memories = bind(walk, self, region, start.grid, start.group, inputs, outputs, moved)
                walk.start()
                return [m.data for m in memories]
            except Resplit as resplit:
                splits = _split(splits, resplit, dict(coordinates))
            except Problem as problem:
                raise self.error(problem, walk.place_now) from problem

    def _coordinates(self, region: Region) -> tuple[list[tuple[str, int]], dict[str, tuple[int, ...]]]:
        """Return the names and extents of the threads' coordinates, and their initial splits."""
        x, y, z = region.size
        if not self.together:
            return [("z", z), ("y", y), ("x", x)], {}
        a, b, c = region.groups
        groups = [("gz", c), ("gy", b), ("gx", a)]
        splits = lane_splits(region.size) if self.lanes else {}
        if splits is None:  # without a split into lanes, the threads of a group get one axis
            count = -(-x * y * z // 32)
            return [*groups, ("tl", count * 32)], {"tl": (count, 32)}
        return [*groups, ("tz", z), ("ty", y), ("tx", x)], splits

    def _flat(self, space: Space, x: Any, of: Input) -> Any:
        if of.is_reference and of.dtype != "complex64":
            return x if isinstance(x, np.generic) else x.reshape(())[()] if not space.traced else x.reshape(())
        x = space.asarray(x).reshape(-1)
        return _pairs(space, x) if of.dtype == "complex64" else x

    def _empty(self, space: Space, of: Output, value: float | None) -> Any:
        count = int(np.prod(of.shape, dtype=np.int64))
        if of.dtype == "complex64":
            return _pairs(space, space.xp.full(count, value or 0, np.complex64))
        dtype = dtype_named(of.dtype)
        first = np.zeros((), dtype) if value is None else np.asarray(value).astype(dtype)
        return space.xp.full(count, first)

    def _shaped(self, space: Space, x: Any, of: Output) -> Any:
        if of.dtype == "complex64":
            if not space.traced:
                return np.ascontiguousarray(x).view(np.complex64).reshape(of.shape)
            pairs = x.reshape(-1, 2)
            return (pairs[:, 0] + 1j * pairs[:, 1]).astype(np.complex64).reshape(of.shape)
        return x.reshape(of.shape)


def _pairs(space: Space, x: Any) -> Any:
    if not space.traced:
        return np.ascontiguousarray(x).view(np.float32)
    return space.xp.stack([x.real, x.imag], -1).reshape(-1)


def _split(splits: dict[str, tuple[int, ...]], resplit: Resplit, extents: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the splits with one more. The position of a `Resplit` counts only factors above 1."""
    factors = splits.get(resplit.role, (extents[resplit.role],))
    kept = [f for f in factors if f > 1]
    n = kept[resplit.position]
    split = (*kept[: resplit.position], n // resplit.factor, resplit.factor, *kept[resplit.position + 1 :])
    return {**splits, resplit.role: split}


def _has_arrays(node: Any) -> bool:
    """Return True if a syntax tree declares local arrays."""
    if isinstance(node, Declarator) and node.dimensions and node.type.space != "threadgroup":
        return True
    return any(_has_arrays(child) for child in children(node))


def _condition(tokens: list[Token]) -> int:
    """Return the value of the condition of an `#if`."""
    parser = Parser(tokens, tokens[0].place, set(), set(), set())
    expression = parser.expression()
    if parser.token.kind != "end":
        parser.fail("expected the end of the condition")
    return _fold(expression)


def _fold(node: Expression) -> int:
    if isinstance(node, Literal):
        return int(node.value)
    if isinstance(node, Unary):
        x = _fold(node.operand)
        return {"!": int(not x), "-": -x, "~": ~x, "+": x}[node.op]
    if isinstance(node, Conditional):
        return _fold(node.then if _fold(node.condition) else node.other)
    if isinstance(node, Binary):
        a, b = _fold(node.left), _fold(node.right)
        if node.op in ("/", "%"):
            if not b:
                Problem.at(node.at, "division by zero in a condition")
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if node.op == "/" else a - quotient * b
        return int(
            {
                "+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b, "<": a < b, ">": a > b,
                "<=": a <= b, ">=": a >= b, "==": a == b, "!=": a != b, "&&": bool(a and b), "||": bool(a or b),
                "<<": a << (b & 63), ">>": a >> (b & 63),
            }[node.op]
        )  # fmt: skip
    Problem.at(node.at, "this is no condition for the preprocessor")
