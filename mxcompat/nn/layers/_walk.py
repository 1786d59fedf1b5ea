"""How ``Module`` reads and writes the tree it is: the recursion behind ``filter_and_map``, ``update`` and
``update_modules``.

Updates are planned first and written afterwards, so that a bad parameter leaves the module as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mxcompat.core as mx

# A write to be done once the whole tree was found valid: container, key, new value.
Plan = list[tuple[Any, Any, Any]]


def unwrap(
    module: Any, key: str, value: Any, filter_fn: Callable, map_fn: Callable | None, is_leaf_fn: Callable, kind: type
) -> Any:
    """The plain tree of the values under ``module[key]`` that pass the filter; ``kind`` is the Module class."""
    if is_leaf_fn(module, key, value):
        return value if map_fn is None else map_fn(value)
    rest = (filter_fn, map_fn, is_leaf_fn, kind)
    if isinstance(value, kind):
        return {k: unwrap(value, k, v, *rest) for k, v in value.items() if filter_fn(value, k, v)}

    def element(name: str, child: Any) -> Any:
        # Places inside a list or dictionary keep their position, so a rejected one leaves an empty tree behind.
        return unwrap(module, name, child, *rest) if filter_fn(module, name, child) else {}

    if isinstance(value, dict):
        return {k: element(f"{key}.{k}", v) for k, v in value.items()}
    if isinstance(value, list):
        return [element(f"{key}.{i}", v) for i, v in enumerate(value)]
    raise RuntimeError("Unexpected leaf found while traversing the module")


def _entries(target: Any, new: Any, strict: bool, what: str) -> list[tuple[Any, Any, Any]]:
    """``(key, current value, new value)`` for what ``new`` says about ``target``, or MLX's error."""
    if isinstance(new, dict):
        found = []
        for key, value in new.items():
            if isinstance(target, dict) and key in target:
                found.append((key, target[key], value))
            elif strict:
                raise ValueError(f'Module does not have {what} named "{key}".')
        return found
    if isinstance(new, list):
        if strict and len(new) > len(target):
            raise ValueError(f"List index {len(target)} is out of bounds for destination of length {len(target)}.")
        return [(i, target[i], value) for i, value in enumerate(new[: len(target)])]
    if strict:
        raise invalid_type(new)
    return []


def invalid_type(value: Any) -> ValueError:
    """The error MLX raises for a value that has no place in a module."""
    return ValueError(f"Received invalid type: {type(value).__name__}.")


def _write(plan: Plan, target: Any, key: Any, value: Any) -> None:
    if isinstance(target, tuple):
        raise TypeError("'tuple' object does not support item assignment")
    plan.append((target, key, value))


def plan_parameters(target: Any, new: Any, strict: bool, plan: Plan) -> None:
    """Add to ``plan`` the writes that put the arrays of ``new`` over those of ``target``."""
    for key, current, value in _entries(target, new, strict, "parameter"):
        if not isinstance(current, mx.array):
            plan_parameters(current, value, strict, plan)
        elif strict and not isinstance(value, mx.array):
            raise invalid_type(value)
        else:
            _write(plan, target, key, value)


def plan_modules(target: Any, new: Any, strict: bool, plan: Plan, kind: type) -> None:
    """Add to ``plan`` the writes that replace modules of ``target``; ``kind`` is the Module class."""
    for key, current, value in _entries(target, new, strict, "sub-module"):
        if isinstance(current, kind) and isinstance(value, kind):
            _write(plan, target, key, value)
        elif isinstance(current, (dict, list)):
            plan_modules(current, value, strict, plan, kind)
        elif strict and not (isinstance(value, dict) and not value):
            raise invalid_type(value)


def carry_out(plan: Plan) -> None:
    """Do the planned writes."""
    for target, key, value in plan:
        target[key] = value
