"""Neural networks: the public ``mlx.nn`` namespace, name for name."""

from mxcompat.nn import init, losses
from mxcompat.nn.layers import *  # noqa: F403
from mxcompat.nn.utils import average_gradients, value_and_grad
