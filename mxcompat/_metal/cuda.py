"""CUDA's language in terms of Metal's: macros for its names, and its functions. They are put before a kernel's header.

The front end is that of Metal. Dynamic shared memory is an array; `DYNAMIC` names its size in bytes.
"""

from __future__ import annotations

__all__ = ["CUDA_PRELUDE", "DYNAMIC"]

DYNAMIC = "dynamic_shared_memory_"
"""The name of the number of bytes of dynamic shared memory."""

_NAMES = {
    "threadIdx": "thread_position_in_threadgroup", "blockIdx": "threadgroup_position_in_grid",
    "blockDim": "threads_per_threadgroup", "gridDim": "threadgroups_per_grid", "warpSize": "32u",
    "nv_bfloat16": "bfloat16_t", "__half2": "half2", "__nv_bfloat162": "bfloat2", "nv_bfloat162": "bfloat2",
    "CUDART_INF_F": "INFINITY", "CUDART_NAN_F": "NAN", "CUDART_PI_F": "M_PI_F", "__align__(n)": "", "__restrict": "",
    "__ldg(p)": "(*(p))", "__ldcs(p)": "(*(p))", "__launch_bounds__(...)": "", "__grid_constant__": "",
    **{
        f"atomic{name}(p, v)": f"atomic_{op}_explicit(p, v, memory_order_relaxed)"
        for name, op in (
            ("Add", "fetch_add"), ("Sub", "fetch_sub"), ("Min", "fetch_min"), ("Max", "fetch_max"),
            ("And", "fetch_and"), ("Or", "fetch_or"), ("Xor", "fetch_xor"), ("Exch", "exchange"),
        )
    },
    **{f"__{name}(x)": f"as_type<{of}>(x)" for name, of in (
        ("float_as_uint", "uint"), ("float_as_int", "int"), ("uint_as_float", "float"), ("int_as_float", "float"),
        ("ushort_as_half", "half"), ("half_as_ushort", "ushort"), ("ushort_as_bfloat16", "bfloat16_t"),
        ("bfloat16_as_ushort", "ushort"),
    )},
    **{f"__{name}(x)": f"{of}(x)" for name, of in (
        ("half2float", "float"), ("float2half", "half"), ("float2half_rn", "half"), ("bfloat162float", "float"),
        ("float2bfloat16", "bfloat16_t"), ("float2bfloat16_rn", "bfloat16_t"), ("half22float2", "float2"),
        ("bfloat1622float2", "float2"), ("float22half2_rn", "half2"), ("int2float_rn", "float"),
        ("float2int_rz", "int"),
    )},
    **{f"__{name}(a, b)": f"((a) {op} (b))" for name, op in (
        ("fadd_rn", "+"), ("fsub_rn", "-"), ("fmul_rn", "*"), ("fdiv_rn", "/"), ("mul24", "*"), ("hadd", "+"),
        ("hsub", "-"), ("hmul", "*"), ("hdiv", "/"), ("hadd2", "+"), ("hsub2", "-"), ("hmul2", "*"), ("heq", "=="),
        ("hne", "!="), ("hlt", "<"), ("hle", "<="), ("hgt", ">"), ("hge", ">="),
    )},
    **{f"h{name}(x)": f"{name}(x)" for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos")},
    "__hfma": "fma", "__hfma2": "fma", "__hmax": "fmax", "__hmin": "fmin", "__habs": "fabs", "__hneg(a)": "(-(a))",
    "__low2half(v)": "((v).x)", "__high2half(v)": "((v).y)", "__low2float(v)": "float((v).x)",
    "__high2float(v)": "float((v).y)", "__halves2half2(a, b)": "half2(a, b)", "__half2half2(a)": "half2(a, a)",
    "__float2half2_rn(a)": "half2(half(a), half(a))", "__floats2half2_rn(a, b)": "half2(half(a), half(b))",
    "__float2uint_rn(x)": "uint(rint(x))", "__float2uint_rz(x)": "uint(x)", "__uint2float_rn(x)": "float(x)",
    "__frsqrt_rn": "rsqrt", "lroundf(x)": "long(round(x))", "__threadfence_block()": "",
    "__float2int_rn(x)": "int(rint(x))", "__float2int_rd(x)": "int(floor(x))", "__float2int_ru(x)": "int(ceil(x))",
    "make_int2": "int2", "make_int3": "int3", "make_int4": "int4", "make_uint2": "uint2", "make_uint3": "uint3",
    "make_uint4": "uint4", "make_half2": "half2", "__any_sync(m, p)": "simd_any(p)", "__all_sync(m, p)": "simd_all(p)",
    "__ballot_sync(m, p)": "uint(ulong(simd_ballot(p)))", "__activemask()": "uint(ulong(simd_ballot(true)))",
    **{f"__reduce_{name}_sync(m, v)": f"simd_{op}(v)" for name, op in (
        ("add", "sum"), ("min", "min"), ("max", "max"), ("and", "and"), ("or", "or"), ("xor", "xor"),
    )},
}  # fmt: skip
"""CUDA's names, and macros for those that take arguments."""

_FUNCTIONS = """
template <typename T> T __shfl_sync(uint mask, T v, int from, int width = 32) {
  int lane = thread_index_in_simdgroup;
  return simd_shuffle(v, ushort(lane / width * width + (from & (width - 1))));
}
template <typename T> T __shfl_down_sync(uint mask, T v, uint by, int width = 32) {
  int lane = thread_index_in_simdgroup;
  return simd_shuffle(v, ushort(lane % width + int(by) < width ? lane + int(by) : lane));
}
template <typename T> T __shfl_up_sync(uint mask, T v, uint by, int width = 32) {
  int lane = thread_index_in_simdgroup;
  return simd_shuffle(v, ushort(lane % width >= int(by) ? lane - int(by) : lane));
}
template <typename T> T __shfl_xor_sync(uint mask, T v, int by, int width = 32) {
  int lane = thread_index_in_simdgroup, other = lane ^ by;
  return simd_shuffle(v, ushort(other / width <= lane / width ? other : lane));
}

namespace cooperative_groups {
struct thread_block {
  uint thread_rank() const { return thread_index_in_threadgroup; }
  uint size() const { uint3 n = threads_per_threadgroup; return n.x * n.y * n.z; }
  uint num_threads() const { return size(); }
  uint3 thread_index() const { return thread_position_in_threadgroup; }
  uint3 group_index() const { return threadgroup_position_in_grid; }
  uint3 group_dim() const { return threads_per_threadgroup; }
  uint3 dim_threads() const { return threads_per_threadgroup; }
  void sync() const {}
};
struct grid_group {
  uint block_rank() const {
    uint3 g = threadgroup_position_in_grid, n = threadgroups_per_grid;
    return g.x + n.x * (g.y + n.y * g.z);
  }
  uint block_size() const { uint3 n = threads_per_threadgroup; return n.x * n.y * n.z; }
  uint thread_rank() const { return block_rank() * block_size() + thread_index_in_threadgroup; }
  uint num_blocks() const { uint3 n = threadgroups_per_grid; return n.x * n.y * n.z; }
  uint size() const { return num_blocks() * block_size(); }
  uint num_threads() const { return size(); }
  uint3 block_index() const { return threadgroup_position_in_grid; }
  uint3 dim_blocks() const { return threadgroups_per_grid; }
};
template <int N, typename P = thread_block> struct thread_block_tile {
  uint thread_rank() const { return thread_index_in_threadgroup % N; }
  uint size() const { return N; }
  uint num_threads() const { return N; }
  uint meta_group_rank() const { return thread_index_in_threadgroup / N; }
  uint meta_group_size() const { uint3 n = threads_per_threadgroup; return (n.x * n.y * n.z + N - 1) / N; }
  void sync() const {}
  template <typename T> T shfl(T v, int from) const { return __shfl_sync(0xffffffffu, v, from, N); }
  template <typename T> T shfl_down(T v, uint by) const { return __shfl_down_sync(0xffffffffu, v, by, N); }
  template <typename T> T shfl_up(T v, uint by) const { return __shfl_up_sync(0xffffffffu, v, by, N); }
  template <typename T> T shfl_xor(T v, int by) const { return __shfl_xor_sync(0xffffffffu, v, by, N); }
};
inline thread_block this_thread_block() { thread_block b; return b; }
inline grid_group this_grid() { grid_group g; return g; }
template <int N, typename P> thread_block_tile<N> tiled_partition(P parent) { thread_block_tile<N> t; return t; }
template <typename T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { T operator()(T a, T b) const { return a < b ? a : b; } };
template <typename T> struct greater { T operator()(T a, T b) const { return a > b ? a : b; } };
template <typename G, typename T, typename Op> T reduce(G group, T v, Op op) {
  for (int by = group.size() / 2; by > 0; by /= 2) v = op(v, group.shfl_xor(v, by));
  return v;
}
}
"""

CUDA_PRELUDE = "".join(f"#define {name} {meaning}\n" for name, meaning in _NAMES.items()) + _FUNCTIONS
"""The text before a CUDA kernel's header."""
