"""Loops over arrays: the programs whose loops are divided among XLA's threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._compat.dialects import ir
from mxcompat._graph import policy
from mxcompat._graph.passes.loops import longest_loop
from mxcompat._graph.run.lowering import lower
from mxcompat._graph.run.options import FAST, compile_with, has_divided_loops

needs_threads = pytest.mark.skipif(os.cpu_count() == 1, reason="XLA divides loops among several threads")


def adamw(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), m, v


def lowered(f: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    return lower(jax.jit(f).trace(*[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]))


def estimate(f: Callable[..., Any], *shapes: tuple[int, ...]) -> float:
    return longest_loop(lowered(f, *shapes).compiler_ir("stablehlo"))


def test_a_loop_takes_as_long_as_it_has_elements_and_operations():
    square = (1024, 1024)
    one = estimate(jnp.negative, square)
    assert 1e-4 < one < 1e-3
    assert estimate(jnp.negative, (1024, 2048)) == pytest.approx(2 * one)
    assert one < estimate(lambda x: (x * x + x) * x, square) < 2 * one
    assert 10 * one < estimate(jnp.sin, square) < 30 * one


def test_what_is_reduced_is_a_loop_over_what_it_is_reduced_from():
    assert estimate(lambda x: jnp.sum(x * x), (1024, 8)) >= estimate(lambda x: x * x, (1024, 8))
    assert estimate(lambda x: jnp.sum(jnp.sin(x), axis=0), (64, 64)) >= estimate(jnp.sin, (64, 64))


def test_products_are_no_loops():
    assert estimate(jnp.matmul, (64, 64), (64, 64)) == 0.0


def test_loops_of_unknown_length_may_be_long():
    known = lowered(jnp.negative, (8,)).compiler_ir("stablehlo")
    with known.context:
        unknown = ir.Module.parse(str(known).replace("tensor<8xf32>", "tensor<?xf32>"))
        assert longest_loop(known) < longest_loop(unknown) == inf


@needs_threads
def test_short_loops_are_not_divided():
    shapes = [(256, 256)] * 4
    assert has_divided_loops(jax.jit(adamw).lower(*[jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]).compile())
    assert not has_divided_loops(compile_with(lowered(adamw, *shapes), FAST))


@needs_threads
def test_long_loops_are_divided():
    assert has_divided_loops(compile_with(lowered(jnp.sin, (1024, 256)), FAST))
    assert has_divided_loops(compile_with(lowered(jnp.add, (4096, 1024), (4096, 1024)), FAST))


@needs_threads
def test_bits_do_not_depend_on_it(monkeypatch):
    def f(x, y):
        z = jnp.tanh(x * y + x)
        return z, z.sum(0), z.sum(1), (z - z.max(1, keepdims=True)).mean()

    x, y = np.random.default_rng(0).normal(size=(2, 512, 512)).astype(np.float32)
    results = []
    for limit in (0.0, inf):
        monkeypatch.setattr(policy, "WAKE_SECONDS", limit)
        compiled = compile_with(lowered(f, x.shape, y.shape), FAST)
        assert has_divided_loops(compiled) == (limit == 0.0)
        results.append([np.asarray(r) for r in compiled(x, y)])
    for divided, whole in zip(*results, strict=True):
        np.testing.assert_array_equal(divided, whole)


@needs_threads
@pytest.mark.usefixtures("xla_only")
def test_what_is_divided_is_slept_for(plans):
    def executable(count):
        x = mx.zeros((count // 256, 256))
        mx.eval(x)
        for _ in range(2):
            mx.eval(mx.sin(x))
        plans[-1].executable.seconds = 0.0  # discard the measured time
        return plans[-1].executable

    assert executable(1 << 14).should_spin
    assert not executable(1 << 18).should_spin
