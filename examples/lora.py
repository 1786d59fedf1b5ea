"""Teach a small Llama Python with LoRA, DoRA and LoRA on quantized weights, by the trainer of mlx-lm.

Nothing is downloaded. A Llama of two layers first learns, byte by byte, the English of ``help("...")``, the reference
texts that come with Python. Then its weights are frozen, and adapters learn the source code of Python's own modules.
The adapters are saved, loaded into a fresh copy of the model, and fused into its weights. Needs mlx-lm. Runs on real
MLX and on mxcompat alike, and prints the same losses:

    python examples/lora.py                 real MLX
    python -m mxcompat examples/lora.py     mxcompat
"""

import argparse
import ast
import inspect
import json
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from pydoc_data.topics import topics

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models import llama
from mlx_lm.tuner import TrainingArgs, linear_to_lora_layers, train
from mlx_lm.tuner.callbacks import TrainingCallback
from mlx_lm.tuner.utils import load_adapters

MODULES = (argparse, ast, inspect, json, tempfile)
BYTES = 256
PIECE = 64


def data(text):
    """The rows that the trainer takes, (tokens, length of the prompt): for training, for validation."""
    tokens = list(text.encode())
    rows = [(tokens[k : k + PIECE], 0) for k in range(0, len(tokens) - PIECE, PIECE)]
    valid = rows[::10]
    del rows[::10]
    return rows, valid


def make(args, weights=(), bits=None):
    """A Llama, with the given weights, quantized if ``bits`` says so."""
    dims = {"hidden_size": args.dims, "intermediate_size": 2 * args.dims, "num_attention_heads": args.dims // 32}
    model = llama.Model(
        llama.ModelArgs("llama", num_hidden_layers=args.layers, rms_norm_eps=1e-5, vocab_size=BYTES, **dims)
    )
    model.load_weights(list(weights), strict=bool(weights))
    if bits:
        nn.quantize(model, group_size=32, bits=bits)
    return model


class Losses(TrainingCallback):
    """Keeps what the trainer reports."""

    def __init__(self):
        self.rows = []

    def on_val_loss_report(self, info):
        self.rows.append(f"step {info['iteration']:4d}  validation loss {info['val_loss']:.3f}")

    def on_train_loss_report(self, info):
        self.rows.append(f"step {info['iteration']:4d}  train loss {info['train_loss']:.3f}")


def fit(model, rows, rate, steps, folder):
    """Train whatever is not frozen, and save it in the folder. What the trainer itself prints goes to stderr."""
    losses, half = Losses(), max(1, steps // 2)
    plan = TrainingArgs(
        batch_size=8, iters=steps, val_batches=8, steps_per_report=half, steps_per_eval=half, steps_per_save=steps,
        adapter_file=f"{folder}/adapters.safetensors",
    )  # fmt: skip
    optimizer = optim.Adam(rate, betas=[0.9, 0.95], bias_correction=True)
    np.random.seed(0)  # the trainer draws its batches with NumPy
    with redirect_stdout(sys.stderr):
        train(model, optimizer, *rows, plan, training_callback=losses)
    print("\n".join(losses.rows))


def main():
    parser = argparse.ArgumentParser(description="Teach a small Llama Python, with LoRA and its kin.")
    parser.add_argument("--steps", type=int, default=200, help="of the first training")
    parser.add_argument("--adapter-steps", type=int, default=60)
    parser.add_argument("--dims", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    english = data("\n".join(topics[name] for name in sorted(topics)))
    python = data("\n".join(inspect.getsource(module) for module in MODULES))
    model = make(args)
    with tempfile.TemporaryDirectory() as folder:
        print(f"English, all {sum(p.size for _, p in tree_flatten(model.parameters()))} weights")
        fit(model, english, 4e-3, args.steps, folder)
        base = tree_flatten(model.parameters())

        for kind, bits in (("lora", None), ("dora", None), ("lora", 4)):
            model = make(args, base, bits)
            model.freeze()
            shape = {"rank": args.rank, "scale": 4.0, "dropout": 0.0}
            linear_to_lora_layers(model, args.layers, shape, use_dora=kind == "dora")
            size = sum(p.size for _, p in tree_flatten(model.trainable_parameters()))
            print(f"\nPython, {size} weights of {kind} adapters" + (f" on {bits}-bit weights" if bits else ""))
            fit(model, python, 4e-3, args.adapter_steps, folder)

            config = {"fine_tune_type": kind, "num_layers": args.layers, "lora_parameters": shape}
            Path(folder, "adapter_config.json").write_text(json.dumps(config))
            loaded = load_adapters(make(args, base, bits), folder)
            fused = [(name, module.fuse(True)) for name, module in loaded.named_modules() if hasattr(module, "fuse")]
            tokens = mx.array([row for row, _ in python[1][:4]])
            want, got = model(tokens), loaded(tokens)
            print(f"loaded: the same logits: {mx.allclose(got, want, atol=1e-4).item()}")
            loaded.update_modules(tree_unflatten(fused))
            print(f"{len(fused)} layers fused: the same logits: {mx.allclose(loaded(tokens), want, atol=1e-3).item()}")


if __name__ == "__main__":
    main()
