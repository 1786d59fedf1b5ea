"""Random programs of views, elementwise ops and writes, which drop arrays at any time, compared with NumPy.

Memory may only be reused if it is unreachable and has no pending reader.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run.plan import Call

SHAPES = [(12, 8), (96,), (4, 24), (2, 6, 8)]

VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x[: len(x) // 2], lambda x: x[len(x) // 2 :], lambda x: x[::2], lambda x: x[::-1], lambda x: x[:],
    lambda x: x.T, lambda x: x.reshape(-1), lambda x: x.reshape(1, *x.shape).squeeze(0),
]  # fmt: skip

OPS: list[Callable[[Any], Any]] = [lambda x: -x, abs, lambda x: x * 1.5, lambda x: x + 1, lambda x: x * x * 0.5]

Pair = tuple[mx.array, np.ndarray]


def pair(r: random.Random, path: Path) -> Pair:
    """Return an array, created in one of several ways."""
    values = np.random.default_rng(r.randrange(1 << 30)).uniform(0.5, 2, r.choice(SHAPES)).astype(np.float32)
    kind = r.randrange(6)
    if kind == 0:
        return mx.array(values), values
    if kind == 1:
        return mx.array(values) + 0, values
    if kind == 2:
        return mx.array(np.concatenate([values + 1, values]))[len(values) :], values
    if kind == 3:
        return mx.array(np.ascontiguousarray(values.T)).T, values
    if kind == 4:
        x = mx.array(values)
        mx.eval(x)
        return x[:], values
    mx.save(str(path), mx.array(values))
    return mx.load(str(path)), values


def extended(r: random.Random, pairs: list[Pair]) -> None:
    """Add an array computed from these, or drop one."""
    x, v = r.choice(pairs)
    kind = r.random()
    if len(v) < 4:
        return
    if kind < 0.45:
        view = r.choice(VIEWS)
        pairs.append((view(x), view(v)))
    elif kind < 0.75:
        op = r.choice(OPS)
        pairs.append((op(x), op(v)))
    elif kind < 0.85:
        y, w = r.choice(pairs)
        if w.shape == v.shape:
            pairs.append((x - y, v - w))
    elif kind < 0.95:
        place = r.choice([slice(0, len(v) // 2), slice(len(v) // 2, None), 0, slice(None, None, 2)])
        op = r.choice(OPS)
        y, w = x[:], v.copy()
        y[place], w[place] = op(x[place]), op(v[place])
        pairs.append((y, w))
    elif len(pairs) > 2:
        pairs.pop(r.randrange(len(pairs)))


def run(seed: int, path: Path) -> None:
    r = random.Random(seed)
    pairs = [pair(r, path) for _ in range(r.randrange(1, 3))]
    if r.random() < 0.9:
        mx.eval([x for x, _ in pairs])
    for _ in range(r.randrange(1, 4)):
        for _ in range(r.randrange(2, 14)):
            extended(r, pairs)
        r.shuffle(pairs)
        pairs = pairs[: r.randrange(1, 8)]
        mx.eval([x for x, _ in pairs][: r.randrange(1, len(pairs) + 1)])
    for x, v in pairs:
        np.testing.assert_allclose(np.array(x), v, rtol=1e-4, atol=1e-4, err_msg=f"seed {seed}")


@pytest.mark.parametrize("seeds", [range(2000), pytest.param(range(2000, 20_000), marks=pytest.mark.exhaustive)])
def test_what_is_read_later_is_not_written_over(seeds: range, monkeypatch, tmp_path) -> None:
    """Treat all arrays as large, and every second program as heavy."""
    monkeypatch.setattr(policy, "SMALL_BYTES", 1)
    monkeypatch.setattr(policy, "CACHED_BYTES", 0)
    for seed in seeds:
        monkeypatch.setattr(policy, "LIGHT_SECONDS", seed % 2 * 1e-3)
        run(seed, tmp_path / "x.npy")


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 2000), marks=pytest.mark.exhaustive)])
def test_what_is_read_later_is_not_donated(seeds: range, xla_only, monkeypatch, tmp_path) -> None:
    """Run everything in XLA, and donate arrays of any size."""
    monkeypatch.setattr(policy, "SMALL_BYTES", 1)
    monkeypatch.setattr(policy, "LARGE_BYTES", 1)
    for seed in seeds:
        run(seed, tmp_path / "x.npy")


UPDATES: dict[str, tuple[Callable[..., Any], int]] = {
    "by elementwise ops": (lambda m, v, w: (m * 0.9 + w, v * 0.99 + w * w), 2),
    "within a call": (mx.compile(lambda m, v, w: (m * 0.9 + w, mx.square(v) + w)), 2),
    "read by a product as well": (lambda m, v, w: (m * 0.9 + w, v * 0.99 + v @ w), 1),
    "broadcast": (lambda m, v, w: (m * 0.9 + w, v[:1] * w), 1),
    "one output for two": (lambda m, v, w: ((m + v) * w,), 1),
}
"""Functions of a state m, v and a matrix, and how many of these three are donated if only m and v are unreachable."""


@pytest.mark.parametrize("kind", UPDATES)
def test_what_a_step_updates_is_donated(kind: str, xla_only, plans, monkeypatch) -> None:
    monkeypatch.setattr(policy, "LARGE_BYTES", 1 << 16)
    update, count = UPDATES[kind]
    w = mx.array(np.random.default_rng(0).uniform(0.5, 1, (256, 256)).astype(np.float32))
    for held in (False, True):
        state = [w + 1, w + 2]
        mx.eval(state)
        before = [np.array(x) for x in state]
        expected = update(*map(mx.array, before), w)
        mx.eval(expected)
        outputs, kept = update(*state, w), [*state] if held else []
        del state
        mx.eval(outputs)
        plan = plans[-1]
        assert len(plan.executable.donated if isinstance(plan, Call) else plan.donated) == (0 if held else count)
        assert all(np.allclose(x, y, rtol=1e-5) for x, y in zip(outputs, expected, strict=True))
        assert all(np.array_equal(x, y) for x, y in zip(kept, before, strict=False))


MADE = {
    "a number": lambda x: mx.full(x.shape, 2.0) * mx.array(1.5),
    "NumPy": mx.array,
    "computed": lambda x: mx.array(x) + 0,
    "a view": lambda x: mx.array(np.concatenate([x, x]))[x.shape[0] :],
    "reshaped": lambda x: (mx.array(x) + 0).reshape(-1).reshape(x.shape),
    "transposed": lambda x: mx.array(x.T).T,
}
PARTS = {
    "rows": lambda x: x[:50],
    "last rows": lambda x: x[50:],
    "every other": lambda x: x[::2],
    "all": lambda x: x[:],
    "flat": lambda x: x.reshape(-1),
    "columns": lambda x: x.T,
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("part", PARTS)
def test_the_whole_is_read_after_a_part(kind: str, part: str, monkeypatch) -> None:
    """Compare reads of other parts and of the whole, after a part was read as a view of the same memory."""
    monkeypatch.setattr(policy, "SMALL_BYTES", 1)
    values = np.random.default_rng(0).normal(size=(100, 300)).astype(np.float32)
    for other in PARTS.values():
        for light in (policy.LIGHT_SECONDS, 0.0):
            monkeypatch.setattr(policy, "LIGHT_SECONDS", light)
            x = MADE[kind](values)
            mx.eval(x)
            want = np.array(x)
            first = mx.negative(mx.abs(PARTS[part](x)))
            second = mx.square(other(x))
            third = other(x)
            third[:1] = mx.array(0.5)
            whole = x.sum(), x + 1
            del x
            mx.eval(first, second, third, whole)
            assert np.array_equal(np.array(first), -np.abs(PARTS[part](want)))
            assert np.array_equal(np.array(second), np.square(other(want)))
            assert np.array_equal(np.array(third)[1:], other(want)[1:])
            assert np.array_equal(np.array(whole[1]), want + 1)
            assert np.allclose(whole[0].item(), want.sum(), rtol=1e-4, atol=1e-2)
