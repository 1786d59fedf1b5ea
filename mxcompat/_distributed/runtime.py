"""JAX's distributed runtime, where its public functions do not reach: what it has found out of the others by itself,
and the address at which gloo listens, which carries arrays between CPUs.
"""

from __future__ import annotations

from mxcompat._graph.run.internals import make_cpu_client, runtime_state
from mxcompat._jax import jax

from .links import free_port

__all__ = ["found_by_jax", "listen_at"]

_MEETING = "mxcompat/meeting"


def found_by_jax(seconds: float) -> tuple[int, int, str]:
    """This process's rank, how many there are, and where rank 0 is to be met, once JAX knows all that."""
    state = runtime_state()
    if state.process_id == 0:
        host = state.coordinator_address.rpartition(":")[0]
        state.client.key_value_set(_MEETING, f"{host}:{free_port()}")
    address = state.client.blocking_key_value_get(_MEETING, int(1000 * seconds))
    return state.process_id, state.num_processes, address


def listen_at(host: str) -> None:
    """Have gloo listen at this address of this machine. By itself it takes what the machine's name stands for, which on
    many is a loopback address, where others do not reach it."""
    from jax.extend.backend import register_backend_factory  # here, since what it imports takes long to import

    if jax.config.jax_cpu_collectives_implementation == "gloo":  # type: ignore[attr-defined]
        register_backend_factory("cpu", lambda: _cpu(host), fail_quietly=False)


def _cpu(host: str) -> object:
    from jaxlib import _jax  # type: ignore[attr-defined]

    client = runtime_state().client
    return make_cpu_client(_jax.make_gloo_tcp_collectives(distributed_client=client, hostname=host))
