"""`distributed`: the public functions.

In a group of several processes, each function makes the node of a collective (see `records`). In a group of one, it
returns its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import node_of
from mxcompat._array.errors import expected
from mxcompat._array.streams import check_stream
from mxcompat._distributed.environment import peers
from mxcompat._distributed.group import Group, group_for
from mxcompat._graph.ir.aval import Dtype, format_shape
from mxcompat._graph.ir.node import Node, apply, caller, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.trace_stack import innermost_trace
from mxcompat._jax import lazy

from ..arguments import flag, integer, plain, require_dtype, require_text
from ..define import op
from ..examples import example
from .records import GATHER, MAX, MIN, RECV, SCATTER, SEND, SUM

__all__ = [
    "all_gather", "all_max", "all_min", "all_sum", "init", "is_available", "recv", "recv_like", "send", "sum_scatter",
]  # fmt: skip

_STRICT = {
    "any": "[distributed] Couldn't initialize any backend",
    "mpi": "Cannot initialize MPI",
    "nccl": "Cannot initialize nccl distributed backend.",
    "jaccl": "Cannot initialize jaccl distributed backend.",
    "ring": "[ring] This process is alone: start it with python -m mxcompat launch, or set MLX_RANK and MLX_HOSTFILE.",
}


def is_available(backend: str = "any") -> bool:
    """Return whether processes can form a group with the backend of this name in MLX.

    As in MLX, "ring" and "any" are always available. The others depend on the launcher that started this process.
    `init().size()` is the number of processes.

    Args:
        backend: "any", "mpi", "nccl", "jaccl" or "ring".

    Returns:
        A bool.

    Raises:
        TypeError: if `backend` is not a str.

    Example:
        >>> mx.distributed.is_available()
        True
    """
    require_text(backend, "is_available", "backend")
    processes = peers()
    return backend in ("any", "ring") or (processes is not None and backend in processes.backends)


def init(
    strict: bool = False,
    backend: str = "any",
    *,
    all_gather_factory: Callable[[int, int], Callable[[bytes, int], bytes]] | None = None,
) -> Group:
    """Return the group of all processes that were started together. The first call waits for the others.

    The group communicates over JAX's transports: gloo between CPUs, NCCL between GPUs, the interconnect of TPUs. The
    name of MLX's backend has two effects only. It decides which launchers form a group, and a group of "ring" cannot be
    split.

    Args:
        strict: raise an error instead of returning a group of one.
        backend: "any", "mpi", "nccl", "jaccl" or "ring".
        all_gather_factory: a function, with the backend "jaccl" alone. It is not called: JAX's processes find each
            other without it.

    Raises:
        RuntimeError: if `strict` and this process was not started as one of several; and if others do not come within
            the limit (`MXCOMPAT_DISTRIBUTED_TIMEOUT`, 100 seconds by default).
        TypeError: if `all_gather_factory` is not callable.
        ValueError: for another backend, and for an `all_gather_factory` with another one than "jaccl".

    Example:
        >>> mx.distributed.init().size()
        1
    """
    flag(strict, "init", "strict")
    require_text(backend, "init", "backend")
    if all_gather_factory is not None:
        if not callable(all_gather_factory):
            raise expected("init", "a callable or None", all_gather_factory)
        if backend != "jaccl":
            raise ValueError("all_gather_factory is only supported with backend='jaccl'.")
    if backend not in _STRICT:
        raise ValueError(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' but "
            f"'{backend}' was provided."
        )
    group = group_for(backend)
    if strict and group.size() == 1:
        raise RuntimeError(_STRICT[backend])
    return group


def _group(group: Group | None, function: str) -> Group:
    if group is None:
        return group_for("any")
    if not isinstance(group, Group):
        raise expected(function, "a Group or None", group)
    return group


def _collective(name: str, record: Op, summary: str, shape: str, ranked: bool = False) -> Callable[..., array]:
    """Make the public function of a collective of all members of a group."""
    alone = op(name, lazy.numpy.asarray, lambda a: a)

    def function(x: Any, *, group: Group | None = None, stream: Any = None) -> array:
        check_stream(stream)
        members = _group(group, name)
        node = node_of(x)
        if members.size() == 1:
            return wrap(apply(alone, (node,)))
        if name == "sum_scatter" and (not node.aval.ndim or node.aval.shape[0] % members.size()):
            raise ValueError(
                f"[sum_scatter] Invalid shape={format_shape(node.aval.shape)} for a group of size {members.size()}. "
                "The first dimension (axis 0) must be divisible by the group size and input mst have at least one."
            )
        params = (members._ranks, members.rank()) if ranked else (members._ranks,)
        return wrap(items(apply(record, (node,), params))[0])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

Args:
    x: an array.
    group: a group of processes; None for all.
    stream: accepted, and ignored.

Returns:
    {shape}

Raises:
    RuntimeError: at evaluation, if the members of the group do not all call it with arrays of one dtype and shape.

Example:
{example("distributed." + name)}
"""
    return function


_SAME = "An array of the same shape and dtype."
all_sum = _collective("all_sum", SUM, "Return the sum of the arrays of all processes.", _SAME)
all_max = _collective("all_max", MAX, "Return the elementwise maximum of the arrays of all processes.", _SAME)
all_min = _collective("all_min", MIN, "Return the elementwise minimum of the arrays of all processes.", _SAME)
all_gather = _collective(
    "all_gather", GATHER, "Return the arrays of all processes, concatenated along the first axis.",
    "An array with the rows of all members. Scalars become a vector.", ranked=True,
)  # fmt: skip
sum_scatter = _collective(
    "sum_scatter", SCATTER, "Return this process's share, along the first axis, of the sum of all arrays.",
    "An array with the rows of `x` divided by the number of members.", ranked=True,
)  # fmt: skip


def send(x: Any, dst: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Send an array to another process, which must call `recv`.

    Args:
        x: an array.
        dst: the rank of the process to send to.
        group: a group of processes; None for all.
        stream: accepted, and ignored.

    Returns:
        `x`. The evaluation of the result sends it.

    Raises:
        RuntimeError: at evaluation, if the other process does not receive an array with this shape and dtype. A small
            array between CPUs is sent at once, so that the error occurs in the other process.
        ValueError: if there is no such process, or if the group has no other member.
    """
    check_stream(stream)
    members, node, dst = _group(group, "send"), node_of(x), integer(dst)
    if members.size() == 1:
        raise ValueError("Cannot send to a singleton group")
    if not 0 <= dst < members.size():
        raise ValueError(f"Invalid destination={dst} for a group of size {members.size()}")
    _require_another(members, dst)
    return wrap(items(apply(SEND, (node,), ((members._ranks[members.rank()], members._ranks[dst]),)))[0])


def recv(shape: Sequence[int], dtype: Dtype, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Receive an array from another process, which must call `send`.

    Args:
        shape: the shape of the array to receive.
        dtype: its dtype.
        src: the rank of the process to receive from.
        group: a group of processes; None for all.
        stream: accepted, and ignored.

    Returns:
        An array with that shape and dtype. The evaluation of the result receives it.

    Raises:
        RuntimeError: at evaluation, if the other process does not send an array with this shape and dtype.
        ValueError: if there is no such process, or if the group has no other member.
    """
    check_stream(stream)
    members, sizes = _group(group, "recv"), plain(shape)
    require_dtype(dtype, "recv")
    return _received(members, sizes, dtype, integer(src), ())


def recv_like(x: Any, src: int, *, group: Group | None = None, stream: Any = None) -> array:
    """Receive an array like `x` from another process, which must call `send`.

    Args:
        x: an array with the shape and dtype to receive.
        src: the rank of the process to receive from.
        group: a group of processes; None for all.
        stream: accepted, and ignored.

    Returns:
        An array with that shape and dtype. The evaluation of the result receives it.

    Raises:
        RuntimeError: at evaluation, if the other process does not send an array with this shape and dtype.
        ValueError: if there is no such process, or if the group has no other member.
    """
    check_stream(stream)
    members, node = _group(group, "recv_like"), node_of(x)
    return _received(members, node.aval.shape, node.aval.dtype, integer(src), (node,))


def _received(group: Group, shape: tuple[int, ...], dtype: Dtype, src: int, inputs: tuple[Node, ...]) -> array:
    if group.size() == 1:
        raise ValueError("Cannot recv from a singleton group")
    if not 0 <= src < group.size():
        raise ValueError(f"Invalid source={src} for a group of size {group.size()}")
    _require_another(group, src)
    params = ((group._ranks[src], group._ranks[group.rank()]), shape, dtype)
    avals = RECV.infer((params, *[n.aval for n in inputs]))
    # with no inputs, the node must get the trace of the innermost capture
    trace = max([n.trace for n in inputs], default=innermost_trace())
    return wrap(items(Node(RECV, params, inputs, avals, trace, None, caller()))[0])


def _require_another(group: Group, other: int) -> None:
    if other == group.rank():
        raise RuntimeError(f"[distributed] Rank {other} cannot communicate with itself.")
