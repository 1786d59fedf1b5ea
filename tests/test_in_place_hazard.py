"""In-place writes of values that are read from overlapping places of the same array: XLA's loops read their own
writes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph import policy
from mxcompat._graph.passes.in_place_hazard import materialize_operands

SHAPES = [(4, 4), (8, 8), (64, 64), (1000, 1), (5, 1000), (32, 16)]


def down(x):
    x[1:] = x[:-1]
    return x


def up(x):
    x[:-1] = x[1:]
    return x


def aside(x):
    x[:, 1:] = x[:, :-1] * 2 + 1
    return x


def far(x):
    x[3:] = x[:-3] + x[3:]
    return x


def turned(x):
    x[1:] = x[:-1][::-1]
    return x


@pytest.mark.parametrize("write", [down, up, aside, far, turned], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_read_before(shape, write):
    n = shape[0] * shape[1]
    values = np.arange(n, dtype=np.float32).reshape(shape) * 2 + 1
    expected = write(values.copy())  # NumPy reads first, too
    for make in (
        lambda: mx.arange(n).reshape(shape) * 2.0 + 1,
        lambda: (mx.array(values).reshape(-1) * 1.0).reshape(shape),
        lambda: mx.array(values),
    ):
        for mode in (ext.reproducible, ext.debug.host_disabled):
            with mode():
                for _ in range(2):
                    np.testing.assert_array_equal(np.array(write(make())), expected)


def written(y, u, i):
    return lax.dynamic_update_slice(y, u, (i, 0))


@pytest.mark.parametrize(
    ("f", "is_kept"),
    [
        (lambda x, i: (lambda y: written(y, y[:3], i))(x + 1), True),
        (lambda x, i: (lambda y: lax.dynamic_update_slice(y.ravel(), y.ravel()[:14], (i,)))(x * 2), True),
        (lambda x, i: (lambda y: written(y, y[:1, ::-1], i))(x * 2), True),  # a single row is written
        (lambda x, i: written(x + 1, (x + 1)[:3], i), True),  # the same expression twice
        (lambda x, i: written(x.reshape(4, 4), jnp.sin(x[:3]), i), True),  # the operand is an argument
        (lambda x, i: (lambda y: written(y, (y @ y)[:3], i))(x * 2), True),  # the ops between do not matter
        (lambda x, i: written(written(x, x[:1] * 0, 2), x[:3], i), True),  # the array is the result of another write
        (lambda x, i: written(lax.cond(i > 1, lambda: x, lambda: x + 1), x[:3], i), True),
        (lambda x, i: lax.fori_loop(0, 3, lambda k, y: written(y.reshape(4, 4), y.reshape(4, 4)[:1] * 2, k), x), True),
        (lambda x, i: written(x, jnp.ones((3, 4)), i), False),
        (lambda x, i: written(x, lax.iota(jnp.float32, 12).reshape(3, 4) * i, i), False),
        (lambda x, i: written(jnp.zeros((4, 4)), x[:3], i), False),  # the write is into a constant
        # the second write replaces the first
        (lambda x, i: written(written(jnp.zeros((4, 4)), x[:3], i), x[1:], i), False),
        (lambda x, i: x.at[jnp.array([1, 2])].set(x[:2]), False),  # no slice
    ],
)
def test_which_slices_are_kept(f, is_kept):
    x = jnp.arange(16.0).reshape(4, 4)
    lowered = jax.jit(f).lower(x, 1)
    module = lowered.compiler_ir("stablehlo")
    materialize_operands(module)
    module.operation.verify()
    assert ("@kept" in str(module)) is is_kept
    with jax.disable_jit():
        expected = np.asarray(f(x, 1))
    np.testing.assert_allclose(np.asarray(lowered.compile()(x, 1)), expected, rtol=1e-5)


def test_two_arguments_of_a_function_may_be_one_array():
    @jax.jit
    def inner(y, z):
        return written(y, z[:3], 1)

    x = jnp.arange(16.0)
    lowered = jax.jit(lambda x: inner(x.reshape(4, 4), x.reshape(4, 4))).lower(x)
    module = lowered.compiler_ir("stablehlo")
    assert "call @inner" in str(module)
    materialize_operands(module)
    values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    np.testing.assert_array_equal(np.asarray(lowered.compile()(x)), np.concatenate([values[:1], values[:-1]]))


SHIFTS = [
    ((slice(1, None),), (slice(None, -1),)),
    ((slice(None, -1),), (slice(1, None),)),
    ((slice(1, None),), (slice(None, -1), slice(None, None, -1))),
    ((0,), (0, slice(None, None, -1))),
    ((slice(None), 0), (slice(None), 1)),
    ((slice(None), slice(1, None)), (slice(None), slice(None, -1))),
    ((slice(0, 2), slice(1, 3)), (slice(1, 3), slice(0, 2))),
]
SOURCES = {
    "argument": lambda e, s: e.reshape(s),
    "flattened": lambda e, s: e.reshape(4, 6).flatten().reshape(s),
    "squeezed": lambda e, s: e.reshape(1, *s).squeeze(0),
    "computed": lambda e, s: e.reshape(s) * 1.0,
    "computed before": lambda e, s: mx.tanh(e / 24).reshape(s),
    "transposed": lambda e, s: e.reshape(6, 4).T.reshape(s),
    "viewed": lambda e, s: e.view(mx.int32).reshape(s),
    "cast": lambda e, s: e.astype(mx.float16).reshape(s),
}
VALUES = {
    "moved": lambda v, x, xp: v,
    "a sine": lambda v, x, xp: xp.sin(v),
    "less an element": lambda v, x, xp: v - x.reshape(-1)[0],
    "with the sum": lambda v, x, xp: v + x.sum(),
    "reshaped": lambda v, x, xp: (v.reshape(-1) * 2).reshape(v.shape),
}
AFTER = {"by itself": lambda x: x, "then reshaped": lambda x: x.reshape(1, -1), "then read": lambda x: x + 0}


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("source", SOURCES)
def test_it_is_read_before_whatever_is_between(source, every):
    e = mx.arange(24) * 2.0 + 1
    mx.eval(e)
    ends = list(AFTER.values())
    for shape in ((4, 6), (8, 3)):
        cases = enumerate(itertools.product(SHIFTS, VALUES.values()))
        for k, ((at, of), value) in itertools.islice(cases, [*SOURCES].index(source) % every, None, every):
            after = ends[k % len(ends)]  # combines each shift with each value, and both with each end
            x = SOURCES[source](e, shape)
            if x.dtype == mx.int32 and value is VALUES["a sine"]:
                continue
            expected = np.array(x)
            expected[at] = value(expected[of], expected, np)
            with ext.reproducible():
                x = SOURCES[source](e, shape)
                x[at] = value(x[of], x, mx)
                result = np.array(after(x)).reshape(shape)
            np.testing.assert_allclose(result, expected, rtol=2e-3, err_msg=f"{shape} {at} {of}")


def test_it_is_read_before_once_xla_has_taken_over():
    n = 512
    e = mx.arange(n * n) / (n * n)
    mx.eval(e)
    values = np.array(e).reshape(n, n)
    expected = np.concatenate([values[:1], values[:-1]])

    def step():
        x = e.reshape(n, n)
        x[1:] = x[:-1]
        y = e
        for k in range(30):
            y = y * 1.5 + k
        mx.eval(x, y)
        return np.array(x)

    for _ in range(3):
        np.testing.assert_array_equal(step(), expected)
    ext.debug.compiles()  # waits for the executable that is compiled for speed
    for _ in range(policy.LIKELY_MIN_RUNS + 3):
        np.testing.assert_array_equal(step(), expected)
    ext.debug.compiles()
    np.testing.assert_array_equal(step(), expected)


@pytest.mark.parametrize("dtype", ["bool_", "int8", "uint16", "int64", "float16", "bfloat16", "complex64"])
def test_of_every_kind(dtype):
    x = mx.arange(64).reshape(8, 8) % 5
    with ext.reproducible():
        y = (x.reshape(-1) + 0).reshape(8, 8).astype(getattr(mx, dtype))
        y[1:] = y[:-1]
        result = np.array(y.astype(mx.float32))
    values = np.array(x.astype(getattr(mx, dtype)).astype(mx.float32))
    np.testing.assert_array_equal(result, np.concatenate([values[:1], values[:-1]]))
