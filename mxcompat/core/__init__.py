"""`mlx.core`, name for name. Re-exports only."""

# fmt: off
from mxcompat._array.array import ArrayIterator, array
from mxcompat._array.constants import e, euler_gamma, inf, nan, newaxis, pi
from mxcompat._array.device import Device, DeviceType, cpu, gpu
from mxcompat._array.devices import default_device, device_count, device_info, is_available, set_default_device
from mxcompat._array.dtypes import (
    DtypeCategory, can_cast, complexfloating, finfo, floating, generic, iinfo, inexact, integer, isdtype, issubdtype,
    number, result_type, signedinteger, unsignedinteger,
)
from mxcompat._array.importing import ArrayLike, asarray, from_dlpack
from mxcompat._array.memory import (
    clear_cache, get_active_memory, get_array_buffer_size, get_cache_memory, get_memory_limit, get_peak_memory,
    reset_peak_memory, set_cache_limit, set_memory_limit, set_wired_limit,
)
from mxcompat._array.namespace import array_namespace_info as __array_namespace_info__
from mxcompat._array.streams import (
    Stream, StreamContext, ThreadLocalStream, clear_streams, default_stream, new_stream, new_thread_local_stream,
    new_thread_unsafe_stream, set_default_stream, stream, synchronize,
)
from mxcompat._array.printing import (
    PrintOptions, _PrintOptionsContext, get_printoptions, printoptions, set_printoptions,
)
from mxcompat._export.dot import export_to_dot
from mxcompat._export.functions import FunctionExporter, export_function, exporter, import_function
from mxcompat._graph.ir.aval import (
    Dtype, bfloat16, bool_, complex64, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32,
    uint64,
)
from mxcompat._io.gguf_io import save_gguf
from mxcompat._io.load import load
from mxcompat._io.npy import save
from mxcompat._io.npz import savez, savez_compressed
from mxcompat._io.safetensors_io import save_safetensors
from mxcompat._ops.elementwise.arithmetic import (
    add, arctan2, atan2, clip, divide, divmod, floor_divide, logaddexp, maximum, minimum, multiply, pow, power,
    remainder, subtract, where,
)
from mxcompat._ops.movement.arrange import (
    as_strided, atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to, flip, roll,
)
from mxcompat._ops.indexing.at import ArrayAt
from mxcompat._ops.elementwise.bitwise import (
    bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, left_shift,
    right_shift,
)
from mxcompat._ops.elementwise.casts import astype, contiguous, depends, stop_gradient, view
from mxcompat._ops.elementwise.comparison import (
    allclose, array_equal, equal, greater, greater_equal, isclose, less, less_equal, logical_and,
    logical_or, logical_xor, not_equal,
)
from mxcompat._ops.conv.convolutions import (
    conv1d, conv2d, conv3d, conv_general, conv_transpose1d, conv_transpose2d, conv_transpose3d,
)
from mxcompat._ops.creation.filled import (
    empty, empty_like, full, full_like, meshgrid, ones, ones_like, zeros, zeros_like,
)
from mxcompat._ops.creation.matrices import eye, identity, tri
from mxcompat._ops.movement.diagonals import diag, diagonal, trace, tril, triu
from mxcompat._ops.products.einsum import einsum, einsum_path
from mxcompat._ops.elementwise.unary import (
    abs, acos, acosh, arccos, arccosh, arcsin, arcsinh, arctan, arctanh, asin, asinh, atan, atanh, ceil, conj,
    conjugate, cos, cosh, degrees, erf, erfinv, exp, expm1, floor, imag, isfinite, isinf, isnan, isneginf, isposinf,
    log, log1p, log2, log10, logical_not, nan_to_num, negative, positive, radians, real, reciprocal, round, rsqrt,
    sigmoid, sign, sin, sinh, sqrt, square, tan, tanh, trunc,
)
from mxcompat._ops.indexing.gather import slice, take, take_along_axis
from mxcompat._ops.products.gathered import block_masked_mm, gather_mm, segmented_mm
from mxcompat._ops.movement.joining import concat, concatenate, repeat, split, stack, tile, unstack
from mxcompat._ops.linalg.norm import norm as matrix_norm
from mxcompat._ops.products.matmul import addmm, matmul, tensordot
from mxcompat._ops.movement.pad import pad
from mxcompat._ops.products.vectors import inner, kron, outer, vecdot
from mxcompat._ops.indexing.put import put_along_axis, slice_update
from mxcompat._ops.creation.ranges import arange, linspace
from mxcompat._ops.reductions.extremes import argmax, argmin, max, min, minmax
from mxcompat._ops.reductions.reduce import all, any, count_nonzero, logsumexp, mean, prod, sum
from mxcompat._ops.reductions.scans import (
    cummax, cummin, cumprod, cumsum, cumulative_prod, cumulative_sum, diff, logcumsumexp,
)
from mxcompat._ops.movement.shape import expand_dims, flatten, reshape, squeeze, unflatten
from mxcompat._ops.quantized.fp8 import from_fp8, to_fp8
from mxcompat._ops.quantized.qqmm import gather_qqmm, qqmm
from mxcompat._ops.quantized.quantize import dequantize, quantize
from mxcompat._ops.quantized.matmul import gather_qmm, quantized_matmul
from mxcompat._ops.conv.signal import convolve, hadamard_transform
from mxcompat._ops.reductions.softmax import softmax
from mxcompat._ops.reductions.partitioning import argpartition, partition, topk
from mxcompat._ops.reductions.sorting import argsort, searchsorted, sort, unique
from mxcompat._ops.reductions.statistics import median, std, var
from mxcompat._ops.movement.transposition import matrix_transpose, moveaxis, permute_dims, swapaxes, transpose
from mxcompat._ops.creation.windows import bartlett, blackman, hamming, hanning
from mxcompat._transforms.autodiff import grad, jvp, value_and_grad, vjp
from mxcompat._transforms.checkpointing import checkpoint
from mxcompat._transforms.compiling import compile, disable_compile, enable_compile
from mxcompat._transforms.custom.function import custom_function, custom_gradient
from mxcompat._transforms.evaluation import async_eval, eval
from mxcompat._transforms.functions import GradientFunction as _gc_func
from mxcompat._transforms.vectorize import vmap
from mxcompat._version import MLX_VERSION as __version__
from mxcompat._version import __version__ as __mxcompat__
from mxcompat.core import cuda, distributed, fast, fft, linalg, metal, random

__all__ = [
    "ArrayAt", "ArrayIterator", "ArrayLike", "Device", "DeviceType", "Dtype", "DtypeCategory", "FunctionExporter",
    "PrintOptions", "Stream", "StreamContext", "ThreadLocalStream", "__array_namespace_info__", "abs", "acos", "acosh",
    "add", "addmm", "all", "allclose", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argpartition", "argsort", "array", "array_equal", "as_strided", "asarray", "asin",
    "asinh", "astype", "async_eval", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "bartlett",
    "bfloat16", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block_masked_mm", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "can_cast", "ceil", "checkpoint", "clear_cache", "clear_streams", "clip", "compile", "complex64", "complexfloating",
    "concat", "concatenate", "conj", "conjugate", "contiguous", "conv1d", "conv2d", "conv3d", "conv_general",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolve", "cos", "cosh", "count_nonzero", "cpu",
    "cuda", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "custom_function",
    "custom_gradient", "default_device", "default_stream", "degrees", "depends", "dequantize", "device_count",
    "device_info", "diag", "diagonal", "diff", "disable_compile", "distributed", "divide", "divmod", "e", "einsum",
    "einsum_path", "empty", "empty_like", "enable_compile", "equal", "erf", "erfinv", "euler_gamma", "eval", "exp",
    "expand_dims", "expm1", "export_function", "export_to_dot", "exporter", "eye", "fast", "fft", "finfo", "flatten",
    "flip", "float16", "float32", "float64", "floating", "floor", "floor_divide", "from_dlpack", "from_fp8", "full",
    "full_like", "gather_mm", "gather_qmm", "gather_qqmm", "generic", "get_active_memory", "get_array_buffer_size",
    "get_cache_memory", "get_memory_limit", "get_peak_memory", "get_printoptions", "gpu", "grad", "greater",
    "greater_equal", "hadamard_transform", "hamming", "hanning", "identity", "iinfo", "imag", "import_function",
    "inexact", "inf", "inner", "int8", "int16", "int32", "int64", "integer", "is_available", "isclose", "isdtype",
    "isfinite", "isinf", "isnan", "isneginf", "isposinf", "issubdtype", "jvp", "kron", "left_shift", "less",
    "less_equal", "linalg", "linspace", "load", "log", "log1p", "log2", "log10", "logaddexp", "logcumsumexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "matmul", "matrix_norm", "matrix_transpose",
    "max", "maximum", "mean", "median", "meshgrid", "metal", "min", "minimum", "minmax", "moveaxis", "multiply", "nan",
    "nan_to_num", "negative", "new_stream", "new_thread_local_stream", "new_thread_unsafe_stream", "newaxis",
    "not_equal", "number", "ones", "ones_like", "outer", "pad", "partition", "permute_dims", "pi", "positive", "pow",
    "power", "printoptions", "prod", "put_along_axis", "qqmm", "quantize", "quantized_matmul", "radians", "random",
    "real", "reciprocal", "remainder", "repeat", "reset_peak_memory", "reshape", "result_type", "right_shift", "roll",
    "round", "rsqrt", "save", "save_gguf", "save_safetensors", "savez", "savez_compressed", "searchsorted",
    "segmented_mm", "set_cache_limit", "set_default_device", "set_default_stream", "set_memory_limit",
    "set_printoptions", "set_wired_limit", "sigmoid", "sign", "signedinteger", "sin", "sinh", "slice", "slice_update",
    "softmax", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "stop_gradient", "stream", "subtract",
    "sum", "swapaxes", "synchronize", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "to_fp8", "topk",
    "trace", "transpose", "tri", "tril", "triu", "trunc", "uint8", "uint16", "uint32", "uint64", "unflatten", "unique",
    "unsignedinteger", "unstack", "value_and_grad", "var", "vecdot", "view", "vjp", "vmap", "where", "zeros",
    "zeros_like",
]
# fmt: on

for _public in (
    ArrayAt,
    ArrayIterator,
    ArrayLike,
    Device,
    DeviceType,
    Dtype,
    DtypeCategory,
    PrintOptions,
    Stream,
    StreamContext,
    ThreadLocalStream,
    _gc_func,
    custom_function,
    finfo,
    iinfo,
):
    _public.__module__ = __name__  # reprs, error messages and pickles show this module
del _public
