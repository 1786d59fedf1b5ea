"""JAX's distributed runtime: what it has found out of the others by itself, and the address at which gloo listens.

Gloo carries arrays between CPUs.
"""

from __future__ import annotations

from mxcompat._compat.jax_internals import address_from_first, client_listening_at, gloo_address
from mxcompat._jax import jax

from .links import free_port

__all__ = ["found_by_jax", "listen_at"]


def found_by_jax(seconds: float) -> tuple[int, int, str]:
    """This process's rank, how many there are, and where rank 0 is to be met, once JAX knows all that."""
    return address_from_first(free_port(), seconds)


def listen_at(host: str) -> None:
    """Have gloo listen at this address of this machine. By itself it takes what the machine's name stands for, which on
    many is a loopback address, where others do not reach it."""
    from jax.extend.backend import register_backend_factory  # here, since what it imports takes long to import

    if gloo_address.holds and jax.config.jax_cpu_collectives_implementation == "gloo":  # type: ignore[attr-defined]
        register_backend_factory("cpu", lambda: client_listening_at(host), fail_quietly=False)
