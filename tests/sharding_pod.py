"""Compile a training step for 256 devices, without running it, in a process with that many virtual devices.

Prints the collectives and the size of the parameters, for each layout.
"""

import json
import sys

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import mxcompat as mx
import mxcompat.nn as nn
from mxcompat.ext import sharding
from mxcompat.utils import tree_flatten, tree_map, tree_unflatten

WIDTH, HIDDEN, BATCH = 1024, 4096, 1024


class MLP(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self._mesh = mesh
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def __call__(self, x):
        hidden = nn.gelu(self.up(x))
        if self._mesh is not None:
            hidden = sharding.shard(hidden, self._mesh, "data")
        return self.down(hidden)


def column_then_row(path, x):
    return {"up.weight": PartitionSpec("model"), "down.weight": PartitionSpec(None, "model")}[path]


def compiled(mesh, spec_of, with_mesh=False):
    """Compile a step of gradient descent as a JAX function of abstract parameters.

    With `with_mesh`, the model tells XLA that values between its layers are sharded as the batch is.
    """
    model = MLP(mesh if with_mesh else None)

    def step(parameters, x, y):
        model.update(tree_unflatten(list(mx.ext.from_jax(parameters).items())))
        loss = lambda model, x, y: nn.losses.mse_loss(model(x), y)  # noqa: E731
        value, gradients = nn.value_and_grad(model, loss)(model, mx.array(x), mx.array(y))
        updated = tree_map(lambda p, g: p - 0.1 * g, model.parameters(), gradients)
        return mx.ext.to_jax((value, dict(tree_flatten(updated))))

    def spec(shape, of):
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, of))

    parameters = {path: spec(x.shape, spec_of(path, x)) for path, x in tree_flatten(model.parameters())}
    data = spec((BATCH, WIDTH), PartitionSpec("data"))
    layout = {path: x.sharding for path, x in parameters.items()}
    return jax.jit(step, out_shardings=(None, layout)).lower(parameters, data, data).compile()


def main():
    assert len(jax.devices()) == 256
    everywhere = lambda path, x: PartitionSpec()  # noqa: E731
    data, both = sharding.mesh(data=256), sharding.mesh(data=64, model=4)
    layouts = {
        "data parallel": compiled(data, everywhere),
        "fully sharded": compiled(data, sharding.fsdp(data)),
        "fully sharded, told": compiled(data, sharding.fsdp(data), with_mesh=True),
        "tensor parallel": compiled(both, column_then_row),
    }
    collectives = {name: [list(c) for c in sharding.collectives(step)] for name, step in layouts.items()}
    json.dump({"parameters": 2 * 4 * WIDTH * HIDDEN, "collectives": collectives}, sys.stdout)


if __name__ == "__main__":
    main()
