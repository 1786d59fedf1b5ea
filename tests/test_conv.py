"""Convolutions, compared with real MLX: values, gradients and errors; `jvp` and `vmap` are compared with its values."""

import numpy as np
import pytest

from tests.oracle import check, ours, real

RNG = np.random.RandomState(3)


def draw(*shape):
    return RNG.randn(*shape).astype("f")


INPUTS = {1: draw(2, 7, 4), 2: draw(2, 6, 5, 4), 3: draw(1, 4, 5, 4, 4)}
WEIGHTS = {1: draw(6, 3, 4), 2: draw(6, 3, 2, 4), 3: draw(6, 2, 3, 2, 4)}
HALVED = {k: w[..., :2].copy() for k, w in WEIGHTS.items()}
BOTH = pytest.mark.parametrize("spatial", [1, 2, 3])


def per_axis(spatial, *values):
    return values[0] if spatial == 1 else values[:spatial]


def same_gradients(function, *arrays):
    """Compare all gradients with real MLX's."""

    def loss(mx):
        return lambda *xs: (function(mx, *xs) * mx.cos(mx.arange(function(mx, *xs).size).reshape(
            function(mx, *xs).shape))).sum()  # fmt: skip

    # sums of hundreds of products
    check(lambda mx, *xs: mx.grad(loss(mx), argnums=tuple(range(len(xs))))(*xs), *arrays, tol=1e-4)


@BOTH
@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2, "padding": 2}, {"stride": 2, "padding": 2, "dilation": 2}],
    ids=str,
)
def test_conv(spatial, options):
    name = f"conv{spatial}d"
    check(lambda mx, x, w: getattr(mx, name)(x, w, **options), INPUTS[spatial], WEIGHTS[spatial])
    sizes = {k: per_axis(spatial, v, 1, 2) for k, v in options.items()}
    check(lambda mx, x, w: getattr(mx, name)(x, w, **sizes, stream=mx.cpu), INPUTS[spatial], WEIGHTS[spatial])


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((8, 18, 17, 1), (3, 3, 3, 1), {"padding": 1}),
        ((2, 2100, 3), (5, 4, 3), {"padding": 2, "dilation": 2}),
        ((8, 35, 32, 8), (32, 3, 3, 8), {"stride": 2, "padding": (1, 2)}),
        ((8, 20, 18, 9), (65, 2, 2, 9), {"dilation": (2, 1)}),
        ((2, 5, 6, 4), (7, 1, 1, 4), {"stride": (2, 1), "padding": 1}),
        ((3, 9, 4), (2, 1, 4), {"stride": 2}),
        ((1, 4, 3, 5, 2), (3, 1, 1, 1, 2), {}),
        ((0, 5, 6, 4), (7, 1, 1, 4), {}),
    ],
    ids=str,
)
def test_few_and_many_channels(x, w, options):
    x, w = draw(*x), draw(*w)
    name = f"conv{x.ndim - 2}d"
    check(lambda mx, x, w: getattr(mx, name)(x, w, **options), x, w, tol=1e-5)
    if x.size:
        same_gradients(lambda mx, x, w: getattr(mx, name)(x, w, **options) / 30, x, w)
    mapped = ours.vmap(lambda x, w: getattr(ours, name)(x, w, **options))(*(ours.array(a)[None] for a in (x, w)))
    assert ours.allclose(mapped[0], getattr(ours, name)(ours.array(x), ours.array(w), **options), 1e-4, 1e-4)


@BOTH
@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("padding", [0, 1, 3])
def test_strided_transposed_convolutions(spatial, stride, kernel, padding):
    name = f"conv_transpose{spatial}d"
    x, w = draw(2, *(7, 5, 3)[:spatial], 3), draw(6, *(kernel,) * spatial, 3)
    # if no padding is cropped, real MLX's gradient has another shape than the input
    options = {"stride": stride, "padding": padding, "output_padding": int(spatial == 1 and padding > 0)}

    def transposed(mx, x, w):
        return getattr(mx, name)(x, w, **options)

    if not isinstance(check(transposed, x, w, tol=1e-5), Exception):
        same_gradients(transposed, x, w)


@BOTH
@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 2}, {"padding": 1}, {"stride": 2, "padding": 1, "output_padding": 1}, {"stride": 3, "dilation": 2}],
    ids=str,
)
def test_conv_transpose(spatial, options):
    name = f"conv_transpose{spatial}d"
    check(lambda mx, x, w: getattr(mx, name)(x, w, **options), INPUTS[spatial], WEIGHTS[spatial])
    sizes = {k: per_axis(spatial, v, 1, 2) for k, v in options.items()}
    check(lambda mx, x, w: getattr(mx, name)(x, w, **sizes), INPUTS[spatial], WEIGHTS[spatial])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [2, 3])
@pytest.mark.parametrize("output_padding", [0, 1, -1])
def test_conv_transpose_cuts_off(stride, padding, output_padding):
    weights = WEIGHTS[1][:, :2].copy()
    check(lambda mx, x, w: mx.conv_transpose1d(x, w, stride, padding, 1, output_padding), INPUTS[1], weights)


@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
def test_groups(spatial, name):
    name = f"{name}{spatial}d"
    check(lambda mx, x, w: getattr(mx, name)(x, w, 2, padding=1, groups=2), INPUTS[spatial], HALVED[spatial])
    depthwise = WEIGHTS[spatial][:4, ..., :1].copy()
    check(lambda mx, x, w: getattr(mx, name)(x, w, groups=4), INPUTS[spatial], depthwise)


def test_groups_in_three_dimensions():
    """Test groups in three dimensions, which real MLX refuses."""
    x, w = (ours.array(a[3]) for a in (INPUTS, HALVED))
    halves = [ours.conv3d(x[..., 2 * k : 2 * k + 2], w[3 * k : 3 * k + 3]) for k in (0, 1)]
    got = np.array(ours.conv3d(x, w, groups=2))
    np.testing.assert_allclose(got, np.concatenate([np.array(h) for h in halves], -1), atol=1e-5)


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {}, {"flip": True}, {"padding": 1, "input_dilation": 2}, {"padding": ([1], [2])}, {"padding": [[2], [0]]},
        {"padding": -1}, {"padding": ([-1], [1]), "input_dilation": 2}, {"stride": [2], "kernel_dilation": [1]},
        {"padding": []}, {"padding": ([1, 0, 1], [2, 3, 0])}, {"padding": (1, 2)}, {"padding": (1, [2, 3])},
        {"padding": 1.5},
        {"stride": [2, 1, 2]}, {"kernel_dilation": [1, 1]}, {"input_dilation": (1, 1, 1)}, {"flip": 1},
        {"stride": 0}, {"kernel_dilation": 0}, {"input_dilation": -1}, {"kernel_dilation": 4}, {"padding": -2},
    ],
    ids=str,
)  # fmt: skip
def test_conv_general(spatial, options):
    check(lambda mx, x, w: mx.conv_general(x, w, **options), INPUTS[spatial], WEIGHTS[spatial])


@pytest.mark.parametrize("x", ["bool_", "int32", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("w", ["bool_", "int32", "float16", "bfloat16", "float64"])
def test_dtypes(x, w):
    tol = 2e-5 if "float64" in (x, w) else None  # real MLX computes in float32 then
    operands = (INPUTS[1], WEIGHTS[1])
    check(lambda mx, a, b: mx.conv1d(a.astype(getattr(mx, x)), b.astype(getattr(mx, w))), *operands, tol=tol)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 7), (6, 3), {}), ((7,), (6, 3, 4), {}), ((2, 7, 4), (6, 3, 3, 4), {}), ((2, 7, 4), (6, 4), {}),
        ((2, 7, 4), (6, 3, 3), {}), ((2, 7, 4), (6, 8, 4), {}), ((2, 7, 4), (5, 3, 2), {"groups": 2}),
        ((2, 7, 4), (6, 3, 4), {"groups": 2}), ((2, 7, 4), (6, 3, 2), {"groups": 3}),
        ((2, 7, 4), (6, 3, 4), {"groups": -1}),
        ((2, 0, 4), (6, 3, 4), {}), ((2, 7, 4), (6, 3, 4), {"padding": -3}), ((2, 7, 4), (6, 3, 4), {"stride": (1,)}),
        ((2, 7, 4), (6, 3, 4), {"dilation": 0}), ((2, 7, 4), (6, 3, 4), {"stride": 0}), ((0, 7, 4), (6, 3, 4), {}),
        ((2, 0, 4), (6, 3, 4), {"padding": 2}), ((2, 7, 7, 4), (6, 3, 3, 4), {}),
    ],
    ids=str,
)  # fmt: skip
def test_shapes(x, w, options):
    check(lambda mx: mx.conv1d(mx.ones(x), mx.ones(w), **options))
    if len(x) == len(w) and 0 not in x:  # otherwise real MLX reads missing axes, or crashes
        check(lambda mx: mx.conv_transpose1d(mx.ones(x), mx.ones(w), **options))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("conv2d", {"stride": (1,)}), ("conv2d", {"stride": (1, 1, 1)}), ("conv2d", {"stride": 1.0}),
        ("conv2d", {"padding": [1, 0]}), ("conv3d", {}), ("conv1d", {}), ("conv_transpose2d", {"output_padding": (0,)}),
        ("conv_transpose3d", {}),
    ],
    ids=str,
)  # fmt: skip
def test_sizes_for_two_axes(name, options):
    check(lambda mx, x, w: getattr(mx, name)(x, w, **options), INPUTS[2], WEIGHTS[2])


RANKS = [(), (3,), (2, 3), (2, 3, 4), (2, 3, 4, 4), (2, 3, 4, 5, 4), (2, 3, 4, 5, 6, 4)]


@pytest.mark.parametrize("kernel", [(), (4,), (5, 4), (5, 2, 4), (5, 2, 2, 4), (5, 2, 2, 2, 4), (5, 2, 2, 2)])
@pytest.mark.parametrize(
    "name", ["conv_general", *[f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)]]
)
def test_ranks_that_do_not_fit(name, kernel):
    for shape in RANKS:
        for groups in (1, 2):
            check(lambda mx, s=shape, g=groups: getattr(mx, name)(mx.ones(s), mx.ones(kernel), groups=g))


def test_arguments_must_be_arrays():
    check(lambda mx: mx.conv1d([[[1.0]]], mx.ones((1, 1, 1))))
    check(lambda mx: mx.conv1d(mx.ones((1, 1, 1)), np.ones((1, 1, 1), "f")))
    check(lambda mx: mx.conv1d(input=mx.ones((1, 1, 1)), weight=mx.ones((1, 1, 1))))


def test_no_channels():
    """Test empty sums and empty results, on which real MLX crashes."""
    assert not np.array(ours.conv1d(ours.ones((1, 5, 0)), ours.ones((3, 3, 0)))).any()
    assert ours.conv1d(ours.ones((1, 5, 2)), ours.ones((0, 3, 2))).shape == (1, 3, 0)
    ours.eval(ours.conv1d(ours.ones((1, 5, 2)), ours.ones((0, 3, 2))))


@BOTH
def test_gradients(spatial):
    x, w = INPUTS[spatial], WEIGHTS[spatial]
    same_gradients(lambda mx, x, w: getattr(mx, f"conv{spatial}d")(x, w, 2, 1), x, w)
    options = {"padding": ([2], [1]), "kernel_dilation": 2, "input_dilation": 2}
    same_gradients(lambda mx, x, w: mx.conv_general(x, w, **options), x, w)
    same_gradients(lambda mx, x, w: getattr(mx, f"conv_transpose{spatial}d")(x, w, 2, 1, 1, 1), x, w)


def test_gradients_of_groups_and_halves():
    same_gradients(lambda mx, x, w: mx.conv2d(x, w, padding=1, groups=2), INPUTS[2], HALVED[2])
    half = (INPUTS[1], WEIGHTS[1])
    check(lambda mx, x, w: mx.grad(lambda w: mx.conv1d(x.astype(mx.float16), w).sum())(w), *half)
    of_bfloat16 = 1.6e-2  # tolerance for a gradient in bfloat16
    check(lambda mx, x, w: mx.grad(lambda w: mx.conv1d(x, w.astype(mx.bfloat16)).sum())(w), *half, tol=of_bfloat16)


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
def test_forward_mode(name):
    """Compare forward mode: convolution is linear in each argument, so its jvp is the convolution of the tangent."""
    mx = ours
    x, w = mx.array(INPUTS[2]), mx.array(WEIGHTS[2])
    function = getattr(mx, name)
    (out,), (tangent,) = mx.jvp(lambda x, w: function(x, w, 2), [x, w], [w.sum() * x, 2 * w])
    np.testing.assert_allclose(np.array(tangent), np.array(out * (w.sum() + 2)), rtol=1e-4, atol=1e-4)
    second = mx.grad(lambda w: mx.grad(lambda w: (function(x, w) ** 2).sum())(w).sum())(w)
    assert second.shape == w.shape
    assert np.abs(np.array(second)).max() > 1


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1)])
def test_vmap(axes):
    x, w = np.stack([INPUTS[2], INPUTS[2] + 1]), np.stack([WEIGHTS[2], WEIGHTS[2] * 2])
    want = [np.array(real.conv2d(real.array(a), real.array(b), groups=1)) for a, b in zip(
        x if axes[0] is not None else [x[0]] * 2, w if axes[1] is not None else [w[0]] * 2, strict=True)]  # fmt: skip
    operands = [
        ours.array(a[0] if axis is None else np.moveaxis(a, 0, axis)) for a, axis in zip((x, w), axes, strict=True)
    ]
    got = ours.vmap(lambda x, w: ours.conv2d(x, w), in_axes=axes)(*operands)
    np.testing.assert_allclose(np.array(got), np.stack(want), rtol=1e-4, atol=1e-4)
