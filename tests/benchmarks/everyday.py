"""`python -m tests.benchmarks everyday`: the small calls of every program, warm, compared with real MLX.

Both sides run in one process, in turn, as in the main table. Timed calls return their results, which must agree.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import numpy as np

from . import timing
from .table import Row
from .workloads import Workload

__all__ = ["EVERYDAY", "ITEM", "ROUNDS", "rows"]

ROUNDS = 9
ITEM = "item"
_ABOVE = {ITEM: 0.3}
"""Microseconds by which calls with this prefix may exceed real MLX's time, at any ratio."""

Step = Callable[[], Any]


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _array(mx: Any, seed: int, *shape: int) -> Any:
    out = mx.array(_normal(seed, *shape))
    mx.eval(out)
    return out


def _done(mx: Any, value: Any) -> Any:
    mx.eval(value)
    return value


def item(mx: Any) -> Step:
    return _array(mx, 0).item


def tolist(mx: Any) -> Step:
    return _array(mx, 0, 100).tolist


def to_numpy(mx: Any) -> Step:
    return partial(np.array, _array(mx, 0, 32, 32))


def from_list(mx: Any) -> Step:
    values = _normal(0, 100).tolist()
    return lambda: mx.array(values)


def from_short_list(mx: Any) -> Step:
    return lambda: mx.array([1.0, 2.0, 3.0])


def from_numpy(mx: Any) -> Step:
    values = _normal(0, 32, 32)
    return lambda: mx.array(values)


def printing(mx: Any) -> Step:
    x = _array(mx, 0, 3, 4)

    def step() -> str:
        with redirect_stdout(io.StringIO()) as out:
            print(x)
        return out.getvalue()

    return step


def representing(mx: Any) -> Step:
    return partial(repr, _array(mx, 0, 10))


def indexing(mx: Any) -> Step:
    x = _array(mx, 0, 32, 8)

    def step() -> float:
        total = 0.0
        for k in range(32):
            total += x[k, 3].item()
        return total

    return step


def iteration(mx: Any) -> Step:
    x = _array(mx, 0, 32, 8)
    return lambda: _done(mx, list(x))


def truth(mx: Any) -> Step:
    x = _array(mx, 0, 8)
    return lambda: 1.0 if (x > 5).any() else 0.0


def setting(mx: Any) -> Step:
    x = _array(mx, 0, 32, 32)

    def step() -> Any:
        x[3] = 1.5
        x[5:8, 2] = 2.5
        return _done(mx, x)

    return step


def casting(mx: Any) -> Step:
    x = _array(mx, 0, 32, 32)
    return lambda: _done(mx, x.astype(mx.float16))


def sorting(mx: Any) -> Step:
    x = _array(mx, 0, 32, 32)
    return lambda: _done(mx, mx.sort(x, axis=-1))


def softmax(mx: Any) -> Step:
    x = _array(mx, 0, 32, 32)
    return lambda: _done(mx, mx.softmax(x, axis=-1))


def random_normal(mx: Any) -> Step:
    mx.random.seed(0)
    return lambda: _done(mx, mx.random.normal((32, 32)))


def newton(mx: Any) -> Step:
    """Return Newton's method for a cube root, which tests for convergence at every step."""

    def f(x: Any) -> Any:
        return x * x * x - 2.0

    derivative = mx.grad(f)

    def step() -> float:
        x = mx.array(1.0)
        for _ in range(20):
            change = f(x) / derivative(x)
            x = x - change
            if abs(change.item()) < 1e-4:
                break
        return x.item()

    return step


def _call(name: str, make: Callable[[Any], Step]) -> Workload:
    return Workload(name, make, of_mlx=1.5)


EVERYDAY = (
    Workload(ITEM, item),
    _call("tolist, 100 numbers", tolist),
    _call("np.array of an array, 32x32", to_numpy),
    _call("mx.array of a list of 3", from_short_list),
    _call("mx.array of a list of 100", from_list),
    _call("mx.array of NumPy data, 32x32", from_numpy),
    _call("print, 3x4", printing),
    _call("repr, 10 numbers", representing),
    _call("indexing in a loop: 32 elements, with item", indexing),
    _call("iteration over 32 rows", iteration),
    _call("bool of a comparison", truth),
    _call("setitem, a row and a slice", setting),
    _call("astype float16, 32x32", casting),
    _call("sort, 32x32", sorting),
    _call("softmax, 32x32", softmax),
    _call("random.normal, 32x32", random_normal),
    _call("Newton's method with item", newton),
)


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the rows whose names are selected."""
    for workload in EVERYDAY:
        if is_selected(workload.name):
            row = Row(workload.name, "us", *timing.measure(timing.steps(workload), rounds))
            allowed = next((us for name, us in _ABOVE.items() if workload.name.startswith(name)), None)
            if allowed is None:
                row.limit("MLX", workload.of_mlx)
            elif "MLX" in row.values:
                row.targets[f"MLX + {allowed:g} us"] = row.values["mxcompat"] - row.values["MLX"] <= allowed
            yield row
