"""The NumPy rules of elementwise ops, compared with XLA: every op of `SAMPLES`, on every dtype that it accepts.

Ops with several results, parameters or kinds of inputs have tests of their own.
"""

from __future__ import annotations

import math

import jax
import ml_dtypes
import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._array.construct import CAST, COPY
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.policy import MANY_ELEMENTS
from mxcompat._graph.run.differentiate import pull_back, push_forward
from mxcompat._graph.run.interpret import interpret
from mxcompat._ops.define import SAMPLES, TABLE
from mxcompat._ops.elementwise.erf import erf, erfinv, erfinv_by_xla
from mxcompat._ops.elementwise.select import select

from .harness import DTYPES, batched_program, check, data, program_of

UNARY = sorted(name for name, sample in SAMPLES.items() if sample.operands == 1)
BINARY = sorted(name for name, sample in SAMPLES.items() if sample.operands == 2)
INTEGRAL = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
SMOOTH = ("float32", "complex64", "bfloat16")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 2.5, -3.5, 100.0, -100.0, 1e-4, -1e-4, np.inf, -np.inf, np.nan]


def kind_of(dtype):
    return "f" if dtype == "bfloat16" else np.dtype(dtype).kind


def drawn(name, shape, dtype, seed=0, second=False):
    """Return data in the domain of an op; integers are unrestricted."""
    sample = SAMPLES[name]
    low, high = sample.second if second and sample.second else (sample.low, sample.high)
    x = data(shape, dtype, seed, low, high)
    if kind_of(dtype) in "iu" and name in ("exp", "expm1", "sinh", "cosh", "arctanh", "arcsin", "arccos", "erfinv"):
        x = x % 2
    return x


def together(function, *cells, **options):
    """Compare all cells, tuples of operands, as outputs of one program, which compiles once."""
    function = getattr(mx, function) if isinstance(function, str) else function
    starts = [sum(map(len, cells[:k])) for k in range(len(cells))]
    check(
        lambda mx, *xs: [function(*xs[k : k + len(c)]) for k, c in zip(starts, cells, strict=True)],
        *[x for cell in cells for x in cell],
        **{"batch": False, **options},
    )


def dtypes_of(name):
    """Return the dtypes that an op accepts, with only some of the integers that it casts to floats."""
    dtypes = DTYPES
    if "i" in SAMPLES[name].kinds and outcome(name, "int32") == "float32":
        dtypes = ("bool", "uint8", "int32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64")
    return [d for d in dtypes if kind_of(d) in SAMPLES[name].kinds]


def outcome(name, dtype):
    """Return the dtype of the result."""
    return getattr(mx, name)(*[mx.zeros((), getattr(mx, dtype))] * SAMPLES[name].operands)._node.aval.dtype._label


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    """Compare every dtype, and zeros, poles, kinks, infinities and NaN with derivatives."""
    shapes = [(3, 4), (), (0,), (5,)]
    dtypes = dtypes_of(name)
    cells = {d: (drawn(name, shapes[k % 4], d, k),) for k, d in enumerate(dtypes)}
    for d in {"float32", "bfloat16"} & {*dtypes}:
        cells[d] = (np.concatenate([drawn(name, (12,), d), np.array(SPECIAL, cells[d][0].dtype)]),)
    values_and_derivatives(name, cells)


def values_and_derivatives(name, cells):
    together(name, *[c for d, c in cells.items() if d not in SMOOTH], grad=False, jvp=False)
    smooth = [c for d, c in cells.items() if d in SMOOTH]
    if smooth:
        together(name, *smooth)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    """Compare every dtype, broadcasting, empty arrays, and all pairs of integer extremes."""
    shapes = [((3, 4), (3, 4)), ((), (2,)), ((0, 1), (3,)), ((5, 1), (4,)), ((), ())]
    cells = {}
    for k, d in enumerate(dtypes_of(name)):
        a, b = ((3, 4), (4,)) if d in SMOOTH else shapes[k % 5]
        cells[d] = (drawn(name, a, d, k), drawn(name, b, d, k + 50, second=True))
        if d in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "uint16"):
            info = np.iinfo(d)
            x = np.array([info.min, info.max, 0, 1, 2, 7, info.max // 2] + ([-1, -3] if info.min else []), d)
            cells[d] = (x[:, None], x)
    values_and_derivatives(name, cells)


@pytest.mark.parametrize("name", [n for n in BINARY if n not in INTEGRAL])
def test_binary_special_values(name):
    """Compare all pairs of special values, ties included."""
    x = np.array(SPECIAL, "float32")
    together(name, (x[:, None], x))


PAIRS = [("float32", "int32"), ("bool", "float16"), ("float16", "bfloat16"), ("int64", "uint64"), ("int8", "uint8"),
         ("complex64", "float32"), ("int32", "complex64"), ("bfloat16", "int32"), ("float64", "float16"),
         ("bool", "uint16"), ("float32", "bool")]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["add", "divide", "power", "maximum", "less", "logical_or", "bitwise_and", "left_shift"]
)
def test_binary_of_two_dtypes(name):
    allowed = SAMPLES[name].kinds
    cells = [
        (drawn(name, (3, 4), a, k), drawn(name, (4,), b, k + 50, second=True))
        for k, (a, b) in enumerate(PAIRS)
        if kind_of(a) in allowed and kind_of(b) in allowed and not (name in INTEGRAL and a == "int64")
    ]
    together(name, *cells)


def test_power_of_a_python_number():
    x = data((3, 4), "float32")
    check(lambda mx, x: [x**2, abs(x) ** 0.5, 2**x, (x + 4) ** -1, x**3.0], x, batch=False)


def test_where():
    cells = [
        (data((3, 1), c, k), data((4,), a, k), data((3, 4), b, k + 9))
        for k, (c, a, b) in enumerate(
            [("bool", "float32", "float32"), ("float32", "complex64", "float32"), ("int32", "bfloat16", "float16"),
             ("bool", "int8", "uint8"), ("bfloat16", "bool", "bool"), ("complex64", "float64", "int32")]
        )
    ]  # fmt: skip
    together("where", *cells)
    check(lambda mx, c, x: mx.where(c, x, 0.0), data((2, 3), "bool"), data((3,), "float32"))


def test_clip():
    x = data((3, 4), "float32")
    check(lambda mx, x, low: [mx.clip(x, -1, 1), mx.clip(x, low, None), mx.clip(x, 1, low)], x, x[0] / 2)
    check(lambda mx, x: [mx.clip(x, -1, 1), mx.clip(x, None, 2.5)], data((5,), "int8"), batch=False)


def test_divmod():
    together(lambda a, b: mx.divmod(a, b)[1], (data((4,), "float16"), data((4,), "float16", 1)),
             (data((9,), "int8"), data((9,), "int8", 1)))  # fmt: skip


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round(decimals):
    cells = [(data((4, 3), d, k, -300.0, 300.0),) for k, d in enumerate(DTYPES)]
    cells += [(np.array([np.iinfo(d).max, np.iinfo(d).min, 15, 25], d),) for d in ("uint8", "int8", "int32", "uint64")]
    cells += [(np.array(SPECIAL, "float32"),)]
    together(lambda x: mx.round(x, decimals), *cells)


def test_nan_to_num():
    cells = [(np.array(SPECIAL).astype(d),) for d in ("float32", "float16", ml_dtypes.bfloat16)]
    cells += [(data((3,), d),) for d in ("bool", "int8", "uint64")]
    together(mx.nan_to_num, *cells)
    check(lambda mx, x: mx.nan_to_num(x, 3.0, posinf=7, neginf=-1e-3), cells[0][0])


@pytest.mark.parametrize("name", ["isclose", "allclose", "array_equal"])
def test_nearness(name):
    cells = []
    for k, d in enumerate(
        ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
    ):
        x = data((20,), d, k)
        y = data((20,), d, k + 1)
        if kind_of(d) in "fc":
            y = (x * (1 + np.where(np.arange(20) % 2, 1e-6, 3e-5))).astype(x.dtype)
        cells.append((x, y))
    cells += [(data((20,), "int64"), data((20,), "uint64", 1)), (data((20,), "float32"), data((20,), "int32"))]
    cells += [(data((0,), "float32"),) * 2, (x, x)]
    x = np.array(SPECIAL, "float32")
    cells.append((x, np.roll(x, 3)) if name == "array_equal" else (x[:, None], x))
    together(name, *cells)
    function = getattr(mx, name)
    together(lambda x, y: function(x, y, equal_nan=True), (x, x), (x, x[::-1]), (x.astype("complex64"),) * 2)


def test_nearness_with_other_tolerances():
    x, y = data((20,), "float32"), data((20,), "float32", 1)
    check(lambda mx, x, y: [mx.isclose(x, y, 0.1, 1.0), mx.isclose(x, 2 * x, rtol=0.5)], x, y)


@pytest.mark.parametrize("target", ["bool", "int8", *SMOOTH])
def test_astype(target):
    together(lambda x: x.astype(getattr(mx, target if target != "bool" else "bool_")),
             *[(data((2, 3), d, k),) for k, d in enumerate(DTYPES) if d != target])  # fmt: skip


@pytest.mark.parametrize("target", ["bool", "uint8", "float16", "uint32", "float32", "complex64"])
def test_view(target):
    cells = [(data((3, 8), d, k),) for k, d in enumerate(DTYPES) if d in SMOOTH or kind_of(d) in "bui"]
    cells += [(data((), d),) for d in DTYPES if np.dtype(kind(d)).itemsize == np.dtype(kind(target)).itemsize]
    cells += [(data((2, 0), "float32"),)]
    with np.errstate(invalid="ignore"):  # among them are signalling NaNs
        together(lambda x: mx.view(x, getattr(mx, target if target != "bool" else "bool_")), *cells, tolerance=0.0)


def kind(dtype):
    return getattr(ml_dtypes, dtype, None) or dtype


def test_view_of_a_transpose():
    check(lambda mx, x: mx.view(x.T, mx.uint16), data((4, 3), "float32"), batch=False)


def test_what_keeps_the_elements():
    def every(x):
        node = x._node
        return [
            mx.contiguous(x),
            mx.array(x),
            wrapped(COPY, node),
            wrapped(CAST, node, mx.float32),
            mx.stop_gradient(x),
        ]

    for dtype in ("float32", "complex64", "float16"):
        x = data((2, 3), dtype)
        check(lambda mx, x: every(x), x, batch=dtype == "float32")


def wrapped(op, node, *params):
    from mxcompat._array.array import wrap

    return wrap(apply(op, (node,), params))


def test_depends():
    x, y = data((2, 3), "float32"), data((3,), "float32", 1)
    check(lambda mx, x, y: [*mx.depends([x * 2, y], [x + 1]), mx.depends(y, x)], x, y)
    check(lambda mx, x, y: mx.depends([x * 2, y], [x + 1])[:1], x, y, batch=False)


def test_nested_arrays():
    x, y, z = data((3,), "float32"), data((3,), "float16", 1), data((), "int32", 2)
    check(lambda mx, x, y: mx.array([[x, y], [y, x]]), x, y, batch=False)
    check(lambda mx, x, z: mx.array([x[0], z, 2.5, 1]), x, z, batch=False, grad=False, jvp=False)
    check(lambda mx, x: mx.array([x, 1j]), data((), "float32"), batch=False)
    check(lambda mx, x, z: mx.array([z, x]), data((), "complex64"), z, batch=False)


def test_nested_arrays_over_an_axis():
    same_over_an_axis(lambda mx, x, y: mx.array([[x, y], [y, x]]), data((3,), "float32"), data((3,), "float16", 1))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_equality_of_arrays_over_an_axis(equal_nan):
    x = np.array([0.0, np.nan], "float32")
    for name in ("allclose", "array_equal"):
        same_over_an_axis(lambda mx, x, y, n=name: getattr(mx, n)(x, y, equal_nan=equal_nan), x, x)


def same_over_an_axis(call, *inputs, size=3):
    """Compare BATCH rules that use ops of other families, which XLA runs."""
    program, arrays = program_of(call, inputs)
    for mapped in ([True, False], [False, True], [True, True]):
        flags = mapped + [False] * (len(arrays) - 2)
        batched, captured = batched_program(program, flags, size)
        rows = [
            np.stack([np.roll(x, k) for k in range(size)]) if on else x for x, on in zip(arrays, flags, strict=True)
        ]
        with jax.enable_x64(True):
            got = jax.jit(batched.replay)([*rows, *captured])
            want = jax.vmap(lambda *xs: program.replay(xs), [0 if on else None for on in flags])(*rows)
        np.testing.assert_array_equal(got, want)


def with_scalars(call, *inputs):
    """Assert that rules accept NumPy scalars, with the results for arrays of one element."""
    program, arrays = program_of(call, inputs)
    primals = 0
    while primals < len(inputs) and kind_of(inputs[primals].dtype.name) in "fc":
        primals += 1
    cotangents = [np.ones(a.shape, a.dtype._numpy) if a.dtype._kind in "fc" else None for a in program.out_avals]
    for scalars in ([x[()] for x in arrays], arrays):
        with np.errstate(all="ignore"):
            outs = interpret(program, scalars)
            gradients = pull_back(program, primals, scalars, [c if c is None else c[()] for c in cotangents])[1]
            push_forward(program, primals, scalars, scalars[:primals])
        for x, a in zip([*outs, *gradients], [*program.out_avals, *program.in_avals], strict=False):
            assert isinstance(x, (np.ndarray, np.generic))
            assert (x.shape, x.dtype) == (a.shape, a.dtype._numpy)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars(dtype):
    kind = kind_of(dtype)
    for name, sample in SAMPLES.items():
        if kind in sample.kinds:
            xs = [drawn(name, (), dtype, k, second=k > 0) for k in range(sample.operands)]
            with_scalars(lambda mx, *xs, n=name: getattr(mx, n)(*xs), *xs)
    x, y = data((), dtype), data((), dtype, 1)
    with_scalars(lambda mx, x, y: [mx.where(x, x, y), mx.isclose(x, y), mx.array_equal(x, y), mx.array([x, y])], x, y)
    with_scalars(lambda mx, x: [x.astype(d) for d in (mx.bool_, mx.int8, mx.uint64, mx.bfloat16, mx.complex64)], x)
    if dtype not in ("float64", "complex64"):
        with_scalars(lambda mx, x: mx.nan_to_num(x), x)


@pytest.mark.parametrize("name", ["update_negative", "update_reciprocal"])
def test_updates(name):
    cells = [(data((3,), d, k),) for k, d in enumerate(DTYPES) if d != "bool"]
    together(lambda x: wrapped(TABLE[name], x._node), *cells)


@pytest.mark.parametrize("name", ["add", "less", "power", "where", "remainder", "bitwise_xor"])
def test_over_an_axis(name):
    """Test batching for one op: all elementwise ops share one rule."""
    dtype = "int32" if name == "bitwise_xor" else "float32"
    shapes = [((), (2, 3)), ((3,), (2, 1)), ((2, 3), (2, 3)), ((2, 3), ())]
    for k, (a, b) in enumerate(shapes if name == "add" else shapes[:2]):
        x, y = data(a, dtype, k, 0.5, 3.0), data(b, dtype, k + 9, 0.5, 3.0)
        if name == "where":
            check(lambda mx, c, x, y: mx.where(c > 1, x, y), data((3,), dtype), x, y, grad=False, jvp=False)
        else:
            check(lambda mx, x, y: getattr(mx, name)(x, y), x, y, grad=False, jvp=False)


def test_error_function():
    for low, high in ((-1e-3, 1e-3), (-1.0, 1.0), (-6.0, 6.0)):
        x = np.concatenate([data((20_000,), "float32", 0, low, high), np.array(SPECIAL, "float32")])
        want = np.array([math.erf(v) for v in x.tolist()])
        np.testing.assert_allclose(erf(x), want, rtol=7e-8, atol=0)
    x = data((100,), "float64", 0, -6.0, 6.0)
    np.testing.assert_allclose(erf(x), [math.erf(v) for v in x], rtol=1e-15)


def test_inverse_error_function():
    y = data((1000,), "float64", 0, -5.5, 5.5)
    small = y / 1e6
    for dtype, tolerance in ((np.float64, 1e-14), (np.float32, 1e-6)):
        for want in (y, small):
            x = np.array([math.erf(v) for v in want]).astype(dtype)
            with np.errstate(all="ignore"):
                got = erfinv(x)
            assert got.dtype == dtype
            back = np.array([math.erf(v) for v in got.tolist()])
            np.testing.assert_allclose(back, x, rtol=tolerance)
    x = np.concatenate([data((50_000,), "float32", 0, -1.0, 1.0), 1 - np.logspace(-7.2, -1, 5000, dtype=np.float32)])
    for got in (erfinv(x), np.asarray(jax.jit(erfinv_by_xla)(x)), np.asarray(mx.erfinv(mx.array(x)))):
        want = erfinv(x.astype(np.float64))
        # MLX's error is 2.3
        np.testing.assert_array_less(np.abs(got - want), 2.1 * np.spacing(np.abs(want).astype(np.float32)))
    with np.errstate(all="ignore"):
        edge = erfinv(np.array([-1, 1, 2, np.nan, 0.0], np.float32))
    np.testing.assert_array_equal(edge, np.array([-np.inf, np.inf, np.nan, np.nan, 0], np.float32))


EDGES = np.array([*SPECIAL, 1e30, -1e30, 1e-30, -1e-30, 88.8, 89.5, -104.5, 180.0], np.float32)


def alike(got, want):
    """Return True for numbers that differ by at most two roundings, with equal signs, or are both NaN."""
    with np.errstate(all="ignore"):
        same = (got == want) & (np.signbit(got) == np.signbit(want))
        return same | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= 3e-7 * np.abs(want) + 1e-43)


@pytest.mark.parametrize(
    "exponent", [-3, -2, -1, 0, 0.5, -0.5, 1, 1.5, 2, 3, 4, 33, 2.0**24 - 1, 1e10, np.inf, -np.inf, np.nan]
)
def test_powers_that_are_the_same_for_all(exponent):
    got, want = (np.array(m.array(EDGES) ** exponent) for m in (mx, real))
    assert alike(got, want).all(), (got, want)


def test_complex_exponentials_at_the_edges():
    with np.errstate(all="ignore"):
        x = (EDGES[:, None] + 1j * EDGES).astype(np.complex64)
        want = np.exp(x)
    got = np.array(mx.exp(mx.array(x)))
    assert alike(got.real, want.real).all()
    assert alike(got.imag, want.imag).all()


@pytest.mark.parametrize("name", ["sign", "logaddexp"])
def test_real_edges(name):
    operands = [EDGES] if name == "sign" else np.meshgrid(EDGES, EDGES)
    got, want = (np.array(getattr(m, name)(*map(m.array, operands))) for m in (mx, real))
    assert alike(got, want).all(), (got, want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float32", "int64", "complex64"])
def test_many_elements_are_chosen_by_their_bits(dtype):
    n = MANY_ELEMENTS
    mask = np.random.default_rng(0).random(n) > 0.5
    x, y = data((n,), dtype, 1), data((n,), dtype, 2)
    if kind_of(dtype) in "fc":
        x[:3], y[-3:] = np.nan, -0.0
    square = (2, n // 2)
    cells = (
        (mask, x, y), (mask, x, y[:1]), (mask, x, x.dtype.type(0)), (mask, y.dtype.type(1), y),
        (mask[::-1], x, y[::-1]), (mask.reshape(square), x.reshape(square), y[: n // 2]), (mask[:, None], x[:3], y[:3]),
        (mask, x, y.reshape(1, n).repeat(3, 0)),
    )  # fmt: skip
    for chosen, a, b in cells:
        want, got = np.where(chosen, a, b), select(chosen, a, b)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()


FAMILY = [
    *[TABLE[name] for name in sorted({*SAMPLES, "allclose", "array_equal", "astype", "contiguous", "depends", "isclose",
                                      "nan_to_num", "stop_gradient", "update_negative", "update_reciprocal", "view",
                                      "where"})],
    CAST, COPY, NEST,
]  # fmt: skip
WHOLE = {
    "allclose", "array_equal", "bitwise_and", "bitwise_invert", "bitwise_or", "bitwise_xor", "equal", "greater",
    "greater_equal", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "left_shift", "less",
    "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "not_equal", "right_shift", "view",
}  # fmt: skip
"""Ops whose results are bools, integers or bits, and so have no derivative."""


def test_every_op_has_its_rules():
    assert [op.name for op in FAMILY if op not in HOST] == []
    assert [op.name for op in FAMILY if op not in BATCH] == []
    assert {op.name for op in FAMILY if op not in PULLBACK} == WHOLE
    assert {op.name for op in FAMILY if op not in PUSHFORWARD} == WHOLE


@pytest.mark.parametrize("shapes", [((256, 256), (256, 256)), ((256, 256), (256, 1)), ((1, 256), (256, 256))], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_numbers_in_half_precision_are_compared_in_float32(dtype, shapes):
    """Compare half precision computed in float32 bit for bit, with NaN, infinities and zeros."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, 1.0], np.float32)
    x, y = (np.random.default_rng(k).choice(special, shape) for k, shape in enumerate(shapes))
    a, b = (mx.array(v).astype(getattr(mx, dtype)) for v in (x, y))
    exact = [np.array(v.astype(mx.float32)) for v in (a, b)]
    for name in ("maximum", "minimum", "less", "greater_equal", "equal", "not_equal"):
        got = getattr(mx, name)(a, b)
        want = getattr(np, name)(*exact)
        assert np.array_equal(np.array(got.astype(mx.float32)), want.astype(np.float32), equal_nan=True)
    for name in ("isnan", "isinf", "isfinite"):
        np.testing.assert_array_equal(np.array(getattr(mx, name)(a)), getattr(np, name)(exact[0]))
    for name, infinity in (("isposinf", np.inf), ("isneginf", -np.inf)):
        np.testing.assert_array_equal(np.array(getattr(mx, name)(a)), exact[0] == infinity)
    signs = np.array(mx.sign(a).astype(mx.float32))
    np.testing.assert_array_equal(signs, np.nan_to_num(np.sign(exact[0])))
