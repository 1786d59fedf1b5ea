"""Nodes: the lazy graph that array handles point into.

A node is an op applied to other nodes, with the aval of its result. A *leaf* has a value already: the data of an
array, or a Python number (`scalar`), which takes part in the structure of a program only as a place, not as a value.
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
"""Called with each new node, in every thread. See `ext.debug`."""


class _Fields:
    """What a node consists of."""

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
    """One op applied to input nodes. What it means never changes; how it is made and whether it has a value may, by
    `become` and `hold` alone.

    `aval` is an Aval, or a tuple of them where the op has several outputs (`items` takes them apart). `trace` is the
    largest trace id among its inputs, 0 outside any transform: a node belongs to the body of a capture if its trace
    is at least the capture's. `where` is the place in the user's code that made it, `waiting` has those of its outputs
    that have a value as soon as it has (`outputs`). No two nodes share a tuple of inputs: how often a node is referred
    to says who holds it (`liveness`).
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

    def become(self, op: Op, params: tuple, inputs: tuple[Node, ...]) -> None:
        """Be made in another way that gives the same result.

        Of a node that another thread may be evaluating this is done under the evaluation lock (`run.evaluate.lock`);
        the body of a capture belongs to the thread that captures. `inputs` is a tuple of this node's own: how often
        a node is referred to says who holds it (`liveness`).
        """
        self.op = op
        self.params = params
        self.inputs = inputs

    def hold(self, value: Any) -> None:
        """Have a value, and forget how it was made, so that nothing keeps the inputs alive: be a leaf from now on."""
        self.value = value
        self.op = None
        self.params = self.inputs = ()


SCALAR = Op("scalar", lambda: None)
"""The op of a leaf whose value is a Python number."""


TRACED = Op("traced", lambda: None)
"""The op of a leaf whose value is a JAX tracer: what reads it is part of a function that JAX traces."""


ITEM = Op("item", lambda outputs, index: outputs[index], lambda avals, index: avals[index], ("index",))
"""Takes one output of an op that has several."""


class _Index(dict):
    """The params of its nodes, one tuple for each index: to compare them is to see that they are the same."""

    def __missing__(self, k: int) -> tuple[int]:
        self[k] = index = (k,)
        return index


_index = _Index()

new_trace: Callable[[], int] = itertools.count(1).__next__


tracers: WeakSet[Node] = WeakSet()
"""The leaves that hold tracers of JAX."""


def tracer(value: Any, aval: Aval) -> Node:
    """A node that holds a tracer of JAX's."""
    node = Node(TRACED, (), (), aval, 0, value)
    tracers.add(node)
    return node


def _leaf(value: Any, aval: Aval) -> Node:
    """A node that holds data: a JAX array, or a NumPy array that nobody writes to."""
    if aval.nbytes >= buffers.smallest:
        buffers.count(value, aval)
    return Node(None, (), (), aval, 0, value)


def scalar(value: Any, aval: Aval) -> Node:
    """A node that holds a Python number of the given (0-d) aval.

    Its value is first baked into compiled code, and becomes an argument once it is seen to vary.
    """
    return node(SCALAR, (), (), aval, 0, value)


class _Own(dict):
    """Whether a file is one of the core's, by its name. `nn` and `optimizers` are programs written with the core, as a
    user's are, and say enough of where a bad number came from."""

    def __missing__(self, filename: str) -> bool:
        self[filename] = own = filename.startswith(_CORE)
        return own


PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
"""What the names of our files begin with."""

_CORE = tuple([PACKAGE + name for name in ("_", "core", "ext")])
_own = _Own()


def caller(depth: int = 2) -> tuple[CodeType, int] | None:
    """Where in the user's code an op is being called: for the message, should its evaluation fail. None where Python
    does not tell. `depth` is how many frames up to look first: 1 is the caller of this."""
    frame = caller_of(depth)
    if frame is not None and _own[frame.f_code.co_filename]:
        frame = _outside(frame)
    return (frame.f_code, frame.f_lasti) if frame is not None else None


def _apply(op: Op, inputs: tuple[Node, ...], params: tuple = ()) -> Node:
    """A new node: `op` on `inputs`. Raises at once what MLX raises for inputs that do not fit."""
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
    """A new node like `apply`'s, of an aval that is known."""
    return Node(op, params, inputs, aval, max([n.trace for n in inputs], default=0), None, caller())


def _aliases(op: Op, nodes: list[Any], trace: int) -> list[Node]:
    """A node of this op on each node, with its value."""
    return [Node(op, (), (n,), n.aval, trace, n.value) for n in nodes]


def _items(of: Node, first: int = 0) -> list[Node]:
    """The outputs of a node that has several, one node each, from the first wanted on."""
    return [Node(ITEM, _index[k], (of,), a, of.trace) for k, a in enumerate(of.aval[first:], first)]


def _store(nodes: Iterable[Node], values: Iterable[Any], oldest: int) -> list[Node]:
    """Give nodes their values, and count the memory of these. Nodes forget how they were made, unless they are of a
    trace that is under way: as old as this one, or newer. Returns those that have outputs `waiting`."""
    pairs = [*zip(nodes, values, strict=False)]
    for node, value in pairs:
        if node.trace < oldest:
            node.hold(value)
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


def _outside(frame: FrameType) -> FrameType:
    """The nearest frame that is not one of ours."""
    while _own[frame.f_code.co_filename] and frame.f_back is not None:
        frame = frame.f_back
    return frame


def location(node: Node) -> str:
    """`file:line` of the user's code that made the node, or "" if it is not known."""
    return line_at(*node.where) if node.where is not None else ""


def line_at(code: CodeType, instruction: int) -> str:
    """`file:line` of an instruction."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return f"{code.co_filename}:{line}"
    return code.co_filename
