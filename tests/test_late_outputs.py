"""Outputs that are read late or never do not retain the other outputs of their node, as a loss its gradients."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from mxcompat._graph.run import background
from mxcompat.core import array
from tests.nn_oracle import OURS, REAL
from tests.oracle import check, ours, real

WEIGHT = 256 * 256 * 4


def eager(mx: Any, lib: Any) -> Any:
    """Return a training step whose loss is not evaluated."""
    model, optimizer = lib.nn.Linear(256, 256, bias=False), lib.optim.SGD(0.1)
    gradient = lib.nn.value_and_grad(model, lambda x: (model(x) ** 2).mean())

    def step(x: Any) -> Any:
        loss, gradients = gradient(x)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        return loss

    return step


def compiled(mx: Any, lib: Any) -> Any:
    model, optimizer = lib.nn.Linear(256, 256, bias=False), lib.optim.SGD(0.1)
    gradient = lib.nn.value_and_grad(model, lambda x: (model(x) ** 2).mean())
    state = [model.state, optimizer.state]

    def step(x: Any) -> Any:
        loss, gradients = gradient(x)
        optimizer.update(model, gradients)
        return loss

    run = mx.compile(step, inputs=state, outputs=state)

    def stepped(x: Any) -> Any:
        loss = run(x)
        mx.eval(state)
        return loss

    return stepped


def products(mx: Any, lib: Any) -> Any:
    def step(x: Any) -> Any:
        weight = mx.ones((256, 256)) * x[0, 0]
        _, (tangent,) = mx.jvp(lambda w: (w * w).sum(), [weight], [weight])
        outputs, (pulled,) = mx.vjp(lambda w: (w * w).sum(), [weight], [tangent])
        mx.eval(pulled)
        return outputs[0]

    return step


def grown(mx: Any, lib: Any, make: Any, look: Any) -> tuple[int, list[tuple[int, ...]]]:
    """Return the growth of memory, in weights, over ten steps whose losses are kept."""
    step, x = make(mx, lib), mx.ones((4, 256)) * 0.01
    losses = [step(x) for _ in range(3)]
    background.settle()
    gc.collect()
    before = mx.get_active_memory()
    for _ in range(10):
        losses.append(step(x))
        look(losses[-1])
    background.settle()  # a compile that began during a step may hold its arrays
    gc.collect()
    kept = (mx.get_active_memory() - before) // WEIGHT
    return kept, [loss.shape for loss in losses]


@pytest.mark.parametrize("make", [eager, compiled, products])
@pytest.mark.parametrize("look", [lambda loss: None, lambda loss: loss.item()], ids=["pending", "looked at"])
def test_losses_that_are_kept(make: Any, look: Any) -> None:
    """Assert that kept losses retain no memory. In MLX a pending loss may retain its operands."""
    (in_mlx, want), (kept, got) = [grown(mx, lib, make, look) for mx, lib in ((real, REAL), (ours, OURS))]
    assert got == want
    assert kept == 0 <= in_mlx


def test_values_that_come_with_the_others() -> None:
    def program(mx: Any, x: array) -> Any:
        seen = []
        value, gradient = mx.value_and_grad(lambda a: ((a * a).sum(), a * 3)[0])(x)
        mx.eval(gradient)
        y = value + 1
        pair = mx.compile(lambda a: (a + 1, {"b": a * 2}))(x)
        mx.eval(pair[1])
        nested = mx.grad(lambda a: (mx.eval(mx.value_and_grad(lambda b: (b * b).sum())(a)[1]), (a * a).sum())[1])(x)
        seen += [value, y, pair[0] * value, nested]
        return seen

    check(program, np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("layer", ["Linear", "GRU", "MultiHeadAttention", "Transformer"])
def test_a_module_made_and_dropped_leaves_memory_where_it_was(layer: str) -> None:
    """Assert that a dropped module frees its memory, with the random keys that it drew."""
    gc.collect()  # frees the garbage of earlier tests
    ours.eval(ours.random.uniform(), *ours.random.state)
    before = ours.get_active_memory()
    sizes = {"MultiHeadAttention": (8, 2), "Transformer": (8, 2, 1, 1)}.get(layer, (8, 8))
    model = getattr(OURS.nn, layer)(*sizes)
    ours.eval(model.parameters())
    assert ours.get_active_memory() - before == sum(p.nbytes for _, p in OURS.utils.tree_flatten(model.parameters()))
    del model
    assert ours.get_active_memory() == before


def test_draws_one_by_one_and_together() -> None:
    """Assert that random keys do not depend on which numbers are evaluated or dropped, and when."""

    def program(mx: Any) -> Any:
        mx.random.seed(3)
        kept = []
        for k in range(12):
            x = mx.random.uniform(shape=(2,))
            if k % 3 == 0:
                kept.append(x)
            if k % 5 == 4:
                mx.eval(kept[-1])
            if k == 7:
                mx.eval(mx.random.state)
            if k == 9:
                before = mx.random.uniform()
        return kept, before, mx.random.uniform()

    check(program)


@pytest.mark.parametrize("mode", ["reproducible", "host_disabled"])
@pytest.mark.parametrize("op", ["subtract", "matmul", "outer", "divide", "power"])
def test_an_op_that_reads_one_late_has_its_operands_in_order(op: str, mode: str) -> None:
    """Assert that operands keep their order if one is resolved late, at the first call and at later calls of the
    executable."""
    import mxcompat.core as mx
    from mxcompat import ext

    function = getattr(mx, op)
    p, q = mx.arange(1.0, 10.0).reshape(3, 3), mx.full((3, 3), 5.0)
    if op == "outer":
        p, q = p[0], q[0]
    mx.eval(p, q)
    a, b = np.array(p), np.array(q)
    expected, turned = getattr(np, op)(a, b), getattr(np, op)(b, a)
    with ext.reproducible() if mode == "reproducible" else ext.debug.host_disabled():
        for _ in range(3):
            value, gradient = mx.value_and_grad(lambda x: (x * x).sum() / 2)(p)  # the gradient equals p
            result = function(gradient, q)
            del gradient
            mx.eval(value)
            mx.eval(result)
            np.testing.assert_allclose(np.array(result), expected, rtol=1e-5)
            np.testing.assert_allclose(np.array(function(q, p)), turned, rtol=1e-5)
