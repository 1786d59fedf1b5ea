"""Sums over leading axes become products with a row of ones, on a CPU."""

import jax
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.sum_to_matmul import sums_to_matmuls

RNG = np.random.default_rng(0)
SMALL = RNG.standard_normal((8, 20, 20, 32)).astype(np.float32)
LARGE = RNG.standard_normal((16, 40, 20, 32)).astype(np.float32)


def changed(f, x):
    module = jax.jit(f).lower(x).compiler_ir("stablehlo")
    sums_to_matmuls(module)
    module.operation.verify()
    return str(module)


@pytest.mark.parametrize(
    ("f", "x", "products", "kept"),
    [
        (lambda x: (x * 2).sum((0, 1, 2)), SMALL, 1, 0),
        (lambda x: x.sum((0, 1)), SMALL, 1, 0),
        (lambda x: (lambda y: (y.sum((0, 1, 2)), y))(x * 2), SMALL, 1, 1),
        (lambda x: (lambda y: (y.sum((0, 1, 2)), y.sum((0, 1)), y))(x * 2), SMALL, 2, 1),
        (lambda x: (x.sum((0, 1, 2)), x), SMALL, 1, 0),  # materialized in any case
        (lambda x: (x * 2).sum((0, 1, 2)), LARGE, 0, 0),  # reduced in stages
        (lambda x: (lambda y: (y.sum((0, 1, 2)), y))(x * 2), LARGE, 1, 1),
        (lambda x: x.sum(0), SMALL, 0, 0),  # one axis
        (lambda x: x.sum((0, 2)), SMALL, 0, 0),  # the axes are not adjacent
        (lambda x: x.sum((1, 2, 3)), SMALL, 0, 0),  # not the leading axes
        (lambda x: x.sum((0, 1, 2)), SMALL[..., :8], 0, 0),  # few columns
        (lambda x: x.sum((0, 1, 2)), SMALL[:1, :10], 0, 0),  # few elements
        (lambda x: x.max((0, 1, 2)), SMALL, 0, 0),
        (lambda x: x.sum((0, 1, 2)), SMALL.astype(np.int32), 0, 0),
        (lambda x: (x + 1).sum(), SMALL, 0, 0),
    ],
)
def test_which_sums_are_products(f, x, products, kept):
    text = changed(f, x)
    assert (text.count("stablehlo.dot_general"), text.count("call @kept_")) == (products, kept)


@pytest.mark.parametrize("axes", [(0, 1), (0, 1, 2)])
def test_values(axes, xla_only):
    x = SMALL.copy()
    x[0, 0, 0, 1], x[0, 0, 0, 2], x[1, 0, 0, 2] = np.nan, np.inf, -np.inf
    f = mx.compile(lambda x: (lambda y: (y.sum(axes), y))(x * 2))
    with ext.reproducible(), np.errstate(all="ignore"):
        np.testing.assert_allclose(np.array(f(mx.array(x))[0]), (2 * x).sum(axes, np.float64), rtol=1e-4, atol=1e-3)
