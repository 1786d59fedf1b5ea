"""Make `mlx` mean mxcompat in the Python processes that a program under `python -m mxcompat` starts.

Such a process finds this package under the name `mlx`. When it is imported, it replaces itself in `sys.modules` by
mxcompat.
"""

from importlib.util import find_spec

# these packages are absent without site-packages, as with `python -S`
if find_spec("mxcompat") is None or find_spec("jax") is None:
    raise ModuleNotFoundError("No module named 'mlx'", name="mlx")

from mxcompat._tools.running import as_mlx

as_mlx()

import mlx  # noqa: E402  no longer this file: the import system hands out what now stands in sys.modules
