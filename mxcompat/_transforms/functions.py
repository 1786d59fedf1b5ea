"""The user's functions: what a transform takes, and what the function that it returns is called."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from mxcompat._array.errors import incompatible
from mxcompat._ops.arguments import integer, integers, is_sequence

__all__ = ["GradientFunction", "argument_numbers", "check_callable", "given_to", "named_after", "transformed"]


class GradientFunction(staticmethod):
    """The type of what `grad`, `vmap`, `compile` and the like return. It has the attributes of what the user gave, its
    class among them, and none of its own: a compiled module has the module's parameters. In the body of a class it is
    no method: called on an instance it does not get that instance."""

    def __getattribute__(self, name: str) -> Any:
        given = given_to(self)
        if name in _HOW_TO_COPY and type(given) is FunctionType:
            return staticmethod.__getattribute__(self, name)
        return type(given).__getattribute__(given, name)

    def __setattr__(self, name: str, value: Any) -> None:
        names = staticmethod.__getattribute__(self, "__dict__")
        if name in names or not name.startswith("__"):  # what `staticmethod` itself sets, once
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
    """What the user gave to a transform that returned this."""
    return staticmethod.__getattribute__(function, "__func__").__wrapped__


GradientFunction.__name__ = GradientFunction.__qualname__ = "_gc_func"  # as errors name it
_WITHOUT_ATTRIBUTES = type("_gc_func", (), {"__slots__": ()})()
"""Has the errors of one, in the words of this version of Python."""

_HOW_TO_COPY = frozenset({"__deepcopy__", "__reduce_ex__"})


def check_callable(fun: Any, tag: str) -> None:
    """Raise the TypeError of the transform `tag` for what cannot be called."""
    if not callable(fun):
        raise incompatible(tag, f"A function is needed, not {type(fun).__name__}.")


def argument_numbers(argnums: Any, tag: str) -> tuple[int, ...]:
    """The numbers of arguments: of an int, or a sequence of them. Raises the TypeError of the transform `tag`."""
    try:
        return integers(argnums) if is_sequence(argnums) else (integer(argnums),)
    except TypeError:
        raise incompatible(tag, f"argnums must be an int or a sequence of ints, not {argnums!r}.") from None


def named_after(fun: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper`, with the name and docstring of `fun` where it has them."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        value = getattr(fun, name, None)
        if isinstance(value, str):
            setattr(wrapper, name, value)
    wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
    return wrapper


def transformed(fun: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """What a transform returns for `fun`, which runs as `wrapper`."""
    return GradientFunction(named_after(fun, wrapper))
