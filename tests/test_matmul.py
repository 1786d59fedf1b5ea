"""Matrix products, einsum, convolution and the Hadamard transform, each line compared with real MLX."""

import random

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as ours
from tests.oracle import check, same

rng = np.random.default_rng(0)
A = rng.standard_normal((2, 3)).astype(np.float32)
B = rng.standard_normal((3, 4)).astype(np.float32)
V = rng.standard_normal(3).astype(np.float32)
I = np.arange(4, dtype=np.int32).reshape(2, 2)  # noqa: E741
T = rng.standard_normal((4, 2, 3)).astype(np.float32)


def lines(text: str) -> list[str]:
    """Return the expressions in a text, one per line."""
    return [line.strip() for line in text.strip().splitlines()]


def evaluate(expression: str, message: bool | None = None) -> None:
    """Compare an expression over `mx` and the arrays a (2, 3), b (3, 4), v (3), i (int32, 2 by 2) and t (4, 2, 3)."""
    code = compile(expression, expression, "eval")

    def run(mx, a, b, v, i, t):
        return eval(code, {"mx": mx, "np": np, "a": a, "b": b, "v": v, "i": i, "t": t})

    check(run, A, B, V, I, T, message=message)


MATMUL = """
    a @ b
    mx.matmul(a, b)
    v @ b
    a @ v
    v @ v
    t @ v
    v @ t.mT
    t @ b
    t[:, None] @ mx.stack([b, b, b, b, b])
    t @ mx.stack([b, b, b])
    a @ a
    v @ mx.ones(2)
    t @ mx.ones(4)
    mx.matmul(mx.array(1.0), a)
    mx.matmul(a, mx.array(1.0))
    mx.matmul(a, 2.0)
    a @ 2.0
    2.0 @ a
    a @ [[1, 2], [3, 4]]
    mx.matmul(a, np.ones((3, 2)))
    mx.matmul([1.0], [2.0])
    i @ i
    mx.array([[True]]) @ mx.array([[True]])
    i @ a
    i @ a.astype(mx.float16)
    a.astype(mx.bfloat16) @ b.astype(mx.float16)
    a.astype(mx.bfloat16) @ b.astype(mx.bfloat16)
    a.astype(mx.float16) @ b.astype(mx.float16)
    a.astype(mx.complex64) @ b.astype(mx.bfloat16)
    (a + 1j) @ (b - 2j)
    a.astype(mx.float64) @ b.astype(mx.bfloat16)
    a.astype(mx.float64) @ b.astype(mx.complex64)
    mx.ones((0, 3)) @ b
    mx.ones((2, 0)) @ mx.ones((0, 3))
    mx.ones((0, 2, 0)) @ mx.ones((0, 3))
    mx.ones(0) @ mx.ones(0)
    mx.array([], mx.int32) @ mx.array([], mx.int32)
    mx.grad(lambda x: (x @ b).sum())(a)
    mx.grad(lambda x, y: ((x @ y) * (x @ y)).sum(), argnums=(0, 1))(t, v)
    mx.grad(lambda x: (x @ b.astype(mx.float16)).sum())(a.astype(mx.float16))
    mx.vmap(lambda x: x @ b)(t)
    mx.vmap(lambda x, y: x @ y, in_axes=(0, None))(t, v)
    mx.vmap(mx.matmul, in_axes=(None, 1))(a, mx.stack([b, b], 1))
    mx.jvp(lambda x: a @ x, [b], [b])
"""

ADDMM = """
    mx.addmm(mx.ones((2, 4)), a, b)
    mx.addmm(mx.array(1.0), a, b)
    mx.addmm(1.0, a, b)
    mx.addmm(mx.ones(4), a, b, 0.5, 2.0)
    mx.addmm(mx.ones(4), a, b, alpha=2, beta=0)
    mx.addmm(mx.ones(3), a, b)
    mx.addmm(mx.ones((1, 2, 4)), a, b)
    mx.addmm(mx.ones((2, 4)), t, b)
    mx.addmm(mx.ones(4), v, b)
    mx.addmm(mx.array(1.0), v, v)
    mx.addmm(mx.ones(2), v, v)
    mx.addmm(mx.ones(2), a, v)
    mx.addmm(i, i, i)
    mx.addmm(i, a[:, :2], b[:2, :2])
    mx.addmm(mx.ones((2, 2)), i, i)
    mx.addmm(mx.ones((2, 4)), a.astype(mx.float16), b.astype(mx.float16))
    mx.addmm(mx.ones((2, 4), mx.float16), a.astype(mx.float16), b.astype(mx.float16), 0.5)
    mx.addmm(mx.ones((2, 4), mx.float16), a.astype(mx.float16), b.astype(mx.bfloat16))
    mx.addmm(mx.ones((2, 4), mx.complex64), a, b)
    mx.addmm(mx.ones((3, 2, 4), mx.complex64), a, b, 0.5, 2.0)
    mx.addmm(mx.ones((3, 4), mx.complex64), a, b)
    mx.addmm(mx.ones((3, 4), mx.complex64), b, b)
    mx.grad(lambda c, x: mx.abs(mx.addmm(c, x, b)).sum(), argnums=(0, 1))(mx.ones((3, 2, 4), mx.complex64), a)
    mx.addmm(mx.ones((2, 2)), a, a)
    mx.addmm(mx.ones((2, 2)), mx.array(1.0), a)
    mx.addmm(mx.ones((2, 2)), mx.ones((2, 0)), mx.ones((0, 2)), 2.0, 3.0)
    mx.addmm(mx.ones((4, 2, 2)), t[:3], mx.ones((4, 3, 2)))
    mx.addmm(a, [[1.0, 2], [3, 4]], a)
    mx.addmm(mx.ones((2, 4)), a, b, mx.array(2.0))
    mx.addmm(mx.ones((2, 4)), a, b, 2j)
    mx.addmm(mx.ones((2, 4)), a, b, "a")
    mx.addmm(mx.full((2, 4), float("nan")), a, b, beta=0.0)
    mx.grad(lambda c, x, y: (mx.addmm(c, x, y, 0.5, 3.0) ** 2).sum(), argnums=(0, 1, 2))(mx.ones(4), a, b)
"""

PRODUCTS = """
    mx.tensordot(t, mx.ones((2, 3, 5)))
    mx.tensordot(t, b, 1)
    mx.tensordot(a, b, axes=0)
    mx.tensordot(t, mx.ones((3, 2, 5)), axes=[[1, 2], [1, 0]])
    mx.tensordot(t, mx.ones((3, 2, 5)), axes=([1, 2], [1, 0]))
    mx.tensordot(t, b, axes=[1, 2])
    mx.tensordot(t, b, axes=[[-1], [-2]])
    mx.tensordot(t, b, axes=[[1], [1, 2]])
    mx.tensordot(t, b, axes=[[1]])
    mx.tensordot(t, b, axes=[])
    mx.tensordot(a, b, axes=[[], []])
    mx.tensordot(t, b, axes=[[1], [0]])
    mx.tensordot(t, b, axes=[[3], [0]])
    mx.tensordot(t, b, axes=[[-4], [0]])
    mx.tensordot(mx.ones((2, 3, 3)), mx.ones((3, 3, 5)), axes=[[1, 1], [1, 1]])
    mx.tensordot(t, b, axes=4)
    mx.tensordot(t, b, axes=-1)
    mx.tensordot(i, i)
    mx.tensordot(i, mx.ones((2, 2)))
    mx.tensordot(mx.array(2.0), mx.array(3.0), 0)
    mx.tensordot(mx.ones((2, 0)), mx.ones((0, 3)), 1)
    mx.tensordot(1.0, a, 0)
    mx.inner(v, v)
    mx.inner(t, a)
    mx.inner(a, b)
    mx.inner(mx.arange(3), mx.arange(3))
    mx.inner(mx.array(2.0), mx.arange(3))
    mx.inner(mx.array(2), mx.array(3))
    mx.inner(2.0, v)
    mx.inner(a.astype(mx.float16), v)
    mx.outer(mx.arange(2), mx.arange(3))
    mx.outer(v, i)
    mx.outer(mx.array(2), v)
    mx.outer(v, 2)
    mx.outer(mx.array([True]), mx.array([True, False]))
    mx.outer(mx.ones(0), v)
    mx.vecdot(v, v)
    mx.vecdot(mx.arange(3), mx.arange(3))
    mx.vecdot(a, v)
    mx.vecdot(a, a, axis=0)
    mx.vecdot(a, a, 0)
    mx.vecdot(a, a, np.int32(1))
    mx.vecdot(a, a, axis=-2)
    mx.vecdot(a, mx.ones(2), axis=0)
    mx.vecdot(a, a[:, :2])
    mx.vecdot(a, a[:, :1])
    mx.vecdot(a, a, axis=2)
    mx.vecdot(a, a, axis=-3)
    mx.vecdot(a + 1j, a - 2j)
    mx.vecdot(mx.array([True, True]), mx.array([True, True]))
    mx.vecdot(mx.array([100, 100], mx.int8), mx.array([100, 100], mx.int8))
    mx.vecdot(mx.array([100, 100], mx.uint8), mx.array([100, 100], mx.uint8))
    mx.vecdot(mx.array([100, 100], mx.float16), mx.array([1, 1], mx.int8))
    mx.vecdot(mx.array(1.0), mx.array(1.0))
    mx.vecdot(t, a, axis=0)
    mx.vecdot(t, a, axis=-2)
    mx.vecdot(t, a, axis=2)
    mx.vecdot(t, a, axis=5)
    mx.vecdot(t, a, axis=-9)
    mx.vecdot(mx.ones(2), i, axis=0)
    mx.vecdot(mx.ones(2), i, axis=1)
    mx.vecdot(a[:1], a)
    mx.vecdot(mx.ones(0), mx.ones(0))
    mx.vecdot(1.0, v)
    mx.kron(i, i)
    mx.kron(v, a)
    mx.kron(v, mx.array([1, 2]))
    mx.kron(mx.array(2), v)
    mx.kron(mx.array(2), mx.array(3))
    mx.kron(a=i, b=i)
    mx.kron(2, i)
    mx.kron(mx.zeros(0), v)
    mx.kron(t, a)
    mx.grad(lambda x: mx.vecdot(x, x * x).sum())(a)
    mx.grad(lambda x: mx.tensordot(x, x, [[0, 1], [0, 1]]))(a)
    mx.grad(lambda x: mx.kron(x, x).sum())(a)
    mx.vmap(lambda x: mx.inner(x, v))(t)
"""

EINSUM = """
    mx.einsum("ij,jk->ik", a, b)
    mx.einsum("ij,jk", a, b)
    mx.einsum("ii", i)
    mx.einsum("ii->i", i)
    mx.einsum("ij->ji", i)
    mx.einsum("ij->", i)
    mx.einsum("ij->", i.astype(mx.int8))
    mx.einsum("ij->", i > 0)
    mx.einsum("i,j->ij", mx.arange(2), mx.arange(3))
    mx.einsum("i,i->", mx.arange(3), mx.arange(3))
    mx.einsum("ij,jk->ik", i, i)
    mx.einsum("ij,ij->ij", i, i)
    mx.einsum("ij,ij->i", i, i)
    mx.einsum("ij,ik->i", i.astype(mx.int8), i.astype(mx.int8))
    mx.einsum("ij,k->k", i.astype(mx.int8), mx.ones(2, mx.int8))
    mx.einsum("ij,k->ijk", i.astype(mx.int8), mx.ones(2, mx.int8))
    mx.einsum("ab,cd,ef->", i.astype(mx.int8), i.astype(mx.int8), i.astype(mx.int8))
    mx.einsum("i,i->i", mx.arange(3), v)
    mx.einsum("ij,jk,kl->il", i, a[:, :2], a.astype(mx.float16))
    mx.einsum("i,i,i->i", mx.arange(3), v.astype(mx.float16), v.astype(mx.bfloat16))
    mx.einsum("...ij,...jk->...ik", t, mx.stack([b, b, b, b]))
    mx.einsum("...ij,jk->...ik", t, b)
    mx.einsum("...ij,...jk->...ik", t, mx.stack([b, b, b]))
    mx.einsum("...ij,...jk->...ik", t[:1], mx.stack([b, b, b]))
    mx.einsum("...ij,...jk->ik", t, t.mT)
    mx.einsum("i...->...", a)
    mx.einsum("...", a)
    mx.einsum("...i", a)
    mx.einsum("i...", a)
    mx.einsum("i...i", t.swapaxes(0, 1)[:, :, :2])
    mx.einsum("i...j->j...i", t)
    mx.einsum("b...,...a", a, b)
    mx.einsum("ij...,jk->ik", t, mx.ones((2, 5)))
    mx.einsum("ij,jk->...ik", a, b)
    mx.einsum("ij,jk->ik", a)
    mx.einsum("ij->ij", a, a)
    mx.einsum("ij->ik", a)
    mx.einsum("ij->ijk", a)
    mx.einsum("ij->k", a)
    mx.einsum("ij,jk->iz", a, b)
    mx.einsum("ij,jk->ii", a, b)
    mx.einsum("ijk", a)
    mx.einsum("ij", t)
    mx.einsum("ij,jk->ik", a, a)
    mx.einsum("ij,jk->ik", a[:, :1], b)
    mx.einsum("ij,kj->ik", a, b[:, :1])
    mx.einsum("ij,ij->ij", a[:, :1], a)
    mx.einsum("ij,jk-ik", a, b)
    mx.einsum("ij,jk->ik->l", a, b)
    mx.einsum("i1,jk->ik", a, b)
    mx.einsum("i j , j k -> i k", a, b)
    mx.einsum("ij,jk->ik")
    mx.einsum("")
    mx.einsum("", mx.array(1.0))
    mx.einsum("->", mx.array(1.0))
    mx.einsum("->ij", mx.array(1.0))
    mx.einsum(",", mx.array(2.0), mx.array(3.0))
    mx.einsum(",i->i", mx.array(2.0), v)
    mx.einsum("ij,,jk->ik", a, mx.array(2.0), b)
    mx.einsum("ij,jk->ik", a.astype(mx.float16), b)
    mx.einsum("ij,jk->ik", a.astype(mx.bfloat16), b.astype(mx.bfloat16))
    mx.einsum("Ij,jK->IK", a, b)
    mx.einsum("ba,c", a, v)
    mx.einsum("bA,c", a, v)
    mx.einsum("ii", a)
    mx.einsum("i.j", a)
    mx.einsum("...i...", a)
    mx.einsum("...ij->...", v)
    mx.einsum("ij->i,j", a)
    mx.einsum("iji->j", t[:2].swapaxes(1, 2)[:, :, :2])
    mx.einsum("iij,jk->ik", t[:2], b)
    mx.einsum("aab,bcc->ac", t[:2], mx.ones((3, 2, 2)))
    mx.einsum("ii,jj->", i.astype(mx.float32), i)
    mx.einsum("i->ii", v)
    mx.einsum("ij,jk->ik", mx.ones((2, 0)), mx.ones((0, 3)))
    mx.einsum("ij->i", mx.ones((2, 0)))
    mx.einsum("ij,ki->jk", mx.ones((2, 0)), mx.ones((3, 2)))
    mx.einsum("...,...->...", a[:, :1], v)
    mx.einsum(1, a)
    mx.einsum("aij,akl,bjk->il", t, t, mx.ones((5, 3, 2)))
    mx.einsum_path("ij,jk->ik", a)
    mx.einsum_path("ij,jk->ik", a, a)
    mx.einsum_path("ij->")
    mx.einsum_path("...ij,jk,kl->...il", t, b, mx.ones((4, 5)))
    mx.einsum_path("i j, jk ->ik", a, b)
    mx.einsum_path("", mx.array(1.0))
    mx.grad(lambda x: mx.einsum("ij,jk,il->", x, b, x))(a)
    mx.vmap(lambda x: mx.einsum("ij,kj->ik", x, a))(t)
"""

SIGNAL = """
    mx.convolve(mx.arange(4.0), v)
    mx.convolve(mx.arange(4.0), v, "same")
    mx.convolve(mx.arange(4.0), v, mode="valid")
    mx.convolve(v, mx.arange(5.0), mode="valid")
    mx.convolve(v, mx.arange(4.0), mode="same")
    mx.convolve(mx.arange(4.0), mx.arange(2.0), mode="same")
    mx.convolve(mx.arange(4.0), mx.arange(4.0), mode="same")
    mx.convolve(mx.arange(4), mx.arange(3))
    mx.convolve(mx.arange(4), v)
    mx.convolve(mx.arange(4.0), mx.arange(3))
    mx.convolve(mx.arange(3), mx.arange(5.0))
    mx.convolve(mx.arange(3), v)
    mx.convolve(mx.arange(4.0).astype(mx.float16), v.astype(mx.float16))
    mx.convolve(mx.arange(4.0).astype(mx.bfloat16), v.astype(mx.float16))
    mx.convolve(mx.arange(4.0).astype(mx.float64), v.astype(mx.float16))
    mx.convolve(v.astype(mx.complex64), v)
    mx.convolve(v, v, "foo")
    mx.convolve(a, v)
    mx.convolve(mx.zeros(0), v)
    mx.convolve([1.0], v)
    mx.convolve(v, v=v)
    mx.hadamard_transform(mx.arange(4.0))
    mx.hadamard_transform(mx.arange(4.0), 1.0)
    mx.hadamard_transform(mx.arange(4), scale=0.5)
    mx.hadamard_transform(mx.arange(4.0).astype(mx.float16))
    mx.hadamard_transform(mx.arange(4.0).astype(mx.bfloat16))
    mx.hadamard_transform(mx.arange(4.0).astype(mx.complex64))
    mx.hadamard_transform(mx.arange(4.0).astype(mx.float64))
    mx.hadamard_transform(mx.arange(5.0).astype(mx.float64))
    mx.hadamard_transform(mx.ones((2, 1), mx.float64, stream=mx.cpu), 2.0, stream=mx.cpu)
    mx.hadamard_transform(mx.array(3 + 4j))
    mx.hadamard_transform(mx.array([True]))
    mx.hadamard_transform(mx.array([3]), 2.0)
    mx.hadamard_transform(mx.array(3))
    mx.hadamard_transform(mx.arange(3.0))
    mx.hadamard_transform(mx.arange(128.0), 1.0)
    mx.hadamard_transform(mx.arange(24.0), 1.0)
    mx.hadamard_transform(mx.arange(40.0), 1.0)
    mx.hadamard_transform(mx.arange(56.0), 1.0)
    mx.hadamard_transform(mx.array(1.0))
    mx.hadamard_transform(mx.ones(1))
    mx.hadamard_transform(mx.ones((2, 0)))
    mx.hadamard_transform(mx.ones((2, 2, 4)), 2)
    mx.hadamard_transform(mx.array([True, False]))
    mx.hadamard_transform(1.0)
    mx.hadamard_transform(v, 1.0, None)
"""

X = "mx.arange(64 * 32).reshape(64, 32) / 2048.0"
MASKED = f"""
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32)
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, mx.array([[True, False], [False, True]]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, mx.array([[0.5, 2], [1, 0]]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, None, mx.array([[True], [False]]), mx.array([[True, False]]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, None, mx.array([[1.5], [0]]), mx.array([[1, 2]]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, mx.array([[True, False]]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, mx.array([True, False]))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, mx.ones((3, 1)))
    mx.block_masked_mm({X}, mx.ones((32, 64)), 32, None, mx.ones((3, 2, 1)))
    mx.block_masked_mm(mx.ones((3, 40, 50)), mx.ones((50, 33)), 32, mx.eye(2))
    mx.block_masked_mm(mx.ones((40, 50)), mx.ones((51, 33)), 32)
    mx.block_masked_mm(mx.ones(32), mx.ones((32, 4)), 32)
    mx.block_masked_mm(i, i, 32)
    mx.block_masked_mm(mx.array(1.0), i, 32)
    mx.gather_mm(t, mx.ones((5, 3, 2)), mx.array([0, 1]), mx.array([2, 3]))
    mx.gather_mm(t, t.mT)
    mx.gather_mm(t, mx.stack([b, b + 1, b + 2]), rhs_indices=mx.array([0, 1, 2, 0]))
    mx.gather_mm(t, mx.stack([b, b + 1, b + 2]), rhs_indices=mx.array([0, 1]))
    mx.gather_mm(t, mx.stack([b, b + 1, b + 2]), rhs_indices=mx.array([[0], [1]]))
    mx.gather_mm(a, mx.stack([b, b + 1, b + 2]), rhs_indices=mx.array([[0], [1]]))
    mx.gather_mm(v, mx.stack([b, b + 1, b + 2]), rhs_indices=mx.array([[0], [1]]))
    mx.gather_mm(v, v)
    mx.gather_mm(mx.ones((2, 2, 0)), mx.ones((2, 0, 4)), rhs_indices=mx.array([0, 1]))
    mx.gather_mm(mx.ones((2, 2, 3)), mx.ones((2, 3, 0)), rhs_indices=mx.array([0, 1]))
    mx.gather_mm(mx.ones((2, 0, 3)), mx.ones((2, 3, 4)), rhs_indices=mx.array([0, 1]))
    mx.gather_mm(mx.ones((0, 2, 3)), mx.ones((2, 3, 4)), rhs_indices=mx.zeros(0, mx.int32))
    mx.gather_mm(t[:, None], mx.stack([b, b + 1]), rhs_indices=mx.array([0, 1, 1, 1, 0]))
    mx.gather_mm(v, mx.stack([b, b + 1, b - 1]), rhs_indices=mx.array([[0, 1, 1, 0], [2, 2, 2, 2]]))
    mx.gather_mm(t, mx.stack([b, b + 1]), mx.array([0, 1, 3, 3, 2]), mx.array([[1], [1]], mx.uint32))
    mx.grad(lambda x, w: (mx.gather_mm(x, w, rhs_indices=mx.array([0, 0, 0, 0])) ** 2).sum(), (0, 1))(t, b[None])
    mx.grad(lambda x, w: (mx.gather_mm(x, w, rhs_indices=mx.array([1, 0])) ** 2).sum(), (0, 1))(t[:2], mx.stack([b, b]))
    mx.gather_mm(t, v, mx.array([0, 1], mx.uint8))
    mx.gather_mm(t, mx.stack([b, b + 1]), mx.array(1), mx.array(1), sorted_indices=True)
    mx.gather_mm(mx.stack([t, t + 1]), b[None], mx.array([5]), mx.array(0))
    mx.gather_mm(t.astype(mx.float16), b[None], mx.array([0]), mx.array([0]))
    mx.gather_mm(i, i)
    mx.gather_mm(t.astype(mx.complex64), b[None], mx.array([0]), mx.array([0]))
    mx.gather_mm(t, b[None], mx.array([0.0]), mx.array([0]))
    mx.gather_mm(t, t, mx.array([0]), mx.array([0]))
    mx.gather_mm(t, b[None], mx.array([0, 1]), mx.array([0, 0, 0]))
    mx.gather_mm(t, b[None], [0, 1], [0, 0])
    mx.gather_mm(mx.array(1.0), b)
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([[0, 2], [2, 6]]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([[[4, 2], [3, 6]]], mx.uint32))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([0, 2]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([0, 2, 3]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((5, 3)), mx.array([0, 2, 3]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3), mx.complex64), mx.array([0.0, 2.0]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3), mx.complex64), mx.array([0.0, 2.0, 3.0]))
    mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([0.0, 1.0]))
    mx.segmented_mm(i, i, mx.array([[0, 2]]))
    mx.segmented_mm(t, b, mx.array([[0, 2]]))
    mx.segmented_mm(a.astype(mx.float16), b, mx.array([[0, 2]]))
"""

NOT_ARRAYS = """
    mx.einsum("ij,jk->ik", a, 1.0)
    mx.einsum("ij,jk->ik", [a, b])
    mx.einsum("ij,j->i", np.ones((2, 3)), v)
"""


@pytest.mark.parametrize("line", lines(MATMUL))
def test_matmul(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(ADDMM))
def test_addmm(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(PRODUCTS))
def test_products(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(EINSUM))
def test_einsum(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(SIGNAL))
def test_signal(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(MASKED))
def test_masked_gathered_segmented(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(NOT_ARRAYS))
def test_not_arrays(line: str) -> None:
    evaluate(line, message=False)  # ours say which argument is at fault


def test_einsum_path_is_that_of_mlx() -> None:
    """Compare the contraction order and the cost report for random equations."""
    draw = random.Random(1)
    for _ in range(100):
        letters = "abcdefg"[: draw.randint(2, 7)]
        sizes = {c: draw.randint(1, 9) for c in letters}
        counts = [draw.randint(0, min(4, len(letters))) for _ in range(draw.randint(2, 6))]
        terms = ["".join(draw.sample(letters, n)) for n in counts]
        used = sorted(set("".join(terms)))
        equation = ",".join(terms) + "->" + "".join(draw.sample(used, draw.randint(0, len(used))))
        shapes = [[sizes[c] for c in term] for term in terms]
        want = real.einsum_path(equation, *map(real.zeros, shapes))
        same(ours.einsum_path(equation, *map(ours.zeros, shapes)), want, where=equation)


def test_many_products_with_few_matrices() -> None:
    """Compare values, derivatives and `vmap`: rows are grouped if products exceed twice the matrices."""
    x = ours.array(rng.standard_normal((40, 2, 3)).astype(np.float32))
    w = ours.array(rng.standard_normal((3, 3, 4)).astype(np.float32))
    n = ours.array(rng.integers(0, 3, 40).astype(np.int32))

    def grouped(x, w, n):
        return (ours.gather_mm(x, w, rhs_indices=n) ** 2).sum(-1)

    def plain(x, w, n):
        return ((x @ w[n]) ** 2).sum(-1)

    def close(a: ours.array, b: ours.array) -> None:
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-4, atol=1e-4)

    close(grouped(x, w, n), plain(x, w, n))
    functions = (grouped, plain)
    once = [ours.grad(lambda x, w, f=f: f(x, w, n).sum(), (0, 1))(x, w) for f in functions]
    for a, b in zip(*once, strict=True):
        close(a, b)
    close(*[ours.grad(lambda w, f=f: (ours.grad(lambda v: f(x, v, n).sum())(w) ** 2).sum())(w) for f in functions])
    xs, ns = ours.stack([x, x + 1]), ours.stack([n, n[::-1]])
    close(*[ours.vmap(f, in_axes=(0, None, 0))(xs, w, ns) for f in (grouped, plain)])


def test_half_precision_is_added_up_in_float32() -> None:
    x, y = rng.random((1, 4096)), rng.random((4096, 1))
    for dtype, limit in ((ours.float16, 1e-3), (ours.bfloat16, 8e-3)):
        a, b = ours.array(x, dtype=dtype), ours.array(y, dtype=dtype)
        want = np.array(a.astype(ours.float32), np.float64) @ np.array(b.astype(ours.float32), np.float64)
        for out in (a @ b, ours.addmm(ours.zeros(1, dtype), a, b), ours.einsum("ij,jk->ik", a, b)):
            assert out.dtype is dtype
            np.testing.assert_allclose(np.array(out.astype(ours.float32)), want, rtol=limit)
