"""Groups of processes for the tests, started by mxcompat's launcher, or as real MLX's ring without its launcher."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMBER = str(Path(__file__).with_name("member.py"))
PATIENCE = 600
"""Seconds until a group counts as deadlocked; ten times its need, for busy machines."""


def environment(**settings: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLX_", "MXCOMPAT_COORD", "MXCOMPAT_MEMBER"))}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return inherited | {"PYTHONPATH": path, "MXCOMPAT_DISTRIBUTED_TIMEOUT": "240"} | settings


def launch(size: int, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command under mxcompat's launcher."""
    line = [sys.executable, "-m", "mxcompat", "launch", "-n", str(size), *command]
    return subprocess.run(
        line, cwd=ROOT, env=environment(**settings), capture_output=True, text=True, timeout=PATIENCE, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def ours(folder: Path, size: int, jobs: Sequence[str], skew: float, way: str) -> list[dict[str, Any]]:
    """Return the record of each rank of an mxcompat group.

    Args:
        skew: seconds by which each rank starts a job after the rank below.
        way: "exchanged", the default for small arrays, or "by XLA", for all arrays.
    """
    result = launch(size, MEMBER, str(folder / "ours"), str(skew), *jobs, COLLECTIVES=way)
    assert result.returncode == 0, result.stdout + result.stderr
    return _read(folder / "ours", size)


def real(folder: Path, size: int, jobs: Sequence[str]) -> list[dict[str, Any]]:
    """Return the record of each rank of real MLX's ring."""
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(size)]))
    line = [sys.executable, MEMBER, str(folder / "real"), "0", *jobs]
    ranks = [
        subprocess.Popen(
            line, cwd=ROOT, env=environment(MLX_RANK=str(rank), MLX_HOSTFILE=str(hosts)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    try:
        for process in ranks:
            output, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, output
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
    return _read(folder / "real", size)


def free_ports(count: int) -> list[int]:
    """Return ports that are free at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _read(path: Path, size: int) -> list[dict[str, Any]]:
    return [pickle.loads(Path(f"{path}.{rank}").read_bytes()) for rank in range(size)]
