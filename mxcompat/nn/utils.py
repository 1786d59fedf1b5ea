"""Training helpers: gradients with respect to a module, checkpointing, and gradients in distributed groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module
from mxcompat.utils import tree_flatten, tree_map, tree_reduce, tree_unflatten

__all__ = [
    "Module", "average_gradients", "checkpoint", "clip_grad_norm_sharded", "mx", "tree_flatten", "tree_map",
    "tree_reduce", "tree_unflatten", "value_and_grad",
]  # fmt: skip


def value_and_grad(model: Module, fn: Callable) -> Callable:
    """Return a function that computes ``fn(*args)`` and its gradient with respect to the model's trainable parameters.

    Args:
        model: the model. ``fn`` must use it: as an argument, or as a variable of an enclosing scope.
        fn: returns a scalar array, or a tuple that begins with one.

    Returns:
        A function with the arguments of ``fn`` that returns ``(value, gradients)``; the gradients are a tree like
        ``model.trainable_parameters()``.

    Raises:
        ValueError: when called, if ``fn`` does not return a scalar array, or if nothing is trainable.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> step = nn.value_and_grad(model, lambda x, y: nn.losses.mse_loss(model(x), y))
        >>> loss, grads = step(mx.ones((4, 2)), mx.zeros((4, 1)))
        >>> loss.shape, grads["weight"].shape
        ((), (1, 2))
    """

    def with_parameters(parameters: dict, *args: Any, **kwargs: Any) -> Any:
        model.update(parameters)
        return fn(*args, **kwargs)

    transformed = mx.value_and_grad(with_parameters)

    @wraps(fn)
    def value_and_gradients(*args: Any, **kwargs: Any) -> tuple[Any, dict]:
        return transformed(model.trainable_parameters(), *args, **kwargs)

    return value_and_gradients


def checkpoint(module: Module, fn: Callable | None = None) -> Callable:
    """Return a version of ``fn`` that recomputes intermediate values in the backward pass, and does not keep them.

    Args:
        module: the module whose trainable parameters ``fn`` uses.
        fn: the function; by default the module itself.

    Returns:
        A function with the arguments of ``fn``.
    """
    fn = module if fn is None else fn

    def with_parameters(parameters: dict, *args: Any, **kwargs: Any) -> Any:
        module.update(parameters)
        return fn(*args, **kwargs)

    transformed = mx.checkpoint(with_parameters)

    @wraps(fn)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return transformed(module.trainable_parameters(), *args, **kwargs)

    return checkpointed


def _extract_info(flat: list[tuple[str, mx.array]]) -> tuple[list, list, list, list]:
    """Return the paths, shapes, sizes and dtypes of flattened arrays."""
    return (
        [path for path, _ in flat],
        [value.shape for _, value in flat],
        [value.size for _, value in flat],
        [value.dtype for _, value in flat],
    )


def _group_by_size(keys: list, sizes: list[int], itemsize: int, communication_size: int) -> list[list[int]]:
    """Return runs of adjacent indices. Each run ends as soon as it holds ``communication_size`` bytes."""
    groups: list[list[int]] = []
    run: list[int] = []
    held = 0
    for index in range(len(keys)):
        run.append(index)
        held += sizes[index] * itemsize
        if held >= communication_size:
            groups.append(run)
            run, held = [], 0
    if run:
        groups.append(run)
    return groups


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
) -> Any:
    """Average a tree of gradients over the members of a group.

    Args:
        gradients: a tree of arrays, with the same structure on all members.
        group: the group; the default is the global group.
        all_reduce_size: the size in bytes of a message, which holds arrays of one dtype. With 0 or less, each array is
            a message.
        communication_stream: the stream for the communication.

    Returns:
        The averaged tree (``gradients`` itself for a group of one).

    Example:
        >>> nn.average_gradients({"w": mx.array([1.0, 2.0])})
        {'w': array([1, 2], dtype=float32)}
    """
    group = group or mx.distributed.init()
    size = group.size()
    if size == 1:
        return gradients

    def average(x: mx.array) -> mx.array:
        return mx.distributed.all_sum(x, group=group, stream=communication_stream) / size

    flat = tree_flatten(gradients)
    if not flat:
        return gradients
    keys, shapes, sizes, dtypes = _extract_info(flat)
    if all_reduce_size <= 0 or any(dtype != dtypes[0] for dtype in dtypes):
        return tree_map(average, gradients)
    averaged = []
    for run in _group_by_size(keys, sizes, dtypes[0].size, all_reduce_size):
        message = average(mx.concatenate([flat[i][1].reshape(-1) for i in run]))
        ends, end = [], 0
        for i in run[:-1]:
            end += sizes[i]
            ends.append(end)
        parts = mx.split(message, ends)
        averaged.extend((keys[i], part.reshape(shapes[i])) for i, part in zip(run, parts, strict=True))
    return tree_unflatten(averaged)


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Scale sharded gradients, so that their norm over the group is at most ``max_norm``.

    Args:
        gradients: a tree with this rank's slices.
        max_norm: the largest norm.
        group: the group; the default is the global group.

    Returns:
        The scaled tree and the norm before scaling, a scalar array.
    """
    local = tree_reduce(lambda total, g: total + g.square().sum(), gradients, 0.0)
    norm = mx.sqrt(mx.distributed.all_sum(local, group=group))
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: g * factor, gradients), norm
