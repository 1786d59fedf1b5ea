"""`mxcompat.testing.compare` detects every kind of difference, without false alarms."""

import numpy as np
import pytest

import mxcompat.core as ours
from mxcompat.testing import Comparison, Difference, compare, differences
from tests.oracle import real

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def on(mx, here, there):
    """Return a result that is `here` on mxcompat and `there` on real MLX."""
    return here if mx is ours else there


def what(comparison):
    return [(d.where, d.what) for d in comparison.differences]


def test_no_difference():
    result = compare(lambda mx, x, k: {"a": [x.sum(), x + k], "b": (x.dtype, None, "s", 1.5)}, X, 2)
    assert result
    assert str(result) == "the same"
    assert list(result.ours) == ["a", "b"]
    assert isinstance(result.ours["a"][0], ours.array)
    assert isinstance(result.real["a"][0], real.array)


def test_trees_of_arguments():
    assert compare(lambda mx, t: t["a"][0] * t["b"], {"a": [X], "b": X})


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (lambda mx: mx.array([1.0]), lambda mx: mx.array([1]), [("", "dtype")]),
        (lambda mx: mx.array([1.0]), lambda mx: mx.array([[1.0]]), [("", "shape")]),
        (lambda mx: mx.array([1.0, 2.0]), lambda mx: mx.array([1.0, 3.0]), [("[1]", "value")]),
        (lambda mx: mx.array(True), lambda mx: mx.array(False), [("", "value")]),
        (lambda mx: [1, mx.array(1)], lambda mx: [2, mx.array(1)], [("[0]", "value")]),
        (lambda mx: {"a": 1, "b": 2}, lambda mx: {"b": 2, "a": 1}, [("", "keys")]),
        (lambda mx: {"a": {"b": 1.0}}, lambda mx: {"a": {"b": 2.0}}, [("['a']['b']", "value")]),
        (lambda mx: (1, 2), lambda mx: (1,), [("", "length")]),
        (lambda mx: (1, 2), lambda mx: [1, 2], [("", "type")]),
        (lambda mx: 1.0, lambda mx: mx.array(1.0), [("", "type")]),
        (lambda mx: mx.float32, lambda mx: mx.int32, [("", "value")]),
        (lambda mx: mx.array(float("nan")), lambda mx: mx.array(1.0), [("", "value")]),
        (lambda mx: mx.array(float("nan")), lambda mx: mx.array(float("nan")), []),
        (lambda mx: mx.array(1.0), lambda mx: mx.array(1.000001), []),
    ],
)
def test_differences(here, there, expected):
    assert what(compare(lambda mx: on(mx, here, there)(mx))) == expected


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        (ValueError("a"), ValueError("a"), []),
        (ValueError("a"), ValueError("b"), [("", "message")]),
        (TypeError("a"), TypeError("b"), []),
        (AttributeError("a"), AttributeError("b"), []),
        (ValueError("a"), IndexError("a"), [("", "exception")]),
        (None, IndexError("a"), [("", "exception")]),
    ],
)
def test_exceptions(here, there, expected):
    def fn(mx):
        error = on(mx, here, there)
        return error and fail(error)

    assert what(compare(fn)) == expected


def test_reports_are_readable():
    result = compare(lambda mx: on(mx, mx.array([1.0, 2.0]), mx.array([1.0, 4.0])))
    assert not result
    assert str(result) == "result[1]: value: real MLX 4.0 (1 of 2 elements differ by more than 2e-05), mxcompat 2.0"
    assert str(compare(lambda mx: fail(ValueError("no")))) == "the same: both raise ValueError('no')"
    assert str(Comparison(1, 2, (Difference("", "value", 1, 2),))) == "result: value: real MLX 1, mxcompat 2"


def test_tolerance_and_seed():
    assert compare(lambda mx: on(mx, mx.array(1.0), mx.array(1.1)), tolerance=0.2)
    assert not compare(lambda mx: on(mx, mx.array(1.0), mx.array(1.000001)), tolerance=1e-9)
    assert compare(lambda mx: mx.random.uniform(shape=(4,)))
    ours.random.seed(1)
    real.random.seed(2)
    assert what(compare(lambda mx: mx.random.uniform(shape=(4,)), seed=None)) == [("[0]", "value")]


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8, np.uint64, np.complex64, np.bool_])
def test_arguments_keep_their_dtype(dtype):
    result = compare(lambda mx, x: x, np.ones((2,), dtype))
    assert result
    assert str(result.ours.dtype) == f"mlx.core.{np.dtype(dtype).name}"


def test_the_drop_in_excludes_real_mlx(monkeypatch):
    from mxcompat import _dropin

    monkeypatch.setattr(_dropin, "installed", lambda: True)
    with pytest.raises(RuntimeError, match="mlx` is mxcompat"):
        compare(lambda mx: 1)


def test_arrays_of_numpy_are_compared_like_others():
    def call(mx, x):
        return np.array([1.0, 2.0, 3.0 if mx is ours else 3.5])

    ((value,),) = [compare(call, 0).differences]
    assert (value.what, value.where) == ("value", "[2]")
    assert compare(lambda mx, x: np.arange(3, dtype=np.int8), 0)
    assert [d.what for d in compare(lambda mx, x: np.arange(3 if mx is ours else 4), 0).differences] == ["shape"]
    dtypes = compare(lambda mx, x: np.zeros(2, "f4" if mx is ours else "f8"), 0)
    assert [d.what for d in dtypes.differences] == ["dtype"]


def test_integers_are_compared_exactly():
    assert what(compare(lambda mx: mx.array(on(mx, 2**60, 2**60 + 1), dtype=mx.int64))) == [("", "value")]
    assert what(compare(lambda mx: mx.array(on(mx, 127, -1), dtype=mx.int8))) == [("", "value")]


def test_messages_count_as_asked():
    assert not differences(TypeError("a"), TypeError("b"))
    assert [d.what for d in differences(TypeError("a"), TypeError("b"), messages=True)] == ["message"]
    assert not differences(ValueError("a"), ValueError("b"), messages=False)
