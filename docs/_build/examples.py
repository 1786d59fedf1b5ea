"""Examples for names whose docstrings have none; what they print is found when the site is built, by running them."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout
from typing import Any

__all__ = ["EXAMPLES", "WITHOUT", "example_of", "ran"]

_POINTS = "mx.array([-2.0, -0.5, 0.0, 1.0])"
_ACTIVATIONS = (
    "celu elu gelu gelu_approx gelu_fast_approx hard_shrink hard_tanh hardswish leaky_relu log_sigmoid log_softmax mish "
    "relu relu2 relu6 selu sigmoid silu softmax softmin softplus softshrink softsign step tanh"
).split()
_ACTIVATION_LAYERS = (
    "CELU ELU GELU HardShrink HardTanh Hardswish Identity LeakyReLU LogSigmoid LogSoftmax Mish PReLU ReLU ReLU2 ReLU6 "
    "SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Step Tanh"
).split()

_LAYERS = {
    "ALiBi": "nn.ALiBi()(mx.zeros((1, 2, 4, 4)))[0, 1]",
    "AllToShardedLinear": "nn.AllToShardedLinear(8, 4)(mx.ones((2, 8))).shape",
    "AvgPool1d": "nn.AvgPool1d(2)(mx.arange(4).reshape(1, 4, 1).astype(mx.float32)).tolist()",
    "AvgPool2d": "nn.AvgPool2d(2, stride=2)(mx.ones((1, 8, 8, 3))).shape",
    "AvgPool3d": "nn.AvgPool3d(2, stride=2)(mx.ones((1, 4, 4, 4, 3))).shape",
    "BatchNorm": "nn.BatchNorm(3)(mx.random.normal((4, 3))).shape",
    "Conv1d": "nn.Conv1d(3, 5, kernel_size=4)(mx.ones((2, 16, 3))).shape",
    "Conv2d": "nn.Conv2d(3, 5, kernel_size=3, padding=1)(mx.ones((2, 8, 8, 3))).shape",
    "Conv3d": "nn.Conv3d(3, 5, kernel_size=3)(mx.ones((2, 8, 8, 8, 3))).shape",
    "ConvTranspose1d": "nn.ConvTranspose1d(3, 5, kernel_size=4)(mx.ones((2, 16, 3))).shape",
    "ConvTranspose2d": "nn.ConvTranspose2d(3, 5, kernel_size=2, stride=2)(mx.ones((2, 8, 8, 3))).shape",
    "ConvTranspose3d": "nn.ConvTranspose3d(3, 5, kernel_size=2)(mx.ones((2, 8, 8, 8, 3))).shape",
    "Dropout2d": "nn.Dropout2d(0.5)(mx.ones((2, 4, 4, 3))).shape",
    "Dropout3d": "nn.Dropout3d(0.5)(mx.ones((2, 4, 4, 4, 3))).shape",
    "FullyShardedModule": "nn.FullyShardedModule(nn.Linear(4, 4))(mx.ones((2, 4))).shape",
    "GLU": "nn.GLU()(mx.ones((2, 8))).shape",
    "GRU": "nn.GRU(4, 8)(mx.ones((2, 5, 4))).shape",
    "GroupNorm": "nn.GroupNorm(2, 4)(mx.ones((2, 8, 4))).shape",
    "InstanceNorm": "nn.InstanceNorm(4)(mx.ones((2, 8, 4))).shape",
    "LSTM": "[state.shape for state in nn.LSTM(4, 8)(mx.ones((2, 5, 4)))]",
    "LayerNorm": "nn.LayerNorm(4)(mx.array([[1.0, 2.0, 3.0, 4.0]]))",
    "MaxPool1d": "nn.MaxPool1d(2)(mx.arange(4).reshape(1, 4, 1).astype(mx.float32)).tolist()",
    "MaxPool2d": "nn.MaxPool2d(2, stride=2)(mx.ones((1, 8, 8, 3))).shape",
    "MaxPool3d": "nn.MaxPool3d(2, stride=2)(mx.ones((1, 4, 4, 4, 3))).shape",
    "MultiHeadAttention": "x = mx.ones((2, 5, 8)); nn.MultiHeadAttention(8, 2)(x, x, x).shape",
    "QQLinear": "nn.QQLinear(64, 32).eval()(mx.ones((2, 64), dtype=mx.bfloat16)).shape",
    "QuantizedAllToShardedLinear": "nn.QuantizedAllToShardedLinear(64, 8)(mx.ones((2, 64))).shape",
    "QuantizedEmbedding": "nn.QuantizedEmbedding(10, 64)(mx.array([1, 2])).shape",
    "QuantizedLinear": "nn.QuantizedLinear(64, 8)(mx.ones((2, 64))).shape",
    "QuantizedShardedToAllLinear": "nn.QuantizedShardedToAllLinear(64, 8)(mx.ones((2, 64))).shape",
    "RMSNorm": "nn.RMSNorm(4)(mx.array([[1.0, 2.0, 3.0, 4.0]]))",
    "ShardedToAllLinear": "nn.ShardedToAllLinear(8, 4)(mx.ones((2, 8))).shape",
    "Transformer": "x = mx.ones((2, 5, 8)); nn.Transformer(8, 2, 1, 1)(x, x, None, None, None).shape",
    "TransformerDecoder": "x = mx.ones((2, 5, 8)); nn.TransformerDecoder(1, 8, 2)(x, x, None, None).shape",
    "TransformerDecoderLayer": "x = mx.ones((2, 5, 8)); nn.TransformerDecoderLayer(8, 2)(x, x, None, None).shape",
    "TransformerEncoder": "nn.TransformerEncoder(1, 8, 2)(mx.ones((2, 5, 8)), None).shape",
    "TransformerEncoderLayer": "nn.TransformerEncoderLayer(8, 2)(mx.ones((2, 5, 8)), None).shape",
    "average_gradients": "nn.average_gradients({'w': mx.array([1.0, 2.0])})",
    "fully_shard": "nn.fully_shard(nn.Linear(4, 4))(mx.ones((2, 4))).shape",
    "glu": "nn.glu(mx.array([[1.0, 2.0, 0.0, 0.0]]))",
    "prelu": f"nn.prelu({_POINTS}, mx.array(0.25))",
}

_OPTIMIZERS = "SGD AdaDelta Adafactor Adagrad Adam AdamW Adamax Lion Muon RMSprop".split()

_CORE = {
    "ArrayIterator": "next(iter(mx.array([1, 2])))",
    "ArrayLike": "isinstance(mx.ArrayLike(3.0), mx.ArrayLike)",
    "Device": "mx.Device(mx.cpu, 0)",
    "DeviceType": "mx.default_device().type == mx.DeviceType.cpu",
    "Dtype": "mx.float32.size, mx.float32 == mx.float16",
    "DtypeCategory": "mx.issubdtype(mx.float32, mx.DtypeCategory.floating)",
    "PrintOptions": "mx.PrintOptions(precision=3).precision",
    "Stream": "isinstance(mx.default_stream(mx.cpu), mx.Stream)",
    "StreamContext": "with mx.StreamContext(mx.cpu): print(mx.ones(2) + 1)",
    "ThreadLocalStream": "isinstance(mx.new_thread_local_stream(mx.cpu), mx.ThreadLocalStream)",
    "clear_cache": "mx.clear_cache()",
    "clear_streams": "mx.clear_streams()",
    "concat": "mx.concat([mx.zeros(2), mx.ones(2)])",
    "default_device": "mx.default_device().type == mx.cpu",
    "default_stream": "mx.default_stream(mx.cpu).device.type == mx.cpu",
    "device_count": "mx.device_count(mx.cpu)",
    "device_info": "'architecture' in mx.device_info(mx.cpu)",
    "disable_compile": "mx.disable_compile(); mx.enable_compile()",
    "enable_compile": "mx.enable_compile()",
    "finfo": "mx.finfo(mx.float16).max",
    "from_dlpack": "import numpy; mx.from_dlpack(numpy.arange(3.0, dtype='float32'))",
    "get_active_memory": "mx.get_active_memory() >= 0",
    "get_array_buffer_size": "x = mx.zeros(256); mx.eval(x); mx.get_array_buffer_size(x) >= 1024",
    "get_cache_memory": "mx.get_cache_memory() >= 0",
    "get_memory_limit": "mx.get_memory_limit() > 0",
    "get_peak_memory": "mx.get_peak_memory() >= 0",
    "get_printoptions": "mx.get_printoptions().precision",
    "iinfo": "mx.iinfo(mx.int8).max",
    "is_available": "mx.is_available(mx.cpu)",
    "new_stream": "mx.new_stream(mx.cpu).device.type == mx.cpu",
    "new_thread_local_stream": "mx.new_thread_local_stream(mx.cpu).device.type == mx.cpu",
    "new_thread_unsafe_stream": "mx.new_thread_unsafe_stream(mx.cpu).device.type == mx.cpu",
    "permute_dims": "mx.permute_dims(mx.zeros((2, 3)), (1, 0)).shape",
    "reset_peak_memory": "mx.reset_peak_memory()",
    "set_cache_limit": "before = mx.set_cache_limit(1 << 30); mx.set_cache_limit(before)",
    "set_default_device": "mx.set_default_device(mx.cpu)",
    "set_default_stream": "mx.set_default_stream(mx.default_stream(mx.cpu))",
    "set_memory_limit": "before = mx.set_memory_limit(1 << 33); mx.set_memory_limit(before)",
    "set_wired_limit": "mx.set_wired_limit(0)",
    "synchronize": "mx.synchronize()",
}

_X, _Y = "mx.array([0.5, 1.0])", "mx.array([1.0, 0.0])"
_LOSSES = {
    **{
        name: f"nn.losses.{name}({_X}, {_Y})"
        for name in ("binary_cross_entropy", "hinge_loss", "huber_loss", "kl_div_loss", "l1_loss", "log_cosh_loss",
                     "mse_loss", "smooth_l1_loss")
    },
    "cosine_similarity_loss": f"nn.losses.cosine_similarity_loss({_X}[None], {_Y}[None])",
    "gaussian_nll_loss": f"nn.losses.gaussian_nll_loss({_X}, {_Y}, mx.ones(2))",
    "margin_ranking_loss": f"nn.losses.margin_ranking_loss({_X}, {_Y}, mx.array([1, -1]))",
    "nll_loss": "nn.losses.nll_loss(mx.log(mx.array([[0.25, 0.75]])), mx.array([1]))",
    "triplet_loss": f"nn.losses.triplet_loss({_X}[None], {_Y}[None], mx.zeros((1, 2)))",
}  # fmt: skip
_INITIALIZERS = "glorot_normal glorot_uniform he_normal he_uniform identity normal orthogonal uniform".split()
_SCHEDULES = {
    "cosine_decay": "schedule = optim.cosine_decay(0.1, 10); [round(schedule(mx.array(k)).item(), 3) for k in (0, 5, 10)]",
    "linear_schedule": "schedule = optim.linear_schedule(0.0, 0.1, 10); [round(schedule(k).item(), 3) for k in (0, 5, 10)]",
    "step_decay": "schedule = optim.step_decay(0.1, 0.5, 10); [round(schedule(mx.array(k)).item(), 3) for k in (0, 10)]",
    "join_schedules": "schedule = optim.join_schedules([optim.linear_schedule(0.0, 0.1, 10), optim.cosine_decay(0.1, 10)], "
    "[10]); [round(schedule(mx.array(k)).item(), 3) for k in (0, 10, 15)]",
}
_MEMORY = (
    "clear_cache get_active_memory get_cache_memory get_peak_memory reset_peak_memory set_cache_limit set_memory_limit "
    "set_wired_limit"
).split()

EXAMPLES: dict[str, str] = {
    **{f"mxcompat.nn.losses.{name}": code for name, code in _LOSSES.items()},
    **{f"mxcompat.nn.init.{name}": f"nn.init.{name}()(mx.zeros((2, 2))).shape" for name in _INITIALIZERS},
    "mxcompat.nn.init.sparse": "nn.init.sparse(0.5)(mx.zeros((4, 4))).shape",
    **{f"mxcompat.optimizers.{name}": code for name, code in _SCHEDULES.items()},
    **{f"mxcompat.core.metal.{name}": _CORE[name].replace("mx.", "mx.metal.") for name in _MEMORY},
    "mxcompat.core.metal.is_available": "mx.metal.is_available()",
    "mxcompat.core.cuda.is_available": "mx.cuda.is_available() == mx.is_available(mx.gpu)",
    "mxcompat.core.distributed.is_available": "isinstance(mx.distributed.is_available(), bool)",
    "mxcompat.core.distributed.Group": "group = mx.distributed.init(); group.rank(), group.size()",
    "mxcompat.ext.jacfwd": "mx.ext.jacfwd(lambda x: x**2)(mx.array([1.0, 2.0]))",
    "mxcompat.ext.debug.CacheInfo": "mx.ext.debug.cache_info()._fields",
    "mxcompat.ext.debug.cache_size": "mx.ext.debug.clear_cache(); mx.eval(mx.ones(3) + 1); mx.ext.debug.cache_size() > 0",
    "mxcompat.ext.debug.clear_cache": "mx.ext.debug.clear_cache(); mx.ext.debug.cache_size()",
    "mxcompat.testing.to_numpy": "from mxcompat.testing import to_numpy; to_numpy(mx, mx.ones(2))",
    **{f"mxcompat.core.{name}": code for name, code in _CORE.items()},
    **{f"mxcompat.nn.{name}": f"nn.{name}({_POINTS})" for name in _ACTIVATIONS},
    **{f"mxcompat.nn.{name}": f"nn.{name}()({_POINTS})" for name in _ACTIVATION_LAYERS},
    **{f"mxcompat.nn.{name}": code for name, code in _LAYERS.items()},
    **{
        f"mxcompat.optimizers.{name}": f"optimizer = optim.{name}(learning_rate=0.1); "
        "optimizer.apply_gradients({'w': mx.ones((2, 2))}, {'w': mx.zeros((2, 2))})['w'].shape"
        for name in _OPTIMIZERS
    },
}
"""By name in full: statements, the last of which may be an expression whose value is shown."""

WITHOUT = {
    "mxcompat.core.FunctionExporter": "what `mx.exporter` gives; its example is there",
    **dict.fromkeys(
        (f"mxcompat.core.distributed.{name}" for name in ("recv", "recv_like", "send")), "takes two processes"
    ),
    **dict.fromkeys(
        (f"mxcompat.core.fast.{name}" for name in ("cuda_kernel", "precompiled_cuda_kernel")), "raises"
    ),
    **dict.fromkeys(
        (f"mxcompat.core.metal.{name}" for name in ("device_info", "start_capture", "stop_capture")), "there is no Metal"
    ),
    "mxcompat.ext.sharding.Collective": "what `collectives` returns",
    "mxcompat.ext.sharding.PartitionSpec": "JAX's own",
    **dict.fromkeys((f"mxcompat.testing.{name}" for name in ("Comparison", "Difference")), "what `compare` returns"),
}
"""Names that have no example, and why."""


def ran(code: str, given: dict[str, Any]) -> str:
    """What code prints in a namespace, as in an interactive session."""
    *body, last = ast.parse(code).body
    value = None
    with redirect_stdout(io.StringIO()) as out:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(body, []), "example", "exec"), given)
            value = eval(compile(ast.Expression(last.value), "example", "eval"), given)
        else:
            exec(compile(ast.Module([*body, last], []), "example", "exec"), given)
    return out.getvalue() + ("" if value is None else repr(value))


def example_of(name: str, text: str) -> list[str]:
    """The example of a name whose docstring has none, as a section of one."""
    code = EXAMPLES.get(name)
    if code is None or ">>>" in text:
        return []
    import mxcompat as mx
    from mxcompat import nn, optimizers

    mx.random.seed(0)
    given = {"mx": mx, "nn": nn, "optim": optimizers}
    statements = [ast.unparse(statement) for statement in ast.parse(code).body]
    lines = [f">>> {line}" for statement in statements for line in statement.split("\n")]
    shown = [*lines, *ran(code, given).splitlines()]
    return ["\n".join(["Examples:", *(f"    {line}" for line in shown)])]
