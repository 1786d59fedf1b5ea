"""The NumPy rules of movement and creation ops, compared with XLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxcompat.core as core
from mxcompat._graph.ir.rules import BATCH, HOST, LOWERING, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import DTYPES, check, data

MOVES = {
    "reshape": lambda mx, x: mx.reshape(x, (4, -1)),
    "flatten": lambda mx, x: mx.flatten(x, 1),
    "unflatten": lambda mx, x: mx.unflatten(x, -1, (2, -1)),
    "squeeze": lambda mx, x: mx.squeeze(mx.expand_dims(x, (0, -1)), -1),
    "transpose": lambda mx, x: mx.transpose(x),
    "transpose_axes": lambda mx, x: mx.transpose(x, (1, -1, 0)),
    "broadcast_to": lambda mx, x: mx.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "broadcast_large": lambda mx, x: mx.broadcast_to(x, (200, 2, 3, 4)),
    "broadcast_arrays": lambda mx, x: mx.broadcast_arrays(x[0], x[:, :1], x),
    "atleast": lambda mx, x: [mx.atleast_3d(x[0]), *mx.atleast_2d(x[0, 0], x[0, 0, 0])],
    "flip": lambda mx, x: [mx.flip(x), mx.flip(x, -1), mx.flip(x, (0, 1, 0))],
    "roll": lambda mx, x: [mx.roll(x, 5), mx.roll(x, (1, -9), (0, 2)), mx.roll(x, 3, 1), mx.roll(x, 1, (0, -1))],
    "strided": lambda mx, x: mx.as_strided(x, (4, 3), (1, 2), 3),
    "strided_row_major": lambda mx, x: mx.as_strided(x, (2, 5), (5, 1), 3),
    "strided_backwards": lambda mx, x: mx.as_strided(x, (3, 2, 2), (-4, 0, 1), 20),
    "concatenate": lambda mx, x: mx.concatenate([x, x[:, :2], x[:, :0]], -2),
    "stack": lambda mx, x: [mx.stack([x, x], 1), mx.stack([x[0], x[1]]), mx.stack([x, x], -1)],
    "split": lambda mx, x: mx.split(x, 2, -1),
    "split_points": lambda mx, x: mx.split(x, [1, -1], 2),
    "split_overlapping": lambda mx, x: mx.split(x, [3, 1], -1),
    "unstack": lambda mx, x: [*mx.unstack(x, axis=1), *mx.unstack(x, axis=-1)],
    "repeat": lambda mx, x: [mx.repeat(x, 3), mx.repeat(x, 2, 1), mx.repeat(x, 2, -1), mx.repeat(x, 0, 0)],
    "tile": lambda mx, x: [mx.tile(x, 2), mx.tile(x, (3, 1, 2)), mx.tile(x[0], (2, 1, 1, 2))],
    "pad": lambda mx, x: [mx.pad(x, 1), mx.pad(x, ((0, 1), (2, 0), (0, 0)), constant_values=3)],
    "pad_edges": lambda mx, x: [mx.pad(x, ((2, 5), (0, 0), (1, 0)), mode) for mode in ("edge", "reflect", "symmetric")],
    "diagonal": lambda mx, x: [mx.diagonal(x), mx.diagonal(x, 1, 2, 0), mx.diagonal(x, -1, -1, 1), mx.diagonal(x, 9)],
    "diag": lambda mx, x: [mx.diag(x[0, 0]), mx.diag(x[0, 0], 2), mx.diag(x[0, 0], -1), mx.diag(x[0], 1)],
    "trace": lambda mx, x: [mx.trace(x), mx.trace(x, -1, 2, 1), mx.trace(x, 7)],
    "triangle": lambda mx, x: [mx.tril(x), mx.triu(x, 1), mx.tril(x, -2), mx.triu(x[0], -1)],
    "likes": lambda mx, x: [mx.zeros_like(x), mx.ones_like(x), mx.full_like(x, x[0, 0, 0]), mx.full_like(x[0], x)],
    "full": lambda mx, x: [mx.full((3, 2, 3, 4), x), mx.full((2, 2), x[0, 0, 0])],
    "meshgrid": lambda mx, x: [
        *mx.meshgrid(x[0, 0], x[0, :, 0]),
        *mx.meshgrid(x[0, 0], x[0], x[:, 0, 0], indexing="ij"),
        *mx.meshgrid(x[0, 0]),
    ],
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    check(MOVES[name], data((2, 3, 4), "float32"))


MINDFUL = {
    "strided": lambda mx, x: mx.as_strided(x, (4, 3), (-1, 2), 5),
    "broadcast": lambda mx, x: mx.broadcast_to(x, (2, 3, 4)),
    "roll": lambda mx, x: mx.roll(x, 5),
    "stack": lambda mx, x: mx.stack([x, mx.ones_like(x, mx.float16)], 1),
    "tile": lambda mx, x: mx.tile(x, 3),
    "repeat": lambda mx, x: mx.repeat(x, 3),
    "pad": lambda mx, x: mx.pad(x, 1, constant_values=1),
    "reflect": lambda mx, x: mx.pad(x, 2, "reflect"),
    "diag": lambda mx, x: mx.diag(mx.flatten(x), -1),
    "trace": lambda mx, x: mx.trace(x),
    "triangle": lambda mx, x: mx.tril(x),
    "unstack": lambda mx, x: mx.unstack(x)[1],
    "full_like": lambda mx, x: mx.full_like(x, x[1, 2]),
}
"""Ops that do more than move bytes."""


def _all(mx: Any, x: Any) -> list:
    return [call(mx, x) for call in MINDFUL.values()]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "float32"])
def test_dtypes(dtype: str) -> None:
    check(_all, data((3, 4), dtype, low=-1, high=1), grad=dtype in ("bfloat16", "complex64"), jvp=False, batch=False)


@pytest.mark.parametrize("other", ["uint64", "int8", "float16", "bfloat16", "complex64"])
def test_concatenate_promotes(other: str) -> None:
    inputs = [data((3,), dtype, low=-1) for dtype in DTYPES]

    def call(mx: Any, *xs: Any) -> list:
        y = xs[-1]
        return [mx.concatenate([x, y]) for x in xs[:-1]]

    check(call, *inputs, data((4,), other, 3, low=-1), grad=False, jvp=False, batch=False)


def test_concatenate_of_several_dtypes_has_derivatives() -> None:
    check(lambda mx, x, y, n: mx.concatenate([x, n, y]), data((2,), "float16"), data((3,), "complex64"), np.arange(2))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3), ()])
def test_empty_and_without_axes(shape: tuple[int, ...]) -> None:
    def call(mx: Any, x: Any) -> list:
        out = [mx.flatten(x), mx.broadcast_to(x, (2, *shape)), mx.flip(x), mx.roll(x, 3), mx.repeat(x, 2), x.T]
        out += [mx.tile(x, 2), mx.pad(x, 1), mx.pad(x, 0, "edge"), mx.stack([x, x]), mx.as_strided(x, (0, 3), (1, 1))]
        out += [mx.full((3, *shape), x), mx.zeros_like(x), mx.ones_like(x)]
        if shape:
            out += [mx.concatenate([x, x]), *mx.split(x, [1]), mx.roll(x, 1, 0), *mx.meshgrid(x, x)]
        if len(shape) == 1:
            out += [mx.diag(x), mx.diag(x, 2)]
        if len(shape) > 1:
            out += [mx.diagonal(x), mx.trace(x), mx.tril(x)]
        return out

    check(call, data(shape, "float32"), jvp=False)


def test_pad_with_a_value_has_its_derivative() -> None:
    check(lambda mx, x, v: mx.pad(x, ((1, 2), (0, 1)), constant_values=v), data((2, 3), "float32"), data((), "float32"))
    check(
        lambda mx, v, x: mx.pad(x, 1, constant_values=v), data((), "float32"), data((3,), "int32"),
        grad=False, jvp=False, batch=False,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_made_of_numbers(dtype: str) -> None:
    kind = core.bool_ if dtype == "bool" else getattr(core, dtype)

    def call(mx: Any) -> list:
        out = [mx.zeros((2, 3), kind), mx.ones((), kind), mx.full((2,), 1, kind), mx.zeros((0,), kind)]
        out += [mx.eye(3, 4, 1, kind), mx.eye(3, 2, -2, kind), mx.tri(3, 4, -1, kind), mx.identity(2, kind)]
        out += [mx.linspace(-3, 900, 7, dtype=kind), mx.linspace(2, 3, 1, dtype=kind), mx.linspace(0, 0, 0, dtype=kind)]
        out += [mx.linspace(1e20, -1e20, 5, False, kind)] if dtype != "float16" else []
        if dtype != "bool":
            out += [mx.arange(300, dtype=kind), mx.arange(3, 20, 4, dtype=kind), mx.arange(0, dtype=kind)]
            out += [mx.arange(5, -6, -3, dtype=kind), mx.arange(0.5, 4, 0.7, dtype=kind)]
        return out

    check(call)


def test_windows() -> None:
    check(lambda mx: [w(n) for w in (mx.bartlett, mx.hanning, mx.hamming, mx.blackman) for n in (0, 1, 2, 7, 64)])


FOLDERS = ("mxcompat._ops.movement", "mxcompat._ops.creation")
FAMILY = [op for op in TABLE.values() if LOWERING[op].__module__.startswith(FOLDERS)]

CONSTANT = {"constant", "eye", "tri", "arange", "linspace", "bartlett", "hanning", "hamming", "blackman"}
"""Ops made from params and Python numbers only, which have no derivatives and are not batched."""


def test_every_op_has_its_rules() -> None:
    folders = ("mxcompat._ops.movement.", "mxcompat._ops.creation.")
    family = [op for op in TABLE.values() if LOWERING[op].__module__.startswith(folders)]
    assert {op.name for op in family if op not in HOST} == set()
    for rules in (PULLBACK, PUSHFORWARD, BATCH):
        assert {op.name for op in family if op not in rules} == CONSTANT
