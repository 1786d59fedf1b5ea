"""The `stream` argument: every public op accepts one, and refuses other objects as real MLX does."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle import check


def file() -> io.BytesIO:
    buffer = io.BytesIO()
    np.save(buffer, np.ones(2, np.float32))
    buffer.seek(0)
    return buffer


STREAMS: dict[str, Callable[[Any], Any]] = {
    "None": lambda mx: None,
    "DeviceType": lambda mx: mx.cpu,
    "Device": lambda mx: mx.Device(mx.cpu),
    "Stream": lambda mx: mx.default_stream(mx.cpu),
    "int": lambda mx: 3,
    "str": lambda mx: "cpu",
    "Dtype": lambda mx: mx.float32,
    "array": lambda mx: mx.array(1.0),
}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "unary": lambda mx, s: mx.exp(mx.array(1.0), stream=s),
    "binary": lambda mx, s: mx.add(mx.array(1.0), 2, stream=s),
    "reduction": lambda mx, s: mx.sum(mx.array([1.0]), stream=s),
    "method": lambda mx, s: mx.array([1.0]).sum(stream=s),
    "shape": lambda mx, s: mx.reshape(mx.array([1.0]), (1, 1), stream=s),
    "creation": lambda mx, s: mx.zeros((2,), stream=s),
    "linalg": lambda mx, s: mx.linalg.norm(mx.array([3.0, 4.0]), stream=s),
    "fft": lambda mx, s: mx.fft.fft(mx.array([1.0, 2.0]), stream=s),
    "load": lambda mx, s: mx.load(file(), stream=s),
    "collective": lambda mx, s: mx.distributed.all_sum(mx.array([1.0]), stream=s),
    "send": lambda mx, s: mx.distributed.send(mx.array([1.0]), 0, stream=s),
    "recv": lambda mx, s: mx.distributed.recv((1,), mx.float32, 0, stream=s),
    "recv_like": lambda mx, s: mx.distributed.recv_like(mx.array([1.0]), 0, stream=s),
    "random": lambda mx, s: mx.random.uniform(shape=(2,), key=mx.random.key(0), stream=s),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("call", CALLS)
def test_stream(call: str, stream: str) -> None:
    check(lambda mx: CALLS[call](mx, STREAMS[stream](mx)))
