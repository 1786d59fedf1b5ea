"""The oracle itself, compared with NumPy code that runs the threads of a SIMD group in lockstep."""

import ml_dtypes
import numpy as np
import pytest

from .cases import Case
from .kernels import by_oracle, needs_oracle

pytestmark = needs_oracle

X = np.linspace(-2, 2, 100, dtype=np.float32)


def one(source, *inputs, dtype="float32", size=100, **options):
    plain = {"grid": (size, 1, 1), "threadgroup": (64, 1, 1), "outputs": (((size,), dtype),)}
    return by_oracle(Case(source, inputs, **{**plain, **options}))[0]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_rounded_after_each_operation(dtype):
    x, y = X.astype(dtype), X[::-1].astype(dtype)
    got = one("uint i = thread_position_in_grid.x; y[i] = x0[i] * x1[i] + x0[i] / 3;", x, y, dtype=np.dtype(dtype).name)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x * y + x / dtype(3))


def test_numbers_without_a_suffix_are_of_single_precision():
    got = one("uint i = thread_position_in_grid.x; y[i] = x0[i] + 1e-9 - 0.1; y[i] += sizeof(1.0) - 4;", X)
    np.testing.assert_array_equal(got, X + np.float32(1e-9) - np.float32(0.1))


def test_positions_are_unsigned():
    got = one("uint i = thread_position_in_grid.x; y[i] = i - 1 < 10 ? 1 : 0;", size=20)
    np.testing.assert_array_equal(got, [0] + [1] * 10 + [0] * 9)


def test_swizzles_and_vectors():
    source = """
        uint i = thread_position_in_grid.x;
        float4 v = float4(x0[i], 1, float2(2, 3));
        v.zw = v.wz * 2;
        v.xy += float2(10).yx;
        y[i] = dot(v, float4(1, 10, 100, 1000)) + length(float3(0, 3, 4)) + (v.yx < v.xy).y;
    """
    want = [(x + 10) + 110 + 600 + 4000 + 5 + (x + 10 < 11) for x in X.astype(np.float64)]
    np.testing.assert_allclose(one(source, X), want, rtol=1e-6)


def test_threads_that_return_have_left_their_group():
    source = """
        uint i = thread_position_in_grid.x;
        if (x0[i] < 0) return;
        y[i] = simd_sum(1) + (simd_is_first() ? 1000 : 0) + popcount(uint(uint64_t(simd_ballot(x0[i] > 1)))) * 100;
    """
    want = np.full(100, 7.0)
    for start in (0, 32, 64, 96):
        lanes = [k for k in range(start, min(start + 32, 100)) if X[k] >= 0]
        for k in lanes:
            want[k] = len(lanes) + 1000 * (k == lanes[0]) + 100 * sum(X[j] > 1 for j in lanes)
    np.testing.assert_array_equal(one(source, X, init_value=7, threadgroup=(96, 1, 1)), want)


def test_lanes_meet_again_behind_loops_of_different_length():
    """Assert that a SIMD sum takes the lanes in the same iteration of the same loops, also in a helper with two call
    sites."""
    header = "inline float count(float x) { return simd_sum(x); }"
    source = """
        uint i = thread_position_in_grid.x, lid = thread_position_in_threadgroup.x;
        float t = 0;
        for (uint k = 0; k < lid % 5; k++) {
            t += count(1);
            uint j = 0;
            while (j < (lid + k) % 3) {
                if ((j + lid) % 2) t += 100 * count(1.0f);
                else if (lid % 7 == 3) { j++; continue; }
                j++;
            }
            if (lid % 11 == 4) break;
        }
        y[i] = t + 10000 * count(1);
    """
    want = np.zeros(100)
    for start in (0, 32, 64, 96):
        lid = np.arange(start, min(start + 32, 100)) % 64
        total, outer, k = np.zeros(len(lid)), np.ones(len(lid), bool), 0
        while (outer := outer & (k < lid % 5)).any():
            total += outer * outer.sum()
            inner, j = outer, 0
            while (inner := inner & (j < (lid + k) % 3)).any():
                adds = inner & ((j + lid) % 2 == 1)
                total += 100 * adds * adds.sum()
                j += 1
            outer = outer & (lid % 11 != 4)
            k += 1
        want[start : start + 32] = total + 10000 * len(lid)
    np.testing.assert_array_equal(one(source, header=header), want)


def test_barriers_order_what_a_group_does():
    source = """
        uint lid = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x;
        threadgroup float shared[64];
        shared[lid] = x0[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 32; s > 0; s >>= 1) {
            if (lid < s && lid + s < n) shared[lid] += shared[lid + s];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[thread_position_in_grid.x] = shared[0];
    """
    whole = X.astype(np.float64)
    want = [whole[:64].sum()] * 64 + [whole[64:].sum()] * 36
    np.testing.assert_allclose(one(source, X), want, rtol=1e-5)


def test_threads_that_return_hold_up_no_barrier():
    source = """
        uint lid = thread_position_in_threadgroup.x;
        threadgroup int seen[2];
        if (lid < 2) seen[lid] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid % 3 == 0) return;
        for (int k = 0; k < 3; k++) {
            if (lid == 1) seen[0] += 1;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (lid % 5 == 2 && k == 1) return;
            if (lid == 4) seen[1] += seen[0];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[thread_position_in_grid.x] = seen[0] * 100 + seen[1];
    """
    want = [-1 if k % 64 % 3 == 0 or k % 64 % 5 == 2 else 306 for k in range(100)]
    np.testing.assert_array_equal(one(source, init_value=-1), want)


def test_edge_groups_are_smaller():
    source = """
        uint3 p = thread_position_in_grid, n = threads_per_grid, g = threads_per_threadgroup;
        uint at = p.x + n.x * (p.y + n.y * p.z);
        y[at] = g.x * 100 + g.y * 10 + g.z + thread_index_in_threadgroup * 10000;
    """
    got = one(source, size=60, grid=(5, 4, 3), threadgroup=(4, 3, 2)).reshape(3, 4, 5)
    for z, y, x in np.ndindex(got.shape):
        gx, gy, gz = (1 if x == 4 else 4), (1 if y == 3 else 3), (1 if z == 2 else 2)
        index = x % 4 + gx * (y % 3 + gy * (z % 2))
        assert got[z, y, x] == gx * 100 + gy * 10 + gz + index * 10000
