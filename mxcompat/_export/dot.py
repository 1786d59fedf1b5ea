"""`export_to_dot`: the pending graph as a drawing, in graphviz's DOT language.

It shows the primitives that MLX would have, as `export_function` describes them to a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from mxcompat._array.array import array
from mxcompat._array.errors import bad_cast
from mxcompat._graph.ir.node import Node
from mxcompat._transforms.trees import flatten, nodes_in

from .callback import letters
from .fusion import Primitive
from .graph import Graph

__all__ = ["export_to_dot"]


def export_to_dot(file: object, *args: Any, **kwargs: Any) -> None:
    """Write the graph that computes some arrays, in graphviz's DOT language.

    Args:
        file: a path, or a file object opened for writing text.
        *args: the output arrays, or trees of them. Evaluated arrays are sources of the graph.
        **kwargs: further outputs, with their names in the drawing.

    Raises:
        ValueError: for an argument that is not an array, or a file of another type.
        RuntimeError: if a named argument is a tree.

    Example:
        >>> x = mx.array(1.0)
        >>> mx.export_to_dot("graph.dot", x + 1, x=x)
    """
    if not isinstance(file, str) and not hasattr(file, "write"):
        raise ValueError("[export_to_dot] Accepts file-like objects or strings to be used as filenames.")
    outputs = nodes_in(args, require_array=True)
    named: dict[Node, str] = {}
    for key, tree in kwargs.items():
        flatten(tree, require_array=True)
        if not isinstance(tree, array):
            raise bad_cast(f"[export_to_dot] {key} must be one array.")
        named[tree._node] = key
    text = "\n".join(["digraph {", *_lines([*outputs, *named], named), "}"])
    if isinstance(file, str):
        with open(file, "w", encoding="utf-8") as opened:
            opened.write(text)
    else:
        file.write(text)  # type: ignore[attr-defined]


def _lines(outputs: list[Node], named: dict[Node, str]) -> Iterator[str]:
    graph = Graph(simplified=False, fuses=_label)
    values = graph.pending(outputs, all_told=True)
    names = {values[node]: name for node, name in named.items()}
    met = list(graph.walk([values[node] for node in outputs]))
    read = {value for x in met if isinstance(x, Primitive) for value in x.inputs}

    def name(value: Any) -> str:
        return names.setdefault(value, letters(len(names)))

    numbers = _numbers(graph)
    for x in met:
        if not isinstance(x, Primitive):
            yield f'{{ rank=source; "{name(x)}"; }}'
            continue
        number = numbers[x.number]
        yield f'{{ {number} [label ="{_label(x)}", shape=rectangle]; }}'
        yield from (f'"{name(value)}" -> {number}' for value in x.inputs)
        for value in x.results:
            rank = "" if value in read else "rank=sink; "
            yield f'{{ {rank}"{name(value)}"; }}'
            yield f'{number} -> "{name(value)}"'


_given: WeakKeyDictionary[Node, range] = WeakKeyDictionary()
_fresh = 0


def _numbers(graph: Graph) -> dict[int, int]:
    """Return the number of each primitive. As in MLX, a primitive has the same number in all drawings, and each number
    is used once."""
    global _fresh
    numbers: dict[int, int] = {}
    for node, primitives in graph.made_for.items():
        assigned = _given.get(node, range(0))
        if len(assigned) != len(primitives):
            _given[node] = assigned = range(_fresh, _fresh + len(primitives))
            _fresh += len(primitives)
        numbers.update(zip(primitives, assigned, strict=True))
    return numbers


_COMBINED = (" Max", " Min", " Sum", " Prod", "")

_LABELS: dict[str, Callable[[list[Any]], str]] = {
    "BitwiseBinary": lambda a: ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")[a[0]],
    "Equal": lambda a: "NaNEqual" if a[0] else "Equal",
    "Log": lambda a: ("Log2", "Log10", "Log")[a[0]],
    "Reduce": lambda a: ("And", "Or", "Sum", "Prod", "Min", "Max")[a[0]],
    "Scan": lambda a: "Cum" + ("Max", "Min", "Sum", "Prod", "LogAddExp")[a[0]],
    "Scatter": lambda a: "Scatter" + _COMBINED[a[0]],
    "SliceUpdate": lambda a: "SliceUpdate" + _COMBINED[a[0]],
    "Sqrt": lambda a: "Rsqrt" if a[0] else "Sqrt",
    "View": lambda a: f"View {a[0]._label}",
}  # fmt: skip
"""Functions from a primitive's arguments to MLX's label, for primitives whose names are ambiguous."""


def _label(primitive: Primitive) -> str:
    label = _LABELS.get(primitive.name)
    return label(primitive.arguments) if label else primitive.name
