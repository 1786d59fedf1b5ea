"""The tangents that `jvp` returns for outputs that are bools: zero, and of the dtype that real MLX gives them."""

from __future__ import annotations

import pytest

from tests.expressions import cases
from tests.oracle import check

OUTPUTS = cases(
    """
x > 0
x == x
x >= mx.array([1, 2], mx.int32)
x != 1.0
mx.isnan(x)
mx.isposinf(x)
mx.isinf(x)
mx.isfinite(x)
mx.isclose(x, x)
mx.array_equal(x, x)
mx.logical_not(x)
mx.logical_and(x, x)
mx.logical_xor(x, x)
(x > 0) & (x < 2)
~(x > 0)
(x > 0) == (x > 1)
(x > 0).reshape(2, 1)
(x > 0)[0]
mx.where(x > 0, x > 0, x < 0)
mx.concatenate([x > 0, x > 0])
mx.stop_gradient(x > 0)
mx.ones((2,), mx.bool_)
mx.logical_not(x > 0)
(x > 0).astype(mx.int32)
mx.array_equal(x[0], x[0])
mx.all(x > 0)
"""
)
DRAWS = ["mx.random.bernoulli(x)", "mx.random.bernoulli(x, (3, 2))", "x < mx.random.uniform(shape=(2,))"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_tangent(output: str, dtype: str) -> None:
    def push(mx):
        x = mx.array([1.0, -2.0]).astype(getattr(mx, dtype))
        return mx.jvp(lambda x: eval(output, {"mx": mx, "x": x}), [x], [x])

    check(push)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("output", DRAWS)
def test_tangent_of_draws(output: str, dtype: str) -> None:
    def push(mx):
        mx.random.seed(0)
        x = mx.array([0.25, 0.75]).astype(getattr(mx, dtype))
        return mx.jvp(lambda x: eval(output, {"mx": mx, "x": x}), [x], [x])

    check(push)
