"""Kernels of the tests: made of a source and arrays, run by the oracle (g++), and here in NumPy and in XLA."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import testing
from mxcompat._graph.ir.aval import DTYPES
from mxcompat._metal import parse_kernel
from mxcompat._ops.fast import metal_contract
from mxcompat._ops.fast.metal import run_kernel
from mxcompat.ext.debug import host_disabled

from . import oracle

__all__ = ["by_numpy", "by_oracle", "by_xla", "compiled", "differences", "needs_oracle", "signed"]

_DTYPES = {d._label: d for d in DTYPES}
_BF16 = np.dtype(ml_dtypes.bfloat16)
needs_oracle = pytest.mark.skipif(bool(oracle.missing()), reason=oracle.missing() or "there is one")


def dtype(name):
    """Return the dtype of mxcompat for a name or a NumPy dtype."""
    return _DTYPES[name if isinstance(name, str) else np.dtype(name).name]


def array(value):
    """Convert an input to a value that mxcompat accepts, also bfloat16 and numbers."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    return mx.array(value.view(np.uint16)).view(mx.bfloat16) if value.dtype == _BF16 else mx.array(value)


def signed(case, grid=(1, 1, 1), group=(1, 1, 1)) -> tuple[Any, ...]:
    """Return the definition of a case's kernel, and its launch."""
    outputs = [f"y{k or ''}" for k in range(len(case.outputs))]
    names = case.names or tuple(f"x{k}" for k in range(len(case.inputs)))
    definition = metal_contract.define("k", names, outputs, case.source, case.header, **dict(case.options))
    values = [(name, dtype(value) if isinstance(value, str) else value) for name, value in case.template]
    return definition, *metal_contract.launch(
        definition, inputs=[array(value) for value in case.inputs], template=values, grid=case.grid,
        threadgroup=case.threadgroup, output_shapes=[shape for shape, _ in case.outputs],
        output_dtypes=[dtype(kind) for _, kind in case.outputs], init_value=case.init_value,
    )  # fmt: skip


def compiled(cases):
    """Return the kernels of the cases, compiled together by the oracle (g++)."""
    return oracle.compile_kernels(
        [(definition.source, definition.header, launch.signature) for definition, launch, _ in map(signed, cases)]
    )


def by_oracle(case, kernel=None):
    """Return the outputs of a case as g++ computes them."""
    (kernel,) = [kernel] if kernel else compiled([case])
    return oracle.run(kernel, case.inputs, case.grid, case.threadgroup, case.init_value)


def by_numpy(case):
    """Return the outputs of a case as NumPy's tier computes them."""
    definition, launch, nodes = signed(case)
    kernel = parse_kernel(definition.source, definition.header, launch.signature)
    inputs = [
        np.asarray(testing.to_numpy(mx, mx.array(value))) if np.ndim(value) == 0 else value for value in case.inputs
    ]
    assert len(inputs) == len(nodes)
    return kernel.run(np, inputs, launch.grid, launch.threadgroup, launch.init_value)


def by_xla(cases):
    """Return the outputs of cases as XLA computes them, all in one program."""
    with host_disabled():
        outputs = [run_kernel(*signed(case)) for case in cases]
        mx.eval(outputs)
    return [[testing.to_numpy(mx, output) for output in one] for one in outputs]


def differences(got, want, tol):
    """Return a line for each output that differs. `tol` is relative to the largest value."""
    messages = []
    for place, (a, b) in enumerate(zip(got, want, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            messages.append(f"output {place} is {a.dtype} of shape {a.shape}, not {b.dtype} of {b.shape}")
            continue
        x, y = (v.astype(np.complex128 if v.dtype.kind == "c" else np.longdouble) for v in (a, b))
        largest = np.max(np.abs(y), where=np.isfinite(y), initial=1)
        wrong = ~(np.isclose(x, y, tol, tol * largest, equal_nan=True) if tol else (x == y) | ((x != x) & (y != y)))
        if wrong.any():
            at = np.flatnonzero(wrong)
            some = ", ".join(f"[{k}] {a.ravel()[k]} for {b.ravel()[k]}" for k in at[:4])
            messages.append(f"output {place}: {len(at)} of {a.size}: {some}")
    return messages
