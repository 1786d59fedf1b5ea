"""Compare the host rules with XLA: capture a call as a Program, and run each interpretation in both.

    check(lambda mx, x, y: mx.arctan2(x, y), f32(2, 3), f32(3))

compares the value (`HOST`) and, for inexact inputs and outputs, the cotangents (`PULLBACK` with `jax.vjp`) and
tangents (`PUSHFORWARD` with `jax.jvp`). It does the same over a batch axis (`BATCH` with `jax.vmap`), with each
input mapped alone, then with all. With `second=True`, it compares the derivatives of both derivatives, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

import mxcompat.core as mx
from mxcompat import testing
from mxcompat._array.array import wrap
from mxcompat._graph.ir.aval import Aval, aval, from_numpy, number
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.direction import differentiating
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.node import SCALAR, Node
from mxcompat._graph.ir.program import Program
from mxcompat._graph.run.differentiate import can_push_forward, pull_back, push_forward
from mxcompat._graph.run.evaluate import evaluated_on_host
from mxcompat._graph.run.interpret import interpret
from mxcompat._transforms.programs.batching import over_axis
from mxcompat._transforms.second_order.gradients import Derivative, gradient, tangent

__all__ = ["DTYPES", "check", "data"]

DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip

TOLERANCE = {**testing.TOLERANCE, "float32": 2e-6, "float64": 1e-12, "complex64": 4e-6}
"""Tolerance by dtype, relative to the largest element: a rounding or two.

It is smaller than that between XLA and MLX, which may add in different orders.
"""


SETTINGS = {"second": False}
"""The default of `check` for second derivatives; `conftest.py` sets it."""


def data(shape: tuple[int, ...], dtype: str, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    """Return random data; the range of integers is widened to include edge cases."""
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    rng = np.random.default_rng(seed)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return rng.integers(max(info.min, -100), min(info.max, 100), shape).astype(kind)
    x = rng.uniform(low, high, shape)
    if kind.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x).astype(kind)


def program_of(call: Callable[..., Any], inputs: tuple) -> tuple[Program, list[Any]]:
    """Return the program that a call records, and its inputs: the given ones and the captured constants."""
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in inputs]  # type: ignore[arg-type]
    with Capture(avals) as capture:
        out = call(mx, *[wrap(p) for p in capture.placeholders])
        outs = out if isinstance(out, (list, tuple)) else [out]
        program, captured = _closed(capture, [x._node for x in outs])
    return program, [*inputs, *captured]


def _closed(capture: Capture, outputs: list[Node]) -> tuple[Program, list[Any]]:
    """Return the program of these outputs and its captured values; constants made of numbers only stay in the
    program."""
    body = capture.close(outputs)
    if all(n.value is not None for n in body.captured):
        return body.program, _values(body.captured)
    graph = linearize(outputs, 0, capture.placeholders)
    return graph.structure.program(graph.roots), _values(graph.leaves[len(capture.placeholders) :])


def _values(captured: list[Node]) -> list[Any]:
    return [number(n.value, n.aval.dtype) if n.op is SCALAR else evaluated_on_host(n) for n in captured]


def check(
    call: Callable[..., Any],
    *inputs: Any,
    tolerance: float | None = None,
    grad: bool = True,
    jvp: bool = True,
    batch: bool = True,
    second: bool | None = None,
) -> None:
    """Compare the interpretations of the program of `call(mx, *inputs)` with JAX's.

    Args:
        tolerance: replaces the dtype's. State the reason at the call.
        grad, jvp, batch: True if the ops have these rules.
        second: True to compare second derivatives, too. `conftest.py` sets the default, which is False for most tests,
            because tracing them takes JAX longer than all else; `test_second.py` has each op.
    """
    second = SETTINGS["second"] if second is None else second
    program, operands = program_of(call, inputs)
    smooth = [k for k, x in enumerate(inputs) if _inexact(x)]
    if smooth != list(range(len(smooth))):
        order = [*smooth, *[k for k in range(len(inputs)) if k not in smooth]]
        back = [order.index(k) for k in range(len(order))]
        check(
            lambda mx, *xs: call(mx, *[xs[k] for k in back]), *[inputs[k] for k in order],
            tolerance=tolerance, grad=grad, jvp=jvp, batch=batch, second=second,
        )  # fmt: skip
        return
    with np.errstate(all="ignore"):
        comparisons = [Comparison("value", interpret(program, operands), lambda *xs: program.replay(xs), operands)]
        if smooth and any(a.dtype._kind in "fc" for a in program.out_avals):
            comparisons += _derivatives(program, len(smooth), operands, grad, jvp, second)
        if batch:
            comparisons += _batches(program, len(inputs), operands)
    for one, want in zip(comparisons, _by_jax(comparisons), strict=True):
        _same(one.result, want, tolerance, one.what)


QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options for short compilations: each executable runs once."""


class Comparison(NamedTuple):
    """The results of the host rules, the equivalent JAX function, and its arguments."""

    what: str
    result: list[Any]
    function: Callable[..., Any]
    inputs: list[Any]


def _by_jax(comparisons: list[Comparison]) -> list[list[Any]]:
    """Return JAX's results for each, in one compilation: the number of compiles costs more than their size."""

    def everything(inputs: list[list[Any]]) -> list[Any]:
        return [list(f.function(*xs)) for f, xs in zip(comparisons, inputs, strict=True)]

    with jax.enable_x64(True):
        arguments = [[np.asarray(x) for x in f.inputs] for f in comparisons]
        results = jax.jit(everything).lower(arguments).compile(QUICK)(arguments)
        return [[np.asarray(x) for x in result] for result in results]


def _derivatives(
    program: Program, primals: int, operands: list[Any], grad: bool, jvp: bool, second: bool
) -> list[Comparison]:  # fmt: skip
    outs = program.out_avals
    moving = [k for k, a in enumerate(outs) if a.dtype._kind in "fc"]
    cotangents = [data(outs[k].shape, outs[k].dtype._label, 7 + k) for k in moving]
    tangents = [data(x.shape, x.dtype.name, 17 + k) for k, x in enumerate(operands[:primals])]

    def smooth(*xs: Any) -> list[Any]:
        values = program.replay([*xs, *operands[primals:]])
        return [values[k] for k in moving]

    comparisons = []
    if grad:
        everything: list[Any] = [None] * len(outs)
        for k, c in zip(moving, cotangents, strict=True):
            everything[k] = c
        _, got = pull_back(program, primals, operands, everything)
        if second:
            comparisons += _second(program, primals, operands, cotangents, jvp)
        comparisons.append(
            Comparison(
                "cotangents", got,
                lambda *xs: jax.vjp(smooth, *xs[:primals])[1](list(xs[primals:])), operands[:primals] + cotangents,
            )
        )  # fmt: skip
    if jvp:
        _, pushed = push_forward(program, primals, operands, tangents)
        got = [_zeros(outs[k]) if pushed[k] is None else pushed[k] for k in moving]

        def forward(*xs: Any) -> list[Any]:
            with differentiating(forward=True):
                return jax.jvp(smooth, tuple(xs[:primals]), tuple(xs[primals:]))[1]

        comparisons.append(Comparison("tangents", got, forward, operands[:primals] + tangents))
    return comparisons


def _zeros(a: Aval) -> np.ndarray:
    return np.zeros(a.shape, a.dtype._numpy)


def _second(
    program: Program, primals: int, operands: list[Any], cotangents: list[np.ndarray], forward: bool
) -> list[Comparison]:  # fmt: skip
    """Return the derivatives of the gradient and of the tangents, in both modes, if NumPy has them.

    `forward` enables the forward ones.
    """
    count = len(program.out_avals)
    comparisons = []
    back = gradient(program, primals, count)
    if back is not None:
        comparisons += _derived(
            "of the gradient", back, partial(_with_gradient, program, primals, operands), primals, operands, cotangents,
            forward,
        )  # fmt: skip
    moving = forward and all(a.dtype._kind in "fc" for a in program.out_avals)
    forth = tangent(program, primals, count) if moving else None
    if forth is not None:
        tangents = [data(x.shape, x.dtype.name, 37 + k) for k, x in enumerate(operands[:primals])]
        comparisons += _derived(
            "of the tangents", forth, partial(_with_tangents, program, primals, operands), primals, operands, tangents,
            forward,
        )  # fmt: skip
    return comparisons


def _derived(
    what: str, derivative: Derivative, by_jax: Callable[..., list[Any]], primals: int, operands: list[Any],
    more: list[Any], forward: bool,
) -> list[Comparison]:  # fmt: skip
    """Return a derivative's derivatives with respect to its primals and to `more`, cotangents or tangents."""
    inputs = [*operands, *more]
    varied = (*range(primals), *range(len(operands), len(inputs)))
    points = [inputs[k] for k in varied]
    back = [data(a.shape, a.dtype._label, 27 + k) for k, a in enumerate(derivative.program.out_avals)]
    forth = [data(x.shape, x.dtype.name, 47 + k) for k, x in enumerate(points)]
    count = len(varied)
    _, pulled = pull_back(derivative.program, varied, [*inputs, *derivative.values], back)
    comparisons = [
        Comparison(
            f"cotangents {what}", pulled, lambda *xs: jax.vjp(by_jax, *xs[:count])[1](list(xs[count:])), points + back
        )
    ]
    if not (forward and can_push_forward(derivative.program, varied)):
        return comparisons
    _, pushed = push_forward(derivative.program, varied, [*inputs, *derivative.values], forth)
    pushed = [_zeros(a) if t is None else t for t, a in zip(pushed, derivative.program.out_avals, strict=True)]

    def push(*xs: Any) -> Any:
        with differentiating(forward=True):
            return jax.jvp(by_jax, tuple(xs[:count]), tuple(xs[count:]))[1]

    return [*comparisons, Comparison(f"tangents {what}", pushed, push, points + forth)]


def _with_gradient(program: Program, primals: int, operands: list[Any], *xs: Any) -> list[Any]:
    values, pull = jax.vjp(lambda *ys: program.replay([*ys, *operands[primals:]]), *xs[:primals])
    return [*values, *pull(list(xs[primals:]))]


def _with_tangents(program: Program, primals: int, operands: list[Any], *xs: Any) -> list[Any]:
    def function(*ys: Any) -> list[Any]:
        return program.replay([*ys, *operands[primals:]])

    with differentiating(forward=True):
        values, tangents = jax.jvp(function, tuple(xs[:primals]), tuple(xs[primals:]))
    return [*values, *tangents]


def _batches(program: Program, count: int, operands: list[Any]) -> list[Comparison]:
    size = 3
    comparisons = []
    for mapped in {*[(k,) for k in range(count)], tuple(range(count))}:
        rng = np.random.default_rng(5)
        inputs = []
        for k, x in enumerate(operands):
            if k in mapped:
                flat = [rng.permuted(x.ravel()).reshape(x.shape) for _ in range(size)]
                inputs.append(np.stack(flat))
            else:
                inputs.append(x)
        batched, captured = batched_program(program, [k in mapped for k in range(len(operands))], size)
        got = interpret(batched, [*inputs, *captured], _by_xla)  # rules may use ops of other families
        in_axes = [0 if k in mapped else None for k in range(len(operands))]
        vmapped = jax.vmap(lambda *xs: program.replay(xs), in_axes, axis_size=size)
        comparisons.append(Comparison(f"mapped over {mapped}", got, vmapped, inputs))
    return comparisons


def batched_program(program: Program, batched: list[bool], size: int) -> tuple[Program, list[Any]]:
    """Return the program over a new first axis of the batched inputs, by the rules of BATCH, and its captured
    values."""
    result = over_axis(program, batched, size, spread=True)
    return result.program, _values(result.captured)


def _by_xla(op: Any, out: Any, params: tuple, inputs: Any) -> Any:
    with jax.enable_x64(True):
        result = op.lower(params, [np.asarray(x) for x in inputs])
    return tuple(map(np.asarray, result)) if isinstance(result, (tuple, list)) else np.asarray(result)


def _inexact(x: Any) -> bool:
    return x.dtype.kind in "fc" or x.dtype == ml_dtypes.bfloat16


def _same(got: list[Any], want: list[Any], tolerance: float | None, what: str) -> None:
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        g = np.asarray(g)
        assert g.dtype == w.dtype, f"{what}: dtype {g.dtype}, XLA's {w.dtype}"
        assert g.shape == w.shape, f"{what}: shape {g.shape}, XLA's {w.shape}"
        if not _inexact(w):
            np.testing.assert_array_equal(g, w, err_msg=what)
            continue
        limit = TOLERANCE[w.dtype.name] if tolerance is None else tolerance
        wide = np.complex128 if w.dtype.kind == "c" else np.float64
        g, w = g.astype(wide), w.astype(wide)
        finite = np.isfinite(w)
        largest = np.abs(w[finite]).max(initial=0.0)
        np.testing.assert_allclose(g, w, rtol=limit, atol=limit * largest, err_msg=what)
