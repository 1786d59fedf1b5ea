"""Trials: time NumPy and XLA on the same Program, to choose the faster one."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from mxcompat._jax import jax

from ..ir.linearize import Subgraph
from ..ir.node import SCALAR
from . import cache, host
from .plan import OpByOp, Trial
from .values import jax_value, to_jax
from .waiting import until_ready

__all__ = ["time_both"]


def time_both(trial: Trial, plan: OpByOp, subgraph: Subgraph, record: cache.Record, products: bool) -> None:
    """Time both tiers, and note the best times in the record. Each tier runs several times in a row, so that its data
    are in the processor's caches, as in normal use."""
    leaves = subgraph.leaves
    arrays = [to_jax(n.value) if type(n.value) is np.ndarray else jax_value(n) for n in leaves if n.op is not SCALAR]
    jax.block_until_ready(arrays)
    looks = trial.executable.is_looked_for
    by_xla = _times(trial, trial.xla_runs, lambda: until_ready(trial.executable(arrays, plan.scalars, False), looks))
    on_host = _times(trial, trial.host_runs, lambda: host.run(plan.program, leaves, [], products))
    record.xla_runs += len(by_xla)
    record.xla_best = min(record.xla_best, *by_xla)
    record.host_best = min(record.host_best, *on_host)


def _times(trial: Trial, most: int, run: Callable[[], Any]) -> list[float]:
    """Return the seconds that each run takes, for at most `most` runs."""
    taken: list[float] = []
    end = perf_counter() + trial.seconds
    while len(taken) < most:
        start = perf_counter()
        if len(taken) >= trial.least and start > end:
            break
        run()
        taken.append(perf_counter() - start)
    return taken
