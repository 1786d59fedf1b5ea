"""Devices: MLX's device names, mapped to JAX's devices.

`mx.cpu` is the host, and `mx.gpu` is JAX's accelerator (GPU or TPU). Without an accelerator, `mx.gpu` raises MLX's
error. If Metal is reported as available, `mx.gpu` then is the host, too, and is the default device: programs that ask
for Metal also ask for `mx.gpu`.
"""

from __future__ import annotations

import functools
import os
import platform
import threading
from typing import Any

from mxcompat._graph import policy
from mxcompat._graph.run.platform import is_cpu
from mxcompat._jax import jax

from .device import Device, DeviceType, cpu, gpu
from .device import device_type as as_type
from .errors import expected

__all__ = [
    "as_device", "default_device", "default_within", "device_count", "device_info", "is_available",
    "jax_device", "report_metal", "reports_metal", "require", "set_default_device",
]  # fmt: skip


class _Here(threading.local):
    device: Device | None = None


_here = _Here()
_default: list[Device] = []


_metal = os.environ.get("MXCOMPAT_METAL", "") not in ("", "0")


def reports_metal() -> bool:
    """Return True if MLX's Metal backend is reported as available."""
    return _metal


def report_metal(on: bool) -> bool:
    """Set whether Metal is reported as available, and return the previous setting."""
    global _metal
    before, _metal = _metal, on
    return before


@functools.cache
def _accelerators() -> tuple[Any, ...]:
    return () if is_cpu() else tuple(jax.local_devices())


def _gpus() -> int:
    """Return the number of devices of the kind `mx.gpu`."""
    return len(_accelerators()) or int(_metal)


def as_device(device: Any, function: str) -> Device:
    """Return the Device for a device or a device type."""
    if isinstance(device, Device):
        return device
    kind = as_type(device)
    if kind is not None:
        return Device(kind)
    raise expected(function, "a Device or a DeviceType", device)


def jax_device(device: Device | DeviceType | None = None) -> Any:
    """Return the JAX device for a device, by default for the default device. Raises the errors of `default_stream`."""
    chosen = default_device() if device is None else as_device(device, "jax_device")
    require(chosen, "default_stream", "get")
    accelerators = _accelerators() if chosen.type is gpu else ()
    return accelerators[chosen._index] if accelerators else jax.local_devices(backend="cpu")[0]


def require(device: Device, function: str, verb: str) -> Device:
    """Return the device if it exists, or raise MLX's error."""
    if device.type is gpu and not _gpus():
        what = "device" if verb == "set" else "stream"
        raise ValueError(f"[{function}] Cannot {verb} gpu {what} without gpu backend.")
    if device._index >= device_count(device.type):
        raise IndexError(f"[{function}] There is no {device}.")
    return device


def default_device() -> Device:
    """Return the device that operations run on by default: the accelerator if there is one.

    Returns:
        A `Device`.

    Example:
        >>> isinstance(mx.default_device(), mx.Device)
        True
    """
    if _here.device is not None:
        return _here.device
    return _default[0] if _default else Device(gpu if _gpus() else cpu)


def default_within(device: Device | None) -> Device | None:
    """Set the default device of this thread, or end that with None. Return the previous setting."""
    before, _here.device = _here.device, device
    return before


def set_default_device(device: Device | DeviceType) -> None:
    """Set the device that operations run on by default.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Raises:
        ValueError: for `mx.gpu` if there is no accelerator.
        IndexError: if there is no device with this index.

    Example:
        >>> before = mx.default_device()
        >>> mx.set_default_device(mx.cpu)
        >>> mx.default_device()
        Device(cpu, 0)
        >>> mx.set_default_device(before)
    """
    chosen = require(as_device(device, "set_default_device"), "set_default_device", "set")
    if _here.device is not None:
        _here.device = chosen
    else:
        _default[:] = [chosen]


def is_available(device: Device | DeviceType) -> bool:
    """Return True if a device exists.

    Args:
        device: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind.

    Returns:
        A bool.

    Example:
        >>> mx.is_available(mx.cpu), mx.is_available(mx.Device(mx.cpu, 7))
        (True, False)
    """
    chosen = as_device(device, "is_available")
    return chosen._index < device_count(chosen.type)


def device_count(device_type: DeviceType) -> int:
    """Return the number of devices of a kind.

    Args:
        device_type: `mx.cpu` or `mx.gpu`.

    Returns:
        An int; 0 for `mx.gpu` if there is no accelerator.

    Example:
        >>> mx.device_count(mx.cpu)
        1
    """
    kind = as_type(device_type)
    if kind is None:
        raise expected("device_count", "a DeviceType", device_type)
    return _gpus() if kind is gpu else 1


@functools.cache
def _processor() -> str:
    """Return the name of the host's processor."""
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:  # not Linux
        names = []
    return (names or [platform.processor()])[0] or platform.machine()


def device_info(d: Device | DeviceType | None = None) -> dict[str, str | int]:
    """Return information about a device, by default the default device.

    Args:
        d: a `Device`, or `mx.cpu` or `mx.gpu` for the first device of that kind; None for the default device.

    Returns:
        A dict with `device_name` and `architecture`; for an accelerator also its `memory_size` in bytes. Empty if the
        device does not exist.

    Example:
        >>> "architecture" in mx.device_info(mx.cpu)
        True
    """
    device = default_device() if d is None else as_device(d, "device_info")
    if device.type is cpu:
        return {"architecture": platform.machine(), "device_name": _processor()}
    if not is_available(device):
        return {}
    hardware = jax_device(device)
    info: dict[str, str | int] = {"architecture": hardware.platform, "device_name": hardware.device_kind}
    is_host = hardware.platform == "cpu"
    size = policy.physical_memory() if is_host else (hardware.memory_stats() or {}).get("bytes_limit")
    if size:
        info |= {"memory_size": size, "max_recommended_working_set_size": size, "max_buffer_length": size}
    return info
