"""Outputs of nodes that have several, and those that are looked at late: a loss, beside the gradients.

A pending output is an ITEM of the node that has several, and keeps the values of all of them from when that has run: a
program that evaluates its parameters at each step, and collects the losses, would keep the gradients of every step. So
those outputs that a function returned, besides what was asked of it, have their values when their node has.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ref

from .node import ITEM, Node
from .op import Op

__all__ = ["TUPLE", "hand_out", "hands_out", "taken"]

TUPLE = Op("tuple", lambda *inputs: inputs, lambda *avals: avals)
"""Its inputs: what an op with several results becomes when these are found one by one."""


def hands_out(of: Node, outputs: Iterable[Node]) -> None:
    """Say that these outputs are to have their values as soon as the node has its."""
    of.waiting = [*map(ref, outputs)]


def hand_out(nodes: Iterable[Node]) -> None:
    """Give the outputs that wait for these nodes, which have been evaluated, their values. It is called under the
    evaluation lock."""
    for node in nodes:
        outputs, node.waiting = node.waiting, None
        for output in [r() for r in outputs or ()]:
            if output is not None and output.op is ITEM and output.inputs[0] is node:
                taken(output)


def taken(item: Node) -> bool:
    """Give an output its value if the node that it is an output of has its values, and say whether that was so.

    Outside of transforms it is a leaf from then on, which does not keep the other outputs.
    """
    values = item.inputs[0].value
    if values is None:
        return False
    value = values[item.params[0]]
    if item.trace:
        item.value = value
    else:
        item.hold(value)
    return True
