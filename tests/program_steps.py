"""The steps that random programs are made of: expressions with holes, which `tests.programs` fills.

`<x>` is any array at hand, `<n>` one of numbers, `<r>` of real ones, `<f>` of floats, `<i>` of integers, `<b>` of
bools, `<c>` of complex numbers; a digit is the least number of dimensions, and `<xsame>` the last one again. The other
holes are parameters: axes, numbers, dtypes, indices.
"""

from __future__ import annotations

__all__ = ["STEPS"]

_UNARY = """
abs sin cos tanh sinh:tanh cosh:tanh exp:tanh expm1:tanh sigmoid erf square negative floor ceil round sign rint:round
log:pos log1p:pos log2:pos log10:pos sqrt:pos rsqrt:pos reciprocal:pos arcsin:unit arccos:unit arctan arcsinh
arccosh:big arctanh:unit erfinv:unit degrees radians isfinite isnan isinf logical_not stop_gradient trunc tan:unit
isposinf isneginf nan_to_num atan asin:unit
"""
_DOMAINS = {
    "": "mx.{op}(<{kind}>)",
    "tanh": "mx.{op}(mx.tanh(<{kind}>))",
    "unit": "mx.{op}(mx.sin(<{kind}>) * 0.9)",
    "pos": "mx.{op}(mx.abs(<{kind}>) + 0.25)",
    "big": "mx.{op}(mx.abs(<{kind}>) + 1.25)",
}
_REAL_ONLY = {"floor", "ceil", "round", "sign", "erf", "erfinv", "degrees", "radians", "trunc", "isposinf", "isneginf",
              "nan_to_num", "log1p", "expm1", "arccosh"}  # fmt: skip

_OTHERS = """
<x> + <x>
<x> - <x>
<x> * <x>
<n> * <num>
<num> + <x>
<num> - <n>
<x> / (mx.abs(<x>) + 1)
<num> / (mx.abs(<r>) + 1.5)
<x> // (mx.abs(<r>) + 1)
<x> % (mx.abs(<r>) + 1)
<r> // <pos>
<r> % <pos>
(mx.abs(<f>) + 0.5) ** <r>
<f> ** <pos>
<i> ** 2
-<n>
abs(<n>)
mx.divmod(<r>, <pos>)[<bit>]
mx.maximum(<r>, <r>)
mx.minimum(<r>, <r>)
mx.maximum(<r>, <num>)
mx.logaddexp(<f>, <f>)
mx.arctan2(<f>, mx.abs(<f>) + 0.5)
mx.clip(<r>, <num>, None)
mx.clip(<f>, -0.5, 0.5)
mx.clip(<r>, None, <r>)
mx.where(<b>, <x>, <x>)
mx.where(<r> > <num>, <x>, <num>)
mx.where(mx.stop_gradient(<r>), <x>, <x>)
<r> > <r>
<x> == <x>
<x> != <num>
<r> <= <num>
mx.logical_and(<x>, <x>)
mx.logical_or(<x>, <x>)
<b> & <b>
<b> | <b>
~<b>
<i> & <i>
<i> | <pos>
<i> ^ <i>
~<i>
<i> << 1
<i> >> 1
mx.right_shift(<i>, 2)
mx.bitwise_invert(<i>)
mx.isclose(<r>, <r>)
mx.allclose(<r>, <r>)
mx.array_equal(<x>, <x>)
<x>.astype(<dt>)
<f>.astype(<fdt>)
mx.view(<f>, mx.float32)
mx.real(<c>)
mx.imag(<c>)
mx.conj(<x>)
<c>.real
<x>.imag
mx.sum(<x>, axis=<axes>, keepdims=<keep>)
mx.mean(<x>, axis=<axes>, keepdims=<keep>)
<x>.sum(<axes>)
<x>.mean()
mx.prod(<n>, axis=<axes>, keepdims=<keep>)
mx.max(<r>, axis=<axes>, keepdims=<keep>)
mx.min(<r>, axis=<axes>, keepdims=<keep>)
<r>.max(<axes>)
mx.all(<x>, axis=<axes>, keepdims=<keep>)
mx.any(<x>, axis=<axes>, keepdims=<keep>)
mx.var(<f>, axis=<axes>, keepdims=<keep>)
mx.std(<f> * mx.arange(1.0, 4.0), axis=<axis>, ddof=<bit>)
mx.logsumexp(<f>, axis=<axes>, keepdims=<keep>)
mx.median(<r>, axis=<axes>, keepdims=<keep>)
mx.argmax(<r>, axis=<axis>, keepdims=<keep>)
mx.argmin(<r1>)
mx.softmax(<r>, axis=<axes>)
mx.softmax(<f>, axis=<axis>, precise=True)
mx.cumsum(<x>, axis=<axis>, reverse=<keep>, inclusive=<keep>)
mx.cumprod(<n>, axis=<axis>, reverse=<keep>, inclusive=<keep>)
mx.cummax(<r>, axis=<axis>, reverse=<keep>)
mx.cummin(<r>, axis=<axis>, inclusive=<keep>)
mx.logcumsumexp(<f>, axis=<axis>, reverse=<keep>)
mx.cumsum(<x>)
mx.diff(<n1>, axis=<axis>)
mx.sort(<r>, axis=<axis>)
mx.sort(<r>, axis=None)
mx.argsort(<r>, axis=<axis>)
mx.topk(<r>, 2, axis=<axis>).sum()
mx.partition(<r>, 1, axis=<axis>).max()
mx.searchsorted(mx.sort(<f1>, axis=None), <f>)
mx.reshape(<x>, (-1,))
<x>.reshape(-1, 3)
<x>.reshape(3, -1)
mx.flatten(<x>)
<x>.flatten(<axis>, -1)
mx.unflatten(<x1>, <axis>, (-1, 1))
mx.transpose(<x>)
<x>.T
<x2>.swapaxes(<axis>, -1)
mx.moveaxis(<x1>, <axis>, 0)
mx.transpose(<x3>, (1, 2, 0))
mx.matrix_transpose(<x2>)
mx.expand_dims(<x>, <axis>)
mx.expand_dims(<x>, (0, -1))
mx.squeeze(<x>)
mx.squeeze(<x>, <axis>)
mx.broadcast_to(<x>, (2, 3, 3))
mx.broadcast_arrays(<x>, <x>)[<bit>]
mx.concatenate([<x1>, <x1>], axis=<axis>)
mx.concatenate([<x1>, <x1>, <x1>])
mx.stack([<x>, <x>], axis=<axis>)
mx.split(<x1>, 3, axis=<axis>)[1]
mx.split(<x1>, [1], axis=<axis>)[<bit>]
mx.split(<x1>, [1, 2], <axis>)[2]
mx.unstack(<x1>, <axis>)[0] if hasattr(mx, "unstack") else <x1>
mx.repeat(<x>, 2, axis=<axis>)
mx.repeat(<x>, 2)
mx.tile(<x>, 2)
mx.tile(<x>, (2, 1))
mx.pad(<x>, 1)
mx.pad(<x1>, [(1, 0)] * <x1same>.ndim, constant_values=<num>)
mx.pad(<x1>, (1, 1), mode="edge")
mx.roll(<x>, <shift>, axis=<axis>)
mx.roll(<x>, <shift>)
mx.roll(<x2>, (1, 2), axis=(0, 1))
mx.flip(<x>, <axis>)
mx.diag(<x1>, <bit>)
mx.diagonal(<x2>, <shift>)
mx.trace(<x2>)
mx.tril(<x2>, <shift>)
mx.triu(<x2>)
mx.meshgrid(<x1>, <x1>)[<bit>]
mx.atleast_2d(<x>)
mx.as_strided(mx.stack([<x>, <xsame>]), (2,), (1,), 0)
mx.contiguous(<x>)
mx.zeros_like(<x>) + <x>
mx.ones_like(<x>)
mx.full((2, 3), <num>) * <x>
mx.arange(3) * <x>
mx.linspace(0, 1, 3) + <x>
mx.eye(3) * <x>
mx.identity(3) + <x>
mx.tri(3) * <x>
<x1>[<ix>]
<x1>[<ix>]
<x2>[<ix>, <ix>]
<x2>[<ix>, <ix>]
<x3>[..., <ix>]
<x>[None]
<x>[...]
<x>[..., None]
<x3>[<ix>, None, <ix>]
mx.take(<x1>, <idx>, axis=<axis>)
mx.take(<x1>, <idx>)
mx.take(<x1>, 0, axis=<axis>)
mx.take_along_axis(<r1>, mx.argsort(<r1same>, axis=<axis>), axis=<axissame>)
mx.take_along_axis(<r1>, mx.stop_gradient(mx.argsort(<r1same>, axis=<axis>)), axis=<axissame>)
mx.take_along_axis(<x2>, mx.zeros((1, 1), mx.int32), axis=<axis>)
mx.put_along_axis(<x2>, mx.zeros((1, 1), mx.int32), mx.array(<num>), axis=<axis>)
put(<x1>, <ix>, <num>)
put(<x1>, <wix>, <x>)
put(<x2>, (<wix>, <ix>), <x>)
put(<x2>, (slice(None), <wix>), <x>)
put(<x>, ..., <x>)
put(<x>, <xsame> > 0, <x>)
put(<x>, <b>, <num>)
augment(<f1>, <wix>, <f>)
<x1>.at[<ixa>].add(<x>)
<x1>.at[<ixa>].multiply(<x>)
<r1>.at[<ixa>].maximum(<r>)
<r1>.at[<ixa>].minimum(<r>)
<x1>.at[<ixa>].subtract(<num>)
<f1>.at[<wix>].divide(2.5)
mx.slice(<x2>, mx.array([0]), (0,), (1,) + <x2same>.shape[1:])
mx.slice_update(<x2>, <x2same>[:1] * 2, mx.array([0]), (0,))
iadd(<f>, <x>)
mx.matmul(<f1>, <f1>)
<f2> @ <f2>
<f1> @ <f2>
<f2> @ <f2same>.swapaxes(-1, -2)
mx.addmm(<f>, <f2>, <f2>)
mx.stop_gradient(mx.addmm(<f>, <f2>, <f2>, alpha=<num>, beta=0.5))
mx.inner(<f1>, <f1>)
mx.outer(<f>, <f>)
mx.tensordot(<f1>, <f1>, axes=1)
mx.tensordot(<f2>, <f2>, axes=([-1], [-1]))
mx.einsum("ij,jk->ik", <f2>, <f2>)
mx.einsum("...i,i->...", <f1>, <f1>)
mx.einsum("ij->ji", <f2>)
mx.kron(<f1>, <f1>)
mx.vecdot(<f1>, <f1>)
mx.convolve(<f1>, mx.array([1.0, -0.5]), mode="same")
mx.linalg.norm(<f1>)
mx.linalg.norm(<f1>, axis=<axis>, keepdims=<keep>)
mx.linalg.norm(<f1>, ord=1, axis=<axis>)
mx.linalg.norm(<f2>, "fro")
mx.linalg.inv(mx.broadcast_to(<f32>, (3, 3)) * 0.1 + mx.eye(3), stream=mx.cpu)
mx.linalg.solve(mx.tanh(mx.broadcast_to(<f32>, (3, 3))) + 4 * mx.eye(3), mx.ones((3,)), stream=mx.cpu)
mx.linalg.cholesky(gram(mx, <f32>), stream=mx.cpu)
mx.linalg.eigvalsh(gram(mx, <f32>), stream=mx.cpu)
mx.linalg.cross(mx.broadcast_to(<f32>, (2, 3)), mx.ones((2, 3)))
mx.random.uniform(shape=<shape>, key=<key>) * <x>
mx.random.uniform(<num>, 3.0, <shape>, key=<key>)
mx.random.normal(<shape>, key=<key>) + <x>
mx.random.normal(<shape>, mx.float16, key=<key>)
mx.random.randint(0, 10, <shape>, key=<key>) + <x>
mx.random.bernoulli(0.5, <shape>, key=<key>)
mx.random.bernoulli(mx.sigmoid(<f>), key=<key>)
mx.random.categorical(<f1>, key=<key>)
mx.random.categorical(<f1>, num_samples=4, key=<key>)
mx.random.permutation(<x1>, key=<key>)
mx.random.permutation(<x1>, axis=<axis>, key=<key>)
mx.random.gumbel(<shape>, key=<key>) + <x>
mx.random.laplace(<shape>, key=<key>) * <x>
mx.random.truncated_normal(-1.0, 1.0, <shape>, key=<key>)
mx.random.split(<key>, 3)
mx.random.bits(<shape>, key=<key>) >> 24
mx.array([<num>, <num>, <num>]) * <x>
mx.stop_gradient(<x>) * <x>
mx.checkpoint(lambda a: mx.sin(a) * a)(<f>)
mx.compile(lambda a, b: a * b + 1)(<x>, <x>)
mx.vmap(lambda a: a.sum() * a)(<x1>)
mx.vmap(lambda a, b: a * b, in_axes=(None, 0))(<x>, <x1>)
mx.vmap(lambda a: a - 1.5, out_axes=-1)(<x1>)
mx.grad(lambda a: (a * a).sum())(<f>)
mx.grad(lambda a, b: (mx.sin(a) * b).sum(), argnums=(0, 1))(<f>, <fsame>)[<bit>]
mx.value_and_grad(lambda a: mx.tanh(a).sum())(<f>)[1]
mx.vjp(lambda a: mx.exp(mx.sin(a)), [<f>], [<fsame>])[1][0]
mx.jvp(lambda a: mx.exp(mx.sin(a)), [<f>], [<fsame>])[1][0]
mx.custom_function(lambda a: a * mx.sin(a))(<f>)
len(<x1>) * <x>
<x1>.shape[0] + <n>
<x>.size * <x>
sum(a for a in <x1>)
list(<x1>)[0]
"""


def _steps() -> list[str]:
    steps = []
    for word in _UNARY.split():
        name, _, domain = word.partition(":")
        op = "round" if name == "rint" else name
        kind = "r" if op in _REAL_ONLY else "n"
        if op in ("logical_not", "stop_gradient", "isfinite", "isnan", "isinf"):
            kind = "x"
        steps.append(_DOMAINS[domain if domain in _DOMAINS else ""].format(op=op, kind=kind))
    return steps + [line for line in _OTHERS.strip().splitlines() if line]


STEPS = _steps()
