"""Compare a function on real MLX and on mxcompat.

    from mxcompat.testing import compare

    print(compare(lambda mx, x: mx.softmax(x, axis=-1), np.ones((2, 3), np.float32)))

The comparison covers types, shapes, dtypes, values and exceptions. It helps to move a program to mxcompat. It needs
real MLX (`pip install "mlx[cpu]"`) in the same environment.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from mxcompat import _dropin

__all__ = ["TOLERANCE", "Comparison", "Difference", "compare", "differences", "to_numpy"]

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5}
"""The relative and absolute tolerance for each dtype: a few units in the last place, since XLA and MLX add in different
orders."""


@dataclass(frozen=True)
class Difference:
    """One difference between the two results.

    Args:
        where: the place in the result, such as `[0]['weight']`; empty for the result itself.
        what: the property that differs: "type", "dtype", "shape", "value", "keys", "length", "exception", "message".
        real: the value from real MLX.
        ours: the value from mxcompat.
    """

    where: str
    what: str
    real: Any
    ours: Any

    def __str__(self) -> str:
        return f"result{self.where}: {self.what}: real MLX {self.real}, mxcompat {self.ours}"


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. It is true in a condition if there is no difference.

    Args:
        real: the result of the function on real MLX, or the exception that it raised.
        ours: the result or the exception on mxcompat.
        differences: all differences.
    """

    real: Any
    ours: Any
    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        if self.differences:
            return "\n".join(map(str, self.differences))
        if isinstance(self.real, Exception):
            return f"the same: both raise {self.real!r}"
        return "the same"


def compare(fn: Callable[..., Any], *args: Any, tolerance: float | None = None, seed: int | None = 0) -> Comparison:
    """Run a function on real MLX and on mxcompat, and report the differences.

    Args:
        fn: called as `fn(mx, *args)`, once with each `mlx.core`; it returns a tree of arrays and other values.
        *args: the arguments. Each side gets NumPy arrays, and lists, tuples and dicts of them, as its own arrays. Other
            values are passed unchanged.
        tolerance: the relative and absolute tolerance for floating-point values; by default it depends on the dtype.
            NaN equals NaN.
        seed: the argument of `mx.random.seed` on both sides before the call; None for no seed.

    Returns:
        A `Comparison`: true if nothing differs, and a readable report as a string. An exception of `fn` is compared,
        not raised. Its message is compared too, except for TypeError and AttributeError, whose messages Python or MLX's
        bindings write.

    Raises:
        ImportError: if real MLX is not installed.
        RuntimeError: if `mlx` means mxcompat in this process, after `install_as_mlx`.

    Example:
        >>> mx.testing.compare(lambda mx, x: x.sum(axis=0), np.ones((2, 3), np.float32)).differences
        ()
    """
    real, ours = _sides()
    want, got = _run(real, fn, args, seed), _run(ours, fn, args, seed)
    return Comparison(want, got, tuple(differences(want, got, tolerance)))


def differences(
    want: Any, got: Any, tolerance: float | None = None, *, messages: bool | None = None, where: str = ""
) -> list[Difference]:
    """Return all differences between two results: trees of arrays and other values, or exceptions.

    Args:
        want: the result from real MLX.
        got: the result from mxcompat.
        tolerance: the relative and absolute tolerance for floating-point values; by default it depends on the dtype.
            NaN equals NaN.
        messages: whether to compare the messages of exceptions; by default all except those that Python or MLX's
            bindings write.
        where: the name of the result in the report.

    Raises:
        ImportError, RuntimeError: as `compare` does.

    Example:
        >>> import mlx.core
        >>> for difference in mx.testing.differences([mlx.core.ones(2)], [mx.ones(3)]):
        ...     print(difference)
        result[0]: shape: real MLX (2,), mxcompat (3,)
    """
    return list(_differences(Given(*_sides(), tolerance, messages), want, got, where))


def _sides() -> tuple[Any, Any]:
    """Return real MLX's core and ours."""
    if _dropin.installed():
        raise RuntimeError("[compare] `mlx` is mxcompat in this process; real MLX cannot be imported beside it.")
    try:
        real = importlib.import_module("mlx.core")
    except ImportError as error:
        raise ImportError('[compare] Real MLX is needed to compare with: pip install "mlx[cpu]".') from error
    return real, importlib.import_module("mxcompat.core")


def _run(mx: Any, fn: Callable[..., Any], args: Any, seed: int | None) -> Any:
    """Return the evaluated result of `fn` on one side, or the exception that it raises."""
    if seed is not None:
        mx.random.seed(seed)
    try:
        out = fn(mx, *[_given(mx, a) for a in args])
        mx.eval(out)
    except Exception as error:
        return error
    return out


def _given(mx: Any, tree: Any) -> Any:
    if isinstance(tree, np.ndarray):
        if tree.dtype == ml_dtypes.bfloat16:
            return mx.array(tree.view(np.uint16)).view(mx.bfloat16)
        if tree.dtype == np.float64:  # `mx.array` would convert it to float32
            return mx.array(tree, dtype=mx.float64)
        return mx.array(tree)
    if isinstance(tree, dict):
        return {key: _given(mx, value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_given(mx, value) for value in tree)
    return tree


@dataclass(frozen=True)
class Given:
    """Settings that are the same for all nodes of a tree."""

    real: Any
    ours: Any
    tolerance: float | None
    messages: bool | None

    def near(self, want: Any, got: Any, usual: float) -> Any:
        """Return a mask of the values that are near enough. `usual` is the default tolerance."""
        limit = self.limit(usual)
        if want.dtype.kind == "O" or (not limit and want.dtype.kind in "biu"):
            return np.asarray(want == got)
        return np.isclose(got, want, rtol=limit, atol=limit, equal_nan=True)

    def limit(self, usual: float) -> float:
        return usual if self.tolerance is None else self.tolerance

    def counts(self, error: Exception) -> bool:
        """Return whether to compare the message of an exception."""
        return not isinstance(error, (AttributeError, TypeError)) if self.messages is None else self.messages


def _differences(settings: Given, want: Any, got: Any, where: str) -> Iterator[Difference]:
    real, ours = settings.real, settings.ours
    if isinstance(want, Exception) or isinstance(got, Exception):
        if type(want) is not type(got):
            yield Difference(where, "exception", repr(want), repr(got))
        elif settings.counts(want) and str(want) != str(got):
            yield Difference(where, "message", str(want), str(got))
    elif isinstance(want, real.array) and isinstance(got, ours.array):
        yield from _array_differences(settings, want, got, where, partial(to_numpy, real), partial(to_numpy, ours))
    elif isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        yield from _array_differences(settings, want, got, where, np.asarray, np.asarray)
    elif isinstance(want, (real.array, real.Dtype)) or isinstance(got, (ours.array, ours.Dtype)):
        if _kind(want) != _kind(got) or str(want) != str(got):
            yield Difference(where, "type" if _kind(want) != _kind(got) else "value", want, got)
    elif isinstance(want, dict) and isinstance(got, dict):
        if list(want) != list(got):
            yield Difference(where, "keys", list(want), list(got))
            return
        for key in want:
            yield from _differences(settings, want[key], got[key], f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)) and type(want) is type(got):
        if len(want) != len(got):
            yield Difference(where, "length", len(want), len(got))
            return
        for k, (w, g) in enumerate(zip(want, got, strict=True)):
            yield from _differences(settings, w, g, f"{where}[{k}]")
    elif type(want) is not type(got) and want.__class__.__module__.partition(".")[0] != "mlx":
        yield Difference(where, "type", _kind(want), _kind(got))
    elif isinstance(want, (float, complex)):
        if not settings.near(np.asarray(want), np.asarray(got), 1e-5):
            yield Difference(where, "value", want, got)
    elif (str(want) != str(got)) if type(want) is not type(got) else want != got:
        yield Difference(where, "value", want, got)


def _array_differences(
    settings: Given, want: Any, got: Any, where: str, read: Callable[[Any], Any], read_ours: Callable[[Any], Any]
) -> Iterator[Difference]:
    """Yield the differences of arrays. The last two functions read their data."""
    if str(want.dtype) != str(got.dtype):
        yield Difference(where, "dtype", want.dtype, got.dtype)
    if tuple(want.shape) != tuple(got.shape):
        yield Difference(where, "shape", tuple(want.shape), tuple(got.shape))
        return
    w, g = _wide(read(want)), _wide(read_ours(got))
    usual = TOLERANCE.get(str(want.dtype).rpartition(".")[2], 0.0)
    far = ~settings.near(w, g, usual)
    if far.any():
        index = tuple(map(int, np.argwhere(far)[0]))
        place = f"{where}{list(index) if index else ''}"
        note = f"{w[index]} ({int(far.sum())} of {far.size} elements differ by more than {settings.limit(usual):g})"
        yield Difference(place, "value", note, g[index])


def to_numpy(mx: Any, x: Any) -> np.ndarray:
    """Return the data of an array of one side, also for bfloat16.

    Args:
        mx: the side's `mlx.core`.
        x: an array of that side.

    Returns:
        A NumPy array of the same shape and dtype.

    Example:
        >>> from mxcompat.testing import to_numpy
        >>> to_numpy(mx, mx.ones(2, dtype=mx.bfloat16)).dtype.name
        'bfloat16'
    """
    return np.array(x.view(mx.uint16)).view(ml_dtypes.bfloat16) if x.dtype == mx.bfloat16 else np.array(x)


def _wide(data: np.ndarray) -> np.ndarray:
    """Return floats and complex numbers in a type wide enough for differences."""
    if data.dtype.kind in "fcV":
        return data.astype(np.complex128 if data.dtype.kind == "c" else np.float64)
    return data


def _kind(x: Any) -> str:
    return type(x).__name__
