"""`export_to_dot`: the pending graph as a drawing, in the DOT language of graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mxcompat._array.array import nodes_of
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.node import ITEM, Node

from ..trees import flatten
from .callback import letters
from .primitives import primitive_name

__all__ = ["export_to_dot"]


def export_to_dot(file: object, *args: Any, **kwargs: Any) -> None:
    """Write the graph that computes some arrays, to be drawn by graphviz.

    Args:
        file: a path, or a file object opened for writing text.
        *args: the output arrays, or trees of them. What has been evaluated is a source.
        **kwargs: arrays, outputs too, under the names that they get in the drawing.

    Raises:
        ValueError: for what is not an array, or a file of neither kind.

    Example:
        >>> x = mx.array(1.0)
        >>> mx.export_to_dot("graph.dot", x + 1, x=x)
    """
    if not isinstance(file, str) and not hasattr(file, "write"):
        raise ValueError("[export_to_dot] Accepts file-like objects or strings to be used as filenames.")
    outputs = nodes_of(flatten(args, require_array=True))
    names = {}
    for key, tree in kwargs.items():
        for x in flatten(tree, require_array=True):
            names[_identity(x._node)] = key
            outputs.append(x._node)
    text = "\n".join(["digraph {", *_lines(outputs, names), "}", ""])
    if isinstance(file, str):
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    else:
        file.write(text)  # type: ignore[attr-defined]


def _identity(node: Node) -> Any:
    """What tells arrays apart: the node, or, for one of an op's several outputs, the op's node and the number."""
    return (node.inputs[0], node.params[0]) if node.op is ITEM and node.value is None else node


def _lines(outputs: list[Node], names: dict[Any, str]) -> Iterator[str]:
    subgraph = linearize(outputs)

    def name(key: Any) -> str:
        if key not in names:
            names[key] = letters(len(names))
        return names[key]

    computed = set(subgraph.order)
    consumed = {_identity(i) for node in subgraph.order if node.op is not ITEM for i in node.inputs}
    drawn: set[Any] = set()

    def source(node: Node) -> Iterator[str]:
        if node not in drawn:
            drawn.add(node)
            yield f'{{ rank=source; "{name(node)}"; }}'

    for node in outputs:
        if node.value is not None:
            yield from source(node)
    for node in subgraph.order:
        if node.op is ITEM:
            continue
        for i in node.inputs:
            if i not in computed:
                yield from source(i)
        yield f'{{ {id(node)} [label ="{primitive_name(node.op.name)}", shape=rectangle]; }}'  # type: ignore[union-attr]
        yield from (f'"{name(_identity(i))}" -> {id(node)}' for i in node.inputs)
        keys = [(node, k) for k in range(len(node.aval))] if isinstance(node.aval, tuple) else [node]
        for key in keys:
            rank = "" if key in consumed else "rank=sink; "
            yield f'{{ {rank}"{name(key)}"; }}'
            yield f'{id(node)} -> "{name(key)}"'
