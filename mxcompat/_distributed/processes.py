"""Processes: the ranks as children of the launcher. Their output is passed on with the rank before each line; when one
fails, or the user interrupts, all end.
"""

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
"""What is in lines that XLA prints in every process, and that say nothing."""


class Start(NamedTuple):
    """What to start as one rank.

    Args:
        command: the command, here.
        environment: all its variables.
        cwd: the directory to start in; None for this one.
        is_remote: whether it is ssh, with a terminal on another machine.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: str | None
    is_remote: bool


_READY = b"\x06"
"""What comes from another machine when its terminal is set up."""


class _Rank:
    """A process that runs."""

    def __init__(self, start: Start) -> None:
        self._is_remote = start.is_remote
        self._is_ready = threading.Event()  # to be typed to
        if not self._is_remote:
            self._is_ready.set()
        self.process = subprocess.Popen(
            list(start.command), env=dict(start.environment), cwd=start.cwd, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0,
        )  # fmt: skip

    def type(self, data: bytes) -> None:
        """Give it what is typed; if that is nothing, the end of it."""
        stdin = self.process.stdin
        assert stdin is not None
        self._is_ready.wait()
        try:
            if data or self._is_remote:
                stdin.write(data or _END)
            else:
                stdin.close()
        except OSError:
            return  # it has ended

    def read(self, stream: BinaryIO) -> bytes:
        """What comes next of its output."""
        data = os.read(stream.fileno(), 1 << 16)
        if stream is self.process.stdout and not self._is_ready.is_set() and (_READY in data or not data):
            self._is_ready.set()
            return data.replace(_READY, b"") or self.read(stream)
        return data

    def signal(self, number: int) -> None:
        """Signal to it and to what it has started, if it has not ended. On another machine its terminal does that: an
        interrupt is typed there, and with ssh the terminal goes, too."""
        if self.process.poll() is not None:
            return
        if self._is_remote and number == signal.SIGINT and self._is_ready.is_set():
            self.type(_INTERRUPT)
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return  # it has ended meanwhile


_INTERRUPT = b"\x03"
"""Ctrl-C."""

_END = b"\x04\x04"
"""Ctrl-D: the first would only end a line that is not complete."""


def run_all(starts: Sequence[Start]) -> int:
    """Run one process for each start until all have ended.

    Returns:
        0, or the exit status of the first that failed (128 and the signal's number, if one ended it); 130 where the
        user interrupts, and likewise for other signals that end the launcher.

    Raises:
        OSError: if one cannot be started.
    """
    ranks: list[_Rank] = []
    readers: list[threading.Thread] = []
    try:
        with _stopping():
            try:
                _start(starts, ranks, readers)
                status = _first_failure([rank.process for rank in ranks])
            except KeyboardInterrupt:
                status = _told(ranks, signal.SIGINT)
            except _Stopped as stopped:
                status = _told(ranks, *stopped.args)
            with suppress(KeyboardInterrupt, _Stopped):  # who is asked again waits no longer
                _end(ranks, at_once=status == 0)
    finally:
        for rank in ranks:
            rank.signal(signal.SIGKILL)
    for reader in readers:
        if reader.ident is not None:  # an interrupt may have come before it was started
            reader.join(policy.GRACE_SECONDS)
    return status


def _start(starts: Sequence[Start], ranks: list[_Rank], readers: list[threading.Thread]) -> None:
    """Start the ranks, and what reads their output; both are added as they come, for whoever ends them."""
    out, err = _Merged(sys.stdout), _Merged(sys.stderr)
    for number, start in enumerate(starts):
        ranks.append(_Rank(start))
        # first what it says of an interrupt, which may come now: whoever has seen other output may expect that
        for stream, merged in ((ranks[-1].process.stderr, err), (ranks[-1].process.stdout, out)):
            reader = threading.Thread(target=_pass_on, args=(ranks[-1], stream, merged, number), daemon=True)
            readers.append(reader)
            reader.start()
    threading.Thread(target=_feed, args=(ranks,), daemon=True).start()


class _Stopped(BaseException):
    """The launcher is to end."""


@contextmanager
def _stopping() -> Iterator[None]:
    """Signals that would end the launcher, and leave what it has started, raise within. (The main thread gets them.)"""

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


def _told(ranks: Sequence[_Rank], number: int) -> int:
    """The status to end with, once the ranks have been told of the signal that came."""
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
    """A stream on which several write. A line is of one of them, and says of which."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._open: int | None = None  # whose line is not complete

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
    """Pass on whole lines; part of one if the rest does not come, as of a question."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""
    while True:
        if pending and not select.select([stream], [], [], policy.LINE_SECONDS)[0]:
            merged.write(number, pending)
            pending = ""
        data = rank.read(stream)
        lines, end, pending = (pending + decoder.decode(data, final=not data)).rpartition("\n")
        merged.write(number, lines + end)
        if not data:
            break
    merged.write(number, pending)


def _feed(ranks: Sequence[_Rank]) -> None:
    """What is typed is typed to all."""
    try:
        source = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        source = None  # there is none, as in a notebook
    while source is not None and (data := os.read(source, 1 << 12)):
        for rank in ranks:
            rank.type(data)
    for rank in ranks:
        rank.type(b"")
