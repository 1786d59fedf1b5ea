"""The modules that register the rules of the ops. Importing this module imports them all."""

from __future__ import annotations

import mxcompat._ops.conv.primitive_rules
import mxcompat._ops.conv.signal_rules
import mxcompat._ops.cost
import mxcompat._ops.creation.filled_rules
import mxcompat._ops.creation.matrices_rules
import mxcompat._ops.creation.ranges_rules
import mxcompat._ops.creation.windows_rules
import mxcompat._ops.elementwise.arithmetic_rules
import mxcompat._ops.elementwise.bitwise_rules
import mxcompat._ops.elementwise.casts_rules
import mxcompat._ops.elementwise.comparison_rules
import mxcompat._ops.elementwise.elementwise_rules
import mxcompat._ops.elementwise.unary_rules
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
import mxcompat._ops.movement.arrange_rules
import mxcompat._ops.movement.diagonals_rules
import mxcompat._ops.movement.joining_rules
import mxcompat._ops.movement.pad_rules
import mxcompat._ops.movement.shape_rules
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
import mxcompat._ops.reductions.extremes_rules
import mxcompat._ops.reductions.partitioning_rules
import mxcompat._ops.reductions.reduce_rules
import mxcompat._ops.reductions.scans_rules
import mxcompat._ops.reductions.softmax_rules
import mxcompat._ops.reductions.sorting_rules
import mxcompat._ops.reductions.statistics_rules

__all__: list[str] = []
