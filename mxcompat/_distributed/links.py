"""Connections between ranks, over which they agree on the next collective and exchange small arrays.

All ranks know the address of rank 0, where they learn the addresses of the others. When two ranks first communicate,
the higher one connects to the lower one. A message is a JSON object with optional data, preceded by the lengths of
both.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from mxcompat._graph import policy
from mxcompat._graph.run.waiting import give_way

__all__ = ["Failed", "Gone", "Late", "Links", "framed", "free_port", "joined", "named"]

_LEAVING, _FAILED = b"leaving", b"failed"
"""The message that a rank sends in place of JSON when it ends, and when it has failed. After a failure, the data give
the reason."""

_LENGTHS = struct.Struct("!II")


class Gone(Exception):
    """Raised if a rank has closed its connection."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.rank = rank


class Failed(Exception):
    """Raised if a rank has failed and has sent the reason."""


class Late(Exception):
    """Raised if some ranks have not sent a message in time."""

    def __init__(self, ranks: Iterable[int]) -> None:
        super().__init__(ranks)
        self.ranks = sorted(ranks)


class Links:
    """The connections of one rank.

    Args:
        rank: the number of this rank.
        listener: the socket to which higher ranks connect.
        endpoints: the host and port of each rank's listener.
        secret: a secret that connecting ranks must send.
        sockets: the existing connections, by rank.
    """

    def __init__(
        self, rank: int, listener: socket.socket, endpoints: Sequence[tuple[str, int]], secret: str,
        sockets: dict[int, socket.socket],
    ) -> None:  # fmt: skip
        self.rank = rank
        self.host = endpoints[rank][0]
        self._listener = listener
        self._endpoints = endpoints
        self._secret = secret
        self._sockets = sockets

    @classmethod
    def meet(cls, rank: int, size: int, address: str, seconds: float) -> tuple[Links, str]:
        """Connect to the other ranks. Return the connections, and the address of JAX's coordinator.

        Raises:
            RuntimeError: if some ranks did not arrive in time.
        """
        host, port = _split(address)
        deadline = time.monotonic() + seconds
        return _host_meeting(size, host, port, deadline) if rank == 0 else _join(rank, size, host, port, deadline)

    def send(self, rank: int, message: bytes, deadline: float) -> None:
        """Send a message (`framed`) to a lower rank, or to a higher one that has connected.

        Raises:
            Gone: if the rank has ended or has not connected.
            Late: if the rank has not accepted the earlier data by the deadline.
        """
        if rank > self.rank and rank not in self._sockets:
            raise Gone(rank)
        try:
            connection = self._connection_to(rank)
            connection.settimeout(max(0.1, deadline - time.monotonic()))
            connection.sendall(message)
        except TimeoutError:
            raise Late([rank]) from None
        except OSError:
            raise Gone(rank) from None

    def exchange(
        self, to: Iterable[int], of: Iterable[int], message: bytes, deadline: float
    ) -> dict[int, tuple[bytes, bytes]]:  # fmt: skip
        """Send a message (`framed`) to the ranks `to`, and return the JSON and data received from the ranks `of`. Two
        ranks may send to each other at the same time, so a message must fit into the network's buffers.

        Raises:
            Gone: if one of the ranks has ended.
            Failed: if one of the ranks has failed.
            Late: if some messages have not arrived by the deadline (`time.monotonic`).
        """
        missing, unsent = set(of), set(to)
        messages: dict[int, tuple[bytes, bytes]] = {}
        while True:
            for rank in [r for r in unsent if r < self.rank or r in self._sockets]:
                self.send(rank, message, deadline)
                unsent.discard(rank)
            if not missing and not unsent:
                return messages
            waiting = {self._connection_to(r): r for r in missing if r < self.rank or r in self._sockets}
            ready = self._ready([*waiting, self._listener], deadline)
            if not ready:
                raise Late(missing or unsent)
            for connection in ready:
                if connection is self._listener:
                    self._accept()
                    continue
                rank = waiting[connection]
                messages[rank] = self._read(rank, connection)
                missing.discard(rank)

    def _read(self, rank: int, connection: socket.socket) -> tuple[bytes, bytes]:
        try:
            message, data = _received(connection)
        except (OSError, EOFError):
            raise Gone(rank) from None
        if message == _LEAVING:
            raise Gone(rank)
        if message == _FAILED:
            raise Failed(data.decode())
        return message, data

    def tell(self, ranks: Iterable[int], why: str) -> None:
        """Tell some ranks, if they can be reached, that this one has failed."""
        for rank in ranks:
            with suppress(Gone, Late):  # ignore ranks that cannot be reached
                self.send(rank, framed(_FAILED, why.encode()), time.monotonic())

    def _ready(self, sockets: Sequence[socket.socket], deadline: float) -> list[socket.socket]:
        """Return the sockets that can be read before the deadline. Spin for a short time before blocking."""
        soon = time.monotonic() + policy.WAKE_SECONDS
        while not (ready := select.select(sockets, [], [], 0)[0]):
            if time.monotonic() > soon:
                return select.select(sockets, [], [], max(0.0, deadline - time.monotonic()))[0]
            give_way()
        return ready

    def wait_for_the_end(self, seconds: float) -> None:
        """Wait until all connected ranks have ended."""
        deadline = time.monotonic() + seconds
        open_ = list(self._sockets.values())
        while open_ and (left := deadline - time.monotonic()) > 0:
            for connection in select.select(open_, [], [], left)[0]:
                try:
                    ended = not connection.recv(1 << 16)
                except OSError:
                    ended = True
                if ended:
                    open_.remove(connection)

    def leave(self) -> None:
        """Tell all connected ranks that this one ends."""
        for rank in self._sockets:
            with suppress(Gone, Late):  # ignore ranks that have ended
                self.send(rank, framed(_LEAVING), time.monotonic())

    def _connection_to(self, rank: int) -> socket.socket:
        """Return the connection to a lower rank, or to a higher one that has connected."""
        if rank not in self._sockets:
            self._sockets[rank] = self._connect(rank)
        return self._sockets[rank]

    def _connect(self, rank: int) -> socket.socket:
        try:
            connection = socket.create_connection(self._endpoints[rank], timeout=30)
            _set_options(connection)
            _send(connection, {"rank": self.rank, "secret": self._secret})
        except OSError:
            raise Gone(rank) from None
        return connection

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(5)
        try:
            hello = _receive(connection)
        except (OSError, EOFError, ValueError):
            hello = {}
        if secrets.compare_digest(str(hello.get("secret")), self._secret):
            _set_options(connection)
            self._sockets[int(hello["rank"])] = connection
        else:
            connection.close()


def _host_meeting(size: int, host: str, port: int, deadline: float) -> tuple[Links, str]:
    listener = _listening(port, size)
    sockets: dict[int, socket.socket] = {}
    ports = {0: port}
    while len(ports) < size:
        if not select.select([listener], [], [], max(0.0, deadline - time.monotonic()))[0]:
            missing = [r for r in range(size) if r not in ports]
            error = f"Of {size} ranks, {named(missing)} did not come in time"
            for other in sockets.values():
                _send(other, {"error": error})
            raise RuntimeError(f"[init] {error}.")
        connection, _ = listener.accept()
        connection.settimeout(5)
        try:
            hello = _receive(connection)
            rank, theirs = hello["rank"], hello["size"]
        except (OSError, EOFError, ValueError, KeyError):
            connection.close()
            continue
        if theirs != size or rank in ports or not 0 < rank < size:
            error = f"Rank {rank} of {theirs} came to a group of {size}, of which {named(ports)} had come before"
            for other in (connection, *sockets.values()):
                _send(other, {"error": error})
            raise RuntimeError(f"[init] {error}.")
        _set_options(connection)
        sockets[rank], ports[rank] = connection, hello["port"]
    hosts = _addresses(sockets)
    said = {
        "endpoints": [(hosts[r], ports[r]) for r in range(size)],
        "secret": secrets.token_hex(16),
        "coordinator": joined(host, free_port()),
    }
    for connection in sockets.values():
        _send(connection, said)
    return Links(0, listener, said["endpoints"], said["secret"], sockets), said["coordinator"]


def _addresses(sockets: Mapping[int, socket.socket]) -> dict[int, str]:
    """Return the address of each rank, as seen from rank 0's connections. The name of a machine may stand for a
    loopback address, at which others cannot reach it."""
    own = [_host(s.getsockname()) for s in sockets.values()]
    own.sort(key=_is_loopback)
    theirs = {rank: _host(s.getpeername()) for rank, s in sockets.items()}
    return {0: own[0]} | {rank: own[0] if _is_loopback(host) else host for rank, host in theirs.items()}


def _host(address: Any) -> str:
    return address[0].removeprefix("::ffff:")  # an IPv4 address has this form in a dual-stack socket


def _is_loopback(host: str) -> bool:
    return ip_address(host.partition("%")[0]).is_loopback


def _listening(port: int, backlog: int) -> socket.socket:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=backlog, dualstack_ipv6=both)


def _join(rank: int, size: int, host: str, port: int, deadline: float) -> tuple[Links, str]:
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"[init] Rank 0 could not be met at {host}:{port} in time. ({error})") from None
            time.sleep(0.05)  # rank 0 may not have started yet
    listener = _listening(0, size)
    _set_options(connection)
    connection.settimeout(max(0.1, deadline - time.monotonic()) + policy.GRACE_SECONDS)
    try:
        _send(connection, {"rank": rank, "size": size, "port": listener.getsockname()[1]})
        said = _receive(connection)
    except (OSError, EOFError):
        raise RuntimeError("[init] Rank 0 waited for others, and has ended, or waits still.") from None
    if "error" in said:
        raise RuntimeError(f"[init] {said['error']}.")
    _set_options(connection)
    endpoints = [tuple(e) for e in said["endpoints"]]
    return Links(rank, listener, endpoints, said["secret"], {0: connection}), said["coordinator"]


def named(ranks: Iterable[int]) -> str:
    """Return the names of ranks for a message."""
    numbers = sorted(ranks)
    return f"rank {numbers[0]}" if len(numbers) == 1 else "ranks " + ", ".join(map(str, numbers))


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"[init] The address of rank 0 must be host:port, but is {address!r}.")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """Return the address of a port on a host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """Return a port that is free now."""
    with _listening(0, 1) as taken:
        return taken.getsockname()[1]


def _set_options(connection: socket.socket) -> None:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def framed(message: bytes, data: bytes = b"") -> bytes:
    """Return a message as sent: the lengths of the JSON and of the data, the JSON, and the data."""
    return _LENGTHS.pack(len(message), len(data)) + message + data


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(framed(json.dumps(message).encode()))


def _receive(connection: socket.socket) -> dict[str, Any]:
    return json.loads(_received(connection)[0])


def _received(connection: socket.socket) -> tuple[bytes, bytes]:
    length, size = _LENGTHS.unpack(_exactly(connection, _LENGTHS.size))
    message = _exactly(connection, length + size)
    return message[:length], message[length:]


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data
