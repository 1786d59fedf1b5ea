"""Train a small GPT on many devices, with the loop of one, and see what that saves and what it costs.

The same training loop runs on one device; data parallel, where each device has the whole model and a part of the batch;
and fully sharded, where each has a part of both. Each is one line more, and the losses are the same. What XLA has put
in for the devices to communicate is printed; a plot of what one device holds, against how many there are, is written as
SVG.

    python examples/sharded_gpt.py --devices 8      eight virtual devices, on any CPU
    python examples/sharded_gpt.py                  the accelerators that there are

This uses mxcompat's `mx.ext.sharding`, which MLX has not.
"""

import argparse
import io
import os
from pathlib import Path

import numpy as np


def arguments():
    parser = argparse.ArgumentParser(description="Train a small GPT on many devices.")
    parser.add_argument("--devices", type=int, help="so many virtual devices of the CPU")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--dims", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--plot", type=Path, default=Path("sharded_gpt.svg"))
    return parser.parse_args()


args = arguments()
if args.devices:  # before JAX starts
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={args.devices}"
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402

import mxcompat as mx  # noqa: E402
import mxcompat.nn as nn  # noqa: E402
import mxcompat.optimizers as optim  # noqa: E402
from mxcompat.ext import sharding  # noqa: E402


class GPT(nn.Module):
    """Tokens (N, T) to the logits (N, T, vocabulary) of the next ones."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.dims)
        self.places = nn.Embedding(args.context, args.dims)
        self.blocks = nn.TransformerEncoder(args.layers, args.dims, args.heads, activation=nn.gelu)

    def __call__(self, ids):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(ids.shape[1])
        x = self.tokens(ids) + self.places(mx.arange(ids.shape[1]))
        return self.tokens.as_linear(self.blocks(x, mask))


def one_device(model, batch, mesh):
    return batch


def data_parallel(model, batch, mesh):
    return sharding.shard(batch, mesh, "data")


def fully_sharded(model, batch, mesh):
    model.update(sharding.shard(model.parameters(), mesh, sharding.fsdp(mesh)))
    return sharding.shard(batch, mesh, "data")


def train(lay_out, mesh, steps):
    """The losses, what each device holds of the weights and of Adam's moments, and what XLA says of each program."""
    mx.random.seed(0)
    model, optimizer = GPT(), optim.AdamW(1e-3)
    ids = mx.array(np.random.default_rng(0).integers(0, args.vocabulary, (args.batch, args.context + 1)))
    x, y = lay_out(model, [ids[:, :-1], ids[:, 1:]], mesh)

    step = nn.value_and_grad(model, lambda model, x, y: nn.losses.cross_entropy(model(x), y, reduction="mean"))
    losses = []
    with mx.ext.debug.explain(io.StringIO()) as messages:
        for _ in range(steps):
            loss, gradients = step(model, x, y)
            optimizer.update(model, gradients)
            mx.eval(loss, model.parameters(), optimizer.state)
            losses.append(loss.item())
    held = sharding.bytes_per_device([model.parameters(), optimizer.state])
    return losses, max(held.values()), [m for m in messages if m.startswith("partitioned")]


def plot(path, held):
    """Write bytes per device against the number of devices, a line for each layout, as SVG."""
    counts = sorted({n for line in held.values() for n in line})
    top = max(size for line in held.values() for size in line.values())
    across = {n: 80 + 360 * k / max(1, len(counts) - 1) for k, n in enumerate(counts)}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="600" height="300" font-family="sans-serif" '
             'font-size="12">']  # fmt: skip
    parts.append('<path d="M80 20V250H460" fill="none" stroke="black"/>')
    parts += [f'<text x="{x:.0f}" y="268" text-anchor="middle">{n}</text>' for n, x in across.items()]
    parts.append('<text x="270" y="290" text-anchor="middle">devices</text>')
    parts.append(f'<text x="72" y="34" text-anchor="end">{top / 1e6:.2f} MB</text>')
    parts.append('<text x="72" y="254" text-anchor="end">0</text>')
    for (name, line), colour in zip(held.items(), ("#1f77b4", "#d62728"), strict=True):
        points = [(across[n], 250 - 220 * size / top) for n, size in line.items()]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" '
                     f'stroke="{colour}" stroke-width="2"/>')  # fmt: skip
        parts.append(f'<text x="470" y="{points[-1][1] + 4:.0f}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def main():
    devices = len(jax.devices())
    mesh = sharding.mesh()
    want, alone, _ = train(one_device, mesh, args.steps)
    print(f"one device: losses {want[0]:.5f} to {want[-1]:.5f}, {alone / 1e6:.2f} MB of weights and moments")
    held = {}
    for name, lay_out in (("data parallel", data_parallel), ("fully sharded", fully_sharded)):
        losses, size, messages = train(lay_out, mesh, args.steps)
        apart = max(abs(a - b) for a, b in zip(losses, want, strict=True))
        print(f"{name}, {devices} devices: losses {losses[0]:.5f} to {losses[-1]:.5f}, {apart:.1e} apart, "
              f"{size / 1e6:.2f} MB on each")  # fmt: skip
        print(f"  {messages[-1].partition(', evaluated')[0]}")
        fewer = [n for n in (1, 2, 4) if n < devices]
        held[name] = {n: train(lay_out, sharding.mesh(data=n), 1)[1] for n in fewer} | {devices: size}
    plot(args.plot, held)
    print(f"bytes per device: {args.plot}")


if __name__ == "__main__":
    main()
