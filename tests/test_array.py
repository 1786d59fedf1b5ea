"""The array handle: its construction, conversions, methods and operators."""

from __future__ import annotations

import collections
import collections.abc
import copy
import ctypes
import datetime
import fractions
import gc
import io
import math
import pickle
import re
import subprocess
import sys
import timeit
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from mxcompat._array import convert, operands
from mxcompat._graph.ir import aval as avals
from mxcompat._native import native
from tests.oracle import check, ours, real, run

DTYPES = ["bool_", *(d._label for d in avals.DTYPES[1:])]


def case(text: str):
    """Return a test case compiled from its source text, which is also its id."""
    return pytest.param(eval(f"lambda mx: {text}", {"np": np, "ml_dtypes": ml_dtypes, "math": math}), id=text)


CONSTRUCTED = """
mx.array(1)
mx.array(True)
mx.array(1.5)
mx.array(1 + 2j)
mx.array([2**31 - 1, -(2**31)])
mx.array(2**31)
mx.array(-(2**31) - 1)
mx.array([2**31, 1])
mx.array([2**31, 1.5])
mx.array(2**63)
mx.array([2**63])
mx.array([2**70], mx.float32)
mx.array(300, mx.uint8)
mx.array([300, -1], mx.uint8)
mx.array([-1], mx.uint32)
mx.array([2**31], mx.int8)
mx.array([2**40], mx.bool_)
mx.array(2**40, mx.int32)
mx.array([2**40, 1.0], mx.int32)
mx.array([1.7, -1.7], mx.int32)
mx.array([2**40 + 1.5], mx.int64)
mx.array(float("nan"), mx.int32)
mx.array([1e30, -1e30], mx.int32)
mx.array([-1.5, 300.5], mx.uint8)
mx.array([1 + 2j], mx.float32)
mx.array([0j, 1j, 1], mx.bool_)
mx.array(1j, mx.bool_)
mx.array([0.5, 0.0], mx.bool_)
mx.array([1 + 2**-11 + 2**-40], mx.float16)
mx.array(1 + 2**-11 + 2**-40, mx.float16)
mx.array([0.1, 1], mx.float64)
mx.array([0.1, 1j], mx.float64)
mx.array([2**53 + 1], mx.float64)
mx.array([1e5, 1e300], mx.float16)
mx.array([1, 2], dtype=mx.bfloat16)
mx.array([])
mx.array(())
mx.array([], mx.int32)
mx.array([[], []])
mx.array([(), ()])
mx.array([[[]]])
mx.array([True, False])
mx.array([True, 2])
mx.array([True, 2.5])
mx.array([1, 2j])
mx.array(((1, 2), [3, 4]))
mx.array([1, (2,)])
mx.array([(1,), 2])
mx.array([((1,), [2]), [(3,), [4]]], mx.float16)
mx.array([[1], (2,), 3])
mx.array([[[1], (2,)], [[3], "a"]])
mx.array([1, [2]])
mx.array([[1], 2])
mx.array([[1, 2], [3]])
mx.array([[], [1]])
mx.array([[1], []])
mx.array([[[1]], [2]])
mx.array([[1, [2]], [3, 4]])
mx.array([1, None])
mx.array([[1, 2], "ab"])
mx.array(None)
mx.array()
mx.array("a")
mx.array({1: 2})
mx.array(range(3))
mx.array(iter([1, 2]))
mx.array([np.float64(3)])
mx.array([np.float32(3)])
mx.array([np.bool_(True)])
mx.array([np.array([1, 2])])
mx.array([1, 2], np.float32)
mx.array([1, 2], "float32")
mx.array([1, 2], float)
mx.array(val=[1, 2], dtype=mx.float32)
mx.array(mx.array([1, 2]))
mx.array(mx.array([1.5, 2]), mx.int32)
mx.array([mx.array(1), mx.array(2)])
mx.array([mx.array(1.5), 2])
mx.array([mx.array(1), 2.5])
mx.array([mx.array([1, 2]), [3, 4.5]])
mx.array([[3, 4], mx.array([1, 2])])
mx.array([[mx.array(1), 2], [3, mx.array(4.0)]])
mx.array([mx.array([1, 2], mx.int8), mx.array([3, 4], mx.uint8)])
mx.array([mx.array([1, 2]), mx.array([3, 4])], mx.float16)
mx.array([mx.array(1, mx.float16), 2.5])
mx.array([mx.array(1, mx.int8), 2])
mx.array([mx.array(1, mx.int8), True])
mx.array([mx.array(1, mx.int8), 2**31])
mx.array([mx.array(1, mx.float16), 2j])
mx.array([300, mx.array(1)], mx.uint8)
mx.array([mx.array(1), 2**40], mx.int32)
mx.array([mx.array([]), mx.array([])])
mx.array([mx.array([1, 2]), mx.array([3])])
mx.array([mx.array([1, 2]), 3])
mx.array([mx.array(1), [2]])
mx.array([[2], mx.array(1)])
mx.array([mx.array(1), None])
mx.array(np.float64(3))
mx.array(np.float16(3))
mx.array(np.int64(3))
mx.array(np.bool_(True))
mx.array(np.complex128(1 + 2j))
mx.array(np.array(3.5))
mx.array(np.ones((2, 3)).T)
mx.array(np.arange(8).reshape(2, 4)[:, ::2])
mx.array(np.arange(6)[::-1])
mx.array(np.ones((2, 0, 3)))
mx.array(np.ones(2), mx.float64)
mx.array(np.ones(2, np.complex128))
mx.array(np.ones(2, ml_dtypes.bfloat16))
mx.array(np.array([1.5, 300]), mx.uint8)
mx.array(np.array([np.nan, 3e9, -3e9]), mx.int32)
mx.array(np.array([1 + 2j, 0j]), mx.bool_)
mx.array(np.array([1 + 2j]), mx.float32)
mx.array(np.array([2**40, 300]), mx.int32)
mx.array(np.array([1 + 2**-11 + 2**-40]), mx.float16)
mx.array(np.ones(2, ml_dtypes.int4))
mx.array(np.array(["a"]))
mx.array(np.array([1, 2], dtype=object))
mx.array(np.arange(6, dtype=">i4"))
mx.array(np.ones(2, np.longdouble))
mx.array(np.ma.array([1, 2]))
mx.array(b"abc")
mx.array(memoryview(np.ones((2, 3))))
mx.asarray([1, 2], mx.float32)
mx.asarray([1, 2], copy=False)
mx.asarray([1, 2], copy=True)
mx.asarray(np.ones(2, np.float32), copy=False)
mx.asarray(np.ones(2, np.int32), mx.float32, copy=False)
mx.asarray(mx.array([1, 2]), copy=False)
mx.asarray(mx.array([1, 2]), copy=True)
mx.asarray(1, copy=False)
mx.asarray(1.5, mx.int32)
mx.asarray(None)
mx.asarray("a")
mx.asarray(np.arange(6)[::-1])
mx.array(mx.array([-1.5, 300.7, -70000.3]), mx.uint8)
mx.array(mx.array([-1.5, 300.7, -70000.3]), mx.uint64)
mx.array([mx.array(-1.5), 3], dtype=mx.uint16)
mx.array(mx.array([1j, 0j]), mx.bool_)
mx.from_dlpack(np.ones(2))
mx.from_dlpack(np.ones(2, np.float32), copy=False)
mx.from_dlpack(np.ones(2, np.float32), copy=True)
mx.from_dlpack(mx.array([1, 2]))
mx.from_dlpack([1, 2])
mx.from_dlpack(np.arange(3, dtype=">i4"))
mx.from_dlpack(np.array(["a"]))
mx.from_dlpack(np.array([object()]))
mx.from_dlpack(np.array([1], "M8[s]"))
"""


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_dtype_is_not_taken_for_one_of_numpy(dtype):
    """Assert that an MLX dtype has no `name`. Programs recognize NumPy's dtypes by `name`, and print others with
    `str`."""
    for mx in (ours, real):
        value = getattr(mx, dtype)
        assert (hasattr(value, "name"), getattr(value, "name", str(value))) == (False, f"mlx.core.{dtype.rstrip('_')}")


@pytest.mark.parametrize("fn", [case(line) for line in CONSTRUCTED.split("\n") if line])
def test_construction(fn) -> None:
    check(fn)


CONVERTED = """
mx.array([1]).item()
mx.array([[1.5]]).item()
mx.array([1.5], mx.bfloat16).item()
mx.array(1 + 2j).item()
mx.array([1, 2]).item()
mx.array([]).item()
mx.array([[1, 2], [3, 4]]).tolist()
mx.array([[], []]).tolist()
mx.array([0.1], mx.bfloat16).tolist()
mx.array([0.1], mx.float16).tolist()
mx.array([0.1], mx.float64).tolist()
mx.array([True]).tolist()
mx.array(1j).tolist()
(mx.array([2**63 - 1], mx.uint64) * 2 + 1).tolist()
len(mx.array([1, 2]))
len(mx.array(1))
list(mx.array([1, 2]))
list(mx.array([[1, 2], [3, 4]]))
list(mx.array([]))
list(mx.array(1))
next(iter(mx.array([1])))
[a.item() + b.item() for i in [iter(mx.arange(4))] for a, b in zip(i, i)]
[(next(i).item(), [a.item() for a in i], [a.item() for a in i]) for i in [iter(mx.arange(4))]]
[iter(i) is i for i in [iter(mx.arange(4))]]
bool(mx.array([1]))
bool(mx.array(0.0))
bool(mx.array([1, 2]))
bool(mx.array([]))
int(mx.array(1.7))
int(mx.array(1j))
int(mx.array(float("nan")))
int(mx.array(float("inf")))
int(mx.array([1, 2]))
float(mx.array(1))
float(mx.array(1j))
complex(mx.array(1))
complex(mx.array([1, 2]))
[1, 2, 3][mx.array(1)]
"abc"[mx.array(1) :]
range(mx.array(3))
mx.array(3.5).__index__()
mx.array([3]).__index__()
mx.array(True).__index__()
bytes(mx.array([[1, 2], [3, 4]], mx.int16).T)
bytes(mx.array([1.5], mx.bfloat16))
1 in mx.array([1, 2])
3 in mx.array([1, 2])
"a" in mx.array([1, 2])
1 in mx.array(1)
sorted(mx.array([3, 1]))
max(mx.array([3, 1]))
sum(mx.array([3, 1]))
round(mx.array(3.5))
isinstance(1, mx.array)
mx.array([1, 2], mx.int16).itemsize
mx.array([1, 2], mx.int16).nbytes
mx.array([[1, 2]]).shape
mx.array([[1, 2]]).ndim
mx.array([[1, 2]]).size
setattr(mx.array(1), "foo", 1)
mx.array([1]).__dlpack_device__()
np.array(mx.array([1, 2])).tolist()
np.array(mx.array([1, 2]), dtype=np.float32).tolist()
np.array(mx.array([1, 2], mx.bfloat16))
np.array([mx.array([1, 2])]).tolist()
np.from_dlpack(mx.array([True, False])).tolist()
np.exp(mx.array([0, 0])).tolist()
"""


@pytest.mark.parametrize("fn", [case(line) for line in CONVERTED.split("\n") if line])
def test_conversion(fn) -> None:
    check(fn)


def test_conversions_that_say_no_in_other_words() -> None:
    check(lambda mx: np.asarray(mx.array([1.5]), dtype="int8", copy=False), message=False)
    check(lambda mx: mx.array([1]).__dlpack__(dl_device=(2, 0)), message=False)


OPERATED = """
mx.array([1, 2]) + "a"
mx.array([1, 2]) + None
(1, 2) + mx.array([1, 2])
mx.array([1, 2]) - {}
mx.array([1, 2]) * (1,)
mx.array([1, 2]) / [1]
mx.array([1, 2]) // [1]
mx.array([1, 2]) % [1]
mx.array([1, 2]) ** [1]
mx.array([1, 2]) @ [1]
mx.array([1.0, 2]) @ 1
2 @ mx.array([1.0])
mx.array([1.0, 2]) @ mx.array([3.0, 4])
mx.array([1, 2]) & [1]
mx.array([1, 2]) | [1]
mx.array([1, 2]) ^ [1]
mx.array([1, 2]) << [1]
mx.array([1, 2]) >> [1]
mx.array([1, 2]) < [1]
mx.array([1, 2]) <= "a"
mx.array([1, 2]) > None
[1] >= mx.array([1, 2])
mx.array([1, 2]) == "a"
mx.array([1, 2]) != "a"
mx.array([1, 2]) == [1, 2]
mx.array([1, 2]) == None
mx.array([1, 2]) != None
mx.array([1, 2]) == 1
1 != mx.array([1, 2])
mx.array([1, 2], mx.int8) == 1.5
mx.array([1, 2], mx.uint8) == 300
mx.array([1, 2]) == mx.array([1, 2, 3])
1 < mx.array([1, 2])
mx.array([1, 2]) & 1.5
mx.array([1.5]) | 1
mx.array([1]) ^ 1j
mx.array([1]) << mx.array([1.5])
mx.array([1]) & np.array([1.5])
mx.array([True]) & 1
mx.array([True]) & True
mx.array([6, 5]) ^ 3
~mx.array([1, 2])
~mx.array([True])
~mx.array([1.5])
-mx.array([1, 2], mx.uint8)
-mx.array([True])
+mx.array([True])
abs(mx.array([-1, 2]))
divmod(mx.array([5]), 2)
pow(mx.array([1, 2]), 2, 3)
2 ** mx.array([1, 2])
2 // mx.array([1, 2])
2 % mx.array([3, 2])
2 - mx.array([3, 2])
2 / mx.array([3, 2])
mx.array([1, 2]).__div__(2)
mx.array([1, 2]).__rdiv__(2)
mx.array([1, 2]).__add__(other=3)
mx.array([1, 2]) * mx.array([1, 2, 3])
(np.array([1.5, 2]) + mx.array([1, 2], mx.int8)).tolist()
(np.array([1.5, 2]) < mx.array([1, 2], mx.int8)).tolist()
(np.float32(1.5) * mx.array([1, 2], mx.int8)).tolist()
type(np.ones(3) * mx.array(2.0)).__name__
"""


@pytest.mark.parametrize("fn", [case(line) for line in OPERATED.split("\n") if line])
def test_operators(fn) -> None:
    check(fn)


METHODS = """
x.T
x.mT
x[0].mT
x.real
x.imag
mx.array([1 + 2j]).real
mx.array([1 + 2j]).imag
x.astype(mx.int32)
x.astype(dtype=mx.int32, stream=mx.cpu)
x.astype(mx.int32, mx.cpu)
x.astype(np.int32)
x.reshape(3, 2)
x.reshape((3, 2))
x.reshape([6])
x.reshape(-1)
x.reshape(shape=(6,))
x.transpose()
x.transpose(1, 0)
x.transpose((1, 0))
x.transpose([-1, 0])
x.transpose(0)
x.transpose(())
x.std()
x.std(0, True, 1)
x.std(correction=1)
mx.var(x, correction=1)
mx.std(x, 1, ddof=2, correction=1)
mx.var(x, correction=None)
x.var(1, correction=1, ddof=0)
x.split(3, 1)
x.sum(0, True)
x.sum(axis=1, keepdims=True)
x.flatten()
x.squeeze()
x.abs()
x.view(mx.int32)
x.diagonal()
x.diag()
x.conj()
x.round(1)
x.moveaxis(0, 1)
x.swapaxes(0, 1)
x.argmax(1)
x.cumsum(1, reverse=True)
x.logsumexp()
x.maximum(2)
"""


@pytest.mark.parametrize("text", [line for line in METHODS.split("\n") if line])
def test_methods(text: str) -> None:
    def fn(mx):
        return eval(text, {"mx": mx, "np": np, "x": mx.array([[1.25, -2.0, 3.0], [4.0, 5.5, -6.0]])})

    check(fn)


INPLACE = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor",
           "ilshift", "irshift", "imatmul"]  # fmt: skip


@pytest.mark.parametrize("name", INPLACE)
def test_inplace(name: str) -> None:
    """Assert that an in-place operator keeps the handle, may change shape and dtype, and is visible through every
    alias."""

    def apply(mx, left, right):
        x = left(mx)
        alias, before = x, x + 0 if x.dtype != mx.bool_ else x
        out = getattr(x, f"__{name}__")(right(mx))
        assert out is x
        assert alias is x
        return [x, before]

    lefts = [
        lambda mx: mx.array([4, 2]), lambda mx: mx.array([4.0, 2.0]), lambda mx: mx.array([4, 2], mx.int8),
        lambda mx: mx.array([True, False]),
    ]  # fmt: skip
    rights = [
        lambda mx: 2, lambda mx: 1.5, lambda mx: mx.array([[1, 2], [3, 4]]), lambda mx: [1, 2], lambda mx: None,
        lambda mx: np.array([1.5, 2]), lambda mx: mx.array([1.0, 2.0]), lambda mx: True, lambda mx: "a",
        lambda mx: -(10**30), lambda mx: 2**40,
    ]  # fmt: skip
    for left in lefts:
        for right in rights:
            check(lambda mx: apply(mx, left, right))  # noqa: B023


def test_inplace_leaves_what_was_computed_before() -> None:
    x = ours.array([1.0, 2.0])
    alias, y = x, x * 2
    x += 1
    assert alias.tolist() == [2.0, 3.0]
    assert y.tolist() == [2.0, 4.0]
    assert copy.copy(x) is not x


def test_numpy_memory_is_copied() -> None:
    for source in (np.ones(3, np.float32), bytearray(b"\1\1\1"), memoryview(bytearray(b"\1\1\1"))):
        x = ours.array(source)
        source[0] = 5
        assert x.tolist() == [1, 1, 1]
        assert ours.asarray(np.ones(3)).tolist() == [1, 1, 1]


def test_numpy_views_are_shared_and_writable() -> None:
    def story(mx) -> list:
        x = mx.array([1.0, 2.0, 3.0])
        alias = mx.array(x)
        y = x * 1
        mx.eval(y)
        view = np.array(x, copy=False)
        mine = np.array(x)
        mine[0] = 9
        view[0] = 7
        return [x, y, alias, view.flags.owndata, view.flags.writeable, x + 0]

    check(story)


IN_C = native is not None
buffers = pytest.mark.skipif(sys.version_info < (3, 12) and not IN_C, reason="Python 3.11, and no compiler of C")


@buffers
@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (), (0, 3)])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_buffers(dtype: str, shape: tuple, evaluated: bool) -> None:
    def seen(mx) -> tuple:
        x = mx.ones(shape).astype(getattr(mx, dtype), stream=mx.cpu)
        if evaluated:
            mx.eval(x)
        view = memoryview(x)
        return (
            view.format, view.itemsize, view.shape, view.strides, view.nbytes, view.readonly, view.c_contiguous,
            view.tobytes(), bytearray(x), np.asarray(x).dtype.char, io.BytesIO().write(x), b"".join([x]),
        )  # fmt: skip

    assert seen(ours) == seen(real)


@pytest.mark.skipif(not IN_C, reason="no buffer from Python has the format of bfloat16")
@pytest.mark.usefixtures("tier")
def test_a_buffer_of_bfloat16() -> None:
    def story(mx) -> list:
        x = mx.arange(6).astype(mx.bfloat16).reshape(2, 3) + 1
        view = memoryview(x)
        got = [view.format, view.itemsize, view.shape, view.nbytes, view.tobytes(), bytes(bytearray(x)), b"".join([x])]
        view.cast("B")[0] = 0
        return [*got, np.frombuffer(x, np.uint16), x, x + 1]

    check(story)
    for take in (np.array, np.asarray, lambda x: np.array(x, np.float32), lambda x: np.array(x, copy=False)):
        check(lambda mx, take=take: take(mx.ones(3, mx.bfloat16)), message=True)


@buffers
def test_a_buffer_is_the_memory_of_the_array() -> None:
    def story(mx) -> list:
        x = mx.zeros(4) + mx.arange(4)
        y = x * 2
        view = memoryview(x)
        view[0] = 5.0
        np.frombuffer(x, np.float32)[1] = 7
        got = io.BytesIO(b"\0\0\x80?").readinto(y)
        return [x, y, got, view.tolist(), x + 1]

    check(story)


@buffers
@pytest.mark.parametrize("take", [memoryview, lambda x: np.frombuffer(x, np.float32)])
def test_a_buffer_is_not_written_over(take, tier) -> None:
    for n in (64, 100_000):
        x = ours.zeros(n) + 1
        view = take(x)
        for i in range(4):
            x[3] = i
            ours.eval(x)
            assert view[3] == 1


@buffers
def test_what_a_buffer_holds(tier) -> None:
    x = ours.arange(5.0)
    before = sys.getrefcount(x), sys.getrefcount(x._node)
    for _ in range(5):
        view = memoryview(x)
        del view
    assert (sys.getrefcount(x), sys.getrefcount(x._node)) == before
    view = memoryview(x)
    del x
    gc.collect()
    assert view.tolist() == [0, 1, 2, 3, 4]


@buffers
@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("take", [np.asarray, np.array, memoryview])
def test_what_interrupts_a_buffer_is_not_lost(take, kind, monkeypatch) -> None:
    """Assert that an interrupt in a buffer export is reported. NumPy drops such exceptions, and tries another
    protocol."""
    x = ours.arange(3) + 1
    evaluate, count = convert.evaluate, 0

    def interrupted(nodes):
        nonlocal count
        count += 1
        if count == 1:
            raise kind
        return evaluate(nodes)

    monkeypatch.setattr(convert, "evaluate", interrupted)
    with pytest.raises(kind):
        take(x)
    assert count == 1
    assert np.asarray(x).tolist() == take(x).tolist() == [1, 2, 3]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="collections.abc.Buffer is of Python 3.12")
def test_an_array_is_a_buffer() -> None:
    assert isinstance(ours.ones(3), collections.abc.Buffer)  # type: ignore[attr-defined]


def test_without_a_compiler_of_c() -> None:
    """Assert that NumPy can share memory without the C extension; other consumers can from Python 3.12 on."""
    program = """
import sys
sys.modules["mxcompat._native.in_c"] = None
import mxcompat.core as mx, numpy as np
x = mx.arange(3) + 1
np.asarray(x)[0] = 5
assert memoryview(np.asarray(x)).tolist() == [5, 2, 3]
if sys.version_info >= (3, 12):
    assert memoryview(x).tolist() == [5, 2, 3]
for function in (np.array, memoryview):
    try:
        function(x.astype(mx.bfloat16))
        raise AssertionError
    except (TypeError, ValueError) as error:
        print(error)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    no_format = "'bfloat16' is not a valid PEP 3118 buffer format string"
    of_view = no_format if sys.version_info >= (3, 12) else "memoryview: a bytes-like object is required, not 'array'"
    assert process.stdout.splitlines() == [no_format, of_view], process.stderr


def test_a_view_outlives_its_array() -> None:
    x = ours.array(np.arange(100_000, dtype=np.float32))
    view = np.asarray(x)
    x += 1
    ours.eval(x)
    del x
    gc.collect()
    ours.eval(ours.array(np.zeros(100_000, np.float32)) + 1)
    assert view[-1] == 99_999


def test_jax_arrays_are_shared() -> None:
    x = jnp.arange(3.0)
    assert ours.array(x).__jax_array__() is x
    assert ours.asarray(x, copy=False).__jax_array__() is x
    assert ours.asarray(x, copy=True).__jax_array__() is not x
    with pytest.raises(ValueError, match="without a copy"):
        ours.asarray(x, ours.float16, copy=False)


@pytest.mark.parametrize("name", DTYPES)
def test_pickles_and_copies(name: str) -> None:
    x = ours.array([[1, 0], [2, 3]], getattr(ours, name)) + 0
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy({"x": x})["x"], copy.copy(x)):
        assert y is not x
        assert y.dtype is x.dtype
        assert y.tolist() == x.tolist()
    want = (real.array([[1, 0], [2, 3]], getattr(real, name)) + 0).__getstate__()
    got = x.__getstate__()
    assert got[1] == want[1]
    assert got[0].dtype == want[0].dtype
    assert got[0].tolist() == want[0].tolist()


def test_a_deep_copy_is_independent() -> None:
    x = ours.array([1, 2])
    y = copy.deepcopy(x)
    x += 1
    assert y.tolist() == [1, 2]


def test_arrays_are_hashed_by_identity() -> None:
    x, y = ours.array(1), ours.array(1)
    assert len({x, y, x}) == 2


def test_subclasses() -> None:
    class Mine(ours.array):
        pass

    x = Mine([1.0, 2.0])
    x.note = "kept"
    assert (x + 1).tolist() == [2.0, 3.0]
    assert (1 - x).tolist() == [0.0, -1.0]
    assert ours.exp(x).shape == (2,)
    assert type(x) is Mine


def test_numbers_share_their_leaf_but_not_their_handle() -> None:
    x, y = ours.array(3.0), ours.array(3.0)
    x += 1
    assert (x.item(), y.item(), ours.array(3.0).item()) == (4.0, 3.0, 3.0)
    assert str(ours.array(-0.0).item()) == "-0.0"
    assert str(ours.array(0.0).item()) == "0.0"
    view = np.asarray(y)
    view[()] = 9
    assert ours.array(3.0).item() == 3.0


ELEMENTS = [
    "1", "True", "2.5", "1j", "2**40", "np.float32(1)", "np.float64(1)", "np.array([1])", "'a'", "None",
    "mx.array(1)", "mx.array([1.0])", "mx.array([[1]])", "[]", "()", "[1]", "(1,)", "(1, 2.5)", "Pair(1, 2)",
    "[[1]]", "[(1,)]", "([1],)", "((1,),)", "['a']", "(None,)", "[mx.array(1)]", "(mx.array(1),)", "[[1], (2,)]",
]  # fmt: skip
Pair = collections.namedtuple("Pair", "a b")


def nest_in(mx, text: str):
    return eval(text, {"mx": mx, "np": np, "Pair": Pair})


def has_tuple_after_list(nest) -> bool:
    """Return True if a tuple follows a list, which MLX refuses: tests/test_differences.py."""
    if not isinstance(nest, (list, tuple)) or not nest:
        return False
    return (isinstance(nest[0], list) and any(isinstance(x, tuple) for x in nest)) or any(
        map(has_tuple_after_list, nest)
    )


@pytest.mark.parametrize("first", ELEMENTS)
def test_nests_of_every_kind(first: str) -> None:
    """Compare lists and tuples of two elements, and a list of two such sequences, with MLX's errors."""
    for second in ELEMENTS:
        for text in (f"[{first}, {second}]", f"({first}, {second})", f"[({first}, {second}), [1, {second}]]"):
            got = run(ours, lambda mx, text: mx.array(nest_in(mx, text)), (text,))
            if isinstance(got, Exception) or not has_tuple_after_list(nest_in(ours, text)):
                check(lambda mx, text: mx.array(nest_in(mx, text)), text)


def test_gradients_flow_through_nests() -> None:
    check(lambda mx: mx.grad(lambda x: mx.sum(mx.array([x, 2.0, x * x]) * mx.array([1.0, 2.0, 3.0])))(mx.array(2.0)))
    check(lambda mx: mx.vmap(lambda x: mx.array([x, 2.0]))(mx.array([1.0, 3.0])))


def double(x):
    return ours.array(x) * 2.0 + 1


class TestInsideJax:
    """mxcompat functions under JAX's own transformations."""

    def test_jit(self) -> None:
        np.testing.assert_allclose(np.asarray(jax.jit(double)(jnp.ones(2))), [3, 3])

    def test_jit_of_our_arrays(self) -> None:
        out = jax.jit(double)(ours.array([1.0, 2.0]))
        assert isinstance(out, ours.array)
        assert out.tolist() == [3, 5]

    def test_grad(self) -> None:
        def loss(x):
            return (ours.array(x) * ours.array(x)).sum().__jax_array__()

        assert jax.grad(loss)(jnp.array([3.0, 4.0])).tolist() == [6.0, 8.0]

    def test_vmap(self) -> None:
        assert jax.vmap(double)(ours.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[3, 5], [7, 9]]

    def test_lists_of_tracers(self) -> None:
        out = jax.jit(lambda x: ours.array([x[0], 2.0]))(jnp.ones(2))
        assert out.tolist() == [1, 2]

    def test_64_bit_results(self) -> None:
        out = jax.jit(lambda x: ours.array(x, ours.int64) * 2**40)(jnp.ones(2, jnp.int32))
        assert out.dtype is ours.int64
        assert out.tolist() == [2**40, 2**40]

    def test_half_precision(self) -> None:
        assert jnp.asarray(ours.array([1.5], ours.bfloat16)).dtype == jnp.bfloat16

    def test_mixed_operands(self) -> None:
        x = ours.array([1, 2])
        assert (x + jnp.ones(2)).dtype is ours.int32
        assert isinstance(jnp.ones(2) + x, jax.Array)
        assert jnp.sum(x).item() == 3

    def test_printing_shows_the_tracer(self) -> None:
        texts = []
        jax.jit(lambda x: texts.append(repr(ours.array(x))) or x)(jnp.ones(2))
        assert texts[0].startswith("array(")

    def test_pytree(self) -> None:
        x = ours.array([1.0, 2.0])
        assert jax.tree.map(lambda leaf: leaf + 1, {"x": x})["x"].tolist() == [2, 3]
        assert [type(leaf) for leaf in jax.tree.leaves([x])] == [type(x.__jax_array__())]
        assert repr(jax.tree.map(lambda leaf: leaf.shape, x)) == "array((2,))"
        assert jax.eval_shape(double, x).shape == (2,)
        treedef = jax.tree.structure({"x": x})
        assert jax.tree.structure(jax.tree.unflatten(treedef, [None])) is not None


def test_building_is_fast() -> None:
    """Assert that recording an op is fast, within generous limits (about ten times the time on an idle machine)."""
    x = ours.array([1.0, 2.0])
    for text, limit in {"x + x": 6e-6, "x + 2.0": 8e-6, "node(2.0, d)": 4e-6, "mx.array(1.0)": 10e-6}.items():
        scope = {"x": x, "node": operands.node, "d": x.dtype, "mx": ours}
        assert min(timeit.repeat(text, globals=scope, number=200, repeat=5)) / 200 < limit, text


KINDS = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
    "complex64",
]  # fmt: skip
VIEWS = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[:, ::-1],
    "every other": lambda a: a[::2, 1:],
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "empty": lambda a: a[:0],
    "one": lambda a: a[1, 1],
}


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_dlpack_know_every_dtype(kind):
    data = np.array([[1, 0, 5], [3, 1, 0]]).astype(kind)

    def described(a):
        return str(a.dtype), a.shape, a.tolist(), a.flags.writeable

    def out(mx):
        x = mx.array(data, getattr(mx, kind + "_" * (kind == "bool")))
        views = [x, x.T, x[:, ::2]]
        mx.eval(views)
        return [[described(f(v)) for f in (np.from_dlpack, np.asarray)] for v in views] + [
            described(np.array(v, copy=False)) for v in views
        ]

    check(out)
    for view in VIEWS.values():
        check(lambda mx, view=view: [mx.from_dlpack(view(data)), mx.array(view(data))])
    check(lambda mx: mx.from_dlpack(mx.array(data, getattr(mx, kind + "_" * (kind == "bool")))))
    check(lambda mx: mx.array(mx.array(data, getattr(mx, kind + "_" * (kind == "bool"))).__dlpack__()))
    for view in VIEWS.values():
        check(lambda mx, view=view: [mx.from_dlpack(view(data).__dlpack__()), mx.array(view(data).__dlpack__())])


def _capsule(*names):
    """Return an unused DLPack capsule or, given a name, a capsule of another kind."""
    if names:
        return ctypes.pythonapi.PyCapsule_New(1, *names, None)
    return np.arange(3, dtype=np.int32).__dlpack__()


ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _set_to(x, value):
    x[:] = value
    return x


USES = {
    "array": lambda mx, c: mx.array(c()),
    "cast": lambda mx, c: mx.array(c(), mx.float16),
    "from_dlpack": lambda mx, c: mx.from_dlpack(c()),
    "newer": lambda mx, c: mx.from_dlpack(np.arange(3).__dlpack__(max_version=(1, 0))),
    "plus": lambda mx, c: mx.array([1, 2, 3]) + c(),
    "reflected": lambda mx, c: c() * mx.array([1.5, 2, 3]),
    "equal": lambda mx, c: mx.array([0, 1, 5]) == c(),
    "op": lambda mx, c: [mx.abs(c()), mx.maximum(c(), c()), mx.where(c(), c(), 7), mx.full((2, 3), c())],
    "written": lambda mx, c: _set_to(mx.zeros(3), c()),
    "at": lambda mx, c: mx.zeros(3).at[:].add(c()),
    "eval": lambda mx, c: mx.eval(c()),
    "in a list": lambda mx, c: mx.array([c(), c()]),
    "index": lambda mx, c: mx.array([5, 6, 7])[c()],
    "in a gradient": lambda mx, c: mx.grad(lambda x: (x * c()).sum())(mx.array([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("use", USES)
def test_a_capsule_of_dlpack(use):
    check(lambda mx: USES[use](mx, _capsule))


def test_a_capsule_is_used_once_and_is_of_dlpack():
    for how in (lambda mx, c: mx.array(c), lambda mx, c: mx.array([1]) + c):
        check(lambda mx, how=how: how(mx, _capsule(b"other")))
    check(lambda mx: mx.from_dlpack(_capsule(b"other")), message=False)

    def again(mx):
        capsule = _capsule()
        assert mx.array(capsule).tolist() == [0, 1, 2]
        return mx.array(capsule)

    check(again)


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_a_buffer_that_numpy_does_not_know():
    check(lambda mx: mx.array(memoryview(mx.array([1, 2], mx.bfloat16))))
    check(lambda mx: mx.array([1, 2]) + memoryview(mx.array([1, 2], mx.bfloat16)))


def test_views_share_memory_and_keep_it():
    def run(mx):
        x = mx.arange(1000)
        mx.eval(x)
        first, second, third = np.array(x, copy=False), np.asarray(x), np.from_dlpack(x)
        shared = np.shares_memory(first, second) and np.shares_memory(first, third)
        first[0] = 7
        seen = x[0].item()
        del x
        gc.collect()
        mx.eval([mx.zeros(1000) + k for k in range(20)])
        return shared, seen, second[:3].tolist(), int(third.sum())

    check(run)


def test_another_dtype_cannot_be_shared():
    check(lambda mx: np.array(mx.arange(3), dtype=np.float64, copy=False))
    check(lambda mx: np.asarray(mx.arange(3), dtype=np.float64).tolist())


def _local():
    class Local:
        pass

    return Local()


@pytest.mark.parametrize(
    "value",
    [datetime.date(2020, 1, 1), collections.deque(), fractions.Fraction(1), re.compile("a"), _local(), object(), len],
    ids=lambda value: type(value).__name__,
)
def test_names_of_types_in_messages(value):
    """Compare the type names in error messages: types of compiled modules lack the module's name, heap types have
    it."""
    check(lambda mx: mx.array(value))
    check(lambda mx: mx.array(1) + value)
    check(lambda mx: mx.compile(lambda x: x)(value))


def test_settings_of_numpy_do_not_matter():
    """Assert that NumPy's settings for floating-point errors apply to NumPy's arrays alone."""
    with np.errstate(all="raise"):
        for value in (-1e-50, 1e300, [65504.0, 3.4e38, 1e-45], [[1e-50]], np.array([1e300, 1e-300])):
            for dtype in (ours.float16, ours.bfloat16, ours.float32, None):
                ours.eval(ours.array(value, dtype) * 0.5, ours.array(value, dtype).astype(ours.int8))
        ours.eval(ours.arange(1e30, 2e30, 1e29).astype(ours.int16), ours.full((2,), 1e-50))
        ours.eval(ours.ones(2) / 0, ours.exp(ours.ones(2) * 900))
        assert str(ours.array([1e-45, 3.4e38])) == str(ours.array([1e-45, 3.4e38]))


OF_SUBCLASSES = """
mx.fft.fftshift(x)
mx.fft.ifftshift(x)
mx.random.permutation(x, key=mx.random.key(0))
mx.result_type(x, mx.float16)
mx.can_cast(x, mx.float16)
mx.vmap(lambda a: mx.sum(a))(x)
mx.vmap(lambda a: a, out_axes=1)(x)
mx.jvp(mx.sin, [x], [x])
mx.vjp(mx.sin, [x], [x])
mx.grad(lambda a: mx.sum(mx.sin(a)))(x)
mx.compile(lambda a: a * 2)(x)
mx.save(io.BytesIO(), x)
mx.savez(io.BytesIO(), x, b=x)
mx.save_safetensors(io.BytesIO(), {"x": x})
"""


def _of_subclass(mx):
    """Return an array of a subclass that overrides methods, which the library itself must not call."""

    def own(self, *args):
        raise LookupError("a method of the user's")

    names = ["shape", "dtype", "ndim", "size", "nbytes", "itemsize"]
    operators = ["__add__", "__radd__", "__mul__", "__rmul__", "__truediv__", "__gt__", "__getitem__", "astype", "item"]
    body = {name: property(own) for name in names} | dict.fromkeys(operators, own)
    return type("Tensor", (mx.array,), body)([[1.5, 2.0], [-3.0, 4.0]])


@pytest.mark.parametrize("text", OF_SUBCLASSES.strip().splitlines())
def test_what_a_subclass_overrides_is_not_called(text):
    check(lambda mx: eval(text, {"mx": mx, "io": io, "x": _of_subclass(mx)}))


def test_gguf_of_a_subclass(tmp_path):
    check(lambda mx: mx.save_gguf(str(tmp_path / "x"), {"x": _of_subclass(mx)}))
    check(lambda mx: mx.save_gguf(str(tmp_path / "x"), {}, {"y": _of_subclass(mx)}))


class Differentiated:
    """Stand-in for a PyTorch tensor that requires gradients. The tensor refuses to be exported; its detached data
    does not."""

    requires_grad = True

    def __init__(self, data):
        self._data = data

    def detach(self):
        return self._data

    def __dlpack__(self, **how):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    def __dlpack_device__(self):
        return self._data.__dlpack_device__()


def test_what_another_library_differentiates():
    tensor = Differentiated(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    want = tensor.detach()
    makers = (ours.array, ours.asarray, ours.from_dlpack, lambda x: ours.zeros(3) + x, lambda x: ours.add(0, x))
    for array in [make(tensor) for make in makers]:
        np.testing.assert_array_equal(array, want)
    assert ours.array(tensor, ours.float16).dtype is ours.float16
    x = ours.zeros((1, 2, 3))
    x[0] = tensor
    np.testing.assert_array_equal(x[0], want)


def test_what_exports_nothing_has_no_dtype():
    tensor = Differentiated(np.ones(2, np.float32))
    tensor.requires_grad = False
    with pytest.raises(RuntimeError) as caught:
        ours.array(tensor)
    assert str(caught.value) == "std::bad_cast"
    assert "Can't export" in caught.value.__notes__[0]


def test_pytorch_s_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    for tensor in (weight, weight.T, weight * 2, weight.half(), weight.bfloat16(), weight[0, 0]):
        check(
            lambda mx, tensor=tensor: [mx.array(tensor), mx.zeros(3)[:1] + tensor, mx.array(tensor, dtype=mx.float16)]
        )
    check(lambda mx: mx.array(torch.ones(1, device="meta")))
    check(lambda mx: mx.array(torch.eye(2).to_sparse()))


class Offering:
    """An object that offers its data through DLPack only."""

    def __init__(self, data):
        self.data = data

    def __dlpack__(self, **kwargs):
        return self.data.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.data.__dlpack_device__()


def _assigned(x, value):
    x[:] = value
    return x


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "use",
    [
        lambda mx, t: mx.array(t), lambda mx, t: mx.array(t, dtype=mx.float32), lambda mx, t: mx.zeros(2) + t,
        lambda mx, t: mx.maximum(mx.zeros(2), t), lambda mx, t: _assigned(mx.zeros(2), t),
    ],
    ids=["array", "of a dtype", "added", "an argument", "assigned"],
)  # fmt: skip
def test_types_that_come_by_dlpack(use, dtype):
    data = jax.numpy.array([1.0, 2.0], dtype)
    check(lambda mx: use(mx, Offering(data)))


@pytest.mark.parametrize("of", [np.asarray, jax.numpy.asarray], ids=["NumPy", "JAX"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_arrays_of_types_that_mlx_lacks(of, dtype):
    """Assert that the errors are MLX's, which depend on whether NumPy passes on this type by DLPack."""
    data = of(jax.numpy.array([1.0, 2.0], dtype))
    check(lambda mx: mx.array(data))
    check(lambda mx: mx.zeros(2) + data)
    check(lambda mx: mx.maximum(mx.zeros(2), data))
    check(lambda mx: _assigned(mx.zeros(2), data))


def from_buffer(a):
    return np.frombuffer(a, np.float32)


@pytest.mark.skipif(native is None and sys.version_info < (3, 12), reason="no compiler of C")
@pytest.mark.parametrize("shape", [(3,), (2, 2), (), (0,)], ids=str)
@pytest.mark.parametrize("of", [memoryview, lambda a: np.array(a, copy=False), np.asarray, from_buffer], ids=range(4))
def test_a_view_keeps_its_array(of, shape):
    """Assert that an array stays alive as long as a view of it."""
    if of is from_buffer and 0 in shape:
        pytest.skip("NumPy takes no empty buffer")

    def alive(mx):
        a = mx.ones(shape)
        seen = weakref.ref(a)
        view = of(a)
        del a
        while_there = seen() is not None
        del view
        return while_there, seen() is not None

    assert not isinstance(check(alive), Exception)


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_a_view_holds_what_its_array_was():
    """Assert that a view keeps its data if its array gets another value later."""
    a = ours.ones((300, 300))
    view = memoryview(a)
    a += 1
    ours.eval(a)
    assert view[0, 0] == 1.0
    assert a[0, 0].item() == 2.0
    again = memoryview(a)
    view.release()
    del a
    assert again[299, 299] == 2.0
