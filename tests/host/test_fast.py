"""The NumPy rules of `mx.fast`, compared with XLA."""

import ml_dtypes  # noqa: F401  # for the dtype named bfloat16
import numpy as np
import pytest

from mxcompat._array.array import wrap
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.rules import BATCH, HOST, LOWERING, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE
from mxcompat._ops.fast.attention import ATTENTION

from .harness import check, data

FLOATS = ("float32", "bfloat16", "float16", "float64")
SMOOTH = ("float32", "bfloat16")


def inputs(*shapes, dtype="float32"):
    return [data(shape, dtype, seed) for seed, shape in enumerate(shapes)]


def values(call, *xs, **kwargs):
    check(call, *xs, grad=False, jvp=False, batch=False, **kwargs)


def test_norms_of_each_dtype():
    def every(mx, w, b, n, *xs):
        ys = [f for x in xs for f in (mx.fast.rms_norm(x, None, 1e-5), mx.fast.layer_norm(x, None, None, 1e-5))]
        ys += [y for x in xs for y in (mx.fast.rms_norm(x, w, 1e-2), mx.fast.layer_norm(x, b, w, 1e-2))]
        return [*ys, mx.fast.layer_norm(xs[1], n, b, 0.1), mx.fast.rms_norm(xs[0][0], n, 0.1)]

    xs = [data((2, 8), dtype, seed) for seed, dtype in enumerate(FLOATS)]
    values(every, data((8,), "float32", 4), data((8,), "bfloat16", 5), data((8,), "int8", 6), *xs)


@pytest.mark.parametrize("dtype", SMOOTH)
def test_derivatives_of_norms(dtype):
    def every(mx, x, w, b):
        return [mx.fast.rms_norm(x, w, 1e-2), mx.fast.rms_norm(x, None, 1e-2), mx.fast.layer_norm(x, w, b, 1e-2),
                mx.fast.layer_norm(x, None, b, 1e-2), mx.fast.layer_norm(x, None, None, 1e-2)]  # fmt: skip

    check(every, *inputs((2, 3, 6), (6,), (6,), dtype=dtype), batch=False)


@pytest.mark.parametrize("dtype", SMOOTH)
def test_cross_entropy(dtype):
    x = data((2, 4, 5), dtype)
    x[0, 0, 1] = -np.inf
    targets = np.array([[0, 4, -1, -5], [1, 2, 3, 3]], np.int32)
    check(lambda mx, x, k: mx.fast.cross_entropy(x, k), x, targets, batch=False)


def test_cross_entropy_out_of_range():
    x = data((4, 3), "float32")
    check(lambda mx, x, k: mx.fast.cross_entropy(x, k), x, np.array([3, 0, -4, 200], np.int64), batch=False)
    values(lambda mx, x, k: mx.fast.cross_entropy(x, k), x.astype(np.float64), np.array([3, 0, 2, 200], np.uint8))
    values(lambda mx, x, k: mx.fast.cross_entropy(x, k), x[:0], np.zeros(0, np.int32))


@pytest.mark.parametrize("traditional", [False, True])
def test_rope(traditional):
    def turn(mx, x, dims=6, base=10000.0, scale=1.0, offset=3, freqs=None):
        return mx.fast.rope(x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)

    def every(mx, x, half):
        return [turn(mx, x), turn(mx, half), turn(mx, x, 4, scale=0.5)]

    def tables(mx, x, freqs, offset):
        return [turn(mx, x, base=None, freqs=freqs), turn(mx, x, 4, offset=offset), turn(mx, x, offset=offset[1:])]

    x, half = data((2, 3, 4, 6), "float32"), data((1, 2, 3, 6), "bfloat16")
    check(every, x, half, batch=False)
    values(tables, x, data((3,), "float32", low=1, high=3), np.array([5, 100], np.int32))


HEADS = {"alone": (2, 2), "shared": (4, 2), "one": (3, 1)}


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("causal", [None, "causal"])
def test_attention(heads, causal):
    n, groups = HEADS[heads]

    def call(mx, q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=causal)

    q, k, v = inputs((2, n, 3, 4), (2, groups, 5, 4), (2, groups, 5, 2))
    # the error of a softmax between two products
    check(call, q, k, v, batch=False, jvp=heads == "shared", tolerance=4e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_attention_of_each_dtype(dtype):
    def call(mx, q, k, v, mask):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=mask)

    qkv = inputs((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 2), dtype=dtype)
    check(call, *qkv, data((3, 5), "bool"), jvp=False, batch=False, grad=dtype == "bfloat16")


@pytest.mark.parametrize("shape", [(5,), (3, 5), (4, 3, 1), (1, 1, 5), (2, 1, 1, 5), (2, 4, 3, 5)])
def test_masks(shape):
    def call(mx, q, k, v, mask, keep):
        def attend(mask):
            return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=mask)

        return attend(mask), attend(keep)

    operands = inputs((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2), shape)
    keep = data(shape, "bool")
    keep[..., -1] = False
    keep[tuple([0] * (len(shape) - 1))] = False  # a row without keys
    check(call, *operands, keep, grad=len(shape) % 2 == 0, jvp=len(shape) == 3, batch=False, tolerance=4e-6)


@pytest.mark.parametrize("causal", [None, "causal"])
def test_sinks(causal):
    def call(mx, q, k, v, sinks):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=causal, sinks=sinks)

    check(call, *inputs((2, 4, 3, 4), (2, 2, 3, 4), (2, 2, 3, 2), (4,)), batch=False, tolerance=4e-6)


@pytest.mark.parametrize(
    ("length", "how"), [(2, "plain"), (3, "causal"), (6, "causal"), (3, "mask"), (2, "keep"), (5, "sinks")]
)
def test_a_part_of_the_keys(length, how):
    masked = how in ("mask", "keep")

    def call(mx, q, k, v, *rest):
        scale, n = mx.array(0.2), mx.array(length)
        nodes = [x._node for x in (q, k, v, scale, *rest[:masked], n, *rest[masked:])]
        return wrap(apply(ATTENTION, tuple(nodes), (how == "causal", masked, how == "sinks", True)))

    operands = inputs((1, 4, 2, 4), (1, 2, 6, 4), (1, 2, 6, 2))
    rest = {"mask": [data((2, 6), "float32")], "keep": [data((2, 1), "bool")], "sinks": [data((4,), "float32")]}
    check(call, *operands, *rest.get(how, []), jvp=False, batch=False, tolerance=4e-6)


def test_attention_to_nothing():
    def call(mx, q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5)

    check(call, *inputs((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 4)), batch=False)
    check(call, *inputs((1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 4)), batch=False)


@pytest.mark.parametrize(("wide", "masked"), [(False, True), (True, False)])
def test_gated_delta_update(wide, masked):
    def call(mx, q, k, v, gamma, beta, *rest):
        state = rest[0] if wide else None
        return mx.fast.gated_delta_update(q, k, v, gamma, beta, state, mask=rest[-1] if masked else None)

    b, t, heads, groups, width, size = 2, 3, 4, 2, 3, 5
    q, k, v = inputs((b, t, groups, width), (1, t, groups, width), (b, t, heads, size))
    gamma = data((b, t, heads, width) if wide else (b, t, 1), "float32", 3, low=0, high=1)
    rest = [data((b, heads, size, width), "float32", 5)] if wide else []
    rest += [np.array([[True, False, True], [False, True, True]])] if masked else []
    beta = data((1, t, heads), "float32", 4)
    # the errors of three steps of products add up
    check(call, q, k, v, gamma, beta, *rest, jvp=False, batch=False, tolerance=1e-5)
    values(call, *[x.astype("bfloat16") for x in (q, k)], v, gamma, beta, *rest)


def mapped(call, *xs):
    check(call, *xs, grad=False, jvp=False)


def test_norms_of_each():
    def call(mx, x, w, b):
        return [mx.fast.rms_norm(x, w, 1e-2), mx.fast.layer_norm(x, w, b, 1e-2), mx.fast.layer_norm(x, None, b, 1e-2)]

    mapped(call, *inputs((2, 6), (6,), (6,)))
    mapped(call, data((2, 6), "float16"), data((6,), "bfloat16"), data((6,), "float16"))


def test_cross_entropy_of_each():
    mapped(lambda mx, x, k: mx.fast.cross_entropy(x, k), data((4, 3), "float32"), np.array([0, 2, -1, 1], np.int32))


@pytest.mark.parametrize("shape", [(5,), (2, 1, 1, 5)])
def test_attention_of_each(shape):
    def call(mx, q, k, v, mask):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask=mask)

    mapped(call, *inputs((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)), data(shape, "bool", 1))


@pytest.mark.parametrize("shape", [(1,), (2,)])
def test_rope_of_each(shape):
    def call(mx, x, offset):
        return mx.fast.rope(x, 4, traditional=False, base=10.0, scale=1.0, offset=offset)

    mapped(call, data((2, 3, 4, 6), "float32"), data(shape, "int32"))


WITHOUT = {
    "PULLBACK": {"metal_kernel"},
    "PUSHFORWARD": {"gated_delta_update", "metal_kernel"},
    "BATCH": {"gated_delta_update", "metal_kernel"},
}
"""Ops without a rule. The delta rule rarely needs forward mode, and its two results cannot be reshaped in one node.
JAX transforms kernels."""


def test_every_op_has_its_rules():
    family = {op for op in TABLE.values() if LOWERING[op].__module__.startswith("mxcompat._ops.fast")}
    assert len(family) == 7
    for name, rules in (("HOST", HOST), ("PULLBACK", PULLBACK), ("PUSHFORWARD", PUSHFORWARD), ("BATCH", BATCH)):
        assert {op.name for op in family if op not in rules} == WITHOUT.get(name, set()), name
