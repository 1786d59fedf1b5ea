"""Reference counts: whether anything but the graph holds an object. CPython does not promise what a count includes.

A count tells two kinds of references apart: those of the code that counts, whose number has to be known exactly, and
those of everybody else. If one of somebody else were missed, a live buffer would be written over: a wrong number. So
each form of counting is a function of this module, its own references are measured, and it is tried on an object that
is held in each form that Python has. If one of them is missed, nothing is counted: all objects are live then.

Since Python 3.14 the interpreter borrows a reference instead of taking one, where it reads a local variable and uses
the value up before the variable can change (`LOAD_FAST_BORROW`). What that means for each form:

- A local variable, a closure cell, an attribute, an element of a list, tuple or dict, a frame of a suspended generator,
  an exception, a buffer or a view owns a reference, in all versions, and so is counted.
- An argument of a Python or C call owns a reference if the caller has no variable for the object. Else it may borrow
  the variable's, which is then counted once where it was twice before. It is never missed: the variable outlives the
  call.
- A temporary on the interpreter's stack owns a reference, unless it was read from a local variable, which then does.

So somebody else's references can be fewer than before, but never none. The code that counts relies on no variable,
argument or temporary of its own: all counts are taken by `map`, in C, of the elements of a list. A list, and any other
place that an object is kept in, owns its references, whatever the interpreter or its compiler makes of the bytecode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import getrefcount
from typing import Any

import numpy as np

from mxcompat._native import native

from .registry import unpromised

__all__ = ["BY_COUNTING", "of_base", "of_each", "of_entry", "of_item", "of_value"]

_UNKNOWN = 1 << 40
"""More than any count: what everything has where counts are not to be trusted."""


def of_each(objects: list[Any]) -> list[int]:
    """The references to each object of a list, among them `BY_COUNTING` of this function and the list."""
    return list(map(getrefcount, objects))


def of_value(holder: Any) -> int:
    """The number of references to `holder.value` besides the holder's."""
    return of_each([holder.value])[0] - _by_place


def of_base(view: np.ndarray) -> int:
    """The number of references to `view.base` besides the view's."""
    return of_each([view.base])[0] - _by_place


def of_item(items: list[Any], place: int) -> int:
    """The number of references to an item of a list besides the list's."""
    return of_each([items[place]])[0] - _by_place


def of_entry(table: dict[Any, Any], key: Any) -> int:
    """The number of references to a value in a dict besides the dict's."""
    return of_each([table[key]])[0] - _by_place


class _Holder:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _measure() -> None:
    """Measure the references of counting itself, on an object that nothing else refers to."""
    global BY_COUNTING, _by_place
    BY_COUNTING = of_each([np.empty(2)])[0]
    _by_place = BY_COUNTING + 1


BY_COUNTING = _by_place = 0
"""The references that `of_each` counts of an object in its list alone, and of one that is kept in one place as well."""

_Get = Callable[[], Any]
_Count = Callable[[], int]


def _counters() -> Iterator[tuple[_Get, _Count]]:
    """What gives an object that is kept in one place alone, and what counts the other references to it: a pair for
    each function."""
    one, other, view, table = [np.empty(2)], [np.empty(2)], np.empty(2)[:1], {0: np.empty(2)}
    yield (lambda: one[0]), (lambda: of_each(one)[0] - BY_COUNTING)
    yield (lambda: other[0]), (lambda: of_item(other, 0))
    yield (lambda: view.base), (lambda: of_base(view))
    yield (lambda: table[0]), (lambda: of_entry(table, 0))
    holder = _Holder(np.empty(2))
    yield (lambda: holder.value), (lambda: of_value(holder))
    if native:
        fields = native.Fields.__new__(native.Fields)  # whose members are those of a node
        fields.value = np.empty(2)
        yield (lambda: fields.value), (lambda: of_value(fields))


def _as_variable(get: _Get, count: _Count) -> int:
    x = get()
    found = count()
    del x
    return found


def _as_argument(get: _Get, count: _Count) -> int:
    return _given(get(), count)


def _as_argument_of_a_variable(get: _Get, count: _Count) -> int:
    x = get()
    return _given(x, count)


def _given(x: Any, count: _Count) -> int:
    return count() + 0 * (x is None)


def _as_argument_of_c(get: _Get, count: _Count) -> int:
    return getattr(_Asked(count), "count", get())


def _as_argument_of_c_of_a_variable(get: _Get, count: _Count) -> int:
    x = get()
    return getattr(_Asked(count), "count", x)


class _Asked:
    """Counts when it is asked for an attribute that it has not got."""

    def __init__(self, count: _Count) -> None:
        self._count = count

    def __getattr__(self, name: str) -> int:
        return self._count()


def _as_temporary(get: _Get, count: _Count) -> int:
    return (get(), count())[1]


def _as_attribute(get: _Get, count: _Count) -> int:
    holder = _Holder(get())
    return _given(holder, count)


def _as_element(get: _Get, count: _Count) -> int:
    return min(_given(keep(get()), count) for keep in _CONTAINERS)


_CONTAINERS: tuple[Callable[[Any], Any], ...] = (lambda x: [x], lambda x: (x,), lambda x: {0: x})
"""What makes a container of an element."""


def _in_a_closure(get: _Get, count: _Count) -> int:
    x = get()

    def closure() -> Any:
        return x

    return _given(closure, count)


def _in_a_generator(get: _Get, count: _Count) -> int:
    def generator() -> Iterator[int]:
        x = get()
        yield 0
        yield int(x is None)

    suspended = generator()
    next(suspended)
    return _given(suspended, count)


class _Context:
    def __init__(self, value: Any) -> None:
        self._value = value

    def __enter__(self) -> Any:
        return self._value

    def __exit__(self, *_: object) -> None:
        return None


def _in_a_context(get: _Get, count: _Count) -> int:
    with _Context(get()):
        return count()


def _in_an_exception(get: _Get, count: _Count) -> int:
    try:
        raise LookupError(get())
    except LookupError:
        return count()


def _as_memory(get: _Get, count: _Count) -> int:
    return min(_given(memoryview(get()), count), _given(get()[:1], count))


_HOLDERS = (
    _as_variable, _as_argument, _as_argument_of_a_variable, _as_argument_of_c, _as_argument_of_c_of_a_variable,
    _as_temporary, _as_attribute, _as_element, _in_a_closure, _in_a_generator, _in_a_context, _in_an_exception,
    _as_memory,
)  # fmt: skip
"""Each counts an object while that is held in one more form."""


@unpromised(
    "reference-counts",
    "buffers that nobody can reach are written over, and only values that somebody can still ask for are kept",
    "nothing is written over, and all intermediate values are kept",
)
def reference_counts() -> bool:
    """True if an object in one place has no other references, and each form in which it is held is one at least."""
    _measure()
    return all(
        count() == 0 and all(hold(get, count) >= 1 for hold in _HOLDERS) and count() == 0 for get, count in _counters()
    )


if not reference_counts.holds:
    BY_COUNTING = _by_place = -_UNKNOWN
