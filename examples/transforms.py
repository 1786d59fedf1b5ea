"""Choose the strength of a ridge regression by gradient descent, with ``mx.custom_function`` and ``mx.vmap``.

The 442 patients of the diabetes data come with scikit-learn. For a strength ``s`` the weights ``w`` solve
``(X' X + s) w = X' y``; conjugate gradients find them. Instead of differentiating those iterations, a custom
derivative solves one more system, as the implicit function theorem says. ``mx.vmap`` fits all folds of a cross
validation at once, each with its own strength and its own gradient. Runs on real MLX and on mxcompat alike:

    python examples/transforms.py                 real MLX
    python -m mxcompat examples/transforms.py     mxcompat
"""

import argparse

import mlx.core as mx
from sklearn.datasets import load_diabetes

ITERATIONS = 15


def conjugate_gradients(A, b):
    """Solve ``A x = b`` for a symmetric positive matrix (n, n) and a vector (n,)."""
    x = mx.zeros_like(b)
    residual = direction = b
    size = (residual * residual).sum()
    for _ in range(ITERATIONS):
        image = A @ direction
        step = size / mx.maximum((direction * image).sum(), 1e-20)
        x = x + step * direction
        residual = residual - step * image
        old, size = size, (residual * residual).sum()
        direction = residual + size / mx.maximum(old, 1e-20) * direction
    return x


@mx.custom_function
def solve(A, b):
    return conjugate_gradients(A, b)


@solve.vjp
def solve_vjp(primals, cotangent, x):
    """``x = A^-1 b``: the cotangent of b is ``c = A^-1 cotangent`` (A is symmetric), that of A is ``-c x'``."""
    A, _ = primals
    c = conjugate_gradients(A, cotangent)
    return -c[:, None] * x[None, :], c


def fit(strength, x, y, used):
    """The weights of a ridge regression on the patients that ``used`` (0 or 1) marks."""
    weighted = x * used[:, None]
    count = used.sum()
    A = weighted.T @ x / count + mx.exp(strength) * mx.eye(x.shape[1])
    return solve(A, weighted.T @ y / count)


def held_out_error(strength, x, y, used):
    """The mean squared error for the patients that were not used."""
    left = 1 - used
    return (mx.square(x @ fit(strength, x, y, used) - y) * left).sum() / left.sum()


def data():
    """Ten measurements of each patient and their products in pairs, and the disease's progress, all standardized."""
    x, y = (mx.array(a, dtype=mx.float32) for a in load_diabetes(return_X_y=True))
    x = x / mx.std(x, axis=0)
    pairs = [x[:, i] * x[:, j] for i in range(x.shape[1]) for j in range(i, x.shape[1])]
    x = mx.concatenate([x, mx.stack(pairs, axis=1)], axis=1)
    x = (x - mx.mean(x, axis=0)) / mx.std(x, axis=0)
    return x, (y - mx.mean(y)) / mx.std(y)


def main():
    parser = argparse.ArgumentParser(description="Choose the strength of a ridge regression by gradient descent.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=20.0)
    args = parser.parse_args()

    x, y = data()
    members = mx.arange(x.shape[0]) % args.folds
    used = (members[None] != mx.arange(args.folds)[:, None]).astype(mx.float32)

    # One fold: the custom derivative against a difference quotient.
    slope = mx.grad(held_out_error)(mx.array(0.0), x, y, used[0]).item()
    ends = [held_out_error(mx.array(d), x, y, used[0]).item() for d in (0.05, -0.05)]
    print(f"slope at 1: {slope:.4f} by the custom derivative, {(ends[0] - ends[1]) / 0.1:.4f} by differences")

    # All folds at once: every one has a strength, an error and a gradient of its own.
    errors = mx.vmap(held_out_error, in_axes=(0, None, None, 0))
    slopes = mx.compile(mx.vmap(mx.grad(held_out_error), in_axes=(0, None, None, 0)))
    strengths = mx.zeros(args.folds)
    for step in range(args.steps + 1):
        if step % max(1, args.steps // 4) == 0:
            print(f"step {step:3d}  held-out error {mx.mean(errors(strengths, x, y, used)).item():.4f}")
        strengths = strengths - args.rate * slopes(strengths, x, y, used)
        mx.eval(strengths)
    print("strengths  " + " ".join(f"{s:.3f}" for s in mx.exp(strengths).tolist()))

    # Per-patient gradients of the error by the weights: vmap over patients of grad.
    weights = fit(mx.mean(strengths), x, y, mx.ones_like(y))
    gradients = mx.vmap(mx.grad(lambda w, x, y: mx.square(x @ w - y)), in_axes=(None, 0, 0))(weights, x, y)
    norms = mx.linalg.norm(gradients, axis=1)
    print(f"the patients that pull hardest: {mx.argsort(-norms)[:5].tolist()}")


if __name__ == "__main__":
    main()
