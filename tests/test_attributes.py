"""Attributes: programs recognize libraries by `hasattr(x.dtype, "kind")`, so objects have real MLX's attributes."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from tests.oracle import ours, real

EXTRA = {"array": {"device", "sharding", "to_device"}}
"""Attributes that only mxcompat has: names of the array API standard and of sharding."""

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
    """Assert that a shared dtype, device or stream is immutable."""
    make = OBJECTS[name]
    for attribute in sorted(public(make(real)) - {"mT"}):  # 0-d arrays have none
        assert _changes(make(ours), attribute) == _changes(make(real), attribute), attribute


def _changes(x: Any, attribute: str) -> list[str]:
    """Return the exceptions of setting and of deleting an attribute."""
    value = getattr(x, attribute)
    outcomes = []
    for change in (lambda: setattr(x, attribute, value), lambda: delattr(x, attribute)):
        try:
            change()
            outcomes.append("")
        except Exception as error:
            outcomes.append(type(error).__name__)
    return outcomes


class _Scaled:
    factor = 2

    def __call__(self, x: Any) -> Any:
        return x * self.factor

    def twice(self, x: Any) -> Any:
        return self(self(x))


def _plain(x: Any) -> Any:
    """Return the sum: an example of a docstring."""
    return x.sum()


_plain.order = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "vmap", "compile", "checkpoint"])
def test_what_a_transform_returns_has_the_attributes_of_what_it_was_given(transform: str) -> None:
    def attributes(mx: Any) -> list[Any]:
        nn = importlib.import_module(mx.__name__.removesuffix("core") + "nn")
        layer, scaled = nn.Linear(2, 3), _Scaled()
        of_function, of_module, of_object, of_method = (
            getattr(mx, transform)(target) for target in (_plain, layer, scaled, scaled.twice)
        )
        values: list[Any] = [
            of_function.__name__, of_function.__doc__, of_function.order, of_function.__class__.__name__,
            isinstance(of_module, nn.Module), sorted(of_module.parameters()), of_module.training,
            of_module.eval() is layer, of_object.factor, isinstance(of_object, _Scaled), of_method.__self__ is scaled,
            repr(of_module).partition(" object at ")[0], str(inspect.signature(of_function)),
        ]  # fmt: skip
        for attempt in (
            lambda: of_module.__name__,
            lambda: of_module.weight,
            lambda: of_function.missing,
            lambda: setattr(of_function, "order", 4),
            lambda: setattr(of_module, "bias", None),
            lambda: delattr(of_module, "bias"),
            lambda: of_module["bias"],
            lambda: "bias" in of_module,
        ):
            with pytest.raises((AttributeError, TypeError)) as raised:
                attempt()
            message = str(raised.value).replace("mlx.core._gc_func", "_gc_func")  # real MLX's from Python 3.12 on
            values.append((type(raised.value), message))
        return values

    assert attributes(ours) == attributes(real)


def test_a_module_may_hold_a_compiled_one() -> None:
    def held(mx: Any) -> list[Any]:
        nn = importlib.import_module(mx.__name__.removesuffix("core") + "nn")

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = nn.Linear(2, 3)
                self.fast = mx.compile(self.layer)

            def __call__(self, x: Any) -> Any:
                return self.fast(x)

        model = Model()
        model.layer.weight = mx.ones((3, 2))
        x = mx.ones((1, 2))
        before = model(x).tolist() == model.layer(x).tolist()
        model.train(False)
        shown = re.sub("0x[0-9a-f]+", "0x", repr(model))
        return [before, shown, sorted(model.children()), sorted(name for name, _ in model.named_modules())]

    assert held(ours) == held(real)
