"""Arrays with non-contiguous elements: NumPy's view of them, for every way to copy."""

import itertools

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import DTYPES
from mxcompat._graph.run import layout
from mxcompat._native import native

SHAPES = [
    (64, 512), (70, 2048), (513, 67), (5, 4, 900), (4, 66, 131), (1, 130, 130), (130, 1, 130), (3, 4, 5, 300),
    (9001, 4),
]  # fmt: skip


def random(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    octets = np.random.default_rng(0).integers(0, 2 if dtype.kind == "b" else 256, (*shape, dtype.itemsize), np.uint8)
    return octets.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", [d._numpy for d in DTYPES], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_copy_has_the_same_bits(shape: tuple[int, ...], dtype: np.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "CACHED_BYTES", 0)
    whole = random(shape, dtype)
    for x in (whole, whole[::-1], whole[..., ::2], whole[1:, ..., 1:], np.broadcast_to(whole, (2, *shape))):
        for axes in itertools.permutations(range(x.ndim)):
            y = x.transpose(axes)
            copy = layout.contiguous(y)
            assert copy.flags.c_contiguous
            assert (copy.shape, copy.dtype) == (y.shape, y.dtype)
            assert copy.tobytes() == y.tobytes()
            assert layout.reshaped(y, (y.size,)).tobytes() == y.tobytes()


def test_what_lies_in_order_is_no_copy() -> None:
    x = random((200, 300), np.dtype(np.float32))
    assert layout.contiguous(x) is x
    assert np.shares_memory(layout.reshaped(x.T, (300, 1, 200)), x)
    assert not np.shares_memory(layout.reshaped(x.T, (60000,)), x)


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_tiles_are_taken_for_transposed_arrays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    copy = native.copy_transposed
    monkeypatch.setattr(layout, "native", type("Native", (), {"copy_transposed": lambda *a: taken.append(copy(*a))}))
    x = random((200, 300), np.dtype(np.float32))
    split = x.reshape(4, 50, 300)
    for y in (x.T, split.transpose(0, 2, 1), split.transpose(2, 0, 1), x[None].transpose(0, 2, 1)):
        layout.contiguous(y)
    assert taken == [True] * 4
    taken.clear()
    wide = random((3, 20000), x.dtype)
    for y in (x[:, :250], x[:, ::2].T, x[::2], wide.T, wide.reshape(20000, 3).T):
        layout.contiguous(y)
    assert taken == [False] * 5
    for y in (x[:50, :50].T, x[:3].T, np.zeros((200, 300), complex).T):
        layout.contiguous(y)
    assert len(taken) == 5


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_what_does_not_fit_is_refused() -> None:
    x, y = np.zeros((8, 6), np.uint32), np.zeros((6, 8), np.uint32)
    assert native.copy_transposed(x, y.T, 6)
    assert not native.copy_transposed(x, y.T, 7)
    assert not native.copy_transposed(x, x, 0)
    assert not native.copy_transposed(x[:0], y.T[:0], 0)
    for wrong in ((x, y, 0), (x.T, y, 0), (x, y.T[1:], 0), (x, y.T.astype(np.uint16), 0), (x[0], y, 0)):
        with pytest.raises(ValueError, match="do not fit"):
            native.copy_transposed(*wrong)
    for wrong in ((), (x,), (x, y.T), (x, y.T, None), (None, y.T, 0), (x, None, 0)):
        with pytest.raises(TypeError):
            native.copy_transposed(*wrong)
    x.flags.writeable = False
    with pytest.raises(ValueError):
        native.copy_transposed(x, y.T, 0)


@pytest.mark.parametrize("name", ["add", "subtract", "maximum", "less", "equal", "arctan2", "power"])
def test_operands_that_lie_otherwise(name: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, (400, 300)).astype(np.float32), rng.uniform(1, 2, (300, 400)).astype(np.float32)
    f = getattr(mx, name)
    with ext.debug.eager():
        x, y = mx.array(a), mx.array(b)
        expected = np.array(f(mx.array(np.ascontiguousarray(a.T)), y))
        assert np.array_equal(f(x.T, y), expected)
        assert np.array_equal(f(y.T, x).T, np.array(f(y, mx.array(np.ascontiguousarray(a.T)))))
        assert np.array_equal(f(x.T, y).reshape(-1), expected.reshape(-1))


@pytest.mark.parametrize("shape", [(300, 700), (5, 300, 200), (2, 400, 300), (70000, 4)], ids=str)
def test_two_that_lie_otherwise_are_combined(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=(*shape[:-2], shape[-1], shape[-2])).astype(np.float32).swapaxes(-1, -2)
    y = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    for function in (np.add, np.subtract, np.divide):
        for a, b in ((x, y), (y, x)):
            for in_place in (False, True):
                result = layout.combined(function, a, b, in_place)
                assert result.flags.c_contiguous
                assert result.tobytes() == function(np.array(a, order="C"), np.array(b, order="C")).tobytes()


@pytest.mark.skipif(native is None, reason="no compiler of C")
@pytest.mark.parametrize("kind", ["u2", "u4", "u8"])
def test_elements_at_odd_addresses_are_left_to_numpy(kind: str) -> None:
    """Assert that C refuses to copy unaligned elements, such as those of a mapped file."""
    size = np.dtype(kind).itemsize
    odd = np.frombuffer(bytearray(range(250)) * 300, kind, 8192, offset=1).reshape(64, 128)
    even, to = odd.copy(), np.zeros((128, 64), kind)
    assert native.copy_transposed(to, even.T, 4)
    assert np.array_equal(to, even.T)
    assert not native.copy_transposed(to, odd.T, 4)
    where = np.frombuffer(bytearray(8192 * size + 1), kind, offset=1).reshape(128, 64)
    assert not native.copy_transposed(where, even.T, 4)
    assert np.array_equal(layout.contiguous(odd.T), even.T)
