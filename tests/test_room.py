"""Caches extended by zeros: prefixes of buffers that become four times or twice as large."""

import numpy as np
import pytest

import mxcompat as mx
from mxcompat._graph.ir.aval import aval, float32
from mxcompat._ops.indexing.room import PREFIX, padded_size
from mxcompat.ext.debug import compiles
from tests.oracle import check, real

RNG = np.random.default_rng(0)
STEP = 256


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class Cache:
    """Cache of keys during generation, in a buffer that grows by 256 entries at a time."""

    def __init__(self, mx, first=STEP):
        self.mx, self.keys, self.offset = mx, mx.zeros((1, 2, first, 4)), 0

    def update(self, keys):
        end = self.offset + keys.shape[2]
        if end > self.keys.shape[2]:
            self.keys = self.mx.concatenate([self.keys, self.mx.zeros((1, 2, STEP, 4))], axis=2)
        self.keys[..., self.offset : end, :] = keys
        self.offset = end
        return self.keys[..., :end, :]


def attended(mx, cache, token):
    keys = cache.update(mx.array(token))
    return mx.fast.scaled_dot_product_attention(mx.array(token), keys, keys, scale=0.3)


def test_a_small_buffer_quadruples():
    cache, shapes, rooms = Cache(mx), [], []
    for _ in range(5):
        mx.eval(cache.update(mx.ones((1, 2, STEP, 4)))[:, :, 1:])
        node = cache.keys._node
        shapes.append(node.aval.shape[2])
        rooms.append(node.inputs[0].aval.shape[2] if node.op is PREFIX else shapes[-1])
    assert shapes == [256, 512, 768, 1024, 1280]
    assert rooms == [256, 1024, 1024, 1024, 4096]


def test_a_large_buffer_doubles():
    entry = 1 << 12
    sizes = [padded_size(n, aval((1, 2, n, entry // 8), float32), 2) for n in (1, 256, 257, 513, 1024, 1025, 4097)]
    assert sizes == [256, 256, 512, 1024, 1024, 2048, 8192]


@pytest.mark.usefixtures("xla_only")
def test_a_size_in_between_costs_no_compile():
    """Assert that the programs for 1024 entries serve 513 to 1023."""
    cache, new = Cache(mx), []
    mx.eval(cache.update(mx.array(draw(1, 2, STEP, 4))))
    for n in range(STEP, 1300):
        before = compiles()
        mx.eval(attended(mx, cache, draw(1, 2, 1, 4)))
        new += [n] * (compiles() - before)
    assert [n for n in new if n > 600] == [1023, 1024, 1025, 1026]  # at first the size is a constant
    assert len(new) <= 22


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("first", [256, 768])
def test_the_numbers_of_real_mlx(first):
    ours, theirs = Cache(mx, first), Cache(real, first)
    for size in (first - 3, 3, 1, 5, 247, 3, 1, 255, 2):
        keys, query = draw(1, 2, size, 4), draw(1, 2, 1, 4)
        outs = []
        for side, cache in ((mx, ours), (real, theirs)):
            k = cache.update(side.array(keys))
            outs.append(np.array(side.fast.scaled_dot_product_attention(side.array(query), k, k, scale=0.3)))
        np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-5)
    assert ours.keys.shape == theirs.keys.shape
    np.testing.assert_array_equal(np.array(ours.keys), np.array(theirs.keys))


def grown(mx, more=STEP):
    x = mx.array(KEYS)
    mx.eval(x)
    return mx.concatenate([x, mx.zeros((1, more, 4))], axis=1)


KEYS = draw(1, 512, 4)
USES = {
    "whole": lambda mx, x: x * 2,
    "last": lambda mx, x: x[:, -1],
    "behind": lambda mx, x: x[:, 500:700],
    "backwards": lambda mx, x: x[:, ::-1],
    "every third": lambda mx, x: x[:, 5:760:3, None],
    "another axis": lambda mx, x: x[..., 1:3],
    "by array": lambda mx, x: x[:, mx.array([-1, 3, 511, 512])],
    "new axis": lambda mx, x: x[None, :, 700:],
    "flat": lambda mx, x: mx.take(x, mx.array([0, 2047, 3071])),
    "again": lambda mx, x: mx.concatenate([x, mx.zeros((1, 256, 4))], axis=1),
    "twice": lambda mx, x: mx.concatenate([mx.concatenate([x, mx.zeros((1, 512, 4))], axis=1), x], axis=1),
    "other zeros": lambda mx, x: mx.concatenate([x, mx.zeros((1, 256, 4), mx.int32)], axis=-2),
    "sum": lambda mx, x: x.sum(axis=1),
}


def written(index, value):
    def use(mx, x):
        old = x + 0
        x[index] = mx.array(value)
        return old, x, x[:, :600], x[:, 600:]

    return use


USES |= {
    "write": written((slice(None), slice(510, 514)), 7.0),
    "write to the end": written((slice(None), slice(766, None)), 7.0),
    "write all": written(slice(None), 7.0),
    "write another axis": written((..., 2), 7.0),
    "write by array": written((slice(None), np.array([1, 767])), 7.0),
    "write backwards": written((slice(None), slice(767, 700, -2)), np.arange(4, dtype=np.float32)),
}


def added(mx, x):
    x = x.at[:, 100:767].add(mx.ones(4))
    return x, x[:, 766:]


USES["add"] = added


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("use", USES)
def test_a_prefix_is_an_array_like_others(use):
    check(lambda mx: USES[use](mx, grown(mx)))


def test_under_transforms():
    def gradient(mx):
        x = grown(mx)
        return mx.grad(lambda y: (x[:, :600] * y).sum() + (x * 2).sum() * y.sum())(mx.ones((1, 600, 4)))

    def compiled(mx):
        x = grown(mx)
        return mx.compile(lambda y: (x[:, :600] + y, x))(mx.ones((1, 600, 4)))

    def vmapped(mx):
        x = grown(mx)
        return mx.vmap(lambda y: x[0, :600] * y)(mx.ones((3, 4)))

    def by_argument(mx):
        return mx.grad(lambda x: (x[:, 3:700] ** 2).sum())(grown(mx))

    for function in (gradient, compiled, vmapped, by_argument):
        check(function)


@pytest.mark.parametrize(
    ("make", "is_prefix"),
    [
        (lambda: grown(mx), True),
        (lambda: grown(mx, 512), False),  # already a power of two
        (lambda: grown(mx, 255), False),
        (lambda: mx.concatenate([mx.array(KEYS)[0], mx.zeros((256, 4))]), False),
        (lambda: mx.concatenate([mx.array(KEYS) + 1, mx.zeros((1, 256, 4))], axis=1), False),  # not computed yet
        (lambda: mx.concatenate([mx.array(KEYS), mx.ones((1, 256, 4))], axis=1), False),
        (lambda: mx.concatenate([mx.zeros((1, 256, 4)), mx.array(KEYS)], axis=1), False),
    ],
)
def test_what_becomes_a_prefix(make, is_prefix):
    assert (make()._node.op is PREFIX) is is_prefix
