"""Discrete Fourier transforms along one or several axes, and their shifts and frequencies.

All transforms are one op. Its param `kind` is complex, real or inverse, and XLA transforms up to three axes at a time.
Spectra are complex64 and signals are float32 or complex64, for any input dtype. The short-time transforms are in
`stft`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, format_shape
from mxcompat._graph.ir.aval import complex64 as _complex64
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp, lax

from ..arguments import any_number, axis_of, integer, is_sequence, plain, require_array, require_text
from ..define import op
from ..examples import example

__all__ = [
    "FFT", "FREQUENCIES", "SHIFT", "check_norm", "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn",
    "ifftshift", "irfft", "irfft2", "irfftn", "result_shape", "rfft", "rfft2", "rfftfreq", "rfftn", "transform",
]  # fmt: skip


def transform(x: Any, kind: str, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Any:
    """Return the transform of a JAX array along `axes`, after a resize to `sizes`.

    A real transform (`rfft`, `irfft`) is real along the last of the axes and complex along the others.
    """
    real_input = kind == "rfft"
    x = x.real if real_input and x.dtype.kind == "c" else x
    x = x.astype(np.float32 if real_input else np.complex64)
    for axis, size in zip(axes, sizes, strict=True):
        x = _resized(x, axis, size // 2 + 1 if kind == "irfft" and axis == axes[-1] else size)
    if 0 in x.shape:
        result = result_shape(x.shape, kind, sizes, axes)
        return jnp.zeros(result, np.float32 if kind == "irfft" else np.complex64)
    trailing = tuple(range(-len(axes), 0))
    x = jnp.moveaxis(x, axes, trailing)
    # XLA takes at most three axes. An inverse real transform comes after the complex axes, a forward one before.
    last = min(3, len(axes))
    rest = len(axes) - last
    if kind == "irfft":
        x = _leading(x, lax.FftType.IFFT, sizes[:rest], rest)
    x = lax.fft(x, lax.FftType[kind.upper()], sizes[rest:])
    if kind != "irfft":
        x = _leading(x, lax.FftType.IFFT if kind == "ifft" else lax.FftType.FFT, sizes[:rest], rest)
    x = jnp.moveaxis(x, trailing, axes)
    scale = _scale(kind, math.prod(sizes), norm)
    return x if scale == 1.0 else x * np.float32(scale)


def _leading(x: Any, kind: Any, sizes: tuple[int, ...], count: int) -> Any:
    """Return a complex transform along the `count` axes before the last three."""
    for k in range(count):
        axis = -3 - count + k
        x = jnp.moveaxis(lax.fft(jnp.moveaxis(x, axis, -1), kind, (sizes[k],)), -1, axis)
    return x


def _resized(x: Any, axis: int, size: int) -> Any:
    """Return `x` cut off, or padded with zeros, to `size` along an axis."""
    have = x.shape[axis]
    if have > size:
        return lax.slice_in_dim(x, 0, size, axis=axis)
    if have < size:
        return jnp.pad(x, [(0, size - have if k == axis else 0) for k in range(x.ndim)])
    return x


def _scale(kind: str, count: int, norm: str) -> float:
    """Return the factor that the result needs. XLA divides inverse transforms by the number of elements, but not
    forward ones."""
    inverse = kind in ("ifft", "irfft")
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if norm == "forward":
        return float(count) if inverse else 1 / count
    return 1.0


def result_shape(shape: tuple[int, ...], kind: str, sizes: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    out = list(shape)
    for axis, size in zip(axes, sizes, strict=True):
        out[axis] = size
    if kind == "rfft":
        out[axes[-1]] = sizes[-1] // 2 + 1
    return tuple(out)


def _infer(x: Aval, kind: str, sizes: tuple[int, ...], axes: tuple[int, ...], norm: str) -> Aval:
    return aval(result_shape(x.shape, kind, sizes, axes), _float32 if kind == "irfft" else _complex64)


FFT = op("fft", transform, _infer, ("kind", "sizes", "axes", "norm"))


def check_norm(norm: Any, name: str) -> None:
    """Raise MLX's error unless `norm` is "backward", "ortho" or "forward"."""
    if require_text(norm, name, "norm") not in ("backward", "ortho", "forward"):
        raise ValueError(f"[{name}] Invalid norm. Expected one of {{'backward', 'ortho', 'forward'}}.")


def _apply(a: Any, kind: str, sizes: tuple[int, ...] | None, axes: tuple[int, ...] | None, norm: str) -> array:
    node = a._node
    shape, ndim = node.aval.shape, node.aval.ndim
    if axes is None:
        axes = tuple(range(ndim))
    if ndim < 1 and (sizes is not None or not axes):
        raise ValueError("[fftn] Requires array with at least one dimension.")
    if sizes is not None and len(sizes) != len(axes):
        raise ValueError("[fftn] Shape and axes have different sizes.")
    if sizes is None and axes is not None:
        for axis in axes:  # MLX reads the sizes of all axes first
            axis_of(axis, ndim, message="SmallVector out of range.")
    places = tuple([axis + ndim if axis < 0 else axis for axis in axes])
    if len(set(places)) < len(places):
        raise ValueError(f"[fftn] Duplicated axis received {format_shape(axes)}")
    for axis in axes:
        axis_of(axis, ndim, message="[fftn] Invalid axis received for array with {ndim} dimensions.")
    if not axes:
        return wrap(node)
    if sizes is None:
        sizes = tuple([shape[axis] for axis in places])
        if kind == "irfft":
            sizes = (*sizes[:-1], 2 * (sizes[-1] - 1))
    if any(n <= 0 for n in sizes):
        raise ValueError(f"[fftn] Invalid FFT output size requested {format_shape(sizes)}")
    return wrap(apply(FFT, (node,), (kind, sizes, places, norm)))


def _one_axis(name: str, what: str, result: str) -> Callable[..., array]:
    """Make the public function of a transform along one axis. `what` and `result` are parts of its docstring."""

    def function(a: array, n: int | None = None, axis: int = -1, norm: str = "backward", stream: Any = None) -> array:
        check_stream(stream)
        require_array(a, name)
        sizes, axes = None if n is None else (integer(n),), (integer(axis),)
        check_norm(norm, name)
        return _apply(a, name, sizes, axes, norm)

    return _documented(function, name, what, result, _ONE)


def _many_axes(name: str, what: str, result: str) -> Callable[..., array]:
    """Make the public function of a transform along several axes, by default the last two or all."""
    kind = name[:-1]

    def run(a: Any, s: Any, axes: Any, norm: Any) -> array:
        require_array(a, name)
        sizes, axes = None if s is None else plain(s), None if axes is None else plain(axes, integer)
        check_norm(norm, name)
        if axes is None and sizes is not None:
            raise ValueError(f"[{name}] `axes` should not be `None` if `s` is not `None`.")
        return _apply(a, kind, sizes, axes, norm)

    def function2(
        a: array,
        s: tuple[int, ...] | None = None,
        axes: Sequence[int] | None = [-2, -1],
        norm: str = "backward",
        stream: Any = None,
    ) -> array:
        check_stream(stream)
        return run(a, s, axes, norm)

    def functionn(
        a: array,
        s: tuple[int, ...] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
        stream: Any = None,
    ) -> array:
        check_stream(stream)
        return run(a, s, axes, norm)

    two = name.endswith("2")
    by_default = "the last two axes" if two else "all axes"
    return _documented(function2 if two else functionn, name, what, result, _MANY.format(by_default))


_ONE = """n: the size of the transform. The axis is cut off, or padded with zeros, to this size. {default}
    axis: the axis to transform."""
_MANY = """s: the sizes of the transform. The axes are cut off, or padded with zeros, to these sizes. {{default}}
    axes: the axes to transform; by default {}."""


def _documented(
    function: Callable[..., array], name: str, what: str, result: str, arguments: str
) -> Callable[..., array]:
    default = "The default is the size of the input"
    default += ", and 2 * (size - 1) for the last axis." if name.startswith("irfft") else "."
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{what}

Args:
    a: the input, an array of any dtype{"; an imaginary part is dropped" if name.startswith("rfft") else ""}.
    {arguments.format(default=default)}
    norm: where to divide by the size: "backward" (in the inverse transform), "forward" (in the forward transform), or
        "ortho" (by the square root of the size, in both).

Returns:
    {result}

Raises:
    ValueError: for any other `norm`, if a size is not positive, or if sizes and axes do not match.
    IndexError: if an axis is out of range.

Example:
{example("fft." + name)}
"""
    return function


_COMPLEX = "A complex64 array."
_HALF = "A complex64 array, with n // 2 + 1 non-negative frequencies along the last transformed axis."
_REAL = "A float32 array."

fft = _one_axis("fft", "Return the discrete Fourier transform along an axis.", _COMPLEX)
ifft = _one_axis("ifft", "Return the inverse of `fft`.", _COMPLEX)
rfft = _one_axis("rfft", "Return the discrete Fourier transform of real input along an axis.", _HALF)
irfft = _one_axis("irfft", "Return the inverse of `rfft`.", _REAL)
fft2 = _many_axes("fft2", "Return the two-dimensional discrete Fourier transform.", _COMPLEX)
ifft2 = _many_axes("ifft2", "Return the inverse of `fft2`.", _COMPLEX)
rfft2 = _many_axes("rfft2", "Return the two-dimensional discrete Fourier transform of real input.", _HALF)
irfft2 = _many_axes("irfft2", "Return the inverse of `rfft2`.", _REAL)
fftn = _many_axes("fftn", "Return the multi-dimensional discrete Fourier transform.", _COMPLEX)
ifftn = _many_axes("ifftn", "Return the inverse of `fftn`.", _COMPLEX)
rfftn = _many_axes("rfftn", "Return the multi-dimensional discrete Fourier transform of real input.", _HALF)
irfftn = _many_axes("irfftn", "Return the inverse of `rfftn`.", _REAL)


SHIFT = op("fftshift", lambda x, shifts, axes: jnp.roll(x, shifts, axes), lambda x, shifts, axes: x, ("shifts", "axes"))


def _shifted(a: Any, axes: Any, name: str, inverse: bool) -> array:
    require_array(a, name)
    shape, ndim = a._node.aval.shape, a._node.aval.ndim
    if axes is None:
        axes = tuple(range(ndim))
    else:
        axes = plain(axes, integer) if is_sequence(axes) else (integer(axes),)
    for axis in axes:
        axis_of(axis, ndim, name, "[{name}] Invalid axis {axis} for array with {ndim} dimensions.")
    shifts = tuple([-(shape[axis] // 2) if inverse else shape[axis] // 2 for axis in axes])
    return wrap(apply(SHIFT, (a._node,), (shifts, axes)))


def fftshift(a: array, axes: int | Sequence[int] | None = None, stream: Any = None) -> array:
    """Move the zero frequency to the middle of the spectrum.

    Args:
        a: a spectrum, an array of any dtype.
        axes: the axis or axes to shift; by default all axes.

    Returns:
        An array with the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    Example:
        >>> mx.fft.fftshift(mx.fft.fftfreq(5))
        array([-0.4, -0.2, 0, 0.2, 0.4], dtype=float32)
    """
    check_stream(stream)
    return _shifted(a, axes, "fftshift", inverse=False)


def ifftshift(a: array, axes: int | Sequence[int] | None = None, stream: Any = None) -> array:
    """Undo `fftshift`. The two differ only for odd sizes.

    Args:
        a: an array of any dtype.
        axes: the axis or axes to shift; by default all axes.

    Returns:
        An array with the shape and dtype of `a`.

    Raises:
        IndexError: if an axis is out of range.

    Example:
        >>> mx.fft.ifftshift(mx.fft.fftshift(mx.arange(5)))
        array([0, 1, 2, 3, 4], dtype=int32)
    """
    check_stream(stream)
    return _shifted(a, axes, "ifftshift", inverse=True)


def _frequencies(d: Any, n: int, half: bool) -> Any:
    order = np.arange(n // 2 + 1) if half else np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return jnp.asarray(order.astype(np.float32)) * (np.float32(1) / (np.float32(n) * jnp.asarray(d, np.float32)))


def _infer_frequencies(d: Aval, n: int, half: bool) -> Aval:
    return aval((n // 2 + 1 if half else n,), _float32)


FREQUENCIES = op("fftfreq", _frequencies, _infer_frequencies, ("n", "half"))


def _frequencies_of(n: Any, d: Any, name: str, half: bool) -> array:
    n, d = integer(n), any_number(d, name, "d")
    if n <= 0:
        raise ValueError(f"[{name}] `n` must be greater than 0.")
    if d == 0:
        raise ValueError(f"[{name}] `d` must be non-zero.")
    return wrap(apply(FREQUENCIES, (operands.scalar_node(d, _float32),), (n, half)))


def fftfreq(n: int, d: float = 1.0, stream: Any = None) -> array:
    """Return the frequencies of the results of `fft`.

    Args:
        n: the size of the transform.
        d: the time between samples. The frequencies are in cycles per unit of this time.

    Returns:
        A float32 array of shape (n,).

    Raises:
        ValueError: if `n` is not positive, or if `d` is 0.

    Example:
        >>> mx.fft.fftfreq(4)
        array([0, 0.25, -0.5, -0.25], dtype=float32)
    """
    check_stream(stream)
    return _frequencies_of(n, d, "fftfreq", half=False)


def rfftfreq(n: int, d: float = 1.0, stream: Any = None) -> array:
    """Return the frequencies of the results of `rfft`.

    Args:
        n: the size of the transform.
        d: the time between samples. The frequencies are in cycles per unit of this time.

    Returns:
        A float32 array of shape (n // 2 + 1,).

    Raises:
        ValueError: if `n` is not positive, or if `d` is 0.

    Example:
        >>> mx.fft.rfftfreq(4)
        array([0, 0.25, 0.5], dtype=float32)
    """
    check_stream(stream)
    return _frequencies_of(n, d, "rfftfreq", half=True)
