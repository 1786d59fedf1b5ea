"""Arrays that are too large: refused when built or before evaluation, with every array unchanged."""

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.run.background import settle

from .oracle import check

LONGEST = 2**31 - 1

TOO_LONG = {
    "pad": lambda mx: mx.pad(mx.ones((3, 3)), 2**30),
    "tile": lambda mx: mx.tile(mx.ones((3, 3)), (2**30, 2**30)),
    "repeat": lambda mx: mx.repeat(mx.ones((2**16,)), LONGEST),
    "concatenate": lambda mx: mx.concatenate([mx.zeros(LONGEST, mx.int8)] * 2),
    "reshape": lambda mx: mx.ones((2**16, 2**16)).reshape(-1),
    "flatten": lambda mx: mx.ones((2**16, 2**16)).flatten(),
    "conv": lambda mx: mx.conv1d(mx.ones((1, LONGEST, 1)), mx.ones((1, 1, 1)), padding=5),
    "zeros": lambda mx: mx.zeros(2**31),
    "arange": lambda mx: mx.arange(2**31),
}

IMPOSSIBLE = {
    "zeros": lambda: mx.zeros((LONGEST, LONGEST, 4)),
    "full": lambda: mx.full((LONGEST, LONGEST), 1.5),
    "eye": lambda: mx.eye(LONGEST),
    "broadcasting": lambda: mx.ones((LONGEST, 1)) + mx.ones((1, LONGEST)),
    "matmul": lambda: mx.ones((LONGEST, 1)) @ mx.ones((1, LONGEST)),
    "random": lambda: mx.random.normal((LONGEST, LONGEST)),
    "vmap": lambda: mx.vmap(lambda x: x + mx.ones(LONGEST))(mx.ones((LONGEST, 1))),
    "grad": lambda: mx.grad(lambda x: (x + mx.ones((1, LONGEST))).sum())(mx.ones((LONGEST, 1))),
    "inside vmap": lambda: mx.eval(mx.vmap(lambda x: mx.sin(x + mx.ones(LONGEST)).sum())(mx.ones((LONGEST, 1)))),
    "inside compile": lambda: mx.compile(lambda x: mx.sin(x + x.T).sum())(mx.ones((LONGEST, 1))),
}

TOO_MUCH = {
    "ones": lambda: mx.ones((2**20, 2**20)),
    "product": lambda: mx.ones((2**30, 1)) @ mx.ones((1, 2**30)),
    "random": lambda: mx.random.normal((LONGEST, 2**20)),
    "grad": lambda: mx.grad(lambda x: mx.cumsum(mx.broadcast_to(x, (2**20, 2**22)), 0).sum())(mx.ones(1)),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_an_axis_that_is_too_long(name):
    check(TOO_LONG[name])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_array_that_cannot_be(name):
    with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate \d+ bytes, for an array of shape"):
        IMPOSSIBLE[name]()


@pytest.mark.parametrize("name", TOO_MUCH)
def test_more_than_there_is(name, failed_jobs):
    x = mx.array([1.0, 2.0])
    y, much = x + 1, TOO_MUCH[name]()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate \d+ bytes") as caught:
            mx.eval(y, much)
        assert "In the evaluation of [" in caught.value.__notes__[0]
    assert y.tolist() == [2.0, 3.0]
    settle()
    assert all("Unable to allocate" in message for message in failed_jobs)  # a retry may have compiled it
    failed_jobs.clear()


def test_a_retry_with_less(monkeypatch):
    """Assert that a retry with free memory gives the result of the same graph."""
    from mxcompat._graph import policy
    from mxcompat._graph.run import allocation

    x = mx.array(np.arange(6, dtype=np.float32))
    y = mx.exp(x[:, None] * mx.ones((1, 2000))).max()
    monkeypatch.setattr(policy, "LARGE_ALLOCATION", 1)
    monkeypatch.setattr(allocation, "_available", lambda: 1000)
    monkeypatch.setattr(policy, "LIGHT_SECONDS", 0.0)
    with pytest.raises(RuntimeError, match="Unable to allocate"):
        mx.eval(y)
    monkeypatch.undo()
    np.testing.assert_allclose(y.item(), np.exp(5.0), rtol=1e-6)


@pytest.mark.parametrize("error", [
    MemoryError("Unable to allocate 8.00 GiB for an array"), RuntimeError("RESOURCE_EXHAUSTED: 12345 bytes"),
])  # fmt: skip
def test_memory_runs_out_on_the_way(error, monkeypatch):
    from mxcompat._graph.ir.rules import HOST
    from mxcompat._ops.define import TABLE

    def fails(*args):
        raise error

    monkeypatch.setitem(HOST, TABLE["sinh"], fails)
    y = mx.sinh(mx.array([1.0, 2.0])) + 1
    with pytest.raises(RuntimeError, match=r"^\[malloc\] Unable to allocate (8.00 GiB|12345 bytes)\.") as caught:
        mx.eval(y)
    assert "[sinh]" in caught.value.__notes__[0]
    monkeypatch.undo()
    np.testing.assert_allclose(np.array(y), np.sinh([1.0, 2.0]) + 1, rtol=1e-6)
