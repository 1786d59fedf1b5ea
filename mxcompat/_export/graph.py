"""Programs and pending nodes as a graph of MLX's primitives and values.

A value is any hashable object: an argument, a constant, or one result of a primitive. As in MLX's exports, a simplified
graph merges primitives that are equal and have the same operands, and equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, leaf, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.run.evaluate import evaluated_on_host
from mxcompat._ops.creation.filled import full
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import STOP_GRADIENT
from mxcompat._transforms.calls import CALL, CHECKPOINT, PURE_CALL
from mxcompat._transforms.custom.derive import CUSTOM
from mxcompat._transforms.programs.batching import Mapped, mapped
from mxcompat._transforms.second_order.gradients import Derivative, gradient, tangent
from mxcompat._transforms.tracing import CONSTANT
from mxcompat._transforms.transform_ops import JVP, VJP, VMAP

from .chain import Chain, Constant, Group, Member, Part, Source
from .fusion import Primitive, fused
from .primitives import Decomposition, decompose, is_known

__all__ = ["Graph"]

DIVMOD = [TABLE["floor_divide"], TABLE["remainder"]]

_CONSISTS_OF: dict[Op, Callable[..., Mapped | Derivative | None]] = {VJP: gradient, JVP: tangent, VMAP: mapped}
_CALLS = (CALL, CHECKPOINT, CUSTOM, PURE_CALL)
"""The ops whose first parameter is the Program that they run."""


_NOT_EXPORTED = ("Copy", "StopGradient")
"""Primitives that are left out of a simplified graph."""


class Graph:
    """A growing graph.

    `avals` maps each value to its aval, and `constants` maps each constant to its node. `made_for` maps each pending
    node to the numbers of the primitives that were added for it.

    Args:
        simplified: True if equal primitives are merged.
        any_shape: True if the Programs in the graph will also be used with arrays of other shapes.
        fuses: returns the label of a primitive that is part of a fused one. If given, compiled functions are shown
            fused, as MLX runs them.
    """

    def __init__(
        self, simplified: bool, any_shape: bool = False, fuses: Callable[[Primitive], str] | None = None
    ) -> None:
        self._simplified = simplified
        self._any_shape = any_shape
        self._fuses = fuses
        self.avals: dict[Any, Aval] = {}
        self.constants: dict[Any, Node] = {}
        self.made_for: dict[Node, range] = {}
        self._made_by: dict[Any, Primitive] = {}
        self._known: dict[Any, tuple] = {}
        self._numbers: dict[Any, Any] = {}
        self._groups: dict[Any, list[Any]] = {}

    def argument(self, value: Any, a: Aval) -> Any:
        self.avals[value] = a
        return value

    def program(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        """Add a Program's primitives, and return the values of its outputs."""
        values: dict[int, Any] = {~k: value for k, value in enumerate(inputs)}
        several: dict[int, tuple] = {}
        stopped: set[int] = set()
        for slot, (op, params, slots) in enumerate(program.instructions):
            if op is STOP_GRADIENT:
                stopped.add(slot)
            part = 0
            operands = [values[s] for s in slots]
            if op is ITEM:
                several[slot], part = several[slots[0]], params[0]
            elif op in DIVMOD and stopped.intersection(slots) and self._still(slots, stopped, values):
                several[slot], part = self._divmod(operands), DIVMOD.index(op)
            else:
                several[slot] = self._results_of(op, params, operands, any_shape=self._any_shape)
            values[slot] = several[slot][part]
        return [values[s] for s in program.out_slots]

    def pending(self, nodes: Sequence[Node], all_told: bool = False) -> dict[Node, Any]:
        """Return the values of nodes, and add the primitives that make them. Nodes with a value become
        constants, and so do nodes of ops without a known description, unless `all_told`."""
        several: dict[Node, tuple] = {}
        open_: list[tuple[Node, bool]] = [(node, False) for node in reversed(nodes)]
        while open_:
            node, ready = open_.pop()
            if node in several:
                continue
            if node.op is SCALAR:
                several[node] = (self._known_number(node.value, node.aval.dtype),)
                self.constants[several[node][0]] = node
            elif node.value is not None or node.op is None or not (all_told or _is_told(node)):
                several[node] = (self._array(node),)
            elif not ready:
                open_.append((node, True))
                open_ += [(n, False) for n in reversed(node.inputs)]
            elif node.op is ITEM:
                several[node] = several[node.inputs[0]][node.params[0] :]
            else:
                operands = [several[n][0] for n in node.inputs]
                before = len(self._made_by)
                several[node] = self._results_of(node.op, node.params, operands, node.aval)
                self.made_for[node] = range(before, len(self._made_by))
        return {node: several[node][0] for node in nodes}

    def _array(self, node: Node) -> Any:
        key = ("array", len(self.constants))
        self.avals[key], self.constants[key] = node.aval, node
        return key

    def _results_of(
        self, op: Op, params: tuple, operands: Sequence[Any], out: Any = None, any_shape: bool = False
    ) -> tuple:
        """Return the results of an op. `out` is the aval (or avals) of the results, if known."""
        if op is CONSTANT:
            return (self._known_number(*params),)
        if op is CALL and self._fuses is not None:
            return self._compiled(params[0], operands, self._fuses)
        if op in _CALLS:
            return tuple(self.program(params[0], operands))
        composition = _CONSISTS_OF[op](*params) if op in _CONSISTS_OF else None
        if composition is not None:
            return self._transformed(composition, operands)
        avals = [self.avals[value] for value in operands]
        out = op.infer((params, *avals)) if out is None else out
        out_avals = list(out) if isinstance(out, tuple) else [out]
        named = dict(zip(op.params, params, strict=True))
        numbers = [self._numbers.get(v) for v in operands]
        return self._lay_down(decompose(op, named, avals, out_avals, numbers, any_shape), operands, out_avals)

    def _compiled(self, program: Program, operands: Sequence[Any], label: Callable[[Primitive], str]) -> tuple:
        """Return the results of a compiled function, simplified and fused."""
        inner = Graph(simplified=True)
        inputs = []
        for k, value in enumerate(operands):
            a = self.avals[value]
            known = value in self._numbers
            inputs.append(
                inner._known_number(self._numbers[value], a.dtype) if known else inner.argument(("input", k), a)
            )
        values = dict(zip(inputs, operands, strict=True))
        outputs = inner.program(program, inputs)
        met = [*inner.walk(outputs)]
        for value in met:
            if not isinstance(value, Primitive) and value not in values:
                node = inner.constants[value]
                number = node.op is SCALAR
                values[value] = self._known_number(node.value, node.aval.dtype) if number else self._array(node)
        for p in fused([p for p in met if isinstance(p, Primitive)], outputs, inner.avals, label):
            results = self._primitive(
                p.name,
                tuple([values[value] for value in p.inputs]),
                [inner.avals[value] for value in p.results],
                p.arguments,
            )
            values.update(zip(p.results, results, strict=True))
        return tuple([values[value] for value in outputs])

    def _transformed(self, composition: Mapped | Derivative, operands: Sequence[Any]) -> tuple:
        """Return the results of a derivative or a mapped function. As in MLX, the ops that it consists of become
        primitives."""
        avals = composition.program.in_avals
        inputs = [self._spread(value, a) for value, a in zip(operands, avals, strict=False)]
        inputs += [
            self._constant(value, a) for value, a in zip(composition.values, avals[len(operands) :], strict=True)
        ]
        return tuple(self.program(composition.program, inputs))

    def _spread(self, value: Any, a: Aval) -> Any:
        """Broadcast a cotangent that has fewer axes than its value."""
        return value if self.avals[value] is a else self._primitive("Broadcast", (value,), [a], [a.shape])[0]

    def _constant(self, value: Any, a: Aval) -> Any:
        return self._array(leaf(value, a)) if a.shape else self._known_number(value.item(), a.dtype)

    def _known_number(self, value: Any, dtype: Dtype) -> Any:
        key = self._number(value, dtype)
        self._numbers[key] = value
        return key

    def _number(self, value: Any, dtype: Dtype, shape: tuple[int, ...] = ()) -> Any:
        alone = shape or not self._simplified
        key = ("number", repr(value), dtype, shape, len(self.constants) if alone else 0)
        self.avals[key] = aval(shape, dtype)
        if key not in self.constants:
            self.constants[key] = full(shape, value, dtype)._node if shape else scalar(value, self.avals[key])
        return key

    def _still(self, slots: Sequence[int], stopped: Collection[int], values: dict[int, Any]) -> bool:
        """Return True if no derivative passes through the values in these slots."""
        return all(s in stopped or values[s] in self.constants for s in slots)

    def _divmod(self, operands: Sequence[Any]) -> tuple:
        """Return the quotient and remainder of operands without derivatives; in MLX, they are the results of one
        primitive."""
        avals = [self.avals[value] for value in operands]
        out = DIVMOD[0].infer(((), *avals))
        chain = Chain(avals, [None, None], [out, out], self._any_shape)
        parts = chain.several("DivMod", chain.together([0, 1], out.dtype), [out, out])
        return self._lay_down(Decomposition(chain.primitives, [*parts]), operands, [out, out])

    def _lay_down(self, decomposition: Decomposition, operands: Sequence[Any], out_avals: Sequence[Aval]) -> tuple:
        """Add the primitives of an op, and return its results."""
        between: list[tuple] = []
        numbers: dict[int, Any] = {}

        def value(x: Source) -> Any:
            if isinstance(x, Constant):
                if id(x) not in numbers:
                    numbers[id(x)] = self._number(*x)
                return numbers[id(x)]
            if isinstance(x, Part):
                return between[~x.of][x.number]
            return operands[x] if x >= 0 else between[~x][0]

        for primitive in decomposition.primitives:
            inputs = tuple([value(x) for x in primitive.inputs])
            between.append(self._primitive(primitive.name, inputs, primitive.results, primitive.arguments))
        results = []
        for x, a in zip(decomposition.results, out_avals, strict=True):
            if isinstance(x, Group):
                key = ("group", len(self._groups))
                self._groups[key], self.avals[key] = [value(part) for part in x.parts], a
                results.append(key)
            else:
                results.append(self._member(operands[x.of], x.number, a) if isinstance(x, Member) else value(x))
        return tuple(results)

    def _member(self, group: Any, number: int, a: Aval) -> Any:
        """Return one value of a group. An evaluated group is one array whose rows are MLX's values."""
        if group in self._groups:
            return self._groups[group][number]
        rows = evaluated_on_host(self.constants[group]).reshape(-1, 1, *a.shape)
        row = self._array(leaf(rows[number], aval((1, *a.shape), a.dtype)))
        return self._primitive("Reshape", (row,), [a], [a.shape])[0]

    def _primitive(self, name: str, inputs: tuple, out_avals: Sequence[Aval], arguments: list[Any]) -> tuple:
        """Return the results of a primitive, or of an equal one that exists already."""
        if name in _NOT_EXPORTED and self._simplified:
            return inputs
        key = (name, inputs, tuple(out_avals), repr(arguments)) if inputs and self._simplified else None
        if key in self._known:
            return self._known[key]
        number = len(self._made_by)
        results = tuple([("made", number, k) for k in range(len(out_avals))])
        self.avals.update(zip(results, out_avals, strict=True))
        self._made_by.update(dict.fromkeys(results, Primitive(name, inputs, results, arguments)))
        if key is not None:
            self._known[key] = results
        return results

    def walk(self, outputs: Sequence[Any]) -> Iterator[Any]:
        """Yield the sources and primitives behind the outputs, each after its operands. This is MLX's order of
        traversal."""
        met: set[Any] = set()
        open_ = [(value, False) for value in reversed(outputs)]
        while open_:
            value, ready = open_.pop()
            primitive = self._made_by.get(value)
            key = value if primitive is None else primitive.results
            if key in met:
                continue
            if primitive is None or ready:
                met.add(key)
                yield value if primitive is None else primitive
            else:
                open_.append((value, True))
                open_ += [(v, False) for v in reversed(primitive.inputs)]


def _is_told(node: Node) -> bool:
    producer = node.inputs[0] if node.op is ITEM else node
    return producer.op is not None and producer.value is None and is_known(producer.op, producer.params)
