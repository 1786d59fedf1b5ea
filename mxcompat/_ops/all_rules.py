"""The modules that register the rules of the ops. Importing this module imports them all."""

from __future__ import annotations

import mxcompat._ops.conv.primitive_rules
import mxcompat._ops.conv.signal_rules
import mxcompat._ops.cost
import mxcompat._ops.creation.batch
import mxcompat._ops.creation.host
import mxcompat._ops.elementwise.batch
import mxcompat._ops.elementwise.host_binary
import mxcompat._ops.elementwise.host_casts
import mxcompat._ops.elementwise.host_in_place
import mxcompat._ops.elementwise.host_unary
import mxcompat._ops.elementwise.pullback_binary
import mxcompat._ops.elementwise.pullback_unary
import mxcompat._ops.elementwise.tangents
import mxcompat._ops.fast.attention_rules
import mxcompat._ops.fast.delta_rules
import mxcompat._ops.fast.norms_rules
import mxcompat._ops.fast.rope_rules
import mxcompat._ops.fft.stft_rules
import mxcompat._ops.fft.transforms_rules
import mxcompat._ops.indexing.gather_rules
import mxcompat._ops.indexing.put_rules
import mxcompat._ops.indexing.room_rules
import mxcompat._ops.indexing.scatter_rules
import mxcompat._ops.linalg.decompositions_rules
import mxcompat._ops.linalg.eigen_rules
import mxcompat._ops.linalg.lu_rules
import mxcompat._ops.linalg.norm_rules
import mxcompat._ops.linalg.solve_rules
import mxcompat._ops.movement.batch
import mxcompat._ops.movement.host
import mxcompat._ops.movement.pullback
import mxcompat._ops.padding.padded_rules
import mxcompat._ops.products.einsum_rules
import mxcompat._ops.products.gathered_rules
import mxcompat._ops.products.matmul_rules
import mxcompat._ops.products.vectors_rules
import mxcompat._ops.quantized.fp8_rules
import mxcompat._ops.quantized.matmul_rules
import mxcompat._ops.quantized.qqmm_rules
import mxcompat._ops.quantized.quantize_rules
import mxcompat._ops.random.continuous_rules
import mxcompat._ops.random.discrete_rules
import mxcompat._ops.random.state_rules
import mxcompat._ops.reductions.batch
import mxcompat._ops.reductions.host
import mxcompat._ops.reductions.pullback
import mxcompat._ops.reductions.scans_host
import mxcompat._ops.reductions.sorting_host

__all__: list[str] = []
