"""Report MLX's Metal backend as available, for programs that test this before they use kernels."""

from __future__ import annotations

from mxcompat._array.devices import report_metal

__all__ = ["enable"]


class enable:
    """Let `mx.metal.is_available()` return True, so that programs that test it use their Metal kernels.

    Kernels of `mx.fast.metal_kernel` run without it, too. By default `is_available` returns False, because most
    programs with a fallback are faster with the fallback. A call takes effect at once; as a context manager it ends
    with the block. The environment variable `MXCOMPAT_METAL=1` has the same effect for a whole process. Without an
    accelerator, `mx.gpu` then means the CPU and is the default device, because such programs also use `mx.gpu`.

    Args:
        on: the value that `is_available` returns.

    Example:
        >>> with mx.ext.metal.enable():
        ...     mx.metal.is_available()
        True
        >>> mx.metal.is_available()
        False
    """

    def __init__(self, on: bool = True) -> None:
        self._before = report_metal(bool(on))

    def __enter__(self) -> enable:
        return self

    def __exit__(self, *_: object) -> None:
        report_metal(self._before)
