"""Loops of XLA whose length only the data tell: a signal stops them, and nothing is lost."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest

import mxcompat as mx
from mxcompat._graph.run import endless
from mxcompat._native import native

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")


@contextmanager
def stopped(handler, number=signal.SIGALRM, timer=signal.ITIMER_REAL, seconds=0.5):
    """Call a handler of a signal after some time."""
    before = signal.signal(number, handler)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def raises(*_):
    raise TimeoutError("over the limit")


def endless_kernel(x):
    source = "uint i = thread_position_in_grid.x;\nfloat v = x[i];\nwhile (v > 0) { v = v * 0.5f + 1; }\ny[i] = v;"
    kernel = mx.fast.metal_kernel(name="spin", input_names=["x"], output_names=["y"], source=source)
    shapes = {"output_shapes": [x.shape], "output_dtypes": [mx.float32]}
    return kernel(inputs=[x], grid=(x.size, 1, 1), threadgroup=(8, 1, 1), **shapes)[0]


def endless_while(x):
    return mx.ext.while_loop(lambda s: mx.max(s) > 0, lambda s: s * 0.5 + 1, x)


@pytest.mark.parametrize("loop", [endless_kernel, endless_while])
@pytest.mark.parametrize("around", [lambda f: f, mx.compile, mx.vmap], ids=["plain", "compile", "vmap"])
def test_a_handler_that_raises_stops_the_loop(loop, around):
    x = mx.ones((16, 16))
    y = around(loop)(x * 2)
    for _ in range(2):
        with stopped(raises), pytest.raises(TimeoutError, match="over the limit"):
            mx.eval(y)
    assert x.tolist() == np.ones((16, 16)).tolist()
    assert around(loop)(x - 2).tolist() == np.full((16, 16), -1.0).tolist()


def test_inputs_are_there_afterwards():
    """The buffer that is written to would be donated if the loop ended."""

    def both(x, k):
        written = mx.slice_update(x, mx.full((1, 1024), 5.0), mx.array([0, 0]), (0, 1))
        return written, endless_while(written[:1] * k)

    x = mx.arange(1 << 20, dtype=mx.float32).reshape(1024, 1024)
    mx.eval(x)
    x, y = both(x, 1)
    with stopped(raises), pytest.raises(TimeoutError):
        mx.eval(x, y)
    assert x[1, 3].item() == 1027.0
    assert x[0, 3].item() == 5.0


def test_a_handler_that_returns_changes_nothing():
    calls = []
    x = mx.array(0)
    mx.eval(x)
    with stopped(lambda *_: calls.append(1), signal.SIGVTALRM, signal.ITIMER_VIRTUAL):  # a signal that is not watched
        assert mx.ext.while_loop(lambda s: s < 1000, lambda s: s + 1, x).item() == 1000
    with stopped(lambda *_: calls.append(2), seconds=0.2):
        assert mx.ext.while_loop(lambda s: s < 100_000_000, lambda s: s + 1, x).item() == 100_000_000
    assert 2 in calls


def test_a_stop_drops_the_results_of_a_run(monkeypatch):
    """The first run ends early, as its loops would, and is repeated once the handler has returned."""
    runs = []
    results = iter(["ended early", "right"])

    def call():
        result = next(results)
        if result == "ended early":
            signal.raise_signal(signal.SIGALRM)
        runs.append(result)
        return [result]

    monkeypatch.setattr(endless, "may_not_end", lambda program: True)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        assert endless.stoppable(None, call)() == ["right"]
    finally:
        signal.signal(signal.SIGALRM, before)
    assert runs == ["ended early", "right"]
    assert native.stops() % 2 == 0


def test_signals_have_their_handlers_afterwards():
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM)}
    native.watch_signals()
    native.watch_signals()
    native.unwatch_signals()
    native.unwatch_signals()
    assert handlers == {s: signal.getsignal(s) for s in handlers}
    with stopped(raises, seconds=0.01), pytest.raises(TimeoutError):
        signal.pause()


def test_loops_that_count_are_not_checked():
    source = "float s = 0;\nfor (uint k = 0; k < n; k++) { s += x[k]; }\ny[thread_position_in_grid.x] = s;"
    kernel = mx.fast.metal_kernel(name="sums", input_names=["x", "n"], output_names=["y"], source=source)
    shapes = {"output_shapes": [(4,)], "output_dtypes": [mx.float32]}
    y = kernel(inputs=[mx.ones((9,)), mx.array(9, mx.uint32)], grid=(4, 1, 1), threadgroup=(4, 1, 1), **shapes)[0]
    assert not endless.never_ends(y._node.inputs[0].op, y._node.inputs[0].params)
    assert y.tolist() == [9.0] * 4
