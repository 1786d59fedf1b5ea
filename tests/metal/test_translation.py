"""Kernels are translated to slices, rolled loops and pieces. Their derivatives, and their errors."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import mxcompat as mx
from mxcompat._graph import policy
from mxcompat._metal import KernelError, parse_kernel

I = "uint i = thread_position_in_grid.x; "  # noqa: E741


def call(source, inputs, shapes, grid, group=(32, 1, 1), dtypes=None, header="", **options):
    inputs = [mx.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
    names = ["x", "y", "z", "w"][: len(inputs)]
    outputs = ["out", "out2"][: len(shapes)]
    kernel = mx.fast.metal_kernel(name="k", input_names=names, output_names=outputs, source=source, header=header)
    grid = grid if isinstance(grid, tuple) else (grid, 1, 1)
    return kernel(
        inputs=inputs, output_shapes=shapes, output_dtypes=dtypes or [mx.float32] * len(shapes), grid=grid,
        threadgroup=group, **options,
    )  # fmt: skip


def primitives(source, shape, grid, group=(32, 1, 1), template=()):
    """Return the names of the primitives, on all levels, in JAX's program for a kernel of one input and output."""
    return [name for name, _ in equations(source, shape, grid, group, template)]


def equations(source, shape, grid, group=(32, 1, 1), template=()):
    """Return the names and parameters of the primitives in JAX's program for a kernel of one input and output."""
    from mxcompat._metal import Input, Output, Signature, TemplateValue

    strides = tuple(int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    values = tuple(TemplateValue(name, "int", value) for name, value in template)
    signature = Signature("k", (Input("x", "float32", shape, strides),), (Output("out", "float32", shape),), values)
    kernel = parse_kernel(source, "", signature)
    with jax.enable_x64(True):
        jaxpr = jax.make_jaxpr(lambda x: tuple(kernel.run(jax.numpy, [x], grid, group)))(np.zeros(shape, "f"))
    pairs = []

    def walk(jaxpr):
        from jax.extend.core import jaxprs_in_params

        for equation in jaxpr.eqns:
            pairs.append((equation.primitive.name, equation.params))
            for inner in jaxprs_in_params(equation.params):
                walk(inner)

    walk(jaxpr.jaxpr)
    return pairs


def test_what_follows_the_threads_is_sliced():
    for source, grid in (
        (I + "out[i] = x[i] * 2;", (64, 1, 1)),
        (I + "if (i >= 60) return; out[i + 2] = x[59 - i];", (64, 1, 1)),
        (I + "out[i % 8 * 8 + i / 8] = x[i];", (64, 1, 1)),
        ("uint2 g = thread_position_in_grid.xy; out[g.y * 8 + g.x] = x[g.x * 8 + g.y];", (8, 8, 1)),
        (I + "float s = 0; for (uint k = 0; k < 8; k++) { s += x[i * 8 + k]; out[i * 8 + k] = s; }", (8, 1, 1)),
    ):
        names = primitives(source, (64,), grid)
        assert "gather" not in names
        assert "scatter" not in names
    assert "gather" in primitives(I + "out[i] = x[uint(x[i])];", (64,), (64, 1, 1))


def test_a_divided_counter_is_sliced():
    body = "for (uint j = i; j < 4096; j += 256) out[j / 8 * 8 + (7 - j % 8)] = x[j / 8 * 8 + j % 8];"
    names = primitives(I + body, (4096,), (256, 1, 1))
    assert "scan" in names or "while" in names
    assert "gather" not in names
    assert "scatter" not in names


def test_rows_chosen_by_data_are_gathered_as_rows():
    source = I + "int row = int(x[i / 16]); out[i] = x[row * 16 + i % 16];"
    [gather] = [params for name, params in equations(source, (64,), (64, 1, 1)) if name == "gather"]
    assert gather["slice_sizes"] == (1, 16)
    source = I + "int row = int(x[i / 16]); out[row * 16 + i % 16] = x[i];"
    [scatter] = [params for name, params in equations(source, (64,), (64, 1, 1)) if name == "scatter"]
    assert scatter["dimension_numbers"].update_window_dims == (1,)


def test_long_loops_stay_rolled():
    body = "float s = 0; for (int k = 0; k < N; k++) s += x[(i + k) % 64] * s; out[i] = s;"
    sizes = [len(primitives(I + body, (64,), (64, 1, 1), template=[("N", n)])) for n in (100, 1000)]
    assert sizes[0] == sizes[1]
    assert "scan" in primitives(I + body, (64,), (64, 1, 1), template=[("N", 100)])
    assert "while" in primitives(I + "float v = x[i]; while (v > 1) v /= 2; out[i] = v;", (64,), (64, 1, 1))


def unrolled(source, shape, grid):
    """Return the values of `unroll` of all loops with a known number of iterations, in JAX's program for a kernel."""
    return [params["unroll"] for name, params in equations(source, shape, grid) if name == "scan"]


def test_iterations_are_computed_in_one_pass_if_they_write_nothing():
    total = "float s = 0; for (uint k = 0; k < %d; k++) s += x[i * %d + k] * x[i]; out[i] = s;"
    assert unrolled(I + total % (8, 8), (64,), (8, 1, 1)) == [8]
    [unroll] = unrolled(I + total % (4096, 4096), (32768,), (8, 1, 1))
    assert 1 < unroll <= policy.MOST_UNROLLED
    assert 4096 % unroll == 0
    assert unrolled(I + "for (uint k = 0; k < 8; k++) out[i * 8 + k] = x[i * 8 + k];", (64,), (8, 1, 1)) == [1]


def test_a_grid_of_many_threads_is_computed_in_pieces(monkeypatch):
    monkeypatch.setattr(policy, "MOST_THREADS", 256)
    monkeypatch.setattr(policy, "MOST_HOST_THREADS", 256)
    source = "threadgroup float s[32]; uint l = thread_position_in_threadgroup.x; " + I
    source += (
        "s[l] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = s[threads_per_threadgroup.x - 1 - l];"
    )
    x = np.arange(1000, dtype="f")
    whole, rest = x[:992].reshape(-1, 32)[:, ::-1].ravel(), x[992:][::-1]
    np.testing.assert_array_equal(call(source, [x], [(1000,)], 1000)[0], np.concatenate([whole, rest]))
    with mx.ext.debug.host_disabled():
        np.testing.assert_array_equal(call(source, [x], [(1000,)], 1000)[0], np.concatenate([whole, rest]))
        np.testing.assert_array_equal(call(I + "out[i] = x[i];", [x], [(1000,)], 1000)[0], x)


def test_a_large_grid_takes_little_memory():
    source = I + "if (i == 4) out[0] = x[1]; if (i == 268435455u) out[1] = x[2];"
    (result,) = call(source, [np.arange(3, dtype="f")], [(2,)], 1 << 28)
    np.testing.assert_array_equal(result, [1, 2])


def softmax(x):
    source = """
        threadgroup float part[32];
        uint lid = thread_position_in_threadgroup.x, row = threadgroup_position_in_grid.x, n = x_shape[1];
        float m = -INFINITY;
        for (uint k = lid; k < n; k += 32) m = max(m, x[row * n + k]);
        part[lid] = m;
        for (uint h = 16; h > 0; h /= 2) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (lid < h) part[lid] = max(part[lid], part[lid + h]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = part[0];
        float total = 0;
        for (uint k = lid; k < n; k += 32) total += exp(x[row * n + k] - m);
        total = simd_sum(total);
        for (uint k = lid; k < n; k += 32) out[row * n + k] = exp(x[row * n + k] - m) / total;
    """
    return call(source, [x], [x.shape], 32 * x.shape[0])[0]


@pytest.mark.parametrize("size", [64, 50])
def test_derivatives_through_groups(size):
    x, t = mx.random.normal((3, size)), mx.random.normal((3, size))
    ours, theirs = (lambda f: lambda x: (f(x) * t).sum()), lambda x: mx.softmax(x, axis=-1)
    np.testing.assert_allclose(softmax(x), theirs(x), 1e-5)
    np.testing.assert_allclose(mx.grad(ours(softmax))(x), mx.grad(ours(theirs))(x), 1e-4, 1e-6)
    np.testing.assert_allclose(mx.jvp(softmax, [x], [t])[1][0], mx.jvp(theirs, [x], [t])[1][0], 1e-4, 1e-6)
    several = mx.stack([x, t])
    np.testing.assert_allclose(mx.vmap(softmax)(several), mx.softmax(several, axis=-1), 1e-5)


def test_derivatives_do_not_come_through_branches_not_taken():
    source = (
        I + "float v = x[i]; if (v <= 0) { out[i] = 0; return; } out[i] = sqrt(v) + log(v) + (v > 1 ? 1 / (v - 1) : v);"
    )
    gradient = mx.grad(lambda x: call(source, [x], [x.shape], x.size)[0].sum())(mx.array([-1.0, 0.0, 1.0, 2.0]))
    np.testing.assert_allclose(gradient, [0, 0, 0.5 + 1 + 1, 0.5 / 2**0.5 + 0.5 - 1], 1e-6)


def test_atomics_have_derivatives():
    source = I + "atomic_fetch_add_explicit((device atomic_float*)&out[i % 2], x[i] * x[i], memory_order_relaxed);"
    x = mx.arange(6.0)
    weights = mx.array([1.0, 3.0])
    gradient = mx.grad(lambda x: (call(source, [x], [(2,)], 6, init_value=0)[0] * weights).sum())(x)
    np.testing.assert_allclose(gradient, 2 * np.arange(6) * np.array([1, 3] * 3), 1e-6)


def test_a_loop_of_unknown_length_has_no_derivative_in_reverse():
    source = I + "\nfloat v = x[i];\nwhile (v > 1) v *= 0.5f;\nout[i] = v;"

    def function(x):
        return call(source, [x], [x.shape], x.size)[0]

    x = mx.array([3.0, 0.5])
    np.testing.assert_array_equal(mx.jvp(function, [x], [mx.ones(2)])[1][0], [0.25, 1])
    with pytest.raises(ValueError, match=r"\[metal_kernel\] k: source line 3: .*mx.custom_function"):
        mx.eval(mx.grad(lambda x: function(x).sum())(x))


@pytest.mark.parametrize(
    ("source", "line", "column", "reason"),
    [
        ("out[0] = x[0]", 1, 13, "expected ';', but found the end of the text"),
        ("int a = 1;\n  out[0] = a +* ;", 2, 17, "expected an expression, but found ';'"),
        ("float a = foo(3);", 1, 11, "use of undeclared function 'foo'"),
        ("out[0] = b;", 1, 10, "use of undeclared name 'b'"),
        ("unknown_t a;", 1, 11, "expected ';', but found 'a'"),
        ("if (x[0] > 0) {\n out[0] = 1;", 1, 15, "this { has no }"),
        ("#if D\nout[0] = 1;", 1, 2, "this #if has no #endif"),
        ("texture2d<float> t;", 1, 1, "texture2d is not in the supported language"),
        ("out[0] = 1;\natomic_compare_exchange_weak_explicit(p, &e, v, r, r);", 2, 1, "compare-and-swap is not"),
        ("int* p = new int;", 1, 10, "new is not in the supported language"),
        ("out[0] = 1;\ndelete p;", 2, 1, "delete is not in the supported language"),
        ("out[0] = alignof(float);", 1, 10, "alignof is not in the supported language"),
        ("if (true) else out[0] = 1;", 1, 11, "expected an expression, but found 'else'"),
        ("out[0] = 1; /* no end", 1, 13, "this comment has no end"),
        ("goto end;", 1, 1, "goto is not in the supported language"),
        ("struct B { uint a : 2; };", 1, 19, "bit-fields are not in the supported language"),
        ("template <typename... T> int f(T... a) { return 0; }", 1, 19, "variadic templates are not in the supported"),
    ],
)
def test_errors_say_where(source, line, column, reason):
    with pytest.raises(KernelError) as error:
        mx.eval(call(source, [np.ones(2, "f")], [(2,)], 2))
    failure = error.value
    assert isinstance(failure, RuntimeError)
    assert (failure.name, failure.line) == ("k", line)
    assert reason in failure.reason
    assert f"source line {line}, column {failure.column}" in str(failure)
    assert source.split("\n")[line - 1] in str(failure)
    assert failure.column == column


def test_errors_in_a_header():
    with pytest.raises(KernelError, match=r"\[metal_kernel\] k: header line 2, column 17: expected '\)', but found"):
        call("out[0] = 1;", [np.ones(2, "f")], [(2,)], 2, header="\nfloat f(float a { return a; }")


def test_indices_out_of_bounds_are_zero_and_dropped_or_found():
    x = np.arange(1.0, 9.0, dtype="f")
    source = I + "out[i + 4] = x[i + 2] + x[int(i) - 5];"
    np.testing.assert_array_equal(call(source, [x], [(8,)], 8)[0], [0, 0, 0, 0, 3, 4, 5, 6])
    with (
        mx.ext.debug.bounds_check(),
        pytest.raises(IndexError, match=r"k: source line 1: thread \(6, 0, 0\) reads x\[8\], which has 8 elements"),
    ):
        call(source, [x], [(8,)], 8)
    with mx.ext.debug.bounds_check():
        call(I + "if (i < 8) out[i] = i > 0 ? x[i - 1] : 0;", [x], [(8,)], 20)


ATOMIC = "(device atomic_float*)&out[i + 5]"


@pytest.mark.parametrize(
    ("source", "message", "result"),
    [
        (
            f"atomic_fetch_add_explicit({ATOMIC}, 1.0f, memory_order_relaxed);",
            r"\(3, 0, 0\) writes out\[8\]",
            5 * [0] + 3 * [1],
        ),
        ("float s[4] = {1, 2, 3, 4}; out[i] = s[i + 1];", r"\(3, 0, 0\) reads element 4 of a float\[4\]", [2, 3, 4]),
        ("float s[4] = {1, 2, 3, 4}; s[i] = 9; out[i] = s[0];", r"\(4, 0, 0\) writes element 4", [9] + 7 * [1]),
        ("float s[4] = {1, 2, 3, 4}; s[6] = 1; out[i] = s[i % 4] + s[5];", "writes element 6", [1, 2, 3, 4] * 2),
        ("float4 v = 1; if (i > 2) v[i] = 3; out[i] = v.w;", r"writes element 4 of a float4", [1, 1, 1, 3, 1, 1, 1, 1]),
    ],
)
def test_indices_out_of_bounds_of_atomics_and_local_arrays(source, message, result):
    with mx.ext.debug.bounds_check(), pytest.raises(IndexError, match=message):
        call(I + source, [], [(8,)], 8)
    np.testing.assert_array_equal(call(I + source, [], [(8,)], 8)[0], result + [0] * (8 - len(result)))


def test_long_loops_are_left_to_xla():
    source = I + "float s = 0; for (int k = 0; k < 1000; k++) s += x[i]; out[i] = s;"
    before = mx.ext.debug.compiles()
    np.testing.assert_allclose(call(source, [np.ones(3, "f")], [(3,)], 3)[0], [1000] * 3)
    assert mx.ext.debug.compiles() == before + 1


def test_metal_is_said_to_be_there_if_asked_to():
    assert not mx.metal.is_available()
    with mx.ext.metal.enable():
        assert mx.metal.is_available()
        assert not mx.cuda.is_available()
        with mx.ext.metal.enable(False):
            assert not mx.metal.is_available()
        assert mx.metal.is_available()
    assert not mx.metal.is_available()


A_PROGRAM_FOR_METAL = """
import mxcompat.core as mx
assert mx.metal.is_available() and mx.is_available(mx.gpu)
assert mx.default_device() == mx.Device(mx.gpu, 0)
assert mx.device_info()["max_recommended_working_set_size"] > 0
kernel = mx.fast.metal_kernel(
    name="k", input_names=["x"], output_names=["y"], source="y[thread_position_in_grid.x] = x[0] + 1;"
)
with mx.stream(mx.gpu):
    x = mx.matmul(mx.ones((64, 64)), mx.ones((64, 64)))
    options = dict(grid=(3, 1, 1), threadgroup=(3, 1, 1), output_shapes=[(3,)], output_dtypes=[mx.float32])
    [y] = kernel(inputs=[mx.ones(3)], stream=mx.gpu, **options)
    print(x.sum().item(), y.tolist())
"""


def test_a_program_for_metal_may_name_the_gpu():
    """Assert that a program may name the GPU. It runs in a separate process, as other tests may have set a default
    device."""
    environment = {**os.environ, "MXCOMPAT_METAL": "1"}
    process = subprocess.run(
        [sys.executable, "-c", A_PROGRAM_FOR_METAL], env=environment, capture_output=True, text=True, timeout=100
    )
    assert process.stdout == "262144.0 [2.0, 2.0, 2.0]\n", process.stderr


def test_the_cpu_is_the_gpu_only_where_metal_is_reported():
    if jax.default_backend() != "cpu":
        pytest.skip("there is an accelerator")
    with mx.ext.metal.enable():
        assert mx.new_stream(mx.gpu).device == mx.Device(mx.gpu, 0)
        with pytest.raises(IndexError):
            mx.new_stream(mx.Device(mx.gpu, 1))
    with pytest.raises(ValueError, match="without gpu backend"):
        mx.new_stream(mx.gpu)


def test_equal_calls_are_one_structure():
    x = np.arange(4, dtype="f")
    for _ in range(3):
        with mx.ext.debug.explain() as messages:
            mx.eval(call(I + "out[i] = x[i] + 41;", [x], [(4,)], 4))
    assert not [m for m in messages if "compile" in m]


SPACES = """
    constant float TABLE[2] = {1, 2};
    inline int space(const device float* p) { return 1; }
    inline int space(const threadgroup float* p) { return 2; }
    inline int space(const thread float* p) { return 3; }
    inline int place(threadgroup float& p) { return 4; }
    inline int place(thread float& p) { return 5; }
    inline int place(device float& p) { return 6; }
    inline int written(device float* p) { return 1; }
    inline int written(const device float* p) { return 2; }
    template <typename T> inline int held(threadgroup T* p) { return 7; }
    template <typename T> inline int held(thread T* p) { return 8; }
"""


def test_a_source_may_ask_for_the_version_of_metal():
    source = "#if defined(__METAL__) && __METAL_VERSION__ >= 310\nout[0] = CHAR_BIT;\n#endif"
    np.testing.assert_array_equal(call(source, [], [(1,)], 1)[0], [8])


@pytest.mark.parametrize("in_xla", [False, True])
def test_overloads_by_address_space(in_xla):
    """Compare overloads by address space. They are no case of `test_constructs`, because g++ has no address spaces."""
    source = """
        threadgroup float shared[32]; float own[2] = {1, 2}; shared[i] = 3;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        threadgroup float* moved = shared + 1;
        const device float* either = i < 3 ? x : x + 1;
        float values[10] = {
            (float)space(x), (float)space(shared), (float)space(own), (float)space(x + 1), (float)space(&own[1]),
            (float)(space(moved) + 10 * space(&shared[2])), (float)(place(shared[1]) + 10 * place(own[0])),
            (float)place(out[0]), (float)(held(shared) + 10 * held(own)),
            (float)(written(out) + 10 * written(x) + 100 * space(either)),
        };
        for (int k = 0; k < 10; k++) if (i == 0) out[k] = values[k];
    """

    def run(x):
        return call(I + source, [x], [(10,)], 32, header=SPACES)[0]

    x = mx.ones(40)
    if in_xla:
        with mx.ext.debug.host_disabled():
            got = run(x).tolist()
    else:
        got = run(x).tolist()
    assert got == [1, 2, 3, 1, 3, 22, 54, 6, 87, 121]
