"""Quantized matrices as C reads them (`products.stored`), and their elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._native import native
from mxcompat._native.products import KINDS

from ..products.stored import Stored, as_bytes
from .quantize import Scheme

__all__ = ["elements", "stored"]

_FLOAT32 = KINDS[np.dtype(np.float32)]


def _kinds(how: Scheme, scales: Any, biases: Any) -> tuple[int, int, int] | None:
    """Return C's kinds of the elements, the scales and the biases, or None if C does not have all of them."""
    if native is None or how.group_size not in (16, 32, 64, 128):
        return None
    if how.mode != "affine":
        return KINDS["e2m1" if how.bits == 4 else "e4m3"], KINDS["e4m3" if how.mode == "nvfp4" else "e8m0"], _FLOAT32
    kinds = KINDS[how.bits], KINDS.get(scales.dtype), KINDS.get(biases.dtype)
    return None if None in kinds else kinds  # type: ignore[return-value]


def stored(how: Scheme, scales: Any, biases: Any, words: Any, units: Any = None) -> Stored | None:
    """Return quantized matrices as C reads them, or None if C does not support them. All arrays have the same leading
    axes."""
    kinds = _kinds(how, scales, biases)
    if kinds is None:
        return None
    return Stored(
        as_bytes(words), as_bytes(scales), None if biases is None else as_bytes(biases), units, kinds, how.group_size,
        math.prod(words.shape[:-2]), words.shape[-2], scales.shape[-1] * how.group_size,
    )  # fmt: skip


def elements(how: Scheme, scales: Any, biases: Any, words: Any, step: Any, dtype: Any, unit: float = 1.0) -> Any:
    """Return the elements of quantized matrices, or None if C does not have their dtypes.

    Args:
        step: the dtype to which C rounds after the product with the scale, and after the sum with the bias.
        dtype: the dtype of the result.
        unit: a factor for the scales if there are no biases.
    """
    kinds = _kinds(how, scales, biases)
    if kinds is None or dtype not in KINDS or step not in KINDS:
        return None
    out = np.empty((*scales.shape[:-1], scales.shape[-1] * how.group_size), dtype)
    native.unpack_stored(
        as_bytes(out), as_bytes(words), as_bytes(scales),
        None if biases is None else as_bytes(biases), unit, bytes((*kinds, KINDS[step], KINDS[out.dtype])),
        how.group_size,
    )  # fmt: skip
    return out
