"""Random programs: seeded compositions of ops, as source text that real MLX and mxcompat both run.

A program grows step by step: an op is drawn from `STEPS` and its operands from earlier values. Real MLX accepts the
step if it does not raise, and its values are finite and moderate. Programs are text, so a failing one reproduces
itself.

Some calls are excluded, because real MLX does not define them or crashes. These are indices out of bounds, integer
division by zero and by the least integer, shifts by more than the width, and casts of floats out of range. Further:
writes to one place through several indices, unsorted `searchsorted`, and `put_along_axis` of too many values.
`partition` and `argpartition` are excluded because the order within a part is free, eigenvectors because their sign
is.

`stop_gradient` keeps differences explained in docs/differences.md out of derivatives: casts from floats to integers
and bools, and `addmm` with `alpha`. `full` of an array and `logsumexp` of bools do not occur.
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
from tests.program_steps import STEPS

__all__ = ["Program", "make", "perturbed"]

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

_NAME = re.compile(r"\b[xv]\d+\b")
HOLE = re.compile(r"<([a-z]+?)(\d?)(same)?>")
KINDS = {"x": "buifc", "n": "uifc", "r": "buif", "f": "f", "i": "ui", "b": "b", "c": "c"}


@dataclass
class Program:
    """A function of arrays, as text.

    Args:
        inputs: the arguments, NumPy arrays, and the MLX dtype of each.
        steps: one expression a line; the k-th is bound to `v{k}`, the inputs to `x{k}`.
        results: the names of the returned values: all that no other step reads, so that every step matters.
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
        values = [x for x, _ in self.inputs] if arrays is None else arrays
        return [_as(mx, x, dtype) for x, (_, dtype) in zip(values, self.inputs, strict=True)]

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
    """Return the program of a seed."""
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
    count = rng.choice((2, 3, 3, 4, 4, 5, 6, 8, 10))
    with real.stream(real.cpu):
        for _ in range(60 * count):
            if len(program.steps) == count:
                break
            step = _filled(rng.choice(STEPS), rng, values)
            if step is None:
                continue
            try:
                value = eval(step, names | values)
                real.eval(value)
            except Exception:
                if rng.random() < 0.002:  # rarely, keep a step that raises, to compare exceptions
                    program.steps.append(step)
                    break
                continue
            if not isinstance(value, real.array) or not _moderate(value):
                continue
            if _kind(value) in "bui" and any(_kind(values[n]) in "fc" for n in _NAME.findall(step)):
                step = f"mx.stop_gradient({step})"
            values[f"v{len(program.steps)}"] = value
            program.steps.append(step)
    read = {name for step in program.steps for name in _NAME.findall(step)}
    program.results = [name for k in reversed(range(len(program.steps))) if (name := f"v{k}") not in read]
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
    """Return a step with its holes filled, or None if there is nothing to fill them with."""
    chosen: list[str] = []
    drawn: dict[str, str] = {}

    def fill(match: re.Match) -> str:
        kind, ndim, same = match.groups()
        if kind in KINDS:
            if same:
                return chosen[-1]
            fits = [n for n, v in values.items() if _kind(v) in KINDS[kind] and v.ndim >= int(ndim or 0)]
            recent = fits[-2:]
            # this raises IndexError if there is no such value
            chosen.append(rng.choice(recent if rng.random() < 0.5 else fits))
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
    """Return the inputs with each float changed by a relative amount. Unstable programs, which then change a lot,
    are skipped."""
    numbers = np.random.default_rng(program.seed)
    out = []
    for x, dtype in program.inputs:
        if x.dtype.kind not in "fc":
            out.append(x)
            continue
        unit = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-6}.get(dtype, 1e-6)
        out.append((x * (1 + amount * unit * numbers.choice((-1.0, 1.0), x.shape))).astype(x.dtype))
    return out
