"""One program on many devices: arrays that are sharded over a mesh.

MLX has one device per process. Here one program can use a mesh of devices: `mesh` names its axes, `shard` distributes
arrays over them, and operations on these arrays run where their data are. XLA's partitioner divides each program and
inserts the communication. So the user's program, such as a training loop, does not change.
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
    """Return `Mesh` or `PartitionSpec`, which are JAX's."""
    if name in ("Mesh", "PartitionSpec"):
        return getattr(jax.sharding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def mesh(*, devices: Sequence[Any] | str = "local", **axes: int) -> Mesh:
    """Make a mesh of devices with named axes, arranged by `jax.make_mesh`.

    Args:
        devices: "local" for the devices of this process; "all" for the devices of all processes in `jax.distributed`;
            or a sequence of JAX devices.
        **axes: the size of each axis, in order. One size may be -1, for all remaining devices. By default there is one
            axis, `data`, with all devices.

    Returns:
        The mesh, which uses the first devices of `devices`.

    Raises:
        ValueError: if there are too few devices, or if a size or a device is invalid.

    Example:
        >>> mx.ext.sharding.mesh(data=1, model=1)
        Mesh(axis_sizes=(1, 1), axis_names=('data', 'model'), axis_types=(Auto, Auto))
    """
    available = _devices(devices)
    sizes = dict(axes) or {"data": -1}
    wrong = [n for n in sizes.values() if not isinstance(n, int) or (n < 1 and n != -1)]
    if wrong or [*sizes.values()].count(-1) > 1:
        raise ValueError(f"[mesh] Expected positive sizes, and -1 for one axis at most, got {sizes}.")
    known = math.prod([n for n in sizes.values() if n > 0])
    sizes = {name: len(available) // known if n == -1 else n for name, n in sizes.items()}
    if not 0 < math.prod(sizes.values()) <= len(available):
        raise ValueError(
            f"[mesh] A mesh of {axes} needs {max(known, math.prod(sizes.values()))} devices, and there are "
            f"{len(available)}."
        )
    use()
    types = (jax.sharding.AxisType.Auto,) * len(sizes)
    return jax.make_mesh(
        tuple(sizes.values()), tuple(sizes), axis_types=types, devices=available[: math.prod(sizes.values())]
    )


def _devices(devices: Sequence[Any] | str) -> Sequence[Any]:
    if isinstance(devices, str) and devices in ("local", "all"):
        return jax.local_devices() if devices == "local" else jax.devices()
    listed = [] if isinstance(devices, str) or not is_sequence(devices) else list(devices)
    if not listed or not all(isinstance(d, jax.Device) for d in listed):
        raise ValueError(f'[mesh] Expected "local", "all" or a sequence of devices, got {devices!r}.')
    return listed


def shard(tree: Any, mesh: Mesh, spec: Any) -> Any:
    """Spread arrays over a mesh.

    Args:
        tree: an array, or a tree of arrays.
        mesh: the mesh.
        spec: the sharding: for each axis of an array, the name of the mesh axis that divides it, a tuple of such names,
            or None. `"data"` means `("data",)`; further axes are not divided. With None, each device holds the whole
            array. It may be one spec for all arrays; a dict or list like the tree; or a function of an array's path in
            the tree (`"layers.0.weight"`) and the array.

    Returns:
        The tree with sharded arrays. Other leaves stay unchanged.

    An array with a value is moved. For a pending array, and inside a transformed function, `shard` is an op, which
    constrains the sharding at this point of the program. XLA derives its own choice from the inputs; a constraint helps
    if that choice moves too much data. An array that is sharded before it is evaluated, such as a model's initial
    parameters, is never on one device as a whole.

    Raises:
        ValueError: if the mesh has no axis with a given name; if a mesh axis does not divide the axis of an array
            evenly; or if a dict or list of specs lacks an array.
        TypeError: if `mesh` is not a mesh, or `spec` is not a spec.

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
    """Return a function that copies an array to each device of a mesh: `model.apply(replicate(mesh))`.

    Raises:
        TypeError: if `mesh` is not a mesh.

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
    """Return a spec for `shard` that divides parameters among devices (fully sharded data parallel). The mesh axis
    divides each array's longest axis that it divides evenly. An array of fewer than `smallest` elements is replicated.

    Raises:
        TypeError: if `mesh` is not a mesh.
        ValueError: if the mesh has no axis with this name.

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
"""The op that constrains the sharding of its input in XLA."""


def _shard(x: Any, mesh: Mesh, spec: Any, path: str) -> Any:
    """Shard the part of a tree at this path."""
    if isinstance(x, (dict, list, tuple)):
        entries = x.items() if isinstance(x, dict) else enumerate(x)
        own = isinstance(spec, (dict, list))
        parts = {}
        for k, v in entries:
            below = f"{path}.{k}" if path else str(k)
            if own and (k not in spec if isinstance(spec, dict) else k >= len(spec)):
                raise ValueError(f"[shard] The spec has nothing for {below}.")
            parts[k] = _shard(v, mesh, spec[k] if own else spec, below)
        if isinstance(x, dict):
            return parts
        return [*parts.values()] if isinstance(x, list) else like_tuple(x, [*parts.values()])
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
    """Return a spec as JAX's PartitionSpec, after checking that it fits an array of this shape."""
    what = f"{path}, of shape {shape}" if path else f"an array of shape {shape}"
    names = [() if n is None else (n,) if isinstance(n, str) else tuple(n) for n in _entries(spec)]
    _check_names(mesh, [name for group in names for name in group])
    while names and not names[-1]:
        names.pop()  # drop trailing empty entries, so that equal layouts have equal specs
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
    """Return the bytes of a tree's arrays on each device of this process, by JAX device. Evaluates the arrays.

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
