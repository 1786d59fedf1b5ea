"""Compiled CUDA kernels of `mx.fast`. They cannot run on XLA; a call raises an error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["precompiled_cuda_kernel"]

_INSTEAD = (
    "Under mxcompat, give the kernel's source to mx.fast.cuda_kernel, or write it with mx operations, or in JAX or "
    "Pallas, and call it through mxcompat.ext.jax_function."
)


def precompiled_cuda_kernel(
    *, name: str, compiled_source: bytes, inputs: Sequence[Any], output_shapes: Sequence[Any],
    output_dtypes: Sequence[Any], scalars: Sequence[Any], grid: Any, threadgroup: Any, shared_memory: int = 0,
    init_value: float | None = None, ensure_row_contiguous: bool = False, stream: Any = None,
) -> NoReturn:  # fmt: skip
    """Call a compiled CUDA kernel, which is not supported here.

    Raises:
        RuntimeError: always, as in real MLX without its CUDA back-end.
    """
    raise RuntimeError(f"[cuda_kernel] No CUDA back-end. {_INSTEAD}")
