"""Rules of conversions to and from fp8."""

from __future__ import annotations

from typing import Any

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST

from ..products.contraction import rounded
from .codes import from_e4m3, to_e4m3
from .fp8 import FROM_FP8, TO_FP8

__all__: list[str] = []


@HOST.of(TO_FP8)
def _host_to_fp8(out: Any, params: tuple, x: Any) -> Any:
    return to_e4m3(x)


@HOST.of(FROM_FP8)
def _host_from_fp8(out: Any, params: tuple, x: Any) -> Any:
    return rounded(from_e4m3(x), out.dtype._numpy)


@BATCH.of(TO_FP8, FROM_FP8)
def _batch_codes(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    return apply(op, inputs, params)
