"""A Program, told part by part in dicts, as `export_function` tells it to a callback."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import ITEM, Node
from mxcompat._graph.ir.program import Program

__all__ = ["describe", "letters", "primitive_name"]

_PRIMITIVES = {
    **dict.fromkeys(("all", "any", "sum", "prod", "max", "min"), "Reduce"),
    **dict.fromkeys(("argmax", "argmin"), "ArgReduce"),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), "Scan"),
    "addmm": "AddMM", "astype": "AsType", "arctan2": "ArcTan2", "argsort": "ArgSort", "as_strided": "AsStrided",
    "broadcast_to": "Broadcast", "cast": "AsType", "conv": "Convolution", "divmod": "DivMod", "fft": "FFT",
    "logaddexp": "LogAddExp", "logsumexp": "LogSumExp", "where": "Select",
}  # fmt: skip
"""MLX's names of the primitives behind ops, where they are not the op's own name in capitals."""


def primitive_name(name: str) -> str:
    """The name that MLX gives an op's primitive."""
    return _PRIMITIVES.get(name) or "".join(part.capitalize() for part in name.split("_"))


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
        if op is ITEM:
            avals[roots[slot]] = avals[slot] = avals[slots[0]][params[0]]  # type: ignore[index]
            continue
        result = op.infer((params, *[avals[roots.get(s, s)] for s in slots]))
        avals[slot] = result
        results = [((slot, k), a) for k, a in enumerate(result)] if isinstance(result, tuple) else [(slot, result)]
        yield {
            "type": "primitive",
            "name": primitive_name(op.name),
            "inputs": [told(roots.get(s, s), avals[roots.get(s, s)]) for s in slots],
            "outputs": [told(key, a) for key, a in results],
            "arguments": [list(p) if isinstance(p, tuple) else p for p in params],
        }


def _roots(program: Program) -> dict[int, tuple[int, int]]:
    """For each slot that is one of an instruction's several outputs, which one of which."""
    return {slot: (slots[0], params[0]) for slot, (op, params, slots) in enumerate(program.instructions) if op is ITEM}
