"""`distributed` for a group of one process.

XLA programs span devices, not MLX's processes, so the group that `init` gives has one member: everything that is
summed, gathered or compared over it is what this process passed in. Code written for several processes runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NoReturn

import jax.numpy as jnp

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import node_of
from mxcompat._array.errors import expected
from mxcompat._graph.ir.aval import Dtype
from mxcompat._graph.ir.node import apply

from ..arguments import flag, integers, require_dtype, require_text
from ..define import op
from ..examples import example

__all__ = [
    "Group", "all_gather", "all_max", "all_min", "all_sum", "init", "is_available", "recv", "recv_like", "send",
    "sum_scatter",
]  # fmt: skip

_BACKENDS = ("any", "mpi", "nccl", "jaccl", "ring")
_STRICT = {
    "any": "[distributed] Couldn't initialize any backend",
    "mpi": "Cannot initialize MPI",
    "nccl": "Cannot initialize nccl distributed backend.",
    "jaccl": "Cannot initialize jaccl distributed backend.",
    "ring": "[ring] mxcompat runs in one process; use init(strict=False) for a group of one.",
}


class Group:
    """A group of processes that can communicate: here always this one alone. `init` makes it."""

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.distributed.Group: no constructor defined!")

    def rank(self) -> int:
        """The number of this process in the group: 0."""
        return 0

    def size(self) -> int:
        """How many processes there are in the group: 1."""
        return 1

    def split(self, color: int, key: int = -1) -> Group:
        """Always raises RuntimeError: a group of one cannot be split."""
        index(color), index(key)
        raise RuntimeError("Cannot split the distributed group further.")


Group.__module__ = "mxcompat.core.distributed"
_group = object.__new__(Group)


def is_available(backend: str = "any") -> bool:
    """Whether there is a backend for groups of several processes: False.

    Args:
        backend: "any", "mpi", "nccl", "jaccl" or "ring".
    """
    require_text(backend, "is_available", "backend")
    return False


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """The group of all processes, which is this one.

    Args:
        strict: raise instead of giving a group of one.
        backend: "any", "mpi", "nccl", "jaccl" or "ring".
        all_gather_factory: accepted, and ignored.

    Raises:
        RuntimeError: if `strict`, or if MLX's launcher has started this process as one of several.
        ValueError: for another backend.

    Example:
        >>> mx.distributed.init().size()
        1
    """
    flag(strict, "init", "strict")
    if require_text(backend, "init", "backend") not in _BACKENDS:
        raise ValueError(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' but "
            f"'{backend}' was provided."
        )
    rank = os.environ.get("MLX_RANK")
    if backend in ("any", "ring") and rank and os.environ.get("MLX_HOSTFILE"):
        raise RuntimeError(
            f"[ring] This is process {rank} of a group (MLX_RANK and MLX_HOSTFILE are set), but mxcompat runs in one: "
            "every process would work for itself. Start it alone."
        )
    if strict:
        raise RuntimeError(_STRICT[backend])
    return _group


def _checked(group: Group | None, function: str) -> None:
    if group is not None and not isinstance(group, Group):
        raise expected(function, "a Group or None", group)


def _alone(name: str, summary: str, shape: str = "The same shape and dtype.") -> Callable[..., array]:
    """A collective over a group of one: what goes in comes out."""
    record = op(name, jnp.asarray, lambda a: a)

    def function(x: Any, *, group: Group | None = None, stream: Any = None) -> array:
        _checked(group, name)
        return wrap(apply(record, (node_of(x),)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

Args:
    x: an array.
    group: a group of processes; None for all.
    stream: accepted, and ignored.

Returns:
    `x`, as the group has one member. {shape}

Example:
{example("distributed." + name)}
"""
    return function


all_sum = _alone("all_sum", "The sum of the arrays of all processes.")
all_max = _alone("all_max", "The elementwise maximum of the arrays of all processes.")
all_min = _alone("all_min", "The elementwise minimum of the arrays of all processes.")
all_gather = _alone("all_gather", "The arrays of all processes, concatenated along the first axis.")
sum_scatter = _alone("sum_scatter", "This process's share, along the first axis, of the sum of all arrays.")


def send(x: Any, dst: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Always raises ValueError: there is nobody to send to.

    Args:
        x: an array.
        dst: the number of the process to send to.
        group: a group of processes; None for all.
        stream: accepted, and ignored.
    """
    _checked(group, "send")
    node_of(x), index(dst)
    raise ValueError("Cannot send to a singleton group")


def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Always raises ValueError: there is nobody to receive from.

    Args:
        shape: the shape of the array to receive.
        dtype: its dtype.
        src: the number of the process to receive from.
        group: a group of processes; None for all.
        stream: accepted, and ignored.
    """
    _checked(group, "recv")
    integers(shape), index(src)
    require_dtype(dtype, "recv")
    raise ValueError("Cannot recv from a singleton group")


def recv_like(x: Any, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Always raises ValueError: there is nobody to receive from.

    Args:
        x: an array of the shape and dtype to receive.
        src: the number of the process to receive from.
        group: a group of processes; None for all.
        stream: accepted, and ignored.
    """
    _checked(group, "recv_like")
    node_of(x), index(src)
    raise ValueError("Cannot recv from a singleton group")
