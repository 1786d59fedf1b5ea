"""Fit a normalizing flow to handwritten digits, and draw new ones.

The 1 797 images, 8x8 pixels of 17 grey levels, come with scikit-learn. A stack of affine couplings maps images to
normal noise and back, exactly; it is trained on the likelihood, which is printed in bits per pixel. Runs on real MLX
and on mxcompat alike, and prints the same numbers:

    python examples/flow.py                 real MLX
    python -m mxcompat examples/flow.py     mxcompat
"""

import argparse
import math
import time
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from sklearn.datasets import load_digits

SIDE = 8
LEVELS = 17


class Coupling(nn.Module):
    """Scales and shifts the pixels outside ``mask`` by functions of those inside it."""

    def __init__(self, mask, hidden: int):
        super().__init__()
        self._mask = mask
        pixels = mask.size
        self.net = nn.Sequential(
            nn.Linear(pixels, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 2 * pixels)
        )
        # At first nothing is changed.
        last = self.net.layers[-1]
        last.weight, last.bias = mx.zeros_like(last.weight), mx.zeros_like(last.bias)

    def change(self, x):
        """The logarithm of the scale, and the shift."""
        scale, shift = mx.split(self.net(x * self._mask), 2, axis=-1)
        return mx.tanh(scale) * (1 - self._mask), shift * (1 - self._mask)

    def __call__(self, x):
        """The image's place in the next space, and the logarithm of the map's volume change."""
        scale, shift = self.change(x)
        return x * mx.exp(scale) + shift, scale.sum(axis=-1)

    def inverse(self, z):
        scale, shift = self.change(z)
        return (z - shift) * mx.exp(-scale)


class Flow(nn.Module):
    """Couplings with a checkerboard and its complement, in turn."""

    def __init__(self, layers: int, hidden: int):
        super().__init__()
        places = mx.arange(SIDE)
        board = ((places[:, None] + places) % 2).flatten().astype(mx.float32)
        self.layers = [Coupling(board if k % 2 else 1 - board, hidden) for k in range(layers)]

    def __call__(self, x):
        volume = mx.zeros(x.shape[:1])
        for layer in self.layers:
            x, change = layer(x)
            volume = volume + change
        return x, volume

    def inverse(self, z):
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def data():
    """Images (N, 64) of integers 0 to 16, shuffled: for training, for testing."""
    x = mx.array(load_digits().data, dtype=mx.float32)
    x = x[mx.random.permutation(x.shape[0])]
    count = x.shape[0] // 5
    return x[count:], x[:count]


def spread(x):
    """Integers as real numbers in the interval that each stands for, mapped to the whole line; the volume change."""
    u = 0.01 + 0.98 * (x + mx.random.uniform(shape=x.shape)) / LEVELS
    change = mx.log(0.98 / LEVELS) - mx.log(u) - mx.log(1 - u)
    return mx.log(u) - mx.log(1 - u), change.sum(axis=-1)


def bits_per_pixel(flow, x):
    """The mean of the negative logarithm of the likelihood, to base 2, per pixel."""
    y, first = spread(x)
    z, volume = flow(y)
    normal = -0.5 * (mx.square(z) + math.log(2 * math.pi)).sum(axis=-1)
    return -mx.mean(normal + volume + first) / (math.log(2) * x.shape[-1])


def draw(images):
    """Images side by side, as text."""
    shades = " .:-=+*#%@"
    rows = []
    for row in range(SIDE):
        line = images[:, row * SIDE : (row + 1) * SIDE].tolist()
        rows.append("  ".join("".join(2 * shades[min(9, int(10 * v))] for v in image) for image in line))
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description="Fit a normalizing flow to handwritten digits.")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    train, test = data()
    flow = Flow(args.layers, args.hidden)
    optimizer = optim.AdamW(optim.cosine_decay(args.rate, args.steps), weight_decay=1e-2, bias_correction=True)
    state = [flow.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        loss, gradients = nn.value_and_grad(flow, bits_per_pixel)(flow, x)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(flow, gradients)
        return loss

    start = time.perf_counter()
    losses = []
    for number in range(1, args.steps + 1):
        losses.append(step(train[mx.random.randint(0, train.shape[0], (args.batch,))]))
        mx.eval(losses[-1], state)
        if number % max(1, args.steps // 10) == 0:
            held_out = bits_per_pixel(flow, test).item()
            print(f"step {number:4d}  train {mx.mean(mx.stack(losses)).item():.3f}  test {held_out:.3f} bits per pixel")
            losses = []
    print(f"{args.steps} steps in {time.perf_counter() - start:.1f} s")

    y, _ = spread(test)
    error = mx.max(mx.abs(flow.inverse(flow(y)[0]) - y)).item()
    print(f"there and back changes nothing: {error < 1e-2}")
    print(draw(mx.sigmoid(flow.inverse(0.7 * mx.random.normal((5, SIDE * SIDE))))))


if __name__ == "__main__":
    main()
