"""Collectives: list the communication that XLA's partitioner added to an executable, by parsing XLA's text of it."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from mxcompat._compat.xla import text_of

__all__ = ["Collective", "collectives", "described"]


class Collective(NamedTuple):
    """A collective operation of a program.

    Args:
        kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all" or "collective-permute".
        bytes: the size of its result on each device.
        devices: the number of devices in a group.
    """

    kind: str
    bytes: int
    devices: int


def collectives(compiled: Any) -> list[Collective]:
    """Return the collectives of a compiled program, in the order of XLA's text.

    A collective in a loop counts once. XLA may have combined several of one kind.

    Args:
        compiled: the result of `jax.jit(f).lower(...).compile()`.

    Raises:
        TypeError: if `compiled` is something else.
        RuntimeError: if JAX does not give XLA's text.

    Example:
        >>> import jax
        >>> mx.ext.sharding.collectives(jax.jit(lambda x: x + 1).lower(1.0).compile())
        []
    """
    if not hasattr(compiled, "as_text"):
        raise TypeError(f"[collectives] Expected a compiled JAX function, got {type(compiled).__name__}.")
    text = text_of(compiled)
    if text is None:
        raise RuntimeError(
            "[collectives] Expected XLA's text of the function, which this version of JAX does not give."
        )
    return [
        Collective(match["kind"], _bytes(match["shape"], match["kind"], bool(match["start"])), _devices(match["rest"]))
        for match in _COLLECTIVE.finditer(text)
    ]


_COLLECTIVE = re.compile(
    r"^\s*(?:ROOT )?%?[\w.-]+ = (?P<shape>.*?) "
    r"(?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?P<start>-start)?\((?P<rest>.*)$",
    re.MULTILINE,
)
_SHAPE = re.compile(r"\b(?P<dtype>pred|[a-z]+\d+\w*)\[(?P<sizes>[\d,]*)\]")


def _bytes(shape: str, kind: str, starts: bool) -> int:
    sizes = [_bits(match["dtype"]) * _size(match["sizes"]) // 8 for match in _SHAPE.finditer(shape)]
    if starts and kind in ("all-gather", "collective-permute"):  # their results contain their operands, too
        sizes = sizes[len(sizes) // 2 :]
    return sum(sizes)


def _size(sizes: str) -> int:
    return math.prod([int(n) for n in sizes.split(",") if n])


def _bits(dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return int(digits[0]) if digits else 8  # a pred is a byte


def _devices(rest: str) -> int:
    """Return the number of devices in a group, from XLA's text after a collective's operands. For a permutation, return
    the number of senders. XLA lists groups (`{{0,1},{2,3}}`), counts them (`[2,2]<=[4]`: two groups of two), or names
    axes of a mesh (`mesh['a'=2,'b'=4] {'b'}`, or a part of an axis: `{'b':(1)2}`)."""
    pairs = re.search(r"source_target_pairs=\{(.*?\})\}", rest)
    if pairs:
        return pairs[1].count("{")
    groups = re.search(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\]|mesh\[(.*?)\].*? \{(.*?)\})", rest)
    if groups is None:
        return 0
    listed, size, mesh, along = groups.groups()
    if mesh is None:
        return int(size) if size else listed.count(",") + 1
    sizes = dict(re.findall(r"('[^']*')=(\d+)", mesh))
    axes = re.findall(r"('[^']*')(?::\(\d+\)(\d+))?", along)
    return math.prod([int(part or sizes[name]) for name, part in axes])


def described(compiled: Any) -> str:
    """Return a short description of the collectives of a compiled program."""
    return "collectives that are not known" if text_of(compiled) is None else summary(collectives(compiled))


def summary(collectives: list[Collective]) -> str:
    """Return a short description: the number and bytes of collectives for each kind and group size."""
    kinds: dict[tuple[str, int], list[int]] = {}
    for kind, size, devices in collectives:
        kinds.setdefault((kind, devices), []).append(size)
    parts = [f"{len(n)} {kind} among {devices} devices of {sum(n)} bytes" for (kind, devices), n in kinds.items()]
    return ", ".join(parts) or "no collectives"
