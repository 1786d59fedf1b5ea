"""Reference counts: find out if anything outside the graph refers to an object. CPython does not document which
references a count includes.

A count includes the references of the counting code, and their number must be known exactly. If a reference from
elsewhere were missed, a live buffer would be overwritten, and results would be wrong. So the counting functions of this
module measure their own references. They are tested on objects with each kind of reference in Python. If a test fails,
counting is switched off: all objects count as live.

Since Python 3.14, the interpreter may borrow the reference of a local variable instead of taking a new one, if it uses
the value before the variable can change (`LOAD_FAST_BORROW`). The consequences are:

- These own a reference in all versions, and are counted: a local variable, a closure cell, an attribute, an element of
  a list, tuple or dict, a frame of a suspended generator, an exception, a buffer, and a view.
- An argument of a Python or C call owns a reference if the caller has no variable for the object. Otherwise it may
  borrow the variable's reference, so that the two count once, not twice. The object is never missed, because the
  variable outlives the call.
- A temporary on the interpreter's stack owns a reference, unless it was read from a local variable, which owns one.

So the count of other references can be lower than before, but never 0. The counting code adds no variables, arguments
or temporaries: `map` takes all counts in C, from the elements of a list. A list, like any other container, always owns
its references.
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
"""A number above any count, which is the count of every object if counting is switched off."""


def of_each(objects: list[Any]) -> list[int]:
    """Return the number of references to each object of a list. It includes `BY_COUNTING` of this function and the
    list."""
    return list(map(getrefcount, objects))


def of_value(holder: Any) -> int:
    """Return the number of references to `holder.value` besides the holder's."""
    return of_each([holder.value])[0] - _by_place


def of_base(view: np.ndarray) -> int:
    """Return the number of references to `view.base` besides the view's."""
    return of_each([view.base])[0] - _by_place


def of_item(items: list[Any], place: int) -> int:
    """Return the number of references to an item of a list besides the list's."""
    return of_each([items[place]])[0] - _by_place


def of_entry(table: dict[Any, Any], key: Any) -> int:
    """Return the number of references to a value in a dict besides the dict's."""
    return of_each([table[key]])[0] - _by_place


class _Holder:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _measure() -> None:
    """Measure the references of the counting code, on an object without other references."""
    global BY_COUNTING, _by_place
    BY_COUNTING = of_each([np.empty(2)])[0]
    _by_place = BY_COUNTING + 1


BY_COUNTING = _by_place = 0
"""The results of `of_each` for an object that only its list refers to, and for one that one other place refers to."""

_Get = Callable[[], Any]
_Count = Callable[[], int]


def _counters() -> Iterator[tuple[_Get, _Count]]:
    """Yield (get, count) for each counting function. `get` returns an object with one reference, and `count` counts
    further references to it."""
    one, other, view, table = [np.empty(2)], [np.empty(2)], np.empty(2)[:1], {0: np.empty(2)}
    yield (lambda: one[0]), (lambda: of_each(one)[0] - BY_COUNTING)
    yield (lambda: other[0]), (lambda: of_item(other, 0))
    yield (lambda: view.base), (lambda: of_base(view))
    yield (lambda: table[0]), (lambda: of_entry(table, 0))
    holder = _Holder(np.empty(2))
    yield (lambda: holder.value), (lambda: of_value(holder))
    if native:
        fields = native.Fields.__new__(native.Fields)  # nodes have this base class in C
        fields.value = np.empty(2)
        yield (lambda: fields.value), (lambda: of_value(fields))


def _as_variable(get: _Get, count: _Count) -> int:
    x = get()
    references = count()
    del x
    return references


def _as_argument(get: _Get, count: _Count) -> int:
    return _count_of_parameter(get(), count)


def _as_argument_of_a_variable(get: _Get, count: _Count) -> int:
    x = get()
    return _count_of_parameter(x, count)


def _count_of_parameter(x: Any, count: _Count) -> int:
    return count() + 0 * (x is None)


def _as_argument_of_c(get: _Get, count: _Count) -> int:
    return getattr(_Asked(count), "count", get())


def _as_argument_of_c_of_a_variable(get: _Get, count: _Count) -> int:
    x = get()
    return getattr(_Asked(count), "count", x)


class _Asked:
    """Runs a counting function in `__getattr__`, for a test of the references that such a call makes."""

    def __init__(self, count: _Count) -> None:
        self._count = count

    def __getattr__(self, name: str) -> int:
        return self._count()


def _as_temporary(get: _Get, count: _Count) -> int:
    return (get(), count())[1]


def _as_attribute(get: _Get, count: _Count) -> int:
    holder = _Holder(get())
    return _count_of_parameter(holder, count)


def _as_element(get: _Get, count: _Count) -> int:
    return min(_count_of_parameter(keep(get()), count) for keep in _CONTAINERS)


_CONTAINERS: tuple[Callable[[Any], Any], ...] = (lambda x: [x], lambda x: (x,), lambda x: {0: x})
"""Functions that make a container of an element."""


def _in_a_closure(get: _Get, count: _Count) -> int:
    x = get()

    def closure() -> Any:
        return x

    return _count_of_parameter(closure, count)


def _in_a_generator(get: _Get, count: _Count) -> int:
    def generator() -> Iterator[int]:
        x = get()
        yield 0
        yield int(x is None)

    suspended = generator()
    next(suspended)
    return _count_of_parameter(suspended, count)


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
    return min(_count_of_parameter(memoryview(get()), count), _count_of_parameter(get()[:1], count))


_HOLDERS = (
    _as_variable, _as_argument, _as_argument_of_a_variable, _as_argument_of_c, _as_argument_of_c_of_a_variable,
    _as_temporary, _as_attribute, _as_element, _in_a_closure, _in_a_generator, _in_a_context, _in_an_exception,
    _as_memory,
)  # fmt: skip
"""Functions that count an object while one more reference of some kind exists."""


@unpromised(
    "reference-counts",
    "unreachable buffers are overwritten, and only intermediate values that are still reachable are kept",
    "no buffer is overwritten, and all intermediate values are kept",
)
def reference_counts() -> bool:
    """Return True if all counts are correct: 0 for an object with one reference, and at least 1 while any other kind of
    reference exists."""
    _measure()
    return all(
        count() == 0 and all(hold(get, count) >= 1 for hold in _HOLDERS) and count() == 0 for get, count in _counters()
    )


if not reference_counts.holds:
    BY_COUNTING = _by_place = -_UNKNOWN
