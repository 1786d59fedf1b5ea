"""Nodes: the lazy graph that array handles point into.

A node is an op applied to other nodes, with the aval of its result. A *leaf* already has a value: the data of an array,
or a Python number (`scalar`). The value of a number is not part of a program's structure; only its place is.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakSet, ref

from mxcompat._compat.python import caller_of, get_frame
from mxcompat._native import native

from . import buffers
from .aval import Aval
from .op import Op

__all__ = [
    "ITEM", "PACKAGE", "SCALAR", "TRACED", "Node", "aliases", "apply", "apply_as", "caller", "created", "items", "leaf",
    "line_at", "location", "new_trace", "node", "scalar", "store", "tracer", "tracers",
]  # fmt: skip

created: list[Callable[[Node], None]] = []
"""Callbacks for each new node, in every thread. See `ext.debug`."""


class _Fields:
    """The fields of a node."""

    __slots__ = ("aval", "inputs", "op", "params", "trace", "value", "waiting", "where")

    def __init__(
        self, op: Op | None, params: tuple, inputs: tuple[Node, ...], aval: Any, trace: int, value: Any = None,
        where: tuple[CodeType, int] | None = None,
    ) -> None:  # fmt: skip
        self.op = op
        self.params = params
        self.inputs = inputs
        self.aval = aval
        self.trace = trace
        self.value = value
        self.where = where
        self.waiting: list[ref[Node]] | None = None
        if created:
            for observe in created:
                observe(self)  # type: ignore[arg-type]


class Node(native.Fields if native else _Fields):  # type: ignore[misc]
    """One op applied to input nodes. Its meaning never changes. `rewrite` changes how it is computed, and `set_value`
    gives it a value.

    `aval` is an Aval, or a tuple of Avals if the op has several outputs (`items` separates them). `trace` is the
    largest trace id among its inputs, 0 outside any transform: a node belongs to the body of a capture if its trace is
    at least the capture's. `where` is the place in the user's code that made the node. `waiting` lists outputs that get
    their values when this node does (`outputs`). No two nodes share a tuple of inputs, because `liveness` reads
    reference counts.
    """

    __slots__ = ("__weakref__",)

    op: Op | None
    params: tuple
    inputs: tuple[Node, ...]
    aval: Any
    trace: int
    value: Any
    where: tuple[CodeType, int] | None
    waiting: list[ref[Node]] | None

    def __repr__(self) -> str:
        return f"<{self.op or 'leaf'} {self.aval}>"

    def rewrite(self, op: Op, params: tuple, inputs: tuple[Node, ...]) -> None:
        """Rewrite the node: replace its op and inputs by others that give the same result.

        If another thread may be evaluating the node, the caller must hold the evaluation lock (`run.evaluate.lock`). A
        node in the body of a capture is seen only by the thread that captures, and needs no lock. No other node may
        share the tuple `inputs`, because `liveness` reads reference counts.
        """
        self.op = op
        self.params = params
        self.inputs = inputs

    def set_value(self, value: Any) -> None:
        """Set the value and turn the node into a leaf, so that it no longer refers to its inputs."""
        self.value = value
        self.op = None
        self.params = self.inputs = ()


SCALAR = Op("scalar", lambda: None)
"""The op of a leaf whose value is a Python number."""


TRACED = Op("traced", lambda: None)
"""The op of a leaf whose value is a JAX tracer: its consumers are part of a function that JAX traces."""


ITEM = Op("item", lambda outputs, index: outputs[index], lambda avals, index: avals[index], ("index",))
"""Selects one output of an op with several."""


class _Index(dict):
    """The params of ITEM nodes: one shared tuple for each index, so that equal params are the same object."""

    def __missing__(self, k: int) -> tuple[int]:
        self[k] = index = (k,)
        return index


_index = _Index()

new_trace: Callable[[], int] = itertools.count(1).__next__


tracers: WeakSet[Node] = WeakSet()
"""The leaves that hold JAX tracers."""


def tracer(value: Any, aval: Aval) -> Node:
    """Return a leaf that holds a JAX tracer."""
    node = Node(TRACED, (), (), aval, 0, value)
    tracers.add(node)
    return node


def _leaf(value: Any, aval: Aval) -> Node:
    """Return a leaf that holds data: a JAX array, or a NumPy array that must not be written to."""
    if aval.nbytes >= buffers.smallest:
        buffers.count(value, aval)
    return Node(None, (), (), aval, 0, value)


def scalar(value: Any, aval: Aval) -> Node:
    """Return a leaf that holds a Python number, with the given 0-d aval.

    Its value is first a constant of compiled code. It becomes a runtime argument once another value is seen.
    """
    return node(SCALAR, (), (), aval, 0, value)


class _Own(dict):
    """Maps a file name to True if the file belongs to the core. `nn` and `optimizers` do not count: they use the core
    as a user's program does, and their lines help to locate a bad number."""

    def __missing__(self, filename: str) -> bool:
        self[filename] = own = filename.startswith(_CORE)
        return own


PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
"""Common prefix of the names of our files."""

_CORE = tuple([PACKAGE + name for name in ("_", "core", "ext")])
_own = _Own()


def caller(depth: int = 2) -> tuple[CodeType, int] | None:
    """Return the place in the user's code where an op is called, for the message if its evaluation fails.

    `depth` is the number of frames to go up first: 1 is this function's caller. None if Python does not tell.
    """
    frame = caller_of(depth)
    if frame is not None and _own[frame.f_code.co_filename]:
        frame = _user_frame(frame)
    return (frame.f_code, frame.f_lasti) if frame is not None else None


def _apply(op: Op, inputs: tuple[Node, ...], params: tuple = ()) -> Node:
    """Make the node of `op` on `inputs`. Raise MLX's errors at once for inputs that do not fit."""
    trace = 0
    avals = []
    for node in inputs:
        avals.append(node.aval)
        if node.trace > trace:
            trace = node.trace
    key = (params, *avals)
    aval = op.memo.get(key)
    if aval is None:
        aval = op.infer(key)
    return Node(op, params, inputs, aval, trace, None, caller())


def _apply_as(op: Op, inputs: tuple[Node, ...], params: tuple, aval: Any) -> Node:
    """Make a node as `apply` does, with a known aval."""
    return Node(op, params, inputs, aval, max([n.trace for n in inputs], default=0), None, caller())


def _aliases(op: Op, nodes: list[Any], trace: int) -> list[Node]:
    """Make a node of this op for each node, with the node's value."""
    return [Node(op, (), (n,), n.aval, trace, n.value) for n in nodes]


def _items(of: Node, first: int = 0) -> list[Node]:
    """Make one ITEM node for each output of a node with several outputs, starting at output `first`."""
    return [Node(ITEM, _index[k], (of,), a, of.trace) for k, a in enumerate(of.aval[first:], first)]


def _store(nodes: Iterable[Node], values: Iterable[Any], oldest: int) -> list[Node]:
    """Store the values of nodes, and count their memory. A node of a trace in progress (`oldest` or newer) keeps its op
    and inputs; others become leaves. Return the nodes with outputs `waiting`."""
    pairs = [*zip(nodes, values, strict=False)]
    for node, value in pairs:
        if node.trace < oldest:
            node.set_value(value)
        else:
            node.value = value
    for node, value in pairs:
        if type(node.aval) is not Aval or node.aval.nbytes >= buffers.smallest:
            buffers.count(value, node.aval)
    return [node for node, _ in pairs if node.waiting is not None]


if native:
    native.connect_nodes(Node, created, vars(buffers), _own, ITEM, _index, SCALAR, get_frame)

apply: Callable[..., Node] = native.apply if native else _apply
apply_as: Callable[[Op, tuple[Node, ...], tuple, Any], Node] = native.apply_as if native else _apply_as
aliases: Callable[[Op, list[Any], int], list[Node]] = native.aliases if native else _aliases
leaf: Callable[[Any, Aval], Node] = native.leaf if native else _leaf
node: Callable[..., Node] = native.node if native else Node
items: Callable[..., list[Node]] = native.items if native else _items
store: Callable[[Iterable[Node], Iterable[Any], int], list[Node]] = native.store if native else _store


def _user_frame(frame: FrameType) -> FrameType:
    """Return the nearest frame that is not in one of our files."""
    while _own[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame


def location(node: Node) -> str:
    """Return `file:line` of the user's code that made the node, or "" if it is unknown."""
    return line_at(*node.where) if node.where is not None else ""


def line_at(code: CodeType, instruction: int) -> str:
    """Return `file:line` of an instruction."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return f"{code.co_filename}:{line}"
    return code.co_filename
