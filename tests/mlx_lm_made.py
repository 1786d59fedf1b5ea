"""Tiny models of mlx-lm with weights that both sides share, and the table of jobs for them.

Weights are NumPy's random numbers, seeded by the parameter's name. `mlx_lm_worker` and its job modules use them.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx_lm_models
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

Arrays = list[np.ndarray]
TOKENS = np.random.default_rng(1).integers(0, 60, (2, 20))
JOBS: dict[str, Callable[[], Arrays]] = {}


def job(function: Callable[[], Arrays]) -> Callable[[], Arrays]:
    JOBS[function.__name__] = function
    return function


def to_numpy(x: Any) -> np.ndarray:
    return np.array(x.astype(mx.float32))


def model(name: str, **different: Any) -> Any:
    args = mlx_lm_models.arguments(name, **different)
    network = importlib.import_module(f"mlx_lm.models.{name}").Model(args)
    network.eval()
    weights = []
    for key, value in tree_flatten(network.parameters()):
        if mx.issubdtype(value.dtype, mx.floating):
            draw = np.random.default_rng(zlib.crc32(key.encode())).standard_normal(value.shape).astype(np.float32)
            is_norm = key.endswith("weight") and "norm" in ".".join(key.split(".")[-2:])
            weights.append((key, mx.array(1 + 0.1 * draw if is_norm else 0.15 * draw)))
    network.update(tree_unflatten(weights))
    return network


def llama(**different: Any) -> Any:
    return model("llama", **{"head_dim": 32, "num_attention_heads": 2, "num_key_value_heads": 1, **different})
