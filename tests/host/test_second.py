"""Second derivatives in NumPy, compared with XLA: of the gradient and of the tangents, in both modes."""

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import nn
from mxcompat._array.array import wrap
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.rules import PULLBACK
from mxcompat._graph.run.interpret import NoRule
from mxcompat._ops.define import SAMPLES, TABLE
from mxcompat._transforms.second_order.gradients import gradient, tangent
from mxcompat._transforms.second_order.symbolic import Symbolic
from mxcompat._transforms.second_order.symbolic_rules import FORWARD, RULES

from .harness import check, data, program_of
from .test_elementwise import SPECIAL, drawn, together

NAMES = sorted(name for name in SAMPLES if TABLE.get(name) in RULES)
X = data((4, 3), "float32")
ROWS, PLACES = np.array([2, 0, 2]), np.array([[0], [2], [1], [0]])


@pytest.mark.parametrize("name", NAMES)
def test_elementwise(name):
    """Compare second derivatives, also at zeros, poles, kinks, infinities and NaN."""
    operands = SAMPLES[name].operands
    x = np.array(SPECIAL, "float32")
    plain = [drawn(name, (12,), "float32", k, second=k > 0) for k in range(operands)]
    together(name, plain, [x] if operands == 1 else [x[:, None], x], second=True)


def at(x, places, values):
    x = x + 0
    x[places] = values
    return x


def attention(x, heads=1, **options):
    q = mx.stack([x * (k + 1) for k in range(heads)])[None]
    return mx.fast.scaled_dot_product_attention(q, mx.sin(x)[None, None], mx.cos(x)[None, None], scale=0.5, **options)


CALLS = {
    "cross": lambda x: mx.linalg.cross(x, x[:1] * x),
    "cumprod": lambda x: [mx.cumprod(x, axis=0), mx.cumprod(x, reverse=True, inclusive=False)],
    "logcumsumexp": lambda x: [mx.logcumsumexp(x, axis=1, reverse=True), mx.logcumsumexp(x, axis=0)],
    "prod": lambda x: [x.prod(0), x.prod((0, 1)), mx.square(x - x[0]).prod(1)],
    "sort": lambda x: [mx.sort(x, axis=0), mx.topk(x, 2), mx.median(x, axis=0)],
    "complex": lambda x: mx.abs(mx.fft.rfft(x) * mx.exp(x[:, :2] * 1j)),
    "conv": lambda x: mx.conv1d(x[None], x[None, :2]),
    "put": lambda x: mx.put_along_axis(x, mx.array([[0], [2], [0], [0]]), x[:, :1] * x[:, :1], 1),
    "set": lambda x: [x.at[mx.array([1, 1])].add(x[:2] * x[1:3]), at(x, mx.array([2, 0, 2]), x[:3] * x[1:])],
    "write": lambda x: [x.at[1:3].multiply(x[:2]), x.at[1:, 0].maximum(x[:3, 1]), x.at[0].multiply(x[1])],
    "split": lambda x: [a * b for a, b in zip(mx.split(x, 2), mx.unstack(x[:2]), strict=True)],
    "power_of_both": lambda x: mx.power(mx.abs(x) + 0.1, x),
    "attention": lambda x: attention(x, mask="causal"),
    "attention_masks": lambda x: [attention(x, mask=x @ x.T), attention(x, mask=(x @ x.T) > 0)],
    "attention_groups": lambda x: attention(x, heads=2, sinks=x[0, :2]),
    "addmm": lambda x: mx.addmm(x @ x.T, x, x.T, 0.5, 2.0),
    "as_strided": lambda x: mx.as_strided(x, (2, 2), (3, 1)),
    "astype": lambda x: x.astype(mx.float64) * x,
    "atleast": lambda x: mx.atleast_3d(x),
    "broadcast_to": lambda x: mx.broadcast_to(x, (2, 4, 3)),
    "concatenate": lambda x: mx.concatenate([x, x * x], axis=1),
    "cross_entropy": lambda x: nn.losses.cross_entropy(x, mx.array([0, 1, 2, 0])),
    "cumsum": lambda x: mx.cumsum(x, axis=0, reverse=True),
    "diag": lambda x: mx.diag(x[0]),
    "diagonal": lambda x: mx.diagonal(x),
    "diff": lambda x: mx.diff(x, axis=0),
    "einsum": lambda x: mx.einsum("ij,kj->ik", x, x),
    "expand_dims": lambda x: mx.expand_dims(x, (0, 2)),
    "flatten": lambda x: mx.flatten(x),
    "flip": lambda x: mx.flip(x, 0),
    "gather": lambda x: x[mx.array(ROWS)],
    "gather_axis": lambda x: mx.take_along_axis(x, mx.array(PLACES), 1),
    "gelu": lambda x: nn.gelu(x),
    "inner": lambda x: mx.inner(x, x),
    "inv": lambda x: mx.linalg.inv(x.T @ x + mx.eye(3)),
    "kron": lambda x: mx.kron(x, x),
    "layer_norm": lambda x: mx.fast.layer_norm(x, x[0], x[1], 1e-5),
    "logaddexp": lambda x: mx.logaddexp(x, 0),
    "logsumexp": lambda x: mx.logsumexp(x, axis=1),
    "matmul": lambda x: [x @ x.T, x[0] @ x[1], x @ x[0], x[:, 0] @ x, x[None] @ x.T],
    "max": lambda x: x.max(1),
    "mean": lambda x: x.mean(axis=0),
    "min": lambda x: x.min(axis=(0, 1)),
    "norm": lambda x: [mx.linalg.norm(x), mx.linalg.norm(x, axis=1, keepdims=True)],
    "outer": lambda x: mx.outer(x[0], x[1]),
    "pad": lambda x: mx.pad(x, 1, constant_values=3.0),
    "power": lambda x: x**3,
    "repeat": lambda x: mx.repeat(x, 2, 0),
    "rms_norm": lambda x: mx.fast.rms_norm(x, x[0], 1e-5),
    "roll": lambda x: mx.roll(x, 1, axis=0),
    "slice": lambda x: x[1:, ::2],
    "softmax": lambda x: [mx.softmax(x, axis=0), mx.softmax(x, axis=(0, 1))],
    "squeeze": lambda x: mx.squeeze(x[None]),
    "stack": lambda x: mx.stack([x, x * x]),
    "std": lambda x: mx.std(x, axis=0),
    "sum": lambda x: (x * x).sum(1, keepdims=True),
    "tensordot": lambda x: mx.tensordot(x, x, [[1], [1]]),
    "tile": lambda x: mx.tile(x, (2, 1)),
    "trace": lambda x: mx.trace(x),
    "transpose": lambda x: mx.moveaxis(x, 0, 1),
    "triangle": lambda x: mx.tril(x),
    "unflatten": lambda x: mx.unflatten(x, 0, (2, 2)),
    "var": lambda x: mx.var(x, axis=1, keepdims=True, ddof=1),
    "vecdot": lambda x: mx.vecdot(x, x),
    "where": lambda x: mx.where(x > 0, x, x * x),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    def call(mx, x):
        out = CALLS[name](x)
        return [y * y for y in out] if isinstance(out, list) else out * out

    x = X * 0.7
    program, _ = program_of(call, (x,))
    assert gradient(program, 1, len(program.out_avals)) is not None
    assert tangent(program, 1, len(program.out_avals)) is not None
    check(call, x, tolerance=1e-5, batch=False, second=True)


def test_what_is_left_to_xla():
    """Assert that ops without a rule, and other dtypes, fall back to XLA."""

    def has_derivatives(call, x=X):
        program, _ = program_of(call, (x,))
        return gradient(program, 1, 1) is not None, tangent(program, 1, 1) is not None

    assert has_derivatives(lambda mx, x: mx.sin(x)) == (True, True)
    assert has_derivatives(lambda mx, x: mx.checkpoint(lambda x: mx.maximum(x, 0))(x)) == (True, True)
    assert has_derivatives(lambda mx, x: mx.unique(x[0], size=2)) == (False, False)
    assert has_derivatives(lambda mx, x: x.at[mx.array([0, 0])].multiply(x[:2])) == (False, False), (
        "several in one place"
    )
    assert has_derivatives(lambda mx, x: mx.sin(x), data((3,), "bfloat16")) == (True, True)
    assert has_derivatives(lambda mx, x: mx.sin(x), data((3,), "complex64")) == (False, False)


def test_which_ops_have_no_rule():
    """List the ops without a second-derivative rule, of those with a first."""
    missing = {op.name for op in TABLE.values() if op in PULLBACK and op not in RULES}
    rare = {"gated_delta_update", "qqmm", "random_multivariate_normal", "unique"}
    never_traced = {"prefix"}  # the buffer of a cache
    assert missing == rare | never_traced
    assert {op for op in RULES if op not in FORWARD} == set()


@pytest.mark.parametrize(
    "use",
    [
        bool, int, float, list, len, np.array, np.cumsum, lambda x: x.argmax(), lambda x: np.add(x, x, out=np.ones(3)),
        lambda x: np.add.accumulate(x), lambda x: ~x, lambda x: np.where(x > 0),
        lambda x: x.__setitem__(0, 1), lambda x: x + "1",
        lambda x: x.astype("datetime64[s]"), lambda x: np.tanh(x), lambda x: x.dot(np.ones(3)),
    ],
)  # fmt: skip
def test_symbolic_arrays_refuse_what_they_are_not(use):
    with Capture([mx.ones(3)._node.aval]) as capture:
        x = Symbolic(capture.placeholders[0])
        with pytest.raises(NoRule):
            use(x)
        with pytest.raises(ValueError):
            np.ones(3)[0] = x[0]


def test_symbolic_arrays_are_like_numpys():
    """Assert that symbolic arrays have the types and shapes of NumPy's results."""
    real = np.array([[1, 2, 3], [2, 1, 5]], np.float32)
    uses = [
        lambda x: x + 1, lambda x: 2 * x, lambda x: 1 / x, lambda x: x * np.float32(2), lambda x: -x, lambda x: x > 0,
        lambda x: np.where(x > 0, x, x.dtype.type(0)), lambda x: x.sum(), lambda x: x.sum(0, keepdims=True),
        lambda x: np.add.reduce(x > 0, (1,), np.float32, None, True), lambda x: x.T @ x, lambda x: x.T.dot(x),
        lambda x: x[..., None, :], lambda x: x[0], lambda x: x.reshape(-1), lambda x: x.reshape(3, -1),
        lambda x: x.swapaxes(-1, -2), lambda x: x.transpose(1, 0), lambda x: np.vecdot(x, x), lambda x: x.conj(),
        lambda x: np.expand_dims(x, 1), lambda x: np.broadcast_to(x, (4, 2, 3)), lambda x: x.astype(np.float64) + x,
        lambda x: ~(x > 0), lambda x: x.ravel(), lambda x: (x > 0) * x, lambda x: x * np.ones(3, np.float32),
        lambda x: np.arange(3) == x, lambda x: np.tril(x, -1), lambda x: np.triu(x), lambda x: np.linalg.inv(x @ x.T),
        lambda x: np.linalg.solve(x @ x.T, x), lambda x: np.linalg.eigh(x @ x.T, "L")[1], lambda x: x.real,
        lambda x: (x * 1j).conj(), lambda x: (x * np.complex64(1j)).imag,
        lambda x: np.take_along_axis(x, np.argmax(x, axis=1)[:, None], 1),
    ]  # fmt: skip
    with Capture([wrap(mx.ones((2, 3))._node)._node.aval]) as capture:
        x = Symbolic(capture.placeholders[0])
        for use in uses:
            got, want = use(x), use(real)
            assert (got.shape, got.dtype, got.ndim, got.size) == (want.shape, want.dtype, want.ndim, want.size)
