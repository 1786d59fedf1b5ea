"""The types of values in a kernel: scalars, vectors, structs, arrays, pointers. Equal types are the same object."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import ml_dtypes
import numpy as np

__all__ = [
    "BOOL", "COMPLEX", "FLOAT", "HALF", "INT", "LONG", "SCALARS", "UINT", "ULONG", "VOID", "ArrayType",
    "FunctionType", "MatrixType", "PointerType", "ScalarType", "StructType", "Type", "VectorType", "alignment",
    "array_of", "common", "dtype_named", "from_dtype", "matrix_of", "pointer_to", "promoted", "scalar_leaves",
    "size_of", "vector_of",
]  # fmt: skip


class Type:
    """A type."""

    name: str = "?"

    def __repr__(self) -> str:
        return self.name


class ScalarType(Type):
    """A number or bool.

    Args:
        name: its name in Metal.
        dtype: the NumPy dtype.
        kind: "b", "u", "i" or "f".
        rank: its place in C's order of conversions.
    """

    def __init__(self, name: str, dtype: Any, rank: int) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.bits = self.dtype.itemsize * 8
        self.kind = "f" if name in ("half", "bfloat", "float", "double") else self.dtype.kind
        self.rank = rank
        if self.kind in "ui":
            self.low = -(1 << self.bits - 1) if self.kind == "i" else 0
            self.high = (1 << self.bits - (self.kind == "i")) - 1
        elif self.kind == "b":
            self.low, self.high = 0, 1

    low: int
    high: int

    def wrap(self, value: int) -> int:
        """Return an integer wrapped around to the range of this integer type."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.high else value


BOOL = ScalarType("bool", np.bool_, 0)
CHAR, UCHAR = ScalarType("char", np.int8, 1), ScalarType("uchar", np.uint8, 1)
SHORT, USHORT = ScalarType("short", np.int16, 2), ScalarType("ushort", np.uint16, 2)
INT, UINT = ScalarType("int", np.int32, 3), ScalarType("uint", np.uint32, 3)
LONG, ULONG = ScalarType("long", np.int64, 4), ScalarType("ulong", np.uint64, 4)
HALF, BFLOAT = ScalarType("half", np.float16, 5), ScalarType("bfloat", ml_dtypes.bfloat16, 5)
FLOAT, DOUBLE = ScalarType("float", np.float32, 6), ScalarType("double", np.float64, 7)

_ALL = (BOOL, CHAR, UCHAR, SHORT, USHORT, INT, UINT, LONG, ULONG, HALF, BFLOAT, FLOAT, DOUBLE)
SCALARS: dict[str, ScalarType] = {t.name: t for t in _ALL}
_OF_DTYPE = {t.dtype: t for t in _ALL}
_ALIASES = {
    "int8_t": CHAR, "uint8_t": UCHAR, "int16_t": SHORT, "uint16_t": USHORT, "int32_t": INT, "uint32_t": UINT,
    "int64_t": LONG, "uint64_t": ULONG, "size_t": ULONG, "ptrdiff_t": LONG, "uintptr_t": ULONG, "intptr_t": LONG,
    "bfloat16_t": BFLOAT, "float16_t": HALF, "half_t": HALF, "__half": HALF, "__nv_bfloat16": BFLOAT, "signed": INT,
    "simd_vote": ULONG,
    "vote_t": ULONG,
    "unsigned": UINT,
}  # fmt: skip
SCALARS.update(_ALIASES)


class VoidType(Type):
    """The type `void`."""

    name = "void"


VOID = VoidType()


class FunctionType(Type):
    """The type of a lambda."""

    name = "lambda"


class VectorType(Type):
    """Two to four numbers of one type. A vector of three takes the memory of four, unless it is packed."""

    def __init__(self, element: ScalarType, count: int, packed: bool) -> None:
        self.element, self.count, self.packed = element, count, packed
        self.room = 4 if count == 3 and not packed else count
        self.name = f"{'packed_' if packed else ''}{element.name}{count}"


class ArrayType(Type):
    """An array of a known length."""

    def __init__(self, element: Type, count: int) -> None:
        self.element, self.count = element, count
        self.name = f"{element.name}[{count}]"


class MatrixType(ArrayType):
    """A matrix: an array of columns."""

    def __init__(self, column: VectorType, count: int) -> None:
        super().__init__(column, count)
        self.name = f"{column.element.name}{count}x{column.count}"


class PointerType(Type):
    """A pointer."""

    def __init__(self, element: Type) -> None:
        self.element = element
        self.name = f"{element.name}*"


class StructType(Type):
    """A struct.

    Args:
        name: its name.
        fields: names and types, in order.
        definition: where it is defined (None for `complex64_t`), and the scope there.
        bases: its base classes by name. Their fields come first.
    """

    def __init__(
        self, name: str, fields: tuple[tuple[str, Type], ...], definition: Any = None, scope: Any = None,
        union: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.fields, self.definition, self.scope, self.union = name, fields, definition, scope, union
        self.places = {field: k for k, (field, _) in enumerate(fields)}
        self.methods: dict[str, list[Any]] = {}
        self.bases: dict[str, StructType] = {}
        # for an instance of a template: the template's name and the arguments
        self.arguments: tuple[str, tuple[Any, ...]] = ("", ())


COMPLEX = StructType("complex64_t", (("real", FLOAT), ("imag", FLOAT)))


@cache
def vector_of(element: ScalarType, count: int, packed: bool = False) -> VectorType:
    """Return the type of vectors of these elements."""
    return VectorType(element, count, packed)


@lru_cache(maxsize=1 << 12)
def array_of(element: Type, count: int) -> ArrayType:
    """Return the type of arrays of these elements."""
    return ArrayType(element, count)


@cache
def matrix_of(column: VectorType, count: int) -> MatrixType:
    """Return the type of matrices of these columns."""
    return MatrixType(column, count)


@lru_cache(maxsize=1 << 12)
def pointer_to(element: Type) -> PointerType:
    """Return the type of pointers to these elements."""
    return PointerType(element)


def from_dtype(dtype: Any) -> Type:
    """Return the type of the elements of an array with this dtype."""
    dtype = np.dtype(dtype)
    return COMPLEX if dtype == np.complex64 else _OF_DTYPE[dtype]


def promoted(a: ScalarType) -> ScalarType:
    """Return a type after C's integer promotions."""
    return INT if a.rank < INT.rank else a


def common(a: ScalarType, b: ScalarType) -> ScalarType:
    """Return the common type of two operands, by C's usual arithmetic conversions."""
    a, b = promoted(a), promoted(b)
    if a is b:
        return a
    if a.kind == "f" or b.kind == "f":
        if a.rank == b.rank:  # the operands are half and bfloat
            return FLOAT
        return a if a.rank > b.rank else b
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    return a if a.kind == "u" else b


def dtype_named(label: str) -> np.dtype:
    """Return the NumPy dtype for the name of an MLX dtype."""
    return BFLOAT.dtype if label == "bfloat16" else np.dtype(label)


def size_of(of: Type) -> int:
    """Return the size of a type in bytes."""
    if isinstance(of, ScalarType):
        return of.bits // 8
    if isinstance(of, VectorType):
        return of.room * size_of(of.element)
    if isinstance(of, ArrayType):
        return of.count * size_of(of.element)
    if isinstance(of, StructType):
        if of.union:
            return max((size_of(t) for _, t in of.fields), default=1)
        offset = 0
        for _, t in of.fields:
            align = alignment(t)
            offset = -(-offset // align) * align + size_of(t)
        align = alignment(of)
        return max(-(-offset // align) * align, 1)
    return 8


def alignment(of: Type) -> int:
    """Return the alignment of a type in bytes."""
    if isinstance(of, VectorType):
        return size_of(of.element) if of.packed else size_of(of)
    if isinstance(of, ArrayType):
        return alignment(of.element)
    if isinstance(of, StructType):
        return max((alignment(t) for _, t in of.fields), default=1)
    return size_of(of)


def scalar_leaves(of: Type) -> list[ScalarType]:
    """Return the types of the scalars that make up a value of this type, in order."""
    if isinstance(of, ScalarType):
        return [of]
    if isinstance(of, VectorType):
        return [of.element] * of.count
    if isinstance(of, StructType):
        return [leaf for _, t in of.fields for leaf in scalar_leaves(t)]
    if isinstance(of, ArrayType):
        return scalar_leaves(of.element) * of.count
    return []
