"""What is written in C does what its twin in Python does, and keeps nothing alive."""

import _thread
import gc
import itertools
import os
import queue
import subprocess
import sys
import weakref

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._array import nest
from mxcompat._graph.ir import aval as avals
from mxcompat._graph.ir import linearize
from mxcompat._graph.ir import node as nodes
from mxcompat._graph.ir.node import Node, created
from mxcompat._native import native

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

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
    plain = tuple((d, d.numpy) for d in (mx.float32, mx.int32, mx.bool_))
    native.connect_numbers(allocate, avals.AVALS, avals.aval, plain)


@pytest.mark.parametrize("change", [
    lambda v: v.clear(), lambda v: v.append(1.0), lambda v: v.__setitem__(1, "x"), lambda v: v.__setitem__(1, [1.0]),
    lambda v: v.__setitem__(1, 2**31), lambda v: v.__setitem__(1, 2**70),
])  # fmt: skip
def test_a_list_that_changes_while_it_is_read(change):
    """The collector may run anything."""
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
        made, twin = nodes.apply(op, inputs, params), nodes._apply(op, inputs, params)
        assert fields(made) == fields(twin)
        assert made.inputs is inputs
        assert made.trace == max(traces)


@pytest.mark.parametrize("call", [
    lambda x: x + 1, lambda x: -x, lambda x: x == x, lambda x: x @ x, lambda x: mx.exp(x), lambda x: x.sum(),
    lambda x: x[0], lambda x: mx.reshape(x, (3, 1)), lambda x: sum([x, x]),
])  # fmt: skip
def test_where_a_node_was_made(call):
    code = nodes.location(call(mx.ones(3))._node)
    assert code == f"{__file__}:{call.__code__.co_firstlineno}"


def test_apply_raises_what_python_raises():
    two, three = (Node(None, (), (), avals.aval((n,), mx.float32), 0, np.ones(n)) for n in (2, 3))
    found = []
    for apply in (nodes.apply, nodes._apply):
        with pytest.raises(ValueError) as error:
            apply(ADD, (two, three))
        found.append(str(error.value))
    assert found[0] == found[1]
    for wrong in ([two, two], (two, 5), (two, None)):
        with pytest.raises(TypeError):
            native.apply(ADD, wrong)


def test_the_place_of_a_function_of_the_core_that_nobody_called():
    """A thread may start in one."""
    x = mx.ones(2)
    mx.eval(x)
    made = queue.Queue()
    created.append(made.put)
    try:
        _thread.start_new_thread(mx.add, (x, x))
        node = made.get(timeout=60)
    finally:
        created.remove(made.put)
    assert node.where[0].co_filename.startswith(nodes.PACKAGE)


def test_leaves():
    a = avals.aval((3,), mx.float32)
    data = np.ones(3)
    made, twin = nodes.leaf(data, a), nodes._leaf(data, a)
    for leaf in (made, twin):
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


def test_observers_see_every_new_node():
    seen = []
    created.append(seen.append)
    try:
        made = [Node(None, (), (), None, 0), (mx.array([1.0]) + mx.array([2.0]))._node, mx.array(np.ones(2))._node]
    finally:
        created.remove(seen.append)
    assert len(seen) == 5
    assert all(any(n is s for s in seen) for n in made)

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
    y._node.value = [y]  # no value that there is, but a cycle through a node and an array
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
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            env={**os.environ, "MXCOMPAT_NATIVE": value},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip().rpartition("\n")

    (with_c, _, last), (without, _, also) = run("1"), run("0")
    assert with_c == without
    assert (last, also) == ("False", "True")


def test_following_finds_what_python_finds():
    def steps_of(x):
        structure, roots, order, leaves = linearize.linearize([x._node])
        code = structure.code.instructions
        return [(k, *i) for k, i in reversed([*enumerate(code)])], len(order) + len(leaves), roots

    def graphs():
        a, b = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
        known = a * b
        mx.eval(known)
        yield (a + b) * a
        yield (a + b) * b
        yield (a + b) * (a + b)
        yield (a - b) * a
        yield mx.sum(a + b, axis=0) * a
        yield mx.sum(a + b, axis=(0,), keepdims=True) * a
        yield known * a
        yield mx.concatenate([a, b]) * 2.0
        yield mx.concatenate([a, b, a]) * 2.0
        yield mx.concatenate([a, a, a]) * 2.0
        yield mx.divmod(a, b)[0] * a

    made = [*graphs()]
    outcomes = set()
    for x in made:
        steps, size, (root,) = steps_of(x)
        for y in made:
            for traced in (False, True):
                envs = [[None] * size, [None] * size]
                found = []
                for env, follow in zip(envs, (native.follow, linearize._follow), strict=True):
                    env[root] = y._node
                    found.append(follow(steps, env, traced))
                assert found[0] is found[1]
                if found[0]:
                    assert envs[0] == envs[1]
                outcomes.add(found[0])
    assert outcomes == {True, False}


def test_params_that_cannot_be_compared():
    class Awkward:
        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        __hash__ = object.__hash__

    leaf = mx.ones(2)._node
    env = [Node(ADD, (Awkward(),), (leaf, leaf), leaf.aval, 0)]
    for follow in (native.follow, linearize._follow):
        with pytest.raises(RuntimeError, match="not to be compared"):
            follow([(0, ADD, (Awkward(),), (0, 0))], env, False)
    with pytest.raises(IndexError):
        native.follow([(7, ADD, (), ())], env, False)
