"""Checks of the functions that a transform takes, and the type and name of the functions that it returns."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from mxcompat._array.errors import incompatible
from mxcompat._ops.arguments import integer, integers, is_sequence

__all__ = ["GradientFunction", "argument_numbers", "check_callable", "given_to", "named_after", "transformed"]


class GradientFunction(staticmethod):
    """Type of the functions that `grad`, `vmap`, `compile` and the like return.

    It forwards attribute access to the user's callable, including `__class__`: a compiled module has the module's
    parameters. It is not a method: looked up on an instance of a class, it does not bind the instance.
    """

    def __getattribute__(self, name: str) -> Any:
        function = given_to(self)
        if name in _HOW_TO_COPY and type(function) is FunctionType:
            return staticmethod.__getattribute__(self, name)
        return type(function).__getattribute__(function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        names = staticmethod.__getattribute__(self, "__dict__")
        if name in names or not name.startswith("__"):  # `staticmethod` sets these attributes once
            object.__setattr__(_WITHOUT_ATTRIBUTES, name, value)
        names[name] = value

    def __delattr__(self, name: str) -> None:
        object.__delattr__(_WITHOUT_ATTRIBUTES, name)

    def __get__(self, instance: Any, owner: type | None = None) -> GradientFunction:
        return self

    def __repr__(self) -> str:
        return f"<mlx.core._gc_func object at {id(self):#x}>"

    def __copy__(self) -> GradientFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> GradientFunction:
        return self

    def __reduce_ex__(self, protocol: Any) -> str:
        return self.__qualname__


def given_to(function: GradientFunction) -> Any:
    """Return the callable that the user gave to the transform which returned `function`."""
    return staticmethod.__getattribute__(function, "__func__").__wrapped__


GradientFunction.__name__ = GradientFunction.__qualname__ = "_gc_func"  # error messages show this name
_WITHOUT_ATTRIBUTES = type("_gc_func", (), {"__slots__": ()})()
"""An object without attributes, whose AttributeErrors have the wording of this Python version."""

_HOW_TO_COPY = frozenset({"__deepcopy__", "__reduce_ex__"})


def check_callable(fun: Any, tag: str) -> None:
    """Raise the TypeError of the transform `tag` if `fun` is not callable."""
    if not callable(fun):
        raise incompatible(tag, f"A function is needed, not {type(fun).__name__}.")


def argument_numbers(argnums: Any, tag: str) -> tuple[int, ...]:
    """Return argument positions from an int or a sequence of ints; raise the TypeError of the transform `tag`
    otherwise."""
    try:
        return integers(argnums) if is_sequence(argnums) else (integer(argnums),)
    except TypeError:
        raise incompatible(tag, f"argnums must be an int or a sequence of ints, not {argnums!r}.") from None


def named_after(fun: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Give `wrapper` the name and docstring of `fun`, if it has them."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(fun, name, None)
        if isinstance(value, str):
            setattr(wrapper, name, value)
    wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
    return wrapper


def transformed(fun: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `wrapper` as the function that a transform returns for `fun`."""
    return GradientFunction(named_after(fun, wrapper))
