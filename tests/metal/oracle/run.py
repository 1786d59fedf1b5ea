"""Run a compiled kernel on NumPy arrays."""

import ctypes

import ml_dtypes
import numpy as np

__all__ = ["run"]

_DTYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16)}


class _Launch(ctypes.Structure):
    _fields_ = (("grid", ctypes.c_uint * 3), ("group", ctypes.c_uint * 3))


def run(compiled, inputs, grid, threadgroup, init_value=None):
    """Run a kernel, and return its outputs.

    Args:
        compiled: a result of `compile_kernels`.
        inputs: NumPy arrays of the signature's shapes and dtypes.
        grid, threadgroup: threads along each axis; groups are cut to the grid.
        init_value: the initial value of all elements of the outputs, None for 0.
    """
    signature, buffers = compiled.signature, []
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        data = np.ascontiguousarray(value, _DTYPES.get(parameter.dtype, parameter.dtype))
        assert data.shape == parameter.shape or not parameter.shape
        buffers.append(data)
        if parameter.wants_shape:
            buffers.append(np.array(parameter.shape, np.int32))
        if parameter.wants_strides:
            buffers.append(np.array(parameter.strides, np.int64))
        if parameter.wants_ndim:
            buffers.append(np.array(len(parameter.shape), np.int32))
    outputs = [
        np.full(output.shape, 0 if init_value is None else init_value, _DTYPES.get(output.dtype, output.dtype))
        for output in signature.outputs
    ]
    addresses = [array.ctypes.data for array in (*buffers, *outputs)]
    group = [min(pair) for pair in zip(grid, threadgroup, strict=True)]
    launch = _Launch((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*group))
    compiled.function((ctypes.c_void_p * len(addresses))(*addresses), ctypes.byref(launch))
    return outputs
