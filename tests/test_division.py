"""Division follows IEEE 754, also in compiled code, where XLA would multiply by the reciprocal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from tests.oracle import check

RNG = np.random.default_rng(0)
W = RNG.uniform(0.1, 9, (64, 33)).astype(np.float32)
S = RNG.uniform(0.1, 9, (64, 1)).astype(np.float32)

CASES = {
    "column": (lambda w, s: w / s, lambda w, s: w / s),
    "row": (lambda w, s: w / w[0], lambda w, s: w / w[0]),
    "number": (lambda w, s: w / 7, lambda w, s: w / w.dtype.type(7)),
    "scalar": (lambda w, s: w / s[0, 0], lambda w, s: w / s[0, 0]),
    "of quotients": (lambda w, s: (w / s) / (s / w), lambda w, s: (w / s) / (s / w)),
    "floored": (lambda w, s: w // s, lambda w, s: np.floor(w / s)),
    "by the largest": (lambda w, s: w / mx.max(w, axis=0), lambda w, s: w / w.max(0)),
    "vmap": (lambda w, s: mx.vmap(lambda w, t: w / t, (0, None))(w, s[0]), lambda w, s: w / s[0]),
    "gradient": (lambda w, s: mx.grad(lambda w: (w / s).sum())(w), lambda w, s: 0 * w + w.dtype.type(1) / s),
    "compiled": (mx.compile(lambda w, s: (w / s) / s), lambda w, s: (w / s) / s),
}
BY_ROOTS = {
    "a root": (lambda w, s: w / mx.sqrt(w), lambda w, s: w / np.sqrt(w)),
    "reciprocal": (lambda w, s: mx.reciprocal(mx.sqrt(w)), lambda w, s: w.dtype.type(1) / np.sqrt(w)),
}


@pytest.mark.usefixtures("xla_only")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", CASES)
def test_exact(case: str, dtype: type) -> None:
    _exact(*CASES[case], dtype)


@pytest.mark.usefixtures("xla_only")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", BY_ROOTS)
def test_exact_by_roots(case: str, dtype: type) -> None:
    _exact(*BY_ROOTS[case], dtype)


def _exact(ours: Callable[..., Any], numpy: Callable[..., Any], dtype: type) -> None:
    w, s = W.astype(dtype), S.astype(dtype)
    np.testing.assert_array_equal(np.array(ours(mx.array(w), mx.array(s))), numpy(w, s))


@pytest.mark.usefixtures("xla_only")
def test_of_itself_is_one() -> None:
    columns = mx.array(W).square().sum(axis=1, keepdims=True)
    assert mx.all(mx.broadcast_to(columns, W.shape) / columns == 1).item()


INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
QUOTIENTS = {
    "//": lambda mx, a, b: a // b,
    "%": lambda mx, a, b: a % b,
    "/": lambda mx, a, b: a / b,
}
DIVMODS = {
    "divmod": lambda mx, a, b: mx.divmod(a, b),
    "compiled": lambda mx, a, b: mx.compile(mx.divmod)(a, b),
    "broadcast": lambda mx, a, b: mx.divmod(a[:, None], b),
    "of one": lambda mx, a, b: mx.divmod(a[2], b[0]),
    "by a number": lambda mx, a, b: mx.divmod(a, b[0].item()),
}


def _by_zero(dtype: str, fn: Callable[..., Any]) -> None:
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    check(lambda mx, *operands: fn(mx, *[x.astype(getattr(mx, dtype)) for x in operands]), a, b)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", ["bool_", *INTEGERS, "float32"])
@pytest.mark.parametrize("quotient", QUOTIENTS.values(), ids=QUOTIENTS.keys())
def test_by_zero(quotient: Callable[..., Any], dtype: str) -> None:
    _by_zero(dtype, quotient)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", ["bool_", "float32"])  # MLX crashes on integers
@pytest.mark.parametrize("both", DIVMODS.values(), ids=DIVMODS.keys())
def test_divmod_by_zero(both: Callable[..., Any], dtype: str) -> None:
    _by_zero(dtype, both)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_on_a_gpu_it_is_exact_too(dtype: str) -> None:
    """Assert exact quotients on a GPU, for which XLA has no rounded division. The CPU runs the same code exactly."""
    from mxcompat._ops.elementwise.quotient import quotient

    x = np.ldexp(RNG.uniform(1, 2, 4096), RNG.integers(-90, 30, 4096)).astype(np.float32)
    special = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 3e38, 2e-38], np.float32)
    x, y = (np.concatenate([a, b.ravel()]) for a, b in zip((x, x[::-1]), np.meshgrid(special, special), strict=True))
    with np.errstate(over="ignore"):
        x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    no_matter = [jax.export.DisabledSafetyCheck.platform()]
    with jax.enable_x64(True):
        exported = jax.export.export(jax.jit(quotient), platforms=["cuda"], disabled_checks=no_matter)(x, y)
        result = np.array(jax.jit(exported.call)(x, y).astype(jnp.float32))
    with np.errstate(all="ignore"):
        expected = (np.array(x).astype(np.float64) / np.array(y).astype(np.float64)).astype(x.dtype).astype(np.float32)
    normal = ~(np.abs(expected) < np.finfo(np.float32).tiny) | (expected == 0)
    np.testing.assert_array_equal(result[normal], expected[normal])
    assert "optimization_barrier" not in exported.mlir_module()  # XLA would fuse nothing across a barrier


def test_it_is_fused_with_its_operands() -> None:
    from mxcompat._ops.elementwise.quotient import quotient

    x = jax.ShapeDtypeStruct((1 << 18,), np.float32)
    compiled = jax.jit(lambda x, y: quotient(x * 2, jnp.sqrt(y) + 1)).lower(x, x).compile()
    used = compiled.memory_analysis()
    assert used is None or used.temp_size_in_bytes < 1 << 18
