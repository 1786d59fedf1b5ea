"""This process as a member of those that were started together: it joins them once, agrees with them, and leaves.

JAX's distributed runtime makes one system of the devices of all. Before each collective its members agree that they are
about to do the same: that costs a message to the lowest rank of them and one back, and buys an error, with the line of
each, where there would be a hang or a wrong sum.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from mxcompat._graph import policy
from mxcompat._graph.run import platform, steps

from . import runtime
from .environment import Peers, own_gpu, peers, timeout
from .links import Gone, Late, Links, named

__all__ = ["Call", "joined"]


class Call(NamedTuple):
    """What a rank is about to do with others.

    Args:
        op: its name.
        what: of which arrays.
        where: the line of the user's that asked for it.
        kind: what has to be the same for all, besides `what`.
    """

    op: str
    what: str
    where: str
    kind: str

    def __str__(self) -> str:
        return f"[{self.op}] {self.what}" + (f" ({self.where})" if self.where else "")


class World:
    """All the processes that were started together.

    Args:
        rank: this one's.
        size: how many there are.
        backends: the names of MLX's backends that they form a group for.
    """

    def __init__(self, found: Peers) -> None:
        self.rank = found.rank
        self.size = found.size
        self.backends = found.backends
        self._timeout = timeout()
        self._failed: str | None = None
        self._lock = threading.Lock()
        jax.config.update("jax_enable_recoverability", True)  # an error here rather than an abort of the process there
        if found.address is None:
            if not jax.distributed.is_initialized():
                _initialize()
            self.rank, self.size, address = runtime.found_by_jax(self._timeout)
            self._links, _ = Links.meet(self.rank, self.size, address, self._timeout)
        else:
            self._links, coordinator = Links.meet(self.rank, self.size, found.address, self._timeout)
            _initialize(coordinator, self.size, self.rank, own_gpu())
        runtime.listen_at(self._links.host)
        platform.backend()  # which waits for the others, now that they come
        self._flying: deque[tuple[Call, Any]] = deque(maxlen=policy.MOST_FLYING)
        atexit.register(self._leave)
        steps.explanations.append(self._explain)
        steps.count()

    def agree(self, ranks: Sequence[int], call: Call, value: Any = None) -> list[Any]:
        """Wait until all of some ranks are about to do the same, and return what each has to say, in their order.

        Raises:
            RuntimeError: if they are not, or one has ended or does not come in time. It names ranks, op and line.
        """
        with self._lock:
            if self._failed is not None:
                raise RuntimeError(f"[{call.op}] The ranks have come apart before: {self._failed}")
            leader = min(ranks)
            try:
                if self.rank == leader:
                    return self._lead(ranks, call, value)
                self._links.send(leader, {"key": _key(ranks, call), "text": str(call), "value": value})
                answer = self._links.receive([leader], time.monotonic() + self._timeout + policy.GRACE_SECONDS)[leader]
            except Gone as gone:
                raise self._failure(call, f"Rank {gone.rank} has ended.") from None
            except Late as late:
                raise self._failure(call, self._late(late)) from None
        if "failed" in answer:
            raise self._failure(call, answer["failed"])
        if "error" in answer:
            raise RuntimeError(f"[{call.op}] {answer['error']}")
        return answer["values"]

    def start(self, call: Call, collective: Callable[[], Any]) -> Any:
        """Start a collective that all have agreed on. It may fail here, or when its result is asked for."""
        try:
            result = collective()
        except Exception as error:
            raise self._broken_off(call, error) from error
        self._flying.append((call, weakref.ref(result)))
        return result

    def _explain(self, error: Exception) -> Exception | None:
        """The error to raise for one that came with a value, if a collective has failed meanwhile."""
        for call, reference in self._flying:
            result = reference()
            try:
                if result is not None and result.is_ready():
                    result.block_until_ready()
            except Exception as cause:
                return self._broken_off(call, cause)
        return None

    def _broken_off(self, call: Call, cause: Exception) -> RuntimeError:
        return self._failure(call, f"A rank has ended in the middle of it, or cannot be reached any more. ({cause})")

    def _lead(self, ranks: Sequence[int], call: Call, value: Any) -> list[Any]:
        others = [r for r in ranks if r != self.rank]
        came: dict[int, Any] = {}
        try:
            deadline = time.monotonic() + self._timeout
            came = self._links.receive(others, deadline)
        except (Gone, Late) as error:
            why = f"Rank {error.rank} has ended." if isinstance(error, Gone) else self._late(error)
            for rank in others:
                self._tell(rank, {"failed": why})
            raise
        texts = {self.rank: str(call)} | {r: m["text"] for r, m in came.items()}
        if any(m["key"] != _key(ranks, call) for m in came.values()):
            text = "; ".join(f"rank {r} is at {texts[r]}" for r in sorted(texts))
            error = f"The ranks do not agree on what comes next: {text}."
            for rank in others:
                self._tell(rank, {"error": error})
            raise RuntimeError(f"[{call.op}] {error}")
        values = [value if r == self.rank else came[r]["value"] for r in ranks]
        for rank in others:
            self._tell(rank, {"values": values})
        return values

    def _tell(self, rank: int, answer: dict[str, Any]) -> None:
        try:
            self._links.send(rank, answer)
        except Gone:
            if "values" in answer:  # else it need not know
                raise

    def _late(self, late: Late) -> str:
        return f"After {self._timeout:g} s {named(late.ranks)} had not come to the same point."

    def _failure(self, call: Call, why: str) -> RuntimeError:
        self._failed = why
        return RuntimeError(f"{call}, on rank {self.rank}: {why}")

    def _leave(self) -> None:
        """At the end of the process: who waits for this one need not any more, and rank 0, where JAX's coordinator
        runs, stays until all others have ended."""
        self._links.leave()
        if self.rank == 0:
            self._links.wait_for_the_end(self._timeout)


def _key(ranks: Sequence[int], call: Call) -> list[Any]:
    """What all have to have the same of."""
    return [call.kind, call.what, list(ranks)]


_world: World | None = None
_joining = threading.RLock()


def joined() -> World | None:
    """The world of this process, which joins it now if it has not; None if it was started alone."""
    global _world
    with _joining:
        if _world is None and (found := peers()) is not None:
            platform.before_start.clear()
            if platform.has_started():
                raise RuntimeError(
                    "[init] JAX has started on this process's devices alone. Call mx.distributed.init() first."
                )
            _world = World(found)
        return _world


def _initialize(*args: Any, **kwargs: Any) -> None:
    seconds = max(10, int(timeout()))
    jax.distributed.initialize(*args, **kwargs, initialization_timeout=seconds, heartbeat_timeout_seconds=seconds)


if peers() is not None:
    platform.before_start.append(joined)
