"""Whole kernels of models, in the way that programs write them: recurrences, products, optimizers."""

import numpy as np

from .case import BF16, RNG, normal, program

__all__ = ["PROGRAMS"]

_WKV = """
    constexpr uint N = HEAD;
    const uint t0 = threadgroup_position_in_grid.x, i = thread_position_in_threadgroup.x;
    const uint batch = t0 / H, head = t0 % H;
    threadgroup float rr[N], kk[N], ww[N];
    float state[N];
    #pragma unroll
    for (uint j = 0; j < N; ++j) state[j] = s0[(t0 * N + i) * N + j];
    for (uint t = 0; t < uint(T_LEN); ++t) {
        const uint at = ((batch * T_LEN + t) * H + head) * N + i;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        rr[i] = float(r[at]);
        kk[i] = float(k[at]);
        ww[i] = metal::exp(-metal::exp(float(w[at])));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const float vv = v[at];
        float acc = 0.0f;
        #pragma clang loop unroll(full)
        for (uint j = 0; j < N; j += 4) {
            thread float4& s = *(thread float4*)(state + j);
            const float4 k4 = float4(kk[j], kk[j + 1], kk[j + 2], kk[j + 3]);
            const float4 w4 = float4(ww[j], ww[j + 1], ww[j + 2], ww[j + 3]);
            const float4 r4 = float4(rr[j], rr[j + 1], rr[j + 2], rr[j + 3]);
            const float4 kv = k4 * vv;
            acc += dot(r4, fma(float4(u[head]), kv, s));
            s = fma(s, w4, kv);
        }
        y[at] = T(acc);
    }
    #pragma unroll
    for (uint j = 0; j < N; ++j) y1[(t0 * N + i) * N + j] = state[j];
"""

_MAMBA = """
    auto d = thread_position_in_grid.x;
    auto b = thread_position_in_grid.y;
    if (d >= D) return;
    float h[S] = {0.0f};
    float a[S];
    for (int n = 0; n < S; n++) a[n] = -exp(a_log[d * S + n]);
    const device auto* xb = x + b * L * D;
    for (int t = 0; t < L; ++t) {
        const float raw = dt[(b * L + t) * D + d];
        const float delta = raw > 20.0f ? raw : log(1.0f + exp(raw));
        float out = 0;
        [[unroll]] for (int n = 0; n < S; n++) {
            h[n] = fast::exp(delta * a[n]) * h[n] + delta * bs[(b * L + t) * S + n] * static_cast<float>(xb[t * D + d]);
            out += h[n] * cs[(b * L + t) * S + n];
        }
        float z = 1.0f / (1.0f + metal::precise::exp(-out));
        y[(b * L + t) * D + d] = static_cast<T>(out * z);
    }
"""

_TILES = """
    constexpr int TILE = 8;
    threadgroup T As[TILE][TILE + 1];
    threadgroup T Bs[TILE][TILE + 1];
    const int M = a_shape[0], K = a_shape[1], N = b_shape[1];
    const uint2 local = thread_position_in_threadgroup.xy, global = thread_position_in_grid.xy;
    float acc = 0;
    const int tiles = (K + TILE - 1) / TILE;
    for (int t = 0; t < tiles; ++t) {
        int ak = t * TILE + local.x, bk = t * TILE + local.y;
        As[local.y][local.x] = (global.y < uint(M) && ak < K) ? a[global.y * K + ak] : T(0);
        Bs[local.y][local.x] = (bk < K && global.x < uint(N)) ? b[bk * N + global.x] : T(0);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int k = 0; k < TILE; ++k) acc = metal::fma(float(As[local.y][k]), float(Bs[k][local.x]), acc);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (global.y < uint(M) && global.x < uint(N)) y[global.y * N + global.x] = T(acc);
"""

_FOUR_BITS_HEADER = """
    template <typename T, int group_size>
    inline float qdot(const device uint8_t* w, const thread float* x, float scale, float bias, float sum) {
        const device uint16_t* ws = (const device uint16_t*)w;
        float accum = 0;
        for (int i = 0; i < 4; i++) {
            accum += x[4 * i] * (ws[i] & 0x000f) + x[4 * i + 1] * (ws[i] & 0x00f0) +
                x[4 * i + 2] * (ws[i] & 0x0f00) + x[4 * i + 3] * (ws[i] & 0xf000);
        }
        return scale * accum + sum * bias;
    }
"""

_FOUR_BITS = """
    const int K = x_shape[0], rows = w_shape[0];
    const uint lane = thread_index_in_simdgroup;
    const int row = int(threadgroup_position_in_grid.y);
    const device uint8_t* wl = (const device uint8_t*)w + row * (K / 2) + lane * 8;
    const device T* sl = scales + row * (K / GROUP);
    const device T* bl = biases + row * (K / GROUP);
    float result = 0;
    for (int k = 0; k < K; k += 16 * 32) {
        float xs[16];
        float sum = 0;
        const int at = k + lane * 16;
        for (int i = 0; i < 16; i += 4) {
            const half4 v = *(const device half4*)(x + at + i);
            sum += float(v.x) + v.y + v.z + v.w;
            xs[i] = v[0];
            xs[i + 1] = v[1] / 16.0f;
            xs[i + 2] = v[2] / 256.0f;
            xs[i + 3] = v[3] / 4096.0f;
        }
        result += qdot<T, GROUP>(wl, xs, float(sl[at / GROUP]), float(bl[at / GROUP]), sum);
        wl += 16 * 16;
    }
    result = simd_sum(result);
    if (lane == 0) y[row] = static_cast<T>(result);
"""

_ROPE = """
    uint3 pos = thread_position_in_grid;
    const int half_dim = D / 2;
    if (pos.x >= uint(half_dim)) return;
    float inv = metal::exp2(-float(pos.x) * 2.0f / D * metal::log2(base));
    float theta = (float(offset) + pos.y) * inv;
    float ct = metal::fast::cos(theta), st = metal::fast::sin(theta);
    size_t in1 = pos.x + size_t(D) * (pos.y + size_t(L) * pos.z), in2;
    if constexpr (TRADITIONAL) { in1 = 2 * pos.x + size_t(D) * (pos.y + size_t(L) * pos.z); in2 = in1 + 1; }
    else { in2 = in1 + half_dim; }
    float x1 = static_cast<float>(x[in1]), x2 = static_cast<float>(x[in2]);
    y[in1] = static_cast<T>(x1 * ct - x2 * st);
    y[in2] = static_cast<T>(x1 * st + x2 * ct);
"""

_ADAM = """
    const uint at = thread_position_in_grid.x * 4;
    const device float4* g4 = reinterpret_cast<const device float4*>(g + at);
    float4 grad = *g4;
    float4 mm = b1 * *(const device float4*)(m + at) + (1 - b1) * grad;
    float4 vv = b2 * *(const device float4*)(v + at) + (1 - b2) * grad * grad;
    const float c1 = 1.0f - metal::pow(b1, float(step)), c2 = 1 - pow(b2, float(step));
    float4 up = (mm / c1) / (sqrt(vv / c2) + 1e-8);
    float4 pp = float4(p[at], p[at + 1], p[at + 2], p[at + 3]);
    pp -= lr * (up + 0.01f * pp);
    *(device float4*)(y + at) = pp;
    reinterpret_cast<device float4*>(y1)[thread_position_in_grid.x] = mm;
    ((device float4*)y2)[thread_position_in_grid.x] = vv;
"""

_LAYER_NORM_HEADER = """
    template <typename T, int N> struct Row {
        const device T* data;
        METAL_FUNC Row(const device T* p, uint row) : data(p + row * N) {}
        METAL_FUNC float4 at(uint i) const { return float4(((const device vec<T, 4>*)data)[i]); }
    };
    METAL_FUNC float sum4(float4 v) { return v.x + v.y + v.z + v.w; }
    METAL_FUNC float block_sum(float v, threadgroup float* shared, uint lane, uint warp, uint warps) {
        v = simd_sum(v);
        if (lane == 0) shared[warp] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        v = lane < warps ? shared[lane] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        return simd_sum(v);
    }
"""

_LAYER_NORM = """
    using U = float;
    threadgroup U shared[32];
    const uint row = threadgroup_position_in_grid.x, tid = thread_position_in_threadgroup.x;
    const uint lane = thread_index_in_simdgroup, warp = simdgroup_index_in_threadgroup;
    const uint warps = simdgroups_per_threadgroup, size = threads_per_threadgroup.x;
    Row<T, N> in(x, row);
    U total = 0;
    for (uint i = tid; i < N / 4; i += size) total += sum4(in.at(i));
    const U mean = block_sum(total, shared, lane, warp, warps) / N;
    U var = 0;
    for (uint i = tid; i < N / 4; i += size) { float4 d = in.at(i) - mean; var += dot(d, d); }
    const U inv = precise::rsqrt(block_sum(var, shared, lane, warp, warps) / U(N) + eps);
    device vec<T, 4>* out = (device vec<T, 4>*)(y + row * N);
    for (uint i = tid; i < N / 4; i += size) {
        float4 v = (in.at(i) - mean) * inv;
        v = v * float4(((const device vec<T, 4>*)w)[i]) + float4(((const device vec<T, 4>*)b)[i]);
        out[i] = vec<T, 4>(v);
    }
"""

_GRU = """
    const uint j = thread_position_in_threadgroup.x, b = threadgroup_position_in_grid.x;
    threadgroup float h[HID];
    h[j] = h0[b * HID + j];
    auto sigmoid = [](float z) -> float { return 1.0f / (1.0f + exp(-z)); };
    auto row = [&](uint gate) {
        float acc = bias[gate * HID + j];
        for (uint k = 0; k < HID; k++) acc += wh[(gate * HID + j) * HID + k] * h[k];
        return acc;
    };
    for (int t = 0; t < xs_shape[1]; t++) {
        const device float* xt = &xs[(b * xs_shape[1] + t) * 3 * HID];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float r = sigmoid(xt[j] + row(0)), z = sigmoid(xt[HID + j] + row(1));
        float n = tanh(xt[2 * HID + j] + r * row(2));
        float next = (1 - z) * n + z * h[j];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        h[j] = next;
        y[(b * xs_shape[1] + t) * HID + j] = next;
    }
"""

PROGRAMS = {
    "wkv": program(
        _WKV,
        {
            **{name: normal(2, 5, 3, 8, dtype=np.float16) for name in "rkvw"}, "u": normal(3),
            "s0": normal(2, 3, 8, 8),
        },
        (((2, 5, 3, 8), "float16"), ((2, 3, 8, 8), "float32")), (48, 1, 1), (8, 1, 1), tol=2e-3,
        template=(("T", "float16"), ("HEAD", 8), ("H", 3), ("T_LEN", 5)),
    ),
    "selective scan": program(
        _MAMBA,
        {
            "x": normal(2, 6, 20, dtype=BF16), "dt": normal(2, 6, 20), "a_log": normal(20, 4) / 2,
            "bs": normal(2, 6, 4), "cs": normal(2, 6, 4),
        },
        (((2, 6, 20), "bfloat16"),), (32, 2, 1), (32, 1, 1), tol=8e-3,
        template=(("T", "bfloat16"), ("D", 20), ("S", 4), ("L", 6)),
    ),
    "tiles": program(
        _TILES, {"a": normal(13, 19, dtype=np.float16), "b": normal(19, 11, dtype=np.float16)},
        (((13, 11), "float16"),), (16, 16, 1), (8, 8, 1), template=(("T", "float16"),), tol=2e-3,
    ),
    "product of four bits": program(
        _FOUR_BITS,
        {
            "w": RNG.integers(0, 2**32, (6, 128)).astype(np.uint32), "x": normal(1024, dtype=np.float16),
            "scales": normal(6, 16, dtype=np.float16), "biases": normal(6, 16, dtype=np.float16),
        },
        (((6,), "float16"),), (32, 6, 1), (32, 1, 1), header=_FOUR_BITS_HEADER, tol=4e-3,
        template=(("T", "float16"), ("GROUP", 64)),
    ),
    "rope": program(
        _ROPE, {"x": normal(3, 5, 8, dtype=BF16), "offset": 7, "base": 10000.0}, (((3, 5, 8), "bfloat16"),), (4, 5, 3),
        (4, 5, 1), template=(("T", "bfloat16"), ("D", 8), ("L", 5), ("TRADITIONAL", False)), tol=8e-3,
    ),
    "rope of pairs": program(
        _ROPE, {"x": normal(3, 5, 8), "offset": 7, "base": 10000.0}, (((3, 5, 8), "float32"),), (4, 5, 3), (4, 5, 1),
        template=(("T", "float32"), ("D", 8), ("L", 5), ("TRADITIONAL", True)), tol=2e-6,
    ),
    "adam": program(
        _ADAM,
        {
            **{name: normal(64) for name in "pgm"}, "v": normal(64) ** 2, "lr": 0.01, "b1": 0.9, "b2": 0.999,
            "step": 3,
        },
        (((64,), "float32"),) * 3, (16, 1, 1), (16, 1, 1), tol=5e-6,
    ),
    "layer norm": program(
        _LAYER_NORM, {"x": normal(5, 272, dtype=np.float16), "w": normal(272, dtype=np.float16),
                      "b": normal(272, dtype=np.float16), "eps": 1e-5},
        (((5, 272), "float16"),), (320, 1, 1), (64, 1, 1), header=_LAYER_NORM_HEADER, tol=2e-3,
        template=(("T", "float16"), ("N", 272)),
    ),
    "gru": program(
        _GRU, {"xs": normal(2, 4, 36), "wh": normal(36, 12) / 3, "bias": normal(36), "h0": normal(2, 12)},
        (((2, 4, 12), "float32"),), (24, 1, 1), (12, 1, 1), template=(("HID", 12),), tol=5e-6,
    ),
}  # fmt: skip
