"""Ten traps of the translation of kernels, with the results of Metal written down by hand."""

import numpy as np
import pytest

import mxcompat.core as mx

pytestmark = pytest.mark.usefixtures("tier")

N = 40


def call(source, inputs, outputs, *, grid=N, group=32, header="", template=None, init=None, **options):
    """Return a kernel's outputs as lists. Inputs have names; outputs are pairs of size and dtype, named y, y1, …"""
    kernel = mx.fast.metal_kernel(
        name="trap", input_names=list(inputs), output_names=[f"y{k or ''}" for k in range(len(outputs))], source=source,
        header=header, **options,
    )  # fmt: skip
    results = kernel(
        inputs=list(inputs.values()), grid=grid if isinstance(grid, tuple) else (grid, 1, 1),
        threadgroup=group if isinstance(group, tuple) else (group, 1, 1), template=template, init_value=init,
        output_shapes=[(size,) for size, _ in outputs], output_dtypes=[dtype for _, dtype in outputs],
    )  # fmt: skip
    return [output.tolist() for output in results]


def test_the_group_is_cut_to_the_grid():
    source = "uint i = thread_position_in_grid.x; y[i] = threads_per_threadgroup.x; y1[i] = simd_sum(1);"
    assert call(source, {}, [(1, mx.int32)] * 2, grid=1) == [[1], [1]]
    size, active = call(source, {}, [(N, mx.int32)] * 2)
    assert size == active == [32] * 32 + [8] * 8


def test_kernels_without_a_bounds_check():
    """Assert that no thread beyond the grid is started, though the last group is incomplete."""
    source = "y[thread_position_in_grid.x] += 1;"
    assert call(source, {}, [(N + 5, mx.int32)], init=0) == [[1] * N + [0] * 5]


def test_template_values_are_no_macros():
    source = """
        uint i = thread_position_in_grid.x;
        #if (D % 4)
        y[i] = 1;
        #else
        y[i] = D;
        #endif
        y1[i] = F ? T(2.7f) : T(0);
        STEP(y2[i]) STEP(y2[i])
    """
    header = """
        #define STEP(p) \\
            for (int k = 0; k < 3; k++) { if (k == 1) continue; p += k; threadgroup_barrier(mem_flags::mem_none); }
    """
    values = [("D", 3), ("T", mx.int32), ("F", True)]
    results = call(source, {}, [(N, mx.int32)] * 3, template=values, header=header)
    assert results == [[3] * N, [2] * N, [4] * N]


def test_buffers_are_pointers_that_move():
    source = """
        uint i = thread_position_in_grid.x;
        y += i;
        x += i;
        auto p = x;
        *y = p[0] + *(x + 1);
        const device uchar* bytes = (const device uchar*)w;
        y1[i] = bytes[4 * i + 1];
        y2[i] = ((const device float4*)v)[i % 3].y;
        y3[i] = ((const device float3*)v)[i % 3].z;
    """
    x, v = np.arange(N + 1, dtype=np.float32), np.arange(12, dtype=np.float32)
    w = (np.arange(N, dtype=np.uint32) << 8) + 7
    results = call(
        source, {"x": mx.array(x), "w": mx.array(w), "v": mx.array(v)},
        [(N, mx.float32), (N, mx.int32), (N, mx.float32), (N, mx.float32)],
    )  # fmt: skip
    assert results[0] == [2.0 * i + 1 for i in range(N)]
    assert results[1] == list(range(N))
    assert results[2] == [4.0 * (i % 3) + 1 for i in range(N)]
    assert results[3] == [4.0 * (i % 3) + 2 for i in range(N)], "a float3 takes 16 bytes"


def test_a_thread_that_has_returned_is_in_no_group():
    source = """
        uint i = thread_position_in_grid.x;
        if (i % 2 == 0) return;
        y[i] = simd_sum(1);
        y1[i] = simd_is_first();
        y2[i] = uint(ulong(simd_ballot(i > 4)));
        y3[i] = simd_all(i % 2 == 1);
    """
    count, first, votes, every = call(source, {}, [(N, mx.int32)] * 4, init=9, grid=32)
    odd = range(1, 32, 2)
    assert count[:32] == [16 if i in odd else 9 for i in range(32)]
    assert first[:32] == [int(i == 1) if i in odd else 9 for i in range(32)]
    mask = sum(1 << i for i in odd if i > 4)
    assert [v % 2**32 for v in votes[:32]] == [mask if i in odd else 9 for i in range(32)]
    assert every[:32] == [1 if i in odd else 9 for i in range(32)]
    assert count[32:] == [9] * (N - 32)


def test_outputs_are_memory():
    source = """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&y[i % 4], 1, memory_order_relaxed);
        if (i == 7) atomic_store_explicit(&y[6], 5, memory_order_relaxed);
    """
    assert call(source, {}, [(8, mx.int32)], init=2, atomic_outputs=True) == [[12, 12, 12, 12, 2, 2, 5, 2]]
    source = """
        uint i = thread_position_in_grid.x;
        y[i] = i;
        y[i] = y[i] * y[i] + 1;
        y1[i] = y[i] - 1;
        if (i == 3) y1[39] = -1;
    """
    squares, less = call(source, {}, [(N, mx.int32)] * 2, grid=39)
    assert squares == [i * i + 1 for i in range(39)] + [0], "no thread writes the last"
    assert less == [i * i for i in range(39)] + [-1]


def test_what_a_mask_excludes_is_not_read():
    """Assert that masked reads do not happen: beyond a buffer, or of uninitialized memory. They have no derivative
    either."""
    source = """
        int t = int(thread_position_in_grid.x) - 2;
        y[t + 2] = t >= 0 && s[t] > 1;
        y1[t + 2] = t >= 0 ? s[t] : -1;
        float a[4];
        a[0] = 5;
        y2[t + 2] = t > 100 ? a[3] : a[0];
    """
    results = call(source, {"s": mx.arange(N, dtype=mx.float32)}, [(N, mx.float32)] * 3)
    assert results[0] == [float(i - 2 > 1) for i in range(N)]
    assert results[1] == [-1.0] * 2 + [float(i) for i in range(N - 2)]
    assert results[2] == [5.0] * N


def test_derivatives_of_branches_that_were_not_taken():
    kernel = mx.fast.metal_kernel(
        name="root", input_names=["x"], output_names=["y"],
        source="uint i = thread_position_in_grid.x; if (x[i] > 0) { y[i] = sqrt(x[i]); } else { y[i] = 0; }"
        "float r = x[i] > 0 ? log(x[i]) / x[i] : 0.0f; y[i] += r;",
    )  # fmt: skip

    def total(x):
        options = {"grid": (4, 1, 1), "threadgroup": (4, 1, 1), "output_shapes": [(4,)], "output_dtypes": [mx.float32]}
        return kernel(inputs=[x], **options)[0].sum()

    slope = mx.grad(total)(mx.array([0.0, 1.0, -1.0, 4.0]))
    want = [0, 1.5, 0, 0.25 + (1 - np.log(4)) / 16]
    np.testing.assert_allclose(np.array(slope), want, rtol=1e-5)


def test_positions_are_unsigned_and_types_mix():
    source = """
        uint i = thread_position_in_grid.x;
        y[i] = i - 1 < 5;
        y1[i] = (i - 3) / 2 > 100;
        y2[i] = (int(i) - 7) / 2;
        y3[i] = ((int(i) - 7) % 3) + 10 * (ushort(i) * size_t(3) == 3 * i);
        uint packed = (i & 1) | (1u << 16);
        y4[i] = simd_prefix_exclusive_sum(packed) & 0xffffu;
        y5[i] = simd_prefix_exclusive_sum(packed) >> 16;
    """
    results = call(source, {}, [(32, mx.int32)] * 6, grid=32)
    wide = range(32)
    assert results[0] == [int(0 < i <= 5) for i in wide]
    assert results[1] == [int(i < 3) for i in wide]
    assert results[2] == [int((i - 7) / 2) for i in wide]
    assert results[3] == [int(np.fmod(i - 7, 3)) + 10 for i in wide]
    assert results[4] == [sum(k & 1 for k in range(i)) for i in wide]
    assert results[5] == list(wide)


def test_numbers_are_references_and_shapes_are_found_by_name():
    source = """
        // n: x_shape and x_ndim are found here, too
        uint i = thread_position_in_grid.x;
        y[i] = scale * one[0] + x_shape[1] + x_ndim * 100 + count;
    """
    inputs = {"x": mx.zeros((2, 7)), "scale": 2.5, "one": mx.array([10.0]), "count": mx.array(4)}
    assert call(source, inputs, [(N, mx.float32)]) == [[25.0 + 7 + 200 + 4] * N]


def test_rounding_and_literals():
    source = """
        uint i = thread_position_in_grid.x;
        half h = half(0.1f);
        y[i] = h * 3;
        y1[i] = h * 3.0f;
        y2[i] = static_cast<half>(1.0009f) + 1e-9;
        y3[i] = rint(2.5f) + 10 * rint(3.5f);
        y4[i] = min(NAN, 3.0f) + max(2.0f, NAN);
        y5[i] = float(bfloat16_t(1.01f) * bfloat16_t(3));
        y6[i] = 16777216 + 1e-9 == 16777216.0;
    """
    tenth, close = np.float16(0.1), np.float16(1.0009)
    results = call(source, {}, [(1, mx.float32)] * 7, grid=1)
    assert results[0] == [float(tenth * np.float16(3))]
    assert results[1] == [float(np.float32(tenth) * np.float32(3))]
    assert results[2] == [float(np.float32(close) + np.float32(1e-9))]
    assert results[3] == [42.0]
    assert results[4] == [5.0]
    assert results[5] == [3.03125], "1.01 is 1.0078125, and three times that is rounded once more"
    assert results[6] == [1.0]


def test_group_memory_declared_in_the_middle():
    source = """
        uint i = thread_position_in_grid.x, lane = thread_position_in_threadgroup.x;
        y[i] = 0;
        threadgroup float table[4][8];
        threadgroup int best;
        table[lane / 8][lane % 8] = x[i];
        if (lane == 0) best = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int turn = 0; turn < turns[threadgroup_position_in_grid.x]; turn++) {
            if (lane == 1) best += int(table[turn][3]);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (best > 100) table[0][0] = 7;
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[i] = best;
        y1[i] = simd_shuffle(x[i], ushort(to[lane]));
    """
    x, to = np.arange(64, dtype=np.float32), (np.arange(32, dtype=np.uint32) * 5) % 32
    best, moved = call(
        source, {"x": mx.array(x), "turns": mx.array([2, 4]), "to": mx.array(to)}, [(64, mx.float32)] * 2, grid=64
    )
    assert best == [3.0 + 11] * 32 + [35.0 + 43 + 51 + 59] * 32
    assert moved == [float(g + to[k]) for g in (0, 32) for k in range(32)]
