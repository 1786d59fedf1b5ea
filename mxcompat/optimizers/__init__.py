"""Optimizers and schedules: the public ``mlx.optimizers`` namespace, name for name."""

import math

import mxcompat.core as mx
from mxcompat.nn import Module
from mxcompat.optimizers import optimizers, schedulers
from mxcompat.optimizers.optimizers import (
    SGD,
    AdaDelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lion,
    MultiOptimizer,
    Muon,
    Optimizer,
    RMSprop,
    clip_grad_norm,
)
from mxcompat.optimizers.schedulers import (
    cosine_decay,
    exponential_decay,
    join_schedules,
    linear_schedule,
    step_decay,
)
from mxcompat.utils import tree_flatten, tree_map, tree_merge, tree_reduce, tree_unflatten

__all__ = [
    "SGD", "AdaDelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Module", "MultiOptimizer", "Muon",
    "Optimizer", "RMSprop", "clip_grad_norm", "cosine_decay", "exponential_decay", "join_schedules", "linear_schedule",
    "math", "mx", "optimizers", "schedulers", "step_decay", "tree_flatten", "tree_map", "tree_merge", "tree_reduce",
    "tree_unflatten",
]  # fmt: skip
