"""`grad`, `value_and_grad`, `vjp` and `jvp`, compared with real MLX."""

from collections import Counter, OrderedDict
from fractions import Fraction

import numpy as np
import pytest

from tests.oracle import check, ours

X = np.array([1.0, 3.0, 2.0], np.float32)
W = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)


def mse(mx):
    def loss(params, x, y=None):
        h = params["w"] @ x + params["b"]
        return ((h - (0 if y is None else y)) ** 2).mean()

    return loss


def start(mx, x):
    return (x[0, :1] * 0 + 1).astype(mx.int32)


def started(mx, x):
    return mx.slice(x * x, start(mx, x), [1], [x.shape[0], 1])


def masked(x, mask, value):
    x = x * 2
    x[mask] = value
    return x


def params(mx):
    return {"w": mx.array(W), "b": mx.zeros((2,)), "nested": [mx.ones((2,)), (mx.array(1.0),)]}


VALUE_AND_GRAD = {
    "scalar": lambda mx, x: mx.value_and_grad(mx.sin)(x[0]),
    "sum": lambda mx, x: mx.value_and_grad(lambda x: (mx.sin(x) * x).sum())(x),
    "tree": lambda mx, x: mx.value_and_grad(mse(mx))(params(mx), x),
    "aux": lambda mx, x: mx.value_and_grad(lambda x: (x.sum(), 2, {"a": x * 2}, "s", None))(x),
    "aux is the argument": lambda mx, x: mx.value_and_grad(lambda x: (x.sum(), x))(x),
    "argnums": lambda mx, x: mx.grad(lambda a, b: (a * a * b).sum(), argnums=1)(x, x),
    "argnums list": lambda mx, x: mx.grad(lambda a, b: (a * a * b).sum(), argnums=[0, 1])(x, x),
    "argnums an array": lambda mx, x: mx.grad(lambda a, b: (a * a * b).sum(), argnums=mx.array([0, 1]))(x, x),
    "argnums of NumPy": lambda mx, x: mx.grad(lambda a, b: (a * a * b).sum(), argnums=np.int64(1))(x, x),
    "argnums unsorted": lambda mx, x: mx.grad(lambda a, b: (a * a * b).sum(), argnums=(1, 0))(x, x),
    "argnames": lambda mx, x: mx.grad(lambda a, b=None: (a * a * b).sum(), argnames="b")(x, b=x),
    "argnames and argnums": lambda mx, x: mx.grad(
        lambda a, b=None, c=1: (a * a * b * c).sum(), argnums=0, argnames=["b", "c"]
    )(x, c=x, b=x),
    "kwargs not differentiated": lambda mx, x: mx.grad(lambda a, k=None: (a * k["s"]).sum())(x, k={"s": x, "t": "u"}),
    "unused argument": lambda mx, x: mx.grad(lambda a, b: a.sum(), argnums=(0, 1))(x, x),
    "constant": lambda mx, x: mx.value_and_grad(lambda a: mx.array(3.0))(x),
    "twice": lambda mx, x: mx.grad(mx.grad(mx.sin))(x[0]),
    "three times": lambda mx, x: mx.grad(mx.grad(mx.grad(lambda x: x**5)))(x[1]),
    "closed over": lambda mx, x: mx.grad(lambda a: (a * x).sum())(x),
    "closed over outer": lambda mx, x: mx.grad(lambda a: mx.grad(lambda b: (a * b * b).sum())(a).sum())(x),
    "perturbation confusion": lambda mx, x: mx.grad(lambda a: a * mx.grad(lambda b: a + b)(mx.array(1.0)))(x[0]),
    "stop_gradient": lambda mx, x: mx.grad(lambda a: (mx.stop_gradient(a) * a).sum())(x),
    "mask of a constant": lambda mx, x: mx.grad(lambda a: masked(a, mx.ones_like(a) > 0, a).sum())(x),
    "mask of a full constant": lambda mx, x: mx.grad(lambda a: masked(a, mx.full_like(a, 2.0) > 0, a).sum())(x),
    "integers": lambda mx, x: mx.grad(lambda a: (a * a).sum())(mx.array([1, 2, 3])),
    "integers times float": lambda mx, x: mx.grad(lambda a: (a * 2.5).sum())(mx.array([1, 2, 3])),
    "negative, of unsigned": lambda mx, x: mx.vjp(
        lambda a: 3 - a * 2, [mx.array([1, 2], mx.uint8)], [mx.array([1, 200], mx.uint8)]
    ),
    "negative, of unsigned, forward": lambda mx, x: mx.jvp(
        lambda a: -a, [mx.array([1, 2], mx.uint32)], [mx.array([1, 2], mx.uint32)]
    ),
    "bits of unsigned": lambda mx, x: mx.vjp(
        lambda a: (a & True, a << 2, a ^ a), [mx.array([1, 2], mx.uint64)], [mx.array([1, 2], mx.uint64)] * 3
    ),
    "bits of a float made of integers": lambda mx, x: mx.vjp(
        lambda a: a * 2.0 + mx.stop_gradient(mx.view(a, mx.float32)), [mx.array([1, 2])], [mx.array([1.0, 2.0])]
    ),
    "kron of bools": lambda mx, x: mx.kron(mx.array([True, False]), mx.array([True, True])),
    "integer loss": lambda mx, x: mx.grad(lambda a: (a > 1).sum())(x),
    "half": lambda mx, x: mx.grad(lambda a: (a * a).sum())(x.astype(mx.float16)),
    "mixed dtypes": lambda mx, x: mx.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x.astype(mx.bfloat16)),
    "complex": lambda mx, x: mx.grad(lambda a: (mx.abs(a) ** 2).sum())(mx.array([1 + 2j, 3 - 1j])),
    "complex times real": lambda mx, x: mx.grad(lambda a: mx.real(a * (2 + 1j)).sum())(mx.array([1 + 2j, 3 - 1j])),
    "complex real input": lambda mx, x: mx.grad(lambda a: mx.imag(a * (2 + 1j)).sum())(x),
    "matmul": lambda mx, x: mx.grad(lambda w: (w @ x).sum())(mx.array(W)),
    "item inside": lambda mx, x: mx.grad(lambda a: a.sum() * a[1].item())(x),
    "if inside": lambda mx, x: mx.grad(lambda a: a * 2 if a > 0 else -a)(x[0]),
    "eval inside": lambda mx, x: mx.grad(lambda a: (mx.eval(a * 3), (a * 3).sum())[1])(x),
    "print inside": lambda mx, x: mx.grad(lambda a: a * float(repr(a)[6:7]))(x[0]),
}


@pytest.mark.parametrize("fn", VALUE_AND_GRAD.values(), ids=VALUE_AND_GRAD.keys())
def test_grad(fn):
    check(fn, X)


GRAD_ERRORS = {
    "vector": lambda mx, x: mx.grad(lambda a: a)(x),
    "float": lambda mx, x: mx.grad(lambda a: 1.0)(x),
    "tuple": lambda mx, x: mx.grad(lambda a: (a.sum(), 2))(x),
    "list": lambda mx, x: mx.value_and_grad(lambda a: [a.sum()])(x),
    "empty tuple": lambda mx, x: mx.value_and_grad(lambda a: ())(x),
    "first is no array": lambda mx, x: mx.value_and_grad(lambda a: (2, a))(x),
    "float argument": lambda mx, x: mx.grad(lambda a: a * a)(3.0),
    "leaf is no array": lambda mx, x: mx.grad(lambda a: a["a"].sum())({"a": x, "b": 3}),
    "no argnums": lambda mx, x: mx.grad(lambda a: a.sum(), argnums=[])(x),
    "negative": lambda mx, x: mx.grad(lambda a: a.sum(), argnums=-1)(x),
    "duplicate": lambda mx, x: mx.grad(lambda a: a.sum(), argnums=(0, 0))(x),
    "out of range": lambda mx, x: mx.grad(lambda a: a.sum(), argnums=2)(x),
    "name not given": lambda mx, x: mx.grad(lambda a, y=1: a.sum(), argnames="y")(x),
    "names not given": lambda mx, x: mx.grad(lambda a, y=1: a.sum(), argnames=["z", "b", "y"])(x, y=x),
    "other name given": lambda mx, x: mx.grad(lambda a, y=1: a.sum(), argnames="z")(x, y=x),
    "argnums type": lambda mx, x: mx.grad(lambda a: a.sum(), argnums="a"),
    "not callable": lambda mx, x: mx.grad(3),
    "index": lambda mx, x: mx.grad(lambda a: x[a.astype(mx.int32)].sum())(x),
    "argmax index": lambda mx, x: mx.grad(lambda a: a[mx.argmax(a)])(x),
    "take_along_axis": lambda mx, x: mx.grad(lambda a: mx.take_along_axis(a, mx.argsort(a), 0).sum())(x),
    "one element": lambda mx, x: mx.grad(lambda a: a[:1])(x),
    "user's own": lambda mx, x: mx.grad(lambda a: {}[1])(x),
}


@pytest.mark.parametrize("fn", GRAD_ERRORS.values(), ids=GRAD_ERRORS.keys())
def test_grad_errors(fn):
    assert isinstance(check(fn, X), Exception)


VJP_JVP = {
    "vjp": lambda mx, x: mx.vjp(lambda a: a * 2, [x], [x]),
    "vjp of a tree": lambda mx, x: mx.vjp(lambda a: {"k": a}, [x], [x]),
    "jvp of a tree": lambda mx, x: mx.jvp(lambda a: (a, [a]), [x], [x]),
    "vjp two outputs": lambda mx, x: mx.vjp(lambda a: [a * 2, a * a], [x], [x, x]),
    "vjp of one output twice": lambda mx, x: mx.vjp(lambda a: [b := a * 2, b, a, a], [x], [x, x * 3, x * 5, x * 7]),
    "vjp of divmod": lambda mx, x: mx.vjp(mx.divmod, [x * 3, x - 4], [x, x]),
    "jvp of divmod": lambda mx, x: mx.jvp(mx.divmod, [x * 3, x - 4], [x, x]),
    "jvp of divmod by a number": lambda mx, x: mx.jvp(lambda a: mx.divmod(a, 2), [x], [x]),
    "jvp of divmod of integers": lambda mx, x: mx.jvp(lambda a: mx.divmod(a, 2), [mx.array([3])], [mx.array([1])]),
    "jvp of divmod of halves": lambda mx, x: mx.jvp(lambda a: mx.divmod(a, 2), *[[mx.ones(2, mx.float16)]] * 2),
    "grad of a remainder of divmod": lambda mx, x: mx.grad(lambda a: mx.divmod(a * a, 2)[1].sum())(x),
    "jvp of remainder": lambda mx, x: mx.jvp(mx.remainder, [x * 3, x - 4], [x, x]),
    "compiled divmod": lambda mx, x: mx.grad(lambda a: mx.compile(lambda b: mx.divmod(b, 2)[1])(a).sum())(x),
    "vjp tuple": lambda mx, x: mx.vjp(lambda a, b: (a * b,), [x, x], [x]),
    "vjp half cotangent": lambda mx, x: mx.vjp(lambda a: a * 2, [x], [x.astype(mx.float16)]),
    "vjp number of cotangents": lambda mx, x: mx.vjp(lambda a: [a, a], [x], [x]),
    "vjp without a cotangent for what is stopped": lambda mx, x: mx.vjp(
        lambda a: [mx.stop_gradient(a * 3), a * a], [x], [x]
    ),
    "vjp of nothing but what is stopped": lambda mx, x: mx.vjp(lambda a: [mx.stop_gradient(a * 3)], [x], []),
    "vjp shape of cotangent": lambda mx, x: mx.vjp(lambda a: a * 2, [x], [x[0]]),
    "vjp more cotangents than outputs": lambda mx, x: mx.vjp(lambda a: [a, a * a], [x], [x, 2 * x, x[0]]),
    "vjp shape before number": lambda mx, x: mx.vjp(lambda a: [a, a], [x], [x[0]]),
    "vjp what is stopped takes no cotangent": lambda mx, x: mx.vjp(
        lambda a: [mx.stop_gradient(a), a * a], [x], [x, 100 * x]
    ),
    "vjp of a scalar": lambda mx, x: mx.vjp(lambda a: a.sum(), [x], [x]),
    "vjp at a float": lambda mx, x: mx.vjp(lambda a: a, [1.0], [x]),
    "jvp at a float": lambda mx, x: mx.jvp(lambda a: a, [1.0], [1.0]),
    "vjp complex": lambda mx, x: mx.vjp(lambda a: a * (1 + 2j), [mx.array([1 + 1j])], [mx.array([2 - 1j])]),
    "vjp of a start": lambda mx, x: mx.vjp(lambda a: started(mx, a), [x], [x[:, :1]]),
    "vjp of a start of an update": lambda mx, x: mx.vjp(lambda a: mx.slice_update(a, a, start(mx, a), [1]), [x], [x]),
    "jvp of a start": lambda mx, x: mx.jvp(lambda a: started(mx, a), [x], [x]),
    "jvp of a start of an update": lambda mx, x: mx.jvp(lambda a: mx.slice_update(a, a, start(mx, a), [1]), [x], [x]),
    "jvp": lambda mx, x: mx.jvp(lambda a: mx.sin(a), [x], [x]),
    "jvp two": lambda mx, x: mx.jvp(lambda a, b: [a * b, a + b], (x, x), (x, 2 * x)),
    "jvp constant": lambda mx, x: mx.jvp(lambda a: mx.array(2.0), [x], [x]),
    "jvp number of tangents": lambda mx, x: mx.jvp(lambda a: a, [x], [x, x]),
    "jvp shape of tangent": lambda mx, x: mx.jvp(lambda a: a, [x], [x[0]]),
    "jvp comparison": lambda mx, x: mx.jvp(lambda a: a > 1, [x], [x]),
    "jvp comparison of a constant": lambda mx, x: mx.jvp(lambda a: mx.ones_like(a) > 0, [x], [x]),
    "jvp complex": lambda mx, x: mx.jvp(lambda a: a * (1 + 2j), [mx.array([1 + 1j])], [mx.array([2 - 1j])]),
    "jvp of grad": lambda mx, x: mx.jvp(mx.grad(lambda a: (a**3).sum()), [x], [x]),
    "grad of jvp": lambda mx, x: mx.grad(lambda a: mx.jvp(lambda b: b**3, [a], [x])[1][0].sum())(x),
    "vjp of vjp": lambda mx, x: mx.vjp(lambda a: mx.vjp(mx.sin, [a], [x])[1][0], [x], [x]),
}


@pytest.mark.parametrize("fn", VJP_JVP.values(), ids=VJP_JVP.keys())
def test_vjp_jvp(fn):
    check(fn, X)


def same_objects(mx, x):
    """Compare the arguments that a function sees and changes with those of its caller."""
    seen = []
    p = {"w": x, "l": [x, (x,)]}

    def loss(p):
        seen.append(p)
        p["l"][0] = p["l"][0] * 2
        return (p["w"] * p["l"][0]).sum()

    grads = mx.grad(loss)(p)
    return grads, seen[0] is p, p["w"] is x, p


SIDE_EFFECTS = {
    "containers": same_objects,
    "argument written to": lambda mx, x: (mx.value_and_grad(lambda a: (a.__setitem__(0, 5.0), a.sum())[1])(x), x),
    "argument added to": lambda mx, x: (mx.value_and_grad(lambda a: (a.__iadd__(1), a * a)[1].sum())(x), x),
}


@pytest.mark.parametrize("fn", SIDE_EFFECTS.values(), ids=SIDE_EFFECTS.keys())
def test_side_effects(fn):
    check(fn, X)


def test_stored_intermediates_are_ordinary_arrays():
    def run(mx, x):
        stored = []

        def loss(a):
            h = mx.sin(a) * 2
            stored.append(h + 1)
            stored.append(a)
            return h.sum()

        g = mx.grad(loss)(x)
        return stored[0] * 2, stored[1] + 1, g

    check(run, X)


def test_running_statistics():
    def run(mx, x):
        running = {"mean": mx.zeros(())}

        def loss(a):
            m = a.mean()
            running["mean"] = 0.9 * running["mean"] + 0.1 * m
            return ((a - m) ** 2).sum()

        for _ in range(3):
            g = mx.grad(loss)(x)
        return running, g

    check(run, X)


def test_failed_trace_leaves_nothing():
    mx = ours
    p = {"w": mx.array(X)}
    before = p["w"]

    def bad(p):
        raise KeyError("no")

    for transform in (mx.grad(bad), mx.vmap(bad), mx.compile(bad), mx.checkpoint(bad)):
        with pytest.raises(KeyError, match="no"):
            transform(p)
        assert p["w"] is before
        assert (p["w"] + 1).tolist() == [2.0, 4.0, 3.0]  # the transform has ended


def test_writing_to_arrays_inside_the_arguments():
    """Compare in-place writes to arrays within a list or dict of the arguments, indexed writes included: they
    persist."""

    def run(mx):
        params = {"w": mx.array(1.0), "nested": [mx.array(2.0), (mx.array(3.0),)]}
        others = [mx.array(1.0), {"count": mx.array(0)}]
        before = params["w"]

        def f(params, others):
            params["w"] += 1
            params["nested"][0] *= 2
            inner = params["nested"][1][0]
            inner += 5
            others[1]["count"] += 1
            others.append(inner)
            return params["w"] * params["nested"][0] * params["nested"][1][0] * others[0]

        gradient = mx.grad(f)(params, others)
        return gradient, params, others, params["w"] is before, before

    check(run)


def test_a_failed_function_leaves_its_arguments_as_they_were():
    params = {"w": ours.array(1.0), "b": (ours.array(2.0),)}
    w, b = params["w"], params["b"]

    def f(params):
        params["w"] += 1
        params["b"][0][...] = 7
        raise KeyError("no")

    with pytest.raises(KeyError):
        ours.grad(f)(params)
    assert params["w"] is w
    assert params["b"] is b
    assert w.item() == 1.0
    assert b[0].item() == 2.0


@pytest.mark.parametrize("transform", ["grad", "vmap", "compile"])
@pytest.mark.parametrize("of_argument", [True, False])
def test_async_eval_within_a_transform(transform, of_argument):
    def run(mx, x):
        def f(a):
            mx.async_eval((a if of_argument else x) * 2)
            return a.sum()

        x = mx.array(x)
        return getattr(mx, transform)(f)(x)

    check(run, X)


@pytest.mark.parametrize("argument", [lambda x: [x], lambda x: {"a": x}], ids=["list", "dict"])
def test_an_argument_that_the_function_puts_arrays_into(argument):
    """Test an argument that gains arrays within the function. Real MLX reads out of bounds and crashes."""

    def grows(tree):
        first = tree[0] if isinstance(tree, list) else tree["a"]
        tree.append(first) if isinstance(tree, list) else tree.update(b=first)
        return first.sum()

    with pytest.raises(ValueError, match="put arrays into an argument"):
        ours.grad(grows)(argument(ours.array([1.0, 2.0])))


TWICE = {
    "vjp": lambda mx, f, x: mx.vjp(f, [x], [x, x])[0],
    "jvp": lambda mx, f, x: mx.jvp(f, [x], [x])[0],
    "value_and_grad": lambda mx, f, x: mx.value_and_grad(lambda a: (f(a)[0].sum(), f(a)))(x)[0][1],
    "vmap": lambda mx, f, x: mx.vmap(f)(x),
    "compile": lambda mx, f, x: mx.compile(f)(x),
    "compile in compile": lambda mx, f, x: mx.compile(lambda a: [*mx.compile(f)(a)])(x),
    "checkpoint": lambda mx, f, x: mx.checkpoint(f)(x),
    "custom function": lambda mx, f, x: mx.custom_function(f)(x),
}


@pytest.mark.parametrize("transform", TWICE.values(), ids=TWICE.keys())
def test_an_array_that_is_returned_twice_is_two(transform):
    """Assert that a write to one of two results does not reach the other, if the function returned one array twice."""

    def run(mx, x):
        y, z = transform(mx, lambda a: (a * 2,) * 2, x)
        y += 1
        z *= 3
        return y, z

    check(run, np.array([1.0, 2.0, 3.0], np.float32))
    check(lambda mx, x: mx.compile(lambda a: run(mx, a))(x), np.array([1.0, 2.0, 3.0], np.float32))


@pytest.mark.parametrize("op", ["cumsum", "flip", "roll", "diag", "slice"])
def test_second_derivatives_past_a_checkpoint_that_ignores_an_argument(op):
    """Assert that the derivative by an ignored argument of a checkpoint is zero, through the op before it too."""
    ops = {
        "cumsum": lambda mx, x: mx.cumsum(x), "flip": lambda mx, x: x[::-1], "roll": lambda mx, x: mx.roll(x, 1),
        "diag": lambda mx, x: mx.diag(x), "slice": lambda mx, x: x[:2],
    }  # fmt: skip

    def run(mx, x):
        squared = mx.checkpoint(lambda a, b: a * a * a)

        def gradient(a):
            return mx.grad(lambda a: squared(a, ops[op](mx, a)).sum())(a)

        return mx.grad(lambda a: (gradient(a) * a).sum())(x)

    check(run, np.array([1.0, 2.0, 3.0], np.float32))


def test_vmap_of_second_derivatives_of_a_function_that_writes_to_what_it_captures():
    def run(mx, x):
        def row(a):
            def loss(b):
                nonlocal a
                before = a[:]
                a *= b
                return (a * before + b).sum()

            return mx.grad(loss)(mx.array([0.5, 0.5, -1.0])).sum()

        return mx.vmap(mx.grad(row))(x)

    check(run, np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize("value", [Fraction(1, 2), OrderedDict(a=1), (Fraction(1, 2), 1), Counter(), np.float32(1), 3])
def test_messages_name_classes_with_their_modules(value):
    for transform in ("grad", "value_and_grad"):
        assert isinstance(check(lambda mx, t=transform: getattr(mx, t)(lambda x: value)(mx.ones(2))), ValueError)


def _beside(mx, extra, around=lambda mx, f: mx.grad(lambda w: f(w).sum())):
    """Apply a transform to an auxiliary output of an inner `value_and_grad`."""
    x, w = mx.array([1.0, 3.0]), mx.array([0.5, 2.0])
    inner = lambda w: mx.value_and_grad(lambda x: ((x * w).sum(), extra(x, w)))(x * w)  # noqa: E731
    return around(mx, lambda w: inner(w)[0][1])(w)


@pytest.mark.parametrize("extra", [lambda x, w: x * w, lambda x, w: x * x, lambda x, w: w], ids=["both", "x", "w"])
def test_what_is_returned_besides_the_value_is_a_constant_to_transforms_around(extra):
    jvp = lambda mx, f: lambda w: mx.jvp(f, [w], [w])  # noqa: E731
    vmap = lambda mx, f: lambda w: mx.vmap(f)(mx.stack([w, 2 * w]))  # noqa: E731
    check(lambda mx: _beside(mx, extra))
    check(lambda mx: _beside(mx, extra, jvp))
    check(lambda mx: _beside(mx, extra, vmap))
    check(lambda mx: _beside(mx, extra, lambda mx, f: mx.grad(lambda w: mx.compile(f)(w).sum())))
    check(lambda mx: _beside(mx, extra, lambda mx, f: mx.grad(lambda w: mx.checkpoint(f)(w).sum())))


def test_value_and_gradient_of_an_inner_value_and_grad_are_none():
    def run(mx):
        def f(w):
            (value, beside), gradient = mx.value_and_grad(lambda x: ((x * x * w).sum(), (w * x, [x, 2])))(w * 3)
            return value + gradient.sum() + beside[0].sum() + beside[1][0].sum()

        return mx.value_and_grad(f)(mx.array([0.5, 2.0]))

    check(run)


def test_async_eval_within_a_checkpoint():
    def run(mx, around):
        def f(x):
            y = x * 2
            mx.async_eval(y)
            return y * x

        return around(mx, mx.checkpoint(f))(mx.array([1.0, 2.0]))

    for around in (lambda mx, f: f, lambda mx, f: mx.grad(lambda x: f(x).sum()), lambda mx, f: mx.compile(f)):
        check(lambda mx: run(mx, around))  # noqa: B023
