"""MLX's Python API on JAX and XLA.

    import mxcompat as mx

    def loss(w, x, y):
        return mx.mean(mx.square(x @ w - y))

    gradient = mx.grad(loss)

All of `mxcompat.core` (MLX's `mlx.core`) is here. The packages `nn`, `optimizers`, `utils`, `ext` and `testing` are
imported when first used, so that `import mxcompat` costs little more than `import jax`.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

from mxcompat._collector import importing as _importing

with _importing():
    from mxcompat import core as core
    from mxcompat._array.array import set_namespace as _set_namespace
    from mxcompat._dropin import install_as_mlx as install_as_mlx
    from mxcompat._dropin import installed as installed
    from mxcompat._namespace import namespace_of_arrays as _namespace_of_arrays
    from mxcompat._version import __version__ as __version__
    from mxcompat.core import *  # noqa: F403

_set_namespace(_namespace_of_arrays)

if TYPE_CHECKING:
    from mxcompat import ext as ext
    from mxcompat import nn as nn
    from mxcompat import optimizers as optimizers
    from mxcompat import testing as testing
    from mxcompat import utils as utils

_LAZY = ("ext", "nn", "optimizers", "testing", "utils")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return _importlib.import_module(f"mxcompat.{name}")
    if not name.startswith("__") and hasattr(core, name):
        return getattr(core, name)
    raise AttributeError(f"module 'mxcompat' has no attribute {name!r}")


def load_ipython_extension(shell: _Any) -> None:
    """Run `%load_ext mxcompat`: install mxcompat as `mlx`, and show arrays and modules with their sizes."""
    from mxcompat._tools.notebook import load

    load(shell)


def unload_ipython_extension(shell: _Any) -> None:
    """Run `%unload_ext mxcompat`."""
    from mxcompat._tools.notebook import unload

    unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *(name for name in vars(core) if not name.startswith("_"))})
