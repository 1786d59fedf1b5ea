"""What MLX has not: loops and branches that are compiled, debugging lazy programs, JAX in both directions, host code,
more derivatives, the choice of the same bits."""

from mxcompat._transforms.custom.function import custom_gradient

from . import debug, metal, sharding, sparse
from .callback import host_callback
from .checking import check, checkify
from .control_flow import cond, fori_loop, scan, switch, while_loop
from .derivatives import hessian, hvp, jacfwd, jacrev, linearize, value_and_jac
from .determinism import reproducible
from .exporting import export, load, stablehlo
from .interop import from_jax, jax_function, to_jax

__all__ = [
    "check", "checkify", "cond", "custom_gradient", "debug", "export", "fori_loop", "from_jax", "hessian",
    "host_callback", "hvp", "jacfwd", "jacrev", "jax_function", "linearize", "load", "metal", "reproducible", "scan",
    "sharding", "sparse", "stablehlo", "switch", "to_jax", "value_and_jac", "while_loop",
]  # fmt: skip
