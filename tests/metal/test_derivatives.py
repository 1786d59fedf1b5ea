"""Kernels under all transforms: derivatives against finite differences, vmap against loops, rules of the user's own,
`compile`, and exported files."""

import json
from pathlib import Path

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat.ext.debug import host_disabled
from tests.benchmarks import metal_kernels as kernels

_RNG = np.random.default_rng(7)


def _normal(*shape):
    return mx.array(_RNG.normal(size=shape).astype(np.float32))


def _softmax(x):
    return kernels.softmax(mx, x, threads=64)


def _grid_sample(x, grid):
    return kernels.grid_sample(mx, x, grid)


def _group_norm(x, weight, bias):
    return kernels.group_norm(mx, x, weight, bias, groups=2, threads=32)


def _scan(x, decay):
    return kernels.scan(mx, x, decay)


# Places between pixels, where the sample's derivative is continuous.
_PLACES = mx.array(_RNG.uniform(0.7, 1.3, (1, 3, 4, 2)) + _RNG.integers(-1, 6, (1, 3, 4, 2)), mx.float32) / 3.5 - 1

CASES = {
    "softmax": (_softmax, [_normal(3, 50)]),
    "grid sample": (_grid_sample, [_normal(1, 7, 7, 2), _PLACES]),
    "group norm": (_group_norm, [_normal(2, 21, 6), _normal(6), _normal(6)]),
    "recurrence": (_scan, [_normal(2, 200, 3), mx.array(_RNG.uniform(0.5, 1, (2, 200, 3)).astype(np.float32))]),
}
each = pytest.mark.parametrize("name", CASES)


def _slope(function, inputs, directions, step=4e-3):
    """Return the derivative of the outputs along directions, by finite differences of fourth order."""
    total = 0
    for at, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
        moved = [x + at * step * d for x, d in zip(inputs, directions, strict=True)]
        total = total + weight * np.array(function(*moved), np.float64)
    return total / (12 * step)


@pytest.fixture(scope="module", params=list(CASES))
def slopes(request):
    """Return a kernel, its inputs, directions, and its derivative along these."""
    function, inputs = CASES[request.param]
    directions = [mx.array(_RNG.normal(size=x.shape).astype(np.float32)) / 4 for x in inputs]
    return function, inputs, directions, _slope(function, inputs, directions)


def test_jvp(slopes):
    function, inputs, directions, want = slopes
    tangent = np.array(mx.jvp(function, inputs, directions)[1][0])
    np.testing.assert_allclose(tangent, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())


def test_grad(slopes):
    function, inputs, directions, slope = slopes
    weights = mx.array(_RNG.normal(size=slope.shape).astype(np.float32))
    gradients = mx.grad(lambda *a: (function(*a) * weights).sum(), list(range(len(inputs))))(*inputs)
    gradients = gradients if isinstance(gradients, (list, tuple)) else [gradients]
    assert [g.shape for g in gradients] == [x.shape for x in inputs]
    along = sum(float((g * d).sum()) for g, d in zip(gradients, directions, strict=True))
    terms = slope * np.array(weights)
    np.testing.assert_allclose(along, terms.sum(), atol=1e-3 * np.abs(terms).sum())


@each
def test_vmap(name):
    function, inputs = CASES[name]
    many = [mx.stack([x, x * 0.5]) for x in inputs]
    result = mx.vmap(function)(*many)
    for k in range(2):
        np.testing.assert_allclose(result[k], function(*[x[k] for x in many]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["grid sample", "recurrence"])
def test_vmap_of_grad(name):
    function, inputs = CASES[name]
    many, slope = [mx.stack([x, x * 0.5]) for x in inputs], mx.grad(lambda *a: mx.square(function(*a)).sum())
    gradients = mx.vmap(slope)(*many)
    for k in range(2):
        np.testing.assert_allclose(gradients[k], slope(*[x[k] for x in many]), rtol=1e-4, atol=1e-5)


def test_vmap_over_some_inputs():
    x, grids = _normal(1, 7, 7, 2), mx.stack([_PLACES, -_PLACES])
    result = mx.vmap(_grid_sample, in_axes=(None, 0), out_axes=1)(x, grids)
    want = np.stack([_grid_sample(x, grid) for grid in grids], 1)
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


def test_second_derivatives():
    kernel = mx.fast.metal_kernel(
        name="waves", input_names=["x"], output_names=["y"],
        source="uint i = thread_position_in_grid.x; y[i] = sin(x[i]) * x[i] + x[(i + 1) % 6] * x[i];",
    )  # fmt: skip
    x, v = _normal(6), _normal(6)

    def slope(x):
        options = {"grid": (6, 1, 1), "threadgroup": (6, 1, 1), "output_shapes": [(6,)], "output_dtypes": [mx.float32]}
        return mx.grad(lambda x: mx.square(kernel(inputs=[x], **options)[0]).sum())(x)

    derivative = np.array(mx.grad(lambda x: (slope(x) * v).sum())(x))
    want = _slope(slope, [x], [v], 1e-2)
    np.testing.assert_allclose(derivative, want, rtol=2e-3, atol=2e-3 * np.abs(want).max())


@each
def test_compiled(name):
    function, inputs = CASES[name]
    np.testing.assert_allclose(mx.compile(function)(*inputs), function(*inputs), rtol=1e-5, atol=1e-6)
    slope = mx.grad(lambda *a: mx.square(function(*a)).sum())
    np.testing.assert_allclose(mx.compile(slope)(*inputs), slope(*inputs), rtol=1e-4, atol=1e-5)


def without_numpy(function):
    """Return the function, computed by XLA."""

    def wrapped(*args):
        with host_disabled():
            result = function(*args)
            mx.eval(result)
        return result

    return wrapped


def test_a_rule_of_the_users_own_is_used():
    """Compare the gradient of grid sample by the image, computed as in MLX's documentation: by a kernel with
    atomics."""
    scatter = mx.fast.metal_kernel(
        name="spread", input_names=["cotangent", "places"], output_names=["y"], atomic_outputs=True,
        source="""
            uint i = thread_position_in_grid.x;
            atomic_fetch_add_explicit(&y[places[i]], 3 * cotangent[i], memory_order_relaxed);
        """,
    )  # fmt: skip
    gather = mx.fast.metal_kernel(
        name="gather", input_names=["x", "places"], output_names=["y"],
        source="uint i = thread_position_in_grid.x; uint b = as_type<uint>(x[places[i]]); y[i] = as_type<float>(b);",
    )  # fmt: skip

    def launched(kernel, inputs, shape, **options):
        return kernel(
            inputs=inputs, output_shapes=[shape], output_dtypes=[mx.float32], grid=(8, 1, 1), threadgroup=(8, 1, 1),
            **options,
        )[0]  # fmt: skip

    @mx.custom_function
    def function(x, places):
        return launched(gather, [x, places], places.shape)

    @function.vjp
    def rule(primals, cotangent, output):
        x, places = primals
        return launched(scatter, [cotangent, places], x.shape, init_value=0), mx.zeros_like(places)

    places = mx.array([0, 1, 1, 2, 4, 4, 4, 0])
    x, weights = _normal(5), mx.arange(8.0)
    want = np.zeros(5)
    np.add.at(want, np.array(places), 3 * np.arange(8))
    for transform in (lambda f: f, mx.compile, without_numpy):
        slope = transform(mx.grad(lambda x: (function(x, places) * weights).sum()))
        np.testing.assert_allclose(slope(x), want)
    with pytest.raises(ValueError, match="the bits of a float are read as another type"):
        mx.eval(mx.jvp(lambda x: function(x, places), [x], [x])[1])
    np.testing.assert_array_equal(function(x, places), np.array(x)[np.array(places)])


@each
def test_exported(name, tmp_path):
    function, inputs = CASES[name]
    path = str(tmp_path / "kernel.mlxfn")
    mx.export_function(path, function, *inputs)
    imported, others = mx.import_function(path), [x * 0.5 for x in inputs]
    np.testing.assert_allclose(imported(*others)[0], function(*others), rtol=1e-5, atol=1e-6)


def test_exported_gradient(tmp_path):
    function, inputs = CASES["recurrence"]
    slope = mx.grad(lambda *a: mx.square(function(*a)).sum())
    path = str(tmp_path / "slope.mlxfn")
    mx.export_function(path, slope, *inputs)
    np.testing.assert_allclose(mx.import_function(path)(*inputs)[0], slope(*inputs), rtol=1e-4, atol=1e-5)


def test_a_damaged_signature_is_refused(tmp_path):
    function, inputs = CASES["softmax"]
    path = tmp_path / "kernel.mlxfn"
    mx.export_function(str(path), function, *inputs)
    data = path.read_bytes()
    damaged = data.replace(b'"thread_position_in_threadgroup\\', b'"thread_position_in_threadgrouq\\')
    assert damaged != data
    path.write_bytes(damaged)
    with pytest.raises(RuntimeError, match="import_function"):
        mx.import_function(str(path))


@pytest.mark.parametrize("quotient", ["2.0f * {} / (SIZE - 1)", "metal::divide(2.0f * {}, float(SIZE - 1))"])
def test_a_place_has_one_value_in_all_loops(quotient):
    """Sample an image at whole numbers. A different rounding in one of the loops would choose the neighbouring
    pixel."""
    page = json.loads((Path(__file__).parents[2] / "docs" / "notebooks" / "metal.ipynb").read_text())
    (cell,) = [text for c in page["cells"] if "def moved(" in (text := "".join(c["source"]))]
    names = {"mx": mx}
    for axis in ("row", "column"):
        assert f"2.0f * {axis} / (SIZE - 1)" in cell
        cell = cell.replace(f"2.0f * {axis} / (SIZE - 1)", quotient.format(axis))
    exec(cell, names)
    image = mx.array(np.random.default_rng(3).uniform(0, 1, (48, 48)).astype(np.float32))

    def loss(pose):
        return mx.square(names["moved"](image, pose)).sum()

    expected = float(np.square(np.array(image, np.float64)).sum())
    with host_disabled():
        (value,), _ = mx.vjp(loss, [mx.zeros(3)], [mx.array(1.0)])
    assert value.item() == pytest.approx(expected, rel=1e-4)
