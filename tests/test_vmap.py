"""`vmap`, compared with real MLX: axes, trees, errors and nesting."""

import numpy as np
import pytest

from tests.oracle import check

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
V = np.array([1.0, 3.0, 2.0], np.float32)

VMAP = {
    "rows": lambda mx, x, v: mx.vmap(lambda a: a.sum())(x),
    "in_axes 1": lambda mx, x, v: mx.vmap(lambda a: a * 2, in_axes=1)(x),
    "out_axes 1": lambda mx, x, v: mx.vmap(lambda a: a * 2, out_axes=1)(x),
    "negative": lambda mx, x, v: mx.vmap(lambda a: a * 2, in_axes=-1, out_axes=-1)(x),
    "pair": lambda mx, x, v: mx.vmap(lambda a, b: a * b, in_axes=(0, 0))(x, v),
    "seed example": lambda mx, x, v: mx.vmap(lambda a, b: a + b, in_axes=(1, 0))(x, x.T),
    "None": lambda mx, x, v: mx.vmap(lambda a, b: a * b.sum(), in_axes=(0, None))(x, v),
    "None is readable": lambda mx, x, v: mx.vmap(lambda a, b: a * b[0].item(), in_axes=(0, None))(x, v),
    "int over tree": lambda mx, x, v: mx.vmap(lambda d: d["a"] * d["b"][0])({"a": x, "b": [v]}),
    "tree of axes": lambda mx, x, v: mx.vmap(lambda d: {"o": d["a"] + 1}, in_axes={"a": 0}, out_axes={"o": 1})(
        {"a": x}
    ),
    "prefix tree": lambda mx, x, v: mx.vmap(lambda a, d: (a, d), in_axes=(0, [0, None]))(x, [v, v]),
    "out tree": lambda mx, x, v: mx.vmap(lambda a: (a, [a.sum(), a * 2]), out_axes=(1, [0, 1]))(x),
    "out None": lambda mx, x, v: mx.vmap(lambda a: (a, a * 2), out_axes=(0, 1))(x),
    "out None of a linear function's gradient": lambda mx, x, v: mx.vmap(
        mx.value_and_grad(lambda a: (a * 2).sum()), out_axes=(0, None)
    )(x),
    "out None of a gradient that depends": lambda mx, x, v: mx.vmap(mx.grad(lambda a: (a * a).sum()), out_axes=None)(x),
    "out None of a tangent": lambda mx, x, v: mx.vmap(
        lambda a: mx.jvp(lambda b: b * 2, [a], [mx.ones(4)])[1][0], out_axes=None
    )(x),
    "constant out": lambda mx, x, v: mx.vmap(lambda a: mx.array(2.0))(v),
    "closed over": lambda mx, x, v: mx.vmap(lambda a: a * v[0])(x),
    "nested": lambda mx, x, v: mx.vmap(mx.vmap(lambda a: a + 1))(x),
    "nested axes": lambda mx, x, v: mx.vmap(lambda a: mx.vmap(lambda b: b * a.sum())(a), in_axes=1)(x),
    "of grad": lambda mx, x, v: mx.vmap(mx.grad(lambda a: (a**3).sum()))(x),
    "grad of": lambda mx, x, v: mx.grad(lambda a: mx.vmap(lambda b: mx.sin(b).sum())(a).sum())(x),
    "jvp of": lambda mx, x, v: mx.jvp(mx.vmap(mx.sin), [v], [v]),
    "of jvp": lambda mx, x, v: mx.vmap(lambda a: mx.jvp(mx.sin, [a], [a])[1][0])(v),
    "of compile": lambda mx, x, v: mx.vmap(mx.compile(lambda a: a * 2 + 1))(x),
    "compile of": lambda mx, x, v: mx.compile(mx.vmap(lambda a: a * 2 + 1))(x),
    "matmul": lambda mx, x, v: mx.vmap(lambda a, b: a @ b, in_axes=(None, 0))(x, mx.ones((5, 4))),
    "matmul both": lambda mx, x, v: mx.vmap(lambda a, b: a @ b)(mx.ones((5, 2, 3)), mx.ones((5, 3, 4))),
    "reduction": lambda mx, x, v: mx.vmap(lambda a: mx.softmax(a) - a.max() + a.argmax())(x),
    "gather": lambda mx, x, v: mx.vmap(lambda a, i: a[i])(x, mx.array([0, 3, 1])),
    "take one": lambda mx, x, v: mx.vmap(lambda i: v[i])(mx.array([[0, 2], [1, 1]])),
    "concatenate": lambda mx, x, v: mx.vmap(lambda a: mx.concatenate([a, a * 2]))(x),
    "where": lambda mx, x, v: mx.vmap(lambda a: mx.where(a > 0.5, a, -a))(x),
    # errors
    "axis out of range": lambda mx, x, v: mx.vmap(lambda a: a, in_axes=2)(x),
    "negative axis out of range": lambda mx, x, v: mx.vmap(lambda a: a, in_axes=-3)(x),
    "scalar": lambda mx, x, v: mx.vmap(lambda a: a)(v[0]),
    "out axis out of range": lambda mx, x, v: mx.vmap(lambda a: a * 2, out_axes=2)(v),
    "axis type": lambda mx, x, v: mx.vmap(lambda a: a, in_axes="a")(x),
    "axes of one argument": lambda mx, x, v: mx.vmap(lambda a: a * 2, in_axes=(0,))(x),
    "axes list": lambda mx, x, v: mx.vmap(lambda a, b: a, in_axes=[0, 0])(x, x),
    "too few axes": lambda mx, x, v: mx.vmap(lambda a, b: a, in_axes=(0,))(x, x),
    "missing key": lambda mx, x, v: mx.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": x}),
    "sizes of three": lambda mx, x, v: mx.vmap(lambda a, b, c: a)(v, v[:2], v[:1]),
    "sizes of four": lambda mx, x, v: mx.vmap(lambda a, b, c, d: a)(v, v[:2], v, v),
    "sizes": lambda mx, x, v: mx.vmap(lambda a, b: a + b)(v, v[:2]),
    "missing key of two": lambda mx, x, v: mx.vmap(lambda d: d["a"], in_axes={"a": 0, "c": 0})({"a": x, "b": x}),
    "missing key of the result": lambda mx, x, v: mx.vmap(lambda a: [a, {"a": a}], out_axes=[0, {"b": 0}])(x),
    "nothing mapped, axis of the result": lambda mx, x, v: mx.vmap(lambda: x.sum(), out_axes=1)(),
    "nothing mapped, axes of the result": lambda mx, x, v: mx.vmap(lambda a: x, out_axes=(0, 0))([]),
    "all None": lambda mx, x, v: mx.vmap(lambda a, b: a, in_axes=(None, None))(x, x),
    "keyword": lambda mx, x, v: mx.vmap(lambda a: a)(x, a=v),
    "all None, and an error": lambda mx, x, v: mx.vmap(lambda a: a, in_axes=(None, None))(x, x),
    "in_axes None": lambda mx, x, v: mx.vmap(lambda a: a, in_axes=None),
    "output no array": lambda mx, x, v: mx.vmap(lambda a: 3)(x),
    "input no array": lambda mx, x, v: mx.vmap(lambda a: a)(3.0),
    "item": lambda mx, x, v: mx.vmap(lambda a: a.item())(v),
    "tolist": lambda mx, x, v: mx.vmap(lambda a: a.tolist())(x),
    "print": lambda mx, x, v: mx.vmap(lambda a: repr(a))(x),
    "if": lambda mx, x, v: mx.vmap(lambda a: a if a > 0 else -a)(v),
    "eval": lambda mx, x, v: mx.vmap(lambda a: (mx.eval(a), a)[1])(v),
    "numpy": lambda mx, x, v: mx.vmap(lambda a: np.array(a))(v),
}


@pytest.mark.parametrize("fn", VMAP.values(), ids=VMAP.keys())
def test_vmap(fn):
    check(fn, X, V)


AXES = [
    None, (None,), (0, None), (None, 0), [0, 0], (0, 0), (0,), (0, 0, 0), (0, [0]), "x", 1.5, (1.5, 0), 5, -3, (2, 0),
    (-4, 0), True, 2**40, (0, 2**40), ((0,), 0), [], (), -1, (0, -2), (1, 0), {"a": 0, "b": 0}, {"a": 0}, {"b": 1},
    {"a": 0, "b": None}, {"a": 0, "b": 0, "c": 0}, ({"a": None, "b": 0},),
]  # fmt: skip
RETURNS = {
    "one": lambda a: a + 1,
    "tuple": lambda a: (a + 1, a + 2),
    "list": lambda a: [a + 1, a.sum()],
    "dict": lambda a: {"a": a, "b": a + 2},
}


@pytest.mark.parametrize("axes", AXES, ids=repr)
def test_axes_that_may_not_fit(axes):
    for returned in RETURNS.values():
        check(lambda mx, x, f=returned: mx.vmap(f, out_axes=axes)(x), X)
    check(lambda mx, x: mx.vmap(lambda a, b: a + b, in_axes=axes)(x, x), X)
    check(lambda mx, x: mx.vmap(lambda d: d[0] + d[1], in_axes=axes)((x, x)), X)
    check(lambda mx, x: mx.vmap(lambda d: d[0] + d[1], in_axes=axes)([x, x]), X)
    check(lambda mx, x: mx.vmap(lambda d: d["a"] + d["b"], in_axes=axes)({"a": x, "b": x}), X)


UNMAPPED = {
    "constant": lambda mx, a, v: v * 2,
    "scalar": lambda mx, a, v: mx.array(a.size),
    "zeros_like": lambda mx, a, v: mx.zeros_like(a),
    "full_like": lambda mx, a, v: mx.full_like(a, 3.0),
    "random": lambda mx, a, v: mx.random.uniform(shape=(2,), key=mx.random.key(1)),
    "compiled": lambda mx, a, v: mx.compile(lambda b: b * 2)(v),
    "gradient": lambda mx, a, v: mx.grad(lambda b: (b * b).sum())(v),
    "mapped": lambda mx, a, v: a * 2,
    "a nested map": lambda mx, a, v: mx.vmap(lambda b: (b, a, v), out_axes=(0, None, None))(a),
}


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("fn", UNMAPPED.values(), ids=UNMAPPED.keys())
def test_outputs_that_do_not_depend_on_the_mapped_axis_are_repeated(fn, axis):
    check(lambda mx, x, v: mx.vmap(lambda a: (a + 1, fn(mx, a, v)), out_axes=(0, axis))(x), X, V)


def test_a_rule_may_leave_an_output_without_the_axis():
    def run(mx, x, v):
        function = mx.custom_function(lambda a, b: (a * 2, b * 2))
        function.vmap(lambda inputs, axes: ((inputs[0] * 2, inputs[1] * 2), axes))
        return mx.vmap(function, in_axes=(0, None), out_axes=(0, None))(x, v)

    check(run, X, V)


def test_leaked_array_cannot_be_read():
    def run(mx, x):
        leaked = []
        mx.vmap(lambda a: (leaked.append(a * 2), a)[1])(x)
        return leaked[0].tolist()

    assert isinstance(check(run, X, message=False), RuntimeError)


MAPPED_CHECKPOINTS = {
    "mapped": lambda mx, w, f: mx.vmap(mx.checkpoint(f))(mx.array([1.0, 3.0, 2.0])),
    "within": lambda mx, w, f: mx.vmap(lambda x: mx.checkpoint(f)(x) * w)(mx.array([1.0, 3.0, 2.0])),
    "compiled": lambda mx, w, f: mx.vmap(mx.compile(mx.checkpoint(f)))(mx.array([1.0, 3.0, 2.0])),
    "of a checkpoint": lambda mx, w, f: mx.checkpoint(lambda w: mx.vmap(mx.checkpoint(f))(w * mx.ones(3)))(w),
    "not mapped": lambda mx, w, f: mx.checkpoint(f)(mx.array([1.0, 3.0, 2.0])),
}


@pytest.mark.parametrize("name", MAPPED_CHECKPOINTS)
def test_what_a_checkpoint_captures_has_gradients_where_it_is_mapped(name):
    def run(mx):
        body = MAPPED_CHECKPOINTS[name]
        return mx.value_and_grad(lambda w: body(mx, w, lambda y: mx.sin(y) * w * w + y).sum())(mx.array(2.0))

    check(run)


def test_attention_over_no_entries():
    def mapped(mx, transform=lambda f: f):
        q, k = mx.zeros((0, 1, 2, 3, 4)), mx.zeros((0, 1, 2, 4, 4))
        attend = lambda q, k: mx.fast.scaled_dot_product_attention(q, k, k, scale=1.0)  # noqa: E731
        return mx.vmap(transform(attend))(q, k)

    check(mapped)
    check(lambda mx: mapped(mx, lambda f: mx.grad(lambda q, k: f(q, k).sum())))
