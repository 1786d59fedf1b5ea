"""Find the other processes from the environment variables that a launcher sets.

The sources are, in this order: mxcompat's launcher, MLX's launcher (backends ring and nccl), JAX's own variables, and
JAX's detection of clusters (Slurm, Open MPI, Kubernetes). Child processes inherit the variables, but are not members.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["BACKENDS", "MEMBER", "Peers", "own_gpu", "peers", "timeout"]


class Peers(NamedTuple):
    """The processes that a launcher started together.

    Args:
        rank: the number of this process.
        size: the number of processes.
        address: the address of rank 0, "host:port"; None if JAX finds the others.
        backends: the names of MLX's backends that this environment stands for.
    """

    rank: int
    size: int
    address: str | None
    backends: tuple[str, ...]


BACKENDS = ("any", "mpi", "ring", "nccl", "jaccl", "jaccl-ring")
"""MLX's backend names that launchers accept."""

MEMBER = "MXCOMPAT_MEMBER"
"""The environment variable with the process id of the group's member. Its child processes are not members."""

_ALL = ("any", "mpi", "nccl", "jaccl", "ring")
_NOT_RING = _ALL[:-1]


def peers() -> Peers | None:
    """Return the processes that were started together with this one, or None if it was started alone."""
    processes = _from_variables() or _detected()
    if processes is None or processes.size < 2 or os.environ.get(MEMBER, str(os.getpid())) != str(os.getpid()):
        return None
    os.environ[MEMBER] = str(os.getpid())
    return processes


def timeout() -> float:
    """Return the number of seconds to wait for other processes."""
    text = os.environ.get("MXCOMPAT_DISTRIBUTED_TIMEOUT", "100")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds <= 0:
        raise ValueError(f"MXCOMPAT_DISTRIBUTED_TIMEOUT must be a number of seconds, but is {text!r}.")
    return seconds


def own_gpu() -> int | None:
    """Return the number of the GPU for this process, or None if this machine has fewer GPUs than processes."""
    number, _, count = os.environ.get("MXCOMPAT_LOCAL", "0/1").partition("/")
    gpus = len([*Path("/dev").glob("nvidia[0-9]*")])
    return int(number) if 1 < int(count) <= gpus and "JAX_LOCAL_DEVICE_IDS" not in os.environ else None


def _from_variables() -> Peers | None:
    """Return the processes that a launcher's variables describe."""
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
    "SLURM_PROCID": "SLURM_STEP_NUM_TASKS",  # Slurm sets this for a step, but not for an sbatch script
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
}
"""The environment variables with the rank and with the number of ranks, in clusters that JAX detects."""


def _detected() -> Peers | None:
    """Return the processes that JAX detects in a cluster."""
    for rank, size in _SIZES.items():
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            return Peers(int(os.environ[rank]), int(os.environ[size]), None, _NOT_RING)
    if "KUBERNETES_SERVICE_HOST" in os.environ and os.environ.get("JOB_COMPLETION_INDEX", "").isdigit():
        # the size is a placeholder: JAX asks the cluster for it
        return Peers(int(os.environ["JOB_COMPLETION_INDEX"]), 2, None, _NOT_RING)
    return None
