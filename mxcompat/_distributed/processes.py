"""Run the ranks as children of the launcher. Their output is passed on with the rank before each line. If one fails, or
the user interrupts, all are ended."""

from __future__ import annotations

import codecs
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple, TextIO

from mxcompat._graph import policy

__all__ = ["Start", "run_all"]

_NOISE = ("[Gloo] Rank ", "Using experimental recoverable task feature")
"""Parts of uninformative lines that XLA prints in every process."""


class Start(NamedTuple):
    """The parameters for starting one rank.

    Args:
        command: the command to run on this machine.
        environment: all its variables.
        cwd: the directory to start in; None for the current one.
        is_remote: whether the command is ssh, with a terminal on another machine.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: str | None
    is_remote: bool


_READY = b"\x06"
"""Sent by another machine when its terminal is set up."""


class _Rank:
    """A running rank."""

    def __init__(self, start: Start) -> None:
        self._is_remote = start.is_remote
        self._is_ready = threading.Event()  # this event is set when the rank accepts input
        if not self._is_remote:
            self._is_ready.set()
        self.process = subprocess.Popen(
            list(start.command), env=dict(start.environment), cwd=start.cwd, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0,
        )  # fmt: skip

    def type(self, data: bytes) -> None:
        """Write to the rank's standard input; empty data close it."""
        stdin = self.process.stdin
        assert stdin is not None
        self._is_ready.wait()
        try:
            if data or self._is_remote:
                stdin.write(data or _END)
            else:
                stdin.close()
        except OSError:
            return  # the rank has already ended

    def read(self, stream: BinaryIO) -> bytes:
        """Read the next part of the rank's output."""
        data = os.read(stream.fileno(), 1 << 16)
        if stream is self.process.stdout and not self._is_ready.is_set() and (_READY in data or not data):
            self._is_ready.set()
            return data.replace(_READY, b"") or self.read(stream)
        return data

    def signal(self, number: int) -> None:
        """Send a signal to the rank and its children, if the rank still runs.

        For a rank on another machine, an interrupt is typed into ssh's remote terminal. Other signals end ssh. That
        closes the terminal, which ends the rank.
        """
        if self.process.poll() is not None:
            return
        if self._is_remote and number == signal.SIGINT and self._is_ready.is_set():
            self.type(_INTERRUPT)
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return  # the rank has just ended


_INTERRUPT = b"\x03"
"""Ctrl-C."""

_END = b"\x04\x04"
"""Ctrl-D twice, because the first only ends an incomplete line."""


def run_all(starts: Sequence[Start]) -> int:
    """Run one process for each start, and wait until all have ended.

    Returns:
        0, or the exit status of the first rank that failed. After a signal it is 128 and the signal's number, so 130
        after an interrupt by the user.

    Raises:
        OSError: if a process cannot be started.
    """
    ranks: list[_Rank] = []
    readers: list[threading.Thread] = []
    try:
        with _stopping():
            try:
                _start(starts, ranks, readers)
                status = _first_failure([rank.process for rank in ranks])
            except KeyboardInterrupt:
                status = _signal_ranks(ranks, signal.SIGINT)
            except _Stopped as stopped:
                status = _signal_ranks(ranks, *stopped.args)
            with suppress(KeyboardInterrupt, _Stopped):  # a second signal ends the waiting
                _end(ranks, at_once=status == 0)
    finally:
        for rank in ranks:
            rank.signal(signal.SIGKILL)
    for reader in readers:
        if reader.ident is not None:  # these ranks were not started, because an interrupt came first
            reader.join(policy.GRACE_SECONDS)
    return status


def _start(starts: Sequence[Start], ranks: list[_Rank], readers: list[threading.Thread]) -> None:
    """Start the ranks and the threads that read their output. Both lists are filled in place, so that the caller can
    end them after an error."""
    out, err = _Merged(sys.stdout), _Merged(sys.stderr)
    for number, start in enumerate(starts):
        ranks.append(_Rank(start))
        # start with the readers of errors: an interrupt may come as soon as other output is visible
        for stream, merged in ((ranks[-1].process.stderr, err), (ranks[-1].process.stdout, out)):
            reader = threading.Thread(target=_pass_on, args=(ranks[-1], stream, merged, number), daemon=True)
            readers.append(reader)
            reader.start()
    threading.Thread(target=_feed, args=(ranks,), daemon=True).start()


class _Stopped(BaseException):
    """A signal has asked the launcher to end."""


@contextmanager
def _stopping() -> Iterator[None]:
    """Raise _Stopped in the main thread, within this context, for signals that would end the launcher but not its
    children."""

    def stop(number: int, _: Any) -> None:
        raise _Stopped(number)

    main = threading.current_thread() is threading.main_thread()
    ending = [n for n in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(n) == signal.SIG_DFL]
    try:
        for number in ending:
            signal.signal(number, stop)
        yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


def _signal_ranks(ranks: Sequence[_Rank], number: int) -> int:
    """Send the signal to the ranks, and return the launcher's exit status after this signal."""
    for rank in ranks:
        rank.signal(number)
    return 128 + number


def _first_failure(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    while True:
        statuses = [p.poll() for p in processes]
        for rank, status in enumerate(statuses):
            if status:
                sys.stderr.write(f"mxcompat: rank {rank} ended with status {status}; the others end, too\n")
                return status if status > 0 else 128 - status
        if None not in statuses:
            return 0
        time.sleep(0.05)


def _end(ranks: Sequence[_Rank], at_once: bool) -> None:
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            for rank in ranks:
                rank.signal(number)
        deadline = time.monotonic() + (0.0 if at_once else policy.GRACE_SECONDS)
        while any(rank.process.poll() is None for rank in ranks) and time.monotonic() < deadline:
            time.sleep(0.02)


class _Merged:
    """An output stream shared by several ranks. Each line comes from one rank and starts with its number."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._open: int | None = None  # the rank that has written part of a line

    def write(self, rank: int, text: str) -> None:
        with self._lock:
            for line in text.splitlines(keepends=True):
                if self._open != rank:
                    if any(noise in line for noise in _NOISE):
                        continue
                    self._stream.write(("" if self._open is None else "\n") + f"[{rank}] ")
                self._stream.write(line)
                self._open = None if line.endswith("\n") else rank
            self._stream.flush()


def _pass_on(rank: _Rank, stream: BinaryIO, merged: _Merged, number: int) -> None:
    """Pass on whole lines. If the rest of a line does not come soon, as after a prompt, pass on the part."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""
    while True:
        if pending and not select.select([stream], [], [], policy.REST_OF_LINE_SECONDS)[0]:
            merged.write(number, pending)
            pending = ""
        data = rank.read(stream)
        lines, end, pending = (pending + decoder.decode(data, final=not data)).rpartition("\n")
        merged.write(number, lines + end)
        if not data:
            break
    merged.write(number, pending)


def _feed(ranks: Sequence[_Rank]) -> None:
    """Copy the launcher's standard input to all ranks."""
    try:
        source = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        source = None  # the launcher has no standard input, as in a notebook
    while source is not None and (data := os.read(source, 1 << 12)):
        for rank in ranks:
            rank.type(data)
    for rank in ranks:
        rank.type(b"")
