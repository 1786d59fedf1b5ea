"""Ops that read only small data run in NumPy until their structure recurs often enough."""

import signal
import sys

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.liveness import live_out
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.run import cache, host, schedule
from mxcompat._graph.run.background import settle
from mxcompat._graph.run.events import stats
from mxcompat._graph.run.plan import HostFirst, OpByOp
from mxcompat._native import native
from mxcompat._ops.define import TABLE
from mxcompat.ext.debug import clear_cache
from tests.faults import Alarmed, alarming
from tests.thinned import thinned

DTYPES = (
    "bool_", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "complex64",
)  # fmt: skip

MOVES = {
    "reshape": lambda mx, x: x.reshape(4, 2, 3),
    "flatten": lambda mx, x: x.flatten(0, 1),
    "unflatten": lambda mx, x: mx.unflatten(x, -1, (2, 2)),
    "squeeze": lambda mx, x: mx.squeeze(x[:, :1], 1),
    "expand_dims": lambda mx, x: mx.expand_dims(x, (0, 2)),
    "contiguous": lambda mx, x: mx.contiguous(x.T),
    "stop_gradient": lambda mx, x: mx.stop_gradient(x),
    "broadcast_to": lambda mx, x: mx.broadcast_to(x, (2, *x.shape)),
    "full": lambda mx, x: mx.full((2, 3), x[0, 0]),
    "constant": lambda mx, x: (mx.zeros((2, 3), x.dtype), mx.ones((4,), x.dtype)),
    "constant_like": lambda mx, x: (mx.zeros_like(x), mx.ones_like(x)),
    "transpose": lambda mx, x: (x.T, x.reshape(2, 3, 4).transpose(1, -1, 0)),
    "concatenate": lambda mx, x: (mx.concatenate([x, x], 1), mx.concatenate([x[0], x[1].astype(mx.uint8)])),
    "stack": lambda mx, x: (mx.stack([x, x], -1), mx.stack([x, x.astype(mx.int16)])),
    "astype": lambda mx, x: [x.astype(d) for d in (mx.int8, mx.uint64, mx.bool_, mx.float32, x.dtype)],
    "slice": lambda mx, x: (
        x[1], x[-1, -2], x[:, 1:3], x[::-2], x[None, 1:, ..., None], x[5:2:-1, 3], x[2:2], x[..., ::-1][1], x[9:],
    ),
}  # fmt: skip


def bits(x, mx):
    return x.reshape(-1).view(mx.uint8).tolist() if x.size else []


def data(mx, dtype):
    x = np.arange(24).reshape(6, 4) % 7 - 2
    return mx.array(x.astype(np.int32)).astype(getattr(mx, dtype))


WITHOUT_RULES = {
    "linalg_eig",  # NumPy's eigenvectors have other signs
    "all_sum", "all_max", "all_min", "all_gather", "sum_scatter",  # collectives
}  # fmt: skip


def test_every_op_runs_in_numpy_but_these():
    assert {name for name, op in TABLE.items() if op not in HOST} == WITHOUT_RULES
    assert {TABLE[name] for name in MOVES} <= HOST.keys()


@pytest.mark.parametrize(("name", "dtype"), thinned(3, MOVES, DTYPES))
def test_what_numpy_does(name, dtype, monkeypatch):
    """Assert that NumPy gives the bits of XLA and real MLX, without a compile."""
    x = data(mx, dtype)
    mx.eval(x)
    clear_cache()
    before = stats.compiles
    got = MOVES[name](mx, x)
    mx.eval(got)
    settle()
    assert stats.compiles == before
    clear_cache()
    monkeypatch.setattr(policy, "HOST", False)
    compiled, want = MOVES[name](mx, x), MOVES[name](real, data(real, dtype))
    mx.eval(compiled)
    for a, b, c in zip(*[r if isinstance(r, (list, tuple)) else [r] for r in (got, compiled, want)], strict=True):
        assert str(a.dtype) == str(b.dtype) == str(c.dtype)
        assert a.shape == b.shape == c.shape
        assert bits(a, mx) == bits(b, mx) == bits(c, real)


@pytest.mark.filterwarnings("error")
def test_a_number_beyond_the_range_is_infinite():
    for value, dtype in ((1e6, "float16"), (-1e39, "float32")):
        check = [library.full((2,), value, getattr(library, dtype)).tolist() for library in (mx, real)]
        assert check[0] == check[1] == [value * np.inf] * 2


def test_no_memory_is_shared():
    x = mx.zeros((64, 256))  # at least the size for reuse, at most the size for NumPy
    mx.eval(x)
    y = x.reshape(-1)
    mx.eval(y)
    for k in range(3):
        x[k] = mx.ones((256,))
        mx.eval(x)
    assert y.sum().item() == 0


def address(x):
    return np.asarray(x).ctypes.data


WRITES = {
    "slice": lambda mx, x, k: x.__setitem__(k, mx.arange(256)),
    "added slice": lambda mx, x, k: x.__setitem__(k, x[k - 1] + 1),
    "rows": lambda mx, x, k: x.__setitem__(mx.array([k, k + 2]), k),
    "mask": lambda mx, x, k: x.__setitem__(x == k, mx.array(-1.0)),
    "put": lambda mx, x, k: x.__setitem__(slice(None), mx.put_along_axis(x, mx.full((256, 1), k), mx.array(k), 1)),
    "update": lambda mx, x, k: x.__setitem__(
        slice(None), mx.slice_update(x, mx.ones((2, 3)) * k, mx.array([k, k]), (0, 1))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("evaluated", [True, False])
def test_what_is_written_over(name, evaluated, plans):
    """Assert that an array with no other reference is updated in place: only the first update makes a copy."""
    results = []
    for library in (mx, real):
        x = library.zeros((256, 256))
        places = set()
        for k in range(8):
            WRITES[name](library, x, k)
            if evaluated or k == 7:
                library.eval(x)
                places.add(address(x))
        results.append(np.array(x))
        if library is mx and name not in ("put", "update"):
            assert len(places) <= 2
    assert all(isinstance(plan, OpByOp) for plan in plans)
    np.testing.assert_array_equal(*results)


OTHERS = {
    "name": lambda x: x,
    "copy": mx.array,
    "view": lambda x: x[:5],
    "reshaped": lambda x: x.reshape(-1),
    "NumPy's": np.asarray,
    "memory": lambda x: memoryview(np.asarray(x)),
    "pending": lambda x: x + 0,
    "pending view": lambda x: x.reshape(128, 512),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("evaluated", [True, False])
def test_what_others_see_is_not_written_over(name, evaluated):
    x = mx.zeros((256, 256))
    x[0] = 1
    mx.eval(x)  # the data was created by NumPy
    other = OTHERS[name](x)
    if evaluated:
        mx.eval(other)
    y = mx.array(x) if name == "name" else x
    y[1] = 2
    mx.eval(other, y)
    assert np.array(other).sum() == 256
    assert y.sum().item() == 3 * 256


@pytest.mark.parametrize(
    ("function", "is_quick"),
    [
        (mx.sort, True),
        (mx.argsort, True),
        (lambda x: mx.argpartition(x, 3), True),
        (lambda x: mx.topk(x, 40), True),
        (lambda x: mx.random.normal(x.shape), native is not None),
        (mx.exp, False),
        (lambda x: mx.exp(mx.sort(x)) + 1, False),
    ],
)
def test_what_xla_is_no_faster_at(function, is_quick):
    """Assert that a program which XLA runs no faster is not compiled early."""
    x = mx.ones((64, 64))
    mx.eval(x)
    subgraph = linearize([function(x)._node])
    assert host.is_quick(subgraph.structure.program_for(live_out(subgraph), subgraph.roots)) is is_quick


def test_a_list_that_grows():
    """Evaluate with a growing list, as generation with logits processors does: only the list changes in the program."""
    table = mx.random.normal((50, 8))
    tokens = mx.array([1, 2, 3, 4])
    counts = []
    for k in range(30):
        tokens = mx.concatenate([tokens, mx.array([k], mx.uint32)])
        scores = mx.tanh(table * 0.5).sum(-1)
        recent = tokens[-4:]
        scores[recent] = scores[recent] - 1.0
        mx.async_eval(scores)
        settle()
        counts.append(stats.compiles)
    assert tokens.tolist() == [1, 2, 3, 4, *range(30)]
    assert counts[-1] == counts[10]


def test_only_the_small_data_is_moved(monkeypatch, plans):
    """Assert that NumPy runs only the small part of a graph; the next plan runs the rest, once."""
    calls = []
    tanh = HOST[TABLE["tanh"]]
    monkeypatch.setitem(HOST, TABLE["tanh"], lambda *args: calls.append(None) or tanh(*args))
    table = mx.random.normal((3000, 128))
    mx.eval(table)
    plans.clear()
    tokens = mx.array([1, 2, 3, 4])
    for k in range(8):
        tokens = mx.concatenate([tokens, mx.array([k])])
        scores = mx.tanh(table).sum(-1)
        mx.eval(scores[tokens[-4:]] * 2)
        settle()
    assert any(isinstance(p, HostFirst) for p in plans)
    assert len(calls) == sum(isinstance(p, OpByOp) and p.on_host for p in plans)


@pytest.mark.parametrize("line", range(0, 16, 3))
def test_a_signal_while_a_plan_is_made_loses_no_node(line, monkeypatch):
    """Assert that a signal handler may raise at any line of planning, its cleanup included."""

    lines = []

    def trace(frame, event, _):
        if event == "line" and frame.f_code.co_name == "_linearize_without":
            lines.append(frame.f_lineno)
            if len(lines) == line + 1:
                signal.raise_signal(signal.SIGALRM)
        return trace if frame.f_code.co_filename == schedule.__file__ else None

    monkeypatch.setattr(policy, "LIGHT_SECONDS", 0.0)
    large, small = mx.ones((200, 200)), mx.arange(4.0)
    mx.eval(large, small)
    y = mx.concatenate([small, mx.ones(3)]).sum() * large
    with alarming():
        sys.settrace(trace)
        try:
            with pytest.raises(Alarmed):
                mx.eval(y)
        finally:
            sys.settrace(None)
    assert y[0, 0].item() == 9


@pytest.mark.parametrize(("error", "once"), [(ValueError("no"), True), (MemoryError("no room"), False)])
def test_what_could_not_be_compiled_is_not_tried_again(error, once, monkeypatch, failed_jobs):
    """Assert that a failed compile leaves the program to NumPy, and is retried only if memory had run out."""
    monkeypatch.setattr(policy, "HEAVY_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_SHARE", 0.0)
    monkeypatch.setattr(policy, "IMPORT_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_RUNS", float("inf"))
    tried = []

    def fail(*args, **kwargs):
        tried.append(args)
        raise error

    monkeypatch.setattr(cache, "Executable", fail)
    clear_cache()
    x = mx.arange(35)
    mx.eval(x)
    for _ in range(5):
        y = x.reshape(5, 7).T
        mx.eval(y)
        settle()
    assert y[2].tolist() == [2, 9, 16, 23, 30]
    assert (len(tried) == 1) == once
    assert len(tried) == len(failed_jobs) > 0
    failed_jobs.clear()


def test_what_takes_long_is_compiled(monkeypatch):
    monkeypatch.setattr(policy, "HEAVY_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_SHARE", 0.0)
    monkeypatch.setattr(policy, "IMPORT_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_RUNS", float("inf"))
    x = mx.arange(12)
    mx.eval(x)
    before = stats.compiles
    for _ in range(20):
        mx.eval(x.reshape(3, 4).T)
    settle()
    assert stats.compiles == before + 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: mx.vmap(lambda r, c: r + c, in_axes=(0, 1))(x, x), False),
        (lambda x: mx.vmap(mx.vmap(lambda r: mx.tanh(r)))(x), False),
        (lambda x: mx.vmap(lambda r: r @ x)(x), True),
        (lambda x: mx.grad(lambda x: (x @ x).sum())(x), True),
        (lambda x: mx.grad(lambda x: mx.tanh(x).sum())(x), False),
        (lambda x: x @ x, True),
    ],
)
def test_products_are_found_in_the_programs_that_are_run(function, expected, plans):
    """Assert that programs with products are recognized: BLAS has one thread while they run, and only then."""
    x = mx.ones((400, 400))
    mx.eval(x)
    plans.clear()
    mx.eval(function(x))
    assert [host.has_products(p.program) for p in plans if hasattr(p, "program")][-1] == expected
