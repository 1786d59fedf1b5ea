"""One of two processes of `test_sharding`, with two devices each.

It trains over a mesh of all four devices, and prints the losses and the sum of the weights, which are equal in both.
"""

import sys

import jax
import numpy as np


def main(port, rank):
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, initialization_timeout=120)
    import mxcompat as mx
    from mxcompat import nn
    from mxcompat import optimizers as optim

    sharding = mx.ext.sharding
    assert dict(sharding.mesh().shape) == {"data": 2}
    mesh = sharding.mesh(devices="all")
    assert dict(mesh.shape) == {"data": 4}
    mx.random.seed(0)
    model = nn.Linear(8, 4)
    data = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    x = sharding.shard(mx.array(data), mesh, "data")
    y = sharding.shard(mx.random.randint(0, 4, (16,)), mesh, "data")
    model.update(sharding.shard(model.parameters(), mesh, sharding.fsdp(mesh, smallest=16)))
    optimizer = optim.Adam(1e-2)
    step = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))
    losses = []
    for _ in range(3):
        loss, grads = step(model, x, y)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state, loss)
        losses.append(loss.item())
    np.testing.assert_array_equal(np.array(x), data)  # both processes gather the sum
    assert not model.weight.sharding.is_fully_addressable
    assert len(sharding.bytes_per_device(model.weight)) == 2
    out = "losses", losses, float(np.abs(np.array(model.weight)).sum()), mx.random.uniform(shape=(2,)).tolist()
    jax.distributed.shutdown()
    sys.stdout.write(" ".join(map(str, out)) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
