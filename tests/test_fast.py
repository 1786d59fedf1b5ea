"""`mx.fast`: values, gradients and errors against real MLX, whose CPU runs the plain versions of these functions."""

import numpy as np
import pytest

from tests.oracle import check, ours, real
from tests.thinned import thinned

RNG = np.random.RandomState(11)


def draw(*shape, scale=1.0):
    return (scale * RNG.randn(*shape)).astype("f")


X, W, B = draw(2, 3, 4), draw(4), draw(4)
LABELS = np.array([[0, 1, 2], [3, 0, -1]])
Q, K, V = draw(2, 4, 3, 8), draw(2, 2, 5, 8), draw(2, 2, 5, 6)
DTYPES = ["bool_", "int32", "float16", "bfloat16", "float32", "float64", "complex64"]
IN_SINGLE = 2e-5
"""Tolerance for float64 results, which real MLX computes in float32."""
NARROW = {"float16": 4e-3, "bfloat16": 3e-2}
"""Tolerance for half precision, in which real MLX computes some of the steps."""


def of(mx, dtype, *arrays):
    return [a.astype(getattr(mx, dtype)) for a in arrays]


def tolerance(*dtypes):
    return max([NARROW.get(d, 0) for d in dtypes] + [IN_SINGLE])


def gradients(function, *arrays, tol=1e-4):
    """Compare all gradients; the tolerance is for sums of products of numbers up to 10."""

    def weighted(mx):
        def loss(*xs):
            out = function(mx, *xs)
            out = out[0] if isinstance(out, list) else out
            return (out * mx.cos(mx.arange(out.size)).reshape(out.shape)).sum()

        return loss

    check(lambda mx, *xs: mx.grad(weighted(mx), argnums=tuple(range(len(xs))))(*xs), *arrays, tol=tol)


def forward(function, *arrays):
    """Compare the derivative along a direction, by forward mode and by the gradients."""
    mx = ours
    xs = [mx.array(a) for a in arrays]
    directions = [mx.array(draw(*a.shape)) for a in arrays]

    def loss(*xs):
        return mx.sin(function(mx, *xs)).sum()

    pulled = mx.grad(loss, argnums=tuple(range(len(xs))))(*xs)
    pulled = pulled if isinstance(pulled, tuple) else (pulled,)
    along = sum((g * d).sum() for g, d in zip(pulled, directions, strict=True))
    _, (pushed,) = mx.jvp(loss, xs, directions)
    np.testing.assert_allclose(float(pushed), float(along), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("x", DTYPES)
@pytest.mark.parametrize("w", [None, "int32", "float16", "bfloat16", "float32", "complex64"])
def test_norm_dtypes(x, w):
    def cast(mx, a, dtype):
        return None if dtype is None else a.astype(getattr(mx, dtype))

    tol = tolerance(x, w)
    check(lambda mx, a, b: mx.fast.rms_norm(cast(mx, a, x), cast(mx, b, w), 1e-5), X, W, tol=tol)
    check(lambda mx, a, b, c: mx.fast.layer_norm(cast(mx, a, x), cast(mx, b, w), c, 1e-5), X, W, B, tol=tol)
    check(lambda mx, a, b: mx.fast.layer_norm(cast(mx, a, x), None, cast(mx, b, w), 1e-5), X, B, tol=tol)


@pytest.mark.parametrize("shape", [(), (3,), (1, 4), (4,)])
def test_norm_shapes(shape):
    check(lambda mx, x: mx.fast.rms_norm(x, mx.ones(shape), 1e-5), X)
    check(lambda mx, x: mx.fast.layer_norm(x, mx.ones(shape), None, 1e-5), X)
    check(lambda mx, x: mx.fast.layer_norm(x, None, mx.ones(shape), 1e-5), X)
    check(lambda mx: mx.fast.rms_norm(mx.full(shape, 3.0), None, 1e-5))
    check(lambda mx: mx.fast.layer_norm(mx.full(shape, 3.0), None, None, 1e-5))


def test_norm_arguments():
    check(lambda mx, x, w: mx.fast.rms_norm(x=x, weight=w, eps=1), X, W)
    check(lambda mx, x, w: mx.fast.rms_norm(x, w, mx.array(1e-5), stream=mx.cpu), X, W)
    check(lambda mx, x, w: mx.fast.rms_norm(x, w), X, W)
    check(lambda mx, x, w: mx.fast.rms_norm(x, w, None), X, W)
    check(lambda mx: mx.fast.rms_norm([1.0, 2.0], None, 1e-5))
    check(lambda mx, w: mx.fast.rms_norm(mx.zeros((0, 4)), w, 1e-5), W)
    check(lambda mx: mx.fast.layer_norm(mx.zeros((2, 4)), None, None, 0.0))


def test_norm_gradients():
    gradients(lambda mx, x, w: mx.fast.rms_norm(x, w, 1e-5), X, W)
    gradients(lambda mx, x: mx.fast.rms_norm(x, None, 1e-5), X)
    gradients(lambda mx, x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), X, W, B)
    gradients(lambda mx, x: mx.fast.layer_norm(x, None, None, 1e-5), X)
    check(lambda mx, x, w: mx.grad(lambda w: mx.fast.rms_norm(x.astype(mx.float16), w, 1e-5).sum())(w), X, W, tol=4e-3)
    forward(lambda mx, x, w: mx.fast.rms_norm(x, w, 1e-5), X, W)
    forward(lambda mx, x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), X, W, B)
    check(lambda mx, x, w: mx.vmap(lambda x: mx.fast.rms_norm(x, w, 1e-5), in_axes=1)(x), X, W)
    check(lambda mx, x, w: mx.vmap(lambda w: mx.fast.rms_norm(x, w, 1e-5))(mx.stack([w, 2 * w])), X, W)


@pytest.mark.parametrize("x", DTYPES)
def test_cross_entropy_dtypes(x):
    check(lambda mx, a, t: mx.fast.cross_entropy(a.astype(getattr(mx, x)), t), X, LABELS, tol=tolerance(x))
    check(lambda mx, a, t: mx.fast.cross_entropy(a, t.astype(getattr(mx, x))), X, np.abs(LABELS))


def test_cross_entropy():
    check(lambda mx: mx.fast.cross_entropy(mx.array([1e4, -1e4, 0.0]), mx.array(1)))
    check(lambda mx, x: mx.fast.cross_entropy(x, mx.array([0, 1])), X)
    check(lambda mx, x: mx.fast.cross_entropy(x, mx.array([[0, 1, 2]])), X)
    check(lambda mx: mx.fast.cross_entropy(mx.array(1.0), mx.array(0)))
    check(lambda mx, w: mx.fast.cross_entropy(w, 0), W)
    assert np.isnan(np.array(ours.fast.cross_entropy(ours.array(W), ours.array(4))))
    gradients(lambda mx, x: mx.fast.cross_entropy(x, mx.array(LABELS)), X)
    forward(lambda mx, x: mx.fast.cross_entropy(x, mx.array(LABELS)), X)
    check(lambda mx, x, t: mx.vmap(mx.fast.cross_entropy, in_axes=(1, 1))(x, t), X, LABELS)


ROPE = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": 0}


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"offset": 3}, {"offset": -2}, {"offset": 5000}, {"scale": 0.5, "offset": 7}, {"base": 100}, {"scale": 2},
        {"base": None}, {"base": None, "freqs": [1.0, 50.0]}, {"freqs": [1.0, 50.0]},
        {"base": None, "freqs": [1.0] * 3}, {"offset": 1.5}, {"offset": "x"}, {"base": "x"}, {"dims": 2}, {"dims": 3},
        {"dims": 0}, {"dims": 6}, {"dims": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_rope(traditional, options):
    options = dict(options)
    dims, freqs = options.pop("dims", 4), options.pop("freqs", None)
    arguments = {**ROPE, "traditional": traditional, **options}
    tol = 1e-3 if options.get("offset") == 5000 else None  # angles of 5000 have this absolute precision in float32

    def call(mx, x):
        return mx.fast.rope(x, dims, **arguments, **({} if freqs is None else {"freqs": mx.array(freqs)}))

    check(call, X, tol=tol)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 5, 3, 4), (2, 1, 2, 3, 6), (0, 3, 4), (2, 0, 4)])
@pytest.mark.parametrize("offset", [2, [1, 4], [[1, 2]], [1, 2, 3], [3], 1.5, True])
def test_rope_shapes(shape, offset):
    check(lambda mx: mx.fast.rope(mx.ones(shape), 4, **{**ROPE, "offset": mx.array(offset)}))


@pytest.mark.parametrize("x", DTYPES)
def test_rope_dtypes(x):
    check(lambda mx, a: mx.fast.rope(a.astype(getattr(mx, x)), 4, **ROPE), X, tol=tolerance(x))
    check(lambda mx, a: mx.fast.rope(a, 4, **{**ROPE, "offset": mx.array(1).astype(getattr(mx, x))}), X)


def test_rope_arguments():
    for dims in (0, 5, 10):
        check(lambda mx, x, dims=dims: mx.fast.rope(x, dims, **ROPE), X)
        check(lambda mx, x, dims=dims: mx.fast.rope(x, dims, **{**ROPE, "offset": mx.array(1.5)}), X)
    check(lambda mx, x: mx.fast.rope(x, 4, traditional=False, base=1.0, scale=1.0), X)
    check(lambda mx, x: mx.fast.rope(x, 4, False, 1.0, 1.0, 0), X)
    gradients(lambda mx, x: mx.fast.rope(x, 2, **ROPE), X)
    gradients(lambda mx, x: mx.fast.rope(x, 4, **{**ROPE, "traditional": True, "offset": mx.array([1, 2])}), X)
    forward(lambda mx, x: mx.fast.rope(x, 4, **ROPE), X)
    check(lambda mx, x: mx.vmap(lambda x: mx.fast.rope(x, 4, **ROPE))(mx.stack([x, x])), X)


OFFSETS = np.array([3, 1])


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize(
    "call",
    {
        "compile": lambda mx, rope, x, o: mx.compile(rope)(x, o[0]),
        "compile, one for each": lambda mx, rope, x, o: mx.compile(rope)(x, o),
        "compile, int": lambda mx, rope, x, o: mx.compile(rope)(x, 3),
        "compile, layer": lambda mx, rope, x, o: mx.compile(lambda x, o: rope(x, offset=o))(x, o[1]),
        "vmap of the offset": lambda mx, rope, x, o: mx.vmap(lambda o: rope(x, o))(o),
        "vmap of both": lambda mx, rope, x, o: mx.vmap(lambda x, o: rope(x[None], o))(x, o),
        "vmap of offsets": lambda mx, rope, x, o: mx.vmap(lambda o: rope(x, o))(mx.stack([o, o + 2])),
        "grad": lambda mx, rope, x, o: mx.grad(lambda x, o: (rope(x, o) ** 2 * x).sum())(x, o),
        "grad within compile": lambda mx, rope, x, o: mx.compile(mx.grad(lambda x, o: (rope(x, o) * x).sum()))(x, o[1]),
        "beyond 32 bits": lambda mx, rope, x, o: rope(x, 2**32 + 3),
        "beyond 64 bits": lambda mx, rope, x, o: rope(x, 2**64),
        "a bool": lambda mx, rope, x, o: rope(x, True),
    }.items(),
    ids=lambda item: item[0],
)
def test_rope_of_an_offset_without_a_value(call, traditional):
    def function(mx, x, o):
        def rope(x, offset):
            return mx.fast.rope(x, 4, traditional=traditional, base=100.0, scale=1.0, offset=offset)

        return call[1](mx, rope, x, o)

    check(function, X, OFFSETS)


@pytest.mark.usefixtures("xla_only")
def test_an_offset_costs_no_compile():
    from mxcompat.ext.debug import compiles

    x = ours.array(X)
    for k in range(2):
        ours.eval(ours.fast.rope(x, 4, **{**ROPE, "offset": 11 + k}))
    before = compiles()
    for k in range(5):
        ours.eval(ours.fast.rope(x, 4, **{**ROPE, "offset": 20 + k}))
    assert compiles() == before


def attend(mx, q=Q, k=K, v=V, **options):
    options = {name: mx.array(a) if isinstance(a, np.ndarray) else a for name, a in options.items()}
    return mx.fast.scaled_dot_product_attention(mx.array(q), mx.array(k), mx.array(v), **{"scale": 0.3, **options})


@pytest.mark.parametrize(
    "mask",
    [
        (), (5,), (3, 5), (1, 5), (3, 1), (4, 3, 5), (2, 4, 3, 5), (2, 1, 3, 5), (1, 4, 1, 5), (1, 1, 1, 1), (4, 5),
        (2, 2, 3, 5), (1, 1, 1, 3, 5), (3, 4), (7, 2, 4, 3, 5), (6, 4, 3, 5),
    ],
)  # fmt: skip
def test_attention_masks(mask):
    values = np.asarray(RNG.rand(*mask), "f")
    check(lambda mx: attend(mx, mask=values))
    check(lambda mx: attend(mx, mask=np.asarray(values > 0.4)))


NOTHING = (np.zeros((3, 5), bool), np.full((3, 5), -np.inf, "f"))


@pytest.mark.parametrize("mask", [None, "causal", "foo", "", *NOTHING], ids=str)
@pytest.mark.parametrize("sinks", [None, (4,), (2,), (1, 4), ()], ids=str)
def test_attention(mask, sinks):
    check(lambda mx: attend(mx, mask=mask, sinks=None if sinks is None else np.ones(sinks, "f")))
    check(lambda mx: attend(mx, K[:, :, :3], Q[:, :2], Q[:, :2, :, :5], mask=mask if isinstance(mask, str) else None))


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((1, 3, 3, 8), (1, 2, 5, 8), (1, 2, 5, 6)), ((1, 4, 3, 7), (1, 2, 5, 8), (1, 2, 5, 6)), ((4, 3, 8),) * 3,
        ((1, 4, 3, 8), (1, 2, 5, 8), (1, 4, 5, 6)), ((1, 4, 3, 8), (1, 2, 5, 8), (1, 2, 4, 6)),
        ((1, 4, 3, 8), (1, 4, 5, 8), (1, 4, 4, 6)), ((2, 4, 3, 8), (1, 4, 5, 8), (1, 4, 5, 6)),
        ((2, 4, 3, 8), (2, 4, 5, 8), (1, 4, 5, 6)), ((1, 4, 0, 8), (1, 2, 5, 8), (1, 2, 5, 6)),
        ((1, 4, 3, 8), (1, 4, 0, 8), (1, 4, 0, 8)), ((0, 4, 3, 8), (0, 2, 5, 8), (0, 2, 5, 6)),
        ((1, 1, 3, 8), (1, 1, 3, 8), (1, 1, 3, 8)), ((1, 3, 3, 7), (1, 2, 5, 8), (1, 1, 5, 6)),
    ],
)  # fmt: skip
def test_attention_shapes(q, k, v):
    check(lambda mx: mx.fast.scaled_dot_product_attention(mx.ones(q), mx.ones(k), mx.ones(v), scale=1))
    check(lambda mx: mx.fast.scaled_dot_product_attention(mx.ones(q), mx.ones(k), mx.ones(v), scale=1.0, mask="causal"))


@pytest.mark.parametrize("x", DTYPES)
@pytest.mark.parametrize("y", ["float16", "float32"])
def test_attention_dtypes(x, y):
    function = "scaled_dot_product_attention"
    tol = tolerance(x, y)

    def run(cast, **options):
        def call(mx, q, k, v, mask, sinks):
            operands = {"q": q, "k": k, "v": v, "mask": mask, "sinks": sinks}
            a = {name: z.astype(getattr(mx, x if name in cast else y)) for name, z in operands.items()}
            extra = {name: a[name] for name in cast if name in ("mask", "sinks")}
            return getattr(mx.fast, function)(a["q"], a["k"], a["v"], scale=0.3, **extra)

        check(call, Q, K, V, draw(3, 5), draw(4), tol=tol)

    for cast in (["q", "k", "v"], ["q"], ["v"], ["mask"], ["sinks"]):
        run(cast)


def test_attention_arguments():
    check(lambda mx: attend(mx, scale=mx.array(0.5)))
    check(lambda mx: attend(mx, force_fused=True))
    check(lambda mx: attend(mx, mask=[[1.0] * 5] * 3))
    check(lambda mx: mx.fast.scaled_dot_product_attention(mx.array(Q), mx.array(K), mx.array(V)))
    check(lambda mx: mx.fast.scaled_dot_product_attention(Q, mx.array(K), mx.array(V), scale=1.0))
    check(lambda mx: mx.fast.scaled_dot_product_attention(mx.array(Q), mx.array(K), mx.array(V), 1.0))


@pytest.mark.parametrize("mask", [None, "causal", "bool", "additive"])
def test_attention_gradients(mask):
    def function(mx, q, k, v, *rest):
        mask_argument = {"bool": lambda: mx.array(np.tri(3, 5, 1) > 0), "additive": lambda: rest[0]}.get(
            mask, lambda: mask
        )()
        sinks = rest[-1] if mask == "causal" else None
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask_argument, sinks=sinks)

    rest = {"additive": [draw(4, 3, 5)], "causal": [draw(4)]}.get(mask, [])
    gradients(function, Q, K, V, *rest)
    forward(function, Q, K, V, *rest)


def test_attention_vmap():
    def function(mx, q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask="causal")

    check(lambda mx, *xs: mx.vmap(lambda *xs: function(mx, *xs))(*[mx.stack([x, 2 * x]) for x in xs]), Q, K, V)

    def of_queries(mx, q, k, v):
        return mx.vmap(lambda q: function(mx, q, k, v), in_axes=1, out_axes=2)(mx.stack([q, 2 * q], 1))

    check(of_queries, Q, K, V)


@pytest.fixture
def small_tiles(monkeypatch):
    """Lower the byte limit, so that attention of 7 queries is computed three rows at a time, and not by C."""
    from mxcompat._graph import policy

    monkeypatch.setattr(policy, "FEW_QUERIES", 0)
    monkeypatch.setattr(policy, "PIECE_BYTES", 2 * 3 * 4 * 8 * 9)  # a tile is half a piece


LONG = (draw(2, 4, 7, 8), draw(2, 2, 9, 8), draw(2, 2, 9, 6))


@pytest.mark.usefixtures("small_tiles", "tier")
@pytest.mark.parametrize("sinks", [None, draw(4)], ids=["plain", "sinks"])
@pytest.mark.parametrize(
    "mask",
    [None, "causal", draw(7, 9), draw(4, 7, 9) > 0, draw(2, 1, 1, 9), draw(2, 1, 7, 9) > 0, draw(9), draw(4, 1, 1)],
    ids=["none", "causal", "rows", "bool", "one row", "batch", "vector", "heads"],
)
def test_attention_in_tiles(mask, sinks):
    check(lambda mx: attend(mx, *LONG, mask=mask, **({} if sinks is None else {"sinks": sinks})))
    check(lambda mx: attend(mx, *[x.astype("float16") for x in LONG], mask=mask if isinstance(mask, str) else None))


@pytest.mark.usefixtures("small_tiles", "tier")
@pytest.mark.parametrize("mask", [None, "causal", draw(7, 9)], ids=["none", "causal", "array"])
def test_derivatives_of_attention_in_tiles(mask):
    def function(mx, q, k, v):
        mask_argument = mx.array(mask) if isinstance(mask, np.ndarray) else mask
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask_argument)

    gradients(function, *LONG)
    forward(function, *LONG)


@pytest.mark.usefixtures("small_tiles", "xla_only")
def test_no_more_than_a_tile_of_scores_is_held():
    import jax

    def function(q, k, v):
        return attend(ours, q, k, v, mask="causal").__jax_array__()

    text = jax.jit(function).lower(*LONG).as_text()
    shapes = [shape for shape in ("2x4x7x9xf32", "2x2x2x7x9xf32", "2x2x2x3x9xf32") if shape in text]
    assert shapes == ["2x2x2x3x9xf32"]


T, HK, HV, DK, DV = 4, 2, 4, 8, 3
KEPT = RNG.rand(2, T) > 0.4
DELTA = (
    draw(2, T, HK, DK), draw(2, T, HK, DK, scale=0.2), draw(2, T, HV, DV), RNG.rand(2, T, HV).astype("f"),
    RNG.rand(2, T, HV).astype("f"),
)  # fmt: skip
STATE = draw(2, HV, DV, DK)


@pytest.mark.parametrize(
    "options",
    [{}, {"initial_state": STATE}, {"mask": KEPT}, {"initial_state": STATE, "mask": KEPT}],
    ids=["plain", "state", "mask", "both"],
)
def test_gated_delta_update(options):
    check(lambda mx, *xs: mx.fast.gated_delta_update(*xs, **{k: mx.array(a) for k, a in options.items()}), *DELTA)


@pytest.mark.parametrize("cast", ["q", "qk", "qkv", "qkvgb", "g", "v"])
@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_gated_delta_dtypes(cast, dtype):
    def call(mx, *xs):
        operands = [x.astype(getattr(mx, dtype)) if n in cast else x for n, x in zip("qkvgb", xs, strict=True)]
        return mx.fast.gated_delta_update(*operands)

    check(call, *DELTA, tol=tolerance(dtype))


def test_gated_delta_more():
    per_feature = RNG.rand(2, T, HV, DK).astype("f")
    check(lambda mx, q, k, v, g, b: mx.fast.gated_delta_update(q, k, v, g, b), *DELTA[:3], per_feature, DELTA[4])
    check(lambda mx, *xs: mx.fast.gated_delta_update(*[x[:, :1] for x in xs], stream=mx.cpu), *DELTA)
    check(lambda mx, *xs: mx.fast.gated_delta_update(*[x[:, :0] for x in xs]), *DELTA)
    gradients(lambda mx, *xs: mx.fast.gated_delta_update(*xs), *DELTA)
    forward(lambda mx, *xs: mx.fast.gated_delta_update(*xs)[0], *DELTA)
    with pytest.raises(ValueError, match="beta must have shape"):
        ours.fast.gated_delta_update(*[ours.array(a) for a in (*DELTA[:4], DELTA[4][:, :2])])


def test_compiled_kernels_cannot_run():
    for mx in (real, ours):
        with pytest.raises(RuntimeError, match=r"^\[cuda_kernel\] No CUDA back-end\."):
            mx.fast.precompiled_cuda_kernel(
                name="k", compiled_source=b"", inputs=[mx.ones(1)], output_shapes=[(1,)], output_dtypes=[mx.float32],
                scalars=[], grid=(1, 1, 1), threadgroup=(1, 1, 1),
            )  # fmt: skip


@pytest.mark.parametrize("wrong", ["s", 3, None, True, 1.5, ["a"], ("a", "b"), [1], [], "", {"a": 1}], ids=repr)
def test_what_defines_a_kernel(wrong):
    definition = {"name": "k", "input_names": ["x"], "output_names": ["y"], "source": ""}

    def kinds(mx):
        outcomes = []
        for name in ("metal_kernel", "cuda_kernel"):
            for argument in (*definition, "header", "ensure_row_contiguous", "atomic_outputs", "shared_memory"):
                try:
                    getattr(mx.fast, name)(**{**definition, argument: wrong})
                    outcomes.append("made")
                except (TypeError, ValueError, RuntimeError) as error:
                    # real MLX has no CUDA here, and says so before it looks at values
                    other = name == "cuda_kernel" and not isinstance(error, TypeError)
                    outcomes.append("made" if other else type(error).__name__)
        return outcomes

    check(kinds)


OFFSET_DTYPES = ["int8", "uint8", "int32", "uint32", "int64"]


OFFSET_OPTIONS = [{}, {"scale": 0.5}, {"base": None, "freqs": [1.0, 50.0]}]


@pytest.mark.parametrize(
    ("options", "traditional", "offset", "dtype"),
    thinned(4, OFFSET_OPTIONS, [False, True], [3, [3], [3, 100]], OFFSET_DTYPES),
)
def test_derivatives_with_respect_to_the_offset(options, traditional, offset, dtype):
    """Compare derivatives with respect to the offset. It becomes a float, as other integers do, and so has a
    derivative."""

    def derived(mx, x):
        arguments = {**ROPE, **options, "traditional": traditional}
        arguments |= {"freqs": mx.array(arguments["freqs"])} if "freqs" in arguments else {}

        def loss(o):
            out = mx.fast.rope(x * 5, 4, **{**arguments, "offset": o})
            return (out * mx.arange(out.size).reshape(out.shape)).sum()

        o = mx.array(offset, getattr(mx, dtype))
        as_float = o.astype(mx.float32)
        return [
            mx.grad(loss)(o), mx.compile(mx.grad(loss))(o), mx.vjp(loss, [o], [mx.array(0.3)]),
            mx.jvp(loss, [o], [mx.ones_like(o)]), mx.grad(lambda f: loss((f * 2).astype(o.dtype)))(as_float),
            mx.vmap(mx.grad(loss))(mx.stack([o, o + 1])),
        ]  # fmt: skip

    check(derived, X, tol=1e-4)  # sums of numbers up to 1000


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_derivative_of_a_far_offset_is_at_the_offset(dtype):
    """Assert that the derivative is taken at the exact offset, which half precision cannot represent."""

    def derived(mx, x):
        x = x.astype(getattr(mx, dtype))
        loss = lambda o: mx.fast.rope(x, 4, **{**ROPE, "offset": o}).astype(mx.float32).sum()  # noqa: E731
        return mx.jvp(loss, [mx.array(30001)], [mx.array(1)])[1]

    check(derived, X, tol=tolerance(dtype))
