"""Describe a Program part by part in dicts, for the callback of `export_function`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mxcompat._array.array import wrap
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.program import Program

from .fusion import Primitive
from .graph import Graph

__all__ = ["describe", "letters"]


def letters(number: int) -> str:
    """Return the name of the array with this number: A … Z, AA, AB, …"""
    name = ""
    while number >= 0:
        name = chr(ord("A") + number % 26) + name
        number = number // 26 - 1
    return name


def describe(
    program: Program, captured: Sequence[Node], keywords: Sequence[str], positional: int, any_shape: bool
) -> Iterator[dict[str, Any]]:
    """Yield the parts of a Program: inputs, keyword_inputs, outputs, constants, then the primitives.

    As in MLX, primitives are visited backward from the outputs, each after its operands.
    """
    count = positional + len(keywords)
    graph = Graph(simplified=True, any_shape=any_shape)
    arguments = [graph.argument(~k, program.in_avals[k]) for k in range(count)]
    pending = graph.pending(captured)
    outputs = graph.program(program, [*arguments, *[pending[node] for node in captured]])
    met = [*graph.walk(outputs)]
    order = [x for x in met if isinstance(x, Primitive)]
    names: dict[Any, str] = {}

    def name(value: Any) -> str:
        return names.setdefault(value, letters(len(names)))

    def told(value: Any) -> tuple:
        a = graph.avals[value]
        return name(value), a.shape, a.dtype

    yield {"type": "inputs", "inputs": [told(value) for value in arguments]}
    named = zip(keywords, arguments[positional:], strict=True)
    yield {"type": "keyword_inputs", "keywords": [(key, name(value)) for key, value in named]}
    yield {"type": "outputs", "outputs": [told(value) for value in outputs]}
    constants = [x for x in met if not isinstance(x, Primitive) and x in graph.constants]
    yield {"type": "constants", "constants": [(name(value), wrap(graph.constants[value])) for value in constants]}
    for primitive in order:
        yield {
            "type": "primitive",
            "name": primitive.name,
            "inputs": [told(value) for value in primitive.inputs],
            "outputs": [told(value) for value in primitive.results],
            "arguments": primitive.arguments,
        }
