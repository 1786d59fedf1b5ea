"""Autotuning: time NumPy and XLA on the same Program, to choose the faster one."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from mxcompat._jax import jax

from ..ir.linearize import Subgraph
from ..ir.node import SCALAR
from . import cache, host
from .plan import Autotune, OpByOp
from .values import jax_value, to_jax
from .waiting import until_ready

__all__ = ["time_both"]


def time_both(autotune: Autotune, plan: OpByOp, subgraph: Subgraph, record: cache.Record, products: bool) -> None:
    """Time both tiers, and note the best times in the record. Each tier runs several times in a row, so that its data
    are in the processor's caches, as in normal use."""
    leaves = subgraph.leaves
    arrays = [to_jax(n.value) if type(n.value) is np.ndarray else jax_value(n) for n in leaves if n.op is not SCALAR]
    jax.block_until_ready(arrays)
    executable = autotune.executable
    spins = executable.should_spin
    by_xla = _times(autotune, autotune.most, lambda: until_ready(executable(arrays, plan.scalars, False), spins))
    on_host = _times(autotune, autotune.most, lambda: host.run(plan.program, leaves, [], products))
    record.xla_runs += len(by_xla)
    record.xla_best = min(record.xla_best, *by_xla)
    record.host_best = min(record.host_best, *on_host)


def _times(autotune: Autotune, most: int, run: Callable[[], Any]) -> list[float]:
    """Return the seconds that each run takes, for at most `most` runs."""
    seconds: list[float] = []
    end = perf_counter() + autotune.seconds
    while len(seconds) < most:
        start = perf_counter()
        if len(seconds) >= autotune.least and start > end:
            break
        run()
        seconds.append(perf_counter() - start)
    return seconds
