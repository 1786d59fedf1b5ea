"""`asarray` and `from_dlpack`: arrays from other libraries' arrays, sharing memory where that is safe.

JAX arrays are immutable and shared. The owners of other arrays may write to them, so these are copied. If the caller
refuses a copy, MLX's error is raised.
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
    """A wrapper of an object whose `__mlx_array__` method returns an array; ops and the constructor accept it.

    Args:
        arg: the object.

    Raises:
        ValueError: when it is converted to an array, if the object has no such method.

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
    """Convert an object to an array.

    Args:
        a: any object that `array` accepts.
        dtype: the dtype of the result, by default that of `a`.
        copy: True to copy always, False never, None if needed.

    Returns:
        An array with the data of `a`.

    Raises:
        ValueError: if `copy` is False and a copy is needed: for anything but a JAX array of the same dtype.

    Example:
        >>> mx.asarray([1, 2], mx.float32)
        array([1, 2], dtype=float32)
    """
    _check_copy(copy, "asarray")
    if a is None:
        raise TypeError("asarray: expected a number, a sequence or an array, got NoneType")
    if copy is False:
        _refuse_copy(a, dtype)
    result = array(a, dtype)
    return wrap(copied(result._node)) if copy and (isinstance(a, array) or is_array(a)) else result


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> array:
    """Convert an object that supports DLPack to an array.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`; a capsule returned by `__dlpack__`, which can be used
            once; or an object with a buffer, such as `bytes`.
        copy: True to copy always, False never, None if needed.

    Returns:
        An array with the data of `x`; double precision becomes single.

    Raises:
        ValueError: if `copy` is False and a copy is needed: for anything but a JAX array.
        TypeError: if `x` does not support DLPack.

    Example:
        >>> mx.from_dlpack(np.arange(3.0))
        array([0, 1, 2], dtype=float32)
    """
    _check_copy(copy, "from_dlpack")
    if not (hasattr(type(x), "__dlpack__") or isinstance(x, np.generic) or is_capsule(x)):
        try:
            x = np.asarray(memoryview(x))
        except TypeError:
            raise TypeError(f"from_dlpack: expected an object with __dlpack__, got {type_name(x)}") from None
    try:
        return asarray(x, float32 if isinstance(x, array) and x.dtype is float64 else None, copy=copy)
    except (BufferError, RuntimeError) as error:
        raise incompatible("from_dlpack", f"Expected data of a dtype that MLX has, got {type_name(x)}.") from error


def _check_copy(copy: Any, function: str) -> None:
    if copy is not None and not isinstance(copy, bool):
        raise incompatible(function, "copy must be a bool or None.")


def _refuse_copy(a: Any, dtype: Dtype | None) -> None:
    if is_array(a) and from_numpy(a.dtype) is (dtype or from_numpy(a.dtype)) is not None:
        return
    if isinstance(a, (array, list, tuple, bool, int, complex)) or type(a) is float:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if dtype is not None and dtype is not nest_of(a).aval.dtype:
        raise ValueError("[convert] Cannot convert array to the requested dtype without a copy.")
    raise ValueError("[convert] Cannot import a CPU array without a copy.")
