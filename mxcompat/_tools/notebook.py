"""`%load_ext mxcompat`: mxcompat in MLX's place in a notebook, where arrays show their shape and modules their size."""

from __future__ import annotations

from html import escape
from math import prod
from typing import Any

from mxcompat._array.array import array
from mxcompat._dropin import install_as_mlx, uninstall

__all__ = ["load", "unload"]


def load(shell: Any) -> None:
    """Called by IPython's `%load_ext mxcompat`."""
    install_as_mlx()
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(array, array_html)
    for where in _MODULE_IS_OF:
        formatter.for_type_by_name(where, "Module", module_html)


def unload(shell: Any) -> None:
    """Called by IPython's `%unload_ext mxcompat`: the next `import mlx` finds real MLX, or nothing."""
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.pop(array, None)
    for where in _MODULE_IS_OF:
        formatter.pop(f"{where}.Module", None)
    uninstall()


_MODULE_IS_OF = ("mxcompat.nn.layers.base", "mlx.nn.layers.base")
"""Where `Module` says that it is from: the second as long as it is in MLX's place."""


def array_html(x: array) -> str:
    """An array as it is printed, and what that does not say: its shape, where it is cut short, and its size."""
    facts = f"{_dtype(x)}[{', '.join(map(str, x.shape))}], {_bytes(x.nbytes)}"
    return f"<pre>{escape(repr(x))}</pre><small>{facts}</small>"


def module_html(module: Any) -> str:
    """A module as a tree that opens and closes, with the parameters of each part: shapes, dtypes and how many."""
    return f"<div style='font-family: monospace'>{_tree('', module, True)}</div>"


def _tree(name: str, part: Any, is_open: bool = False) -> str:
    """A module, an array or a container of them, below the name that it has."""
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
    """What a module prints of itself, without its children."""
    extra = getattr(part, "_extra_repr", None)
    return f"{type(part).__name__}({extra()})" if extra is not None else type(part).__name__


def _size(tree: Any) -> tuple[int, int]:
    """How many numbers the arrays of a tree have, and how many bytes these take."""
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
