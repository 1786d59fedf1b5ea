"""Metal's functions of geometry and of packed numbers, in NumPy and in XLA, against NumPy's own arithmetic."""

from contextlib import nullcontext

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat.ext.debug import host_disabled

from .cases import Case
from .kernels import by_numpy, by_xla

COUNT = 64
_RNG = np.random.default_rng(11)
_METAL = {np.float32: "float", np.float16: "half"}
_RAYS, _NORMALS = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in _RNG.normal(size=(2, COUNT, 3)))
LAYOUTS = {"unorm4x8": np.uint8, "snorm4x8": np.int8, "unorm2x16": np.uint16, "snorm2x16": np.int16}


def results(source, inputs, kind, size):
    """Return the output of a kernel, computed in NumPy and in XLA."""
    case = Case(
        f"uint i = thread_position_in_grid.x; {source}", inputs, (((size,), np.dtype(kind).name),), (COUNT, 1, 1),
        (32, 1, 1), names=("a", "b", "c")[: len(inputs)],
    )  # fmt: skip
    return by_numpy(case)[0], by_xla([case])[0][0]


def vectors(kind, call):
    """Return a source that stores a function of three vectors, which it reads from its inputs."""
    read = "".join(f"{kind}3 {v} = {{{v.lower()}[3*i], {v.lower()}[3*i+1], {v.lower()}[3*i+2]}}; " for v in "ABC")
    return f"{read} {kind}3 v = {call}; y[3 * i] = v.x; y[3 * i + 1] = v.y; y[3 * i + 2] = v.z;"


def refracted(ray, normal, eta):
    along = (ray * normal).sum(1, keepdims=True)
    square = 1 - eta**2 * (1 - along**2)
    bent = eta * ray - (eta * along + np.sqrt(np.maximum(square, 0))) * normal
    return np.where(square < 0, 0, bent), square[:, 0]


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 2e-5), (np.float16, 2e-2)])
@pytest.mark.parametrize("eta", [0.75, 1.5])
def test_refract(dtype, tol, eta):
    inputs = [v.astype(dtype) for v in (_RAYS, _NORMALS, _NORMALS)]
    want, square = refracted(*(v.astype(np.float64) for v in inputs[:2]), eta)
    sure = np.abs(square) > 0.02  # where rounding cannot choose the branch
    assert (square < 0).any() == (eta > 1)
    for got in results(vectors(_METAL[dtype], f"refract(A, B, {_METAL[dtype]}({eta}))"), inputs, dtype, 3 * COUNT):
        got = got.reshape(-1, 3)
        np.testing.assert_allclose(got[sure], want[sure], atol=tol)
        assert not got[sure & (square < 0)].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_faceforward(dtype):
    inputs = [_RNG.integers(-3, 4, (COUNT, 3)).astype(dtype) for _ in range(3)]
    normal, ray, reference = inputs
    side = (ray * reference).sum(1, keepdims=True)
    assert {-1, 0, 1} == {*np.sign(side).ravel()}
    for got in results(vectors(_METAL[dtype], "faceforward(A, B, C)"), inputs, dtype, 3 * COUNT):
        np.testing.assert_array_equal(got.reshape(-1, 3), np.where(side < 0, normal, -normal))


@pytest.mark.parametrize("call", ["refract(A, B, 0.75f)", "refract(A, B, 1.5f)", "faceforward(A, B, C)"])
def test_derivatives(call):
    """Compare with central differences. No derivative comes from a ray that is reflected as a whole."""
    _, square = refracted(_RAYS, _NORMALS, 1.5)
    inputs = [mx.array(v[np.abs(square) > 0.1].astype(np.float32)) for v in (_RAYS, _NORMALS, _NORMALS + 0.1 * _RAYS)]
    directions = [mx.array(_RNG.normal(size=v.shape).astype(np.float32)) for v in inputs]
    source = "uint i = thread_position_in_grid.x; " + vectors("float", call)
    kernel = mx.fast.metal_kernel(name="k", input_names=["a", "b", "c"], output_names=["y"], source=source)
    shape = inputs[0].shape

    def function(*inputs):
        options = {"grid": (shape[0], 1, 1), "threadgroup": (32, 1, 1)}
        return kernel(inputs=list(inputs), output_shapes=[shape], output_dtypes=[mx.float32], **options)[0]

    def moved(step):
        return np.array(function(*(x + step * d for x, d in zip(inputs, directions, strict=True))), np.float64)

    want = (moved(1e-3) - moved(-1e-3)) / 2e-3
    weights = mx.array(_RNG.normal(size=shape).astype(np.float32))
    np.testing.assert_allclose(mx.jvp(function, inputs, directions)[1][0], want, atol=2e-3 * np.abs(want).max())
    slope = mx.grad(lambda *v: (function(*v) * weights).sum(), [0, 1, 2])
    terms = want * np.array(weights)
    for context in (nullcontext(), host_disabled()):
        with context:
            gradients = slope(*inputs)
            along = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True)).item()
        assert along == pytest.approx(terms.sum(), abs=1e-3 * np.abs(terms).sum())


def numbers(code, dtype):
    """Return numbers that lie between codes, halfway between them, and outside of their range, and NaN."""
    largest = np.iinfo(code).max
    ties = (_RNG.integers(-largest - 1, largest, COUNT * 2) + 0.5) / largest
    some = np.concatenate([[np.nan, np.inf, -np.inf, -1, 1, 0, 0.5, -0.5, 2, -2], _RNG.uniform(-1.2, 1.2, 54), ties])
    return np.resize(some, COUNT * 4 // np.dtype(code).itemsize).astype(dtype)


@pytest.mark.parametrize("dtype", _METAL)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_pack(layout, dtype):
    code = LAYOUTS[layout]
    x, limits = numbers(code, dtype), np.iinfo(code)
    count = 4 // np.dtype(code).itemsize
    wide = np.nan_to_num(x.astype(np.float32), nan=0)
    want = np.rint(np.clip(wide, -1 if limits.min else 0, 1) * np.float32(limits.max)).astype(code).view(np.uint32)
    parts = ", ".join(f"a[{count} * i + {k}]" for k in range(count))
    source = f"y[i] = pack_{_METAL[dtype]}_to_{layout}({_METAL[dtype]}{count}({parts}));"
    for got in results(source, [x], np.uint32, COUNT):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", _METAL)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unpack(layout, dtype):
    code = LAYOUTS[layout]
    limits, count = np.iinfo(code), 4 // np.dtype(code).itemsize
    x = _RNG.integers(0, 2**32, COUNT, dtype=np.uint32)
    x[:3] = np.repeat(np.array([limits.min, limits.max, 0], code), count).view(np.uint32)
    want = np.maximum(x.view(code).astype(np.float32) / np.float32(limits.max), np.float32(-1)).astype(dtype)
    stores = "".join(f"y[{count} * i + {k}] = v[{k}];" for k in range(count))
    source = f"{_METAL[dtype]}{count} v = unpack_{layout}_to_{_METAL[dtype]}(a[i]); {stores}"
    for got in results(source, [x], dtype, COUNT * count):
        np.testing.assert_array_equal(got, want)
