"""Kernels in the Metal language, translated to array operations: all threads at once, each an element of arrays.

`parse_kernel(source, header, signature)` gives a `Kernel`, or raises `KernelError` with line and column.
`kernel.run(xp, inputs, grid, threadgroup, init_value)` gives the outputs; `xp` is NumPy, which computes at once, or
`jax.numpy`, under a trace with 64-bit types on.

The flow: `lexer` and `preprocess` make tokens, `parser` makes statements (`syntax`), `walk` goes through these once for
all threads. A `Scalar` (`values`) is a number of each thread; `numbers` is C's arithmetic on them, `memory` what reads
and writes buffers, `masks` and `loops` control flow, `calls` functions, `space` the namespaces it is all written over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import KernelError
from .signature import Input, Output, Signature, TemplateValue

if TYPE_CHECKING:
    from .kernel import Kernel

__all__ = ["Input", "KernelError", "Output", "Signature", "TemplateValue", "parse_kernel"]


def parse_kernel(source: str, header: str, signature: Signature) -> Kernel:
    """Parse a kernel.

    Args:
        source: the body of its function.
        header: what stands in front of it.
        signature: its parameters.

    Raises:
        KernelError: where it does not parse, or uses what is not supported.
    """
    from .kernel import Kernel  # here, since few programs have kernels

    return Kernel(source, header, signature)
