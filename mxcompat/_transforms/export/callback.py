"""A Program, told part by part in dicts, as `export_function` tells it to a callback."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, leaf, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._ops.creation.filled import full
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import STOP_GRADIENT

from ..batching import Mapped, mapped
from ..compiling import CONSTANT
from ..gradients import Derivative, gradient, tangent
from ..lowering import JVP, VJP, VMAP
from .chain import Constant, Part, Step
from .primitives import is_known, steps

__all__ = ["describe", "letters"]

DIVMOD = [TABLE["floor_divide"], TABLE["remainder"]]

_CONSISTS_OF: dict[Op, Callable[..., Mapped | Derivative | None]] = {VJP: gradient, JVP: tangent, VMAP: mapped}


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
        pending = self._pending(captured)
        self.outputs = self._of(program, [*[~k for k in range(count)], *[pending[node] for node in captured]])

    def _of(self, program: Program, inputs: Sequence[Any]) -> list[Any]:
        """The values that a Program returns."""
        values: dict[int, Any] = {~k: value for k, value in enumerate(inputs)}
        several: dict[int, tuple] = {}
        stopped: set[int] = set()
        for slot, (op, params, slots) in enumerate(program.instructions):
            if op is STOP_GRADIENT:
                stopped.add(slot)
            part = 0
            given = [values[s] for s in slots]
            if op is ITEM:
                several[slot], part = several[slots[0]], params[0]
            elif op is CONSTANT:
                several[slot] = (self._known_number(*params),)
            elif op in DIVMOD and stopped.intersection(slots) and self._still(slots, stopped, values):
                several[slot], part = self._divmod(given), DIVMOD.index(op)
            else:
                several[slot] = self._transformed(op, params, given) or self._told(op, params, given)
            values[slot] = several[slot][part]
        return [values[s] for s in program.out_slots]

    def _transformed(self, op: Op, params: tuple, given: Sequence[Any]) -> tuple | None:
        """What a derivative, or a function over an axis, returns: as MLX, by the ops that it consists of, where they
        are known."""
        found = _CONSISTS_OF[op](*params) if op in _CONSISTS_OF else None
        if found is None:
            return None
        avals = found.program.in_avals
        inputs = [self._spread(value, a) for value, a in zip(given, avals, strict=False)]
        inputs += [self._constant(value, a) for value, a in zip(found.values, avals[len(given) :], strict=True)]
        return tuple(self._of(found.program, inputs))

    def _spread(self, value: Any, a: Aval) -> Any:
        """A cotangent may have fewer axes than what it belongs to."""
        return value if self.avals[value] is a else self._results("Broadcast", (value,), [a], [a.shape])[0]

    def _constant(self, value: Any, a: Aval) -> Any:
        if not a.shape:
            return self._known_number(value.item(), a.dtype)
        key = ("constant", len(self.constants))
        self.avals[key], self.constants[key] = a, leaf(value, a)
        return key

    def _known_number(self, value: Any, dtype: Dtype) -> Any:
        key = self._number(value, dtype)
        self._numbers[key] = value
        return key

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
                found[node] = self._known_number(node.value, node.aval.dtype)
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
