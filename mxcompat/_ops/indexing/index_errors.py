"""The errors of derivatives with respect to starts and masks, where MLX's text differs from that for indices."""

from __future__ import annotations

from typing import Any

from mxcompat._array.errors import no_derivative
from mxcompat._graph.ir.rules import INDEX_ERROR

from ..define import TABLE
from . import gather as _gather  # noqa: F401  their records, in TABLE
from . import put as _put  # noqa: F401
from . import scatter as _scatter  # noqa: F401

__all__: list[str] = []


@INDEX_ERROR.of(TABLE["dynamic_slice"])
def _slice(transform: str, *_: Any) -> Exception | None:
    return None if transform == "JVP" else ValueError("[DynamicSlice::vjp] Not supported for start indices.")


@INDEX_ERROR.of(TABLE["dynamic_slice_update"])
def _update(transform: str, *_: Any) -> Exception:
    return ValueError(f"[DynamicSliceUpdate::{transform.lower()}] Not supported for start indices")


@INDEX_ERROR.of(TABLE["masked_scatter"])
def _mask(transform: str, *_: Any) -> Exception:
    """Return the error for the mask: MLX refuses JVP and VJP, with another text for the JVP."""
    if transform == "JVP":
        return ValueError("[masked_scatter] invalid arg index in JVP")
    return ValueError(no_derivative("masked_scatter", "mask", transform))


@INDEX_ERROR.of(TABLE["scatter"])
def _written_to(transform: str, *_: Any) -> Exception:
    """Return the error for the indices. MLX has no JVP for any input of a scatter."""
    if transform == "JVP":
        return RuntimeError("[scatter] JVP not yet implemented")
    return ValueError(no_derivative("scatter", "indices", transform))
