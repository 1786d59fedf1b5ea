"""Generate with each of mlx-lm's caches on the library that `import mlx` finds, see `test_padding`:

    python tests/padding_worker.py OUT JOB...                     with real MLX
    python -m mxcompat tests/padding_worker.py OUT JOB...         with mxcompat

OUT is JSON: for each job the tokens, and the number of programs compiled before each token.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step
from mlx_lm.models import cache as caches
from mlx_lm.models import gemma2, llama
from mlx_lm.sample_utils import make_sampler

TOKENS = 200
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [9, 8, 7], [11, 12, 13, 14, 15]]
SIZES = {
    "hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 128, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "rms_norm_eps": 1e-5, "vocab_size": 100,
}  # fmt: skip


def generated(model: Any, **options: Any) -> Iterator[list[int]]:
    options = {"max_tokens": TOKENS, "sampler": make_sampler(temp=1.0), **options}
    for token, _ in generate_step(mx.array(PROMPTS[0]), model, **options):
        yield [int(token)]


def quantized(bits: int, group: int) -> Callable[[Any], Iterator[list[int]]]:
    return lambda model: generated(model, kv_bits=bits, kv_group_size=group, quantized_kv_start=0)


def batch(model: Any) -> Iterator[list[int]]:
    generator = BatchGenerator(model, max_tokens=TOKENS, stop_tokens=[[-1]], sampler=make_sampler(temp=1.0))
    generator.insert(PROMPTS)
    for _ in range(TOKENS):
        yield [r.token for r in sorted(generator.next_generated(), key=lambda r: r.uid)]


def rotating_batch(size: int) -> Callable[[Any], Iterator[list[int]]]:
    def run(model: Any) -> Iterator[list[int]]:
        model.make_cache = lambda: [caches.RotatingKVCache(max_size=size) for _ in model.layers]
        return batch(model)

    return run


JOBS: dict[str, Callable[[Any], Iterator[list[int]]]] = {
    "8 bits, groups of 64": quantized(8, 64),
    "4 bits, groups of 32": quantized(4, 32),
    "batch": batch,
    "chunked": lambda model: generated(model, prompt_cache=[caches.ChunkedKVCache(1024) for _ in model.layers]),
    "rotating": lambda model: generated(model, max_kv_size=48),
    "rotating batch": rotating_batch(48),
    "attention by hand": generated,
}
"""The jobs by name. Rotating caches are full after some 40 tokens, and start again at the front."""


def model(job: str) -> Any:
    mx.random.seed(4)
    if job == "attention by hand":
        network: Any = gemma2.Model(gemma2.ModelArgs(model_type="gemma2", **SIZES, query_pre_attn_scalar=64))
    else:
        network = llama.Model(llama.ModelArgs(model_type="llama", **SIZES))
    mx.eval(network.parameters())
    return network


def main(out: str, *jobs: str) -> None:
    compiles = importlib.import_module("mxcompat.ext.debug").compiles if "mxcompat" in sys.modules else int
    figures = {}
    for job in jobs:
        steps = [(tokens, compiles()) for tokens in JOBS[job](model(job))]
        figures[job] = {"tokens": [t for t, _ in steps], "compiles": [c for _, c in steps]}
    Path(out).write_text(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
