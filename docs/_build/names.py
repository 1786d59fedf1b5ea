"""Assigns every public name to a page of the reference, as in MLX's own documentation.

The page follows from the module that defines the name, so new names need no entry here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_origin

__all__ = ["PAGES", "Page", "described", "short", "thing"]

ROOT = Path(__file__).parent.parent.parent


class Page(NamedTuple):
    """A page of the reference.

    Args:
        path: the path below `reference/`, without extension.
        title: the title in the navigation.
        about: a line about its content.
        names: full names such as `mxcompat.core.add`, sorted.
    """

    path: str
    title: str
    about: str
    names: list[str]


_CORE = (
    ("array", "Arrays", "The array, its methods and attributes; making one of other data; how it prints.",
     ("_array.array", "_array.importing", "_array.printing", "_ops.indexing.at")),
    ("dtypes", "Data types", "The dtypes, their categories, what promotes to what.",
     ("_array.dtypes", "_graph.ir.aval")),
    ("devices", "Devices and streams", "Where arrays live. Streams are accepted everywhere; XLA orders the work.",
     ("_array.device", "_array.streams")),
    ("ops/elementwise", "Elementwise", "Arithmetic, comparison, bits, casts.", ("_ops.elementwise",)),
    ("ops/creation", "Creation", "Arrays of given shapes: zeros, ranges, windows.", ("_ops.creation",)),
    ("ops/movement", "Shapes and order", "Reshape, transpose, join, split, pad.", ("_ops.movement",)),
    ("ops/indexing", "Indexing", "Reading and writing by index.", ("_ops.indexing",)),
    ("ops/reductions", "Reductions, scans, sorting", "Sums and the like, running ones, softmax, order.",
     ("_ops.reductions",)),
    ("ops/products", "Products", "Products of matrices and vectors, einsum.", ("_ops.products", "_ops.linalg")),
    ("ops/conv", "Convolutions", "Convolutions, and transforms of signals.", ("_ops.conv",)),
    ("ops/quantized", "Quantized", "Weights packed into a few bits, and products with them.", ("_ops.quantized",)),
    ("ops/files", "Files", "npy, npz, safetensors and gguf.", ("_io",)),
    ("constants", "Constants", "Numbers, and the new axis.", ("_array.constants",)),
    ("export", "Export", "Functions as files, graphs as pictures.", ("_export",)),
    ("transforms", "Transforms", "Evaluation, derivatives, vmap, compile.", ("_transforms",)),
    ("memory", "Memory", "How much memory there is, and what may be kept.", ("_array.memory",)),
)  # fmt: skip
"""The pages of `mxcompat.core`, with the modules of `mxcompat` whose names they show; the first match counts."""

_PACKAGES = (
    ("random", "Random", "MLX's generator, bit for bit.", "core.random"),
    ("fast", "Fast", "What MLX has kernels of its own for.", "core.fast"),
    ("fft", "FFT", "Fourier transforms.", "core.fft"),
    ("linalg", "Linear algebra", "Decompositions, solvers, norms.", "core.linalg"),
    ("distributed", "Distributed", "Collectives.", "core.distributed"),
    ("metal", "Metal", "What a program may ask about Metal, which is not here.", "core.metal"),
    ("cuda", "CUDA", "What a program may ask about MLX's CUDA backend.", "core.cuda"),
    ("nn/losses", "Losses", "Loss functions.", "nn.losses"),
    ("nn/init", "Initializers", "Functions that fill parameters.", "nn.init"),
    ("optimizers", "Optimizers", "Optimizers and schedules of the learning rate.", "optimizers"),
    ("utils", "Tree utilities", "Nested lists, tuples and dicts of arrays.", "utils"),
    ("ext/functions", "ext", "What MLX has not.", "ext"),
    ("testing", "testing", "Real MLX and mxcompat on the same function.", "testing"),
)

_NN = (
    ("nn/module", "Module", "The base of layers, containers, and gradients of modules."),
    ("nn/layers", "Layers", "Layers."),
    ("nn/functions", "Functions", "Activations as functions."),
)

_ORDER = (
    "array dtypes devices ops/elementwise ops/creation ops/movement ops/indexing ops/reductions ops/products ops/conv "
    "ops/quantized ops/files random transforms fast fft linalg nn/module nn/layers nn/functions nn/losses nn/init "
    "optimizers utils distributed export memory metal cuda constants testing ext/functions"
).split()


@cache
def _homes() -> dict[str, str]:
    """Return the module from which `mxcompat.core` takes each of its names."""
    tree = ast.parse((ROOT / "mxcompat" / "core" / "__init__.py").read_text())
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module)
    return {i.asname or i.name: str(n.module).removeprefix("mxcompat.") for n in imports for i in n.names}


def _public(module: str) -> list[str]:
    """Return the names of a public module that are not modules."""
    found = importlib.import_module(module)
    return sorted(
        (n for n in found.__all__ if not n.startswith("_") and not inspect.ismodule(getattr(found, n))), key=str.lower
    )


def _core_pages() -> Iterator[Page]:
    taken: set[str] = set()
    for path, title, about, homes in _CORE:
        names = [
            name for name in _public("mxcompat.core") if name not in taken and _homes()[name].startswith(homes)
        ]
        taken.update(names)
        yield Page(path, title, about, [f"mxcompat.core.{name}" for name in names])
    left = set(_public("mxcompat.core")) - taken
    if left:
        raise ValueError(f"no page of the reference takes {sorted(left)}")


def _nn_pages() -> Iterator[Page]:
    from mxcompat import nn

    base = {"Module", "Sequential"}
    layers = [n for n in _public("mxcompat.nn") if inspect.isclass(getattr(nn, n)) and n not in base]
    functions = [n for n in _public("mxcompat.nn") if _of(nn, n).endswith("activations") and n not in layers]
    rest = [n for n in _public("mxcompat.nn") if n not in {*layers, *functions}]
    for (path, title, about), names in zip(_NN, (rest, layers, functions), strict=True):
        yield Page(path, title, about, [f"mxcompat.nn.{name}" for name in names])


def _of(module: Any, name: str) -> str:
    return getattr(getattr(module, name), "__module__", "")


def _ext_pages() -> Iterator[Page]:
    """Yield a page for each module of `mxcompat.ext`, with the first sentence of its docstring."""
    from mxcompat import ext

    for name in sorted(ext.__all__):
        module = getattr(ext, name)
        if inspect.ismodule(module):
            about = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
            names = [f"mxcompat.ext.{name}.{each}" for each in _public(f"mxcompat.ext.{name}")]
            yield Page(f"ext/{name}", f"ext.{name}", about, names)


def _pages() -> list[Page]:
    packages = [
        Page(path, title, about, [f"mxcompat.{module}.{name}" for name in _public(f"mxcompat.{module}")])
        for path, title, about, module in _PACKAGES
    ]
    found = {page.path: page for page in (*_core_pages(), *_nn_pages(), *packages)}
    return [*(found[path] for path in _ORDER), *_ext_pages()]


PAGES = _pages()
"""The pages of the reference, in the order of the navigation."""


def thing(name: str) -> Any:
    """Return the object with a full name."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def described(name: str) -> bool:
    """Return True if a name has a docstring and a signature, as functions and classes have. Constants and types such as
    `Literal["a"]` have none."""
    found = thing(name)
    return callable(found) and not isinstance(found, (int, float)) and get_origin(found) is None


def short(name: str) -> str:
    """Return a name in the form that users write."""
    for long, written in (("mxcompat.core.", "mx."), ("mxcompat.ext.", "mx.ext."), ("mxcompat.", "")):
        if name.startswith(long):
            return written + name.removeprefix(long)
    return name
