"""Data types, and the standard's inspection of a namespace."""

from __future__ import annotations

from typing import Any

from mxcompat import core as mx
from mxcompat.core import Device, Dtype, array

__all__ = ["Info", "astype", "can_cast", "finfo", "iinfo", "isdtype", "namespace_info", "result_type"]


class Info:
    """The capabilities of this namespace: those of `mlx.core`, and data-dependent shapes."""

    def __init__(self) -> None:
        self._core = mx.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        """Return whether boolean indexing and data-dependent shapes are supported, and the maximum number of axes."""
        return {**self._core.capabilities(), "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """Return the default device."""
        return self._core.default_device()

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, Dtype]:
        """Return the default dtype of each kind. As in MLX, they have single precision."""
        return self._core.default_dtypes(device=device)

    def devices(self) -> list[Device]:
        """Return all devices."""
        return list(self._core.devices())

    def dtypes(self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Dtype]:
        """Return the supported dtypes of the standard, by name. There is no complex128."""
        return self._core.dtypes(device=device, kind=kind)


def namespace_info() -> Info:
    """Return an object that describes this namespace."""
    return Info()


namespace_info.__name__ = namespace_info.__qualname__ = "__array_namespace_info__"


def astype(x: array, dtype: Dtype, /, *, copy: bool = True, device: Device | None = None) -> array:
    """Cast an array to another dtype. The result is a new array, unless `copy` is False and the dtype does not
    change."""
    return x if not copy and x.dtype == dtype else mx.array(x.astype(dtype))


def can_cast(from_: Dtype | array, to: Dtype, /) -> bool:
    """Return True if promoting one dtype with the other gives the other."""
    return mx.can_cast(from_, to)


def finfo(type: Dtype | array, /) -> mx.finfo:
    """Return the limits of a floating-point dtype, or of an array's dtype."""
    return mx.finfo(type.dtype if isinstance(type, array) else type)


class iinfo:
    """The limits of an integer dtype, or of an array's dtype: `bits`, `min`, `max` and `dtype`."""

    def __init__(self, type: Dtype | array, /) -> None:
        limits = mx.iinfo(type.dtype if isinstance(type, array) else type)
        self.bits = 8 * limits.dtype.size
        self.min, self.max, self.dtype = int(limits.min), int(limits.max), limits.dtype


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Return True if a dtype belongs to `kind`: a dtype, a name such as "real floating", or a tuple of these."""
    return mx.isdtype(dtype, kind)


def result_type(*arrays_and_dtypes: array | Dtype | complex) -> Dtype:
    """Return the promoted dtype of arrays, dtypes and numbers."""
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    dtype = mx.result_type(*[a for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))])
    for number in numbers:
        dtype = mx.maximum(mx.zeros(0, dtype), number).dtype
    return dtype
