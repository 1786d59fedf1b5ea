"""Hosts: the machines on which the launcher starts processes, and MLX's file format for them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

__all__ = ["Host", "Hostfile"]


@dataclass
class Host:
    """The host of one rank.

    Args:
        rank: the number of the rank.
        ssh_hostname: the name for ssh; "127.0.0.1" and "localhost" are this machine.
        ips: the host's addresses, if they are known.
        rdma: names of RDMA devices, which only MLX uses.
    """

    rank: int
    ssh_hostname: str
    ips: list[str]
    rdma: list[Any]

    @property
    def is_local(self) -> bool:
        """True if the host is this machine."""
        return self.ssh_hostname in ("127.0.0.1", "localhost")

    @property
    def address(self) -> str:
        """The address at which other ranks can reach the host."""
        return self.ips[0] if self.ips else "127.0.0.1" if self.is_local else self.ssh_hostname.rpartition("@")[2]


@dataclass
class Hostfile:
    """The hosts of all ranks, a backend, and environment variables to set ("NAME=VALUE")."""

    hosts: list[Host]
    backend: str = ""
    envs: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the content of a host file."""
        hosts = [{"ssh": h.ssh_hostname, "ips": h.ips, "rdma": h.rdma} for h in self.hosts]
        return {"backend": self.backend, "envs": self.envs, "hosts": hosts}

    @classmethod
    def from_file(cls, hostfile: str | Path) -> Hostfile:
        """Read a host file: a list of hosts, or an object with `hosts` and optionally `backend` and `envs`. A host has
        `ssh`, and optionally `ips` and `rdma`.

        Raises:
            ValueError: if the file does not exist or cannot be parsed.
        """
        path = Path(hostfile)
        if not path.exists():
            raise ValueError(f"Hostfile {path} doesn't exist")
        try:
            data = json.loads(path.read_text())
            content: dict[str, Any] = {"hosts": data} if isinstance(data, list) else data
            hosts = [
                Host(rank, host["ssh"], host.get("ips", []), host.get("rdma", []))
                for rank, host in enumerate(content["hosts"])
            ]
            return cls(hosts, content.get("backend", ""), content.get("envs", []))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"Failed to parse hostfile {path} ({error})") from error

    @classmethod
    def from_list(cls, hostlist: str, repeats: int = 1) -> Hostfile:
        """Make hosts from comma-separated names or addresses, each repeated `repeats` times.

        Raises:
            ValueError: if a name is empty.
        """
        names = [name for name in hostlist.split(",") for _ in range(repeats)]
        if "" in names:
            raise ValueError("Hostname cannot be empty")
        return cls([Host(rank, name, [name] if _is_address(name) else [], []) for rank, name in enumerate(names)])


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
