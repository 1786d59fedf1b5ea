"""`mlx.core.random`, name for name. Re-exports only."""

from mxcompat._ops.random.continuous import gumbel, laplace, multivariate_normal, normal, truncated_normal, uniform
from mxcompat._ops.random.discrete import bernoulli, categorical, permutation, randint
from mxcompat._ops.random.state import key, seed, split, state

__all__ = [
    "bernoulli", "categorical", "gumbel", "key", "laplace", "multivariate_normal", "normal", "permutation", "randint",
    "seed", "split", "state", "truncated_normal", "uniform",
]  # fmt: skip
