"""Custom kernels of `mx.fast` in CUDA. They cannot run on XLA; a call raises an error that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ..arguments import flag, integer, is_sequence, require_text

__all__ = ["cuda_kernel", "precompiled_cuda_kernel"]

_INSTEAD = (
    "Under mxcompat, write the kernel with mx operations, which XLA fuses into one, or in JAX or Pallas, and call it "
    "through mxcompat.ext.jax_function."
)


def cuda_kernel(
    name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = "",
    ensure_row_contiguous: bool = True, shared_memory: int = 0,
) -> NoReturn:  # fmt: skip
    """Define a CUDA kernel, which is not supported here.

    Raises:
        RuntimeError: always, as in real MLX without its CUDA back-end.
        TypeError: for arguments of other types.
    """
    _check("cuda_kernel", name, input_names, output_names, source, header, ensure_row_contiguous)
    integer(shared_memory)
    raise RuntimeError(f"[cuda_kernel] No CUDA back-end. {_INSTEAD}")


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


def _check(
    function: str, name: Any, input_names: Any, output_names: Any, source: Any, header: Any, ensure_row_contiguous: Any
) -> None:
    for argument, value in (("name", name), ("source", source), ("header", header)):
        require_text(value, function, argument)
    for argument, names in (("input_names", input_names), ("output_names", output_names)):
        for one in names if is_sequence(names) else (None,):
            require_text(one, function, f"each of {argument}")
    flag(ensure_row_contiguous, function, "ensure_row_contiguous")
