"""Why a cell differs. What is of none of `comparison.KINDS` must have one of these causes, or it is a fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tests.sweep.cases import DTYPES
from tests.sweep.worker import Finding

__all__ = ["CAUSES", "INTEGER_DERIVATIVES", "Cause", "cause_of"]

INTEGERS = tuple(d for d in DTYPES if "int" in d or d == "bool_")
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Cause:
    """A reason, and the findings that it explains: those that agree with all of the arguments given.

    Args:
        reason: a sentence or two for the page.
        expression: a pattern, found in the expression.
        dtypes, ways, whats: a finding's must be among them (of `ways`, the first word).
    """

    reason: str
    expression: str = ""
    dtypes: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    whats: tuple[str, ...] = ()
    real: str = ""

    def explains(self, found: Finding) -> bool:
        return (
            re.search(self.expression, found.expression) is not None
            and (not self.dtypes or found.dtype in self.dtypes)
            and (not self.ways or found.way.split()[0] in self.ways)
            and (not self.whats or found.what in self.whats)
            and re.search(self.real, found.real) is not None
        )


INTEGER_DERIVATIVES = Cause(
    "Derivatives with respect to integers and bools: here computed in floats, truncated once, and of the dtype "
    "of their argument. MLX truncates at every op, and gives some of them another dtype (int32 where a sum is "
    "on the way).",
    dtypes=INTEGERS,
    ways=("vjp", "jvp"),
)

CAUSES: tuple[Cause, ...] = (
    INTEGER_DERIVATIVES,
    Cause(
        "`logsumexp` of bools and unsigned integers, and what is made of it: MLX subtracts the largest element in "
        "that dtype, which wraps around. Here it is that of the numbers.",
        r"logsumexp|log_softmax|LogSoftmax|cross_entropy|softmin|Softmin",
        ("bool_", "uint8", "uint16", "uint32", "uint64"),
        whats=("value",),
    ),
    Cause(
        "A bool array beside an int that does not fit int32 raises, as it does beside an int32 array; MLX wraps the "
        "int.",
        r"2\*\*(31|40)",
        ("bool_",),
        whats=("exception",),
    ),
    Cause(
        "Shifts by a negative number, or by more bits than there are, are undefined: MLX's results depend on the "
        "size of the array.",
        r"<<|>>|_shift",
        INTEGERS,
        whats=("value",),
    ),
    Cause(
        "NaN, infinity and floats out of range become other undefined numbers as unsigned integers.",
        r"nan|inf|1e10|3.4e38|1e300",
        ("uint8", "uint16", "uint32", "uint64"),
        whats=("value",),
    ),
    Cause(
        "Numbers from 2**63 to 2**64 - 1 are accepted as uint64.",
        r"2\*\*63",
        ("uint64",),
        whats=("no exception",),
    ),
    Cause(
        "Complex `power`: the derivative is the conjugate of JAX's, as all complex derivatives are; MLX forgets to "
        "conjugate it. A number to the power 0 is 1, also NaN and 0; MLX gives NaN.",
        r"power|\*\*|\.pow\(|gelu_approx|GELU",
        ("complex64",),
        whats=("value",),
    ),
    Cause(
        "Complex functions at infinity and NaN: which part of the result is NaN differs, in MLX by the size of the "
        "array.",
        dtypes=("complex64",),
        ways=("special",),
        whats=("value",),
    ),
    Cause(
        "Tangents of `all` and `any` are zero; those of MLX are of a product and of a sum.",
        r"\b(all|any)\(",
        ways=("jvp",),
        whats=("value", "dtype"),
    ),
    Cause(
        "Half precision: what is here one op is computed in float32 and rounded once; MLX rounds after each of the "
        "steps that it is made of, and adds up in half precision.",
        dtypes=HALVES,
        whats=("value",),
    ),
    Cause(
        "The message for index arrays that do not broadcast names their shapes; MLX's those of what it has made of "
        "them.",
        r"\[.*\]",
        whats=("message",),
        real="broadcast_shapes",
    ),
    Cause(
        "The tangent of `pad` contains that of `constant_values`; MLX forgets it.",
        r"mx\.pad\(.*constant_values=y",
        ways=("jvp",),
    ),
)


def cause_of(found: Finding, causes: Iterable[Cause] = CAUSES) -> Cause | None:
    """The first cause that explains a finding; None if it is a fault."""
    return next((cause for cause in causes if cause.explains(found)), None)
