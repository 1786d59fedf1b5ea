"""MLX's primitives for our ops, with their arguments. One op may be several primitives, such as a sum and a squeeze.

The tables have a rule for each op that is composed of MLX's ops (`chain`). Any other op is one primitive with the op's
name and params.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mxcompat._array import construct, nest
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.op import Op
from mxcompat._ops.define import TABLE

from .chain import Chain, Entry, Group, Member, Source
from .composed_elementwise import ELEMENTWISE
from .composed_fast import FAST
from .composed_indexing import INDEXING
from .composed_linalg import LINALG
from .composed_movement import MOVEMENT
from .composed_products import PRODUCTS
from .composed_random import RANDOM
from .composed_reductions import REDUCTIONS

__all__ = ["Decomposition", "decompose", "is_known"]

_NAMES = {
    "block_masked_mm": "BlockMaskedMM", "conv": "Convolution", "from_fp8": "FromFP8", "linalg_cholesky": "Cholesky",
    "linalg_lu": "LUF", "linalg_qr": "QRF", "qqmm": "QQMatmul", "segmented_mm": "SegmentedMM", "to_fp8": "ToFP8",
}  # fmt: skip
"""MLX's names of primitives that differ from the op's name in CamelCase."""

_RULES: dict[Op, Callable[..., Any]] = {
    {op.name: op for op in (construct.CAST, construct.COPY, nest.NEST)}.get(name) or TABLE[name]: rule
    for table in (ELEMENTWISE, FAST, INDEXING, LINALG, MOVEMENT, PRODUCTS, RANDOM, REDUCTIONS)
    for name, rule in table.items()
}
"""`rule(chain, **params)` appends the primitives of an op, and returns its result or a list of results. It returns None
if MLX's primitives are unknown."""


class Decomposition(NamedTuple):
    """The primitives of an op, and the sources of its results."""

    primitives: list[Entry]
    results: Sequence[Source | Group | Member]


def decompose(
    op: Op, params: dict[str, Any], in_avals: Sequence[Aval], out_avals: Sequence[Aval], numbers: Sequence[Any],
    any_shape: bool = False,
) -> Decomposition:  # fmt: skip
    """Return MLX's primitives for an op.

    Args:
        op: the op.
        params: its params, by name.
        in_avals: the avals of its inputs.
        out_avals: the avals of its results.
        numbers: the values of inputs that are Python numbers, else None.
        any_shape: whether the export is for arrays of other shapes, too.
    """
    chain = Chain(in_avals, numbers, out_avals, any_shape)
    results = _RULES[op](chain, **params) if op in _RULES else None
    if results is None:
        chain.primitives.clear()
        arguments = [list(p) if isinstance(p, tuple) else p for p in params.values()]
        results = chain.several(_primitive_name(op.name), range(len(in_avals)), out_avals, *arguments)
    return Decomposition(chain.primitives, results if isinstance(results, list) else [results])


def _primitive_name(name: str) -> str:
    """Return MLX's name of the primitive for an op."""
    return _NAMES.get(name) or "".join(part.capitalize() for part in name.split("_"))


def is_known(op: Op, params: tuple) -> bool:
    """Return True if MLX's description of an op is known."""
    return op in _RULES or (op in TABLE.values() and not params)
