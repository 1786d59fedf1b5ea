"""Streams: labels that can be made, compared and set as default. They have no other effect, because XLA orders the work
on a device itself. As in MLX, a stream of another thread is refused."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

from mxcompat._graph.ir.fixed import Fixed
from mxcompat._graph.run.evaluate import here
from mxcompat._graph.run.platform import backend
from mxcompat._jax import is_imported, jax

from .device import Device, DeviceType, device_type
from .devices import as_device, default_device, default_within, require
from .errors import expected

__all__ = [
    "Stream", "StreamContext", "ThreadLocalStream", "check_stream", "clear_streams", "default_stream", "new_stream",
    "new_thread_local_stream", "new_thread_unsafe_stream", "set_default_stream", "stream", "synchronize",
]  # fmt: skip


class Stream(Fixed):
    """A queue of work on a device, owned by the thread that made it with `new_stream`.

    Raises:
        TypeError: always; use `new_stream`.

    Example:
        >>> stream = mx.new_stream(mx.cpu)
        >>> isinstance(stream, mx.Stream), stream.device
        (True, Device(cpu, 0))
    """

    __slots__ = ("_index", "_owner", "device")

    if TYPE_CHECKING:
        device: Device
        _index: int
        _owner: object

    def __init__(self, *args: object) -> None:
        raise TypeError(f"{type(self).__name__}: no constructor defined, see new_stream()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.device}, {self._index})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.device == other.device and self._index == other._index

    def __hash__(self) -> int:
        return hash((type(self), self.device, self._index))


class ThreadLocalStream(Stream):
    """A stream that stands for a different one in each thread, made by `new_thread_local_stream`.

    Raises:
        TypeError: always; use `new_thread_local_stream`.

    Example:
        >>> isinstance(mx.new_thread_local_stream(mx.cpu), mx.ThreadLocalStream)
        True
    """

    __slots__ = ()


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.streams: dict[Device, Stream] = {}
        self.own: dict[ThreadLocalStream, Stream] = {}
        self.token = object()  # an object identifies the thread, because the system reuses thread ids


_thread = _PerThread()
_numbers = itertools.count()
_local_numbers = itertools.count()


def _make(kind: type[Stream], device: Device, numbers: Any, shared: bool = False) -> Any:
    stream = kind.__new__(kind)
    stream.device = device
    stream._index = next(numbers)
    stream._owner = None if shared else _thread.token
    return stream


def _new_stream(device: Any, shared: bool = False) -> Stream:
    return _make(Stream, require(as_device(device, "new_stream"), "new_stream", "make"), _numbers, shared)


def default_stream(device: Device | DeviceType) -> Stream:
    """Return the default stream of a device. Each thread has its own.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Returns:
        A `Stream`.

    Raises:
        ValueError: for `mx.gpu` if there is no accelerator.
        IndexError: if there is no device with this index.

    Example:
        >>> mx.default_stream(mx.cpu).device
        Device(cpu, 0)
    """
    chosen = require(as_device(device, "default_stream"), "default_stream", "get")
    if chosen not in _thread.streams:
        _thread.streams[chosen] = _make(Stream, chosen, _numbers)
    return _thread.streams[chosen]


def set_default_stream(stream: Stream) -> None:
    """Make a stream its device's default in this thread. The default device does not change.

    Args:
        stream: a stream made by `new_stream`. With a stream of another thread, this thread cannot evaluate arrays: that
            raises RuntimeError.

    Raises:
        TypeError: for another object, such as a device.

    Example:
        >>> before = mx.default_stream(mx.cpu)
        >>> stream = mx.new_stream(mx.cpu)
        >>> mx.set_default_stream(stream)
        >>> mx.default_stream(mx.cpu) == stream
        True
        >>> mx.set_default_stream(before)
    """
    if type(stream) is not Stream:
        raise expected("set_default_stream", "a Stream", stream)
    _thread.streams[stream.device] = stream
    refusal = _refusal(stream)
    if refusal != here.refused and stream.device == default_device():
        here.refused = refusal


def new_stream(device: Device | DeviceType) -> Stream:
    """Make a stream on a device.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Returns:
        A `Stream`.

    Raises:
        ValueError: for `mx.gpu` if there is no accelerator.
        IndexError: if there is no device with this index.

    Example:
        >>> mx.new_stream(mx.cpu) == mx.new_stream(mx.cpu)
        False
    """
    return _new_stream(device)


def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """Make a stream that any thread may use.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Returns:
        A `Stream`.

    Raises:
        ValueError: for `mx.gpu` if there is no accelerator.
        IndexError: if there is no device with this index.

    Example:
        >>> stream = mx.new_thread_unsafe_stream(mx.cpu)
        >>> mx.add(1, 2, stream=stream)
        array(3, dtype=int32)
    """
    return _new_stream(device, shared=True)


def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """Make a stream that stands for a different one in each thread.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Returns:
        A `ThreadLocalStream`.

    Example:
        >>> stream = mx.new_thread_local_stream(mx.cpu)
        >>> mx.add(1, 2, stream=stream)
        array(3, dtype=int32)
    """
    return _make(ThreadLocalStream, as_device(device, "new_thread_local_stream"), _local_numbers)


def clear_streams() -> None:
    """Remove the default streams of this thread; new ones are made when needed.

    Example:
        >>> mx.clear_streams()
    """
    _thread.streams.clear()
    _thread.own.clear()
    here.refused = None


def _resolve(s: Any, function: str) -> Stream:
    """Return the stream that a stream or device stands for in this thread."""
    if type(s) is Stream:
        return s
    if type(s) is ThreadLocalStream:
        if s not in _thread.own:
            _thread.own[s] = new_stream(s.device)
        return _thread.own[s]
    if isinstance(s, Device) or device_type(s) is not None:
        return default_stream(s)
    raise expected(function, "a stream or a device", s)


def _refusal(s: Stream) -> str | None:
    """Return MLX's message for a stream of another thread, else None."""
    if s._owner is None or s._owner is _thread.token:
        return None
    return f"There is no Stream({s.device.type.name}, {s._index}) in current thread."


def check_stream(s: Any) -> None:
    """Raise MLX's error for a `stream` argument that is not a stream, is on a missing device, or was made in another
    thread. (MLX raises the last one during evaluation.)"""
    if s is not None:
        stream = _resolve(s, "stream")
        refusal = _refusal(stream) if type(s) is Stream else None
        if refusal is not None:
            raise RuntimeError(refusal)


class StreamContext:
    """A context in which a stream is its device's default, and that device is the default device.

    Args:
        s: a stream, or a device for its default stream.

    Raises:
        TypeError: for an object that is neither a stream nor a device.
        ValueError: on entry, for `mx.gpu` if there is no accelerator.
        RuntimeError: when an array is evaluated in the context, for a stream of another thread.

    Example:
        >>> with mx.StreamContext(mx.cpu):
        ...     y = mx.ones(2) + 1
        >>> y
        array([2, 2], dtype=float32)
    """

    __slots__ = ("_before", "_stream")

    def __init__(self, s: Stream | ThreadLocalStream | Device | DeviceType) -> None:
        if not isinstance(s, (Stream, Device)) and device_type(s) is None:
            raise expected("StreamContext", "a stream or a device", s)
        self._stream = s
        self._before: list[tuple[Device | None, Stream]] = []

    def __enter__(self) -> None:
        entered = _resolve(self._stream, "stream")
        previous = default_stream(entered.device)
        self._before.append((default_within(entered.device), previous))
        set_default_stream(entered)

    def __exit__(self, *exc: object) -> None:
        device, previous = self._before.pop()
        default_within(device)
        set_default_stream(previous)


def stream(s: Stream | ThreadLocalStream | Device | DeviceType) -> StreamContext:
    """Return a context that sets the default device and stream.

    Args:
        s: a stream, or a device for its default stream.

    Returns:
        A `StreamContext`.

    Raises:
        ValueError: on entry, for `mx.gpu` if there is no accelerator.
        RuntimeError: when an array is evaluated in the context, for a stream of another thread.

    Example:
        >>> with mx.stream(mx.cpu):
        ...     y = mx.ones(2) + 1
        >>> y
        array([2, 2], dtype=float32)
    """
    return StreamContext(s)


def synchronize(stream: Stream | ThreadLocalStream | Device | DeviceType | None = None) -> None:
    """Wait until all running work is done.

    Args:
        stream: checked, but otherwise ignored: XLA has one queue per device, and all are waited for.

    Raises:
        ValueError: for `mx.gpu` if there is no accelerator.

    Example:
        >>> x = mx.ones(3) * 2
        >>> mx.async_eval(x)
        >>> mx.synchronize()
    """
    if stream is not None:
        _resolve(stream, "synchronize")
    if not is_imported():
        return  # without JAX, no work has started
    backend()
    for x in jax.live_arrays():
        if not x.is_deleted():
            x.block_until_ready()
