"""`asarray` and `from_dlpack`: arrays from other libraries' arrays, sharing memory where that is safe.

JAX arrays are immutable and shared. Everything else may be written to by its owner and is copied; where a copy is
refused, these raise as MLX does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Dtype, float32, float64, from_numpy
from mxcompat._jax import is_array

from .array import array, wrap
from .construct import copied, invalid, is_capsule, type_name
from .errors import incompatible
from .nest import nest_of

__all__ = ["ArrayLike", "asarray", "from_dlpack"]


class ArrayLike:
    """Stands for any object whose `__mlx_array__` method returns an array; ops and the constructor take such objects.

    Args:
        arg: the object.

    Raises:
        ValueError: where an array is wanted of it, and it has no such method.

    Example:
        >>> Two = type("Two", (), {"__mlx_array__": lambda self: mx.array([2.0])})
        >>> mx.ones(3) * mx.ArrayLike(Two())
        array([2, 2, 2], dtype=float32)
    """

    __slots__ = ("_object",)

    def __init__(self, arg: object, /) -> None:
        self._object = arg

    def __mlx_array__(self) -> array:
        if not hasattr(type(self._object), "__mlx_array__"):
            raise invalid(self._object)
        return self._object.__mlx_array__()  # type: ignore[attr-defined]


def asarray(a: Any, dtype: Dtype | None = None, *, copy: bool | None = None) -> array:
    """Make an array of something.

    Args:
        a: what `array` takes.
        dtype: the dtype of the result, by default that of `a`.
        copy: True to copy always, False never, None where needed.

    Returns:
        An array with the data of `a`.

    Raises:
        ValueError: if `copy` is False and a copy is needed: for anything but a JAX array of the same dtype.

    Example:
        >>> mx.asarray([1, 2], mx.float32)
        array([1, 2], dtype=float32)
    """
    if a is None:
        raise TypeError("asarray: expected a number, a sequence or an array, got NoneType")
    if copy is False:
        _refuse_copy(a, dtype)
    made = array(a, dtype)
    return wrap(copied(made._node)) if copy and (isinstance(a, array) or is_array(a)) else made


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> array:
    """Make an array of an object that speaks DLPack.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`, or what `__dlpack__` returned, which is used up by it.
        copy: True to copy always, False never, None where needed.

    Returns:
        An array with the data of `x`; double precision becomes single.

    Raises:
        ValueError: if `copy` is False and a copy is needed: for anything but a JAX array.
        TypeError: if `x` does not speak DLPack.

    Example:
        >>> mx.from_dlpack(np.arange(3.0))
        array([0, 1, 2], dtype=float32)
    """
    if not (hasattr(type(x), "__dlpack__") or isinstance(x, np.generic) or is_capsule(x)):
        raise TypeError(f"from_dlpack: expected an object with __dlpack__, got {type_name(x)}")
    try:
        return asarray(x, float32 if isinstance(x, array) and x.dtype is float64 else None, copy=copy)
    except (BufferError, RuntimeError) as error:
        raise incompatible("from_dlpack", f"Expected data of a dtype that MLX has, got {type_name(x)}.") from error


def _refuse_copy(a: Any, dtype: Dtype | None) -> None:
    if is_array(a) and from_numpy(a.dtype) is (dtype or from_numpy(a.dtype)) is not None:
        return
    if isinstance(a, (array, list, tuple, bool, int, complex)) or type(a) is float:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if dtype is not None and dtype is not nest_of(a).aval.dtype:
        raise ValueError("[convert] Cannot convert array to the requested dtype without a copy.")
    raise ValueError("[convert] Cannot import a CPU array without a copy.")
