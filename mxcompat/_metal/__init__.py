"""Kernels in the Metal language, translated to array operations: all threads run at once, each as an element of arrays.

`parse_kernel(source, header, signature)` gives a `Kernel`, or raises `KernelError` with line and column.
`kernel.run(xp, inputs, grid, threadgroup, init_value)` gives the outputs; `xp` is NumPy, which computes at once, or
`jax.numpy`, under a trace with 64-bit types on.

The flow: `lexer` and `preprocess` make tokens, `parser` makes statements (`syntax`), `walk` goes through these once for
all threads. A `Scalar` (`values`) is a number of each thread. `numbers` has C's arithmetic on them, `memory` the
reads and writes of buffers, `masks` and `loops` control flow, `calls` functions, `space` NumPy's and JAX's operations.
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
        header: source code in front of the function.
        signature: its parameters.

    Raises:
        KernelError: if it does not parse, or has an unsupported construct.
    """
    from .kernel import Kernel  # imported here because few programs have kernels

    return Kernel(source, header, signature)
