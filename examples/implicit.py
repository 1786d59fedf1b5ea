"""Find the costs behind an equilibrium, with a solver in plain NumPy inside of a differentiated program.

Twelve firms sell on one market. What each produces in equilibrium is where nobody wants to change anything: the zero of
a system of equations without a formula, found by Newton's method in double precision, in NumPy, with a tolerance that
decides when to stop. ``mx.custom_function`` makes it one op: its vjp reads the cotangent, hands it to NumPy, and solves
one linear system with the transposed Jacobian, as the implicit function theorem says. Around it is ordinary MLX: from
what is observed on the market, Adam recovers the firms' costs. Runs on real MLX and on mxcompat alike:

    python examples/implicit.py                 real MLX
    python -m mxcompat examples/implicit.py     mxcompat
"""

import argparse

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np

FIRMS = 12


def residual(q, cost):
    """What each firm would gain by producing a bit more, (firms,): of 10 q / (1 + total) - cost q - q^2 / 2."""
    total = 1 + q.sum()
    return 10 / total - 10 * q / total**2 - cost - q


def jacobian(q):
    """The derivative of the residual by the quantities, (firms, firms)."""
    total = 1 + q.sum()
    shared = -10 / total**2 + 20 * q[:, None] / total**3
    return shared - (10 / total**2 + 1) * np.eye(len(q))


def newton(cost):
    """The equilibrium for given costs, (firms,), and how many steps it took."""
    q = np.full(len(cost), 0.5)
    for step in range(1, 50):
        move = np.linalg.solve(jacobian(q), residual(q, cost))
        q = q - move
        if np.abs(move).max() < 1e-12:
            return q, step
    raise ArithmeticError("Newton's method has not converged")


@mx.custom_function
def equilibrium(cost):
    """What the firms produce, (firms,), for their costs."""
    quantities, _ = newton(np.array(cost, dtype=np.float64))
    return mx.array(quantities.astype(np.float32))


@equilibrium.vjp
def equilibrium_vjp(cost, cotangent, quantities):
    # residual(q, cost) = 0 and d residual / d cost = -1, so dq / dcost is the inverse of the Jacobian.
    q = np.array(quantities, dtype=np.float64)
    found = np.linalg.solve(jacobian(q).T, np.array(cotangent, dtype=np.float64))
    return mx.array(found.astype(np.float32))


def main():
    parser = argparse.ArgumentParser(description="Recover costs from an equilibrium.")
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()

    true = mx.linspace(0.2, 1.0, FIRMS)
    observed = equilibrium(true)
    print(f"Newton steps {newton(np.array(true, dtype=np.float64))[1]}, produced {observed.sum().item():.4f}")

    def loss(parameters):
        cost = mx.exp(parameters["log_cost"])
        return mx.square(equilibrium(cost) - observed).mean() * 100

    # The derivative of the rule against a difference quotient.
    start = {"log_cost": mx.full((FIRMS,), -1.0)}
    slope = mx.grad(loss)(start)["log_cost"].sum().item()
    ends = [loss({"log_cost": start["log_cost"] + d}).item() for d in (0.01, -0.01)]
    print(f"slope {slope:.3f} by the rule, quotient {(ends[0] - ends[1]) / 0.02:.3f}")

    parameters, optimizer = start, optim.Adam(0.05)
    step = mx.value_and_grad(loss)
    for k in range(args.steps + 1):
        value, gradients = step(parameters)
        if k % max(1, args.steps // 4) == 0:
            print(f"step {k:3d}  loss {value.item():.5f}")
        parameters = optimizer.apply_gradients(gradients, parameters)
        mx.eval(parameters)
    error = mx.abs(mx.exp(parameters["log_cost"]) - true).max().item()
    print(f"largest error of a cost {error:.3f}")


if __name__ == "__main__":
    main()
