"""`mx.linalg`: values, dtypes and errors, compared with real MLX; derivatives, with finite differences."""

import numpy as np
import pytest

import mxcompat
from mxcompat._graph import policy
from tests.oracle import check, ours

RNG = np.random.RandomState(7)
SQUARE = RNG.randn(3, 3).astype("f")
BATCH = RNG.randn(2, 3, 3).astype("f")
WIDE = RNG.randn(2, 4).astype("f")
TALL = RNG.randn(4, 2).astype("f")
POSITIVE = (BATCH @ BATCH.swapaxes(-1, -2) + np.eye(3)).astype("f")
COMPLEX = (SQUARE + 1j * RNG.randn(3, 3)).astype("F")
CUBE = RNG.randn(2, 3, 4).astype("f")
LOOSE = 5e-4
"""Tolerance for results that amplify rounding errors, at condition numbers of about 30."""

NAMES = (
    "cholesky", "cholesky_inv", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "lu_factor", "norm",
    "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "tri_inv",
)  # fmt: skip
INFINITY = float("inf")


def call(mx, name, a):
    """Call the function on one matrix, passed twice if it takes two."""
    return getattr(mx.linalg, name)(a, *([a] if name in ("cross", "solve", "solve_triangular") else []), stream=mx.cpu)


def test_has_every_name():
    assert sorted(ours.linalg.__all__) == sorted(NAMES)


@pytest.mark.parametrize("dtype", ["bool_", "int32", "float16", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("name", NAMES)
def test_dtypes(name, dtype):
    a = np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]], "f")
    check(lambda mx, a: call(mx, name, a.astype(getattr(mx, dtype))), a)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("cross", "norm")])
def test_shape_errors(name, shape):
    check(lambda mx: call(mx, name, mx.ones(shape)) if name not in ("qr", "svd", "pinv", "lu", "lu_factor")
          or len(shape) < 2 else 0)  # fmt: skip


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("cholesky", "cholesky_inv", "cross", "norm", "eig")])
def test_batches(name):
    check(lambda mx, a: call(mx, name, a), BATCH, tol=LOOSE)


@pytest.mark.parametrize("name", ["qr", "svd", "pinv", "lu", "lu_factor", "norm"])
@pytest.mark.parametrize("a", [WIDE, TALL], ids=["wide", "tall"])
def test_rectangular(name, a):
    check(lambda mx, a: call(mx, name, a), a, tol=LOOSE)


@pytest.mark.parametrize("name", ["qr", "svd", "cholesky", "eig", "eigh", "eigvalsh", "det", "slogdet", "pinv", "norm"])
def test_empty(name):
    check(lambda mx: call(mx, name, mx.zeros((0, 0))))
    check(lambda mx: call(mx, name, mx.zeros((0, 3, 3))))
    check(lambda mx: call(mx, name, mx.zeros((2, 0))))


@pytest.mark.parametrize("name", ["inv", "tri_inv", "cholesky_inv", "lu", "lu_factor", "solve", "solve_triangular"])
def test_empty_where_real_mlx_crashes(name):
    out = call(ours, name, ours.zeros((0, 0)))
    for x in out if isinstance(out, tuple) else (out,):
        assert np.array(x).size == 0
    check(lambda mx: call(mx, name, mx.zeros((0, 3, 3))))


def test_arguments_must_be_arrays():
    for name in NAMES:
        check(lambda mx, name=name: call(mx, name, [[1.0, 2.0], [3.0, 4.0]]))
    check(lambda mx, a: mx.linalg.norm(a=a), SQUARE)
    check(lambda mx, a: mx.linalg.norm(a, 1, 1.0), SQUARE)
    check(lambda mx, a: mx.linalg.norm(a, 1, "x"), SQUARE)
    check(lambda mx, a: mx.linalg.solve_triangular(a, a, True), SQUARE)
    check(lambda mx, a: mx.linalg.inv(a=a), SQUARE, tol=LOOSE)


@pytest.mark.parametrize("order", [None, 0, 1, -1, 2, -2, 3, 0.5, -0.5, INFINITY, -INFINITY, "fro", "nuc", "f", "inf"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1), [-1, -2], (0, 1, 2), (), 5])
def test_norm(order, axis):
    check(lambda mx, a: mx.linalg.norm(a, order, axis), SQUARE)
    check(lambda mx, a: mx.linalg.norm(a, ord=order, axis=axis, keepdims=True), CUBE)


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, INFINITY])
def test_norm_of_vectors(order):
    check(lambda mx, a: mx.linalg.norm(a, order), SQUARE[0])
    check(lambda mx, a: mx.linalg.norm(a, order), COMPLEX[0])
    check(lambda mx, a: mx.linalg.norm(a, order), COMPLEX)
    check(lambda mx, a: mx.linalg.norm(a, order), np.arange(4))
    check(lambda mx: mx.linalg.norm(mx.zeros((0,)), order))


def test_norm_of_a_number_and_with_duplicate_axes():
    check(lambda mx: mx.linalg.norm(mx.array(-2.5)))
    check(lambda mx: mx.linalg.norm(mx.array(-2.5), 2))
    with pytest.raises(ValueError, match="Duplicate axes"):  # real MLX gives numbers without meaning for some orders
        ours.linalg.norm(ours.ones((2, 2)), 1, (0, 0))


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize("name", ["cholesky", "cholesky_inv", "tri_inv"])
def test_triangles(name, flag):
    check(lambda mx, a: getattr(mx.linalg, name)(a, flag, stream=mx.cpu), POSITIVE)
    check(lambda mx, a: getattr(mx.linalg, name)(mx.tril(a) + 2 * mx.triu(a), upper=flag, stream=mx.cpu), POSITIVE)
    check(lambda mx, a: getattr(mx.linalg, name)(a, 1), POSITIVE)


@pytest.mark.parametrize("uplo", ["L", "U", "l", "X", "LX", ""])
@pytest.mark.parametrize("a", [SQUARE, COMPLEX + COMPLEX.conj().T], ids=["real", "complex"])
def test_eigh(uplo, a):
    check(lambda mx, a: mx.linalg.eigh(a, uplo, stream=mx.cpu), a, tol=LOOSE)
    check(lambda mx, a: mx.linalg.eigvalsh(a, UPLO=uplo, stream=mx.cpu), a)


def test_eig():
    check(lambda mx, a: mx.linalg.eig(a, stream=mx.cpu), SQUARE)
    check(lambda mx, a: mx.linalg.eigvals(a, stream=mx.cpu), COMPLEX)
    triangular = np.array([[1, 2, 0], [0, 3, 1], [0, 0, -4]], np.float32)
    check(lambda mx, a: str(mx.linalg.eig(a, stream=mx.cpu)), triangular)  # also compares the order of zeros
    w, v = ours.linalg.eig(ours.array(COMPLEX))
    np.testing.assert_allclose(COMPLEX @ np.array(v), np.array(v) * np.array(w), atol=1e-5)


def test_svd():
    check(lambda mx, a: mx.linalg.svd(a, compute_uv=False, stream=mx.cpu), WIDE)
    check(lambda mx, a: mx.linalg.svd(a, 0), WIDE)
    check(lambda mx, a: mx.linalg.svd(a, stream=mx.cpu), COMPLEX)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (2, 3, 1)), ((2, 3, 3), (1, 3, 2)),
        ((3, 3), (2,)), ((3, 3), (2, 2)), ((3, 3), ()), ((2, 3), (3,)), ((3,), (3,)), ((2, 3, 3), (2,)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["solve", "solve_triangular"])
def test_systems(name, left, right):
    a, b = RNG.randn(*left).astype("f") + 3 * np.eye(*left[-2:], dtype="f"), RNG.randn(*right)
    check(lambda mx, a, b: getattr(mx.linalg, name)(a, b, stream=mx.cpu), a, np.asarray(b, "f"), tol=LOOSE)


def test_systems_broadcast():
    check(lambda mx, a, b: mx.linalg.solve_triangular(a, b, stream=mx.cpu), POSITIVE, SQUARE, tol=LOOSE)
    check(lambda mx, a, b: mx.linalg.solve_triangular(a, b, upper=True, stream=mx.cpu), POSITIVE, SQUARE[0], tol=LOOSE)
    got = ours.linalg.solve(ours.array(POSITIVE), ours.array(SQUARE))  # real MLX cannot broadcast these
    np.testing.assert_allclose(POSITIVE @ np.array(got), np.broadcast_to(SQUARE, (2, 3, 3)), atol=1e-4)
    with pytest.raises(ValueError, match=r"\[broadcast_shapes\] Shapes \(2\) and \(5\)"):
        ours.linalg.solve(ours.array(POSITIVE), ours.ones((5, 3, 1)))


@pytest.mark.parametrize("left", ["float32", "float64", "float16", "int32", "complex64"])
@pytest.mark.parametrize("right", ["float32", "float64", "float16", "int32", "complex64"])
def test_systems_promote(left, right):
    for name in ("solve", "solve_triangular"):
        check(
            lambda mx, a, b, name=name: getattr(mx.linalg, name)(
                a.astype(getattr(mx, left)), b.astype(getattr(mx, right)), stream=mx.cpu
            ),
            POSITIVE[0], SQUARE[0], tol=LOOSE,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "axis"),
    [
        ((3,), (3,), -1), ((2,), (2,), -1), ((2,), (3,), -1), ((4,), (4,), -1), ((2, 3), (3,), -1), ((3, 2), (3, 2), 0),
        ((3, 2), (3,), 0), ((2, 3), (2, 3), 5), ((), (), -1), ((1, 3), (4, 3), 1), ((3, 5), (2, 5), 0),
        ((2, 4), (2, 4), 0),
        ((5, 3), (4, 3), -1), ((2, 3), (3, 2), 1), ((4, 3), (3,), 1), ((2, 3, 4), (3, 4), -2), ((3,), (3, 1), 0),
    ],
)  # fmt: skip
def test_cross(left, right, axis):
    check(lambda mx, a, b: mx.linalg.cross(a, b, axis), *(np.asarray(RNG.randn(*s), "f") for s in (left, right)))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_cross_of_different_ranks(axis):
    """Compare cross products of different ranks: a positive axis differs between operands, and size 2 is padded."""
    shapes = ((3,), (2,), (2, 3), (3, 2), (3, 3), (2, 2), (2, 3, 2), (1, 3), (3, 1), (2, 3, 3), (3, 2, 3), (0, 3), ())
    for left in shapes:
        for right in shapes:
            a, b = (np.arange(np.prod(s), dtype="f").reshape(s) for s in (left, right))
            check(lambda mx, a, b: mx.linalg.cross(a, b, axis), a, b)


def test_cross_dtypes():
    check(lambda mx: mx.linalg.cross(mx.array([1, 2]).astype(mx.int8), mx.array([3, 4]).astype(mx.uint8)))
    check(lambda mx: mx.linalg.cross(mx.array([True, True, False]), mx.array([False, True, True])))
    check(lambda mx: mx.linalg.cross(mx.array([1, 2, 3]), b=mx.array([1.0, 0, 3]), axis=0))


def test_lu_reads_as_documented():
    p, lower, upper = ours.linalg.lu(ours.array(BATCH))
    p, lower, upper = (np.array(x) for x in (p, lower, upper))
    np.testing.assert_allclose(np.take_along_axis(lower, p[..., None].astype(int), -2) @ upper, BATCH, atol=1e-5)


@pytest.mark.parametrize("in_numpy", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 5)], ids=str)
def test_lu_of_what_is_not_finite(monkeypatch, shape, in_numpy):
    """Compare LU with NaN. MLX's LAPACK takes it for a column's largest number only in the first place."""
    monkeypatch.setattr(policy, "HOST", in_numpy)
    random = np.random.RandomState(0)
    for bad in (np.nan, np.inf, -np.inf):
        for place in np.ndindex(shape[-2:]) if in_numpy else ((0, 0), (1, 0), (2, 0), (1, 1), (0, 2)):
            a = random.randn(*shape).astype(np.float32)
            a[(..., *place) if len(shape) < 3 else (1, *place)] = bad
            check(lambda mx, a: mx.linalg.lu(a, stream=mx.cpu), a, tol=LOOSE)
            check(lambda mx, a: mx.linalg.lu_factor(a, stream=mx.cpu), a, tol=LOOSE)


def test_singular_matrices():
    check(lambda mx: mx.linalg.pinv(mx.ones((2, 2)), stream=mx.cpu))
    check(lambda mx: mx.linalg.pinv(mx.zeros((2, 2)), stream=mx.cpu))
    check(lambda mx: mx.linalg.pinv(mx.diag(mx.array([1.0, 2e-6])), stream=mx.cpu))
    # tolerance for values of 1e5
    check(lambda mx: mx.linalg.pinv(mx.diag(mx.array([1.0, 1e-5])), stream=mx.cpu), tol=1e-2)
    check(lambda mx: mx.linalg.det(mx.ones((2, 2)), stream=mx.cpu))
    check(lambda mx: mx.linalg.slogdet(mx.zeros((4, 4)), stream=mx.cpu))
    check(lambda mx: mx.linalg.slogdet(mx.array([[0, 1.0], [1, 0]]), stream=mx.cpu))


@pytest.mark.parametrize("in_numpy", [True, False])
@pytest.mark.parametrize("place", [(0, 0), (1, 1), (2, 0), (0, 2)])
def test_a_nan_is_not_lost(monkeypatch, place, in_numpy):
    """Assert that NaN persists. OpenBLAS does not divide by a NaN pivot, and its output looked like a solution."""
    monkeypatch.setattr(policy, "HOST", in_numpy)
    a, b = BATCH.copy(), BATCH[0, :, :2]
    a[0][place] = np.nan
    check(lambda mx, a: mx.linalg.inv(a, stream=mx.cpu), a, tol=LOOSE)
    check(lambda mx, a, b: mx.linalg.solve(a, mx.broadcast_to(b, (2, 3, 2)), stream=mx.cpu), a, b, tol=LOOSE)
    check(lambda mx, a, b: mx.linalg.solve_triangular(a[0], b, stream=mx.cpu), a, b, tol=LOOSE)
    check(lambda mx, a: mx.triu(mx.linalg.tri_inv(a[0], stream=mx.cpu), 1), a)
    assert np.isnan(np.array(ours.grad(lambda a: ours.linalg.inv(a).sum())(ours.array(a)))[0]).all()


def test_gradients_that_real_mlx_has():
    for order in (None, 0, 1, 2, 3, INFINITY, -INFINITY):
        check(lambda mx, order=order: mx.grad(lambda x: mx.linalg.norm(x, order))(mx.array([0.0, 2.0, -2.0])))
    check(lambda mx: mx.grad(mx.linalg.norm)(mx.array([1 + 2j])))
    check(lambda mx, a: mx.grad(mx.linalg.det)(a), SQUARE)
    check(lambda mx, a: mx.jvp(lambda a: mx.linalg.slogdet(a)[1], [a], [a * a]), SQUARE)
    check(lambda mx, a: mx.grad(mx.linalg.det)(a), np.array([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], "f"))
    check(lambda mx, a, b: mx.grad(lambda a, b: mx.linalg.cross(a, b).sum(), argnums=(0, 1))(a, b), SQUARE, BATCH)


def weighted(mx, out):
    """Return a number that depends on every entry of a result, smoothly."""
    total = mx.array(0.0, dtype=mx.float64)
    for k, x in enumerate(out if isinstance(out, tuple) else (out,)):
        if x.dtype == mx.uint32:
            continue
        parts = (mx.real(x), mx.imag(x)) if x.dtype == mx.complex64 else (x,)
        for part in parts:
            weights = mx.cos(1.7 * mx.arange(part.size) + k).reshape(part.shape)
            total = total + (part * weights).sum() + 0.1 * (part * part * part).sum()
    return total


SMOOTH = {
    "norm": lambda L, a: L.norm(a), "norm of order 3": lambda L, a: L.norm(a, 3, axis=0),
    "norm of order 1": lambda L, a: L.norm(a, 1), "nuclear norm": lambda L, a: L.norm(a, "nuc"),
    "norm of order -2": lambda L, a: L.norm(a, -2), "inv": lambda L, a: L.inv(a), "tri_inv": lambda L, a: L.tri_inv(a),
    "upper tri_inv": lambda L, a: L.tri_inv(a, True), "cholesky_inv": lambda L, a: L.cholesky_inv(a),
    "pinv": lambda L, a: L.pinv(a), "wide pinv": lambda L, a: L.pinv(a[:2]), "lu": lambda L, a: L.lu(a),
    "solve": lambda L, a: L.solve(a, a[0]), "solve_triangular": lambda L, a: L.solve_triangular(a, a.T),
    "det": lambda L, a: L.det(a),
    "slogdet": lambda L, a: L.slogdet(a), "tall lu": lambda L, a: L.lu(a[:, :2]), "wide lu": lambda L, a: L.lu(a[:2]),
    "lu_factor": lambda L, a: L.lu_factor(a), "qr": lambda L, a: L.qr(a), "tall qr": lambda L, a: L.qr(a[:, :2]),
    "wide qr": lambda L, a: L.qr(a[:2]), "svd": lambda L, a: L.svd(a), "tall svd": lambda L, a: L.svd(a[:, :2]),
    "wide svd": lambda L, a: L.svd(a[:2]), "values of svd": lambda L, a: L.svd(a, False),
    "cross": lambda L, a: L.cross(a, a[::-1]), "cholesky": lambda L, a: L.cholesky(a @ a.T),
    "upper cholesky": lambda L, a: L.cholesky(a @ a.T, True), "eigh": lambda L, a: L.eigh(a + a.T),
    "upper eigh": lambda L, a: L.eigh(a + a.T, "U"), "eigvalsh": lambda L, a: L.eigvalsh(a + a.T),
}  # fmt: skip


@pytest.mark.parametrize("case", SMOOTH)
def test_derivatives(case):
    mx = ours
    a = (SQUARE + 2 * np.eye(3)).astype(np.float64)
    direction = RNG.randn(3, 3)
    full = "full" if "tall svd" in case or "wide svd" in case else ""

    def function(x):
        out = SMOOTH[case](mx.linalg, x)
        if full:  # vectors beyond the rank are an arbitrary basis; only their span has a derivative
            u, s, vt = out
            wide, k = (vt.T, u) if vt.shape[0] > u.shape[0] else (u, vt.T)
            out = (s, k, wide[:, :2], wide[:, 2:] @ wide[:, 2:].T)
        return weighted(mx, out)

    step = 1e-6
    ahead, behind = (float(function(mx.array(a + s * direction, dtype=mx.float64))) for s in (step, -step))
    expected = (ahead - behind) / (2 * step)
    x, t = mx.array(a, dtype=mx.float64), mx.array(direction, dtype=mx.float64)
    backward = float((mx.grad(function)(x) * t).sum())
    forward = float(mx.jvp(function, [x], [t])[1][0])
    np.testing.assert_allclose([backward, forward], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_derivatives_of_eigenvalues(name):
    """Compare derivatives of eigenvalues in single precision, with a large step and tolerance."""
    mx = ours
    a = np.array([[1.0, 2.0, 0.1], [-1.5, 0.5, 0.3], [0.4, -0.2, 3.0]])
    direction = RNG.randn(3, 3)

    def function(x):
        return weighted(mx, getattr(mx.linalg, name)(x))

    step = 3e-3
    ahead, behind = (float(function(mx.array(a + s * direction, dtype=mx.float64))) for s in (step, -step))
    x, t = mx.array(a, dtype=mx.float64), mx.array(direction, dtype=mx.float64)
    backward = float((mx.grad(function)(x) * t).sum())
    forward = float(mx.jvp(function, [x], [t])[1][0])
    np.testing.assert_allclose([backward, forward], (ahead - behind) / (2 * step), rtol=1e-3)


@pytest.mark.parametrize("name", ["eigh", "svd", "cholesky"])
def test_derivatives_of_complex_and_symmetric(name):
    mx = ours
    if name == "cholesky":
        got = np.array(mx.grad(lambda a: 2 * mx.log(mx.diagonal(mx.linalg.cholesky(a))).sum())(mx.array(POSITIVE[0])))
        np.testing.assert_allclose(got, np.linalg.inv(POSITIVE[0]), rtol=1e-3, atol=1e-4)
        return

    def function(z):
        if name == "svd":
            u, s, vt = mx.linalg.svd(z)
            return s[0] + mx.square(mx.abs((u[:, 0] * mx.array([1.0, 2j, 0.5])).sum() * vt[0, 0])).sum()
        w, v = mx.linalg.eigh(z + mx.conj(z).T)
        return w[0] * w[0] + mx.abs((v[:, 1] * mx.array([1.0, 2j, 0.5])).sum())

    direction = (RNG.randn(3, 3) + 1j * RNG.randn(3, 3)).astype("F")
    step = 1e-2
    ahead, behind = (float(function(mx.array(COMPLEX + np.complex64(s) * direction))) for s in (step, -step))
    gradient = np.array(mx.grad(function)(mx.array(COMPLEX)))
    forward = float(mx.jvp(function, [mx.array(COMPLEX)], [mx.array(direction)])[1][0])
    expected = (ahead - behind) / (2 * step)
    np.testing.assert_allclose((gradient.conj() * direction).real.sum(), expected, rtol=1e-2)
    np.testing.assert_allclose(forward, expected, rtol=1e-2)


def test_equal_eigenvalues_have_a_gradient():
    """Assert a finite gradient at equal eigenvalues, for a function that does not distinguish them."""
    mx = ours

    def root(a):
        w, v = mx.linalg.eigh(a)
        return ((v * mx.sqrt(w)) @ v.T).sum()

    np.testing.assert_allclose(np.array(mx.grad(root)(4 * mx.eye(3))), np.full((3, 3), 0.25) * np.eye(3), atol=1e-6)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("norm", "cross", "eig")])
def test_vmap(name):
    mx = ours
    a = mx.array(POSITIVE)
    want = call(mx, name, a)
    got = mx.vmap(lambda a: call(mx, name, a), in_axes=2)(mx.moveaxis(a, 0, 2))
    for g, w in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(np.array(g), np.array(w), atol=1e-4)


def test_second_derivative():
    mx = ours
    x = mx.array(2.0)
    assert float(mx.grad(mx.grad(lambda t: mx.linalg.inv(t * mx.eye(2)).sum()))(x)) == pytest.approx(0.5, rel=1e-5)
    got = mx.grad(mx.grad(lambda t: mx.linalg.eigh(mx.array([[1.0, 0], [0, -1.0]]) + t * (1 - mx.eye(2)))[0][1]))(x)
    assert float(got) == pytest.approx(5**-1.5, rel=1e-4)


@pytest.mark.parametrize("order", [np.inf, -np.inf, 1, -1])
def test_the_tangent_of_a_norm_is_that_of_the_first_of_equal_ones(order: float) -> None:
    x, t = np.array([[2.0, 2.0, 1.0], [-1.0, 3.0, 1.0]], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3) ** 2
    for axis in (None, 1, [1, 0]):
        check(lambda mx, x, t: mx.jvp(lambda x: mx.linalg.norm(x, order, axis), [x], [t]), x, t)  # noqa: B023
        check(lambda mx, x: mx.grad(lambda x: mx.linalg.norm(x, order, axis).sum())(x), x)  # noqa: B023


def counted(threads):
    """Return a function of an array that notes how many threads BLAS has when it is computed."""
    from threadpoolctl import threadpool_info

    def note(a):
        threads.append({lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"})
        return a

    return mxcompat.ext.host_callback(note, lambda a: a)


@pytest.mark.parametrize("nested", [False, True])
def test_factorizations_have_one_thread(nested):
    """Assert that factorizations run in one thread: XLA's threads wait for each other on a busy machine."""
    from threadpoolctl import threadpool_limits

    threads = []
    note = counted(threads)

    def function(a):
        return ours.linalg.eigvalsh(note(a), stream=ours.cpu)

    with threadpool_limits(2, "blas"), mxcompat.ext.debug.host_disabled():
        ours.eval(ours.compile(lambda a: note(a) @ a)(ours.array(POSITIVE)))
        ours.eval(ours.compile(ours.vmap(function) if nested else function)(ours.array(POSITIVE)))
        ours.eval(ours.compile(lambda a: note(a) @ a)(ours.array(POSITIVE) + 1))
    assert threads[0] == threads[-1] == {2}
    assert len(threads) > 2
    assert all(counts == {1} for counts in threads[1:-1])


def test_the_last_thread_in_gives_blas_its_threads_back():
    from threadpoolctl import threadpool_info, threadpool_limits

    from mxcompat._graph.run.blas import one_thread

    def counts():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert counts() == {1}
        second.__exit__(None, None, None)
        assert counts() == {2}
