"""Jobs that the distributed tests run in a group of processes.

Each rank runs the job, which returns a tree of arrays and other values, or raises. Real MLX runs it too, unless the
job is in `ours_only`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map

ROOT = Path(__file__).parents[2]
D = mx.distributed
JOBS: dict[str, Callable[[Any], Any]] = {}
OURS_ONLY: dict[str, str] = {}
"""Jobs that real MLX's ring backend cannot run, and the reasons."""


def job(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    JOBS[function.__name__] = function
    return function


def ours_only(reason: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def mark(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        OURS_ONLY[function.__name__] = reason
        return job(function)

    return mark


def error(function: Callable[[], Any]) -> tuple[str, str]:
    try:
        mx.eval(function())
    except Exception as caught:
        return type(caught).__name__, str(caught)
    return "nothing", ""


def evaluated(*results: Any) -> Any:
    """Evaluate the results before any further communication, because real MLX may mix up concurrent messages."""
    mx.eval(results)
    return results[0] if len(results) == 1 else results


def own(group: Any) -> mx.array:
    return mx.array([[1.0, -2.0], [3.0, 4.0]]) * (group.rank() + 1)


REDUCTIONS = ("all_sum", "all_max", "all_min")
DTYPES = (
    "bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
    "float32", "complex64",
)  # fmt: skip


@job
def every_dtype(group: Any) -> Any:
    values = mx.array([[0, 1], [2, 3]]) * (group.rank() + 1)
    return {
        (name, dtype): evaluated(getattr(D, name)(values.astype(getattr(mx, dtype)), group=group))
        for name in (*REDUCTIONS, "all_gather")
        for dtype in DTYPES
    }


@job
def complex_extremes(group: Any) -> Any:
    x = mx.array([1 + 2j, 3 - 1j, 0j]) * (1 - 2 * group.rank())
    return evaluated(D.all_max(x)), evaluated(D.all_min(x))


@job
def scalars_and_others(group: Any) -> Any:
    rank = group.rank()
    values = [
        mx.array(rank + 0.5), 3, True, 2.5 * rank, np.arange(3), mx.zeros((0, 2)), mx.array([200], dtype=mx.uint8),
        b"ab", mx.arange(6).reshape(2, 3).T, mx.ones((1, 2, 3)),
    ]  # fmt: skip
    return [[evaluated(f(x)) for x in values] for f in (D.all_sum, D.all_max, D.all_gather)]


@job
def refusals(group: Any) -> Any:
    x, size = mx.ones(3), group.size()
    return [
        error(lambda: D.all_sum([1, 2])), error(lambda: D.send(x, size)), error(lambda: D.send(x, -1)),
        error(lambda: D.recv((2,), mx.float32, size)), error(lambda: D.recv_like(x, -1)),
        error(lambda: D.sum_scatter(x)), error(lambda: D.sum_scatter(mx.array(1))), error(lambda: group.split(0)),
        error(lambda: D.send(x, group.rank()))[0],
    ]  # fmt: skip


@job
def derivatives(group: Any) -> Any:
    x, c = own(group), mx.array([[3.0, 5.0], [7.0, 11.0]])
    results = []
    for name in REDUCTIONS:
        f = getattr(D, name)
        results += [
            evaluated(*mx.value_and_grad(lambda x, f=f: (f(x) * c).sum())(x)),
            evaluated(*mx.value_and_grad(lambda x, f=f: (f(x * x) * mx.sin(x)).sum())(x)),
            evaluated(*mx.vjp(lambda x, f=f: f(mx.exp(x)), [x], [c])),
            evaluated(*mx.jvp(lambda x, f=f: f(x * x), [x], [c * (group.rank() + 1)])),
            evaluated(mx.grad(mx.grad(lambda x, f=f: (f(x * x) * x).sum()))(mx.array(2.0))),
        ]
    weights = mx.arange(4.0 * group.size()).reshape(-1, 2)
    results += [
        evaluated(*mx.value_and_grad(lambda x: (D.all_gather(x * x) * weights).sum())(x)),
        evaluated(*mx.jvp(lambda x: D.all_gather(x * x), [x], [c * (group.rank() + 1)])),
        evaluated(mx.grad(lambda x: (D.all_gather(x) * weights[0, 1]).sum())(mx.array(2.0))),
    ]
    return results


@job
def of_what_a_transform_has_left(group: Any) -> Any:
    """Run collectives on ranks that reach the same values in different ways: they run in order of creation."""
    kept: list[Any] = []

    @mx.custom_function
    def doubled(x: mx.array) -> mx.array:
        kept.append(x)
        return x * 2

    @doubled.vjp
    def rule(primals: mx.array, cotangents: mx.array, _: mx.array) -> mx.array:
        kept.append(cotangents)
        return cotangents * 2

    if group.rank() == 0:
        mx.grad(lambda x: doubled(x).sum())(own(group))
    else:
        kept += [own(group), mx.ones((2, 2))]
    sums = [D.all_sum(value[:1], group=group) for value in kept]
    last = D.all_sum(mx.array([1.0, 2.0, 3.0]), group=group)
    return [evaluated(value) for value in (last, *reversed(sums))]


@job
def under_transforms(group: Any) -> Any:
    x = own(group)

    def layer(x: mx.array) -> mx.array:
        return mx.tanh(D.all_sum(mx.tanh(x)) + x)

    compiled = mx.compile(layer)
    return [
        evaluated(compiled(x)),
        evaluated(compiled(x + 1)),
        evaluated(mx.compile(lambda x: D.all_gather(layer(x)) * 2)(x)),
        evaluated(mx.grad(lambda x: mx.checkpoint(layer)(x).sum())(x)),
        evaluated(mx.grad(lambda x: compiled(x).sum())(x)),
        evaluated(mx.compile(mx.grad(lambda x: layer(layer(x)).sum()))(x)),
        evaluated(mx.vmap(layer)(x)),
        evaluated(mx.vmap(layer, in_axes=1)(x)),
        evaluated(mx.vmap(lambda x, y: D.all_sum(x) + y, in_axes=(0, None), out_axes=1)(x, x[0])),
        evaluated(mx.grad(lambda x: mx.vmap(layer)(x).sum())(x)),
        evaluated(mx.vmap(mx.grad(lambda x: layer(x).sum()))(x)),
    ]


@job
def custom_functions(group: Any) -> Any:
    @mx.custom_function
    def f(x: mx.array) -> mx.array:
        return D.all_sum(x) * 2

    @f.vjp
    def f_vjp(x: mx.array, cotangent: mx.array, _: Any) -> mx.array:
        return D.all_sum(cotangent) + x

    @mx.custom_function
    def summed_behind(x: mx.array) -> mx.array:
        return x

    @summed_behind.vjp
    def summed_behind_vjp(x: mx.array, cotangent: mx.array, _: Any) -> mx.array:
        return D.all_sum(cotangent)

    x = own(group)
    return [
        evaluated(f(x)),
        evaluated(mx.grad(lambda x: (f(x * 2) * x).sum())(x)),
        evaluated(mx.grad(lambda x: (summed_behind(x) * x).sum())(x)),
        evaluated(mx.compile(lambda x: f(x) + 1)(x)),
        evaluated(mx.compile(mx.grad(lambda x: (summed_behind(x * x) * x).sum()))(x)),
    ]


@job
def values_read_on_the_way(group: Any) -> Any:
    seen = []

    def loss(x: mx.array) -> mx.array:
        total = D.all_sum(x).sum()
        if group.rank() == 0:
            seen.append(total.item())
        return (total * x).sum()

    return mx.value_and_grad(loss)(own(group)), seen


@ours_only("real MLX pairs what comes first, and sums what does not belong together")
def in_the_order_of_creation(group: Any) -> Any:
    """Run collectives in order of creation on every rank, although ranks evaluate different results first."""
    x, size = mx.ones((2,)) * (group.rank() + 1), group.size()
    first, second, third = D.all_sum(x), D.all_sum(x * 10), D.all_gather(x * 100)
    dropped = D.all_sum(x * 1000)
    del dropped
    for y in (first, second, third) if group.rank() else (third, first, second):
        mx.eval(y)
    total = size * (size + 1) / 2
    assert first.tolist() == [total] * 2
    assert second.tolist() == [10 * total] * 2
    assert third.tolist() == [100.0 * (r + 1) for r in range(size) for _ in range(2)]


@job
def hundreds_in_flight(group: Any) -> Any:
    x = own(group)
    for k in range(120):
        x = D.all_sum(x * 0.5) if k % 3 else D.all_gather(x)[:2] * 0.5
    return x


@job
def from_one_to_the_next(group: Any) -> Any:
    rank, size = group.rank(), group.size()
    x = own(group)
    if rank % 2:
        got = D.recv_like(x, rank - 1)
        mx.eval(got)
        sent = D.send(got * 10, rank - 1)
    else:
        sent = D.send(x, (rank + 1) % size)
        mx.eval(sent)
        got = D.recv(x.shape, x.dtype, (rank + 1) % size)
    kept = mx.depends(x, [sent, got])
    return got, sent, kept


@job
def all_send_before_any_receives(group: Any) -> Any:
    """Send on every rank before any receive: small messages are buffered. (With XLA's collectives, each `send`
    blocks.)"""
    rank, size = group.rank(), group.size()
    x = own(group)
    results = []
    for k in range(3):
        receives_first = os.environ.get("COLLECTIVES") == "by XLA" and rank % 2
        if not receives_first:
            evaluated(D.send(x * k, (rank + 1) % size))
        results.append(evaluated(D.recv_like(x, (rank - 1) % size)))
        if receives_first:
            evaluated(D.send(x * k, (rank + 1) % size))
    return results


@job
def sent_within_transforms(group: Any) -> Any:
    x = own(group)
    if group.rank() % 2 == 0:
        sends = mx.compile(lambda x: D.send(mx.exp(x), group.rank() + 1) * 2)
        return evaluated(sends(x)), evaluated(sends(x + 1))
    receives = mx.compile(lambda x: D.recv_like(x, group.rank() - 1) + x)
    return evaluated(receives(x)), evaluated(receives(x))


@ours_only("real MLX receives one entry of a batch, and leaves the others for whoever comes next")
def sent_in_a_batch(group: Any) -> Any:
    x = own(group)
    if group.rank() % 2 == 0:
        mx.eval(mx.vmap(lambda x: D.send(x, group.rank() + 1))(x))
    else:
        sent = np.array(x) * group.rank() / (group.rank() + 1)
        got = mx.vmap(lambda x: D.recv_like(x, group.rank() - 1) + x)(x)
        np.testing.assert_allclose(np.array(got), sent + np.array(x), rtol=1e-6)


@job
def gradient_of_what_is_received(group: Any) -> Any:
    x = own(group)
    if group.rank() % 2 == 0:
        return D.send(x, group.rank() + 1)
    return mx.grad(lambda x: (D.recv_like(x, group.rank() - 1) * x).sum())(x)


@ours_only("ring: sum_scatter not supported")
def scattered(group: Any) -> Any:
    rank, size = group.rank(), group.size()
    x = mx.arange(4.0 * size).reshape(2 * size, 2) * (rank + 1)
    total = sum(range(1, size + 1))
    mine = slice(2 * rank, 2 * rank + 2)
    whole = np.arange(4.0 * size, dtype=np.float32).reshape(2 * size, 2) * total
    np.testing.assert_array_equal(np.array(D.sum_scatter(x)), whole[mine])
    ints = D.sum_scatter(x.astype(mx.int64))
    assert ints.dtype == mx.int64
    np.testing.assert_array_equal(np.array(ints), whole[mine].astype(np.int64))
    gradient = np.zeros((2 * size, 2), np.float32)
    gradient[mine] = 1
    np.testing.assert_array_equal(np.array(mx.grad(lambda x: D.sum_scatter(x).sum())(x)), gradient)
    batched = mx.vmap(D.sum_scatter)(mx.stack([x, x * 10]))
    np.testing.assert_array_equal(np.array(batched), np.stack([whole[mine], whole[mine] * 10]))
    _, tangents = mx.jvp(D.sum_scatter, [x], [mx.ones_like(x)])
    np.testing.assert_array_equal(np.array(tangents[0]), np.full((2, 2), size, np.float32))


@ours_only("MLX's vmap of all_gather joins the entries of the batch")
def gathered_in_a_batch(group: Any) -> Any:
    x = own(group)
    parts = [np.array(x) * (r + 1) / (group.rank() + 1) for r in range(group.size())]
    got = mx.vmap(D.all_gather)(x)
    np.testing.assert_allclose(np.array(got), np.concatenate(parts, axis=1))
    got = mx.vmap(D.all_gather, in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(np.array(got), np.concatenate(parts, axis=0))
    got = mx.vmap(D.all_gather)(x[0])
    np.testing.assert_allclose(np.array(got), np.stack([p[0] for p in parts], axis=1))


@ours_only("real MLX's derivative of send is not implemented")
def gradient_of_what_is_sent(group: Any) -> Any:
    x = own(group)
    if group.rank() % 2 == 0:
        g = mx.grad(lambda x: (D.send(x * x, group.rank() + 1) * 3).sum())(x)
        np.testing.assert_allclose(np.array(g), 6 * np.array(x))
    else:
        mx.eval(D.recv_like(x, group.rank() - 1))


@ours_only("a ring group cannot be split")
def split_groups(group: Any) -> Any:
    whole = D.init()
    rank, size = whole.rank(), whole.size()
    half = whole.split(rank % 2)
    assert (half.rank(), half.size()) == (rank // 2, size // 2)
    reverse = whole.split(0, size - rank)
    assert reverse.rank() == size - 1 - rank
    total = D.all_sum(mx.array(rank), group=half)
    gathered = D.all_gather(mx.array(rank), group=reverse)
    mx.eval(gathered, total)
    assert total.item() == sum(range(rank % 2, size, 2))
    assert gathered.tolist() == [*range(size)][::-1]
    if half.size() > 1:
        assert half.split(half.rank()).size() == 1
    if rank == 0:  # a rank outside the group does not call the collective
        mx.eval(D.send(mx.ones(2), size - 1))
    elif rank == size - 1:
        assert D.recv((2,), mx.float32, 0).tolist() == [1, 1]


def mlp() -> Any:
    mx.random.seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(count: int) -> tuple[mx.array, mx.array]:
    rng = np.random.default_rng(0)
    return mx.array(rng.standard_normal((count, 8), np.float32)), mx.array(rng.standard_normal((count, 4), np.float32))


def squared(model: Any, x: mx.array, y: mx.array) -> mx.array:
    return mx.mean((model(x) - y) ** 2)


@job
def averaged_gradients(group: Any) -> Any:
    x, y = (a[group.rank() :: group.size()] for a in batch(4 * group.size()))
    model = mlp()
    loss, gradients = nn.value_and_grad(model, lambda x, y: squared(model, x, y))(x, y)
    halves = {"a": gradients["layers"][0]["weight"].astype(mx.float16)}
    mx.eval(loss, gradients)

    def copy(tree: Any) -> Any:
        """Return a copy of the tree, because real MLX overwrites the operands of its sums."""
        return evaluated(tree_map(lambda g: g + 0, tree))

    return (
        loss,
        [evaluated(nn.average_gradients(copy(gradients), group, size)) for size in (32 << 20, 0, 200)],
        evaluated(nn.average_gradients(halves, group)),
    )


@job
def clipped_by_the_norm_of_all(group: Any) -> Any:
    x, y = (a[group.rank() :: group.size()] for a in batch(4 * group.size()))
    model = mlp()
    _, gradients = nn.value_and_grad(model, lambda x, y: squared(model, x, y))(x, y)
    mx.eval(gradients)
    return evaluated(*nn.utils.clip_grad_norm_sharded(gradients, 0.1, group))


@job
def sharded_layers(group: Any) -> Any:
    shard = nn.layers.distributed
    mx.random.seed(0)
    first, second = nn.Linear(8, 16), nn.Linear(16, 8)
    quantized = nn.QuantizedLinear.from_linear(nn.Linear(128, 64), group_size=32)
    back = nn.QuantizedLinear.from_linear(nn.Linear(64 * group.size(), 8), group_size=32)
    wide = shard.shard_linear(first, "all-to-sharded", group=group)
    narrow = shard.shard_linear(second, "sharded-to-all", group=group)
    model = nn.Sequential(wide, nn.ReLU(), narrow)
    x, _ = batch(3)
    value = evaluated(*nn.value_and_grad(model, lambda x: (model(x) ** 2).sum())(x))
    wide_q = shard.shard_linear(quantized, "all-to-sharded", group=group)
    narrow_q = shard.shard_linear(back, "sharded-to-all", group=group)
    z = mx.random.normal((2, 128))
    w = mx.random.normal((2, 64 * group.size()))[:, 64 * group.rank() : 64 * (group.rank() + 1)]
    in_place = nn.Linear(8, 16)
    shard.shard_inplace(in_place, "all-to-sharded", segments=2, group=group)
    gradient_of_input = evaluated(mx.grad(lambda x: (model(x) ** 2).sum())(x))
    return value, evaluated(model(x)), wide_q(z), evaluated(narrow_q(w)), dict(in_place.parameters()), gradient_of_input


@ours_only("ring: sum_scatter not supported")
def fully_sharded(group: Any) -> Any:
    """Compare a fully sharded model with the whole model on the whole batch."""
    size, rank = group.size(), group.rank()
    x, y = batch(4 * size)
    whole = mlp()
    loss, gradients = nn.value_and_grad(whole, lambda x, y: squared(whole, x, y))(x, y)
    model = nn.fully_shard(mlp(), group=group)
    mine = slice(4 * rank, 4 * rank + 4)
    part, part_gradients = nn.value_and_grad(model, lambda x, y: squared(model, x, y))(x[mine], y[mine])
    np.testing.assert_allclose((D.all_sum(part) / size).item(), loss.item(), rtol=1e-5)
    part_gradients = dict(tree_flatten(part_gradients))
    for (_, gradient), (_, want) in zip(sorted(part_gradients.items()), sorted(tree_flatten(gradients)), strict=True):
        rows = want.shape[0] // size
        shard = np.array(want)[rows * rank : rows * (rank + 1)]
        np.testing.assert_allclose(np.array(gradient).reshape(shard.shape), shard, rtol=1e-4, atol=1e-6)
    _, norm = nn.utils.clip_grad_norm_sharded(part_gradients, 1e9, group)
    want = mx.sqrt(sum(g.square().sum() for _, g in tree_flatten(gradients)))
    np.testing.assert_allclose(norm.item(), want.item(), rtol=1e-4)


def digits() -> Any:
    sys.path.insert(0, str(ROOT / "examples"))
    import digits

    return digits


@job
def digits_in_parallel(group: Any) -> Any:
    """Return the weights after some steps, trained by the group on parts of the batch and by one rank on all of it."""
    lib = digits()
    mx.random.seed(3)
    (x, y), _ = lib.data()
    start = lib.init([64, 32, 10])
    gradient = mx.value_and_grad(lib.loss_fn)

    def train(rank: int, size: int) -> Any:
        layers = tree_map(lambda p: p, start)
        moments = [{k: (mx.zeros_like(v), mx.zeros_like(v)) for k, v in layer.items()} for layer in layers]
        for step in range(1, 9):
            rows = slice(64 * step + rank, 64 * (step + 1), size)
            _, gradients = gradient(layers, x[rows], y[rows])
            if size > 1:
                gradients = nn.average_gradients(gradients, group)
            lib.adam(layers, gradients, moments, step, 2e-3)
            mx.eval(layers, moments)
        return layers

    together, alone = train(group.rank(), group.size()), train(0, 1)
    for (_, a), (_, b) in zip(tree_flatten(together), tree_flatten(alone), strict=True):
        # a step of Adam changes weights by 2e-3
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-3, atol=2e-4)
    return mx.concatenate([v.reshape(-1) for _, v in tree_flatten(together)])


@job
def a_compiled_training_step(group: Any) -> Any:
    model, optimizer = mlp(), optim.SGD(learning_rate=0.1, momentum=0.9)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    x, y = (a[group.rank() :: group.size()] for a in batch(4 * group.size()))

    def step(x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, lambda x, y: squared(model, x, y))(x, y)
        optimizer.update(model, nn.average_gradients(gradients, group))
        return loss

    compiled = mx.compile(step, inputs=state, outputs=state)
    losses = []
    for _ in range(4):
        losses.append(compiled(x, y))
        mx.eval(state)
    return losses, dict(tree_flatten(model.parameters()))


def tiny(name: str, **different: Any) -> Any:
    sys.path.insert(0, str(ROOT / "tests"))
    from mlx_lm_made import model

    return model(name, **different)


def tokens(model: Any, count: int = 6) -> list[int]:
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(model)
    inputs = mx.array([[5, 17, 3, 44]])
    ids = []
    for _ in range(count):
        logits = model(inputs, cache=cache)[:, -1]
        inputs = mx.argmax(logits, axis=-1)[:, None]
        ids.append(inputs.item())
    return ids


@job
def llama_tensor_parallel(group: Any) -> Any:
    settings = {"head_dim": 32, "num_attention_heads": 4, "num_key_value_heads": 4}
    alone = tokens(tiny("llama", **settings))
    sharded = tiny("llama", **settings)
    sharded.shard(group)
    result = tokens(sharded)
    assert result == alone
    return result


@job
def pipelined(group: Any) -> Any:
    layers = {"num_hidden_layers": 2 * group.size()}
    return as_alone(tiny("qwen2", **layers), tiny("qwen2", **layers), group)


@job
def deepseek_pipelined(group: Any) -> Any:
    """Run a pipeline whose layers do not divide evenly, the first of them without experts."""
    layers = {"num_hidden_layers": 2 * group.size() + 1, "first_k_dense_replace": 1}
    return as_alone(tiny("deepseek_v3", **layers), tiny("deepseek_v3", **layers), group)


def as_alone(model: Any, pipeline: Any, group: Any) -> Any:
    """Return the tokens of a model whose layers are divided among the ranks, and of one with all layers."""
    from mlx_lm.generate import generate_step

    def generated(model: Any) -> list[int]:
        """Return the generated tokens; the prompt is read in parts, and each next token is computed ahead."""
        prompt = mx.array([5, 17, 3, 44, 8, 21, 2])
        return [token for token, _ in generate_step(prompt, model, max_tokens=8, prefill_step_size=3)]

    pipeline.model.pipeline(group)
    result = tokens(pipeline), generated(pipeline)
    assert result == (tokens(model), generated(model))
    return result
