"""A Program, told part by part in dicts, as `export_function` tells it to a callback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, scalar
from mxcompat._graph.ir.program import Program
from mxcompat._ops.elementwise.casts import STOP_GRADIENT

from .chain import Constant, Part, Step
from .primitives import steps

__all__ = ["describe", "letters"]


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
        values: dict[int, Any] = {~k: ~k for k in range(count)}
        numbers: dict[Any, Any] = {}
        for k, node in enumerate(captured):
            value: Any = ("array", k)
            if node.op is SCALAR:
                value = self._number(node.value, node.aval.dtype)
                numbers[value] = node.value
            values[~(count + k)] = value
            self.avals[value], self.constants[value] = node.aval, node
        several: dict[int, tuple] = {}
        for slot, (op, params, slots) in enumerate(program.instructions):
            if op is STOP_GRADIENT:
                values[slot] = values[slots[0]]
            elif op is ITEM:
                values[slot] = several[slots[0]][params[0]]
            else:
                given = [values[s] for s in slots]
                avals = [self.avals[value] for value in given]
                made = op.infer((params, *avals))
                named = dict(zip(op.params, params, strict=True))
                wanted = list(made) if isinstance(made, tuple) else [made]
                found = steps(op, named, avals, wanted, [numbers.get(value) for value in given])
                several[slot] = self._lay_down(found, given, wanted)
                values[slot] = several[slot][0]
        self.outputs = [values[s] for s in program.out_slots]

    def _number(self, value: Any, dtype: Dtype) -> Any:
        key = ("number", repr(value), dtype)
        self.avals[key] = aval((), dtype)
        self.constants.setdefault(key, scalar(value, self.avals[key]))
        return key

    def _lay_down(self, found: Sequence[Step], given: Sequence[Any], wanted: Sequence[Aval]) -> tuple:
        """The values that the last of these steps returns."""
        between: list[Any] = []
        for step in found:
            inputs = []
            for k in step.inputs:
                if isinstance(k, Constant):
                    inputs.append(self._number(k.value, k.dtype))
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
