"""Neural networks: the public ``mlx.nn`` namespace, name for name."""

from mxcompat.nn import init, layers, losses, utils
from mxcompat.nn.layers import *  # noqa: F403
from mxcompat.nn.utils import average_gradients, value_and_grad

__all__ = ["average_gradients", "init", "layers", "losses", "utils", "value_and_grad"]
__all__ += layers.__all__
