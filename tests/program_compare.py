"""Run a random program on both libraries and report the differences.

Real MLX is the oracle. `MENDED` replaces it if it fails, crashes or is known to be wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle import ours, real, to_numpy
from tests.program_mended import MENDED
from tests.program_modes import MODES, NEED_FLOATS, inexact, run_mode
from tests.programs import Program, make, perturbed

__all__ = ["NAMES", "check", "compare", "difference"]

NAMES = ("plain", *MODES)

RELATIVE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-4, "complex64": 1e-4}
"""Tolerance per dtype, relative to the largest value of the array, because a program's errors accumulate.

A program with half precision anywhere has 3e-2. The tolerance of float64 is large because real MLX computes many of
its functions in float32.
"""

LACKING = (
    "ot implemented", "not yet implemented", "Cannot vmap", "Type of cotangents", "invalid arg index",
)  # fmt: skip
"""Messages of real MLX for missing derivatives, missing vmap rules and its own internal errors."""

OF_INDICES = "with respect to indices"
"""Messages of real MLX for gradients through indices. It raises them even if the derivative is zero (`divmod`,
`floor`).

mxcompat knows in advance that such a derivative is zero.
"""


def leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, (list, tuple)) else [tree]


def wide(x: Any) -> np.ndarray:
    return to_numpy(x).astype(np.complex128)


def sensitivity(program: Program, mode: str, k: int) -> float:
    """Return the largest change of the k-th result, in either library, if the inputs change by a rounding error."""
    most = 0.0
    for mx in (real, ours):
        base = run_mode(mx, program, mode)
        for amount in (1, -1, 8):
            moved = run_mode(mx, program, mode, perturbed(program, amount))
            if isinstance(moved, Exception) or isinstance(base, Exception):
                continue
            change = np.abs(wide(leaves(moved)[k]) - wide(leaves(base)[k]))
            most = max(most, float(np.max(change, initial=0.0)) if np.all(np.isfinite(change)) else np.inf)
    return most


def difference(program: Program, mode: str, got: Any, want: Any) -> str:
    """Return a description of the difference between two results, or "" if they agree."""
    ours_, reals = leaves(got), leaves(want)
    if len(ours_) != len(reals):
        return f"{len(ours_)} results, real MLX {len(reals)}"
    half = "float16" in program.text() or any(d in ("float16", "bfloat16") for _, d in program.inputs)
    for k, (g, w) in enumerate(zip(ours_, reals, strict=True)):
        if (str(g.dtype), tuple(g.shape)) != (str(w.dtype), tuple(w.shape)):
            return f"result {k}: {g.dtype} {g.shape}, real MLX {w.dtype} {w.shape}"
        x, y = wide(g), wide(w)
        if any(word in mode for word in NEED_FLOATS):
            x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # JAX drops symbolic zeros, MLX computes 0 times infinity
        relative = RELATIVE.get(str(w.dtype).rpartition(".")[2], 0.0)
        if half and relative:
            relative = max(relative, 3e-2)
        absolute = relative * float(np.max(np.abs(y[np.isfinite(y)]), initial=1.0))
        if np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=True):
            continue
        slack = 4 * sensitivity(program, mode, k)
        if not np.allclose(x, y, rtol=relative, atol=absolute + slack, equal_nan=True):
            return f"result {k}: {to_numpy(g).ravel()[:12]}, real MLX {to_numpy(w).ravel()[:12]}"
    return ""


def compare(program: Program, mode: str, oracle: Any = real) -> str:
    """Run a program on both libraries, and describe the difference or return "". `MENDED` is the final oracle."""
    if mode == "shapeless":
        oracle = MENDED  # real MLX's shapeless mode infers wrong shapes and crashes on them
    want, got = run_mode(oracle, program, mode), run_mode(ours, program, mode)
    if isinstance(want, Exception):
        want = run_mode(MENDED, program, mode)
    if isinstance(want, Exception):
        if any(words in str(want) for words in LACKING):
            return ""
        if OF_INDICES in str(want) and not isinstance(got, Exception):
            return ""
        same = type(got) is type(want) and (not str(want).startswith("[") or str(got) == str(want))
        return "" if same else f"{got!r}, real MLX {want!r}"
    if isinstance(got, Exception):
        return f"raised {got!r}"
    report = difference(program, mode, got, want)
    if report:
        want = run_mode(MENDED, program, mode)
        if not isinstance(want, Exception) and not difference(program, mode, got, want):
            return ""
    return report


def check(seed: int, oracle: Any = real) -> str:
    """Build the program of a seed, compare it in the seed's mode, and return the difference with the program, or "".

    Args:
        oracle: `MENDED` for a seed that crashes real MLX.
    """
    program = make(seed)
    mode = NAMES[seed % len(NAMES)]
    if any(word in mode for word in NEED_FLOATS) and not inexact(real, program.arguments(real)):
        mode = "compile"
    report = compare(program, mode, oracle)
    return report and f"{mode}: {report}\n{program}"
