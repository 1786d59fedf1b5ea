"""Public names whose docstrings need no section on errors, with the reasons.

Every function raises an error for an argument of a wrong type (text for an array, for example), and names the expected
type.
"""

from __future__ import annotations

__all__ = ["OF_ANY_ARRAY", "WITHOUT_ERRORS"]


def _in(module: str, names: str) -> list[str]:
    return [f"mxcompat.{module}.{name}" for name in names.split()]


OF_ANY_ARRAY = [
    *_in(
        "core",
        "abs acos acosh arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh atleast_1d atleast_2d "
        "atleast_3d conj conjugate contiguous cos cosh degrees empty_like exp imag isfinite isinf isnan isneginf "
        "isposinf log log10 log1p log2 logical_not ones_like positive radians real reciprocal rsqrt sign sin sinh sqrt "
        "square stop_gradient tan tanh zeros_like",
    ),
    *_in(
        "nn",
        "celu elu gelu_approx hard_shrink hard_tanh hardswish leaky_relu mish relu relu2 relu6 selu softplus "
        "softshrink softsign step tanh",
    ),
    *_in("testing", "to_numpy"),
]  # fmt: skip
"""Functions that accept an array of any shape and dtype."""

_LAYERS_OF_ANY_ARRAY = _in(
    "nn",
    "CELU ELU HardShrink HardTanh Hardswish Identity LeakyReLU Mish ReLU ReLU2 ReLU6 SELU Softplus Softshrink Softsign "
    "Step Tanh",
)
_TWO_ARRAYS = _in("core", "array_equal outer")
_NUMBERS = [*_in("core", "bartlett blackman hamming hanning tri"), *_in("optimizers", "exponential_decay")]
_QUESTIONS = [
    *_in(
        "core",
        "clear_cache clear_streams default_device device_count device_info disable_compile enable_compile "
        "get_active_memory get_cache_memory get_memory_limit get_peak_memory get_printoptions is_available "
        "new_thread_local_stream reset_peak_memory",
    ),
    *_in(
        "core.metal",
        "clear_cache device_info get_active_memory get_cache_memory get_peak_memory is_available reset_peak_memory "
        "stop_capture",
    ),
    *_in("core.cuda", "is_available"),
    *_in("ext", "reproducible"),
    *_in("ext.debug", "cache_info cache_size clear_cache compiles eager explain host_disabled"),
]

WITHOUT_ERRORS = {
    **dict.fromkeys(OF_ANY_ARRAY, "takes any array"),
    **dict.fromkeys(_LAYERS_OF_ANY_ARRAY, "takes any array"),
    **dict.fromkeys(_TWO_ARRAYS, "takes any two arrays"),
    **dict.fromkeys(_NUMBERS, "takes any numbers"),
    **dict.fromkeys(_QUESTIONS, "asks for something that is there, or sets a switch"),
    **dict.fromkeys(_in("core", "ArrayIterator Dtype FunctionExporter"), "made by other functions, as in MLX"),
    **dict.fromkeys(_in("core", "DeviceType DtypeCategory"), "an enum"),
    **dict.fromkeys((*_in("nn", "Module Sequential"), "mxcompat.optimizers.Module"), "its methods say what they raise"),
    **dict.fromkeys(_in("nn", "average_gradients"), "what the collectives raise"),
    **dict.fromkeys(_in("optimizers", "Muon"), "takes parameters of any shape, as all optimizers do"),
    **dict.fromkeys(
        (*_in("utils", "tree_reduce tree_unflatten"), *_in("optimizers", "tree_reduce tree_unflatten")),
        "takes any tree, and what `fn` raises comes through",
    ),
    **dict.fromkeys((*_in("testing", "Comparison Difference"), "mxcompat.ext.debug.CacheInfo"), "what others return"),
    **dict.fromkeys(_in("ext.sharding", "Mesh PartitionSpec"), "JAX's own"),
    "mxcompat.ext.metal.enable": "sets a switch",
    **dict.fromkeys(_in("ext.sharding", "Collective"), "what `collectives` returns"),
    **dict.fromkeys(_in("ext.sparse", "SparseMatrix"), "made by other functions; its methods say what they raise"),
}  # fmt: skip
"""The names, with the reasons."""
