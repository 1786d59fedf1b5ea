"""`python -m tests.reproducible_worker PROGRAM FIRST LAST FILE`: run steps of a program, printing the bits of each.

A program that starts at the first step saves its state to FILE halfway; a later start loads the state from FILE.
Under MXCOMPAT_REPRODUCIBLE=1 every process prints the same bits for a step.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

import mxcompat.core as mx
from mxcompat import nn, utils
from mxcompat import optimizers as optim

__all__ = ["PROGRAMS", "Leapfrog", "Training", "digest"]


def digest(arrays: Iterable[Any]) -> str:
    """Return the bits of arrays."""
    checksum = hashlib.sha256()
    for a in arrays:
        checksum.update(np.array(a).tobytes())
    return checksum.hexdigest()[:16]


class Training:
    """Steps of a small network with dropout, AdamW and a rate that decays."""

    def __init__(self) -> None:
        mx.random.seed(0)
        rng = np.random.default_rng(0)
        self.x = mx.array(rng.normal(size=(24, 16)).astype(np.float32))
        self.y = mx.array(rng.integers(0, 5, 24))
        self.model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.gelu, nn.Dropout(0.1), nn.Linear(32, 5))
        self.optimizer = optim.AdamW(learning_rate=optim.cosine_decay(1e-2, 50))
        self.optimizer.init(self.model.trainable_parameters())
        self.gradients = nn.value_and_grad(self.model, self.loss)
        mx.eval(self.model.parameters(), self.optimizer.state)

    def loss(self, x: mx.array, y: mx.array) -> mx.array:
        return nn.losses.cross_entropy(self.model(x), y, reduction="mean")

    def step(self, k: int) -> list[mx.array]:
        loss, gradients = self.gradients(self.x, self.y)
        gradients, norm = optim.clip_grad_norm(gradients, 1.0)
        self.optimizer.update(self.model, gradients)
        mx.eval(loss, norm, self.model.parameters(), self.optimizer.state)
        return [loss, norm, *[a for _, a in utils.tree_flatten(self.model.parameters())]]

    def state(self) -> dict[str, mx.array]:
        tree = {"model": self.model.parameters(), "optimizer": self.optimizer.state, "key": mx.random.state[0]}
        return dict(utils.tree_flatten(tree))

    def restore(self, state: dict[str, mx.array]) -> None:
        mx.eval(state)
        tree = utils.tree_unflatten(list(state.items()))
        self.model.update(tree["model"])
        self.optimizer.state = tree["optimizer"]
        mx.random.state[0] = tree["key"]


class Leapfrog:
    """Molecular dynamics: repelling particles in a trap, forces by the gradient of the energy, and a thermostat.

    The trajectory is written in place, and is large enough for buffer reuse.
    """

    def __init__(self) -> None:
        mx.random.seed(1)
        self.place = mx.random.normal((128, 3))
        self.speed = mx.zeros((128, 3))
        self.trajectory = mx.zeros((64, 128, 3))
        self.force = mx.grad(self.energy)
        mx.eval(self.place)

    @staticmethod
    def energy(place: mx.array) -> mx.array:
        offsets = place[None] - place[:, None]
        squares = (offsets**2).sum(axis=-1) + mx.eye(place.shape[0])
        return (1 / squares + 1e-3 * mx.exp(-squares)).sum() + 0.5 * (place * place).sum()

    def step(self, k: int) -> list[mx.array]:
        h = 0.01 + 1e-4 * k  # this number differs at every step
        self.speed = self.speed - 0.5 * h * self.force(self.place)
        self.place = self.place + h * self.speed
        self.speed = self.speed - 0.5 * h * self.force(self.place)
        if k % 8 == 7:
            self.speed = 0.9 * self.speed + 0.1 * mx.random.normal(self.speed.shape)
        self.trajectory[k % 64] = self.place
        heat = (0.5 * self.speed.square().sum()).item()
        mx.eval(self.place, self.speed, self.trajectory)
        return [mx.array(heat), self.place, self.speed, self.trajectory]

    def state(self) -> dict[str, mx.array]:
        return {"place": self.place, "speed": self.speed, "trajectory": self.trajectory, "key": mx.random.state[0]}

    def restore(self, state: dict[str, mx.array]) -> None:
        mx.eval(state)
        self.place, self.speed, self.trajectory = state["place"], state["speed"], state["trajectory"]
        mx.random.state[0] = state["key"]


PROGRAMS = {"training": Training, "leapfrog": Leapfrog}


def main(name: str, first: int, last: int, path: str) -> None:
    program: Any = PROGRAMS[name]()
    if first:
        program.restore(mx.load(path))
    for k in range(first, last):
        if not first and k == last // 2:
            mx.save_safetensors(path, program.state())
        sys.stdout.write(f"{k} {digest(program.step(k))}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
