"""`mx.ext.host_callback`: host code on arrays without a value. Real MLX has no counterpart."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import mxcompat as mx
from mxcompat.ext.debug import compiles

X = np.array([[3.0, 1.0, 2.0], [-1.0, 5.0, 0.5]], np.float32)
SORTED = np.sort(X, axis=-1)


def sort(result_shapes=lambda x: x, seen=None):
    def by_numpy(x):
        if seen is not None:
            seen.append(x.shape)
        return np.sort(x)

    return mx.ext.host_callback(by_numpy, result_shapes)


USES = {
    "eager": lambda f, x: f(x),
    "compile": lambda f, x: mx.compile(lambda a: f(a * 1))(x),
    "vmap": lambda f, x: mx.vmap(f)(x),
    "vmap of vmap": lambda f, x: mx.vmap(mx.vmap(lambda a: f(a[None])[0]))(mx.sort(x)),
    "vmap along the other axis": lambda f, x: mx.vmap(f, in_axes=1, out_axes=1)(x.T).T,
    "compile of vmap": lambda f, x: mx.compile(mx.vmap(f))(x),
    "checkpoint": lambda f, x: mx.checkpoint(f)(x),
    "within grad": lambda f, x: mx.grad(lambda a: (a * f(x)).sum())(x),
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_values(use):
    seen = []
    out = use(sort(seen=seen), mx.array(X))
    assert out.dtype == mx.float32
    np.testing.assert_array_equal(np.array(out), SORTED)
    assert seen


@pytest.mark.usefixtures("tier")
def test_vmap_calls_it_for_one_entry_after_the_other():
    seen = []
    mx.eval(mx.vmap(sort(seen=seen))(mx.array(X)))
    assert seen == [(3,), (3,)]


DESCRIPTIONS = {
    "array": lambda: mx.zeros((2, 3)),
    "numpy": lambda: X,
    "struct": lambda: jax.ShapeDtypeStruct((2, 3), np.float32),
    "like one": lambda: SimpleNamespace(shape=(2, 3), dtype=mx.float32),
    "pair": lambda: ((2, 3), mx.float32),
    "pair of NumPy's": lambda: ([2, 3], np.float32),
    "function": lambda: lambda x: (x.shape, x.dtype),
}


@pytest.mark.parametrize("describe", DESCRIPTIONS.values(), ids=DESCRIPTIONS.keys())
def test_ways_to_say_what_comes_out(describe):
    np.testing.assert_array_equal(np.array(sort(describe())(mx.array(X))), SORTED)


@pytest.mark.usefixtures("tier")
def test_trees_and_constants():
    def host(data, k, how):
        assert how == "fast"
        return {"a": data["x"] * np.float32(k), "b": [data["y"].astype(np.int32), np.float32(2)]}

    f = mx.ext.host_callback(host, {"a": ((2, 3), mx.float32), "b": [((), mx.int32), ((), mx.float32)]})
    out = f({"x": mx.array(X), "y": mx.array(3.5)}, 2, "fast")
    np.testing.assert_array_equal(np.array(out["a"]), X * 2)
    assert (out["b"][0].item(), out["b"][0].dtype, out["b"][1].item()) == (3, mx.int32, 2.0)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.int64, mx.uint8, mx.bool_, mx.complex64], ids=str)
def test_dtypes(dtype):
    x = mx.array([1, 0, 3]).astype(dtype)
    out = mx.ext.host_callback(lambda a: a[::-1], x)(x)
    assert out.dtype == dtype
    assert mx.array_equal(out, x[::-1]).item()
    assert mx.array_equal(mx.vmap(mx.ext.host_callback(lambda a: a * a, x[0]))(x), x * x).item()


@pytest.mark.usefixtures("tier")
def test_wide_numbers_are_whole():
    x, y = mx.array([2**40 + 1, -3]), mx.array([1 + 2**-40, 3], dtype=mx.float64)
    out = mx.ext.host_callback(lambda a, b: (a + 1, b - 1), (x, y))(x, y)
    assert out[0].tolist() == [2**40 + 2, -2]
    assert out[1].tolist() == [2**-40, 2.0]


WRONG = {
    "shape": (lambda x: x[0], "float32[2, 3], as result_shapes says, but returned float32[3]"),
    "dtype": (lambda x: x.astype(np.float64), "but returned float64[2, 3]"),
    "tree": (lambda x: (x, x), "must return a tree like result_shapes"),
    "no array": (lambda x: x.tolist(), "must return a tree like result_shapes"),
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(("host", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit(host, message):
    x = mx.array(X)
    out = mx.ext.host_callback(host, x)(x)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError)) as error:
        mx.eval(out)
    assert message in str(error.value)
    assert (x + 1)[0, 0].item() == 4.0


def test_errors_of_the_function_are_its_own():
    def host(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.eval(mx.ext.host_callback(host, lambda x: x)(mx.array(X)))


def test_descriptions_that_are_none():
    with pytest.raises(TypeError, match="result_shapes must be a tree"):
        sort({"a": 3})(mx.array(X))
    with pytest.raises(TypeError, match="no arrays of dtype"):
        sort(((3,), np.dtype("U3")))(mx.array(X))
    with pytest.raises(TypeError):
        mx.ext.host_callback(3, mx.array(X))


DERIVATIVES = {
    "grad": lambda f, x: mx.grad(lambda a: f(a).sum())(x),
    "jvp": lambda f, x: mx.jvp(f, [x], [x]),
    "within a call": lambda f, x: mx.grad(mx.checkpoint(lambda a: f(a).sum()))(x),
    "without a rule": lambda f, x: mx.grad(lambda a: ruled(f, "jvp")(a).sum())(x),
    "with the other rule": lambda f, x: mx.jvp(ruled(f, "vjp"), [x], [x]),
}


def ruled(f, *rules):
    g = mx.custom_function(lambda a: f(a))
    if "vjp" in rules:
        g.vjp(lambda a, cotangent, output: cotangent * output)
    if "jvp" in rules:
        g.jvp(lambda a, tangent: tangent * 3)
    return g


@pytest.mark.parametrize("use", DERIVATIVES.values(), ids=DERIVATIVES.keys())
def test_it_has_no_derivative(use):
    with pytest.raises(ValueError, match=r"\[host_callback\].*custom_function"):
        use(sort(), mx.array(X))


RULED = {
    "grad": lambda f, x: mx.grad(lambda a: (f(a) * a).sum())(x),
    "compile of grad": lambda f, x: mx.compile(mx.grad(lambda a: (f(a) * a).sum()))(x),
    "vmap of grad": lambda f, x: mx.vmap(mx.grad(lambda a: (f(a) * a).sum()))(x),
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("use", RULED.values(), ids=RULED.keys())
def test_a_custom_function_gives_it_one(use):
    out = use(ruled(sort(), "vjp"), mx.array(X))
    np.testing.assert_allclose(np.array(out), SORTED + X * SORTED, rtol=1e-6)


@pytest.mark.usefixtures("xla_only")
def test_the_same_function_compiles_once():
    def step(k):
        f = mx.ext.host_callback(np.sort, lambda x: x)
        mx.eval(f(mx.array(X * (k + 1))) * 2)

    for k in range(3):
        step(k)
    before = compiles()
    for k in range(3):
        step(k)
    assert compiles() == before
