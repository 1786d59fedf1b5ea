"""Loops and branches that are compiled: `scan`, `fori_loop`, `while_loop`, `cond` and `switch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.operands import node as operand_node
from mxcompat._graph.ir.aval import aval, bool_, int32
from mxcompat._graph.ir.node import Node, apply, items
from mxcompat._ops.arguments import integer
from mxcompat._ops.creation.ranges import arange
from mxcompat._ops.elementwise.casts import cast_node
from mxcompat._ops.random.state import state as random_state
from mxcompat._transforms.control import batch, host  # noqa: F401  # their rules
from mxcompat._transforms.control.bodies import Traced, arrays_in, check_alike, traced, with_paths
from mxcompat._transforms.control.ops import COND, SCAN, WHILE
from mxcompat._transforms.functions import check_callable
from mxcompat._transforms.trees import nodes_in, rebuilt, restore, structure

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """A loop over the first axis of arrays that carries a state along and stacks what its steps return.

    It is one op, however many steps there are: `f` is run once, on arrays that have no value, and compiled once. It
    works under every transform; gradients flow to `init`, to `xs` and to arrays that `f` captures. The same in Python:

        ys = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, mx.stack(ys)

    Numbers drawn without a key are those that this would draw.

    Args:
        f: takes the carry and one entry of `xs`, and returns the next carry and what to stack: trees of arrays and
            numbers. The carry must keep its tree, shapes and dtypes.
        init: the first carry. Numbers in it become arrays: 0 of int32, 0.0 of float32.
        xs: a tree of arrays, all with `length` entries along their first axis. None: `f` is given None.
        length: how many steps; needed if there is no array in `xs`.
        reverse: go from the last entry to the first; what is stacked has the order of `xs` all the same.

    Returns:
        The last carry, and the tree of what `f` returned second, each array with an axis more, the first.

    Raises:
        ValueError: if the carry changes (the message names where, and both types), if `xs` differ in length, and when
            `f` reads the value of an array.
        TypeError: if `f` does not return a pair, or a leaf is neither an array nor a number.

    Example:
        >>> mx.ext.scan(lambda total, x: (total + x, total * x), 0.0, mx.array([1.0, 2.0, 3.0]))
        (array(6, dtype=float32), array([0, 2, 9], dtype=float32))
    """
    check_callable(f, "scan")
    return _scan("scan", f, init, xs, length, reverse)


def _scan(name: str, f: Callable[[Any, Any], Any], init: Any, xs: Any, length: int | None, reverse: bool) -> Any:
    init, xs = arrays_in(init, name, "carry"), arrays_in(xs, name, "xs")
    steps = _length(name, xs, length)
    first, along = nodes_in(init), nodes_in(xs)
    entries = [aval(n.aval.shape[1:], n.aval.dtype) for n in along]

    def convert(value: Any) -> tuple[list[array], Any]:
        if not isinstance(value, tuple) or len(value) != 2:
            given = type(value).__name__
            raise TypeError(f"[{name}] The function must return a pair, the next carry and what to stack, not {given}.")
        carry = arrays_in(value[0], name, "carry")
        return check_alike(name, "carry", init, carry, "before", "after a step"), arrays_in(value[1], name, "y")

    avals = [*[n.aval for n in first], *entries]
    body = traced(f, structure((init, xs)), avals, [*first, *along], convert)
    if body.draws:
        first.insert(0, random_state[0]._node)
    params = body.program, len(first), len(along), steps, bool(reverse)
    results = wrap_all(apply(SCAN, (*first, *along, *body.captured), params))
    if body.draws:
        last = results.pop(0)
        if body.key is not None:  # not an output of the loop, so that the key does not depend on what else it is given
            key = apply(SCAN, (first[0], *body.key.captured), (body.key.program, 1, 0, steps, False))
            last = wrap(items(key)[0])
        random_state[0] = last
    carry, ys = restore(body.value, results)
    return rebuilt(init, carry), ys


def _length(name: str, xs: Any, length: int | None) -> int:
    """How many steps to go over these arrays."""
    if length is not None and (not isinstance(length, int) or length < 0):
        raise ValueError(f"[{name}] length must be an int that is not negative, not {length!r}.")
    found = length
    for path, x in with_paths(xs, "xs"):
        if not x.ndim:
            raise ValueError(f"[{name}] {path} has no axis to scan over: it is {x._node.aval}.")
        if found is not None and x.shape[0] != found:
            raise ValueError(
                f"[{name}] {path} has {x.shape[0]} entries along its first axis where {found} were expected."
            )
        found = x.shape[0]
    if found is None:
        raise ValueError(f"[{name}] There is no array in xs; say by length how many steps there are.")
    return found


def fori_loop(lower: Any, upper: Any, body: Callable[[array, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): value = body(i, value)`, as one op.

    With Python ints as bounds it is a `scan`, and has gradients. With an array among them it is a `while_loop`: any
    number of steps is the same program then, and there is forward mode only.

    Args:
        lower, upper: the bounds: ints, or 0-d arrays of integers.
        body: takes the index, an int32 array, and the value, and returns the next value: the same tree, shapes and
            dtypes.
        init: the first value.

    Returns:
        The last value.

    Raises:
        ValueError, TypeError: as `scan` does; for a bound that has axes or is no integer, too.

    Example:
        >>> mx.ext.fori_loop(0, 5, lambda i, total: total + i, 0)
        array(10, dtype=int32)
    """
    check_callable(body, "fori_loop")
    if isinstance(lower, int) and isinstance(upper, int):
        lower, upper = integer(lower), integer(upper)
        indices = arange(lower, max(lower, upper), dtype=int32)
        return _scan("fori_loop", lambda value, i: (body(i, value), None), init, indices, None, False)[0]
    first, end = [_integer("fori_loop", "A bound", n) for n in (lower, upper)]

    def step(state: tuple[array, Any]) -> tuple[array, Any]:
        i, value = state
        return i + 1, body(i, value)

    return _while_loop("fori_loop", lambda state: state[0] < wrap(end), step, (wrap(first), init))[1]


def while_loop(test: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """`while test(value): value = body(value)`, as one op, which runs without a look at the value from Python.

    It works under every transform but reverse mode (`grad`, `vjp`): how many steps there are is not known before, and
    so not how much to keep of them. `fori_loop` and `scan` have gradients.

    Args:
        test: takes the value and returns a bool, a 0-d array.
        body: takes the value and returns the next one: the same tree, shapes and dtypes.
        init: the first value: a tree of arrays and numbers.

    Returns:
        The first value for which the test is false.

    Raises:
        ValueError: if the value changes its tree, a shape or a dtype, if the test does not return a 0-d bool or draws
            random numbers without a key, and for a gradient.
        TypeError: for a leaf that is neither an array nor a number.

    Example:
        >>> mx.ext.while_loop(lambda x: x < 100, lambda x: x * 3, mx.array(1))
        array(243, dtype=int32)
    """
    check_callable(test, "while_loop")
    check_callable(body, "while_loop")
    return _while_loop("while_loop", test, body, init)


def _while_loop(name: str, test: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    init = arrays_in(init, name, "value")
    first = nodes_in(init)
    arguments, avals = structure((init,)), [n.aval for n in first]

    def convert(value: Any) -> list[array]:
        return check_alike(name, "value", init, arrays_in(value, name, "value"), "before", "after a step")

    def truth(value: Any) -> array:
        if isinstance(value, bool):
            return wrap(operand_node(value))
        if not isinstance(value, array) or value._node.aval is not aval((), bool_):
            given = value._node.aval if isinstance(value, array) else type(value).__name__
            raise ValueError(f"[{name}] The test must return a 0-d array of dtype bool, not {given}.")
        return value

    step = traced(body, arguments, avals, first, convert)
    tested = traced(test, arguments, avals, first, truth)
    if tested.draws:
        raise ValueError(f"[{name}] The test must not draw random numbers without a key. Draw them in the body.")
    if step.draws:
        tested = tested.keyed(returns=False)
        first.insert(0, random_state[0]._node)
    params = step.program, tested.program, len(first)
    results = wrap_all(apply(WHILE, (*first, *step.captured, *tested.captured), params))
    if step.draws:
        random_state[0] = results.pop(0)
    return restore(arguments, results)[0]


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`, without a look at `pred` from Python.

    Only one of the two is computed; under `vmap` over `pred` both are, and selected from.

    Args:
        pred: a 0-d array or a number; what is not zero is true.
        true_fun, false_fun: take the operands and return trees of arrays and numbers, both the same tree, shapes and
            dtypes. They may capture arrays.
        operands: trees of arrays; other leaves are handed on as they are.

    Returns:
        What the one or the other returns. Gradients flow to operands and captured arrays, through the branch taken.

    Raises:
        ValueError: if `pred` has axes, or the two return different things (the message names the first), and when one
            reads the value of an array.
        TypeError: if one returns a leaf that is neither an array nor a number.

    Example:
        >>> mx.ext.cond(mx.array(2.0) > 1, mx.exp, mx.negative, mx.array(0.0))
        array(1, dtype=float32)
    """
    check_callable(true_fun, "cond")
    check_callable(false_fun, "cond")
    node = _scalar("cond", "pred", pred)
    index = cast_node(cast_node(node, bool_), int32)
    return _branches("cond", index, [false_fun, true_fun], ["in the second function", "in the first"], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, without a look at `index` from Python.

    Args:
        index: a 0-d array of integers or an int; one out of range is taken as the nearest that is in it.
        branches: one function at least, as for `cond`.
        operands: trees of arrays; other leaves are handed on as they are.

    Returns:
        What the function returns.

    Raises:
        ValueError: if there is no function, if `index` has axes or is no integer, or the functions return different
            things, and when one reads the value of an array.
        TypeError: if one cannot be called, or returns a leaf that is neither an array nor a number.

    Example:
        >>> mx.ext.switch(mx.array(2), [mx.sin, mx.cos, mx.exp], mx.array(0.0))
        array(1, dtype=float32)
    """
    found = list(branches)
    if not found:
        raise ValueError("[switch] There has to be one function at least.")
    for fun in found:
        check_callable(fun, "switch")
    node = _integer("switch", "index", index)
    return _branches("switch", node, found, [f"in branch {k}" for k in range(len(found))], operands)


def _branches(
    name: str, index: Node, branches: Sequence[Callable[..., Any]], names: Sequence[str], operands: tuple
) -> Any:
    given = nodes_in(operands)
    avals = [n.aval for n in given]
    first: list[Any] = []

    def convert(where: str) -> Callable[[Any], Any]:
        def converted(value: Any) -> Any:
            value = arrays_in(value, name, "The result")
            if not first:
                first.append(value)
                return value
            return check_alike(name, "The result", first[0], value, names[0], where)

        return converted

    found = [
        traced(fun, structure(operands), avals, [index, *given], convert(where))
        for fun, where in zip(branches, names, strict=True)
    ]
    draws = any(t.draws for t in found)
    if draws:
        ways = {t.key.program if t.key is not None else None for t in found}
        found = [t.keyed() for t in found]
        given.insert(0, random_state[0]._node)
    inputs, reads = _shared(given, found)
    results = wrap_all(apply(COND, (index, *inputs), (tuple([t.program for t in found]), reads)))
    if draws:
        _move_on(results.pop(0), found, ways, given[0])
    return restore(structure(first[0]), results)


def _shared(given: Sequence[Node], branches: Sequence[Traced]) -> tuple[list[Node], tuple[tuple[int, ...], ...]]:
    """What all branches read, and for each of them which of it."""
    inputs = list(given)
    places: dict[Node, int] = {}
    reads = []
    for branch in branches:
        own = []
        for n in branch.captured:
            if n not in places:
                places[n] = len(inputs)
                inputs.append(n)
            own.append(places[n])
        reads.append((*range(len(given)), *own))
    return inputs, tuple(reads)


def _move_on(last: array, branches: Sequence[Traced], ways: set, key: Node) -> None:
    """The implicit key behind a branch. Where it moves on in the same way in all of them, it does not depend on which
    is taken."""
    alone = branches[0].key
    if len(ways) == 1 and alone is not None:
        last = wrap(items(apply(SCAN, (key, *alone.captured), (alone.program, 1, 0, 1, False)))[0])
    random_state[0] = last


def _scalar(name: str, what: str, value: Any) -> Node:
    node = operand_node(value)
    if node.aval.ndim:
        raise ValueError(f"[{name}] {what} must have no axes, but is {node.aval}.")
    return node


def _integer(name: str, what: str, value: Any) -> Node:
    """A 0-d int32 of an integer."""
    node = _scalar(name, what, value)
    if node.aval.dtype._kind not in "iu":
        raise ValueError(f"[{name}] {what} must be an integer, but is {node.aval}.")
    return cast_node(node, int32)
