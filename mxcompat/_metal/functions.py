"""Metal's functions of numbers and vectors, in terms of the array namespace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._jax import jax

from .errors import Problem
from .types import BOOL, FLOAT, INT, ScalarType, common, promoted, vector_of
from .values import Scalar, Struct, Value, Vector, static

__all__ = ["FUNCTIONS", "extreme", "spread"]

FUNCTIONS: dict[str, Callable[[Any, list[Value]], Value]] = {}
"""Functions of values, by name."""

Rule = Callable[..., Any]


def spread(walk: Any, values: list[Value], each: Callable[..., Scalar]) -> Value:
    """Apply a function of scalars. It is applied to vectors component by component."""
    vectors = [v for v in values if isinstance(v, Vector)]
    if not vectors:
        for v in values:
            if not isinstance(v, Scalar):
                raise Problem(f"a value of type {v.type} is no number")
        return each(*values)
    count = vectors[0].type.count
    rows = []
    for v in values:
        if isinstance(v, Vector) and v.type.count == count:
            rows.append(v.parts)
        elif isinstance(v, Scalar):
            rows.append((v,) * count)
        else:
            raise Problem(f"values of types {vectors[0].type} and {v.type} together")
    parts = [each(*column) for column in zip(*rows, strict=True)]
    return Vector(vector_of(parts[0].type, count), tuple(parts))


def _float_type(values: tuple[Scalar, ...]) -> ScalarType:
    kind = values[0].type
    for v in values[1:]:
        kind = common(kind, v.type)
    return kind if kind.kind == "f" else FLOAT


def _floats(name: str, rule: Rule, *others: str) -> None:
    """Define a function of floats. Half precision is computed in float32 and rounded once."""

    def function(walk: Any, values: list[Value]) -> Value:
        def each(*xs: Scalar) -> Scalar:
            kind = _float_type(xs)
            wide = FLOAT if kind.bits == 16 else kind
            arrays = [walk.n.array(walk.n.convert(walk.n.convert(x, kind), wide)) for x in xs]
            result = rule(walk.space.xp, *arrays)
            return walk.n.convert(walk.n.make(wide, result), kind)

        return spread(walk, values, each)

    for one in (name, *others):
        FUNCTIONS[one] = function


def _rounded(xp: Any, x: Any) -> Any:
    whole = xp.trunc(x)
    return xp.where(xp.abs(x - whole) >= 0.5, whole + xp.sign(x), whole)


def _erf(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.vectorize(math.erf, otypes=[np.asarray(x).dtype])(x)[()]
    return jax.lax.erf(x)


def _smooth(xp: Any, low: Any, high: Any, x: Any) -> Any:
    t = xp.clip((x - low) / (high - low), 0, 1).astype(x.dtype)
    return t * t * (3 - 2 * t).astype(x.dtype)


def _mod(xp: Any, x: Any, y: Any) -> Any:
    return xp.fmod(x, y)


def _power(xp: Any, x: Any, y: Any) -> Any:
    if isinstance(y, np.generic) and float(y) in (1.0, 2.0, 3.0):
        return x if y == 1 else x * x if y == 2 else x * x * x
    return xp.power(x, y)


def _fused(xp: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z, rounded once: programs compute the rounding error of a product with it."""
    double = np.float64
    return (x.astype(double) * y.astype(double) + z.astype(double)).astype(x.dtype)


_one = np.float32(1)
for _name, _rule, *_others in (
    ("exp", lambda xp, x: xp.exp(x), "__expf", "expf"), ("exp2", lambda xp, x: xp.exp2(x), "exp2f"),
    ("exp10", lambda xp, x: xp.exp(x * np.float32(math.log(10))), "exp10f"),
    ("expm1", lambda xp, x: xp.expm1(x), "expm1f"), ("log1p", lambda xp, x: xp.log1p(x), "log1pf"),
    ("log", lambda xp, x: xp.log(x), "__logf", "logf"), ("log2", lambda xp, x: xp.log2(x), "log2f", "__log2f"),
    ("log10", lambda xp, x: xp.log10(x), "log10f"), ("sqrt", lambda xp, x: xp.sqrt(x), "sqrtf", "__fsqrt_rn"),
    ("rsqrt", lambda xp, x: _one.astype(x.dtype) / xp.sqrt(x), "rsqrtf"),
    ("sin", lambda xp, x: xp.sin(x), "sinf", "__sinf"),
    ("cos", lambda xp, x: xp.cos(x), "cosf", "__cosf"), ("tan", lambda xp, x: xp.tan(x), "tanf"),
    ("asin", lambda xp, x: xp.arcsin(x), "asinf"), ("acos", lambda xp, x: xp.arccos(x), "acosf"),
    ("atan", lambda xp, x: xp.arctan(x), "atanf"), ("sinh", lambda xp, x: xp.sinh(x), "sinhf"),
    ("cosh", lambda xp, x: xp.cosh(x), "coshf"), ("tanh", lambda xp, x: xp.tanh(x), "tanhf"),
    ("asinh", lambda xp, x: xp.arcsinh(x), "asinhf"), ("acosh", lambda xp, x: xp.arccosh(x), "acoshf"),
    ("atanh", lambda xp, x: xp.arctanh(x), "atanhf"), ("sinpi", lambda xp, x: xp.sin(x * np.float32(math.pi))),
    ("cospi", lambda xp, x: xp.cos(x * np.float32(math.pi))), ("tanpi", lambda xp, x: xp.tan(x * np.float32(math.pi))),
    ("floor", lambda xp, x: xp.floor(x), "floorf"), ("ceil", lambda xp, x: xp.ceil(x), "ceilf"),
    ("trunc", lambda xp, x: xp.trunc(x), "truncf"), ("round", _rounded, "roundf"),
    ("rint", lambda xp, x: xp.rint(x), "rintf", "nearbyint", "nearbyintf"),
    ("fract", lambda xp, x: xp.fmin(x - xp.floor(x), np.float32(1 - 2**-24).astype(x.dtype))),
    ("saturate", lambda xp, x: xp.fmin(xp.fmax(x, x.dtype.type(0)), x.dtype.type(1)), "__saturatef"),
    ("fabs", lambda xp, x: xp.abs(x), "fabsf"), ("erf", _erf, "erff"),
    ("erfc", lambda xp, x: _one - _erf(xp, x), "erfcf"), ("cbrt", lambda xp, x: xp.cbrt(x), "cbrtf"),
    ("degrees", lambda xp, x: x * np.float32(180 / math.pi)), ("radians", lambda xp, x: x * np.float32(math.pi / 180)),
    ("pow", _power, "powf", "__powf"), ("powr", _power), ("atan2", lambda xp, y, x: xp.arctan2(y, x), "atan2f"),
    ("fmod", _mod, "fmodf"), ("fmin", lambda xp, x, y: xp.fmin(x, y), "fminf"),
    ("fmax", lambda xp, x, y: xp.fmax(x, y), "fmaxf"), ("copysign", lambda xp, x, y: xp.copysign(x, y), "copysignf"),
    ("step", lambda xp, edge, x: xp.where(x < edge, x.dtype.type(0), x.dtype.type(1))),
    ("hypot", lambda xp, x, y: xp.hypot(x, y), "hypotf"), ("nextafter", lambda xp, x, y: xp.nextafter(x, y)),
    ("fdim", lambda xp, x, y: xp.where(x > y, x - y, x.dtype.type(0)), "fdimf"),
    ("recip", lambda xp, x: _one / x, "__frcp_rn"),
    ("fma", _fused, "fmaf", "__fmaf_rn"), ("mix", lambda xp, x, y, a: x + (y - x) * a, "lerp"),
    ("smoothstep", _smooth), ("fmedian3", lambda xp, x, y, z: xp.fmax(xp.fmin(x, y), xp.fmin(xp.fmax(x, y), z))),
):  # fmt: skip
    _floats(_name, _rule, *_others)


def _numbers(name: str, rule: Callable[..., Scalar], *others: str) -> None:
    """Define a function of numbers of one type, integers included, by `rule(n, kind, xp, *scalars)`."""

    def function(walk: Any, values: list[Value]) -> Value:
        def each(*xs: Scalar) -> Scalar:
            kind = xs[0].type
            for x in xs[1:]:
                kind = kind if kind is x.type else common(kind, x.type)
            kind = kind if len({x.type for x in xs}) == 1 and kind is not BOOL else promoted(kind)
            return rule(walk.n, kind, walk.space.xp, *[walk.n.convert(x, kind) for x in xs])

        return spread(walk, values, each)

    for one in (name, *others):
        FUNCTIONS[one] = function


def extreme(op: str) -> Callable[..., Scalar]:
    def rule(n: Any, kind: ScalarType, xp: Any, x: Scalar, y: Scalar) -> Scalar:
        choose = min if op == "<" else max
        if kind.kind == "f":
            return n.make(kind, (xp.fmin if op == "<" else xp.fmax)(n.array(x), n.array(y)))
        if x.static and y.static:
            return static(kind, choose(int(x.base), int(y.base)))
        (xl, xh), (yl, yh) = n.bounds(x), n.bounds(y)
        xl, xh = (kind.low, kind.high) if xl is None else (xl, xh)
        yl, yh = (kind.low, kind.high) if yl is None else (yl, yh)
        if (xh <= yl) if op == "<" else (xl >= yh):
            return x
        if (yh <= xl) if op == "<" else (yl >= xh):
            return y
        result = (xp.minimum if op == "<" else xp.maximum)(n.array(x), n.array(y))
        return n.make(kind, result, choose(xl, yl), choose(xh, yh))

    return rule


def _absolute(n: Any, kind: ScalarType, xp: Any, x: Scalar) -> Scalar:
    if kind.kind == "u":
        return x
    if kind.kind != "f" and n.bounds(x)[0] is not None and n.bounds(x)[0] >= 0:
        return x
    return n.make(kind, xp.abs(n.array(x)))


def _sign(n: Any, kind: ScalarType, xp: Any, x: Scalar) -> Scalar:
    kind = kind if kind.kind == "f" else FLOAT
    array = n.array(n.convert(x, kind))
    return n.make(kind, xp.where(array != array, array.dtype.type(0), xp.sign(array)))


def _clamp(n: Any, kind: ScalarType, xp: Any, x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    return extreme("<")(n, kind, xp, extreme(">")(n, kind, xp, x, low), high)


def _multiply_add(n: Any, kind: ScalarType, xp: Any, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
    return n.same_type("+", n.same_type("*", x, y), z)


def _absolute_difference(n: Any, kind: ScalarType, xp: Any, x: Scalar, y: Scalar) -> Scalar:
    larger, smaller = extreme(">")(n, kind, xp, x, y), extreme("<")(n, kind, xp, x, y)
    return n.same_type("-", larger, smaller)


def _divide(n: Any, kind: ScalarType, xp: Any, x: Scalar, y: Scalar) -> Scalar:
    kind = kind if kind.kind == "f" else FLOAT
    return n.same_type("/", n.convert(x, kind), n.convert(y, kind))


_numbers("divide", _divide, "__fdividef")
_numbers("min", extreme("<"))
_numbers("max", extreme(">"))
_numbers("abs", _absolute)
_numbers("sign", _sign)
_numbers("clamp", _clamp)
_numbers("mad", _multiply_add)
_numbers("mad24", _multiply_add)
_numbers("mul24", lambda n, kind, xp, x, y: n.same_type("*", x, y))
_numbers("absdiff", _absolute_difference)
_numbers("max3", lambda n, k, xp, x, y, z: extreme(">")(n, k, xp, extreme(">")(n, k, xp, x, y), z), "fmax3")
_numbers("min3", lambda n, k, xp, x, y, z: extreme("<")(n, k, xp, extreme("<")(n, k, xp, x, y), z), "fmin3")
_numbers("median3", lambda n, k, xp, x, y, z: extreme(">")(n, k, xp, extreme("<")(n, k, xp, x, y), extreme("<")(
    n, k, xp, extreme(">")(n, k, xp, x, y), z)))  # fmt: skip


def _test(name: str, rule: Rule, result: ScalarType = BOOL) -> None:
    """Define a test of floats, with a bool or an integer as the result."""

    def function(walk: Any, values: list[Value]) -> Value:
        def each(*xs: Scalar) -> Scalar:
            of = _float_type(xs)
            wide = FLOAT if of.bits == 16 else of
            return walk.n.make(result, rule(walk.space.xp, *[walk.n.array(walk.n.convert(x, wide)) for x in xs]))

        return spread(walk, values, each)

    FUNCTIONS[name] = function


_test("isnan", lambda xp, x: xp.isnan(x))
_test("isinf", lambda xp, x: xp.isinf(x))
_test("isfinite", lambda xp, x: xp.isfinite(x))
_test("isnormal", lambda xp, x: xp.isfinite(x) & (xp.abs(x) >= np.float32(2**-126)))
_test("signbit", lambda xp, x: xp.signbit(x))
_test("isordered", lambda xp, x, y: ~(xp.isnan(x) | xp.isnan(y)))
_test("isunordered", lambda xp, x, y: xp.isnan(x) | xp.isnan(y))


def _exponent(xp: Any, x: Any) -> Any:
    """Return the exponent of a float as C's `ilogb`, with the least integer for 0 and NaN."""
    least, largest = np.int32(-(2**31)), np.int32(2**31 - 1)
    exponent = xp.frexp(xp.where(xp.isfinite(x), x, x.dtype.type(1)))[1].astype(np.int32) - np.int32(1)
    return xp.where((x == 0) | xp.isnan(x), least, xp.where(xp.isinf(x), largest, exponent))


_test("ilogb", _exponent, INT)


def _parts(value: Value) -> tuple[Scalar, ...]:
    if isinstance(value, Vector):
        return value.parts
    if isinstance(value, Scalar):
        return (value,)
    raise Problem(f"a value of type {value.type} is no vector")


def _sum(walk: Any, terms: list[Scalar]) -> Scalar:
    total = terms[0]
    for term in terms[1:]:
        total = walk.n.same_type("+", total, term)
    return total


def _dot(walk: Any, values: list[Value]) -> Scalar:
    a, b = values
    of = a.type if isinstance(a, Vector) else b.type
    xs, ys = _parts(walk.as_type(a, of)), _parts(walk.as_type(b, of))
    return _sum(walk, [walk.n.same_type("*", x, y) for x, y in zip(xs, ys, strict=True)])


def _length(walk: Any, values: list[Value]) -> Value:
    return FUNCTIONS["sqrt"](walk, [_dot(walk, [values[0], values[0]])])


def _difference(walk: Any, values: list[Value]) -> Value:
    return walk.operate("-", values[0], values[1], None)


def _normalize(walk: Any, values: list[Value]) -> Value:
    scale = FUNCTIONS["rsqrt"](walk, [_dot(walk, [values[0], values[0]])])
    return walk.operate("*", values[0], scale, None)


def _cross(walk: Any, values: list[Value]) -> Value:
    a, b = _parts(values[0]), _parts(values[1])
    n = walk.n
    parts = []
    for i, j in ((1, 2), (2, 0), (0, 1)):
        parts.append(n.same_type("-", n.same_type("*", a[i], b[j]), n.same_type("*", a[j], b[i])))
    return Vector(values[0].type, tuple(parts))  # type: ignore[arg-type]


def _reflect(walk: Any, values: list[Value]) -> Value:
    ray, normal = values
    twice = walk.n.same_type("*", static(_parts(ray)[0].type, 2), _dot(walk, [normal, ray]))
    return walk.operate("-", ray, walk.operate("*", twice, normal, None), None)


def _refract(walk: Any, values: list[Value]) -> Value:
    """Return the refracted ray, or 0 if the whole ray is reflected. No derivative comes from the root then."""
    ray, normal, eta = values
    n, of = walk.n, _parts(ray)[0].type
    one, eta = static(of, 1), n.convert(eta, of)
    along = _dot(walk, [normal, ray])
    rest = n.same_type("-", one, n.same_type("*", along, along))
    square = n.same_type("-", one, n.same_type("*", n.same_type("*", eta, eta), rest))
    reflected = n.compare("<", square, static(of, 0))
    root = FUNCTIONS["sqrt"](walk, [n.select(reflected, one, square)])
    scale = n.same_type("+", n.same_type("*", eta, along), root)
    bent = walk.operate("-", walk.operate("*", eta, ray, None), walk.operate("*", scale, normal, None), None)
    return walk.select(reflected, walk.as_type(static(of, 0), bent.type), bent)


def _faceforward(walk: Any, values: list[Value]) -> Value:
    normal, ray, reference = values
    side = _dot(walk, [ray, reference])
    turned = spread(walk, [normal], lambda x: walk.n.unary("-", x))
    return walk.select(walk.n.compare("<", side, static(side.type, 0)), normal, turned)


def _any(walk: Any, values: list[Value]) -> Value:
    result = walk.as_type(_parts(values[0])[0], BOOL)
    for part in _parts(values[0])[1:]:
        result = walk.n.logical("|", result, walk.as_type(part, BOOL))
    return result


def _all(walk: Any, values: list[Value]) -> Value:
    result = walk.as_type(_parts(values[0])[0], BOOL)
    for part in _parts(values[0])[1:]:
        result = walk.n.logical("&", result, walk.as_type(part, BOOL))
    return result


def _select(walk: Any, values: list[Value]) -> Value:
    """`select(a, b, c)` is `c ? b : a`."""
    a, b, c = values
    if isinstance(c, Vector):
        bools = Vector(vector_of(BOOL, c.type.count), tuple([walk.n.convert(p, BOOL) for p in c.parts]))
        return walk.choose(bools, b, a)
    of = walk.common_type(a, b, None)
    return walk.select(walk.as_bool(c), walk.as_type(b, of), walk.as_type(a, of))


FUNCTIONS.update({
    "dot": _dot, "length": _length, "length_squared": lambda walk, v: _dot(walk, [v[0], v[0]]),
    "distance": lambda walk, v: _length(walk, [_difference(walk, v)]),
    "distance_squared": lambda walk, v: _dot(walk, [_difference(walk, v)] * 2), "normalize": _normalize,
    "cross": _cross, "reflect": _reflect, "refract": _refract, "faceforward": _faceforward, "any": _any, "all": _all,
    "select": _select, "fast_length": _length, "fast_normalize": _normalize,
})  # fmt: skip


def _complex(walk: Any, values: list[Value]) -> Value:
    (value,) = values
    assert isinstance(value, Struct)
    real, imag = value.parts
    return Struct(value.type, (real, walk.n.unary("-", imag)))


FUNCTIONS["conj"] = _complex
