"""Fault injection: a training step fails, is interrupted or runs out of memory at every point.

No data may be lost, and a retry must give the same numbers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import nn, optimizers
from mxcompat._graph.ir.rules import HOST, OVERWRITE
from mxcompat._graph.run import allocation, background, execute, host
from mxcompat._graph.run.evaluate import lock
from mxcompat._graph.run.interrupts import uninterrupted
from mxcompat._ops.define import TABLE
from mxcompat.ext.debug import clear_cache, host_disabled
from mxcompat.utils import tree_flatten, tree_unflatten

from .faults import KINDS, Alarmed, alarming, failing_at


class Training:
    """A small network, its optimizer, and a training step that ends with an evaluation."""

    def __init__(self, compiled: bool, layers: int = 2) -> None:
        mx.random.seed(3)
        inner = [nn.Linear(8, 8) for _ in range(layers - 2)]
        self.model = nn.Sequential(nn.Linear(4, 8), *inner, nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = optimizers.Adam(0.1)
        self.optimizer.init(self.model.trainable_parameters())
        mx.eval(self.model.parameters(), self.optimizer.state)
        rng = np.random.default_rng(0)
        self.x, self.y = (mx.array(rng.normal(size=(6, n)).astype(np.float32)) for n in (4, 2))
        held = [self.model.state, self.optimizer.state]
        self._build = mx.compile(self._update, inputs=held, outputs=held) if compiled else self._update
        self._loss = nn.value_and_grad(self.model, lambda x, y: ((self.model(x) - y) ** 2).mean())

    def _update(self, x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = self._loss(x, y)
        self.optimizer.update(self.model, gradients)
        return loss

    def held(self) -> list[tuple[str, mx.array]]:
        return tree_flatten({"model": self.model.parameters(), "optimizer": self.optimizer.state})

    def put_back(self, arrays: list[tuple[str, mx.array]]) -> None:
        """Restore these parameters and this optimizer state."""
        tree = tree_unflatten(arrays)
        self.model.update(tree["model"])
        for name, value in tree["optimizer"].items():
            self.optimizer.state[name] = value

    def step(self) -> None:
        loss = self._build(self.x, self.y)
        mx.eval(loss, self.model.parameters(), self.optimizer.state)


def numbers(arrays: list[tuple[str, mx.array]]) -> dict[str, np.ndarray]:
    return {name: np.array(x) for name, x in arrays}


def same(result: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float) -> None:
    assert result.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(result[name], x, rtol=tolerance, atol=tolerance, err_msg=name)


def nothing_is_held() -> None:
    """Assert that the evaluation lock is free, and wait for the pending background jobs."""
    assert lock.acquire(blocking=False)
    lock.release()
    background.settle()


def raised(function: Callable[[], None]) -> BaseException | None:
    try:
        function()
    except BaseException as error:
        return error
    return None


def every_point(compiled: bool, host: bool, kind: type[BaseException], cold: bool, layers: int = 2) -> set[str]:
    """Make a step fail at every point, and return the kinds of points that were reached.

    With `cold`, the caches are emptied first, so that each program is traced and compiled.
    """
    met: set[str] = set()
    with nullcontext() if host else host_disabled():
        training = Training(compiled, layers)
        start = training.held()
        before = numbers(start)
        training.step()
        after = numbers(training.held())
        n = 0
        while True:
            n += 1
            training.put_back([(name, mx.array(before[name])) for name, _ in start])
            start = training.held()
            if cold:
                clear_cache()
            background.settle()
            with failing_at(n, KINDS[kind]) as points:
                error = raised(training.step)
            if error is None:
                assert points.count == n - 1, "not every point was met, or nothing came of one"
                return met
            assert type(error) is (RuntimeError if kind is MemoryError else kind)
            at_once = kind is MemoryError and points.name != "store"  # these points allocate memory
            assert not at_once or str(error).startswith("[malloc] Unable to allocate 123456789 bytes")
            met.add(points.name.split()[0])
            nothing_is_held()
            same(numbers(start), before, 0.0)
            current = training.held()
            mx.eval(current)  # evaluate the nodes that the failed step had recorded but not evaluated
            for name, x in numbers(current).items():
                is_as_before = np.array_equal(x, before[name])
                assert is_as_before or np.allclose(x, after[name], 1e-4, 1e-6), (n, points.name, name)
            training.put_back(start)
            training.step()
            same(numbers(training.held()), after, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
def test_every_point_of_a_step_in_numpy(compiled, kind):
    assert {"host", "pullback", "store"} <= every_point(compiled, True, kind, cold=True)


@pytest.mark.parametrize(
    "kind",
    [KeyboardInterrupt, *[pytest.param(k, marks=pytest.mark.exhaustive) for k in (RuntimeError, MemoryError)]],
)
def test_every_point_of_a_step_of_xla(kind):
    assert {"run", "store"} <= every_point(True, False, kind, cold=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("host", [True, False])
def test_every_point_of_a_first_step(host, compiled, kind):
    """Test a first step, with empty caches: each program is traced and compiled."""
    met = every_point(compiled, host, kind, cold=True, layers=4)
    assert {"host", "store"} <= met if host else {"trace", "compile", "run", "store"} <= met


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_what_numpy_writes_over_is_not_lost(kind):
    """Assert that an in-place add on the host survives a failure after it: a retry neither loses it nor repeats it."""
    for n in range(1, 40):
        clear_cache()  # otherwise this frequent program would be compiled
        counts = mx.zeros((256, 256)) + 1
        mx.eval(counts)
        before = counts[3] + 1
        counts = counts.at[3].add(before * 2)
        counts[4] = mx.exp(counts[3] * 0)
        after = mx.sqrt(counts.sum(1) + 44)
        with failing_at(n, KINDS[kind]) as points:
            error = raised(lambda result=(after, before, counts): mx.eval(result))
        if error is None:
            assert points.count == n - 1 > 5
            return
        assert type(error) is kind
        nothing_is_held()
        assert before.tolist() == [2] * 256, points.name
        assert counts[3].tolist() == [5] * 256, points.name
        assert counts.sum().item() == 256 * 256 + 4 * 256
        assert np.allclose(np.array(after)[:5], [300**0.5, 300**0.5, 300**0.5, 1324**0.5, 300**0.5])
    pytest.fail("no end of points")


def _in_place(x, y):
    z = mx.sin(mx.abs(x).reshape(-1)).reshape(200, 200)
    w = mx.negative(y) + z
    return mx.cos(w), z * 2


def _in_a_call(x, y):
    inner = mx.compile(lambda a: mx.sin(mx.abs(a).reshape(-1)).reshape(200, 200))
    z = inner(x)
    w = mx.negative(y) + z
    return mx.cos(w), z * 2


IN_PLACE = {
    "plain": _in_place,
    "compiled": mx.compile(_in_place),
    "compiled within": mx.compile(_in_a_call),
    "called within": _in_a_call,
    "checkpoint": mx.checkpoint(_in_place),
    "custom": mx.custom_function(_in_place),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("kind", KINDS)
def test_what_numpy_computes_in_the_memory_of_inputs_is_not_lost(kind, name):
    """Assert that inputs overwritten in place survive a failure: unreachable arrays and their views, also in
    subprograms."""
    values = np.random.default_rng(0).normal(size=(2, 200, 200)).astype(np.float32)
    for n in range(1, 40):
        clear_cache()
        x, y = mx.array(values[0]), mx.array(values[1])
        mx.eval(x, y)
        result = IN_PLACE[name](x, y)
        del x, y
        with failing_at(n, KINDS[kind]) as points:
            error = raised(lambda result=result: mx.eval(result))
        if error is None:
            assert points.count == n - 1 > 5
            return
        assert type(error) is (RuntimeError if kind is MemoryError else kind)
        nothing_is_held()
        expected = np.sin(np.abs(values[0]))
        np.testing.assert_allclose(np.array(result[1]), expected * 2, rtol=1e-5, atol=1e-6, err_msg=points.name)
        np.testing.assert_allclose(np.array(result[0]), np.cos(expected - values[1]), rtol=1e-4, atol=1e-5)
    pytest.fail("no end of points")


def _refused(*_):
    raise MemoryError("Unable to allocate 256. KiB")


def test_what_is_kept_needs_no_memory(monkeypatch):
    """Assert that values are stored with their present strides if memory for a copy is missing."""
    values = np.arange(256 * 256, dtype=np.float32).reshape(256, 256) / 9999
    x = mx.array(values)
    mx.eval(x)
    y = mx.compile(lambda x: mx.tan(mx.cos(mx.sin(x).T)))(x)
    del x
    with monkeypatch.context() as patch:
        for rules in (HOST, OVERWRITE):
            patch.setitem(rules, TABLE["tan"], _refused)
        patch.setattr(host, "as_node_value", _refused)
        with pytest.raises(RuntimeError, match="malloc"):
            mx.eval(y)
    np.testing.assert_allclose(np.array(y), np.tan(np.cos(np.sin(values).T)), rtol=1e-5)


@pytest.mark.parametrize("within", [lambda f: f, mx.compile])
def test_what_is_kept_is_kept_at_once(within, monkeypatch):
    """Assert that a second Ctrl-C is safe, if it arrives while the first one's results are being stored."""
    values = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    x = mx.array(values)
    mx.eval(x)
    y = within(lambda x: mx.tan(mx.cos(mx.sin(x))))(x)
    del x
    original = host.as_node_value

    def interrupted(*args):
        signal.raise_signal(signal.SIGALRM)
        return original(*args)

    def late(*args):
        signal.raise_signal(signal.SIGALRM)
        raise KeyboardInterrupt

    with alarming(), monkeypatch.context() as patch:
        patch.setitem(OVERWRITE, TABLE["cos"], late)
        patch.setattr(host, "as_node_value", interrupted)
        with pytest.raises(Alarmed):
            mx.eval(y)
    np.testing.assert_allclose(np.array(y), np.tan(np.cos(np.sin(values))), rtol=1e-5)


def test_an_evaluation_that_does_not_fit_says_so(monkeypatch):
    """Assert that an evaluation that exceeds the memory is refused before any computation."""
    x = mx.zeros((256, 256)) + 1
    mx.eval(x)
    y = mx.sin(x)[None] + mx.zeros((2000, 1, 1))
    del x
    with monkeypatch.context() as patch:
        patch.setattr(allocation, "_available", lambda: 1000)
        with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate 524288000 bytes"):
            mx.eval(y)
    assert y.shape == (2000, 256, 256)
    np.testing.assert_allclose(np.array(y[:2, 0, :3]), np.full((2, 3), np.sin(1), np.float32), rtol=1e-6)


def test_what_interrupts_once_all_is_stored_is_what_is_raised(monkeypatch):
    x = mx.zeros((256, 256)) + 1
    mx.eval(x)
    a, b = mx.compile(lambda x: (mx.sin(x), mx.cos(x) * 2))(x)
    c = a + 1
    del x
    store = execute._store

    def interrupted(*args):
        store(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_store", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mx.eval(c)
    for value, want in ((a, np.sin(1)), (b, 2 * np.cos(1)), (c, np.sin(1) + 1)):
        np.testing.assert_allclose(np.array(value), np.full((256, 256), want), rtol=1e-6)


@pytest.mark.parametrize(
    ("within", "op"), [(lambda f: f, "linalg_inv"), (mx.compile, "call"), (lambda f: mx.compile(mx.compile(f)), "call")]
)
def test_the_note_of_what_fails_once_an_input_is_written_over(within, op):
    x = mx.ones((200, 200)) * 1.0
    mx.eval(x)
    y = within(lambda x: mx.linalg.inv(mx.sin(x) * 0).sum() + x.sum())(x)
    del x
    line = sys._getframe().f_lineno - 2
    for named in (op, "linalg_inv"):
        with pytest.raises(RuntimeError, match="LU factorization failed") as caught:
            mx.eval(y)
        (note,) = caught.value.__notes__
        assert f"[{named}], called at {__file__}:" in note
        assert f":{line}." in note or op == "linalg_inv"


@pytest.mark.parametrize("name", ["abs", "sin", "negative", "square"])
def test_a_limit_of_time_loses_nothing(name, monkeypatch):
    """Assert that a signal handler that raises, as pytest-timeout's does, loses no data after an input is
    overwritten."""
    rule = OVERWRITE[TABLE[name]]

    def late(*args):
        result = rule(*args)
        signal.raise_signal(signal.SIGALRM)
        return result

    values = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    x = mx.array(values)
    mx.eval(x)
    y = mx.exp(getattr(mx, name)(x)) + 1
    del x
    with alarming(), monkeypatch.context() as patch:
        patch.setitem(OVERWRITE, TABLE[name], late)
        with pytest.raises(Alarmed):
            mx.eval(y)
    np.testing.assert_allclose(np.array(y), np.exp(getattr(np, name)(values)) + 1, rtol=1e-5)


def test_of_several_signals_each_is_handled():
    received = []

    def handled(number, _):
        received.append(number)
        raise Alarmed(number)

    numbers = [signal.SIGALRM, signal.SIGUSR1, signal.SIGTERM]
    before = [signal.signal(number, handled) for number in numbers]
    try:
        with pytest.raises(Alarmed):
            uninterrupted(lambda: [signal.raise_signal(number) for number in [*numbers, signal.SIGALRM]])
        assert received == numbers
        assert [signal.getsignal(number) for number in numbers] == [handled] * 3
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_a_buffer_that_is_written_over_is_not_lost(kind, xla_only):
    """Assert that an interrupt during an in-place write to a cache waits until the result is stored."""
    for n in range(1, 20):
        cache = mx.zeros((256, 256)) + 1
        mx.eval(cache)
        cache[3] = mx.ones((256,)) * 7
        with failing_at(n, KINDS[kind]) as points:
            error = raised(lambda cache=cache: mx.eval(cache))
        if error is None:
            assert n > 1
            assert points.count == n - 1
            return
        assert type(error) is kind
        nothing_is_held()
        data = np.array(cache)
        assert data[3].sum() == 7 * 256, points.name
        assert data.sum() == 255 * 256 + 7 * 256
    pytest.fail("no end of points")


INTERRUPTED_IMPORT = """
import importlib.abc, os, signal, sys
import mxcompat.core as mx
from mxcompat.ext.debug import host_disabled

def interrupt(*what):
    raise KeyboardInterrupt

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if "mhlo_ops_gen" in name:
            os.kill(os.getpid(), signal.SIGALRM)

sys.meta_path.insert(0, Finder())
signal.signal(signal.SIGALRM, interrupt)
with host_disabled():
    y = mx.exp(mx.zeros(4))
    try:
        mx.eval(y)
    except KeyboardInterrupt:
        print("interrupted")
    print(y.tolist())
"""


def test_an_interrupt_while_jax_imports_what_it_lowers_with():
    """Assert that an interrupt while JAX imports its MLIR dialects is harmless: a dialect cannot be imported twice."""
    process = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, timeout=100)
    assert process.stdout == "interrupted\n[1.0, 1.0, 1.0, 1.0]\n", process.stderr
