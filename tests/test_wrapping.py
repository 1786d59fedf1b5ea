"""Integers wrap around, also in compiled code, where XLA's simplifier assumes squares and absolute values are
positive."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mxcompat._graph.passes.integers import wrap_around
from tests.oracle import check
from tests.thinned import thinned

pytestmark = pytest.mark.usefixtures("xla_only")

EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "square, divided": lambda mx, x, y: (x * x) // 7,
    "square, remainder": lambda mx, x, y: (x * x) % 8,
    "square, shifted": lambda mx, x, y: mx.right_shift(x * x, 3),
    "square, compared": lambda mx, x, y: x * x < 0,
    "square, chosen by": lambda mx, x, y: mx.where(x * x >= 0, x, y),
    "square, absolute": lambda mx, x, y: mx.abs(mx.square(x)),
    "power, divided": lambda mx, x, y: (x**2) // 5,
    "equal factors": lambda mx, x, y: ((x + 1) * (x + 1)) // 7,
    "product of squares": lambda mx, x, y: (x * x) * (y * y) // 3,
    "largest of squares": lambda mx, x, y: mx.maximum(x * x, y * y) < 0,
    "absolute, compared": lambda mx, x, y: mx.abs(x) < 0,
    "absolute, divided by": lambda mx, x, y: y // mx.where(x == 0, 1, mx.abs(x)),
    "absolute, remainder": lambda mx, x, y: mx.abs(x) % 8,
    "absolute of absolute": lambda mx, x, y: mx.abs(mx.abs(x)) // 2,
    "in vmap": lambda mx, x, y: mx.vmap(lambda x: (x * x) // 7)(x),
    "of what a function is given twice": lambda mx, x, y: mx.vmap(lambda x, y: x * y // 7)(x, x),
}
LEAST = {"int8": -(2**7), "int16": -(2**15), "int32": -(2**31), "int64": -(2**63)}


def _edges(dtype: str) -> np.ndarray:
    least = LEAST[dtype]
    root = int((-least) ** 0.5) + 1
    return np.array([least, least + 1, -root, -root + 1, -1, 0, 1, root - 1, root, -least - 1], dtype)


@pytest.mark.parametrize("dtype", LEAST)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_in_mlx(name: str, dtype: str) -> None:
    x = _edges(dtype)
    check(EXPRESSIONS[name], x, np.roll(x, 3))


def test_middle_squares() -> None:
    """Compare a random generator whose next state is its last product."""

    def drawn(mx: Any, x: Any) -> Any:
        states = [x]
        for _ in range(6):
            states.append((states[-1] * states[-1] // 100) % 10000 + 12345678)
        return states[1:]

    check(drawn, np.array([12345], np.int32))


@pytest.mark.parametrize("seed", thinned(2, range(4)))
def test_any_expressions(seed: int) -> None:
    """Compare nested expressions of edge cases, in all dtypes."""
    names = [*LEAST, *(f"u{name}" for name in LEAST)]

    def expression(mx: Any, draw: random.Random, xs: list[Any], depth: int) -> Any:
        if not depth or draw.random() < 0.1:
            return draw.choice(xs)
        x, y = (expression(mx, draw, xs, depth - 1) for _ in range(2))
        one, count = (mx.array(n, x.dtype) for n in (1, draw.choice([2, 3, 7, 8])))
        expressions = [
            lambda: x + y, lambda: x - y, lambda: x * y, lambda: x * x, lambda: mx.square(x), lambda: mx.abs(x),
            lambda: mx.negative(x), lambda: x // count, lambda: x % count, lambda: mx.maximum(x, y),
            lambda: mx.minimum(x, y), lambda: mx.where(x < y, x, y), lambda: (x < y).astype(x.dtype), lambda: x & y,
            lambda: x ^ y, lambda: mx.right_shift(x, one), lambda: mx.sign(x), lambda: (x + y) - x, lambda: ~x,
            lambda: x**2,
        ]  # fmt: skip
        return expressions[draw.randrange(len(expressions))]()

    def all_of_them(mx: Any) -> list[Any]:
        draw = random.Random(seed)
        results = []
        for name in names:
            edges = _edges(name.removeprefix("u")).astype(name)
            xs = [mx.array(edges), mx.array(np.roll(edges, 3))]
            results += [expression(mx, draw, xs, 4) for _ in range(8)]
        return results

    check(all_of_them)


def test_what_is_left_alone() -> None:
    def changed(f: Callable[..., Any], *inputs: Any) -> bool:
        module = jax.jit(f).lower(*inputs).compiler_ir("stablehlo")
        before = str(module)
        wrap_around(module)
        return str(module) != before

    integers, floats = np.ones((3, 4), np.int32), np.ones((3, 4), np.float32)
    assert changed(lambda x: x * x, integers)
    assert changed(jnp.abs, integers)
    assert not changed(lambda x: abs(x) * x, floats)
    assert not changed(lambda x: x * x, integers.astype(np.uint32))
    assert not changed(lambda x: x * 3, integers)  # no square
    assert not changed(lambda x: jnp.prod(x, 1), integers)  # XLA recognizes this reduction by its product
