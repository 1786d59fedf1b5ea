"""Jobs of `mlx_lm_worker` on a model in a folder: mlx-lm's programs, from text to text.

The folder has a two-layer Llama with the weights of `mlx_lm_made`, and a tokenizer that knows 62 characters.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm_made import JOBS, TOKENS, Arrays, job, llama, to_numpy

CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,:;!?()"
CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-5, "vocab_size": 64, "tie_word_embeddings": False,
    "eos_token_id": 1, "max_position_embeddings": 128,
}  # fmt: skip
SENTENCES = ("The cat sat.", "Dogs bark (often).", "It rains; we stay here.", "Who knows?")


@cache
def _made() -> tempfile.TemporaryDirectory[str]:
    """Return a folder with a model, in the form of a download."""
    from mlx_lm.utils import save_config, save_model
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    holder = tempfile.TemporaryDirectory()
    folder = Path(holder.name, "model")
    save_model(folder, llama(hidden_size=64, intermediate_size=64))
    save_config(dict(CONFIG), folder / "config.json")
    vocabulary = {c: k for k, c in enumerate(["<unk>", "<eos>", *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "unk_token": "<unk>",
        "chat_template": "{% for m in messages %}{{ m['role'][0] }}: {{ m['content'] }};{% endfor %}"
                         "{% if add_generation_prompt %}a: {% endif %}",
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return holder


def folder() -> Path:
    return Path(_made().name, "model")


def loaded(path: Path | None = None, **options: Any) -> Any:
    from mlx_lm.utils import load

    return load(str(path or folder()), **options)


def text(*parts: Any) -> np.ndarray:
    return np.array("\n".join(map(str, parts)))


def run(main: Callable[[], None], *arguments: Any) -> str:
    """Run a program of mlx-lm with these arguments, and return its output."""
    old, out = sys.argv, io.StringIO()
    sys.argv = ["mlx_lm", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            main()
    finally:
        sys.argv = old
    return out.getvalue()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def described(model: Any) -> np.ndarray:
    return text(*sorted(f"{k} {v.dtype} {v.shape}" for k, v in tree_flatten(model.parameters())))


def logits(model: Any) -> np.ndarray:
    model.set_dtype(mx.float32)
    return to_numpy(model(mx.array(TOKENS[:, :12])))


@job
def text_generated() -> Arrays:
    from mlx_lm import generate, stream_generate

    model, tokenizer = loaded()
    whole = generate(model, tokenizer, "The cat", max_tokens=12)
    parts = list(stream_generate(model, tokenizer, "Who knows", max_tokens=5))
    fields = [(p.text, p.token, p.prompt_tokens, p.generation_tokens, p.finish_reason) for p in parts]
    return [text(whole, *fields), *(to_numpy(p.logprobs) for p in parts)]


@job
def text_generated_in_batches() -> Arrays:
    from mlx_lm import batch_generate

    model, tokenizer = loaded()
    prompts = [tokenizer.encode(s) for s in SENTENCES]
    first = batch_generate(model, tokenizer, prompts, max_tokens=6, return_prompt_caches=True)
    second = batch_generate(model, tokenizer, prompts, prompt_caches=first.caches, max_tokens=[3, 4, 5, 6])
    return [text(*first.texts, *second.texts)]


@job
def text_generated_with_a_draft() -> Arrays:
    from mlx_lm import stream_generate

    model, tokenizer = loaded()
    parts = list(stream_generate(model, tokenizer, "Dogs", draft_model=model, num_draft_tokens=3, max_tokens=8))
    return [text(*((p.text, p.from_draft) for p in parts))]


@job
def chat_with_a_cache() -> Arrays:
    from mlx_lm import generate
    from mlx_lm.models.cache import make_prompt_cache

    (model, tokenizer), answers = loaded(), []
    cache = make_prompt_cache(model)
    for sentence in SENTENCES[:3]:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": sentence}], add_generation_prompt=True)
        answers.append(generate(model, tokenizer, prompt, max_tokens=5, prompt_cache=cache))
    return [text(*answers), np.array(cache[0].offset)]


@job
def prompt_cached_by_program() -> Arrays:
    from mlx_lm import cache_prompt
    from mlx_lm.generate import main

    with scratch() as out:
        path = out / "prompt.safetensors"
        run(cache_prompt.main, "--model", folder(), "--prompt", "The cat", "--prompt-cache-file", path)
        arguments = ("--prompt", " sat", "--prompt-cache-file", path, "--max-tokens", 6, "--verbose", "False")
        said = run(main, *arguments)
        arrays, metadata = mx.load(str(path), return_metadata=True)
    metadata = {k: v for k, v in metadata.items() if "model" not in v and "/" not in v}
    return [text(said, sorted(arrays), sorted(metadata.items())), *(to_numpy(arrays[k]) for k in sorted(arrays))]


def converted(**options: Any) -> Arrays:
    from mlx_lm import convert

    with scratch() as out, contextlib.redirect_stdout(io.StringIO()):
        convert(str(folder()), str(out / "made"), **options)
        model, _, config = loaded(out / "made", return_config=True)
        return [text(json.dumps(config.get("quantization"), sort_keys=True)), described(model), logits(model)]


JOBS |= {
    "converted_to_bfloat16": lambda: converted(dtype="bfloat16"),
    "converted_to_4_bits": lambda: converted(quantize=True, q_bits=4, q_group_size=32),
    "converted_to_mxfp4": lambda: converted(quantize=True, q_mode="mxfp4"),
    "converted_to_nvfp4": lambda: converted(quantize=True, q_mode="nvfp4"),
    "converted_to_mxfp8": lambda: converted(quantize=True, q_mode="mxfp8"),
    "converted_to_mixed_bits": lambda: converted(quantize=True, quant_predicate="mixed_3_6", q_group_size=32),
}


@job
def quantized_and_back() -> Arrays:
    from mlx_lm.utils import compute_bits_per_weight, dequantize_model, get_total_parameters, quantize_model

    model, _, config = loaded(return_config=True)
    model, config = quantize_model(model, config, 32, 5)
    numbers = [np.array(compute_bits_per_weight(model)), np.array(get_total_parameters(model)), logits(model)]
    return [*numbers, described(model), logits(dequantize_model(model))]


@job
def loaded_in_shards() -> Arrays:
    from mlx_lm.utils import make_shards, sharded_load

    model, _ = sharded_load(str(folder()))
    shards = make_shards(dict(tree_flatten(model.parameters())), 1)
    return [text(*(sorted(shard) for shard in shards)), logits(model)]


@job
def awq_weights_read() -> Arrays:
    from mlx_lm.utils import _transform_awq_weights

    draw = np.random.default_rng(2)
    weights = {
        "a.qweight": mx.array(draw.integers(0, 2**31, (64, 4)).astype(np.int32)),
        "a.qzeros": mx.array(draw.integers(0, 2**31, (2, 4)).astype(np.int32)),
        "a.scales": mx.array(draw.uniform(0.1, 1, (2, 32)).astype(np.float32)),
        "b.weight": mx.array(draw.standard_normal(3).astype(np.float16)),
    }
    arrays, config = _transform_awq_weights(weights, {"group_size": 32})
    whole = mx.dequantize(arrays["a.weight"], arrays["a.scales"], arrays["a.biases"], **config)
    return [text(config), *(to_numpy(arrays[k]) for k in sorted(arrays)), to_numpy(whole)]


def _data(path: Path) -> None:
    """Write the files that `mlx_lm lora --data` reads: questions and answers of different lengths."""
    for split, count in (("train", 12), ("valid", 6), ("test", 6)):
        rows = [{"prompt": SENTENCES[k % 4], "completion": 5 * SENTENCES[(k + 1) % 3][: k + 4]} for k in range(count)]
        (path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))


def tuned(kind: str, optimizer: str = "adam", *, bits: int | None = None, **options: Any) -> Arrays:
    """Run `mlx_lm lora`, then `mlx_lm fuse`; return losses, adapters' names, and logits before and after fusing."""
    from mlx_lm import convert, fuse, lora

    with scratch() as out:
        base = folder()
        if bits:
            base = out / "quantized"
            with contextlib.redirect_stdout(io.StringIO()):
                convert(str(folder()), str(base), quantize=True, q_bits=bits, q_group_size=32)
        _data(out)
        config = {
            "lora_parameters": {"rank": 4, "dropout": 0.0, "scale": 4.0}, "optimizer_config": {
                "adam": {"eps": 1e-3}, "adamw": {"eps": 1e-3}, "muon": {}, "sgd": {"momentum": 0.5},
                "adafactor": {"eps": [1e-3, 1e-3]}},
            "lr_schedule": {"name": "cosine_decay", "warmup": 2, "arguments": [5e-3, 8]},
        }  # fmt: skip
        (out / "config.yaml").write_text(json.dumps(config))
        settings = {
            "model": base, "data": out, "fine_tune_type": kind, "optimizer": optimizer, "num_layers": 2, "iters": 6,
            "batch_size": 2, "steps_per_report": 1, "steps_per_eval": 3, "val_batches": 2, "max_seq_length": 96,
            "adapter_path": out / "adapters", "config": out / "config.yaml", "seed": 3, **options,
        }  # fmt: skip
        flags = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items() if v is not True]
        flags += [f"--{k.replace('_', '-')}" for k, v in settings.items() if v is True]
        said = run(lora.main, "--train", "--test", *flags)
        adapters = mx.load(str(out / "adapters/adapters.safetensors"))
        model, _ = loaded(base, adapter_path=str(out / "adapters"))
        run(fuse.main, "--model", base, "--adapter-path", out / "adapters", "--save-path", out / "fused",
            *(["--dequantize"] if bits else []))  # fmt: skip
        fused, _ = loaded(out / "fused")
        names = sorted(f"{k} {v.shape}" for k, v in adapters.items())
        losses = [float(w) for line in said.splitlines() if "loss" in line and "Test" in line for w in _numbers(line)]
        return [text(*names), np.array(losses), logits(model), described(fused), logits(fused)]


def _numbers(line: str) -> list[str]:
    return [w.strip(".,") for w in line.split() if w.strip(".,").replace(".", "", 1).isdigit()]


JOBS |= {
    "tuned_lora": lambda: tuned("lora"),
    "tuned_dora": lambda: tuned("dora", "adamw"),
    "tuned_full": lambda: tuned("full", "sgd"),
    "tuned_muon": lambda: tuned("lora", "muon"),
    "tuned_adafactor": lambda: tuned("lora", "adafactor"),
    "tuned_quantized": lambda: tuned("lora", bits=4, mask_prompt=True, grad_checkpoint=True),
    "tuned_dora_quantized": lambda: tuned("dora", bits=8, grad_accumulation_steps=2),
}


@job
def fused_to_gguf() -> Arrays:
    from mlx_lm.gguf import convert_to_gguf

    model, _ = loaded()
    model.set_dtype(mx.float16)
    with scratch() as out:
        path = out / "model.gguf"
        weights = dict(tree_flatten(model.parameters()))
        convert_to_gguf(folder(), weights, {**CONFIG, "_name_or_path": "tiny"}, str(path))
        arrays, metadata = mx.load(str(path), return_metadata=True)
    return [text(*sorted(metadata)), *(to_numpy(arrays[k]) for k in sorted(arrays))]


@job
def server() -> Arrays:
    """Return the answers of a server to requests in sequence, and to two at the same time."""
    import mlx_lm.server as module

    options = types.SimpleNamespace(
        model=str(folder()), adapter_path=None, draft_model=None, trust_remote_code=False, chat_template="",
        use_default_chat_template=False, temp=0.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=6, pipeline=False,
        chat_template_args={}, decode_concurrency=4, prompt_concurrency=2, prefill_step_size=16, prompt_cache_size=4,
        prompt_cache_bytes=None, kv_bits=None, kv_group_size=64, quantized_kv_start=0, num_draft_tokens=2,
        allowed_origins=["*"], log_level="ERROR",
    )  # fmt: skip
    generator = module.ResponseGenerator(module.ModelProvider(options), module.LRUPromptCache(4))

    def handler(*args: Any, **kwargs: Any) -> Any:
        return module.APIHandler(generator, *args, **kwargs)

    httpd = module.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=httpd.serve_forever, daemon=True)
    serving.start()

    def ask(path: str, **body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", httpd.server_address[1], timeout=120)
        body = {"model": "default_model", **body}
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer["choices"][0] if "choices" in answer else answer

    chat = [{"role": "user", "content": SENTENCES[0]}]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            answers = [
                ask("/v1/completions", prompt="The cat", max_tokens=5, logprobs=True, top_logprobs=2),
                ask("/v1/completions", prompt="The cat sat", max_tokens=5, repetition_penalty=1.2, logit_bias={"5": 3}),
                ask("/v1/chat/completions", messages=chat, max_tokens=4, seed=1, temperature=0.5),
            ]
            both: dict[int, Any] = {}
            asking = [
                threading.Thread(target=lambda k=k: both.update({k: ask("/v1/completions", prompt=SENTENCES[k])}))
                for k in (1, 2)
            ]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()
    finally:
        httpd.shutdown()
        httpd.server_close()
        generator.stop_and_join()
        serving.join()
    texts = [json.dumps(a.get("text", a.get("message", a)), sort_keys=True) for a in (*answers, both[1], both[2])]
    likely = [t for place in answers[0]["logprobs"]["content"] for t in place["top_logprobs"]]
    return [text(*texts), *(np.array([t[k] for t in likely]) for k in ("id", "logprob"))]
