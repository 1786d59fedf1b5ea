"""Simulated hosts on one machine: network namespaces on a bridge, each with an address, a name and an sshd.

They need root, iproute2, util-linux and OpenSSH's server. Nothing outside the namespaces is changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Network", "what_is_missing"]

_TOOLS = ("ip", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd")
_SUBNET = "10.213.77"


def what_is_missing() -> str:
    """Return the reason why simulated hosts cannot be created here, or ""."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces are for root on Linux"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    tried = subprocess.run(["unshare", "-n", "-m", "-u", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "namespaces are not allowed here"


class Network:
    """Hosts with these names, and a namespace for commands that acts as the user's own machine.

    Args:
        folder: for keys and settings.
        names: names of the hosts.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.addresses = {name: f"{_SUBNET}.{k}" for k, name in enumerate(names, start=1)}
        self._folder = folder
        self._prefix = f"mxc{os.getpid()}"
        self._servers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Network:
        try:
            self._keys()
            self._namespace("here")
            self._ip("here", "link add bridge type bridge")
            self._ip("here", f"addr add {_SUBNET}.254/24 dev bridge")
            self._ip("here", "link set bridge up")
            for name, address in self.addresses.items():
                self._namespace(name)
                _run(f"ip link add {self._prefix}v type veth peer name port-{name} netns {self._prefix}-here")
                _run(f"ip link set {self._prefix}v netns {self._prefix}-{name} name eth0")
                self._ip("here", f"link set port-{name} master bridge up")
                self._ip(name, f"addr add {address}/24 dev eth0")
                self._ip(name, "link set eth0 up")
                self._serve(name)
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
        for name in ("here", *self.addresses):
            for pid in self.pids(name):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", f"{self._prefix}-{name}"], capture_output=True, check=False)

    def command(self, *command: str) -> list[str]:
        """Return a command that runs on the user's own machine, with access to the hosts without a password."""
        setup = self._names("here") + f"export PATH={shlex.quote(str(self._folder))}:$PATH"
        return ["ip", "netns", "exec", f"{self._prefix}-here", "sh", "-c", f'{setup}; exec "$@"', "sh", *command]

    def pids(self, name: str) -> list[int]:
        """Return the process numbers on a host, without its server."""
        line = ["ip", "netns", "pids", f"{self._prefix}-{name}"]
        numbers = subprocess.run(line, capture_output=True, text=True, check=False).stdout.split()
        return [int(pid) for pid in numbers if int(pid) not in [server.pid for server in self._servers]]

    def _ip(self, name: str, arguments: str) -> None:
        _run(f"ip -n {self._prefix}-{name} {arguments}")

    def _namespace(self, name: str) -> None:
        _run(f"ip netns add {self._prefix}-{name}")
        self._ip(name, "link set lo up")

    def _names(self, name: str) -> str:
        """Return a command that sets a host's name table. Its own name is a loopback address, as on Debian and
        Ubuntu."""
        hosts = self._folder / f"hosts-{name}"
        addresses = {"localhost": "127.0.0.1", **self.addresses, name: "127.0.1.1"}
        lines = [f"{address} {other}" for other, address in addresses.items()]
        hosts.write_text("\n".join(lines) + "\n")
        return f"mount --bind {shlex.quote(str(hosts))} /etc/hosts; mount --bind /dev/null /etc/resolv.conf; "

    def _keys(self) -> None:
        key, known = self._folder / "key", self._folder / "known"
        _run(f"ssh-keygen -q -t ed25519 -N '' -f {key}")
        public = " ".join((self._folder / "key.pub").read_text().split()[:2])
        known.write_text(f"* {public}\n")
        config = self._folder / "config"
        config.write_text(f"IdentityFile {key}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n")
        ssh = self._folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        ssh.chmod(0o755)

    def _serve(self, name: str) -> None:
        key = self._folder / "key"
        settings = {
            "ListenAddress": self.addresses[name], "HostKey": key, "AuthorizedKeysFile": f"{key}.pub",
            "StrictModes": "no", "PidFile": "none", "UsePAM": "no", "PasswordAuthentication": "no",
            "PermitRootLogin": "prohibit-password", "MaxStartups": 100,
        }  # fmt: skip
        options = shlex.join([f"-o{option}={value}" for option, value in settings.items()])
        setup = self._names(name) + f"mount -t tmpfs none /run; mkdir -m 755 /run/sshd; hostname {name}"
        line = f"{setup}; exec /usr/sbin/sshd -D -e -f /dev/null {options}"
        command = ["ip", "netns", "exec", f"{self._prefix}-{name}", "unshare", "-u", "sh", "-c", line]
        with (self._folder / f"log-{name}").open("wb") as log:
            self._servers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait(self) -> None:
        deadline = time.monotonic() + 20
        for name in self.addresses:
            while subprocess.run(self.command("ssh", name, "true"), capture_output=True, check=False).returncode:
                if time.monotonic() > deadline:
                    raise TimeoutError((self._folder / f"log-{name}").read_text())
                time.sleep(0.1)


def _run(line: str) -> None:
    subprocess.run(shlex.split(line), check=True, capture_output=True, text=True)
