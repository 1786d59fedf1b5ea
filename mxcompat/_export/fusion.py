"""The fusion of MLX's `compile`: elementwise primitives that are read only within their section become one primitive.

XLA does its own fusion when it runs a program. This module only reproduces MLX's, for drawings by `export_to_dot`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from mxcompat._graph.ir.aval import Aval

__all__ = ["Primitive", "fused"]


class Primitive(NamedTuple):
    """A primitive, its operands and its results."""

    name: str
    inputs: tuple
    results: tuple
    arguments: list[Any]

    @property
    def number(self) -> int:
        """The number of the primitive in its graph."""
        return self.results[0][1]


_FUSED = frozenset((
    "Abs", "Add", "ArcCos", "ArcCosh", "ArcSin", "ArcSinh", "ArcTan", "ArcTan2", "ArcTanh", "AsType", "BitwiseBinary",
    "BitwiseInvert", "Broadcast", "Ceil", "Conjugate", "Cos", "Cosh", "Divide", "Equal", "Erf", "ErfInv", "Exp",
    "Expm1", "Floor", "FloorDivide", "Greater", "GreaterEqual", "Imag", "Less", "LessEqual", "Log", "Log1p",
    "LogAddExp", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum", "Minimum", "Multiply", "Negative", "NotEqual",
    "Power", "Real", "Remainder", "Round", "Select", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Square", "Subtract",
    "Tan", "Tanh",
))  # fmt: skip

_DEPTH = 11
"""Maximum distance of a primitive from the last one of its section."""


def fused(
    tape: Sequence[Primitive], outputs: Collection[Any], avals: Mapping[Any, Aval], label: Callable[[Primitive], str]
) -> list[Primitive]:
    """Fuse primitives as MLX does, and return them in an order in which they can run.

    Args:
        tape: the primitives, in an order in which they can run.
        outputs: the values that are needed.
        avals: the avals of all values.
        label: returns the label of a primitive.
    """
    return _Fusion(tape, outputs, avals, label).run()


class _Fusion:
    def __init__(
        self, tape: Sequence[Primitive], outputs: Collection[Any], avals: Mapping[Any, Aval],
        label: Callable[[Primitive], str],
    ) -> None:  # fmt: skip
        self._tape, self._outputs, self._avals, self._label = tape, {*outputs}, avals, label
        self._producer = {value: p for p in tape for value in p.results}
        self._readers: dict[Any, set[Any]] = {value: set() for value in self._producer}
        for p in tape:
            for value in p.inputs:
                self._readers.get(value, set()).add(p.results[0])

    def run(self) -> list[Primitive]:
        fused: list[Primitive] = []
        done: set[Any] = set()
        for p in reversed(self._tape):
            last = p.results[0]
            if last in done or (p.name == "Broadcast" and not self._readers[last] and last not in self._outputs):
                continue
            section, copies = self._section(last)
            if len(section) + len(copies) <= 1:
                fused.append(p)
                continue
            values, inputs = self._parts(last, section, copies)
            names = "".join([self._label(self._producer[value]) for value in values])
            others = [value for value in values[:-1] if value in self._outputs and value in section]
            fused.append(Primitive(f"Compiled{names}", tuple(inputs), (*others, last), []))
            done |= section
            for reader, value in copies:
                self._readers[value].discard(reader)
        return fused[::-1]

    def _section(self, last: Any) -> tuple[set[Any], dict[tuple, int]]:
        """Return the section that ends with this value's producer: a set of values whose primitives are fused into one.

        Also return the broadcasts that the section copies because other primitives read them, too, as (reader, value)
        pairs.
        """
        section: set[Any] = set()
        copies: dict[tuple, int] = {}
        shape = self._avals[last].shape

        def visit(value: Any, depth: int) -> None:
            producer = self._producer.get(value)
            if value in section or depth >= _DEPTH or producer is None or producer.name not in _FUSED:
                return
            if value in self._outputs and self._avals[value].shape != shape:
                return
            readers = {r for r in self._readers[value] if (r, value) not in copies}
            if not depth or readers <= section:
                section.add(value)
            elif producer.name == "Broadcast":
                copies.update(dict.fromkeys([(r, value) for r in readers & section], len(copies)))
            else:
                return
            for operand in producer.inputs:
                visit(operand, depth + 1)

        visit(last, 0)
        return section, copies

    def _parts(self, last: Any, section: set[Any], copies: dict[tuple, int]) -> tuple[list[Any], list[Any]]:
        """Return the values of a section in the order in which they are made, and the section's inputs."""
        values: list[Any] = []
        met: set[tuple] = set()
        inputs: dict[Any, None] = {}

        def visit(value: Any, reader: Any) -> None:
            copy = copies.get((reader, value))
            if copy is None and value not in section:
                inputs[value] = None
            elif (value, copy) not in met:
                met.add((value, copy))
                for operand in self._producer[value].inputs:
                    visit(operand, value)
                values.append(value)

        visit(last, None)
        return values, [*inputs]
