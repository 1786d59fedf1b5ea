"""The oracle for ``nn``, ``optimizers`` and ``utils``: the same code on real MLX's packages and on ours."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mlx.nn
import mlx.optimizers
import mlx.utils

import mxcompat.nn
import mxcompat.optimizers
import mxcompat.utils
from tests.oracle import check, real

REAL = SimpleNamespace(nn=mlx.nn, optim=mlx.optimizers, utils=mlx.utils)
OURS = SimpleNamespace(nn=mxcompat.nn, optim=mxcompat.optimizers, utils=mxcompat.utils)


def check_on(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``check`` on ``fn(mx, lib, *args)``, where ``lib`` has ``nn``, ``optim`` and ``utils`` of the same side."""
    return check(lambda mx, *arguments: fn(mx, REAL if mx is real else OURS, *arguments), *args, **kwargs)


def plain(tree: Any) -> Any:
    """Return modules as plain dictionaries, so that trees of both sides can be compared."""
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(plain(v) for v in tree)
    return tree


def ordered(tree: Any) -> Any:
    """Return dictionaries with sorted keys: ``tree_merge`` of real MLX and files have no order."""
    if isinstance(tree, dict):
        return {k: ordered(tree[k]) for k in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        return type(tree)(ordered(v) for v in tree)
    return tree
