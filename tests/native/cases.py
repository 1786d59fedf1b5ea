"""What a case is: one way to call one function or slot of the extension, and how that ends."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

__all__ = ["Case", "called", "watched"]


def _nothing() -> None:
    """Needs to be done neither before nor after."""


class Case(NamedTuple):
    """One way to call a member of the extension.

    Args:
        member: the function, `Type.method` or `Type.tp_slot` that it is a case of.
        name: what is special about it.
        function: what is called.
        given: the arguments, or a function that makes those of one call where a call changes them.
        raises: the type of the exception, if the call is to fail.
        before: is called before each call, and `after` behind it.
        calls: how many calls show a lost reference, where one call takes long.
        keeps: what keeps a reference where an allocation fails, if not the extension.
        ends: what ends the process then, if not the extension.
    """

    member: str
    name: str
    function: Callable[..., Any]
    given: tuple | Callable[[], tuple] = ()
    raises: type[BaseException] | None = None
    before: Callable[[], Any] = _nothing
    after: Callable[[], Any] = _nothing
    calls: int = 10_000
    keeps: str = ""
    ends: str = ""

    def __str__(self) -> str:
        return f"{self.member}: {self.name}"

    def arguments(self) -> tuple:
        return self.given if isinstance(self.given, tuple) else self.given()


def called(case: Case) -> Any:
    """The result of a call.

    Raises:
        AssertionError: if it ended in another way than the case says.
    """
    arguments = case.arguments()
    case.before()
    try:
        result = case.function(*arguments)
    except BaseException as error:
        if case.raises is None or not isinstance(error, case.raises):
            raise
        return None
    finally:
        case.after()
    assert case.raises is None, f"{case}: no {case.raises.__name__}"
    return result


_APART = (ModuleType, FunctionType, CodeType, FrameType)


def watched(arguments: tuple, levels: int = 4) -> Iterator[Any]:
    """The arguments, and what they refer to, so many levels deep."""
    seen, level = set(), [*arguments]
    for _ in range(levels):
        new = []
        for x in level:
            if id(x) not in seen and not issubclass(type(x), _APART):
                seen.add(id(x))
                yield x
                new += [] if issubclass(type(x), type) else gc.get_referents(x)
        level = new
