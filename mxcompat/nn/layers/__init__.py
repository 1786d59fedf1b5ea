"""The layers, one file per family. This file lists the public names."""

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
from mxcompat.nn.layers.activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    HardShrink,
    Hardswish,
    HardTanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU2,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Step,
    Tanh,
    celu,
    elu,
    gelu,
    gelu_approx,
    gelu_fast_approx,
    glu,
    hard_shrink,
    hard_tanh,
    hardswish,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    prelu,
    relu,
    relu2,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    step,
    tanh,
)
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.containers import Sequential
from mxcompat.nn.layers.convolution import Conv1d, Conv2d, Conv3d
from mxcompat.nn.layers.convolution_transpose import (
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from mxcompat.nn.layers.distributed import (
    AllToShardedLinear,
    FullyShardedModule,
    QuantizedAllToShardedLinear,
    QuantizedShardedToAllLinear,
    ShardedToAllLinear,
    fully_shard,
)
from mxcompat.nn.layers.dropout import Dropout, Dropout2d, Dropout3d
from mxcompat.nn.layers.embedding import Embedding
from mxcompat.nn.layers.linear import Bilinear, Identity, Linear
from mxcompat.nn.layers.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from mxcompat.nn.layers.pooling import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from mxcompat.nn.layers.positional_encoding import ALiBi, RoPE, SinusoidalPositionalEncoding
from mxcompat.nn.layers.quantized import QQLinear, QuantizedEmbedding, QuantizedLinear, quantize
from mxcompat.nn.layers.recurrent import GRU, LSTM, RNN
from mxcompat.nn.layers.transformer import (
    MultiHeadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from mxcompat.nn.layers.upsample import Upsample

__all__ = [
    "activations", "base", "containers", "convolution", "convolution_transpose", "distributed", "dropout",
    "embedding", "linear", "normalization", "pooling", "positional_encoding", "quantized", "recurrent",
    "transformer", "upsample",
]  # fmt: skip
__all__ += [
    "CELU", "ELU", "GELU", "GLU", "GRU", "LSTM", "RNN", "SELU", "ALiBi", "AllToShardedLinear", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "BatchNorm", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "Dropout", "Dropout2d", "Dropout3d", "Embedding", "FullyShardedModule", "GroupNorm",
    "HardShrink", "HardTanh", "Hardswish", "Identity", "InstanceNorm", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid",
    "LogSoftmax", "MaxPool1d", "MaxPool2d", "MaxPool3d", "Mish", "Module", "MultiHeadAttention", "PReLU", "QQLinear",
    "QuantizedAllToShardedLinear", "QuantizedEmbedding", "QuantizedLinear", "QuantizedShardedToAllLinear", "RMSNorm",
    "ReLU", "ReLU2", "ReLU6", "RoPE", "Sequential", "ShardedToAllLinear", "SiLU", "Sigmoid",
    "SinusoidalPositionalEncoding", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Step", "Tanh",
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "Upsample", "celu", "elu", "fully_shard", "gelu", "gelu_approx", "gelu_fast_approx", "glu", "hard_shrink",
    "hard_tanh", "hardswish", "leaky_relu", "log_sigmoid", "log_softmax", "mish", "prelu", "quantize", "relu", "relu2",
    "relu6", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "step", "tanh",
]  # fmt: skip
