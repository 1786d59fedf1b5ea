"""Train a small convolutional network on handwritten digits, with ``mlx.nn`` and ``mlx.optimizers``.

The 1 797 images, 8x8 pixels each, come with scikit-learn. Two convolutions, a batch normalization, dropout and Adam
with a cosine schedule. Runs on real MLX and on mxcompat alike, and prints the same numbers:

    python examples/convnet.py                 real MLX
    python -m mxcompat examples/convnet.py     mxcompat
"""

import argparse
import time
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from sklearn.datasets import load_digits


class ConvNet(nn.Module):
    """Images (N, 8, 8, 1) to logits (N, 10)."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, bias=False),
            nn.BatchNorm(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(2 * channels * 4, 10)

    def __call__(self, x):
        return self.head(self.dropout(self.features(x).flatten(1)))


def data():
    """The images, scaled to [0, 1], and their labels, shuffled: ((train x, train y), (test x, test y))."""
    digits = load_digits()
    x = mx.array(digits.images, dtype=mx.float32)[..., None] / 16
    y = mx.array(digits.target, dtype=mx.int32)
    order = mx.random.permutation(x.shape[0])
    count = x.shape[0] // 5
    return (x[order[count:]], y[order[count:]]), (x[order[:count]], y[order[:count]])


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


def accuracy(model, x, y):
    """The share of images whose largest logit is at their label."""
    model.eval()
    right = mx.mean(mx.argmax(model(x), axis=-1) == y).item()
    model.train()
    return right


def main():
    parser = argparse.ArgumentParser(description="Train a convolutional network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=4e-3, help="the learning rate at the start; it falls to zero")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    (x, y), (test_x, test_y) = data()
    batches = x.shape[0] // args.batch
    model = ConvNet()
    optimizer = optim.Adam(optim.cosine_decay(args.rate, args.epochs * batches))
    state = [model.state, optimizer.state, mx.random.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    start = time.perf_counter()
    for epoch in range(args.epochs):
        order = mx.random.permutation(x.shape[0])
        losses = []
        for k in range(batches):
            picked = order[k * args.batch : (k + 1) * args.batch]
            losses.append(step(x[picked], y[picked]))
            mx.eval(losses, state)
        print(f"epoch {epoch + 1:2d}  loss {mx.mean(mx.stack(losses)).item():.4f}")
    seconds = time.perf_counter() - start

    print(f"trained on {x.shape[0]} images, {args.epochs * batches} steps, in {seconds:.1f} s")
    print(f"train accuracy {100 * accuracy(model, x, y):.2f} %")
    print(f"test accuracy  {100 * accuracy(model, test_x, test_y):.2f} %")


if __name__ == "__main__":
    main()
