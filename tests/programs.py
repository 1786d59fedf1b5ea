"""Random programs: seeded compositions of ops, as source text that real MLX and mxcompat both run.

A program grows step by step: an op is drawn from `STEPS`, its operands from what exists already, and real MLX says
whether the step is a good one (it does not raise, its values are finite and of moderate size). What is drawn is text,
so a program that fails is its own reproduction.

Left out, because real MLX does not define them or dies of them: indices out of bounds, integer division by zero and by
the least integer, shifts by more than the width, casts of floats that do not fit, writes to one place through
several indices, `partition` and `argpartition` as such (the order within a part is free), eigenvectors (their sign is
free), unsorted `searchsorted`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as real
import numpy as np

from tests.oracle import to_numpy

__all__ = ["LOOPED", "MODES", "NEED_FLOATS", "Program", "inexact", "make", "perturbed", "run_mode"]

SHAPES = ((), (3,), (2, 3), (3, 3), (2, 1, 3), (1, 3), (2, 3, 3))
DTYPES = ("float32",) * 9 + (
    "int32", "int32", "bool_", "uint8", "int8", "int64", "uint32", "float16", "bfloat16", "complex64", "float64",
    "int16", "uint16", "uint64",
)  # fmt: skip
NAMES = (
    "bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip
LIMIT = {"uint8": 255, "int8": 127, "uint16": 3e4, "int16": 3e4, "float16": 1e3}

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
mx.stop_gradient(mx.divmod(<r>, <pos>)[<bit>])
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
mx.where(<r>, <x>, <x>)
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

_NAME = re.compile(r"\b[xv]\d+\b")
HOLE = re.compile(r"<([a-z]+?)(\d?)(same)?>")
KINDS = {"x": "buifc", "n": "uifc", "r": "buif", "f": "f", "i": "ui", "b": "b", "c": "c"}


@dataclass
class Program:
    """A function of arrays, as text.

    Args:
        inputs: the arguments, NumPy arrays, and the MLX dtype of each.
        steps: one expression a line; the k-th is bound to `v{k}`, the inputs to `x{k}`.
        results: the names of what it returns.
    """

    seed: int
    inputs: list[tuple[np.ndarray, str]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def text(self) -> str:
        args = ", ".join(f"x{k}" for k in range(len(self.inputs)))
        body = [f"    v{k} = {step}" for k, step in enumerate(self.steps)]
        return "\n".join([f"def program({args}):", *body, f"    return ({', '.join(self.results)},)"])

    def function(self, mx: Any) -> Callable[..., tuple]:
        names = {"mx": mx, "put": _put, "augment": _augment, "iadd": _iadd, "gram": _gram}
        exec(self.text(), names)
        return names["program"]

    def arguments(self, mx: Any, arrays: list[np.ndarray] | None = None) -> list[Any]:
        given = [x for x, _ in self.inputs] if arrays is None else arrays
        return [_as(mx, x, dtype) for x, (_, dtype) in zip(given, self.inputs, strict=True)]

    def __str__(self) -> str:
        lines = [f"x{k} = mx.array({x.tolist()!r}).astype(mx.{d})" for k, (x, d) in enumerate(self.inputs)]
        return "\n".join([f"# seed {self.seed}", *lines, self.text()])


def _as(mx: Any, x: np.ndarray, dtype: str) -> Any:
    return mx.array(x, getattr(mx, dtype)) if dtype == "float64" else mx.array(x).astype(getattr(mx, dtype))


def _put(x: Any, index: Any, value: Any) -> Any:
    x = x[...]
    x[index] = value
    return x


def _augment(x: Any, index: Any, value: Any) -> Any:
    x = x[...]
    x[index] *= value
    return x


def _iadd(x: Any, y: Any) -> Any:
    x = x[...]
    x += y
    return x


def _gram(mx: Any, x: Any) -> Any:
    x = mx.broadcast_to(x, (3, 3))
    return x @ x.T * 0.1 + mx.diag(mx.array([1.0, 2.0, 3.5]))


def make(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    numbers = np.random.default_rng(seed)
    program = Program(seed)
    values: dict[str, Any] = {}
    for k in range(rng.choice((1, 2, 2, 3))):
        dtype = "float32" if k == 0 and rng.random() < 0.7 else rng.choice(DTYPES)
        x = _draw(numbers, rng.choice(SHAPES), dtype)
        program.inputs.append((x, dtype))
        values[f"x{k}"] = _as(real, x, dtype)
    names = {"mx": real, "put": _put, "augment": _augment, "iadd": _iadd, "gram": _gram}
    wanted = rng.choice((2, 3, 3, 4, 4, 5, 6, 8, 10))
    with real.stream(real.cpu):
        for _ in range(60 * wanted):
            if len(program.steps) == wanted:
                break
            step = _filled(rng.choice(STEPS), rng, values)
            if step is None:
                continue
            try:
                value = eval(step, names | values)
                real.eval(value)
            except Exception:
                if rng.random() < 0.002:  # the exception is what there is to compare
                    program.steps.append(step)
                    break
                continue
            if not isinstance(value, real.array) or not _moderate(value):
                continue
            if _kind(value) in "bui" and any(_kind(values[n]) in "fc" for n in _NAME.findall(step)):
                step = f"mx.stop_gradient({step})"
            values[f"v{len(program.steps)}"] = value
            program.steps.append(step)
    last = f"v{len(program.steps) - 1}"
    program.results = list(dict.fromkeys([last] if rng.random() < 0.6 else [last, rng.choice([*values][-3:])]))
    return program


def _draw(numbers: np.random.Generator, shape: tuple, dtype: str) -> np.ndarray:
    if dtype == "bool_":
        return numbers.random(shape) < 0.5
    if dtype == "complex64":
        return np.asarray(numbers.normal(size=shape) + 1j * numbers.normal(size=shape)).round(3).astype(np.complex64)
    if dtype.startswith("u"):
        return numbers.integers(0, 6, shape).astype(np.int32)
    if dtype.startswith("i"):
        return numbers.integers(-5, 6, shape).astype(np.int32)
    return np.asarray(numbers.normal(size=shape)).round(3).astype(np.float64 if dtype == "float64" else np.float32)


def _moderate(value: Any) -> bool:
    x = to_numpy(value)
    name = str(value.dtype).rpartition(".")[2]
    if x.size > 200 or x.size == 0 or x.ndim > 5:
        return False
    if name == "bfloat16":
        x = x.astype(np.float32)
    return bool(np.all(np.isfinite(x)) and np.all(np.abs(x.astype(np.complex128)) < LIMIT.get(name, 1e4)))


def _kind(value: Any) -> str:
    name = str(value.dtype).rpartition(".")[2]
    return {"b": "f" if name == "bfloat16" else "b"}.get(name[0], name[0])


def _filled(step: str, rng: random.Random, values: dict[str, Any]) -> str | None:
    """A step with its holes filled, or None if there is nothing to fill them with."""
    chosen: list[str] = []
    drawn: dict[str, str] = {}

    def fill(match: re.Match) -> str:
        kind, ndim, same = match.groups()
        if kind in KINDS:
            if same:
                return chosen[-1]
            fits = [n for n, v in values.items() if _kind(v) in KINDS[kind] and v.ndim >= int(ndim or 0)]
            recent = fits[-2:]
            chosen.append(rng.choice(recent if rng.random() < 0.5 else fits))  # IndexError if there is none
            return chosen[-1]
        if not same:
            drawn[kind] = _parameter(kind, rng, values[chosen[0]] if chosen else None)
        return drawn[kind]

    try:
        return HOLE.sub(fill, step)
    except IndexError:
        return None


def _parameter(kind: str, rng: random.Random, first: Any) -> str:
    ndim = first.ndim if first is not None else 1
    axis = rng.randrange(-ndim, ndim) if ndim else -1
    if rng.random() < 0.01:
        axis = ndim + 1
    whole = first is not None and _kind(first) in "uib"
    if kind == "axis":
        return str(axis)
    if kind == "axes":
        several = rng.sample(range(ndim), rng.randrange(0, ndim + 1))
        return repr(rng.choice((None, axis, axis, tuple(several) or None, list(several) or None)))
    if kind == "num":
        integers = whole and rng.random() < 0.7
        return repr(rng.choice((1, 2, 3, 0, True) if integers else (0.5, 2, -1.5, 1, 0.25)))
    options: dict[str, Callable[[], str]] = {
        "keep": lambda: rng.choice(("True", "False")),
        "bit": lambda: rng.choice("01"),
        "pos": lambda: rng.choice(("2", "3") if whole else ("2", "3", "1.5", "0.5")),
        "shift": lambda: rng.choice(("-1", "0", "1", "2")),
        "dt": lambda: "mx." + rng.choice(NAMES),
        "fdt": lambda: "mx." + rng.choice(("float32", "float16", "bfloat16")),
        "shape": lambda: repr(rng.choice(SHAPES)),
        "key": lambda: f"mx.random.key({rng.randrange(5)})",
        "idx": lambda: rng.choice(("mx.array([0, -1])", "mx.array([[-1, 0], [0, 0]])", "mx.array(0)", "mx.array([0])")),
        "ix": lambda: rng.choice(
            ("0", "-1", ":", "1:", ":-1", "::-1", "::2", "mx.array([0, 0])", "mx.array(0)", "None", "[0, -1]",
             "mx.array([[0], [0]])", "mx.array([0], mx.uint32)", "-2:", "0:1", "1::-1", "...")),
        "wix": lambda: rng.choice(("0", "-1", "slice(1, None)", "slice(None, None, -1)", "slice(None, None, 2)",
                                   "mx.array([0])", "mx.array(0)", "slice(0, 1)", "None", "slice(None)")),
        "ixa": lambda: rng.choice(("0", ":", "mx.array([0, 0])", "1:", "mx.array([[0], [0]])", "::2", "mx.array(-1)")),
    }  # fmt: skip
    text = options[kind]()
    return text


def perturbed(program: Program, amount: float) -> list[np.ndarray]:
    """The inputs, each float off by a relative amount: what changes a lot then is not worth comparing."""
    numbers = np.random.default_rng(program.seed)
    out = []
    for x, dtype in program.inputs:
        if x.dtype.kind not in "fc":
            out.append(x)
            continue
        unit = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-6}.get(dtype, 1e-6)
        out.append((x * (1 + amount * unit * numbers.choice((-1.0, 1.0), x.shape))).astype(x.dtype))
    return out


# Modes: what is done with a program. Each takes mx, the function, its arguments and a source of choices.


def _tangents(mx: Any, xs: list[Any]) -> list[Any]:
    return [((mx.arange(x.size).reshape(x.shape) % 5 - 1.5) * 0.5).astype(x.dtype) for x in xs]


def _scalar(mx: Any, f: Callable) -> Callable:
    """A weighted sum of all the outputs of `f`."""

    def total(*xs: Any) -> Any:
        result = mx.array(0.0)
        for out in f(*xs):
            if out.dtype == mx.complex64:
                out = mx.real(out) + 0.5 * mx.imag(out)
            weights = (mx.arange(out.size).reshape(out.shape) % 7 + 1) * 0.25
            result = result + (out.astype(mx.float32) * weights).sum()
        return result

    return total


def inexact(mx: Any, xs: list[Any]) -> list[int]:
    inexact = (mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64)
    return [k for k, x in enumerate(xs) if x.dtype in inexact]


def _grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.grad(_scalar(mx, f), argnums=inexact(mx, xs))(*xs)


def _value_and_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.value_and_grad(_scalar(mx, f), argnums=inexact(mx, xs))(*xs)


def _of_inexact(mx: Any, f: Callable, xs: list[Any]) -> tuple[Callable, list[Any]]:
    """The function of the inexact arguments alone, and those."""
    which = inexact(mx, xs)

    def g(*ys: Any) -> Any:
        given = list(xs)
        for k, y in zip(which, ys, strict=True):
            given[k] = y
        return f(*given)

    return g, [xs[k] for k in which]


def _vjp(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    g, ys = _of_inexact(mx, lambda *given: [out for out in f(*given) if inexact(mx, [out])], xs)
    return mx.vjp(g, ys, _tangents(mx, g(*ys)))


def _jvp(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    g, ys = _of_inexact(mx, f, xs)
    return mx.jvp(g, ys, _tangents(mx, ys))


def _batched(mx: Any, xs: list[Any], rng: random.Random, always: bool = False) -> tuple[list[Any], Any]:
    given, axes = [], []
    for k, x in enumerate(xs):
        axis = None if not always and k and rng.random() < 0.3 else rng.randrange(x.ndim + 1)
        axes.append(axis if axis is None or rng.random() < 0.7 else axis - x.ndim - 1)
        other = mx.roll(x, 1) if x.size > 1 else x
        given.append(x if axis is None else mx.stack([x, other], axis))
    return given, axes[0] if len(axes) == 1 else tuple(axes)


def _vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    given, axes = _batched(mx, xs, rng)
    return mx.vmap(f, in_axes=axes, out_axes=rng.choice((0, 0, -1)))(*given)


def _vmap_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    given, axes = _batched(mx, xs, rng)
    return mx.vmap(mx.grad(_scalar(mx, f), argnums=inexact(mx, xs)), in_axes=axes)(*given)


def _grad_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    given, axes = _batched(mx, xs, rng)
    return mx.grad(_scalar(mx, mx.vmap(f, in_axes=axes)), argnums=inexact(mx, xs))(*given)


def _vmap_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    given, axes = _batched(mx, xs, rng, always=True)
    twice, more = _batched(mx, given, rng)
    return mx.vmap(mx.vmap(f, in_axes=axes), in_axes=more, out_axes=1)(*twice)


def _compile(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    g = mx.compile(f)
    return [g(*xs), g(*xs)]


def _shapeless(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.compile(f, shapeless=True)(*xs)


def _compile_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.compile(mx.grad(_scalar(mx, f), argnums=inexact(mx, xs)))(*xs)


def _grad_compile(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.grad(_scalar(mx, mx.compile(f)), argnums=inexact(mx, xs))(*xs)


def _compile_vmap(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    given, axes = _batched(mx, xs, rng)
    return mx.compile(mx.vmap(f, in_axes=axes))(*given)


def _grad_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    which = inexact(mx, xs)
    first = mx.grad(_scalar(mx, f), argnums=which)
    return mx.grad(_scalar(mx, lambda *ys: _tuple(first(*ys))), argnums=which)(*xs)


def _tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _checkpoint(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    return mx.value_and_grad(_scalar(mx, mx.checkpoint(f)), argnums=inexact(mx, xs))(*xs)


def _jvp_grad(mx: Any, f: Callable, xs: list[Any], rng: random.Random) -> Any:
    which = inexact(mx, xs)
    first = mx.grad(_scalar(mx, f), argnums=which)
    g, ys = _of_inexact(mx, lambda *ys: list(_tuple(first(*ys))), xs)
    return mx.jvp(g, ys, _tangents(mx, ys))


MODES: dict[str, Callable[..., Any]] = {
    "vjp": _vjp, "jvp": _jvp, "grad": _grad, "value_and_grad": _value_and_grad, "vmap": _vmap, "vmap_grad": _vmap_grad,
    "grad_vmap": _grad_vmap, "vmap_vmap": _vmap_vmap, "compile": _compile, "shapeless": _shapeless,
    "compile_grad": _compile_grad, "grad_compile": _grad_compile, "compile_vmap": _compile_vmap,
    "grad_grad": _grad_grad, "checkpoint": _checkpoint, "jvp_grad": _jvp_grad,
}  # fmt: skip
NEED_FLOATS = ("grad", "checkpoint", "vjp", "jvp")
"""What is in the names of modes that differentiate, and so need a float to differentiate with respect to."""


class _Looped:
    """Real MLX with a `vmap` that is a loop, and without `compile` and `checkpoint`: its own have faults and gaps."""

    def checkpoint(self, f: Callable) -> Callable:
        return f

    def compile(self, f: Callable, **options: Any) -> Callable:
        return f

    def __getattr__(self, name: str) -> Any:
        return getattr(real, name)

    def vmap(self, f: Callable, in_axes: Any = 0, out_axes: int = 0) -> Callable:
        def call(*args: Any) -> Any:
            axes = [in_axes] * len(args) if isinstance(in_axes, int) else in_axes
            (size,) = {x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None}
            rows = [
                f(*[x if a is None else real.moveaxis(x, a, 0)[k] for x, a in zip(args, axes, strict=True)])
                for k in range(size)
            ]
            if isinstance(rows[0], real.array):
                return real.stack(rows, out_axes)
            return type(rows[0])(real.stack(list(outs), out_axes) for outs in zip(*rows, strict=True))

        return call


LOOPED = _Looped()


def run_mode(mx: Any, program: Program, mode: str, arrays: list[np.ndarray] | None = None) -> Any:
    """A program under a mode (or "plain"), on one side, evaluated; or the exception."""
    rng = random.Random(program.seed)
    try:
        f = program.function(mx)
        xs = program.arguments(mx, arrays)
        out = f(*xs) if mode == "plain" else MODES[mode](mx, f, xs, rng)
        mx.eval(out)
        return out
    except Exception as error:
        return error
