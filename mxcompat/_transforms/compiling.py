"""`compile`: run the user's Python once, and afterwards only the Program that it built.

All pending graphs are compiled anyway; `compile` saves the time that Python takes. If the arguments have a known
structure, a call adds one node to the graph. Under another transform the Python runs each time, as in MLX.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec

from mxcompat._array.array import array, handles, nodes_of, plain_handle
from mxcompat._array.construct import type_name
from mxcompat._array.errors import bad_cast
from mxcompat._graph import policy
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import aval, number
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.fields import avals_of
from mxcompat._graph.ir.node import ITEM, SCALAR, Node, apply, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import register_outputs
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.trace_stack import innermost_trace, modes_of, other_arguments
from mxcompat._graph.run.evaluate import evaluate
from mxcompat._ops.arguments import flag
from mxcompat._ops.creation.filled import FULL

from . import trees
from .calls import CALL
from .functions import check_callable, transformed
from .programs.dependence import read_by
from .programs.reshaping import reshaped
from .programs.split_at_effects import run_in_parts
from .trees import Snapshot, Substitution, TreeSlots, call_on_copies, flatten, nodes_in, rebuilt, restore, structure

__all__ = [
    "CONSTANT", "checked_as_compiled", "compile", "compile_disabled", "compile_frozen", "disable_compile",
    "enable_compile",
]  # fmt: skip

_P = ParamSpec("_P")

_enabled = "MLX_DISABLE_COMPILE" not in os.environ


class _Entry(NamedTuple):
    """The result of one trace.

    Args:
        program: its first inputs are the arguments' arrays, then the arrays of `inputs`.
        captured: the other nodes that it reads, which are its last inputs.
        value: the structure of the returned tree.
        returned: the number of arrays in the returned tree.
        unread: the inputs that no output depends on.
    """

    program: Program
    captured: list[Node]
    value: Any
    returned: int
    unread: tuple[int, ...]


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
    entries: dict[Any, _Entry | None] = {}  # None: the function captured arrays of an enclosing transform

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
                entry = _reshaped(known, [n.aval for n in nodes])
            else:
                entry = _trace(fun, args, kwargs, leaves, inputs, outputs, nodes, shapeless)
                if entry is None:
                    _remember(entries, key, None)
                    return call_on_copies(fun, args, kwargs)
                if shapeless:
                    _remember(entries, any_shape, entry)
                if outputs is not None:
                    slots = TreeSlots.of(outputs)  # the function may have added arrays to the trees
            _remember(entries, key, entry)
        for k in entry.unread:
            nodes[k] = _valued(nodes[k])
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
    return bool(others) and _reaches(nodes, others, policy.FEW_INSTRUCTIONS)


def _writing(slots: TreeSlots | None, entry: _Entry | None) -> _Entry | None:
    """Return the entry if its number of written arrays matches `outputs`. Otherwise return None, so that the function
    is traced again: the user may have added or removed arrays."""
    if slots is None or entry is None:
        return entry
    return entry if len(slots.arrays) == len(entry.program.out_slots) - entry.returned else None


def compile_frozen(fun: Callable[..., list[array]]) -> Callable[..., list[array]]:
    """Compile a function from arrays to a list of arrays, with its Python numbers as constants. The numbers must be the
    same at every call; the Program then has fewer inputs. If the function returns an argument, the caller gets the
    argument itself."""
    entries: dict[Any, _Entry] = {}

    def call(*args: array) -> list[array]:
        if not _enabled:
            return fun(*args)
        nodes = nodes_of([*args])
        avals = avals_of(nodes)
        entry = entries.get(avals)
        if entry is None:
            traced = _trace(fun, args, {}, args, None, None, nodes, False)
            assert traced is not None, "it must not capture"
            entry = _freeze(traced, avals)
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


def _remember(entries: dict[Any, Any], key: Any, entry: _Entry | None) -> None:
    if entry is not None:
        evaluate([n for n in entry.captured if n.value is None])
    while len(entries) >= policy.MOST_PROGRAMS:
        entries.pop(next(iter(entries)))
    entries[key] = entry


def _trace(
    fun: Callable[..., Any], args: tuple, kwargs: dict, leaves: Sequence[array], inputs: Any, outputs: Any,
    nodes: Sequence[Node], shapeless: bool,
) -> _Entry | None:  # fmt: skip
    """Trace the function. Return None if it reads arrays of an enclosing transform: then it must run as part of that
    transform."""
    snapshot = Snapshot([inputs, outputs])
    try:
        with Capture([n.aval for n in nodes], any_shape=shapeless) as capture:
            inner_leaves = handles(capture.placeholders)
            inner_args, inner_kwargs = rebuilt((args, kwargs), inner_leaves)
            with Substitution(TreeSlots.of(inputs), inner_leaves[len(leaves) :]):
                value = fun(*inner_args, **inner_kwargs)
                shape = structure(value)
                returned = nodes_in(value)
                written = nodes_in(outputs)
            body = capture.close([*returned, *written])
        if _reaches(body.captured, nodes):
            raise ValueError("[compile] Attempting to compile a function with uncaptured inputs is not allowed.")
    except BaseException:
        snapshot.put_back()
        raise
    if modes_of(body.captured):
        snapshot.put_back()
        return None
    read = _read_for(body.program, range(len(body.program.out_slots)))
    captured = [n if k in read else _valued(n) for k, n in enumerate(body.captured, len(nodes))]
    unread = tuple([k for k in range(len(nodes)) if k not in read])
    return _Entry(body.program, captured, shape, len(returned), unread)


def _valued(node: Node) -> Node:
    """Return the node, or zeros for a placeholder without a value.

    The caller must pass only nodes that no output depends on. A placeholder occurs here if an earlier trace left it in
    a state that `outputs` does not list.
    """
    if not node.trace or node.value is not None:
        return node
    return apply(FULL, (scalar(0, aval((), node.aval.dtype)),), (node.aval.shape,))


def _reaches(nodes: Sequence[Node], others: Sequence[Node], most: float = math.inf) -> bool:
    """Return True if a pending node in `nodes` depends on one of `others`, or is one. The search stops after about
    `most` nodes."""
    sought, stack = set(others), list(nodes)
    seen = set(stack)
    while stack and len(seen) <= most + len(nodes):
        node = stack.pop()
        if node in sought:
            return True
        if node.value is None:
            more = [n for n in read_by(node) if n not in seen]
            seen.update(more)
            stack += more
    return False


def _read_for(program: Program, outputs: Iterable[int]) -> set[int]:
    """Return the inputs of a Program that the given outputs depend on; calls are analyzed, too."""
    needed = {program.out_slots[k] for k in outputs}
    parts: dict[int, set[int]] = {}  # for each call, the outputs that are needed
    for slot in reversed(range(len(program.instructions))):
        op, params, slots = program.instructions[slot]
        if slot in parts and op is CALL:
            needed.update([slots[k] for k in _read_for(params[0], parts[slot])])
        elif slot not in needed and slot not in parts:
            continue
        elif op is ITEM:
            parts.setdefault(slots[0], set()).add(params[0])
        else:
            needed.update(slots)
    return {~s for s in needed if s < 0}


def _reshaped(entry: _Entry, avals: Sequence[Any]) -> _Entry:
    """Rebuild an entry's Program for inputs of other shapes."""
    program, captured = reshaped(entry.program, avals, entry.captured, fused=True)
    return entry._replace(program=program, captured=captured)


CONSTANT = Op("constant", number, lambda value, dtype: aval((), dtype), ("value", "dtype"))
"""The op of a Python number that is a constant of a Program."""


def _freeze(entry: _Entry, avals: Sequence[Any]) -> _Entry:
    """Turn the captured numbers of an entry into constants of its Program."""
    with Capture(avals) as capture:
        captured = [
            Node(CONSTANT, (n.value, n.aval.dtype), (), n.aval, capture.id) if n.op is SCALAR else n
            for n in entry.captured
        ]
        results = entry.program.rebuild([*capture.placeholders, *captured])
        body = capture.close(results)
    return entry._replace(program=body.program, captured=body.captured)


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
