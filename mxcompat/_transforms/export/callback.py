"""A Program, told part by part in dicts, as `export_function` tells it to a callback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import ITEM, Node
from mxcompat._graph.ir.program import Program
from mxcompat._ops.elementwise.casts import STOP_GRADIENT

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
    """The parts: inputs, keyword_inputs, outputs, constants, then a primitive for each instruction."""
    names: dict[Any, str] = {}
    count = positional + len(keywords)
    roots = _roots(program)

    def name(slot: Any) -> str:
        return names.setdefault(slot, letters(len(names)))

    def told(slot: Any, a: Aval) -> tuple:
        return name(slot), a.shape, a.dtype

    inputs = program.in_avals[:count]
    yield {"type": "inputs", "inputs": [told(~k, a) for k, a in enumerate(inputs)]}
    yield {"type": "keyword_inputs", "keywords": [(key, name(~(positional + k))) for k, key in enumerate(keywords)]}
    outputs = zip(program.out_slots, program.out_avals, strict=True)
    yield {"type": "outputs", "outputs": [told(roots.get(s, s), a) for s, a in outputs]}
    yield {"type": "constants", "constants": [(name(~(count + k)), wrap(n)) for k, n in enumerate(captured)]}
    avals: dict[Any, Aval] = {~k: a for k, a in enumerate(program.in_avals)}
    for slot, (op, params, slots) in enumerate(program.instructions):
        if op is STOP_GRADIENT:
            avals[slot] = avals[slots[0]]
            continue
        if op is ITEM:
            avals[roots[slot]] = avals[slot] = avals[slots[0]][params[0]]  # type: ignore[index]
            continue
        result = op.infer((params, *[avals[roots.get(s, s)] for s in slots]))
        avals[slot] = result
        results = [((slot, k), a) for k, a in enumerate(result)] if isinstance(result, tuple) else [(slot, result)]
        given = [(roots.get(s, s), avals[roots.get(s, s)]) for s in slots]
        named = dict(zip(op.params, params, strict=True))
        found = steps(op, named, [a for _, a in given], [a for _, a in results])
        between: list[tuple[Any, Aval]] = []
        for number, step in enumerate(found):
            last = number == len(found) - 1
            made = results if last else [((slot, "step", number), step.results[0])]
            yield {
                "type": "primitive",
                "name": step.name,
                "inputs": [told(*(given[k] if k >= 0 else between[~k])) for k in step.inputs],
                "outputs": [told(*result) for result in made],
                "arguments": step.arguments,
            }
            between += made


def _roots(program: Program) -> dict[int, Any]:
    """For each slot that is one of an instruction's several outputs, which one of which; for one that only stops the
    gradient of another, that."""
    roots: dict[int, Any] = {}
    for slot, (op, params, slots) in enumerate(program.instructions):
        if op is ITEM:
            roots[slot] = (slots[0], params[0])
        elif op is STOP_GRADIENT:
            roots[slot] = roots.get(slots[0], slots[0])
    return roots
