"""Rules: one registry for each interpretation of Programs, keyed by the op's record.

The graph knows an op only by its record. Families of ops and transforms register their rules here: the lowering,
NumPy's rule, derivatives in NumPy, and rewriting under a transform. If an op has no rule, `get` returns None, and the
caller decides on a fallback.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from .op import Op

__all__ = [
    "BATCH", "BODY", "CALLS", "CHAINED", "CONSTANT", "CONTRACTION", "COST", "DEPENDS", "EFFECT", "EFFECT_BATCH",
    "EFFECT_PULLBACK", "EFFECT_PUSHFORWARD", "ENDLESS", "FAILURE", "HOST", "INDEX_ERROR", "LAPACK", "LOWERING",
    "OVERWRITE", "PADDING", "PULLBACK", "PUSHFORWARD", "QUICK", "READS_INPUTS", "READS_NOTHING", "RESIDUALS",
    "SEGMENTS", "SHAPE", "SPECIALIZE", "SUBPROGRAMS", "SUPPORTS", "TANGENT_DTYPE", "Failure", "Residuals", "Rule",
    "Rules",
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
        """Decorate a function as the rule of these ops. Raise ValueError if one of them already has a rule."""

        def register(rule: Rule) -> Rule:
            for op in ops:
                if op in self:
                    raise ValueError(f"op {op} has two rules of one kind")
                self[op] = rule
            return rule

        return register


LOWERING = Rules()
"""`rule(*inputs, **params)`: the op on JAX arrays; a Python number that is a constant of the program is a NumPy scalar.
The rule is a pure function and casts its inputs itself. Its result has the dtype that the shape rule promised; it is a
tuple if the op has several outputs. Every op has this rule."""

SHAPE = Rules()
"""`rule(*avals, **params)`: the aval of the result (a tuple for several outputs), or MLX's error. For an op without
this rule, JAX traces the lowering."""

HOST = Rules()
"""`rule(out, params, *inputs)`: the op on NumPy arrays. It gives the same result as XLA: exactly for integers, within a
rounding error for floats. `out` is the result's aval (a tuple for several outputs), and `params` is the op's tuple. The
result has that shape and dtype, and may be a view of an input. None means that XLA should compute these inputs."""

OVERWRITE = Rules()
"""`rule(out, params, place, *inputs)`: as HOST, but it may write the result into `inputs[place]`, which has the
result's shape and dtype and no other reader. For an op with `in_place`, `place` is 0 and the rule updates the first
input in place."""

COST = Rules()
"""`rule(out, params, *avals)`: estimated seconds in NumPy, for ops that do more than read and write each element a few
times."""

CHAINED: dict[Op, int] = {}
"""Elementwise ops that C can compute together with others, with their numbers in C. See `run.chains`."""

QUICK: set[Op] = set()
"""Ops that are as fast in NumPy as in XLA, even for large results, and do not use BLAS. A Program of mostly such ops is
not compiled early."""

CONSTANT: set[Op] = set()
"""Ops whose results depend on shapes and params alone. Their HOST rules need no inputs."""

LAPACK: set[Op] = set()
"""Ops for which XLA calls LAPACK on a CPU."""


class Failure(NamedTuple):
    """The failures of an op whose arguments have valid shapes and dtypes.

    Args:
        messages: Maps the params to messages, to each of which a code is appended. An op has one message, or none if it
            cannot fail with these params. An op that runs Programs has those of the Programs.
        run: `run(params, inputs)` on JAX arrays. Returns the result of the lowering, and for each message an int32
            array of any shape, with the codes of failures and 0 elsewhere.
    """

    messages: Callable[[tuple], tuple[str, ...]]
    run: Callable[[tuple, Sequence[Any]], tuple[Any, list[Any]]]


FAILURE: dict[Op, Failure] = {}
"""The ops that may fail, with RuntimeError. Their HOST rules return None for inputs that fail, so that XLA reports the
failure. See `run.failures`."""

ENDLESS: dict[Op, Callable[[tuple], bool]] = {}
"""Ops that may run loops whose number of iterations depends on the data. Each entry is a function of the params, which
returns True if there is such a loop. See `run.endless`."""

PULLBACK = Rules()
"""`rule(g, y, params, needs_grad, *inputs)`: the cotangents of the inputs, a tuple of NumPy arrays. `g` is the
cotangent of the result `y`. For an op with several outputs both are tuples, and `g` has None for a zero cotangent.
`needs_grad` has True for each input whose cotangent is needed. A cotangent may be None if it is zero or not needed. It
may have a broadcast shape or another float dtype: the caller sums it to the input's shape and casts it. The conventions
are JAX's: linear in `g`, complex numbers not conjugated."""


class Residuals(NamedTuple):
    """The values that a pullback reads: a slice of the inputs, and whether it reads the result."""

    inputs: slice = slice(None)
    result: bool = True


READS_INPUTS, READS_NOTHING = Residuals(result=False), Residuals(slice(0), False)

RESIDUALS: dict[Op, Residuals] = {}
"""The values that the PULLBACK of an op reads besides shapes and dtypes. Other large arrays are freed before the
backward pass, which gets arrays of NaN in their place. An op without an entry reads everything."""

PUSHFORWARD = Rules()
"""`rule(tangents, y, params, *inputs)`: the tangent of the result `y`, given the inputs' tangents (None where zero), as
NumPy arrays. The caller casts and broadcasts, as for PULLBACK."""

BATCH = Rules()
"""`rule(op, params, inputs, batched, size)`: a node of the op over a new first axis of this size. The `batched` inputs
(at least one) have the axis, and all outputs get it. None if the op cannot be batched."""

BODY = Rules()
"""`rule(params)`, for ops that run a Program: that Program. Its inputs are the first inputs of the op, and its outputs
the op's first results. Further results (tangents, for example) depend on all inputs."""

CALLS: set[Op] = set()
"""Ops whose results are exactly those of a Program, their first param, for their first inputs."""

SUPPORTS = Rules()
"""`rule(kind, params, needs_grad)`, for ops that run Programs: True if those Programs have all rules of `kind` (HOST,
PULLBACK or PUSHFORWARD). For derivatives, `needs_grad` has True for each input with a derivative."""

DEPENDS = Rules()
"""`rule(params, result, behind_stops)`, for ops with several results: the inputs that this result is computed from, or
None if unknown. See `_transforms/programs/dependence.py`."""

PADDING = Rules()
"""`rule(node, axis, pad)`: the padded node of an op that keeps the padded axis. See `_ops/padding/padded.py`."""

CONTRACTION = Rules()
"""`rule(node, paddings)`, for an op that sums over a padded axis: inputs and params that give its result from padded
nodes. See `_ops/padding/padded.py`."""

SEGMENTS = Rules()
"""`rule(node)`, for ops that run a Program: one node for each result, which together compute the same in smaller
pieces. None if the op should run as a whole."""

SPECIALIZE = Rules()
"""`rule(node, capture)`: may rewrite a node of a body for the transform that closes over it (`capture.mode`). Returns
True if it did."""

EFFECT = Rules()
"""`rule(node)`, for ops that are never part of an executable or of a NumPy run, such as a collective: the op's values.
Such an op is an effect: it runs alone, and effects run in the order in which they were made. The node's inputs have
values. The result is a tuple, even for one output. See `run.effects`."""

EFFECT_PULLBACK = Rules()
"""`rule(params, inputs, cotangents)`: for an op with an EFFECT rule, the nodes of the inputs' cotangents, given the
nodes of the outputs' cotangents."""

EFFECT_PUSHFORWARD = Rules()
"""`rule(params, inputs, tangents)`: for an op with an EFFECT rule, the nodes of the outputs' tangents, given the nodes
of the inputs' tangents."""

EFFECT_BATCH = Rules()
"""`rule(params, inputs, batched, size)`: for an op with an EFFECT rule, the nodes of its outputs over a new first axis,
as for BATCH."""

TANGENT_DTYPE = Rules()
"""`rule(tangents, operands, result)`, for casts and for ops whose tangents are zero: the dtype of the tangent that
`jvp` returns. `tangents` has the dtype of each operand's tangent, or None for an operand without one; at least one has
a tangent. `operands` are the operands' avals, and `result` is the result's aval. Other ops follow
`_transforms/derivative_dtypes/tangents.py`."""

INDEX_ERROR = Rules()
"""`rule(transform, params, places, operands)`: the error for a derivative ("VJP" or "JVP") with respect to an op's
indices, or None if it is allowed. `places` are the positions of the differentiated indices; for an op without indices,
of all differentiated inputs. `operands` are the inputs' avals. Without this rule, the error is a ValueError with the
op's name."""

SUBPROGRAMS = Rules()
"""`rule(params, active, transform)`, for ops that run Programs: pairs of a Program and the set of its inputs that
depend on a differentiated array. `active` is that set for the op's inputs. Raises ValueError if the op has no such
derivative ("VJP" or "JVP")."""
