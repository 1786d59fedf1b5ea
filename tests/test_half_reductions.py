"""Reductions and scans in half precision, in NumPy and compiled, compared with float64.

The error is at most one rounding, or real MLX's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import ml_dtypes
import mlx.core as real
import mlx.nn as real_nn
import numpy as np
import pytest

import mxcompat.core as ours
from mxcompat import nn as our_nn
from mxcompat.ext.debug import host_disabled
from tests.thinned import thinned

KINDS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
RNG = np.random.default_rng(0)
DATA = {
    "normal": RNG.normal(size=(16, 256)),
    "positive": RNG.uniform(0.5, 1.5, (16, 256)),
    "large": RNG.uniform(200, 400, (16, 256)),
    "offset": 1000 + RNG.normal(size=(16, 256)),
    "long": RNG.uniform(0, 1, (4, 5000)),
}


def lse(x: np.ndarray) -> np.ndarray:
    shift = x.max(-1, keepdims=True)
    return np.log(np.exp(x - shift).sum(-1, keepdims=True)) + shift


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - lse(x))


def away(x: np.ndarray) -> np.ndarray:
    return np.abs(x - x[::-1])


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda mx, nn, x: x.sum(-1), lambda x: x.sum(-1)),
    "sum of all": (lambda mx, nn, x: x.sum(), lambda x: x.sum()),
    "sum of columns": (lambda mx, nn, x: x.sum(0), lambda x: x.sum(0)),
    "prod": (lambda mx, nn, x: x[:, :40].prod(-1), lambda x: x[:, :40].prod(-1)),
    "mean": (lambda mx, nn, x: x.mean(-1), lambda x: x.mean(-1)),
    "mean of columns": (lambda mx, nn, x: x.mean(0), lambda x: x.mean(0)),
    "var": (lambda mx, nn, x: x.var(-1), lambda x: x.var(-1)),
    "var, unbiased": (lambda mx, nn, x: mx.var(x, -1, ddof=1), lambda x: x.var(-1, ddof=1)),
    "std": (lambda mx, nn, x: mx.std(x, -1), lambda x: x.std(-1)),
    "median": (lambda mx, nn, x: mx.median(x, -1), lambda x: np.median(x, -1)),
    "max": (lambda mx, nn, x: x.max(-1), lambda x: x.max(-1)),
    "min": (lambda mx, nn, x: x.min(0), lambda x: x.min(0)),
    "logsumexp": (lambda mx, nn, x: mx.logsumexp(x, -1, keepdims=True), lse),
    "softmax": (lambda mx, nn, x: mx.softmax(x, -1), softmax),
    "precise softmax": (lambda mx, nn, x: mx.softmax(x, -1, precise=True), softmax),
    "log_softmax": (lambda mx, nn, x: nn.log_softmax(x), lambda x: x - lse(x)),
    "cumsum": (lambda mx, nn, x: mx.cumsum(x, -1), lambda x: x.cumsum(-1)),
    "cumsum, reverse": (lambda mx, nn, x: mx.cumsum(x, 0, reverse=True), lambda x: x[::-1].cumsum(0)[::-1]),
    "cumsum, exclusive": (lambda mx, nn, x: mx.cumsum(x, -1, inclusive=False), lambda x: x.cumsum(-1) - x),
    "cumprod": (lambda mx, nn, x: mx.cumprod(x[:, :40], -1), lambda x: x[:, :40].cumprod(-1)),
    "cummax": (lambda mx, nn, x: mx.cummax(x, -1), lambda x: np.maximum.accumulate(x, -1)),
    "logcumsumexp": (lambda mx, nn, x: mx.logcumsumexp(x, -1), lambda x: np.logaddexp.accumulate(x, -1)),
    "trace": (lambda mx, nn, x: mx.trace(x), np.trace),
    "norm": (lambda mx, nn, x: mx.linalg.norm(x, axis=-1), lambda x: np.linalg.norm(x, axis=-1)),
    "Frobenius norm": (lambda mx, nn, x: mx.linalg.norm(x), np.linalg.norm),
    "1-norm": (lambda mx, nn, x: mx.linalg.norm(x, 1, axis=-1), lambda x: np.abs(x).sum(-1)),
    "1-norm of a matrix": (lambda mx, nn, x: mx.linalg.norm(x, 1), lambda x: np.linalg.norm(x, 1)),
    "largest": (lambda mx, nn, x: mx.linalg.norm(x, float("inf"), axis=-1), lambda x: np.abs(x).max(-1)),
    "inner": (lambda mx, nn, x: mx.inner(x[0], x[1]), lambda x: x[0] @ x[1]),
    "matmul": (lambda mx, nn, x: x @ x.T, lambda x: x @ x.T),
    "product with a vector": (lambda mx, nn, x: x @ x[0], lambda x: x @ x[0]),
    "einsum": (lambda mx, nn, x: mx.einsum("ij,ij->i", x, x), lambda x: (x * x).sum(-1)),
    "tensordot": (lambda mx, nn, x: mx.tensordot(x, x, 2), lambda x: (x * x).sum()),
    "rms_norm": (
        lambda mx, nn, x: mx.fast.rms_norm(x, None, 1e-5),
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    ),
    "layer_norm": (
        lambda mx, nn, x: mx.fast.layer_norm(x, None, None, 1e-5),
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    ),
    "mse_loss": (lambda mx, nn, x: nn.losses.mse_loss(x, x[::-1]), lambda x: (away(x) ** 2).mean()),
    "l1_loss": (lambda mx, nn, x: nn.losses.l1_loss(x, x[::-1]), lambda x: away(x).mean()),
    "huber_loss": (
        lambda mx, nn, x: nn.losses.huber_loss(x, x[::-1], reduction="mean"),
        lambda x: np.where(away(x) <= 1, 0.5 * away(x) ** 2, away(x) - 0.5).mean(),
    ),
    "cross_entropy": (
        lambda mx, nn, x: nn.losses.cross_entropy(x, mx.zeros(x.shape[:1], mx.int32), reduction="mean"),
        lambda x: (lse(x)[:, 0] - x[:, 0]).mean(),
    ),
}


def value(mx: Any, nn: Any, reduction: Callable[..., Any], bits: np.ndarray, dtype: str) -> np.ndarray:
    result = reduction(mx, nn, mx.array(bits).view(getattr(mx, dtype)))
    assert str(result.dtype).endswith(dtype)
    return np.array(result.astype(mx.float32)).astype(np.float64)


@pytest.mark.parametrize(("name", "dtype", "tier"), thinned(2, REDUCTIONS, KINDS, ["numpy", "xla"]))
def test_error(name: str, dtype: str, tier: str) -> None:
    """Assert an error of slightly over half a unit, or real MLX's. Below XLA's smallest number any error passes."""
    reduction, exact = REDUCTIONS[name]
    kind = KINDS[dtype]
    info = ml_dtypes.finfo(kind)
    for label, data in DATA.items():
        x = data.astype(kind)
        bits = x.view(np.uint16)
        with np.errstate(all="ignore"):
            want = np.asarray(exact(x.astype(np.float64)))
            best = want.astype(kind).astype(np.float64)
            theirs = value(real, real_nn, reduction, bits, dtype)
            with nullcontext() if tier == "numpy" else host_disabled():
                got = value(ours, our_nn, reduction, bits, dtype)
            # values near the mean are differences of float32 numbers
            lost = 2.0**-22 * np.abs(want).max() if name == "layer_norm" else 0.0
            ulp = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(want), float(info.smallest_normal)))) - info.nmant)
            allowed = np.fmax(0.51 * ulp + lost, np.where(np.isfinite(theirs), np.abs(theirs - want), 0))
            near = np.abs(got - want) <= allowed
        tiny = np.abs(want) < 2.0**-120
        right = near | (got == best) | tiny | (np.isnan(got) & np.isnan(best))
        assert right.all(), f"{label}: {got[~right][:3]}, exactly {want[~right][:3]}, real MLX {theirs[~right][:3]}"


@pytest.mark.parametrize("tier", [nullcontext, host_disabled], ids=["numpy", "xla"])
def test_what_overflows(tier: Any) -> None:
    """Assert that sums beyond float16 are infinite on both sides, and means finite. Real MLX adds them in float16."""
    with tier():
        x = ours.full((5000,), 30, ours.float16)
        assert (x.sum().item(), ours.cumsum(x)[-1].item()) == (np.inf, np.inf)
        large = ours.full((5000,), 60000, ours.float16)
        assert large.mean().item() == 60000
        assert large.std().item() <= 60000 * 2.0**-24  # bounded by the rounding of the mean
        assert large.var().item() <= (60000 * 2.0**-24) ** 2
        assert ours.full((5000,), 1, ours.float16).sum().item() == 5000
    assert real.full((5000,), 30, real.float16).sum().item() == np.inf
    assert real.full((5000,), 60000, real.float16).mean().item() == np.inf
