"""Run mlx-lm, unmodified, on the library that `import mlx` finds, and record the results:

    python tests/mlx_lm_worker.py OUT JOB...                     with real MLX
    python -m mxcompat tests/mlx_lm_worker.py OUT JOB...         with mxcompat

A job is a function below, in `mlx_lm_tools` or `mlx_lm_quant`, or `model:NAME`. OUT is a pickle of {job: list of
NumPy arrays, or the error as text}.
"""

from __future__ import annotations

import importlib
import pickle
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.generate import BatchGenerator, generate_step, speculative_generate_step
from mlx_lm.models import cache as caches
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from mlx_lm.tuner import trainer
from mlx_lm.tuner.callbacks import TrainingCallback
from mlx_lm.tuner.utils import linear_to_lora_layers

sys.path.insert(0, str(Path(__file__).parent))
import mlx_lm_models
import mlx_lm_quant  # noqa: F401  (its jobs, and those of mlx_lm_tools)
from mlx_lm_made import JOBS, TOKENS, Arrays, job, llama, model, to_numpy


def decode(network: Any, cache: list[Any], prompt: int = 7, steps: int = 3, batch: int = 1) -> Arrays:
    """Return the logits of a prompt, then of single tokens. The tokens are given, so an error does not grow."""
    logits = [to_numpy(network(mx.array(TOKENS[:batch, :prompt]), cache=cache))]
    for k in range(prompt, prompt + steps):
        logits.append(to_numpy(network(mx.array(TOKENS[:batch, k : k + 1]), cache=cache)))
    return logits


def architecture(name: str) -> Arrays:
    mx.random.seed(0)
    initial = importlib.import_module(f"mlx_lm.models.{name}").Model(mlx_lm_models.arguments(name))
    described = [f"{k} {v.dtype} {v.shape}" for k, v in tree_flatten(initial.parameters())]
    total = sum(float(mx.abs(v.astype(mx.float32)).sum().item()) for _, v in tree_flatten(initial.parameters()))
    network = model(name)
    logits = decode(network, caches.make_prompt_cache(network))
    return [np.array("\n".join(sorted(described))), np.array(total / 1e3), *logits]


def pair(make: Callable[[], Any]) -> list[Any]:
    """Return a cache for each layer of `llama()`."""
    return [make(), make()]


@job
def plain_cache() -> Arrays:
    return decode(llama(), pair(caches.KVCache), steps=4)


@job
def full_cache() -> Arrays:
    """Generate past the end of the cache's buffer of 256 entries: it is used completely, then it grows."""
    network, cache = llama(), pair(caches.KVCache)
    network(mx.array(np.resize(TOKENS, (1, 254))), cache=cache)
    return decode(network, cache, prompt=1, steps=3)


@job
def rotating_cache() -> Arrays:
    return decode(llama(), pair(lambda: caches.RotatingKVCache(max_size=9, keep=2)), steps=6)


@job
def rotating_cache_shorter_than_the_prompt() -> Arrays:
    return decode(llama(), pair(lambda: caches.RotatingKVCache(max_size=5, keep=1)), steps=4)


@job
def rotating_cache_in_pieces() -> Arrays:
    network, cache = llama(), pair(lambda: caches.RotatingKVCache(max_size=6, keep=1))
    return [to_numpy(network(mx.array(TOKENS[:1, a:b]), cache=cache)) for a, b in ((0, 5), (5, 9), (9, 10))]


@job
def concatenate_cache() -> Arrays:
    return decode(llama(), pair(caches.ConcatenateKVCache))


@job
def chunked_cache() -> Arrays:
    network, cache, logits = llama(), pair(lambda: caches.ChunkedKVCache(chunk_size=4)), []
    for k in range(4):
        for layer in cache:
            layer.maybe_trim_front()
        logits.append(to_numpy(network(mx.array(TOKENS[:1, 3 * k : 3 * k + 3]), cache=cache)))
    return logits


@job
def quantized_cache() -> Arrays:
    return [
        logits
        for bits in (4, 8)
        for logits in decode(llama(), pair(lambda bits=bits: caches.QuantizedKVCache(group_size=32, bits=bits)))
    ]


@job
def cache_made_quantized() -> Arrays:
    network, cache = llama(), pair(caches.KVCache)
    prompt = to_numpy(network(mx.array(TOKENS[:1, :7]), cache=cache))
    cache = [layer.to_quantized(group_size=32, bits=4) for layer in cache]
    return [prompt, to_numpy(network(mx.array(TOKENS[:1, 7:8]), cache=cache)), to_numpy(cache[0].keys[1])]


@job
def batch_cache() -> Arrays:
    return decode(llama(), pair(lambda: caches.BatchKVCache([2, 0])), batch=2)


@job
def batch_rotating_cache() -> Arrays:
    return decode(llama(), pair(lambda: caches.BatchRotatingKVCache(9, [2, 0])), steps=5, batch=2)


@job
def batch_cache_filtered_extended_extracted() -> Arrays:
    first, second = caches.BatchKVCache([2, 0]), caches.BatchKVCache([1, 0])
    keys = mx.array(np.random.default_rng(0).standard_normal((2, 1, 5, 32)).astype(np.float32))
    first.update_and_fetch(keys, 2 * keys)
    second.update_and_fetch(keys[:, :, :4], keys[:, :, :4])
    first.filter(mx.array([1]))
    first.extend(second)
    one = first.extract(1)
    both = caches.KVCache.merge([one, first.extract(0)])
    return [*map(to_numpy, (first.keys, first.values, first.offset, first.left_padding, one.keys, both.keys))]


@job
def trimmed_cache() -> Arrays:
    network, cache = llama(), pair(caches.KVCache)
    network(mx.array(TOKENS[:1, :7]), cache=cache)
    count = caches.trim_prompt_cache(cache, 3)
    return [np.array(count), to_numpy(network(mx.array(TOKENS[:1, 8:10]), cache=cache))]


@job
def saved_cache() -> Arrays:
    network, cache = llama(), pair(caches.KVCache)
    network(mx.array(TOKENS[:1, :7]), cache=cache)
    with tempfile.TemporaryDirectory() as folder:
        caches.save_prompt_cache(f"{folder}/cache.safetensors", cache, {"a": "b"})
        cache, metadata = caches.load_prompt_cache(f"{folder}/cache.safetensors", return_metadata=True)
    return [np.array(str(metadata)), to_numpy(network(mx.array(TOKENS[:1, 8:9]), cache=cache))]


@job
def quantized_model() -> Arrays:
    network = llama(hidden_size=64, intermediate_size=64)
    nn.quantize(network, group_size=32, bits=4)
    return decode(network, pair(caches.KVCache))


def generated(**options: Any) -> Arrays:
    mx.random.seed(3)
    options = {"max_tokens": 6, **options}
    tokens, logprobs = zip(*generate_step(mx.array(TOKENS[0, :6]), llama(), **options), strict=True)
    return [np.array(tokens), *map(to_numpy, logprobs)]


@job
def greedy() -> Arrays:
    return generated(max_tokens=10)


@job
def sampled() -> Arrays:
    return generated(sampler=make_sampler(temp=1.0), max_tokens=10)


@job
def sampled_top_p() -> Arrays:
    return generated(sampler=make_sampler(temp=0.9, top_p=0.8))


@job
def sampled_min_p() -> Arrays:
    return generated(sampler=make_sampler(temp=0.9, min_p=0.05))


@job
def sampled_top_k() -> Arrays:
    return generated(sampler=make_sampler(temp=0.9, top_k=5))


@job
def sampled_xtc() -> Arrays:
    return generated(sampler=make_sampler(temp=0.9, xtc_probability=0.9, xtc_threshold=0.02))


@job
def logits_processors() -> Arrays:
    penalties = {"repetition_penalty": 1.3, "repetition_context_size": 5, "presence_penalty": 0.5}
    return generated(logits_processors=make_logits_processors(logit_bias={3: 2.0, 5: -1.0}, **penalties))


@job
def generated_with_quantized_cache() -> Arrays:
    return generated(kv_bits=8, kv_group_size=32, quantized_kv_start=8)


@job
def generated_from_pieces_of_the_prompt() -> Arrays:
    return generated(prefill_step_size=2)


@job
def speculative() -> Arrays:
    prompt, draft = mx.array(TOKENS[0, :6]), llama(num_hidden_layers=1)
    steps = speculative_generate_step(prompt, llama(), draft, num_draft_tokens=2, max_tokens=8)
    return [np.array([(token, accepted) for token, _, accepted in steps])]


@job
def batch_generator() -> Arrays:
    generator = BatchGenerator(llama(), max_tokens=6)
    ids = generator.insert([TOKENS[0, :5].tolist(), TOKENS[1, :3].tolist()])
    tokens: dict[int, list[int]] = {k: [] for k in ids}
    while responses := generator.next_generated():
        for response in responses:
            tokens[response.uid].append(response.token)
    return [np.array([tokens[k] for k in ids])]


def structures() -> int:
    """Return the number of structures seen so far, after all background compiles; 0 on real MLX."""
    ours = sys.modules.get("mxcompat")
    if not ours:
        return 0
    ours.ext.debug.compiles()
    return ours.ext.debug.cache_size()


class _Reports(TrainingCallback):
    """Callback that records the trainer's losses, and the number of structures at each step."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.structures: list[int] = []

    def on_train_loss_report(self, train_info: dict[str, Any]) -> None:
        self.losses.append(train_info["train_loss"])
        self.structures.append(structures())

    def on_val_loss_report(self, val_info: dict[str, Any]) -> None:
        self.losses.append(val_info["val_loss"])


def trained(
    name: str = "llama", *, adapters: bool = True, dora: bool = False, quantized: bool = False, dropout: float = 0.0,
    keys: list[str] | None = None, **options: Any,
) -> Arrays:  # fmt: skip
    """Return the losses of a few steps, the names and shapes of the saved weights, and the new structures in the last
    steps.

    The rows make batches of two lengths, 33 and 65. The last three steps take every row once, and have no new
    structures. Adam divides by the size of the gradient. So where a gradient is nearly zero, rounding decides the
    update's sign. A larger eps prevents that, so that the two sides can be compared step by step.
    """
    mx.random.seed(7)
    np.random.seed(0)
    network = model(name, **({"hidden_size": 64, "intermediate_size": 64} if quantized else {}))
    if quantized:
        nn.quantize(network, group_size=32, bits=4)
    if adapters:
        network.freeze()
        config = {"rank": 4, "scale": 4.0, "dropout": dropout, **({"keys": keys} if keys else {})}
        linear_to_lora_layers(network, 2, config, use_dora=dora)
    rows = [(((np.arange(length) * 3 + length) % 60).tolist(), length % 4) for length in (9, 21, 25, 30, 40, 60)]
    reports = _Reports()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/adapters.safetensors"
        args = {"batch_size": 2, "iters": 12, "steps_per_report": 1, "steps_per_eval": 4, "adapter_file": path}
        optimizer = optim.Adam(learning_rate=5e-3, eps=1e-3)
        args = trainer.TrainingArgs(**args | options)
        trainer.train(network, optimizer, rows, rows[:4], args=args, training_callback=reports)
        saved = sorted(f"{k} {v.shape}" for k, v in mx.load(path).items())
    new = reports.structures[-1] - reports.structures[-4]
    return [np.array("\n".join(saved)), np.array(reports.losses), np.array(new)]


JOBS |= {
    "lora": trained,
    "lora_quantized": lambda: trained(quantized=True),
    "lora_dropout": lambda: trained(dropout=0.3),
    "lora_checkpointed": lambda: trained(grad_checkpoint=True),
    "lora_accumulated": lambda: trained(grad_accumulation_steps=2, iters=24),
    "lora_experts": lambda: trained("qwen3_moe"),
    # The architecture unrolls its loop over the sequence, so it is compiled only after some steps.
    "lora_mamba": lambda: trained("mamba", keys=["mixer.in_proj", "mixer.out_proj"], max_seq_length=16, iters=24),
    "lora_embedding": lambda: trained(keys=["model.embed_tokens", "self_attn.q_proj"]),
    "dora": lambda: trained(dora=True),
    "all_weights": lambda: trained(adapters=False),
}


def main(out: str, jobs: list[str]) -> None:
    results: dict[str, Arrays | str] = {}
    for name in jobs:
        kind, _, which = name.rpartition(":")
        try:
            results[name] = architecture(which) if kind else JOBS[name]()
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
        Path(out).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))  # a wrong size in a configuration must not fill memory
    main(sys.argv[1], sys.argv[2:])
