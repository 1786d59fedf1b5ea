"""Shape, transposition, arrangement, joining, padding and diagonals, each line compared with real MLX."""

from collections.abc import Callable
from typing import Any

import mlx.core as real
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mxcompat.core as mx
from tests.oracle import check

A = np.arange(6, dtype=np.int32).reshape(2, 3)
B = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Z = np.zeros((0, 3), np.float32)
U = np.ones((1, 2, 1), np.float32)


def lines(text: str) -> list[str]:
    """Return the expressions in a text, one per line."""
    return [line.strip() for line in text.strip().splitlines()]


def evaluate(expression: str, message: bool | None = None) -> None:
    """Compare an expression over `mx` and the arrays a, b, z (empty) and u (axes of size one)."""
    code = compile(expression, expression, "eval")

    def run(mx, a, b, z, u):
        return eval(code, {"mx": mx, "np": np, "a": a, "b": b, "z": z, "u": u})

    check(run, A, B, Z, U, message=message)


RESHAPE = """
    a.reshape(-1)
    a.reshape(3, -1)
    a.reshape((3, 2))
    a.reshape([3, 2], stream=None)
    mx.array([7]).reshape(())
    a.reshape(4, -1)
    a.reshape(-1, -1)
    a.reshape(-2, 3)
    a.reshape(5)
    z.reshape(-1)
    z.reshape(0, -1)
    z.reshape(-1, 3)
    z.reshape(7)
    z.reshape(0)
    a.reshape(0, -1)
    mx.reshape(a, 6)
    mx.reshape(a, (2.0, 3))
    mx.reshape(a, shape=(6,))
    mx.reshape(a, np.array([3, 2]))
    mx.reshape(a, mx.array([3, 2]))
    mx.reshape(a, (np.int64(3), 2))
    mx.reshape(a, (mx.array(3), 2))
    mx.reshape(a, (True, 6))
    mx.reshape(1.0, (1, 1))
    mx.reshape([1, 2], (1, 2))
    a.reshape(shape=(3, 2))
    mx.reshape(a, (3, 2), None)
    mx.reshape(a, None)
    mx.reshape(a, (2**33, 1))
    mx.reshape(a, range(1, 4))
    mx.reshape(a, (n for n in (3, 2)))
    mx.reshape(a, (6, -1, 0))
    mx.flatten(b)
    mx.flatten(b, 1)
    mx.flatten(b, start_axis=0, end_axis=1)
    mx.flatten(b, -2, -1)
    mx.flatten(b, 2, 1)
    mx.flatten(b, 5, 7)
    mx.flatten(b, 1, 7)
    mx.flatten(b, -7, -5)
    mx.flatten(b, -7, 1)
    mx.flatten(b, 0, -5)
    mx.flatten(mx.array(1.0))
    mx.flatten(mx.array(1.0), 3)
    mx.flatten(z)
    mx.flatten(1.0)
    b.flatten(start_axis=1)
    mx.unflatten(a, 1, (3, -1))
    mx.unflatten(b, axis=-1, shape=[2, 2])
    mx.unflatten(b, -1, (7, 5))
    mx.unflatten(b, 2, (3, -1))
    mx.unflatten(b, 2, (3, 2))
    mx.unflatten(b, 3, (2, 2))
    mx.unflatten(b, -4, (2, 2))
    mx.unflatten(b, 2, (-1, -1))
    mx.unflatten(b, 2, ())
    mx.unflatten(z, 0, (2, -1))
    mx.unflatten(mx.array(1.0), 0, (1, 1))
    mx.unflatten(b, 0, 4)
    mx.squeeze(u)
    mx.squeeze(u, 0)
    mx.squeeze(u, -1)
    mx.squeeze(u, (0, 2))
    mx.squeeze(u, [0, -1])
    mx.squeeze(u, axis=1)
    mx.squeeze(u, axis=-2)
    mx.squeeze(u, 3)
    mx.squeeze(u, -4)
    mx.squeeze(u, (0, 0))
    mx.squeeze(u, (0, -3))
    mx.squeeze(u, (1, 1))
    mx.squeeze(u, (0, 5, 1))
    mx.squeeze(u, (0, 0, 5))
    mx.squeeze(u, ())
    mx.squeeze(mx.array(1.0))
    mx.squeeze(mx.array(1.0), 0)
    mx.squeeze(1.0)
    u.squeeze(axis=0)
    mx.expand_dims(a, 0)
    mx.expand_dims(a, -1)
    mx.expand_dims(a, 3)
    mx.expand_dims(a, -4)
    mx.expand_dims(a, (0, 2))
    mx.expand_dims(a, [0, -1])
    mx.expand_dims(a, (0, 0))
    mx.expand_dims(a, (0, -4))
    mx.expand_dims(a, (0, 5))
    mx.expand_dims(a, (0, 0, 9))
    mx.expand_dims(a, ())
    mx.expand_dims(mx.array(1), (0, 1, 2))
    mx.expand_dims(1.0, 0)
    mx.expand_dims(a, None)
    mx.expand_dims(a)
"""

TRANSPOSE = """
    b.transpose()
    b.T
    b.mT
    b.transpose(0, 2, 1)
    b.transpose((0, 2, 1))
    b.transpose([0, -1, 1])
    b.transpose(axes=[0, 2, 1])
    b.transpose(0, 2)
    b.transpose(0, 2, 2)
    b.transpose(0, 2, -1)
    b.transpose(0, 2, 3)
    b.transpose(0, 2, -4)
    b.transpose(())
    mx.transpose(b, None)
    mx.transpose(b, axes=(1, 0, 2))
    mx.transpose(b, 1, 0, 2)
    mx.transpose(b, 0)
    mx.transpose(mx.array([1, 2]), (0,))
    mx.array([1, 2]).transpose(0)
    mx.transpose(mx.array(1.0))
    mx.transpose(mx.array(1.0), (0,))
    mx.transpose(1.0)
    mx.transpose(a, (5, 5))
    mx.transpose(a, (0, 0, 7))
    mx.permute_dims(b, (1, 0, 2))
    mx.permute_dims(b, (1, 0))
    mx.matrix_transpose(b)
    mx.matrix_transpose(mx.array([1, 2]))
    mx.array([1]).mT
    mx.moveaxis(b, 0, 2)
    mx.moveaxis(b, -1, 0)
    mx.moveaxis(b, source=0, destination=-1)
    mx.moveaxis(b, 1, 0)
    mx.moveaxis(b, 3, 0)
    mx.moveaxis(b, 0, 3)
    mx.moveaxis(b, 0, -4)
    mx.moveaxis(b, (0, 1), (1, 2))
    mx.moveaxis(mx.array(1), 0, 0)
    b.moveaxis(0, 2)
    mx.swapaxes(b, 0, 2)
    mx.swapaxes(b, -1, 0)
    mx.swapaxes(b, axis1=1, axis2=1)
    mx.swapaxes(b, 3, 0)
    mx.swapaxes(b, 0, -4)
    b.swapaxes(0, 1)
"""

ARRANGE = """
    mx.flip(a)
    mx.flip(a, 0)
    mx.flip(a, axis=-1)
    mx.flip(a, (0, 1))
    mx.flip(a, [])
    mx.flip(a, (0, 0))
    mx.flip(a, 2)
    mx.flip(a, -3)
    mx.flip(mx.array(1))
    mx.flip(mx.array(1), 0)
    mx.flip(3)
    mx.roll(a, 1)
    mx.roll(a, -1)
    mx.roll(a, 1, 0)
    mx.roll(a, 7, 1)
    mx.roll(a, (1, 2), (0, 1))
    mx.roll(a, 1, (0, 1))
    mx.roll(b, (1, 2), 2)
    mx.roll(b, (1, 2))
    mx.roll(b, (1, 2), (2,))
    mx.roll(a, (1,), (0, 1))
    mx.roll(a, 1, 2)
    mx.roll(a, 1, -3)
    mx.roll(a, [1], [0])
    mx.roll(a, (1, 1), (0, 0))
    mx.roll(a, (), ())
    mx.roll(a, ())
    mx.roll(a, shift=1, axis=0)
    mx.roll(a, 1.0)
    mx.roll(a, mx.array(1))
    mx.roll(a, mx.array([1, 2]))
    mx.roll(mx.array(1), 1)
    mx.roll(mx.array(1), 1, 0)
    mx.roll(z, 1)
    mx.roll(z, 1, 0)
    mx.broadcast_to(mx.arange(3), (2, 3))
    mx.broadcast_to(1, [2, 3])
    mx.broadcast_to(1.5, (2,))
    mx.broadcast_to(True, (2,))
    mx.broadcast_to(np.array([3, 4]), (2,))
    mx.broadcast_to([3, 4], (2,))
    mx.broadcast_to(a, (3, 2))
    mx.broadcast_to(a, (2, -1))
    mx.broadcast_to(a, 3)
    mx.broadcast_to(a, (3,))
    mx.broadcast_to(a, (1, 3))
    mx.broadcast_to(u, ())
    mx.broadcast_to(u, (3, 1, 2, 0))
    mx.broadcast_to(a, (0, 3))
    mx.broadcast_to(z, (1, 3))
    mx.broadcast_to(z, (4, 0, 3))
    mx.broadcast_arrays(u, a[:, :1], mx.array(1))
    mx.broadcast_arrays()
    mx.broadcast_arrays(a)
    mx.broadcast_arrays(a, b)
    mx.atleast_1d(mx.array(1))
    mx.atleast_1d(mx.array(1), a)
    mx.atleast_1d()
    mx.atleast_2d(mx.array(1))
    mx.atleast_2d(mx.array([1, 2]), b)
    mx.atleast_3d(mx.array(1), mx.array([1, 2]), a, b)
    mx.as_strided(a)
    mx.as_strided(a, (3, 2))
    mx.as_strided(a, (2, 3), (1, 1))
    mx.as_strided(a, (2, 2), (1, 2), 1)
    mx.as_strided(a, (2, 2), (-1, -2), 5)
    mx.as_strided(a.T, (2, 3))
    mx.as_strided(a, strides=(1, 1))
    mx.as_strided(a, (3,), (0,))
    mx.as_strided(a, (2, -1), (1, 1))
    mx.as_strided(a, (), ())
    mx.as_strided(a, [2, 2], [3, 1], offset=1)
    mx.as_strided(a, shape=(2, 2), strides=None, offset=2)
    mx.as_strided(a, (0,))
"""

JOIN = """
    mx.concatenate([a, a])
    mx.concatenate((a, b[0, :2, :3]))
    mx.concatenate([mx.array([True]), mx.array([1], mx.uint8), mx.array([1], mx.int8)])
    mx.concatenate([])
    mx.concatenate([], axis=(0,))
    mx.concatenate([a], axis=(0,))
    mx.concat([a], axis="a")
    mx.concatenate([a], axis=2**31)
    mx.concatenate([a], axis=1.0)
    mx.concatenate([a], axis=7)
    mx.stack([], axis=(0,))
    mx.concatenate([mx.array(1), mx.array(2)])
    mx.concatenate([mx.array(1), mx.array(2)], axis=None)
    mx.concatenate([a, u], axis=None)
    mx.concatenate([a, b])
    mx.concatenate([a, a[:, :2]])
    mx.concatenate([a, a[:, :2]], 1)
    mx.concatenate([a, a[:, :2]], axis=-1)
    mx.concatenate([a, a], axis=2)
    mx.concatenate([a, b], axis=7)
    mx.concatenate([a, a], axis=-3)
    mx.concatenate([a], axis=2)
    mx.concatenate([a])
    mx.concatenate([a, a[:, :2], a[:, :1]])
    mx.concatenate([a, a, a[:, :1]], axis=-2)
    mx.concatenate([a, a[:, :2], mx.array([1])])
    mx.concatenate([a, a, mx.array([1])])
    mx.concatenate([1, 2])
    mx.concatenate([a, [1, 2]])
    mx.concatenate([a, np.ones((2, 3))])
    mx.concatenate(a)
    mx.concatenate(3)
    mx.concatenate(arrays=[a], axis=0)
    mx.concatenate([z, z + 1])
    mx.concatenate([mx.array([2**40]), mx.array([1], mx.uint64)])
    mx.concat([a, a], 0)
    mx.stack([a, a])
    mx.stack([a, a + 1], 1)
    mx.stack([a, a], -1)
    mx.stack([a, a], 3)
    mx.stack([a, a], -4)
    mx.stack([a, a.astype(mx.float16)], -3)
    mx.stack([a, b])
    mx.stack([a, b], axis=9)
    mx.stack([a], axis=9)
    mx.stack([])
    mx.stack([mx.array(1), mx.array(2)], axis=None)
    mx.stack([1, 2])
    mx.stack(a)
    mx.split(a, 3, 1)
    mx.split(a, [1, 2], axis=1)
    mx.split(a, (2,), -1)
    mx.split(a, 4)
    mx.split(a, 4, axis=-1)
    mx.split(a, 0)
    mx.split(a, -2)
    mx.split(a, 0, 5)
    mx.split(a, [])
    mx.split(a.flatten(), [4, 2])
    mx.split(a.flatten(), [2, 10])
    mx.split(a.flatten(), [-2])
    mx.split(a.flatten(), [-10, 2])
    mx.split(a.flatten(), [4, 2, 5])
    mx.split(a.flatten(), [0, 6])
    mx.split(a, 3, 2)
    mx.split(a, 3, -3)
    mx.split(a, [1], 2)
    mx.split(mx.array(1), 1)
    mx.split(z, 2)
    mx.split(z, [1, 2])
    mx.split(a, 1)
    mx.split(a, 2.0)
    mx.split(a, [2.0])
    mx.split(a, mx.array([1, 2]), axis=1)
    mx.split(a, np.int64(2))
    a.split(2)
    a.split([1], axis=0)
    mx.unstack(a)
    mx.unstack(a, axis=1)
    mx.unstack(a, axis=-1)
    mx.unstack(a, 1)
    mx.unstack(a, axis=2)
    mx.unstack(a, axis=-3)
    mx.unstack(mx.array(1))
    mx.unstack(z)
    mx.unstack(z.T)
    mx.repeat(a, 2)
    mx.repeat(a, 2, 0)
    mx.repeat(a, 2, axis=-1)
    mx.repeat(a, 0)
    mx.repeat(a, 0, 1)
    mx.repeat(a, -1)
    mx.repeat(a, 1, 2)
    mx.repeat(a, -1, 2)
    mx.repeat(a, 2, -3)
    mx.repeat(mx.array(3), 2)
    mx.repeat(mx.array(3), 2, 0)
    mx.repeat(3, 2)
    mx.repeat(array=a, repeats=2)
    mx.repeat(a, repeats=1, axis=0)
    mx.repeat(z, 2)
    mx.repeat(a, mx.array([1, 2]))
    mx.tile(a, 2)
    mx.tile(a, (2, 2))
    mx.tile(a, [2, 1, 1])
    mx.tile(a, 0)
    mx.tile(a, -1)
    mx.tile(a, (2, -1))
    mx.tile(a, ())
    mx.tile(mx.array(1), 2)
    mx.tile(mx.array(1), (2, 3))
    mx.tile(1, 2)
    mx.tile(a, reps=2)
    mx.tile(z, (2, 2))
"""

PAD = """
    mx.pad(a, 1)
    mx.pad(mx.array([1], mx.uint32), 1, constant_values=-2.5)
    mx.pad(mx.array([True]), 1, constant_values=1j)
    mx.pad(a, (1,))
    mx.pad(a, (1, 2))
    mx.pad(a, [1, 2])
    mx.pad(a, [(1, 2)])
    mx.pad(a, [[1, 2], [0, 1]])
    mx.pad(a, ((1, 0), (0, 1)))
    mx.pad(a, [(1,), (2,)])
    mx.pad(a, ((1, 0), (0, 1), (0, 1)))
    mx.pad(a, -1)
    mx.pad(a, (1, -1))
    mx.pad(a, (1, 2, 3))
    mx.pad(a, ())
    mx.pad(a, 1, constant_values=5)
    mx.pad(a, 1, constant_values=5.5)
    mx.pad(a, 1, constant_values=mx.array(7.5))
    mx.pad(a, 1, constant_values=np.array(7))
    mx.pad(b, 1, constant_values=1)
    mx.pad(b, 1, constant_values=1j)
    mx.pad(mx.array([True]), 1, constant_values=2)
    mx.pad(mx.array([True]), 1)
    mx.pad(mx.array([1], mx.uint8), 1, constant_values=300)
    mx.pad(a, 1, "edge")
    mx.pad(a, [(0, 2)], mode="reflect")
    mx.pad(a, [(1, 1), (2, 0)], mode="symmetric")
    mx.pad(mx.arange(3), 5, mode="reflect")
    mx.pad(mx.arange(3), 7, mode="symmetric")
    mx.pad(mx.arange(1), 2, mode="reflect")
    mx.pad(mx.arange(1), 2, mode="symmetric")
    mx.pad(mx.zeros(0), 2, mode="edge")
    mx.pad(mx.zeros(0), 2, mode="reflect")
    mx.pad(mx.zeros(0), 2, mode="symmetric")
    mx.pad(z, 2)
    mx.pad(z, [(0, 0), (1, 1)], "reflect")
    mx.pad(a, 2, mode="wrap")
    mx.pad(a, [(1, -1)], mode="edge")
    mx.pad(mx.array(1), 0)
    mx.pad(mx.array(1), 1)
    mx.pad(mx.array(1), -1)
    mx.pad(mx.array(1), [(1, 1), (1, 1)])
    mx.pad(mx.array(1), 1, mode="edge")
    mx.pad(1, 1)
    mx.pad(a, 1.0)
    mx.pad(a, mx.array(1))
    mx.pad(a, np.array([1, 2]))
    mx.pad(a, (1, 1), "constant", 3)
    mx.pad(a, 1, None)
    mx.pad(a, 1, constant_values=None)
"""

DIAGONAL = """
    mx.diagonal(a)
    mx.diagonal(a, 1)
    mx.diagonal(a, -1)
    mx.diagonal(a, 5)
    mx.diagonal(a, -5)
    mx.diagonal(a, 0, 1, 0)
    mx.diagonal(b, 0, 0, 2)
    mx.diagonal(b, 1, -2, -1)
    mx.diagonal(b, 0, 1, 1)
    mx.diagonal(b, 0, 1, 3)
    mx.diagonal(b, 0, -4, 1)
    mx.diagonal(mx.arange(3))
    mx.diagonal(1)
    mx.diagonal(a=a, offset=0, axis1=0, axis2=1)
    a.diagonal()
    mx.diag(mx.arange(3))
    mx.diag(mx.arange(2), 1)
    mx.diag(mx.arange(2), -1)
    mx.diag(mx.arange(2), k=2)
    mx.diag(a)
    mx.diag(a, 2)
    mx.diag(a, 3)
    mx.diag(a, -3)
    mx.diag(b)
    mx.diag(mx.array(1))
    mx.diag(mx.zeros(0))
    mx.diag(mx.zeros(0), 1)
    mx.diag([1, 2])
    a.diag()
    mx.trace(a)
    mx.trace(a, 1)
    mx.trace(a, 5)
    mx.trace(b)
    mx.trace(b, 0, 0, 2)
    mx.trace(b, offset=0, axis1=-1, axis2=0)
    mx.trace(a, dtype=mx.float32)
    mx.trace(a.astype(mx.int8))
    mx.trace(a.astype(mx.bool_))
    mx.trace(a.astype(mx.uint8))
    mx.trace(a.astype(mx.float16))
    mx.trace(mx.full((2, 2), 100), dtype=mx.int8)
    mx.trace(mx.arange(3))
    mx.trace(b, 0, 0, 0)
    mx.trace(b, 0, 0, 5)
    mx.tril(a)
    mx.tril(a, 1)
    mx.tril(a, k=-1)
    mx.tril(b)
    mx.tril(mx.arange(3))
    mx.tril(mx.array([[True, True], [True, True]]))
    mx.tril(mx.full((2, 2), float("inf")))
    mx.tril(x=a)
    mx.tril(1)
    mx.triu(a)
    mx.triu(a, k=1)
    mx.triu(mx.arange(3))
    mx.triu(b, -1)
"""

GRADIENTS = """
    mx.grad(lambda x: (mx.pad(x, 3, mode="reflect") * mx.arange(9.0)).sum())(mx.arange(3.0))
    mx.grad(lambda x: (mx.pad(x, 2, mode="symmetric") * mx.arange(7.0)).sum())(mx.arange(3.0))
    mx.grad(lambda x: (mx.pad(x, 2, mode="edge") * mx.arange(7.0)).sum())(mx.arange(3.0))
    mx.grad(lambda x: (mx.pad(x, 2, constant_values=1.0) * mx.arange(7.0)).sum())(mx.arange(3.0))
    mx.grad(lambda x: (mx.as_strided(x, (3, 2), (1, 1)) * mx.arange(6.0).reshape(3, 2)).sum())(mx.arange(4.0))
    mx.grad(lambda x: (mx.roll(x, 1, 1) * x).sum())(b)
    mx.grad(lambda x: (mx.split(x, [1], 1)[1] * 2).sum())(b)
    mx.grad(lambda x: (mx.concatenate([x, x * x], 1) * 2).sum())(b)
    mx.grad(lambda x: (mx.repeat(x, 2, 1) * mx.tile(x, (1, 2, 1))).sum())(b)
    mx.grad(lambda x: mx.trace(x * x))(b[0])
    mx.grad(lambda x: (mx.diag(x) * mx.ones((3, 3))).sum())(mx.arange(3.0))
    mx.grad(lambda x: (mx.tril(x) * x).sum())(b)
    mx.vmap(lambda x: mx.reshape(x, (-1,)))(b)
    mx.vmap(lambda x: mx.transpose(x, (1, 0)), in_axes=1)(b)
    mx.vmap(lambda x: mx.expand_dims(mx.flip(x, 0), 1))(b)
    mx.vmap(lambda x: mx.concatenate([x, mx.zeros((1, 4))]))(b)
    mx.vmap(lambda x: mx.split(x, 2, axis=1)[0])(b)
    mx.vmap(lambda x: mx.stack([x, x], axis=-1))(b)
    mx.vmap(lambda x: mx.unflatten(mx.flatten(x), 0, (2, -1)))(b)
    mx.vmap(lambda x: mx.broadcast_to(x, (2, 4)), in_axes=1)(b[0])
"""

NOT_ARRAYS = """
    mx.broadcast_arrays(a, 1.0)
    mx.broadcast_arrays([a, a])
    mx.atleast_1d(1)
    mx.atleast_2d(1.0, 2)
    mx.atleast_3d([a])
"""


@pytest.mark.parametrize("line", lines(RESHAPE))
def test_reshape(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(TRANSPOSE))
def test_transpose(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(ARRANGE))
def test_arrange(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(JOIN))
def test_join(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(PAD))
def test_pad(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(DIAGONAL))
def test_diagonal(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(GRADIENTS))
def test_transforms(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(NOT_ARRAYS))
def test_not_arrays(line: str) -> None:
    evaluate(line, message=False)  # ours say which argument is at fault


def test_real_mlx_reads_foreign_memory_where_we_raise() -> None:
    with pytest.raises(IndexError, match="as_strided"):
        mx.as_strided(mx.arange(4), (3,), (2,), 4)
    with pytest.raises(ValueError, match="reshape"):
        mx.reshape(mx.arange(6), (-2, -3))


shapes = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)


@given(shapes, st.data())
def test_inferred_shapes(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Compare the shapes inferred without computation, for arbitrary arrays."""
    axis = st.integers(-len(shape) - 1, len(shape))
    i, j, k = (data.draw(axis) for _ in range(3))
    axes = data.draw(st.permutations(range(len(shape))))
    parts = data.draw(st.lists(st.integers(-4, 4), max_size=3))
    cases: list[Callable[[Any, Any], Any]] = [
        lambda mx, x: mx.swapaxes(x, i, j),
        lambda mx, x: mx.moveaxis(x, i, j),
        lambda mx, x: mx.transpose(x, axes),
        lambda mx, x: mx.flatten(x, i, j),
        lambda mx, x: mx.squeeze(x, (i, j)),
        lambda mx, x: mx.expand_dims(x, (i, j)),
        lambda mx, x: mx.split(x, parts, k),
        lambda mx, x: mx.repeat(x, abs(i), k),
        lambda mx, x: mx.tile(x, [abs(p) for p in parts]),
        lambda mx, x: mx.concatenate([x, x, x], i),
        lambda mx, x: mx.stack([x, x], i),
        lambda mx, x: mx.flip(x, (i, j)),
        lambda mx, x: mx.diagonal(x, k, i, j),
    ]
    case = data.draw(st.sampled_from(cases))

    def outcome(mx: Any) -> Any:
        try:
            out = case(mx, mx.zeros(shape))
        except (ValueError, IndexError) as error:
            return type(error), str(error)
        return [x.shape for x in out] if isinstance(out, list) else out.shape

    assert outcome(mx) == outcome(real)


@pytest.mark.parametrize(
    "shape",
    [
        ("a",), ((2, "a"),), (2.0, 2), ((2, 2.5),), (None,), (2, (2,)), (2, None), (2**40,), ([[2, 2]],),
        (b"a",), ({2}, 2), ((2, 2), 3), ([2, 2], "a"), ((), 2), ([4], None), (np.array([2, 2]), 1),
    ],
)  # fmt: skip
def test_what_the_methods_take_for_shapes_and_axes(shape: tuple) -> None:
    """Assert that methods ignore further arguments after a sequence."""
    for name in ("reshape", "transpose"):
        check(lambda mx: getattr(mx.ones((2, 2)), name)(*shape))  # noqa: B023
