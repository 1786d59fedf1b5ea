"""Access to JAX's distributed runtime beyond its public functions.

It returns the processes that JAX detected, and sets the address at which gloo listens. Gloo carries arrays between
CPUs.
"""

from __future__ import annotations

from mxcompat._compat.jax_internals import address_from_first, client_listening_at, gloo_address
from mxcompat._jax import jax

from .links import free_port

__all__ = ["found_by_jax", "listen_at"]


def found_by_jax(seconds: float) -> tuple[int, int, str]:
    """Return this process's rank, the number of ranks and the address of rank 0, once JAX knows them."""
    return address_from_first(free_port(), seconds)


def listen_at(host: str) -> None:
    """Make gloo listen at this address. By default it uses the address of the machine's name, which is often a loopback
    address that others cannot reach."""
    from jax.extend.backend import register_backend_factory  # imported here because the import is slow

    if gloo_address.holds and jax.config.jax_cpu_collectives_implementation == "gloo":  # type: ignore[attr-defined]
        register_backend_factory("cpu", lambda: client_listening_at(host), fail_quietly=False)
