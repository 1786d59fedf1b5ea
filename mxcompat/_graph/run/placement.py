"""Placement: Programs whose data are laid out over a mesh of devices.

Computation follows data. A Program with inputs that are sharded over a mesh is a separate Program with its own
executables, which XLA's partitioner divides among the devices. An output that depends on no sharded input (for example
a random key) stays on one device, even if the same executable computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mxcompat._jax import jax

from ..ir.analyses import analysis
from ..ir.linearize import Subgraph
from ..ir.node import ITEM, Node, location
from ..ir.program import Program
from ..ir.rules import BODY

__all__ = ["any_spread", "layout", "placed", "use"]


class Placement(NamedTuple):
    """The shardings of a Program's inputs.

    An op with several results has a tuple of entries in `shardings` and `spread`.

    Args:
        meshes: the meshes over which the inputs are sharded. There are several if the Program has independent parts on
            different meshes.
        shardings: the sharding of each input, or None for an input on one device or in NumPy.
        spread: True for each output that depends on a sharded input.
    """

    meshes: tuple[jax.sharding.Mesh, ...]
    shardings: tuple[Any, ...]
    spread: tuple[Any, ...]


class _Use:
    """`there` is True once the process has sharded arrays. Until then, no code searches for them."""

    there = False


def use() -> None:
    """Record that the process has sharded arrays."""
    _Use.there = True


def layout(value: Any) -> Any:
    """Return the sharding of a value that is sharded over a mesh, or None for a value on one device or in NumPy."""
    if type(value) is tuple:
        shardings = tuple(map(layout, value))
        return shardings if any(shardings) else None
    sharding = getattr(value, "sharding", None)
    return None if type(sharding) is jax.sharding.SingleDeviceSharding else sharding


def any_spread(nodes: Iterable[Node]) -> bool:
    """Return True if the value of one of these nodes is sharded over a mesh."""
    return _Use.there and any(layout(n.value) is not None for n in nodes)


def placed(program: Program, subgraph: Subgraph) -> Program:
    """Return the Program for leaves with these layouts: `program` itself if all are on one device.

    Raises:
        ValueError: if an op reads arrays on two meshes.
    """
    if not _Use.there:
        return program
    shardings = tuple([layout(n.value) for n in subgraph.leaves])
    if not any(shardings) and not _own_meshes(program):
        return program
    key = ("placed", shardings)
    placed_program = program.facts.get(key)
    if placed_program is None:
        placement = _placement(program, shardings, subgraph)
        new = Program(program.code, program.in_avals, program.out_slots, program.avals, placement)
        placed_program = program.facts.setdefault(key, new)
    return placed_program


def _placement(program: Program, shardings: tuple, subgraph: Subgraph) -> Placement:
    inputs = [_mesh(s) for s in shardings]
    try:
        outputs = _meshes(program, inputs)
        meshes = tuple(dict.fromkeys(filter(None, _flat((*inputs, *outputs)))))
        if len(subgraph.roots) == 1:  # the graph cannot be computed in parts, so it must have one mesh
            _only(meshes)
    except ValueError as error:
        node = subgraph.order[getattr(error, "mxcompat_slot", subgraph.roots[0])]
        node = node.inputs[0] if node.op is ITEM else node
        error.add_note(f"In the evaluation of [{node.op}], called at {location(node) or 'an unknown place'}.")
        raise
    return Placement(meshes, shardings, tuple(map(_has_mesh, outputs, program.out_avals)))


def _has_mesh(mesh: Any, aval: Any) -> Any:
    """Return True for a value that has a mesh. For several results, return a tuple with an entry for each."""
    if isinstance(aval, tuple):
        return tuple([_has_mesh(mesh[k] if isinstance(mesh, tuple) else mesh, a) for k, a in enumerate(aval)])
    return mesh is not None


def _mesh(sharding: Any) -> Any:
    """Return the mesh of a sharding, or a tuple of meshes for a tuple of shardings."""
    if type(sharding) is tuple:
        return tuple(map(_mesh, sharding))
    if sharding is not None and not isinstance(sharding, jax.sharding.NamedSharding):
        raise ValueError(f"[sharding] Expected arrays that are laid out by a NamedSharding, got {sharding}.")
    return sharding and sharding.mesh


def _flat(meshes: Any) -> list[jax.sharding.Mesh | None]:
    return jax.tree.leaves(meshes, is_leaf=lambda m: m is None)


def _meshes(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """Return the mesh of each output of a Program, given the meshes of its inputs. None stands for one device. An op
    with several results has a tuple of meshes."""
    env: list[Any] = []
    for op, params, slots in program.instructions:
        operands = [env[s] if s >= 0 else inputs[~s] for s in slots]
        try:
            if op is ITEM and isinstance(operands[0], tuple):
                env.append(operands[0][params[0]])
            elif op in BODY:
                env.append(_result_meshes(BODY[op](params), operands, len(program.avals[len(env)])))
            else:
                env.append(_only([*_flat(operands), *_params_meshes(params)]))
        except ValueError as error:
            error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program sets it last
            raise
    return [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]


def _result_meshes(body: Program, inputs: Sequence[Any], count: int) -> tuple:
    """Return the mesh of each result of an op that runs a Program, and that may have more results than the Program."""
    outputs = _meshes(body, inputs[: len(body.in_avals)])
    rest = _only([*_flat(inputs), *_own_meshes(body)]) if count > len(outputs) else None
    return (*outputs, *[rest] * (count - len(outputs)))


def _only(meshes: Iterable[jax.sharding.Mesh | None]) -> jax.sharding.Mesh | None:
    distinct = [*dict.fromkeys(filter(None, meshes))]
    if len(distinct) > 1:
        one, other, *_ = [str(dict(m.shape)) for m in distinct]
        raise ValueError(
            f"[sharding] Expected arrays that are spread over one mesh, got {one} and {other}: mx.ext.sharding.shard "
            "lays an array out over another."
        )
    return distinct[0] if distinct else None


@analysis
def _own_meshes(program: Program) -> list[Any]:
    """Return the meshes over which the instructions of a Program, and of nested ones, shard data."""
    return [*dict.fromkeys([mesh for _, params, _ in program.instructions for mesh in _params_meshes(params)])]


def _params_meshes(params: tuple) -> list[Any]:
    """Return the meshes over which an op with these params shards data."""
    inner = [mesh for p in params if isinstance(p, Program) for mesh in _own_meshes(p)]
    return inner + [p.mesh for p in params if isinstance(p, jax.sharding.NamedSharding)]
