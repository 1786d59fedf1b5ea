"""Found by the Python processes that a program under `python -m mxcompat` starts: makes `mlx` mxcompat in them too, and
gives way to it."""

from mxcompat._tools.running import as_mlx

as_mlx()

import mlx  # noqa: E402  no longer this file: the import system hands out what now stands in sys.modules
