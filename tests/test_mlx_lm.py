"""mlx-lm, the unmodified package from PyPI, gives the same numbers on mxcompat as on real MLX.

Two processes run the same jobs of `mlx_lm_worker`, one on each side; the tests compare their records. The default
run has a few architectures, caches, ways to generate and one LoRA training. `-m exhaustive` adds the others:
training, quantization, conversion and the server.
"""

import contextlib
import importlib.util
import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.mlx_lm_models import names

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None, reason="mlx-lm is not installed")

USUAL = (
    "model:llama", "model:gemma3_text", "model:qwen3_moe", "model:mamba2", "model:deepseek_v3", "model:qwen3_next",
    "full_cache", "rotating_cache", "quantized_cache", "chunked_cache", "batch_cache", "saved_cache",
    "greedy", "sampled", "batch_generator", "lora", "text_generated",
)  # fmt: skip

REST = (
    "plain_cache", "rotating_cache_shorter_than_the_prompt", "rotating_cache_in_pieces", "concatenate_cache",
    "cache_made_quantized", "batch_rotating_cache", "batch_cache_filtered_extended_extracted", "trimmed_cache",
    "quantized_model", "sampled_top_p", "sampled_min_p", "sampled_top_k", "sampled_xtc", "logits_processors",
    "generated_with_quantized_cache", "generated_from_pieces_of_the_prompt", "speculative", "lora_quantized",
    "lora_dropout", "lora_checkpointed", "lora_accumulated", "lora_experts", "lora_mamba", "lora_embedding", "dora",
    "all_weights", "text_generated_in_batches", "text_generated_with_a_draft", "chat_with_a_cache",
    "prompt_cached_by_program", "converted_to_bfloat16", "converted_to_4_bits", "converted_to_mxfp4",
    "converted_to_nvfp4", "converted_to_mxfp8", "converted_to_mixed_bits", "quantized_and_back", "loaded_in_shards",
    "awq_weights_read", "tuned_lora", "tuned_dora", "tuned_full", "tuned_muon", "tuned_adafactor", "tuned_quantized",
    "tuned_dora_quantized", "fused_to_gguf", "perplexity", "sensitivities", "quantized_by_awq", "quantized_by_gptq",
    "quantized_by_dwq", "losses", "schedules", "server", *sorted({f"model:{name}" for name in names()} - set(USUAL)),
)  # fmt: skip

JOBS_IN_A_PROCESS = 15

PATIENCE = 900
"""Limit in seconds for a process, which takes 20 by default."""


@cache
def outcomes(jobs, folder):
    """Run the jobs on real MLX and mxcompat concurrently, and return both records; a failing process is reported
    with its log."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = []
    for side, run in (("real", ()), ("ours", ("-m", "mxcompat"))):
        command = [sys.executable, *run, "tests/mlx_lm_worker.py", str(folder / side), *jobs]
        log = open(folder / f"{side}.log", "w")  # noqa: SIM115
        running.append((side, log, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)))
    results = []
    try:
        for side, log, process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PATIENCE)
            log.close()
            text = (folder / f"{side}.log").read_text()
            failed = f"{side}: exit status {process.returncode}\n{text[-3000:]}"
            results.append(failed if process.returncode != 0 else pickle.loads((folder / side).read_bytes()))
    finally:
        for _, log, process in running:
            process.kill()
            process.wait()
            log.close()
    return results


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return cache(lambda jobs: tmp_path_factory.mktemp("mlx_lm"))


def compare(job, jobs, folders):
    sides = outcomes(jobs, folders(jobs))
    for side in sides:
        assert not isinstance(side, str), side
    want, got = (side[job] for side in sides)
    assert not isinstance(want, str), f"real MLX: {want}"
    assert not isinstance(got, str), got
    assert len(got) == len(want)
    for k, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        if w.dtype.kind == "f":
            assert np.isfinite(w).all()
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4, err_msg=f"{job}, result {k}")
        else:
            assert g.tolist() == w.tolist(), f"{job}, result {k}"
    return got


@pytest.mark.parametrize("job", USUAL)
def test_the_same_as_on_real_mlx(job, folders):
    got = compare(job, USUAL, folders)
    if job == "lora":
        _, losses, new = got
        assert new == 0
        assert losses[-2:].mean() < losses[:2].mean()


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", REST)
def test_the_rest(job, folders):
    first = REST.index(job) // JOBS_IN_A_PROCESS * JOBS_IN_A_PROCESS
    compare(job, REST[first : first + JOBS_IN_A_PROCESS], folders)
