"""Who the others are: what launchers tell a process in its environment.

Asked are, in this order, mxcompat's launcher, MLX's (for its backends ring and nccl), JAX's own variables, and what JAX
finds out by itself (Slurm, Open MPI, Kubernetes). A process that one of these has started may start others, which
inherit its environment: they are no members.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["BACKENDS", "MEMBER", "Peers", "own_gpu", "peers", "timeout"]


class Peers(NamedTuple):
    """The processes that were started together.

    Args:
        rank: which of them this one is.
        size: how many there are.
        address: where rank 0 is to be met, "host:port"; None where JAX finds the others.
        backends: the names of MLX's backends that this environment is for.
    """

    rank: int
    size: int
    address: str | None
    backends: tuple[str, ...]


BACKENDS = ("any", "mpi", "ring", "nccl", "jaccl", "jaccl-ring")
"""The names of MLX's backends that launchers know."""

MEMBER = "MXCOMPAT_MEMBER"
"""The variable with the id of the process that was meant."""

_ALL = ("any", "mpi", "nccl", "jaccl", "ring")
_NOT_RING = _ALL[:-1]


def peers() -> Peers | None:
    """The processes that this one was started with; None if it was started alone."""
    found = _named() or _detected()
    if found is None or found.size < 2 or os.environ.get(MEMBER, str(os.getpid())) != str(os.getpid()):
        return None
    os.environ[MEMBER] = str(os.getpid())
    return found


def timeout() -> float:
    """How many seconds to wait for others."""
    given = os.environ.get("MXCOMPAT_DISTRIBUTED_TIMEOUT", "100")
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if seconds <= 0:
        raise ValueError(f"MXCOMPAT_DISTRIBUTED_TIMEOUT must be a number of seconds, but is {given!r}.")
    return seconds


def own_gpu() -> int | None:
    """Which of this machine's GPUs is for this process; None where there are fewer than processes on it."""
    number, _, count = os.environ.get("MXCOMPAT_LOCAL", "0/1").partition("/")
    gpus = len([*Path("/dev").glob("nvidia[0-9]*")])
    return int(number) if 1 < int(count) <= gpus and "JAX_LOCAL_DEVICE_IDS" not in os.environ else None


def _named() -> Peers | None:
    """What launchers say."""
    rank = os.environ.get("MLX_RANK")
    if rank is not None and "MXCOMPAT_COORDINATOR" in os.environ:
        backend = os.environ.get("MXCOMPAT_BACKEND", "any").removesuffix("-ring")
        backends = _ALL if backend == "any" else ("any", backend)
        return Peers(int(rank), int(os.environ["MLX_WORLD_SIZE"]), os.environ["MXCOMPAT_COORDINATOR"], backends)
    if rank is not None and os.environ.get("MLX_HOSTFILE"):
        hosts = json.loads(Path(os.environ["MLX_HOSTFILE"]).read_text())
        return Peers(int(rank), len(hosts), hosts[0][0], ("any", "ring"))
    if rank is not None and {"MLX_WORLD_SIZE", "NCCL_HOST_IP", "NCCL_PORT"} <= os.environ.keys():
        address = f"{os.environ['NCCL_HOST_IP']}:{os.environ['NCCL_PORT']}"
        return Peers(int(rank), int(os.environ["MLX_WORLD_SIZE"]), address, ("any", "nccl"))
    if {"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"} <= os.environ.keys():
        rank, size = os.environ["JAX_PROCESS_ID"], os.environ["JAX_NUM_PROCESSES"]
        return Peers(int(rank), int(size), os.environ["JAX_COORDINATOR_ADDRESS"], _ALL)
    return None


_SIZES = {
    "SLURM_PROCID": "SLURM_STEP_NUM_TASKS",  # of a step, which a script that sbatch runs is not yet
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
}
"""What JAX finds: the variables with the rank, and those with the number of ranks."""


def _detected() -> Peers | None:
    """What there is where JAX finds the others."""
    for rank, size in _SIZES.items():
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            return Peers(int(os.environ[rank]), int(os.environ[size]), None, _NOT_RING)
    if "KUBERNETES_SERVICE_HOST" in os.environ and os.environ.get("JOB_COMPLETION_INDEX", "").isdigit():
        return Peers(int(os.environ["JOB_COMPLETION_INDEX"]), 2, None, _NOT_RING)  # how many, JAX will ask the cluster
    return None
