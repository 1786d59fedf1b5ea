"""`mlx.core`, name for name. Re-exports only."""

from mxcompat._array.array import array
from mxcompat._graph.aval import (
    Dtype, bfloat16, bool_, complex64, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
)
