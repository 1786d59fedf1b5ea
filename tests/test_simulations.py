"""Programs that branch on their own numbers: simulations, samplers, control. They are compared with real MLX.

Unlike a training loop, such a program reads values between the steps, changes arrays in place, and branches on the
values read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxcompat.ext.debug import compiles
from tests.nn_oracle import OURS, REAL
from tests.oracle import check, ours, real


def pendulum(mx: Any) -> list[Any]:
    """Run a fourth-order Runge-Kutta method, and differentiate its final state by the initial one."""

    def slope(state):
        return mx.stack([state[1], -mx.sin(state[0]) - 0.2 * state[1]])

    def end(state, steps=12, h=0.1):
        for _ in range(steps):
            a = slope(state)
            b = slope(state + h / 2 * a)
            c = slope(state + h / 2 * b)
            d = slope(state + h * c)
            state = state + h / 6 * (a + 2 * b + 2 * c + d)
        return state

    start = mx.array([0.9, -0.1])
    sensitivity = mx.vmap(lambda v: mx.vjp(end, [start], [v])[1][0])(mx.eye(2))
    return [end(start), sensitivity]


def gravity(mx: Any) -> list[Any]:
    """Simulate gravity: positions and velocities are updated in place, which an alias sees."""
    mx.random.seed(1)
    place = mx.random.normal((9, 3))
    speed = mx.zeros_like(place)
    alias = place
    energies = []
    for step in range(20):
        offsets = place[None] - place[:, None]
        squares = (offsets**2).sum(axis=-1, keepdims=True) + 0.05
        speed += 0.01 * (offsets * squares**-1.5).mean(axis=1)
        place += 0.01 * speed
        if step % 8 == 0:
            energies.append((0.5 * (speed**2).sum()).item())
    return [alias, speed, energies]


def life(mx: Any) -> list[Any]:
    """Run the game of life, with neighbours counted by a convolution and by rolling."""
    mx.random.seed(2)
    board = mx.random.bernoulli(0.35, (1, 12, 12, 1)).astype(mx.float32)
    kernel = mx.ones((1, 3, 3, 1))
    kernel[0, 1, 1, 0] = 0
    populations = []
    for step in range(6):
        if step % 2:
            near = mx.conv2d(mx.pad(board, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="constant"), kernel)
        else:
            near = sum(mx.roll(board, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - board
        board = mx.where((near == 3) | ((near == 2) & (board > 0)), 1.0, 0.0)
        populations.append(int(board.sum().item()))
    return [board, populations]


def kalman(mx: Any) -> list[Any]:
    """Run a Kalman filter over noisy readings, some of which are missing."""
    mx.random.seed(3)
    move, look = mx.array([[1.0, 0.5], [0.0, 1.0]]), mx.array([[1.0, 0.0]])
    state, spread = mx.zeros((2, 1)), mx.eye(2)
    likelihood = mx.array(0.0)
    for t in range(8):
        state, spread = move @ state, move @ spread @ move.T + 0.01 * mx.eye(2)
        reading = 0.3 * t + 0.1 * mx.random.normal((1, 1))
        if t % 3 == 2:
            continue
        innovation = look @ spread @ look.T + 0.25
        gain = spread @ look.T @ mx.linalg.inv(innovation, stream=mx.cpu)
        surprise = reading - look @ state
        likelihood -= 0.5 * (surprise**2 / innovation + mx.log(innovation)).squeeze()
        state, spread = state + gain @ surprise, (mx.eye(2) - gain @ look) @ spread
    return [state, spread, likelihood]


def metropolis(mx: Any) -> list[Any]:
    """Run a random walk that accepts by a comparison in Python, then Hamiltonian steps that accept by `where`."""
    mx.random.seed(4)

    def density(x):
        return -0.5 * (x**2 / mx.array([1.0, 4.0])).sum()

    x = mx.zeros((2,))
    walk, accepted = [], 0
    for _ in range(15):
        proposed = x + 0.8 * mx.random.normal((2,))
        if mx.log(mx.random.uniform()).item() < (density(proposed) - density(x)).item():
            x, accepted = proposed, accepted + 1
        walk.append(x)
    slope = mx.grad(density)
    for _ in range(4):
        momentum = mx.random.normal((2,))
        there, pace = x, momentum + 0.1 * slope(x)
        for _ in range(3):
            there = there + 0.2 * pace
            pace = pace + 0.2 * slope(there)
        odds = density(there) - density(x) + 0.5 * ((momentum**2).sum() - (pace**2).sum())
        x = mx.where(mx.random.uniform() < mx.exp(odds), there, x)
        mx.eval(x)
        walk.append(x)
    return [mx.stack(walk), accepted]


def clusters(mx: Any) -> list[Any]:
    """Run k-means until it converges."""
    mx.random.seed(5)
    points = mx.concatenate([mx.random.normal((20, 2)) + centre for centre in (0, 5, 10)])
    centres = points[mx.array([0, 25, 55])]
    rounds = 0
    while True:
        rounds += 1
        nearest = mx.argmin(((points[:, None] - centres[None]) ** 2).sum(axis=-1), axis=1)
        member = (nearest[:, None] == mx.arange(3)).astype(mx.float32)
        moved = (member.T @ points) / mx.maximum(member.sum(axis=0)[:, None], 1)
        if mx.allclose(moved, centres):
            return [centres, nearest, rounds]
        centres = moved


def episodes(mx: Any) -> list[Any]:
    """Run a policy gradient over episodes of different lengths, with a slowly updated second network."""
    packages = REAL if mx is real else OURS
    nn, optimizers, utils = packages.nn, packages.optim, packages.utils
    mx.random.seed(6)
    policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    follower = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    follower.update(policy.parameters())
    optimizer = optimizers.RMSprop(1e-2)

    def loss(model, states, actions, gains):
        taken = mx.take_along_axis(nn.log_softmax(model(states), axis=-1), actions[:, None], axis=-1)
        return -(taken.squeeze(-1) * gains).mean()

    step = nn.value_and_grad(policy, loss)
    losses = []
    for length in (4, 6, 5):
        state, states, actions, gains = mx.zeros((3,)), [], [], []
        for _ in range(length):
            action = mx.random.categorical(policy(state))
            states.append(state)
            actions.append(action)
            state = 0.9 * state + (0.1 if action.item() == 1 else -0.1)
            gains.append(state.sum().item())
        value, gradients = step(policy, mx.stack(states), mx.stack(actions), mx.array(gains))
        optimizer.update(policy, gradients)
        follower.update(
            utils.tree_map(lambda old, new: 0.9 * old + 0.1 * new, follower.parameters(), policy.parameters())
        )
        mx.eval(policy.parameters(), follower.parameters(), optimizer.state)
        losses.append(value.item())
    return [losses, follower(mx.ones((3,)))]


def denoise(mx: Any) -> list[Any]:
    """Run a reverse diffusion: the step number indexes a schedule, and the last step adds no noise."""
    mx.random.seed(7)
    rates = mx.linspace(1e-3, 0.2, 8)
    kept = mx.cumprod(1 - rates)
    x = mx.random.normal((5, 2))
    for t in reversed(range(8)):
        noise = mx.tanh(x) * mx.sqrt(1 - kept[t])
        x = (x - rates[t] / mx.sqrt(1 - kept[t]) * noise) / mx.sqrt(1 - rates[t])
        if t > 0:
            x += mx.sqrt(rates[t]) * mx.random.normal(x.shape)
        mx.eval(x)
    return [x, mx.clip(x, -1, 1)]


PROGRAMS = (pendulum, gravity, life, kalman, metropolis, clusters, episodes, denoise)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_simulation(program: Callable[[Any], list[Any]]) -> None:
    check(program, tol=2e-5)  # dozens of steps in float32, each rounded


@pytest.mark.parametrize("program", [life, kalman, denoise], ids=lambda f: f.__name__)
@pytest.mark.usefixtures("xla_only")
def test_the_third_run_compiles_nothing(program: Callable[[Any], list[Any]]) -> None:
    counts = []
    for _ in range(3):
        ours.eval(program(ours))
        counts.append(compiles())
    assert counts[2] == counts[1]


def test_numpy_and_back_at_every_step() -> None:
    """Run a program that keeps its data in NumPy and computes with MLX."""

    def exchange(mx: Any) -> Any:
        rng = np.random.default_rng(0)
        data = rng.normal(size=(6, 4)).astype(np.float32)
        for k in range(3):
            batch = mx.array(data[rng.permutation(6)[:4]])
            data[:4] = np.array(mx.softmax(batch * (k + 1), axis=-1))
        return mx.array(data)

    check(exchange)
