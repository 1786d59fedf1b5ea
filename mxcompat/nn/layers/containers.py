"""Modules made of other modules."""

from __future__ import annotations

from collections.abc import Callable

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """A chain of modules: each is called on the result of the previous one.

    Args:
        modules: modules or plain functions of one array.

    Example:
        >>> nn.Sequential(nn.Linear(2, 8), nn.relu, nn.Linear(8, 1))(mx.ones((4, 2))).shape
        (4, 1)
    """

    def __init__(self, *modules: Module | Callable[[mx.array], mx.array]) -> None:
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        return x
