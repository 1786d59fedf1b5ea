"""Batching of products that are Einstein summations: the batch axis is one more letter."""

from __future__ import annotations

import string

from mxcompat._graph.ir.node import Node, apply

from .einsum import EINSUM

__all__ = ["batched_sum", "labels_of", "own_shapes"]


def batched_sum(terms: list[str], output: str, inputs: tuple[Node, ...], batched: tuple[bool, ...]) -> Node | None:
    """Return an Einstein summation with a letter for the batch axis. None if no letter is left."""
    labels = dict.fromkeys("".join([*terms, output]))
    if len(labels) >= len(string.ascii_letters):
        return None
    letters = dict(zip(labels, string.ascii_letters, strict=False))
    new = string.ascii_letters[len(labels)]
    spelled = ["".join([letters[c] for c in term]) for term in (*terms, output)]
    left = ",".join([new + term if on else term for term, on in zip(spelled, batched, strict=False)])
    return apply(EINSUM, inputs, (f"{left}->{new}{spelled[-1]}",))


def own_shapes(inputs: tuple[Node, ...], batched: tuple[bool, ...]) -> list[tuple[int, ...]]:
    return [n.aval.shape[on:] for n, on in zip(inputs, batched, strict=True)]


def labels_of(x: int, y: int, pairs: tuple[tuple[int, ...], ...]) -> tuple[list[str], str]:
    """Return the terms and the output of the Einstein summation over pairs of axes."""
    left, right = [chr(k) for k in range(x)], [chr(x + k) for k in range(y)]
    for i, j in zip(*pairs, strict=True):
        right[j] = left[i]
    output = [c for c in left if c not in right] + [c for c in right if c not in left]
    return ["".join(left), "".join(right)], "".join(output)
