"""Results that NumPy writes into the memory of operands: equal bits, and no other array is overwritten."""

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import DTYPES, aval
from mxcompat._graph.ir.rules import HOST, OVERWRITE
from mxcompat._ops.define import SAMPLES, TABLE

NAMES = sorted(op.name for op in OVERWRITE if op.name in SAMPLES or op.name == "where")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "arctan2")
SHAPE = (37, 300)


def operands(count: int, dtype: np.dtype) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = []
    for _ in range(count):
        if dtype.kind == "c":
            x = rng.normal(size=SHAPE) + 1j * rng.normal(size=SHAPE)
        else:
            x = rng.normal(size=SHAPE) * 3 if dtype.kind in "fV" else rng.integers(0, 100, SHAPE)
        arrays.append(x.astype(dtype))
        if dtype.kind in "fcV":
            arrays[-1].flat[:5] = [np.inf, -np.inf, np.nan, 0, -0.0]
    return arrays


def ways(x: np.ndarray) -> list[np.ndarray]:
    """Return equal arrays with different memory layouts."""
    return [x, x.T.copy().T, np.broadcast_to(x[:1], x.shape), np.broadcast_to(x[:, :1], x.shape), x[::-1].copy()[::-1]]


def is_computed(name: str, dtype: mx.Dtype) -> bool:
    """Return True if the op accepts operands of this dtype, and does not cast them."""
    x = mx.zeros((2,), dtype)
    try:
        return name == "where" or getattr(mx, name)(*[x] * (1 + (name in BINARY))).dtype == dtype
    except ValueError:
        return False


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in NAMES for d in DTYPES if is_computed(n, d)], ids=str)
def test_the_same_bits(name: str, dtype: mx.Dtype) -> None:
    op = TABLE[name]
    numpy = dtype._numpy
    count = 1 + (name in {*BINARY, "where"})
    arrays = operands(count, numpy)
    condition = [operands(1, np.dtype(np.int32))[0] > 50] if name == "where" else []
    out = aval(SHAPE, dtype)
    for place in range(count):
        for other in ways(arrays[-1 - place]) if count == 2 else [None]:
            inputs = [x.copy() for x in arrays]
            if other is not None:
                inputs[1 - place] = other
            before = [x.copy() for x in inputs]
            with np.errstate(all="ignore"):
                expected = HOST[op](out, (), *condition, *inputs)
                if expected.dtype != numpy:
                    continue  # this op never reuses an operand's memory
                result = OVERWRITE[op](out, (), place + len(condition), *condition, *inputs)
            assert np.ascontiguousarray(result).tobytes() == np.ascontiguousarray(expected).tobytes()
            for k, (x, was) in enumerate(zip(inputs, before, strict=True)):
                assert k == place or x.tobytes() == was.tobytes()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat all arrays as large, and no computation as light."""
    monkeypatch.setattr(policy, "CACHED_BYTES", 0)
    monkeypatch.setattr(policy, "LIGHT_SECONDS", 0.0)


@pytest.mark.usefixtures("large")
def test_what_is_still_read_or_held_stays() -> None:
    x = mx.array(operands(1, np.dtype(np.float32))[0])
    mx.eval(x)
    data = np.array(x)
    with np.errstate(all="ignore"):
        a = mx.negative(x)
        b = mx.square(a)
        c = mx.add(b, a)
        d = mx.multiply(c, c)
        e = mx.subtract(1.0, mx.reshape(b, (-1,)))
        f = mx.where(mx.reshape(x > 0, (-1,)), e, mx.abs(e))
        mx.eval(d, f, b)
        assert np.array(x).tobytes() == data.tobytes()
        assert np.array(b).tobytes() == np.square(-data).tobytes()
        c = np.square(-data) + -data
        assert np.array(d).tobytes() == (c * c).tobytes()
        e = np.float32(1) - np.square(-data).reshape(-1)
        assert np.array(f).tobytes() == np.where(data.reshape(-1) > 0, e, np.abs(e)).tobytes()
        assert np.array(a).tobytes() == (-data).tobytes()


@pytest.mark.usefixtures("large")
def test_an_operand_s_memory_is_the_result_s(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for name in ("exp", "subtract"):
        rule = OVERWRITE[TABLE[name]]

        def note(out, params, place, *inputs, rule=rule, name=name):
            result = rule(out, params, place, *inputs)
            seen.append((name, place, result is inputs[place]))
            return result

        monkeypatch.setitem(OVERWRITE, TABLE[name], note)
    x = mx.array(operands(1, np.dtype(np.float32))[0])
    mx.eval(mx.subtract(1.0, mx.exp(mx.sin(x))), mx.subtract(mx.exp(x), x), mx.subtract(x, x))
    assert sorted(seen) == [("exp", 0, True), ("subtract", 0, True), ("subtract", 1, True)]


@pytest.mark.usefixtures("large")
def test_an_error_on_the_way_leaves_no_other_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_):
        raise ArithmeticError("on the way")

    x = mx.array(operands(1, np.dtype(np.float32))[0])
    y = mx.negative(x)
    z = mx.exp(y)
    with monkeypatch.context() as patch:
        patch.setitem(OVERWRITE, TABLE["abs"], fail)
        with pytest.raises(ArithmeticError, match="on the way"):
            mx.eval(mx.abs(mx.sin(mx.add(z, 1.0))))
    with np.errstate(all="ignore"):
        assert np.array(z).tobytes() == np.exp(-np.array(x)).tobytes()
        assert np.array(y).tobytes() == (-np.array(x)).tobytes()
