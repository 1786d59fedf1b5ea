"""Check the claims of docs/differences.md on both libraries, so that outdated claims are removed from the page.

Claims about compilation, memory, processes and files that have tests of their own (test_compile, test_disk_cache,
test_reproducible, test_memory, test_distributed, test_dropin, test_export) are not repeated.
"""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import mlx.nn as real_nn
import mlx.optimizers as real_optimizers
import mlx.utils as real_utils
import numpy as np
import pytest

import mxcompat.nn as our_nn
import mxcompat.optimizers as our_optimizers
import mxcompat.utils as our_utils
from mxcompat._array.construct import exports
from mxcompat.ext.debug import host_disabled
from tests.oracle import ours, real, run, to_numpy

NAN, INF = float("nan"), float("inf")
NN = {real: real_nn, ours: our_nn}
UTILS = {real: real_utils, ours: our_utils}


def both(fn: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Return the results or exceptions of real MLX and mxcompat, with arrays as lists of Python numbers."""
    return tuple(_plain(run(mx, fn)) for mx in (real, ours))  # type: ignore[return-value]


def _plain(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_plain(e) for e in x]
    return x.tolist() if hasattr(x, "tolist") else x


def _with_rows(mx: Any, rows: Any) -> Any:
    x = mx.zeros((1, 4, 3))
    x[:, mx.array([0, 2]), :] = rows
    return x


WORKS_HERE = {
    "inv": lambda mx: mx.grad(lambda x: mx.linalg.inv(x, stream=mx.cpu).sum())(mx.eye(2)),
    "svd": lambda mx: mx.grad(lambda x: mx.linalg.svd(x, compute_uv=False, stream=mx.cpu).sum())(mx.eye(2) * 3),
    "conv": lambda mx: mx.jvp(lambda x: mx.conv1d(x, mx.ones((1, 2, 1))), [mx.ones((1, 3, 1))], [mx.ones((1, 3, 1))]),
    "cov": lambda mx: mx.grad(
        lambda c: mx.random.multivariate_normal(mx.zeros(2), c, key=mx.random.key(0), stream=mx.cpu).sum()
    )(mx.eye(2)),
    "checkpoint": lambda mx: mx.jvp(mx.grad(mx.checkpoint(lambda x: mx.sin(x).sum())), [mx.ones(1)], [mx.ones(1)]),
    "checkpointed lookup": lambda mx: mx.grad(mx.checkpoint(lambda w, i: w[i].sum()))(mx.ones(2), mx.array([0])),
    "scales": lambda mx: mx.jvp(
        lambda s: mx.quantized_matmul(mx.ones((1, 64)), mx.zeros((32, 8), mx.uint32), s, mx.zeros((32, 1))),
        [mx.ones((32, 1))], [mx.ones((32, 1))],
    ),
    "rows": lambda mx: mx.grad(lambda v: _with_rows(mx, v).sum())(mx.ones((1, 2, 3))),
    "conv3d": lambda mx: mx.conv3d(mx.ones((1, 2, 2, 2, 2)), mx.ones((2, 1, 1, 1, 1)), groups=2),
    "conv_transpose3d": lambda mx: mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 2)), mx.ones((2, 1, 1, 1, 1)), groups=2),
    "gather_mm": lambda mx: mx.gather_mm(*[mx.ones((2, 2, 2), mx.float16)] * 2, mx.array([0]), mx.array([1])),
    "solve": lambda mx: mx.linalg.solve(mx.eye(2), mx.ones((3, 2, 1)), stream=mx.cpu),
    "any block": lambda mx: mx.block_masked_mm(mx.ones((8, 8)), mx.ones((8, 8)), 4, mx.eye(2)),
    "gather_qqmm": lambda mx: mx.gather_qqmm(mx.ones((1, 64)), mx.ones((8, 64)), mode="mxfp8"),
    "shapeless": lambda mx: mx.compile(lambda x: mx.split(x, 2), shapeless=True)(mx.ones(4)),
    "uint64": lambda mx: mx.array([1], mx.uint64) + (2**64 - 1),
    "tuples after lists": lambda mx: mx.array([[1, 2], (3, 4)]),
    "1 & x": lambda mx: 1 & mx.array([3]),
    "pickled dtype": lambda mx: pickle.loads(pickle.dumps(mx.float32)),
    "copied dtype": lambda mx: copy.deepcopy(mx.float32),
    "compared dtype": lambda mx: mx.float32 == None,  # noqa: E711
    "random state": lambda mx: mx.random.state.__setitem__(0, mx.random.state[0]),
    "flat random state": lambda mx: UTILS[mx].tree_flatten(mx.random.state)[0][1].shape,
    "api version": lambda mx: mx.ones(1).__array_namespace__(api_version="2023.12"),
}  # fmt: skip


@pytest.mark.parametrize("name", WORKS_HERE)
def test_works_here(name: str) -> None:
    assert isinstance(run(real, WORKS_HERE[name]), Exception)
    assert not isinstance(run(ours, WORKS_HERE[name]), Exception)


def test_float64() -> None:
    x = np.array([1, 2, 4])
    third = 1 / 3
    want, got = both(lambda mx: mx.conv1d(*[mx.full((1, 1, 1), third, mx.float64)] * 2).item())
    assert got == third * third != want
    want, got = both(lambda mx: mx.fast.layer_norm(mx.array(x, mx.float64), None, None, 1e-5))
    exact = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    assert abs(got - exact).max() < 1e-12 < abs(want - exact).max()
    want, got = both(lambda mx: str(pickle.loads(pickle.dumps(mx.array(1.0, mx.float64))).dtype))
    assert (want, got) == ("mlx.core.float32", "mlx.core.float64")


def test_qqmm() -> None:
    def fn(mx):
        q = mx.quantize(mx.arange(32 * 64.0).reshape(32, 64), mode="nvfp4")
        scaled = mx.qqmm(mx.ones((1, 64)), *q, mode="nvfp4", global_scale_x=mx.array(5.0), global_scale_w=mx.array(3.0))
        return [mx.qqmm(mx.ones((1, 64)), *q, mode="nvfp4"), scaled]

    want, got = both(fn)
    assert want[0] == want[1]
    assert got[0] == want[0]
    assert got[1] != got[0]


def test_threads() -> None:
    def fn(mx):
        x, outcomes = mx.ones(3) + 1, []
        thread = threading.Thread(target=lambda: outcomes.append(run(mx, lambda mx: x.tolist())))
        thread.start()
        thread.join()
        return outcomes[0]

    want, got = both(fn)
    assert isinstance(want, RuntimeError)
    assert got == [2.0] * 3


def test_failing_updates() -> None:
    def fn(mx):
        nn = NN[mx]
        kept = []
        for update in ("update", "update_modules"):
            net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            layer, weight = net.layers[0], net.layers[0].weight
            value = [{"weight": mx.ones((2, 2))}, {"no": mx.ones(1)}] if update == "update" else [nn.Linear(3, 3), 3]
            with pytest.raises(ValueError):
                getattr(net, update)({"layers": value})
            kept.append(net.layers[0] is layer and layer.weight is weight)
        return kept

    assert both(fn) == ([False, False], [True, True])


def test_failing_optimizers() -> None:
    def fn(mx):
        optimizer = (our_optimizers if mx is ours else real_optimizers).Adam(0.1)
        parameters = {"a": mx.ones(2), "b": mx.ones(2)}
        optimizer.init(parameters)
        del optimizer.state["b"]["m"]
        with pytest.raises(KeyError):
            optimizer.apply_gradients(parameters, parameters)
        return optimizer.state["a"]["v"].sum().item() == 0

    assert both(fn) == (False, True)


@pytest.mark.usefixtures("xla_only")
def test_compiled_values() -> None:
    assert both(lambda mx: mx.array([2e-38]) * 0.5 > 0) == ([True], [False])
    assert [str(n) for n in both(lambda mx: mx.sort(mx.array([0.0, -0.0])))] == ["[0.0, -0.0]", "[-0.0, 0.0]"]
    want, got = both(lambda mx: mx.jvp(lambda x: mx.sqrt(mx.ceil(x)), [mx.array(0.0)], [mx.array(1.0)])[1][0])
    assert np.isnan(want)
    assert got == 0


def test_values_in_numpy_are_as_in_mlx() -> None:
    want, got = both(lambda mx: [mx.array([2e-38]) * 0.5 > 0, mx.log2(mx.array([2.0**k for k in range(-99, 99)]))])
    assert want == got
    assert [str(n) for n in both(lambda mx: mx.sort(mx.array([0.0, -0.0])))] == ["[0.0, -0.0]"] * 2


def test_half_precision() -> None:
    assert both(lambda mx: mx.mean(mx.full((5000,), 60000, mx.float16))) == (INF, 60000)
    assert both(lambda mx: mx.var(mx.full((5000,), 60000, mx.float16))) == (INF, 0)
    want, got = both(lambda mx: mx.cumsum(mx.ones(5000, mx.bfloat16))[-1])
    assert want == 256
    assert got == 4992
    assert both(lambda mx: mx.arange(0, 300, 0.7, mx.bfloat16)[-1]) == (256, 300)
    want, got = both(lambda mx: mx.cummax(mx.array([1, NAN, 0.5], mx.float16)))
    assert want == [1, 0, 0.5]
    assert np.isnan(got[1:]).all()


def test_integers_that_do_not_wrap() -> None:
    assert both(lambda mx: mx.mean(mx.full((4,), 2**31 - 1, mx.int32))) == (-1, 2**31)
    want, got = both(lambda mx: mx.logsumexp(mx.array([[1, 2], [3, 0]], mx.uint16), axis=0))
    assert want == [INF, INF]
    assert np.isfinite(got).all()


def test_complex_powers_and_fp8() -> None:
    want, got = both(lambda mx: mx.array([0j, complex(NAN)]) ** 0)
    assert np.isnan(want).all()
    assert got == [1, 1]
    want, got = both(lambda mx: mx.array(complex(INF, NAN)) * mx.array(1j))
    assert (np.isinf(want), np.isinf(got)) == (True, False)
    with host_disabled():
        want, got = both(lambda mx: mx.array([0j]) ** -2)
    assert (np.isinf(want[0]), np.isinf(got[0])) == (True, False)
    want, got = both(lambda mx: mx.to_fp8(mx.array([1.5, -2], mx.float64)))
    assert want != got == both(lambda mx: mx.to_fp8(mx.array([1.5, -2])))[0]


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_strides_of_what_is_broadcast(tier) -> None:
    rows = np.broadcast_to(np.float32([1, 2, 3]), (4, 3))
    makers = (
        lambda mx: mx.broadcast_to(mx.array(rows[0]), (4, 3)),
        lambda mx: mx.array(rows),
        lambda mx: mx.array(memoryview(rows)),
    )
    seen = (lambda x: memoryview(x).strides, lambda x: np.asarray(x).strides, lambda x: np.from_dlpack(x).strides)
    with tier():
        for make in makers:
            for see in seen:
                assert [see(make(mx)) for mx in (real, ours)] == [(0, 4), (12, 4)]


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_complex_numbers_with_nan(tier) -> None:
    with tier():
        five, nan, three = 5, complex(1, NAN), 3
        for name, theirs in (("max", 3), ("argmax", 2)):
            want, got = both(lambda mx, name=name: getattr(mx, name)(mx.array([five, nan, three])))
            assert want == theirs
            assert np.isnan(got) if name == "max" else got == 1
        want, got = both(lambda mx: mx.cummax(mx.array([five, nan, three])))
        assert not np.isnan(want).any()
        np.testing.assert_array_equal(np.isnan(got), [False, True, True])
        want, got = both(lambda mx: mx.cummin(mx.array([five, complex(NAN, 1), three])))
        assert want == [5, 5, 3]
        np.testing.assert_array_equal(np.isnan(got), [False, True, True])
        far = complex(INF, 1)
        assert both(lambda mx: mx.isclose(mx.array(five), mx.array(far))) == (True, False)


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_ends_of_exp(tier) -> None:
    with tier():
        want, got = both(lambda mx: mx.exp(mx.array([87.99, 88.3, 88.72, 88.73])))
        assert want[1:] == [INF] * 3
        np.testing.assert_allclose(got, [*np.exp([87.99, 88.3, 88.72]), INF], rtol=1e-5)
        want, got = both(lambda mx: mx.exp(mx.array([88.3], mx.float64)))
        assert want == [INF]
        np.testing.assert_allclose(got, np.exp([88.3]), rtol=1e-5)
    want, got = both(lambda mx: mx.exp(mx.array([-88.0])))
    assert want == [0] != got


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_bytes_as_bools(tier) -> None:
    with tier():
        want, got = both(lambda mx: [mx.array([0, 1, 2, 95], mx.uint8).view(mx.bool_).view(mx.uint8).tolist(),
                                     mx.array([0, 1, 2, 95], mx.uint8).view(mx.bool_).sum()])  # fmt: skip
        assert want == [[0, 1, 2, 95], 98]
        assert got == [[0, 1, 1, 1], 3]


def test_nan_as_uint32() -> None:
    want, got = both(lambda mx: mx.full((9,), NAN).astype(mx.uint32))
    assert len(set(want)) == 2
    assert set(got) == {0}


ROW = np.random.RandomState(0).permutation(40).astype(np.float32)


def test_orders() -> None:
    want, got = both(lambda mx: mx.partition(mx.array([5, 3, 1, 4, 2, 0]), 2))
    assert want != got
    assert sorted(want[:3]) == sorted(got[:3])
    want, got = both(lambda mx: mx.topk(mx.array(np.stack([ROW, ROW[::-1]])), 3))
    assert want != got
    assert [sorted(row) for row in want] == got
    equal = ours.array([3.0, 1.0, 2.0, 5.0, 4.0, 1.0, 2.0])
    want, got = both(lambda mx: mx.grad(lambda x: mx.partition(x, 1).max())(mx.array(equal.tolist())))
    assert want == [0, 0, 0, 0, 0, 0, 1]
    assert got == [0, 0, 0, 1, 0, 0, 0]
    trees = {"b": 1, "a": 2, "zz": 5}, {"q": 1, "c": 4}
    assert list(our_utils.tree_merge(*trees)) == ["b", "a", "zz", "q", "c"]
    assert real_utils.tree_merge(*trees) == our_utils.tree_merge(*trees)


def test_names_of_a_file_keep_their_order(tmp_path) -> None:
    np.savez(tmp_path / "x.npz", z=1, b=2, a=3, kk=4, y=5)
    assert list(ours.load(str(tmp_path / "x.npz"))) == ["z", "b", "a", "kk", "y"]


def test_files_of_views(tmp_path) -> None:
    files = {real: tmp_path / "real.npy", ours: tmp_path / "ours.npy"}
    for mx, file in files.items():
        mx.save(str(file), mx.arange(6).reshape(2, 3).T)
    assert b"'fortran_order': True" in files[real].read_bytes()
    assert b"'fortran_order': False" in files[ours].read_bytes()
    assert np.array_equal(*map(np.load, files.values()))
    step = lambda mx: mx.save_gguf(str(tmp_path / "x"), {"x": mx.arange(10)[::2]})  # noqa: E731
    with pytest.raises(ValueError, match="row-major"):
        step(real)
    step(ours)
    assert ours.load(str(tmp_path / "x.gguf"))["x"].tolist() == [0, 2, 4, 6, 8]


def test_bfloat16_of_numpy() -> None:
    kind = np.dtype(to_numpy(ours.ones(1, ours.bfloat16)).dtype)
    want, got = both(lambda mx: mx.array([1.0]) + np.ones(1, kind))
    if exports(np.ones(1, kind)):
        assert want == [2]
    else:
        assert isinstance(want, ValueError)
    assert got == [2]
    assert both(lambda mx: str((mx.array([1.0]) + kind.type(1)).dtype)) == ("mlx.core.complex64", "mlx.core.float32")


def test_indices_out_of_bounds() -> None:
    x = ours.array([1, 2, 3])
    with pytest.raises(IndexError):
        x[5]
    assert x[[5]].tolist() == x[ours.array([5])].tolist() == [3]
    assert ours.take(x, ours.array([-9])).tolist() == [1]
    x[ours.array([5])] = 9
    assert x.tolist() == [1, 2, 3]
    assert ours.slice(ours.arange(5), ours.array([4]), (0,), (3,)).tolist() == [2, 3, 4]
    nothing = ours.zeros(3, ours.int32)
    assert ours.slice_update(ours.arange(5), nothing, ours.array([4]), (0,)).tolist() == [0, 1, 0, 0, 0]
    for shape, strides, offset, error in (
        ((3,), (1, 1), 0, ValueError),
        ((3,), (1,), 4, IndexError),
        ((3,), (-2,), 3, IndexError),
        ((3, 2), (2, 1), 0, IndexError),
        ((), (), 4, IndexError),
    ):
        with pytest.raises(error):
            ours.as_strided(ours.arange(4), shape, strides, offset)
    assert ours.as_strided(ours.arange(1, 5), (3,), (2,)).tolist() == [1, 3, 0]
    assert ours.as_strided(ours.arange(1, 5), (2, 3), (3, 1)).tolist() == [[1, 2, 3], [4, 0, 0]]
    with pytest.raises(IndexError):
        ours.as_strided(ours.zeros(0), (1,), (1,))
    want, got = both(lambda mx: mx.slice(mx.arange(5), mx.array([0]), (0,), (-3,)).shape)
    assert want == [-3]
    assert isinstance(got, ValueError)


def test_windows_that_reach_beyond_a_signal() -> None:
    """Compare windows beyond a signal's end, whose extra elements are multiplied by 0 as speech programs do.

    Real MLX gets a padded signal, because its derivative would write there.
    """

    def windows(mx, x):
        x = x if mx is ours else mx.pad(x, (0, 1))
        return mx.as_strided(x, (4, 5), (2, 1)) * mx.array([1.0, 2, 3, 0, 0])

    for transformed in (
        windows,
        lambda mx, x: mx.grad(lambda x: windows(mx, x).square().sum())(x),
        lambda mx, x: mx.compile(lambda x: windows(mx, x))(x),
        lambda mx, x: mx.jvp(lambda x: windows(mx, x), [x], [x * 2]),
    ):
        want, got = both(lambda mx, f=transformed: f(mx, mx.arange(10, dtype=mx.float32)))
        assert want == got
    rows = ours.vmap(lambda x: windows(ours, x))(ours.arange(20.0).reshape(2, 10))
    assert rows.tolist() == [windows(ours, x).tolist() for x in ours.arange(20.0).reshape(2, 10)]


def test_arrays_that_are_apart_before_a_slice() -> None:
    def written(mx: Any) -> list[int]:
        x, rows, columns = mx.zeros((2, 2, 2, 1), mx.int32), mx.array([0, 1]), mx.array([1, 0])
        x[rows, 0:2, columns, 0:1] = mx.array([[1], [2]])
        return x.reshape(-1).tolist()

    assert written(ours) == [0, 1, 0, 2, 1, 0, 2, 0]
    assert written(real) == [0, 1, 0, 1, 2, 0, 2, 0]


@pytest.mark.usefixtures("tier")
def test_nan_in_updates_and_products_left_out() -> None:
    def results(mx: Any) -> list[Any]:
        x, y = mx.array([1.0, 2.0]), mx.array([float("nan"), 5.0])
        infinite = mx.full((1, 1), float("inf"))
        product = mx.addmm(mx.full((1, 1), 2.0), infinite, mx.ones((1, 1)), alpha=0.0)
        return [x.at[mx.array([0, 0])].maximum(y).tolist(), product.item()]

    np.testing.assert_equal(results(ours), [[NAN, 2], NAN])
    assert results(real) == [[5, 2], 2]


def test_masks() -> None:
    def write(mx, x, index, value):
        x[index] = value
        return x

    few = lambda mx: write(mx, mx.zeros(3), mx.array([True] * 3), mx.ones(2))  # noqa: E731
    want, got = both(few)
    assert isinstance(want, RuntimeError)
    assert isinstance(got, RuntimeError)
    assert str(want) == str(got)
    want, got = both(lambda mx: mx.compile(lambda m: write(mx, mx.zeros(3), m, mx.ones(2)))(mx.array([True] * 3)))
    assert isinstance(want, RuntimeError)
    assert got == [1, 1, 1]
    for fn in (
        lambda mx: write(mx, mx.zeros((2, 3)), (slice(None), mx.array([True] * 3)), 1.0),
        lambda mx: mx.zeros(3).at[mx.array([True] * 3)].add(1.0),
    ):
        want, got = both(fn)
        assert isinstance(want, SystemError)
        assert isinstance(got, ValueError)


Z = 1 + 2j
WRONG = {
    "power": (lambda mx: _vjp(mx, lambda z: z**2, Z), 2 + 4j, 2 - 4j),
    "cumprod": (lambda mx: _vjp(mx, lambda z: mx.cumprod(mx.stack([z, z])), Z), 3 + 4j, 3 - 4j),
    "logcumsumexp": (
        lambda mx: _vjp(mx, lambda z: mx.logcumsumexp(mx.stack([z, z * 2])), Z),
        3.02142 + 0.403439j, 3.02142 - 0.403439j,
    ),
    "abs twice": (
        lambda mx: mx.jvp(mx.grad(mx.abs), [mx.array(Z)], [mx.array(1 + 0j)])[1][0], 0, (4 - 2j) / 5**1.5,
    ),
    "full": (lambda mx: mx.grad(lambda v: mx.full((3,), v).sum())(mx.array(5.0)), 15, 3),
    "addmm": (
        lambda mx: mx.jvp(lambda a: mx.addmm(a, a, a, alpha=2, beta=3), [mx.ones((1, 1))], [mx.ones((1, 1))])[1][0],
        [[3]], [[7]],
    ),
    "pad": (lambda mx: mx.grad(lambda v: mx.pad(mx.ones(3), 1, constant_values=v).sum())(mx.array(2.0)), None, 2),
    "conv_transpose": (
        lambda mx: mx.grad(lambda x: mx.conv_transpose1d(x, mx.ones((1, 2, 1)), 2, output_padding=1).sum())(
            mx.ones((1, 3, 1))
        ),
        [[[2], [2]]], [[[2], [2], [2]]],
    ),
    "a large divisor": (lambda mx: mx.grad(lambda y: 1e30 / y)(mx.array(1e20)), 0, -1e-10),
    "a small divisor": (lambda mx: mx.grad(lambda y: 1e-30 / y)(mx.array(1e-25)), -INF, -1e20),
    "a large divisor in float16": (lambda mx: mx.grad(lambda y: 900 / y)(mx.array(300.0, mx.float16)), 0, -0.010002136),
    "arcs in float16": (
        lambda mx: [
            mx.grad(f)(mx.array(300.0, mx.float16)).item() for f in (mx.arctan, mx.arcsinh, mx.arccosh)
        ] + [mx.grad(mx.arctan2)(*[mx.array(300.0, mx.float16)] * 2).item()],
        [0, 0, 0, 0], [1.1086464e-5, 0.003334045, 0.003334045, 0.001667023],
    ),
    "all": (lambda mx: mx.jvp(mx.all, [mx.array([2.0, 1.0])], [mx.ones(2)])[1][0], 3, 0),
    "any": (lambda mx: mx.jvp(mx.any, [mx.array([2.0, 3.0])], [mx.ones(2)])[1][0], 5, 0),
    "out_axes": (
        lambda mx: [y.shape for y in mx.vmap(lambda x: (x * 2,) * 2, out_axes=(1, 0))(mx.ones((2, 3)))],
        [[3, 2], [3, 2]], [[3, 2], [2, 3]],
    ),
    "vmap of a scatter": (
        lambda mx: mx.vmap(lambda x: x.at[0].add(1.0))(mx.zeros((2, 2))), [[1, 0], [0, 0]], [[1, 0], [1, 0]],
    ),
    "vmap of slice_update": (
        lambda mx: mx.vmap(mx.grad(lambda x, y: (mx.slice_update(x, y, mx.array([0]), (0,)) ** 2).sum()))(
            mx.ones((2, 2)), mx.ones((2, 1))
        ),
        [[0, 2], [2, 2]], [[0, 2], [0, 2]],
    ),
    "equal maxima": (
        lambda mx: mx.grad(lambda x: x.at[mx.array([0]), :].maximum(x[:1]).sum())(mx.arange(4.0).reshape(2, 2)),
        [[2, 1], [1, 1]], [[2, 2], [1, 1]],
    ),
    "block_masked_mm": (lambda mx: _gradient_of_mask(mx), [[2, 2], [3, 20]], [[1, 2], [3, 4]]),
    "a rule that reads": (lambda mx: _read_twice(mx), 0, 12),
    "a rule that returns less": (lambda mx: _returns_less(mx), [7, 1], [7, 0]),
    "capture": (lambda mx: mx.grad(lambda w: mx.compile(lambda: (w * 2).sum())())(mx.ones(2)), [0, 0], [2, 2]),
    "integers": (lambda mx: str(mx.grad(_adds(mx, mx.int8))(mx.array(2, mx.int8)).dtype)[9:], "int32", "int8"),
    "into narrow integers": (lambda mx: mx.grad(_adds(mx, mx.int8))(mx.array(2.0)), ValueError, 1),
    "a difference of bools": (
        lambda mx: mx.grad(lambda x: mx.where((x > 1) - (x > 0), x, 2 * x))(mx.array(1.0)), ValueError, 1,
    ),
    "a sum of it": (
        lambda mx: 1.0 * mx.vjp(lambda b: (~b - b).sum(), [mx.array([True, False])], [mx.array(1)])[1][0],
        [-1, -1], [1, 1],
    ),
}  # fmt: skip


def _vjp(mx: Any, fn: Any, z: complex) -> Any:
    y = fn(mx.array(z))
    return mx.vjp(fn, [mx.array(z)], [mx.ones_like(y)])[1][0]


def _read_twice(mx: Any) -> Any:
    f = mx.custom_function(lambda a: a * a * a)
    f.jvp(lambda a, t: (3.0 if a.item() > 0 else -3.0) * a * a * t)
    return mx.grad(lambda x: mx.jvp(f, [x], [mx.ones_like(x)])[1][0])(mx.array(2.0))


def _gradient_of_mask(mx: Any) -> Any:
    """Return the gradient of a mask, for blocks with one nonzero element each: 1 and 2 above 3 and 4."""
    a = mx.zeros((64, 64))
    a[mx.array([0, 0, 32, 32]), mx.array([0, 32, 0, 32])] = mx.array([1.0, 2.0, 3.0, 4.0])
    return mx.grad(lambda mask: mx.block_masked_mm(a, mx.eye(64), 32, mask).sum())(mx.array([[2.0, 1.0], [1.0, 5.0]]))


def _returns_less(mx: Any) -> Any:
    f = mx.custom_function(lambda a, b: a * b)
    f.vjp(lambda primals, cotangent, output: (cotangent * 7,))
    return mx.grad(f, argnums=(0, 1))(mx.array(2.0), mx.array(3.0))


def _adds(mx: Any, dtype: Any) -> Any:
    return lambda y: mx.zeros(3, dtype).at[0].add(y).astype(mx.float32).sum()


@pytest.mark.parametrize("name", WRONG)
def test_derivatives(name: str) -> None:
    fn, *expectations = WRONG[name]
    for result, wants in zip(both(fn), expectations, strict=True):
        if isinstance(wants, type):
            assert isinstance(result, wants), result
        elif isinstance(wants, (str, list)) and not isinstance(wants, complex) and isinstance(result, str):
            assert result == wants
        elif wants is not None:
            np.testing.assert_allclose(result, wants, rtol=1e-5)


def test_running_statistics_of_what_is_checkpointed() -> None:
    def fn(mx):
        layer = NN[mx].BatchNorm(1)
        mx.eval(mx.grad(lambda x: NN[mx].utils.checkpoint(layer)(x).sum())(mx.array([[1.0], [3.0]])))
        return layer.running_mean

    want, got = both(fn)
    np.testing.assert_allclose([*want, *got], [0.38, 0.2], rtol=1e-5)


def test_derivatives_beside_infinities() -> None:
    want, got = both(lambda mx: mx.grad(lambda x: mx.cumprod(x).sum())(mx.array([1, INF, 2.0])))
    assert np.isnan(want[1])
    assert got[1] == 3


@pytest.mark.parametrize(
    "chosen",
    [
        lambda mx, x: mx.where(x > 0, x, 1.0),
        lambda mx, x: mx.maximum(x, 0),
        lambda mx, x: -mx.minimum(-x, 0),
        lambda mx, x: mx.clip(x, 0, 2),
        lambda mx, x: NN[mx].relu(x),
    ],
)
@pytest.mark.parametrize("on_host", [True, False])
def test_derivatives_of_what_is_not_chosen(chosen: Callable[[Any, Any], Any], on_host: bool) -> None:
    def fn(mx: Any) -> Any:
        slopes = mx.array([INF, NAN, INF, 2.0])
        return mx.grad(lambda x: (chosen(mx, x) * slopes).sum())(mx.array([-1.0, -2.0, 1.0, 1.0]))

    with nullcontext() if on_host else host_disabled():
        want, got = both(fn)
    np.testing.assert_array_equal(want, [NAN, NAN, INF, 2])
    np.testing.assert_array_equal(got, [0, 0, INF, 2])


def test_functions_put_into_mx_after_a_loss_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fn(mx: Any) -> Any:
        plain, loss = mx.square, lambda: NN[mx].losses.mse_loss(mx.array([3.0]), mx.array([1.0]))
        before = loss()
        monkeypatch.setattr(mx, "square", lambda x: plain(x) + 1)
        return before, loss()

    assert both(fn) == ([4, 5], [4, 4])


def test_streams_of_other_threads() -> None:
    streams: list[Any] = []
    thread = threading.Thread(target=lambda: streams.append(ours.new_stream(ours.cpu)))
    thread.start()
    thread.join()
    with pytest.raises(RuntimeError, match="There is no Stream"):
        ours.add(ours.ones(1), 1, stream=streams[0])

    def taken(mx):
        before = mx.new_stream(mx.cpu)
        thread = threading.Thread(target=lambda: mx.eval(mx.ones(1) + 1))
        thread.start()
        thread.join()
        return [int(re.findall(r"\d+", repr(stream))[-1]) for stream in (before, mx.new_stream(mx.cpu))]

    (first, last), (our_first, our_last) = taken(real), taken(ours)
    assert last - first == 2
    assert our_last - our_first == 1


def test_arrays_made_on_a_stream_of_another_thread() -> None:
    def fn(mx):
        stream, outcomes = mx.new_stream(mx.cpu), []

        def there():
            with mx.stream(stream):
                x = mx.array([1.0]) + 1
            outcomes.append(run(mx, lambda mx: x))

        thread = threading.Thread(target=there)
        thread.start()
        thread.join()
        return outcomes[0]

    want, got = both(fn)
    assert isinstance(want, RuntimeError)
    assert got == [2.0]


def test_views_are_copied() -> None:
    def fn(mx):
        rows = mx.broadcast_to(mx.arange(3.0), (4, 3))
        scalar = mx.array(1.0)
        seen = np.array(scalar, copy=False)
        seen[...] = 2.0
        return np.array(rows, copy=False).strides[0], scalar

    assert both(fn) == ([0, 2.0], [12, 1.0])


@pytest.mark.parametrize("around", ["compile", "vmap"])
def test_a_constant_cotangent_in_a_rule(around: str) -> None:
    def fn(mx):
        @mx.custom_function
        def double(x):
            return x * 2

        @double.vjp
        def rule(x, cotangent, output):
            return cotangent * (2 if np.array(cotangent).all() else 0)

        return getattr(mx, around)(mx.grad(lambda x: double(x).sum()))(mx.ones((1, 2)))

    want, got = both(fn)
    assert want == [[2.0] * 2]
    assert isinstance(got, ValueError)


def test_kernels() -> None:
    def call(mx):
        x = mx.ones(1)
        kernel = mx.fast.metal_kernel(name="a", input_names=["x"], output_names=["y"], source="y[0] = x[0] + 1;")
        return kernel(inputs=[x], output_shapes=[(1,)], output_dtypes=[x.dtype], grid=(1,) * 3, threadgroup=(1,) * 3)

    want, got = both(call)
    assert isinstance(want, RuntimeError)
    assert got == [[2.0]]


def test_matrices() -> None:
    want, got = both(lambda mx: mx.linalg.cholesky(mx.array([[1.0, 2.0], [2.0, 1.0]]), stream=mx.cpu))
    assert want == [[1, 0], [2, -3]]
    assert np.isnan(got[1][1])

    def apart(mx):
        a = mx.array([[1 + 1j, 2], [3j, 4]])
        w, v = mx.linalg.eig(a, stream=mx.cpu)
        return mx.abs(a @ v - v * w).max()

    want, got = both(apart)
    assert got < 1e-5 < 1 < want
    want, got = both(lambda mx: mx.hadamard_transform(mx.eye(36)))
    assert np.abs(np.array(want) @ np.array(want).T - np.eye(36)).max() > 0.3
    assert isinstance(got, ValueError)
    want, got = both(lambda mx: mx.linalg.norm(mx.ones((2, 3)), ord=1, axis=[0, 0]))
    assert want == 2
    assert isinstance(got, ValueError)


def test_singular_vectors_of_equal_rows() -> None:
    (_, s, _), (ours_u, ours_s, ours_v) = both(lambda mx: mx.linalg.svd(mx.ones((3, 3)), stream=mx.cpu))
    np.testing.assert_allclose(ours_s, s, atol=1e-5)
    np.testing.assert_allclose(np.array(ours_u) * ours_s @ np.array(ours_v), np.ones((3, 3)), atol=1e-5)


REFUSED = {
    "take_along_axis": lambda mx: mx.take_along_axis(mx.ones((2, 2)), mx.zeros((2, 2)), axis=1),
    "put_along_axis": lambda mx: mx.put_along_axis(mx.ones((2, 2)), mx.zeros((2, 2)), mx.array(1.0), axis=1),
    "hadamard_transform": lambda mx: mx.hadamard_transform(mx.ones((2, 7))),
    "quantize": lambda mx: mx.quantize(mx.ones((2, 64), mx.float64)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_at_the_call(name: str) -> None:
    pending = REFUSED[name](real)
    with pytest.raises((RuntimeError, ValueError)) as want:
        real.eval(pending)
    with pytest.raises(type(want.value), match=re.escape(str(want.value))):
        REFUSED[name](ours)


def test_exponents() -> None:
    want, got = both(lambda mx: mx.quantize(mx.full((1, 32), 1e-38), mode="mxfp4")[1])
    assert (want, got) == ([[255]], [[1]])


def test_primitives_of_exported_functions() -> None:
    def primitives(mx):
        steps: list[Any] = []
        mx.export_function(lambda step: steps.append(step), lambda x: mx.unique(x, size=2), mx.ones(3))
        return len([step for step in steps if step["type"] == "primitive"])

    want, got = both(primitives)
    assert got == 1 < want


def test_a_loop_of_thousands_of_steps_without_evaluation() -> None:
    def loop(mx):
        x = mx.array(1.0)
        for _ in range(8192):
            x = x * 0.999 + 0.001
        return x

    want, got = both(loop)
    assert abs(want - got) < 1e-4


def test_functions_in_the_body_of_a_class() -> None:
    def called(mx):
        return type("Layer", (), {"act": mx.tanh})().act(mx.zeros(1))

    want, got = both(called)
    assert want == [0]
    assert isinstance(got, TypeError)
    for function in (lambda mx: mx.tanh, lambda mx: NN[mx].relu, lambda mx: mx.compile(mx.sin)):
        want, got = (run(mx, lambda mx, function=function: copy.deepcopy(function(mx))) for mx in (real, ours))
        assert isinstance(want, TypeError)
        assert callable(got)
