"""Kernels in Metal, and the same computations in mx operations. `tests.benchmarks metal` times them; tests
differentiate them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["KERNELS", "Pair", "all_pairs", "grid_sample", "group_norm", "scan", "softmax"]


class Pair(NamedTuple):
    """A function by a kernel, and the same in mx operations.

    Args:
        name: of the row.
        kernel, operations: functions of mx and the inputs.
        inputs: make the inputs, NumPy arrays.
        tol: the difference of the two, relative to the largest value.
    """

    name: str
    kernel: Callable[..., Any]
    operations: Callable[..., Any]
    inputs: Callable[[], list[np.ndarray]]
    tol: float = 1e-4


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


_SOFTMAX = """
    uint row = threadgroup_position_in_grid.y, lane = thread_position_in_threadgroup.x;
    threadgroup float part[32];
    const device float* in = x + row * N;
    float best = -INFINITY;
    for (uint j = lane; j < N; j += threads_per_threadgroup.x) best = max(best, in[j]);
    best = simd_max(best);
    if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = best;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    best = simd_max(part[thread_index_in_simdgroup % simdgroups_per_threadgroup]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float total = 0;
    for (uint j = lane; j < N; j += threads_per_threadgroup.x) total += exp(in[j] - best);
    total = simd_sum(total);
    if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = total;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    total = 0;
    for (uint j = 0; j < simdgroups_per_threadgroup; j++) total += part[j];
    for (uint j = lane; j < N; j += threads_per_threadgroup.x) y[row * N + j] = exp(in[j] - best) / total;
"""


def softmax(mx: Any, x: Any, threads: int = 256) -> Any:
    """Compute softmax over the rows of (R, N): a group of threads for each row, with sums over SIMD groups."""
    kernel = mx.fast.metal_kernel(name="softmax_rows", input_names=["x"], output_names=["y"], source=_SOFTMAX)
    rows, n = x.shape
    return kernel(
        inputs=[x], template=[("N", n)], grid=(threads, rows, 1), threadgroup=(threads, 1, 1), output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )[0]  # fmt: skip


_GRID_SAMPLE = """
    uint i = thread_position_in_grid.x;
    int C = x_shape[3], W = x_shape[2], H = x_shape[1], WG = grid_shape[2], HG = grid_shape[1];
    int c = i % C, place = i / C, n = place / (WG * HG);
    float px = ((grid[2 * place] + 1) * W - 1) / 2, py = ((grid[2 * place + 1] + 1) * H - 1) / 2;
    int left = floor(px), top = floor(py);
    float right = px - left, down = py - top, total = 0;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            int row = top + a, column = left + b;
            if (row < 0 || row >= H || column < 0 || column >= W) continue;
            float weight = (a ? down : 1 - down) * (b ? right : 1 - right);
            total += weight * x[((n * H + row) * W + column) * C + c];
        }
    }
    y[i] = total;
"""


def grid_sample(mx: Any, x: Any, grid: Any) -> Any:
    """Interpolate images x (N, H, W, C) between their pixels, at the coordinates grid (N, HG, WG, 2) between -1
    and 1."""
    kernel = mx.fast.metal_kernel(name="bilinear", input_names=["x", "grid"], output_names=["y"], source=_GRID_SAMPLE)
    shape = (*grid.shape[:3], x.shape[3])
    return kernel(
        inputs=[x, grid], grid=(int(np.prod(shape)), 1, 1), threadgroup=(256, 1, 1), output_shapes=[shape],
        output_dtypes=[x.dtype],
    )[0]  # fmt: skip


def _grid_sample_by_operations(mx: Any, x: Any, grid: Any) -> Any:
    n, h, w, _ = x.shape
    px, py = ((grid[..., 0] + 1) * w - 1) / 2, ((grid[..., 1] + 1) * h - 1) / 2
    left, top = mx.floor(px).astype(mx.int32), mx.floor(py).astype(mx.int32)
    right, down = px - left, py - top
    image = mx.arange(n)[:, None, None]
    total = 0
    for a in range(2):
        for b in range(2):
            row, column = top + a, left + b
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < w)
            value = x[image, mx.clip(row, 0, h - 1), mx.clip(column, 0, w - 1)]
            weight = (down if a else 1 - down) * (right if b else 1 - right)
            total = total + mx.where(inside, weight, 0)[..., None] * value
    return total


_GROUP_NORM = """
    uint group = threadgroup_position_in_grid.x, lane = thread_position_in_threadgroup.x;
    uint size = C / G, n = group / G, g = group % G, step = threads_per_threadgroup.x;
    threadgroup float sums[256], squares[256];
    float sum = 0, square = 0;
    for (uint j = lane; j < size * L; j += step) {
        float v = x[(n * L + j / size) * C + g * size + j % size];
        sum += v;
        square += v * v;
    }
    sums[lane] = sum;
    squares[lane] = square;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint s = step / 2; s > 0; s /= 2) {
        if (lane < s) {
            sums[lane] += sums[lane + s];
            squares[lane] += squares[lane + s];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    float mean = sums[0] / (size * L);
    float scale = rsqrt(squares[0] / (size * L) - mean * mean + 1e-5);
    for (uint j = lane; j < size * L; j += step) {
        uint c = g * size + j % size, place = (n * L + j / size) * C + c;
        y[place] = (x[place] - mean) * scale * weight[c] + bias[c];
    }
"""


def group_norm(mx: Any, x: Any, weight: Any, bias: Any, groups: int = 8, threads: int = 256) -> Any:
    """Normalize groups of channels of x (N, L, C): a group of threads for each group of channels."""
    kernel = mx.fast.metal_kernel(
        name="group_norm", input_names=["x", "weight", "bias"], output_names=["y"], source=_GROUP_NORM
    )
    n, length, c = x.shape
    return kernel(
        inputs=[x, weight, bias], template=[("C", c), ("L", length), ("G", groups)], grid=(threads * n * groups, 1, 1),
        threadgroup=(threads, 1, 1), output_shapes=[x.shape], output_dtypes=[x.dtype],
    )[0]  # fmt: skip


def _group_norm_by_operations(mx: Any, x: Any, weight: Any, bias: Any, groups: int = 8) -> Any:
    n, length, c = x.shape
    parts = x.reshape(n, length, groups, c // groups)
    mean = parts.mean(axis=(1, 3), keepdims=True)
    variance = mx.square(parts).mean(axis=(1, 3), keepdims=True) - mx.square(mean)
    return ((parts - mean) * mx.rsqrt(variance + 1e-5)).reshape(x.shape) * weight + bias


_SCAN = """
    uint i = thread_position_in_grid.x, batch = thread_position_in_grid.y;
    float state = 0;
    for (int t = 0; t < L; t++) {
        int place = (batch * L + t) * D + i;
        state = decay[place] * state + x[place];
        y[place] = state;
    }
"""


def scan(mx: Any, x: Any, decay: Any) -> Any:
    """Run a linear recurrence over the middle axis of x (B, L, D): each step decays the state and adds to it."""
    kernel = mx.fast.metal_kernel(name="recurrence", input_names=["x", "decay"], output_names=["y"], source=_SCAN)
    batch, length, d = x.shape
    return kernel(
        inputs=[x, decay], template=[("L", length), ("D", d)], grid=(d, batch, 1), threadgroup=(64, 1, 1),
        output_shapes=[x.shape], output_dtypes=[x.dtype],
    )[0]  # fmt: skip


def _scan_by_operations(mx: Any, x: Any, decay: Any) -> Any:
    """Run the recurrence as programs do without a kernel: in a loop in Python."""
    state, states = mx.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + x[:, t]
        states.append(state)
    return mx.stack(states, axis=1)


_PAIRS = """
    uint i = thread_position_in_grid.x, j = thread_position_in_grid.y;
    float total = 0;
    for (int k = 0; k < D; k++) {
        float difference = a[i * D + k] - b[j * D + k];
        total += difference * difference;
    }
    y[i * a_shape[0] + j] = sqrt(total);
"""


def all_pairs(mx: Any, a: Any, b: Any) -> Any:
    """Return the distances of all rows of a (N, D) to all rows of b (N, D): a thread for each pair."""
    kernel = mx.fast.metal_kernel(name="distances", input_names=["a", "b"], output_names=["y"], source=_PAIRS)
    n, d = a.shape
    return kernel(
        inputs=[a, b], template=[("D", d)], grid=(n, n, 1), threadgroup=(16, 16, 1), output_shapes=[(n, n)],
        output_dtypes=[a.dtype],
    )[0]  # fmt: skip


def _pairs_by_operations(mx: Any, a: Any, b: Any) -> Any:
    return mx.sqrt(mx.square(a[:, None] - b[None]).sum(axis=-1))


def _places() -> np.ndarray:
    return np.random.default_rng(1).uniform(-1.1, 1.1, (4, 64, 64, 2)).astype(np.float32)


KERNELS = [
    Pair("softmax 4096x4096", softmax, lambda mx, x: mx.softmax(x, axis=-1), lambda: [_normal(0, 4096, 4096)]),
    Pair(
        "grid sample 4x64x64x32", grid_sample, _grid_sample_by_operations,
        lambda: [_normal(0, 4, 64, 64, 32), _places()],
    ),
    Pair(
        "group norm 4x4096x64", group_norm, _group_norm_by_operations,
        lambda: [_normal(0, 4, 4096, 64), _normal(1, 64), _normal(2, 64)],
    ),
    Pair(
        "recurrence 4x256x512", scan, _scan_by_operations,
        lambda: [_normal(0, 4, 256, 512), np.random.default_rng(1).uniform(0.5, 1, (4, 256, 512)).astype(np.float32)],
    ),
    Pair(
        "all pairs 1024x1024x16", all_pairs, _pairs_by_operations,
        lambda: [_normal(0, 1024, 16), _normal(1, 1024, 16)],
    ),
]  # fmt: skip
"""The kernels that are timed."""
