"""Metal's functions of bits, and of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .functions import FUNCTIONS, extreme, spread
from .types import INT, LONG, SCALARS, UINT, ScalarType
from .values import Scalar, Value, static

__all__: list[str] = []


def _unsigned(type: ScalarType) -> ScalarType:
    return type if type.kind == "u" else SCALARS[f"u{type.name}"]


def _integers(name: str, rule: Callable[..., Scalar], *others: str) -> None:
    """Define a function of integers by `rule(n, xp, *scalars)`."""

    def function(walk: Any, values: list[Value]) -> Value:
        return spread(walk, values, lambda *xs: rule(walk.n, walk.space.xp, *xs))

    for one in (name, *others):
        FUNCTIONS[one] = function


def _bit_count(n: Any, xp: Any, x: Scalar) -> Scalar:
    kind = x.type
    wide = n.convert(n.convert(x, _unsigned(kind)), SCALARS["ulong"] if kind.bits == 64 else UINT)
    if wide.static:
        return static(kind, int(wide.base).bit_count())
    return n.make(kind, _counted(xp, n.array(wide), wide.type.bits).astype(kind.dtype), 0, kind.bits)


def _counted(xp: Any, x: Any, bits: int) -> Any:
    """Return the number of set bits. Pairs are added first, then fours and so on."""
    number = x.dtype.type
    pattern = [0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F]
    one, two, four = (number(p & ((1 << bits) - 1)) for p in pattern)
    x = x - ((x >> number(1)) & one)
    x = (x & two) + ((x >> number(2)) & two)
    x = (x + (x >> number(4))) & four
    return (x * number(0x0101010101010101 & ((1 << bits) - 1))) >> number(bits - 8)


def _leading(n: Any, xp: Any, x: Scalar) -> Scalar:
    """Return the number of leading zeros."""
    kind = x.type
    whole = _unsigned(kind)
    value = n.convert(x, whole)
    if value.static:
        return static(kind, kind.bits - int(value.base).bit_length())
    array = n.array(value)
    number = whole.dtype.type
    shift = 1
    while shift < kind.bits:
        array = array | (array >> number(shift))
        shift *= 2
    filled = n.make(whole, ~array)
    return n.convert(_bit_count(n, xp, filled), kind)


def _trailing(n: Any, xp: Any, x: Scalar) -> Scalar:
    """Return the number of trailing zeros."""
    kind = x.type
    value = n.convert(x, _unsigned(kind))
    one = static(value.type, 1)
    below = n.same_type("&", n.same_type("-", value, one), n.convert(n.unary("~", value), value.type))
    return n.convert(_bit_count(n, xp, below), kind)


def _reversed(n: Any, xp: Any, x: Scalar) -> Scalar:
    kind = x.type
    value = n.convert(x, _unsigned(kind))
    result = static(value.type, 0)
    for k in range(kind.bits):
        bit = n.same_type("&", n.convert(n.shift(">>", value, static(INT, k)), value.type), static(value.type, 1))
        result = n.same_type("|", result, n.convert(n.shift("<<", bit, static(INT, kind.bits - 1 - k)), value.type))
    return n.convert(result, kind)


def _rotated(n: Any, xp: Any, x: Scalar, by: Scalar) -> Scalar:
    kind = _unsigned(x.type)
    value, by = n.convert(x, kind), n.convert(by, kind)
    left = n.convert(n.shift("<<", value, by), kind)
    right = n.convert(n.shift(">>", value, n.same_type("-", static(kind, 0), by)), kind)
    return n.convert(n.same_type("|", left, right), x.type)


def _mask(n: Any, kind: ScalarType, count: Scalar) -> Scalar:
    """Return a number with this number of trailing ones."""
    one = n.convert(n.shift("<<", static(kind, 1), count), kind)
    ones = n.same_type("-", one, static(kind, 1))
    full = n.compare("==", n.convert(count, UINT), static(UINT, kind.bits))
    return n.select(full, static(kind, -1), ones)


def _extracted(n: Any, xp: Any, x: Scalar, offset: Scalar, count: Scalar) -> Scalar:
    kind = _unsigned(x.type)
    low = n.convert(n.shift(">>", n.convert(x, kind), offset), kind)
    field = n.same_type("&", low, _mask(n, kind, count))
    if x.type.kind == "u":
        return n.convert(field, x.type)
    top = n.binary("-", static(INT, x.type.bits), n.convert(count, INT))
    moved = n.convert(n.convert(n.shift("<<", field, top), kind), x.type)
    return n.convert(n.shift(">>", moved, top), x.type)


def _inserted(n: Any, xp: Any, base: Scalar, bits: Scalar, offset: Scalar, count: Scalar) -> Scalar:
    kind = _unsigned(base.type)
    mask = n.convert(n.shift("<<", _mask(n, kind, count), offset), kind)
    kept = n.same_type("&", n.convert(base, kind), n.convert(n.unary("~", mask), kind))
    inserted = n.same_type("&", n.convert(n.shift("<<", n.convert(bits, kind), offset), kind), mask)
    return n.convert(n.same_type("|", kept, inserted), base.type)


def _high_product(n: Any, xp: Any, x: Scalar, y: Scalar) -> Scalar:
    kind = x.type
    y = n.convert(y, kind)
    if kind.bits < 64:
        wide = SCALARS["ulong"] if kind.kind == "u" else LONG
        product = n.same_type("*", n.convert(x, wide), n.convert(y, wide))
        return n.convert(n.shift(">>", product, static(INT, kind.bits)), kind)
    return _high_product_64(n, x, y)


def _high_product_64(n: Any, x: Scalar, y: Scalar) -> Scalar:
    whole = SCALARS["ulong"]
    a, b = n.convert(x, whole), n.convert(y, whole)
    low = static(whole, (1 << 32) - 1)
    half = static(INT, 32)

    def parts(v: Scalar) -> tuple[Scalar, Scalar]:
        return n.shift(">>", v, half), n.same_type("&", v, low)

    (ah, al), (bh, bl) = parts(a), parts(b)
    middle = n.same_type("+", n.same_type("*", ah, bl), n.shift(">>", n.same_type("*", al, bl), half))
    mh, ml = parts(middle)
    carry = n.shift(">>", n.same_type("+", ml, n.same_type("*", al, bh)), half)
    high = n.same_type("+", n.same_type("+", n.same_type("*", ah, bh), mh), carry)
    if x.type.kind == "i":
        for s, other in ((x, b), (y, a)):
            negative = n.compare("<", s, static(s.type, 0))
            high = n.select(negative, n.same_type("-", high, other), high)
    return n.convert(high, x.type)


def _saturated(op: str) -> Callable[..., Scalar]:
    def rule(n: Any, xp: Any, x: Scalar, y: Scalar) -> Scalar:
        kind = x.type
        y = n.convert(y, kind)
        if kind.bits < 64:
            wide = n.same_type(op, n.convert(x, LONG), n.convert(y, LONG))
            low = extreme(">")(n, LONG, xp, wide, static(LONG, kind.low))
            return n.convert(extreme("<")(n, LONG, xp, low, static(LONG, kind.high)), kind)
        result = n.same_type(op, x, y)
        if kind.kind == "u":
            over = n.compare("<" if op == "+" else ">", result, x)
            return n.select(over, static(kind, kind.high if op == "+" else 0), result)
        positive = n.compare(">=", y, static(kind, 0))
        up = positive if op == "+" else n.negate(positive)
        high = n.logical("&", up, n.compare("<", result, x))
        low = n.logical("&", n.negate(up), n.compare(">", result, x))
        return n.select(high, static(kind, kind.high), n.select(low, static(kind, kind.low), result))

    return rule


def _halved(up: bool) -> Callable[..., Scalar]:
    """Return the rule for half of a sum, rounded up or down. The sum itself may not fit into the type."""

    def rule(n: Any, xp: Any, x: Scalar, y: Scalar) -> Scalar:
        kind = x.type
        y = n.convert(y, kind)
        half = n.shift(">>", n.convert(n.binary("^", x, y), kind), static(INT, 1))
        common = n.convert(n.binary("|" if up else "&", x, y), kind)
        return n.convert(n.binary("-" if up else "+", common, half), kind)

    return rule


_integers("popcount", _bit_count, "__popc", "__popcll")
_integers("clz", _leading, "__clz", "__clzll")
_integers("ctz", _trailing)
_integers("reverse_bits", _reversed, "__brev")
_integers("rotate", _rotated)
_integers("extract_bits", _extracted)
_integers("insert_bits", _inserted)
_integers("mulhi", _high_product, "__umulhi", "__mulhi")
_integers("madhi", lambda n, xp, x, y, z: n.same_type("+", _high_product(n, xp, x, y), z))
_integers("addsat", _saturated("+"))
_integers("subsat", _saturated("-"))
_integers("hadd", _halved(False), "__hadd_int")
_integers("rhadd", _halved(True))
_integers("__ffs", lambda n, xp, x: n.select(
    n.compare("==", x, static(x.type, 0)), static(x.type, 0), n.same_type("+", _trailing(n, xp, x), static(x.type, 1))
))  # fmt: skip
