"""Access to StableHLO modules, through jaxlib's Python bindings of MLIR.

The passes in `_graph.passes` read and change modules. If a pass fails, the program is compiled without it, and the
first failure of a pass is logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mxcompat._jax import module_proxy

from .registry import unpromised

__all__ = ["attempt", "func", "ir", "stablehlo", "stablehlo_edits"]

ir: Any = module_proxy("jaxlib.mlir.ir")
func: Any = module_proxy("jaxlib.mlir.dialects.func")
stablehlo: Any = module_proxy("jaxlib.mlir.dialects.stablehlo")

_NAMES = {
    "ir": (
        "ArrayAttr", "BlockArgument", "DenseElementsAttr", "DenseFPElementsAttr", "DenseI64ArrayAttr", "DictAttr",
        "F16Type", "F32Type", "F64Type", "FloatAttr", "FunctionType", "InsertionPoint", "IntegerAttr", "IntegerType",
        "Location", "OpResult", "Operation", "RankedTensorType", "StringAttr", "WalkResult",
    ),
    "func": ("CallOp", "FuncOp", "ReturnOp"),
    "stablehlo": (
        "ComparisonDirectionAttr", "ConvDimensionNumbers", "DotDimensionNumbers", "ReduceOp", "add", "broadcast_in_dim",
        "compare", "constant", "convert", "divide", "dot_general", "maximum", "minimum", "multiply", "negate",
        "optimization_barrier", "pad", "reduce_precision", "reshape", "return_", "select", "slice", "transpose",
    ),
}  # fmt: skip
"""The names in these modules that the passes use."""


@unpromised(
    "stablehlo-edits",
    "programs are rewritten before XLA compiles them, so that its code is correct in all cases, and faster",
    "XLA neither simplifies nor fuses, so that its code is correct in all cases, but slower",
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
    """Read or change a module by `work`. Return True and the result, or False and None if `work` raised an error. Then
    the module may be partly changed. The first failure of each function is logged."""
    try:
        return True, work(module)
    except MemoryError:
        raise
    except Exception as error:  # the bindings may have changed in any way, so any type of error is possible
        if work.__name__ not in _failed:
            _failed.add(work.__name__)
            _log().warning("%s failed on a program, which is compiled without it", work.__name__, exc_info=error)
        return False, None


def _log() -> Any:
    import logging  # imported here because the import is slow

    return logging.getLogger(__name__)
