"""The record of a case: one way to call a function or slot of the extension, and its expected end."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

__all__ = ["Case", "called", "watched"]


def _nothing() -> None:
    """Do nothing before or after a call."""


class Case(NamedTuple):
    """One way to call a member of the extension.

    Args:
        member: the function, `Type.method` or `Type.tp_slot` under test.
        name: the particular of this case.
        function: the callable.
        inputs: the arguments, or a function that creates them for each call if a call changes them.
        raises: the type of the exception, if the call is to fail.
        before: called before each call; `after` is called after it.
        calls: number of calls that show a lost reference, if one call takes long.
        keeps: the code outside the extension that leaks a reference when an allocation fails.
        ends: the code outside the extension that ends the process then.
    """

    member: str
    name: str
    function: Callable[..., Any]
    inputs: tuple | Callable[[], tuple] = ()
    raises: type[BaseException] | None = None
    before: Callable[[], Any] = _nothing
    after: Callable[[], Any] = _nothing
    calls: int = 10_000
    keeps: str = ""
    ends: str = ""

    def __str__(self) -> str:
        return f"{self.member}: {self.name}"

    def arguments(self) -> tuple:
        return self.inputs if isinstance(self.inputs, tuple) else self.inputs()


def called(case: Case) -> Any:
    """Return the result of a call.

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
    """Yield the arguments and the objects they refer to, `levels` levels deep."""
    seen, level = set(), [*arguments]
    for _ in range(levels):
        new = []
        for x in level:
            if id(x) not in seen and not issubclass(type(x), _APART):
                seen.add(id(x))
                yield x
                new += [] if issubclass(type(x), type) else gc.get_referents(x)
        level = new
