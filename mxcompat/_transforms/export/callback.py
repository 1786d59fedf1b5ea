"""A Program, told part by part in dicts, as `export_function` tells it to a callback."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._ops.creation.filled import full
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import STOP_GRADIENT

from .chain import Constant, Part, Step
from .primitives import is_known, steps

__all__ = ["describe", "letters"]

DIVMOD = [TABLE["floor_divide"], TABLE["remainder"]]


def letters(number: int) -> str:
    """The name of the array with this number: A … Z, AA, AB, …"""
    name = ""
    while number >= 0:
        name = chr(ord("A") + number % 26) + name
        number = number // 26 - 1
    return name


def describe(
    program: Program, captured: Sequence[Node], keywords: Sequence[str], positional: int
) -> Iterator[dict[str, Any]]:
    """The parts: inputs, keyword_inputs, outputs, constants, then the primitives in the order in which MLX reads them:
    from the outputs back, each after what it reads."""
    count = positional + len(keywords)
    graph = _Graph(program, captured, count)
    order = graph.order()
    names: dict[Any, str] = {}

    def name(value: Any) -> str:
        return names.setdefault(value, letters(len(names)))

    def told(value: Any) -> tuple:
        a = graph.avals[value]
        return name(value), a.shape, a.dtype

    yield {"type": "inputs", "inputs": [told(~k) for k in range(count)]}
    yield {"type": "keyword_inputs", "keywords": [(key, name(~(positional + k))) for k, key in enumerate(keywords)]}
    yield {"type": "outputs", "outputs": [told(value) for value in graph.outputs]}
    read = [value for step in order for value in step.inputs]
    constants = dict.fromkeys(value for value in [*read, *graph.outputs] if value in graph.constants)
    yield {"type": "constants", "constants": [(name(value), wrap(graph.constants[value])) for value in constants]}
    for step in order:
        yield {
            "type": "primitive",
            "name": step.name,
            "inputs": [told(value) for value in step.inputs],
            "outputs": [told(value) for value in step.results],
            "arguments": step.arguments,
        }


class _Told(NamedTuple):
    """A primitive between values."""

    name: str
    inputs: tuple
    results: tuple
    arguments: list[Any]


class _Graph:
    """A Program as MLX's primitives. Equal ones are one, as are equal numbers."""

    def __init__(self, program: Program, captured: Sequence[Node], count: int) -> None:
        self.avals: dict[Any, Aval] = {~k: a for k, a in enumerate(program.in_avals[:count])}
        self.constants: dict[Any, Node] = {}
        self._made_by: dict[Any, _Told] = {}
        self._known: dict[Any, tuple] = {}
        self._numbers: dict[Any, Any] = {}
        values: dict[int, Any] = {~k: ~k for k in range(count)}
        pending = self._pending(captured)
        values.update({~(count + k): pending[node] for k, node in enumerate(captured)})
        several: dict[int, tuple] = {}
        stopped: set[int] = set()
        for slot, (op, params, slots) in enumerate(program.instructions):
            if op is STOP_GRADIENT:
                stopped.add(slot)
            part = 0
            if op is ITEM:
                several[slot], part = several[slots[0]], params[0]
            elif op in DIVMOD and stopped.intersection(slots) and self._still(slots, stopped, values):
                several[slot], part = self._divmod([values[s] for s in slots]), DIVMOD.index(op)
            else:
                several[slot] = self._told(op, params, [values[s] for s in slots])
            values[slot] = several[slot][part]
        self.outputs = [values[s] for s in program.out_slots]

    def _pending(self, captured: Sequence[Node]) -> dict[Node, Any]:
        """The values of what does not depend on the arguments. How it is made is told where it has no value yet, and
        consists of ops that are told as MLX tells them."""
        found: dict[Node, Any] = {}
        open_: list[tuple[Node, bool]] = [(node, False) for node in reversed(captured)]
        while open_:
            node, ready = open_.pop()
            if node in found:
                continue
            if node.op is SCALAR:
                found[node] = self._number(node.value, node.aval.dtype)
                self._numbers[found[node]] = node.value
                self.constants[found[node]] = node
            elif node.value is not None or node.op is None or not is_known(node.op, node.params):
                found[node] = value = ("array", len(found))
                self.avals[value], self.constants[value] = node.aval, node
            elif ready:
                (found[node],) = self._told(node.op, node.params, [found[n] for n in node.inputs])
            else:
                open_.append((node, True))
                open_ += [(n, False) for n in reversed(node.inputs)]
        return found

    def _told(self, op: Op, params: tuple, given: Sequence[Any]) -> tuple:
        """What an op returns."""
        if op is STOP_GRADIENT:
            return (given[0],)
        avals = [self.avals[value] for value in given]
        made = op.infer((params, *avals))
        named = dict(zip(op.params, params, strict=True))
        wanted = list(made) if isinstance(made, tuple) else [made]
        found = steps(op, named, avals, wanted, [self._numbers.get(value) for value in given])
        return self._lay_down(found, given, wanted)

    def _still(self, slots: Sequence[int], stopped: Collection[int], values: dict[int, Any]) -> bool:
        """Whether no derivative passes through any of these."""
        return all(s in stopped or values[s] in self.constants for s in slots)

    def _divmod(self, given: Sequence[Any]) -> tuple:
        """What a quotient and a remainder of operands without derivatives are in MLX: the results of one primitive."""
        avals = [self.avals[value] for value in given]
        made = DIVMOD[0].infer(((), *avals))
        found = steps(DIVMOD[0], {}, avals, [made], [None, None])
        last = found[-1]._replace(name="DivMod", results=[made, made])
        return self._lay_down([*found[:-1], last], given, [made, made])

    def _number(self, value: Any, dtype: Dtype, shape: tuple[int, ...] = ()) -> Any:
        key = ("number", repr(value), dtype, (shape, len(self.constants)) if shape else ())
        self.avals[key] = aval(shape, dtype)
        if key not in self.constants:
            self.constants[key] = full(shape, value, dtype)._node if shape else scalar(value, self.avals[key])
        return key

    def _lay_down(self, found: Sequence[Step], given: Sequence[Any], wanted: Sequence[Aval]) -> tuple:
        """The values that the last of these steps returns; what is given, if there are no steps."""
        results = tuple(given[:1])
        between: list[Any] = []
        for step in found:
            inputs = []
            for k in step.inputs:
                if isinstance(k, Constant):
                    inputs.append(self._number(*k))
                elif isinstance(k, Part):
                    inputs.append(between[~k.of][k.number])
                else:
                    inputs.append(given[k] if k >= 0 else between[~k][0])
            last = step is found[-1]
            results = self._results(step.name, tuple(inputs), wanted if last else step.results, step.arguments)
            between.append(results)
        return results

    def _results(self, name: str, inputs: tuple, made: Sequence[Aval], arguments: list[Any]) -> tuple:
        key = (name, inputs, tuple(made), repr(arguments)) if inputs else None
        if key in self._known:
            return self._known[key]
        number = len(self._made_by)
        results = tuple([("made", number, k) for k in range(len(made))])
        self.avals.update(zip(results, made, strict=True))
        self._made_by.update(dict.fromkeys(results, _Told(name, inputs, results, arguments)))
        if key is not None:
            self._known[key] = results
        return results

    def order(self) -> list[_Told]:
        """The primitives behind the outputs, each after those behind what it reads."""
        found: dict[tuple, _Told] = {}
        pending = [(value, False) for value in reversed(self.outputs)]
        while pending:
            value, ready = pending.pop()
            step = self._made_by.get(value)
            if step is None or step.results in found:
                continue
            if ready:
                found[step.results] = step
            else:
                pending.append((value, True))
                pending += [(v, False) for v in reversed(step.inputs)]
        return list(found.values())
