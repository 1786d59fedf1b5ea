"""Data types and inspection: what the standard's namespace says of itself."""

from __future__ import annotations

from typing import Any

from mxcompat import core as mx
from mxcompat.core import Device, Dtype, array

__all__ = ["Info", "astype", "can_cast", "finfo", "iinfo", "isdtype", "namespace_info", "result_type"]


class Info:
    """What the namespace can do: what `mlx.core` says of itself, and that shapes may depend on data."""

    def __init__(self) -> None:
        self._core = mx.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        """Whether there are boolean indexing and shapes that depend on data, and how many axes there may be."""
        return {**self._core.capabilities(), "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """The device that operations run on unless told otherwise."""
        return self._core.default_device()

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, Dtype]:
        """The dtype of each kind that functions use unless told otherwise: those of MLX, single precision."""
        return self._core.default_dtypes(device=device)

    def devices(self) -> list[Device]:
        """All devices."""
        return list(self._core.devices())

    def dtypes(self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Dtype]:
        """The dtypes of the standard that there are, by name; there is no complex128."""
        return self._core.dtypes(device=device, kind=kind)


def namespace_info() -> Info:
    """An object that tells what this namespace can do."""
    return Info()


namespace_info.__name__ = namespace_info.__qualname__ = "__array_namespace_info__"


def astype(x: array, dtype: Dtype, /, *, copy: bool = True, device: Device | None = None) -> array:
    """The elements as another dtype; a new array, unless `copy` is False and the dtype is that of `x`."""
    return x if not copy and x.dtype == dtype else mx.array(x.astype(dtype))


def can_cast(from_: Dtype | array, to: Dtype, /) -> bool:
    """Whether promotion takes one dtype to the other."""
    return mx.can_cast(from_, to)


def finfo(type: Dtype | array, /) -> mx.finfo:
    """The limits of a floating-point dtype, or of that of an array."""
    return mx.finfo(type.dtype if isinstance(type, array) else type)


class iinfo:
    """The limits of an integer dtype, or of that of an array: `bits`, `min`, `max` and `dtype`."""

    def __init__(self, type: Dtype | array, /) -> None:
        limits = mx.iinfo(type.dtype if isinstance(type, array) else type)
        self.bits = 8 * limits.dtype.size
        self.min, self.max, self.dtype = int(limits.min), int(limits.max), limits.dtype


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Whether a dtype is of a kind: a dtype, a name such as "real floating", or a tuple of these."""
    return mx.isdtype(dtype, kind)


def result_type(*arrays_and_dtypes: array | Dtype | complex) -> Dtype:
    """The dtype that an operation on these has."""
    numbers = [a for a in arrays_and_dtypes if isinstance(a, (bool, int, float, complex))]
    dtype = mx.result_type(*[a for a in arrays_and_dtypes if not isinstance(a, (bool, int, float, complex))])
    for number in numbers:
        dtype = mx.maximum(mx.zeros(0, dtype), number).dtype
    return dtype
