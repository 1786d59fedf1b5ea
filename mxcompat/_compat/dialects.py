"""StableHLO as JAX gives it: modules that are read and changed by the bindings of MLIR which come with jaxlib.

The passes in `_graph.passes` do that. A pass that fails is left out, of the program that it failed on, and said once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mxcompat._jax import stand_in

from .registry import unpromised

__all__ = ["attempt", "func", "ir", "stablehlo", "stablehlo_edits"]

ir: Any = stand_in("jaxlib.mlir.ir")
func: Any = stand_in("jaxlib.mlir.dialects.func")
stablehlo: Any = stand_in("jaxlib.mlir.dialects.stablehlo")

_NAMES = {
    "ir": (
        "ArrayAttr", "BlockArgument", "DenseElementsAttr", "DenseFPElementsAttr", "DictAttr", "F16Type", "F32Type",
        "F64Type", "FloatAttr", "FunctionType", "InsertionPoint", "IntegerAttr", "IntegerType", "Location", "OpResult",
        "RankedTensorType", "StringAttr", "WalkResult",
    ),
    "func": ("CallOp", "FuncOp", "ReturnOp"),
    "stablehlo": (
        "ComparisonDirectionAttr", "DotDimensionNumbers", "ReduceOp", "add", "broadcast_in_dim", "compare", "constant",
        "convert", "divide", "dot_general", "maximum", "minimum", "multiply", "negate", "optimization_barrier", "pad",
        "reduce_precision", "reshape", "return_", "select", "slice", "transpose",
    ),
}  # fmt: skip
"""What the passes use of these modules."""


@unpromised(
    "stablehlo-edits",
    "programs are rewritten before XLA compiles them, so that its code is right in all cases, and faster",
    "XLA neither simplifies nor fuses, so that its code is right in all cases, and slower",
)
def stablehlo_edits() -> bool:
    modules = {"ir": ir, "func": func, "stablehlo": stablehlo}
    missing = [f"{key}.{name}" for key, names in _NAMES.items() for name in names if not hasattr(modules[key], name)]
    if missing:
        raise AttributeError(f"there is no {', '.join(missing)}")
    return True


_T = TypeVar("_T")
_failed: set[str] = set()


def attempt(work: Callable[[Any], _T], module: Any) -> tuple[bool, _T | None]:
    """Have a module read or changed. Returns whether that was done, and the result. If it was not, the module may be
    half changed; the first failure of a kind is logged."""
    try:
        return True, work(module)
    except MemoryError:
        raise
    except Exception as error:  # of any type: the bindings may have become anything
        if work.__name__ not in _failed:
            _failed.add(work.__name__)
            _log().warning("%s failed on a program, which is compiled without it", work.__name__, exc_info=error)
        return False, None


def _log() -> Any:
    import logging  # here, since it takes long to import

    return logging.getLogger(__name__)
