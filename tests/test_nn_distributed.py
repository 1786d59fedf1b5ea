"""The parameters and messages of each rank of a group. One process plays one rank, with mocked communication."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nn_oracle import check_on, plain
from tests.oracle import ours, real


class Group:
    """A rank of a group of two."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def size(self) -> int:
        return 2

    def rank(self) -> int:
        return self._rank


SLICES = [
    lambda mx, nn, d, g: d.shard_linear(nn.Linear(4, 6), "all-to-sharded", group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.Linear(4, 6), "sharded-to-all", group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.Linear(4, 12, bias=False), "all-to-sharded", segments=3, group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.Linear(4, 8), "all-to-sharded", segments=[4], group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.Linear(4, 12), "all-to-sharded", segments=[0.5], group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.QuantizedLinear(128, 8), "all-to-sharded", group=g),
    lambda mx, nn, d, g: d.shard_linear(nn.QuantizedLinear(128, 8), "sharded-to-all", group=g),
    lambda mx, nn, d, g: nn.AllToShardedLinear(4, 6, group=g),
    lambda mx, nn, d, g: nn.ShardedToAllLinear(4, 6, group=g),
    lambda mx, nn, d, g: nn.QuantizedAllToShardedLinear(64, 6, group=g),
    lambda mx, nn, d, g: nn.QuantizedShardedToAllLinear(128, 6, mode="mxfp4", group_size=32, group=g),
    lambda mx, nn, d, g: nn.fully_shard(nn.Linear(4, 6), group=g),
    lambda mx, nn, d, g: nn.fully_shard(nn.ReLU(), group=g),
    lambda mx, nn, d, g: nn.fully_shard(nn.fully_shard(nn.Linear(4, 6), group=g), group=g),
    lambda mx, nn, d, g: nn.fully_shard(nn.Sequential(nn.fully_shard(nn.Linear(2, 2), group=g), nn.PReLU(2)), group=g),
    lambda mx, nn, d, g: nn.fully_shard(nn.Linear(4, 5), group=g),
    lambda mx, nn, d, g: nn.AllToShardedLinear(4, 5, group=g),
    lambda mx, nn, d, g: nn.ShardedToAllLinear(5, 4, group=g),
    lambda mx, nn, d, g: nn.QuantizedAllToShardedLinear(64, 5, group=g),
    lambda mx, nn, d, g: nn.QuantizedShardedToAllLinear(65, 4, group=g),
]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("make", SLICES)
def test_slices(make, rank: int) -> None:
    def run(mx, lib):
        mx.random.seed(0)
        layer = make(mx, lib.nn, lib.nn.layers.distributed, Group(rank))
        return repr(layer), plain(layer.parameters()), sorted(layer._no_grad), mx.random.uniform()

    check_on(run)


def test_shard_inplace_with_a_function() -> None:
    def run(mx, lib):
        mx.random.seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(4, 6), lib.nn.Linear(6, 2))
        seen = []

        def sharding(path, weight):
            seen.append((path, weight.shape))
            return {"layers.0.weight": 1, "layers.0.bias": (0, 3)}.get(path)

        lib.nn.layers.distributed.shard_inplace(model, sharding, group=Group(1))
        return seen, plain(model.parameters())

    check_on(run)


@pytest.mark.parametrize("message", [0, 30, 80, 10_000])
def test_average_gradients_sends_few_messages(monkeypatch, message: int) -> None:
    """Assert that both libraries send the same arrays in the same order."""
    gradients = {"a": np.ones((2, 3), np.float32), "b": [np.arange(5, dtype=np.float32), np.float32(2)]}

    def run(mx, lib):
        sent = []

        def all_sum(x, *, group=None, stream=None):
            sent.append(tuple(x.shape))
            return x * 2 + 1

        monkeypatch.setattr(mx.distributed, "all_sum", all_sum)
        tree = lib.utils.tree_map(mx.array, gradients)
        mixed = {"x": mx.ones(2), "y": mx.ones(2, dtype=mx.float16)}
        half = {"x": mx.ones(2, dtype=mx.float16)}
        return [
            lib.nn.average_gradients(tree, Group(0), message),
            lib.nn.average_gradients(mixed, Group(0), message),
            lib.nn.utils.clip_grad_norm_sharded(tree, 1.5, Group(0)),
            lib.nn.utils.clip_grad_norm_sharded(half, 1.5, Group(0)),
            sent,
        ]

    check_on(run)


def test_fully_sharded_module_gathers_forward_and_scatters_backward(monkeypatch) -> None:
    """Check a fully sharded module; the mock assumes equal slices on both ranks."""
    for mx in (real, ours):
        monkeypatch.setattr(mx.distributed, "all_gather", lambda x, *, group=None, mx=mx: mx.concatenate([x, x]))
        monkeypatch.setattr(mx.distributed, "sum_scatter", lambda x, *, group=None: x[:1] + x[1:])

    def run(mx, lib, x):
        mx.random.seed(0)
        layer = lib.nn.fully_shard(lib.nn.Linear(3, 4), group=Group(0))
        f = lib.nn.value_and_grad(layer, lambda x: mx.sin(layer(x)).sum())
        return f(x), layer(x), plain(layer.parameters())

    check_on(run, np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
