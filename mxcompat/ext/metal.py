"""Metal, for programs that ask if it is there before they use kernels."""

from __future__ import annotations

from mxcompat._array.devices import report_metal

__all__ = ["enable"]


class enable:
    """Have `mx.metal.is_available()` say True, so that programs that ask first use their Metal kernels.

    Kernels of `mx.fast.metal_kernel` run without it, too. Most programs with another way to go are faster that way,
    which is why the answer is False at first. Called, it holds from now on; as a context manager, until the end of the
    block. The environment variable `MXCOMPAT_METAL=1` does the same for a whole process. Without an accelerator,
    `mx.gpu` then names the CPU, and is the default device, because such programs ask for it, too.

    Args:
        on: True if `is_available` is to return True.

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
