"""Interrupt work at random times, and retry it: `python -m tests.soak.interrupts COUNT`, in a separate process.

It prints the number of interrupts, and of those during an evaluation.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mxcompat.core as mx

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((48, 48)).astype(np.float32) / 8


def _interrupt(*what: Any) -> None:
    """Act as Ctrl-C does."""
    signal.getsignal(signal.SIGINT)(*what)  # type: ignore[misc, operator]


def work() -> Iterator[Callable[[], Any]]:
    """Yield work whose results are known: new and known structures, gradients, in-place updates."""
    state = {"w": mx.array(WEIGHT), "steps": mx.array(0)}

    @mx.compile
    def known(x: mx.array) -> mx.array:
        return mx.softmax(mx.tanh(x @ x.T), axis=-1).sum()

    for number in itertools.count():
        draw = random.Random(number)
        n, scale = draw.randint(1, 60), draw.random()
        x = WEIGHT[:n] * scale

        def fresh(x: Any = x, ops: int = draw.randint(1, 9)) -> Any:
            """Return a random expression with small values, so that rounding differences between tiers do not grow."""
            y = mx.array(x)
            for k in range(ops):
                y = mx.sin(y) * (k + 1) / 10 if k % 2 else y @ y.T @ y / len(x)
            return y

        def gradient(x: Any = x) -> Any:
            return mx.grad(lambda w: (mx.tanh(mx.array(x) @ w) ** 2).sum())(mx.array(WEIGHT))

        def step(scale: float = scale) -> Any:
            """Update the state once. The buffers of the old state may be overwritten."""
            w = state["w"] * (1 - scale / 100) + scale / 100
            state["w"], state["steps"] = w, state["steps"] + 1
            mx.eval(state)
            return mx.abs(state["w"]) < 100, state["steps"] >= 0

        def repeated(x: Any = x) -> Any:
            return known(mx.array(WEIGHT[: 1 + len(x) // 20]))

        yield draw.choice([fresh, gradient, step, repeated])


def main(count: str) -> None:
    signal.signal(signal.SIGALRM, _interrupt)
    interrupts = within = 0
    draw = random.Random(0)
    for task in work():
        if interrupts == int(count):
            break
        delay = draw.choice((0.0002, 0.001, 0.005, 0.03))
        started, result = False, None
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            result = task()
            started = True
            mx.eval(result)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            interrupts += 1
            within += started
            if result is not None:
                mx.eval(result)  # after an interrupt, the work can be repeated and finished
        again = [np.array(x) for x in _leaves(task())]
        for first, second in zip([np.array(x) for x in _leaves(result)], again, strict=False):
            np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-5)
    print(json.dumps({"came": interrupts, "while evaluating": within}))


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [] if result is None else [result]


if __name__ == "__main__":
    main(*sys.argv[1:])
