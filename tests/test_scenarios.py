"""Programs as MLX users write them, one for each page of its guide, compared with real MLX."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.oracle import check


def outcome(f: Callable[[], Any]) -> Any:
    """Return the result of a call, or the type of its exception."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__


def quick(mx: Any) -> list[Any]:
    a = mx.array([1, 2, 3, 4])
    b = mx.array([1.0, 2, 3, 4])
    c = a + b
    mx.eval(c)
    d = a + b
    return [a.shape, str(a.dtype), b.dtype == mx.float32, c, repr(d), np.array(c).tolist(), mx.array([1, 2]) + 0.5]


def quick_grad(mx: Any) -> list[Any]:
    x = mx.array(0.0)
    return [mx.sin(x), mx.grad(mx.sin)(x), mx.grad(mx.grad(mx.sin))(x), mx.grad(mx.grad(mx.grad(mx.sin)))(x)]


def lazy(mx: Any) -> list[Any]:
    def fun(x):
        a = x * 2
        mx.exp(x)  # never computed
        return a

    y = fun(mx.array(2.0))
    z = mx.add(y, 1)
    return [y.item(), z.tolist(), bool(z > 3), float(z), int(z), f"{z}"]


def control(mx: Any) -> list[Any]:
    def fun(x):
        h, y = x * 2, x + 1
        if y > 0:
            return h
        return -h

    return [fun(mx.array(3.0)), fun(mx.array(-3.0)), mx.grad(fun)(mx.array(-3.0))]


def indexing(mx: Any) -> list[Any]:
    a = mx.arange(10)
    r = [a[3], a[-2], a[2:8:2], a[::-1], a[mx.array([1, 3, 5])]]
    b = mx.arange(8).reshape(2, 2, 2)
    r += [b[:, :, 0], b[..., 0], b[None].shape, b[:, None, :, 0]]
    idx = mx.array([5, 7])
    r += [a[idx]]
    m = mx.arange(1, 21).reshape(4, 5)
    r += [
        mx.take(m, mx.array([0, 2]), axis=0),
        m[mx.array([0, 1]), mx.array([2, 3])],
        mx.take_along_axis(m, mx.array([[0], [1], [2], [3]]), axis=1),
    ]
    c = mx.array([1, 2, 3])
    c[2] = 0
    d = c
    d[0] = 9
    r += [c, d]
    e = mx.zeros((3, 3))
    e[mx.array([0, 2]), 1] = 5
    e[1] = mx.array([1, 2, 3])
    e[:, 0] += 1
    r += [e]
    f = mx.array([0, 0, 0])
    f[mx.array([0, 0])] = 1
    f2 = f.at[mx.array([0, 0])].add(1)
    r += [f, f2]
    g = mx.array([1.0, 2, 3])
    g[g > 1.5] = 0
    r += [g]
    for bad in (
        lambda: a[1.5],
        lambda: a["x"],
        lambda: a[mx.array([1.0])],
        lambda: b[0, 0, 0, 0],
        lambda: a[mx.array([True] * 10)],
        lambda: b[..., ...],
    ):
        r.append(outcome(bad))
    return r


def grad_idx(mx: Any) -> list[Any]:
    def fun(x, idx):
        x[idx] = 2.0
        return x.sum()

    return [mx.grad(fun)(mx.array([1.0, 2, 3]), mx.array([1]))]


def streams(mx: Any) -> list[Any]:
    a = mx.random.uniform(shape=(100,))
    b = mx.random.uniform(shape=(100,))
    c = mx.add(a, b, stream=mx.cpu)
    mx.eval(mx.add(a, c, stream=mx.cpu))
    s = mx.new_stream(mx.cpu)
    with mx.stream(s):
        e = a + b
    with mx.stream(mx.cpu):
        f = mx.default_device()
    mx.synchronize()
    mx.synchronize(s)
    return [str(f), str(mx.default_device()), bool(mx.array_equal(c, e)), mx.default_device() == mx.cpu, str(s.device)]


def saving(mx: Any) -> list[Any]:
    with tempfile.TemporaryDirectory() as d:
        return _saved(mx, d)


def _saved(mx: Any, d: str) -> list[Any]:
    r = []
    a = mx.array([1.0, 2.0])
    mx.save(d + "/array", a)
    r.append(mx.load(d + "/array.npy"))
    mx.savez(d + "/arrays", a, b=a * 2)
    r.append(dict(sorted(mx.load(d + "/arrays.npz").items())))
    mx.save_safetensors(d + "/x", {"a": a}, {"k": "v"})
    r.append(mx.load(d + "/x.safetensors", return_metadata=True))
    mx.savez_compressed(d + "/c.npz", a=a)
    r.append(mx.load(d + "/c.npz"))
    with open(d + "/f.npy", "wb") as fo:
        mx.save(fo, a)
    with open(d + "/f.npy", "rb") as fo:
        r.append(mx.load(fo))
    return r


def transforms(mx: Any) -> list[Any]:
    def loss_fn(w, x, y):
        return mx.mean(mx.square(w * x - y))

    w = mx.array(1.0)
    x = mx.array([0.5, -0.5])
    y = mx.array([1.5, -1.5])
    r = [
        loss_fn(w, x, y),
        mx.grad(loss_fn)(w, x, y),
        mx.grad(loss_fn, argnums=1)(w, x, y),
        mx.value_and_grad(loss_fn)(w, x, y),
    ]

    def l2(params, x, y):
        return mx.mean(mx.square(params["weight"] * x + params["bias"] - y))

    r.append(mx.grad(l2)({"weight": mx.array(1.0), "bias": mx.array(0.0)}, x, y))

    def nest(d):
        return d["a"][0]["b"] ** 2 + d["c"][1]

    r.append(mx.grad(nest)({"a": [{"b": mx.array(2.0)}], "c": (mx.array(0.0), mx.array(1.0))}))
    df = mx.grad(mx.sin)
    d2 = mx.grad(mx.grad(mx.sin))
    r += [df(mx.array(mx.pi / 2)), d2(mx.array(mx.pi / 2))]
    xs = mx.random.uniform(shape=(10, 4), key=mx.random.key(0))
    ys = mx.random.uniform(shape=(4, 10), key=mx.random.key(1))
    r.append(mx.vmap(lambda x, y: x + y, in_axes=(0, 1))(xs, ys))
    r.append(mx.vmap(mx.grad(lambda x: (x**2).sum()))(xs))
    r.append(mx.jvp(mx.sin, (mx.array(1.0),), (mx.array(1.0),)))
    r.append(mx.vjp(mx.sin, (mx.array(1.0),), (mx.array(1.0),)))
    return r


def compiling(mx: Any) -> list[Any]:
    r = []

    def fun(x, y):
        return mx.exp(-x) + y

    c = mx.compile(fun)
    r.append(c(mx.array(1.0), mx.array(2.0)))
    state = []

    @mx.compile
    def f2(x, y):
        z = x + y
        state.append(z)
        return mx.exp(z)

    r.append(f2(mx.array(1.0), mx.array(2.0)))
    r.append(outcome(lambda: mx.eval(state[0])))
    st = []

    def f3(x, y):
        z = x + y
        st.append(z)
        return mx.exp(z), st

    o = mx.compile(f3)(mx.array(1.0), mx.array(2.0))
    r.append(o)
    st2 = [mx.array(1.0)]

    @partial(mx.compile, inputs=st2)
    def f4(x):
        return x + st2[0]

    r.append(f4(mx.array(1.0)))
    st2[0] = mx.array(5.0)
    r.append(f4(mx.array(1.0)))
    st3 = [mx.array(1.0)]

    @partial(mx.compile, inputs=st3, outputs=st3)
    def f5(x):
        st3[0] = st3[0] + x
        return st3[0] * 2

    r += [f5(mx.array(1.0)), f5(mx.array(1.0)), st3[0]]

    def f6(x):
        return mx.abs(x.reshape(x.shape[0] * x.shape[1], -1))

    cc = mx.compile(lambda x: mx.abs(x).sum(-1), shapeless=True)
    r += [cc(mx.ones((2, 3))), cc(mx.ones((4, 5)))]
    cf = mx.compile(lambda x: mx.flatten(x, 0, 1), shapeless=True)
    r += [cf(mx.ones((2, 3, 4))).shape, cf(mx.ones((5, 1, 3))).shape]

    def gelu(x):
        return x * (1 + mx.erf(x / 2**0.5)) / 2

    r.append(mx.compile(gelu)(mx.linspace(-2, 2, 5)))
    r.append(mx.grad(mx.compile(lambda x: gelu(x).sum()))(mx.linspace(-2, 2, 5)))

    @mx.compile
    def bad(x):
        if x > 0:
            return x
        return -x

    r.append(outcome(lambda: bad(mx.array(1.0))))

    @mx.compile
    def rnd():
        return mx.random.uniform(shape=(2,))

    @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
    def rnd2():
        return mx.random.uniform(shape=(2,))

    mx.random.seed(0)
    a, b = rnd2(), rnd2()
    r += [a, b, mx.random.uniform(shape=(2,))]
    return r


def conversion(mx: Any) -> list[Any]:
    a = mx.arange(3)
    b = np.array(a)
    c = mx.array(b)
    r = [b.tolist(), str(b.dtype), c]
    r.append(np.array(mx.array([1.0, 2.0], mx.float16)).dtype.name)
    r.append(outcome(lambda: np.array(mx.array([1.0], mx.bfloat16)).tolist()))
    v = np.array(a, copy=False)
    r.append(v.tolist())

    r.append(np.asarray(mx.ones((2, 2))).tolist())
    r.append((np.array([1.0, 2.0]) + mx.array([1.0, 2.0])).__class__.__name__)
    r.append(str(mx.array(np.float64(1.5)).dtype))
    r.append(str(mx.array(np.arange(3)).dtype))
    r.append(str(mx.array(np.array([1.0, 2.0])).dtype))
    r.append(a.tolist())
    r.append(mx.array([[1, 2], [3, 4]]).tolist())

    r.append(outcome(lambda: mx.grad(lambda x: mx.array(np.array(x) * 2).sum())(mx.array([3.0]))))
    return r


def custom(mx: Any) -> list[Any]:
    @mx.custom_function
    def f(x, y):
        return mx.sin(x) * y

    @f.vjp
    def f_vjp(primals, cotangent, output):
        x, y = primals
        return cotangent * mx.cos(x) * y, cotangent * mx.sin(x)

    @f.jvp
    def f_jvp(primals, tangents):
        x, y = primals
        dx, dy = tangents
        return dx * mx.cos(x) * y + dy * mx.sin(x)

    @f.vmap
    def f_vmap(inputs, axes):
        x, y = inputs
        ax, ay = axes
        if ay != ax and ax is not None:
            y = y.swapaxes(ay, ax)
        return mx.sin(x) * y, (ax or ay)

    return [
        f(mx.array(2.0), mx.array(3.0)),
        mx.grad(f, argnums=(0, 1))(mx.array(2.0), mx.array(3.0)),
        mx.vmap(f)(mx.ones((3, 2)), mx.ones((3, 2)) * 2),
    ]


def linreg(mx: Any) -> list[Any]:
    mx.random.seed(3)
    n = 20
    w_star = mx.random.normal((n,))
    X = mx.random.normal((100, n))
    y = X @ w_star + 1e-2 * mx.random.normal((100,))
    w = 1e-2 * mx.random.normal((n,))

    def loss_fn(w):
        return 0.5 * mx.mean(mx.square(X @ w - y))

    g = mx.grad(loss_fn)
    for _ in range(30):
        w = w - 0.1 * g(w)
        mx.eval(w)
    return [loss_fn(w), w[:4]]


def dtypes(mx: Any) -> list[Any]:
    r = [
        mx.issubdtype(mx.float32, mx.floating),
        str(mx.array(True).dtype),
        str((mx.array(1) + mx.array(1.0)).dtype),
        mx.finfo(mx.float16).max,
        mx.iinfo(mx.int8).min,
        mx.float32.size,
        repr(mx.float32),
        hash(mx.float32) == hash(mx.float32),
    ]
    for v in (
        [1, 2.5],
        [True, 2],
        [1 + 2j],
        [[1], [2]],
        [],
        (1, 2),
        1,
        1.5,
        True,
        [mx.array(1), mx.array(2)],
        [[1, 2], [3]],
        None,
        "a",
        [None],
        {"a": 1},
        range(3),
        [np.float64(1)],
        2**40,
        -(2**40),
    ):
        r.append(outcome(lambda v=v: (mx.array(v).tolist(), str(mx.array(v).dtype))))
    return r


def arraystuff(mx: Any) -> list[Any]:
    a = mx.array([[1.0, 2], [3, 4]])
    r = [
        len(a),
        a.ndim,
        a.size,
        a.nbytes,
        a.itemsize,
        a.T,
        a @ a,
        -a,
        abs(-a),
        a**2,
        2**a,
        a % 2,
        a // 2,
        1 / a,
        a == a,
        a != 1,
        a < 2,
        ~(a > 2),
        (a > 1) & (a < 3),
        [x.tolist() for x in a],
        a.astype(mx.int32),
        repr(a),
        str(a),
        format(a[0, 0]),
        a.shape == (2, 2),
        a.dtype in (mx.float32,),
        bool(mx.all(a == a)),
        a.mean(axis=0),
        a.var(),
        a.argmax(1),
        a.reshape(-1),
        a.flatten(),
        a.squeeze().shape,
        a.transpose(1, 0),
        a.split(2),
        a.max(),
        a.min(axis=1, keepdims=True),
        a.any(),
        a.cumsum(0),
        a.round(),
        a.log(),
        a.prod(),
        a.logsumexp(),
        a.moveaxis(0, 1),
        a.swapaxes(0, 1),
        a.diag(),
        a.view(mx.int32),
        a.real,
        a.imag,
        a.conj(),
        a.square().sqrt().rsqrt().reciprocal(),
    ]
    for f in (
        lambda: bool(a),
        lambda: int(a),
        lambda: a.item(),
        lambda: a + "x",
        lambda: a + None,
        lambda: a @ 2,
        lambda: len(mx.array(1)),
        lambda: iter(mx.array(1)).__next__(),
        lambda: a.foo,
        lambda: hash(a) == hash(a),
        lambda: mx.array(1.5).__index__(),
        lambda: [1, 2, 3][mx.array(1)],
        lambda: a.reshape(3),
        lambda: a.sum(axis=5),
        lambda: mx.concatenate([a, mx.ones((3, 3))]),
        lambda: mx.ones((2, 3)) @ mx.ones((2, 3)),
        lambda: a < "x",
        lambda: a.__eq__(None),
        lambda: a == "x",
        lambda: 3 in a,
        lambda: mx.sum([1, 2]),
        lambda: mx.sin([1, 2]),
        lambda: mx.add([1], [2]),
        lambda: mx.sum(),
        lambda: mx.ones("x"),
        lambda: mx.zeros((2, -1)),
        lambda: mx.arange(),
        lambda: mx.stack([]),
        lambda: mx.concatenate([]),
    ):
        r.append(outcome(f))
    return r


SCENARIOS = (
    quick,
    quick_grad,
    lazy,
    control,
    indexing,
    grad_idx,
    streams,
    saving,
    transforms,
    compiling,
    conversion,
    custom,
    linreg,
    dtypes,
    arraystuff,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_scenario(scenario: Callable[[Any], list[Any]]) -> None:
    check(scenario, tol=1e-4)  # whole trainings, in float32
