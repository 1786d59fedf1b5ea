"""Write docs/coverage.md: each name of real MLX, whether mxcompat has it, and the transforms under which it ran.

    python docs/make_coverage.py

The names come from the stubs in real MLX's wheel, and from its Python packages. Each op with sample arguments is run
here, plain and under `grad`, `jvp`, `vmap` and `compile`. A tick means that it ran.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import mxcompat.core as mx  # noqa: E402
from mxcompat._ops.define import SAMPLES  # noqa: E402
from tests.stub import Entry, difference, entries, lookup  # noqa: E402
from tests.test_names import EXCEPTIONS  # noqa: E402

PACKAGES = ("nn", "nn.init", "nn.losses", "optimizers", "utils")

CANNOT = {
    "fast.metal_kernel": "translated to array operations, see the guide",
    "fast.cuda_kernel": "translated to array operations, see the guide",
    "fast.precompiled_cuda_kernel": "raises: write it with mx ops, or in JAX Pallas by way of mx.ext",
    "distributed.send": "raises, as real MLX does in a group of one",
    "distributed.recv": "raises, as real MLX does in a group of one",
    "distributed.recv_like": "raises, as real MLX does in a group of one",
    "distributed.Group.split": "raises, as real MLX does in a group of one",
    "metal.start_capture": "does nothing: use jax.profiler",
    "metal.stop_capture": "does nothing: use jax.profiler",
}

TRANSFORMS = ("grad", "jvp", "vmap", "compile")

MATRIX = mx.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 1.5]])
VECTOR = mx.array([0.3, 0.7, 0.2])
INTEGERS = mx.array([3, 1, 2])

TRIALS: dict[str, tuple[Callable[..., Any], ...]] = {
    **dict.fromkeys(
        (
            "sum", "mean", "prod", "max", "min", "var", "std", "median", "logsumexp", "cumsum", "cumprod", "cummax",
            "cummin", "logcumsumexp", "softmax", "sort", "transpose", "flatten", "squeeze", "diag", "diagonal", "trace",
            "tril", "triu", "flip", "diff", "linalg.norm", "linalg.inv", "linalg.det", "linalg.cholesky",
            "linalg.pinv", "linalg.eigvalsh", "zeros_like", "ones_like", "stop_gradient", "contiguous", "atleast_1d",
            "atleast_2d", "atleast_3d", "matrix_transpose", "hadamard_transform",
        ),
        (lambda f, x: f(x), MATRIX),
    ),
    **dict.fromkeys(
        ("matmul", "inner", "outer", "kron", "vecdot", "linalg.solve"), (lambda f, x: f(x, MATRIX), MATRIX)
    ),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.fft2", "fft.fftn", "fft.rfft", "fft.rfft2", "fft.rfftn",
                     "fft.fftshift", "fft.ifftshift"), (lambda f, x: abs(f(x)), MATRIX)),
    **dict.fromkeys(("argmax", "argmin", "argsort", "all", "any", "count_nonzero"), (lambda f, x: f(x), VECTOR)),
    "reshape": (lambda f, x: f(x, (9,)), MATRIX),
    "hadamard_transform": (lambda f, x: f(x), mx.ones(4)),
    "expand_dims": (lambda f, x: f(x, 0), MATRIX),
    "broadcast_to": (lambda f, x: f(x, (2, 3, 3)), MATRIX),
    "concatenate": (lambda f, x: f([x, x]), MATRIX),
    "stack": (lambda f, x: f([x, x]), MATRIX),
    "split": (lambda f, x: f(x, 3)[1], MATRIX),
    "repeat": (lambda f, x: f(x, 2), MATRIX),
    "tile": (lambda f, x: f(x, 2), MATRIX),
    "pad": (lambda f, x: f(x, 1), MATRIX),
    "roll": (lambda f, x: f(x, 1), MATRIX),
    "swapaxes": (lambda f, x: f(x, 0, 1), MATRIX),
    "moveaxis": (lambda f, x: f(x, 0, 1), MATRIX),
    "take": (lambda f, x: f(x, mx.array([1, 0]), axis=0), MATRIX),
    "take_along_axis": (lambda f, x: f(x, mx.array([[1], [0], [2]]), axis=1), MATRIX),
    "put_along_axis": (lambda f, x: f(x, mx.array([[0], [1], [2]]), mx.ones((3, 1)), axis=1), MATRIX),
    "where": (lambda f, x: f(x > 0.4, x, 0.0), MATRIX),
    "clip": (lambda f, x: f(x, 0.2, 1.0), MATRIX),
    "einsum": (lambda f, x: f("ij,jk->ik", x, x), MATRIX),
    "tensordot": (lambda f, x: f(x, x, 1), MATRIX),
    "addmm": (lambda f, x: f(x, x, x), MATRIX),
    "topk": (lambda f, x: f(x, 2), MATRIX),
    "partition": (lambda f, x: f(x, 1), MATRIX),
    "convolve": (lambda f, x: f(x, VECTOR), VECTOR),
    "conv1d": (lambda f, x: f(x, mx.ones((2, 2, 3))), mx.ones((1, 5, 3))),
    "conv2d": (lambda f, x: f(x, mx.ones((2, 2, 2, 3))), mx.ones((1, 5, 5, 3))),
    "conv3d": (lambda f, x: f(x, mx.ones((2, 2, 2, 2, 3))), mx.ones((1, 4, 4, 4, 3))),
    "conv_general": (lambda f, x: f(x, mx.ones((2, 2, 2, 3))), mx.ones((1, 5, 5, 3))),
    "conv_transpose1d": (lambda f, x: f(x, mx.ones((2, 2, 3))), mx.ones((1, 5, 3))),
    "conv_transpose2d": (lambda f, x: f(x, mx.ones((2, 2, 2, 3))), mx.ones((1, 4, 4, 3))),
    "conv_transpose3d": (lambda f, x: f(x, mx.ones((2, 2, 2, 2, 3))), mx.ones((1, 3, 3, 3, 3))),
    "linalg.qr": (lambda f, x: f(x)[0], MATRIX),
    "linalg.svd": (lambda f, x: f(x)[1], MATRIX),
    "linalg.eigh": (lambda f, x: f(x)[0], MATRIX),
    "linalg.slogdet": (lambda f, x: f(x)[1], MATRIX),
    "linalg.cross": (lambda f, x: f(x, VECTOR), VECTOR),
    "linalg.tri_inv": (lambda f, x: f(mx.tril(x)), MATRIX),
    "linalg.cholesky_inv": (lambda f, x: f(mx.tril(x)), MATRIX),
    "linalg.solve_triangular": (lambda f, x: f(mx.tril(x), VECTOR), MATRIX),
    "fast.rms_norm": (lambda f, x: f(x, VECTOR, 1e-5), MATRIX),
    "fast.layer_norm": (lambda f, x: f(x, VECTOR, VECTOR, 1e-5), MATRIX),
    "fast.rope": (
        lambda f, x: f(x, 4, traditional=False, base=100.0, scale=1.0, offset=2), mx.ones((1, 2, 3, 4))
    ),
    "fast.scaled_dot_product_attention": (lambda f, x: f(x, x, x, scale=0.5), mx.ones((1, 2, 3, 4))),
    "distributed.all_sum": (lambda f, x: f(x), MATRIX),
}  # fmt: skip
"""Trials for ops without sample arguments: a function of the op and an array, and the array."""


def trial(name: str) -> tuple[Callable[[Any], Any], Any] | None:
    """Return a function of one array that runs the op, and the array; None if there is no trial."""
    function = lookup(mx, name)
    if name in TRIALS:
        run, x = TRIALS[name]
        return lambda a: run(function, a), x
    sample = SAMPLES.get(name)
    if sample is None:
        return None
    low, high = sample.low, sample.high
    x = mx.array([low + (high - low) * k for k in (0.3, 0.55, 0.8)])
    if "f" not in sample.kinds:
        x = INTEGERS
    if sample.operands == 2:
        low, high = sample.second or (low, high)
        y = mx.array([low + (high - low) * k for k in (0.6, 0.35, 0.7)]) if "f" in sample.kinds else INTEGERS
        return lambda a: function(a, y), x
    return function, x


def tried(name: str) -> dict[str, bool] | None:
    """Return whether the op ran, plain and under each transform; None if it was not tried."""
    found = trial(name)
    if found is None:
        return None
    run, x = found
    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: run(x),
        "grad": lambda: mx.grad(lambda a: mx.sum(mx.real(run(a)).astype(mx.float32)))(x),
        "jvp": lambda: mx.jvp(run, [x], [mx.ones_like(x)]),
        "vmap": lambda: mx.vmap(run)(mx.stack([x, x])),
        "compile": lambda: mx.compile(run)(x),
    }
    return {way: _runs(call) for way, call in ways.items()}


def _runs(call: Callable[[], Any]) -> bool:
    try:
        mx.eval(call())
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def row(entry: Entry) -> str:
    """Return the table row for a name."""
    differs = difference(mx, entry)
    note = CANNOT.get(entry.name) or EXCEPTIONS.get(entry.name) or differs
    here = "missing" if differs == "missing" else "yes"
    results = tried(entry.name) if here == "yes" and entry.kind == "function" else None
    cells = [("yes" if results[t] else "no") if results else "" for t in TRANSFORMS]
    if results and not results["plain"]:
        here = "no"
    return f"| `{entry.name}` | {here} | {' | '.join(cells)} | {note} |"


def package_rows(package: str) -> list[str]:
    """Return the table rows for the public names of one of MLX's Python packages."""
    real = importlib.import_module(f"mlx.{package}")
    mine = importlib.import_module(f"mxcompat.{package}")
    names = [
        n
        for n, v in vars(real).items()
        if not n.startswith("_") and not inspect.ismodule(v)
        and getattr(v, "__module__", "").startswith(f"mlx.{package}")
    ]  # fmt: skip
    return [f"| `{n}` | {'yes' if hasattr(mine, n) else 'missing'} |" for n in sorted(names)]


def page() -> str:
    """Return the whole page."""
    found = [e for e in entries() if e.name != "random.__getattr__"]
    rows = {e.name: row(e) for e in found}
    missing = [name for name, line in rows.items() if "| missing |" in line]
    lines = [
        "# Coverage",
        "",
        f"Written by `docs/make_coverage.py` from the stubs in the wheel of real MLX {mx.__version__}. A name is here",
        "if it exists with the same signature; notes say where it differs. The columns of the transforms say whether a",
        "trial of the op ran under them; empty: not tried by this script (the tests try more).",
        "",
        f"{len(found) - len(missing)} of {len(found)} names of `mlx.core` are here.",
    ]
    groups: dict[str, list[str]] = {}
    for entry in found:
        first, dot, _ = entry.name.partition(".")
        groups.setdefault(f"mlx.core.{first}" if dot else "mlx.core", []).append(rows[entry.name])
    for title, group in groups.items():
        lines += ["", f"## {title}", "", "| name | here | " + " | ".join(TRANSFORMS) + " | note |"]
        lines += ["|" + " --- |" * (len(TRANSFORMS) + 3), *group]
    for package in PACKAGES:
        lines += ["", f"## mlx.{package}", "", "| name | here |", "| --- | --- |", *package_rows(package)]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (ROOT / "docs" / "coverage.md").write_text(page())
