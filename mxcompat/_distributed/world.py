"""This process as a member of a group: it joins the others once, agrees with them on each collective, and leaves.

JAX's distributed runtime joins the devices of all processes. Before each collective, the members exchange messages to
agree that they are about to do the same. Without this, a mistake would cause a hang or a wrong sum; now it raises an
error that names each rank's line. The messages also carry small arrays.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from mxcompat._compat.jax_internals import recoverability
from mxcompat._graph import policy
from mxcompat._graph.run import effects, platform
from mxcompat._jax import jax

from . import runtime
from .call import Call
from .environment import Peers, own_gpu, timeout
from .links import Failed, Gone, Late, Links, framed, named

__all__ = ["World"]


class World:
    """All the processes that were started together.

    Args:
        described: the processes, as the environment describes them.

    `rank` is the number of this process, `size` the number of processes, and `backends` the names of MLX's backends for
    which they form a group.
    """

    def __init__(self, described: Peers) -> None:
        self.rank = described.rank
        self.size = described.size
        self.backends = described.backends
        self._timeout = timeout()
        self._failed: str | None = None
        self._is_stuck = False
        self._lock = threading.Lock()
        if recoverability.holds:
            # with this setting, JAX raises errors and does not abort the process
            jax.config.update("jax_enable_recoverability", True)
        if described.address is None:
            if not jax.distributed.is_initialized():
                _initialize()
            self.rank, self.size, address = runtime.found_by_jax(self._timeout)
            self._links, _ = Links.meet(self.rank, self.size, address, self._timeout)
        else:
            self._links, coordinator = Links.meet(self.rank, self.size, described.address, self._timeout)
            _initialize(coordinator, self.size, self.rank, own_gpu())
        runtime.listen_at(self._links.host)
        platform.backend()  # this call blocks until the other ranks arrive
        self._flying: deque[tuple[Call, Any]] = deque(maxlen=policy.MOST_PROGRAMS)
        atexit.register(self._leave)
        effects.explanations.append(self._explain)
        effects.number_effects()

    def agree(self, ranks: Sequence[int], call: Call, value: Any = None) -> list[Any]:
        """Wait until all of these ranks are about to do the same, and return the value of each, in their order.

        Raises:
            RuntimeError: if they are not, or if a rank has ended or is late. It names the ranks, the op and the line.
        """
        message = json.dumps({**_call_message(ranks, call), "value": value}).encode()
        came = self._meet(ranks, ranks, call, message, b"")
        return [value if r == self.rank else json.loads(came[r][0])["value"] for r in ranks]

    def exchange(self, ranks: Sequence[int], call: Call, data: bytes) -> list[bytes]:
        """Wait as `agree` does, and return the data of each rank: at most `policy.MOST_EXCHANGED` bytes."""
        came = self._meet(ranks, ranks, call, _message(tuple(ranks), call), data)
        return [data if r == self.rank else came[r][1] for r in ranks]

    def send(self, ranks: Sequence[int], call: Call, data: bytes) -> None:
        """Send data from the first of two ranks, which is this one, to the second, without waiting."""
        self._meet(ranks[1:], (), call, _message(tuple(ranks), call), data)

    def receive(self, ranks: Sequence[int], call: Call) -> bytes:
        """Return the data that the first of two ranks sends to the second, which is this one. Raises the errors of
        `agree`."""
        return self._meet((), ranks[:1], call, _message(tuple(ranks), call), b"")[ranks[0]][1]

    def _meet(
        self, to: Sequence[int], of: Sequence[int], call: Call, message: bytes, data: bytes
    ) -> dict[int, tuple[bytes, bytes]]:  # fmt: skip
        """Send a message to the ranks `to`, and check that the messages from the ranks `of` are about the same
        collective."""
        with self._lock:
            if self._failed is not None:
                raise RuntimeError(f"[{call.op}] The ranks have come apart before: {self._failed}")
            to, of = ([r for r in ranks if r != self.rank] for ranks in (to, of))
            try:
                came = self._links.exchange(to, of, framed(message, data), time.monotonic() + self._timeout)
            except Failed as failed:
                raise self._failure(call, str(failed)) from None
            except (Gone, Late) as error:
                why = f"Rank {error.rank} has ended." if isinstance(error, Gone) else self._late_ranks(error)
                self._links.tell({*to, *of}, why)
                raise self._failure(call, why) from None
            except BaseException:  # otherwise the next call would take the messages received so far for its own
                self._failed = f"Rank {self.rank} was interrupted at {call}."
                self._links.tell({*to, *of}, self._failed)
                raise
            if any(theirs != message for theirs, _ in came.values()):  # ranks agree if their messages are equal
                self._compare(message, call, {r: json.loads(theirs) for r, (theirs, _) in came.items()})
        return came

    def _compare(self, message: bytes, call: Call, came: dict[int, dict[str, Any]]) -> None:
        """Raise RuntimeError if the ranks are at different collectives."""
        own = json.loads(message)
        if any(said["key"] != own["key"] for said in came.values()):
            texts = {self.rank: own["text"]} | {r: said["text"] for r, said in came.items()}
            text = "; ".join(f"rank {r} is at {texts[r]}" for r in sorted(texts))
            raise RuntimeError(f"[{call.op}] The ranks do not agree on what comes next: {text}.")

    def start(self, call: Call, collective: Callable[[], Any]) -> Any:
        """Start a collective that all ranks have agreed on.

        On CPUs, wait for its end, because no other code detects a lost rank. On accelerators, an error is raised when
        the result is needed.
        """
        try:
            result = collective()
            lost = platform.backend() == "cpu" and not self._wait_for(result)
        except Exception as error:
            raise self._rank_lost(call, error) from error
        if lost:
            self._is_stuck = True
            raise self._failure(call, f"It had not ended after {self._patience(result):.0f} s: a rank has been lost.")
        self._flying.append((call, weakref.ref(result)))
        return result

    def _patience(self, result: Any) -> float:
        """Return the number of seconds to wait for a result."""
        return self._timeout + result.nbytes / policy.SLOWEST_LINK

    def _wait_for(self, result: Any) -> bool:
        """Wait for a result; return True if it came in time."""
        deadline = time.monotonic() + self._patience(result)
        pause = policy.WAKE_SECONDS
        while not result.is_ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, policy.SPIN_SECONDS)
        return True

    def _explain(self, error: Exception) -> Exception | None:
        """Return the error to raise in place of `error`, if it was caused by a failed collective."""
        for call, reference in self._flying:
            result = reference()
            try:
                if result is not None and result.is_ready():
                    result.block_until_ready()
            except Exception as cause:
                return self._rank_lost(call, cause)
        return None

    def _rank_lost(self, call: Call, cause: Exception) -> RuntimeError:
        return self._failure(call, f"A rank has ended in the middle of it, or cannot be reached any more. ({cause})")

    def _late_ranks(self, late: Late) -> str:
        return f"After {self._timeout:g} s {named(late.ranks)} had not come to the same point."

    def _failure(self, call: Call, why: str) -> RuntimeError:
        self._failed = why
        return RuntimeError(f"{call}, on rank {self.rank}: {why}")

    def _leave(self) -> None:
        """Leave at the end of the process: tell the others not to wait. Rank 0, which runs JAX's coordinator, waits for
        the others to end. A collective that hangs would keep JAX from ending, so the process then exits directly."""
        self._links.leave()
        if self.rank == 0:
            self._links.wait_for_the_end(self._timeout)
        if self._is_stuck:
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)


def _call_message(ranks: Sequence[int], call: Call) -> dict[str, Any]:
    """Return the message that describes a call: a key that must be the same on all ranks, and a text for errors."""
    return {"key": [call.kind, call.what, list(ranks)], "text": str(call)}


@lru_cache(maxsize=policy.MOST_PROGRAMS)
def _message(ranks: tuple[int, ...], call: Call) -> bytes:
    return json.dumps(_call_message(ranks, call)).encode()


def _initialize(*args: Any, **kwargs: Any) -> None:
    seconds = max(10, int(timeout()))
    jax.distributed.initialize(*args, **kwargs, initialization_timeout=seconds, heartbeat_timeout_seconds=seconds)
