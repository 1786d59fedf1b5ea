"""Compare `export_to_dot` for compiled functions: the primitives that MLX fuses, under MLX's names."""

import functools
import io
import re

import mlx.core as real
import mlx.nn as real_nn
import pytest

import mxcompat.core as ours
import mxcompat.nn as our_nn


def drawn(mx, function, *args):
    """Return the labels of the primitives, and the number of edges."""
    out = io.StringIO()
    mx.export_to_dot(out, mx.compile(function)(*args))
    text = out.getvalue()
    return sorted(re.findall(r'label ="([^"]*)"', text)), text.count(" -> ")


ONE = {
    "equal parts": lambda mx, nn, x: (x + 1) + (x + 1),
    "around a product": lambda mx, nn, x: mx.exp(x @ x.T + 1).sum() * 2,
    "a part for two": lambda mx, nn, x: [mx.sin(x) * mx.cos(x), mx.sin(x) + 1],
    "a chain": lambda mx, nn, x: mx.sin(mx.cos(mx.exp(x))),
    "outputs within": lambda mx, nn, x: (lambda y: [y, mx.exp(y) * y, y + 1])(mx.sin(x)),
    "softmax by hand": lambda mx, nn, x: mx.exp(x - x.max()) / mx.exp(x - x.max()).sum(),
    "where": lambda mx, nn, x: mx.where(x > 0, x, -x) * 2,
    "casts": lambda mx, nn, x: (x.astype(mx.float16) * 2).astype(mx.float32),
    "gelu": lambda mx, nn, x: nn.gelu(x),
    "gelu_approx": lambda mx, nn, x: nn.gelu_approx(x),
    "silu": lambda mx, nn, x: nn.silu(x),
    "stop_gradient": lambda mx, nn, x: mx.stop_gradient(mx.sin(x)) * mx.cos(x),
    "another shape": lambda mx, nn, x: mx.exp(mx.sin(x).reshape(2, 8)) * 2,
    "broadcasts": lambda mx, nn, x: (x[:, None] + x) * 2,
    "powers": lambda mx, nn, x: x**2 + x**3,
    "clip": lambda mx, nn, x: mx.clip(x * 3, 0, 1) + 1,
    "one": lambda mx, nn, x: mx.exp(x),
    "none": lambda mx, nn, x: x,
    "logarithms": lambda mx, nn, x: mx.log(x) + mx.log2(x) + mx.log10(x) + mx.log1p(x),
    "bits": lambda mx, nn, x: (x.astype(mx.int32) & 3) | (x.astype(mx.int32) << 1),
    "comparisons": lambda mx, nn, x: (x == 1) | (x < 3) & ~(x >= 2),
    "layer_norm by hand": lambda mx, nn, x: (x - x.mean()) * mx.rsqrt(x.var() + 1e-5),
    "deep": lambda mx, nn, x: functools.reduce(lambda a, _: mx.sin(a), range(30), x),
    "wide": lambda mx, nn, x: sum((mx.sin(x * k) * mx.cos(x + k) for k in range(1, 20)), x),
    "rounding": lambda mx, nn, x: mx.round(x) + mx.floor(x) + mx.ceil(x) + mx.sign(x) + mx.square(x) + mx.reciprocal(x),
    "functions": lambda mx, nn, x: mx.sigmoid(x) * mx.tanh(x) + mx.erf(x) - mx.abs(x) + mx.negative(x),
    "numbers for several": lambda mx, nn, x: (x % 2) + (x // 2) + mx.maximum(x, 1) + mx.minimum(x, 2),
    "isnan": lambda mx, nn, x: mx.isnan(x) | mx.isinf(x),
    "nan_to_num": lambda mx, nn, x: mx.nan_to_num(x) + 1,
    "arctan2": lambda mx, nn, x: mx.arctan2(x, x + 1) + 1,
    "compiled within": lambda mx, nn, x: mx.compile(lambda x: mx.exp(x) * 2)(x) + 1,
    "halves": lambda mx, nn, x: mx.concatenate([x[:, :2] * mx.cos(x[:, :2]) - x[:, 2:] * mx.sin(x[:, :2])] * 2),
}

TWO = {
    "a broadcast for two": lambda mx, x, y: (x + mx.broadcast_to(y, x.shape) * x, mx.broadcast_to(y, x.shape).sum()),
    "a broadcast for several outputs": lambda mx, x, y: [x + y, x * y, mx.exp(x + y) * y],
    "that is an output": lambda mx, x, y: (lambda b: [b, x + b])(mx.broadcast_to(y, x.shape)),
    "in and out": lambda mx, x, y: (lambda b: (x + b) * (x - b) + b.sum())(mx.broadcast_to(y, x.shape)),
    "of several sections": lambda mx, x, y: [mx.exp(x + y) * y, (x - y) * 2, x.sum() + y],
    "attention": lambda mx, x, y: mx.softmax(x @ x.T * y, axis=-1) @ x,
    "rms_norm": lambda mx, x, y: x * mx.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * y,
    "Adam": lambda mx, x, y: (lambda m, v: [x - 0.1 * m / (mx.sqrt(v) + 1e-8), m, v])(0.9 * x + y, mx.square(x) * y),
}


@pytest.mark.parametrize("name", ONE)
def test_of_one_array(name):
    drawings = []
    for mx, nn in ((real, real_nn), (ours, our_nn)):
        x = mx.ones((4, 4))
        mx.eval(x)
        drawings.append(drawn(mx, functools.partial(ONE[name], mx, nn), x))
    assert drawings[1] == drawings[0]


@pytest.mark.parametrize("name", TWO)
def test_of_two_arrays(name):
    drawings = []
    for mx in (real, ours):
        x, y = mx.ones((4, 4)), mx.array(0.5)
        mx.eval(x, y)
        drawings.append(drawn(mx, functools.partial(TWO[name], mx), x, y))
    assert drawings[1] == drawings[0]


def test_what_is_not_compiled_is_not_fused():
    x = ours.ones(3)
    ours.eval(x)
    function = ours.compile(lambda x: (x + 1) + (x + 1))

    def count():
        out = io.StringIO()
        ours.export_to_dot(out, function(x))
        return out.getvalue().count("label")

    compiled = count()
    ours.disable_compile()
    try:
        plain = count()
    finally:
        ours.enable_compile()
    assert (compiled, plain, count()) == (1, 5, 1)
