"""Outputs of ops that have several, and of these the outputs that are read late: for example a loss, next to gradients.

A pending output is an ITEM of its node, and an ITEM keeps the values of all outputs alive. A program that evaluates its
parameters at each step and collects the losses would therefore keep the gradients of every step. To avoid this, the
other outputs of a function get their values as soon as the node has been evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from .node import ITEM, Node
from .op import Op

__all__ = ["TUPLE", "register_outputs", "resolve_outputs", "try_resolve_item"]

TUPLE = Op("tuple", lambda *inputs: inputs, lambda *avals: avals)
"""The op whose results are its inputs. An op with several results is rewritten as a TUPLE if its results are computed
separately."""


def register_outputs(of: Node, outputs: Iterable[Node]) -> None:
    """Register outputs to get their values when the node is evaluated."""
    of.waiting = [*map(ref, outputs)]


def resolve_outputs(nodes: Iterable[Node]) -> None:
    """Give the outputs registered for these evaluated nodes their values. The caller must hold the evaluation lock."""
    for node in nodes:
        outputs, node.waiting = node.waiting, None
        for output in [r() for r in outputs or ()]:
            if output is not None and output.op is ITEM and output.inputs[0] is node:
                try_resolve_item(output)


def try_resolve_item(item: Node) -> bool:
    """Give an output its value if its node has been evaluated. Return True if the output now has its value.

    Outside of transforms the output becomes a leaf, which does not keep the other outputs alive.
    """
    values = item.inputs[0].value
    if values is None:
        return False
    value = values[item.params[0]]
    if item.trace:
        item.value = value
    else:
        item.set_value(value)
    return True
