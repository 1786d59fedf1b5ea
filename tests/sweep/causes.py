"""Causes of differences. A difference outside `comparison.KINDS` must have one of these causes, or it is a fault."""

from __future__ import annotations

import math
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
    """A reason, and the findings that it explains: those that match all of the arguments given.

    Args:
        reason: a sentence or two for the page.
        expression: a pattern, found in the expression.
        dtypes, ways, whats, families: the allowed values of a finding; of its way, only the first word counts.
        real: a pattern, found in real MLX's result.
        within: limit for the distance of the first numbers that differ, absolute or relative.
        by_chance: True if it appears in some runs only.
    """

    reason: str
    expression: str = ""
    dtypes: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    whats: tuple[str, ...] = ()
    real: str = ""
    families: tuple[str, ...] = ()
    within: float = math.inf
    by_chance: bool = False

    def explains(self, finding: Finding) -> bool:
        return (
            re.search(self.expression, finding.expression) is not None
            and (not self.dtypes or finding.dtype in self.dtypes)
            and (not self.ways or finding.way.split()[0] in self.ways)
            and (not self.whats or finding.what in self.whats)
            and re.search(self.real, finding.real) is not None
            and (not self.families or finding.family in self.families)
            and (self.within == math.inf or _apart(finding) <= self.within)
        )


def _apart(finding: Finding) -> float:
    """Return the distance of the first numbers that differ, or infinity without numbers."""
    numbers = [re.match(r"\(?[-+\d.e]+(?:[-+][\d.e+-]+j\))?", text) for text in (finding.real, finding.ours)]
    try:
        a, b = (complex(n[0]) for n in numbers if n)
    except ValueError:
        return math.inf
    return abs(a - b) / max(1.0, abs(a), abs(b))


INTEGER_DERIVATIVES = Cause(
    "Derivatives with respect to integers and bools have the dtype of their argument, and are computed in floats "
    "within an op. MLX also truncates within some ops. It gives some derivatives another dtype (int32 after a sum).",
    dtypes=INTEGERS,
    ways=("vjp", "jvp"),
)

CAUSES: tuple[Cause, ...] = (
    INTEGER_DERIVATIVES,
    Cause(
        "`logsumexp` of bools and unsigned integers, and functions built from it: MLX subtracts the largest element "
        "in their dtype, which wraps around. mxcompat subtracts in floats.",
        r"logsumexp|log_softmax|LogSoftmax|cross_entropy|softmin|Softmin",
        ("bool_", "uint8", "uint16", "uint32", "uint64"),
        whats=("value",),
    ),
    Cause(
        "`mean` of unsigned integers does not wrap around.",
        r"mean|l1_loss|mse_loss|huber_loss|cross_entropy|gaussian_nll",
        ("uint8", "uint16", "uint32", "uint64"),
        whats=("value",),
    ),
    Cause(
        "Shifts by a negative number, or by at least the number of bits, are undefined: MLX's results depend on the "
        "size of the array.",
        r"<<|>>|_shift",
        INTEGERS,
        whats=("value",),
    ),
    Cause(
        "Softmax of unsigned integers over an axis other than the last: MLX subtracts the maximum with wrap-around, "
        "so that the exponentials overflow.",
        r"softmax",
        ("uint8", "uint16", "uint32", "uint64"),
        whats=("value",),
    ),
    Cause(
        "NaN, infinity and floats out of range as uint32: MLX's numbers depend on the place in the array.",
        r"nan|inf|1e10|3.4e38|1e300|special",
        ("uint32",),
        whats=("value",),
    ),
    Cause(
        "Numbers from 2**63 to 2**64 - 1 are accepted as uint64.",
        r"2\*\*63",
        ("uint64",),
        whats=("no exception",),
    ),
    Cause(
        "Complex `power`, `cumprod`, `logcumsumexp` and `arccosh`: MLX's derivative lacks a conjugate. Any number to "
        "the power 0 is 1 here, also NaN and 0; MLX gives NaN.",
        r"power|\*\*|\.pow\(|gelu_approx|GELU|cumprod|cumulative_prod|logcumsumexp|arccosh|acosh",
        ("complex64",),
        whats=("value",),
    ),
    Cause(
        "Complex products of infinities follow the formula, which may give NaN; MLX gives an infinity.",
        r"multiply\(",
        ("complex64",),
        ways=("special",),
        whats=("value",),
    ),
    Cause(
        "Derivatives of `all`, `any` and functions built from them are zero; MLX gives the derivatives of a product "
        "and of a sum.",
        r"\b(all|any|allclose|isclose|array_equal)\(",
        ways=("jvp", "vjp"),
        whats=("value", "dtype"),
    ),
    Cause(
        "Half precision: mxcompat computes a composite op in float32 and rounds once. MLX rounds after each of its "
        "steps, and sums in half precision.",
        dtypes=HALVES,
        whats=("value",),
        families=(
            "reductions",
            "products",
            "linalg",
            "fft",
            "fast",
            "quantized",
            "activations",
            "losses",
            "layers",
            "optimizers",
        ),
        within=0.15,
    ),
    Cause(
        "The tangent of `irfft` of an odd size has the shape of its value; MLX's is smaller.",
        r"irfft",
        ways=("jvp",),
        whats=("shape",),
    ),
    Cause(
        "`to_fp8` rounds float64 like other floats; MLX gives 0.",
        r"to_fp8",
        ("float64",),
        whats=("value",),
    ),
    Cause(
        "Quantized arrays: if two checks fail, MLX's error is about one of them, and ours about the other.",
        r"quantize|qmm|Quantized|QQLinear",
        whats=("exception", "message", "no exception"),
    ),
    Cause(
        "An array of bools among other indices of a write raises ValueError; in MLX the call fails with a SystemError, "
        "or other checks come first.",
        r"True|bool_|x > 0|\[False\]",
        ("float32",),
        ("plain",),
        ("exception", "message"),
        r"SystemError|broadcast_shapes|broadcast_to",
        ("indexing",),
    ),
    Cause(
        "`quantize` of float64 in the modes `mxfp8` and `nvfp4` rounds like other floats; MLX does not.",
        r"mx\.quantize\(.*(mxfp8|nvfp4)",
        ("float64",),
        whats=("value",),
    ),
    Cause(
        "Complex updates by `multiply` and `divide`: MLX's derivative lacks a conjugate.",
        r"\.at\[.*\]\.(multiply|divide)\(",
        ("complex64",),
        ("vjp",),
        ("value",),
    ),
    Cause(
        "`randint` has no derivative with respect to its bounds; MLX has one, which passes through internal casts.",
        r"random\.randint",
        ways=("vjp", "jvp"),
        whats=("value",),
    ),
    Cause(
        "`MultiOptimizer` keeps the order of the parameters; MLX's is arbitrary.",
        r"MultiOptimizer",
        whats=("keys",),
        by_chance=True,
    ),
    Cause(
        "The derivative of `var` is infinite if `ddof` exceeds the number of elements; MLX's is NaN.",
        r"mx\.var\(.*ddof=12",
        ways=("vjp", "jvp"),
        whats=("value",),
    ),
    Cause(
        "Sums of many products have another order.",
        r"block_masked_mm",
        ("float32",),
        whats=("value",),
        within=1e-4,
    ),
    Cause(
        "Sums of complex products over many steps have another order.",
        r"RNN|LSTM|GRU",
        ("complex64",),
        whats=("value",),
        within=1e-3,
    ),
    Cause(
        "The gradient of `full` with respect to its value is the sum of the cotangent; MLX multiplies it by the value.",
        r"mx\.full",
        ways=("vjp",),
        whats=("value",),
    ),
    Cause(
        "The tangent of `addmm` has the factors `alpha` and `beta`; MLX forgets them.",
        r"mx\.addmm\(.*alpha",
        ways=("jvp",),
        whats=("value",),
    ),
    Cause(
        "64-bit integers are `int64` and `uint64` to NumPy; MLX's are `longlong` and `ulonglong`, of the same size.",
        r"np\.",
        ("int64", "uint64"),
        whats=("type",),
        real=r"longlong",
    ),
    Cause(
        "`x.__array__()` is the method that NumPy calls here, and raises the same error as `np.array(x)`.",
        r"__array__",
        ("bfloat16",),
        whats=("exception",),
    ),
    Cause(
        "float64 stays float64 when it is pickled; MLX's becomes float32.",
        r"pickle",
        ("float64",),
        whats=("dtype",),
    ),
    Cause(
        "Attention and convolutions of float64 are computed in float64; MLX's in float32.",
        r"attention|conv",
        ("float64",),
        whats=("value",),
        within=1e-6,
    ),
    Cause(
        "The message for a value that does not fit a write names the shape of the selected places; MLX's shape has "
        "further axes for integer indices.",
        r"^put\(",
        whats=("message",),
        real=r"broadcast_shapes|Cannot broadcast",
    ),
    Cause(
        "The tangent of `pad` contains that of `constant_values`; MLX forgets it.",
        r"mx\.pad\(.*constant_values=y",
        ways=("jvp",),
    ),
)


def cause_of(finding: Finding, causes: Iterable[Cause] = CAUSES) -> Cause | None:
    """Return the first cause that explains a finding; None if it is a fault."""
    return next((cause for cause in causes if cause.explains(finding)), None)
