"""`mx.ext.scan`, `while_loop`, `fori_loop`, `cond` and `switch`, in NumPy and compiled.

They are compared with the same loop in Python, and with JAX's control flow.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxcompat as mx
from mxcompat._graph import policy
from mxcompat.ext import cond, fori_loop, scan, switch, while_loop
from mxcompat.ext.debug import cache_size, compiles

rng = np.random.default_rng(7)
W = rng.normal(size=(3, 3)).astype(np.float32) / 2
XS = rng.normal(size=(5, 3)).astype(np.float32)
H = rng.normal(size=3).astype(np.float32)


pytestmark = pytest.mark.usefixtures("tier")


def close(result, expected):
    result, expected = [jax.tree.leaves(jax.tree.map(np.asarray, t, is_leaf=lambda x: isinstance(x, mx.array)))
                     for t in (result, expected)]  # fmt: skip
    assert len(result) == len(expected)
    for f, w in zip(result, expected, strict=True):
        assert f.shape == w.shape
        scale = max(1.0, float(np.abs(w).max(initial=0)))  # the error of cancelling sums is relative to their terms
        np.testing.assert_allclose(f, w, rtol=2e-5, atol=2e-6 * scale)


def rnn(mod, loop):
    """Run a recurrent network: a carry of two arrays, one of them integers, and captured weights."""

    def f(w, h, xs):
        def step(carry, x):
            h, n = carry
            h = mod.tanh(h @ w + x)
            return (h, n + 1), {"h": h, "sum": (h * x).sum()}

        (h, n), ys = loop(step, (h, mod.array(0)), xs)
        return (h**2).sum() + (ys["h"][1:] * ys["sum"][1:, None]).sum() * n

    return f


def counts():
    """Return the numbers of structures and executables. With NumPy's tier, timings decide the latter, so it is 0."""
    return cache_size(), 0 if policy.HOST else compiles()


def python_loop(step, carry, xs):
    ys = []
    for k in range(len(xs)):
        carry, y = step(carry, xs[k])
        ys.append(y)
    return carry, {k: mx.stack([y[k] for y in ys]) for k in ys[0]}


ours = rnn(mx, scan)
unrolled = rnn(mx, python_loop)
by_jax = rnn(jnp, lax.scan)
ARGS = (W, H, XS)
TANGENTS = tuple(rng.normal(size=a.shape).astype(np.float32) for a in ARGS)


def arrays(values):
    return [mx.array(v) for v in values]


JAX = SimpleNamespace(grad=jax.grad, vmap=jax.vmap, checkpoint=jax.checkpoint, stack=jnp.stack)

TRANSFORMS = {
    "plain": lambda m, f, a: f(*a),
    "grad": lambda m, f, a: m.grad(f, (0, 1, 2))(*a),
    "grad of grad": lambda m, f, a: m.grad(lambda w: (m.grad(f, 0)(w, *a[1:]) ** 2).sum())(a[0]),
    "vmap": lambda m, f, a: m.vmap(f, (None, 0, None))(a[0], m_stack(m, a[1]), a[2]),
    "vmap of grad": lambda m, f, a: m.vmap(m.grad(f, (0, 2)), (None, 0, None))(a[0], m_stack(m, a[1]), a[2]),
    "vmap of xs": lambda m, f, a: m.vmap(f, (None, None, 1))(a[0], a[1], m_stack(m, a[2]).swapaxes(0, 1)),
    "checkpoint": lambda m, f, a: m.grad(m.checkpoint(f), (0, 1, 2))(*a),
}


def m_stack(m, x):
    return m.stack([x, x * 2, -x])


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_scan_is_what_jax_and_a_python_loop_give(transform):
    result = transform(mx, ours, arrays(ARGS))
    close(result, transform(mx, unrolled, arrays(ARGS)))
    close(result, transform(JAX, by_jax, [jnp.asarray(a) for a in ARGS]))


def test_forward_mode():
    out, tangents = mx.jvp(ours, arrays(ARGS), arrays(TANGENTS))
    close([out[0], tangents[0]], jax.jvp(by_jax, ARGS, TANGENTS))
    forward_over_reverse = mx.jvp(lambda w: mx.grad(ours)(w, *arrays(ARGS[1:])), arrays(ARGS[:1]), arrays(TANGENTS[:1]))
    close(forward_over_reverse[1][0], jax.jvp(lambda w: jax.grad(by_jax)(w, *ARGS[1:]), ARGS[:1], TANGENTS[:1])[1])


def test_compiled_once_for_any_number_of_calls():
    f = mx.compile(mx.value_and_grad(ours, (0, 1, 2)))
    close(f(*arrays(ARGS)), jax.value_and_grad(by_jax, (0, 1, 2))(*ARGS))
    mx.eval(f(*arrays(ARGS)))
    before = counts()
    for k in range(3):
        mx.eval(f(*arrays([a + k for a in ARGS])))
    assert counts() == before


def test_compile_with_state():
    state = {"w": mx.array(W), "count": mx.array(0)}

    def step(xs):
        h, _ = scan(lambda h, x: (mx.tanh(h @ state["w"] + x), None), mx.zeros(3), xs)
        state["w"] = state["w"] + 0.1 * h[:, None]
        state["count"] = state["count"] + 1
        return h

    def plain(xs, w):
        h = np.zeros(3, np.float32)
        for x in xs:
            h = np.tanh(h @ w + x)
        return h, w + np.float32(0.1) * h[:, None]

    compiled, w = mx.compile(step, inputs=state, outputs=state), W
    for _ in range(3):
        h, w = plain(XS, w)
        close(compiled(mx.array(XS)), h)
        close(state["w"], w)
    assert state["count"].item() == 3


def test_shapeless_compile_takes_other_lengths():
    f = mx.compile(lambda xs: scan(lambda c, x: (c + x.sum(), c), 0.0, xs), shapeless=True)
    for n in (5, 2, 4):
        total, before = f(mx.array(XS[:n]))
        close([total, before], [XS[:n].sum(), np.concatenate([[0], XS[:n].sum(1).cumsum()[:-1]])])


def test_shapeless_while_and_cond():
    def f(x):
        doubled = while_loop(lambda x: x.sum() < 100, lambda x: x * 2, x)
        return cond(x.sum() > 3, lambda x: x + 1, lambda x: x - 1, doubled)

    g = mx.compile(f, shapeless=True)
    for n in (2, 5):
        close(g(mx.ones(n)), f(mx.ones(n)))
    assert g(mx.ones(5))[0].item() == 33.0


def test_reverse_and_lengths():
    carry, ys = scan(lambda c, x: (c * 2 + x, c), mx.array(1.0), mx.arange(4.0), reverse=True)
    expected = lax.scan(lambda c, x: (c * 2 + x, c), 1.0, jnp.arange(4.0), reverse=True)
    close([carry, ys], expected)
    slope = mx.grad(lambda s: scan(lambda c, x: (c * s + x, c), 1.0, mx.arange(4.0), reverse=True)[0])
    expected = jax.grad(lambda s: lax.scan(lambda c, x: (c * s + x, c), 1.0, jnp.arange(4.0), reverse=True)[0])
    close(slope(mx.array(2.0)), expected(2.0))
    close(scan(lambda c, x: (c, c + 1), 1.0, mx.zeros((0, 3))), (1.0, np.zeros(0)))
    close(scan(lambda c, x: (c + 1, x), 1, length=3)[0], 4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint32", "int64", "bool_", "complex64"])
def test_dtypes(dtype):
    xs = mx.array([[1, 0], [1, 1], [0, 1]]).astype(getattr(mx, dtype))
    last, ys = scan(lambda c, x: (c + x, c), xs[0], xs)
    carry, expected = xs[0], []
    for k in range(3):
        expected.append(carry)
        carry = carry + xs[k]
    assert last.dtype == carry.dtype == ys.dtype
    close(
        [last.astype(mx.complex64), ys.astype(mx.complex64)],
        [carry.astype(mx.complex64), mx.stack(expected).astype(mx.complex64)],
    )


def test_complex_gradients_have_mlx_convention():
    def total(loop):
        def f(z):
            c, ys = loop(lambda c, x: (c * z + x, {"y": c}), mx.array(1 + 1j), mx.array([1j, 2.0, 3 - 1j]))
            return mx.abs(c) + mx.abs(ys["y"]).sum()

        return f

    z = mx.array(0.5 + 0.25j)
    close(mx.grad(total(scan))(z), mx.grad(total(python_loop))(z))


def test_nested_loops():
    def f(m, scan, fori, x):
        def outer(c, row):
            inner = fori(0, 3, lambda i, v: v * 0.5 + m.sin(row) * i, row * c)
            return c + inner.sum(), inner

        c, ys = scan(outer, m.array(0.5), x)
        return c + ys.sum()

    result = mx.value_and_grad(lambda x: f(mx, scan, fori_loop, x))(mx.array(XS))
    close(result, jax.value_and_grad(lambda x: f(jnp, lax.scan, lax.fori_loop, x))(XS))


def test_transforms_within_a_body():
    def f(m, scan, w, xs):
        def step(w, x):
            value, g = m_grad(w, x)
            return w - 0.1 * g, value

        m_grad = (mx if m is mx else jax).value_and_grad(lambda w, x: ((w * x).sum() - 1) ** 2)
        w, losses = scan(step, w, xs)
        return losses.sum() + (w**2).sum()

    close(mx.grad(lambda w: f(mx, scan, w, mx.array(XS)))(mx.array(H)), jax.grad(lambda w: f(jnp, lax.scan, w, XS))(H))
    each = scan(lambda c, x: (c, mx.vmap(lambda v: v * c)(x)), mx.array(2.0), mx.array(XS))[1]
    close(each, XS * 2)
    inside = scan(lambda c, x: (mx.compile(mx.checkpoint(lambda c: c * x.sum()))(c), None), mx.array(1.0), mx.array(XS))
    close(inside[0], XS.sum(1).prod())


def test_fori_loop():
    close(fori_loop(2, 6, lambda i, v: v * 2 + i, 1.0), lax.fori_loop(2, 6, lambda i, v: v * 2 + i, 1.0))
    close(fori_loop(3, 1, lambda i, v: v + i, 7), 7)
    f = mx.compile(lambda n, x: fori_loop(0, n, lambda i, v: v * x, mx.array(1.0)))
    for n in (0, 1, 4):
        close(f(mx.array(n), mx.array(3.0)), 3.0**n)
    close(
        mx.jvp(lambda x: fori_loop(0, mx.array(3), lambda i, v: v * x, 1.0), [mx.array(2.0)], [mx.array(1.0)]),
        ([8.0], [12.0]),
    )


def test_while_loop():
    def collatz(m, loop, n):
        def step(s):
            return {"n": m.where(s["n"] % 2 == 0, s["n"] // 2, 3 * s["n"] + 1), "k": s["k"] + 1}

        return loop(lambda s: s["n"] > 1, step, {"n": n, "k": m.array(0)})["k"]

    starts = np.array([1, 6, 27, 97], np.int32)
    expected = [int(collatz(jnp, lax.while_loop, jnp.int32(s))) for s in starts]
    assert [collatz(mx, while_loop, mx.array(s)).item() for s in starts] == expected == [0, 8, 111, 118]
    assert mx.vmap(lambda s: collatz(mx, while_loop, s))(mx.array(starts)).tolist() == expected
    assert mx.compile(lambda s: collatz(mx, while_loop, s))(mx.array(97)).item() == 118


def test_a_long_while_loop_is_compiled():
    n = 20_000
    assert while_loop(lambda i: i < n, lambda i: i + 1, 0).item() == n


def test_newton_in_forward_mode():
    def root(m, loop, a):
        return loop(lambda x: m.abs(x * x - a) > 1e-4, lambda x: (x + a / x) / 2, m.array(1.0) * a)

    result = mx.jvp(lambda a: root(mx, while_loop, a), [mx.array(5.0)], [mx.array(1.0)])
    value, slope = jax.jvp(lambda a: root(jnp, lax.while_loop, a), [5.0], [1.0])
    close(result, ([value], [slope]))
    close(mx.vmap(lambda a: root(mx, while_loop, a))(mx.array([2.0, 3.0])), np.sqrt([2, 3]).astype(np.float32))


def test_reverse_mode_through_a_while_loop_says_what_to_use_instead():
    def f(x):
        return while_loop(lambda v: v.sum() < 10, lambda v: v * 2, x).sum()

    in_vmap, in_scan = lambda x: mx.vmap(f)(x[None])[0], lambda x: scan(lambda c, _: (c + f(x), None), 0.0, length=2)[0]
    for fails in (mx.compile(mx.grad(f)), *map(mx.grad, (f, mx.checkpoint(f), in_vmap, in_scan))):
        with pytest.raises(ValueError, match=r"\[while_loop\] Cannot calculate VJP.*fori_loop"):
            mx.eval(fails(mx.array([1.0, 2.0])))
    # no error, because no differentiated value passes through
    close(mx.grad(lambda x: (x * mx.stop_gradient(f(x))).sum())(mx.array([1.0, 2.0])), np.array([12.0, 12.0]))
    counted = mx.grad(lambda x: (x * while_loop(lambda n: n < 5, lambda n: n + 1, (x > 1).sum())).sum())
    close(counted(mx.array([1.0, 2.0])), np.array([5.0, 5.0]))


W2 = mx.array(2.0)


@pytest.mark.parametrize("p", [True, False, 1, 0, 2.5])
def test_cond(p):
    def f(m, cond, x):
        out = cond(p, lambda x: {"a": x * 2.0, "b": x.sum()}, lambda x: {"a": m.sin(x), "b": x[0] * 3}, x)
        return (out["a"] * out["b"]).sum()

    close(
        mx.value_and_grad(lambda x: f(mx, cond, x))(mx.array(H)), jax.value_and_grad(lambda x: f(jnp, lax.cond, x))(H)
    )


def test_cond_over_an_axis_takes_each_its_branch():
    def f(cond, where, x):
        return cond(x > 0, lambda x: x * x, lambda x: -x * 3, x)

    x = np.array([1.0, -2.0, 3.0, -0.5], np.float32)
    close(mx.vmap(lambda x: f(cond, mx.where, x))(mx.array(x)), np.where(x > 0, x * x, -3 * x))
    close(mx.vmap(mx.grad(lambda x: f(cond, mx.where, x)))(mx.array(x)), np.where(x > 0, 2 * x, -3))
    shared = mx.vmap(lambda x, p: cond(p, mx.exp, mx.square, x), in_axes=(0, None))
    close(shared(mx.array(x), mx.array(False)), x * x)
    close(shared(mx.array(x), mx.array(True)), np.exp(x))


def test_branches_capture():
    def f(w, k):
        return switch(k, [lambda: w * 2, lambda: w**2 * W2, lambda: mx.exp(w)])

    for k, (value, slope) in {
        0: (6, 2),
        1: (18, 12),
        2: (np.exp(3), np.exp(3)),
        7: (np.exp(3), np.exp(3)),
        -1: (6, 2),
    }.items():
        close(mx.value_and_grad(f)(mx.array(3.0), mx.array(k)), (value, slope))
        close(mx.value_and_grad(f)(mx.array(3.0), k), (value, slope))
        close(mx.jvp(lambda w, k=k: f(w, mx.array(k)), [mx.array(3.0)], [mx.array(2.0)])[1][0], 2 * slope)
    close(mx.vmap(f, in_axes=(None, 0))(mx.array(3.0), mx.array([1, 0])), np.array([18.0, 6.0]))


def test_only_the_branch_taken_is_computed():
    calls = []
    noted = mx.ext.host_callback(lambda x: calls.append(1) or x, lambda x: x)
    mx.eval(cond(mx.array(False), noted, mx.negative, mx.array(1.0)))
    assert not calls
    mx.eval(cond(mx.array(True), noted, mx.negative, mx.array(1.0)))
    assert calls


# random numbers


def drawn(f):
    mx.random.seed(3)
    values = f()
    return values, mx.random.uniform(shape=(2,))  # the key has advanced equally


def test_steps_draw_what_a_python_loop_would():
    def step(c, x):
        a = mx.random.normal((2,))
        return c + a + mx.random.uniform() * x, a

    def in_python():
        c, ys = mx.zeros(2), []
        for k in range(5):
            c, y = step(c, mx.array(XS[k, :2]))
            ys.append(y)
        return c, mx.stack(ys)

    result = drawn(lambda: scan(step, mx.zeros(2), mx.array(XS[:, :2])))
    expected = drawn(in_python)
    close(result, expected)
    assert len({*result[0][1][:, 0].tolist()}) == 5
    compiled = mx.compile(
        lambda: scan(step, mx.zeros(2), mx.array(XS[:, :2])), inputs=mx.random.state, outputs=mx.random.state
    )
    close(drawn(compiled), expected)
    close(
        drawn(lambda: fori_loop(0, 5, lambda i, c: step(c, mx.array(XS[:, :2])[i])[0], mx.zeros(2)))[0], expected[0][0]
    )


def test_while_draws_what_python_would():
    def in_python():
        total = mx.array(0.0)
        while total < 4:
            total = total + mx.random.uniform()
        return total

    close(drawn(lambda: while_loop(lambda t: t < 4, lambda t: t + mx.random.uniform(), 0.0)), drawn(in_python))
    with pytest.raises(ValueError, match=r"\[while_loop\] The test must not draw"):
        while_loop(lambda t: t < mx.random.uniform(), lambda t: t + 1, 0.0)


@pytest.mark.parametrize("p", [True, False])
def test_branches_draw_what_python_would(p):
    def one():
        return mx.random.uniform() + mx.random.uniform()

    def two():
        return mx.array(2.0)

    close(drawn(lambda: cond(mx.array(p), one, two)), drawn(one if p else two))


def test_draws_within_vmap_and_grad():
    def f(x):
        return scan(lambda c, _: (c * x + mx.random.uniform(), None), mx.array(0.0), length=3)[0]

    def in_python(x):
        c = mx.array(0.0)
        for _ in range(3):
            c = c * x + mx.random.uniform()
        return c

    close(drawn(lambda: mx.grad(f)(mx.array(0.5))), drawn(lambda: mx.grad(in_python)(mx.array(0.5))))
    x = mx.array([0.5, 2.0])
    close(drawn(lambda: mx.vmap(f)(x)), drawn(lambda: mx.vmap(in_python)(x)))


# custom functions


@mx.custom_function
def halved(x):
    return x * 2


@halved.vjp
def halved_vjp(x, cotangent, output):
    return cotangent * 10 + x * 0 + output * 0


@halved.jvp
def halved_jvp(x, tangent):
    return tangent * 100


@halved.vmap
def halved_vmap(x, axis):
    return x * 3, axis


def test_custom_functions_have_their_rules_in_a_body():
    def f(x):
        return scan(lambda c, _: (halved(c), None), x, length=3)[0]

    def branch(x):
        return cond(x > 0, halved, mx.negative, x)

    x = mx.array(1.0)
    assert f(x).item() == 8
    assert mx.grad(f)(x).item() == 1000
    assert mx.jvp(f, [x], [x])[1][0].item() == 1e6
    assert mx.vmap(f)(x[None]).item() == 27
    assert mx.compile(mx.grad(f))(x).item() == 1000
    assert mx.grad(mx.checkpoint(f))(x).item() == 1000
    assert mx.grad(branch)(x).item() == 10
    assert mx.jvp(lambda x: fori_loop(0, 2, lambda i, c: halved(c), x), [x], [x])[1][0].item() == 1e4
    assert mx.jvp(lambda x: while_loop(lambda c: c < 4, halved, x), [x], [x])[1][0].item() == 1e4


def test_higher_derivatives_are_those_of_the_rule():
    @mx.custom_function
    def cube(x):
        return x**3

    @cube.vjp
    def rule(x, cotangent, output):
        return cotangent * x**2  # a third of the true derivative

    def f(x):
        return scan(lambda c, _: (cube(c), None), x, length=1)[0]

    x = mx.array(3.0)
    assert mx.grad(f)(x).item() == 9
    assert mx.grad(mx.grad(f))(x).item() == mx.grad(mx.grad(cube))(x).item() == 6


def test_a_rule_that_reads_is_told_so():
    @mx.custom_function
    def f(x):
        return x

    @f.vjp
    def rule(x, cotangent, output):
        return mx.array(np.array(cotangent))

    with pytest.raises(ValueError, match=r"rules cannot read values"):
        mx.grad(lambda x: scan(lambda c, _: (f(c), None), x, length=2)[0])(mx.array(1.0))


# errors

ERRORS = {
    "dtype": (
        lambda: scan(lambda c, x: ({"h": c["h"].astype(mx.float16)}, None), {"h": mx.zeros(3)}, length=2),
        ValueError,
        r"\[scan\].*carry\['h'\] is float32\[3\] before and float16\[3\] after a step",
    ),
    "shape": (
        lambda: fori_loop(0, 2, lambda i, v: [v[0], v[1][None]], [1.0, mx.ones(2)]),
        ValueError,
        r"\[fori_loop\].*carry\[1\] is float32\[2\] before and float32\[1,2\] after a step",
    ),
    "tree": (
        lambda: while_loop(lambda v: v["a"] > 0, lambda v: {"b": v["a"]}, {"a": mx.array(1)}),
        ValueError,
        r"\[while_loop\].*value\['a'\] is int32\[\] before and no array after a step",
    ),
    "number": (
        lambda: scan(lambda c, x: (c + x, None), 0, mx.ones(3)),
        ValueError,
        r"carry is int32\[\] before and float32\[\] after",
    ),
    "no pair": (lambda: scan(lambda c, x: c, 0.0, mx.ones(3)), TypeError, r"must return a pair"),
    "leaf": (
        lambda: scan(lambda c, x: (c, ["a"]), 0.0, mx.ones(3)),
        TypeError,
        r"\[scan\] y\[0\] must be an array.*not str",
    ),
    "lengths": (
        lambda: scan(lambda c, x: (c, None), 0.0, {"a": mx.ones(3), "b": mx.ones(4)}),
        ValueError,
        r"xs\['b'\] has 4 entries",
    ),
    "scalar xs": (lambda: scan(lambda c, x: (c, None), 0.0, mx.array(3)), ValueError, r"xs has no axis"),
    "no length": (lambda: scan(lambda c, x: (c, None), 0.0), ValueError, r"no array in xs"),
    "bad length": (lambda: scan(lambda c, x: (c, None), 0.0, length=-1), ValueError, r"length must be"),
    "reading": (lambda: scan(lambda c, x: (c * x.item(), None), 0.0, mx.ones(3)), ValueError, r"\[eval\]"),
    "test": (
        lambda: while_loop(lambda v: v, lambda v: v, mx.ones(2)),
        ValueError,
        r"0-d array of dtype bool, not float32\[2\]",
    ),
    "bound": (
        lambda: fori_loop(0, mx.array(2.0), lambda i, v: v, 0),
        ValueError,
        r"A bound must be an integer, but is float32",
    ),
    "pred": (
        lambda: cond(mx.ones(2) > 0, mx.exp, mx.sin, mx.ones(2)),
        ValueError,
        r"pred must have no axes, but is bool\[2\]",
    ),
    "branches": (
        lambda: cond(True, lambda: [mx.ones(2), 1], lambda: [mx.ones(2), 1.0]),
        ValueError,
        r"The result\[1\] is float32\[\] in the second function and int32\[\] in the first",
    ),
    "index": (lambda: switch(mx.array(1.0), [mx.sin], mx.array(1.0)), ValueError, r"index must be an integer"),
    "no branch": (lambda: switch(0, []), ValueError, r"one function at least"),
    "no function": (lambda: scan(3, 0.0, mx.ones(3)), TypeError, r"A function is needed"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS.keys())
def test_errors(case):
    before = mx.random.state[0]
    fails, kind, message = case
    with pytest.raises(kind, match=message):
        fails()
    assert mx.random.state[0] is before
    mx.eval(mx.ones(2) + 1)  # no trace remains active


def test_no_index_has_a_gradient():
    def f(x):
        return scan(lambda c, i: (c + x[c.astype(mx.int32)], None), mx.array(0.0), length=2)[0]

    close(f(mx.array([1.0, 2.0])), 3.0)
    with pytest.raises(ValueError, match=r"indices"):
        mx.grad(lambda i: scan(lambda c, x: (c + x[i], None), 0.0, mx.array(XS))[0])(mx.array(1))


def test_integers_have_no_derivative_through_a_loop():
    with pytest.raises(
        ValueError, match=r"\[scan\] Cannot calculate a derivative with respect to an array of dtype int32"
    ):
        mx.eval(mx.grad(lambda n: scan(lambda c, _: (c * n, None), n, length=2)[0])(mx.array(3)))


def test_the_same_structure_is_compiled_once():
    def f(x, k):
        return scan(lambda c, x: (mx.sin(c) + x * k, c), mx.zeros(3), x)

    for _ in range(4):
        mx.eval(f(mx.array(XS), mx.array(1.0)))
    before = counts()
    for k in range(4):
        mx.eval(f(mx.array(XS + k), mx.array(float(k))))
    assert counts() == before
