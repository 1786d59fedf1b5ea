"""A device: its kind and its index. `devices` lists those of this machine."""

from __future__ import annotations

import enum
from operator import index
from typing import Any

from mxcompat._graph.ir.fixed import Fixed

from .errors import small_int

__all__ = ["Device", "DeviceType", "cpu", "device_type", "gpu"]


class DeviceType(enum.Enum):
    """A kind of device: `mx.cpu` (the host) or `mx.gpu` (the accelerator).

    Example:
        >>> mx.DeviceType.cpu == mx.cpu
        True
    """

    cpu = 0
    gpu = 1

    def __repr__(self) -> str:
        return f"DeviceType.{self.name}"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return other.type is self and other._index == 0 if isinstance(other, Device) else self is other

    __hash__ = enum.Enum.__hash__


cpu = DeviceType.cpu
gpu = DeviceType.gpu


def device_type(value: Any) -> DeviceType | None:
    """Return the kind of device for a DeviceType or its number (0 for `mx.cpu`, 1 for `mx.gpu`), else None."""
    if isinstance(value, DeviceType):
        return value
    try:
        return DeviceType(index(value))
    except (TypeError, ValueError):
        return None


class Device(Fixed):
    """A device to run operations on.

    Args:
        type: `mx.cpu` or `mx.gpu`, or its number.
        index: the number of the device among those of its type.

    Raises:
        TypeError: if `type` is not a `DeviceType`, or `index` is not an int. The device need not exist.

    Example:
        >>> mx.Device(mx.cpu, 0)
        Device(cpu, 0)
        >>> mx.Device(mx.cpu) == mx.cpu
        True
    """

    __slots__ = ("_index", "type")

    def __init__(self, type: DeviceType, index: int = 0) -> None:
        kind = device_type(type)
        if kind is None:
            raise TypeError(f"Device: expected a DeviceType, got {type.__class__.__name__}")
        self.type = kind
        self._index = small_int(index, "Device", "index")

    def __repr__(self) -> str:
        return f"Device({self.type.name}, {self._index})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceType):
            return other == self
        return isinstance(other, Device) and self.type is other.type and self._index == other._index

    def __hash__(self) -> int:
        return hash((Device, self.type, self._index))

    def __reduce__(self) -> tuple:
        return Device, (self.type, self._index)
