"""The C extension behaves as its Python twins do, and keeps no object alive."""

import _thread
import gc
import itertools
import os
import queue
import subprocess
import sys
import weakref
from types import CodeType
from typing import NamedTuple

import jax
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._array import array as arrays
from mxcompat._array import nest
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir import buffers, linearize
from mxcompat._graph.ir import fields as many
from mxcompat._graph.ir import node as nodes
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import Node, created
from mxcompat._native import native
from mxcompat._ops.random import threefry
from mxcompat._transforms import trees

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

PATHS = [native.Path, linearize._PathInPython] if native else []

READ = [
    [1.0, 2.0, 3.0], (1.0, -0.0), [float("nan"), float("inf"), 1e300, 5e-324], [0.1] * 1000,
    [1, 2, 3], [2**31 - 1, -(2**31)], [True, False], [True, 2], [1, 2.5], [False, 0.5], [16777217, 0.5],
    [[1, 2], [3, 4]], [[1.0], (2.0,)], ((True, False),), [[[[1]]]], np.arange(24.0).reshape(2, 3, 4).tolist(),
]  # fmt: skip
LEFT = [
    [], [[]], [[], []], [[1], []], [[1], [2, 3]], [[1], 2], [1, [2]], [1, "2"], [1, None], "12", b"12", 5, 2.5, None,
    [1j], [2**31], [2**70, 0.5], [np.float32(1)], [np.float64(1)], [np.zeros(2)], np.zeros(2), {1: 2}, range(3),
    [type("F", (float,), {})(1)], [type("I", (int,), {})(1)], type("L", (list,), {})([1, 2]), [mx.array(1.0)],
]  # fmt: skip


def outcome(make):
    try:
        x = make()
    except Exception as error:
        return type(error), str(error)
    return x.aval, np.asarray(x.value).dtype, np.asarray(x.value).tobytes()


@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "f", "d"])
def test_a_single_number_is_read_from_memory(dtype):
    kind = np.dtype(dtype)
    values = [0, 1] if kind.kind == "b" else [0, 1, 1 / 3, -1.5, np.inf, np.nan] if kind.kind == "f" else []
    if kind.kind in "iu":
        values = [0, 5, np.iinfo(kind).min, np.iinfo(kind).max]
    for value in values:
        one = np.array(value, kind)
        with jax.enable_x64(True):
            array = jax.numpy.asarray(one)
        for held in (one, array, one.reshape(1, 1), memoryview(one)):
            number = native.number(held)
            assert type(number) is type(one.item())
            assert number == one.item() or number != number != one.item()


def test_what_is_no_single_number_is_left_to_numpy():
    for other in (
        None, 1.5, 3, "1", b"12", bytearray(2), np.zeros(2), np.zeros(0), np.zeros((), np.complex64),
        np.zeros((), np.float16), np.zeros((), ">f4"), np.zeros((), [("a", "f4")]), jax.numpy.zeros((), "bfloat16"),
        jax.numpy.zeros(2), (np.zeros(()), np.zeros(())), mx.array(1.0)._node,
    ):  # fmt: skip
        assert native.number(other) is None
    deleted = jax.numpy.zeros(()) + 1
    deleted.delete()
    assert native.number(deleted) is None


@pytest.mark.parametrize("dtype", [None, mx.float32, mx.int32, mx.bool_, mx.float16, mx.int64, mx.complex64])
@pytest.mark.parametrize("values", READ, ids=lambda v: repr(v)[:30])
def test_numbers_are_read_as_by_python(values, dtype):
    read = native.numbers(values, dtype)
    natural = nest.nest_of(values).aval.dtype
    assert (read is not None) == (dtype in (None, natural, mx.float32))
    if read is not None:
        assert outcome(lambda: read) == outcome(lambda: nest.nest_of(values, dtype))
        assert read.value.base is None
        assert read.value.flags.writeable


@pytest.mark.parametrize("values", LEFT, ids=lambda v: repr(v)[:30])
def test_what_is_not_read(values):
    assert native.numbers(values, None) is None


def test_a_nest_that_contains_itself():
    values: list = []
    values.append(values)
    assert native.numbers(values, None) is None
    deep: list = [1.0]
    for _ in range(10_000):
        deep = [deep]
    assert native.numbers(deep, None) is None


def some_plain(allocate):
    plain = tuple((d, d._numpy) for d in (mx.float32, mx.int32, mx.bool_))
    native.connect_numbers(allocate, avals.AVALS, avals.aval, plain)


@pytest.mark.parametrize("change", [
    lambda v: v.clear(), lambda v: v.append(1.0), lambda v: v.__setitem__(1, "x"), lambda v: v.__setitem__(1, [1.0]),
    lambda v: v.__setitem__(1, 2**31), lambda v: v.__setitem__(1, 2**70),
])  # fmt: skip
def test_a_list_that_changes_while_it_is_read(change):
    """Assert that a list may change while it is read, because the collector runs arbitrary code."""
    values = [1.0, 2.0, 3.0]

    def allocate(*args):
        change(values)
        return np.empty(*args)

    some_plain(allocate)
    try:
        assert native.numbers(values, None) is None
    finally:
        some_plain(np.empty)
    assert native.numbers([1.0], None) is not None


def test_an_error_on_the_way_is_raised():
    def allocate(*args):
        raise MemoryError("none left")

    some_plain(allocate)
    try:
        with pytest.raises(MemoryError, match="none left"):
            mx.array([1.0, 2.0])
    finally:
        some_plain(np.empty)


ADD, SUM, SPLIT = mx.add.op, mx.sum(mx.ones(3))._node.op, mx.divmod(mx.ones(3), 2.0)[0]._node.inputs[0].op


def fields(node):
    return node.op, node.params, node.inputs, node.aval, node.trace, node.value


@pytest.mark.parametrize("traces", [*itertools.product([0, 3, 2**40], repeat=2)])
def test_apply_makes_what_python_makes(traces):
    inputs = tuple(Node(None, (), (), avals.aval((3,), mx.float32), t, np.ones(3)) for t in traces)
    for op, params in ((ADD, ()), (SPLIT, ())):
        node, twin = nodes.apply(op, inputs, params), nodes._apply(op, inputs, params)
        assert fields(node) == fields(twin)
        assert node.inputs is inputs
        assert node.trace == max(traces)


@pytest.mark.parametrize("call", [
    lambda x: x + 1, lambda x: -x, lambda x: x == x, lambda x: x @ x, lambda x: mx.exp(x), lambda x: x.sum(),
    lambda x: x[0], lambda x: mx.reshape(x, (3, 1)), lambda x: sum([x, x]),
])  # fmt: skip
def test_where_a_node_was_made(call):
    code = nodes.location(call(mx.ones(3))._node)
    assert code == f"{__file__}:{call.__code__.co_firstlineno}"


def test_apply_raises_what_python_raises():
    two, three = (Node(None, (), (), avals.aval((n,), mx.float32), 0, np.ones(n)) for n in (2, 3))
    messages = []
    for apply in (nodes.apply, nodes._apply):
        with pytest.raises(ValueError) as error:
            apply(ADD, (two, three))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    for wrong in ([two, two], (two, 5), (two, None)):
        with pytest.raises(TypeError):
            native.apply(ADD, wrong)


def test_the_place_of_a_function_of_the_core_that_nobody_called():
    """Test the recorded line if a thread starts in a function of the core."""
    x = mx.ones(2)
    mx.eval(x)
    node_queue = queue.Queue()
    created.append(node_queue.put)
    try:
        _thread.start_new_thread(mx.add, (x, x))
        node = node_queue.get(timeout=60)
    finally:
        created.remove(node_queue.put)
    assert node.where[0].co_filename.startswith(nodes.PACKAGE)


def test_leaves():
    a = avals.aval((3,), mx.float32)
    data = np.ones(3)
    node, twin = nodes.leaf(data, a), nodes._leaf(data, a)
    for leaf in (node, twin):
        assert (leaf.op, leaf.params, leaf.inputs, leaf.aval, leaf.trace, leaf.where) == (None, (), (), a, 0, None)
        assert leaf.value is data
    before = mx.get_active_memory()
    large = mx.array([0.0] * 100_000)
    assert mx.get_active_memory() - before == 400_000
    del large
    assert mx.get_active_memory() == before


def test_the_fields_of_a_node():
    with pytest.raises(TypeError):
        Node()
    with pytest.raises(TypeError):
        Node(1, 2, 3, 4, 5, 6, 7, 8)
    node = Node(op=1, params=2, inputs=3, aval=4, trace=5, where=7)
    assert (node.op, node.params, node.inputs, node.aval, node.trace, node.value, node.where) == (
        1,
        2,
        3,
        4,
        5,
        None,
        7,
    )
    node.__init__(None, (), (), None, 0)
    assert node.op is None
    assert node.where is None
    with pytest.raises(AttributeError):
        node.other = 1
    with pytest.raises(AttributeError):
        Node.__new__(Node).op  # noqa: B018
    with pytest.raises(AttributeError):
        memoryview(mx.array.__new__(mx.array))


def test_fields_of_many_nodes(tmp_path):
    mx.save(str(tmp_path / "x.npy"), mx.array(True))
    there = mx.array([1.0, 2.0])
    mx.eval(there)
    inputs = [there._node, (there + 1)._node, nodes.scalar(2.0, avals.aval((), avals.float32))]
    late = mx.load(str(tmp_path / "x.npy"))._node  # a leaf that reads its value from the file at the first access
    for of in (inputs, tuple(inputs), [], [late], dict.fromkeys([late, *inputs])):
        assert many.unevaluated(of) == many._unevaluated(of)
        assert many.avals_of(of) == many._avals_of(of)
        assert many.arrays_of(of) == many._arrays_of(of)
    assert many.unevaluated(inputs) == inputs[1:2]
    for function in (many.unevaluated, many.avals_of, many.arrays_of):
        with pytest.raises(TypeError):
            function([inputs[0], None])


def test_store_says_whose_outputs_wait():
    for store in (nodes.store, nodes._store):
        one, two = (nodes.node(None, (), (), avals.aval((), avals.float32), 0) for _ in range(2))
        two.waiting = []
        assert store([one, two], [np.zeros(()), np.ones(())], 1) == [two]
        assert [one.value, two.value] == [0, 1]


def test_observers_see_every_new_node():
    seen = []
    created.append(seen.append)
    try:
        new_nodes = [Node(None, (), (), None, 0), (mx.array([1.0]) + mx.array([2.0]))._node, mx.array(np.ones(2))._node]
    finally:
        created.remove(seen.append)
    assert len(seen) == 5
    assert all(any(n is s for s in seen) for n in new_nodes)

    def refuse(node):
        raise RuntimeError("refused")

    x = mx.array([1.0])
    created.append(refuse)
    try:
        for make in (lambda: Node(None, (), (), None, 0), lambda: x + x, lambda: mx.array([1.0])):
            with pytest.raises(RuntimeError, match="refused"):
                make()
    finally:
        created.remove(refuse)


def test_cycles_are_collected():
    x = mx.ones(3)
    y = x + x
    y._node.value = [y]  # an impossible value that forms a cycle through a node and an array
    dead = weakref.ref(y._node), weakref.ref(y)
    del y
    gc.collect()
    assert dead[0]() is None
    assert dead[1]() is None


def test_a_long_chain_is_given_up():
    x = mx.ones(3)
    for _ in range(300_000):
        x = x + x
    del x


def test_nothing_is_kept():
    x, y = mx.array([1.0]), mx.array([2.0])
    mx.eval(x, y)
    wrong = mx.ones((2,)), mx.ones((3,))

    def all_of_it():
        mx.array([[1, 2], [3, 4]])
        mx.array([1.0, 2.5])
        mx.array((True,))
        mx.array([1.0, 2.5], mx.int32)
        mx.exp(x + y).sum()
        memoryview(x)
        for make in (lambda: wrong[0] + wrong[1], lambda: mx.array([[1], [1, 2]])):
            try:
                make()
            except ValueError:
                continue

    for _ in range(50):
        all_of_it()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(2000):
        all_of_it()
    gc.collect()
    assert sys.getallocatedblocks() - before < 500


PROGRAM = """
import sys
import mxcompat.core as mx, numpy as np
from mxcompat._graph.ir import node
x = mx.array([[1.0, 2.0], [3.0, 4.0]])
y = mx.array([1, 2])
loss, grads = mx.value_and_grad(lambda w: mx.mean(mx.square(x @ w - y)))(mx.ones((2, 2)))
print(loss, grads, mx.array([True]), mx.array([1, 2.5]), mx.array(np.arange(3)), np.asarray(-x))
print(node.location(x.T._node))
print(node.apply is node._apply)
"""


def test_a_program_without_it():
    def run(value):
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            env={**os.environ, "MXCOMPAT_NATIVE": value},
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.rstrip().rpartition("\n")

    (with_c, _, last), (without, _, also) = run("1"), run("0")
    assert with_c == without
    assert (last, also) == ("False", "True")


def test_following_finds_what_python_finds():
    def code_of(x):
        structure, roots, _, _ = linearize.linearize([x._node])
        return structure.code.instructions, structure.code.kinds, roots

    def graphs():
        a, b = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
        known = a * b
        mx.eval(known)
        taken = mx.linalg.qr(mx.stack([a, b]), stream=mx.cpu)
        mx.eval(taken[0])  # this evaluation gives the other its value
        yield (a + b) * a
        yield (a + b) * b
        yield (a + b) * (a + b)
        yield (a - b) * a
        yield mx.sum(a + b, axis=0) * a
        yield mx.sum(a + b, axis=(0,), keepdims=True) * a
        yield known * a
        yield taken[1] * a
        yield mx.concatenate([a, b]) * 2.0
        yield mx.concatenate([a, b, a]) * 2.0
        yield mx.concatenate([a, a, a]) * 2.0
        yield mx.linalg.qr(mx.stack([a, b]), stream=mx.cpu)[1] * a

    arrays = [*graphs()]
    outcomes = set()
    for x in arrays:
        code = code_of(x)
        for y in arrays:
            for trace in (0, 1 << 40):
                results = [path(*code).follow([y._node], [], trace) for path in PATHS]
                assert (results[0] is None) == (results[1] is None)
                if results[0] is not None:
                    assert [*map(list, results[0])] == [*map(list, results[1])]
                outcomes.add(results[0] is None)
    assert outcomes == {True, False}


def test_walking_finds_what_python_finds(tmp_path):
    def roots():
        a, b = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
        known = a * b
        mx.eval(known)
        taken = mx.linalg.qr(mx.stack([a, b]), stream=mx.cpu)
        mx.eval(taken[0])
        mx.save(str(tmp_path / "a.npy"), a)
        late = mx.load(str(tmp_path / "a.npy"))
        x = a
        for k in range(3000):
            x = x + (b if k % 2 else x)
        yield []
        yield [known]
        yield [a, known + a, a, known + a]
        yield [(a + b) * (a + b), known * a, taken[1] * a, a - b]
        yield [late * 2.0 + late, mx.concatenate([late, late, a])]
        yield [x, x * 2.0]

    for some in roots():
        nodes = [x._node for x in some]
        assert native.walk(nodes, 0, ()) == linearize._walk_in_python(nodes, 0, ())
    with Capture([a._node for a in (mx.ones(3), mx.ones(3))]) as capture:
        x, y = mx.ones(3), mx.ones(3)
        x._node, y._node = capture.placeholders
        outside = mx.ones(3) * 2
        nodes = [n._node for n in (x * y + outside, outside, x, mx.sin(x * y))]
        for walk in (native.walk, linearize._walk_in_python):
            instructions, slots, order, leaves = walk(nodes, capture.id, capture.placeholders)
            assert [op.name for op, _, _ in instructions] == ["multiply", "add", "multiply", "sin"]
            assert slots == (1, ~2, ~0, 3)
            assert [*leaves] == [*capture.placeholders, outside._node]
            assert len(order) == 4


def test_walks_that_fail(tmp_path):
    for arguments in ((), ([],), ([], 0), ([], "a", ()), (None, 0, ()), ([], 0, None), ([None], 0, ()), ([1], 1, [])):
        with pytest.raises(TypeError):
            native.walk(*arguments)
    mx.save(str(tmp_path / "a.npy"), mx.ones(100))
    late = mx.load(str(tmp_path / "a.npy"))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:200])
    root = (mx.ones(100) + late)._node
    for walk in (native.walk, linearize._walk_in_python):
        with pytest.raises(RuntimeError, match="Unable to read from file"):
            walk([root], 0, ())


def test_following_the_body_of_a_capture():
    outside = mx.array([5.0])
    for arguments in ([outside._node], [outside._node, outside._node]):
        with Capture(arguments) as capture:
            x = mx.array([0.0])
            x._node = capture.placeholders[0]
            root = (x * outside + outside)._node
            args = [root], capture.id, capture.placeholders
            structure, roots, order, leaves = linearize._walk(*args)
            for path in PATHS:
                follow = path(structure.code.instructions, structure.code.kinds, roots).follow
                result = follow([root], capture.placeholders, capture.id)
                assert result == (order, leaves, [n.aval for n in leaves])
                assert follow([root], [root, *capture.placeholders[1:]], capture.id) is None
                assert follow([root], capture.placeholders[1:], capture.id) is None
                assert follow([root, root], capture.placeholders, capture.id) is None
                assert follow([root], [*capture.placeholders, *leaves], capture.id) is None


def test_params_that_cannot_be_compared():
    class Awkward:
        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        __hash__ = object.__hash__

    leaf = mx.ones(2)._node
    root = Node(ADD, (Awkward(),), (leaf, leaf), leaf.aval, 0)
    for path in PATHS:
        with pytest.raises(RuntimeError, match="not to be compared"):
            path(((ADD, (Awkward(),), (-1, -1)),), (None,), (0,)).follow([root], [], 0)
        with pytest.raises(ValueError, match="no such slot"):
            path(((ADD, (), (-3,)),), (None,), (0,))
        with pytest.raises(ValueError, match="no such slot"):
            path(((ADD, (), (-1,)),), (None,), (2,))


def test_a_path_ends_with_what_refers_to_it():
    class Held:
        pass

    held = Held()
    path = native.Path(((ADD, (held,), (-1, -1)),), (None,), (0,))
    held.path, seen = path, weakref.ref(held)  # forms a cycle through the path
    del held, path
    gc.collect()
    assert seen() is None


def test_what_following_refuses():
    for args in ([], [(), ()], [[], (), ()], [(), [], ()], [((ADD, ()),), (), ()], [(3,), (), ()], [(), (), ("0",)]):
        with pytest.raises(TypeError):
            native.Path(*args)
    path = native.Path((), (), ())
    assert path.follow([], [], 0) == ([], [], [])
    for args in ([], [[], []], [[], 3, 0], [3, [], 0]):
        with pytest.raises(TypeError):
            path.follow(*args)
    with pytest.raises(TypeError):
        path.__init__((), (), ())
    with pytest.raises(TypeError):
        native.Path.__new__(native.Path).follow([], [], 0)


def test_nodes_of_known_avals_and_aliases():
    x, y = mx.array([1.0, 2.0])._node, mx.array([3.0, 4.0])._node
    with Capture([x, y]) as capture:
        inputs = (x, capture.placeholders[1])
        for apply_as in (native.apply_as, nodes._apply_as):
            result = apply_as(ADD, inputs, (1,), x.aval)
            assert (result.op, result.params, result.inputs, result.aval) == (ADD, (1,), inputs, x.aval)
            assert (result.trace, result.value) == (capture.id, None)
            assert isinstance(result.where[0], CodeType)
            assert result.inputs is inputs
        assert native.apply_as(ADD, (), (), x.aval).trace == 0
    for aliases in (native.aliases, nodes._aliases):
        first, second = aliases(ADD, [x, y], 7)
        for node, of in ((first, x), (second, y)):
            assert (node.op, node.params, node.inputs, node.aval) == (ADD, (), (of,), of.aval)
            assert (node.trace, node.value is of.value, node.where, node.waiting) == (7, True, None, None)
        assert aliases(ADD, [], 7) == []
    for args in ((), (ADD, [x], (), x.aval), (ADD, (3,), (), x.aval), (ADD, (x,), ())):
        with pytest.raises(TypeError):
            native.apply_as(*args)
    for args in ((), (ADD, (x,), 0), (ADD, [3], 0), (ADD, [x])):
        with pytest.raises(TypeError):
            native.aliases(*args)


def test_items_of_a_node():
    x = mx.array([1.0, 2.0])
    (both,) = mx.linalg.qr(mx.stack([x, x]), stream=mx.cpu)[0]._node.inputs
    for first in (0, 1, 2):
        for items in (native.items, nodes._items):
            outputs = items(both, first)
            assert len(outputs) == 2 - first
            for k, n in enumerate(outputs, first):
                assert (n.op, n.params, n.inputs) == (nodes.ITEM, (k,), (both,))
                assert n.params is nodes._index[k]
                assert (n.aval, n.trace, n.value, n.where) == (both.aval[k], 0, None, None)
    for args in ((), (x._node,), (3,), (both, "1"), (both, 0, 0)):
        with pytest.raises(TypeError):
            native.items(*args)


def test_storing_gives_nodes_their_values():
    for store in (native.store, nodes._store):
        x = mx.array([1.0, 2.0])
        inner = (x + 1)._node
        outer = (x * 2)._node
        outer.trace = 7
        values = [np.zeros(2, np.float32), np.ones(2, np.float32)]
        store([inner, outer], iter(values), 7)
        assert inner.value is values[0]
        assert (inner.op, inner.params, inner.inputs) == (None, (), ())
        assert outer.value is values[1]
        assert outer.op is not None
        assert len(outer.inputs) == 2
        store([inner, outer], values[:1], 8)  # takes only as many values as there are nodes
        assert outer.op is not None
    with pytest.raises(TypeError):
        native.store([3], [4], 0)
    with pytest.raises(TypeError):
        native.store([3], [4])


def test_storing_counts_memory(monkeypatch):
    counted = []
    monkeypatch.setattr(buffers, "count", lambda value, aval: counted.append((value, aval)))
    monkeypatch.setattr(buffers, "smallest", 8)
    for store in (native.store, nodes._store):
        x = mx.array([1.0, 2.0])
        results = mx.linalg.qr(mx.stack([x, x]), stream=mx.cpu)
        targets = [(x + 1)._node, x.sum()._node, *results[0]._node.inputs]
        counted.clear()
        values = ["two floats", "one", ("both", "results")]
        store(targets, values, 1)
        assert [v for v, _ in counted] == ["two floats", ("both", "results")]


class _Point(NamedTuple):
    x: object
    y: object


class _Sequence(list):
    pass


class _Elsewhere(list):
    """A list whose items are not in the list object itself, as in `mx.random.state`."""

    def __init__(self, held):
        self.held = held

    def __iter__(self):
        return iter(self.held)

    def __len__(self):
        return len(self.held)


class _Entries(dict):
    pass


def _trees():
    a, b, c = mx.array(1.0), mx.array(2.0), mx.array(3.0)
    yield a
    yield []
    yield 3
    yield None
    yield [a, b, a]
    yield (a, [b, (c, "x", None)], {})
    yield {"b": a, "a": [b, {"z": c, 1: a}]}
    yield _Point(a, {"k": _Point(b, 2)})
    yield _Sequence([_Entries(k=a), _Entries()])
    yield {"stride": (1, 2), "padding": [3, 4.0], "w": a, "flag": [True], "both": [1, a]}
    yield [(), [], {}, (b,)]
    yield {"state": _Elsewhere([a, b]), "numbers": _Elsewhere([1, 2.0]), "none": _Elsewhere([])}
    yield mx.random.state


def test_walks_over_trees():
    for tree in _trees():
        for require in (False, True):
            structures, outs = [], [[], []]
            for flatten, out in zip((native.flatten, trees._flatten_in_python), outs, strict=True):
                structures.append(flatten(tree, out, require))
            assert structures[0] is structures[1]
            assert [*map(id, outs[0])] == [*map(id, outs[1])]
            places = []
            for find in (native.find, trees._find_in_python):
                for container in ([tree], {"x": tree, "y": [tree]}, [tree, 1, tree]):
                    arrays, slots, tuples = [], [], []
                    positions = find(container, [0, "x"] if require else [], arrays, slots, tuples)
                    held = [(k, t, content) for _, k, t, content in tuples]
                    places.append((positions, [*map(id, arrays)], [(type(c), len(c), k) for c, k in slots], repr(held)))
            assert places[:3] == places[3:]
        leaves = [f"leaf {k}" for k in range(len(trees.flatten(tree)))]
        copies = [f(tree, iter(leaves)) for f in (native.rebuild, trees._rebuild_in_python)]
        assert copies[0] == copies[1]
        assert repr(copies[0]) == repr(copies[1])
        shapes = [f(tree, itertools.repeat(trees.LEAF)) for f in (native.rebuild, trees._rebuild_in_python)]
        assert shapes[0] == shapes[1]
        assert [f(shapes[0], iter(leaves)) for f in (native.rebuild, trees._rebuild_in_python)] == copies
        for rebuild in (native.rebuild, trees._rebuild_in_python):
            if leaves:
                with pytest.raises(StopIteration):
                    rebuild(tree, iter(leaves[1:]))


def test_slots_are_filled_and_emptied():
    for fill, put_back in (
        (native.fill, native.put_back),
        (trees._fill_in_python, trees._put_back_in_python),
    ):
        old, new = [mx.array(float(k)) for k in range(4)], [mx.array(float(-k)) for k in range(4)]
        other = mx.array(9.0)
        tree = {"a": old[0], "b": [old[1], old[2]], "c": old[3]}
        slots = [(tree, "a"), (tree["b"], 0), (tree["b"], 1), (tree, "c")]
        fill(slots, new)
        assert [c[k] for c, k in slots] == new
        inner = tree["b"]
        del tree["c"], inner[1]
        tree["a"] = other
        nodes = [x._node for x in new]
        assert put_back(slots, old, new, nodes) is False
        assert tree == {"a": other, "b": [old[1]]}
        tree = {"a": new[0], "b": new[1]}
        new[0] += 1
        assert put_back([(tree, "a"), (tree, "b")], old[:2], new[:2], nodes[:2]) is True
        assert tree["a"] is new[0]
        assert tree["b"] is old[1]
        assert put_back([(tree, "a"), (tree, "b")], old[:2], new[:2], None) is False
        assert tree["a"] is old[0]
        with pytest.raises(TypeError):
            fill([((), 0)], [other])

    class Closed(dict):
        def __getitem__(self, key):
            raise RuntimeError("closed")

    for put_back in (native.put_back, trees._put_back_in_python):
        with pytest.raises(RuntimeError, match="closed"):
            put_back([(Closed(), "a")], [other], [other], None)


def test_deep_trees_are_walked_in_python():
    deep = mx.array(1.0)
    for _ in range(3000):
        deep = [deep]
    assert len(trees.flatten(deep)) == 1
    assert len(trees.flatten(trees.rebuilt(deep, [mx.array(2.0)]))) == 1
    slots = trees.TreeSlots.of(deep)
    assert len(slots.arrays) == 1
    assert len(trees.flatten(trees.restore(trees.structure(deep), iter([mx.array(2.0)])))) == 1
    _loss, gradient = mx.value_and_grad(lambda t: trees.flatten(t)[0] * 3)(deep)
    assert trees.flatten(gradient)[0].item() == 3
    around = {}
    around["self"] = around
    for walk in (native.flatten, native.find):
        args = (around, [], False) if walk is native.flatten else ([around], [], [], [], [])
        with pytest.raises(RecursionError):
            walk(*args)
    with pytest.raises(RecursionError):
        native.rebuild(around, iter([]))


def test_handles_are_exchanged():
    for handles, nodes_of, exchange in (
        (native.handles, native.nodes_of, native.exchange),
        (arrays._handles, arrays._nodes_of, arrays._exchange),
    ):
        old, new = [mx.array(float(k))._node for k in range(3)], [mx.array(-1.0)._node for _ in range(3)]
        copies = handles(old)
        assert [type(x) for x in copies] == [mx.array] * 3
        assert nodes_of(copies) == old
        copies[1] = mx.array(7.0)
        exchange(copies, old, new)
        assert [x.item() for x in copies] == [-1, 7, -1]
        assert nodes_of(copies)[::2] == new[::2]
    with pytest.raises(AttributeError):
        native.nodes_of([object.__new__(mx.array)])


class _Vanishing(list):
    """A list that empties its parent when iterated."""

    def __iter__(self):
        self.parent.clear()
        self.parent = None
        return iter([])


def test_what_is_walked_may_change_meanwhile():
    def trees_of():
        for around in ({}, []):
            inner = _Vanishing()
            inner.parent = around
            if isinstance(around, dict):
                around["a" * 20] = inner
            else:
                around += [inner, 1]
            yield around
            del inner, around

    for tree in trees_of():
        assert native.flatten(tree, [], False)
    for tree in trees_of():
        assert native.find([tree], [], [], [], []) == []
    for tree in trees_of():
        assert native.rebuild(tree, iter([])) in ([[]], {"a" * 20: []})


def test_what_walks_refuse():
    for function, args in (
        (native.flatten, ([], (), False)),
        (native.flatten, ([],)),
        (native.rebuild, ([], [])),
        (native.find, ([1], [], [], [], ())),
        (native.find, ((1,), [], [], [], [])),
        (native.find, ([1], 3, [], [], [])),
        (native.handles, ((),)),
        (native.nodes_of, ((),)),
        (native.nodes_of, ([1],)),
        (native.exchange, ([], [], [1])),
        (native.exchange, ([1], [2], [3])),
        (native.fill, ([], [1])),
        (native.put_back, ([], [], [], [1])),
        (native.put_back, ([({}, 0)], [1], [1], [1])),
    ):
        with pytest.raises(TypeError):
            function(*args)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16, 17, 31, 100, 1001, 20000])
def test_random_words_are_those_of_python(size, monkeypatch):
    keys = np.random.default_rng(size).integers(0, 2**32, (3, 2), np.uint32)
    fortran = np.asfortranarray(keys)
    results = threefry.words(keys[0], size), threefry.words_of_each(fortran, size), threefry.chain(keys[1], size % 7)
    monkeypatch.setattr(threefry, "native", None)
    expected = threefry.words(keys[0], size), threefry.words_of_each(keys, size), threefry.chain(keys[1], size % 7)
    for words, of_python in zip(results, expected, strict=True):
        assert words.dtype == np.uint32
        np.testing.assert_array_equal(words, of_python)


def test_random_words_refuse_what_does_not_fit():
    key = np.zeros((1, 2), np.uint32)
    for words, keys in (
        (np.zeros((1, 3), np.uint32), key),
        (np.zeros((2, 4), np.uint32), key),
        (np.zeros(4, np.uint32), key),
        (np.zeros((1, 4), np.uint64), key),
        (np.zeros((1, 4), np.uint32), np.zeros((1, 3), np.uint32)),
    ):
        with pytest.raises(ValueError, match="do not fit"):
            native.random_words(words, keys, 0)
    with pytest.raises((ValueError, BufferError)):
        native.random_words(np.zeros((1, 8), np.uint32)[:, ::2], key, 0)
    with pytest.raises(TypeError):
        native.random_words(np.zeros((1, 4), np.uint32), key)


AUDITED = """
import sys
import mxcompat.core as mx
events = []
sys.addaudithook(lambda event, _: events.append(event))
a = mx.ones((2, 2))
del events[:]
b = a + a
print(events)
"""


def test_an_op_calls_no_audit_hooks():
    """Assert that an op calls no audit hook. Hooks of libraries (filelock, which JAX imports) would double an op's
    time."""
    process = subprocess.run([sys.executable, "-c", AUDITED], capture_output=True, text=True, check=True, timeout=100)
    assert process.stdout == "[]\n"
