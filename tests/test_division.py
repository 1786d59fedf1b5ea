"""Division is IEEE 754's, also compiled, where XLA would multiply by the reciprocal."""

from __future__ import annotations

import numpy as np
import pytest

import mxcompat.core as mx

RNG = np.random.default_rng(0)
W = RNG.uniform(0.1, 9, (64, 33)).astype(np.float32)
S = RNG.uniform(0.1, 9, (64, 1)).astype(np.float32)

CASES = {
    "column": (lambda w, s: w / s, lambda w, s: w / s),
    "row": (lambda w, s: w / w[0], lambda w, s: w / w[0]),
    "number": (lambda w, s: w / 7, lambda w, s: w / w.dtype.type(7)),
    "scalar": (lambda w, s: w / s[0, 0], lambda w, s: w / s[0, 0]),
    "of quotients": (lambda w, s: (w / s) / (s / w), lambda w, s: (w / s) / (s / w)),
    "by a root": (lambda w, s: w / mx.sqrt(w), lambda w, s: w / np.sqrt(w)),
    "reciprocal": (lambda w, s: mx.reciprocal(mx.sqrt(w)), lambda w, s: w.dtype.type(1) / np.sqrt(w)),
    "floored": (lambda w, s: w // s, lambda w, s: np.floor(w / s)),
    "by the largest": (lambda w, s: w / mx.max(w, axis=0), lambda w, s: w / w.max(0)),
    "vmap": (lambda w, s: mx.vmap(lambda w, t: w / t, (0, None))(w, s[0]), lambda w, s: w / s[0]),
    "gradient": (lambda w, s: mx.grad(lambda w: (w / s).sum())(w), lambda w, s: 0 * w + w.dtype.type(1) / s),
    "compiled": (mx.compile(lambda w, s: (w / s) / s), lambda w, s: (w / s) / s),
}


@pytest.mark.usefixtures("xla_only")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", CASES)
def test_exact(case: str, dtype: type) -> None:
    ours, numpy = CASES[case]
    w, s = W.astype(dtype), S.astype(dtype)
    np.testing.assert_array_equal(np.array(ours(mx.array(w), mx.array(s))), numpy(w, s))


@pytest.mark.usefixtures("xla_only")
def test_of_itself_is_one() -> None:
    columns = mx.array(W).square().sum(axis=1, keepdims=True)
    assert mx.all(mx.broadcast_to(columns, W.shape) / columns == 1).item()
