"""Collectives as XLA programs: each is a small SPMD program with one device for each participating rank.

All other computation is local to a rank. The operand is this rank's shard of an array over these devices. The result is
this rank's copy, or its shard of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from mxcompat._graph import policy
from mxcompat._jax import jax, jnp, lax

__all__ = ["collective"]

_AXIS = "rank"


def collective(kind: str, x: Any, ranks: tuple[int, ...]) -> jax.Array:
    """Run a collective over all `ranks` and return this rank's result.

    Args:
        kind: "sum", "max", "min", "gather", "scatter" (of the sum) or "send" (from the first rank to the second).
        x: this rank's array, with at least one axis and one element.
        ranks: numbers of JAX processes.
    """
    with jax.enable_x64(True):
        return _program(kind, ranks, x.shape, x.dtype)(x)


@lru_cache(maxsize=policy.MOST_PROGRAMS)
def _program(kind: str, ranks: tuple[int, ...], shape: tuple[int, ...], dtype: Any) -> Callable[[Any], jax.Array]:
    mesh = jax.sharding.Mesh(np.array([_devices()[r] for r in ranks]), (_AXIS,))
    over_ranks = jax.sharding.PartitionSpec(_AXIS)
    function, splits = _BODIES[kind]
    outcome = over_ranks if splits else jax.sharding.PartitionSpec()
    mapped = jax.shard_map(function, mesh=mesh, in_specs=over_ranks, out_specs=outcome, check_vma=False)
    compiled = jax.jit(mapped)
    sharding = jax.sharding.NamedSharding(mesh, over_ranks)
    whole = (len(ranks) * shape[0], *shape[1:])
    device = jax.local_devices()[0]

    def run(x: Any) -> jax.Array:
        shard = jax.device_put(x, device)
        return compiled(jax.make_array_from_single_device_arrays(whole, sharding, [shard])).addressable_data(0)

    return run


@cache
def _devices() -> dict[int, Any]:
    """Return the first device of each process."""
    devices: dict[int, Any] = {}
    for device in jax.devices():
        devices.setdefault(device.process_index, device)
    return devices


def _sum(x: Any) -> Any:
    return _any(x) if x.dtype == np.bool_ else lax.psum(x, _AXIS)


def _any(x: Any) -> Any:
    return lax.pmax(x.astype(np.uint8), _AXIS).astype(np.bool_)


def _largest(x: Any) -> Any:
    if x.dtype == np.bool_:
        return _any(x)
    return jnp.max(_rows(x), axis=0) if jnp.iscomplexobj(x) else lax.pmax(x, _AXIS)


def _smallest(x: Any) -> Any:
    if x.dtype == np.bool_:
        return ~_any(~x)
    return jnp.min(_rows(x), axis=0) if jnp.iscomplexobj(x) else lax.pmin(x, _AXIS)


def _rows(x: Any) -> Any:
    """Gather the arrays of all ranks along a new first axis, for reductions that XLA does not support between
    devices."""
    return lax.all_gather(x, _AXIS, axis=0)


def _gather(x: Any) -> Any:
    return lax.all_gather(x, _AXIS, axis=0, tiled=True)


def _scatter(x: Any) -> Any:
    """Sum over all ranks and keep a part. A reduce-scatter would move less data, but on CPUs it fails if a rank is 30 s
    late."""
    size = lax.axis_size(_AXIS)
    if jax.default_backend() != "cpu" and x.dtype != np.bool_:
        return lax.psum_scatter(x, _AXIS, scatter_dimension=0, tiled=True)
    rows = x.shape[0] // size
    return lax.dynamic_slice_in_dim(_sum(x), lax.axis_index(_AXIS) * rows, rows)


def _send(x: Any) -> Any:
    return lax.ppermute(x, _AXIS, [(0, 1)])


_BODIES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "sum": (_sum, False),
    "max": (_largest, False),
    "min": (_smallest, False),
    "gather": (_gather, False),
    "scatter": (_scatter, True),
    "send": (_send, True),
}
"""The function that runs on each device, and whether each device has its own part of the result."""
