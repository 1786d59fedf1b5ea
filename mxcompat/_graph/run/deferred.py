"""Deferred leaves: arrays of a file, whose data are read when they are needed.

`mx.eval` of large ones lets the background thread read them, one after another. So a program can prepare its model
while the weights are read. A caller that needs a value waits for that array only, or reads it if its turn has not come.

The data are copied, not mapped, for two reasons. If a mapped file is cut off, the next access ends the process. An
array may also start at any byte of a file, while XLA needs addresses that are multiples of 64: it would copy the arrays
of most mapped files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

from .. import policy
from ..ir import buffers
from ..ir.aval import Aval
from ..ir.node import Node
from . import background, forked

__all__ = ["Deferred", "read_ahead", "split_deferred"]

_large: set[ref[Deferred]] = set()
"""The large leaves without a value that can be read ahead."""

_fetched: Deferred | None = None
"""The leaf that the background thread is reading."""


class Deferred(Node):
    """A leaf whose data are read at the first access to its value.

    Args:
        read: returns the data. If it raises an error, the next access calls it again.
        finish: makes the value from the data.
        check: raises the error that `read` would raise if the file has changed; None if nothing is read ahead.
    """

    __slots__ = ("_check", "_data", "_finish", "_guard", "_is_queued", "_read", "_value")

    _read: Callable[[], Any] | None

    def __init__(
        self, read: Callable[[], Any], finish: Callable[[Any, Aval], Any], a: Aval, check: Callable[[], None] | None
    ) -> None:
        self._read, self._finish, self._check = read, finish, check
        self._guard = threading.Lock()
        self._data: Any = None
        self._value: Any = None
        self._is_queued = False
        super().__init__(None, (), (), a, 0)
        if check is not None and a.nbytes >= policy.LARGE_BYTES:
            _large.add(ref(self, _large.discard))

    @property
    def value(self) -> Any:  # type: ignore[override]
        if self._read is not None:
            with self._guard:
                if self._read is not None:
                    data, self._data = self._data, None
                    self._value = self._finish(self._read() if data is None else data, self.aval)
                    self._read = None
                    _large.discard(ref(self))
                    if self.aval.nbytes >= buffers.smallest:
                        buffers.count(self._value, self.aval)
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value

    def check(self) -> None:
        """Raise RuntimeError if the file has changed."""
        if self._check is not None:
            self._check()

    def queue(self) -> None:
        """Let the background thread read the data."""
        if not self._is_queued:
            self._is_queued = True
            background.submit(partial(_fetch, ref(self)))

    def fetch(self) -> None:
        """Read the data, unless they were read."""
        with self._guard:
            if self._read is not None and self._data is None:
                self._data = self._read()

    def forget_reader(self) -> None:
        """Let a forked child read the data, which a thread of its parent was reading."""
        self._guard = threading.Lock()


def _fetch(reference: ref[Deferred]) -> None:
    global _fetched
    leaf = reference()
    if leaf is None:
        return
    _fetched = leaf
    with suppress(RuntimeError, MemoryError):  # the first access to the value raises it
        leaf.fetch()
    _fetched = None


def _in_child() -> None:
    global _fetched
    if _fetched is not None:
        _fetched.forget_reader()
    _fetched = None


forked.in_child.append(_in_child)


def split_deferred(nodes: Sequence[Node]) -> tuple[Sequence[Node], Sequence[Deferred]]:
    """Return the nodes in two parts: those to evaluate, and large deferred leaves for `read_ahead`.

    Raises:
        RuntimeError: if the file of a deferred leaf has changed.
    """
    if not _large:
        return nodes, ()
    large = [node for node in nodes if type(node) is Deferred and ref(node) in _large]
    for node in large:
        node.check()
    apart = {*large}
    return [node for node in nodes if node not in apart], large


def read_ahead(leaves: Sequence[Deferred]) -> None:
    """Let the background thread read the leaves."""
    for leaf in leaves:
        leaf.queue()
