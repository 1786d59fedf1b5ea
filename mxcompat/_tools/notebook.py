"""`%load_ext mxcompat`: use mxcompat in MLX's place in a notebook, and show arrays and modules with their shapes and
sizes."""

from __future__ import annotations

from html import escape
from math import prod
from typing import Any

from mxcompat._array.array import array
from mxcompat._dropin import install_as_mlx, uninstall
from mxcompat.nn.layers.base import Module

__all__ = ["load", "unload"]


def load(shell: Any) -> None:
    """Load the extension; IPython's `%load_ext mxcompat` calls this."""
    install_as_mlx()
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(array, array_html)
    formatter.for_type(Module, module_html)


def unload(shell: Any) -> None:
    """Unload the extension; IPython's `%unload_ext mxcompat` calls this. The next `import mlx` finds real MLX, or
    nothing."""
    uninstall()
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.pop(array, None)
    formatter.pop(Module, None)


def array_html(x: array) -> str:
    """Return an array as HTML: its text, dtype, shape and size."""
    facts = f"{_dtype(x)}[{', '.join(map(str, x.shape))}], {_bytes(x.nbytes)}"
    return f"<pre>{escape(repr(x))}</pre><small>{facts}</small>"


def module_html(module: Any) -> str:
    """Return a module as a collapsible HTML tree, with the parameters of each part: shapes, dtypes and counts."""
    return f"<div style='font-family: monospace'>{_tree('', module, True)}</div>"


def _tree(name: str, part: Any, is_open: bool = False) -> str:
    """Return the HTML of a module, an array or a container of them, with its name."""
    label = f"<b>{escape(name)}</b> " if name else ""
    if isinstance(part, array):
        return f"<div style='margin-left: 1.5em'>{label}{_dtype(part)}[{', '.join(map(str, part.shape))}]</div>"
    entries = part.items() if isinstance(part, dict) else enumerate(part)
    inner = [_tree(str(key), value) for key, value in entries if isinstance(value, (array, dict, list, tuple))]
    count, size = _size(part)
    frozen = "" if getattr(part, "_training", True) else ", not in training mode"
    head = f"{label}{escape(_kind(part))} <small>{count:,} parameters, {_bytes(size)}{frozen}</small>"
    if not inner:
        return f"<div style='margin-left: 1.5em'>{head}</div>"
    return (
        f"<details{' open' if is_open else ''} style='margin-left: 1.5em'><summary>{head}</summary>"
        f"{''.join(inner)}</details>"
    )


def _kind(part: Any) -> str:
    """Return the text of a module without its children."""
    extra = getattr(part, "_extra_repr", None)
    return f"{type(part).__name__}({extra()})" if extra is not None else type(part).__name__


def _size(tree: Any) -> tuple[int, int]:
    """Return the number of elements of a tree's arrays, and their bytes."""
    if isinstance(tree, array):
        return prod(tree.shape), tree.nbytes
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    sizes = [_size(part) for part in parts]
    return sum(count for count, _ in sizes), sum(size for _, size in sizes)


def _dtype(x: array) -> str:
    return str(x.dtype).removeprefix("mlx.core.")


def _bytes(count: int) -> str:
    power = min((len(str(count)) - 1) // 3, 3)
    return f"{count / 1000**power:.3g} {('bytes', 'KB', 'MB', 'GB')[power]}"
