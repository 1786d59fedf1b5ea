"""What MLX has not: debugging lazy programs, JAX in both directions, host code, more derivatives, the choice of the
same bits."""

from mxcompat._transforms.custom.function import custom_gradient

from . import debug, sharding
from .callback import host_callback
from .derivatives import hessian, jacfwd, jacrev
from .determinism import reproducible
from .interop import from_jax, jax_function, to_jax

__all__ = [
    "custom_gradient", "debug", "from_jax", "hessian", "host_callback", "jacfwd", "jacrev", "jax_function",
    "reproducible", "sharding", "to_jax",
]  # fmt: skip
