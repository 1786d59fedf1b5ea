"""Layers, compared with real MLX: parameters of a seed, outputs, gradients, descriptions and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxcompat._graph.run import events
from tests.nn_oracle import OURS, check_on, plain
from tests.oracle import ours

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X = {
    "row": normal(4, 6),
    "seq": normal(2, 5, 6),
    "img": normal(2, 5, 7, 4),
    "vol": normal(1, 3, 4, 5, 2),
    "heads": normal(2, 3, 4, 8),
    "ids": np.array([[1, 0, 3], [4, 4, 2]], dtype=np.int32),
    "wide": normal(3, 64),
}

LAYERS = [
    ("Identity(3, a=4)", "row"),
    ("Linear(6, 3)", "row"),
    ("Linear(6, 3, bias=False)", "seq"),
    ("Conv1d(6, 4, 3)", "seq"),
    ("Conv1d(6, 4, 3, 2, 1, 2, 2, False)", "seq"),
    ("Conv2d(4, 6, 3)", "img"),
    ("Conv2d(4, 6, (3, 2), (1, 2), (1, 0), (1, 2), 2, False)", "img"),
    ("Conv2d(4, 2, [2, 2], padding=1)", "img"),
    ("Conv3d(2, 3, 2, 1, 1)", "vol"),
    ("Conv3d(2, 3, (1, 2, 3), bias=False)", "vol"),
    ("ConvTranspose1d(6, 4, 3, 2, 1, 1, 1)", "seq"),
    ("ConvTranspose2d(4, 3, 3, 2, 1, output_padding=(1, 0))", "img"),
    ("ConvTranspose2d(4, 3, (2, 3), bias=False)", "img"),
    ("ConvTranspose3d(2, 3, 2, 2)", "vol"),
    ("MaxPool1d(2)", "seq"),
    ("MaxPool1d(3, 1, 1)", "seq"),
    ("AvgPool1d(2, 3)", "seq"),
    ("MaxPool2d(2)", "img"),
    ("MaxPool2d((3, 2), (2, 1), (1, 0))", "img"),
    ("AvgPool2d(3, 2, 1)", "img"),
    ("AvgPool2d((5, 7))", "img"),
    ("MaxPool2d(6)", "img"),
    ("MaxPool3d(2)", "vol"),
    ("MaxPool3d(2, 1)", "vol"),
    ("AvgPool3d((1, 2, 2), 1, (0, 1, 0))", "vol"),
    ("InstanceNorm(4)", "img"),
    ("InstanceNorm(6, affine=True)", "seq"),
    ("LayerNorm(6)", "seq"),
    ("LayerNorm(6, eps=0.1, affine=False)", "row"),
    ("LayerNorm(6, bias=False)", "row"),
    ("RMSNorm(6, eps=0.01)", "seq"),
    ("GroupNorm(2, 4)", "img"),
    ("GroupNorm(2, 4, affine=False)", "img"),
    ("GroupNorm(2, 4, pytorch_compatible=True)", "img"),
    ("BatchNorm(6)", "row"),
    ("BatchNorm(6, momentum=0.3, affine=False)", "seq"),
    ("BatchNorm(4, track_running_stats=False)", "img"),
    ("Dropout()", "row"),
    ("Dropout(0.0)", "row"),
    ("Dropout2d(0.3)", "img"),
    ("Dropout2d(0.3)", "seq"),
    ("Dropout3d(0.3)", "vol"),
    ("Embedding(5, 4)", "ids"),
    ("RNN(6, 3)", "seq"),
    ("RNN(6, 3, bias=False, nonlinearity=lambda x: x * 0.5)", "row"),
    ("GRU(6, 3)", "seq"),
    ("GRU(6, 3, bias=False)", "row"),
    ("LSTM(6, 3)", "seq"),
    ("LSTM(6, 3, bias=False)", "row"),
    ("RoPE(6)", "seq"),
    ("RoPE(4, True, 1000, 0.5)", "seq"),
    ("SinusoidalPositionalEncoding(8)", "row"),
    ("SinusoidalPositionalEncoding(8, scale=0.0)", "row"),
    ("SinusoidalPositionalEncoding(8, 0.01, 2, 1.0, True, True)", "row"),
    ("ALiBi()", "heads"),
    ("Upsample(2)", "img"),
    ("Upsample(1.5)", "img"),
    ("Upsample((0.5, 0.7))", "img"),
    ("Upsample(1.6, 'linear')", "seq"),
    ("Upsample((2, 1.3), 'linear', True)", "img"),
    ("Upsample(2, 'cubic')", "img"),
    ("Upsample(1.7, 'cubic', True)", "seq"),
    ("Upsample(0.4, 'linear', antialias=True)", "img"),
    ("Upsample((0.5, 1.5), 'cubic', antialias=True)", "img"),
    ("Upsample((2, 1, 1.5), 'linear')", "vol"),
    ("Sequential(nn.Linear(6, 8), nn.relu, nn.Dropout(), nn.Linear(8, 2))", "row"),
    ("PReLU(6)", "row"),
    ("GLU(axis=0)", "row"),
    ("GELU('fast')", "row"),
    ("GELU('tanh')", "row"),
    ("AllToShardedLinear(6, 4)", "row"),
    ("ShardedToAllLinear(6, 4, bias=False)", "row"),
    ("FullyShardedModule(nn.Linear(6, 4))", "row"),
    ("fully_shard(nn.Linear(6, 4))", "row"),
    ("QuantizedLinear(64, 16)", "wide"),
    ("QuantizedLinear(64, 16, False, 32, 8)", "wide"),
    ("QuantizedLinear(64, 16, mode='mxfp4')", "wide"),
    ("QuantizedAllToShardedLinear(64, 16)", "wide"),
    ("QuantizedShardedToAllLinear(64, 16, False, 32, 8)", "wide"),
]


@pytest.mark.parametrize(("build", "key"), LAYERS)
def test_layer(build: str, key: str) -> None:
    """Compare parameters, output, gradients, the description and the final random state."""

    def run(mx, lib, x):
        mx.random.seed(3)
        layer = eval(f"nn.{build}", {"nn": lib.nn})
        start = plain(layer.parameters())
        trainable = layer.trainable_parameters()

        def loss(parameters, x):
            layer.update(parameters)
            y = layer(x)
            arrays = y if isinstance(y, tuple) else (y,)
            return sum((mx.sin(a) * 0.5).sum() for a in arrays), y

        arguments = (0, 1) if x.dtype == mx.float32 else 0
        (value, y), gradients = mx.value_and_grad(loss, arguments)(trainable, x)
        after = plain(layer.parameters())
        layer.eval()
        text = repr(layer)
        return start, value, y, gradients, after, layer(x), text.split(" at 0x")[0], mx.random.uniform(shape=(2,))

    check_on(run, X[key], tol=1e-4)


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_continue_from_a_state(name: str) -> None:
    def run(mx, lib, x, h):
        mx.random.seed(0)
        layer = getattr(lib.nn, name)(6, 3)
        return layer(x, h, h * 2) if name == "LSTM" else layer(x, hidden=h)

    check_on(run, X["seq"], normal(2, 3))


CALLS = [
    lambda mx, nn, x: nn.Bilinear(6, 6, 3)(x, x * 2),
    lambda mx, nn, x: nn.Bilinear(6, 6, 3, bias=False)(x[:, None], x[:, None]),
    lambda mx, nn, x: nn.Embedding(5, 6).as_linear(x),
    # Real MLX gives the input's gradient a wrong shape here, so only the value is compared.
    lambda mx, nn, x: nn.ConvTranspose3d(6, 3, 2, 2, output_padding=1)(x.reshape(1, 2, 2, 1, 6)),
    lambda mx, nn, x: nn.QuantizedEmbedding(8, 64)(mx.array([[1, 0], [4, 7]])),
    lambda mx, nn, x: nn.QuantizedEmbedding(8, 64, mode="mxfp8")(mx.array(3)),
    lambda mx, nn, x: nn.QuantizedEmbedding(64, 64).as_linear(mx.ones((2, 64))),
    lambda mx, nn, x: nn.RoPE(6)(x[None], offset=7),
    lambda mx, nn, x: nn.ALiBi()(mx.ones((1, 4, 3, 5)), offset=2, mask=mx.ones((3, 5))),
    lambda mx, nn, x: nn.ALiBi()(mx.ones((1, 4, 3, 5), dtype=mx.float16)),
    lambda mx, nn, x: nn.ALiBi()(mx.ones((4, 6)), offset=1),
    lambda mx, nn, x: nn.ALiBi()(mx.ones((2, 3, 1, 4, 6))),
    lambda mx, nn, x: nn.ALiBi.create_alibi_matrix(3, 4, 2, dtype=mx.float16),
    lambda mx, nn, x: nn.ALiBi.create_alibi_slope(6),
    lambda mx, nn, x: nn.MultiHeadAttention.create_additive_causal_mask(4),
    lambda mx, nn, x: nn.MultiHeadAttention.create_additive_causal_mask(3, mx.float16),
    lambda mx, nn, x: nn.MultiHeadAttention(6, 2)(x[None], x[None], x[None]),
    lambda mx, nn, x: nn.MultiHeadAttention(4, 2, 6, 6, 6, 8, 3, bias=True)(
        x[None], x[None], x[None], nn.MultiHeadAttention.create_additive_causal_mask(4)
    ),
    lambda mx, nn, x: nn.TransformerEncoder(2, 6, 2)(x[None], None),
    lambda mx, nn, x: nn.TransformerEncoder(1, 6, 2, 5, 0.1, nn.gelu, False, True)(x[None], None),
    lambda mx, nn, x: nn.TransformerDecoder(1, 6, 3, norm_first=False)(x[None], x[None], None, None),
    lambda mx, nn, x: nn.Transformer(6, 2, custom_encoder=nn.Identity(), custom_decoder=nn.Identity())(
        x[None], x[None] * 2, None, None, None
    ),
    lambda mx, nn, x: nn.Transformer(6, 2, 1, 1, dropout=0.2)(
        x[None], x[None], None, nn.MultiHeadAttention.create_additive_causal_mask(4), None
    ),
    lambda mx, nn, x: nn.MaxPool2d(10, 1)(mx.sin(mx.arange(2 * 144.0)).reshape(1, 12, 12, 2)),
    lambda mx, nn, x: nn.MaxPool1d(2)(mx.arange(8).reshape(1, 4, 2)),
    lambda mx, nn, x: nn.MaxPool1d(3, 1)(mx.ones((1, 2, 2))),
    lambda mx, nn, x: nn.MaxPool1d(7, 3)(mx.ones((1, 4, 2))),
    lambda mx, nn, x: nn.AvgPool1d(3, 1)(mx.arange(10.0, dtype=mx.float16).reshape(1, 5, 2)),
    lambda mx, nn, x: nn.Upsample(2, "linear")(x[None].astype(mx.float16)),
    lambda mx, nn, x: nn.Upsample(1.5)(x[None].astype(mx.int32)),
    lambda mx, nn, x: nn.Upsample(0.1)(x[None]),
    lambda mx, nn, x: nn.Upsample(0.1, "linear")(x[None]),
    lambda mx, nn, x: nn.BatchNorm(6).eval()(x),
    lambda mx, nn, x: nn.layers.upsample.upsample_cubic(x[None], (2,)),
    lambda mx, nn, x: nn.layers.distributed.shard_linear(nn.Linear(6, 4), "all-to-sharded")(x),
    lambda mx, nn, x: nn.layers.distributed.shard_linear(nn.Linear(6, 4), "sharded-to-all", segments=2)(x),
    lambda mx, nn, x: nn.layers.distributed.shard_linear(nn.QuantizedLinear(64, 8), "sharded-to-all")(mx.ones((1, 64))),
    lambda mx, nn, x: nn.layers.distributed.shard_inplace(nn.Linear(6, 4), lambda path, weight: (0, 2)),
    lambda mx, nn, x: nn.FullyShardedModule(nn.Linear(6, 4), compute_dtype=mx.float16)(x.astype(mx.float16)),
    lambda mx, nn, x: nn.FullyShardedModule(nn.Embedding(5, 6)).as_linear(x),
    lambda mx, nn, x: nn.FullyShardedModule(nn.Sequential(nn.FullyShardedModule(nn.Linear(6, 6)), nn.Linear(6, 3)))(x),
    lambda mx, nn, x: nn.average_gradients({"a": x}),
    lambda mx, nn, x: nn.utils.clip_grad_norm_sharded({"a": x, "b": [x * 2]}, 1.0),
    lambda mx, nn, x: nn.utils._group_by_size(["a", "b", "c"], [3, 4, 5], 4, 20),
    lambda mx, nn, x: repr(nn.Conv2d(2, 4, (2, 3, 1))),
    lambda mx, nn, x: [list(nn.Conv2d(2, 4, 3)), list(nn.Conv3d(2, 4, 3)), list(nn.ConvTranspose2d(2, 4, 3))],
]


@pytest.mark.parametrize("call", CALLS)
def test_call(call) -> None:
    def run(mx, lib, x):
        mx.random.seed(1)
        return call(mx, lib.nn, x), mx.random.uniform(shape=(2,))

    check_on(run, X["row"], tol=1e-4)


MISTAKES = [
    lambda mx, nn: nn.Conv1d(3, 4, 2, groups=2),
    lambda mx, nn: nn.Conv2d(3, 4, 2, groups=2),
    lambda mx, nn: nn.MaxPool1d((2, 2)),
    lambda mx, nn: nn.MaxPool2d("a"),
    lambda mx, nn: nn.MaxPool2d(2, 0),
    lambda mx, nn: nn.AvgPool2d(0),
    lambda mx, nn: nn.MaxPool2d(2, 1, (1, -1)),
    lambda mx, nn: nn.MaxPool3d(2, 1, (1, 1)),
    lambda mx, nn: nn.QuantizedAllToShardedLinear(64, 2, bits=0),
    lambda mx, nn: nn.QuantizedShardedToAllLinear(64, 2, mode=None),
    lambda mx, nn: nn.losses.mse_loss(mx.ones(2), mx.ones(2), []),
    lambda mx, nn: nn.losses.cross_entropy(mx.ones((2, 3)), mx.array([0, 1]), reduction=None),
    lambda mx, nn: nn.init.he_normal()(mx.ones((2, 2)), ["fan_in"]),
    lambda mx, nn: nn.MaxPool2d(2)(mx.ones((2, 3))),
    lambda mx, nn: nn.MaxPool1d(5, 1)(mx.ones((1, 3, 2))),
    lambda mx, nn: nn.AvgPool2d((2, 6), 1)(mx.ones((1, 4, 4, 2))),
    lambda mx, nn: nn.MaxPool2d(2, 1)(mx.ones((2, 3, 3))),
    lambda mx, nn: nn.InstanceNorm(3, 0.0),
    lambda mx, nn: nn.InstanceNorm(3)(mx.ones((2, 3))),
    lambda mx, nn: nn.LayerNorm(3, -1),
    lambda mx, nn: nn.RMSNorm(3, 0),
    lambda mx, nn: nn.GroupNorm(0, 3),
    lambda mx, nn: nn.GroupNorm(1, 0),
    lambda mx, nn: nn.GroupNorm(3, 4),
    lambda mx, nn: nn.BatchNorm(3, 0),
    lambda mx, nn: nn.BatchNorm(3)(mx.ones((1, 3))),
    lambda mx, nn: nn.BatchNorm(3)(mx.ones((3,))),
    lambda mx, nn: nn.Dropout(1.0),
    lambda mx, nn: nn.Dropout2d(-0.1),
    lambda mx, nn: nn.Dropout2d(0.0)(mx.ones((4,))),
    lambda mx, nn: nn.Dropout3d(0.5).eval()(mx.ones((4,))),
    lambda mx, nn: nn.RNN(2, 3, nonlinearity=3),
    lambda mx, nn: nn.ALiBi()(mx.ones(6)),
    lambda mx, nn: nn.RNN(2, 0),
    lambda mx, nn: nn.RNN(2, mx.arange(3)),
    lambda mx, nn: nn.GRU(2, 0),
    lambda mx, nn: nn.LSTM(2, -1),
    lambda mx, nn: nn.Linear(0, 3),
    lambda mx, nn: nn.Linear(-1, 3),
    lambda mx, nn: nn.Embedding(3, 0),
    lambda mx, nn: nn.Conv1d(2, 4, 0),
    lambda mx, nn: nn.Conv2d(2, 4, (3,)),
    lambda mx, nn: nn.ConvTranspose2d(2, 4, (0,)),
    lambda mx, nn: nn.ConvTranspose3d(2, 4, (3, 0, 3)),
    lambda mx, nn: nn.SinusoidalPositionalEncoding(7),
    lambda mx, nn: nn.MultiHeadAttention(8, 3),
    lambda mx, nn: nn.GELU("x"),
    lambda mx, nn: nn.GELU(np.arange(2)),
    lambda mx, nn: nn.Upsample(2, "x"),
    lambda mx, nn: nn.Upsample(2, antialias=True),
    lambda mx, nn: nn.Upsample(2, "linear", True, True),
    lambda mx, nn: nn.Upsample(2)(mx.ones((2, 3))),
    lambda mx, nn: nn.Upsample((2, 2))(mx.ones((2, 3, 4))),
    lambda mx, nn: nn.layers.upsample.upsample_linear(mx.ones((1, 3, 2)), (1, 2)),
    lambda mx, nn: nn.QuantizedLinear(64, 32, mode="foo"),
    lambda mx, nn: nn.Linear(64, 32).to_quantized(quantize_input=True),
    lambda mx, nn: nn.Linear(64, 32).to_quantized(mode="mxfp8", quantize_input=True),
    lambda mx, nn: nn.Embedding(64, 32).to_quantized(quantize_input=True),
    lambda mx, nn: nn.layers.distributed.shard_linear(nn.Linear(2, 2), "x"),
    lambda mx, nn: nn.layers.distributed.shard_inplace(nn.Linear(2, 2), lambda path, weight: "x"),
    lambda mx, nn: nn.layers.distributed.shard_inplace(nn.Linear(2, 2), "x"),
    lambda mx, nn: nn.layers.distributed.shard_inplace(nn.Linear(2, 2), None),
    lambda mx, nn: nn.layers.distributed.shard_linear(nn.Embedding(2, 2), "all-to-sharded"),
    lambda mx, nn: nn.layers.distributed.shard_linear(nn.Linear(2, 2), None),
    lambda mx, nn: nn.FullyShardedModule(nn.Linear(2, 3)).as_linear(mx.ones((1, 3))),
    lambda mx, nn: nn.init.identity()(mx.ones((2, 3))),
    lambda mx, nn: nn.init.he_normal()(mx.ones((3,))),
    lambda mx, nn: nn.init.he_uniform()(mx.ones((3, 3)), mode="x"),
    lambda mx, nn: nn.QQLinear(64, 32)(mx.ones((2, 64, 2))),
    lambda mx, nn: nn.QQLinear(64, 32)(mx.ones((2,))),
    lambda mx, nn: nn.QQLinear(64, 32).eval()(mx.ones((2, 3, 63))),
    lambda mx, nn: nn.init.sparse(0.5)(mx.ones((3,))),
    lambda mx, nn: nn.init.sparse(0.4)(mx.ones((0, 3))),
    lambda mx, nn: nn.init.sparse(1)(mx.ones((3, 0))),
    lambda mx, nn: nn.init.sparse(0)(mx.ones((0, 0))),
    lambda mx, nn: nn.init.orthogonal()(mx.ones((3,))),
    lambda mx, nn: nn.MultiHeadAttention(4, 2)(mx.ones((3, 4)), mx.ones((3, 4)), mx.ones((3, 4))),
    lambda mx, nn: nn.Bilinear(4, 3, 2)(mx.ones((2, 5, 4)), mx.ones((2, 5, 4))),
    lambda mx, nn: nn.Conv1d(2, 4, {"a": 1}),
    lambda mx, nn: nn.Conv1d(2, 4, [1]),
    lambda mx, nn: nn.Conv2d(2, 4, None),
    lambda mx, nn: nn.ConvTranspose1d(2, 4, "a"),
    lambda mx, nn: nn.Linear(2, 3).load_weights(None),
    lambda mx, nn: nn.Linear(2, 3).load_weights([{}], strict=False),
]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_convolutions_call_what_the_core_has(kind: str, count: int, monkeypatch) -> None:
    """Assert that layers call the core's function, even if replaced, because programs count operations so."""

    def run(mx, lib):
        layer = getattr(lib.nn, f"{kind}{count}d")(2, 3, 2)
        name = ("conv_transpose" if "T" in kind else "conv") + f"{count}d"
        with monkeypatch.context() as patch:
            patch.setattr(mx, name, lambda x, weight, *settings: (weight.shape, settings))
            layer.pop("bias")
            return layer(mx.ones(1))

    check_on(run)


@pytest.mark.parametrize("call", MISTAKES)
def test_mistakes_raise_what_mlx_raises(call) -> None:
    error = check_on(lambda mx, lib: call(mx, lib.nn))
    assert isinstance(error, Exception)


NORMS = [
    *[("BatchNorm", (4,), {"track_running_stats": on}, train) for on in (False, True) for train in (False, True)],
    *[
        ("GroupNorm", (groups, 4), {"affine": affine, "pytorch_compatible": alike}, True)
        for groups in (2, 4) for affine in (False, True) for alike in (False, True)
    ],
    *[("InstanceNorm", (4,), {"affine": affine}, True) for affine in (False, True)],
    ("LayerNorm", (4,), {}, True), ("RMSNorm", (4,), {}, True),
]  # fmt: skip


@pytest.mark.parametrize(
    "shape", [(), (4,), (0, 4), (1, 4), (2, 0), (0, 3, 4), (2, 0, 4), (2, 3, 0), (2, 3, 2), (2, 3, 1, 5)]
)
def test_norms_of_what_does_not_fit(shape: tuple[int, ...]) -> None:
    for name, settings, named, train in NORMS:

        def run(mx, lib, name=name, settings=settings, named=named, train=train):
            layer = getattr(lib.nn, name)(*settings, **named).train(train)
            return layer(mx.ones(shape)), plain(layer.parameters())

        check_on(run)


FUNCTIONS = [
    ("sigmoid", ()), ("relu", ()), ("relu2", ()), ("relu6", ()), ("leaky_relu", ()), ("leaky_relu", (0.3,)),
    ("log_softmax", ()), ("log_softmax", (0,)), ("elu", ()), ("elu", (2.0,)), ("softmax", ()), ("softmax", (0,)),
    ("softplus", ()), ("softsign", ()), ("softshrink", ()), ("softshrink", (1.0,)), ("celu", ()), ("celu", (2.0,)),
    ("silu", ()), ("log_sigmoid", ()), ("gelu", ()), ("gelu_approx", ()), ("gelu_fast_approx", ()), ("glu", ()),
    ("step", ()), ("step", (0.5,)), ("selu", ()), ("mish", ()), ("hardswish", ()), ("hard_tanh", ()),
    ("hard_tanh", (-0.5, 2.0)), ("hard_shrink", ()), ("hard_shrink", (1.0,)), ("softmin", ()), ("tanh", ()),
]  # fmt: skip
EDGES = np.concatenate([np.array([0.0, -0.0, 0.5, -0.5, 1.0, -3.0, 3.0, 6.0]), normal(8) * 3]).astype(np.float32)


@pytest.mark.parametrize(("name", "extra"), FUNCTIONS)
def test_activation(name: str, extra: tuple) -> None:
    """Compare float32 with its gradient, and the result's dtype for others."""

    def run(mx, lib, x):
        f = getattr(lib.nn, name)
        value, gradient = mx.value_and_grad(lambda x: (f(x, *extra) * mx.arange(1.0, 2.0)).sum())(x)
        return f(x, *extra), value, gradient, f(x.astype(mx.float16), *extra), f(x.astype(mx.bfloat16), *extra).dtype

    # MLX compiles these functions and rounds half precision at other places than op by op.
    check_on(run, EDGES.reshape(8, 2), tol=4e-3)


@pytest.mark.parametrize(
    "argument", [np.ones(3, np.float32), np.array([None]), object(), 1j, [1j], 2**64, None, "text"]
)
@pytest.mark.parametrize("name", sorted({name for name, _ in FUNCTIONS} - {"glu", "tanh"}))
def test_activation_of_no_array(name: str, argument: Any) -> None:
    """Compare arguments that are no arrays: in MLX activations are compiled functions."""
    check_on(
        lambda mx, lib: getattr(lib.nn, name)(argument if type(argument) is not np.ndarray else np.array(argument))
    )


@pytest.mark.parametrize(("name", "extra"), FUNCTIONS)
def test_activation_of_a_subclass(name: str, extra: tuple) -> None:
    """Assert that a compiled activation sees and returns a plain array, despite operators of the argument's class."""

    def run(mx, lib, x):
        def own(self, other):
            return Tensor(0 * mx.array(self))

        names = ["add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow"]
        Tensor = type("Tensor", (mx.array,), {f"__{name}__": own for name in names})
        result = getattr(lib.nn, name)(Tensor(x), *extra)
        return result, type(result) is mx.array

    check_on(run, EDGES.reshape(8, 2), tol=4e-3)


def test_settings_of_activations() -> None:
    check_on(lambda mx, lib, x: lib.nn.hard_shrink(x, lambd=np.float64(0.5)), EDGES)
    check_on(lambda mx, lib, x: lib.nn.hard_shrink(x, lambd=np.float32(0.5)), EDGES)


def test_prelu_and_activation_modules() -> None:
    def run(mx, lib, x):
        nn = lib.nn
        built = [
            nn.Sigmoid(), nn.Mish(), nn.ReLU(), nn.ReLU2(), nn.ReLU6(), nn.LeakyReLU(0.2), nn.ELU(0.5), nn.Softmax(),
            nn.Softplus(), nn.Softsign(), nn.Softshrink(0.3), nn.CELU(2.0), nn.SiLU(), nn.LogSoftmax(),
            nn.LogSigmoid(), nn.PReLU(), nn.GELU(), nn.GELU("precise"), nn.Tanh(), nn.Hardswish(), nn.Step(0.1),
            nn.SELU(), nn.HardTanh(), nn.HardShrink(0.3), nn.Softmin(), nn.GLU(),
        ]  # fmt: skip
        return [module(x) for module in built], list(map(repr, built)), nn.prelu(x, mx.array([0.1, 0.2]))

    check_on(run, EDGES.reshape(8, 2))


A, B, C = (RNG.uniform(0.1, 0.9, (4, 5)).astype(np.float32) for _ in range(3))
CLASSES = np.array([0, 3, 1, 4], dtype=np.int32)
SIGNS = np.sign(normal(4, 5))

LOSSES = [
    ("cross_entropy", (A, CLASSES), {}),
    ("cross_entropy", (A, CLASSES[:5]), {"label_smoothing": 0.3}),
    ("cross_entropy", (A, B), {"label_smoothing": 0.1}),
    ("cross_entropy", (A, B), {"axis": 0}),
    ("cross_entropy", (A.T, CLASSES), {"axis": 0}),
    ("cross_entropy", (A, CLASSES), {"weights": A[:, 0]}),
    ("binary_cross_entropy", (A, B), {}),
    ("binary_cross_entropy", (A, B), {"with_logits": False}),
    ("binary_cross_entropy", (np.float32([0, 1]), np.float32([1, 1])), {"with_logits": False}),
    ("binary_cross_entropy", (A, B, C), {}),
    ("l1_loss", (A, B), {}),
    ("mse_loss", (A, B), {}),
    ("nll_loss", (A, CLASSES), {}),
    ("nll_loss", (A.T, CLASSES), {"axis": 0}),
    ("gaussian_nll_loss", (A, B, C), {}),
    ("gaussian_nll_loss", (A, B, C - 0.5), {"full": True, "eps": 0.1}),
    ("kl_div_loss", (A, B), {}),
    ("kl_div_loss", (A, B), {"axis": 0}),
    ("smooth_l1_loss", (A, B), {}),
    ("smooth_l1_loss", (A, B), {"beta": 0.2}),
    ("triplet_loss", (A, B, C), {}),
    ("triplet_loss", (A, B, C), {"axis": 0, "p": 4, "margin": 0.5, "eps": 0.1}),
    ("hinge_loss", (A, SIGNS), {}),
    ("huber_loss", (A * 3, B), {}),
    ("huber_loss", (A, B), {"delta": 0.2}),
    ("log_cosh_loss", (A, B), {}),
    ("cosine_similarity_loss", (A, B), {}),
    ("cosine_similarity_loss", (A, A * 0), {"axis": 0, "eps": 1e-3}),
    ("margin_ranking_loss", (A, B, SIGNS), {}),
    ("margin_ranking_loss", (A, B, SIGNS), {"margin": 0.3}),
    # settings that are arrays
    ("cross_entropy", (A, CLASSES), {"label_smoothing": np.array(0.3, np.float32)}),
    ("binary_cross_entropy", (A, B), {"with_logits": np.array(False)}),
    ("gaussian_nll_loss", (A, B, C), {"full": np.array(True), "eps": np.array(0.1, np.float32)}),
    ("smooth_l1_loss", (A, B), {"beta": np.array(0.2, np.float32)}),
    ("huber_loss", (A, B), {"delta": np.array(0.2, np.float32)}),
    ("triplet_loss", (A, B, C), {"margin": np.array(0.5, np.float32), "p": np.array(2.0, np.float32)}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), LOSSES)
def test_loss(name: str, args: tuple, kwargs: dict) -> None:
    """Compare all three reductions, and the gradient of the mean."""

    def run(mx, lib, *args):
        f = getattr(lib.nn.losses, name)
        options = {k: mx.array(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        reduced = [f(*args, **options, reduction=r) for r in ("none", "mean", "sum")]
        return f(*args, **options), reduced, mx.grad(lambda x: f(x, *args[1:], **options, reduction="mean"))(args[0])

    check_on(run, *args)


LOSS_MISTAKES = [
    lambda f, a, b, i: f.cross_entropy(a, i, label_smoothing=1.0),
    lambda f, a, b, i: f.cross_entropy(a, i[:2]),
    lambda f, a, b, i: f.cross_entropy(a, b[:2]),
    lambda f, a, b, i: f.cross_entropy(a, i, weights=a),
    lambda f, a, b, i: f.cross_entropy(a, i, reduction="x"),
    lambda f, a, b, i: f.binary_cross_entropy(a, i),
    lambda f, a, b, i: f.binary_cross_entropy(a, b, i),
    lambda f, a, b, i: f.l1_loss(a, i),
    lambda f, a, b, i: f.mse_loss(a, i),
    lambda f, a, b, i: f.gaussian_nll_loss(a, i, b),
    lambda f, a, b, i: f.gaussian_nll_loss(a, b, i),
    lambda f, a, b, i: f.smooth_l1_loss(a, i),
    lambda f, a, b, i: f.margin_ranking_loss(a, b, i),
    lambda f, a, b, i: f.cosine_similarity_loss(a, b[:2, :2]),
]


NUMPYS_NUMBERS = [
    lambda nn, x, n: nn.losses.cross_entropy(x, x, label_smoothing=n),
    lambda nn, x, n: nn.losses.huber_loss(x, x * 2, delta=n),
    lambda nn, x, n: nn.losses.huber_loss(n, x),
    lambda nn, x, n: nn.losses.hinge_loss(n, x, reduction="mean"),
    lambda nn, x, n: nn.losses.kl_div_loss(x, n),
    lambda nn, x, n: nn.losses.log_cosh_loss(n, x),
    lambda nn, x, n: nn.losses.triplet_loss(n, x, x * 2),
    lambda nn, x, n: nn.losses.smooth_l1_loss(x, x * 2, beta=n),
    lambda nn, x, n: nn.losses.margin_ranking_loss(x, x * 2, x, margin=n),
    lambda nn, x, n: nn.Dropout(n).eval()(x),
    lambda nn, x, n: type(nn.Dropout(n)(x)).__name__,
    lambda nn, x, n: nn.BatchNorm(5, momentum=n)(x),
    lambda nn, x, n: nn.init.orthogonal(n)(x).shape,
]


@pytest.mark.parametrize("number", [np.float32(0.25), np.float64(0.25)])
@pytest.mark.parametrize("call", NUMPYS_NUMBERS)
def test_numbers_of_numpy_do_not_turn_arrays_into_numpys(call, number) -> None:
    """Assert that NumPy scalars keep the result an mx.array, as in `number * x`. (Real MLX's `grad` loses such
    products.)"""
    check_on(lambda mx, lib, x: call(lib.nn, x, number), A)


@pytest.mark.parametrize("call", LOSS_MISTAKES)
def test_loss_mistakes(call) -> None:
    error = check_on(lambda mx, lib, *args: call(lib.nn.losses, *args), A, B, CLASSES)
    assert isinstance(error, ValueError)


LOSS_ARGUMENTS = [
    lambda f, a: f.mse_loss(a, a, "sum"),
    lambda f, a: f.mse_loss(a, a, "sum", 1),
    lambda f, a: f.mse_loss(a, a, "sum", reduction="mean"),
    lambda f, a: f.mse_loss(a, a, *"12345", reduction="mean"),
    lambda f, a: f.triplet_loss(a, a, a, *"123456"),
    lambda f, a: f.huber_loss(a, a, 1.0, "sum", delta=2.0),
    lambda f, a: f.mse_loss(a),
    lambda f, a: f.mse_loss(a, reduction="sum"),
    lambda f, a: f.mse_loss(a, a, weights=a),
]


@pytest.mark.parametrize("call", LOSS_ARGUMENTS)
def test_the_reduction_is_the_last_argument(call) -> None:
    check_on(lambda mx, lib, a: call(lib.nn.losses, a), A, message=True)


INITIALIZERS = [
    lambda mx, f, a: f.constant(0.5)(a),
    lambda mx, f, a: f.constant(2, mx.int32)(a),
    lambda mx, f, a: f.normal(1.0, 0.1)(a),
    lambda mx, f, a: f.uniform(-2, 3)(a),
    lambda mx, f, a: f.uniform(dtype=mx.float16)(a),
    lambda mx, f, a: f.identity()(a[:, :4]),
    lambda mx, f, a: f.glorot_normal()(a),
    lambda mx, f, a: f.glorot_normal()(a.reshape(2, 5, 2), gain=4.0),
    lambda mx, f, a: f.glorot_uniform()(a, 2.0),
    lambda mx, f, a: f.he_normal()(a),
    lambda mx, f, a: f.he_normal()(a.reshape(2, 5, 2), mode="fan_out", gain=5.0),
    lambda mx, f, a: f.he_uniform(mx.bfloat16)(a, "fan_out", 2.0),
    lambda mx, f, a: f.sparse(0.5)(a),
    lambda mx, f, a: f.sparse(0.3, 1.0, 0.1)(a),
    lambda mx, f, a: mx.abs(f.orthogonal(2.0)(a)),
    lambda mx, f, a: mx.abs(f.orthogonal()(a.T)),
]


@pytest.mark.parametrize("call", INITIALIZERS)
def test_initializer(call) -> None:
    def run(mx, lib, a):
        mx.random.seed(5)
        return call(mx, lib.nn.init, a), mx.random.uniform(shape=(2,))

    check_on(run, A, tol=2e-5 if call not in INITIALIZERS[-5:-4] else 2e-2)


def test_namespace() -> None:
    """Assert that every public name of real MLX's packages exists, with the same arguments for layers."""
    import inspect

    import mlx.nn

    import mxcompat.nn

    for own, real in [(mxcompat.nn, mlx.nn), (mxcompat.nn.layers, mlx.nn.layers), (mxcompat.nn.init, mlx.nn.init)]:
        missing = {n for n in dir(real) if not n.startswith("_")} - set(dir(own))
        assert not missing
    for name in dir(mlx.nn):
        cls = getattr(mlx.nn, name)
        if inspect.isclass(cls):
            for of in ("__init__", "__call__"):
                want = inspect.signature(getattr(cls, of)).parameters
                got = inspect.signature(getattr(getattr(mxcompat.nn, name), of)).parameters
                assert list(got) == list(want), f"{name}.{of}"


def _recorded(name: str, plain: Callable[..., Any], seen: list) -> Callable[..., Any]:
    return lambda *args, **options: seen.append((name, args, options)) or plain(*args, **options)


@pytest.mark.parametrize("layer", ["Linear(3, 4)", "Bilinear(3, 4, 5)", "Conv1d(3, 4, 3)", "ConvTranspose2d(3, 4, 3)",
                                   "Embedding(5, 6)", "LSTM(3, 4)", "MultiHeadAttention(8, 2)",
                                   "QuantizedLinear(64, 64)", "QuantizedEmbedding(64, 64)"])  # fmt: skip
def test_initial_weights_are_drawn_as_in_mlx(layer: str) -> None:
    """Compare the calls that draw initial weights, because a program may replace functions of `mx.random`."""

    def calls(mx: Any, lib: Any) -> list:
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            for name in ("uniform", "normal"):
                patch.setattr(mx.random, name, _recorded(name, getattr(mx.random, name), seen))
            eval(f"nn.{layer}", {"nn": lib.nn})
        return seen

    check_on(calls)


DRAWS = {
    "normal(1.0, 2.0)": (3, 4),
    "uniform(-1, 2)": (3, 4),
    "identity()": (3, 3),
    "glorot_normal()": (3, 4),
    "glorot_uniform(dtype)": (3, 4),
    "he_normal(dtype)": (3, 4),
    "he_uniform()": (3, 4),
    "sparse(0.5, 1.0, 2.0, dtype)": (3, 4),
    "orthogonal(2.0, dtype)": (3, 4),
}


@pytest.mark.parametrize("initializer", DRAWS)
def test_initializers_draw_as_in_mlx(initializer: str) -> None:
    def calls(mx: Any, lib: Any) -> list:
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            for space, names in ((mx.random, ("uniform", "normal")), (mx, ("eye",))):
                for name in names:
                    patch.setattr(space, name, _recorded(name, getattr(space, name), seen))
            initialize = eval(f"init.{initializer}", {"init": lib.nn.init, "dtype": mx.float16})
            return initialize(mx.zeros(DRAWS[initializer])).shape, seen

    check_on(calls)


@pytest.mark.parametrize("layer", ["QuantizedLinear(64, 32)", "QuantizedLinear(64, 32, False, 32, 8)",
                                   "QuantizedLinear(64, 32, mode='mxfp4')", "QuantizedEmbedding(4, 64)",
                                   "QQLinear(64, 32)", "QQLinear(64, 32).eval()", "Linear(64, 32).to_quantized(32)",
                                   "Embedding(4, 64).to_quantized()", "QuantizedShardedToAllLinear(64, 32)",
                                   "GroupNorm(2, 4, pytorch_compatible=True)", "LayerNorm(4)", "RMSNorm(4)",
                                   "InstanceNorm(4)"])  # fmt: skip
def test_layers_call_as_mlxs_do(layer: str) -> None:
    """Compare the calls that layers make, because a program may replace those functions."""
    functions = {"quantize", "quantized_matmul", "dequantize", "qqmm"}, {"layer_norm", "rms_norm"}

    def calls(mx: Any, lib: Any) -> list:
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            for space, names in zip((mx, mx.fast), functions, strict=True):
                for name in names:
                    patch.setattr(space, name, _recorded(name, getattr(space, name), seen))
            module = eval(f"nn.{layer}", {"nn": lib.nn})
            module(mx.array([1, 2]) if "Embedding" in layer else mx.ones((2, 3, 4 if "Norm" in layer else 64)))
        shapes = [[x.shape if isinstance(x, mx.array) else x for x in args] for _, args, _ in seen]
        options = [
            {k: x.shape if isinstance(x, mx.array) else x for k, x in keywords.items()} for _, _, keywords in seen
        ]
        return [name for name, _, _ in seen], shapes, options

    check_on(calls)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_uniform", "glorot_normal", "he_normal"])
@pytest.mark.parametrize("shape", [(5, 7), (64, 10), (7, 3, 3, 11), (128, 784)])
def test_limits_are_those_of_mlx_to_the_last_digit(name: str, shape: tuple[int, ...]) -> None:
    def limits(mx: Any, lib: Any) -> list:
        seen = []
        with pytest.MonkeyPatch.context() as patch:
            plain = mx.random.uniform, mx.random.normal
            patch.setattr(mx.random, "uniform", lambda *a, **k: seen.append(repr(a[:2])) or plain[0](*a, **k))
            patch.setattr(mx.random, "normal", lambda *a, **k: seen.append(repr(k["scale"])) or plain[1](*a, **k))
            for gain in (1.0, 2.0, 0.37):
                getattr(lib.nn.init, name)()(mx.zeros(shape), gain=gain)
        return seen

    check_on(limits)


@pytest.mark.parametrize(("name", "ndim"), [("Dropout", 2), ("Dropout2d", 4), ("Dropout3d", 5)])
def test_dropout_draws_as_mlx_does(name: str, ndim: int) -> None:
    """Compare the call that dropout makes, because a program may replace `bernoulli`."""

    def calls(mx: Any, lib: Any) -> list:
        seen, plain = [], mx.random.bernoulli
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mx.random, "bernoulli", lambda *a, **k: seen.append(repr((a, k))) or plain(*a, **k))
            getattr(lib.nn, name)(0.3)(mx.ones([3] * ndim))
        return seen

    check_on(calls)


def test_a_setting_of_a_loss_that_is_another_each_time(xla_only):
    """Assert that a loss with a new setting at each call stops compiling after a few."""
    model, x, y = OURS.nn.Linear(8, 4), ours.ones((5, 8)), ours.array([0, 1, 2, 3, 0])

    def loss(x, y, smoothing):
        return OURS.nn.losses.cross_entropy(model(x), y, label_smoothing=smoothing, reduction="mean")

    step = OURS.nn.value_and_grad(model, loss)
    counts = []
    for k in range(30):
        ours.eval(step(x, y, 0.01 + k * 0.003))
        counts.append(events.stats.compiles)
    assert counts[-1] == counts[14]
