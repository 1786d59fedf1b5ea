"""Creation, ranges and windows, each line compared with real MLX."""

from collections.abc import Callable

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat.ext import debug
from tests.oracle import check


def lines(text: str) -> list[str]:
    """Return the expressions in a text, one per line."""
    return [line.strip() for line in text.strip().splitlines()]


def evaluate(expression: str, message: bool | None = None) -> None:
    """Compare an expression over `mx`."""
    code = compile(expression, expression, "eval")
    check(lambda mx: eval(code, {"mx": mx, "np": np}), message=message)


FILLED = """
    mx.zeros(3)
    mx.zeros((2,))
    mx.zeros([2, 1])
    mx.zeros(())
    mx.zeros((2,), mx.int8)
    mx.zeros((2,), dtype=None)
    mx.zeros((-1,))
    mx.zeros(-1)
    mx.zeros((2, -1))
    mx.zeros(None)
    mx.zeros(shape=2)
    mx.zeros(2, stream=mx.cpu)
    mx.zeros(np.array([2, 1]))
    mx.zeros(mx.array([2, 1]))
    mx.zeros(2, np.float32)
    mx.zeros(2, "int32")
    mx.zeros((2**31, 0))
    mx.zeros(True)
    mx.ones(3)
    mx.ones((2,), mx.bool_)
    mx.ones((1,), mx.complex64)
    mx.ones((2, 1), mx.bfloat16)
    mx.ones((-1,))
    mx.empty((2, 1), mx.int8)
    mx.empty_like(mx.arange(3))
    mx.full(2, 3)
    mx.full(2, 3.5)
    mx.full(2, True)
    mx.full(2, 1j)
    mx.full(2, 2.5, mx.complex64)
    mx.full(2, np.float64(2.5), mx.complex64)
    mx.full(2, np.float32(2.5), mx.complex64)
    mx.full(2, 2, mx.complex64)
    mx.full(2, 3, mx.float16)
    mx.full(2, 3.7, mx.int32)
    mx.full(2, 300, mx.uint8)
    mx.full(2, -1, mx.uint8)
    mx.full(2, 2**31)
    mx.full(2, 2**40, mx.int32)
    mx.full(2, 2**40, mx.float32)
    mx.full((2, 2), mx.array([1, 2]))
    mx.full((2, 2), mx.array([1, 2]), mx.float32)
    mx.full((2, 2), mx.array([1, 2, 3]))
    mx.full((2, 2), [1, 2])
    mx.full((2, 2), np.array([1, 2]))
    mx.full((2, 2), np.array([1, 2]), mx.float32)
    mx.full((2, 2), np.array([1.5, 2]), mx.float16)
    mx.full((2, 2), np.array([1.5, 2]), mx.int32)
    mx.full((2, 2), np.float64(2))
    mx.full((2, 2), np.float32(1.5), mx.int32)
    mx.full((2, 2), np.int64(1))
    mx.full((), mx.array([1]))
    mx.full((2,), mx.array([[1, 2]]))
    mx.full((-1,), 1)
    mx.full((0,), 1)
    mx.full(shape=2, vals=1, dtype=mx.int8)
    mx.full(2, mx.array(2.7), mx.int32)
    mx.full(2, float("nan"), mx.int32)
    mx.full(2, float("inf"), mx.float16)
    1 / mx.full(2, -0.0)
    mx.full(2, 2, mx.bool_)
    mx.full(2, 0.5, mx.bool_)
    mx.full(2, "a")
    mx.zeros_like(mx.arange(3))
    mx.zeros_like(mx.arange(3), mx.float16)
    mx.zeros_like(mx.arange(3), dtype=mx.complex64)
    mx.zeros_like(3)
    mx.zeros_like([1])
    mx.zeros_like(np.zeros(2))
    mx.zeros_like(a=mx.zeros(2))
    mx.ones_like(mx.arange(3))
    mx.ones_like(mx.array(1.0), mx.float16)
    mx.ones_like(3)
    mx.full_like(mx.arange(3), 2)
    mx.full_like(mx.arange(3), 2.7)
    mx.full_like(mx.arange(3), 2.7, mx.float32)
    mx.full_like(mx.zeros(3), 2)
    mx.full_like(mx.zeros(3), mx.array(2))
    mx.full_like(mx.arange(3), mx.array(2.5))
    mx.full_like(mx.arange(3), mx.array([1, 2]))
    mx.full_like(mx.arange(3), mx.array([1, 2, 3]), dtype=mx.int8)
    mx.full_like(3, 2)
    mx.full_like(mx.zeros(3), vals=2, dtype=None)
    mx.full_like(mx.array([1], mx.uint8), 300)
    mx.full_like(mx.arange(3), True)
    mx.full_like(mx.array([True]), 3)
    mx.vmap(lambda x: x + mx.zeros_like(x))(mx.ones((2, 3)))
    mx.grad(lambda v: mx.full((2, 3), v).sum())(mx.array(1.0))
    mx.grad(lambda x: (mx.full_like(x, 2.0) * x).sum())(mx.ones(3))
"""

MATRICES = """
    mx.eye(3)
    mx.eye(2, 3)
    mx.eye(2, 3, 1)
    mx.eye(2, 3, -1, mx.int32)
    mx.eye(2, 3, 5)
    mx.eye(2, 3, -5)
    mx.eye(0)
    mx.eye(2, 0)
    mx.eye(-1)
    mx.eye(2, -1)
    mx.eye(3, dtype=mx.bool_)
    mx.eye(3, dtype=None)
    mx.eye(3, k=1, dtype=mx.complex64)
    mx.eye(2.0)
    mx.identity(2)
    mx.identity(2, mx.int8)
    mx.identity(2, dtype=None)
    mx.identity(-1)
    mx.identity(2.5)
    mx.tri(3)
    mx.tri(2, 3)
    mx.tri(2, 3, 1)
    mx.tri(2, 3, -1, mx.int32)
    mx.tri(3, k=1, dtype=mx.bool_)
    mx.tri(n=2, m=None)
    mx.tri(0)
    mx.tri(-1)
    mx.tri(2, -1)
    mx.tri(2.0)
"""

ARANGE = """
    mx.arange(3)
    mx.arange(3.0)
    mx.arange(1, 4)
    mx.arange(1, 4, 2)
    mx.arange(1, 4, 2, mx.float32)
    mx.arange(1.0, 4)
    mx.arange(1, 4, 0.5)
    mx.arange(1, 4, step=0.5)
    mx.arange(4, 1, -1)
    mx.arange(4, 1)
    mx.arange(0)
    mx.arange(-3)
    mx.arange(1, 2, 0)
    mx.arange(1.0, 2, 0.0)
    mx.arange(2, 2, 0)
    mx.arange(0, float("inf"))
    mx.arange(0, float("nan"))
    mx.arange(float("nan"), 1)
    mx.arange(0, 1, float("nan"))
    mx.arange(0, 1, float("inf"))
    mx.arange(0, -1, float("-inf"))
    mx.arange(float("inf"))
    mx.arange(0, 2**33, 2**32)
    mx.arange(2**31 - 1, 2**31 + 1)
    mx.arange(2**31)
    mx.arange(-(2**40), -(2**40) + 2)
    mx.arange(0, 2**31, 2**30)
    mx.arange(0, 2**31 - 1, 2**30)
    mx.arange(2**62, 2**63 - 1, 2**61)
    mx.arange(2**63)
    mx.arange(0, 10**20, 10**19)
    mx.arange(0, 10, 3, mx.uint8)
    mx.arange(0, 1000, 300, mx.uint8)
    mx.arange(0, 1000, 300, dtype=mx.int8)
    mx.arange(0, 4, dtype=mx.bool_)
    mx.arange(0, 4, dtype=mx.float16)
    mx.arange(0, 4, dtype=mx.bfloat16)
    mx.arange(0, 4, dtype=mx.complex64)
    mx.arange(4, dtype=mx.int64)
    mx.arange(0, 5, dtype=mx.uint64)
    mx.arange(4, mx.float32)
    mx.arange(0, 4, mx.float32)
    mx.arange(4, None, mx.float32)
    mx.arange(4, step=2)
    mx.arange(4, 2)
    mx.arange(stop=4)
    mx.arange(stop=4, step=2)
    mx.arange(start=1, stop=4, step=1)
    mx.arange(start=1)
    mx.arange(start=1, step=2)
    mx.arange(start=3, dtype=mx.int32)
    mx.arange(start=3, stop=None)
    mx.arange(start=3, stop=None, step=2)
    mx.arange(5, start=1)
    mx.arange(stop=None)
    mx.arange(1, stop=4, step=2)
    mx.arange(float("inf"), float("inf"))
    mx.arange(0, 1, 1e-12)
    mx.arange(0.0, 3e9)
    mx.arange(0, 5, 0.0)
    mx.arange(0, -5, 0)
    mx.linspace(0, 1, 2**31)
    mx.arange(0, None, 1)
    mx.arange(3, None)
    mx.arange(3, None, 2)
    mx.arange(3, 6, None)
    mx.arange(None, 6)
    mx.arange()
    mx.arange(0.5, 3.5)
    mx.arange(0.5, 3.5, 1, mx.int32)
    mx.arange(0, 3, 0.5, mx.int32)
    mx.arange(0.7, 5, 1, mx.int32)
    mx.arange(-0.5, 5, 1, mx.int32)
    mx.arange(0.5, 5, 1.7, mx.int32)
    mx.arange(5, 0, -1.7, mx.int32)
    mx.arange(-3, 3, 1, mx.uint8)
    mx.arange(5, 1, -1, mx.uint8)
    mx.arange(0.0, 1.0, 0.1)
    mx.arange(1, 0, -0.3)
    mx.arange(0, -3, -1)
    mx.arange(True)
    mx.arange(True, 3)
    mx.arange(0, 3, True)
    mx.arange(np.int64(3))
    mx.arange(np.float64(3))
    mx.arange(mx.array(3))
    mx.arange("3")
    mx.arange(-5, 5, 2.5, mx.float16)
    mx.arange(1e10, 1e10 + 3)
    mx.arange(0.1, 0.5, 0.1, mx.bfloat16)
    mx.arange(0.1, 2.5, 0.3, mx.float16)
    mx.arange(0, 0.5, 0.1, mx.float64)
    mx.arange(1e-8, 5e-8, 1e-8)
    mx.arange(1, 4, 1, stream=mx.cpu)
    mx.arange(1, 4, 1, mx.int32, mx.cpu)
"""

LINSPACE = """
    mx.linspace(0, 1)
    mx.linspace(0, 1, 5)
    mx.linspace(0, 1, 5, False)
    mx.linspace(0, 10, 5, dtype=mx.int32)
    mx.linspace(0, 10, 5, endpoint=False, dtype=mx.int32)
    mx.linspace(-5, 300, 7, dtype=mx.int8)
    mx.linspace(0, -3e9, 7, dtype=mx.int16)
    mx.linspace(0, -3e9, 7, dtype=mx.uint16)
    mx.linspace(0, 1e30, 5, dtype=mx.int32)
    mx.linspace(0, float('nan'), 5, dtype=mx.int64)
    mx.linspace(0, 1, 1)
    mx.linspace(0, 1, 1, False)
    mx.linspace(0, 1, 0)
    mx.linspace(0, 1, -1)
    mx.linspace(0, 1, num=None)
    mx.linspace(1, 0, 3, dtype=None)
    mx.linspace(0, 1, 3, True, mx.float16)
    mx.linspace(0, 1, 3, True, mx.float32, mx.cpu)
    mx.linspace(-3, 3, 4, dtype=mx.uint8)
    mx.linspace(0.1, 0.9, 7, dtype=mx.bfloat16)
    mx.linspace(0.1, 0.9, 7, dtype=mx.float64)
    mx.linspace(0, 1, 2.5)
    mx.linspace(mx.array(0.0), 1, 3)
    mx.linspace(0, 1j, 3)
    mx.linspace(0, 1, 3, dtype=mx.complex64)
    mx.linspace(True, False, 3)
    mx.linspace(start=0, stop=1, num=3, endpoint=True, dtype=mx.float32, stream=mx.cpu)
    mx.linspace(0, 2**60, 4, dtype=mx.int64)
    mx.linspace(-1, 1, 4, dtype=mx.bool_)
    mx.linspace(0.3, 7.7, 9)
"""

GRIDS = """
    mx.meshgrid(mx.arange(2), mx.arange(3))
    mx.meshgrid(mx.arange(2), mx.arange(3), indexing="ij")
    mx.meshgrid(mx.arange(2), mx.arange(3), sparse=True)
    mx.meshgrid(mx.arange(2), mx.arange(3), sparse=True, indexing="ij")
    mx.meshgrid(mx.arange(2))
    mx.meshgrid()
    mx.meshgrid(mx.arange(2), mx.array(1))
    mx.meshgrid(mx.arange(4).reshape(2, 2), mx.zeros(2))
    mx.meshgrid(mx.arange(2), mx.arange(3), indexing="foo")
    mx.meshgrid(mx.arange(2), mx.arange(1), mx.arange(3))
    mx.meshgrid(mx.arange(2), mx.arange(3), sparse=None)
    mx.meshgrid(mx.arange(2), mx.arange(3), indexing=None)
    mx.hanning(5)
    mx.hanning(0)
    mx.hanning(1)
    mx.hanning(-1)
    mx.hanning(2)
    mx.hanning(5.0)
    mx.hamming(6)
    mx.hamming(1)
    mx.blackman(6)
    mx.blackman(0)
    mx.bartlett(6)
    mx.bartlett(5)
    mx.bartlett(2)
    mx.bartlett(M=3)
"""

BAD_CASTS = """
    mx.zeros(2.0)
    mx.zeros((2.0,))
    mx.zeros("a")
    mx.zeros(np.int32(2))
    mx.zeros(mx.array(2))
    mx.full(2, 2**63)
    mx.full(2, 2**64, mx.uint64)
    mx.meshgrid(1, 2)
    mx.meshgrid([mx.arange(2)])
"""


@pytest.mark.parametrize("line", lines(FILLED))
def test_filled(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(MATRICES))
def test_matrices(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(ARANGE))
def test_arange(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(LINSPACE))
def test_linspace(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(GRIDS))
def test_grids_and_windows(line: str) -> None:
    evaluate(line)


@pytest.mark.parametrize("line", lines(BAD_CASTS))
def test_bad_casts(line: str) -> None:
    evaluate(line, message=False)  # mxcompat's messages also say the given argument


def compiles(calls: Callable[[int], mx.array]) -> int:
    """Return the number of programs that six calls with different numbers compile."""
    before = debug.compiles()
    for k in range(6):
        mx.eval(calls(k))
    return debug.compiles() - before


@pytest.mark.usefixtures("xla_only")
def test_numbers_that_vary_do_not_recompile() -> None:
    assert compiles(lambda k: mx.arange(k, k + 13)) <= 2
    assert compiles(lambda k: mx.full((2, 13), k + 0.5)) <= 2
    assert compiles(lambda k: mx.linspace(k, k + 1.5, 13)) <= 2
    x = mx.arange(13)
    mx.eval(x)
    assert compiles(lambda k: mx.roll(x, k)) <= 2
    for k in (3, -4, 20):
        assert mx.roll(x, k).tolist() == np.roll(np.arange(13), k).tolist()


def test_filled_like_follows_its_argument_in_shapeless_programs() -> None:
    function = mx.compile(lambda x: (x + mx.ones_like(x)) * mx.full_like(x, 2.0), shapeless=True)
    for n in (2, 3):
        assert function(mx.zeros(n)).tolist() == [2.0] * n


@pytest.mark.parametrize("value", [3, "a", [1.0], 1.5])
def test_array_like_of_what_is_none(value):
    check(lambda mx: mx.add(mx.ArrayLike(value), 1))
    check(lambda mx: mx.array(mx.ArrayLike(value)), message=False)
