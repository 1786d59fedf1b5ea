"""`simdgroup_matrix`: products in tiles, and the elements that each lane holds, against NumPy."""

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import testing

pytestmark = pytest.mark.usefixtures("tier")

RNG = np.random.default_rng(0)
LANE = np.arange(32)
ROW, COLUMN = (LANE & 16) // 4 + (LANE & 6) // 2, (LANE & 8) // 2 + (LANE & 1) * 2


def run(source, inputs, outputs, grid=(32, 1, 1), group=(32, 1, 1), template=None):
    """Return the outputs as NumPy arrays. They are given as pairs of shape and dtype, and are named y, y1, …"""
    kernel = mx.fast.metal_kernel(
        name="tiles", input_names=list(inputs), output_names=[f"y{k or ''}" for k in range(len(outputs))], source=source
    )
    results = kernel(
        inputs=list(inputs.values()), grid=grid, threadgroup=group, template=template,
        output_shapes=[shape for shape, _ in outputs], output_dtypes=[dtype for _, dtype in outputs],
    )  # fmt: skip
    return [testing.to_numpy(mx, output) for output in results]


PRODUCT = """
    threadgroup T tile[8 * 16];
    uint2 at = threadgroup_position_in_grid.xy;
    uint lane = thread_index_in_simdgroup, half_ = simdgroup_index_in_threadgroup;
    simdgroup_float8x8 sums[2];
    for (int k = 0; k < 2; k++) sums[k] = simdgroup_float8x8(0);
    for (int k = 0; k < K; k += 8) {
        for (uint e = thread_index_in_threadgroup; e < 128; e += 64)
            tile[e] = b[(k + e / 16) * N + at.x * 16 + e % 16];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_matrix<float, 8, 8> left;
        simdgroup_matrix<T, 8, 8> right;
        simdgroup_load(left, a + (at.y * 16 + half_ * 8) * K, K, ulong2(k, 0));
        for (int c = 0; c < 2; c++) {
            simdgroup_load(right, tile + 8 * c, 16);
            simdgroup_multiply_accumulate(sums[c], left, right, sums[c]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (int c = 0; c < 2; c++)
        simdgroup_store(sums[c], y + (at.y * 16 + half_ * 8) * N + at.x * 16 + c * 8, N);
"""


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_products_in_tiles(dtype):
    a = RNG.normal(size=(32, 24)).astype(np.float32)
    b = mx.array(RNG.normal(size=(24, 48)).astype(np.float32)).astype(dtype)
    options = {
        "grid": (64 * 3, 2, 1), "group": (64, 1, 1), "template": [("T", dtype), ("K", 24), ("N", 48)]
    }  # fmt: skip
    (got,) = run(PRODUCT, {"a": mx.array(a), "b": b}, [((32, 48), mx.float32)], **options)
    np.testing.assert_allclose(got, a @ testing.to_numpy(mx, b.astype(mx.float32)), rtol=1e-5, atol=1e-5)


def test_elements_of_lanes():
    """Assert that a lane has the same elements as on the hardware, may write to them, and stores them where it loaded
    them."""
    source = """
        simdgroup_float8x8 m, p, three = simdgroup_float8x8(3.0f);
        auto ones = metal::make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
        uint lane = thread_index_in_simdgroup;
        simdgroup_load(m, x, 8, ulong2(0), true);
        y[2 * lane] = m.thread_elements().x;
        y[2 * lane + 1] = m.thread_elements()[1];
        simdgroup_multiply(p, m, three);
        simdgroup_store(p, y1);
        reinterpret_cast<thread float2&>(ones.thread_elements()) = float2(lane, 1);
        ones.thread_elements()[1] += lane;
        simdgroup_store(ones, y2, 8, ulong2(0), true);
    """
    x = RNG.normal(size=(8, 8)).astype(np.float32)
    held, tripled, numbers = run(source, {"x": mx.array(x)}, [((32, 2), mx.float32)] + [((8, 8), mx.float32)] * 2)
    np.testing.assert_array_equal(held, np.stack([x.T[ROW, COLUMN], x.T[ROW, COLUMN + 1]], -1))
    np.testing.assert_allclose(tripled, 3 * x.T, rtol=1e-6)
    np.testing.assert_array_equal(numbers[COLUMN, ROW], LANE)
    np.testing.assert_array_equal(numbers[COLUMN + 1, ROW], LANE + 1)


def test_derivatives_of_products():
    options = {"template": [("T", mx.float32), ("K", 8), ("N", 16)], "grid": (64, 1, 1), "threadgroup": (64, 1, 1)}
    kernel = mx.fast.metal_kernel(name="tiles", input_names=["a", "b"], output_names=["y"], source=PRODUCT)

    def weighed(a, b):
        (y,) = kernel(inputs=[a, b], output_shapes=[(16, 16)], output_dtypes=[mx.float32], **options)
        return (y * w).sum()

    a, b, w = (mx.array(RNG.normal(size=s).astype(np.float32)) for s in ((16, 8), (8, 16), (16, 16)))
    for got, want in zip(mx.grad(weighed, argnums=(0, 1))(a, b), (w @ b.T, a.T @ w), strict=True):
        np.testing.assert_allclose(testing.to_numpy(mx, got), testing.to_numpy(mx, want), rtol=1e-4, atol=1e-4)
