"""Limits of kernels: no output is copied at every step, no derivative is lost silently, and memory is bounded."""

import signal

import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import mxcompat.core as mx
from mxcompat._jax import jax, jnp
from mxcompat._metal import parse_kernel
from mxcompat._metal.space import NumpySpace

from .cases import case
from .kernels import by_numpy, signed


def call(source, x, size, **options):
    kernel = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source=source)
    launch = {"grid": (size, 1, 1), "threadgroup": (min(size, 64), 1, 1), **options}
    return kernel(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], **launch)[0]


LOOPS = {
    "rows that a guard cuts": "if (I >= 60) return; for (int t = 0; t < L; t++) y[I * L + t] = x[I * L + t] * 2;",
    "bits of another type": "for (int t = 0; t < L; t++) ((device uint*)y)[t * 64 + I] = as_type<uint>(x[t * 64 + I]);",
    "read back": "for (int t = 1; t < L; t++) y[t * 64 + I] = y[(t - 1) * 64 + I] + x[t * 64 + I];",
    "anywhere": "for (int t = 0; t < L; t++) if (x[t * 64 + I] > 0) y[t * 64 + (I * 7) % 64] = t;",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_write_in_a_loop_copies_nothing(name):
    """Assert that within a loop only in-place writes have results of the output's size."""
    length = 400
    x = np.random.default_rng(0).normal(size=60 * length if "rows" in name else 64 * length).astype(np.float32)
    one = case(LOOPS[name], "", arrays={"x": x}, outputs=[x.shape], grid=(64, 1, 1), group=64, template=[("L", length)])
    definition, launch, _ = signed(one)
    kernel = parse_kernel(definition.source, definition.header, launch.signature)
    with jax.enable_x64(True):
        program = jax.make_jaxpr(lambda x: kernel.run(jnp, [x], launch.grid, launch.threadgroup))(x)
    names = list(large(program.jaxpr, x.size, False))
    assert names
    assert set(names) <= {"scatter", "dynamic_update_slice", "reshape"}, names


def test_numpy_pads_nothing_in_a_loop(monkeypatch):
    monkeypatch.setattr(NumpySpace, "pad", lambda *_: pytest.fail("an array is copied"))
    x = np.arange(60 * 400, dtype=np.float32)
    one = case(LOOPS["rows that a guard cuts"], "", arrays={"x": x}, outputs=[x.shape], grid=(64, 1, 1), group=64,
               template=[("L", 400)])  # fmt: skip
    np.testing.assert_array_equal(by_numpy(one)[0], 2 * x)


def large(program, size, inside):
    """Return the ops within a program's loops whose results have this size."""
    for equation in program.eqns:
        for inner in jaxprs_in_params(equation.params):
            yield from large(inner, size, inside or equation.primitive.name in ("scan", "while"))
        if inside and not equation.primitive.name.startswith(("jit", "pjit", "cond", "scan", "while")):
            yield from [equation.primitive.name for out in equation.outvars if out.aval.size >= size]


@pytest.mark.parametrize(
    "source", ["y[i] = as_type<float>(as_type<uint>(x[i]) & 0xffff0000u);", "y[i] = ((const device int*)x)[i];"]
)
def test_bits_have_no_derivative(source):
    x = mx.array([1.5, -2.0])

    def function(x):
        return call(f"uint i = thread_position_in_grid.x;\n{source}", x, 2)

    mx.eval(function(x))
    for transform in (mx.grad(lambda x: function(x).sum()), lambda x: mx.jvp(function, [x], [x])[1][0]):
        with pytest.raises(ValueError, match=r"\[metal_kernel\] k: source line 2: the bits .*mx.custom_function"):
            mx.eval(transform(x))


def test_bits_of_what_is_not_differentiated():
    source = "uint i = thread_position_in_grid.x; y[i] = as_type<float>(0x3fc00000u + i * 0) * x[i];"
    np.testing.assert_array_equal(mx.grad(lambda x: call(source, x, 3).sum())(mx.ones(3)), [1.5] * 3)


def test_a_grid_of_too_many_threads():
    for grid in ((1 << 16, 1 << 15, 1), (2**31 - 1, 2, 1)):
        with pytest.raises(ValueError, match=r"at most 2147483647 threads, got"):
            call("y[0] = x[0];", mx.ones(4), 4, grid=grid)


def test_a_grid_beyond_32_bits():
    with pytest.raises(TypeError, match=r"Expected grid to be a sequence of ints of 32 bits, got \(2147483648, 1, 1\)"):
        call("y[0] = x[0];", mx.ones(4), 4, grid=(2**31, 1, 1))


def test_wrong_arguments_name_the_kernel():
    with pytest.raises(TypeError, match=r"^kernel\(\) got an unexpected keyword argument 'grids'"):
        call("y[0] = x[0];", mx.ones(4), 4, grids=(1, 1, 1))


def test_numpy_is_interrupted():
    """Assert that Ctrl-C interrupts a loop that NumPy runs."""
    one = case("while (true) { if (y[0] > 5) break; y[0] = 1; }", outputs=[(1,)], out="float32", grid=(1, 1, 1))
    definition, launch, _ = signed(one)
    kernel = parse_kernel(definition.source, definition.header, launch.signature)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel.run(np, [], launch.grid, launch.threadgroup)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_shared_memory_that_was_not_requested():
    kernel = mx.fast.cuda_kernel(
        name="k", input_names=[], output_names=["y"], source="extern __shared__ float buffer[];\ny[0] = buffer[0];"
    )
    with pytest.raises(RuntimeError, match=r"source line 1, column 25: the size of this array is not known"):
        mx.eval(
            kernel(inputs=[], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1), threadgroup=(1, 1, 1))
        )
