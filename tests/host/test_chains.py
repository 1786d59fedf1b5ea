"""Chains of elementwise ops that C computes together: the same bits as NumPy's, and no value is lost."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mxcompat.core as mx
import mxcompat.optimizers as optimizers
from mxcompat._graph import policy
from mxcompat._graph.ir import buffers
from mxcompat._graph.ir.rules import CHAINED, HOST
from mxcompat._graph.run import chains
from mxcompat._native import native
from mxcompat._ops.define import TABLE

pytestmark = pytest.mark.skipif(native is None, reason="chains need C")

BINARY = ("add", "subtract", "multiply", "divide")
SHAPE = (170, 100)  # large enough to be written over
RNG = np.random.default_rng(0)
SPECIAL = [np.inf, -np.inf, np.nan, 0, -0.0, 1e-42, -3e38, 3e38]


@pytest.fixture(autouse=True)
def lengths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Treat arrays of 1000 elements as large. Return the lengths of the chains that run."""
    monkeypatch.setattr(policy, "LARGE_ELEMENTS", 1000)
    monkeypatch.setattr(policy, "LIGHT_SECONDS", 0.0)
    monkeypatch.setattr(policy, "CALL_BYTES", 0)
    monkeypatch.setattr(buffers, "smallest", 1000)
    run, seen = chains.run, []

    def note(chain, *args):
        seen.append(len(chain.slots))
        run(chain, *args)

    monkeypatch.setattr(chains, "run", note)
    return seen


def data(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    x = RNG.normal(size=shape).astype(np.float32)
    if x.size > len(SPECIAL):
        x.flat[RNG.integers(0, x.size, 40)] = RNG.choice(SPECIAL, 40)
    return x


def bits(values) -> list[tuple]:
    """Return the shapes, dtypes and bits of arrays. The sign of the sum of two NaNs is left to the compiler."""
    return [(x.shape, x.dtype, np.where(np.isnan(x), np.float32(np.nan), x).tobytes()) for x in values]


def both(monkeypatch: pytest.MonkeyPatch, function, *inputs: np.ndarray) -> None:
    """Assert that the results of a function have the same bits with chains and without."""
    results = []
    for with_chains in (True, False):
        with monkeypatch.context() as patch:
            if not with_chains:
                patch.setattr(chains, "chains", lambda *args: {})
            arrays = [mx.array(x) for x in inputs]
            mx.eval(arrays)
            values = function(*arrays)
            mx.eval(values)
            results.append(bits(values))
            assert [np.asarray(a).tobytes() for a in arrays] == [np.ascontiguousarray(x).tobytes() for x in inputs]
    assert results[0] == results[1]


@pytest.mark.parametrize("name", sorted(op.name for op in CHAINED))
def test_the_bits_of_each_op(name: str, monkeypatch, lengths) -> None:
    count = 2 if name in BINARY else 1
    op = getattr(mx, name)
    shape = (71, 113)  # neither a multiple of the block nor of a vector
    both(monkeypatch, lambda x, y: [op(*[x, y][:count]) * 1.5, op(*[y, x][:count])], data(shape), data(shape))
    assert lengths == [2]


@pytest.mark.parametrize("seed", range(40))
def test_random_chains(seed: int, monkeypatch, lengths) -> None:
    def function(*arrays):
        rng = random.Random(seed)
        values = [*arrays, mx.array(0.5), mx.array([-2.0]), 3.0]
        for _ in range(rng.randrange(2, 60)):
            op = rng.choice(sorted(CHAINED, key=str))
            operands = [rng.choice(values) for _ in range(2 if str(op) in BINARY else 1)]
            if all(isinstance(x, float) for x in operands):
                continue
            values.append(getattr(mx, str(op))(*operands))
            if rng.random() < 0.1:
                values.append(mx.sum(values[-1]) if values[-1].size > 1 else values[-1] + 1)
        kept = [x for x in values[len(arrays) + 3 :] if rng.random() < 0.3]
        return [*kept, values[-1] * mx.array(1.0)]

    both(monkeypatch, function, data(), data(), data())


def test_orders_of_memory(monkeypatch, lengths) -> None:
    x, y = data((50, 40)), data((50, 40))
    both(monkeypatch, lambda a, b: [a * b + a], x, y)
    both(monkeypatch, lambda a, b: [a.T * b.T + a.T, (a.T * 2 + b.T).T], x, y)
    assert lengths == [2, 2, 2]
    lengths.clear()
    both(monkeypatch, lambda a, b: [a.T * b + a.T], data((40, 40)), data((40, 40)))
    assert not lengths
    both(monkeypatch, lambda a, b: [mx.broadcast_to(a[0], (50, 40)) * b + b], x, y)
    both(monkeypatch, lambda a, b: [a[::2] * b[::2] + a[::-2]], data((80, 40)), data((80, 40)))


def test_numbers_between_the_ops_of_a_chain(monkeypatch, lengths) -> None:
    def function(x, y):
        rate = mx.array(0.25)
        total = x * rate
        for k in range(4):
            rate = rate * 0.5 + k
            total = total - y * rate
        return [total, rate]

    both(monkeypatch, function, data(), data())
    assert lengths == [9]


def test_what_is_read_later_is_kept(monkeypatch, lengths) -> None:
    def function(x, y):
        a = x * 2
        b = a + y
        c = b / a
        s = mx.sum(b)
        d = c * s
        return [a, d, mx.square(d - c)]

    both(monkeypatch, function, data(), data())
    assert sum(lengths) == 6


def test_long_chains_are_divided(monkeypatch, lengths) -> None:
    def many_arrays(*arrays):
        total = arrays[0]
        for x in arrays:
            total = total * 0.5 + x
        return [total]

    def many_values(x, y):
        values = [x * k + y for k in range(1, 30)]
        return [sum(reversed(values))]

    both(monkeypatch, many_arrays, *[data() for _ in range(70)])
    assert len(lengths) > 2
    lengths.clear()
    both(monkeypatch, many_values, data(), data())
    assert len(lengths) > 1


def test_an_operand_that_nothing_else_reads_is_overwritten(lengths) -> None:
    x = mx.array(data())
    mx.eval(x)
    address = np.asarray(x).ctypes.data
    x = x * 2 + 1
    mx.eval(x)
    assert lengths == [2]
    assert np.asarray(x).ctypes.data == address


def test_an_operand_that_is_read_elsewhere_is_not(lengths) -> None:
    original = data()
    x = mx.array(original)
    mx.eval(x)
    view = np.asarray(x)
    y = x * 2 + 1
    del x
    mx.eval(y)
    assert lengths == [2]
    assert view.tobytes() == original.tobytes()


def test_only_results_take_memory(lengths) -> None:
    x = mx.array(data())
    mx.eval(x)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    y = (x * 2 + 1) * x - x / 3
    mx.eval(y)
    assert lengths == [5]
    assert mx.get_peak_memory() - before == x.nbytes


def fail_in_cosine(monkeypatch: pytest.MonkeyPatch, *values: mx.array) -> None:
    """Assert that the evaluation of these values fails if cosines do."""

    def fail(*args):
        raise ArithmeticError("on the way")

    with monkeypatch.context() as patch:
        patch.setitem(HOST, TABLE["cos"], fail)
        with pytest.raises(ArithmeticError, match="on the way"):
            mx.eval(*values)


def test_a_failure_after_a_chain_loses_no_value(monkeypatch, lengths) -> None:
    original = RNG.normal(size=SHAPE).astype(np.float32)
    x = mx.array(original)
    mx.eval(x)
    y = x * 2 + 1
    del x

    fail_in_cosine(monkeypatch, y + 1, mx.cos(y))
    assert np.asarray(y).tobytes() == (original * np.float32(2) + np.float32(1)).tobytes()


def test_a_failure_between_the_ops_of_a_chain_loses_no_value(monkeypatch, lengths) -> None:
    original = RNG.normal(size=SHAPE).astype(np.float32)
    x = mx.array(original)
    rate = mx.array(0.5)
    mx.eval(x, rate)
    y = x * 2
    z = y + mx.cos(rate)
    del x

    fail_in_cosine(monkeypatch, z)
    assert np.asarray(z).tobytes() == (original * np.float32(2) + np.cos(np.float32(0.5))).tobytes()


@pytest.mark.parametrize("name", ["SGD", "RMSprop", "Adagrad", "AdaDelta", "Adam", "AdamW", "Lion"])
def test_optimizers(name: str, monkeypatch, lengths) -> None:
    def train(w, g):
        optimizer = getattr(optimizers, name)(0.01)
        state = {"w": w}
        for _ in range(3):
            state = optimizer.apply_gradients({"w": g}, state)
            mx.eval(state, optimizer.state)
        return [state["w"]]

    both(monkeypatch, train, RNG.normal(size=SHAPE).astype(np.float32), RNG.normal(size=SHAPE).astype(np.float32))
    assert lengths
