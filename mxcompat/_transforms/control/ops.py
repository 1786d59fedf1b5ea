"""The ops of control flow, SCAN, WHILE and COND: they run Programs as often as data says. And how XLA runs them.

The first inputs of each are those that a body is given (a carry, what is scanned over); what the bodies captured comes
after them, and has derivatives like these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import WITHIN
from mxcompat._jax import jnp, lax

from ..lowering import dependent_outputs

__all__ = ["COND", "SCAN", "WHILE"]


def _checked(name: str, inputs: Sequence[Any], avals: Sequence[Aval]) -> Sequence[Any]:
    """The inputs. One of another dtype is a float that stands for integers in a derivative, which end here."""
    for x, a in zip(inputs, avals, strict=True):
        if x.dtype != a.dtype._numpy:
            raise ValueError(
                f"[{name}] Cannot calculate a derivative with respect to an array of dtype {a.dtype._label}. Give it "
                "as floating-point numbers, or stop_gradient of it."
            )
    return inputs


def _outputs(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """What a body returns, as arrays of the dtypes that its Program promises: JAX compares the types of a carry."""
    found = program.replay(inputs)
    return [jnp.asarray(x, a.dtype._numpy) for x, a in zip(found, program.out_avals, strict=True)]


def _scan(*inputs: Any, program: Program, carry: int, sequences: int, length: int, reverse: bool) -> tuple:
    _checked("scan", inputs, program.in_avals)
    end = carry + sequences

    def step(state: tuple, xs: tuple) -> tuple[tuple, tuple]:
        outs = _outputs(program, [*state, *xs, *inputs[end:]])
        return tuple(outs[:carry]), tuple(outs[carry:])

    init = tuple(map(jnp.asarray, inputs[:carry]))
    final, ys = lax.scan(step, init, tuple(inputs[carry:end]), length=length, reverse=reverse)
    return (*final, *ys)


def _scan_avals(*_: Aval, program: Program, carry: int, sequences: int, length: int, reverse: bool) -> tuple:
    outs = program.out_avals
    return (*outs[:carry], *[aval((length, *a.shape), a.dtype) for a in outs[carry:]])


SCAN = Op("scan", _scan, _scan_avals, ("program", "carry", "sequences", "length", "reverse"))
"""Inputs: the first carry, arrays with the steps along their first axis, what the body captured. The Program is given
the carry, an entry of each of these, and what it captured; it returns the next carry, and what is stacked. Outputs: the
last carry, and that."""


def _while(*inputs: Any, program: Program, test: Program, carry: int) -> tuple:
    count = len(program.in_avals)
    _checked("while_loop", inputs, [*program.in_avals, *test.in_avals[carry:]])
    return lax.while_loop(
        lambda state: _outputs(test, [*state, *inputs[count:]])[0],
        lambda state: tuple(_outputs(program, [*state, *inputs[carry:count]])),
        tuple(map(jnp.asarray, inputs[:carry])),
    )


WHILE = Op(
    "while_loop",
    _while,
    lambda *_, program, test, carry: program.out_avals,
    ("program", "test", "carry"),
)
"""Inputs: the first carry, what the body captured, what the test captured. Each of the two Programs is given the carry
and its own. Outputs: the first carry that the test is not true of."""


def _cond(index: Any, *inputs: Any, branches: tuple[Program, ...], reads: tuple[tuple[int, ...], ...]) -> tuple:
    def branch(program: Program, places: tuple[int, ...]) -> Any:
        given = _checked("cond", [inputs[k] for k in places], program.in_avals)
        return lambda: tuple(_outputs(program, given))

    return lax.switch(index, [branch(p, places) for p, places in zip(branches, reads, strict=True)])


COND = Op(
    "cond",
    _cond,
    lambda *_, branches, reads: branches[0].out_avals,
    ("branches", "reads"),
    smooth=slice(1, None),
)
"""Inputs: which branch to run, an int32, clamped; what any of them reads. `reads` has, for each Program among the
branches, which of these it is given. Outputs: its own, which are alike in all."""


@WITHIN.of(SCAN)
def _within_scan(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    program, carry, *_ = params
    return [(program, _with_carry(program, carry, active))]


@WITHIN.of(WHILE)
def _within_while(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    program, _, carry = params
    found = _with_carry(program, carry, {k for k in active if k < len(program.in_avals)})
    if transform == "VJP" and any(program.in_avals[k].dtype._kind in "fc" for k in found):
        raise ValueError(
            "[while_loop] Cannot calculate VJP: how many steps there are is not known before, and so not how much to "
            "keep of them. Use fori_loop with Python ints as bounds, or scan with a `where` for the steps behind the "
            "end, or forward mode (jvp), or the rules of a custom_function around the loop."
        )
    return [(program, found)]


@WITHIN.of(COND)
def _within_cond(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    return [(p, {j for j, k in enumerate(places) if k + 1 in active}) for p, places in zip(*params, strict=True)]


def _with_carry(program: Program, carry: int, active: set[int]) -> set[int]:
    """The inputs of a body that depend on what is differentiated after any number of steps."""
    found = set(active)
    while more := {k for k in dependent_outputs(program, found) if k < carry} - found:
        found |= more
    return found
