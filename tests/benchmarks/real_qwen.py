"""Qwen2 0.5B as published, with random weights: loaded from a file, it generates tokens by mlx-lm's own loop.

    python -m tests.benchmarks.real_qwen SIDE FOLDER BITS     writes the model's files to a folder; BITS may be 16

PyTorch's side is the model of transformers, on the same file.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .agreement import digest
from .real_sides import megabytes, use

__all__ = ["measure", "save"]

_CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": True,
}
_PROMPT = 32
_TOKENS = 16

Load = Callable[[], Any]
Generate = Callable[[Any, list[int], int], Iterator[tuple[int, list[float]]]]
"""Generate a number of tokens after a prompt, each with the first of its log probabilities."""


def save(folder: Path, bits: int, **sizes: int) -> None:
    """Write the configuration and random weights, in bfloat16 or quantized to fewer bits. `sizes` replace entries."""
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_flatten

    _without_torch()
    from mlx_lm.models import qwen2

    config = {**_CONFIG, **sizes}
    mx.random.seed(0)
    model = qwen2.Model(qwen2.ModelArgs.from_dict(config))
    model.set_dtype(mx.bfloat16)
    if bits < 16:
        config["quantization"] = {"group_size": 64, "bits": bits}
        nn.quantize(model, **config["quantization"])
    (folder / "config.json").write_text(json.dumps(config))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})


def _without_torch() -> None:
    """Keep transformers, which mlx-lm imports, from importing PyTorch: that would take 190 MB on every side."""
    sys.modules["torch"] = None  # type: ignore[assignment]


def _mlx(folder: Path) -> tuple[Load, Generate]:
    import mlx.core as mx

    _without_torch()
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load_model

    def generate(model: Any, prompt: list[int], count: int) -> Iterator[tuple[int, list[float]]]:
        for token, logprobs in generate_step(mx.array(prompt), model, max_tokens=count):
            yield int(token), digest(logprobs[:16].astype(mx.float32))

    return lambda: load_model(folder)[0], generate


def _torch(folder: Path) -> tuple[Load, Generate]:
    import torch  # type: ignore[import-not-found]
    from transformers import Qwen2ForCausalLM

    def generate(model: Any, prompt: list[int], count: int) -> Iterator[tuple[int, list[float]]]:
        with torch.inference_mode():
            out = model(torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
            for _ in range(count):
                logprobs = out.logits[0, -1].log_softmax(-1)
                token = int(logprobs.argmax())
                yield token, logprobs[:16].tolist()
                out = model(torch.tensor([[token]]), past_key_values=out.past_key_values, use_cache=True)

    return lambda: Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.bfloat16), generate


def measure(side: str, folder: Path, prompt: int = _PROMPT, tokens: int = _TOKENS) -> dict[str, Any]:
    """Return milliseconds to load the model, of the first token and of later ones, and the memory in MB."""
    use(side)
    load, generate = (_torch if side == "PyTorch" else _mlx)(folder)
    clock = time.perf_counter
    start = clock()
    model = load()
    loaded = clock()
    times, results = [loaded], []
    for _, logprobs in generate(model, [7 * k % 100 for k in range(prompt)], 1 + tokens):
        times.append(clock())
        results.append(logprobs)
    first, *later = (after - before for before, after in itertools.pairwise(times))
    return {
        "load": 1e3 * (loaded - start),
        "first token": 1e3 * first,
        f"next {tokens} tokens": 1e3 * sum(later),
        "a token": 1e3 * statistics.median(later),
        "peak memory": megabytes("VmHWM"),
        "memory after": megabytes("VmRSS"),
        "result": results[0],
    }


def main(side: str, folder: str, bits: str) -> None:
    use(side)
    save(Path(folder), int(bits))


if __name__ == "__main__":
    main(*sys.argv[1:])
