"""Identities of real numbers are not applied to floats: overflow and NaN on the way persist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.no_fp_rewrite import prevent_fp_rewrites
from tests.oracle import check

X = np.tile(np.array([-3, 2, -1e30, 100, 1e30, 1e-30, 0, -0.0], np.float32), 8)
Y = np.tile(np.array([3, 2, 2, -1, 0.5, np.inf, 0, 1], np.float32), 8)

EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "log of power": lambda mx, x, y: mx.log(mx.power(x, y)),
    "log of a root": lambda mx, x, y: mx.log(x**0.5),
    "log of a whole power": lambda mx, x, y: mx.log(x**5),
    "log of an inverse root": lambda mx, x, y: mx.log(mx.rsqrt(x)),
    "log of 1": lambda mx, x, y: mx.log(mx.power(x * 0 + 1, y)),
    "log of exp": lambda mx, x, y: mx.log(mx.exp(x)),
    "log of a sum of one": lambda mx, x, y: mx.log(mx.exp(x[:, None]).sum(axis=1)),
    "log of a product of two": lambda mx, x, y: mx.log(mx.exp(x) * mx.exp(y)),
    "root of a square": lambda mx, x, y: mx.sqrt(x * x),
    "root of square": lambda mx, x, y: mx.isfinite(mx.sqrt(mx.square(x))),
    "root of a power": lambda mx, x, y: mx.sqrt(x**2),
    "norms of one element": lambda mx, x, y: mx.linalg.norm(x[:, None], axis=1),
    "power of exp": lambda mx, x, y: mx.power(mx.exp(x), 0.5),
    "power of 1": lambda mx, x, y: mx.power(mx.exp(x * 0), y),
    "gradient": lambda mx, x, y: mx.grad(lambda x: mx.log(mx.exp(x)).sum())(mx.minimum(x, 100) + 1),
    "mapped": lambda mx, x, y: mx.vmap(lambda x: mx.log(mx.exp(x)))(x[:, None]),
    "diagonal": lambda mx, x, y: mx.eye(8) * (x[:8] / 0),
    "triangle": lambda mx, x, y: mx.tri(8) * (x[:8] * float("nan")),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_in_mlx(name: str, xla_only: None) -> None:
    with ext.reproducible():  # compiles with optimization at once
        check(EXPRESSIONS[name], X, Y, tol=1e-4)  # the power of a root or an exponential has its own last digits


NOT_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "plus NaN": lambda x: x + np.float32(np.nan),
    "times NaN": lambda x: x * np.float32(np.nan),
    "times 0, times infinity": lambda x: x * 0 * np.float32(np.inf),
    "minus infinities": lambda x: (x * 0 + np.float32(np.inf)) - np.float32(np.inf),
    "moved": lambda x: jnp.broadcast_to((x + np.float32(np.nan)).reshape(-1, 1), (x.size, 3)),
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_exponentials_of_what_is_written_as_nan(name: str) -> None:
    """Assert that the exponential of NaN is NaN. XLA's result was uninitialized memory."""
    result = _compiled(lambda x: jnp.exp(NOT_NUMBERS[name](x)), np.ones((4096,), np.float32))
    assert np.isnan(result).all()


def test_exponentials_of_numbers_in_a_program(xla_only: None) -> None:
    x = mx.random.normal((4096, 4))
    for _ in range(8):
        assert mx.all(mx.isnan(mx.exp(x + float("nan")))).item()


def test_a_long_chain_is_followed_once() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3000):
            x = (x + x) * 0.5
        for _ in range(3000):
            x = -x
        return jnp.exp(jnp.sqrt(x) * np.float32(np.inf) * 0)

    lowered = jax.jit(chain).lower(np.ones((4,), np.float32))
    module = lowered.compiler_ir("stablehlo")
    prevent_fp_rewrites(module)
    assert str(module).count("stablehlo.select") == 1


def test_what_is_left_alone() -> None:
    def count(f: Callable[..., Any], *inputs: Any) -> int:
        module = jax.jit(f).lower(*inputs).compiler_ir("stablehlo")
        prevent_fp_rewrites(module)
        return str(module).count("stablehlo.select")

    x = np.ones((8, 8), np.float32)
    assert count(lambda x: jnp.log(jnp.exp(x)), x) == 1
    assert count(lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), x) == 0
    assert count(lambda x: jnp.log(jnp.exp(x).sum(-1)), x) == 0
    assert count(lambda x: jnp.sqrt((x * x).sum(-1)), x) == 0
    assert count(lambda x: jnp.exp(jnp.where(x > 0, x, -jnp.inf) - x.max()), x) == 1  # only the exponential's own
    assert count(lambda x: jnp.exp(-x * x) + x * 2, x) == 0


def _compiled(f: Callable[..., Any], *inputs: Any) -> Any:
    lowered = jax.jit(f).lower(*inputs)
    prevent_fp_rewrites(lowered.compiler_ir("stablehlo"))
    return np.asarray(lowered.compile()(*inputs))


def test_functions_that_give_back_what_they_are_given() -> None:
    """Evaluate nested conditions over an empty array: the outer condition is called with the inner one's result."""
    values = mx.zeros((0,))
    with ext.debug.host_disabled():
        y = mx.log(mx.where(values > 0, mx.where(values > 1, values, 1), 2))
        mx.eval(y)
    assert y.shape == (0,)
