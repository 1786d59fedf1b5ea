"""The choice of tier: new computations run in NumPy, hot ones are compiled in the background, with equal results."""

import os
import subprocess
import sys
import threading
import time

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import nn
from mxcompat import optimizers as optim
from mxcompat._graph import policy
from mxcompat._graph.ir.rules import COST, HOST
from mxcompat._graph.run import background, events, host
from mxcompat._graph.run.background import settle
from mxcompat._graph.run.compile_time import compile_seconds
from mxcompat._graph.run.plan import Call, Compile, HostFirst, OpByOp
from mxcompat._native import native
from mxcompat._ops import cost
from mxcompat._ops.define import TABLE
from mxcompat.ext.debug import host_disabled
from mxcompat.utils import tree_flatten

RNG = np.random.default_rng(3)


def data(*shape):
    return (RNG.standard_normal(shape) * 0.1).astype(np.float32)


def loss(mx, layers, x, y):
    for w, b in layers:
        x = mx.maximum(x @ w + b, 0)
    return mx.mean((x - y) ** 2)


def compile_at_once(monkeypatch, saved_share=0.0):
    """Make every computation count as heavy, and so as worth a compile, after one run in NumPy, if the compile can save
    this share of the run."""
    monkeypatch.setattr(policy, "HEAVY_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_SHARE", 0.0)
    monkeypatch.setattr(policy, "IMPORT_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_RUNS", float("inf"))
    monkeypatch.setattr(policy, "SAVED_SHARE", saved_share)


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_random_numbers_are_not_compiled_early(plans, monkeypatch):
    """Assert that random draws are not compiled early, as XLA is no faster: a new model draws in NumPy."""
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "HOT_SHARE", float("inf"))
    for _ in range(3):
        mx.eval(nn.Sequential(*[nn.Linear(31, 37) for _ in range(5)]).parameters())
    assert [p.compiles for p in plans] == [False] * 3
    plans.clear()
    for _ in range(3):  # programs with random draws are compiled
        mx.eval(mx.tanh(mx.random.normal((31, 37))) * 2 + 1)
    settle()
    assert [p.compiles for p in plans[:2]] == [False, True]


@pytest.mark.parametrize("op", ["elementwise", "product", "quantized product"])
def test_a_program_is_compiled_early_only_for_the_time_that_it_saves(plans, monkeypatch, op):
    """Assert that products are not compiled early: BLAS is as fast as XLA, and XLA calls the same C code."""
    if op == "quantized product" and native is None:
        pytest.skip("no compiler of C")
    compile_at_once(monkeypatch, policy.SAVED_SHARE)
    monkeypatch.setattr(policy, "HOT_SHARE", float("inf"))
    w = mx.array(data(2048, 2048))
    x = mx.array(data(256, 2048))
    quantized = mx.quantize(w)
    mx.eval(x @ w.T, w, quantized)
    plans.clear()
    compute = {
        "elementwise": lambda: mx.tanh(w) + 1,
        "product": lambda: (x @ w.T)[1:],
        "quantized product": lambda: mx.quantized_matmul(x, *quantized),
    }[op]
    for _ in range(2):
        mx.eval(compute())
    assert [p.compiles for p in plans] == [False, op == "elementwise"]
    settle()


def test_the_speed_of_large_products_is_measured(plans, monkeypatch):
    """Assert that the first run of a program is in NumPy if products are fast on this machine, else compiled."""
    for name, value in (("HOPELESS", 1e-2), ("IMPORT_SECONDS", 0.0), ("LIGHT_SECONDS", 0.0)):
        monkeypatch.setattr(policy, name, value)
    monkeypatch.setattr(cost, "MEASURED_PRODUCTS", 1)
    for seconds, columns in ((1e-15, 31), (1.0, 37)):
        monkeypatch.setattr(cost, "_measured_seconds", lambda seconds=seconds: seconds)
        x, c, w = mx.array(data(41, 43)), mx.array(data(columns)), mx.array(data(43, columns))
        mx.eval(x, c, w)
        plans.clear()
        y = 2 * mx.addmm(c, x, w)
        mx.eval(y)
        assert [type(p) for p in plans[:1]] == [OpByOp if columns == 31 else Compile]
        np.testing.assert_allclose(np.array(y), 2 * (np.array(c) + np.array(x) @ np.array(w)), rtol=1e-4, atol=1e-5)


def test_products_cost_the_same_with_a_sum():
    """Assert that the estimate of addmm depends on the length of the sums, not on the number of columns."""
    x, w, c = mx.zeros((64, 3)), mx.zeros((3, 1000)), mx.zeros((1000,))
    avals = [a._node.aval for a in (c, x, w)]
    out = mx.addmm(c, x, w)._node.aval
    assert COST[TABLE["addmm"]](out, (), *avals) == COST[TABLE["matmul"]](out, (), *avals[1:])


def test_the_time_of_products_is_measured_once():
    cost._measured_seconds.cache_clear()
    assert 0 < cost.products_seconds(1 << 27) <= (1 << 27) * policy.FLOP_SECONDS
    assert cost.products_seconds(1000) == 1000 * policy.FLOP_SECONDS
    cost.products_seconds(1 << 28)
    assert cost._measured_seconds.cache_info().misses == 1


def test_the_second_step_of_a_training_is_compiled_at_once(plans, monkeypatch):
    """Assert that the compile begins with the second step. Its structure is new, but its derivative is not."""
    monkeypatch.setattr(policy, "HOT_SHARE", 1e-9)
    monkeypatch.setattr(policy, "IMPORT_SECONDS", 0.0)
    model = nn.Sequential(nn.Linear(61, 67), nn.Tanh(), nn.Linear(67, 61))
    optimizer = optim.AdamW(1e-3)
    x = mx.array(data(600, 61))
    mx.eval(model.parameters(), x)
    step = nn.value_and_grad(model, lambda model, x: ((model(x) - x) ** 2).mean())
    plans.clear()
    for _ in range(2):
        loss, grads = step(model, x)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
    assert [p.compiles for p in plans[:2]] == [False, True]
    settle()


def test_a_long_program_is_compiled_for_speed_at_once(plans, monkeypatch):
    for name in ("HOPELESS", "IMPORT_SECONDS", "LIGHT_SECONDS"):
        monkeypatch.setattr(policy, name, 0.0)
    x = mx.array(data(61, 67))
    for long_run, hurry in ((0.0, False), (float("inf"), True)):
        plans.clear()
        monkeypatch.setattr(policy, "LONG_RUN", long_run)
        y = mx.sin(x) @ (mx.cos(x) if hurry else mx.tanh(x)).T
        mx.eval(y)
        assert [p.hurry for p in plans if isinstance(p, Compile)] == [hurry]
    np.testing.assert_allclose(np.array(mx.sin(x) @ mx.cos(x).T), np.sin(x) @ np.cos(x).T, rtol=1e-4, atol=1e-4)


def test_the_first_step_of_a_long_training_compiles_for_the_second(plans, monkeypatch):
    """Assert that an optimizer's new state is no part of the program that is compiled for the first step."""
    for name in ("HOPELESS", "LONG_RUN", "IMPORT_SECONDS"):
        monkeypatch.setattr(policy, name, 0.0)
    model = nn.Sequential(nn.Linear(59, 71), nn.Tanh(), nn.Linear(71, 59))
    weights = [np.array(w) for _, w in tree_flatten(model.parameters())]
    optimizer = optim.AdamW(1e-3, bias_correction=True)
    x = mx.array(data(300, 59))
    mx.eval(x)
    step = nn.value_and_grad(model, lambda model, x: ((model(x) - x) ** 2).mean())
    plans.clear()
    for _ in range(2):
        loss, grads = step(model, x)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
    kinds = [type(p) for p in plans if not isinstance(p, OpByOp)]
    assert kinds == [HostFirst, Compile, Call, Call]
    for before, (_, after) in zip(weights, tree_flatten(model.parameters()), strict=True):
        np.testing.assert_allclose(np.abs(before - np.array(after)).max(), 2e-3, rtol=0.05)  # two steps of the rate


def test_equal_ops_are_estimated_to_be_compiled_once(plans):
    """Assert that equal layers add little to the estimate for a forward pass, but much to that for a derivative."""

    def estimates(layers):
        ws = [mx.array(data(8, 8)) for _ in range(layers)]

        def loss(ws):
            x = mx.ones((8, 8))
            for w in ws:
                x = mx.tanh(x @ w)
            return x.sum()

        for outputs in (loss(ws), mx.grad(loss)(ws)):
            plans.clear()
            mx.eval(outputs)
            yield compile_seconds(plans[-1].program)

    forward, derivative = zip(estimates(2), estimates(20), strict=True)
    assert forward[1] < 3 * forward[0]
    assert derivative[1] > 4 * derivative[0]


@pytest.mark.parametrize(("heavy", "share"), [("inf", "HOPELESS"), ("0", "HEAVY_IMPORT_SHARE")])
def test_jax_is_imported_once_numpy_has_computed_for_long(heavy, share):
    """Assert that steps stay in NumPy until NumPy has taken long in all, compared with the import of JAX: a share of
    its time for long steps, a multiple for short ones."""
    program = f"""
import sys
import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background, events

def steps(size):
    x = mx.full((size, 20), 0.5)
    for _ in range(5):
        mx.eval(mx.tanh(x @ x.T) @ x + mx.sin(x))

policy.HOT_SHARE = policy.HEAVY_SHARE = policy.SAVED_SHARE = 0.0  # every program is worth its compile
policy.HEAVY_SECONDS, policy.HEAVY_RUNS = float("{heavy}"), float("inf")
policy.IMPORT_SECONDS = 1e3
events.stats.host_seconds = 0.9 * policy.{share} * policy.IMPORT_SECONDS
steps(8)
assert "jax" not in sys.modules
events.stats.host_seconds = policy.{share} * policy.IMPORT_SECONDS  # by other programs
steps(9)
assert "jax" in sys.modules
background.settle()
"""
    environment = {**os.environ, "MXCOMPAT_CACHE": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_a_gradient_at_a_new_size_compiles_nothing(plans):
    before = events.stats.compiles
    for batch in range(3, 9):
        weights = [(data(4, 4), data(4)) for _ in range(3)]
        x = data(batch, 4)
        sides = []
        for side in (real, mx):
            layers = [tuple(map(side.array, pair)) for pair in weights]
            batched = side.array(x)
            value, grads = side.value_and_grad(lambda p, x, side=side: loss(side, p, x, x))(layers, batched)
            sides.append([np.array(value), *[np.array(g) for pair in grads for g in pair]])
        for want, got in zip(*sides, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-7)
    assert events.stats.compiles == before
    assert all(isinstance(p, OpByOp) and p.on_host and not p.compiles for p in plans)


def test_what_is_hot_is_compiled_in_the_background(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    monkeypatch.setattr(policy, "CLEARLY_SLOWER", float("inf"))  # on a busy machine, XLA's first run may take long
    w = mx.array(data(8, 8))

    def step(k):
        out = mx.tanh(w @ w + k).sum()
        mx.eval(out)
        settle()
        return out.item()

    values = [step(2.0) for _ in range(4)]
    assert [type(p) for p in plans if not isinstance(p, Compile)] == [OpByOp, OpByOp, Call, Call]
    assert [p.compiles for p in plans[:2]] == [False, True]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


def test_the_faster_way_wins(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", float("inf"))
    monkeypatch.setattr(policy, "AUTOTUNE_SECONDS", float("inf"))
    monkeypatch.setattr(policy, "RESULT_SECONDS", 0.0)
    x = mx.array(data(2, 2))
    for _ in range(6):
        mx.eval(mx.exp(x) * 2 + x)
        settle()
    (tried,) = [p for p in plans if isinstance(p, OpByOp) and p.autotune is not None]
    record = tried.program.record
    assert record.xla_runs == policy.AUTOTUNE_RUNS
    assert record.host_best < 0.1
    for best, kind in ((1.0, OpByOp), (0.0, Call)):  # pretend that a call of XLA takes a second, or nothing
        record.xla_best, record.prefer_xla = best, False
        mx.eval(mx.exp(x) * 2 + x)
        assert type(plans[-1]) is kind
        assert record.prefer_xla is (kind is Call)
        assert kind is Call or "less time than XLA" in str(plans[-1])
    record.xla_best = 1.0
    mx.eval(mx.exp(x) * 2 + x)
    assert type(plans[-1]) is Call  # the choice persists


def test_what_xla_takes_longer_for_goes_back_to_numpy(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)  # pretend that NumPy is slower for all of it
    monkeypatch.setattr(policy, "AUTOTUNE_SECONDS", 0.0)
    monkeypatch.setattr(policy, "CLEARLY_SLOWER", float("inf"))
    x = mx.array(data(20, 30))

    def run(count, op=mx.sort):
        for _ in range(count):
            mx.eval(op(x) * 2)
            settle()

    run(2)
    plans.clear()
    run(policy.AUTOTUNE_MIN_RUNS)
    assert [type(p) for p in plans] == [Call] * policy.AUTOTUNE_MIN_RUNS
    assert all(p.timed for p in plans)
    record = plans[0].program.record
    for best, kind in ((1.0, OpByOp), (0.0, Call)):  # pretend that XLA takes a second, or nothing
        record.xla_best, record.prefer_xla = best, False
        run(1)
        assert type(plans[-1]) is kind


def test_a_large_program_goes_back_to_numpy_if_xla_takes_twice_as_long(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    monkeypatch.setattr(policy, "FEW_INSTRUCTIONS", 1)
    monkeypatch.setattr(policy, "RESULT_SECONDS", 0.0)
    x = mx.array(data(20, 30))

    def run():
        mx.eval(mx.argsort(x) * 7)
        settle()
        return plans[-1]

    run()
    run()
    record = plans[-1].program.record
    record.host_best = 0.0  # pretend that XLA takes longer
    for _ in range(policy.AUTOTUNE_MIN_RUNS):
        plan = run()
        assert type(plan) is Call
        assert plan.timed
    for share, kind in ((0.4, OpByOp), (0.6, Call)):
        record.host_best, record.prefer_xla = share * record.xla_best, False
        assert type(run()) is kind


def test_a_large_program_is_timed_until_xla_is_faster(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    monkeypatch.setattr(policy, "FEW_INSTRUCTIONS", 1)
    x = mx.array(data(30, 30))
    for _ in range(5):
        mx.eval(mx.argsort(x) * 9)
        settle()
        plans[-1].program.record.host_best = 1.0
    assert [p.timed for p in plans if type(p) is Call] == [True, False, False]


def test_what_xla_takes_much_longer_for_goes_back_after_one_run(plans, monkeypatch):
    compile_at_once(monkeypatch)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    x = mx.array(data(30, 20))

    def run():
        plans.clear()
        mx.eval(mx.argsort(x) * 3)
        settle()
        return plans[-1]

    run()
    run()
    monkeypatch.setattr(background, "is_busy", lambda: True)  # timing continues
    plan = run()
    assert type(plan) is Call
    assert plan.timed
    plan.program.record.xla_best = 1.0
    plan = run()
    assert type(plan) is OpByOp
    assert plan.on_host


def test_what_is_being_compiled_is_not_compiled_in_a_hurry_too(plans, monkeypatch):
    """Assert that no quick compile starts while the optimizing one runs, even if NumPy is slower than a compile."""
    jobs = []
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    compile_at_once(monkeypatch)
    monkeypatch.setattr(background, "submit", lambda job, lasting=False: jobs.append(job))
    x = mx.array(data(30, 20))
    for _ in range(2):
        mx.eval(mx.argsort(x) * 5)
    assert len(jobs) == 1
    monkeypatch.setattr(policy, "HOPELESS", 0.0)
    mx.eval(mx.argsort(x) * 5)
    assert all(type(p) is OpByOp and p.on_host for p in plans)
    jobs[0]()
    mx.eval(mx.argsort(x) * 5)
    assert type(plans[-1]) is Call


def test_a_sort_of_many_numbers_is_done_at_once(plans):
    before = events.stats.compiles
    mx.eval(mx.sort(mx.array(data(1000, 1000))), mx.median(mx.array(data(500, 1000)), axis=1))
    assert all(isinstance(p, OpByOp) and p.on_host for p in plans)
    assert events.stats.compiles == before


def test_host_disabled(plans):
    with host_disabled():
        mx.eval(mx.exp(mx.array(data(3, 7))) * 2)
    assert not any(isinstance(p, OpByOp) and p.on_host for p in plans)


def test_an_error_in_a_rule_names_the_op_and_the_line(monkeypatch):
    x = mx.array(data(3, 5))
    y = mx.sin(x) * 2 + 1

    def broken(out, params, *inputs):
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setitem(HOST, TABLE["sin"], broken)
        with pytest.raises(RuntimeError, match="no room") as caught:
            mx.eval(y)
    assert any("[sin]" in note and "test_tiers.py" in note for note in caught.value.__notes__)
    np.testing.assert_allclose(np.array(y), np.sin(np.array(x)) * 2 + 1, rtol=1e-6)


def test_an_interrupt_loses_nothing(monkeypatch):
    x = mx.array(data(3, 5))
    y, z = mx.sin(x) * 2, mx.cos(x) + 1

    def interrupted(out, params, *inputs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(HOST, TABLE["cos"], interrupted)
        with pytest.raises(KeyboardInterrupt):
            mx.eval(y, z)
    np.testing.assert_allclose(np.array(z), np.cos(np.array(x)) + 1, rtol=1e-6)
    np.testing.assert_allclose(np.array(y), np.sin(np.array(x)) * 2, rtol=1e-6)


def test_what_numpy_shows_is_not_written_over(monkeypatch):
    """Assert that XLA does not overwrite a buffer made in NumPy while a view refers to it."""
    cache = mx.array(data(256, 256))
    kept = np.array(cache, copy=False)
    before = kept.copy()
    with host_disabled():
        for k in range(4):
            cache[k] = mx.ones((256,))
            mx.eval(cache)
            settle()
    np.testing.assert_array_equal(kept, before)
    assert np.array(cache)[:4].sum() == 4 * 256


def test_long_unevaluated_loops_compile_nothing(plans):
    before = events.stats.compiles
    sides = []
    for side in (real, mx):
        w, m = side.array([1.0, -2.0]), side.zeros((2,))
        for k in range(150):
            g = side.grad(lambda w, side=side: ((w - side.array([0.5, 0.25])) ** 2).sum())(w)
            m = 0.9 * m + 0.1 * g
            w = w - 0.1 / (1 + 0.01 * k) * m
        sides.append(np.array(w))
    np.testing.assert_allclose(sides[1], sides[0], rtol=1e-5)
    assert events.stats.compiles == before


def test_training_is_the_same_in_both_tiers():
    def train():
        mx.random.seed(7)
        model = nn.Sequential(nn.Linear(6, 16), nn.relu, nn.LayerNorm(16), nn.Linear(16, 3))
        optimizer = optim.AdamW(1e-2)
        x, y = mx.random.normal((20, 6)), mx.random.randint(0, 3, (20,))
        step = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
        losses = []
        for _ in range(5):
            value, grads = step(model, x, y)
            optimizer.update(model, grads)
            mx.eval(model.parameters(), optimizer.state)
            losses.append(value.item())
        return losses

    on_host = train()
    with host_disabled():
        compiled = train()
    np.testing.assert_allclose(on_host, compiled, rtol=2e-5)


def test_other_threads_go_on_while_one_compiles():
    x = mx.array(data(4, 4))
    mx.eval(x)
    started, finish = threading.Event(), threading.Event()

    def slow(event, subject, reason):
        if event == "compile" and threading.current_thread().name == "compiles":
            started.set()
            assert finish.wait(30)

    events.observers.append(slow)
    try:
        with host_disabled():
            thread = threading.Thread(target=lambda: mx.eval(mx.sinh(x) @ x + 3.5), name="compiles")
            thread.start()
            assert started.wait(30)
            assert mx.eval(mx.cosh(x) * 1.25) is None  # would wait for ever if the lock was held
            finish.set()
            thread.join()
    finally:
        finish.set()
        events.observers.remove(slow)


def test_a_long_loop_is_not_compiled_when_it_returns(plans, monkeypatch):
    """Assert that a long loop is not compiled at its return: 300 steps compile longer than a hundred runs take."""
    monkeypatch.setattr(policy, "HEAVY_SECONDS", 0.2)  # ten times the time of a run, also on a busy machine

    def loss(a):
        h = mx.zeros(4)
        for k in range(300):
            h = a * h + 0.01 * k
        return h.sum()

    for _ in range(3):
        mx.eval(mx.grad(loss)(mx.array([0.1, 0.2, 0.3, 0.4])))
    assert all(isinstance(p, OpByOp) and p.on_host and not p.compiles for p in plans)


def test_what_has_to_wait_is_not_hot(plans, monkeypatch):
    """Assert that only time spent in NumPy makes a program hot: on a busy machine the compile takes longer, too."""
    monkeypatch.setattr(policy, "LIGHT_SECONDS", 0.0)
    monkeypatch.setattr(policy, "compile_seconds", lambda *counts: 1.0)  # half of it exceeds any slow machine's time
    run = host.run

    def interrupted(*args):
        time.sleep(0.1)
        return run(*args)

    monkeypatch.setattr(host, "run", interrupted)
    x = mx.array(data(4, 4))
    for _ in range(4):
        mx.eval(mx.tanh(x @ x).sum())
    assert len(plans) == 4
    assert all(p.on_host and not p.compiles for p in plans)


@pytest.mark.parametrize("entry", [lambda x: list(x)[1], lambda x: next(iter(x)), lambda x: sum(x)])
def test_entries_of_what_is_differentiated(entry):
    x = data(3, 4)
    want, got = (
        np.array(side.grad(lambda x, side=side: side.sin(entry(x)).sum())(side.array(x))) for side in (real, mx)
    )
    np.testing.assert_allclose(got, want, rtol=1e-6)
    compiled = mx.compile(lambda x: mx.sin(entry(x)))
    for values in (x, 2 * x):  # a placeholder has a value, which must not become a constant
        np.testing.assert_allclose(np.array(compiled(mx.array(values))), np.sin(entry(values)), rtol=1e-6)
