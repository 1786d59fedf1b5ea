"""The `reduction` parameter that all losses share, and the call of a loss as one node of the graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Literal, get_args

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._transforms.compiling import compile_frozen

__all__ = ["Reduction", "reduce", "reduces"]

Reduction = Literal["none", "mean", "sum"]

_REDUCTIONS: dict[str, Callable[[mx.array], mx.array]] = {"none": lambda loss: loss, "mean": mx.mean, "sum": mx.sum}


def reduce(loss: mx.array, reduction: Reduction = "none") -> mx.array:
    if reduction not in list(_REDUCTIONS):
        raise ValueError(f"Invalid reduction. Must be one of {get_args(Reduction)}.")
    return _REDUCTIONS[reduction](loss)


_SETTINGS = {mx.array, bool, int, float, str, type(None)}
"""The types of arguments that let a loss become one node."""


@lru_cache(policy.MOST_PROGRAMS)
def _as_one_node(
    losses: Callable[..., mx.array], reduction: Reduction, constants: tuple, names: tuple[str, ...]
) -> Callable[..., list[mx.array]]:
    """Return the reduced loss as a function of its array arguments. It is one node of the graph, unless an array stands
    for a setting: then the loss reads its value.

    Args:
        losses: the function of unreduced losses.
        reduction: how the losses are reduced.
        constants: for each argument, None if it is an array, or its type and value.
        names: the names of the last arguments, which are passed by keyword.
    """
    parameters = inspect.signature(losses).parameters
    given_to = [*list(parameters)[: len(constants) - len(names)], *names]
    settings = {name for name, p in parameters.items() if p.default is not p.empty and p.default is not None}

    def loss(*arrays: mx.array) -> list[mx.array]:
        following = iter(arrays)
        arguments = [next(following) if constant is None else constant[1] for constant in constants]
        positional = arguments[: len(arguments) - len(names)]
        named = dict(zip(names, arguments[len(positional) :], strict=True))
        return [reduce(losses(*positional, **named), reduction)]

    if any(constant is None and name in settings for name, constant in zip(given_to, constants, strict=False)):
        return loss
    return compile_frozen(loss)


def _check_last(name: str, least: int, most: int, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise Python's errors if the last argument, the reduction, is given twice, or if there are too many arguments."""
    if "reduction" in kwargs:
        raise TypeError(f"{name}() got multiple values for argument 'reduction'")
    if len(args) > most:
        raise TypeError(f"{name}() takes from {least} to {most} positional arguments but {len(args)} were given")


def reduces(default: Reduction) -> Callable[[Callable[..., mx.array]], Callable[..., mx.array]]:
    """Add a last parameter ``reduction`` to a function of unreduced losses: ``"none"``, ``"mean"`` or ``"sum"``.

    The function's Python runs once for each kind of arguments. It must not read the values of arrays, except of arrays
    in place of numbers with a default.
    """

    def decorate(losses: Callable[..., mx.array]) -> Callable[..., mx.array]:
        signature = inspect.signature(losses)
        place = len(signature.parameters)
        least = sum(p.default is p.empty for p in signature.parameters.values())
        last = inspect.Parameter("reduction", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        known: set[tuple[float, ...]] = set()

        def may_be_one_node(numbers: tuple[float, ...]) -> bool:
            """Return True if the loss should be one node for these settings. Only the first few settings are compiled,
            as they may change at each call."""
            if len(known) < policy.COMPILED_SETTINGS:
                known.add(numbers)
            return policy.REPRODUCIBLE or numbers in known

        @wraps(losses)
        def reduced(*args: Any, **kwargs: Any) -> mx.array:
            if len(args) > place:
                _check_last(losses.__name__, least, place + 1, args, kwargs)
                args, kwargs["reduction"] = args[:place], args[place]
            reduction = kwargs.pop("reduction", default)
            arguments = (*args, *kwargs.values())
            numbers = tuple([x for x in arguments if type(x) is float])
            if not _SETTINGS.issuperset(map(type, (*arguments, reduction))) or (
                numbers and not may_be_one_node(numbers)
            ):
                # arguments of other types, such as NumPy's numbers, may read values
                return reduce(losses(*args, **kwargs), reduction)
            constants = tuple([None if type(x) is mx.array else (type(x), x) for x in arguments])
            loss = _as_one_node(losses, reduction, constants, tuple(kwargs))
            return loss(*[x for x in arguments if type(x) is mx.array])[0]

        reduced.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])  # type: ignore
        return reduced

    return decorate
