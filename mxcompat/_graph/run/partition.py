"""Partition: call the executable of a Program whose data are spread over a mesh.

Inputs on one device, or in NumPy, are first laid out as XLA's partitioner has chosen. Outputs that depend on no sharded
input are returned as arrays on one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._jax import jax

from ..ir.program import Program
from .arguments import array_inputs
from .blas import calls_lapack, in_one_thread
from .collectives import described
from .endless import stoppable
from .events import notify, observers
from .failures import checked
from .placement import layout
from .platform import on_cpu

__all__ = ["calling", "laid_out", "out_shardings", "whole"]


def out_shardings(program: Program) -> list[Any] | None:
    """Return the sharding to demand for each output: None (XLA chooses), or replicated on each device."""
    placement = program.placement
    if placement is None:
        return None
    everywhere = jax.sharding.NamedSharding(placement.meshes[0], jax.sharding.PartitionSpec())
    return jax.tree.map(lambda spread: None if spread else everywhere, [*placement.spread])


def calling(program: Program, compiled: jax.stages.Compiled) -> Callable[..., list[Any]]:
    """Return the function that calls an executable of a Program. It raises the errors of failed ops."""
    placement = program.placement
    if placement is None:
        alone = on_cpu() and calls_lapack(program.code)
        call = in_one_thread(compiled.__call__) if alone else compiled.__call__
        return checked(program, stoppable(program, call))
    if observers:
        notify("partition", program, described(compiled))
    shardings = [placement.shardings[k] for k in array_inputs(program)]
    chosen_by_xla = compiled.input_shardings[0]
    missing = [(k, chosen_by_xla[k]) for k, sharding in enumerate(shardings) if sharding is None]
    home = [k for k, spread in enumerate(placement.spread) if not all(jax.tree.leaves(spread))]

    def call(*arguments: Any) -> list[Any]:
        placed = list(arguments)
        for k, sharding in missing:
            placed[k] = jax.tree.map(laid_out, placed[k], sharding)
        values = compiled(*placed)
        for k in home:
            values[k] = jax.tree.map(_brought_home, values[k], placement.spread[k])
        return values

    return call


def _brought_home(value: jax.Array, spread: bool) -> jax.Array:
    return value if spread else value.addressable_data(0)


def laid_out(value: Any, sharding: jax.sharding.NamedSharding) -> jax.Array:
    """Return a copy of a value, laid out over a mesh. It shares no memory with the value, so either may be donated."""
    with jax.enable_x64(True):
        if not sharding.is_fully_addressable:
            data = whole(value)
            return jax.make_array_from_callback(data.shape, sharding, lambda index: data[index])
        if layout(value) is None:
            value = value.copy()
        return jax.device_put(value, sharding, may_alias=False)


def whole(value: Any) -> np.ndarray:
    """Return a value as a NumPy array. The array shares memory that belongs to this process; parts in other processes
    are gathered."""
    if not getattr(value, "is_fully_addressable", True):
        everywhere = jax.sharding.NamedSharding(value.sharding.mesh, jax.sharding.PartitionSpec())
        with jax.enable_x64(True):
            value = jax.device_put(value, everywhere).addressable_data(0)
    return np.asarray(value)
