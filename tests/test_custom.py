"""`custom_function`, compared with real MLX, and `custom_gradient`, with JAX's documentation."""

import gc
import weakref

import numpy as np
import pytest

from tests.oracle import check, ours

X = np.array([1.0, 3.0, 2.0], np.float32)


def f_all(mx, *rules):
    """Return x * sin(y) with rules whose results differ from the derivative, so that tests see which ran."""

    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    if "vjp" in rules:

        @f.vjp
        def f_vjp(primals, cotangent, output):
            _, y = primals
            return cotangent * 10 * y, cotangent * output

    if "jvp" in rules:

        @f.jvp
        def f_jvp(primals, tangents):
            x, _ = primals
            dx, dy = tangents
            out = mx.zeros_like(x)
            return out + (dx * 20 if dx is not None else 0) + (dy * 30 if dy is not None else 0)

    if "vmap" in rules:

        @f.vmap
        def f_vmap(inputs, axes):
            x, y = inputs
            ax, ay = axes
            if ay != ax and ax is not None and ay is not None:
                y = y.swapaxes(ay, ax)
            return mx.sin(x) * y * 40, (ax if ax is not None else ay)

    return f


USES = {
    "call": lambda mx, f, x: f(x, x),
    "grad": lambda mx, f, x: mx.grad(lambda a: f(a, a).sum())(x),
    "grad one": lambda mx, f, x: mx.grad(lambda a: f(x, a).sum())(x),
    "grad both": lambda mx, f, x: mx.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))(x, x),
    "grad twice": lambda mx, f, x: mx.grad(mx.grad(lambda a: f(a, a)))(x[0]),
    "jvp": lambda mx, f, x: mx.jvp(f, [x, x], [x, x]),
    "jvp one": lambda mx, f, x: mx.jvp(lambda a: f(a, x), [x], [x]),
    "jvp of grad": lambda mx, f, x: mx.jvp(mx.grad(lambda a: f(a, a)), [x[0]], [x[0]]),
    "vmap": lambda mx, f, x: mx.vmap(f)(x, x),
    "vmap one": lambda mx, f, x: mx.vmap(f, in_axes=(0, None))(x, x[0]),
    "vmap of grad": lambda mx, f, x: mx.vmap(mx.grad(lambda a: f(a, a)))(x),
    "grad of vmap": lambda mx, f, x: mx.grad(lambda a: mx.vmap(f)(a, a).sum())(x),
    "compile": lambda mx, f, x: mx.compile(f)(x, x),
    "grad of compile": lambda mx, f, x: mx.grad(mx.compile(lambda a: f(a, a).sum()))(x),
    "compile of grad": lambda mx, f, x: mx.compile(mx.grad(lambda a: f(a, a).sum()))(x),
    "checkpoint": lambda mx, f, x: mx.grad(mx.checkpoint(lambda a: f(a, a).sum()))(x),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("rules", [(), ("vjp",), ("jvp",), ("vmap",), ("vjp", "jvp", "vmap")], ids="-".join)
def test_custom_function(rules, use):
    check(lambda mx, x: use(mx, f_all(mx, *rules), x), X)


def doc_example(mx, which):
    def g(x, y):
        @mx.custom_function
        def f(x):
            return x * y

        @f.vjp
        def f_vjp(x, dx, fx):
            raise ValueError("Abort!")

        return f(x)

    x, y = mx.array(2.0), mx.array(3.0)
    return g(x, y) if which is None else mx.grad(g, argnums=which)(x, y)


@pytest.mark.parametrize("which", [None, 0, 1])
def test_captured_arrays_are_constants(which):
    check(doc_example, which)


def trees(mx, x):
    @mx.custom_function
    def f(params, x, scale=None):
        return {"a": params["w"] * x, "b": (params["v"] + x) * scale}

    @f.vjp
    def f_vjp(primals, cotangents, outputs, scale=None):
        _, x = primals
        return {"w": cotangents["a"] * 2, "v": cotangents["b"] * outputs["a"]}, x * scale

    def loss(p, x):
        out = f(p, x, scale=mx.array(3.0))
        return (out["a"] + out["b"]).sum()

    return mx.grad(loss, argnums=(0, 1))({"w": x, "v": x}, x)


def one_tuple_argument(mx, x):
    @mx.custom_function
    def f(pair):
        return pair[0] * pair[1]

    @f.vjp
    def f_vjp(pair, cotangent, output):
        return pair[1] * cotangent * 5, pair[0] * cotangent

    return mx.grad(lambda a: f((a, a)).sum())(x)


def values_in_rule(mx, x):
    seen = []

    @mx.custom_function
    def f(x):
        return x * 2

    @f.vjp
    def f_vjp(primal, cotangent, output):
        seen.append((primal.item(), output.item()))
        return cotangent

    return mx.grad(f)(x[0]), seen


def jvp_keywords(mx, x):
    @mx.custom_function
    def f(x, k=None):
        return x * k

    @f.jvp
    def f_jvp(primals, tangents):
        return tangents

    return mx.jvp(lambda a: f(a, k=x), [x], [x])


def vmap_no_pair(mx, x):
    @mx.custom_function
    def f(x):
        return x

    @f.vmap
    def f_vmap(inputs, axes):
        return inputs

    return mx.vmap(f)(x)


@pytest.mark.parametrize("fn", [trees, one_tuple_argument, values_in_rule, jvp_keywords, vmap_no_pair])
def test_custom_function_forms(fn):
    check(fn, X)


@pytest.mark.usefixtures("xla_only")
def test_defined_afresh_at_every_step_compiles_once():
    mx = ours
    from mxcompat._graph.run.background import settle
    from mxcompat.ext.debug import compiles

    w = mx.array(X)

    def step(w, k):
        @mx.custom_function
        def f(x):
            return mx.sin(x) * 2

        @f.vjp
        def f_vjp(primal, cotangent, output):
            return cotangent * primal * 3

        return mx.grad(lambda a: f(a).sum())(w)

    for k in range(3):
        mx.eval(step(w, k))
    settle()
    before = compiles()
    for k in range(5):
        mx.eval(step(w, k))
    assert compiles() == before


def test_calls_keep_no_arrays():
    """Assert that the cached structure of a call does not retain its result."""
    mx = ours

    @mx.custom_function
    def f(x):
        return mx.sin(x) * 2

    f.vjp(lambda primal, cotangent, output: cotangent * primal)
    results = []

    def loss(x):
        y = f(x)
        results.append(weakref.ref(y))
        return y.sum()

    mx.eval(mx.grad(loss)(mx.array(X)))
    gc.collect()
    assert results[0]() is None


@pytest.fixture(scope="module")
def jax_doc():
    @ours.custom_gradient
    def f(x, y):
        return x * y, lambda g: (g * y * 10, g * x)

    return f


class TestCustomGradient:
    """Examples of JAX's documentation of `jax.custom_gradient`, on mx arrays."""

    def test_one_argument(self):
        f = ours.custom_gradient(lambda x: (x**2, lambda g: (g * x,)))
        assert f(3.0).item() == 9.0
        assert ours.grad(f)(ours.array(3.0)).item() == 3.0

    def test_two_arguments(self, jax_doc):
        x, y = ours.array(3.0), ours.array(4.0)
        assert jax_doc(x, y).item() == 12.0
        assert [g.item() for g in ours.grad(jax_doc, argnums=(0, 1))(x, y)] == [40.0, 3.0]

    def test_closes_over_intermediates(self):
        def f(x):
            s = ours.sin(x)
            return s * s, lambda g: (g * s * 7,)

        g = ours.grad(lambda x: ours.custom_gradient(f)(x).sum())(ours.array(X))
        np.testing.assert_allclose(np.array(g), 7 * np.sin(X), rtol=1e-6)

    @pytest.mark.parametrize("wrap", [ours.compile, ours.checkpoint], ids=["compile", "checkpoint"])
    def test_composes(self, jax_doc, wrap):
        x = ours.array(3.0)
        assert ours.grad(wrap(lambda a: jax_doc(a, a)))(x).item() == 33.0
        assert ours.vmap(ours.grad(lambda a: jax_doc(a, a)))(ours.array(X)).tolist() == [11.0, 33.0, 22.0]

    def test_second_order(self):
        f = ours.custom_gradient(lambda x: (x**3, lambda g: (g * x * 10,)))
        assert ours.grad(ours.grad(f))(ours.array(2.0)).item() == 10.0

    def test_values_can_be_read(self):
        f = ours.custom_gradient(lambda x: (x, lambda g: (g if g > 0 else -3 * g,)))
        assert ours.grad(f)(ours.array(1.0)).item() == 1.0
        assert ours.grad(lambda x: f(x) * -2)(ours.array(1.0)).item() == 6.0

    def test_not_a_pair(self):
        with pytest.raises(ValueError, match="pair"):
            ours.custom_gradient(lambda x: x)(ours.array(1.0))


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_the_axis_that_a_vmap_rule_returns(axis):
    def run(mx, x):
        f = mx.custom_function(lambda a: a * 2)
        f.vmap(lambda a, axes: (mx.moveaxis(a * 2, axes, axis), axis))
        return mx.vmap(f)(x)

    check(run, np.arange(6, dtype=np.float32).reshape(2, 3))


AXES = [
    0, [0, 0], (0, 0), {"a": 0, "b": 0}, [0, (0, 0)], [0], (0,), {"a": 0}, {"a": 0, "c": 0}, "a", 1.5, [0, "a"], False,
]  # fmt: skip


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_the_axes_that_a_vmap_rule_returns(axes):
    """Compare the axes of a vmap rule: one axis for a whole list or dict, or a tree of the same kind."""
    for function in (
        lambda a: [a * 2, a],
        lambda a: (a * 2, a),
        lambda a: {"a": a * 2, "b": a},
        lambda a: [a, (a, a * 2)],
    ):

        def run(mx, x, function=function):
            f = mx.custom_function(function)
            f.vmap(lambda a, _: (function(a), axes))
            return mx.vmap(f)(x)

        check(run, np.arange(6, dtype=np.float32).reshape(2, 3))


def test_a_vmap_rule_that_returns_another_shape():
    f = ours.custom_function(lambda a: a * 2)
    f.vmap(lambda a, axes: (a.sum(axis=axes), None))
    assert ours.vmap(lambda a: f(a) + 1, out_axes=0)(ours.ones((2, 3))).shape == (2, 3)
    f.vmap(lambda a, axes: (a.sum(axis=axes), 0))
    with pytest.raises(ValueError, match=r"vmap rule.*\(2,3\).*\(3\)"):
        ours.vmap(f)(ours.ones((2, 3)))


def test_what_rules_return_beyond_what_is_asked_is_not_read() -> None:
    def fn(mx, x):
        @mx.custom_function
        def f(x):
            return x * 2

        f.vjp(lambda primals, cotangent, output: (cotangent * 7, cotangent * 8))
        f.jvp(lambda primals, tangents: (tangents * 3, tangents * 4))
        return mx.grad(f)(x), mx.jvp(f, [x], [x])

    check(fn, np.array(2.0, np.float32))


def test_tangents_that_a_rule_does_not_return_are_zero() -> None:
    def fn(mx, x):
        f = mx.custom_function(lambda x: (x * 2, x * 3))
        f.jvp(lambda primals, tangents: (tangents * 3,))
        return mx.jvp(f, [x], [x])

    check(fn, np.array(2.0, np.float32))


def straight_through(mx, dtype, reads):
    """Return a function to integers with the derivative of its rounded argument."""

    @mx.custom_function
    def rounded(x):
        return mx.round(x * 4).astype(getattr(mx, dtype))

    @rounded.vjp
    def rule(primal, cotangent, output):
        if reads:
            np.array(cotangent)
        return cotangent.astype(mx.float32) * 10

    return rounded


INTEGERS = {
    "grad": lambda mx, q, x, w: mx.grad(lambda x: (q(x) * w).sum())(x),
    "behind integers": lambda mx, q, x, w: mx.grad(lambda x: ((q(x) - 3) * w / 4).sum())(x),
    "twice": lambda mx, q, x, w: mx.grad(lambda x: (q(q(x) / 3) * x * w).sum())(x),
    "vjp": lambda mx, q, x, w: mx.vjp(q, [x], [w]),
    "compile": lambda mx, q, x, w: mx.grad(mx.compile(lambda x, w: (q(x) * w).sum()))(x, w),
    "vmap": lambda mx, q, x, w: mx.grad(lambda x: (mx.vmap(q)(x) * w).sum())(x),
    "checkpoint": lambda mx, q, x, w: mx.grad(mx.checkpoint(lambda x: (q(x) * w).sum()))(x),
    "jvp": lambda mx, q, x, w: mx.jvp(lambda x: q(x) * w, [x], [x]),
}


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "bool_"])
@pytest.mark.parametrize("case", INTEGERS)
def test_results_that_are_integers(case, dtype, reads):
    operands = np.array([1.3, 2.6, 0.2], np.float32), np.array([0.5, 2, 3], np.float32)
    check(lambda mx, x, w: INTEGERS[case](mx, straight_through(mx, dtype, reads), x, w), *operands)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_arguments_that_are_integers(dtype):
    def run(mx, x):
        @mx.custom_function
        def double(x):
            return x * 2

        double.vjp(lambda primal, cotangent, output: cotangent * 3)
        x = x.astype(getattr(mx, dtype))
        return [mx.vjp(f, [x], [x]) for f in (double, lambda x: double(x) * 1, lambda x: double(x * 1))]

    check(run, np.array([1, 2, 0]))


def test_indices_among_the_results():
    """Compare a vector quantizer, which returns the nearest entry of a codebook and its index."""

    def run(mx, x, book):
        @mx.custom_function
        def nearest(x, book):
            i = mx.argmin(mx.square(x[:, None] - book), axis=1)
            return book[i], i

        @nearest.vjp
        def rule(primals, cotangents, outputs):
            return cotangents[0], mx.zeros_like(primals[1]).at[outputs[1]].add(cotangents[0])

        def loss(x, book):
            y, i = nearest(x, book)
            return (y * i * book[i]).sum()

        return mx.grad(loss, argnums=(0, 1))(x, book)

    check(run, np.array([0.3, 2.6, 1.2], np.float32), np.arange(4, dtype=np.float32))


def test_defining_a_rule_returns_a_copy():
    """Assert that defining a rule returns a copy with the rules so far; later rules are not shared."""

    def run(mx, x):
        f = mx.custom_function(lambda x: x * 2)
        g = f.vjp(lambda primal, cotangent, output: cotangent * 3)
        h = g.vjp(lambda primal, cotangent, output: cotangent * 5)
        f.vjp(lambda primal, cotangent, output: cotangent * 7)
        j = f.jvp(lambda primal, tangent: tangent * 11)
        v = j.vmap(lambda inputs, axes: (inputs * 13, axes))
        every = f, g, h, j, v
        same = [a is b for a in every for b in every]
        types = [type(a) is mx.custom_function for a in every]
        grads, tangents = [mx.grad(a)(x[0]) for a in every], [mx.jvp(a, [x], [x]) for a in every]
        return same, types, grads, tangents, [mx.vmap(a)(x) for a in every]

    check(run, X)


def test_rules_may_be_defined_under_the_name_of_the_function():
    def run(mx, x):
        @mx.custom_function
        def f(x):
            return x * 2

        @f.vjp
        def f(primal, cotangent, output):
            return cotangent * 5

        @f.jvp
        def f(primal, tangent):
            return tangent * 7

        return mx.grad(f)(x[0]), mx.jvp(f, [x], [x])

    check(run, X)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "complex64", "int32"])
def test_a_vmap_rule_that_returns_another_dtype_is_cast(dtype):
    """Assert that the result of a vmap rule is cast. In real MLX it keeps the rule's dtype."""
    f = ours.custom_function(lambda x: x * 2)
    f.vmap(lambda x, axes: ((x * 3).astype(getattr(ours, dtype)), axes))
    for result in (ours.vmap(f)(ours.array(X)), ours.vmap(lambda x: f(x) * 1)(ours.array(X))):
        assert result.dtype == ours.float32
        np.testing.assert_array_equal(np.array(result), X * 3)


@pytest.mark.parametrize("in_axes", [0, 1, 2, -1, -2, (0, 0), (1, 0), (2, 1), (None, 1), (1, None), (-1, -1)])
def test_a_vmap_rule_is_told_where_the_axis_is(in_axes):
    """Compare the axes that a vmap rule receives. It gets the arguments of the mapped function unchanged."""

    def mapped(mx, x, y):
        seen = []

        @mx.custom_function
        def f(x, y):
            return x.sum() * y

        @f.vmap
        def rule(inputs, axes):
            seen.append(([a.shape for a in inputs], list(axes)))
            (x, y), (i, k) = inputs, axes
            x = x.sum() if i is None else x.sum([axis for axis in range(3) if axis != i % 3]).reshape(-1, 1, 1)
            y = y if k is None else mx.moveaxis(y, k, 0)
            return (mx.moveaxis(x * y, 0, 2), 2)

        mapped_axes = in_axes if isinstance(in_axes, tuple) else (in_axes, in_axes)
        x, y = (a[0] if axis is None else a for a, axis in zip((x, y), mapped_axes, strict=True))
        return mx.vmap(f, in_axes=in_axes, out_axes=1)(x, y), seen

    x, y = np.random.default_rng(0).normal(size=(2, 4, 4, 4)).astype(np.float32)
    check(mapped, x, y)
