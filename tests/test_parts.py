"""Long computations in NumPy are divided among threads, with equal results."""

from __future__ import annotations

import threading
import time

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.run import background, blas, parts
from mxcompat._ops.elementwise import erf as erf_module
from mxcompat._ops.elementwise.erf import erf
from mxcompat._ops.products import contraction

RNG = np.random.default_rng(0)


def data(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.fixture(autouse=True)
def several_threads(monkeypatch):
    background.settle()
    parts._pool.cache_clear()
    monkeypatch.setattr(parts, "processors", lambda: 3)
    yield
    parts._pool.cache_clear()


def test_each_part_is_computed_once() -> None:
    for count in (0, 1, 2, 100):
        numbers: list[int] = []
        parts.in_parts(numbers.append, count)
        assert sorted(numbers) == list(range(count))


def test_several_threads_compute() -> None:
    both = threading.Barrier(2, timeout=30)
    parts.in_parts(lambda k: both.wait(), 2)


@pytest.mark.parametrize("bad", [0, 5, 9])
def test_an_error_reaches_the_caller(bad: int) -> None:
    def run(k: int) -> None:
        time.sleep(0.001)
        if k == bad:
            raise ValueError(k)

    with pytest.raises(ValueError, match=str(bad)):
        parts.in_parts(run, 10)


def test_a_compile_has_a_processor_of_its_own() -> None:
    finished = threading.Event()
    background.submit(lambda: finished.wait(30))
    assert parts.threads() == 2
    finished.set()
    background.settle()
    assert parts.threads() == 3


PRODUCTS = {
    "rows": ((700, 65), (65, 130)),
    "columns": ((130, 65), (65, 700)),
    "few": ((3, 65), (65, 3)),
    "a batch": ((2, 9, 40, 65), (2, 9, 65, 40)),
    "a small batch": ((2, 2, 300, 65), (2, 2, 65, 40)),
    "transposed": ((65, 700), (130, 65)),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case: str) -> None:
    x, y = (data(*shape) for shape in PRODUCTS[case])
    if case == "transposed":
        x, y = x.T, y.T
    with blas.one_thread():
        result = contraction._in_parts(x, y)
        np.testing.assert_allclose(result, np.matmul(x, y), rtol=1e-5, atol=1e-5)
    expected = np.array(real.array(x) @ real.array(y))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_the_error_function() -> None:
    x = data(300_001)
    np.testing.assert_allclose(erf(x), np.array(real.erf(real.array(x))), rtol=1e-6, atol=1e-6)


def test_the_error_function_in_c_and_in_numpy(monkeypatch) -> None:
    """Assert that C and NumPy return the same bits."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3.95, -3.95, 3.9500003, 1e30], np.float32)
    x = np.concatenate([np.linspace(-5, 5, 100_003, dtype=np.float32), np.repeat(special, 2)])
    result = erf(x)
    assert erf(x[::-2][:, None]).tobytes() == result[::-2].tobytes()
    monkeypatch.setattr(erf_module, "native", None)
    assert erf(x).tobytes() == result.tobytes()


def test_the_gradients_of_transposed_weights_are_laid_out_like_the_weights() -> None:
    """Assert that an optimizer need not copy the gradients of linear layers."""
    x, w, g = data(4, 5, 7), data(3, 7), data(4, 5, 3)
    expected = contraction.pull_product(g, x, np.ascontiguousarray(w.T), (True, True))
    assert expected[1].flags.c_contiguous
    result = contraction.pull_product(g, x, w.T, (True, True))
    assert result[1].T.flags.c_contiguous
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_gradient_divides_its_products(monkeypatch) -> None:
    monkeypatch.setattr(contraction, "DIVIDED_PRODUCTS", 1)
    divided: list[int] = []
    in_parts = contraction.in_parts
    monkeypatch.setattr(contraction, "in_parts", lambda run, n: (divided.append(n), in_parts(run, n)))
    x, w = data(2, 90, 70), data(110, 70)
    sides = []
    for side in (real, mx):
        grads = side.grad(lambda x, w: side.sin(x @ w.T).sum(), (0, 1))  # noqa: B023
        sides.append([np.array(g) for g in grads(side.array(x), side.array(w))])
    for expected, got in zip(*sides, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    assert len(divided) == 3
