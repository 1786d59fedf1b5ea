"""The batching rule of all elementwise ops: the same op, with operands that broadcast as before. See `rules.BATCH`."""

from __future__ import annotations

from mxcompat._graph.ir.rules import BATCH

from ..batching import batched_elementwise
from ..define import SAMPLES, TABLE

__all__: list[str] = []

BATCH.of(*[TABLE[name] for name in SAMPLES])(batched_elementwise)
