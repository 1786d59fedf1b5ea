"""Invalid calls raise real MLX's errors, at the call, without internal names."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from mxcompat import ext

from .oracle import check, ours, real

HUGE = 2**31 - 1

CALLS = {
    "kron of bools": lambda mx: mx.kron(mx.array([True, False]), mx.array([[True], [True]])),
    "nan_to_num of complex": lambda mx: mx.nan_to_num(mx.array([complex(np.nan, 1), np.inf]), 1.0, 2.0, 3.0),
    "full, no dtype": lambda mx: mx.full((2,), 1.0, dtype=mx.array(1)),
    "full, a name": lambda mx: mx.full((2,), 1.0, dtype="float32"),
    "full_like, no dtype": lambda mx: mx.full_like(mx.ones(2), 1.0, dtype=7),
    "zeros, no dtype": lambda mx: mx.zeros((2,), dtype={}),
    "arange, no dtype": lambda mx: mx.arange(3, dtype=mx.array(1)),
    "reshape, an empty dict": lambda mx: mx.reshape(mx.ones(1), {}),
    "reshape, a dict": lambda mx: mx.reshape(mx.ones((2, 2)), {4: 1}),
    "squeeze, an empty dict": lambda mx: mx.squeeze(mx.ones((1, 2)), {}),
    "squeeze, a dict": lambda mx: mx.squeeze(mx.ones((1, 2)), {0: 1}),
    "tile, an empty dict": lambda mx: mx.tile(mx.ones((2, 2)), {}),
    "tile, a dict": lambda mx: mx.tile(mx.ones((2, 2)), {2: 1}),
    "split, an empty dict": lambda mx: mx.split(mx.ones((4, 2)), {}),
    "split, a dict": lambda mx: mx.split(mx.ones((4, 2)), {2: 1}),
    "einsum of arrays": lambda mx: mx.einsum(mx.ones(3), mx.ones(3)),
    "einsum_path of arrays": lambda mx: mx.einsum_path(mx.ones(3), mx.ones(3)),
    "round, no such int": lambda mx: mx.round(mx.ones(3), 10**30),
    "round, 2**31": lambda mx: mx.round(mx.ones(3), 2**31),
    "round, the largest int": lambda mx: mx.round(mx.array([1.5, 0.0]), HUGE),
    "round, the smallest int": lambda mx: mx.round(mx.array([1.5, 0.0]), -(2**31)),
    "round, beyond the range of floats": lambda mx: [mx.round(mx.array([1.5, 0.0]), n) for n in (39, 45, -39, -50)],
    "compile, an int beyond 64 bits": lambda mx: mx.compile(lambda x: x)([2**63]),
    "compile, shapeless is no bool": lambda mx: mx.compile(lambda x: x, shapeless=1),
    "exporter, shapeless is no bool": lambda mx: mx.exporter("f", lambda x: x, shapeless=1),
    "var, ddof is replaced but wrong": lambda mx: mx.var(mx.ones(3), ddof="1", correction=1),
    "can_cast from None": lambda mx: mx.can_cast(None, mx.int8),
    "from_dlpack of bytes": lambda mx: mx.from_dlpack(b"xyz"),
    "from_dlpack of a buffer": lambda mx: mx.from_dlpack(memoryview(np.arange(6.0).reshape(2, 3)).cast("B")),
    "from_dlpack of text": lambda mx: mx.from_dlpack("xyz"),
    "from_dlpack of bytes, without a copy": lambda mx: mx.from_dlpack(b"xyz", copy=False),
    "as_strided, a negative offset": lambda mx: mx.as_strided(mx.ones(3), (2,), (1,), -1),
    "as_strided, a huge offset": lambda mx: mx.as_strided(mx.ones(3), (2,), (1,), 2**64),
    "as_strided, strides are a dict": lambda mx: mx.as_strided(mx.ones(3), (2,), {}),
    "block_masked_mm of nothing": lambda mx: mx.block_masked_mm(None, mx.ones((2, 2))),
    "broadcast_shapes, the first is none": lambda mx: mx.broadcast_shapes(None, (1, 2)),
    "broadcast_shapes, the second is none": lambda mx: mx.broadcast_shapes((1, 2), None),
    "dequantize, no dtype": lambda mx: mx.dequantize(*mx.quantize(mx.ones((2, 64))), dtype="float32"),
    "quantize, six arguments": lambda mx: mx.quantize(mx.ones((2, 64)), 64, 4, "affine", None, None),
    "quantize, a global scale by position": lambda mx: mx.quantize(mx.ones((2, 64)), 16, 4, "nvfp4", mx.array(2.0)),
    "gather_qqmm, sorted_indices": lambda mx: mx.gather_qqmm(mx.ones((1, 64)), mx.ones((8, 64)), sorted_indices=1),
    "a device without a number": lambda mx: mx.Device(mx.cpu, "0"),
    "a device's number is a bool": lambda mx: repr(mx.Device(mx.cpu, True)),
    "stft, pad_mode is no text": lambda mx: mx.fft.stft(mx.ones(16), 8, center=True, pad_mode=None),
    "rope, base 0": lambda mx: mx.fast.rope(
        mx.ones((1, 2, 4)), 4, traditional=False, base=0.0, scale=1.0, offset=0
    ),
    "rope, a negative base": lambda mx: mx.fast.rope(
        mx.ones((1, 2, 4)), 4, traditional=True, base=-2, scale=1.0, offset=mx.array([1])
    ),
    "depends on a dict": lambda mx: mx.depends(mx.ones(2), {}),
    "depends on a list of no arrays": lambda mx: mx.depends(mx.ones(2), [1]),
    "grad, argnums is a dict": lambda mx: mx.grad(lambda x: x.sum(), {0: 1})(mx.ones(2)),
    "grad, argnums is a set": lambda mx: mx.grad(lambda x: x.sum(), {0})(mx.ones(2)),
    "grad, argnums beyond 32 bits": lambda mx: mx.grad(lambda x: x.sum(), 2**31)(mx.ones(2)),
    "vjp of a dict": lambda mx: mx.vjp(lambda x: x, {}, []),
    "jvp of a number": lambda mx: mx.jvp(lambda x: x, 1.0, [mx.ones(2)]),
    "a rule that is no function": lambda mx: [
        getattr(mx.custom_function(lambda x: x), name)(None) for name in ("vjp", "jvp", "vmap")
    ],
    "Dtype": lambda mx: mx.Dtype("float32"),
    "ArrayIterator": lambda mx: mx.ArrayIterator(mx.ones(3)),
    "ArrayAt": lambda mx: mx.ArrayAt(1),
    "ArrayAt of an array": lambda mx: mx.ArrayAt(mx.ones(3)),
    "item of no array": lambda mx: mx.array.item(3),
    "tolist of no array": lambda mx: mx.array.tolist(3),
    "sum of no array": lambda mx: mx.array.sum(3),
    "astype of no array": lambda mx: mx.array.astype(3, mx.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_real_mlx_does(name):
    check(CALLS[name], message=False)


BEYOND = """
mx.sum(x, axis=n), mx.sum(x, axis=[n]), x.sum(n), mx.softmax(x, axis=n), mx.sort(x, axis=n), mx.cumsum(x, axis=n),
mx.expand_dims(x, n), mx.squeeze(x, n), mx.transpose(x, [n]), mx.swapaxes(x, 0, n), mx.take(x, x, axis=n),
mx.stack([x], axis=n), mx.roll(x, n), mx.tile(x, [n]), mx.pad(x, [(1, n)]), mx.repeat(x, n), mx.round(x, n),
mx.bartlett(n), mx.eye(n), mx.eye(2, 2, n), mx.tri(2, 2, n), mx.diag(x, n), mx.linspace(0, 1, n), mx.fft.fft(x, n),
mx.fft.fftn(x, axes=[n]), mx.fft.fftshift(x, axes=[n]), mx.zeros((n,)), mx.reshape(x, (n,)), mx.broadcast_to(x, (n,)),
mx.broadcast_shapes((n,), (1,)), mx.unflatten(x, 0, (n,)), mx.random.uniform(shape=[n]),
mx.diff(x, n), mx.flatten(x, n), mx.flatten(x, 0, n), mx.partition(x, n), mx.argpartition(x, n), mx.topk(x, n),
mx.conv1d(mx.ones((1, 4, 1)), mx.ones((1, 2, 1)), n), mx.conv1d(mx.ones((1, 4, 1)), mx.ones((1, 2, 1)), groups=n),
mx.conv2d(mx.ones((1, 4, 4, 1)), mx.ones((1, 2, 2, 1)), padding=n), mx.var(x, ddof=n), mx.std(x, correction=n),
mx.conv_general(mx.ones((1, 4, 1)), mx.ones((1, 2, 1)), input_dilation=n), mx.unique(x, n), mx.tensordot(x, x, n),
mx.conv_transpose1d(mx.ones((1, 4, 1)), mx.ones((1, 2, 1)), 1, 0, 1, n), mx.linalg.norm(x, "fro", n),
mx.arange(n * n * n, 7, 2, mx.float32), mx.arange(1, n * n * n, 2, mx.float32), mx.arange(0, n * n * n, 1.0),
mx.PrintOptions(n), mx.full(n, 1.0), mx.set_printoptions(n), mx.Device(mx.cpu, n), mx.distributed.init().split(n),
mx.distributed.send(x, n), mx.distributed.recv((2,), mx.float32, n), mx.distributed.recv_like(x, n)
"""


@pytest.mark.parametrize("bits", [31, 99])
@pytest.mark.parametrize("call", [ast.unparse(call) for call in ast.parse(f"({BEYOND})").body[0].value.elts])
def test_integers_beyond_32_bits(call, bits):
    """Compare integers beyond 32 bits: a TypeError for an axis or number, an OverflowError for a shape. Beyond 64 bits,
    a shape is a TypeError or `std::bad_cast`."""
    check(lambda mx: eval(call, {"mx": mx, "x": mx.ones(2), "n": 2**bits}), message=False)


OF_OTHER_TYPES = """
mx.sum(x, axis="a"), mx.sum(x, axis=1.0), mx.sum(x, axis=["a"]), x.max(axis="a"), mx.softmax(x, axis="a"),
mx.argmax(x, axis="a"), mx.sort(x, axis="a"), mx.cumsum(x, axis="a"), mx.topk(x, "a"), mx.partition(x, "a"),
mx.squeeze(x, axis="a"), mx.expand_dims(x, "a"), mx.flatten(x, "a"), mx.unflatten(x, "a", (1, 1)),
mx.concatenate([x, x], axis="a"), mx.stack([x], axis="a"), mx.split(x, 1, axis="a"), mx.repeat(x, 2, axis="a"),
mx.tile(x, "a"), mx.roll(x, "a"), mx.pad(x, "a"), mx.moveaxis(x, "a", 0), mx.swapaxes(x, 0, "a"), mx.eye("a"),
mx.diag(x, "a"), mx.diagonal(x, axis1="a"), mx.tril(x, "a"), mx.linspace(0, 1, "a"), mx.var(x, ddof="a"),
mx.fft.fft(x, axis="a"), mx.linalg.cross(x, x, axis="a"), mx.vecdot(x, x, axis="a"), mx.quantize(x, "a"),
mx.array([1], dtype="float32"), mx.finfo("float32"), mx.can_cast(mx.int8, "int8"), mx.add(x, x, stream="cpu"),
mx.stream("cpu"), mx.set_default_device("cpu"), mx.set_default_stream("cpu"), mx.set_cache_limit("a")
"""


@pytest.mark.parametrize("call", [ast.unparse(call) for call in ast.parse(f"({OF_OTHER_TYPES})").body[0].value.elts])
@pytest.mark.parametrize("mx", [real, ours], ids=["real", "ours"])
def test_an_argument_of_another_type(mx, call):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        eval(call, {"mx": mx, "x": mx.ones((1, 3))})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nan_to_num_of_float64():
    def run(mx):
        x = mx.array([np.nan, np.inf, -np.inf, 1.5]).astype(mx.float64, stream=mx.cpu)
        return mx.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0, stream=mx.cpu)

    check(run)


@pytest.mark.parametrize("shape", [(0, HUGE, HUGE), (HUGE, 0, HUGE)])
def test_an_empty_array_that_cannot_be_numbered(shape):
    """Assert that an empty array without representable strides is refused, as NumPy and XLA cannot create it."""
    assert real.zeros(shape).size == 0
    with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate \d+ bytes, for an array of shape \("):
        ours.zeros(shape)


def _fails(rule):
    f = ours.custom_function(lambda x: x * 2)
    f.vmap(rule)
    return ours.vmap(f)(ours.ones(2))


EXT = {
    "jacrev of no function": (lambda x: ext.jacrev(3), TypeError, "jacrev.*function is needed"),
    "hessian of no function": (lambda x: ext.hessian(None), TypeError, "hessian.*function is needed"),
    "jacfwd, argnums": (lambda x: ext.jacfwd(ours.sin, "a"), TypeError, "jacfwd.*argnums must be"),
    "hvp, argnums": (lambda x: ext.hvp(ours.sin, (0,)), TypeError, "hvp.*an int as argnums, got tuple"),
    "hvp of nothing": (lambda x: ext.hvp(ours.sin)(), ValueError, r"\[hvp\] There is no argument 0"),
    "value_and_jac, mode": (lambda x: ext.value_and_jac(ours.sin, mode=[]), ValueError, "mode must be"),
    "jax_function of no function": (lambda x: ext.jax_function(3), TypeError, "jax_function.*function is needed"),
    "jax_function returns text": (
        lambda x: ext.jax_function(lambda x: {"a": "b"})(x), TypeError, "tree of arrays, not one with 'b'"
    ),
    "jax_function returns wide numbers": (
        lambda x: ext.jax_function(lambda x: np.ones(2, np.complex128))(x), TypeError, "no arrays of dtype complex128"
    ),
    "fori_loop, a bound": (lambda x: ext.fori_loop(0, 2**31, lambda i, v: v, x), TypeError, "32 bits"),
    "a mesh of no devices": (lambda x: ext.sharding.mesh(devices=[1]), ValueError, r"\[mesh\] Expected"),
    "shard over no mesh": (lambda x: ext.sharding.shard(x, 3, "data"), TypeError, "Expected a mesh, got int"),
    "replicate over no mesh": (lambda x: ext.sharding.replicate(3), TypeError, "Expected a mesh, got int"),
    "fsdp over no mesh": (lambda x: ext.sharding.fsdp(3), TypeError, "Expected a mesh, got int"),
    "a spec that is none": (lambda x: ext.sharding.shard(x, _mesh(), 3), TypeError, "Expected a spec"),
    "a spec for something else": (
        lambda x: ext.sharding.shard({"w": x}, _mesh(), {"b": None}), ValueError, "The spec has nothing for w"
    ),
    "collectives of no program": (lambda x: ext.sharding.collectives(3), TypeError, "compiled JAX function"),
    "from_dense of no array": (lambda x: ext.sparse.from_dense(3), TypeError, "Expected an array, got int"),
    "from_bcoo of something else": (lambda x: ext.sparse.from_bcoo(x), TypeError, "Expected a BCOO matrix"),
    "a sparse product with a number": (
        lambda x: ext.sparse.from_dense(ours.eye(2)) @ 3, TypeError, "Expected an array or a sparse matrix, got int"
    ),
    "a vmap rule that returns no array": (
        lambda x: _fails(lambda x, axes: (1, None)), ValueError, "The vmap rule must return what the function returns"
    ),
}  # fmt: skip


def _mesh():
    return ext.sharding.mesh(data=1)


@pytest.mark.parametrize(("fails", "kind", "message"), EXT.values(), ids=EXT.keys())
def test_what_mlx_has_not_says_what_it_expected(fails, kind, message):
    with pytest.raises(kind, match=message):
        fails(ours.ones(2))
