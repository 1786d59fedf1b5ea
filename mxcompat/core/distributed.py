"""`mlx.core.distributed`, name for name. Re-exports only."""

from mxcompat._distributed.group import Group
from mxcompat._ops.distributed.collectives import (
    all_gather,
    all_max,
    all_min,
    all_sum,
    init,
    is_available,
    recv,
    recv_like,
    send,
    sum_scatter,
)

__all__ = [
    "Group", "all_gather", "all_max", "all_min", "all_sum", "init", "is_available", "recv", "recv_like", "send",
    "sum_scatter",
]  # fmt: skip
