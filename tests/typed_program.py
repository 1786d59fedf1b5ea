"""A user's program for type checkers, which must accept it and infer the stated types."""

from typing import assert_type

import mxcompat as mx
import mxcompat.nn as nn
import mxcompat.optimizers as optim
from mxcompat import core
from mxcompat.utils import tree_map


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(3, width)

    def __call__(self, x: mx.array) -> mx.array:
        return mx.maximum(self.layer(x), 0.0).sum(axis=-1)


def loss(net: Net, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.mse_loss(net(x), y)


net = Net(4)
optimizer = optim.Adam(learning_rate=1e-3)
step = nn.value_and_grad(net, loss)
x = mx.random.normal((8, 3))
for _ in range(3):
    value, grads = step(net, x, x[:, 0])
    optimizer.update(net, grads)
    mx.eval(net.parameters(), optimizer.state)

assert_type(x + 1, core.array)
assert_type(2.0 * x @ x.T, core.array)
assert_type(x.shape, tuple[int, ...])
halves = tree_map(lambda p: p.astype(mx.float16), net.parameters())
u, s, v = mx.linalg.svd(mx.ones((2, 2)), stream=mx.cpu)
print(float(x.mean()), mx.fft.fft(x).dtype == mx.complex64, u.ndim, mx.installed())
