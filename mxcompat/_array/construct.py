"""Construction: nodes from Python numbers, NumPy, JAX, DLPack and buffers.

Operands and the constructor both convert values here; `nest` adds nested lists. Memory that others may write to is
copied. Casts are MLX's: integers wrap, floats truncate.
"""

from __future__ import annotations

import ctypes
import datetime
import types
from typing import Any

import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir import buffers
from mxcompat._graph.ir.aval import DTYPES, Aval, Dtype, aval
from mxcompat._graph.ir.node import Node, apply, leaf, tracer
from mxcompat._graph.ir.op import Op
from mxcompat._graph.policy import MOST_PROGRAMS, SMALL_BYTES
from mxcompat._graph.run.placement import layout, use
from mxcompat._graph.run.values import aligned
from mxcompat._jax import is_array, is_tracer, jax, jnp
from mxcompat._native import native

from .casting import converted
from .errors import bad_cast, incompatible

__all__ = [
    "CAST", "COPY", "as_node", "cast", "cast_numpy", "copied", "exports", "holds", "invalid", "is_capsule", "jax_node",
    "natural_dtype", "node_of", "number_node", "numpy_node", "own", "rounded", "type_name",
]  # fmt: skip


def node_of(value: Any, dtype: Dtype | None = None) -> Node:
    """Return the node of an array, a number or a buffer, cast to `dtype` if one is given.

    Raises:
        ValueError: for another object; lists and tuples are not accepted.
        TypeError: for None.
    """
    node = as_node(value, dtype)
    if node is None:
        raise invalid(value)
    return node


def invalid(value: Any) -> Exception:
    """Return the error for a value that cannot become an array."""
    if value is None:
        return incompatible("", "expected a number or an array, got NoneType")
    if isinstance(value, (memoryview, _CAPSULE)):
        return bad_cast(f"{value!r} holds nothing that an array can")
    return ValueError(f"Invalid type {type_name(value)} received in array initialization.")


def as_node(value: Any, dtype: Dtype | None = None) -> Node | None:
    """Return the node of a value as `node_of` does, or None if it cannot become an array."""
    node = getattr(value, "_node", None)
    if isinstance(node, Node):
        return cast(node, dtype)
    if isinstance(value, np.str_):
        return None
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, np.bytes_):
        return numpy_node(np.asarray(value), dtype)
    if is_array(value):
        return jax_node(value, dtype)
    if isinstance(value, (bool, int, float, complex)):
        return number_node(value, dtype)
    kind = type(value)
    if hasattr(kind, "__mlx_array__"):
        inner = getattr(value.__mlx_array__(), "_node", None)
        if not isinstance(inner, Node):
            raise bad_cast(f"{type_name(value)}.__mlx_array__ did not return an array")
        return cast(inner, dtype)
    if hasattr(kind, "__dlpack__"):
        return _dlpack_node(value, dtype)
    if is_capsule(value):
        return _dlpack_node(_Capsule(value), dtype)
    try:
        data = np.asarray(memoryview(value))
    except (TypeError, ValueError):  # the value has no buffer, or a format that NumPy does not know
        return None
    return numpy_node(data, dtype)


def type_name(value: Any) -> str:
    """Return the name of a value's type as MLX's messages show it: with the module for classes made at run time."""
    kind = type(value)
    if kind.__flags__ & _HEAP_TYPE and kind.__module__ != "builtins":
        return f"{kind.__module__}.{kind.__name__}"
    return kind.__name__


_HEAP_TYPE = 1 << 9

CAST = Op(
    "cast",
    converted,
    lambda a, dtype: aval(a.shape, dtype),
    ("dtype",),
)
"""The cast of a value that becomes an operand or a constructor argument."""


def cast(node: Node, dtype: Dtype | None) -> Node:
    """Cast a node, unless it already has this dtype or `dtype` is None."""
    return node if dtype is None or node.aval.dtype is dtype else apply(CAST, (node,), (dtype,))


COPY = Op("copy", lambda x: jnp.array(x, copy=True), lambda a: a)


def copied(node: Node) -> Node:
    """Return a node with the same values in separate memory."""
    return apply(COPY, (node,))


_SAME = {d._numpy: d for d in DTYPES if d is not _d.float64}
"""The dtype for each NumPy dtype that is kept by default."""

_DEFAULT = _SAME | {np.dtype(np.float64): _d.float32, np.dtype(np.complex128): _d.complex64}


def exports(data: np.ndarray) -> bool:
    """Return True if NumPy passes on this data by DLPack. Newer versions also do so for dtypes that they only know from
    another package, such as float8."""
    try:
        data.__dlpack__(max_version=(1, 0))  # older versions refuse read-only data
    except (BufferError, TypeError):
        return False
    return True


def _cannot_convert() -> ValueError:
    return ValueError("[convert] Cannot convert array to mlx.")


def holds(dtype: np.dtype) -> bool:
    """Return True if an array can hold data of a NumPy dtype, perhaps in a narrower one."""
    return dtype in _DEFAULT


def numpy_node(data: np.ndarray, dtype: Dtype | None) -> Node:
    """Return a leaf with a copy of NumPy's data."""
    same = _SAME.get(data.dtype)
    if same is not None and (dtype is None or dtype is same) and data.flags.c_contiguous:
        return own(data, same)
    natural = _DEFAULT.get(data.dtype)
    if natural is None:
        raise _cannot_convert() if exports(data) else bad_cast(f"no array can hold data of type {data.dtype}")
    if data.strides and min(data.strides) < 0:
        raise ValueError("Cannot convert DLPack arrays with negative strides to mlx array.")
    if dtype is None:
        dtype = natural
    elif natural._kind == "f" and dtype._kind == "f" and dtype.size == 2:
        data = cast_numpy(data, natural)  # MLX rounds through float32
    return own(cast_numpy(data, dtype), dtype)


def cast_numpy(data: Any, dtype: Dtype) -> np.ndarray:
    if data.dtype == dtype._numpy:
        return data
    if data.dtype.kind == "c" and dtype._kind != "c":
        data = data.real
    with np.errstate(all="ignore"):
        return data.astype(dtype._numpy)


def own(data: np.ndarray, dtype: Dtype) -> Node:
    """Return a leaf with a copy of data that already has the right dtype. The copy stays in NumPy until XLA needs
    it."""
    a = aval(data.shape, dtype)
    return leaf(aligned(data) if a.nbytes >= SMALL_BYTES else data.copy(), a)


def jax_node(value: Any, dtype: Dtype | None) -> Node:
    """Return a leaf for a JAX array. Its memory is shared unless a cast is needed; both sides treat it as immutable."""
    if not holds(value.dtype):
        raise _cannot_convert()
    dtype = dtype or _DEFAULT[value.dtype]
    traced = is_tracer(value)
    if not traced and layout(value) is not None:
        use()
    if value.dtype != dtype._numpy or value.weak_type:
        with jax.enable_x64(True):
            value = jnp.array(converted(value, dtype), dtype=dtype._numpy)
    return (tracer if traced else leaf)(value, aval(value.shape, dtype))


# `CapsuleType` exists from Python 3.13 on
_CAPSULE = getattr(types, "CapsuleType", type(getattr(datetime, "datetime_CAPI", None)))


def is_capsule(value: Any) -> bool:
    """Return True if a value is a DLPack capsule that has not been consumed yet."""
    valid = ctypes.pythonapi.PyCapsule_IsValid  # for objects that are no capsules, this returns False
    return any(valid(ctypes.py_object(value), name) for name in (b"dltensor", b"dltensor_versioned"))


class _Capsule:
    """Wraps a DLPack capsule with the methods that NumPy and JAX expect."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def _dlpack_node(value: Any, dtype: Dtype | None = None) -> Node:
    """Return a leaf with a copy of an object's DLPack data. A PyTorch tensor with `requires_grad` is detached first."""
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        data = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):  # NumPy does not know the type (bfloat16) or the device
        return _foreign_node(value, dtype)
    return numpy_node(data, dtype)


def _foreign_node(value: Any, dtype: Dtype | None) -> Node:
    """Import DLPack data through JAX, for types that MLX has, too."""
    try:
        with jax.enable_x64(True):
            data = jnp.array(jax.dlpack.from_dlpack(value), copy=True)
    except (BufferError, ValueError) as error:
        raise bad_cast(f"{type_name(value)}: {error}") from error
    except jax.errors.JaxRuntimeError:  # JAX does not know the type
        data = None
    if data is None:
        raise _cannot_convert()
    return jax_node(data, dtype)


_numbers: dict[tuple, tuple[np.ndarray, Aval]] = {}
"""Data of recent Python numbers, because programs convert the same few again and again."""


def number_node(value: Any, dtype: Dtype | None) -> Node:
    """Return a leaf for a Python number."""
    key = (type(value), value, dtype, value == 0 and str(value))
    known = _numbers.get(key)
    if known is None:
        known = _new_number(value, dtype)
        if len(_numbers) >= MOST_PROGRAMS:
            _numbers.clear()
        _numbers[key] = known
    data, of_it = known
    return leaf(data if buffers.smallest else data.copy(), of_it)  # a value that is counted needs separate memory


def _new_number(value: Any, dtype: Dtype | None) -> tuple[np.ndarray, Aval]:
    row = native.numbers([value], dtype) if native else None  # C code handles common numbers fast
    if row is not None:
        # separate memory is counted, but cached data must not be
        return row.value.reshape(()).copy(), aval((), row.aval.dtype)
    dtype = dtype or natural_dtype(value)
    data = _number(value, dtype)
    if dtype._kind != "c":
        data = data.real
    return aligned(cast_numpy(rounded(data, dtype), dtype)), aval((), dtype)


def natural_dtype(value: Any) -> Dtype:
    """Return the dtype of an array made of this number alone."""
    if isinstance(value, bool):
        return _d.bool_
    if isinstance(value, int):
        return _d.int32 if -(2**31) <= value < 2**31 else _d.int64
    return _d.float32 if isinstance(value, float) else _d.complex64


def _number(value: Any, dtype: Dtype) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return np.array(value, np.uint64 if dtype is _d.uint64 and value >= 0 else np.int64)
        except OverflowError:
            raise bad_cast(f"{value} does not fit in 64 bits") from None
    return np.array(value)


def rounded(data: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Round numbers for a dtype: half precision is rounded from float32."""
    return cast_numpy(data, _d.float32) if dtype._kind == "f" and dtype.size == 2 else data
