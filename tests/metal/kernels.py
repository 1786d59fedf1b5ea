"""Kernels of the tests: made of a source and arrays, run by the oracle (g++), and here in NumPy and in XLA."""

from __future__ import annotations

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.ir.aval import DTYPES
from mxcompat._ops.fast import metal_contract

from . import oracle

__all__ = ["by_oracle", "needs_oracle", "signed"]

_DTYPES = {d._label: d for d in DTYPES}
needs_oracle = pytest.mark.skipif(bool(oracle.missing()), reason=oracle.missing() or "there is one")


def dtype(name):
    """The dtype of mxcompat that a name or a NumPy dtype means."""
    return _DTYPES[name if isinstance(name, str) else np.dtype(name).name]


def signed(source, inputs, outputs, header="", template=(), names=None, **options):
    """The definition of a kernel and the signature of a call.

    Args:
        source: the body; the inputs are x0, x1, … and the outputs y, y1, …, unless `names` says otherwise.
        inputs: NumPy arrays, or numbers.
        outputs: pairs of shape and dtype.
        template: pairs of name and value, dtypes by name.
    """
    input_names = names or [f"x{k}" for k in range(len(inputs))]
    made = metal_contract.define(
        "k", input_names, [f"y{k or ''}" for k in range(len(outputs))], source, header, **options
    )
    values = [(name, dtype(value) if isinstance(value, str) else value) for name, value in template]
    launch, _ = metal_contract.launch(
        made, inputs=[mx.array(one) if isinstance(one, np.ndarray) else one for one in inputs], template=values,
        output_shapes=[shape for shape, _ in outputs], output_dtypes=[dtype(kind) for _, kind in outputs],
        grid=(1, 1, 1), threadgroup=(1, 1, 1),
    )  # fmt: skip
    return made, launch.signature


def by_oracle(source, inputs, outputs, grid, threadgroup, init_value=None, **options):
    """The outputs of a kernel as g++ computes them."""
    made, signature = signed(source, inputs, outputs, **options)
    (compiled,) = oracle.compile_kernels([(made.source, made.header, signature)])
    return oracle.run(compiled, inputs, grid, threadgroup, init_value)
