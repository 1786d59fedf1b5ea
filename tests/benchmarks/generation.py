"""Token generation with mlx-lm's llama, unmodified, on mxcompat (as a drop-in) and real MLX, and with hand-written
JAX.

Each side runs in a separate process, because a process can import only one library as `mlx`:

    python -m tests.benchmarks.generation SIDE MODEL     prints the fields of `Found`, for `measure` to parse

A process generates three times. The first generation is cold; by the third, hot programs have been compiled.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .table import compared

__all__ = ["MODELS", "available", "measure", "mlx_lm"]

_PROMPT = 8
_TOKENS = 200
_CACHE = 256
"""Initial cache length of mlx-lm; every measured generation fits in it."""
_COMPILER = "mxcompat-background"
"""Name of the thread that compiles in the background."""


class Model(NamedTuple):
    """Configuration of a llama with grouped heads: two query heads per head of keys and values.

    `bits` is the weights' number of bits and `cache_bits` the cache's; None means floats. `prompts` is the batch
    size; several prompts have different lengths. `penalty` is the repetition penalty. `skipped` is the number of
    tokens before the timing begins.
    """

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    bits: int | None
    of_mlx: float
    cache_bits: int | None = None
    prompts: int = 1
    penalty: float | None = None
    skipped: int = 24

    @property
    def width(self) -> int:
        return self.hidden // self.heads


MODELS = {
    "llama, 512 wide, 8 layers": Model(512, 8, 8, 32000, None, 1 / 2),
    "llama, 512 wide, 8 layers, 4 bits": Model(512, 8, 8, 32000, 4, 1 / 2),
    "llama, 256 wide, 4 layers": Model(256, 4, 4, 1000, None, 1 / 1.5),
    "llama, 256 wide, cache of 8 bits": Model(256, 4, 4, 1000, None, 1 / 1.5, cache_bits=8),
    "llama, 256 wide, 3 prompts": Model(256, 4, 4, 1000, None, 1 / 2, prompts=3),
    "llama, 256 wide, repetition penalty": Model(256, 4, 4, 1000, None, 1, penalty=1.3, skipped=48),
}
"""Models by name; `of_mlx` limits the time per token, as a multiple of real MLX's."""


def available() -> bool:
    """Return True if mlx-lm is installed."""
    return importlib.util.find_spec("mlx_lm") is not None


class Found(NamedTuple):
    """The measurements of one process.

    Milliseconds per token of the third generation, after the skipped tokens; milliseconds of the first generation;
    programs compiled from token 30 of the third generation on. The last field is the slowdown of a token of the
    first generation during a background compilation, relative to the median of the tokens before (0 without such
    tokens).
    """

    token: float
    first: float
    compiles: float
    beside: float


def measure(
    name: str, sides: Iterable[str], rounds: int
) -> tuple[dict[str, Found], dict[str, float], dict[str, tuple[float, float]]]:
    """Return medians over the rounds by side, and the ratio of mxcompat's time per token to each side's.

    The ratio is given as its median and quartiles.
    """
    root = Path(__file__).parent.parent.parent
    measurements: dict[str, list[Found]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, runs in measurements.items():
            model = MODELS[name]
            if side == "jax.jit" and (model.bits or model.cache_bits or model.prompts > 1 or model.penalty):
                continue
            command = [sys.executable, "-m", "tests.benchmarks.generation", side, name]
            environment = {**os.environ, "MXCOMPAT_CACHE": "0"}
            out = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            runs.append(Found(*map(float, out.stdout.split())))
    measurements = {side: runs for side, runs in measurements.items() if runs}
    medians = {side: Found(*map(statistics.median, zip(*runs, strict=True))) for side, runs in measurements.items()}
    return medians, *compared({side: [run.token for run in runs] for side, runs in measurements.items()})


def _timed(
    model: Model, generate: Callable[[], Iterable[int]], settle: Callable[[], None], compiles: Callable[[], int]
) -> Found:
    start = last = time.perf_counter()
    before: list[float] = []
    beside: list[float] = []
    for k, _ in enumerate(generate()):
        now = time.perf_counter()
        if any(thread.name == _COMPILER for thread in threading.enumerate()):
            beside.append(now - last)
        elif k > 0 and not beside:
            before.append(now - last)
        last = now
    first = time.perf_counter() - start
    slower = statistics.mean(beside) / statistics.median(before) if before and beside else 0.0
    for _ in generate():
        pass  # the import of JAX and the compile begin after some seconds in NumPy
    settle()
    compiled = 0
    for k, _ in enumerate(generate(), 1):
        if k == model.skipped:
            start = time.perf_counter()
        elif k == 30:
            compiled = compiles()
    token = (time.perf_counter() - start) / (_TOKENS - model.skipped)
    return Found(1e3 * token, 1e3 * first, compiles() - compiled, slower)


def mlx_lm(model: Model, tokens: int = _TOKENS) -> Callable[[], Iterable[int]]:
    """Return a function that generates tokens through mlx-lm's public API; -1 tokens are no limit."""
    import mlx.core as mx
    from mlx import nn
    from mlx_lm.generate import BatchGenerator, generate_step
    from mlx_lm.models import llama
    from mlx_lm.sample_utils import make_logits_processors

    mx.random.seed(0)
    network = llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=model.hidden,
            num_hidden_layers=model.layers,
            intermediate_size=4 * model.hidden,
            num_attention_heads=model.heads,
            num_key_value_heads=model.heads // 2,
            rms_norm_eps=1e-5,
            vocab_size=model.vocabulary,
        )
    )
    if model.bits:
        nn.quantize(network, bits=model.bits)
    mx.eval(network.parameters())

    def generate() -> Iterable[int]:
        if model.prompts == 1:
            options = {"kv_bits": model.cache_bits, "quantized_kv_start": 0}
            options["logits_processors"] = make_logits_processors(repetition_penalty=model.penalty)
            for token, _ in generate_step(mx.arange(1, 1 + _PROMPT), network, max_tokens=tokens, **options):
                yield int(token)
            return
        batch = BatchGenerator(network, max_tokens=tokens, stop_tokens=[[-1]])
        batch.insert([list(range(1, 1 + _PROMPT - k)) for k in range(model.prompts)])
        while responses := batch.next_generated():
            yield responses[0].token

    return generate


def _jax(model: Model) -> Callable[[], Iterable[int]]:
    """Return hand-written generation: one `jax.jit` per token, with a donated cache. It reads the prompt token by
    token."""
    from functools import partial

    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)
    hidden, heads, width = model.hidden, model.heads, model.width
    shared = heads // 2

    def matrix(*shape: int) -> Any:
        return jnp.array(rng.normal(scale=shape[-1] ** -0.5, size=shape).astype(np.float32))

    shapes = {"q": (hidden, hidden), "k": (shared * width, hidden), "v": (shared * width, hidden),
              "out": (hidden, hidden), "gate": (4 * hidden, hidden), "up": (4 * hidden, hidden),
              "down": (hidden, 4 * hidden)}  # fmt: skip
    layers = [{name: matrix(*shape) for name, shape in shapes.items()} for _ in range(model.layers)]
    weights = {"tokens": matrix(model.vocabulary, hidden), "layers": layers}

    def norm(x: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)

    def rope(x: Any, n: Any) -> Any:
        angles = n * 10000.0 ** (-jnp.arange(0, width, 2) / width)
        left, right = jnp.split(x, 2, axis=-1)
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([left * cos - right * sin, left * sin + right * cos], axis=-1)

    @partial(jax.jit, donate_argnums=2)
    def step(weights: Any, token: Any, cache: Any, n: Any) -> Any:
        h = weights["tokens"][token]
        new = []
        for p, (keys, values) in zip(weights["layers"], cache, strict=True):
            x = norm(h)
            q, k, v = (p["q"] @ x).reshape(shared, -1, width), p["k"] @ x, (p["v"] @ x).reshape(shared, 1, width)
            keys = jax.lax.dynamic_update_slice(keys, rope(k.reshape(shared, 1, width), n), (0, n, 0))
            values = jax.lax.dynamic_update_slice(values, v, (0, n, 0))
            new.append((keys, values))
            scores = jnp.einsum("gsd,gnd->gsn", rope(q, n), keys) * width**-0.5
            scores = jnp.where(jnp.arange(_CACHE) <= n, scores, -jnp.inf)
            mixed = jnp.einsum("gsn,gnd->gsd", jax.nn.softmax(scores, axis=-1), values)
            h = h + p["out"] @ mixed.reshape(-1)
            x = norm(h)
            h = h + p["down"] @ (jax.nn.silu(p["gate"] @ x) * (p["up"] @ x))
        logits = weights["tokens"] @ norm(h)
        return jnp.argmax(logits), logits - jax.nn.logsumexp(logits), new

    def generate() -> Iterable[int]:
        cache = [tuple(jnp.zeros((shared, _CACHE, width)) for _ in range(2)) for _ in range(model.layers)]
        token = jnp.int32(1)
        for n in range(_PROMPT + _TOKENS):
            token, _, cache = step(weights, token, cache, n)
            if n >= _PROMPT:
                yield int(token)

    return generate


def main(side: str, name: str) -> None:
    model = MODELS[name]
    if side == "mxcompat":
        import mxcompat
        from mxcompat.ext import debug

        from .timing import settle

        mxcompat.install_as_mlx()
        times = _timed(model, mlx_lm(model), settle, debug.compiles)
    else:
        generate = _jax(model) if side == "jax.jit" else mlx_lm(model)
        times = _timed(model, generate, lambda: None, lambda: 0)
    print(*times)


if __name__ == "__main__":
    main(*sys.argv[1:])
