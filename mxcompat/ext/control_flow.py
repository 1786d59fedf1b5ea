"""Compiled loops and branches: `scan`, `fori_loop`, `while_loop`, `cond` and `switch`."""

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
from mxcompat._transforms.control.ops import COND, SCAN, WHILE
from mxcompat._transforms.control.traced import Traced, arrays_in, check_alike, traced, with_paths
from mxcompat._transforms.functions import check_callable
from mxcompat._transforms.trees import nodes_in, rebuilt, restore, structure

__all__ = ["cond", "fori_loop", "scan", "switch", "while_loop"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Loop over the first axis of arrays, with a carry from step to step, and stack the steps' results.

    It is one op for any number of steps: `f` runs once, on arrays without values, and is compiled once. It works under
    every transform. Gradients flow to `init`, to `xs` and to arrays that `f` captures. In Python it would be:

        ys = []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, mx.stack(ys)

    Random numbers without a key are the same as in this Python loop.

    Args:
        f: takes the carry and one entry of `xs`, and returns the next carry and the results to stack. Both are trees of
            arrays and numbers. The carry must keep its tree, shapes and dtypes.
        init: the first carry. Numbers become arrays: an int becomes int32, a float becomes float32.
        xs: a tree of arrays, all with `length` entries along their first axis. If it is None, `f` gets None.
        length: the number of steps; required if there is no array in `xs`.
        reverse: whether to go from the last entry to the first. The stacked results keep the order of `xs`.

    Returns:
        The last carry, and the stacked results: a tree in which each array has a new first axis for the steps.

    Raises:
        ValueError: if the carry changes its tree, a shape or a dtype (the message says where); if the arrays in `xs`
            differ in length; and if `f` reads the value of an array.
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
            kind = type(value).__name__
            raise TypeError(f"[{name}] The function must return a pair, the next carry and what to stack, not {kind}.")
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
        if body.key is not None:  # scan separately for the key, so that it does not depend on the other results
            key = apply(SCAN, (first[0], *body.key.captured), (body.key.program, 1, 0, steps, False))
            last = wrap(items(key)[0])
        random_state[0] = last
    carry, ys = restore(body.value, results)
    return rebuilt(init, carry), ys


def _length(name: str, xs: Any, length: int | None) -> int:
    """Return the number of steps over these arrays."""
    if length is not None and (not isinstance(length, int) or length < 0):
        raise ValueError(f"[{name}] length must be an int that is not negative, not {length!r}.")
    expected = length
    for path, x in with_paths(xs, "xs"):
        if not x.ndim:
            raise ValueError(f"[{name}] {path} has no axis to scan over: it is {x._node.aval}.")
        if expected is not None and x.shape[0] != expected:
            raise ValueError(
                f"[{name}] {path} has {x.shape[0]} entries along its first axis where {expected} were expected."
            )
        expected = x.shape[0]
    if expected is None:
        raise ValueError(f"[{name}] There is no array in xs; say by length how many steps there are.")
    return expected


def fori_loop(lower: Any, upper: Any, body: Callable[[array, Any], Any], init: Any) -> Any:
    """Compute `for i in range(lower, upper): value = body(i, value)` as one op.

    With Python ints as bounds it is a `scan` and has gradients. If a bound is an array it is a `while_loop`: one
    compiled program serves any number of steps, but only forward mode works.

    Args:
        lower, upper: the bounds: ints, or 0-d arrays of integers.
        body: takes the index (an int32 array) and the value, and returns the next value with the same tree, shapes and
            dtypes.
        init: the first value.

    Returns:
        The last value.

    Raises:
        ValueError, TypeError: as `scan` does; also for a bound that has axes or is not an integer.

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
    """Compute `while test(value): value = body(value)` as one op; Python never reads the value.

    It works under every transform except reverse mode (`grad`, `vjp`). Reverse mode must store every step, and the
    number of steps is not known in advance. `fori_loop` and `scan` have gradients.

    Args:
        test: takes the value and returns a 0-d array of dtype bool.
        body: takes the value and returns the next one, with the same tree, shapes and dtypes.
        init: the first value: a tree of arrays and numbers.

    Returns:
        The first value for which the test is false.

    Raises:
        ValueError: if the value changes its tree, a shape or a dtype; if the test does not return a 0-d bool, or draws
            random numbers without a key; and in reverse mode.
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
            kind = value._node.aval if isinstance(value, array) else type(value).__name__
            raise ValueError(f"[{name}] The test must return a 0-d array of dtype bool, not {kind}.")
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
    """Compute `true_fun(*operands) if pred else false_fun(*operands)`; Python never reads `pred`.

    Only one of the two runs. Under `vmap` over `pred` both run, and the results are selected.

    Args:
        pred: a 0-d array or a number; nonzero values are true.
        true_fun, false_fun: take the operands and return trees of arrays and numbers. Both must return the same tree,
            shapes and dtypes. They may capture arrays.
        operands: trees of arrays; other leaves are passed on unchanged.

    Returns:
        The result of the function that ran. Gradients flow through it, to operands and captured arrays.

    Raises:
        ValueError: if `pred` has axes; if the two results differ in tree, shapes or dtypes (the message names the first
            difference); and if a function reads the value of an array.
        TypeError: if a function returns a leaf that is neither an array nor a number.

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
    """Compute `branches[index](*operands)`; Python never reads `index`.

    Args:
        index: a 0-d array of integers, or an int. It is clamped to the valid range.
        branches: at least one function, with the same requirements as for `cond`.
        operands: trees of arrays; other leaves are passed on unchanged.

    Returns:
        The result of the function.

    Raises:
        ValueError: if there is no function; if `index` has axes or is not an integer; if the results differ in tree,
            shapes or dtypes; and if a function reads the value of an array.
        TypeError: if a branch is not callable, or returns a leaf that is neither an array nor a number.

    Example:
        >>> mx.ext.switch(mx.array(2), [mx.sin, mx.cos, mx.exp], mx.array(0.0))
        array(1, dtype=float32)
    """
    functions = list(branches)
    if not functions:
        raise ValueError("[switch] There has to be one function at least.")
    for fun in functions:
        check_callable(fun, "switch")
    node = _integer("switch", "index", index)
    return _branches("switch", node, functions, [f"in branch {k}" for k in range(len(functions))], operands)


def _branches(
    name: str, index: Node, branches: Sequence[Callable[..., Any]], names: Sequence[str], operands: tuple
) -> Any:
    nodes = nodes_in(operands)
    avals = [n.aval for n in nodes]
    first: list[Any] = []

    def convert(where: str) -> Callable[[Any], Any]:
        def converted(value: Any) -> Any:
            value = arrays_in(value, name, "The result")
            if not first:
                first.append(value)
                return value
            return check_alike(name, "The result", first[0], value, names[0], where)

        return converted

    traces = [
        traced(fun, structure(operands), avals, [index, *nodes], convert(where))
        for fun, where in zip(branches, names, strict=True)
    ]
    draws = any(t.draws for t in traces)
    if draws:
        ways = {t.key.program if t.key is not None else None for t in traces}
        traces = [t.keyed() for t in traces]
        nodes.insert(0, random_state[0]._node)
    inputs, reads = _shared(nodes, traces)
    results = wrap_all(apply(COND, (index, *inputs), (tuple([t.program for t in traces]), reads)))
    if draws:
        _move_on(results.pop(0), traces, ways, nodes[0])
    return restore(structure(first[0]), results)


def _shared(nodes: Sequence[Node], branches: Sequence[Traced]) -> tuple[list[Node], tuple[tuple[int, ...], ...]]:
    """Return the inputs of all branches, and for each branch the positions of its inputs."""
    inputs = list(nodes)
    places: dict[Node, int] = {}
    reads = []
    for branch in branches:
        own = []
        for n in branch.captured:
            if n not in places:
                places[n] = len(inputs)
                inputs.append(n)
            own.append(places[n])
        reads.append((*range(len(nodes)), *own))
    return inputs, tuple(reads)


def _move_on(last: array, branches: Sequence[Traced], ways: set, key: Node) -> None:
    """Set the implicit random key after a branch. If all branches advance it in the same way, it does not depend on the
    branch."""
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
    """Return an integer as a 0-d int32."""
    node = _scalar(name, what, value)
    if node.aval.dtype._kind not in "iu":
        raise ValueError(f"[{name}] {what} must be an integer, but is {node.aval}.")
    return cast_node(node, int32)
