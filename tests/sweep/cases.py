"""Cases of the sweep: an expression, the arrays `x`, `y`, `z` it uses, and the names it may contain.

A line of a table is the expression, a bar, and for each array its shape with its options:

    mx.take(x, y, axis=1) | 2,3,4 2,2:int32@0..2

`:int32` fixes the dtype (such an array is not differentiated), `@0..2` is the range of the values, `~spd` a kind of
matrix. `{{a,b}}` stands for a line with each word, as does `{{a;b}}`, for words that contain commas. A line that
begins with `!` runs plain only.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

__all__ = ["DTYPES", "Case", "Given", "expand", "names_in", "table"]

DTYPES = (
    "bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """The description of an array: its shape, its dtype if fixed, the range of its values, and the kind of matrix."""

    shape: tuple[int, ...]
    dtype: str = ""
    low: float = -3.0
    high: float = 3.0
    matrix: str = ""

    def values(self, dtype: str, seed: int, extra: tuple[int, ...] = ()) -> np.ndarray:
        """Return the values, in a NumPy dtype that MLX casts to `dtype` without changing them."""
        dtype = self.dtype or dtype
        shape = extra + self.shape
        rng = np.random.default_rng(seed)
        low, high = self.low, self.high
        if dtype == "bool_":
            return _ordered(self, rng.random(shape) < 0.5 if low <= 0 else np.ones(shape, bool))
        if "int" in dtype:
            low, high = (max(low, 0.0), max(high, 4.0)) if dtype[0] == "u" and not self.dtype else (low, high)
            low = max(low, 1.0) if self.low > 0 else low
            return _ordered(self, np.asarray(rng.integers(int(low), max(int(low), int(high)) + 1, shape)))
        x = rng.uniform(low, high, shape)
        if dtype == "complex64":
            x = x + 1j * rng.uniform(low, high, shape)
        if self.matrix:
            x = _matrix(self.matrix, x)
        return np.asarray(x, np.complex64 if dtype == "complex64" else np.float32)


def _ordered(operand: Given, x: np.ndarray) -> np.ndarray:
    return np.sort(x, axis=-1) if operand.matrix == "sorted" else x


def _matrix(kind: str, x: np.ndarray) -> np.ndarray:
    n = x.shape[-1]
    if kind == "spd":
        return x @ np.conj(np.swapaxes(x, -1, -2)) / n + np.eye(n)
    if kind == "lower":
        return np.tril(x) + 4 * np.eye(n)
    if kind == "sorted":
        return np.sort(x, axis=-1)
    if kind == "regular":
        return x + 4 * np.eye(n)
    raise ValueError(kind)


SPECIAL = {
    "f": (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 60000.0, -2.5, 3.5, 1e-5),
    "c": (
        0j, 1 + 0j, -1 + 0j, 1j, -1j, 2 - 3j, 300j, complex(np.nan, 0), complex(np.nan, 1), complex(1, np.nan),
        complex(np.nan, np.nan), complex(np.inf, 1), complex(1, -np.inf), complex(np.inf, -np.inf),
        complex(-np.inf, np.nan),
    ),
}  # fmt: skip
"""Special values: values near which functions change their behaviour, and for integers the limits of the type."""


def special(dtype: str) -> np.ndarray:
    """Return the special values of a dtype."""
    if dtype == "bool_":
        return np.array([True, False])
    if "int" in dtype:
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1, 2, 7, info.max - 1, info.min + 1], dtype)
    return np.array(SPECIAL["c" if dtype == "complex64" else "f"])


@dataclass(frozen=True)
class Case:
    """An expression and its data.

    Args:
        expression: of `mx`, `x`, `y`, `z` and the other names of `environment`.
        operands: descriptions of `x`, `y`, `z`.
        plain_only: True if transforms make no sense: for errors, and for results that are no arrays.
        elementwise: True to run the case with special values, too.
        dtypes: the dtypes to run it in.
    """

    expression: str
    operands: tuple[Given, ...] = ()
    plain_only: bool = False
    elementwise: bool = False
    dtypes: tuple[str, ...] = DTYPES
    family: str = ""
    _seed: int = field(default=0, compare=False)

    @property
    def seed(self) -> int:
        """Return a seed that is the same in every process and for every order of the tables."""
        return zlib.crc32(self.expression.encode()) % 100_000

    @property
    def code(self) -> Any:
        return _compiled(self.expression)

    def smooth(self) -> list[int]:
        """Return the numbers of the arrays that may be differentiated."""
        return [k for k, g in enumerate(self.operands) if not g.dtype]


@cache
def _compiled(expression: str) -> Any:
    return compile(expression, expression, "eval")


def _given(text: str) -> Given:
    parts = re.fullmatch(r"([\d,]*|\(\))(?::(\w+))?(?:@([-\d.e]+)\.\.([-\d.e]+))?(?:~(\w+))?", text)
    if parts is None:
        raise ValueError(f"no array: {text}")
    shape, dtype, low, high, matrix = parts.groups()
    sizes = tuple(int(n) for n in shape.split(",") if n.isdigit())
    return Given(sizes, dtype or "", float(low or -3), float(high or 3), matrix or "")


def expand(line: str) -> Iterator[str]:
    """Yield the lines that a line with `{a,b}` expands to."""
    match = re.search(r"\{\{(.*?)\}\}", line)
    if match is None:
        yield line
        return
    for word in match[1].split(";" if ";" in match[1] else ","):
        yield from expand(line[: match.start()] + word + line[match.end() :])


def table(text: str, family: str, **settings: Any) -> list[Case]:
    """Return the cases of a table."""
    cases = []
    for line in text.strip().splitlines():
        for one in expand(line):
            expression, bar, arrays = one.rpartition(" | ")  # split at the last bar, because `|` is an operator, too
            if not bar:
                expression, arrays = one, ""
            plain_only = expression.startswith("!")
            operands = tuple(_given(word) for word in arrays.split())
            how = {"plain_only": plain_only, **settings}
            cases.append(Case(expression.lstrip("! ").strip(), operands, family=family, **how))
    return cases


_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
    "MatMult": "matmul", "BitAnd": "and", "BitOr": "or", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
    "USub": "neg", "UAdd": "pos", "Invert": "invert", "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt",
    "GtE": "ge",
}  # fmt: skip
_IN_PLACE = {
    "+=": "add", "-=": "sub", "*=": "mul", "/=": "truediv", "//=": "floordiv", "%=": "mod", "**=": "pow",
    "@=": "matmul", "&=": "and", "|=": "or", "^=": "xor", "<<=": "lshift", ">>=": "rshift",
}  # fmt: skip
_FUNCTIONS = {
    "abs": "abs", "len": "len", "iter": "iter", "repr": "repr", "str": "repr", "int": "int", "float": "float",
    "complex": "complex", "bool": "bool", "bytes": "bytes", "list": "iter",
}  # fmt: skip


_HELPERS = {
    "put": ("array.__setitem__",),
    "kept": ("save", "savez", "savez_compressed", "save_safetensors", "save_gguf", "load"),
}  # fmt: skip
"""Ops that the functions in `helpers` apply to their arguments."""


def names_in(expression: str) -> set[str]:
    """Return the public names that an expression uses, as the stubs have them: `linalg.norm`, `array.sum`,
    `array.__add__`."""
    names = set()
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Attribute):
            path = ast.unparse(node)
            if path.startswith("mx."):
                names.add(path[3:])
            names |= {f"array.{node.attr}", f"ArrayAt.{node.attr}", f"Dtype.{node.attr}"}
            names |= {f"{kind}.{node.attr}" for kind in ("finfo", "iinfo")}
        elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
            name = _OPERATORS.get(type(node.op).__name__)
            reflected = isinstance(node, ast.BinOp) and isinstance(node.left, ast.Constant)
            names.add(f"array.__{'r' if reflected else ''}{name}__")
        elif isinstance(node, ast.Compare):
            names |= {f"array.__{_OPERATORS.get(type(op).__name__)}__" for op in node.ops}
        elif isinstance(node, ast.Subscript):
            names |= {"array.__getitem__", "ArrayAt.__getitem__"}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(f"array.__{_FUNCTIONS.get(node.func.id)}__")
            names |= set(_HELPERS.get(node.func.id, ()))
            if node.func.id == "inplace":
                names.add(f"array.__i{_IN_PLACE[ast.literal_eval(node.args[1])]}__")
    return names
