"""Every elementwise op, compared with real MLX from its record, for all its dtypes.

Values, dtypes, derivatives in both modes, `vmap` and `compile` are compared.
"""

from __future__ import annotations

import numpy as np
import pytest

from mxcompat._ops.define import SAMPLES, TABLE, Sample
from tests.oracle import check, ours, real, run, same

DTYPES = {
    "b": ("bool_",),
    "u": ("uint8", "uint32", "uint64"),
    "i": ("int8", "int32", "int64"),
    "f": ("float16", "bfloat16", "float32", "float64"),
    "c": ("complex64",),
}
NAMES = sorted(SAMPLES)
SMOOTH = [name for name in NAMES if SAMPLES[name].smooth]

NO_COMPLEX_GRADIENT = {
    "arccosh": "real MLX's derivative has the wrong sign left of the imaginary axis",
    "power": "real MLX does not conjugate this one derivative, as it does all others",
    "logaddexp": "real MLX has none",
}
"""Ops whose complex derivative is not compared, with the reasons."""


def inputs(sample: Sample, kind: str, seed: int = 0) -> list[np.ndarray]:
    """Return one array of shape (2, 3) per operand, drawn from the op's domain."""
    random = np.random.default_rng(seed)
    ranges = [(sample.low, sample.high), sample.second or (sample.low, sample.high)]
    out = []
    for low, high in ranges[: sample.operands]:
        if kind == "u":
            low, high = max(low, 1.0), max(high, 4.0)
        x = random.uniform(low, high, (2, 3))
        if kind == "c":
            x = x + 1j * random.uniform(low, high, (2, 3))
        out.append(x.astype({"c": np.complex64, "f": np.float32}.get(kind, np.int32)))
    return out


def divides(name: str) -> bool:
    return name in ("floor_divide", "remainder")


@pytest.mark.parametrize("name", NAMES)
def test_values_and_dtypes(name: str) -> None:
    sample = SAMPLES[name]
    for kind in sample.kinds:
        if kind == "b" and divides(name):
            continue  # the samples are all False, and real MLX crashes on division by them
        arrays = inputs(sample, kind)
        if divides(name) and kind in "iu":
            arrays[1] = np.where(arrays[1] == 0, 2, arrays[1])

        def compute(mx, *xs, kind=kind):
            return {d: getattr(mx, name)(*(x.astype(getattr(mx, d)) for x in xs)) for d in DTYPES[kind]}

        want, got = run(real, compute, arrays), run(ours, compute, arrays)
        for dtype in DTYPES[kind]:
            tolerance = sample.tolerance if dtype in ("float32", "complex64") else None
            if dtype == "float64":
                tolerance = 2e-6  # real MLX computes many functions of float64 in float32
            same(got[dtype], want[dtype], tolerance, f"{name} of {dtype}")


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    sample = SAMPLES[name]
    for kind in "fc":
        if kind not in sample.kinds or (kind == "c" and name in NO_COMPLEX_GRADIENT):
            continue
        arrays = inputs(sample, kind, seed=1)
        direction = inputs(Sample(operands=len(arrays)), kind, seed=2)

        def derive(mx, *xs, kind=kind):
            primals, tangents = list(xs[: sample.operands]), list(xs[sample.operands :])
            function = getattr(mx, name)
            value = function(*primals)
            out = [mx.vjp(function, primals, [tangents[0].astype(value.dtype)])]
            return [*out, mx.jvp(function, primals, tangents)] if kind == "f" else out

        check(derive, *arrays, *direction, tol=5e-5)  # an error of 2e-5, for terms that may cancel


@pytest.mark.parametrize("name", NAMES)
def test_vmap_and_compile_change_nothing(name: str) -> None:
    sample = SAMPLES[name]
    kind = "f" if "f" in sample.kinds else "i"
    arrays = [ours.array(x) for x in inputs(sample, kind, seed=3)]
    function = getattr(ours, name)
    rows = [function(*(x[k] for x in arrays)) for k in range(2)]
    mapped = ours.vmap(function)(*arrays)
    compiled = ours.compile(function)(*arrays)
    ours.eval(rows, mapped, compiled)  # evaluated together, since each graph costs a compile
    assert mapped.dtype == compiled.dtype == rows[0].dtype
    want = np.stack([np.array(row) for row in rows])
    np.testing.assert_allclose(np.array(mapped), want, rtol=1e-6, err_msg="vmap")
    np.testing.assert_allclose(np.array(compiled), want, rtol=1e-6, err_msg="compile")


def test_the_table_is_whole() -> None:
    """Assert that every elementwise record is reachable by its public name."""
    for name in SAMPLES:
        assert TABLE[name].name == name
        assert getattr(ours, name).__doc__, name
