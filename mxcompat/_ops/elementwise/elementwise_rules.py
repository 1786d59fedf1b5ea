"""What elementwise ops have in common: they are batched by the same op, with operands that broadcast as before, and C
computes some of them together. See `rules.BATCH` and `rules.CHAINED`."""

from __future__ import annotations

from mxcompat._graph.ir.rules import BATCH, CHAINED

from ..batching import batched_elementwise
from ..define import SAMPLES, TABLE

__all__: list[str] = []

BATCH.of(*[TABLE[name] for name in SAMPLES])(batched_elementwise)

# the order is that of the numbers in `_native/kernels.h`
_IN_C = ("add", "subtract", "multiply", "divide", "negative", "square", "sqrt", "reciprocal", "rsqrt")
CHAINED.update({TABLE[name]: number for number, name in enumerate(_IN_C)})
