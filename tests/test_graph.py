"""The engine: order of evaluation, number of compiles, caching and errors."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat as mx
from mxcompat import nn
from mxcompat._array.array import wrap
from mxcompat._graph import policy
from mxcompat._graph.ir import structure
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.node import SCALAR, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run import cache
from mxcompat._graph.run.background import settle
from mxcompat._graph.run.events import stats
from mxcompat._graph.run.plan import Compile
from tests.unpromised import needs


@pytest.fixture
def compiled(xla_only):
    """Return a function that counts the programs compiled since its last call."""
    last = stats.compiles

    def since():
        nonlocal last
        settle()
        before, last = last, stats.compiles
        return last - before

    return since


def steps(fn, compiled, warm=3, n=5):
    """Run `fn(k)` until it is warm, then n times, and return the number of compiles in these."""
    for k in range(warm):
        mx.eval(fn(k))
    compiled()
    for k in range(warm, warm + n):
        mx.eval(fn(k))
    return compiled()


class TestCompileCounts:
    def test_same_structure_new_data(self, compiled):
        assert steps(lambda k: mx.sin(mx.array([1.0, k])) * 2 + 1, compiled) == 0

    def test_changing_number(self, compiled):
        x = mx.array([1.0, 2.0])
        assert steps(lambda k: x * (1.0 / (k + 1)) - 0.5, compiled) == 0

    def test_a_number_in_many_places_is_one_argument(self, compiled):
        xs = [mx.array([1.0, k]) for k in range(4)]
        half = mx.array([1.0, 2.0], mx.float16)

        def run(rate, other):
            subgraph = linearize([r._node for r in (xs[0] * rate, xs[1] * rate, half * rate, xs[2] * other)])
            program = subgraph.structure.program(tuple(subgraph.roots))
            scalars = tuple(subgraph.leaves[k].value for k in program.scalars)
            executable = cache.find(program, scalars, ()) or cache.compile_now(program, scalars, ())
            arrays = [leaf.value for leaf in subgraph.leaves if leaf.op is not SCALAR]
            results = [np.array(r, np.float32) for r in executable(arrays, scalars)]
            for result, x, number in zip(results, (xs[0], xs[1], half, xs[2]), (rate, rate, rate, other), strict=True):
                expected = np.array(x) * np.array(number, np.array(x).dtype)
                assert result.tobytes() == expected.astype(np.float32).tobytes()
            return [len(ks) for ks in executable._vectors.values()]

        rates = [1 / k for k in range(3, 9)]
        assert run(rates[0], rates[0]) == []
        assert run(rates[1], rates[1]) == run(rates[2], rates[2]) == [1, 1]
        assert compiled() == 2
        assert run(rates[3], rates[4]) == [2, 1]
        assert compiled() == 1
        assert run(rates[4], rates[3]) == run(rates[5], rates[5]) == [2, 1]
        assert compiled() == 0

    def test_changing_slice(self, compiled):
        x = mx.arange(20)
        assert steps(lambda k: x[k : k + 4] * 2, compiled) == 0

    def test_changing_index(self, compiled):
        x = mx.arange(20)
        assert steps(lambda k: x[k] + x[-k - 1], compiled) == 0

    def test_changing_write(self, compiled):
        cache = mx.zeros((8, 2))

        def step(k):
            cache[k : k + 1] = mx.ones((1, 2)) * k
            return cache

        assert steps(step, compiled, warm=3) == 0
        assert cache[:, 0].tolist() == list(range(8))

    def test_training_with_a_schedule(self, compiled):
        state = {"w": mx.array(np.ones((4, 4), np.float32))}

        def step(k):
            rate = 0.1 * 0.9**k
            loss, grads = mx.value_and_grad(lambda p: mx.sin(p["w"] @ p["w"]).sum())(state)
            state["w"] = state["w"] - rate * grads["w"]
            return state, loss

        assert steps(step, compiled) == 0

    def test_random_numbers(self, compiled):
        assert steps(lambda k: mx.random.normal((3,)) + mx.random.uniform(), compiled) == 0

    @pytest.mark.parametrize("mask", [None, "causal"])
    def test_attention_over_a_growing_cache(self, compiled, mask):
        keys, values = mx.zeros((1, 2, 16, 4)), mx.zeros((1, 2, 16, 4))
        mx.eval(keys, values)

        def step(k):
            keys[..., k : k + 1, :] = values[..., k : k + 1, :] = mx.ones((1, 2, 1, 4)) * k
            query = mx.ones((1, 4, 1, 4)) * 0.1
            seen = (keys[..., : k + 1, :], values[..., : k + 1, :])
            return mx.fast.scaled_dot_product_attention(query, *seen, scale=0.5, mask=mask)

        assert steps(step, compiled) == 0

    def test_at_most_two_per_structure(self, compiled):
        x = mx.array([1.0, 2.0, 3.0])
        for k in range(6):
            mx.eval((x * (k + 0.5)).sum() * k)
        assert compiled() <= 2 + 3  # 3: single ops, if no earlier test has compiled them

    def test_a_loss_is_one_node(self, compiled):
        """Assert that a loss is one node, whose Python code runs once.

        A call creates that node with several outputs, and uses the only one it needs.
        """
        for k in range(5):
            x = mx.array([[1.0, k], [k, 3.0]])
            loss = nn.losses.cross_entropy(x, mx.array([0, 1]), label_smoothing=0.1, reduction="mean")
            assert len(linearize([loss._node]).order) == 2
            mx.eval(loss)
        assert compiled() <= 3


class TestLiveness:
    def test_shown_intermediates_are_kept(self):
        x = mx.array([1.0, 2.0])
        h = mx.sin(x)
        y = h * 2
        mx.eval(y)
        assert h._node.value is not None

    def test_hidden_intermediates_are_not(self):
        x = mx.array([1.0, 2.0])
        h = mx.sin(x)
        node = h._node
        y = h * 2
        inputs = y._node.inputs
        assert inputs[0] is node
        del h, inputs, node
        mx.eval(y)
        assert y._node.inputs == ()

    def test_loss_after_parameters_costs_nothing(self, compiled):
        w = mx.array([1.0, 2.0])
        for _ in range(3):
            loss, grad = mx.value_and_grad(lambda w: (w * w).sum())(w)
            w = w - 0.1 * grad
            mx.eval(w)
            compiled()
            assert loss.item() >= 0
            assert compiled() == 0

    def test_aliases_and_earlier_consumers(self):
        x = mx.array([1.0, 2.0])
        alias, before = x, x * 10
        x += 1
        x[0] = 7.0
        assert alias.tolist() == [7.0, 3.0]
        assert before.tolist() == [10.0, 20.0]

    @needs("reference-counts")
    def test_a_write_is_in_place(self, xla_only):
        cache = mx.zeros((256, 256))
        for k in range(4):
            cache[k] = mx.ones((256,))
            mx.eval(cache)
        settle()
        where = set()
        for k in range(4, 10):
            cache[k] = mx.ones((256,))
            mx.eval(cache)
            where.add(cache._node.value.unsafe_buffer_pointer())
        assert len(where) == 1
        assert cache.sum().item() == 256 * 10

    @needs("reference-counts")
    def test_writes_into_several_buffers_are_each_in_place(self, xla_only):
        buffers = [mx.zeros((64, 1024)) for _ in range(5)]

        def step(n):
            read = sum(b[0, 0] for b in buffers)
            for k in (3, 1, 4, 0, 2):  # writes in another order than the reads
                buffers[k][:, n : n + 1] = float(k + n)
            mx.eval(read, [buffers[k] for k in (3, 1, 4, 0, 2)])
            settle()

        for n in range(6):
            step(n)
        places = [b._node.value.unsafe_buffer_pointer() for b in buffers]
        for n in range(6, 10):
            step(n)
        assert [b._node.value.unsafe_buffer_pointer() for b in buffers] == places
        for k, buffer in enumerate(buffers):
            assert buffer[0, :11].tolist() == [k + n for n in range(10)] + [0.0]

    def test_a_write_to_what_is_still_shown_is_not(self):
        cache = mx.zeros((256, 256))
        mx.eval(cache)
        old = cache + 0
        mx.eval(old)
        view = np.array(old, copy=False)
        for k in range(4):
            kept = mx.array(old)
            old[k] = mx.ones((256,))
            mx.eval(old)
            assert kept.sum().item() == 256 * k
        assert view.sum() == 0


class TestLargeGraphs:
    def test_a_long_chain(self):
        x = one = mx.array(1.0)
        for _ in range(100_000):
            x = x + one
        assert x.item() == 100_001

    def test_a_long_chain_dropped(self):
        x = mx.array(1.0)
        for _ in range(100_000):
            x = x + 1.0
        del x

    def test_a_wide_graph(self, monkeypatch):
        monkeypatch.setattr(cache, "compile_soon", lambda *_: None)  # this would take half a minute on a slow machine
        x = mx.array(1.0)
        parts = [x * k for k in range(5000)]
        total = parts[0]
        for p in parts[1:]:
            total = total + p
        assert total.item() == sum(range(5000))
        assert parts[4999].item() == 4999

    def test_a_long_body(self):
        def f(x):
            for _ in range(1000):
                x = x * 1.0001
            return x

        g = mx.grad(f)(mx.array(1.0))
        np.testing.assert_allclose(g.item(), 1.0001**1000, rtol=1e-4)


def failing(fail):
    def impl(x):
        if fail[0]:
            raise FloatingPointError("broken on purpose")
        return x * 2

    return Op("failing", impl, lambda a: a)


def applied(op, x):
    return wrap(apply(op, (x._node,)))


class TestErrors:
    @needs("frames")
    def test_names_the_op_and_the_line_and_a_retry_works(self):
        fail = [True]
        op = failing(fail)
        x = mx.array([1.0, 2.0])
        y = applied(op, x + 1)  # the line in question
        z = y + x
        with pytest.raises(FloatingPointError, match="broken on purpose") as error:
            mx.eval(z)
        notes = "\n".join(error.value.__notes__)
        assert "[failing]" in notes
        assert f"{__file__}:" in notes
        assert x.tolist() == [1.0, 2.0]
        fail[0] = False
        assert z.tolist() == [5.0, 8.0]

    def test_inside_a_transform(self):
        fail = [True]
        op = failing(fail)
        g = mx.grad(lambda x: wrap(apply(op, (x._node,))).sum())(mx.array([1.0, 2.0]))
        with pytest.raises(FloatingPointError) as error:
            mx.eval(g)
        assert "[vjp]" in "\n".join(error.value.__notes__)
        fail[0] = False
        assert g.tolist() == [2.0, 2.0]

    def test_shape_errors_come_at_the_call(self):
        with pytest.raises(ValueError, match=r"\[broadcast_shapes\] Shapes \(2\) and \(3\) cannot be broadcast"):
            mx.ones((2,)) + mx.ones((3,))


class TestJax:
    """mx functions under JAX's own transforms."""

    def test_jit(self):
        x = jnp.arange(3.0)
        out = jax.jit(lambda a: mx.sin(mx.array(a)) * 2)(x)
        np.testing.assert_allclose(np.array(out), 2 * np.sin(np.arange(3.0)), rtol=1e-6)

    def test_grad(self):
        g = jax.grad(lambda a: (mx.array(a) ** 2).sum().__jax_array__())(jnp.arange(3.0))
        np.testing.assert_allclose(g, 2 * np.arange(3.0))

    def test_vmap(self):
        out = jax.vmap(lambda a: mx.array(a).sum().__jax_array__())(jnp.ones((2, 3)))
        np.testing.assert_allclose(out, [3.0, 3.0])

    def test_mx_grad_under_jit(self):
        out = jax.jit(lambda a: mx.grad(lambda x: (x**3).sum())(mx.array(a)).__jax_array__())(jnp.arange(3.0))
        np.testing.assert_allclose(out, 3 * np.arange(3.0) ** 2)

    def test_jax_function(self):
        f = mx.ext.jax_function(jax.nn.softplus)
        np.testing.assert_allclose(mx.grad(f)(mx.array(0.0)).item(), 0.5)
        assert mx.vmap(f)(mx.zeros((3,))).shape == (3,)

    def test_jax_jnp_accepts_arrays(self):
        assert float(jnp.sum(mx.ones((3,)))) == 3.0


class TestThreads:
    def test_independent_work(self):
        def work(k):
            x = mx.array([float(k), 1.0])
            for _ in range(20):
                x = mx.sin(x) + k
                mx.eval(x)
            g = mx.grad(lambda a: (a * a).sum())(x)
            return x.tolist(), g.tolist()

        expected = [work(k) for k in range(4)]
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(4))) == expected

    def test_the_same_array(self):
        x = mx.array([1.0, 2.0])
        y = mx.exp(x) + 1
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: (y * 2).tolist(), range(8)))
        assert all(r == results[0] for r in results)

    def test_a_transform_in_one_thread_is_not_seen_in_another(self):
        inside, finished = threading.Event(), threading.Event()

        def f(x):
            inside.set()
            finished.wait(10)
            return x * 2

        thread = threading.Thread(target=lambda: mx.vmap(f)(mx.ones((2,))))
        thread.start()
        inside.wait(10)
        try:
            assert (mx.array(1.0) + 1).item() == 2.0
        finally:
            finished.set()
            thread.join()


class TestDebug:
    def test_eager(self):
        with mx.ext.debug.eager():
            y = mx.sin(mx.array([1.0])) + 1
            assert y._node.value is not None
            assert mx.vmap(lambda a: a * 2)(mx.ones((2,))).tolist() == [2.0, 2.0]
            assert mx.grad(lambda a: (a * a).sum())(mx.ones((2,))).tolist() == [2.0, 2.0]

    @needs("frames")
    def test_nan_check_names_op_and_line(self):
        x = mx.array([-1.0])
        with mx.ext.debug.nan_check(), pytest.raises(FloatingPointError, match=r"\[log\].*test_graph.py:\d+"):
            mx.log(x) + 1
        assert mx.isnan(mx.log(x)).item()

    @needs("frames")
    def test_nan_check_looks_into_what_is_one_node(self):
        """Assert that the NaN check runs each op of composite nodes: losses, updates, compiled functions."""
        p = mx.array([1.5, 0.5])
        with mx.ext.debug.nan_check():
            with pytest.raises(FloatingPointError, match=r"\[log\].*test_graph.py:\d+"):
                mx.eval(nn.losses.gaussian_nll_loss(p, p, mx.array([-1.0, 2.0]), eps=-3.0))
            with pytest.raises(FloatingPointError, match=r"\[sqrt\].*test_graph.py:\d+"):
                mx.compile(lambda x: mx.sqrt(x) * 2)(-p)

    @needs("frames")
    def test_explain(self):
        with mx.ext.debug.explain() as messages:
            for n in (3, 3, 4):
                mx.eval(mx.arctan(mx.ones((n, 13))) * 2)
        assert "plan: 3 ops one by one in NumPy, seen for the first time" in messages[0]
        assert "plan: 3 ops one by one in NumPy, seen 1 times before" in messages[1]
        assert all("test_graph.py" in m for m in messages)

    @needs("frames")
    def test_explain_a_compile(self, xla_only):
        with mx.ext.debug.explain() as messages:
            for n in (3, 3, 4):
                mx.eval(mx.arctan(mx.ones((n, 13))) * 2)
        assert any("new structure" in m and "test_graph.py" in m for m in messages)
        assert any("was float32[3,13]" in m or "was [float32[3,13]" in m or "op 0" in m for m in messages)

    def test_caches_are_bounded_and_visible(self):
        info = mx.ext.debug.cache_info()
        assert 0 < info.structures == mx.ext.debug.cache_size()
        held = info.structure_bytes + info.executable_bytes + info.trace_bytes
        assert held <= info.limit == policy.CACHE_BYTES
        mx.ext.debug.clear_cache()
        assert mx.ext.debug.cache_info() == (0, 0, 0, 0, 0, 0, info.limit)
        assert (mx.ones((2,)) + 1).tolist() == [2.0, 2.0]

    def test_structures_used_least_recently_go_first(self):
        mx.ext.debug.clear_cache()
        before = mx.ext.debug.cache_limit(800_000)
        try:
            for n in range(120):
                mx.eval(mx.zeros((n, 2)).T.reshape(-1))
                mx.eval(mx.ones((3, 2)).T.reshape(-1) * 2)
                assert 0 < structure.bytes_held() <= 200_000
            held = [*structure._structures.values()]
            assert 30 < len(held) < 100
            assert structure.bytes_held() == sum(s.nbytes for s in held)
            shapes = {s.avals[0].shape for s in held}
            assert (3, 2) in shapes
            assert (119, 2) in shapes
            assert (1, 2) not in shapes
        finally:
            assert mx.ext.debug.cache_limit(before) == 800_000

    def test_executables_used_least_recently_go_first(self, xla_only):
        mx.ext.debug.clear_cache()
        x = mx.ones((3, 5))
        mx.eval(x)
        for _ in range(3):  # runs op by op, then as a whole
            mx.eval(mx.sin(x) * x)
            mx.ext.debug.compiles()
        before = mx.ext.debug.cache_limit(20 * policy.BYTES_PER_EXECUTABLE)
        try:
            for n in range(1, 20):
                mx.eval(mx.cos(mx.ones((n, 7))))
                compiles = mx.ext.debug.compiles()
                mx.eval(mx.sin(x) * x)
                # its executable stayed in the cache, because it was used all the time
                assert mx.ext.debug.compiles() == compiles
                info = mx.ext.debug.cache_info()
                assert info.executable_bytes <= policy.executable_bytes()
            assert 3 < info.executables < 15
        finally:
            mx.ext.debug.cache_limit(before)

    @needs("trace-cache")
    def test_traces_stay_within_the_limit(self, xla_only):
        mx.ext.debug.clear_cache()
        before = mx.ext.debug.cache_limit(int(40 * policy.BYTES_PER_TRACE / policy.OTHER_SHARE))
        try:
            counts = []
            for n in range(1, 30):
                mx.eval(mx.logaddexp(mx.ones((n, 7)), mx.ones((7,))))
                counts.append(mx.ext.debug.cache_info().traces)
            assert 20 < max(counts) <= 40
            assert min(counts[1:]) < counts[0]  # their executables were evicted
        finally:
            mx.ext.debug.cache_limit(before)

    def test_an_executable_larger_than_the_limit_is_kept_while_it_is_used(self, xla_only):
        before = mx.ext.debug.cache_limit(1)
        try:
            for _ in range(3):
                compiles = mx.ext.debug.compiles()
                mx.eval(mx.tanh(mx.ones((3, 17))) * 2)
            assert mx.ext.debug.compiles() == compiles
            assert mx.ext.debug.cache_info().executables == 1
        finally:
            mx.ext.debug.cache_limit(before)

    def test_what_a_loop_needs_again_raises_the_limit(self, xla_only, monkeypatch):
        mx.ext.debug.clear_cache()
        monkeypatch.setattr(policy, "CACHE_BYTES", 20 * policy.BYTES_PER_EXECUTABLE)
        monkeypatch.setattr(policy, "MOST_CACHE_BYTES", 1 << 28)
        compiles = [mx.ext.debug.compiles()]
        for _ in range(6):  # runs op by op, as a whole, then again after eviction
            for n in range(1, 20):
                mx.eval(mx.sinh(mx.ones((n, 23))))
            compiles.append(mx.ext.debug.compiles())
        counts = [after - before for before, after in pairwise(compiles)]
        assert counts[0] >= 19
        assert counts[-2:] == [0, 0]
        assert 20 * policy.BYTES_PER_EXECUTABLE < policy.CACHE_BYTES < 1 << 25

    def test_what_comes_once_does_not_raise_the_limit(self, xla_only, monkeypatch):
        mx.ext.debug.clear_cache()
        monkeypatch.setattr(policy, "CACHE_BYTES", 20 * policy.BYTES_PER_EXECUTABLE)
        monkeypatch.setattr(policy, "MOST_CACHE_BYTES", 1 << 28)
        for n in range(1, 20):
            mx.eval(mx.cosh(mx.ones((n, 23))))
        assert policy.CACHE_BYTES == 20 * policy.BYTES_PER_EXECUTABLE
        assert mx.ext.debug.cache_info().executables < 15

    def test_a_limit_that_was_set_stays(self, xla_only, monkeypatch):
        monkeypatch.setattr(policy, "CACHE_BYTES", policy.CACHE_BYTES)
        monkeypatch.setattr(policy, "MOST_CACHE_BYTES", 1 << 28)
        limit = 20 * policy.BYTES_PER_EXECUTABLE
        mx.ext.debug.cache_limit(limit)
        for _ in range(2):
            for n in range(1, 20):
                mx.eval(mx.tan(mx.ones((n, 29))))
        info = mx.ext.debug.cache_info()
        assert info.limit == limit
        assert info.executable_bytes <= policy.executable_bytes()

    def test_the_limit_is_positive(self):
        with pytest.raises(ValueError, match="cache_limit"):
            mx.ext.debug.cache_limit(0)

    def test_derivatives(self):
        x = mx.array([1.0, 2.0])
        assert mx.ext.jacrev(lambda x: x**2)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        assert mx.ext.jacfwd(lambda x: x**2)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
        assert mx.ext.hessian(lambda x: (x**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_segments_do_not_change_results(monkeypatch):
    x = mx.array(np.linspace(0, 1, 7, dtype=np.float32))

    def compute():
        hidden = [mx.sin(x) * k for k in range(30)]
        return mx.stack(hidden).sum(axis=0) + hidden[3]

    whole = compute().tolist()
    monkeypatch.setattr(policy, "LARGE_GRAPH", 7)
    np.testing.assert_allclose(compute().tolist(), whole, rtol=1e-6)


@pytest.mark.parametrize("mode", [mx.ext.debug.host_disabled, mx.ext.reproducible])
def test_large_graphs_draw_a_few_at_a_time(monkeypatch, plans, mode):
    """Assert that a large graph of random draws is compiled in parts, because a draw's code is long.

    Ops that contain programs count as long as their contents.
    """
    step = mx.compile(lambda x, e: mx.tanh(x * 0.9 + e) * mx.sigmoid(x + e) + mx.sin(e))

    def walk():
        mx.random.seed(3)
        x = mx.zeros(3)
        for _ in range(40):
            x = step(x, mx.random.normal((3,)))
        return x

    whole = walk().tolist()
    for name, value in (("LARGE_GRAPH", 60), ("DRAWS_AT_ONCE", 8)):
        monkeypatch.setattr(policy, name, value)
    plans.clear()
    with mode():
        result = walk()
        mx.eval(result)
    sizes = [plan.program.weight for plan in plans if isinstance(plan, Compile)]
    draws = [sum(op.draws for op, _, _ in plan.program.instructions) for plan in plans if isinstance(plan, Compile)]
    assert sizes
    assert max(sizes) <= 60
    assert max(draws) <= 16  # draws of keys count, too
    np.testing.assert_allclose(result.tolist(), whole, rtol=1e-5)


@needs("reference-counts")
def test_avals_in_use_stay_the_ones(monkeypatch):
    """Assert that avals in use are never evicted by other shapes."""
    from mxcompat._graph.ir import aval as avals

    used = mx.core.zeros((3, 5, 7))
    monkeypatch.setattr(policy, "MOST_AVALS", 64)
    monkeypatch.setattr(avals, "_most", len(avals.AVALS) + 50)
    most = 2 * len(avals.AVALS) + 100
    for n in range(10_000):
        avals.aval((n, 11, 13), mx.core.float32)
    assert len(avals.AVALS) <= most
    assert avals.aval((3, 5, 7), mx.core.float32) is used._node.aval
    assert mx.ext.while_loop(lambda s: s.sum() < 100, lambda s: s + 1, used).shape == (3, 5, 7)
