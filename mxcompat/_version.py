"""The version of mxcompat, and the version of MLX whose API it has."""

__all__ = ["MLX_VERSION", "__version__"]

__version__ = "0.1.0"

MLX_VERSION = "0.32.4"
"""The value of `mx.__version__`. While the drop-in is installed, `importlib.metadata.version("mlx")` returns it,
too."""
