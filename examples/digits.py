"""Train a classifier on handwritten digits, with plain MLX.

The 1 797 images, 8x8 pixels each, come with scikit-learn. A perceptron with two hidden layers and Adam, written out by
hand, learns them in a few seconds. Runs on real MLX and on mxcompat alike, and prints the same numbers:

    python examples/digits.py                 real MLX
    python -m mxcompat examples/digits.py     mxcompat
"""

import argparse
import time
from itertools import pairwise

import mlx.core as mx
from sklearn.datasets import load_digits
from tqdm import tqdm


def data():
    """The images, scaled to [0, 1], and their labels, shuffled: ((train x, train y), (test x, test y))."""
    digits = load_digits()
    x = mx.array(digits.data, dtype=mx.float32) / 16
    y = mx.array(digits.target, dtype=mx.int32)
    order = mx.random.permutation(x.shape[0])
    x, y = x[order], y[order]
    count = x.shape[0] // 5
    return (x[count:], y[count:]), (x[:count], y[:count])


def init(sizes):
    """The parameters: a list of layers, each with a weight (in, out) and a bias (out)."""
    layers = []
    for fan_in, fan_out in pairwise(sizes):
        weight = mx.random.normal((fan_in, fan_out)) * (2 / fan_in) ** 0.5
        layers.append({"weight": weight, "bias": mx.zeros(fan_out)})
    return layers


def forward(layers, x):
    """The logits (N, 10) of images (N, 64)."""
    for layer in layers[:-1]:
        x = mx.maximum(x @ layer["weight"] + layer["bias"], 0)
    return x @ layers[-1]["weight"] + layers[-1]["bias"]


def loss_fn(layers, x, y):
    """The mean cross entropy."""
    logits = forward(layers, x)
    picked = mx.take_along_axis(logits, y[:, None], axis=-1).squeeze(-1)
    return mx.mean(mx.logsumexp(logits, axis=-1) - picked)


def adam(layers, grads, moments, step, rate, beta1=0.9, beta2=0.999, eps=1e-8):
    """One update by Adam, in place: of the parameters and of their first and second moments."""
    scale = rate * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    for layer, grad, moment in zip(layers, grads, moments, strict=True):
        for name in layer:
            m, v = moment[name]
            m = beta1 * m + (1 - beta1) * grad[name]
            v = beta2 * v + (1 - beta2) * mx.square(grad[name])
            moment[name] = (m, v)
            layer[name] = layer[name] - scale * m / (mx.sqrt(v) + eps)


def accuracy(layers, x, y):
    """The share of images whose largest logit is at their label."""
    return mx.mean(mx.argmax(forward(layers, x), axis=-1) == y).item()


def main():
    parser = argparse.ArgumentParser(description="Train a classifier on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3, help="the learning rate at the start; it falls to zero")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    (x, y), (test_x, test_y) = data()
    layers = init([64, 128, 64, 10])
    moments = [{name: (mx.zeros_like(p), mx.zeros_like(p)) for name, p in layer.items()} for layer in layers]
    value_and_grad = mx.value_and_grad(loss_fn)

    batches = x.shape[0] // args.batch
    total = args.epochs * batches
    step = 0
    start = time.perf_counter()
    with tqdm(total=total, unit="step") as bar:
        for epoch in range(args.epochs):
            order = mx.random.permutation(x.shape[0])
            for k in range(batches):
                picked = order[k * args.batch : (k + 1) * args.batch]
                rate = args.rate * (1 - step / total)
                step += 1
                loss, grads = value_and_grad(layers, x[picked], y[picked])
                adam(layers, grads, moments, step, rate)
                mx.eval(loss, layers, moments)
                bar.update()
            bar.set_postfix(epoch=epoch + 1, loss=f"{loss.item():.4f}")
    seconds = time.perf_counter() - start

    print(f"trained on {x.shape[0]} images, {total} steps, in {seconds:.1f} s")
    print(f"train accuracy {100 * accuracy(layers, x, y):.2f} %")
    print(f"test accuracy  {100 * accuracy(layers, test_x, test_y):.2f} %")


if __name__ == "__main__":
    main()
