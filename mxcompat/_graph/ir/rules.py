"""Rules: what each interpretation of a program makes of each op, one registry for each, all keyed by the op's record.

An op is known to the graph by its record alone. How it is lowered, how NumPy runs it, how it is differentiated there,
what it means under a transform: whoever interprets programs looks in the registry of that interpretation, and families
of ops, or transforms, put their rules there. Where an op has no rule, `get` gives None and the caller says what then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .op import Op

__all__ = [
    "BATCH", "BODY", "CALLS", "CONTRACTION", "COST", "COVERED", "DEPENDS", "FAILURE", "HOST", "INDEX_ERROR",
    "LAPACK", "LOWERING", "OVERWRITE", "PADDING", "PULLBACK", "PUSHFORWARD", "QUICK", "READS_INPUTS", "READS_NOTHING",
    "RESIDUALS", "SEGMENTS", "SHAPE", "SPECIALIZE", "STEP", "STEP_BATCH", "STEP_PULLBACK", "STEP_PUSHFORWARD",
    "TANGENT_DTYPE", "WITHIN", "Failure", "Residuals", "Rule", "Rules",
]  # fmt: skip

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Rules(dict["Op", Callable[..., Any]]):
    """The rules of one interpretation.

    Example:
        >>> @HOST.of(SIN)
        ... def _(out, params, x):
        ...     return np.sin(x)
    """

    def of(self, *ops: Op) -> Callable[[Rule], Rule]:
        """A decorator: the function is the rule of these ops. Raises ValueError if one of them has a rule already."""

        def register(rule: Rule) -> Rule:
            for op in ops:
                if op in self:
                    raise ValueError(f"op {op} has two rules of one kind")
                self[op] = rule
            return rule

        return register


LOWERING = Rules()
"""`rule(*inputs, **params)`: the op on JAX arrays (or NumPy scalars, where an input is a Python number baked into the
program). A pure function that casts its inputs itself; its result, a tuple of arrays if the op has several outputs, has
the dtype that the shape rule promised. Every op has one."""

SHAPE = Rules()
"""`rule(*avals, **params)`: the aval of the result (a tuple of them for several outputs), or MLX's error. An op without
one is evaluated abstractly by JAX."""

HOST = Rules()
"""`rule(out, params, *inputs)`: the op on NumPy arrays, to give the same as XLA: exactly for integers, within a
rounding for floats. `out` is the result's aval (a tuple of them for several outputs) and `params` the op's, as a tuple.
The result has that shape and dtype; it may be a view of an input. None says that these inputs had better be left to
XLA."""

OVERWRITE = Rules()
"""`rule(out, params, place, *inputs)`: as HOST, where nobody else sees `inputs[place]`, which has the shape and dtype
of the result: it may be written over, and be the result. Of an op whose result is the first input but for a few
elements (`op.in_place`) it is the first, and is written over."""

COST = Rules()
"""`rule(out, params, *avals)`: about how many seconds NumPy takes, for ops that do more than read and write each
element a few times."""

QUICK: set[Op] = set()
"""The ops that NumPy takes no longer for than XLA, however large their results: what mostly consists of these is not
compiled early."""

LAPACK: set[Op] = set()
"""The ops for which XLA calls LAPACK on a CPU."""


class Failure(NamedTuple):
    """What an op cannot compute, though its arguments have the right shapes and dtypes.

    Args:
        messages: what to say, from the params, before each code: one message, none if the op does not fail with these
            params, or those of the programs that it runs.
        run: `run(params, inputs)`, on JAX arrays: what the op's lowering gives, and for each message an array of int32,
            of whatever shape, with the codes of what failed, and 0 elsewhere.
    """

    messages: Callable[[tuple], tuple[str, ...]]
    run: Callable[[tuple, Sequence[Any]], tuple[Any, list[Any]]]


FAILURE: dict[Op, Failure] = {}
"""The ops that may fail, with RuntimeError. Their rules in HOST leave to XLA what does. See `run.failures`."""

PULLBACK = Rules()
"""`rule(g, y, params, wanted, *inputs)`: the cotangents of the inputs, a tuple of NumPy arrays, of `g`, that of the
result `y` (for an op with several outputs both are tuples, and what has no cotangent is None in `g`). `wanted` says for
each input whether its cotangent is asked for; the others may be None, and so may one that is zero. A cotangent may
still be broadcast, or of another float dtype: whoever asks sums it to the input's shape and casts it. Conventions are
JAX's: linear in `g`, complex numbers not conjugated."""


class Residuals(NamedTuple):
    """The values that a pullback reads: of these inputs, and whether of the result."""

    inputs: slice = slice(None)
    result: bool = True


READS_INPUTS, READS_NOTHING = Residuals(result=False), Residuals(slice(0), False)

RESIDUALS: dict[Op, Residuals] = {}
"""What the PULLBACK of an op reads besides shapes and dtypes; where there are large arrays nothing else is kept for it,
and it is given arrays of these shapes that hold NaN. An op that is not there reads everything."""

PUSHFORWARD = Rules()
"""`rule(tangents, y, params, *inputs)`: the tangent of the result `y`, of those of the inputs (None where zero), as
NumPy arrays; casts and broadcasts as for PULLBACK."""

BATCH = Rules()
"""`rule(op, params, inputs, batched, size)`: a node of the op over a new first axis of the given size, from input nodes
of which those that are `batched` have that axis (one at least); None if it cannot. All its outputs have the axis."""

BODY = Rules()
"""`rule(params)`, for ops that run a Program: that Program. Its inputs are the first of the op's, its outputs the first
of the op's results; what else there is, tangents, say, has to do with all of them."""

CALLS: set[Op] = set()
"""The ops that run the Program which is the first of their params on the first of their inputs, and give its outputs:
to values they are nothing else."""

COVERED = Rules()
"""`rule(kind, params, wanted)`, for ops that run Programs: whether the rules of `kind` (HOST, PULLBACK or PUSHFORWARD)
reach through these; for the latter two `wanted` says which inputs have a derivative."""

DEPENDS = Rules()
"""`rule(params, result, behind_stops)`, for ops with several results: which inputs that result is computed from, or
None if that is not known. See `_transforms/dependence.py`."""

PADDING = Rules()
"""`rule(node, axis, pad)`: the padded node of one that keeps to an axis. See `_ops/padding/padded.py`."""

CONTRACTION = Rules()
"""`rule(node, paddings)`: inputs and params, from padded nodes, that give the result of an op which sums over a padded
axis. See `_ops/padding/padded.py`."""

SEGMENTS = Rules()
"""`rule(node)`, for ops that run a Program: nodes that compute the same in smaller steps, one for each result, or None
if the op had better run as a whole."""

SPECIALIZE = Rules()
"""`rule(node, capture)`, called on each node of a body that a transform closes over: may rewrite the node into what it
means under that transform (`capture.mode`), and says whether it did."""

STEP = Rules()
"""`rule(node)`: the values of an op that runs by itself, as a step of the evaluation: it is never part of an
executable, nor of what NumPy runs, and such steps are taken in the order in which they were made. The node's inputs
have values; the result is a tuple, also of one. See `run.steps`."""

STEP_PULLBACK = Rules()
"""`rule(params, inputs, cotangents)`: for an op with a rule in STEP, nodes of the cotangents of its inputs, from nodes
of those of its outputs."""

STEP_PUSHFORWARD = Rules()
"""`rule(params, inputs, tangents)`: for an op with a rule in STEP, nodes of the tangents of its outputs, from nodes of
those of its inputs."""

STEP_BATCH = Rules()
"""`rule(params, inputs, batched, size)`: for an op with a rule in STEP, nodes of its outputs over a new first axis, as
BATCH has it."""

TANGENT_DTYPE = Rules()
"""`rule(tangents, operands, result)`, for ops whose tangents are zero, and casts: the dtype of the tangent that `jvp`
gives, from those of the operands (None for one that no primal moves; one at least is), from all operands' avals, and
from the result's. Without one it is what `_transforms/tangents.py` says."""

INDEX_ERROR = Rules()
"""`rule(transform, params, places, operands)`: the error that a derivative ("VJP" or "JVP") with respect to the indices
of an op is, from their positions among the inputs (of an op without indices, those of all inputs that are
differentiated), and from the inputs' avals; None if it is none. Without a rule, a ValueError with the op's name."""

WITHIN = Rules()
"""`rule(params, active, transform)`, for ops that run Programs: pairs of a Program and those of its inputs that depend
on what is differentiated, from those of the op's inputs that do (sets of positions). Raises ValueError where no
derivative ("VJP" or "JVP") passes."""
