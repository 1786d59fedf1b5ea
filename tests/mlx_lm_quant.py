"""Jobs of `mlx_lm_worker` that judge a model and quantize it: perplexity, and the methods of `mlx_lm.quant`."""

from __future__ import annotations

import contextlib
import io

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm_made import TOKENS, Arrays, job, to_numpy
from mlx_lm_tools import described, loaded, logits, scratch, text


@job
def perplexity() -> Arrays:
    from mlx_lm.perplexity import eval_ppl

    with contextlib.redirect_stdout(io.StringIO()):
        return [np.array(eval_ppl(loaded()[0], mx.array(np.resize(TOKENS, (5, 16))), batch_size=2))]


@job
def sensitivities() -> Arrays:
    from mlx_lm.quant.dynamic_quant import estimate_sensitivities, estimate_threshold, eval_ppl

    model, _ = loaded()
    data, levels = mx.array(np.resize(TOKENS, (6, 15))), (2, 32, 5, 32)
    pairs = estimate_sensitivities(model, data, *levels)
    threshold = estimate_threshold(model, dict(pairs), 4.0, *levels)
    return [text(*(k for k, _ in pairs)), *map(np.array, ([v for _, v in pairs], threshold, eval_ppl(model, data)))]


@job
def quantized_by_awq() -> Arrays:
    """Return the layers that AWQ scales but does not clip.

    Clipping makes a group's ends equal. Then the last bit of a weight decides in which direction its zero is
    rounded. Real MLX itself gives another result if its weights change by 2e-7.
    """
    from mlx_lm.quant.awq import AWQ_MODEL_CONFIGS, awq_quantize

    model, _ = loaded()
    data = mx.array(np.resize(TOKENS, (6, 15)))
    awq_quantize(model, data, AWQ_MODEL_CONFIGS["llama"], group_size=32, bits=3, n_grid=4)
    kept = [v for k, v in tree_flatten(model.parameters()) if any(w in k for w in ("q_proj", "k_proj", "norm"))]
    return [described(model), *map(to_numpy, kept)]


@job
def quantized_by_gptq() -> Arrays:
    from mlx_lm.quant.gptq import gptq_quantize

    model, _ = loaded()
    data = mx.array(np.random.default_rng(5).integers(0, 60, (12, 16)))
    model, config = gptq_quantize(model, data, 4, 32, 6, 32, batch_size=6)
    return [text(config), described(model), logits(model)]


@job
def quantized_by_dwq() -> Arrays:
    from mlx_lm.quant.dwq import compute_dwq_targets, dwq_quantize

    teacher, _ = loaded()
    student, _ = loaded()
    nn.quantize(student, group_size=32, bits=4)
    rows = [(TOKENS[k % 2, : 20 - k].tolist(), 0) for k in range(8)]
    with contextlib.redirect_stdout(io.StringIO()):
        dwq_quantize(
            student, lambda batch, *_, **__: teacher(batch), optim.Adam(1e-3, eps=1e-3, bias_correction=True),
            rows, rows[:4], batch_size=2, max_seq_length=16, seed=1, dtype=mx.float32, gradient_checkpoint=True,
        )  # fmt: skip
        with scratch() as out:
            wide, _ = loaded()
            compute_dwq_targets(lambda x: mx.tile(wide(x), (1, 1, 20)), out, rows, rows[:2], 2, 16, 1)
            kept = mx.load(str(out / "train/0000000000.safetensors"))
    return [described(student), logits(student), np.sort(to_numpy(kept["logits"]), axis=-1)]


@job
def losses() -> Arrays:
    from mlx_lm.tuner.losses import js_div_loss, kl_div_loss

    q, p = (mx.array(np.random.default_rng(k).standard_normal((3, 4, 50)).astype(np.float32)) for k in (0, 1))
    values = [f(q, p) for f in (kl_div_loss, js_div_loss)]
    slopes = [mx.grad(lambda q, f=f: f(q, p).sum())(q) for f in (kl_div_loss, js_div_loss)]
    return [to_numpy(x) for x in (*values, *slopes)]


@job
def schedules() -> Arrays:
    from mlx_lm.tuner.utils import build_schedule

    rates = []
    for name, *arguments in (
        ("cosine_decay", 1e-2, 10),
        ("exponential_decay", 1e-2, 0.9),
        ("step_decay", 1e-2, 0.5, 3),
    ):
        schedule = build_schedule({"name": name, "arguments": arguments, "warmup": 4, "warmup_init": 1e-4})
        rates.append(np.array([schedule(mx.array(k)).item() for k in range(12)]))
    return rates
