"""`compile` and `checkpoint`: cache keys, constants, captured state, shapeless programs and errors, against real
MLX."""

import copy
import inspect
import pickle
import re
from types import FunctionType

import mlx.nn as real_nn
import numpy as np
import pytest

import mxcompat.nn as nn
from tests.oracle import check, ours, real, same

X = np.array([1.0, 3.0, 2.0], np.float32)


def counting(mx, fn, **options):
    """Return `fn` compiled, and a list that grows by one entry at each trace."""
    traces = []

    def counted(*args, **kwargs):
        traces.append(None)
        return fn(*args, **kwargs)

    return mx.compile(counted, **options), traces


def traced(mx, fn, calls, **options):
    compiled, traces = counting(mx, fn, **options)
    out = []
    for args, kwargs in calls:
        out.append((compiled(*args, **kwargs), len(traces)))
    return out


def stateful(mx, x):
    state = {"a": mx.array(1.0), "l": [mx.array(2.0)]}

    def step(x):
        state["a"] = state["a"] + x.sum()
        state["l"][0] = state["l"][0] * 2
        return state["a"] * 2

    compiled, traces = counting(mx, step, inputs=state, outputs=state)
    first = [compiled(x), compiled(x)]
    state["a"] = mx.array(100.0)
    return first, compiled(x), state, len(traces)


def frozen(mx, x):
    y = {"y": mx.array(1.0)}
    compiled = mx.compile(lambda x: x + y["y"])
    first = compiled(x)
    y["y"] = mx.array(10.0)
    return first, compiled(x)


def random_state(mx, x):
    from functools import partial

    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def noise(x):
        return x + mx.random.uniform(shape=x.shape)

    mx.random.seed(3)
    a, b = noise(x), noise(x)
    return a, b, mx.random.uniform()


def grown(mx, x):
    """Return a state that is empty before the first call."""
    state = {}

    def step(x):
        state["m"] = state.get("m", mx.zeros_like(x)) + x
        return x * 2

    compiled, traces = counting(mx, step, inputs=state, outputs=state)
    return [compiled(x) for _ in range(3)], state, len(traces)


def within(mx, transform):
    """Return the results of a compiled function under a transform, and its number of traces."""
    inner, traces = counting(mx, lambda a, b: a * b + 1)
    outer = transform(lambda a: inner(a, mx.array([2.0, 3.0, 4.0])).sum())
    return [outer(mx.array([1.0, -2.0, 0.5])) for _ in range(2)], len(traces)


def reading(a):
    """Branch on the value of an argument, which needs it at trace time."""
    return a * 3 if a.sum().item() > 0 else a


COMPILE = {
    "within grad": lambda mx, x: within(mx, mx.grad),
    "within vmap": lambda mx, x: within(mx, lambda f: mx.vmap(lambda a: f(a), out_axes=0)),
    "within jvp": lambda mx, x: within(mx, lambda f: lambda a: mx.jvp(f, [a], [a])),
    "within grad, reading": lambda mx, x: mx.grad(lambda a: mx.compile(reading)(a).sum())(mx.array([1.0, 2.0])),
    "within grad, of what is captured": lambda mx, x: mx.grad(
        lambda a: mx.compile(lambda b: b * a * mx.sin(a))(a * 2).sum()
    )(mx.array([1.0, 2.0])),
    "within vmap, of what is captured": lambda mx, x: mx.vmap(lambda a: mx.compile(lambda b: b * a)(a + 1))(x),
    "within vmap, of nothing but what is captured": lambda mx, x: mx.vmap(
        lambda a: mx.compile(lambda b: b * a)(mx.array([1.0, 2.0, 3.0]))
    )(mx.stack([x, x * 2])),
    "within compile, of what is captured": lambda mx, x: mx.compile(
        lambda a: [mx.compile(lambda b: b * a)(x), mx.compile(lambda: mx.exp(a) + 1)()]
    )(mx.array([1.0, 2.0, 3.0])),
    "plain": lambda mx, x: mx.compile(lambda a: a * 2)(x),
    "tree out": lambda mx, x: mx.compile(lambda a: (a * 2, [a], {"k": a + 1}, 3, "s", None))(x),
    "no array out": lambda mx, x: mx.compile(lambda a: 3)(x),
    "same structure": lambda mx, x: traced(mx, lambda a: a + 1, [((x,), {}), ((x * 2,), {}), ((x[:2],), {})]),
    "dtype": lambda mx, x: traced(mx, lambda a: a + 1, [((x,), {}), ((x.astype(mx.int32),), {})]),
    "constants": lambda mx, x: traced(
        mx, lambda a, c: a * c, [((x, 2.0), {}), ((x, 3.0), {}), ((x, 2.0), {}), ((x, 2.5), {})]
    ),
    "constant types": lambda mx, x: [
        mx.compile(lambda a, c: a if c is None else a * 2 if c == "d" else a * 3)(x, c) for c in (None, "d", "t")
    ],
    "kwargs": lambda mx, x: traced(
        mx, lambda a, k=None: a * k["s"][0], [((x,), {"k": {"s": [x]}}), ((x,), {"k": {"s": [x + 1]}})]
    ),
    "no arguments": lambda mx, x: mx.compile(lambda: mx.array(3.0) * 2)(),
    "state": stateful,
    "frozen capture": frozen,
    "random state": random_state,
    "state that grows": grown,
    "grad of": lambda mx, x: mx.grad(mx.compile(lambda a: (a**3).sum()))(x),
    "of grad": lambda mx, x: mx.compile(mx.value_and_grad(lambda a: (a**3).sum()))(x),
    "nested": lambda mx, x: mx.compile(lambda a: mx.compile(lambda b: b * 2)(a) + 1)(x),
    "under grad with outer capture": lambda mx, x: [
        mx.grad(lambda w: mx.compile(lambda a: (a * w).sum())(x))(x * k) for k in (1.0, 2.0)
    ],
    "jvp of": lambda mx, x: mx.jvp(mx.compile(mx.sin), [x], [x]),
    "NaN is a constant": lambda mx, x: traced(mx, lambda a, c: a * c, [((x, float("nan")), {})] * 2),
    "0 and -0 are two": lambda mx, x: [
        f(mx.array(1.0), c) for f in [mx.compile(mx.divide)] for c in (0.0, -0.0, 0.0, -0.0)
    ],
    "an argument of another type": lambda mx, x: mx.compile(lambda a, b: a)(x, pytest.approx(1)),
    "an argument that is a type": lambda mx, x: mx.compile(lambda a, b: a)(x, b=int),
    "shapeless": lambda mx, x: traced(
        mx,
        lambda a: a.sum(axis=0) * 2 + a,
        [((mx.ones((2, 3)),), {}), ((mx.ones((4, 3)),), {}), ((x,), {})],
        shapeless=True,
    ),
    "shapeless frozen size": lambda mx, x: traced(
        mx, lambda a: a + a.shape[0], [((mx.ones((2, 3)),), {}), ((mx.ones((4, 3)),), {})], shapeless=True
    ),
    "shapeless flatten": lambda mx, x: traced(
        mx, lambda a: a.flatten(), [((mx.ones((2, 3)),), {}), ((mx.ones((4, 3)),), {})], shapeless=True
    ),
    "shapeless reshape": lambda mx, x: traced(
        mx, lambda a: a.reshape(-1), [((mx.ones((2, 3)),), {}), ((mx.ones((4, 3)),), {})], shapeless=True
    ),
    **{
        f"shapeless {name}": lambda mx, x, f=f: traced(
            mx, lambda a: f(mx, a), [((x,), {}), ((mx.arange(5.0),), {}), ((x,), {})], shapeless=True
        )
        for name, f in {
            "grad": lambda mx, a: mx.grad(lambda b: (b**3).sum())(a),
            "value_and_grad": lambda mx, a: mx.value_and_grad(lambda b: (mx.sin(b) * b).sum())(a),
            "grad of grad": lambda mx, a: mx.grad(lambda b: mx.grad(lambda c: (c**3).sum())(b).sum())(a),
            "vjp": lambda mx, a: mx.vjp(mx.sin, [a], [a])[1][0],
            "jvp": lambda mx, a: mx.jvp(mx.sin, [a], [a])[1][0],
            "vmap": lambda mx, a: mx.vmap(lambda b: b * 2)(a),
            "compile": lambda mx, a: mx.compile(lambda b: b * 2 + 1)(a),
            "compile of grad": lambda mx, a: mx.compile(mx.grad(lambda b: (b**3).sum()))(a),
        }.items()
    },
    "shapeless impossible": lambda mx, x: traced(
        mx, lambda a: a.reshape(6), [((mx.ones((2, 3)),), {}), ((mx.ones((4, 3)),), {})], shapeless=True
    ),
    # errors
    "object": lambda mx, x: mx.compile(lambda a, o: a)(x, object()),
    "not callable": lambda mx, x: mx.compile(3),
    "item": lambda mx, x: mx.compile(lambda a: a.sum().item())(x),
    "eval": lambda mx, x: mx.compile(lambda a: (mx.eval(a), a)[1])(x),
    "bool": lambda mx, x: mx.compile(lambda a: a if a.sum() > 0 else -a)(x),
    "user's own": lambda mx, x: mx.compile(lambda a: 1 / 0)(x),
}


@pytest.mark.parametrize("fn", COMPILE.values(), ids=COMPILE.keys())
def test_compile(fn):
    check(fn, X)


def test_shapeless_takes_what_mlx_cannot_infer():
    mx = ours

    @mx.custom_function
    def f(x):
        return x * 2

    f.vjp(lambda primal, cotangent, output: cotangent * 10 * primal)
    g = mx.custom_function(lambda x: x * 2)
    g.jvp(lambda primal, tangent: tangent * 20)
    for name, function, want in (
        ("checkpoint", mx.checkpoint(lambda a: a * 2), lambda a: a * 2),
        ("grad of checkpoint", lambda a: mx.grad(lambda b: mx.checkpoint(mx.square)(b).sum())(a), lambda a: a * 2),
        ("custom", f, lambda a: a * 2),
        ("vjp rule", lambda a: mx.grad(lambda b: f(b).sum())(a), lambda a: a * 10),
        ("jvp rule", lambda a: mx.jvp(g, [a], [a])[1][0], lambda a: a * 20),
        ("vmap of a vjp rule", lambda a: mx.vmap(mx.grad(lambda b: f(b).sum()))(a[None])[0], lambda a: a * 10),
    ):
        compiled = mx.compile(function, shapeless=True)
        for n in (3, 5, 3):
            x = mx.arange(float(n))
            assert mx.array_equal(compiled(x), want(x)).item(), name


@pytest.mark.parametrize(
    "index", [slice(1, None), slice(None, -1), slice(None, None, -1), (slice(None), slice(1, None))]
)
def test_shapeless_slice_of_an_axis_that_changes(index):
    """Slice an axis whose new length makes the end of the slice unknown.

    MLX refuses at once; mxcompat only if that axis changes.
    """
    message = "[Primitive::output_shapes] Slice cannot infer output shapes."
    with pytest.raises(ValueError, match=re.escape(message)):
        real.compile(lambda a: a[index], shapeless=True)(real.ones((3, 3)))
    compiled = ours.compile(lambda a: a[index], shapeless=True)
    assert compiled(ours.ones((3, 3))).shape == np.ones((3, 3))[index].shape
    with pytest.raises(ValueError, match=re.escape(message)):
        compiled(ours.ones((5, 5)))
    if not isinstance(index, tuple):
        assert compiled(ours.ones((3, 5))).shape == np.ones((3, 5))[index].shape


def test_failed_trace_leaves_state_alone():
    mx = ours
    state = {"a": mx.array(1.0)}

    def bad(x):
        state["a"] = x
        state["new"] = x
        raise KeyError("no")

    compiled = mx.compile(bad, inputs=state, outputs=state)
    for _ in range(2):
        with pytest.raises(KeyError):
            compiled(mx.array(X))
        assert list(state) == ["a"]
        assert state["a"].item() == 1.0


def test_failed_trace_leaves_a_model_alone():
    """Assert that a failed trace restores the model. Real MLX leaves its placeholders in the model."""
    model, failing = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3)), [True]

    def step(x):
        if failing:
            model.layers[0].weight = model.layers[0].weight + failing.pop()
            raise KeyError("no")
        return model(x)

    x = ours.ones((4, 2))
    before, want = dict(model.layers[0]), copy.deepcopy(model)(x)
    compiled = ours.compile(step, inputs=model, outputs=model)
    with pytest.raises(KeyError):
        compiled(x)
    assert model.layers[0] == before
    same(compiled(x), want)


CAPTURED = """\
mx.compile(lambda x: x + a)(a)
mx.compile(lambda x: a * 2)(a)
mx.compile(lambda x: (a, x + 1)[1])(a)
mx.compile(lambda x: x + b)(a)
mx.compile(lambda x: x + a)(b)
(mx.eval(b), mx.compile(lambda x: x + b)(a))[1]
mx.compile(lambda x: x + mx.array(a))(a)
mx.compile(lambda x: x + like + ones + full)(a)
mx.compile(lambda x: x + part)(a)
(mx.eval(parts[0]), mx.compile(lambda x: x + part)(a))[1]
mx.compile(lambda x: x + gradient)(a)
mx.compile(lambda x: a + x, inputs=[a])(c)
mx.compile(lambda x: a + x, inputs=[b])(c)
[f(c), f(a)]
mx.grad(lambda z: mx.compile(lambda x: (x * z).sum())(z))(a)"""


@pytest.mark.parametrize("call", CAPTURED.splitlines())
def test_captured_arrays_that_are_inputs_too(call):
    """Assert that an array computed from an input is recomputed, not captured as a constant."""

    def run(mx):
        a, c = mx.ones(4), mx.ones(4)
        b, parts = a * 2, mx.split(a, 2)
        names = {"mx": mx, "a": a, "b": b, "c": c, "parts": parts, "part": parts[1].sum()}
        names |= {"like": mx.zeros_like(a), "ones": mx.ones_like(a), "full": mx.full_like(a, 3)}
        names |= {"gradient": mx.grad(lambda x: (x * x).sum())(a), "f": mx.compile(lambda x: x + a)}
        return eval(call, names)

    check(run)


def test_disable_and_enable():
    mx = ours
    compiled, traces = counting(mx, lambda x: x + 1)
    x = mx.array(X)
    compiled(x), compiled(x)
    assert len(traces) == 1
    mx.disable_compile()
    try:
        compiled(x), compiled(x)
        assert len(traces) == 3
    finally:
        mx.enable_compile()
    compiled(x)
    assert len(traces) == 3


def _writes(a):
    a[0] = a[0] * 7
    a += 1
    return a * 1


def _fills(d):
    d["n"] = d["a"] * 2
    d["a"] += 1
    return d["n"]


AROUND = {
    "nothing": lambda mx: lambda f: f,
    "compile": lambda mx: mx.compile,
    "vmap": lambda mx: lambda f: lambda x: mx.vmap(f)(mx.stack([x, x])),
    "grad": lambda mx: lambda f: mx.grad(lambda x: f(x).sum()),
    "checkpoint": lambda mx: mx.checkpoint,
}


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "disabled"])
@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())
def test_what_a_compiled_function_does_to_its_arguments_stays_there(around, enabled):
    """Compare the arguments that a compiled function writes to.

    Also within another `compile` or a `vmap`, and with compilation disabled.
    """

    def arrays(mx, x):
        inner = mx.compile(_writes)

        def outer(x):
            x = x * 1
            y = inner(x)
            return x + 10 * y

        return around(mx)(outer)(x), x

    def containers(mx, x):
        inner = mx.compile(_fills)

        def outer(x):
            tree = {"a": x * 1}
            y = inner(tree)
            return tree["a"] * len(tree) + 10 * y

        return around(mx)(outer)(x), x

    for mx in (real, ours):
        (mx.enable_compile if enabled else mx.disable_compile)()
    try:
        check(arrays, X)
        check(containers, X)
    finally:
        for mx in (real, ours):
            mx.enable_compile()


def test_arguments_are_checked_where_compile_is_disabled():
    for mx in (real, ours):
        mx.disable_compile()
    try:
        for wrong in ({1, 2}, 1j, b"a", object(), [1, {2}], np.float32):
            check(lambda mx, x, w=wrong: mx.compile(lambda a, b: a)(x, w), X)
            check(lambda mx, x, w=wrong: mx.compile(lambda a, k: a)(x, k=w), X)
    finally:
        for mx in (real, ours):
            mx.enable_compile()


def test_wrappers_keep_name_and_docstring():
    def double(x):
        """Twice."""
        return 2 * x

    for transform in (ours.compile, ours.grad, ours.value_and_grad, ours.vmap, ours.checkpoint):
        assert transform(double).__name__ == "double"
        assert transform(double).__doc__ == "Twice."


@pytest.mark.parametrize("name", ["compile", "grad", "value_and_grad", "vmap", "checkpoint"])
def test_transformed_functions_are_no_methods(name):
    """Assert that a transformed function in a class body is not bound: it gets no `self`."""

    def run(mx):
        class Layer:
            f = getattr(mx, name)(lambda x: x * x)

        x = mx.array([3.0]) if name == "vmap" else mx.array(3.0)
        return Layer().f(x), Layer.f(x), isinstance(Layer.f, FunctionType), inspect.isfunction(Layer.f)

    check(run)


def test_transformed_functions_are_copied_and_pickled():
    f = ours.compile(lambda x: x + 1)
    assert copy.copy(f) is copy.deepcopy(f) is f
    assert pickle.loads(pickle.dumps(nn.relu)) is nn.relu
    assert inspect.signature(nn.leaky_relu).parameters["negative_slope"].default == 0.01


CHECKPOINT = {
    "value": lambda mx, x: mx.checkpoint(lambda a, k=1: (a * 2, {"k": a * k}))(x, k=x),
    "grad": lambda mx, x: mx.grad(lambda a: mx.checkpoint(lambda b: (mx.sin(b) * b).sum())(a))(x),
    "captured is constant": lambda mx, x: mx.grad(lambda w: mx.checkpoint(lambda a: (a * w).sum())(x))(x),
    "readable": lambda mx, x: mx.grad(lambda a: mx.checkpoint(lambda b: b * b.item())(a))(x[0]),
    "of grad": lambda mx, x: mx.checkpoint(mx.grad(lambda a: (a**3).sum()))(x),
    "of custom": lambda mx, x: mx.grad(mx.checkpoint(custom(mx)))(x[0]),
}


def custom(mx):
    @mx.custom_function
    def f(x):
        return mx.sin(x)

    @f.vjp
    def f_vjp(primals, cotangent, output):
        return cotangent * 100 + output

    return f


@pytest.mark.parametrize("fn", CHECKPOINT.values(), ids=CHECKPOINT.keys())
def test_checkpoint(fn):
    check(fn, X)


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "bool_", "complex64", "bfloat16", "uint64"])
def test_state_that_a_trace_replaces_and_nothing_reads(dtype, shapeless):
    """Compare a state that the function replaces but does not output: the trace leaves an array without value in its
    place."""

    def run(mx):
        state = {"count": mx.ones((3,), getattr(mx, dtype)), "rate": mx.array(2.0)}

        def step(x):
            state["count"] = mx.logical_not(state["count"]).astype(state["count"].dtype)
            state["new"] = x * 2
            return x * state["rate"]

        compiled = mx.compile(step, inputs=state, shapeless=shapeless)
        results = []
        for k in range(4):
            results.append(compiled(mx.array([1.0, k])).tolist())
            state["rate"] = mx.array(float(k))
        return results

    check(run)


def test_state_that_a_trace_replaces_and_something_reads():
    def run(mx):
        state = {"count": mx.array(0)}

        def step(x):
            state["count"] = state["count"] + 1
            return x + state["count"]

        compiled = mx.compile(step, inputs=state)
        return [compiled(mx.array(1.0)).item() for _ in range(2)]

    assert isinstance(check(run, message=False), RuntimeError)


@pytest.mark.parametrize("shapeless", [False, True])
def test_state_that_is_not_listed_and_nothing_reads(shapeless):
    """Compare an unlisted state. At the second trace the function captures an array of the first, as the argument of
    a call."""

    def run(mx):
        state = {"count": mx.array(0), "rate": mx.array(2.0)}
        update = mx.compile(lambda x, rate, count: (x * rate, count + 1))

        def step(x):
            y, state["count"] = update(x, state["rate"], state["count"])
            return y

        compiled = mx.compile(step, shapeless=shapeless)
        return [compiled(mx.ones(shape)) for shape in ((2,), (3,), (2, 1), (2,), (1, 2, 3))]

    check(run)


def test_argument_without_a_value_that_nothing_reads():
    def run(mx):
        leaked = []
        mx.vmap(lambda a: (leaked.append(a), a)[1])(mx.ones(2))
        return mx.compile(lambda x, y: x * 2)(mx.array(3.0), leaked[0])

    check(run)


def grads(mx, f):
    return mx.grad(lambda x: f(x).sum())


@pytest.mark.parametrize(
    "make",
    [
        lambda mx, f: mx.compile(f),
        lambda mx, f: mx.vmap(f),
        lambda mx, f: mx.checkpoint(f),
        lambda mx, f: mx.custom_function(f),
        lambda mx, f: mx.compile(grads(mx, f)),
        grads,
        lambda mx, f: mx.value_and_grad(lambda x: f(x).sum()),
    ],
)
def test_in_the_body_of_a_class(make):
    """Assert that the result of a transform is not a method: it is called without `self`."""

    def call(mx, x):
        function = make(mx, lambda y: y * y)
        body = type("Body", (), {"f": function})
        return body().f(x), body.f(x), body.f is function

    check(call, X)


@pytest.mark.parametrize("nn", [real_nn, nn])
def test_activations_in_the_body_of_a_class(nn):
    mx = real if nn is real_nn else ours
    layer = type("Layer", (nn.Module,), {"act": nn.silu, "__call__": lambda self, x: self.act(x)})()
    assert layer(mx.ones(2)).shape == (2,)


def test_what_transforms_return_is_copied_and_pickled_as_functions_are():
    f = ours.compile(ours.exp)
    assert copy.deepcopy({"f": f})["f"] is f
    assert pickle.loads(pickle.dumps(nn.silu)) is nn.silu
    assert str(inspect.signature(ours.compile(lambda a, b=2: a))) == "(a, b=2)"


@pytest.mark.parametrize("transform", ["compile", "vmap", "grad", "checkpoint"])
@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like"])
def test_what_only_has_the_shape_of_an_argument_outlives_the_call(name, transform):
    def case(mx, x):
        kept = []

        def fn(x):
            kept.append(getattr(mx, name)(x, *[2.5] * (name == "full_like")) + 1)
            return (x * x).sum()

        return getattr(mx, transform)(fn)(x), kept

    check(case, X)


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "full_like"])
def test_what_has_the_shape_of_an_argument_follows_it(name):
    def case(mx, x):
        fn = mx.compile(
            lambda x: mx.grad(lambda y: (y * getattr(mx, name)(x, *[2.5] * (name == "full_like"))).sum())(x),
            shapeless=True,
        )
        return fn(x), fn(x[:2])

    check(case, X)


@pytest.mark.parametrize("shapeless", [False, True])
def test_state_that_the_program_adds_to_and_takes_from(shapeless: bool) -> None:
    """Assert that a state may gain and lose entries, although no input shows it. MLX then lacks arrays or crashes."""

    def run(compile):
        state = {"a": ours.array(1.0)}

        def step(x):
            state["b"] = x * 2
            return x + state["a"]

        compiled, seen = compile(step, state), []
        for n, change in (
            (3, dict),
            (4, lambda: state.pop("b")),
            (4, lambda: state.update(c=ours.array(7.0))),
            (5, state.clear),
        ):
            change()
            state["a"] = ours.array(1.0)
            seen.append((compiled(ours.ones(n)).tolist(), {k: v.tolist() for k, v in state.items()}))
        return seen

    got = run(lambda step, state: ours.compile(step, outputs=state, shapeless=shapeless))
    assert got == run(lambda step, state: step)


def test_what_a_compiled_call_hands_through_is_not_computed_from_its_other_inputs():
    def handed(mx):
        x = mx.ones(2)
        a, _ = mx.compile(lambda w, x: (w, x * 2))(mx.array([3.0, 4.0]), x)
        return mx.compile(lambda x: x * a)(x)

    def kept_in_state(mx):
        x, state = mx.ones(2), {"w": mx.array([3.0, 4.0]), "n": mx.zeros(2)}

        def step(x):
            state["n"] = state["n"] + x
            return x * state["w"]

        mx.compile(step, inputs=state, outputs=state)(x)
        return mx.compile(lambda x: x * state["w"])(x), state["n"]

    def computed(mx):
        x = mx.ones(2)
        _, y = mx.compile(lambda w, x: (w, x * 2))(mx.ones(2), x)
        return mx.compile(lambda x: x * y)(x)

    check(handed)
    check(kept_in_state)
    assert isinstance(check(computed), ValueError)


ON_CLOSED_OVER = {
    "a product": lambda mx, x, held: x * held["w"],
    "a layer": lambda mx, x, held: mx.addmm(held["b"], x, held["w"].T),
    "what it returns": lambda mx, x, held: x + held["w"] if held["b"] is None else (held["w"] * x, held["b"])[0],
    "beside its input": lambda mx, x, held: mx.exp(x) @ (held["w"] * held["b"]),
}


@pytest.mark.parametrize("body", ON_CLOSED_OVER.values(), ids=ON_CLOSED_OVER.keys())
@pytest.mark.parametrize("derived", [False, True], ids=["x", "2 x"])
def test_the_parameters_that_a_compiled_part_of_a_model_reads_have_gradients(body, derived):
    """Compare gradients of parameters that a compiled function captures. They are arguments of the differentiated
    function."""

    def run(mx):
        held, runs = {}, []
        compiled = mx.compile(lambda x: (runs.append(1), body(mx, x, held))[1])

        def loss(parameters, x):
            held.update(parameters)
            return (compiled(2 * x if derived else x) * mx.arange(4.0).reshape(2, 2)).sum()

        x, w = mx.array([[1.0, 2.0], [3.0, -1.0]]), mx.array([[0.5, 2.0], [1.0, 3.0]])
        both = mx.value_and_grad(loss)
        return [both({"w": w * k, "b": mx.ones(2) * k}, x) for k in (1, 2, 3)], len(runs)

    check(run)


def test_the_gradients_of_what_a_compiled_function_reads_are_not_lost():
    """Assert that gradients reach a captured array if no input depends on the differentiated argument. MLX returns 0
    silently."""
    held, one = {}, ours.ones(2)
    compiled = ours.compile(lambda x: x * held["w"])

    def f(w):
        held["w"] = w * 3
        return compiled(one).sum()

    for w in (ours.array([1.0, 2.0]), ours.array([3.0, 4.0])):
        assert ours.grad(f)(w).tolist() == [3, 3]
        (value,), (tangent,) = ours.jvp(f, [w], [ours.ones(2)])
        assert (value.item(), tangent.item()) == (3 * w.sum().item(), 6)
    assert compiled(one).tolist() == [9, 12]


def test_a_module_holds_a_compiled_one():
    """Assert that a module holds a compiled module's parameters, for saving for example."""

    def run(mx, nn):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = mx.compile(nn.Linear(2, 3))
                self.rest = [mx.compile(nn.Linear(3, 3)), nn.Sequential(nn.ReLU(), mx.compile(nn.LayerNorm(3)))]

        model = Model()
        model.rest[0].freeze()
        trees = [model.parameters(), model.trainable_parameters(), nn.Sequential(model.first).parameters()]
        names = [[name for name, _ in nn.utils.tree_flatten(tree)] for tree in trees]
        return names, [name for name, _ in model.named_modules()], sorted(model.children())

    got = run(ours, nn)
    assert got == run(real, real_nn)
    assert "first.weight" in got[0][0]
    assert "rest.0.weight" not in got[0][1]


ROW = [1.0, 2.0, 3.0, 4.0]
BROADCASTS = {
    "of what is computed": lambda mx, x: x - mx.broadcast_to(x.mean(-1, keepdims=True), x.shape),
    "of a number": lambda mx, x: mx.broadcast_to(mx.array(2.0), x.shape) * x,
    "of what it closes over": lambda mx, x: mx.broadcast_to(mx.array(ROW), x.shape) * x,
    "within others": lambda mx, x: mx.tanh(mx.broadcast_to(mx.array(ROW), x.shape)) + x,
    "cast": lambda mx, x: mx.broadcast_to(x.mean(-1, keepdims=True), x.shape).astype(mx.float16) + x,
    "before softmax": lambda mx, x: mx.softmax(mx.broadcast_to(x.mean(-1, keepdims=True), x.shape) + x),
    "by itself": lambda mx, x: mx.broadcast_to(x.mean(-1, keepdims=True), x.shape),
    "before a sum": lambda mx, x: mx.broadcast_to(x.mean(-1, keepdims=True), x.shape).sum(),
    "before a product": lambda mx, x: mx.broadcast_to(x.mean(-1, keepdims=True), x.shape) @ mx.ones((4, 2)),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_shapeless_broadcasts_to_the_shape_of_what_they_meet(name):
    """Compare broadcasts in shapeless programs. Between elementwise ops MLX fuses them; elsewhere they keep the
    traced shape."""

    def run(mx):
        compiled, seen = mx.compile(lambda x: BROADCASTS[name](mx, x), shapeless=True), []
        for shape in ((2, 3, 4), (2, 5, 4), (1, 1, 4), (2, 3, 4)):
            try:
                seen.append(compiled(mx.arange(float(np.prod(shape))).reshape(shape) / 8))
                mx.eval(seen[-1])
            except ValueError as error:
                seen.append(str(error))
        return seen

    check(run)
