"""Checks inside compiled code: `checkify` and `check`.

The user's function is run once. Its graph is then rebuilt with checks between the ops, and with a number that says
which check failed first. Loops, branches and mapped functions are checked inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mxcompat import core as mx
from mxcompat._array.array import array, handles, wrap, wrap_all
from mxcompat._array.operands import node as operand_node
from mxcompat._graph.ir.aval import aval, bool_, int32
from mxcompat._graph.ir.capture import Body, Capture
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.node import ITEM, Node, apply, items, location
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import BATCH, HOST
from mxcompat._ops.batching import batched_elementwise
from mxcompat._ops.indexing.gather import GATHER, GATHER_AXIS
from mxcompat._ops.indexing.plan import source_axes
from mxcompat._ops.indexing.put import SCATTER_AXIS
from mxcompat._ops.indexing.scatter import SCATTER
from mxcompat._transforms.calls import CALL, CHECKPOINT, PURE_CALL
from mxcompat._transforms.control.ops import COND, SCAN, WHILE
from mxcompat._transforms.functions import check_callable, named_after
from mxcompat._transforms.transform_ops import VMAP
from mxcompat._transforms.trees import nodes_in, rebuilt

__all__ = ["Error", "check", "checkify"]

_CODE = aval((), int32)
_KINDS: dict[str, type[Exception]] = {"nan": FloatingPointError, "bounds": IndexError, "check": ValueError}


class Error(NamedTuple):
    """The result of the checks of a call. It is a tree of arrays, so compiled functions can return it.

    Args:
        code: an int32 array: 0 if no check failed, else the number of the message, counted from 1.
        messages: the kind and the text of each check.
    """

    code: array
    messages: tuple[tuple[str, str], ...]

    def get(self) -> str | None:
        """Return the message of the first failed check, or None. Evaluates the code."""
        code = int(self.code)
        return self.messages[code - 1][1] if code else None

    def throw(self) -> None:
        """Raise the error of the first failed check, if there is one. Evaluates the code.

        Raises:
            FloatingPointError: if an op made a NaN.
            IndexError: if an index was out of bounds.
            ValueError: if a `check` failed.
        """
        code = int(self.code)
        if code:
            kind, text = self.messages[code - 1]
            raise _KINDS[kind](text)


CHECK = Op("check", lambda ok, message: ok, lambda ok, message: ok, ("message",), smooth=slice(0))
"""The op of a user's check, which returns its condition. It has no effect except under `checkify`."""


@HOST.of(CHECK)
def _on_host(out: Any, params: tuple, ok: Any) -> Any:
    return ok


BATCH[CHECK] = batched_elementwise


def check(ok: Any, message: str) -> array:
    """Mark a condition for `checkify` to check; outside `checkify` it is not checked.

    Args:
        ok: a bool, or an array of bools that should all be true.
        message: the message if one is false.

    Returns:
        The condition. The result must depend on it, or the check is not part of the graph: `mx.where(check(n > 0, "…"),
        x / n, 0)`.

    Raises:
        ValueError: if `ok` has another dtype.

    Example:
        >>> def root(x):
        ...     return mx.where(mx.ext.check(x >= 0, "a negative number has no root"), mx.sqrt(mx.abs(x)), 0)
        >>> error, value = mx.ext.checkify(root)(mx.array(-4.0))
        >>> error.get()
        'a negative number has no root'
    """
    node = operand_node(ok)
    if node.aval.dtype is not bool_:
        raise ValueError(f"[check] The condition must be of dtype bool, not {node.aval}.")
    return wrap(apply(CHECK, (node,), (str(message),)))


def checkify(fun: Callable[..., Any], nan: bool = True, bounds: bool = True) -> Callable[..., Any]:
    """Return a version of `fun` that also returns the first failed check. It can be compiled.

    `debug.nan_check` runs op by op and raises at the line. Use `checkify` for code that is compiled, mapped or in a
    loop.

    Args:
        fun: takes and returns trees of arrays.
        nan: whether to check the result of each op for NaNs.
        bounds: whether to check index arrays of reads and writes: `x[i]`, `take`, `take_along_axis`, `x[i] = v` and the
            like. (Out of bounds, a read returns the nearest element and a write does nothing.)

    Returns:
        A function of the arguments of `fun` that returns `(error, value)`. `error.get()` is None, or the message of the
        first failed check, with its line. If independent ops failed, it is one of them. `error.throw()` raises it.

    Raises:
        TypeError: if `fun` is not callable.
        ValueError: when called, if `fun` reads the value of an array.

    Example:
        >>> checked = mx.compile(mx.ext.checkify(lambda x, i: mx.log(x)[i]))
        >>> error, value = checked(mx.array([1.0, 2.0]), mx.array([5]))
        >>> error.throw()
        Traceback (most recent call last):
            ...
        IndexError: [gather] An index is out of bounds for an axis of 2, ...
    """
    check_callable(fun, "checkify")
    asked = _Asked(nan, bounds)

    def call(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        arguments = (args, kwargs)
        reals = nodes_in(arguments)
        with Capture(reals) as capture:
            inner_args, inner_kwargs = rebuilt(arguments, handles(capture.placeholders))
            value = fun(*inner_args, **inner_kwargs)
            outputs = nodes_in(value)
            places = [location(n) for n in linearize(outputs, capture.id, capture.placeholders).order] or [""]
            body = capture.close(outputs)
        checked = _Checked(asked, mx.array(0))
        outs = checked.rebuild(body.program, (*reals, *body.captured), places)
        return Error(checked.code, tuple(checked.messages)), rebuilt(value, handles(outs))

    return named_after(fun, call)


class _Asked(NamedTuple):
    nan: bool
    bounds: bool


class _Checked:
    """Rebuilds Programs with checks.

    `code` is the number of the first failed check, an int32 array. `messages` has the kind and text of each check.
    """

    def __init__(self, asked: _Asked, code: array) -> None:
        self.asked = asked
        self.code = code
        self.messages: list[tuple[str, str]] = []

    def rebuild(self, program: Program, inputs: Sequence[Node], places: Sequence[str]) -> list[Node]:
        """Apply a Program's instructions with checks and return its outputs. `places` has the source line of each
        instruction, or a single one for all."""
        env: list[Node] = []
        for k, (op, params, slots) in enumerate(program.instructions):
            operands = tuple([env[s] if s >= 0 else inputs[~s] for s in slots])
            env.append(self._applied(op, params, operands, places[min(k, len(places) - 1)]))
        return [env[s] if s >= 0 else inputs[~s] for s in program.out_slots]

    def _applied(self, op: Op, params: tuple, operands: tuple[Node, ...], place: str) -> Node:
        if op in _INSIDE:
            return _INSIDE[op](self, op, params, operands, place)
        where = f", called at {place}." if place else "."
        if op is CHECK:
            self._add("check", params[0], mx.logical_not(mx.all(wrap(operands[0]))))
        if self.asked.bounds:
            for indices, n in _indices(op, params, operands):
                failed = mx.any(mx.logical_or(indices < -n, indices >= n))
                self._add("bounds", f"[{op}] An index is out of bounds for an axis of {n}{where}", failed)
        node = apply(op, operands, params)
        if self.asked.nan and op is not ITEM:
            for out in items(node) if isinstance(node.aval, tuple) else [node]:
                if out.aval.dtype._kind in "fc":
                    self._add("nan", f"[{op}] made a NaN{where}", mx.any(mx.isnan(wrap(out))))
        return node

    def _add(self, kind: str, text: str, failed: array) -> None:
        self.messages.append((kind, text))
        self.note(mx.where(failed, len(self.messages), 0))

    def note(self, code: array) -> None:
        """Set the error code to `code`, unless an earlier check has failed."""
        self.code = mx.where(self.code == 0, code, self.code)

    def body(self, program: Program, place: str, carried: bool = False) -> Body:
        """Return a Program with checks for an op that runs it. The code becomes its last output. If `carried`, the code
        is the first input and the first output instead."""
        before = self.code
        with Capture([*([_CODE] if carried else []), *program.in_avals]) as capture:
            inputs = capture.placeholders
            self.code = wrap(inputs[0]) if carried else mx.array(0)
            outs = self.rebuild(program, inputs[1:] if carried else inputs, [place])
            code = self.code._node
            body = capture.close([code, *outs] if carried else [*outs, code])
        self.code = before
        return body


def _indices(op: Op, params: tuple, operands: Sequence[Node]) -> Iterator[tuple[array, int]]:
    """Yield the index arrays among an op's inputs, with the sizes of the axes that they index."""
    if op in (GATHER_AXIS, SCATTER_AXIS):
        (axis,), shape = params, operands[0].aval.shape
        yield wrap(operands[-1]), operands[0].aval.size if axis is None else shape[axis]
    elif op in (GATHER, SCATTER):
        plan, inputs, shape = params[0], iter(operands[1 if op is GATHER else 2 :]), operands[0].aval.shape
        if plan and plan[0] == "*":
            shape, plan = (operands[0].aval.size,), plan[1:]
        for n, entry in zip(shape, source_axes(plan, len(shape)), strict=True):
            if entry == "a":
                yield wrap(next(inputs)), n
            elif entry == "i" or (type(entry) is tuple and entry[2] is None):
                next(inputs)  # Python ints are checked when the op is called


def _call(checked: _Checked, op: Op, params: tuple, operands: tuple[Node, ...], place: str) -> Node:
    program, *others = params
    body = checked.body(program, place)
    node = apply(op, (*operands, *body.captured), (body.program, *others))
    checked.note(wrap_all(node)[-1])
    return node


def _vmap(checked: _Checked, op: Op, params: tuple, operands: tuple[Node, ...], place: str) -> Node:
    program, in_axes, out_axes, size = params
    body = checked.body(program, place)
    axes = (*in_axes, *[None] * len(body.captured))
    node = apply(op, (*operands, *body.captured), (body.program, axes, (*out_axes, 0), size))
    codes = wrap_all(node)[-1]
    none = 1 + len(checked.messages)
    first = mx.min(mx.where(codes == 0, none, codes)) if size else mx.array(none)
    checked.note(mx.where(first == none, 0, first))
    return node


def _loop(checked: _Checked, op: Op, params: tuple, operands: tuple[Node, ...], place: str) -> Node:
    program = params[0]
    body = checked.body(program, place, carried=True)
    start = mx.array(0)._node
    if op is SCAN:
        _, carry, *others = params
        node = apply(op, (start, *operands, *body.captured), (body.program, carry + 1, *others))
    else:
        _, test, carry = params
        with Capture([_CODE, *test.in_avals]) as capture:
            tested = capture.close(test.rebuild(capture.placeholders[1:]))
        own, others = operands[: len(program.in_avals)], operands[len(program.in_avals) :]
        inputs = (start, *own, *body.captured, *others, *tested.captured)
        node = apply(op, inputs, (body.program, tested.program, carry + 1))
    code, *outs = items(node)
    checked.note(wrap(code))
    return apply(TUPLE, tuple(outs))


def _cond(checked: _Checked, op: Op, params: tuple, operands: tuple[Node, ...], place: str) -> Node:
    inputs, branches, reads = list(operands), [], []
    for program, places in zip(*params, strict=True):
        body = checked.body(program, place)
        branches.append(body.program)
        reads.append((*places, *range(len(inputs) - 1, len(inputs) - 1 + len(body.captured))))
        inputs += body.captured
    node = apply(op, tuple(inputs), (tuple(branches), tuple(reads)))
    checked.note(wrap_all(node)[-1])
    return node


_INSIDE: dict[Op, Callable[..., Node]] = {
    **dict.fromkeys((CALL, PURE_CALL, CHECKPOINT), _call),
    VMAP: _vmap,
    **dict.fromkeys((SCAN, WHILE), _loop),
    COND: _cond,
}
"""Maps ops that run Programs to functions that add checks to these Programs."""
