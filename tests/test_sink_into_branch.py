"""On the CPU, values that only a branch reads are computed within it, where XLA can fuse them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph import policy
from mxcompat._graph.passes.modules import named
from mxcompat._graph.passes.sink_into_branch import sink_into_branches

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def inside(f, *inputs):
    """Return the names of the operations in the branch that is taken if the condition is true."""
    lowered = jax.jit(f).lower(*inputs)
    module = lowered.compiler_ir("stablehlo")
    sink_into_branches(module)
    module.operation.verify()
    for old, new in zip(jax.tree.leaves(jax.jit(f)(*inputs)), jax.tree.leaves(lowered.compile()(*inputs)), strict=True):
        np.testing.assert_array_equal(old, new)
    (case,) = named(module, "stablehlo.case")
    return [op.name.removeprefix("stablehlo.") for op in case.regions[1].blocks[0].operations]


def summed(function):
    def f(x):
        y = function(x)
        return jax.lax.cond(x[0, 0] > 3, lambda: jnp.sum(y), lambda: 1.0), y.sum()

    return f


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2 + 1, {"multiply", "add"}),
        (lambda x: jnp.sin(x) + x, {"sine", "add"}),
        (lambda x: jnp.where(x > 2, x, 0.0), {"compare", "func.call"}),  # a function of such operations
        (lambda x: jnp.arange(12.0).reshape(3, 4) + x, {"iota", "reshape", "add"}),
        (lambda x: jnp.cumsum(x, 1) + 1, {"add"}),  # its operand is in memory
        (lambda x: jnp.sort(x * 2), set()),
        (lambda x: x @ x.T, set()),
    ],
)
def test_what_is_computed_in_a_branch(function, expected):
    always = {"constant", "broadcast_in_dim", "convert", "reduce", "return"}
    assert set(inside(summed(function), X)) - always == expected


def test_long_computations_stay(monkeypatch):
    def long(x):
        for k in range(10):
            x = x * 1.5 + k
        return x

    assert "multiply" not in inside(summed(long), X)
    monkeypatch.setattr(policy, "FEW_INSTRUCTIONS", 100)
    assert inside(summed(long), X).count("multiply") == 10


def test_the_place_of_the_largest_is_searched_for_in_a_branch(xla_only):
    """Assert that a branch holds the search of the largest element, so pooling's gradient stores nothing for it."""
    x = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype(np.float32)
    pooled = mx.compile(mx.grad(lambda x: mx.max(mx.tanh(x).reshape(2, 4, 2, 4, 2, 3), (2, 4)).sum()))
    with ext.reproducible():
        result = np.array(pooled(mx.array(x)))
    windows = x.reshape(2, 4, 2, 4, 2, 3)
    first = windows == windows.max((2, 4), keepdims=True)
    np.testing.assert_allclose(result, np.where(first.reshape(x.shape), 1 - np.tanh(x) ** 2, 0), rtol=1e-4)
