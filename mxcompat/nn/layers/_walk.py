"""Walks over a ``Module`` and its entries: the recursion behind ``filter_and_map``, ``update`` and ``update_modules``.

Updates are planned first and written afterwards, so that a bad parameter leaves the module unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxcompat.core as mx
from mxcompat._native import native

__all__ = [
    "Plan",
    "carry_out",
    "check_weights",
    "invalid_type",
    "plan_modules",
    "read",
    "replace_parameters",
    "unwrap_module",
]

# A planned write, as container, key and new value. It is done once the whole tree is valid.
Plan = list[tuple[Any, Any, Any]]


def read(module: Any, name: str) -> Any:
    """Return ``getattr(module, name)``, but in less than half the time for an entry that is not a class attribute."""
    value = None if hasattr(type(module), name) else module.get(name)
    return getattr(module, name) if value is None else value


def unwrap(
    module: Any,
    key: str,
    value: Any,
    filter_fn: Callable,
    map_fn: Callable | None,
    is_leaf_fn: Callable | None,
    kind: type,
) -> Any:
    """Return the plain tree of the values under ``module[key]`` that pass the filter; ``kind`` is the Module class.

    Without ``is_leaf_fn``, all values except modules, dictionaries and lists are leaves.
    """
    if not isinstance(value, (dict, list)) if is_leaf_fn is None else is_leaf_fn(module, key, value):
        return value if map_fn is None else map_fn(value)
    if isinstance(value, kind):
        return unwrap_module(value, filter_fn, map_fn, is_leaf_fn, kind)
    if isinstance(value, dict):
        entries: Any = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    else:
        raise RuntimeError("Unexpected leaf found while traversing the module")
    items = []
    for k, child in entries:
        name = f"{key}.{k}"
        # Items of a list or dictionary keep their position, so a rejected item leaves an empty tree.
        if not filter_fn(module, name, child):
            items.append({})
        elif is_leaf_fn is None and isinstance(child, kind):
            items.append(unwrap_module(child, filter_fn, map_fn, is_leaf_fn, kind))
        else:
            items.append(unwrap(module, name, child, filter_fn, map_fn, is_leaf_fn, kind))
    return dict(zip(value, items, strict=True)) if isinstance(value, dict) else items


def unwrap_module(
    module: Any, filter_fn: Callable, map_fn: Callable | None, is_leaf_fn: Callable | None, kind: type
) -> dict[str, Any]:
    """Return the plain tree of a module's entries that pass the filter."""
    entries = {}
    for key, value in module.items():
        if filter_fn(module, key, value):
            if is_leaf_fn is None and map_fn is None and not isinstance(value, (dict, list)):
                entries[key] = value
            else:
                entries[key] = unwrap(module, key, value, filter_fn, map_fn, is_leaf_fn, kind)
    return entries


def _entries(target: Any, new: Any, strict: bool, what: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yield ``(key, current value, new value)`` for the entries of ``new``, or raise MLX's error."""
    if isinstance(new, dict):
        for key, value in new.items():
            if key in target:
                yield key, target[key], value
            elif strict:
                raise unknown(what, key)
    elif isinstance(new, list):
        for index, value in enumerate(new[: len(target)]):
            yield index, target[index], value
        if strict and len(new) > len(target):
            raise ValueError(f"List index {len(target)} is out of bounds for destination of length {len(target)}.")
    elif strict:
        raise invalid_type(new)


def unknown(what: str, key: Any) -> ValueError:
    """Return MLX's error for a name that a module does not have."""
    return ValueError(f'Module does not have {what} named "{key}".')


def invalid_type(value: Any) -> ValueError:
    """Return MLX's error for a value of a type that a module cannot hold."""
    return ValueError(f"Received invalid type: {type(value).__name__}.")


def _write(plan: Plan, target: Any, key: Any, value: Any) -> None:
    if isinstance(target, tuple):
        raise TypeError("'tuple' object does not support item assignment")
    plan.append((target, key, value))


def plan_parameters(target: Any, new: Any, strict: bool, plan: Plan) -> None:
    """Plan the writes that replace the arrays of ``target`` by those of ``new``."""
    for key, current, value in _entries(target, new, strict, "parameter"):
        if not isinstance(current, mx.array):
            plan_parameters(current, value, strict, plan)
        elif strict and not isinstance(value, mx.array):
            raise invalid_type(value)
        else:
            _write(plan, target, key, value)


def replace_parameters(target: Any, new: Any, strict: bool) -> None:
    """Replace the arrays of ``target`` by those of ``new``. If one does not fit, raise MLX's error and change
    nothing."""
    if native and native.replace(target, new):
        return
    plan: Plan = []
    plan_parameters(target, new, strict, plan)
    carry_out(plan)


def plan_modules(target: Any, new: Any, strict: bool, plan: Plan, kind: type) -> None:
    """Plan the writes that replace modules of ``target``; ``kind`` is the Module class."""
    for key, current, value in _entries(target, new, strict, "sub-module"):
        if isinstance(current, kind) and isinstance(value, kind):
            _write(plan, target, key, value)
        elif isinstance(current, (dict, list)):
            plan_modules(current, value, strict, plan, kind)
        elif strict and not (isinstance(value, dict) and not value):
            raise invalid_type(value)


def carry_out(plan: Plan) -> None:
    """Carry out the planned writes."""
    for target, key, value in plan:
        target[key] = value


def check_weights(current: dict[str, mx.array], new: dict[str, Any]) -> None:
    """Check that new weights have the names and shapes of the current ones."""
    extra, missing = new.keys() - current.keys(), current.keys() - new.keys()
    if extra:
        names = ",\n".join(sorted(extra))
        raise ValueError(f"Received {len(extra)} parameters not in model: \n{names}.")
    if missing:
        names = ",\n".join(sorted(missing))
        raise ValueError(f"Missing {len(missing)} parameters: \n{names}.")
    for name, value in current.items():
        weight = new[name]
        if not isinstance(weight, mx.array):
            raise ValueError(f"Expected mx.array but received {type(weight)} for parameter {name}")
        if weight.shape != value.shape:
            raise ValueError(f"Expected shape {value.shape} but received shape {weight.shape} for parameter {name}")
