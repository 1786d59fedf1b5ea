"""The modules that register the rules of the ops. Importing this module imports them all."""

from __future__ import annotations

import mxcompat._ops.conv.host
import mxcompat._ops.conv.host_signal
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
import mxcompat._ops.fast.attention_host
import mxcompat._ops.fast.batch
import mxcompat._ops.fast.delta_host
import mxcompat._ops.fast.host
import mxcompat._ops.fft.host
import mxcompat._ops.indexing.batch
import mxcompat._ops.indexing.host
import mxcompat._ops.indexing.index_errors
import mxcompat._ops.indexing.pullback
import mxcompat._ops.linalg.batch
import mxcompat._ops.linalg.failures
import mxcompat._ops.linalg.host
import mxcompat._ops.linalg.host_lu
import mxcompat._ops.linalg.pullback
import mxcompat._ops.movement.arrange_rules
import mxcompat._ops.movement.diagonals_rules
import mxcompat._ops.movement.joining_rules
import mxcompat._ops.movement.pad_rules
import mxcompat._ops.movement.shape_rules
import mxcompat._ops.padding.padded_rules
import mxcompat._ops.products.batch
import mxcompat._ops.products.host
import mxcompat._ops.products.host_einsum
import mxcompat._ops.products.host_gathered
import mxcompat._ops.products.pullback
import mxcompat._ops.quantized.batch
import mxcompat._ops.quantized.host
import mxcompat._ops.random.batch
import mxcompat._ops.random.host
import mxcompat._ops.random.pullback
import mxcompat._ops.reductions.extremes_rules
import mxcompat._ops.reductions.partitioning_rules
import mxcompat._ops.reductions.reduce_rules
import mxcompat._ops.reductions.scans_rules
import mxcompat._ops.reductions.softmax_rules
import mxcompat._ops.reductions.sorting_rules
import mxcompat._ops.reductions.statistics_rules

__all__: list[str] = []
