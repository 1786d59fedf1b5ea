"""`mx.ext.stablehlo`, `export` and `load`: round trips through `jax.export`, with and without this library.

Gradients, batches of any size, and a compiler other than XLA are included.
"""

import subprocess
import sys

import jax
import numpy as np
import pytest

import mxcompat as mx
from mxcompat import nn
from mxcompat.ext import export, load, scan, stablehlo

pytest.importorskip("flatbuffers", reason="flatbuffers is not installed: pip install 'mxcompat[export]'")

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def close(result, expected):
    np.testing.assert_allclose(np.array(result), np.array(expected), rtol=1e-5, atol=1e-6)


def mlp():
    mx.random.seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def convolution():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2, 2))
    head = nn.Linear(4, 2)
    return lambda x: nn.softmax(head(net(x.reshape(x.shape[0], 4, 4, 1)).reshape(x.shape[0], -1))).sum(0) / x.shape[0]


def transformer():
    net = nn.TransformerEncoder(2, 6, 2)
    return lambda x: net(mx.concatenate([x, x], 1)[:, None, :] * mx.ones((x.shape[0], 5, 1)), None)


def recurrent():
    net = nn.LSTM(3, 4)
    return lambda x: net(mx.broadcast_to(x[:, None], (x.shape[0], 6, 3)))[0][:, -1]


MODELS = {
    "mlp": (mlp, (9, 3)),
    "convolution": (convolution, (9, 16)),
    "transformer": (transformer, (9, 3)),
    "recurrent": (recurrent, (9, 3)),
    "scan": (lambda: lambda x: scan(lambda c, v: (c + v, c * 2), mx.zeros(x.shape[0]), x.T)[1], (9, 3)),
    "sizes as numbers": (lambda: lambda x: x.sum(0) * x.shape[0] + float(x.shape[0] * 2 - 1), (9, 3)),
    "statistics": (lambda: lambda x: (x - x.mean(0)) / mx.sqrt(x.var(0) + 1e-5) + mx.cumsum(x, 0), (9, 3)),
    "vmap and grad": (lambda: mx.vmap(mx.grad(lambda v: (mx.sin(v) * v.sum()).sum())), (9, 3)),
    "indices": (lambda: lambda x: mx.take_along_axis(x, mx.argsort(x, -1), -1)[:, 1:][:, ::-1], (9, 3)),
}


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS.keys())
def test_any_size_of_a_batch(make, shape):
    f = make()
    again = load(export(f, mx.zeros((2, *shape[1:])), batch_axes=0).serialize())
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    for n in (1, 2, 9):
        close(again(mx.array(x[:n])), f(mx.array(x[:n])))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_place_of_the_largest_in_a_batch_of_any_size(axis):
    def f(x):
        return mx.argmax(x, axis=axis) if axis is not None else mx.argmin(x)

    again = export(f, mx.zeros((2, 3)), batch_axes=0)
    for n in (1, 9):
        x = mx.array(np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32))
        assert again(x).tolist() == f(x).tolist()


def test_gradients():
    f = mlp()
    again = load(export(f, mx.zeros((1, 3)), batch_axes=0, vjp_order=2).serialize())

    def loss(f):
        return lambda x: (f(x) ** 3).sum()

    x = mx.array(X)
    close(mx.grad(loss(again))(x), mx.grad(loss(f))(x))
    close(mx.compile(mx.grad(loss(again)))(x), mx.grad(loss(f))(x))

    def second(f):
        return mx.grad(lambda x: (mx.grad(loss(f))(x) ** 2).sum())

    close(second(again)(x), second(f)(x))


def test_custom_rules_are_in_it():
    @mx.custom_function
    def f(x):
        return x * 2

    @f.vjp
    def rule(x, cotangent, output):
        return cotangent * 10

    again = load(export(lambda x: f(x) + 1, mx.zeros(3), vjp_order=1).serialize())
    assert again(mx.ones(3)).tolist() == [3, 3, 3]
    assert mx.grad(lambda x: again(x).sum())(mx.ones(3)).tolist() == [10, 10, 10]


def test_trees_and_dtypes(tmp_path):
    def f(params, data):
        return {"b": data[0] @ params["w"].astype(mx.float64), "a": [data[1] + 1, params["n"] * 2]}

    args = {"w": mx.array(X.T), "n": mx.array([2**40])}, (mx.array(X, mx.float64), mx.array([1, 2], mx.uint8))
    export(f, *args).save(tmp_path / "f.bin")
    again, expected = load(tmp_path / "f.bin")(*args), f(*args)
    close(again["b"], expected["b"])
    for result, one in zip(again["a"], expected["a"], strict=True):
        assert result.dtype == one.dtype
        assert result.tolist() == one.tolist()


def test_axes_as_vmap_takes_them():
    f = export(lambda d, w: d["x"] @ w + d["a"][:, None], {"x": mx.zeros((2, 3)), "a": mx.zeros(2)}, mx.zeros((3, 2)),
               batch_axes=({"x": 0, "a": 0}, None))  # fmt: skip
    assert [str(a) for a in f.jax.in_avals] == ["float32[batch]", "float32[batch,3]", "float32[3,2]"]
    close(f({"x": mx.array(X), "a": mx.ones(4)}, mx.ones((3, 2))), X.sum(1, keepdims=True) + np.ones((4, 2)))


def test_jax_runs_it_without_this_library(tmp_path):
    f = mlp()
    export(f, mx.zeros((1, 3)), batch_axes=0, vjp_order=1).save(tmp_path / "f.bin")
    np.save(tmp_path / "x.npy", X)
    code = f"""
import sys, numpy as np, jax
f = jax.export.deserialize(bytearray(open({str(tmp_path / "f.bin")!r}, "rb").read())).call
x = np.load({str(tmp_path / "x.npy")!r})
assert not any(m.partition(".")[0] == "mxcompat" for m in sys.modules)
np.save({str(tmp_path / "y.npy")!r}, np.concatenate([f(x).ravel(), jax.grad(lambda x: f(x).sum())(x).ravel()]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    x = mx.array(X)
    close(np.load(tmp_path / "y.npy"), mx.concatenate([f(x).reshape(-1), mx.grad(lambda x: f(x).sum())(x).reshape(-1)]))


def test_what_jax_export_has_written():
    exported = jax.export.export(jax.jit(lambda x, y: {"sum": x + y}))(X, X)
    close(load(bytes(exported.serialize()))(mx.array(X), mx.array(X))["sum"], X + X)


def test_stablehlo():
    module = stablehlo(lambda x: mx.exp(x) @ mx.array(X.T), mx.zeros((2, 3)))
    assert "stablehlo.exponential" in module.text
    assert "tensor<2x3xf32>" in module.text
    assert module.bytecode[:4] == b"ML\xefR"  # MLIR's bytecode
    assert "tensor<?x3xf32>" in stablehlo(mx.exp, mx.zeros((2, 3)), batch_axes=0).text
    several = export(mx.exp, mx.zeros(2), platforms=("cpu", "cuda", "tpu"))
    assert several.jax.platforms == ("cpu", "cuda", "tpu")


IREE = """
import sys, numpy as np
import iree.compiler, iree.runtime
folder = sys.argv[1]
module = iree.compiler.compile_file(folder + "/f.mlir", input_type="stablehlo", target_backends=["llvm-cpu"])
context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, module))
name = [n for n in context.modules.keys() if n != 'hal'][0]
np.save(folder + "/y.npy", getattr(context.modules, name)["main"](np.load(folder + "/x.npy")).to_host())
"""


def test_a_compiler_that_is_not_xla(tmp_path):
    pytest.importorskip("iree.compiler", reason="IREE is not installed: pip install iree-base-compiler")
    pytest.importorskip("iree.runtime", reason="IREE is not installed: pip install iree-base-runtime")
    f = mlp()
    (tmp_path / "f.mlir").write_text(stablehlo(f, mx.array(X)).text)
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", IREE, str(tmp_path)], check=True)
    close(np.load(tmp_path / "y.npy"), f(mx.array(X)))


ONE = mx.ext.export(mx.square, mx.zeros((2, 3)), batch_axes=0)
ERRORS = {
    "draws": (lambda: export(lambda x: x + mx.random.uniform(), mx.zeros(2)), r"\[export\] The function draws random"),
    "number": (
        lambda: export(lambda x: x / x.shape[0] * (1 / x.shape[0]), mx.zeros(2), batch_axes=0),
        "a number is 0.2 for 5",
    ),
    "loop": (
        lambda: export(lambda x: sum(x[i] for i in range(x.shape[0])), mx.zeros(2), batch_axes=0),
        "it runs 10 or 14",
    ),
    "data": (
        lambda: export(lambda x: x * mx.array(np.arange(len(x))), mx.zeros(2), batch_axes=0),
        "an array that it makes",
    ),
    "host code": (lambda: export(mx.ext.host_callback(np.sort, lambda x: x), mx.zeros(2)).serialize(), "callback"),
    "argument": (lambda: export(lambda x, n: x * n, mx.zeros(2), 3), "there is a int in one"),
    "result": (lambda: stablehlo(lambda x: "text", mx.zeros(2)), "there is a str in one"),
    "shape": (lambda: ONE(mx.zeros((2, 4))), r"must be float32\[batch,3\], not float32\[2,4\]"),
    "dtype": (lambda: ONE(mx.zeros((2, 3), mx.int32)), r"not int32\[2,3\]"),
    "tree": (lambda: ONE([mx.zeros((2, 3))]), "Expected arguments of the tree"),
    "no file": (lambda: load(b"nothing"), "no exported function"),
    "no gradient": (lambda: mx.grad(lambda x: ONE(x).sum())(mx.zeros((2, 3))), "Use vjp_order=1"),
    "forward mode": (lambda: mx.jvp(ONE, [mx.zeros((2, 3))], [mx.zeros((2, 3))]), "Use grad or vjp instead"),
    "loaded": (lambda: load(ONE.serialize()).serialize(), "in its file already"),
    "enclosed": (
        lambda: mx.vmap(lambda y: export(lambda x: x * y, mx.zeros(2))(mx.ones(2)))(mx.ones(2)),
        "one around it",
    ),
}


@pytest.mark.parametrize(("fails", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(fails, message):
    state = mx.random.state[0]
    with pytest.raises(ValueError, match=message):
        fails()
    assert mx.random.state[0].tolist() == state.tolist()
