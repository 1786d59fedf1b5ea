"""What is written in C: what every program does all the time, and Python is too slow for.

Whatever it has is written in Python too, beside the place where one of the two is chosen (`_graph.ir.node` and
`linearize`, `_graph.run.layout` and `short_rows`, `_array.nest`, `convert`, `handle` and `array`,
`_ops.random.threefry`, `_ops.reductions.scans_host`, `_transforms.trees`, `nn.layers._walk`, `optimizers._walk`): that
is where to read what it does. Python's serves where there was no compiler, and with `MXCOMPAT_NATIVE=0`.
"""

from __future__ import annotations

import os
from typing import Any

__all__ = ["native"]


def _native() -> Any:
    if os.environ.get("MXCOMPAT_NATIVE") == "0":
        return None
    try:
        from . import in_c  # type: ignore[attr-defined]
    except ImportError:
        return None
    return in_c


native = _native()
"""The module, or None."""
