"""`__array_namespace_info__`: the description of a namespace that the Python array API standard asks for."""

from __future__ import annotations

from typing import Any

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype

from .device import Device, cpu, gpu
from .devices import default_device, device_count

__all__ = ["array_namespace_info"]

_DTYPES = (
    _d.bool_, _d.int8, _d.int16, _d.int32, _d.int64, _d.uint8, _d.uint16, _d.uint32, _d.uint64, _d.float32,
    _d.complex64, _d.float64,
)  # fmt: skip

_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


class ArrayNamespaceInfo:
    """The capabilities of `mlx.core`, in the terms of the array API standard."""

    def capabilities(self) -> dict[str, Any]:
        """Return whether boolean indexing and data-dependent shapes are supported, and the maximum number of axes."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 10}

    def default_device(self) -> Device:
        """Return the default device."""
        return default_device()

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, Dtype]:
        """Return the default dtype of each kind.

        Raises:
            TypeError: if `device` is not a Device.
        """
        _checked(device)
        return {
            "real floating": _d.float32,
            "complex floating": _d.complex64,
            "integral": _d.int32,
            "indexing": _d.int32,
        }

    def devices(self) -> tuple[Device, ...]:
        """Return all devices."""
        return tuple(Device(kind, k) for kind in (cpu, gpu) for k in range(device_count(kind)))

    def dtypes(self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Dtype]:
        """Return the dtypes of the standard that a device supports, by name.

        Args:
            device: the device; None for the default device.
            kind: return only dtypes of this kind, or of one of these kinds.

        Raises:
            TypeError: if `device` is not a Device.
            ValueError: if a kind is unknown.
        """
        _checked(device)
        by_name = {d._label: d for d in _DTYPES}
        if (device or default_device()).type is not cpu:
            del by_name["float64"]
        if kind is None:
            return by_name
        kinds = (kind,) if isinstance(kind, str) else kind
        if not isinstance(kinds, tuple) or any(k not in _KINDS for k in kinds):
            raise ValueError(f"Unsupported dtype kind: {kinds!r}")
        letters = "".join(_KINDS[k] for k in kinds)
        return {name: d for name, d in by_name.items() if d._kind in letters}


def _checked(device: Any) -> None:
    if device is not None and not isinstance(device, Device):
        raise TypeError("Expected a mlx Device")


def array_namespace_info() -> ArrayNamespaceInfo:
    """Return the description of this namespace that the array API standard asks for."""
    return ArrayNamespaceInfo()


array_namespace_info.__name__ = array_namespace_info.__qualname__ = "__array_namespace_info__"
