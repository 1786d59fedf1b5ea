"""Devices, streams, memory, and queries about dtypes."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as avals
from tests.oracle import check, ours, real

DTYPES = ["bool_", *(d._label for d in avals.DTYPES[1:])]
CATEGORIES = [c.name for c in ours.DtypeCategory]
KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]


def table(fn) -> None:
    want, got = fn(real), fn(ours)
    assert got == want


def test_issubdtype() -> None:
    names = DTYPES + CATEGORIES
    table(lambda mx: [[mx.issubdtype(getattr(mx, a), getattr(mx, b)) for a in names] for b in names])


def test_isdtype() -> None:
    table(lambda mx: [[mx.isdtype(getattr(mx, a), k) for a in DTYPES] for k in KINDS])
    table(lambda mx: [[mx.isdtype(getattr(mx, a), getattr(mx, b)) for a in DTYPES] for b in DTYPES])


def test_can_cast_and_result_type() -> None:
    table(lambda mx: [[mx.can_cast(getattr(mx, a), getattr(mx, b)) for a in DTYPES] for b in DTYPES])
    table(lambda mx: [[str(mx.result_type(getattr(mx, a), getattr(mx, b))) for a in DTYPES] for b in DTYPES])


@pytest.mark.parametrize(
    "fn",
    [
        lambda mx: mx.issubdtype("a", mx.generic),
        lambda mx: mx.issubdtype(mx.float32, 1),
        lambda mx: mx.issubdtype(mx.float32, None),
        lambda mx: mx.issubdtype(None, 1),
        lambda mx: mx.issubdtype(arg1=mx.float32, arg2=mx.floating),
        lambda mx: mx.isdtype(mx.float32, "foo"),
        lambda mx: mx.isdtype(mx.float32, ("real floating", "foo")),
        lambda mx: mx.isdtype(mx.float32, ("foo",)),
        lambda mx: mx.isdtype(mx.float32, ("integral", mx.float32)),
        lambda mx: mx.isdtype(mx.float32, ()),
        lambda mx: mx.isdtype(mx.float32, ["integral"]),
        lambda mx: mx.isdtype(mx.float32, mx.floating),
        lambda mx: mx.isdtype(mx.float32, None),
        lambda mx: mx.isdtype("float32", "numeric"),
        lambda mx: mx.isdtype(dtype=mx.float32, kind="numeric"),
        lambda mx: mx.can_cast(mx.array(1.0), mx.int16),
        lambda mx: mx.can_cast(from_=mx.int8, to=mx.int16),
        lambda mx: mx.can_cast(1, mx.int16),
        lambda mx: mx.can_cast(mx.int8, mx.floating),
        lambda mx: mx.result_type(),
        lambda mx: mx.result_type(mx.array(1.0), mx.int8, mx.complex64),
        lambda mx: mx.result_type(1, mx.int8),
        lambda mx: mx.finfo(mx.int8),
        lambda mx: mx.finfo("float32"),
        lambda mx: mx.iinfo(mx.float32),
        lambda mx: mx.iinfo(mx.bool_),
        lambda mx: mx.iinfo(8),
        lambda mx: isinstance(mx.float32, mx.Dtype),
        lambda mx: (mx.float32 == mx.float32, mx.float32 == mx.int8, mx.float32 != mx.int8, mx.float32 == "float32"),
        lambda mx: [repr(c) for c in mx.DtypeCategory] + [mx.floating.value, mx.DtypeCategory(1) == mx.floating],
        lambda mx: (mx.pi, mx.e, mx.inf, mx.euler_gamma, mx.newaxis, mx.nan != mx.nan),
    ],
)
def test_dtype_questions(fn) -> None:
    check(fn)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_finfo(name: str) -> None:
    def everything(mx) -> list:
        info = mx.finfo(getattr(mx, name))
        return [info.min, info.max, info.eps, info.smallest_normal, info.bits, str(info.dtype), repr(info)]

    table(everything)


@pytest.mark.parametrize("name", [d for d in DTYPES if "int" in d])
def test_iinfo(name: str) -> None:
    def everything(mx) -> list:
        info = mx.iinfo(getattr(mx, name))
        return [info.min, info.max, str(info.dtype), repr(info)]

    table(everything)


def test_dtypes_are_singletons() -> None:
    for name in DTYPES:
        dtype = getattr(ours, name)
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy({"a": dtype})["a"] is dtype
        assert repr(dtype) == repr(getattr(real, name))
        assert dtype.size == getattr(real, name).size


def other_thread(fn):
    """Return the result of `fn` in a thread with fresh state."""
    out = []
    thread = threading.Thread(target=lambda: out.append(fn()))
    thread.start()
    thread.join()
    return out[0]


STREAMS = {
    "new": lambda mx: mx.new_stream(mx.cpu),
    "default": lambda mx: mx.default_stream(mx.cpu),
    "thread-unsafe": lambda mx: mx.new_thread_unsafe_stream(mx.cpu),
    "thread-local": lambda mx: mx.new_thread_local_stream(mx.cpu),
    "device": lambda mx: mx.cpu,
}


def with_stream(mx, s):
    with mx.stream(s):
        return (mx.ones(2) + 1).tolist()


def with_default_stream(mx, s):
    before = mx.default_stream(mx.cpu)
    try:
        mx.set_default_stream(s)
        x = mx.ones(2) + 1
        mx.async_eval(x)
        return x.tolist()
    finally:
        mx.set_default_stream(before)


USES = {
    "argument": lambda mx, s: mx.add(mx.ones(2), 1, stream=s).tolist(),
    "context": with_stream,
    "default": with_default_stream,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_in_another_thread(kind, use):
    def there(mx, s):
        try:
            mx.synchronize(s)
            return USES[use](mx, s)
        except (RuntimeError, TypeError) as error:  # stream numbers may differ between the libraries
            text = str(error).partition("(")[0] + str(error).partition(")")[2]
            return type(error), text if isinstance(error, RuntimeError) else None

    def run(mx):
        s = STREAMS[kind](mx)
        return other_thread(lambda: there(mx, s)), there(mx, s), there(mx, other_thread(lambda: STREAMS[kind](mx)))

    check(run)


@pytest.mark.parametrize(
    "fn",
    [
        lambda mx: [str(d) for d in (mx.cpu, mx.gpu, mx.Device(mx.cpu), mx.Device(mx.gpu, 3), *mx.DeviceType)],
        lambda mx: [mx.Device(mx.cpu) == mx.cpu, mx.cpu == mx.Device(mx.cpu), mx.Device(mx.cpu) == mx.gpu],
        lambda mx: [mx.Device(mx.cpu, 1) == mx.Device(mx.cpu), mx.Device(mx.cpu) == "cpu", mx.cpu == 0],
        lambda mx: [mx.cpu != mx.gpu, mx.Device(mx.cpu) != mx.Device(mx.gpu), len({mx.cpu, mx.cpu, mx.gpu})],
        lambda mx: mx.Device(mx.gpu).type == mx.gpu,
        lambda mx: mx.Device("cpu"),
        lambda mx: [str(mx.Device(n)) for n in (0, 1, True, np.int64(0), mx.array(1))],
        lambda mx: [mx.Device(2)],
        lambda mx: mx.Device(1.0),
        lambda mx: [mx.exp(mx.ones(2), stream=0), mx.device_count(0), mx.is_available(0), mx.default_stream(0).device],
        lambda mx: mx.exp(mx.ones(2), stream=1),
        lambda mx: mx.exp(mx.ones(2), stream=2),
        lambda mx: [mx.set_default_device(0), mx.stream(0).__enter__(), mx.synchronize(0), mx.cpu == 0],
        lambda mx: mx.default_device(),
        lambda mx: mx.set_default_device(mx.gpu),
        lambda mx: mx.set_default_device("cpu"),
        lambda mx: mx.set_default_device(mx.Device(mx.cpu)),
        lambda mx: [mx.is_available(d) for d in (mx.cpu, mx.gpu, mx.Device(mx.cpu, 3))],
        lambda mx: [mx.device_count(mx.cpu), mx.device_count(mx.gpu)],
        lambda mx: mx.device_count(mx.Device(mx.cpu)),
        lambda mx: mx.device_info(mx.gpu),
        lambda mx: sorted(mx.device_info()),
        lambda mx: mx.default_stream(mx.cpu).device,
        lambda mx: mx.default_stream(mx.Device(mx.cpu)).device,
        lambda mx: mx.default_stream(mx.gpu),
        lambda mx: mx.default_stream(None),
        lambda mx: mx.default_stream(mx.default_stream(mx.cpu)),
        lambda mx: mx.new_stream(mx.gpu),
        lambda mx: mx.new_stream(mx.cpu).device,
        lambda mx: mx.new_stream(mx.cpu) == mx.new_stream(mx.cpu),
        lambda mx: mx.default_stream(mx.cpu) == mx.default_stream(mx.cpu),
        lambda mx: mx.default_stream(mx.cpu) == 1,
        lambda mx: mx.new_thread_local_stream(mx.cpu).device,
        lambda mx: mx.Stream(),
        lambda mx: mx.set_default_stream(mx.cpu),
        lambda mx: mx.set_default_stream(mx.new_thread_local_stream(mx.cpu)),
        lambda mx: mx.stream("a"),
        lambda mx: mx.stream(None),
        lambda mx: mx.stream(mx.gpu).__enter__(),
        lambda mx: [mx.synchronize(), mx.synchronize(mx.cpu), mx.synchronize(mx.default_stream(mx.cpu))],
        lambda mx: mx.synchronize(mx.gpu),
        lambda mx: mx.set_memory_limit(-1),
        lambda mx: mx.set_memory_limit("a"),
        lambda mx: mx.clear_cache(),
    ],
)
def test_devices(fn) -> None:
    check(fn)


def test_stream_context() -> None:
    def story(mx) -> list[bool]:
        first, new = mx.default_stream(mx.cpu), mx.new_stream(mx.cpu)
        context = mx.stream(new)
        seen = []
        with context:
            seen.append(mx.default_stream(mx.cpu) == new)
            with mx.stream(mx.cpu):
                seen.append(mx.default_stream(mx.cpu) == new)
            local = mx.new_thread_local_stream(mx.cpu)
            with mx.stream(local):
                inside = mx.default_stream(mx.cpu)
                seen += [inside == new, type(inside) is mx.Stream]
            with mx.stream(local):
                seen.append(mx.default_stream(mx.cpu) == inside)
        seen.append(mx.default_stream(mx.cpu) == first)
        try:
            with context:
                raise KeyError
        except KeyError:
            seen.append(mx.default_stream(mx.cpu) == first)
        mx.set_default_stream(new)
        seen.append(mx.default_stream(mx.cpu) == new)
        seen.append(other_thread(lambda: mx.default_stream(mx.cpu)) == new)
        mx.set_default_stream(first)
        return seen

    table(story)


def test_clear_streams() -> None:
    """Clear the streams in a thread, because real MLX cannot continue without them."""

    def fresh() -> bool:
        stream = ours.default_stream(ours.cpu)
        ours.clear_streams()
        return ours.default_stream(ours.cpu) == stream

    assert not other_thread(fresh)


def test_ops_run_in_a_stream_context() -> None:
    check(lambda mx: with_stream(mx, mx.cpu))
    check(lambda mx: with_stream(mx, mx.new_stream(mx.cpu)))


def with_stream(mx, stream):
    with mx.stream(stream):
        return mx.array([1, 2]) + 1


@pytest.mark.parametrize("stream", [None, "cpu", "gpu", "text", 5])
def test_check_stream(stream: object) -> None:
    """Check the public function that validates a `stream` argument."""
    value = {"cpu": ours.cpu, "gpu": ours.gpu}.get(stream, stream)  # type: ignore[call-overload]
    if stream in (None, "cpu"):
        check_stream(value)
    else:
        with pytest.raises(ValueError if stream == "gpu" else TypeError):
            check_stream(value)
    for good in (ours.Device(ours.cpu), ours.new_stream(ours.cpu), ours.new_thread_local_stream(ours.cpu)):
        check_stream(good)
    with pytest.raises(IndexError):
        check_stream(ours.Device(ours.cpu, 5))


def test_devices_pickle() -> None:
    device = ours.Device(ours.cpu, 2)
    assert pickle.loads(pickle.dumps(device)) == device
    assert pickle.loads(pickle.dumps(ours.gpu)) is ours.gpu


def test_memory() -> None:
    before = ours.get_active_memory()
    x = ours.array([0.0] * 1000)
    assert ours.get_active_memory() == before + 4000
    assert ours.get_peak_memory() >= before + 4000
    del x
    assert ours.get_peak_memory() >= before + 4000
    ours.reset_peak_memory()
    assert ours.get_peak_memory() == 0
    ours.clear_cache()
    assert ours.get_cache_memory() == 0


@pytest.mark.parametrize("name", ["memory", "cache"])
def test_limits_are_remembered(name: str) -> None:
    set_limit = getattr(ours, f"set_{name}_limit")
    before = set_limit(10**9)
    try:
        assert set_limit(2 * 10**9) == 10**9
        assert name != "memory" or ours.get_memory_limit() == 2 * 10**9
    finally:
        assert set_limit(before) == 2 * 10**9


def test_array_buffer_size() -> None:
    check(lambda mx: mx.get_array_buffer_size(mx.array([1, 2]) + 1))
    x = ours.array([1, 2])
    assert ours.get_array_buffer_size(x, {"a": [x, ours.array(x)]}, 1, None) == 8
    assert ours.get_array_buffer_size(x, ours.array([1.0])) == 12
