"""Cases of `mlx.nn`, with gradients of parameters; quantized layers; optimizers.

`net` gives a module's parameters the dtype of the cell, `trained` their gradients.
"""

from __future__ import annotations

from tests.sweep.cases import Case, table

__all__ = ["cases"]

ACTIVATIONS = """
nn.{{celu,elu,gelu,gelu_approx,gelu_fast_approx,glu,hard_shrink,hard_tanh,hardswish,leaky_relu,log_sigmoid}}(x) | 2,4
nn.{{log_softmax,mish,relu,relu2,relu6,selu,sigmoid,silu,softmax,softmin}}(x) | 2,4
nn.{{softplus,softshrink,softsign,step,tanh}}(x) | 2,4
nn.{{ReLU,ReLU2,ReLU6,SELU,SiLU,Sigmoid,Softmax,Softmin}}()(x) | 2,4
nn.{{Softplus,Softshrink,Softsign,Tanh,Step,Mish,Hardswish}}()(x) | 2,4
nn.{{CELU,ELU,GELU,GLU,HardShrink,HardTanh,LeakyReLU,LogSigmoid,LogSoftmax,Identity}}()(x) | 2,4
nn.GELU(approx={{'none','precise','tanh','fast'}})(x) | 2,4
! nn.GELU(approx='no')
nn.celu(x, 0.5) | 2,4
nn.elu(x, 0.5) | 2,4
nn.leaky_relu(x, 0.2) | 2,4
nn.step(x, 0.5) | 2,4
nn.softmax(x, axis=0) | 2,4
nn.log_softmax(x, axis=0) | 2,4
nn.glu(x, axis=0) | 2,4
! nn.glu(x) | 2,3
nn.hard_tanh(x, -2, 0.5) | 2,4
nn.prelu(x, y) | 2,4 4
net(nn.PReLU(4))(x) | 2,4
"""

LAYERS = """
net(nn.Linear(3, 4))(x) | 2,3
net(nn.Linear(3, 4, bias=False))(x) | 2,2,3
net(nn.Bilinear(3, 4, 2))(x, y) | 2,3 2,4
net(nn.Embedding(5, 3))(x) | 2:int32@0..4
net(nn.Embedding(5, 3)).as_linear(x) | 2,3
net(nn.LayerNorm(4))(x) | 2,4
net(nn.LayerNorm(4, affine=False))(x) | 2,4
net(nn.LayerNorm(4, bias=False))(x) | 2,4
net(nn.RMSNorm(4))(x) | 2,4
net(nn.GroupNorm(2, 4))(x) | 2,3,4
net(nn.GroupNorm(2, 4, pytorch_compatible=True))(x) | 2,3,4
net(nn.InstanceNorm(4))(x) | 2,3,4
net(nn.InstanceNorm(4, affine=True))(x) | 2,3,4
net(nn.BatchNorm(4))(x) | 5,4
net(nn.BatchNorm(4).eval())(x) | 5,4
net(nn.BatchNorm(4, affine=False, track_running_stats=False))(x) | 2,3,4
nn.Dropout(0.3)(x) | 2,8
nn.Dropout2d(0.3)(x) | 2,3,3,4
nn.Dropout3d(0.3)(x) | 1,2,3,3,4
nn.Dropout(0.3).eval()(x) | 2,8
net(nn.Conv1d(2, 4, 3))(x) | 1,6,2
net(nn.Conv1d(2, 4, 3, stride=2, padding=1, bias=False))(x) | 1,6,2
net(nn.Conv2d(2, 4, 3, padding=1))(x) | 1,4,4,2
net(nn.Conv2d(2, 4, (3, 1), groups=2))(x) | 1,4,4,2
net(nn.Conv3d(2, 3, 2))(x) | 1,3,3,3,2
net(nn.ConvTranspose1d(2, 3, 3, stride=2))(x) | 1,4,2
net(nn.ConvTranspose2d(2, 3, 3, padding=1))(x) | 1,4,4,2
net(nn.ConvTranspose3d(2, 3, 2))(x) | 1,2,2,2,2
nn.{{MaxPool1d,AvgPool1d}}(2)(x) | 2,6,3
nn.{{MaxPool1d,AvgPool1d}}(3, 1, 1)(x) | 2,6,3
nn.{{MaxPool2d,AvgPool2d}}(2)(x) | 1,4,4,3
nn.{{MaxPool2d,AvgPool2d}}((3, 2), 2, (1, 0))(x) | 1,5,4,2
nn.{{MaxPool3d,AvgPool3d}}(2)(x) | 1,4,4,2,2
nn.Upsample(2)(x) | 1,3,3,2
nn.Upsample((2.0, 1.5), mode={{'nearest','linear','cubic'}})(x) | 1,4,4,2
nn.Upsample(2, mode={{'linear','cubic'}}, align_corners=True)(x) | 1,3,3,2
nn.RoPE(4)(x) | 1,3,6
nn.RoPE(4, traditional=True, base=100)(x, offset=2) | 1,2,3,4
net(nn.SinusoidalPositionalEncoding(8))(x) | 3
nn.ALiBi()(x) | 1,2,3,3
nn.ALiBi.create_alibi_matrix(3, 3, 2, 0, D) + x | 1,2,3,3
net(nn.MultiHeadAttention(8, 2))(x, x, x) | 1,3,8
net(nn.MultiHeadAttention(8, 2))(x, y, y, nn.MultiHeadAttention.create_additive_causal_mask(3)) | 1,3,8 1,3,8
net(nn.RNN(3, 4))(x) | 5,3
net(nn.RNN(3, 4, nonlinearity=nn.relu))(x) | 2,5,3
net(nn.LSTM(3, 4))(x) | 2,4,3
net(nn.LSTM(3, 4, bias=False))(x) | 4,3
net(nn.GRU(3, 4))(x) | 2,4,3
net(nn.GRU(3, 4, bias=False))(x) | 4,3
net(nn.TransformerEncoderLayer(8, 2, 16))(x, None) | 1,3,8
net(nn.TransformerEncoderLayer(8, 2, 16, norm_first=True))(x, None) | 1,3,8
net(nn.TransformerEncoder(2, 8, 2, 16))(x, None) | 1,3,8
net(nn.TransformerDecoderLayer(8, 2, 16))(x, y, None, None) | 1,3,8 1,4,8
net(nn.TransformerDecoder(1, 8, 2, 16))(x, y, None, None) | 1,3,8 1,4,8
net(nn.Transformer(8, 2, 1, 1, 16))(x, y, None, None, None) | 1,3,8 1,4,8
net(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))(x) | 2,3
net(nn.QuantizedLinear(64, 8))(x) | 2,64
net(nn.QuantizedEmbedding(5, 64))(x) | 3:int32@0..4
net(nn.QuantizedEmbedding(5, 64)).as_linear(x) | 2,64
net(nn.Linear(64, 8)).to_quantized(32, 8)(x) | 2,64
net(nn.QQLinear(64, 8))(x) | 1,64
trained(nn.Linear(3, 4), x) | 2,3
trained(nn.Bilinear(3, 4, 2), x, y) | 2,3 2,4
trained(nn.Embedding(5, 3), x) | 4:int32@0..4
trained(nn.{{LayerNorm,RMSNorm,PReLU,BatchNorm}}(4), x) | 3,4
trained(nn.GroupNorm(2, 4), x) | 2,3,4
trained(nn.InstanceNorm(4, affine=True), x) | 2,3,4
trained(nn.Conv1d(2, 4, 3), x) | 1,6,2
trained(nn.Conv2d(2, 4, 3, padding=1), x) | 1,4,4,2
trained(nn.Conv2d(2, 4, 3, stride=2, groups=2), x) | 1,5,5,2
trained(nn.ConvTranspose1d(2, 3, 3), x) | 1,4,2
trained(nn.ConvTranspose2d(2, 3, 3, stride=2), x) | 1,3,3,2
trained(nn.MultiHeadAttention(8, 2), x, x, x) | 1,3,8
trained(nn.{{RNN,GRU}}(3, 4), x) | 2,4,3
trained(nn.TransformerEncoderLayer(8, 2, 16), x, None) | 1,3,8
trained(nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Dropout(0.5)), x) | 2,3
! net(nn.Linear(3, 4))(x) | 2,4
! net(nn.Conv2d(2, 4, 3))(x) | 1,4,4,3
! net(nn.BatchNorm(4))(x) | 4
! nn.Dropout(1.0)
! nn.Dropout(-0.1)
! nn.Upsample(2, mode='no')
! nn.Upsample(2)(x) | 3,3
! nn.MaxPool2d(2)(x) | 4,4
! nn.MaxPool2d((2, 2, 2))
! nn.MultiHeadAttention(7, 2)
! nn.RNN(3, 4, nonlinearity=3)
! nn.Conv2d(3, 4, 3, groups=2)
! nn.QuantizedLinear(60, 8)
"""

LOSSES = """
nn.losses.cross_entropy(x, y) | 3,4 3:int32@0..3
nn.losses.cross_entropy(x, y, label_smoothing=0.1, reduction='mean') | 3,4 3:int32@0..3
nn.losses.cross_entropy(x, y, weights=z, reduction='sum') | 3,4 3:int32@0..3 3@0..1
nn.losses.cross_entropy(x, y) | 3,4 3,4@0..1
nn.losses.cross_entropy(x, y, axis=1) | 2,4,3 2,3:int32@0..3
nn.losses.binary_cross_entropy(x, y) | 2,3 2,3@0..1
nn.losses.binary_cross_entropy(x, y, with_logits=False, reduction='none') | 2,3@0.1..0.9 2,3@0..1
nn.losses.binary_cross_entropy(x, y, weights=z) | 2,3 2,3@0..1 2,3@0..1
nn.losses.{{l1_loss,mse_loss,smooth_l1_loss,huber_loss,log_cosh_loss}}(x, y) | 2,3 2,3
nn.losses.{{hinge_loss,kl_div_loss,cosine_similarity_loss}}(x, y) | 2,3 2,3
nn.losses.{{l1_loss,mse_loss,smooth_l1_loss,huber_loss}}(x, y, reduction='sum') | 2,3 2,3
nn.losses.{{log_cosh_loss,hinge_loss,kl_div_loss}}(x, y, reduction='sum') | 2,3 2,3
nn.losses.nll_loss(x, y) | 3,4 3:int32@0..3
nn.losses.gaussian_nll_loss(x, y, z) | 2,3 2,3 2,3@0.1..2
nn.losses.gaussian_nll_loss(x, y, z, full=True, reduction='none') | 2,3 2,3 2,3@0.1..2
nn.losses.triplet_loss(x, y, z) | 2,3 2,3 2,3
nn.losses.triplet_loss(x, y, z, p=1, margin=0.5, reduction='mean') | 2,3 2,3 2,3
nn.losses.margin_ranking_loss(x, y, z) | 3 3 3
nn.losses.smooth_l1_loss(x, y, beta=0.5, reduction='none') | 2,3 2,3
nn.losses.huber_loss(x, y, delta=0.5) | 2,3 2,3
! nn.losses.mse_loss(x, y) | 2,3 3,2
! nn.losses.{{l1_loss,mse_loss,cross_entropy,nll_loss,kl_div_loss,huber_loss}}(x, y, reduction='no') | 2,3 2,3
! nn.losses.cross_entropy(x, y) | 3,4 2:int32@0..3
! nn.losses.cross_entropy(x, y, label_smoothing=1.5) | 3,4 3:int32@0..3
! nn.losses.binary_cross_entropy(x, y) | 2,3 3,2
! nn.losses.smooth_l1_loss(x, y) | 2,3 3,2
! nn.losses.gaussian_nll_loss(x, y, z) | 2,3 2,3 3
! nn.losses.margin_ranking_loss(x, y, z) | 3 2 3
"""

INITIALIZERS = """
! nn.init.{{constant(2.5, ;normal(0.5, 2.0, ;uniform(-1, 2, ;identity(;glorot_normal(;glorot_uniform(}}D)(x) | 4,4
! nn.init.{{he_normal,he_uniform}}(D)(x, mode={{'fan_in','fan_out'}}, gain=2.0) | 4,3
! nn.init.orthogonal(1.0, D)(x).shape | 4,4
! nn.init.sparse(0.5, dtype=D)(x).shape | 4,4
! nn.init.{{identity(D);he_normal(D);he_uniform(D);glorot_normal(D);glorot_uniform(D);orthogonal(1.0, D)}}(x) | 3
! nn.init.{{sparse(0.5)}}(x) | 3
! nn.init.he_normal(D)(x, mode='no') | 3,3
! nn.init.identity(D)(x) | 3,4
"""

OPTIMIZERS = """
! stepped(optim.{{SGD(0.1);SGD(0.1, momentum=0.9, nesterov=True)}}, x, y) | 4,3 4,3
! stepped(optim.{{SGD(0.1, momentum=0.9, weight_decay=0.01, dampening=0.1);RMSprop(0.1);Adagrad(0.1)}}, x, y) | 4,3 4,3
! stepped(optim.{{AdaDelta(0.1);Adam(0.1);Adam(0.1, bias_correction=True);AdamW(0.1);Adamax(0.1)}}, x, y) | 4,3 4,3
! stepped(optim.{{Lion(0.1);Adafactor();Adafactor(0.1, relative_step=False, scale_parameter=False)}}, x, y) | 4,3 4,3
! stepped(optim.{{Muon(0.1)}}, x, y) | 4,3 4,3
! stepped(optim.{{SGD,Adam,Lion,AdamW}}(optim.{{cosine_decay(0.1, 4);exponential_decay(0.1, 0.5)}}), x, y) | 4,3 4,3
! stepped(optim.{{SGD,Adam,Lion,AdamW}}(optim.{{step_decay(0.1, 0.5, 2);linear_schedule(0, 0.1, 3)}}), x, y) | 4,3 4,3
! stepped(optim.{{SGD,Adam}}(optim.join_schedules([optim.linear_schedule(0, 0.1, 2), abs], [2])), x, y) | 4,3 4,3
! stepped(optim.MultiOptimizer([optim.Adam(0.1), optim.SGD(0.2)], [lambda path, w: 'a' in path]), x, y) | 4,3 4,3
! optim.clip_grad_norm({'a': x, 'b': [y]}, {{0.5,100.0}}) | 4,3 3
! resumed(optim.{{SGD(0.1, momentum=0.9);Adam(0.1);AdamW(0.1);Lion(0.1);Adafactor();RMSprop(0.1)}}, x, y) | 4,3 4,3
! resumed(optim.{{Muon(0.1)}}, x, y) | 4,3 4,3
! optim.{{SGD,Adam,RMSprop,Adamax,AdaDelta}}(0.1).state
! optim.SGD(0.1, nesterov=True)
! optim.{{RMSprop(0.1, alpha=-1);RMSprop(0.1, eps=-1);AdaDelta(0.1, rho=-1);AdaDelta(0.1, eps=-1)}}
! optim.{{Adagrad(0.1, eps=-1);Adamax(0.1, eps=-1);Adafactor(0.1).learning_rate}}
! optim.join_schedules([], [])
! optim.join_schedules([optim.step_decay(0.1, 0.5, 1)], [1])
! optim.linear_schedule(0, 1, 0)
! optim.MultiOptimizer([optim.Adam(0.1), optim.SGD(0.2)], [])
! [optim.{{cosine_decay(0.1, 4, 0.01);exponential_decay(0.1, 0.9)}}(mx.array(k)) for k in range(7)]
! [optim.{{step_decay(0.1, 0.9, 3);linear_schedule(0.1, 1.0, 5)}}(mx.array(k)) for k in range(7)]
"""

NOT_SWEPT = {
    "nn": (
        "AllToShardedLinear", "FullyShardedModule", "QuantizedAllToShardedLinear", "QuantizedShardedToAllLinear",
        "ShardedToAllLinear", "average_gradients", "fully_shard",
    ),
    "optimizers": ("Optimizer",),
}  # fmt: skip
"""Names without a case: layers for several processes (tests/test_nn_distributed.py), and helpers of optimizers."""


def cases() -> list[Case]:
    """Return all cases of this file."""
    floats = ("float16", "bfloat16", "float32", "float64", "int32", "complex64")
    return [
        *table(ACTIVATIONS, "activations"),
        *table(LAYERS, "layers"),
        *table(LOSSES, "losses"),
        *table(INITIALIZERS, "initializers"),
        *table(OPTIMIZERS, "optimizers", dtypes=floats),
    ]
