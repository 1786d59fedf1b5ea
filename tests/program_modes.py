"""The ways to run a random program: plainly, under a transform, or under nested transforms.

Each mode takes mx, the function, its arguments and a source of choices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs import Program

__all__ = ["MODES", "NEED_FLOATS", "inexact", "run_mode"]


def _tangents(mx: Any, xs: list[Any]) -> list[Any]:
    return [((mx.arange(x.size).reshape(x.shape) % 5 - 1.5) * 0.5).astype(x.dtype) for x in xs]


def _scalar(mx: Any, f: Callable) -> Callable:
    """Return a weighted sum of all the outputs of `f`."""

    def total(*xs: Any) -> Any:
        result = mx.array(0.0)
        for out in f(*xs):
            if out.dtype == mx.complex64:
                out = mx.real(out) + 0.5 * mx.imag(out)
            weights = (mx.arange(out.size).reshape(out.shape) % 7 + 1) * 0.25
            result = result + (out.astype(mx.float32) * weights).sum()
        return result

    return total


def inexact(mx: Any, xs: list[Any]) -> list[int]:
    inexact = (mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64)
    return [k for k, x in enumerate(xs) if x.dtype in inexact]


def _grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.grad(_scalar(mx, f), argnums=inexact(mx, xs))(*xs)


def _value_and_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.value_and_grad(_scalar(mx, f), argnums=inexact(mx, xs))(*xs)


def _of_inexact(mx: Any, f: Callable, xs: list[Any]) -> tuple[Callable, list[Any]]:
    """Return `f` as a function of its inexact arguments, and these arguments."""
    which = inexact(mx, xs)

    def g(*ys: Any) -> Any:
        arguments = list(xs)
        for k, y in zip(which, ys, strict=True):
            arguments[k] = y
        return f(*arguments)

    return g, [xs[k] for k in which]


def _vjp(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    # Multiply by 1: real MLX gives a result of stop_gradient no cotangent, and gives its cotangent to the next result.
    g, ys = _of_inexact(mx, lambda *arguments: [out * 1 for out in f(*arguments) if inexact(mx, [out])], xs)
    return mx.vjp(g, ys, _tangents(mx, g(*ys)))


def _jvp(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    g, ys = _of_inexact(mx, f, xs)
    return mx.jvp(g, ys, _tangents(mx, ys))


def _batched(mx: Any, xs: list[Any], rng: random.Random, always: bool = False) -> tuple[list[Any], Any]:
    arguments, axes = [], []
    for k, x in enumerate(xs):
        axis = None if not always and k and rng.random() < 0.3 else rng.randrange(x.ndim + 1)
        axes.append(axis if axis is None or rng.random() < 0.7 else axis - x.ndim - 1)
        other = mx.roll(x, 1) if x.size > 1 else x
        arguments.append(x if axis is None else mx.stack([x, other], axis))
    return arguments, axes[0] if len(axes) == 1 else tuple(axes)


def _vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    arguments, axes = _batched(mx, xs, rng)
    return mx.vmap(f, in_axes=axes, out_axes=rng.choice((0, 0, -1)))(*arguments)


def _vmap_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    arguments, axes = _batched(mx, xs, rng)
    return mx.vmap(mx.grad(_scalar(mx, f), argnums=inexact(mx, xs)), in_axes=axes)(*arguments)


def _grad_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    arguments, axes = _batched(mx, xs, rng)
    return mx.grad(_scalar(mx, mx.vmap(f, in_axes=axes)), argnums=inexact(mx, xs))(*arguments)


def _vmap_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    arguments, axes = _batched(mx, xs, rng, always=True)
    twice, more = _batched(mx, arguments, rng)
    return mx.vmap(mx.vmap(f, in_axes=axes), in_axes=more, out_axes=1)(*twice)


def _compile(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    g = mx.compile(f)
    return [g(*xs), g(*xs)]


def _shapeless(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.compile(f, shapeless=True)(*xs)


def _compile_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.compile(mx.grad(_scalar(mx, f), argnums=inexact(mx, xs)))(*xs)


def _grad_compile(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.grad(_scalar(mx, mx.compile(f)), argnums=inexact(mx, xs))(*xs)


def _compile_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    arguments, axes = _batched(mx, xs, rng)
    return mx.compile(mx.vmap(f, in_axes=axes))(*arguments)


def _grad_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    which = inexact(mx, xs)
    first = mx.grad(_scalar(mx, f), argnums=which)
    return mx.grad(_scalar(mx, lambda *ys: _tuple(first(*ys))), argnums=which)(*xs)


def _tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _checkpoint(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.value_and_grad(_scalar(mx, mx.checkpoint(f)), argnums=inexact(mx, xs))(*xs)


def _jvp_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    which = inexact(mx, xs)
    first = mx.grad(_scalar(mx, f), argnums=which)
    g, ys = _of_inexact(mx, lambda *ys: list(_tuple(first(*ys))), xs)
    return mx.jvp(g, ys, _tangents(mx, ys))


MODES: dict[str, Callable[..., Any]] = {
    "vjp": _vjp, "jvp": _jvp, "grad": _grad, "value_and_grad": _value_and_grad, "vmap": _vmap, "vmap_grad": _vmap_grad,
    "grad_vmap": _grad_vmap, "vmap_vmap": _vmap_vmap, "compile": _compile, "shapeless": _shapeless,
    "compile_grad": _compile_grad, "grad_compile": _grad_compile, "compile_vmap": _compile_vmap,
    "grad_grad": _grad_grad, "checkpoint": _checkpoint, "jvp_grad": _jvp_grad,
}  # fmt: skip
NEED_FLOATS = ("grad", "checkpoint", "vjp", "jvp")
"""Parts of the names of modes that differentiate, and so need a float argument."""


def run_mode(mx: Any, program: Program, mode: str, arrays: list[np.ndarray] | None = None) -> Any:
    """Return the evaluated result of a program under a mode (or "plain") on one side, or the exception."""
    rng = random.Random(program.seed)
    try:
        f = program.function(mx)
        xs = program.arguments(mx, arrays)
        out = f(*xs) if mode == "plain" else MODES[mode](mx, f, xs, rng)
        mx.eval(out)
        return out
    except Exception as error:
        return error
