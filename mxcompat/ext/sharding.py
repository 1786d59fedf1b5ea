"""One program, many devices: arrays that are spread over a mesh.

MLX has one device for each process. Here a mesh of devices can stand behind one program: `mesh` names its axes, `shard`
spreads arrays over them, and what is computed from these is computed where they are. XLA's partitioner divides each
program and puts in the communication, so that the program itself, a training loop, say, stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mxcompat._array.array import array, wrap
from mxcompat._array.errors import expected
from mxcompat._graph.ir.node import SCALAR, TRACED, apply, leaf
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run.collectives import Collective, collectives
from mxcompat._graph.run.evaluate import evaluated
from mxcompat._graph.run.partition import laid_out
from mxcompat._graph.run.placement import layout, use
from mxcompat._jax import jax
from mxcompat._ops.arguments import is_sequence
from mxcompat._transforms.trees import flatten, like_tuple

if TYPE_CHECKING:
    from jax.sharding import Mesh, PartitionSpec

__all__ = [
    "Collective", "Mesh", "PartitionSpec", "bytes_per_device", "collectives", "fsdp", "mesh", "replicate", "shard",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`Mesh` and `PartitionSpec`, which are JAX's."""
    if name in ("Mesh", "PartitionSpec"):
        return getattr(jax.sharding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def mesh(*, devices: Sequence[Any] | str = "local", **axes: int) -> Mesh:
    """A mesh of devices with named axes, as `jax.make_mesh` arranges it.

    Args:
        devices: "local", those of this process; "all", those of all processes that `jax.distributed` has brought
            together; or a sequence of JAX's devices.
        **axes: the size of each axis, in order; -1, for one of them, is what is left of the devices. Without any there
            is one axis, `data`, of all devices.

    Returns:
        The mesh, of as many of the first devices as it needs.

    Raises:
        ValueError: if there are fewer devices than it needs, or for sizes and devices that are none.

    Example:
        >>> mx.ext.sharding.mesh(data=1, model=1)
        Mesh(axis_sizes=(1, 1), axis_names=('data', 'model'), axis_types=(Auto, Auto))
    """
    found = _devices(devices)
    sizes = dict(axes) or {"data": -1}
    wrong = [n for n in sizes.values() if not isinstance(n, int) or (n < 1 and n != -1)]
    if wrong or [*sizes.values()].count(-1) > 1:
        raise ValueError(f"[mesh] Expected positive sizes, and -1 for one axis at most, got {sizes}.")
    known = math.prod([n for n in sizes.values() if n > 0])
    sizes = {name: len(found) // known if n == -1 else n for name, n in sizes.items()}
    if not 0 < math.prod(sizes.values()) <= len(found):
        raise ValueError(
            f"[mesh] A mesh of {axes} needs {max(known, math.prod(sizes.values()))} devices, and there are "
            f"{len(found)}."
        )
    use()
    types = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.make_mesh(
        tuple(sizes.values()), tuple(sizes), axis_types=types, devices=found[: math.prod(sizes.values())]
    )


def _devices(devices: Sequence[Any] | str) -> Sequence[Any]:
    if isinstance(devices, str) and devices in ("local", "all"):
        return jax.local_devices() if devices == "local" else jax.devices()
    found = [] if isinstance(devices, str) or not is_sequence(devices) else list(devices)
    if not found or not all(isinstance(d, jax.Device) for d in found):
        raise ValueError(f'[mesh] Expected "local", "all" or a sequence of devices, got {devices!r}.')
    return found


def shard(tree: Any, mesh: Mesh, spec: Any) -> Any:
    """Spread arrays over a mesh.

    Args:
        tree: an array, or a tree of arrays.
        mesh: the mesh.
        spec: how: for each axis of an array the name of the mesh axis that divides it, a tuple of such names, or None.
            `"data"` is `("data",)`: what has no name is not divided. None is for arrays of which each device holds the
            whole. One for all arrays; or a dict or a list like the tree; or a function of an array's path in the tree
            (`"layers.0.weight"`) and the array.

    Returns:
        The tree with arrays that are spread. Other leaves stay what they are.

    What has a value is moved. For what has none yet, and within a function under a transform, this is an op, which
    tells XLA how an array is to be spread at this place of a program. Where XLA's own choice, which follows from the
    inputs, moves more data than need be, such a word in the right place helps. Arrays that are spread before they are
    evaluated, a model's first parameters, say, never lie on one device as a whole.

    Raises:
        ValueError: if the mesh has no axis of a name, if one does not divide the axis of an array, or if a dict or a
            list of specs has none for an array.
        TypeError: for what is no mesh, or no spec.

    Example:
        >>> mesh = mx.ext.sharding.mesh(data=1)
        >>> x = mx.ext.sharding.shard(mx.ones((8, 2)), mesh, "data")
        >>> x.sharding.mesh.axis_names
        ('data',)
    """
    _check_mesh(mesh, "shard")
    use()
    return _shard(tree, mesh, spec, "")


def replicate(mesh: Mesh) -> Callable[[array], array]:
    """A function that gives each device of a mesh the whole of an array: `model.apply(replicate(mesh))`.

    Raises:
        TypeError: if it is no mesh.

    Example:
        >>> mesh = mx.ext.sharding.mesh(data=1)
        >>> model = nn.Linear(4, 2)
        >>> _ = model.apply(mx.ext.sharding.replicate(mesh))
        >>> model.weight.sharding.is_fully_replicated
        True
    """
    _check_mesh(mesh, "replicate")
    return lambda x: shard(x, mesh, None)


def fsdp(mesh: Mesh, axis: str = "data", smallest: int = 1 << 12) -> Callable[[str, array], PartitionSpec]:
    """What to give `shard` for parameters of which each device is to hold a part: each array's longest axis that the
    mesh axis divides is divided by it. An array of fewer than `smallest` elements is held whole.

    Raises:
        TypeError: if it is no mesh.
        ValueError: if it has no such axis.

    Example:
        >>> mesh = mx.ext.sharding.mesh(data=1)
        >>> model = nn.Linear(128, 64)
        >>> specs = mx.ext.sharding.fsdp(mesh)
        >>> specs("weight", model.weight)
        P(None, 'data')
        >>> _ = model.update(mx.ext.sharding.shard(model.parameters(), mesh, specs))
    """
    _check_mesh(mesh, "fsdp")
    _check_names(mesh, (axis,))
    size = mesh.shape[axis]

    def spec(path: str, x: array) -> PartitionSpec:
        divided = [k for k, n in enumerate(x.shape) if n and n % size == 0]
        if x.size < smallest or not divided:
            return jax.sharding.PartitionSpec()
        longest = max(divided, key=lambda k: x.shape[k])
        return jax.sharding.PartitionSpec(*[None] * longest, axis)

    return spec


CONSTRAIN = Op(
    "shard",
    lambda x, sharding: jax.lax.with_sharding_constraint(x, sharding),
    lambda a, sharding: a,
    ("sharding",),
)
"""Tells XLA how its input is to be spread."""


def _shard(x: Any, mesh: Mesh, spec: Any, path: str) -> Any:
    """`shard`, of what is at this place in a tree."""
    if isinstance(x, (dict, list, tuple)):
        entries = x.items() if isinstance(x, dict) else enumerate(x)
        own = isinstance(spec, (dict, list))
        made = {}
        for k, v in entries:
            below = f"{path}.{k}" if path else str(k)
            if own and (k not in spec if isinstance(spec, dict) else k >= len(spec)):
                raise ValueError(f"[shard] The spec has nothing for {below}.")
            made[k] = _shard(v, mesh, spec[k] if own else spec, below)
        if isinstance(x, dict):
            return made
        return [*made.values()] if isinstance(x, list) else like_tuple(x, [*made.values()])
    if not isinstance(x, array):
        return x
    if callable(spec):
        spec = spec(path, x)
    sharding = jax.sharding.NamedSharding(mesh, _checked(spec, x.shape, mesh, path))
    node = x._node
    if node.value is None or node.trace or node.op in (TRACED, SCALAR):
        return wrap(apply(CONSTRAIN, (node,), (sharding,)))
    if layout(node.value) == sharding:
        return wrap(node)
    return wrap(leaf(laid_out(node.value, sharding), node.aval))


def _checked(spec: Any, shape: tuple[int, ...], mesh: Mesh, path: str | None) -> PartitionSpec:
    """A spec as JAX has it, if it fits an array of this shape."""
    what = f"{path}, of shape {shape}" if path else f"an array of shape {shape}"
    names = [() if n is None else (n,) if isinstance(n, str) else tuple(n) for n in _entries(spec)]
    _check_names(mesh, [name for group in names for name in group])
    while names and not names[-1]:
        names.pop()  # the same layout is to be the same spec
    if len(names) > len(shape):
        raise ValueError(f"[shard] Expected a spec of at most {len(shape)} axes for {what}, got {spec!r}.")
    for k, group in enumerate(names):
        size = math.prod([mesh.shape[name] for name in group])
        if shape[k] % size:
            raise ValueError(
                f"[shard] Axis {k} of {what} has {shape[k]} entries, which {size} devices along "
                f"{' and '.join(map(repr, group))} do not divide evenly."
            )
    return jax.sharding.PartitionSpec(*[group[0] if len(group) == 1 else group or None for group in names])


def _entries(spec: Any) -> tuple:
    if spec is None:
        return ()
    if not isinstance(spec, (str, tuple, list, jax.sharding.PartitionSpec)):
        raise expected("shard", "a spec of names and None", spec)
    return (spec,) if isinstance(spec, str) else tuple(spec)


def _check_mesh(mesh: Any, name: str) -> None:
    if not isinstance(mesh, jax.sharding.Mesh):
        raise expected(name, "a mesh", mesh)


def _check_names(mesh: Mesh, names: Sequence[str]) -> None:
    for name in names:
        if name not in mesh.shape:
            raise ValueError(f"[shard] The mesh has the axes {tuple(mesh.shape)}, and none called {name!r}.")
    if len({*names}) < len(names):
        raise ValueError(f"[shard] Expected each axis of the mesh once, got {tuple(names)}.")


def bytes_per_device(tree: Any) -> dict[Any, int]:
    """How many bytes of the arrays in a tree each device of this process holds, by JAX's device. Evaluates them.

    Raises:
        ValueError: within `vmap` and `compile`, where arrays have no value.

    Example:
        >>> sum(mx.ext.sharding.bytes_per_device({"w": mx.ones((4, 2))}).values())
        32
    """
    held: dict[Any, int] = {}
    for x in flatten(tree):
        for part in evaluated(x._node).addressable_shards:
            held[part.device] = held.get(part.device, 0) + part.data.nbytes
    return held
