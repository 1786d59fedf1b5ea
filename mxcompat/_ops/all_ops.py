"""The modules that define ops. Importing this module imports them all, so that TABLE is complete.

`mxcompat._ops` imports it before `all_rules`, so a module of rules finds the record of any op in TABLE. Therefore no
module of this list may import a module of rules.
"""

from __future__ import annotations

import mxcompat._ops.conv.primitive
import mxcompat._ops.conv.signal
import mxcompat._ops.creation.filled
import mxcompat._ops.creation.matrices
import mxcompat._ops.creation.ranges
import mxcompat._ops.creation.windows
import mxcompat._ops.distributed.collectives
import mxcompat._ops.elementwise.arithmetic
import mxcompat._ops.elementwise.bitwise
import mxcompat._ops.elementwise.casts
import mxcompat._ops.elementwise.comparison
import mxcompat._ops.elementwise.unary
import mxcompat._ops.fast.attention
import mxcompat._ops.fast.delta
import mxcompat._ops.fast.metal
import mxcompat._ops.fast.norms
import mxcompat._ops.fast.rope
import mxcompat._ops.fft.stft
import mxcompat._ops.fft.transforms
import mxcompat._ops.indexing.at
import mxcompat._ops.indexing.gather
import mxcompat._ops.indexing.put
import mxcompat._ops.indexing.room
import mxcompat._ops.indexing.scatter
import mxcompat._ops.linalg.decompositions
import mxcompat._ops.linalg.eigen
import mxcompat._ops.linalg.lu
import mxcompat._ops.linalg.norm
import mxcompat._ops.linalg.solve
import mxcompat._ops.movement.arrange
import mxcompat._ops.movement.diagonals
import mxcompat._ops.movement.joining
import mxcompat._ops.movement.pad
import mxcompat._ops.movement.shape
import mxcompat._ops.movement.transposition
import mxcompat._ops.padding.padded
import mxcompat._ops.products.einsum
import mxcompat._ops.products.gathered
import mxcompat._ops.products.matmul
import mxcompat._ops.products.vectors
import mxcompat._ops.quantized.fp8
import mxcompat._ops.quantized.matmul
import mxcompat._ops.quantized.qqmm
import mxcompat._ops.quantized.quantize
import mxcompat._ops.random.continuous
import mxcompat._ops.random.discrete
import mxcompat._ops.random.state
import mxcompat._ops.reductions.extremes
import mxcompat._ops.reductions.partitioning
import mxcompat._ops.reductions.reduce
import mxcompat._ops.reductions.scans
import mxcompat._ops.reductions.softmax
import mxcompat._ops.reductions.sorting
import mxcompat._ops.reductions.statistics

__all__: list[str] = []
