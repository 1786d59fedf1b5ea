"""The array namespaces that the walk is written over: NumPy's, which computes at once, and JAX's, which is traced.

Each adds the few operations that NumPy and JAX do differently: C's conversions and divisions, reads and writes of
memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._jax import jnp, lax

from .derivatives import without_derivative

__all__ = ["JaxSpace", "NumpySpace", "Space"]


class Space:
    """The common interface of `NumpySpace` and `JaxSpace`. `xp` is the module: `numpy` or `jax.numpy`."""

    xp: Any
    traced: bool

    def iota(self, extent: int, axis: int, rank: int, dtype: np.dtype) -> Any:
        """Return the positions along an axis."""
        raise NotImplementedError

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        raise NotImplementedError

    place: Callable[[], str] = staticmethod(lambda: "")
    """Gives the place in the source, for errors that derivatives raise."""

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def cast(self, x: Any, dtype: np.dtype) -> Any:
        """Convert an array to a dtype, as C does."""
        raise NotImplementedError

    quotient: Callable[[Any, Any], Any] = staticmethod(operator.truediv)
    """Divides floats."""

    def divide(self, a: Any, b: Any) -> Any:
        """Return the quotient of integers, rounded toward zero."""
        raise NotImplementedError

    def remainder(self, a: Any, b: Any) -> Any:
        """Return the remainder of integers or floats, with the sign of the dividend."""
        raise NotImplementedError

    def shift_right(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def bitcast(self, x: Any, dtype: np.dtype) -> Any:
        """Reinterpret the bits as a dtype of the same size."""
        raise NotImplementedError

    def recast(self, flat: Any, dtype: np.dtype) -> Any:
        """Reinterpret the bytes of a flat array (its last axis) as another dtype."""
        raise NotImplementedError

    def gather(self, flat: Any, index: Any, column: int = 0, size: int = 1) -> Any:
        """Return the elements at indices, with 0 for an index out of bounds. If the array has two axes, return `size`
        elements of each row at the indices, from `column` on."""
        raise NotImplementedError

    def scatter(self, flat: Any, index: Any, values: Any, kind: str) -> Any:
        """Return the array after writes at indices. Writes out of bounds are dropped. `kind` is "set", "add", "min",
        "max", "and", "or" or "xor"."""
        raise NotImplementedError

    def scatter_rows(self, rows: Any, index: Any, values: Any, kind: str, column: int) -> Any:
        """Return the array after writes of rows of values, from `column` on, at indices of rows. Writes out of bounds
        are dropped. `kind` is "set" or "add"."""
        raise NotImplementedError

    def slice(self, x: Any, start: Any, size: int) -> Any:
        """Return a slice of the last axis. The start may be traced."""
        raise NotImplementedError

    def cut(self, x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
        """Return a slice of the last axes."""
        raise NotImplementedError

    def put(self, x: Any, part: Any, starts: Sequence[Any]) -> Any:
        """Return the array with a slice of the last axes replaced."""
        raise NotImplementedError

    def guard(self, mask: Any, value: Any) -> Any:
        """Return the value. No cotangent passes where the mask is False."""
        return value

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        return self.xp.broadcast_to(x, tuple(shape))

    def pad(self, x: Any, before: int, after: int) -> Any:
        """Pad the last axis with zeros before and after it."""
        if not before and not after:
            return x
        return self.xp.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])


class NumpySpace(Space):
    """NumPy."""

    xp = np
    traced = False

    def iota(self, extent: int, axis: int, rank: int, dtype: np.dtype) -> Any:
        shape = [1] * rank
        shape[axis] = extent
        return np.arange(extent).astype(dtype).reshape(shape)

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        return np.asarray(x, dtype)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        return np.where(mask, a, b)

    def cast(self, x: Any, dtype: np.dtype) -> Any:
        if x.dtype == dtype:
            return x
        if dtype.kind in "iu" and _is_float(x.dtype):
            info = np.iinfo(dtype)
            wide = np.nan_to_num(np.trunc(np.asarray(x, np.float64)), nan=0.0)
            clipped = np.where(wide >= float(info.max), info.max, np.clip(wide, float(info.min), None).astype(
                np.uint64 if dtype == np.uint64 else np.int64))  # fmt: skip
            return clipped.astype(dtype)
        return np.asarray(x).astype(dtype)

    def divide(self, a: Any, b: Any) -> Any:
        a, b = np.asarray(a), np.asarray(b)
        quotient = a // b
        if a.dtype.kind == "u":
            return quotient
        return quotient + ((quotient < 0) & (quotient * b != a)).astype(a.dtype)

    def remainder(self, a: Any, b: Any) -> Any:
        return np.fmod(a, b)

    def shift_right(self, a: Any, b: Any) -> Any:
        return a >> b

    def bitcast(self, x: Any, dtype: np.dtype) -> Any:
        return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))

    def recast(self, flat: Any, dtype: np.dtype) -> Any:
        if flat.dtype == dtype:
            return flat
        bytes_ = flat.shape[-1] * flat.dtype.itemsize
        whole = bytes_ // dtype.itemsize * dtype.itemsize
        raw = np.ascontiguousarray(flat).view(np.uint8)[..., :whole]
        return np.ascontiguousarray(raw).view(dtype)

    def gather(self, flat: Any, index: Any, column: int = 0, size: int = 1) -> Any:
        if flat.ndim == 2:
            flat = flat[:, column : column + size]
        if not flat.shape[0]:
            return np.zeros(np.shape(index) + flat.shape[1:], flat.dtype)
        index = np.asarray(index)
        inside = (index >= 0) & (index < flat.shape[0])
        if inside.all():
            return flat[index]
        elements = flat[np.where(inside, index, 0)]
        elements[~inside] = 0
        return elements

    def scatter(self, flat: Any, index: Any, values: Any, kind: str) -> Any:
        shape = np.broadcast_shapes(np.shape(index), np.shape(values))
        index = np.broadcast_to(index, shape).reshape(-1)
        values = np.broadcast_to(values, shape).reshape(-1)
        inside = (index >= 0) & (index < flat.shape[0])
        if not inside.all():
            index, values = index[inside], values[inside]
        if kind == "set":
            flat[index] = values
        else:
            _UFUNCS[kind].at(flat, index, values)
        return flat

    def scatter_rows(self, rows: Any, index: Any, values: Any, kind: str, column: int) -> Any:
        inside = (index >= 0) & (index < rows.shape[0])
        if not inside.all():
            index, values = index[inside], values[inside]
        part = rows[:, column : column + values.shape[1]]
        if kind == "set":
            part[index] = values
        else:
            np.add.at(part, index, values)
        return rows

    def slice(self, x: Any, start: Any, size: int) -> Any:
        return x[..., int(start) : int(start) + size]

    def cut(self, x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
        return x[(..., *[slice(int(s), int(s) + n) for s, n in zip(starts, sizes, strict=True)])]

    def put(self, x: Any, part: Any, starts: Sequence[Any]) -> Any:
        sizes = part.shape[part.ndim - len(starts) :]
        x[(..., *[slice(int(s), int(s) + n) for s, n in zip(starts, sizes, strict=True)])] = part
        return x


_UFUNCS = {
    "add": np.add, "min": np.fmin, "max": np.fmax, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind in "fV"


class JaxSpace(Space):
    """JAX, which is traced."""

    traced = True

    def __init__(self, quotient: Callable[[Any, Any], Any] = operator.truediv) -> None:
        self._quotient = quotient

    def quotient(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        """Return the quotient of floats. The quotient of two constants is a constant."""
        constant = isinstance(x, (np.generic, np.ndarray)) and isinstance(y, (np.generic, np.ndarray))
        return x / y if constant else self._quotient(x, y)

    @property
    def xp(self) -> Any:  # type: ignore[override]
        return jnp

    def iota(self, extent: int, axis: int, rank: int, dtype: np.dtype) -> Any:
        shape = [1] * rank
        shape[axis] = extent
        return lax.broadcasted_iota(dtype, shape, axis)

    def asarray(self, x: Any, dtype: Any = None) -> Any:
        # `full` makes a traced constant, not a captured array
        if isinstance(x, (np.generic, np.ndarray)) and x.ndim == 0:
            return lax.full((), np.asarray(x, dtype)[()])  # type: ignore[arg-type]
        return jnp.asarray(x, dtype)

    def where(self, mask: Any, a: Any, b: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(mask), np.shape(a), np.shape(b))
        mask, a, b = (self.broadcast(x, shape) for x in (mask, a, b))
        return lax.select(mask, a, b)

    def broadcast(self, x: Any, shape: Sequence[int]) -> Any:
        if np.shape(x) == tuple(shape):
            return self.asarray(x)
        if np.ndim(x) == 0:
            constant: Any = x
            return lax.full(shape, constant) if isinstance(x, np.generic) else lax.broadcast(x, shape)
        return jnp.broadcast_to(x, tuple(shape))

    def cast(self, x: Any, dtype: np.dtype) -> Any:
        return x if x.dtype == dtype else self.asarray(x, dtype)

    def divide(self, a: Any, b: Any) -> Any:
        return lax.div(*jnp.broadcast_arrays(a, b))

    def remainder(self, a: Any, b: Any) -> Any:
        return lax.rem(*jnp.broadcast_arrays(a, b))

    def shift_right(self, a: Any, b: Any) -> Any:
        return jnp.right_shift(a, b)

    def bitcast(self, x: Any, dtype: np.dtype) -> Any:
        return lax.bitcast_convert_type(self._bits_of(self.asarray(x)), dtype)

    def _bits_of(self, x: Any) -> Any:
        """Return an array whose bits are about to be reinterpreted. A derivative through it raises an error."""
        if not jnp.issubdtype(x.dtype, np.floating):
            return x
        return without_derivative(
            x, f"[metal_kernel] {self.place()}: the bits of a float are read as another type (as_type, or a pointer "
            "that was cast), so that it has no derivative. Give the kernel one with mx.custom_function.",
        )  # fmt: skip

    def recast(self, flat: Any, dtype: np.dtype) -> Any:
        if flat.dtype == dtype:
            return flat
        if flat.dtype == np.bool_:
            flat = flat.astype(np.uint8)
        flat = self._bits_of(flat)
        old, new = flat.dtype.itemsize, dtype.itemsize
        lead = flat.shape[:-1]
        if dtype == np.bool_:
            return self.recast(flat, np.dtype(np.uint8)) != 0
        if old < new:
            ratio = new // old
            whole = flat.shape[-1] // ratio
            return lax.bitcast_convert_type(flat[..., : whole * ratio].reshape(*lead, whole, ratio), dtype)
        elements = lax.bitcast_convert_type(flat, dtype)
        return elements.reshape(*lead, -1) if old > new else elements

    def gather(self, flat: Any, index: Any, column: int = 0, size: int = 1) -> Any:
        if not flat.shape[0]:
            return jnp.zeros(jnp.shape(index) + (size,) * (flat.ndim - 1), flat.dtype)
        index = _index(index, flat.shape[0])
        at = flat.at[index] if flat.ndim == 1 else flat.at[index, column : column + size]
        return at.get(mode="fill", fill_value=0, wrap_negative_indices=False)

    def scatter(self, flat: Any, index: Any, values: Any, kind: str) -> Any:
        if not flat.shape[0]:
            return flat
        shape = np.broadcast_shapes(jnp.shape(index), jnp.shape(values))
        index = jnp.broadcast_to(_index(index, flat.shape[0]), shape).reshape(-1)
        values = jnp.broadcast_to(values, shape).reshape(-1)
        if kind in ("and", "or", "xor"):
            return _scatter_bits(flat, index, values, kind)
        at = flat.at[index]
        return getattr(at, kind)(values, mode="drop", wrap_negative_indices=False)

    def scatter_rows(self, rows: Any, index: Any, values: Any, kind: str, column: int) -> Any:
        at = rows.at[_index(index, rows.shape[0]), column : column + values.shape[1]]
        return getattr(at, kind)(values, mode="drop", wrap_negative_indices=False)

    def slice(self, x: Any, start: Any, size: int) -> Any:
        if isinstance(start, int):
            return (
                x if start == 0 and size == x.shape[-1] else lax.slice_in_dim(x, start, start + size, axis=x.ndim - 1)
            )
        return lax.dynamic_slice_in_dim(x, start.reshape(()), size, axis=x.ndim - 1)

    def cut(self, x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
        lead = x.ndim - len(starts)
        if all(isinstance(s, int) for s in starts):
            if tuple(sizes) == x.shape[lead:]:
                return x
            begin = [0] * lead + list(starts)
            end = [*x.shape[:lead], *[s + n for s, n in zip(starts, sizes, strict=True)]]
            return lax.slice(x, begin, end)
        return lax.dynamic_slice(x, self._starts(lead, starts), (*x.shape[:lead], *sizes))

    def put(self, x: Any, part: Any, starts: Sequence[Any]) -> Any:
        lead = x.ndim - len(starts)
        if part.shape == x.shape and all(isinstance(s, int) for s in starts):
            return part
        return lax.dynamic_update_slice(x, part, self._starts(lead, starts))

    def _starts(self, lead: int, starts: Sequence[Any]) -> list[Any]:
        kinds = {s.dtype for s in starts if not isinstance(s, int)}
        kind = kinds.pop() if kinds else np.dtype(np.int32)
        return [kind.type(0)] * lead + [kind.type(s) if isinstance(s, int) else s.reshape(()) for s in starts]

    def guard(self, mask: Any, value: Any) -> Any:
        return self.where(mask, value, lax.stop_gradient(value))


def _index(index: Any, length: int) -> Any:
    """Cast indices to int32 if they fit, and otherwise to int64. An index too large for int32 stays out of bounds."""
    index = jnp.asarray(index)
    if index.dtype.itemsize == 8:
        if length < 1 << 31:
            inside = (index >= 0) & (index < length)
            return jnp.where(inside, index, -1).astype(np.int32)
        return index.astype(np.int64)
    return index.astype(np.int32)


def _scatter_bits(flat: Any, index: Any, values: Any, kind: str) -> Any:
    """Scatter with a bitwise op, one bit at a time. XLA has no bitwise scatter that all its backends compile."""
    bits = flat.dtype.itemsize * 8
    unsigned = np.dtype(f"uint{bits}")
    planes = jnp.arange(bits, dtype=unsigned)
    target = (lax.bitcast_convert_type(flat, unsigned)[:, None] >> planes) & 1
    set_bits = (lax.bitcast_convert_type(values, unsigned)[:, None] >> planes) & 1
    at = target.at[index]
    options: dict[str, Any] = {"mode": "drop", "wrap_negative_indices": False}
    if kind == "xor":
        target = at.add(set_bits, **options) & 1
    else:
        target = at.max(set_bits, **options) if kind == "or" else at.min(set_bits, **options)
    result = jnp.sum(target << planes, axis=1, dtype=unsigned)
    return lax.bitcast_convert_type(result, flat.dtype)
