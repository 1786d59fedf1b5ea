"""Tests of GPU and TPU support without such a device.

Every op, under every transform, and the programs of the benchmarks lower for CUDA and TPU. The library's choices for
an accelerator run on the CPU, and give the same numbers.
"""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat as mx
import mxcompat.nn as nn
import mxcompat.optimizers as optim
from mxcompat._array import casting
from mxcompat._graph.run import events
from mxcompat._graph.run.plan import Call
from mxcompat._ops.define import TABLE
from tests.benchmarks.workloads import WORKLOADS
from tests.lowering import as_on_an_accelerator, lower, ops_of, program_of
from tests.sweep import ways, worker

NEVER_LOWERED = {
    "blank": "made when attention over a cache that grows is evaluated",
    "random_rows": "what NumPy makes of draws over an axis of keys",
    **dict.fromkeys(("all_gather", "all_max", "all_min", "all_sum", "sum_scatter"), "a program of its own in a group"),
}
"""Ops that none of these programs contain, with the reasons."""


def _expert(x, mode, function):
    """Return the product with one expert's packed weights."""
    weights = [part[None] for part in mx.quantize(x[:2048].reshape(32, 64), mode=mode)]
    return function(x[:256].reshape(4, 1, 64), *weights, rhs_indices=mx.array([0] * 4), mode=mode)


def _grown(x):
    """Return a cache of 512 entries that grows by 256."""
    cache = mx.array(np.array(x).reshape(1, 512, 8))
    return mx.concatenate([cache, mx.zeros((1, 256, 8))], axis=1)


def _kernel(x):
    source = "uint i = thread_position_in_grid.x; y[i] = metal::exp(x[i]);"
    kernel = mx.fast.metal_kernel("exponential", ["x"], ["y"], source)
    (y,) = kernel(
        inputs=[x], grid=(x.size, 1, 1), threadgroup=(64, 1, 1), output_shapes=[x.shape], output_dtypes=[x.dtype]
    )
    return y


BESIDES = {
    "categorical": lambda x: mx.random.categorical(x[:64], num_samples=5),
    "quantized matmul": lambda x: mx.quantized_matmul(
        x[:64].reshape(1, 64), *mx.quantize(x[:2048].reshape(32, 64), mode="mxfp4"), mode="mxfp4"
    ),
    "gather_qmm": lambda x: _expert(x, "mxfp4", mx.gather_qmm),
    "gather_qqmm": lambda x: _expert(x, "mxfp4", mx.gather_qqmm),
    "a growing cache": _grown,
    "a Metal kernel": _kernel,
}
"""Programs for ops that the sweep lacks in these dtypes."""


@pytest.fixture(scope="module")
def accelerator():
    with as_on_an_accelerator():
        yield


def cells(is_selected):
    """Return the sweep's cells for which transforms make sense."""
    left_out = ("xla", "special", "compile")
    return [c for c in worker.all_cells() if c.way not in left_out and is_selected(c)]


def lowered(selection):
    """Return the ops in the programs of these cells, after asserting that all lower. Cells that must raise are
    skipped."""
    seen, failed, count = set(), [], 0
    for cell in selection:
        case = worker._CASES[cell.case]
        try:
            dtypes = [g.dtype or cell.dtype for g in case.operands]
            arrays = ways.prepared(mx, ways._values(case, cell.dtype, cell.way), dtypes)
            mx.random.seed(7)
            out = ways._transformed(mx, case, cell.dtype, cell.way, arrays)
        except Exception:  # any type, because some cases test errors
            continue
        what = program_of(out)
        if what is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # for lossy casts for example
                lower(*what)
        except Exception as error:
            failed.append(f"{case.expression} [{cell.dtype}, {cell.way}]: {type(error).__name__}: {error}")
        else:
            seen |= ops_of(what[0])
            count += 1
    assert not failed, "\n".join(failed)
    return {op.name for op in seen}, count


@pytest.mark.usefixtures("accelerator")
def test_a_sample_lowers():
    selection = cells(lambda c: c.dtype == "float32")
    assert lowered(selection[:: len(selection) // 40])[1] > 20


def besides(name):
    """Return the ops of one of the other programs, after lowering it."""
    program, scalars = program_of(BESIDES[name](mx.array(large(4096))))
    lower(program, scalars)
    return {op.name for op in ops_of(program)}


@pytest.mark.parametrize("name", BESIDES)
def test_what_the_sweep_has_not_lowers(name):
    assert besides(name)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("accelerator")
def test_every_op_lowers():
    seen, _ = lowered(cells(lambda c: c.way == "plain" and c.dtype in ("float32", "int32")))
    seen = seen.union(*map(besides, BESIDES))
    assert TABLE.keys() - seen == NEVER_LOWERED.keys()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize("way", ["vjp", "jvp", "vmap"])
def test_every_op_lowers_under_every_transform(way):
    lowered(cells(lambda c: c.way.startswith(way) and c.dtype in ("float32", "bfloat16", "complex64")))


STEPS = {
    "nn MLP, AdamW: train step", "nn conv net, AdamW: train step", "vmap of an add, 4096x100 + 100x4096",
    "4-bit matmul, 1x512 by 512x2048",
}  # fmt: skip
"""Workloads to lower by default; the others run on request."""


@pytest.mark.usefixtures("accelerator")
@pytest.mark.parametrize(
    "workload",
    [pytest.param(w, id=w.name, marks=[] if w.name in STEPS else pytest.mark.exhaustive) for w in WORKLOADS],
)
def test_the_programs_of_the_benchmarks_lower(workload, plans):
    step = workload.mlx(mx.core)
    for _ in range(2):
        step()
    programs = {plan.program: plan.scalars for plan in plans if hasattr(plan, "program")}
    if not workload.name.startswith("build"):  # single adds stay unevaluated, or in NumPy
        assert programs
    for program, scalars in programs.items():
        lower(program, scalars)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_eigenvalues_where_xla_has_none(name):
    """Compare eigenvalues that LAPACK computes on the host for a TPU, through the same callback."""
    a = large(3, 4, 4)
    function = getattr(mx.linalg, name)
    result = function(mx.array(a))
    lower(*program_of(result))
    want = np.sort(np.abs(np.linalg.eigvals(a)))
    with mx.ext.debug.host_disabled(), as_on_an_accelerator("tpu"):
        for got in (function(mx.array(a)), mx.vmap(function)(mx.array(a))):
            values = got[0] if name == "eig" else got
            np.testing.assert_allclose(np.sort(np.abs(np.array(values))), want, 1e-4)
            if name == "eig":
                apart = mx.array(a) @ got[1] - got[1] * got[0][:, None]
                np.testing.assert_allclose(np.abs(np.array(apart)), 0, atol=1e-5)


def large(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def evaluated(x):
    """Evaluate and return x. XLA's sums of repeated values vary from run to run with a GPU's options: see
    `run.compile`."""
    mx.eval(x)
    return x


CHOICES = {
    "convolution": lambda x: mx.conv2d(x.reshape(4, 32, 32, 16), x[:144].reshape(1, 3, 3, 16)),
    "few channels": lambda x: mx.conv2d(x.reshape(1, 128, 128, 4), x[:72].reshape(2, 3, 3, 4), padding=1),
    "groups": lambda x: mx.conv2d(x.reshape(4, 32, 32, 16), x[:144].reshape(16, 3, 3, 1), groups=16),
    "dilated": lambda x: mx.conv_transpose2d(x.reshape(4, 32, 32, 16), x[:288].reshape(2, 3, 3, 16), stride=2),
    "convolution's gradient": lambda x: mx.grad(
        lambda w: (mx.conv2d(x.reshape(4, 32, 32, 16), w.reshape(4, 3, 3, 16), stride=2) ** 2).mean()
    )(x[:576]),
    "sort": lambda x: mx.sort(x),
    "sort of integers": lambda x: mx.sort((x * 100).astype(mx.int32)),
    "argsort": lambda x: x[mx.argsort(x)],
    "topk": lambda x: mx.sort(mx.topk(x, 5)),
    "argpartition": lambda x: mx.sort(x[mx.argpartition(x, 7)[:7]]),
    "median": lambda x: mx.median(x),
    "argmax": lambda x: mx.argmax(x),
    "argmin": lambda x: mx.argmin(x.reshape(8, -1), axis=1),
    "cumsum": lambda x: mx.cumsum(x),
    "cummax": lambda x: mx.cummax(x),
    "logcumsumexp": lambda x: mx.logcumsumexp(x),
    "searchsorted": lambda x: mx.searchsorted(mx.sort(x), x[:100]),
    "sum of bytes": lambda x: mx.tile((x > 0).astype(mx.uint8), 20).astype(mx.uint8).sum(),
    "mean of halves": lambda x: evaluated(mx.tile(x, 20).astype(mx.float16)).mean(),
    "attention": lambda x: mx.fast.scaled_dot_product_attention(
        *[x[:16384].reshape(1, 4, 64, 64)] * 3, scale=0.125, mask="causal"
    ),
    "eigenvectors": lambda x: _eigen(x[:64].reshape(8, 8)),
    "symmetric eigenvalues": lambda x: mx.linalg.eigvalsh(x[:64].reshape(8, 8)),
    "singular values": lambda x: mx.linalg.svd(x[:64].reshape(8, 8))[1],
    "random numbers": lambda x: mx.random.uniform(shape=(1000,), key=mx.random.key(3)),
    "quantized": lambda x: mx.quantized_matmul(x[:64].reshape(1, 64), *mx.quantize(x[:4096].reshape(64, 64))),
}


def _eigen(a):
    """Return the absolute eigenvalues, and the residual of the vectors, as phases may differ."""
    w, v = mx.linalg.eig(a)
    return mx.concatenate([mx.sort(mx.abs(w)), mx.abs(a @ v - v * w).reshape(-1)])


def test_an_accelerators_choices_give_the_same_numbers():
    data = large(1 << 16)
    with mx.ext.debug.host_disabled():
        want = {name: np.array(f(mx.array(data))) for name, f in CHOICES.items()}
        with as_on_an_accelerator():
            for name, f in CHOICES.items():
                got = np.array(f(mx.array(data)))
                assert got.dtype == want[name].dtype
                np.testing.assert_allclose(got, want[name], 2e-4, 2e-4, err_msg=name)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_first_nan_is_found_in_whatever_order_elements_are_compared(axis, monkeypatch):
    """Assert that the first NaN is found if a search finds any of them, as on a GPU; a reversed search imitates it."""
    x = np.array([[1, math.nan, 7, math.nan], [3, 2, math.nan, 1], [0, 4, 9, math.nan]], np.float32)

    def last(search, first=jnp.argmax):
        def find(x, axis):
            nan = x != x
            places = x.shape[axis] - 1 - first(jnp.flip(nan, axis), axis)
            return jnp.where(jnp.any(nan, axis), places, search(x, axis))

        return find

    with mx.ext.debug.host_disabled(), as_on_an_accelerator():
        for op, search in ((mx.argmax, jnp.argmax), (mx.argmin, jnp.argmin)):
            monkeypatch.setattr(jnp, search.__name__, last(search))
            np.testing.assert_array_equal(np.array(op(mx.array(x), axis)), getattr(x, op.__name__)(axis))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_truth_is_not_told_by_bits_on_a_gpu(dtype):
    """Assert that truth values do not use bits on a GPU, where XLA takes the wrong ones of complex numbers."""
    for backend, by_bits in (("gpu", False), ("tpu", True)):
        with as_on_an_accelerator(backend):
            text = jax.jit(lambda x: casting.truth(x)).lower(jax.ShapeDtypeStruct((4,), dtype)).as_text()
        assert ("bitcast_convert" in text) == by_bits


def trained(steps=10):
    mx.random.seed(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.1), nn.gelu, nn.Linear(256, 64))
    optimizer = optim.Adam(1e-3)
    x, y = mx.array(large(32, 64)), mx.array(large(32, 64, seed=1))
    step = nn.value_and_grad(model, lambda m, x, y: nn.losses.mse_loss(m(x), y))
    losses = []
    for _ in range(steps):
        loss, grads = step(model, x, y)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
        losses.append(loss.item())
        mx.ext.debug.compiles()  # waits for background compiles
    return losses


def test_training_as_on_an_accelerator():
    """Assert that training donates weights and moments."""
    want, written = trained(), []

    def observe(event, plan, reason):
        if event == "plan" and type(plan) is Call:
            written.append(len(plan.executable.donated))  # plans hold nodes, which would retain buffers

    with as_on_an_accelerator(), mx.ext.debug.host_disabled():  # with all data on the device, as on a GPU
        events.observers.append(observe)
        try:
            np.testing.assert_allclose(trained(), want, 1e-4)
        finally:
            events.observers.remove(observe)
    assert written[-1] == 6, "two weights, and two moments of each"
