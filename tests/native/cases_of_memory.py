"""Cases of mxcompat/_native/arrays.c, numbers.c, layout.c, memory.c, rows.c and random.c."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import jax.numpy as jnp
import numpy as np

import mxcompat.core as mx
from mxcompat._array import nest
from mxcompat._graph.ir.aval import AVALS, aval
from mxcompat._graph.ir.node import Node
from mxcompat._native import native

from .cases import Case
from .cases_of_nodes import ADD, FLOATS, leaf

__all__ = ["cases"]

PLAIN = nest._PLAIN

FRAME = "CPython: no memory for the frame of a function whose variables are read by another"
PLACE = "CPython: no memory for the place of an exception, which it makes for ever"
MAPPED = "CPython: no memory for the tuple of what `map` gives"
INTERFACE = "NumPy: no memory for `__array_interface__`"
ERRSTATE = "NumPy: no memory for `errstate`"
TOKEN = "CPython: no memory for the token of a context variable"


def _of_handles() -> Iterator[Case]:
    x, y, z = leaf(), leaf(), leaf()
    one, two = native.handles([x, y])
    bare = mx.array.__new__(mx.array)
    yield Case("wrap", "a node", native.wrap, (x,))
    yield Case("handles", "two", native.handles, ([x, y],))
    yield Case("handles", "none", native.handles, ([],))
    yield Case("handles", "a tuple", native.handles, ((x,),), TypeError)
    yield Case("nodes_of", "two", native.nodes_of, ([one, two],))
    yield Case("nodes_of", "no array", native.nodes_of, ([one, 3],), TypeError)
    yield Case("nodes_of", "an array without a node", native.nodes_of, ([one, bare],), AttributeError)
    yield Case("nodes_of", "a tuple", native.nodes_of, ((one,),), TypeError)

    def back() -> None:
        one._node, two._node = x, y

    exchange = native.exchange
    yield Case("exchange", "one of two", exchange, ([one, two], [x, z], [z, z]), before=back)
    yield Case("exchange", "no array", exchange, ([one, 3], [z, z], [x, x]), TypeError)
    yield Case("exchange", "an array without a node", exchange, ([bare], [x], [y]), AttributeError)
    yield Case("exchange", "lists of other lengths", exchange, ([one], [x], []), TypeError)
    yield Case("exchange", "two arguments", exchange, ([one], [x]), TypeError)
    yield Case("connect_arrays", "the same again", native.connect_arrays, (mx.array,))


def _of_handle() -> Iterator[Case]:
    x = mx.array([1.0, 2.0])
    half, number, empty = mx.array([1.0, 2.0], mx.bfloat16), mx.array(1.0), mx.zeros((0,))
    of_jax = mx.array(jnp.ones(3) * 2)
    spread = mx.array(np.ones((4, 6), np.float32)[:, ::2])
    mx.eval(x, half, number, empty, of_jax, spread)
    late = leaf()
    bare = mx.array.__new__(mx.array)

    def read(array: Any) -> None:
        memoryview(array).release()

    def written(array: Any) -> None:
        with memoryview(array) as view:
            view[0] = view[0]

    def computed() -> None:
        read(native.wrap(Node(ADD, (), (late, late), FLOATS, 0)))

    def members(array: Any) -> None:
        node = array._node
        array._node = node

    def deleted() -> None:
        handle = native.wrap(late)
        del handle._node
        del handle._node

    def cycle() -> None:
        node = leaf()
        node.value = native.wrap(node)

    buffer = "Handle.bf_getbuffer"
    yield Case(buffer, "floats", read, (x,))
    yield Case(buffer, "of JAX", read, (of_jax,))
    yield Case(buffer, "elements that do not lie in order", read, (spread,))
    yield Case(buffer, "what memoryview has no format for", read, (half,), ends=INTERFACE)
    yield Case(buffer, "a number", read, (number,), keeps=FRAME)
    yield Case(buffer, "nothing", read, (empty,), keeps=FRAME)
    yield Case(buffer, "written to", written, (x,))
    yield Case(buffer, "by NumPy", np.frombuffer, (x, np.float32))
    yield Case(buffer, "a value that is not there yet", computed, calls=1000, ends=ERRSTATE)
    yield Case(buffer, "an array without a node", read, (bare,), AttributeError)
    failing = native.wrap(Node(ADD, (), (late, 3), FLOATS, 0))
    yield Case(buffer, "a value that cannot be computed", read, (failing,), AttributeError, calls=1000, ends=PLACE)
    yield Case("Handle.bf_releasebuffer", "after it was read", read, (x,))
    yield Case("Handle.bf_releasebuffer", "by the collector", np.asarray, (x,))
    yield Case("Handle.tp_dealloc", "an array", native.wrap, (late,))
    yield Case("Handle.tp_traverse", "what it refers to", gc.get_referents, (x,))
    yield Case("Handle.tp_clear", "a cycle", cycle)
    yield Case("Handle.tp_members", "set and read", members, (x,))
    yield Case("Handle.tp_members", "none yet", attrgetter("_node"), (bare,), AttributeError)
    yield Case("Handle.tp_members", "deleted twice", deleted, (), AttributeError)


def _broken(*arguments: Any) -> Any:
    raise RuntimeError("none left")


def _connected(allocate: Callable[..., Any] = np.empty, make: Callable[..., Any] = aval) -> Callable[[], None]:
    return lambda: native.connect_numbers(allocate, AVALS, make, PLAIN)


def _unknown(shape: tuple[int, ...]) -> Callable[[], Any]:
    return lambda: AVALS.pop((shape, mx.float32), None)


def _of_numbers() -> Iterator[Case]:
    numbers = native.numbers
    longs = [0.5] * 300
    values = ("floats", [1.0, -2.5]), ("integers", [1, -(2**31)]), ("bools", [True, False]), ("both", (1, 2.5, True))
    for name, some in (*values, ("a nest", [[1, 2], (3, 4)]), ("many", longs)):
        yield Case("numbers", name, numbers, (some, None))
        yield Case("numbers", f"{name} as float32", numbers, (some, mx.float32))
    new = "an aval that is not known yet"
    yield Case("numbers", new, numbers, ([1.0] * 7, None), before=_unknown((7,)), calls=2000, keeps=MAPPED)
    for name, some, dtype in (
        ("nothing", [], None), ("a dtype that is not theirs", [1.0], mx.float16),
        ("lists of other lengths", [[1], [1, 2]], None),
        ("an integer that is too large", [1, 2**31], None), ("a text", [1.0, "2"], None), ("a number", 3, None),
        ("too many axes", [1.0], None),
    ):  # fmt: skip
        if name == "too many axes":
            for _ in range(40):
                some = [some]  # type: ignore[assignment, list-item]
        yield Case("numbers", f"none: {name}", numbers, (some, dtype))

    changing: list[Any] = [1.0, 2.0]

    def changed(*arguments: Any) -> Any:
        changing[:] = "x"
        return np.empty(*arguments)

    def connect() -> None:
        changing[:] = [1.0, 2.0]
        _connected(changed)()

    again = _connected()
    yield Case("numbers", "none: a list that changes", numbers, (changing, None), before=connect, after=again)
    yield Case("numbers", "no memory", numbers, ([1.0], None), RuntimeError, _connected(_broken), again)
    unknown = ([[1.0] * 3] * 5, None)

    def unconnect() -> None:
        _unknown((5, 3))()
        _connected(make=_broken)()

    yield Case("numbers", "no aval", numbers, unknown, RuntimeError, unconnect, again)
    refused = _connected(lambda *arguments: b"123")
    yield Case("numbers", "memory that cannot be written to", numbers, ([1.0], None), BufferError, refused, again)
    yield Case("numbers", "one argument", numbers, ([1.0],), TypeError)
    arguments = np.empty, AVALS, aval, PLAIN
    yield Case("connect_numbers", "the same again", native.connect_numbers, arguments)
    yield Case("connect_numbers", "no dictionary", native.connect_numbers, (np.empty, [], aval, PLAIN), TypeError)
    yield Case("connect_numbers", "one", native.connect_numbers, arguments[:1], TypeError)


def _of_number() -> Iterator[Case]:
    for dtype in "?bBhHiIlLqQfd":
        yield Case("number", f"of type {dtype}", native.number, (np.ones((), dtype),))
    yield Case("number", "of JAX", native.number, (jnp.ones(()) * 2,))
    for name, value in (
        ("several", np.zeros(2)), ("a complex number", np.zeros((), np.complex64)), ("no buffer", 3),
        ("a date", np.zeros((), "M8[s]")), ("elements in another order", np.zeros((), ">f4")),
    ):  # fmt: skip
        yield Case("number", f"none: {name}", native.number, (value,))


class Untold:
    """An object whose truth value raises."""

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


def _of_layout() -> Iterator[Case]:
    copy = native.copy_transposed
    sealed = np.zeros((8, 8), np.uint32)
    sealed.flags.writeable = False
    for size in (1, 2, 4, 8):
        kind = np.dtype(f"u{size}")
        yield Case(
            "copy_transposed",
            f"of {size} bytes",
            copy,
            (np.zeros((2, 9, 8), kind), np.ones((2, 8, 9), kind).swapaxes(1, 2), 4),
        )
    to, matrix = np.zeros((8, 8), np.uint32), np.ones((8, 8), np.uint32)
    yield Case("copy_transposed", "elements in order", copy, (to, matrix, 4))
    yield Case("copy_transposed", "too few", copy, (to, matrix.T, 9))
    for name, arguments, error in (
        ("shapes that do not fit", (to, matrix[:4].T, 4), ValueError),
        ("nothing to copy to", (3, matrix, 4), TypeError), ("nothing to copy", (to, 3, 4), TypeError),
        ("what cannot be written", (sealed, matrix.T, 4), ValueError),
        ("a least that is no integer", (to, matrix.T, "4"), TypeError), ("two arguments", (to, matrix.T), TypeError),
        ("other sizes", (to, np.ones((8, 8), np.uint8).T, 4), ValueError),
    ):  # fmt: skip
        yield Case("copy_transposed", name, copy, arguments, error)


def _of_memory() -> Iterator[Case]:
    swap, functions = native.swap_memory_handler, np._core._multiarray_umath._ARRAY_API
    default = swap(functions, None)
    swap(functions, default)

    def back() -> None:
        swap(functions, default)

    yield Case("swap_memory_handler", "ours", swap, (functions, None), after=back, ends=TOKEN)
    yield Case("swap_memory_handler", "the same again", swap, (functions, default), ends=TOKEN)
    yield Case("swap_memory_handler", "no functions", swap, (3, None), ValueError)
    yield Case("swap_memory_handler", "one argument", swap, (functions,), TypeError)


def _of_rows() -> Iterator[Case]:
    reduce, scan = native.reduce_rows, native.scan_rows
    x, to, line = np.ones((2, 3, 4), np.float32), np.zeros((2, 4), np.float32), np.zeros((2, 3, 4), np.float32)
    half = np.ones((2, 3, 4), np.float16), np.zeros((2, 4), np.float16)
    for dtype in "fdi":
        yield Case("reduce_rows", f"of type {dtype}", reduce, (to.astype(dtype), x.astype(dtype), 0))
        yield Case("scan_rows", f"of type {dtype}", scan, (line.astype(dtype), x.astype(dtype), 3, True, False))
    yield Case("reduce_rows", "the largest of bytes", reduce, (to.astype("B"), x.astype("B"), 1))
    yield Case("reduce_rows", "not of this type", reduce, (half[1], half[0], 0))
    yield Case("scan_rows", "not of this type", scan, (half[0], half[0], 0, False, True))
    for name, arguments, error in (
        ("shapes that do not fit", (to[:1], x, 0), ValueError), ("nothing to write to", (3, x, 0), TypeError),
        ("nothing to read", (to, 3, 0), TypeError), ("a way that is no integer", (to, x, "0"), TypeError),
        ("elements out of order", (to, x[:, :, ::2], 0), ValueError), ("two arguments", (to, x), TypeError),
    ):  # fmt: skip
        yield Case("reduce_rows", name, reduce, arguments, error)
        rest = () if name == "two arguments" else (False, True)
        out = arguments[0] if name == "nothing to write to" else line[:1] if "shapes" in name else line
        yield Case("scan_rows", name, scan, (out, *arguments[1:], *rest), error)
    yield Case("scan_rows", "neither forwards nor backwards", scan, (line, x, 0, Untold(), True), RuntimeError)
    yield Case("scan_rows", "neither with nor without", scan, (line, x, 0, True, Untold()), RuntimeError)


def _of_random() -> Iterator[Case]:
    fill = native.random_words
    words, keys = np.zeros((2, 6), np.uint32), np.ones((2, 2), np.uint32)
    yield Case("random_words", "of two keys", fill, (words, keys, 0))
    for name, arguments, error in (
        ("shapes that do not fit", (words[:1], keys, 0), ValueError), ("nothing to write to", (3, keys, 0), TypeError),
        ("no keys", (words, 3, 0), TypeError), ("two arguments", (words, keys), TypeError),
        ("neither odd nor even", (words, keys, Untold()), RuntimeError),
        ("elements out of order", (words[:, ::2], keys, 0), ValueError),
    ):  # fmt: skip
        yield Case("random_words", name, fill, arguments, error)


def _of_signals() -> Iterator[Case]:
    for name in ("watch_signals", "unwatch_signals", "stops"):
        yield Case(name, "without arguments", getattr(native, name), after=native.unwatch_signals)


def cases() -> Iterator[Case]:
    families = (
        _of_handles, _of_handle, _of_numbers, _of_number, _of_layout, _of_memory, _of_rows, _of_random, _of_signals
    )  # fmt: skip
    for family in families:
        yield from family()
