"""`mlx.core.cuda`, name for name. Re-exports only."""

from mxcompat._array.backends import is_available

__all__ = ["is_available"]
