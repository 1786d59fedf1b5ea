"""`mlx.core.fast`, name for name. Re-exports only."""

from mxcompat._ops.fast.attention import scaled_dot_product_attention
from mxcompat._ops.fast.delta import gated_delta_update
from mxcompat._ops.fast.kernels import precompiled_cuda_kernel
from mxcompat._ops.fast.metal import cuda_kernel, metal_kernel
from mxcompat._ops.fast.norms import cross_entropy, layer_norm, rms_norm
from mxcompat._ops.fast.rope import rope

__all__ = [
    "cross_entropy", "cuda_kernel", "gated_delta_update", "layer_norm", "metal_kernel", "precompiled_cuda_kernel",
    "rms_norm", "rope", "scaled_dot_product_attention",
]  # fmt: skip
