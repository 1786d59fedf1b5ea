"""Programs tell libraries apart by attributes (`hasattr(x.dtype, "kind")`): ours have those that real MLX's have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import ours, real

EXTRA = {"array": {"device", "sharding", "to_device"}}
"""What is ours alone: the names of the array API standard, and that of sharding."""

OBJECTS = {
    "dtype": lambda mx: mx.float32,
    "device type": lambda mx: mx.cpu,
    "device": lambda mx: mx.default_device(),
    "stream": lambda mx: mx.default_stream(mx.cpu),
    "array": lambda mx: mx.array(1.0),
    "finfo": lambda mx: mx.finfo(mx.float16),
    "iinfo": lambda mx: mx.iinfo(mx.int8),
    "at": lambda mx: mx.array(1.0).at,
    "group": lambda mx: mx.distributed.init(),
    "custom function": lambda mx: mx.custom_function(lambda x: x),
    "print options": lambda mx: mx.get_printoptions(),
}


def public(x: Any) -> set[str]:
    return {name for name in dir(x) if not name.startswith("_")}


@pytest.mark.parametrize("name", OBJECTS)
def test_public_attributes(name: str) -> None:
    make = OBJECTS[name]
    assert public(make(ours)) == public(make(real)) | EXTRA.get(name, set())


@pytest.mark.parametrize("name", sorted(OBJECTS.keys() - {"custom function", "print options"}))
def test_attributes_can_be_set_where_mlxs_can(name: str) -> None:
    """A dtype, a device or a stream is shared by all who use it: nobody can change it."""
    make = OBJECTS[name]
    for attribute in sorted(public(make(real)) - {"mT"}):  # of which a number has none
        assert _changes(make(ours), attribute) == _changes(make(real), attribute), attribute


def _changes(x: Any, attribute: str) -> list[str]:
    """Which exceptions setting and deleting an attribute raise."""
    value = getattr(x, attribute)
    found = []
    for change in (lambda: setattr(x, attribute, value), lambda: delattr(x, attribute)):
        try:
            change()
            found.append("")
        except Exception as error:
            found.append(type(error).__name__)
    return found
