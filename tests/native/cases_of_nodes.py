"""Cases of mxcompat/_native/nodes.c."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np

import mxcompat.core as mx
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir import buffers
from mxcompat._graph.ir import node as nodes
from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, created
from mxcompat._native import native

from .cases import Case

__all__ = ["cases"]

FLOATS = aval((3,), avals.float32)
ADD, SPLIT = mx.add.op, mx.divmod(mx.ones(3), 2.0)[0]._node.inputs[0].op


def leaf(trace: Any = 0, shape: tuple[int, ...] = (3,)) -> Node:
    return Node(None, (), (), aval(shape, avals.float32), trace, np.ones(shape, np.float32))


class Late(Node):
    """A node that computes its value on access."""

    __slots__ = ("result",)

    def __init__(self, value: Any) -> None:
        self.result = value
        super().__init__(None, (), (), FLOATS, 0)

    @property
    def value(self) -> Any:  # type: ignore[override]
        if self.result is None:
            raise RuntimeError("not to be found")
        return self.result

    @value.setter
    def value(self, value: Any) -> None:
        """Override the property of `Node`."""


def refuse(node: Node) -> None:
    raise RuntimeError("refused")


def watch(node: Node) -> None:
    """Observe a new node."""


REFUSED = {"before": lambda: created.append(refuse), "after": lambda: created.remove(refuse), "raises": RuntimeError}
WATCHED = {"before": lambda: created.append(watch), "after": lambda: created.remove(watch)}


class NoMemo:
    """A stand-in for an op whose memo is not a dictionary."""

    memo = 3


def _of_apply() -> Iterator[Case]:
    x, y, other = leaf(), leaf(2**40), leaf(shape=(2,))
    odd, unknown = leaf("x"), (leaf(shape=(4,)), leaf(shape=(4,)))
    yield Case("apply", "without params", native.apply, (ADD, (x, y)))
    yield Case("apply", "with params", native.apply, (ADD, (x, x), ()))
    yield Case("apply", "an op with several results", native.apply, (SPLIT, (x, x), ()))
    yield Case("apply", "an observer", native.apply, (ADD, (x, x)), **WATCHED)
    yield Case("apply", "avals that are not known yet", native.apply, (ADD, unknown), before=ADD.memo.clear, calls=2000)
    yield Case("apply", "shapes that do not fit", native.apply, (ADD, (x, other)), ValueError, calls=5000)
    yield Case("apply", "an observer that refuses", native.apply, (ADD, (x, x)), **REFUSED)
    yield Case("apply", "an input that is no node", native.apply, (ADD, (x, 3)), TypeError)
    yield Case("apply", "a trace that cannot be compared", native.apply, (ADD, (x, odd)), TypeError)
    yield Case("apply", "params that cannot be hashed", native.apply, (ADD, (x, x), ([],)), TypeError)
    yield Case("apply", "no op", native.apply, (3, (x, x)), AttributeError)
    yield Case("apply", "a memo that is no dictionary", native.apply, (NoMemo, (x, x)), SystemError)
    yield Case("apply", "inputs in a list", native.apply, (ADD, [x, x]), TypeError)
    yield Case("apply", "one argument", native.apply, (ADD,), TypeError)
    yield Case("apply", "four arguments", native.apply, (ADD, (x, x), (), 1), TypeError)

    yield Case("apply_as", "a known aval", native.apply_as, (ADD, (x, y), (1,), FLOATS))
    yield Case("apply_as", "an observer that refuses", native.apply_as, (ADD, (x, y), (), FLOATS), **REFUSED)
    yield Case("apply_as", "an input that is no node", native.apply_as, (ADD, (x, None), (), FLOATS), TypeError)
    yield Case("apply_as", "a trace that cannot be compared", native.apply_as, (ADD, (odd,), (), FLOATS), TypeError)
    yield Case("apply_as", "inputs in a list", native.apply_as, (ADD, [x], (), FLOATS), TypeError)
    yield Case("apply_as", "three arguments", native.apply_as, (ADD, (x,), ()), TypeError)


def _of_makers() -> Iterator[Case]:
    x, y = leaf(), leaf()
    two = Node(SPLIT, (), (x, x), (FLOATS, FLOATS), 0)
    large = np.zeros(buffers.smallest // 4 + 1, np.float32)
    yield Case("aliases", "two nodes", native.aliases, (ADD, [x, y], 7))
    yield Case("aliases", "no nodes", native.aliases, (ADD, [], 7))
    yield Case("aliases", "an observer that refuses", native.aliases, (ADD, [x, y], 7), **REFUSED)
    yield Case("aliases", "an item that is no node", native.aliases, (ADD, [x, 3], 7), TypeError)
    yield Case("aliases", "nodes in a tuple", native.aliases, (ADD, (x,), 7), TypeError)
    yield Case("aliases", "two arguments", native.aliases, (ADD, [x]), TypeError)

    yield Case("items", "all", native.items, (two,))
    yield Case("items", "from the second on", native.items, (two, 1))
    yield Case("items", "none", native.items, (two, 2))
    yield Case("items", "an observer that refuses", native.items, (two,), **REFUSED)
    yield Case("items", "a first that is no integer", native.items, (two, "1"), TypeError)
    yield Case("items", "a first that is too large", native.items, (two, 1 << 70), OverflowError)
    yield Case("items", "a first below 0", native.items, (two, -1), ValueError)
    yield Case("items", "one result", native.items, (x,), TypeError)
    yield Case("items", "no node", native.items, (3,), TypeError)
    yield Case("items", "no argument", native.items, (), TypeError)

    yield Case("leaf", "small", native.leaf, (x.value, FLOATS))
    yield Case("leaf", "large", native.leaf, (large, aval(large.shape, avals.float32)), calls=5000)
    yield Case("leaf", "several values", native.leaf, ((large, large), (FLOATS, aval(large.shape, avals.float32))))
    yield Case("leaf", "an observer that refuses", native.leaf, (x.value, FLOATS), **REFUSED)
    yield Case("leaf", "no aval", native.leaf, (x.value, 3), AttributeError)
    yield Case("leaf", "fewer values than avals", native.leaf, ((), (FLOATS,)), ValueError)
    yield Case("leaf", "one argument", native.leaf, (x.value,), TypeError)

    yield Case("node", "without a value", native.node, (ADD, (), (x, x), FLOATS, 0))
    yield Case("node", "with a value", native.node, (ADD, (), (x, x), FLOATS, 0, x.value))
    yield Case("node", "an observer that refuses", native.node, (ADD, (), (x, x), FLOATS, 0), **REFUSED)
    yield Case("node", "four arguments", native.node, (ADD, (), (x, x), FLOATS), TypeError)


def _of_store() -> Iterator[Case]:
    x = leaf()
    value = np.ones(3, np.float32)
    large = np.zeros(buffers.smallest // 4 + 1, np.float32)

    def fresh(trace: Any = 0, a: Any = FLOATS, waits: bool = False) -> Node:
        node = Node(ADD, (), (x, x), a, trace)
        if waits:
            node.waiting = []
        return node

    def stored(of: list[Node], values: Any, oldest: Any = 1) -> tuple:
        return of, values, oldest

    yield Case("store", "nodes without a trace", native.store, lambda: stored([fresh(), fresh()], [value, value]))
    yield Case("store", "a node of a capture", native.store, lambda: stored([fresh(7)], (value,), 3))
    yield Case("store", "a node that outputs wait for", native.store, lambda: stored([fresh(waits=True)], [value]))
    yield Case("store", "fewer values than nodes", native.store, lambda: stored([fresh(), fresh()], [value]))
    yield Case("store", "an iterator of values", native.store, lambda: stored([fresh()], iter([value])))
    big = aval(large.shape, avals.float32)
    yield Case("store", "a large value", native.store, lambda: stored([fresh(a=big)], [large]), calls=5000)
    yield Case("store", "an aval that is none", native.store, lambda: stored([fresh(a=3)], [value]), AttributeError)
    yield Case("store", "no values", native.store, lambda: stored([fresh(waits=True)], None), TypeError)
    yield Case("store", "no nodes", native.store, lambda: stored(None, [value]), TypeError)  # type: ignore[arg-type]
    yield Case("store", "an item that is no node", native.store, lambda: stored([fresh(), 3], [value, 4]), TypeError)
    yield Case("store", "an oldest that is no trace", native.store, lambda: stored([fresh(7)], [value], "x"), TypeError)
    yield Case("store", "two arguments", native.store, ([x], [value]), TypeError)


def _of_many() -> Iterator[Case]:
    x, number = leaf(), nodes.scalar(2.0, aval((), avals.float32))
    pending = Node(ADD, (), (x, x), FLOATS, 0)
    late, lost = Late(x.value), Late(None)
    for name, one_fails in (("unevaluated", True), ("arrays_of", True), ("avals_of", False)):
        function = getattr(native, name)
        yield Case(name, "a list", function, ([x, pending, number, late],))
        yield Case(name, "a tuple", function, ((x, pending),))
        yield Case(name, "a dictionary", function, ({x: 1, pending: 2},))
        yield Case(name, "nothing", function, ([],))
        yield Case(name, "a value that is not found", function, ([x, lost],), RuntimeError if one_fails else None)
        yield Case(name, "an item that is no node", function, ([x, None],), TypeError)
        yield Case(name, "no sequence", function, (3,), TypeError)


def _of_fields() -> Iterator[Case]:
    x = leaf()

    def initialized(*arguments: Any) -> Node:
        return Node(*arguments)

    def again(of: Node) -> None:
        of.__init__(ADD, (), (x, x), FLOATS, 0, None, (1, 2))  # type: ignore[misc]

    def cycle() -> None:
        node = Node(ADD, (), (x, x), FLOATS, 0)
        node.value = [node]

    def chain() -> None:
        node = x
        for _ in range(300):
            node = native.node(ADD, (), (node,), FLOATS, 0)

    def members(of: Node) -> None:
        for name in ("op", "params", "inputs", "aval", "trace", "value", "where", "waiting"):
            before = getattr(of, name)
            setattr(of, name, [])
            setattr(of, name, before)

    def deleted() -> None:
        del native.Fields.__new__(native.Fields).op

    yield Case("Fields.tp_new", "nothing else", Node.__new__, (Node,))
    yield Case("Fields.tp_new", "no type", Node.__new__, (3,), TypeError)
    yield Case("Fields.tp_init", "five", initialized, (ADD, (), (x, x), FLOATS, 0))
    yield Case("Fields.tp_init", "seven", initialized, (ADD, (), (x, x), FLOATS, 0, 1, (1, 2)))
    yield Case("Fields.tp_init", "the same node again", again, (leaf(),))
    yield Case("Fields.tp_init", "an observer that refuses", initialized, (ADD, (), (), FLOATS, 0), **REFUSED)
    yield Case("Fields.tp_init", "four", initialized, (ADD, (), (x, x), FLOATS), TypeError)
    yield Case("Fields.tp_dealloc", "a chain", chain, calls=200)
    yield Case("Fields.tp_traverse", "what it refers to", gc.get_referents, (x,))
    yield Case("Fields.tp_clear", "a cycle", cycle)
    yield Case("Fields.tp_members", "set and read", members, (leaf(),))
    yield Case("Fields.tp_members", "none yet", getattr, (Node.__new__(Node), "op"), AttributeError)
    yield Case("Fields.tp_members", "deleted before it is set", deleted, (), AttributeError)


def _of_connect() -> Iterator[Case]:
    arguments = (Node, created, vars(buffers), nodes._own, nodes.ITEM, nodes._index, nodes.SCALAR, nodes.get_frame)
    yield Case("connect_nodes", "the same again", native.connect_nodes, arguments)
    yield Case("connect_nodes", "no list of observers", native.connect_nodes, (Node, (), *arguments[2:]), TypeError)
    yield Case("connect_nodes", "one", native.connect_nodes, (Node,), TypeError)


def cases() -> Iterator[Case]:
    for some in (_of_apply, _of_makers, _of_store, _of_many, _of_fields, _of_connect):
        yield from some()
