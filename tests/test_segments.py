"""Derivatives of large programs, which run in segments: equal numbers, and few compiles for long loops."""

import numpy as np
import pytest

from mxcompat._graph import policy
from mxcompat._graph.ir.rules import LOWERING
from mxcompat._transforms.programs import split
from mxcompat.ext import debug
from tests.oracle import check, ours

RNG = np.random.default_rng(0)
W = (RNG.standard_normal((4, 4)) / 2).astype(np.float32)
X = RNG.standard_normal((3, 40, 4)).astype(np.float32)


def unrolled(mx, x, steps):
    """Return the loss of a recurrence, a function of its parameters."""

    def loss(params):
        h, total = mx.zeros((x.shape[0], 4)), mx.array(0.0)
        for step in range(steps):
            gate, value = mx.split(x[:, step] @ params["in"] + h @ params["w"] + params["b"], 2, axis=-1)
            h = mx.concatenate([mx.tanh(gate) * 0.5, mx.sigmoid(value) + h[:, :2]], axis=-1) * 0.9
            total = total + mx.square(h).mean()
        return total, h

    return loss


def parameters(mx):
    return {"in": mx.array(W), "w": mx.array(W.T), "b": mx.zeros((4,)), "unused": mx.ones((2,))}


def test_a_long_loop_gives_the_gradients_of_real_mlx():
    check(lambda mx, x: mx.value_and_grad(unrolled(mx, x, 40))(parameters(mx)), X)


@pytest.mark.usefixtures("xla_only")
def test_the_number_of_compiles_does_not_grow_with_the_loop():
    def compiles(steps):
        debug.clear_cache()
        before = debug.compiles()
        x = ours.array(RNG.standard_normal((3, steps, 4)).astype(np.float32))
        for _ in range(3):
            ours.eval(ours.value_and_grad(unrolled(ours, x, steps))(parameters(ours)))
        return debug.compiles() - before

    short, long = compiles(80), compiles(160)
    assert long <= short + 2


@pytest.fixture
def tiny(monkeypatch, xla_only):
    """Split everything that can be split into segments of three instructions."""
    monkeypatch.setattr(policy, "FEW_INSTRUCTIONS", 2)
    monkeypatch.setattr(policy, "LARGE_PROGRAM", 4)
    monkeypatch.setattr(policy, "HUGE_NESTED", 4)
    monkeypatch.setattr(policy, "SEGMENT_SIZE", 3)
    debug.clear_cache()
    yield
    debug.clear_cache()


def several(mx, x):
    """Return outputs that later segments read, an integer, a complex number, and an unused value."""

    def f(a, b):
        order = mx.argsort(a, axis=-1)
        picked = mx.take_along_axis(a, order, axis=-1)
        wave = mx.real(mx.exp(1j * picked) * (2 + 1j))
        left, right = mx.split(wave * b, 2, axis=-1)
        out = mx.stack([left, right]).sum(axis=0) + mx.stop_gradient(left) * right
        return [out, wave, order.astype(mx.float32) * b]

    outputs, _ = mx.vjp(f, [x, x[:1]], [x[..., :2], x, x])
    return outputs, mx.vjp(f, [x, x[:1]], [x[..., :2], x, x])[1]


def half_cotangent(mx, x):
    def f(a):
        for k in range(6):
            a = mx.sin(a) * k + mx.cos(a)
        return a

    return mx.vjp(f, [x], [x.astype(mx.float16)])


def kept(mx, x):
    """Store intermediate values, which stay readable."""
    seen = []

    def f(a):
        for _ in range(6):
            a = mx.tanh(a) * 2
            seen.append(a)
        return a.sum()

    return mx.grad(f)(x), seen


def inside_compile(mx, x):
    def f(a):
        for _ in range(6):
            a = mx.tanh(a) * 2 + mx.exp(-a * a)
        return a.sum()

    return mx.compile(mx.value_and_grad(f))(x)


def second(mx, x):
    def f(a):
        for _ in range(4):
            a = mx.sin(a) * a
        return a.sum()

    return mx.grad(lambda a: mx.grad(f)(a).sum())(x)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("run", [several, half_cotangent, kept, inside_compile, second])
def test_in_segments(run):
    check(run, X[:2, 0])


@pytest.mark.usefixtures("tiny")
def test_an_error_in_a_segment_leaves_the_arrays_as_they_were(monkeypatch):
    x = ours.array(W)
    loss = unrolled(ours, ours.array(X), 3)
    _, grads = ours.value_and_grad(loss)({"in": x, "w": x, "b": ours.zeros((4,))})

    def fails(*_, **__):
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setitem(LOWERING, split.PULL, fails)
        with pytest.raises(RuntimeError, match="no room"):
            ours.eval(grads)
    ours.eval(grads)
    assert np.isfinite(np.array(grads["w"])).all()
