"""`compile`: run the user's Python once, and afterwards only the Program that it built.

All pending graphs are compiled anyway; `compile` saves the time that Python takes. If the arguments have a known
structure, a call adds one node to the graph. Under another transform the Python runs each time, as in MLX.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec

from mxcompat._array.array import array, handles, nodes_of, plain_handle
from mxcompat._array.construct import type_name
from mxcompat._array.errors import bad_cast
from mxcompat._graph import policy
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.fields import avals_of
from mxcompat._graph.ir.node import ITEM, Node
from mxcompat._graph.ir.outputs import register_outputs
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.trace_stack import innermost_trace, modes_of, other_arguments
from mxcompat._graph.run.evaluate import evaluate
from mxcompat._ops.arguments import flag

from . import trees
from .functions import check_callable, transformed
from .programs.split_at_effects import run_in_parts
from .tracing import Trace, for_shapes, freeze, reaches, trace, valued
from .trees import TreeSlots, call_on_copies, flatten, nodes_in, rebuilt, restore

__all__ = [
    "checked_as_compiled", "compile", "compile_disabled", "compile_frozen", "disable_compile", "enable_compile",
]  # fmt: skip

_P = ParamSpec("_P")

_enabled = "MLX_DISABLE_COMPILE" not in os.environ


def compile(
    fun: Callable[..., Any], inputs: Any = None, outputs: Any = None, shapeless: bool = False
) -> Callable[..., Any]:
    """Return a version of `fun` whose Python runs once for each kind of arguments.

    Args:
        fun: takes and returns trees of arrays. Numbers, strings and None among its arguments are constants: for another
            value the function is traced again.
        inputs: a list or dict (a tree) of arrays that `fun` reads besides its arguments. Arrays that it reads and that
            are not listed are frozen at their first value.
        outputs: a list or dict of arrays that `fun` replaces; it is updated at every call.
        shapeless: do not run the Python again for arguments of other shapes. Sizes that it read as Python numbers then
            keep their first values.

    Returns:
        A function with the arguments of `fun`.

    Raises:
        ValueError: for arguments of other types; if `fun` reads the value of an array; and if it captures an array that
            is computed from an argument.

    Example:
        >>> mx.compile(lambda x, y: mx.exp(-x) + y)(mx.array(0.0), mx.array(1.0))
        array(2, dtype=float32)
    """
    check_callable(fun, "compile")
    flag(shapeless, "compile", "shapeless")
    entries: dict[Any, Trace | None] = {}  # None: the function captured arrays of an enclosing transform

    def call(*args: Any, **kwargs: Any) -> Any:
        kinds: list[Any] = [len(args)]
        leaves: list[array] = []
        for item in args:
            if type(item) is array:
                leaves.append(item)
                kinds.append(array)
            else:
                _read_tree(item, kinds, leaves)
        if kwargs:
            _read_tree(kwargs, kinds, leaves)
        nodes = nodes_of(leaves)
        if inputs is not None and _enabled:
            nodes += nodes_in(inputs)
        if not _enabled or _belong_to_a_transform(nodes):
            return call_on_copies(fun, args, kwargs)
        key = (*kinds, *avals_of(nodes))
        if innermost_trace() and entries.get(key, _NOT_YET) is None:
            return call_on_copies(fun, args, kwargs)
        slots = None if outputs is None else TreeSlots.of(outputs)
        entry = _writing(slots, entries.get(key))
        if entry is None:
            any_shape = (*kinds, *[(n.aval.ndim, n.aval.dtype) for n in nodes])
            known = _writing(slots, entries.get(any_shape)) if shapeless else None
            if known is not None:
                entry = for_shapes(known, [n.aval for n in nodes])
            else:
                entry = trace(fun, args, kwargs, leaves, inputs, outputs, nodes, shapeless)
                if entry is None:
                    _remember(entries, key, None)
                    return call_on_copies(fun, args, kwargs)
                if shapeless:
                    _remember(entries, any_shape, entry)
                if outputs is not None:
                    slots = TreeSlots.of(outputs)  # the function may have added arrays to the trees
            _remember(entries, key, entry)
        for k in entry.unread:
            nodes[k] = valued(nodes[k])
        nodes_out = run_in_parts(entry.program, (*nodes, *entry.captured))
        results = handles(nodes_out)
        if slots is not None:
            _register_outputs(nodes_out[: entry.returned])
            slots.fill(results[entry.returned :])
        return restore(entry.value, results)

    return transformed(fun, call)


def _register_outputs(outputs: Sequence[Node]) -> None:
    """Register outputs of nodes, so that they get their values when their nodes are evaluated."""
    of: dict[Node, list[Node]] = {}
    for output in outputs:
        if output.op is ITEM:
            of.setdefault(output.inputs[0], []).append(output)
    for node, own in of.items():
        register_outputs(node, own)


_NOT_YET: Any = object()


def _belong_to_a_transform(nodes: Sequence[Node]) -> bool:
    """Return True if a node depends on the arguments of a function that a transform is running, differentiably or
    not."""
    if modes_of(nodes):
        return True
    others = other_arguments()
    return bool(others) and reaches(nodes, others, policy.FEW_INSTRUCTIONS)


def _writing(slots: TreeSlots | None, entry: Trace | None) -> Trace | None:
    """Return the entry if its number of written arrays matches `outputs`. Otherwise return None, so that the function
    is traced again: the user may have added or removed arrays."""
    if slots is None or entry is None:
        return entry
    return entry if len(slots.arrays) == len(entry.program.out_slots) - entry.returned else None


def compile_frozen(fun: Callable[..., list[array]]) -> Callable[..., list[array]]:
    """Compile a function from arrays to a list of arrays, with its Python numbers as constants. The numbers must be the
    same at every call; the Program then has fewer inputs. If the function returns an argument, the caller gets the
    argument itself."""
    entries: dict[Any, Trace] = {}

    def call(*args: array) -> list[array]:
        if not _enabled:
            return fun(*args)
        nodes = nodes_of([*args])
        avals = avals_of(nodes)
        entry = entries.get(avals)
        if entry is None:
            traced = trace(fun, args, {}, args, None, None, nodes, False)
            assert traced is not None, "it must not capture"
            entry = freeze(traced, avals)
            _remember(entries, avals, entry)
        results = handles(run_in_parts(entry.program, (*nodes, *entry.captured)))
        for k, argument in _arguments_returned(entry.program, len(args)):
            results[k] = args[argument]
        return results

    return call


@analysis
def _arguments_returned(program: Program, arguments: int) -> list[tuple[int, int]]:
    """Return (result, argument) pairs: the outputs of a Program that are arguments unchanged."""
    return [(k, ~slot) for k, slot in enumerate(program.out_slots) if -arguments <= slot < 0]


def _remember(entries: dict[Any, Any], key: Any, entry: Trace | None) -> None:
    if entry is not None:
        evaluate([n for n in entry.captured if n.value is None])
    while len(entries) >= policy.MOST_PROGRAMS:
        entries.pop(next(iter(entries)))
    entries[key] = entry


def checked_as_compiled(fun: Callable[_P, array]) -> Callable[_P, array]:
    """Return a version of `fun` that checks its arguments as a compiled function does, and rejects NumPy arrays for
    example. (In MLX, `fun` is a compiled function.)"""

    def call(*args: _P.args, **kwargs: _P.kwargs) -> array:
        if kwargs or len(args) != 1 or type(args[0]) is not array:
            leaves: list[array] = []
            _read_tree((args, kwargs), [], leaves)
            if any(type(x) is not array for x in leaves):
                args, kwargs = rebuilt((args, kwargs), [*map(plain_handle, flatten((args, kwargs)))])
        return fun(*args, **kwargs)  # type: ignore[call-arg]

    return transformed(fun, call)


def _read_tree(tree: Any, key: list[Any], leaves: list[array]) -> None:
    """Split a tree of arguments into its arrays (`leaves`) and the rest (`key`). A trace is reused if the keys are
    equal."""
    before = len(key), len(leaves)
    try:
        _read(tree, key, leaves)
    except RecursionError:
        del key[before[0] :], leaves[before[1] :]
        with trees.raised_recursion_limit():
            _read(tree, key, leaves)


def _read(tree: Any, key: list[Any], leaves: list[array]) -> None:
    if isinstance(tree, array):
        leaves.append(tree)
        key.append(array)
    elif isinstance(tree, (list, tuple)):
        key.append(type(tree))
        key.append(len(tree))
        for item in tree:
            _read(item, key, leaves)
    elif isinstance(tree, dict):
        key.append(dict)
        key.append(len(tree))
        for name, item in tree.items():
            key.append(name)
            _read(item, key, leaves)
    elif tree is None or isinstance(tree, (str, int, float)):
        if isinstance(tree, int) and not -(2**63) <= tree < 2**63:
            raise bad_cast(f"{tree} does not fit in 64 bits")
        key.append(type(tree))
        # a float is compared by its bits, because NaN != NaN and 0 == -0
        key.append(tree if tree == tree and tree != 0 else str(tree))
    else:
        raise ValueError(
            "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, or None), but "
            f"received type {type_name(tree)}."
        )


@contextmanager
def compile_disabled() -> Iterator[None]:
    """Make `compile` run the original functions within this context."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


def disable_compile() -> None:
    """Make all functions returned by `compile` run the original function at every call. The environment variable
    MLX_DISABLE_COMPILE has the same effect.

    Example:
        >>> f = mx.compile(lambda x: print("runs") or x + 1)
        >>> mx.disable_compile()
        >>> y = f(mx.array(1)), f(mx.array(2))
        runs
        runs
        >>> mx.enable_compile()
    """
    global _enabled
    _enabled = False


def enable_compile() -> None:
    """Undo `disable_compile`, or the effect of the environment variable MLX_DISABLE_COMPILE.

    Example:
        >>> mx.disable_compile()
        >>> mx.enable_compile()
    """
    global _enabled
    _enabled = True
