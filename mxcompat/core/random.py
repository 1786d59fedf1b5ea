"""`mlx.core.random`, name for name. Re-exports only."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from mxcompat._ops.random.continuous import gumbel, laplace, multivariate_normal, normal, truncated_normal, uniform
from mxcompat._ops.random.discrete import bernoulli, categorical, permutation, randint
from mxcompat._ops.random.state import key, seed, split
from mxcompat._ops.random.state import state as _state

if _TYPE_CHECKING:
    from mxcompat._ops.random.state import state as state

__all__ = [
    "bernoulli", "categorical", "gumbel", "key", "laplace", "multivariate_normal", "normal", "permutation", "randint",
    "seed", "split", "state", "truncated_normal", "uniform",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """Return `state`, which is not stored in MLX's module either. A program that replaces it removes its replacement by
    `del`."""
    if name == "state":
        return _state
    raise AttributeError(f"Module 'random' has no attribute {name!r}")
