"""The user's functions: what a transform takes, and what the function that it returns is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.errors import incompatible
from mxcompat._ops.arguments import integer, integers, is_sequence

__all__ = ["GradientFunction", "argument_numbers", "check_callable", "named_after", "transformed"]


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


class GradientFunction(staticmethod):
    """What `grad`, `vmap`, `compile` and the like return: a function that does not become a method of a class it is in.

    As in MLX, `act = mx.compile(f)` in the body of a class is called with the arguments alone, without `self`.
    """

    def __get__(self, instance: Any, owner: type | None = None) -> GradientFunction:
        return self

    def __reduce__(self) -> str:
        return self.__qualname__  # as a function: by its name, and a copy is the function itself

    def __repr__(self) -> str:
        return f"<function {self.__qualname__} at {id(self):#x}>"


def transformed(fun: Any, wrapper: Callable[..., Any]) -> GradientFunction:
    """`wrapper`, which a transform made of `fun`, as what transforms return."""
    return GradientFunction(named_after(fun, wrapper))
