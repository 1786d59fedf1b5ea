"""Soak test of training steps and transforms: hundreds of thousands of calls, in a separate process.

    python -m tests.soak.steps 200000                     # all
    python -m tests.soak.steps 200000 training vmap       # these
    python -m tests.soak.steps 200000 --library FILE      # with another build of the extension

prints a line of JSON for each: the memory, and the references to shared objects, that are leaked or lost.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

WARM = 3000
"""Number of calls before the first count, so that compilation is done and caches are filled."""


def _training(mx: Any) -> Callable[[], Any]:
    """Return a training loop like the README's: an MLP, AdamW, and the loss read at each step."""
    from mxcompat import nn, optimizers

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = optimizers.AdamW(1e-3)
    x, y = mx.random.normal((16, 64)), mx.random.randint(0, 10, (16,))

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    step = nn.value_and_grad(model, loss_of)

    def train() -> float:
        loss, grads = step(model, x, y)
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)
        return loss.item()

    return train


def workloads(mx: Any) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Return the workloads by name, and the arguments that all their calls share.

    Each call defines its functions again, as programs do.
    """
    x, v, rows = mx.array([0.5, -1.0, 2.0]), mx.array([1.0, 0.0, -1.0]), mx.random.normal((4, 3))
    mx.eval(x, v, rows)

    def number(value: Any) -> float:
        return mx.sum(value).item()

    @mx.custom_function
    def cube(x: Any) -> Any:
        return x * x * x

    @cube.vjp
    def cube_vjp(primals: Any, cotangent: Any, output: Any) -> Any:
        return 3 * primals * primals * cotangent

    def custom() -> float:
        return number(mx.grad(lambda x: cube(x).sum())(x))

    @mx.compile
    def compiled(x: Any, y: Any) -> Any:
        return mx.sin(x) * y + 1

    def compile_twice() -> float:
        return number(compiled(x, v)) + number(mx.compile(lambda x: x * 2)(x))

    calls: dict[str, Callable[[], Any]] = {
        "training": _training(mx),
        "grad": lambda: number(mx.grad(lambda x: (mx.sin(x) * x).sum())(x)),
        "value_and_grad": lambda: mx.value_and_grad(lambda x: (x * x).sum())(x)[0].item(),
        "vjp": lambda: number(mx.vjp(lambda x: mx.exp(x), [x], [v])[1][0]),
        "jvp": lambda: number(mx.jvp(lambda x: mx.exp(x), [x], [v])[1][0]),
        "vmap": lambda: number(mx.vmap(lambda row: (row * x).sum())(rows)),
        "compile": compile_twice,
        "checkpoint": lambda: number(mx.grad(lambda x: mx.checkpoint(lambda x: mx.sin(x) * x)(x).sum())(x)),
        "custom_function": custom,
    }
    shared = {"x": x, "v": v, "rows": rows, "cube": cube, "compiled": compiled}
    return calls, shared | {f"the node of {name}": shared[name]._node for name in ("x", "v", "rows")}


def report(name: str, call: Callable[[], Any], count: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the memory and references that `count` calls leak (positive) or lose (negative).

    Args:
        arguments: the objects, beside those that every program shares, whose references are counted.
    """
    from mxcompat._graph.run import background
    from mxcompat._native import native
    from tests.native.references import ALWAYS
    from tests.soak.worker import resident

    shared = [*ALWAYS, *([native.Fields, native.Handle, native.Path] if native else []), list, tuple, dict]
    named = [*zip(map(repr, shared), shared, strict=True), *arguments.items()]
    names, objects = zip(*named, strict=True)
    for _ in range(2):
        for _ in range(WARM):
            call()
        background.wait(lambda: False, 300)
    gc.collect()
    before, blocks, memory = array("q", map(sys.getrefcount, objects)), sys.getallocatedblocks(), resident()
    begun = perf_counter()
    for _ in range(count):
        call()
    seconds = perf_counter() - begun
    background.wait(lambda: False, 300)
    gc.collect()
    blocks, memory = sys.getallocatedblocks() - blocks, resident() - memory
    after = array("q", map(sys.getrefcount, objects))
    lost = {name: b - a for name, a, b in zip(names, before, after, strict=True) if b != a}
    return {
        "name": name, "calls": count, "seconds": round(seconds, 1), "resident": memory, "blocks": blocks,
        "references": lost,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.steps")
    parser.add_argument("count", type=int)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--library", type=Path)
    options = parser.parse_args()
    if options.library is not None:
        from tests.native.libraries import load

        load(options.library)
    import jax  # noqa: F401  mxcompat would import it during the counted calls

    import mxcompat.core as mx

    calls, arguments = workloads(mx)
    for name, call in calls.items():
        if not options.names or name in options.names:
            print(json.dumps(report(name, call, options.count, arguments)), flush=True)


if __name__ == "__main__":
    main()
