"""Whole kernels over data, in the way that programs write them: searches, projections, sorts, images."""

import numpy as np

from .case import DATA, RNG, normal, program

__all__ = ["SEARCHES"]

_PROJECTION = """
    uint bin = thread_position_in_grid.x, view = thread_position_in_grid.y;
    if (bin >= (uint)BINS || view >= (uint)angles_shape[0]) return;
    const int W = image_shape[1], H = image_shape[0];
    float c, s = sincos(angles[view], c);
    float2 centre = {(W - 1) * 0.5f, (H - 1) * 0.5f};
    float2 dir = float2(-s, c), origin = centre + (bin - (BINS - 1) / 2.0f) * float2(c, s);
    float acc = 0.f;
    for (float t = -float(STEPS); t <= STEPS; t += 1.0f) {
        float2 p = origin + t * dir;
        if (any(p < 0.0f) || p.x > W - 1 || p.y > H - 1) continue;
        int2 q = int2(floor(p));
        float2 f = p - float2(q);
        int2 e = min(q + 1, int2(W - 1, H - 1));
        float top = mix(image[q.y * W + q.x], image[q.y * W + e.x], f.x);
        float low = mix(image[e.y * W + q.x], image[e.y * W + e.x], f.x);
        acc += mix(top, low, f.y);
    }
    y[view * BINS + bin] = acc;
"""

_NEAREST_HEADER = """
    struct Best {
        float d[8];
        int id[8];
        int n;
        void clear() { n = 0; for (int k = 0; k < 8; k++) { d[k] = INFINITY; id[k] = -1; } }
        void push(float dist, int index, int most) {
            if (n == most && dist >= d[most - 1]) return;
            int at = n < most ? n++ : most - 1;
            while (at > 0 && d[at - 1] > dist) {
                d[at] = d[at - 1];
                id[at] = id[at - 1];
                --at;
            }
            d[at] = dist;
            id[at] = index;
        }
    };
"""

_NEAREST = """
    uint i = thread_position_in_grid.x;
    if (i >= points_shape[0]) return;
    float3 p = float3(points[3 * i], points[3 * i + 1], points[3 * i + 2]);
    Best best;
    best.clear();
    for (uint j = 0; j < points_shape[0]; ++j) {
        if (j == i) continue;
        float3 q(points[3 * j], points[3 * j + 1], points[3 * j + 2]);
        float dist = distance_squared(p, q);
        if (dist > limit) continue;
        best.push(dist, int(j), K);
    }
    for (int k = 0; k < K; ++k) { y[i * K + k] = best.id[k]; y1[i * K + k] = best.d[k]; }
"""

_BITONIC = """
    threadgroup uint keys[64];
    threadgroup ushort order[64];
    uint lid = thread_position_in_threadgroup.x, row = threadgroup_position_in_grid.x;
    uint bits = as_type<uint>(x[row * 64 + lid]);
    keys[lid] = bits ^ ((bits >> 31) ? 0xFFFFFFFFu : 0x80000000u);
    order[lid] = (ushort)lid;
    threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    for (uint size = 2; size <= 64; size <<= 1) {
        for (uint stride = size >> 1; stride > 0; stride >>= 1) {
            uint other = lid ^ stride;
            if (other > lid) {
                bool up = (lid & size) == 0;
                uint a = keys[lid], b = keys[other];
                if ((a > b) == up) {
                    keys[lid] = b; keys[other] = a;
                    ushort t = order[lid]; order[lid] = order[other]; order[other] = t;
                }
            }
            threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        }
    }
    uint key = keys[lid];
    y[row * 64 + lid] = as_type<float>((key & 0x80000000u) ? key ^ 0x80000000u : ~key);
    y1[row * 64 + lid] = order[lid];
"""

_TOKEN_MASK = """
    uint batch = thread_position_in_grid.y, elem = thread_position_in_grid.x;
    if (!(elem < inp_shape[1] && batch < inp_shape[0])) return;
    uint word_idx = elem >> 5, bit_idx = elem & 31;
    uint bit = (as_type<uint>(mask[batch * mask_shape[1] + word_idx]) >> bit_idx) & 1u;
    out[batch * inp_shape[1] + elem] = bit ? inp[batch * inp_shape[1] + elem] : T(neg_inf);
"""

_PREFIX = """
    const uint lane = thread_index_in_simdgroup, warp = simdgroup_index_in_threadgroup;
    const uint tid = thread_position_in_threadgroup.x, n = x_shape[1], row = threadgroup_position_in_grid.x;
    threadgroup int sums[32];
    int carry = 0;
    for (uint base = 0; base < n; base += threads_per_threadgroup.x) {
        int v = base + tid < n ? x[row * n + base + tid] : 0;
        int inc = simd_prefix_inclusive_sum(v);
        if (lane == 31) sums[warp] = inc;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (warp == 0) {
            int s = lane < simdgroups_per_threadgroup ? sums[lane] : 0;
            sums[lane] = simd_prefix_exclusive_sum(s);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int offset = sums[warp] + carry;
        if (base + tid < n) y[row * n + base + tid] = inc + offset;
        threadgroup int total;
        if (tid == threads_per_threadgroup.x - 1) total = inc + offset;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        carry = total;
    }
"""

_HISTOGRAM = """
    threadgroup atomic_uint local[16];
    uint tid = thread_index_in_threadgroup, size = threads_per_threadgroup.x;
    for (uint b = tid; b < 16; b += size) atomic_store_explicit(&local[b], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint stride = threads_per_grid.x;
    for (uint i = thread_position_in_grid.x; i < x_shape[0]; i += stride) {
        float f = (x[i] - lo) / (hi - lo) * 16.0f;
        if (!isfinite(f)) continue;
        int bin = clamp(int(f), 0, 15);
        atomic_fetch_add_explicit(&local[bin], 1u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint b = tid; b < 16; b += size) {
        uint count = atomic_load_explicit(&local[b], memory_order_relaxed);
        if (count > 0) atomic_fetch_add_explicit(&y[b], count, memory_order_relaxed);
    }
"""

_RASTER_HEADER = """
    namespace raster {
    inline float edge(float2 a, float2 b, float2 p) { return (p.x - a.x) * (b.y - a.y) - (p.y - a.y) * (b.x - a.x); }
    inline float3 load3(const device float* p, uint i) { return float3(p[i * 3], p[i * 3 + 1], p[i * 3 + 2]); }
    }
    struct Hit { int face; float depth; float3 bary; };
    #define HIT_NONE Hit{-1, INFINITY, float3(0)}
"""

_RASTER = """
    uint2 px = thread_position_in_grid.xy;
    if (px.x >= W || px.y >= H) return;
    float2 p = (float2(px) + 0.5f) / float2(W, H) * 2.0f - 1.0f;
    float4x4 m = float4x4(
        float4(mat[0], mat[4], mat[8], mat[12]), float4(mat[1], mat[5], mat[9], mat[13]),
        float4(mat[2], mat[6], mat[10], mat[14]), float4(mat[3], mat[7], mat[11], mat[15]));
    Hit hit = HIT_NONE;
    for (int f = 0; f < faces_shape[0]; f++) {
        const int3 tri = int3(faces[3 * f], faces[3 * f + 1], faces[3 * f + 2]);
        float4 c[3];
        for (int k = 0; k < 3; k++) {
            c[k] = m * float4(raster::load3(verts, tri[k]), 1.0f);
            c[k].xyz /= c[k].w;
        }
        float area = raster::edge(c[0].xy, c[1].xy, c[2].xy);
        if (abs(area) < 1e-9f) continue;
        float3 w = float3(raster::edge(c[1].xy, c[2].xy, p), raster::edge(c[2].xy, c[0].xy, p),
                          raster::edge(c[0].xy, c[1].xy, p)) / area;
        if (!all(w >= 0)) continue;
        float z = dot(w, float3(c[0].z, c[1].z, c[2].z));
        if (z < hit.depth) { hit.face = f; hit.depth = z; hit.bary = w; }
    }
    uint at = px.y * W + px.x;
    y[at] = hit.face;
    y1[at] = hit.face < 0 ? 0.0f : hit.depth;
    float3 shown = hit.face < 0 ? float3(0.0f) : normalize(cross(hit.bary, float3(0.1, 0.2, 1)));
    for (int k = 0; k < 3; ++k) y2[at * 3 + k] = shown[k];
"""

_CUBES_HEADER = """
    constant int edge_count[16] = {0, 2, 2, 2, 2, 4, 2, 2, 2, 2, 4, 2, 2, 2, 2, 0};
    constant char edges[16][4] = {
        {-1, -1, -1, -1}, {3, 0, -1, -1}, {0, 1, -1, -1}, {3, 1, -1, -1}, {1, 2, -1, -1}, {3, 0, 1, 2},
        {0, 2, -1, -1}, {3, 2, -1, -1}, {2, 3, -1, -1}, {2, 0, -1, -1}, {0, 1, 2, 3}, {2, 1, -1, -1},
        {1, 3, -1, -1}, {1, 0, -1, -1}, {0, 3, -1, -1}, {-1, -1, -1, -1}};
    constant float2 corners[] = {float2(0, 0), float2(1, 0), float2(1, 1), float2(0, 1)};
    static constant constexpr int ends[4][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 0}};
"""

_CUBES = """
    uint2 c = thread_position_in_grid.xy;
    const uint W = field_shape[1];
    if (c.x + 1 >= W || c.y + 1 >= (uint)field_shape[0]) return;
    float v[4];
    int index = 0;
    for (int k = 0; k < 4; k++) {
        uint2 q = c + uint2(corners[k]);
        v[k] = field[q.y * W + q.x];
        if (v[k] > level) index |= 1 << k;
    }
    int n = edge_count[index];
    if (n == 0) return;
    uint at = atomic_fetch_add_explicit(&y[0], 1u, memory_order_relaxed);
    atomic_fetch_add_explicit(&y[1 + index % 7], uint(n), memory_order_relaxed);
    for (int e = 0; e < n; ++e) {
        int2 pair = int2(ends[edges[index][e]][0], ends[edges[index][e]][1]);
        float t = (level - v[pair.x]) / (v[pair.y] - v[pair.x]);
        float2 p = mix(corners[pair.x], corners[pair.y], t) + float2(c);
        atomic_fetch_add_explicit(&y[8 + e], uint(p.x * 64 + 0.5f) + uint(p.y * 64.0 + 0.5), memory_order_relaxed);
    }
"""

_SPREAD = """
    uint i = thread_position_in_grid.x;
    complex64_t value = samples[i];
    float u = coords[2 * i] * G, v = coords[2 * i + 1] * G;
    int u0 = int(ceil(u - 2.0f)), v0 = int(ceil(v - 2.0f));
    for (int dy = 0; dy < 4; dy++) {
        float wy = kaiser(v0 + dy - v);
        int row = ((v0 + dy) % G + G) % G;
        for (int dx = 0; dx < 4; dx++) {
            float w = wy * kaiser(u0 + dx - u);
            if (w == 0) continue;
            int col = (u0 + dx + G) & (G - 1);
            int at = 2 * (row * G + col);
            atomic_fetch_add_explicit(&y[at], w * value.real, memory_order_relaxed);
            atomic_fetch_add_explicit(&y[at + 1], w * value.imag, memory_order_relaxed);
        }
    }
"""

_SPREAD_HEADER = """
    #define BETA 9.14f
    inline float kaiser(float x) {
        float r = 1.0f - x * x * 0.25f;
        return r <= 0.0f ? 0.0f : metal::exp(BETA * (metal::sqrt(r) - 1));
    }
"""

SEARCHES = {
    "projection": program(
        _PROJECTION, {"image": normal(9, 12), "angles": np.linspace(0, 3, 5, dtype=np.float32)},
        (((5, 14), "float32"),), (16, 8, 1), (8, 8, 1), tol=2e-5, template=(("BINS", 14), ("STEPS", 9)),
    ),
    "nearest neighbours": program(
        _NEAREST, {"points": normal(50, 3), "limit": 1.5}, (((50, 5), "int32"), ((50, 5), "float32")), (64, 1, 1),
        (32, 1, 1), header=_NEAREST_HEADER, template=(("K", 5),), tol=1e-6,
    ),
    "bitonic sort": program(
        _BITONIC, {"x": normal(3, 64)}, (((3, 64), "float32"), ((3, 64), "uint16")), (192, 1, 1), (64, 1, 1),
    ),
    "token mask": program(
        _TOKEN_MASK.replace("out[", "y["),
        {"inp": normal(3, 70, dtype=np.float16), "mask": DATA["i"][:9].reshape(3, 3), "neg_inf": np.float32(-np.inf)},
        (((3, 70), "float16"),), (70, 3, 1), (64, 1, 1), template=(("T", "float16"),),
    ),
    "prefix sums": program(
        _PREFIX, {"x": RNG.integers(-9, 9, (3, 150)).astype(np.int32)}, (((3, 150), "int32"),), (192, 1, 1), (64, 1, 1),
    ),
    "histogram": program(
        _HISTOGRAM, {"x": np.append(normal(300), [np.nan, np.inf]).astype(np.float32), "lo": -2.0, "hi": 2.0},
        (((16,), "uint32"),), (64, 1, 1), (32, 1, 1), options=(("atomic_outputs", True),), init_value=0,
    ),
    "rasterizer": program(
        _RASTER,
        {
            "verts": normal(9, 3), "faces": RNG.integers(0, 9, (6, 3)).astype(np.int32),
            "mat": (np.eye(4) * [1, 1, 1, 2] + normal(4, 4) / 10).astype(np.float32),
        },
        (((7, 9), "int32"), ((7, 9), "float32"), ((7, 9, 3), "float32")), (16, 8, 1), (8, 8, 1), tol=2e-5,
        header=_RASTER_HEADER, template=(("W", 9), ("H", 7)),
    ),
    "marching squares": program(
        _CUBES, {"field": normal(9, 11), "level": 0.1}, (((12,), "uint32"),), (12, 12, 1), (4, 4, 1),
        header=_CUBES_HEADER, options=(("atomic_outputs", True),), init_value=0,
    ),
    "spreading": program(
        _SPREAD, {"samples": DATA["z"], "coords": RNG.uniform(0.1, 0.9, (70, 2)).astype(np.float32)},
        (((16, 16, 2), "float32"),), (70, 1, 1), (32, 1, 1), header=_SPREAD_HEADER, template=(("G", 16),),
        options=(("atomic_outputs", True),), init_value=0, tol=1e-5,
    ),
}  # fmt: skip
