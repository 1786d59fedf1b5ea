"""Aliases of donated inputs: each is overwritten by the output that is an update of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mxcompat._graph.passes.aliases import pair_updates


def pairs(fn: Callable[..., Any], inputs: int, donated: tuple[int, ...]) -> dict[int, int]:
    """Return the output that overwrites each input, for a function of matrices."""
    module = jax.jit(fn, donate_argnums=donated).lower(*[jnp.ones((4, 4))] * inputs).compiler_ir("stablehlo")
    pair_updates(module)
    main = next(line for line in str(module).splitlines() if "@main(" in line)
    matches = re.findall(r"%arg(\d+): tensor<[^>]*> \{[^}]*tf.aliasing_output = (\d+)", main)
    return {int(k): int(output) for k, output in matches}


def adam(p: Any, m: Any, v: Any, g: Any) -> tuple[Any, ...]:
    g = g @ g
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return g, v, m, p - m / (jnp.sqrt(v) + 1e-8)


@jax.jit
def behind_a_call(x: Any, y: Any) -> Any:
    return jnp.where(y > 0, x * 2, x)


CASES = {
    "a step of Adam": (adam, 4, (0, 1, 2), {0: 3, 1: 2, 2: 1}),
    "some of it": (adam, 4, (2,), {2: 1}),
    "writes": (lambda x, y: (y.at[0].set(1).at[1].set(2), x.at[:, 1].add(3)), 2, (0, 1), {0: 1, 1: 0}),
    "exchanged": (lambda x, y: (y, x), 2, (0, 1), {0: 1, 1: 0}),
    "within functions": (lambda x, y: (behind_a_call(y, x @ x), behind_a_call(x, y @ y)), 2, (0, 1), {0: 1, 1: 0}),
    "an update of nothing": (lambda x, y: (x @ x, y + 1), 2, (0, 1), {0: 0, 1: 1}),
    "two updates of one": (lambda x, y: (x + 1, x + y, y @ y), 2, (0, 1), {0: 0, 1: 1}),
    "nothing donated": (lambda x: x + 1, 1, (), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_over(case: str) -> None:
    fn, inputs, donated, expected = CASES[case]
    assert pairs(fn, inputs, donated) == expected


def test_the_results_are_the_same() -> None:
    operands = [jax.random.normal(jax.random.key(k), (4, 4)) ** 2 for k in range(4)]
    expected = adam(*operands)
    lowered = jax.jit(adam, donate_argnums=(0, 1, 2)).lower(*operands)
    pair_updates(lowered.compiler_ir("stablehlo"))
    results = lowered.compile()(*operands)
    for a, b in zip(results, expected, strict=True):
        assert jnp.allclose(a, b)
    assert [x.is_deleted() for x in operands] == [True, True, True, False]
