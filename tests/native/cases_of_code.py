"""Cases of mxcompat/_native/code.c."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import mxcompat.core as mx
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir import node as nodes
from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.outputs import try_resolve_item
from mxcompat._native import native

from .cases import Case
from .cases_of_nodes import ADD, FLOATS, SPLIT, Late, leaf

__all__ = ["cases"]


class Awkward:
    """An object that can be hashed, but neither compared nor tested for truth."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


STEP = (ADD, (), (-1, -2))


def _of_path() -> Iterator[Case]:
    Path = native.Path
    held = Awkward()

    def cycle() -> None:
        around: list[Any] = []
        around.append(Path(((ADD, (around,), (-1,)),), (None,), (0,)))

    def twice() -> None:
        Path((STEP,), (None, None), (0,)).__init__((), (), ())

    yield Case("Path.tp_new", "nothing else", Path.__new__, (Path,))
    yield Case("Path.tp_init", "a step", Path, ((STEP,), (None, None), (0,)))
    yield Case("Path.tp_init", "nothing", Path, ((), (), ()))
    for name, arguments, error in (
        ("no argument", (), TypeError),
        ("lists", ([], (), ()), TypeError),
        ("an instruction of two", ((STEP, (ADD, ())), (), ()), TypeError),
        ("an instruction that is no tuple", ((STEP, 3), (None, None), ()), TypeError),
        ("slots that are no tuple", ((STEP, (ADD, (), [0])), (None, None), ()), TypeError),
        ("a slot that is no integer", ((STEP, (ADD, (), ("0",))), (None, None), ()), TypeError),
        ("a slot that is too large", ((STEP, (ADD, (), (1 << 70,))), (None, None), ()), OverflowError),
        ("no such slot", ((STEP, (ADD, (), (-5,))), (None, None), ()), ValueError),
        ("no such slot of a root", ((STEP,), (None, None), (0, 3)), ValueError),
        ("a root that is no integer", ((STEP,), (None, None), (None,)), TypeError),
    ):
        yield Case("Path.tp_init", name, Path, arguments, error)
    yield Case("Path.tp_init", "twice", twice, (), TypeError)
    yield Case("Path.tp_dealloc", "a step", Path, (((ADD, (held,), (-1, -1)),), (None,), (0,)))
    yield Case("Path.tp_traverse", "what it refers to", gc.get_referents, (Path((STEP,), (None, None), (0,)),))
    yield Case("Path.tp_clear", "a cycle", cycle)


def _of_follow() -> Iterator[Case]:
    x, y = leaf(), leaf()
    root, other = Node(ADD, (), (x, y), FLOATS, 0), Node(SPLIT, (), (x, y), FLOATS, 0)
    outer = Node(ADD, (), (root, y), FLOATS, 0)
    follow = native.Path((STEP,), (None, None), (0,)).follow
    longer = native.Path((STEP, (ADD, (), (0, -2))), (None, None), (1,)).follow
    params = native.Path(((ADD, (Awkward(),), (-1, -2)),), (None, None), (0,)).follow
    awkward = Node(ADD, (Awkward(),), (x, y), FLOATS, 0)
    both = Node(SPLIT, (), (x, y), (FLOATS, FLOATS), 0)
    item = native.items(both)[0]
    of_item = Node(ADD, (), (item, y), FLOATS, 0)
    of_lost = Node(ADD, (), (Late(None), y), FLOATS, 0)
    of_late = Node(ADD, (), (Late(x.value), y), FLOATS, 0)
    odd = Node(ADD, (), (leaf("x"), y), FLOATS, 7)
    wrong_item = Node(ADD, (), (Node(nodes.ITEM, (5,), (Node(None, (), (), FLOATS, 0, ()),), FLOATS, 0), y), FLOATS, 0)

    yield Case("Path.follow", "the same code", follow, ([root], [], 0))
    yield Case("Path.follow", "two steps", longer, ([outer], (), 0))
    yield Case("Path.follow", "nothing", native.Path((), (), ()).follow, ([], [], 0))
    yield Case("Path.follow", "a leaf that is late", follow, ([of_late], [], 0))
    for name, path, of, placeholders in (
        ("another op", follow, other, ()), ("another graph", longer, Node(ADD, (), (other, y), FLOATS, 0), ()),
        ("another root", follow, x, ()), ("no node", follow, 3, ()), ("other inputs", longer, of_item, ()),
        ("an output that is not there", follow, of_item, ()), ("other placeholders", follow, root, (y, x)),
        ("more placeholders", follow, root, (x, y, x)),
    ):  # fmt: skip
        yield Case("Path.follow", name, path, ([of], placeholders, 0))
    yield Case("Path.follow", "more roots", follow, ([root, root], [], 0))
    yield Case("Path.follow", "params that cannot be compared", params, ([awkward], [], 0), RuntimeError)
    yield Case("Path.follow", "a value that is not found", follow, ([of_lost], [], 0), RuntimeError)
    yield Case("Path.follow", "an output that cannot be taken", follow, ([wrong_item], [], 0), IndexError)
    yield Case("Path.follow", "a trace that cannot be compared", follow, ([odd], [], 3), TypeError)
    yield Case("Path.follow", "a trace that is neither true nor false", follow, ([root], [], Awkward()), RuntimeError)
    yield Case("Path.follow", "roots that are none", follow, (3, [], 0), TypeError)
    yield Case("Path.follow", "placeholders that are none", follow, ([root], 3, 0), TypeError)
    yield Case("Path.follow", "two arguments", follow, ([root], []), TypeError)
    empty = native.Path.__new__(native.Path)
    yield Case("Path.follow", "a path that is none yet", empty.follow, ([root], [], 0), TypeError)
    with Capture([x, y]) as capture:
        first, second = capture.placeholders
        node = Node(ADD, (), (first, second), FLOATS, capture.id)
    yield Case("Path.follow", "the body of a capture", follow, ([node], capture.placeholders, capture.id))


def _of_walk() -> Iterator[Case]:
    x, y = leaf(), leaf()
    root = Node(ADD, (), (x, y), FLOATS, 0)
    outer = Node(ADD, (), (root, Node(ADD, (), (root, y), FLOATS, 0)), FLOATS, 0)
    deep = x
    for _ in range(300):
        deep = Node(ADD, (), (deep, y), FLOATS, 0)
    both = Node(SPLIT, (), (x, y), (FLOATS, FLOATS), 0)
    item = native.items(both)[1]
    gone = Node(nodes.ITEM, (5,), (Node(None, (), (), FLOATS, 0, ()),), FLOATS, 0)
    node = Node(SPLIT, (), (x, y), (FLOATS, FLOATS), 0, (x.value, y.value))

    def there() -> tuple:
        return [native.items(node)[0]], 0, ()

    walk = native.walk
    yield Case("walk", "nothing", walk, ([], 0, ()))
    yield Case("walk", "a graph", walk, ([outer, root, x], 0, ()))
    yield Case("walk", "a graph in iterators", walk, lambda: (iter([outer, root]), 0, iter([])))
    yield Case("walk", "a chain", walk, ([deep], 0, ()), calls=300)
    yield Case(
        "walk", "a number", walk, ([Node(ADD, (), (nodes.scalar(1.0, aval((), avals.float32)), x), FLOATS, 0)], 0, ())
    )
    yield Case("walk", "an output that is not there", walk, ([item], 0, ()))
    yield Case("walk", "an output that is there", walk, there)
    yield Case("walk", "a leaf that is late", walk, ([Node(ADD, (), (Late(x.value), y), FLOATS, 0)], 0, ()))
    yield Case(
        "walk", "a value that is not found", walk, ([Node(ADD, (), (root, Late(None)), FLOATS, 0)], 0, ()), RuntimeError
    )
    yield Case("walk", "an output that cannot be taken", walk, ([gone], 0, ()), IndexError)
    yield Case("walk", "an input that is no node", walk, ([Node(ADD, (), (root, 3), FLOATS, 0)], 0, ()), TypeError)
    yield Case(
        "walk", "an input that cannot be hashed", walk, ([Node(ADD, (), (root, []), FLOATS, 0)], 0, ()), TypeError
    )
    yield Case("walk", "inputs that are no tuple", walk, ([Node(ADD, (), 3, FLOATS, 0)], 0, ()), SystemError)
    yield Case("walk", "a root that is no node", walk, ([root, None], 0, ()), TypeError)
    yield Case("walk", "a root that cannot be hashed", walk, ([root, []], 0, ()), TypeError)
    yield Case("walk", "a placeholder that cannot be hashed", walk, ([root], 0, ([],)), TypeError)
    yield Case("walk", "a trace that is none", walk, ([root], "x", ()), TypeError)
    yield Case("walk", "a node whose trace is none", walk, ([leaf("x")], 3, ()), TypeError)
    yield Case("walk", "roots that are none", walk, lambda: (3, 0, (x for _ in range(2))), TypeError)
    yield Case("walk", "placeholders that are none", walk, ([root], 0, 3), TypeError)
    yield Case("walk", "two arguments", walk, ([root], 0), TypeError)
    with Capture([x, y]) as capture:
        a, b = mx.ones(3), mx.ones(3)
        a._node, b._node = capture.placeholders
        body = [(a * b + mx.ones(3))._node, a._node]
    yield Case("walk", "the body of a capture", walk, (body, capture.id, capture.placeholders))


def _of_connect() -> Iterator[Case]:
    connected = (nodes.SCALAR, nodes.TRACED, nodes.ITEM, try_resolve_item)
    yield Case("connect_code", "the same again", native.connect_code, connected)
    yield Case("connect_code", "one", native.connect_code, (nodes.SCALAR,), TypeError)


def cases() -> Iterator[Case]:
    for some in (_of_path, _of_follow, _of_walk, _of_connect):
        yield from some()
