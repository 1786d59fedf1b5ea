"""Schedules: functions of the step, for learning rates and other values of an optimizer's state."""

from __future__ import annotations

import math
from collections.abc import Callable

import mxcompat.core as mx

__all__ = ["cosine_decay", "exponential_decay", "join_schedules", "linear_schedule", "math", "mx", "step_decay"]


def exponential_decay(init: float, decay_rate: float) -> Callable:
    """Return the schedule ``init * decay_rate ** step``.

    Args:
        init: the first value.
        decay_rate: the factor from a step to the next.

    Returns:
        A function of the step, an integer array or a number, that returns a floating-point scalar.

    Example:
        >>> optim.SGD(learning_rate=optim.exponential_decay(0.1, 0.9)).learning_rate
        array(0.1, dtype=float32)
    """

    def schedule(step: mx.array) -> mx.array:
        return init * decay_rate**step

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Callable:
    """Return a schedule that starts at ``init`` and is multiplied by ``decay_rate`` every ``step_size`` steps.

    Args:
        init: the first value.
        decay_rate: the factor.
        step_size: the number of steps between multiplications.

    Returns:
        A function of the step, an integer array or a number, that returns a floating-point scalar.

    Raises:
        ValueError: if ``step_size`` is not positive.

    Example:
        >>> schedule = optim.step_decay(1.0, 0.5, 10)
        >>> schedule(mx.array(20))
        array(0.25, dtype=float32)
    """
    if step_size < 1:
        raise ValueError(f"step_size must be greater than 0, but got {step_size}.")

    def schedule(step: mx.array) -> mx.array:
        return init * decay_rate ** (step // step_size)

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Callable:
    """Return a schedule that goes from ``init`` to ``end`` in ``decay_steps`` steps, along half a cosine wave.

    Args:
        init: the first value.
        decay_steps: the number of steps; after them the value stays constant.
        end: the last value.

    Returns:
        A function of the step, an integer array or a number, that returns a floating-point scalar.

    Raises:
        ValueError: if ``decay_steps`` is not positive.

    Example:
        >>> schedule = optim.cosine_decay(1.0, 10)
        >>> schedule(mx.array(0)), schedule(mx.array(12))
        (array(1, dtype=float32), array(0, dtype=float32))
    """
    if decay_steps < 1:
        raise ValueError(f"decay_steps must be greater than 0, but got {decay_steps}.")

    def schedule(step: mx.array) -> mx.array:
        turn = mx.minimum(step, decay_steps) * (math.pi / decay_steps)
        return end + 0.5 * (1.0 + mx.cos(turn)) * (init - end)

    return schedule


def join_schedules(schedules: list[Callable], boundaries: list[int]) -> Callable:
    """Return a schedule that runs schedules one after the other. Each counts its steps from its own beginning.

    Args:
        schedules: the schedules.
        boundaries: the steps at which the schedules after the first begin.

    Returns:
        A function of the step, an integer array or a number, that returns a floating-point scalar.

    Raises:
        ValueError: if there are no schedules, or if the boundaries are not one fewer than the schedules.

    Example:
        >>> warm_up, rest = optim.linear_schedule(0.0, 1.0, 10), optim.step_decay(1.0, 0.5, 20)
        >>> schedule = optim.join_schedules([warm_up, rest], [10])
        >>> schedule(mx.array(5)), schedule(mx.array(40))
        (array(0.5, dtype=float32), array(0.5, dtype=float32))
    """
    if not schedules:
        raise ValueError("Must provide at least 1 schedule to join.")
    if len(boundaries) != len(schedules) - 1:
        raise ValueError(f"Received {len(boundaries)} boundaries but expected {len(schedules) - 1}.")

    def schedule(step: mx.array) -> mx.array:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = mx.where(step < boundary, value, later(step - boundary))
        return value

    return schedule


def linear_schedule(init: float, end: float, steps: int) -> Callable:
    """Return a schedule that goes from ``init`` to ``end`` along a line, in ``steps`` steps.

    Args:
        init: the first value.
        end: the last value.
        steps: the number of steps; after them the value stays constant.

    Returns:
        A function of the step, an integer array or a number, that returns a floating-point scalar.

    Raises:
        ValueError: if ``steps`` is not positive.

    Example:
        >>> schedule = optim.linear_schedule(0.0, 2.0, 10)
        >>> schedule(mx.array(5)), schedule(mx.array(12))
        (array(1, dtype=float32), array(2, dtype=float32))
    """
    if steps < 1:
        raise ValueError(f"steps must be greater than 0, but got {steps}.")

    def schedule(step: mx.array) -> mx.array:
        return mx.minimum(step, steps) * ((end - init) / steps) + init

    return schedule
