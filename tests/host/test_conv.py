"""Host rules of convolutions."""

import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import check, data

PLAIN = [
    ((2, 7, 3), (4, 3, 3), {}), ((2, 7, 3), (4, 3, 3), {"stride": 2, "padding": 1, "dilation": 2}),
    ((1, 6, 5, 2), (3, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2)}), ((2, 5, 5, 2), (3, 1, 1, 2), {}),
    ((1, 6, 6, 4), (6, 3, 3, 2), {"groups": 2, "padding": 1}), ((1, 6, 6, 3), (6, 2, 2, 1), {"groups": 3, "stride": 2}),
    ((2, 6, 4), (4, 3, 1), {"groups": 4}), ((1, 4, 5, 4, 2), (3, 2, 2, 2, 2), {"padding": (1, 0, 1)}),
    ((2, 9, 8, 3), (6, 5, 4, 1), {"groups": 3, "padding": 2}),
    ((1, 13, 12, 4), (4, 4, 3, 1), {"groups": 4, "stride": (2, 3), "dilation": (2, 1), "padding": (1, 3)}),
    ((2, 30, 3), (6, 11, 1), {"groups": 3, "stride": 2}),
]  # fmt: skip


def conv(spatial, **sizes):
    return lambda mx, x, w: getattr(mx, f"conv{spatial}d")(x, w, **sizes)


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_conv(case):
    shape, kernel, sizes = case
    check(conv(len(shape) - 2, **sizes), data(shape, "float32"), data(kernel, "float32", 1), batch=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_conv_of_other_dtypes(dtype):
    for case in (PLAIN[1], PLAIN[5]):
        shape, kernel, sizes = case
        check(conv(len(shape) - 2, **sizes), data(shape, dtype), data(kernel, dtype, 1), jvp=False, batch=False)


TRANSPOSED = [
    ((2, 5, 3), (4, 3, 3), {}), ((1, 5, 3), (4, 3, 3), {"stride": 3, "padding": 1, "output_padding": 1}),
    ((1, 4, 5, 2), (3, 3, 2, 2), {"stride": (2, 3), "padding": (3, 0), "dilation": (1, 2)}),
    ((1, 4, 4, 4), (4, 3, 3, 2), {"stride": 2, "groups": 2}), ((1, 4, 4, 4), (4, 3, 3, 1), {"stride": 2, "groups": 4}),
]  # fmt: skip


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_conv_transpose(case):
    shape, kernel, sizes = case
    spatial = len(shape) - 2
    x, w = data(shape, "float32"), data(kernel, "float32", 1)
    check(lambda mx, x, w: getattr(mx, f"conv_transpose{spatial}d")(x, w, **sizes), x, w, batch=False)


def test_conv_general_with_negative_padding_and_nothing_left():
    x, w = data((1, 6, 2), "float32"), data((3, 2, 2), "float32", 1)
    sizes = {"stride": 2, "padding": ([-1], [2]), "kernel_dilation": 2, "input_dilation": 2, "flip": True}
    check(lambda mx, x, w: mx.conv_general(x, w, **sizes), x, w, batch=False)
    check(lambda mx, x, w: mx.conv_general(x, w), data((0, 6, 2), "float32"), w, batch=False)
    check(lambda mx, x, w: mx.conv_general(x, w), x, data((3, 2, 2), "complex64", 1), batch=False)
    check(lambda mx, x, w: mx.conv_general(x, w), x, data((3, 2, 2), "int8", 1), batch=False)


def test_conv_over_more_inputs():
    w = data((3, 2, 2), "float32", 1)
    check(lambda mx, x: mx.conv1d(x, mx.array(w)), data((2, 6, 2), "float32"), grad=False, jvp=False)


def test_conv_of_more_patches_than_are_made_at_a_time(monkeypatch):
    monkeypatch.setattr("mxcompat._ops.conv.primitive_rules.PIECE_BYTES", 200)
    for case in (PLAIN[0], PLAIN[4]):
        shape, kernel, sizes = case
        x = np.concatenate([data(shape, "float32", k) for k in range(3)])
        check(conv(len(shape) - 2, **sizes), x, data(kernel, "float32", 1), jvp=False, batch=False)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolve(mode):
    for dtype in ("float32", "bfloat16", "float64") if mode == "same" else ("float32",):
        for left, right in [(6, 3), (3, 6), (5, 4), (1, 1)]:
            x, y = data((left,), dtype), data((right,), dtype, 1)
            check(lambda mx, x, y: mx.convolve(x, y, mode), x, y, batch=False)
    check(lambda mx, x, y: mx.convolve(x, y, mode), data((6,), "float32"), data((3,), "complex64"), batch=False)


@pytest.mark.parametrize("size", [1, 8, 64, 12, 24, 20, 28])
def test_hadamard_transform(size):
    for dtype in ("float32", "float16", "complex64", "int32") if size == 24 else ("float32",):
        check(lambda mx, x: mx.hadamard_transform(x), data((2, size), dtype), batch=False)
        check(lambda mx, x: mx.hadamard_transform(x, scale=0.5), data((size,), dtype), batch=False)


def test_rules():
    ops = {"conv", "convolve", "hadamard_transform"}
    for rules in (HOST, PULLBACK, PUSHFORWARD, BATCH):
        missing = {name for name in ops if TABLE[name] not in rules}
        # These convolve one signal at a time, so a mapped axis has no op to express it.
        assert missing == ({"convolve", "hadamard_transform"} if rules is BATCH else set())
