"""A case: a kernel, its inputs and how it is started; and the data that most of them share."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

__all__ = ["BF16", "DATA", "RNG", "Case", "F", "H", "S", "U", "case", "flat", "normal", "program"]

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(0)
SIZE = 70
F, U, H, S = "float32", "uint32", "float16", "int32"

DATA = {
    "f": RNG.integers(-40, 40, SIZE).astype(np.float32) / 4,
    "g": RNG.normal(size=SIZE).astype(np.float32),
    "p": RNG.uniform(0.05, 0.95, SIZE).astype(np.float32),
    "h": RNG.normal(size=SIZE).astype(np.float16),
    "b": RNG.normal(size=SIZE).astype(BF16),
    "i": RNG.integers(-(2**31), 2**31, SIZE).astype(np.int32),
    "u": RNG.integers(0, 2**32, SIZE).astype(np.uint32),
    "s": RNG.integers(-(2**15), 2**15, SIZE).astype(np.int16),
    "t": RNG.integers(0, 2**16, SIZE).astype(np.uint16),
    "c": RNG.integers(-128, 128, SIZE).astype(np.int8),
    "d": RNG.integers(0, 256, SIZE).astype(np.uint8),
    "l": RNG.integers(-(2**63), 2**63 - 1, SIZE).astype(np.int64),
    "m": RNG.integers(0, 2**63, SIZE).astype(np.uint64) * np.uint64(2) + np.uint64(1),
    "k": RNG.integers(0, 10, SIZE).astype(np.int32),
    "o": RNG.integers(0, 2, SIZE).astype(bool),
    "z": (RNG.normal(size=SIZE) + 1j * RNG.normal(size=SIZE)).astype(np.complex64),
}
"""Inputs by one letter: three kinds of float32 (of few bits, any, and between 0 and 1), and each other dtype."""


class Case(NamedTuple):
    """A kernel and how it is started.

    Args:
        source, header: its texts.
        inputs: NumPy arrays or numbers.
        outputs: pairs of shape and name of a dtype.
        grid, threadgroup: threads.
        template: pairs of name and value, dtypes by name.
        init_value: the initial value of all elements of the outputs.
        options: other arguments of its definition.
        tol: relative to the largest value, 0 where results must be equal.
    """

    source: str
    inputs: tuple[Any, ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    header: str = ""
    template: tuple[tuple[str, Any], ...] = ()
    names: tuple[str, ...] | None = None
    init_value: float | None = None
    options: tuple[tuple[str, Any], ...] = ()
    tol: float = 0.0

    def __repr__(self) -> str:
        return f"Case of group {self.threadgroup}, init_value {self.init_value}: {self.source}"


def case(
    source, inputs="", out="float32", *, size=SIZE, grid=None, group=32, header="", template=(), init=None, tol=0.0,
    names=None, arrays=None, outputs=None, **options,
) -> Case:  # fmt: skip
    """A case over one axis.

    Args:
        source: the body. `I` is declared in front of it, the thread's position; results go to `y[I]`, or `y1[I]`, ….
        inputs: letters of `DATA`, which are the parameters' names, too.
        out: names of the outputs' dtypes.
        arrays: other inputs by name.
        outputs: shapes of the outputs, by default all of `size`.
    """
    kinds = out.split()
    shapes = outputs or [(size,)] * len(kinds)
    data = {letter: DATA[letter] for letter in inputs} | (arrays or {})
    grid = grid or (size, 1, 1)
    group = group if isinstance(group, tuple) else (group, 1, 1)
    body = f"uint I = thread_position_in_grid.x;\n{source}"
    return Case(
        body, tuple(data.values()), tuple(zip(shapes, kinds, strict=True)), grid, group, header, tuple(template),
        names or tuple(data), init, tuple(options.items()), tol,
    )  # fmt: skip


def normal(*shape, dtype=np.float32):
    """Samples of the normal distribution."""
    return RNG.normal(size=shape).astype(dtype)


def program(source, inputs, outputs, grid, group, **options) -> Case:
    """A case of inputs by name, and outputs as pairs of shape and dtype, named y, y1, …"""
    return Case(source, tuple(inputs.values()), outputs, grid, group, names=tuple(inputs), **options)


def flat(source, inputs, outputs, size=64, group=32, **options) -> Case:
    """A program over one axis, whose outputs all have its size, unless they are given as pairs."""
    shapes = tuple(o if isinstance(o, tuple) else ((size,), o) for o in outputs)
    return program(source, inputs, shapes, (size, 1, 1), (group, 1, 1), **options)
