"""A random program on both sides, and what differs: the judge of the tests of random programs.

Real MLX is the oracle. Where it fails, is wrong, or dies, `MENDED` takes its place.
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
"""Of the largest value of an array, since a program's errors add up; 3e-2 with half precision anywhere in a program.
That of float64 is so large because real MLX computes many functions of it in float32."""

LACKING = (
    "ot implemented", "not yet implemented", "Cannot vmap", "Type of cotangents", "invalid arg index",
)  # fmt: skip
"""What real MLX says where it lacks a derivative or a vmap, or its own code is at fault."""

OF_INDICES = "with respect to indices"
"""What real MLX says of indices that depend on an argument, also if the derivative of all that follows is zero
(`divmod`, `floor`): here that is known before."""


def leaves(tree: Any) -> list[Any]:
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, (list, tuple)) else [tree]


def wide(x: Any) -> np.ndarray:
    return to_numpy(x).astype(np.complex128)


def sensitivity(program: Program, mode: str, k: int) -> float:
    """By how much the k-th result moves, on either side, when the inputs move by a rounding error."""
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
    """What differs between two results, or ""."""
    ours_, reals = leaves(got), leaves(want)
    if len(ours_) != len(reals):
        return f"{len(ours_)} results, real MLX {len(reals)}"
    half = "float16" in program.text() or any(d in ("float16", "bfloat16") for _, d in program.inputs)
    for k, (g, w) in enumerate(zip(ours_, reals, strict=True)):
        if (str(g.dtype), tuple(g.shape)) != (str(w.dtype), tuple(w.shape)):
            return f"result {k}: {g.dtype} {g.shape}, real MLX {w.dtype} {w.shape}"
        x, y = wide(g), wide(w)
        if any(word in mode for word in NEED_FLOATS):
            x, y = x[np.isfinite(y)], y[np.isfinite(y)]  # 0 times infinity: JAX knows some zeros, MLX multiplies
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
    """Run a program on both sides; says what differs, or "". `MENDED` has the last word."""
    if mode == "shapeless":
        oracle = MENDED  # real MLX's own infers wrong shapes, and crashes on them
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
    found = difference(program, mode, got, want)
    if found:
        want = run_mode(MENDED, program, mode)
        if not isinstance(want, Exception) and not difference(program, mode, got, want):
            return ""
    return found


def check(seed: int, oracle: Any = real) -> str:
    """What differs for the program of a seed, in the seed's mode, with the program; or "".

    Args:
        oracle: `MENDED` for a seed on which real MLX itself dies.
    """
    program = make(seed)
    mode = NAMES[seed % len(NAMES)]
    if any(word in mode for word in NEED_FLOATS) and not inexact(real, program.arguments(real)):
        mode = "compile"
    found = compare(program, mode, oracle)
    return found and f"{mode}: {found}\n{program}"
