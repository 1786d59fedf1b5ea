"""The ops of control flow, SCAN, WHILE and COND, and their lowering for XLA.

The first inputs of each op are passed to the body: the carry, and the arrays that are scanned over. The nodes that the
bodies captured come last, and have derivatives, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import ENDLESS, FAILURE, SUBPROGRAMS, Failure
from mxcompat._graph.run import failures
from mxcompat._graph.run.endless import while_loop
from mxcompat._jax import jnp, lax

from ..transform_ops import dependent_outputs

__all__ = ["COND", "SCAN", "WHILE"]


def _checked(name: str, inputs: Sequence[Any], avals: Sequence[Aval]) -> Sequence[Any]:
    """Return the inputs. Raise ValueError for a float proxy of an integer: derivatives through integers end here."""
    for x, a in zip(inputs, avals, strict=True):
        if x.dtype != a.dtype._numpy:
            raise ValueError(
                f"[{name}] Cannot calculate a derivative with respect to an array of dtype {a.dtype._label}. Give it "
                "as floating-point numbers, or stop_gradient of it."
            )
    return inputs


Run = Callable[[Program, Sequence[Any]], tuple[list[Any], list[Any]]]
"""A function that runs a body. It returns the body's outputs, and the error codes of instructions that failed."""


def _without_codes(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    return program.replay(inputs), []


def _with_codes(program: Program, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    outputs, codes = failures.run(program, inputs)
    return outputs, [*map(failures.first, codes)]


def _typed(program: Program, outputs: Sequence[Any]) -> tuple:
    """Convert a body's results to the dtypes of its Program, because JAX compares the dtypes of a carry."""
    return tuple([jnp.asarray(x, a.dtype._numpy) for x, a in zip(outputs, program.out_avals, strict=True)])


def _scan(
    run: Run, inputs: Sequence[Any], program: Program, carry: int, sequences: int, length: int, reverse: bool
) -> tuple[tuple, list[Any]]:  # fmt: skip
    _checked("scan", inputs, program.in_avals)
    end = carry + sequences

    def step(state: tuple, xs: tuple) -> tuple[tuple, tuple]:
        outputs, codes = run(program, [*state, *xs, *inputs[end:]])
        outputs = _typed(program, outputs)
        return outputs[:carry], (outputs[carry:], codes)

    init = tuple(map(jnp.asarray, inputs[:carry]))
    final, (ys, codes) = lax.scan(step, init, tuple(inputs[carry:end]), length=length, reverse=reverse)
    return (*final, *ys), codes


def _scan_avals(*_: Aval, program: Program, carry: int, sequences: int, length: int, reverse: bool) -> tuple:
    outs = program.out_avals
    return (*outs[:carry], *[aval((length, *a.shape), a.dtype) for a in outs[carry:]])


SCAN = Op(
    "scan",
    lambda *inputs, **params: _scan(_without_codes, inputs, **params)[0],
    _scan_avals,
    ("program", "carry", "sequences", "length", "reverse"),
)
"""Inputs: the first carry, arrays with the steps along their first axis, and the captured nodes. The Program maps the
carry, one entry of each array and the captured nodes to the next carry and the results to stack. Outputs: the last
carry, and the stacked results."""

FAILURE[SCAN] = Failure(
    lambda params: failures.messages(params[0]), lambda params, inputs: _scan(_with_codes, inputs, *params)
)


def _while(
    run: Run, inputs: Sequence[Any], program: Program, test: Program, carry: int, codes: int
) -> tuple[tuple, list[Any]]:  # fmt: skip
    count = len(program.in_avals)
    _checked("while_loop", inputs, [*program.in_avals, *test.in_avals[carry:]])

    def step(state: tuple[tuple, list[Any]]) -> tuple[tuple, list[Any]]:
        outputs, failures = run(program, [*state[0], *inputs[carry:count]])
        codes = [jnp.where(old != 0, old, new) for old, new in zip(state[1], failures, strict=True)]
        return _typed(program, outputs), codes

    return while_loop(
        lambda state: _typed(test, test.replay([*state[0], *inputs[count:]]))[0],
        step,
        (tuple(map(jnp.asarray, inputs[:carry])), [jnp.int32(0)] * codes),
    )


WHILE = Op(
    "while_loop",
    lambda *inputs, **params: _while(_without_codes, inputs, **params, codes=0)[0],
    lambda *_, program, test, carry: program.out_avals,
    ("program", "test", "carry"),
)
"""Inputs: the first carry, the nodes that the body captured, the nodes that the test captured. Both Programs take the
carry and their captured nodes. Outputs: the first carry for which the test is false."""

ENDLESS[WHILE] = lambda params: True
FAILURE[WHILE] = Failure(
    lambda params: failures.messages(params[0]),
    lambda params, inputs: _while(_with_codes, inputs, *params, codes=len(failures.messages(params[0]))),
)


def _cond(
    run: Run, inputs: Sequence[Any], branches: tuple[Program, ...], reads: tuple[tuple[int, ...], ...]
) -> tuple[tuple, list[Any]]:  # fmt: skip
    index, *values = inputs
    counts = [len(failures.messages(p)) if run is _with_codes else 0 for p in branches]

    def branch(k: int) -> Callable[[], tuple[tuple, list[Any]]]:
        program = branches[k]
        operands = _checked("cond", [values[place] for place in reads[k]], program.in_avals)

        def outputs_and_codes() -> tuple[tuple, list[Any]]:
            outputs, codes = run(program, operands)
            before, after = sum(counts[:k]), sum(counts[k + 1 :])
            return _typed(program, outputs), [*[jnp.int32(0)] * before, *codes, *[jnp.int32(0)] * after]

        return outputs_and_codes

    return lax.switch(index, [branch(k) for k in range(len(branches))])


COND = Op(
    "cond",
    lambda *inputs, **params: _cond(_without_codes, inputs, **params)[0],
    lambda *_, branches, reads: branches[0].out_avals,
    ("branches", "reads"),
    smooth=slice(1, None),
)
"""Inputs: the number of the branch (an int32, clamped), and the inputs of all branches. `reads` lists, for each branch,
the positions of its inputs. Outputs: those of the branch, with the same avals in all branches."""

FAILURE[COND] = Failure(
    lambda params: tuple([m for p in params[0] for m in failures.messages(p)]),
    lambda params, inputs: _cond(_with_codes, inputs, *params),
)


@SUBPROGRAMS.of(SCAN)
def _scan_subprograms(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    program, carry, *_ = params
    return [(program, _with_carry(program, carry, active))]


@SUBPROGRAMS.of(WHILE)
def _while_subprograms(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    program, _, carry = params
    differentiable = _with_carry(program, carry, {k for k in active if k < len(program.in_avals)})
    if transform == "VJP" and any(program.in_avals[k].dtype._kind in "fc" for k in differentiable):
        raise ValueError(
            "[while_loop] Cannot calculate VJP: how many steps there are is not known before, and so not how much to "
            "keep of them. Use fori_loop with Python ints as bounds, or scan with a `where` for the steps behind the "
            "end, or forward mode (jvp), or the rules of a custom_function around the loop."
        )
    return [(program, differentiable)]


@SUBPROGRAMS.of(COND)
def _cond_subprograms(params: tuple, active: set[int], transform: str) -> list[tuple[Program, set[int]]]:
    return [(p, {j for j, k in enumerate(places) if k + 1 in active}) for p, places in zip(*params, strict=True)]


def _with_carry(program: Program, carry: int, active: set[int]) -> set[int]:
    """Return the body's inputs that may depend on the differentiated inputs after some number of steps."""
    differentiable = set(active)
    while more := {k for k in dependent_outputs(program, differentiable) if k < carry} - differentiable:
        differentiable |= more
    return differentiable
