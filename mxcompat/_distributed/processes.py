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
from collections.abc import Mapping, Sequence
from typing import BinaryIO, TextIO

from mxcompat._graph import policy

__all__ = ["run_all"]

_NOISE = ("[Gloo] Rank ", "Using experimental recoverable task feature")
"""What is in lines that XLA prints in every process, and that say nothing."""


def run_all(commands: Sequence[Sequence[str]], environments: Sequence[Mapping[str, str]], cwd: str | None) -> int:
    """Run one process for each command until all have ended.

    Returns:
        0, or the exit status of the first that failed (128 and the signal's number, if one ended it); 130 where the
        user interrupts.
    """
    out, err = _Merged(sys.stdout), _Merged(sys.stderr)
    processes: list[subprocess.Popen[bytes]] = []
    readers: list[threading.Thread] = []
    try:
        for rank, (command, environment) in enumerate(zip(commands, environments, strict=True)):
            process = subprocess.Popen(
                list(command), env=dict(environment), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            processes.append(process)
            for stream, merged in ((process.stdout, out), (process.stderr, err)):
                readers.append(threading.Thread(target=_pass_on, args=(stream, merged, rank), daemon=True))
                readers[-1].start()
        threading.Thread(target=_feed, args=([p.stdin for p in processes],), daemon=True).start()
        status = _first_failure(processes)
    except KeyboardInterrupt:
        status = 130
        _signal(processes, signal.SIGINT)
    _end(processes, at_once=status == 0)
    for reader in readers:
        reader.join(policy.GRACE_SECONDS)
    return status


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


def _end(processes: Sequence[subprocess.Popen[bytes]], at_once: bool) -> None:
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal(processes, number)
        deadline = time.monotonic() + (0.0 if at_once else policy.GRACE_SECONDS)
        while any(p.poll() is None for p in processes) and time.monotonic() < deadline:
            time.sleep(0.02)


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    """Signal to the processes that have not ended, and to what they have started."""
    for process in processes:
        if process.poll() is None:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                continue  # it has ended meanwhile


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


def _pass_on(stream: BinaryIO, merged: _Merged, rank: int) -> None:
    """Pass on whole lines; part of one if the rest does not come, as of a question."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = ""
    while True:
        if pending and not select.select([stream], [], [], policy.LINE_SECONDS)[0]:
            merged.write(rank, pending)
            pending = ""
        data = os.read(stream.fileno(), 1 << 16)
        lines, end, pending = (pending + decoder.decode(data, final=not data)).rpartition("\n")
        merged.write(rank, lines + end)
        if not data:
            break
    merged.write(rank, pending)


def _feed(targets: list[BinaryIO]) -> None:
    """What is typed is typed to all."""
    try:
        source = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        source = None  # there is none, as in a notebook
    while source is not None and (data := os.read(source, 1 << 12)):
        for target in list(targets):
            try:
                target.write(data)
                target.flush()
            except OSError:
                targets.remove(target)
    for target in targets:
        try:
            target.close()
        except OSError:
            continue  # the process has ended
