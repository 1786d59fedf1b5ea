"""Errors of linear algebra that depend on values: both tiers raise MLX's."""

import pickle
import subprocess
import sys
from functools import cache

import jax
import numpy as np
import pytest

from mxcompat import ext
from tests.failing_worker import CALLS, CASES, NAN, SPECTRAL, outcome
from tests.oracle import check, ours, run

ONES = np.ones((2, 2), "f")
REGULAR = np.array([[2, 1], [1, 3]], "f")
LU = r"\[Inverse::eval_cpu\] LU factorization failed with error code 2"


@cache
def real(path):
    """Return real MLX's outcome of each case."""
    subprocess.run([sys.executable, "-m", "tests.failing_worker", path], check=True)
    return pickle.loads(path.read_bytes())


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    return real(tmp_path_factory.mktemp("failing") / "real")


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("case", CASES)
def test_as_real_mlx(case, expected):
    want, got = expected[case], outcome(ours, case)
    if isinstance(want, tuple) or isinstance(got, tuple):
        assert got == want
        return
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)
        assert g.dtype == w.dtype


def test_the_cases_are_both(expected):
    """Assert that the cases include errors and results. Singular integer matrices depend on rounding, so only some
    are named."""
    refused = {case for case, result in expected.items() if isinstance(result, tuple)}
    assert {"inv: one to nine f", "solve: one to nine f", "tri_inv: zeros d", "vmap", "svd: (2, 2) F"} <= refused
    assert not refused & {"beside", "beside, in a state", "beside a gradient", "inv: nearly singular f", "inv: NaN"}
    assert not refused & {"tri_inv: equal rows f", "frobenius: (2, 2) f"}


@pytest.mark.usefixtures("tier")
def test_derivatives():
    """Test derivatives, which real MLX lacks for these functions."""
    for name, call in {**CALLS, "svd": SPECTRAL["singular values"]}.items():
        a = np.array([[NAN, 1], [1, 1]], "f") if name == "svd" else np.zeros((2, 2), "f")
        for derivative in (
            lambda mx, a, call=call: mx.grad(lambda a: call(mx, a).sum())(a),
            lambda mx, a, call=call: mx.jvp(lambda a: call(mx, a), [a], [a]),
        ):
            assert isinstance(run(ours, derivative, [a]), RuntimeError), name


def scanned(a, xs):
    return ext.scan(lambda c, x: (c + ours.linalg.inv(x), c.sum()), a, xs)


BODIES = {
    "scan": lambda a: scanned(a, ours.stack([ours.eye(2), a])),
    "vmap of scan": lambda a: ours.vmap(scanned)(ours.stack([a, a]), ours.stack([ours.stack([ours.eye(2), a])] * 2)),
    "while_loop": lambda a: ext.while_loop(lambda c: c.max() < 9, lambda c: 3 * c + ours.linalg.inv(a), a),
    "fori_loop": lambda a: ext.fori_loop(1, 3, lambda k, c: c + ours.linalg.inv(a * k), a),
    "cond": lambda a: ext.cond(a[0, 0] > 0, ours.linalg.inv, lambda a: a, a),
    "gradient of a rule": lambda a: ours.grad(lambda x: ruled(x, a).sum())(a),
    "forward derivative": lambda a: ours.jvp(lambda x: ruled(x, a), [a], [a])[1],
}


@ours.custom_function
def ruled(x, a):
    return x @ ours.linalg.inv(a)


@ruled.vjp
def _(primals, cotangent, output):
    return cotangent, cotangent


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", BODIES)
def test_bodies(name):
    """Assert that failures within loops, branches and functions with custom rules are reported."""
    ours.eval(BODIES[name](ours.array(REGULAR)))
    with pytest.raises(RuntimeError, match="LU factorization failed with error code"):
        ours.eval(BODIES[name](ours.array(ONES)))


@pytest.mark.usefixtures("xla_only")
def test_a_branch_that_is_not_taken():
    a = ours.array(ONES)
    assert ext.cond(a[0, 0] < 0, ours.linalg.inv, lambda a: a, a).tolist() == ONES.tolist()
    assert ext.scan(lambda c, x: (ours.linalg.inv(c), x), a, ours.zeros((0,)))[0].tolist() == ONES.tolist()


@pytest.mark.usefixtures("tier")
def test_other_results_survive():
    a = ours.array(ONES)
    inverse, other = ours.linalg.inv(a), a + 1
    with pytest.raises(RuntimeError, match=LU):
        ours.eval(other, inverse)
    assert other.tolist() == [[2, 2], [2, 2]]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=LU):
            inverse.tolist()


@pytest.mark.usefixtures("tier")
def test_what_was_to_be_written_over_is_kept():
    x = ours.ones((256, 256)) * 3
    ours.eval(x)
    x[:2, :2] = ours.linalg.inv(x[:2, :2])
    with pytest.raises(RuntimeError, match=LU):
        ours.eval(x)
    with pytest.raises(RuntimeError, match=LU):
        x.tolist()  # its old value is still available
    y = ours.ones((256, 256)) * 3
    ours.eval(y)
    y[:2, :2] = ours.linalg.inv(y[:2, :2] * ours.eye(2))
    np.testing.assert_allclose(np.array(y)[:3, :3], [[1 / 3, 0, 3], [0, 1 / 3, 3], [3, 3, 3]], rtol=1e-6)


def place(x):
    return np.array(x, copy=False).__array_interface__["data"][0]


@pytest.mark.parametrize("mode", [ext.debug.host_disabled, ext.reproducible])
def test_what_does_not_fail_is_written_over(mode):
    with mode():
        x = ours.ones((512, 512)) * 3
        ours.eval(x)
        for k in range(4):
            before = place(x)
            x[k : k + 2, :2] = ours.linalg.inv(ours.eye(2) * (k + 1))
            ours.eval(x)
            assert place(x) == before
        assert x[:6, 0].tolist() == [1, 0.5, pytest.approx(1 / 3), 0.25, 0, 3]


@pytest.mark.usefixtures("tier")
def test_a_state_outlives_what_fails_beside_it():
    state = [ours.random.key(1), ours.zeros(2)]

    def step(a):
        state[0], key = ours.random.split(state[0])
        state[1] = state[1] + ours.random.uniform(key=key)
        return ours.linalg.inv(a), state[1].sum()

    compiled = ours.compile(step, inputs=state, outputs=state)
    for k in range(6):
        inverse, total = compiled(ours.array(ONES if k % 2 else REGULAR))
        if k % 2:
            with pytest.raises(RuntimeError, match=LU):
                ours.eval(inverse, state)
        else:
            np.testing.assert_allclose(np.array(inverse), np.linalg.inv(REGULAR), rtol=1e-5)
        assert total.item() == sum(state[1].tolist())
    keys, expected = ours.random.key(1), 0.0
    for _ in range(6):
        keys, key = ours.random.split(keys)
        expected += ours.random.uniform(key=key).item()
    np.testing.assert_allclose(state[1].tolist(), [expected, expected], rtol=1e-6)


@pytest.mark.usefixtures("xla_only")
def test_one_executable_for_what_fails_and_what_does_not():
    def inverse(a):
        return ours.linalg.inv(ours.array(a) + 0)

    for _ in range(2):
        ours.eval(inverse(np.eye(5, dtype="f")))
    before = ext.debug.compiles()
    with pytest.raises(RuntimeError, match="code 1"):
        ours.eval(inverse(np.zeros((5, 5), "f")))
    assert np.array(inverse(2 * np.eye(5, dtype="f")))[0, 0] == 0.5
    assert ext.debug.compiles() == before


def test_reproducible():
    with ext.reproducible(), pytest.raises(RuntimeError, match=LU):
        ours.eval(ours.linalg.inv(ours.array(ONES)))


def test_exported(tmp_path):
    path = str(tmp_path / "inverse.mlxfn")
    ours.export_function(path, lambda a: ours.linalg.inv(a), ours.eye(2))
    imported = ours.import_function(path)
    assert imported(ours.eye(2) * 2)[0].tolist() == [[0.5, 0], [0, 0.5]]
    with pytest.raises(RuntimeError, match=LU):
        ours.eval(imported(ours.array(ONES)))


def test_in_jax_it_is_infinite():
    """Assert infinite results under `jax.jit`, where no error can be raised."""

    @jax.jit
    def inverse(a):
        return ext.to_jax(ours.linalg.inv(ext.from_jax(a)))

    assert not np.isfinite(inverse(ONES)).any()


def test_signs_of_determinants_that_are_nan():
    for size in (1, 2, 3, 4, 5):
        a = np.eye(size, dtype="f") + 1
        a[0, -1] = NAN
        check(lambda mx, a: mx.linalg.slogdet(a, stream=mx.cpu), a)
