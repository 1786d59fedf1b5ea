"""Neural networks: the public ``mlx.nn`` namespace, name for name."""

from mxcompat.nn import init, layers, losses, utils
from mxcompat.nn.layers import *  # noqa: F403
from mxcompat.nn.layers import (
    activations,
    base,
    containers,
    convolution,
    convolution_transpose,
    distributed,
    dropout,
    embedding,
    linear,
    normalization,
    pooling,
    positional_encoding,
    quantized,
    recurrent,
    transformer,
    upsample,
)
from mxcompat.nn.utils import average_gradients, value_and_grad

__all__ = ["average_gradients", "init", "layers", "losses", "utils", "value_and_grad"]
__all__ += layers.__all__
