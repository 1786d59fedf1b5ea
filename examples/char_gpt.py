"""Train a character-level GPT on the reference texts that come with Python, and let it write.

The text is that of ``help("...")``: some 700 000 characters of the language reference, which every Python has. The
model is ``nn.TransformerEncoder`` with a causal mask; AdamW, a warm-up and a cosine schedule, clipped gradients, a
compiled step. Runs on real MLX and on mxcompat alike, and prints the same losses:

    python examples/char_gpt.py                 real MLX
    python -m mxcompat examples/char_gpt.py     mxcompat
"""

import argparse
import time
from functools import partial
from pydoc_data.topics import topics

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten


class GPT(nn.Module):
    """Characters (N, T) to the logits (N, T, vocabulary) of the next ones."""

    def __init__(self, vocabulary: int, context: int, dims: int, heads: int, layers: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dims)
        self.places = nn.Embedding(context, dims)
        self.blocks = nn.TransformerEncoder(layers, dims, heads, activation=nn.gelu)

    def __call__(self, ids):
        length = ids.shape[1]
        mask = nn.MultiHeadAttention.create_additive_causal_mask(length)
        x = self.tokens(ids) + self.places(mx.arange(length))
        return self.tokens.as_linear(self.blocks(x, mask))


def data(share=0.9):
    """The characters that occur, and the text as integers: for training, for validation."""
    text = "\n".join(topics[name] for name in sorted(topics))
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    ids = mx.array([number[c] for c in text], dtype=mx.int32)
    cut = int(share * ids.size)
    return characters, ids[:cut], ids[cut:]


def sample_batch(ids, batch, context):
    """Windows of the text at random places: the inputs and, one character on, the targets."""
    starts = mx.random.randint(0, ids.size - context - 1, (batch, 1))
    windows = ids[starts + mx.arange(context + 1)]
    return windows[:, :-1], windows[:, 1:]


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


def write(model, ids, count, temperature):
    """Continue one window of text by ``count`` characters."""
    written = []
    for _ in range(count):
        logits = model(ids[None])[0, -1]
        new = mx.random.categorical(logits / temperature)
        written.append(new)
        ids = mx.concatenate([ids[1:], new[None].astype(ids.dtype)])
        mx.async_eval(ids)
    return [new.item() for new in written]


def main():
    parser = argparse.ArgumentParser(description="Train a character-level GPT on Python's reference texts.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--dims", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-3, help="the highest learning rate")
    parser.add_argument("--write", type=int, default=200, help="how many characters to write at the end")
    parser.add_argument("--report", type=int, default=50, help="print the losses every so many steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    characters, train, valid = data()
    model = GPT(len(characters), args.context, args.dims, args.heads, args.layers)
    size = sum(p.size for _, p in tree_flatten(model.parameters()))
    print(f"{train.size} characters of {len(characters)} kinds, {size} parameters")

    warmup = max(1, args.steps // 10)
    rise = optim.linear_schedule(args.rate / 10, args.rate, warmup)
    fall = optim.cosine_decay(args.rate, max(1, args.steps - warmup), args.rate / 10)
    optimizer = optim.AdamW(optim.join_schedules([rise, fall], [warmup]), weight_decay=0.1)
    state = [model.state, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x, y):
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x, y)
        gradients, _ = optim.clip_grad_norm(gradients, 1.0)
        optimizer.update(model, gradients)
        return loss

    start = time.perf_counter()
    losses = []
    for number in range(1, args.steps + 1):
        losses.append(step(*sample_batch(train, args.batch, args.context)))
        mx.eval(losses[-1], state)
        if number % args.report == 0 or number == args.steps:
            held_out = loss_fn(model, *sample_batch(valid, 4 * args.batch, args.context)).item()
            loss = mx.mean(mx.stack(losses)).item()
            print(f"step {number:4d}  train loss {loss:.3f}  validation loss {held_out:.3f}")
            losses = []
    print(f"{args.steps} steps in {time.perf_counter() - start:.1f} s")

    if args.write:
        prompt = valid[: args.context]
        text = "".join(characters[i] for i in prompt.tolist())
        print(f"\n{text}|{''.join(characters[i] for i in write(model, prompt, args.write, 0.8))}")


if __name__ == "__main__":
    main()
