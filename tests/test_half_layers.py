"""Layers, losses, optimizers and initializers in half precision, compared with real MLX.

Parameters have the same dtype or float32.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.nn_oracle import check_on, ordered, plain
from tests.test_nn import EDGES, FUNCTIONS, LAYERS, LOSSES, A, X
from tests.test_optimizers import OPTIMIZERS, PARAMETERS, arrays

HALF = ("float16", "bfloat16")
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2}
"""Tolerance of two roundings: real MLX rounds after every op, and adds products in another order."""


def one_precision(build: str) -> bool:
    """Return True for layers without parameters, or whose parameters have a fixed dtype."""
    return "Quantized" not in build


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("build", "key"), [layer for layer in LAYERS if one_precision(layer[0])])
def test_layer(build: str, key: str, dtype: str) -> None:
    """Compare a layer's output in training and evaluation, its gradients, and its state."""

    def run(mx, lib, x):
        kind = getattr(mx, dtype)
        x = x.astype(kind) if x.dtype == mx.float32 else x
        results = []
        for parameters in (kind, mx.float32):
            mx.random.seed(3)
            layer = eval(f"nn.{build}", {"nn": lib.nn})
            layer.set_dtype(parameters)

            def loss(parameters, x, layer=layer):
                layer.update(parameters)
                y = layer(x)
                return sum(a.astype(mx.float32).sum() for a in (y if isinstance(y, tuple) else (y,)))

            output = layer(x)
            argnums = (0, 1) if x.dtype == kind else 0
            value, gradients = mx.value_and_grad(loss, argnums)(layer.trainable_parameters(), x)
            kept = plain(layer.parameters())
            layer.eval()
            results.append((output, layer(x), kept, lib.utils.tree_map(lambda g: g.dtype, gradients), value.dtype))
        return results

    check_on(run, X[key], tol=TOLERANCE[dtype])


CALLS = [
    lambda mx, nn, x: nn.Bilinear(6, 6, 3),
    lambda mx, nn, x: nn.MultiHeadAttention(6, 2),
    lambda mx, nn, x: nn.TransformerEncoder(1, 6, 2),
    lambda mx, nn, x: nn.TransformerDecoder(1, 6, 2),
    lambda mx, nn, x: nn.Transformer(6, 2, 1, 1, dropout=0.2),
]
ARGUMENTS = [
    lambda x: (x, x * 2),
    lambda x: (x, x, x),
    lambda x: (x, None),
    lambda x: (x, x, None, None),
    lambda x: (x, x, None, None, None),
]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("build", "arguments"), list(zip(CALLS, ARGUMENTS, strict=True)))
def test_layer_of_several_arguments(build, arguments, dtype: str) -> None:
    def run(mx, lib, x):
        kind = getattr(mx, dtype)
        results = []
        for parameters in (kind, mx.float32):
            mx.random.seed(1)
            layer = build(mx, lib.nn, x)
            layer.set_dtype(parameters)
            results.append(layer(*arguments(x[None].astype(kind))))
        return results

    check_on(run, X["row"], tol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_continue_from_a_state(name: str, dtype: str) -> None:
    def run(mx, lib, x, h):
        kind = getattr(mx, dtype)
        results = []
        for parameters in (kind, mx.float32):
            for state in (kind, mx.float32):
                mx.random.seed(0)
                layer = getattr(lib.nn, name)(6, 3)
                layer.set_dtype(parameters)
                s = h.astype(state)
                results.append(layer(x.astype(kind), s, s * 2) if name == "LSTM" else layer(x.astype(kind), s))
        return results

    check_on(run, X["seq"], X["row"][:2, :3], tol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("name", "extra"), FUNCTIONS)
def test_activation(name: str, extra: tuple, dtype: str) -> None:
    def run(mx, lib, x):
        f = getattr(lib.nn, name)
        x = x.astype(getattr(mx, dtype))
        return f(x, *extra), mx.grad(lambda x: f(x, *extra).astype(mx.float32).sum())(x).dtype

    check_on(run, EDGES.reshape(8, 2), tol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(("name", "args", "kwargs"), LOSSES)
def test_loss(name: str, args: tuple, kwargs: dict, dtype: str) -> None:
    """Compare a loss in half precision, and with targets in float32."""

    def run(mx, lib, *args):
        f = getattr(lib.nn.losses, name)
        half = [x.astype(getattr(mx, dtype)) if x.dtype == mx.float32 else x for x in args]
        options = {k: mx.array(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        results = []
        for operands in (half, [half[0], *args[1:]]):
            results.append([f(*operands, **options, reduction=r) for r in ("none", "mean", "sum")])
            gradient = mx.grad(lambda x, rest=operands[1:]: f(x, *rest, **options, reduction="mean").astype(mx.float32))
            results.append(gradient(operands[0]))
        return results

    check_on(run, *args, tol=TOLERANCE[dtype] * 2)  # sums of rounded losses


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("build", OPTIMIZERS)
def test_optimizer(build: str, dtype: str) -> None:
    """Compare parameters and gradients in half precision, and with either of them in float32."""

    def run(mx, lib):
        results = []
        for of_parameters, of_gradients in ((dtype, dtype), (dtype, "float32"), ("float32", dtype)):
            optimizer = eval(f"optim.{build}", {"optim": lib.optim})
            parameters = arrays(mx, PARAMETERS, of_parameters)
            for step in range(2):
                gradients = lib.utils.tree_map(lambda p, k=step: mx.sin(3 * p + k), arrays(mx, PARAMETERS))
                gradients = lib.utils.tree_map(lambda g, d=of_gradients: g.astype(getattr(mx, d)), gradients)
                parameters = optimizer.apply_gradients(gradients, parameters)
            results.append(ordered((parameters, dict(optimizer.state))))
        return results

    check_on(run, tol=3e-2)  # real MLX rounds after every op, and an update of 0.1 is a root's reciprocal


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    "name",
    ["constant", "normal", "uniform", "identity", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
     "sparse", "orthogonal"],
)  # fmt: skip
def test_initializer(name: str, dtype: str) -> None:
    def run(mx, lib, a):
        mx.random.seed(5)
        first = {"constant": (0.3,), "sparse": (0.5,)}.get(name, ())
        result = getattr(lib.nn.init, name)(*first, dtype=getattr(mx, dtype))(a[:, :4])
        return abs(result) if name == "orthogonal" else result

    check_on(run, A, tol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [*HALF, "float32"])
@pytest.mark.parametrize(
    "build", ["InstanceNorm(3)", "InstanceNorm(3, affine=True)", "GroupNorm(3, 3)", "LayerNorm(3)"]
)
def test_norms_of_large_values(build: str, dtype: str) -> None:
    """Compare norms of 512, whose squares exceed float16."""

    def run(mx, lib, x):
        return eval(f"nn.{build}", {"nn": lib.nn})(x.astype(getattr(mx, dtype)))

    rows = np.where(np.arange(2 * 4 * 4 * 3) % 2 == 0, 512, -512).reshape(2, 4, 4, 3).astype(np.float32)
    check_on(run, rows, tol=TOLERANCE.get(dtype))


@pytest.mark.parametrize("dtype", [*HALF, "float32"])
@pytest.mark.parametrize("size", [1e4, 1e8, 1e36, -1e4, -1e36])
def test_logarithms_of_large_equal_scores(size: float, dtype: str) -> None:
    def run(mx, lib, x):
        x = x.astype(getattr(mx, dtype))
        losses = lib.nn.losses
        return (
            lib.nn.log_softmax(x), lib.nn.LogSoftmax()(x), lib.nn.log_sigmoid(x), mx.logsumexp(x, axis=-1),
            losses.cross_entropy(x, mx.array([1])), losses.cross_entropy(x, mx.full((1, 4), 0.25, x.dtype)),
            losses.log_cosh_loss(x, 0 * x),
            mx.grad(lambda x: lib.nn.log_softmax(x)[0, 0])(x),
        )  # fmt: skip

    check_on(run, np.full((1, 4), size, np.float32))
