"""Kernels in CUDA, in NumPy's tier and in XLA, against NumPy."""

import numpy as np
import pytest

import mxcompat.core as mx

pytestmark = pytest.mark.usefixtures("tier")
_RNG = np.random.default_rng(3)


def call(source, inputs, outputs, grid, block, header="", template=None, shared_memory=0, **options):
    """Return a kernel's outputs as NumPy arrays. Inputs have names; outputs are pairs of shape and dtype, named y, y1,
    …"""
    kernel = mx.fast.cuda_kernel(
        name="k", input_names=list(inputs), output_names=[f"y{k or ''}" for k in range(len(outputs))], source=source,
        header=header, shared_memory=shared_memory,
    )  # fmt: skip
    results = kernel(
        inputs=[mx.array(x) for x in inputs.values()], grid=grid, threadgroup=block, template=template,
        output_shapes=[shape for shape, _ in outputs], output_dtypes=[dtype for _, dtype in outputs], **options,
    )  # fmt: skip
    return [np.array(y) for y in results]


def test_positions():
    """Assert that all blocks are complete, also those at the edge of the grid."""
    source = """
        int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
        if (i < 20 && j < 6) y[j * 20 + i] = blockDim.x + 100 * gridDim.x + 1000 * blockIdx.y + i * warpSize;
        atomicAdd(&y1[0], 1);
    """
    positions, count = call(source, {}, [((6, 20), mx.int32), ((1,), mx.int32)], (20, 6, 1), (8, 4, 1), init_value=0)
    j, i = np.mgrid[:6, :20]
    np.testing.assert_array_equal(positions, 8 + 300 + 1000 * (j // 4) + 32 * i)
    assert count == [24 * 8]


def test_functions_of_halves_and_rounding():
    source = """
        int i = threadIdx.x;
        half2 v = __halves2half2(h[i], __hneg(h[i]));
        y[i] = __hadd(__hmul(h[i], h[i]), __low2half(v)) + __hmax(h[i], half(0)) + hexp(__high2half(v));
        y1[i] = __fadd_rn(__fmul_rn(x[i], x[i]), __frsqrt_rn(4.0f)) + __high2float(v) + __hgt(h[i], half(0));
        __threadfence_block();
        y2[i] = __float2uint_rn(x[i] * x[i]) + __mul24(i, 3);
    """
    x = _RNG.normal(size=32).astype(np.float32)
    h = x.astype(np.float16)
    kinds = (mx.float16, mx.float32, mx.uint32)
    results = call(source, {"x": x, "h": h}, [((32,), kind) for kind in kinds], (32, 1, 1), (32, 1, 1))
    np.testing.assert_allclose(results[0], (h * h + h) + np.maximum(h, 0) + np.exp(-h), rtol=2e-3)
    np.testing.assert_allclose(results[1], x * x + 0.5 - h.astype("f") + (h > 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(results[2], np.rint(x * x) + 3 * np.arange(32))


def test_the_example_of_the_documentation():
    source = "auto elem = cooperative_groups::this_grid().thread_rank(); T tmp = inp[elem]; out[elem] = exp(tmp);"
    kernel = mx.fast.cuda_kernel(name="myexp", input_names=["inp"], output_names=["out"], source=source)
    a = mx.array(_RNG.normal(size=(16, 16)).astype(np.float16))
    (result,) = kernel(
        inputs=[a], template=[("T", a.dtype)], grid=(a.size, 1, 1), threadgroup=(256, 1, 1), output_shapes=[a.shape],
        output_dtypes=[a.dtype],
    )  # fmt: skip
    assert mx.allclose(result, mx.exp(a))


def test_sums_of_blocks():
    source = """
        __shared__ float partial[32];
        const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
        float v = 0.f;
        for (int j = threadIdx.x; j < N; j += blockDim.x) v += x[blockIdx.x * N + j];
        v = warp_sum(v);
        if (lane == 0) partial[warp] = v;
        __syncthreads();
        v = threadIdx.x < blockDim.x / 32 ? partial[lane] : 0.f;
        if (warp == 0) v = warp_sum(v);
        if (threadIdx.x == 0) y[blockIdx.x] = v * rsqrtf(4.0f) + expf(0.f) + fmaxf(-1.f, 0.f);
    """
    header = """
        __device__ __forceinline__ float warp_sum(float v) {
            #pragma unroll
            for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffff, v, offset);
            return __shfl_sync(0xffffffffu, v, 0);
        }
    """
    x = _RNG.normal(size=(3, 200)).astype(np.float32)
    (sums,) = call(source, {"x": x}, [((3,), mx.float32)], (192, 1, 1), (64, 1, 1), header, [("N", 200)])
    np.testing.assert_allclose(sums, x.sum(1) / 2 + 1, rtol=1e-5)


def test_shuffles_within_a_width():
    source = """
        unsigned int lane = threadIdx.x % 32;
        float v = x[threadIdx.x];
        y[threadIdx.x] = __shfl_down_sync(0xffffffff, v, 3, 8);
        y1[threadIdx.x] = __shfl_up_sync(0xffffffff, v, 2, 16);
        y2[threadIdx.x] = __shfl_xor_sync(0xffffffff, v, 5);
        y3[threadIdx.x] = __shfl_sync(0xffffffff, v, lane / 2, 8);
        y4[threadIdx.x] = __popc(__ballot_sync(0xffffffff, v > 0)) + __any_sync(0xffffffff, v > 9) * 100;
    """
    x = _RNG.normal(size=64).astype(np.float32)
    results = call(source, {"x": x}, [((64,), mx.float32)] * 4 + [((64,), mx.int32)], (64, 1, 1), (64, 1, 1))
    i = np.arange(64)
    np.testing.assert_array_equal(results[0], x[np.where(i % 8 + 3 < 8, i + 3, i)])
    np.testing.assert_array_equal(results[1], x[np.where(i % 16 >= 2, i - 2, i)])
    np.testing.assert_array_equal(results[2], x[i ^ 5])
    np.testing.assert_array_equal(results[3], x[i // 8 * 8 + i % 32 // 2 % 8])
    np.testing.assert_array_equal(results[4], np.repeat((x > 0).reshape(2, 32).sum(1), 32))


def test_cooperative_groups_and_bits():
    source = """
        cg::thread_block block = cg::this_thread_block();
        auto warp = cg::tiled_partition<32>(block);
        float v = __uint_as_float(__float_as_uint(x[block.thread_rank()]) & 0xffff0000u);
        float total = cg::reduce(warp, v, cg::plus<float>());
        float most = cg::reduce(warp, v, cg::greater<float>{});
        block.sync();
        y[block.thread_rank()] = total + 10 * warp.meta_group_rank() + warp.thread_rank();
        y1[block.thread_rank()] = __float2half(most);
        float4 q = make_float4(1, 2, 3, 4), r = reinterpret_cast<const float4*>(x)[threadIdx.x / 4];
        y2[block.thread_rank()] = q.x * r.x + q.w * __ldg(&x[threadIdx.x]) + __fmaf_rn(q.y, r.y, r.z);
    """
    header = """
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
    """
    x = _RNG.normal(size=64).astype(np.float32)
    kinds = [((64,), mx.float32), ((64,), mx.float16), ((64,), mx.float32)]
    results = call(source, {"x": x}, kinds, (64, 1, 1), (64, 1, 1), header)
    v, i = (x.view(np.uint32) & 0xFFFF0000).view(np.float32).reshape(2, 32), np.arange(64)
    np.testing.assert_allclose(results[0], np.repeat(v.sum(1), 32) + i // 32 * 10 + i % 32, rtol=1e-5)
    np.testing.assert_array_equal(results[1], np.repeat(v.max(1).astype(np.float16), 32))
    r = x.reshape(16, 4)[i // 4]
    np.testing.assert_allclose(results[2], r[:, 0] + 4 * x + 2 * r[:, 1] + r[:, 2], rtol=1e-5)


def test_dynamic_shared_memory():
    source = """
        extern __shared__ float buffer[];
        buffer[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
        __syncthreads();
        y[blockIdx.x * blockDim.x + threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
    """
    x = np.arange(64, dtype=np.float32)
    (result,) = call(source, {"x": x}, [((64,), mx.float32)], (64, 1, 1), (32, 1, 1), shared_memory=128)
    np.testing.assert_array_equal(result, x.reshape(2, 32)[:, ::-1].ravel())


def test_derivatives():
    source = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < x_shape[0]) y[i] = tanhf(x[i]) * x[i];"
    kernel = mx.fast.cuda_kernel(name="k", input_names=["x"], output_names=["y"], source=source)

    def function(x):
        options = {"grid": (5, 1, 1), "threadgroup": (4, 1, 1), "output_shapes": [x.shape], "output_dtypes": [x.dtype]}
        return kernel(inputs=[x], **options)[0].sum()

    x = mx.array(_RNG.normal(size=5).astype(np.float32))
    np.testing.assert_allclose(mx.grad(function)(x), mx.grad(lambda x: (mx.tanh(x) * x).sum())(x), rtol=1e-5)


def test_what_is_outside():
    with pytest.raises(RuntimeError, match="atomicCAS: compare-and-swap is not in the supported language"):
        call("atomicCAS(&y[0], 1, 2);", {}, [((1,), mx.int32)], (1, 1, 1), (1, 1, 1))
