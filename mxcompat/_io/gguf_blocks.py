"""Convert the blocks of quantized gguf tensors to MLX's packed weights, or to float16.

Q4_0, Q4_1 and Q8_0 are affine quantizations in groups of 32: a weight is `scale * q + bias`. They are repacked for
`quantized_matmul`. Other quantizations are expanded.
"""

from __future__ import annotations

import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Dtype

__all__ = ["BLOCKS", "REPACKED", "TYPES", "biases", "expanded", "scales", "weights"]

TYPES: dict[int, Dtype] = {0: _d.float32, 1: _d.float16, 24: _d.int8, 25: _d.int16, 26: _d.int32}
"""The dtypes of tensors without quantization, by the number of the type."""

_Q4_0, _Q4_1, _Q8_0, _BF16 = 2, 3, 8, 30

BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), _Q4_0: (32, 18), _Q4_1: (32, 20), 6: (32, 22), 7: (32, 24), _Q8_0: (32, 34), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 24: (1, 1),
    25: (1, 2), 26: (1, 4), _BF16: (1, 2),
}  # fmt: skip
"""The number of elements and of bytes in a block, by the number of the type."""


REPACKED: dict[int, int] = {_Q4_0: 4, _Q4_1: 4, _Q8_0: 8}
"""The number of bits of a weight in the quantizations that are repacked, by the number of the type."""


def weights(data: np.ndarray, kind: int) -> np.ndarray:
    """Return the bytes of MLX's packed weights, from the bytes of blocks of a repacked quantization."""
    blocks = _blocks(data, kind)
    if kind == _Q8_0:
        return _bytes(blocks[:, 2:] ^ 0x80)
    # The low half of byte k of a block holds element k, and the high half holds element k + 16.
    codes = blocks[:, 4:] if kind == _Q4_1 else blocks[:, 2:]
    elements = np.concatenate([codes & 0xF, codes >> 4], axis=1)
    return _bytes(elements[:, ::2] | elements[:, 1::2] << 4)


def scales(data: np.ndarray, kind: int) -> np.ndarray:
    """Return the bytes of the scales, in float16, from the bytes of blocks of a repacked quantization."""
    return _bytes(_blocks(data, kind)[:, :2])


def biases(data: np.ndarray, kind: int) -> np.ndarray:
    """Return the bytes of the biases, in float16, from the bytes of blocks of a repacked quantization."""
    if kind == _Q4_1:
        return _bytes(_blocks(data, kind)[:, 2:4])
    with np.errstate(all="ignore"):
        return _bytes(scales(data, kind).view(np.float16) * np.float16(-128 if kind == _Q8_0 else -8))


def _blocks(data: np.ndarray, kind: int) -> np.ndarray:
    return data.reshape(-1, BLOCKS[kind][1])


def _bytes(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def expanded(data: np.ndarray, kind: int) -> np.ndarray:
    """Return the bytes of the elements in float16.

    Raises:
        RuntimeError: if the `gguf` package, which expands the blocks, is not installed, or does not know this type.
    """
    with np.errstate(all="ignore"):
        if kind == _BF16:
            return _bytes(data.view(_d.bfloat16._numpy).astype(np.float16))
        try:
            from gguf import GGMLQuantizationType
            from gguf.quants import dequantize
        except ImportError as error:
            raise RuntimeError(
                "[load_gguf] Tensors in this quantization are expanded by the gguf package: pip install gguf"
            ) from error
        try:
            return _bytes(dequantize(data, GGMLQuantizationType(kind)).astype(np.float16))
        except (NotImplementedError, ValueError) as error:
            raise RuntimeError(f"[load_gguf] Cannot expand quantization {kind}") from error
