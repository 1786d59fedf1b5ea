"""Derivatives with respect to indices, masks, packed weights and bits: real MLX raises for every transform."""

import itertools

import numpy as np
import pytest

from tests.expressions import cases
from tests.oracle import check, ours, real, run

X = np.array([1.2, 0.3, 2.4], np.float32)

INDICES = {
    "given": lambda mx, x: x,
    "of the largest": lambda mx, x: mx.argsort(x),
    "cast": lambda mx, x: x.astype(mx.int32),
}

FUNCTIONS = cases(
    """
mx.gather_mm(a, b, k, one)
mx.gather_mm(a, b, one, k)
mx.gather_mm(a, b, rhs_indices=k)
mx.gather_mm(a, b, k, k, sorted_indices=True)
mx.gather_mm(a * x.sum(), b, rhs_indices=k)
mx.segmented_mm(a[0], b[0], mx.stack([k, k + 1], -1))
mx.gather_qmm(rows, *packed, k, one)
mx.gather_qmm(rows, *packed, rhs_indices=k)
mx.gather_qmm(rows * x.sum(), *packed, rhs_indices=k)
mx.gather_qmm(rows, *narrow, rhs_indices=k, mode="mxfp4")
mx.quantized_matmul(rows[0], *[q[k[0]] for q in packed])
mx.fast.cross_entropy(mx.ones((3, 4)), k)
mx.fast.cross_entropy(mx.ones((3, 4)) * x.sum(), k)
mx.take(b, k, axis=0)
mx.take_along_axis(x, k, axis=0)
b[k]
mx.put_along_axis(mx.zeros((3,)), k, x.astype(mx.float32), axis=0)
mx.zeros((3,)).at[k].add(x)
mx.slice_update(mx.zeros((3,)), x[:2].astype(mx.float32), k[:1], (0,))
x.view(mx.uint32)
x.astype(mx.float32).view(mx.int16) * 2
x.astype(mx.float32).view(mx.int32).view(mx.float32)
~k
mx.bitwise_invert(x.astype(mx.int32)) * 2.5
(~x.astype(mx.uint8) > 3) * 1.0
"""
)

ROADS = {
    "grad": lambda mx, f, x: mx.grad(lambda x: f(x).sum())(x),
    "value_and_grad": lambda mx, f, x: mx.value_and_grad(lambda x: f(x).sum())(x),
    "vjp": lambda mx, f, x: mx.vjp(f, [x], [f(x)]),
    "jvp": lambda mx, f, x: mx.jvp(f, [x], [x]),
    "grad of compile": lambda mx, f, x: mx.grad(mx.compile(lambda x: f(x).sum()))(x),
    "compile of grad": lambda mx, f, x: mx.compile(mx.grad(lambda x: f(x).sum()))(x),
    "checkpoint": lambda mx, f, x: mx.grad(mx.checkpoint(lambda x: f(x).sum()))(x),
    "twice": lambda mx, f, x: mx.grad(lambda x: mx.grad(lambda x: f(x).sum())(x).sum())(x),
}


def scope(mx):
    """Return the operands of the functions, with the same values on both sides."""
    fill = lambda *shape: mx.cos(mx.arange(int(np.prod(shape)), dtype=mx.float32)).reshape(shape)  # noqa: E731
    w = fill(3, 32, 64)
    return {
        "mx": mx, "a": fill(3, 2, 4), "b": fill(3, 4, 2), "one": mx.array([1, 1, 1]), "rows": fill(3, 2, 64),
        "packed": mx.quantize(w), "narrow": mx.quantize(w, mode="mxfp4"),
    }  # fmt: skip


CASES = [
    *itertools.product(FUNCTIONS, INDICES, ["grad", "jvp"]),
    *itertools.product([f for f in FUNCTIONS if "gather_" in f], ["cast"], [*ROADS][1:]),
]


@pytest.mark.parametrize(("function", "indices", "road"), dict.fromkeys(CASES))
def test_with_respect_to_indices(function, indices, road):
    def derived(mx):
        names = scope(mx)

        def f(x):
            return eval(function, {**names, "x": x, "k": INDICES[indices](mx, x)})

        x = mx.array(X)
        return ROADS[road](mx, f, x.astype(mx.int32) if indices == "given" else x)

    assert isinstance(check(derived), (ValueError, RuntimeError))


@pytest.mark.parametrize("function", FUNCTIONS[:10])
def test_indices_that_are_stopped(function):
    def derived(mx):
        names = scope(mx)

        def loss(x):
            return eval(function, {**names, "x": x, "k": mx.stop_gradient(mx.argsort(x))}).sum()

        return mx.grad(loss)(mx.array(X))

    if not isinstance(run(real, derived), Exception):  # real MLX has no derivative of segmented_mm
        check(derived, tol=1e-3)  # sums of a few hundred products
    assert not isinstance(run(ours, derived), Exception)


@pytest.mark.parametrize("numbers", [(1, 2), (2, 5), (0, 4), (1, 4, 5), (3, 5)])
@pytest.mark.parametrize("mode", ["affine", "mxfp4"])
def test_the_first_argument_that_has_none_is_named(mode, numbers):
    def derived(mx):
        rows, packed = scope(mx)["rows"], scope(mx)["packed" if mode == "affine" else "narrow"]
        others = [*packed, *[None] * (3 - len(packed)), mx.array([0, 1, 2]), mx.array([0, 1, 2])]
        args = [rows, *others]
        argnums = [n for n in numbers if args[n] is not None]
        return mx.grad(lambda *xs: mx.gather_qmm(*xs, mode=mode).sum(), argnums=argnums)(*args)

    check(derived)


MASKS = cases(
    """
mx.block_masked_mm(a, b, 32, None, m, None)
mx.block_masked_mm(a, b, 32, None, None, m)
mx.block_masked_mm(a, b, 32, None, m, m)
mx.block_masked_mm(a, b, 32, m, m, m)
mx.block_masked_mm(a, b, 32, f, m, m)
mx.block_masked_mm(a, b, 32, None, m, f)
mx.block_masked_mm(a, b, 32, None, f, f)
mx.block_masked_mm(a, b, 32, m, None, None)
mx.block_masked_mm(a, b, 32, m, s, s)
"""
)


def masked(function, road):
    """Return a derivative with respect to the source of the masks."""

    def derived(mx):
        a = mx.cos(mx.arange(64.0 * 64)).reshape(64, 64)

        def f(x):
            m = x > 0.5
            return eval(function, {"mx": mx, "a": a * x.sum(), "b": a, "m": m, "s": mx.stop_gradient(m), "f": x})

        return ROADS[road](mx, f, mx.array([[1.2, 0.3], [2.4, 0.7]]))

    return derived


@pytest.mark.parametrize("road", ["grad", "jvp", "compile of grad", "checkpoint"])
@pytest.mark.parametrize("function", MASKS[:5])
def test_masks_of_operands_that_are_bools(function, road):
    assert isinstance(check(masked(function, road)), ValueError)


@pytest.mark.parametrize("function", MASKS[5:])
def test_other_masks(function):
    check(masked(function, "grad"), tol=1e-3)  # sums of a few thousand products
    assert not isinstance(run(ours, masked(function, "jvp")), Exception)


CLOSE = cases(
    """
mx.isclose(b, y)
mx.isclose(y, b)
mx.isclose(y, y)
mx.allclose(b, y)
mx.allclose(y, b)
mx.allclose(b, y[:1])
mx.isclose(b, x)
mx.isclose(b, y.astype(mx.int32))
mx.isclose(b.astype(mx.int32), y)
mx.isclose(b, mx.stop_gradient(y))
"""
)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("function", CLOSE)
def test_bools_that_are_compared_with_others(function, road):
    """Compare `isclose` with bools: MLX negates the second cotangent, and bools have no negation."""

    def derived(mx):
        def f(x):
            near = eval(function, {"mx": mx, "x": x, "y": x > 1, "b": mx.array([True, False, True])})
            return mx.where(near, x, 2 * x)

        return ROADS[road](mx, f, mx.array(X))

    check(derived)


def _written(mx, a):
    b = a + 0
    b[b > 0] = 2.0
    return b


PICKED = {
    "gather": lambda mx, a: a[mx.argsort(a)],
    "take_along_axis": lambda mx, a: mx.take_along_axis(a, mx.argsort(a), 0),
    "mask": _written,
    "scatter": lambda mx, a: a.at[mx.argmax(a)].add(a[0]),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_the_gradient_within_does_not_depend_on_may_be_chosen_by_the_data(name):
    """Assert that data may select values if no cotangent or tangent reaches the index. MLX raises otherwise."""

    def derivatives(mx):
        def loss(w, a):
            return (w * a).sum() + PICKED[name](mx, a).sum()

        x, w = mx.array([1.0, -2.0, 3.0]), mx.array(2.0)
        inner = {
            "grad": lambda a: mx.grad(loss)(w, a),
            "value_and_grad": lambda a: mx.value_and_grad(loss)(w, a)[1],
            "jvp": lambda a: mx.jvp(lambda w: loss(w, a), [w], [mx.array(1.0)])[1][0],
            "vjp": lambda a: mx.vjp(lambda w: loss(w, a), [w], [mx.array(1.0)])[1][0],
        }
        return [
            [mx.grad(lambda a, f=f: f(a) ** 2)(x), mx.jvp(f, [x], [x])[1]] for f in inner.values()
        ]  # fmt: skip

    check(derivatives)
