"""The C code: frequent operations for which Python is too slow.

Each function also exists in Python, in the file that chooses one of the two: `_graph.ir.node` and `linearize`,
`_graph.run.chains`, `kernel_time`, `layout` and `short_rows`, `_array.nest`, `convert`, `handle` and `array`,
`_ops.random.threefry`, `_ops.conv.primitive_rules`, `_ops.elementwise.erf`, `_ops.fast.attention_rules`,
`_ops.reductions.scans_rules`, `_transforms.trees`, `nn.layers._walk`, and `optimizers._walk`. Those files explain the
functions. The Python versions are used if no C code was built, and with `MXCOMPAT_NATIVE=0`.
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
"""The C module, or None."""
