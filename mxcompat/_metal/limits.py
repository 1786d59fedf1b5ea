"""Constants that `numeric_limits`, MLX's `Limits` and Metal's math header define."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from .errors import Problem
from .types import BOOL, FLOAT, HALF, INT, ScalarType, Type
from .values import Scalar, static

__all__ = ["CONSTANTS", "limit"]


def limit(type: Type, name: str, of: str) -> Scalar:
    """`numeric_limits<T>::name` or `Limits<T>::name`."""
    if not isinstance(type, ScalarType):
        raise Problem(f"{of}<{type}>::{name} is not known")
    if name in ("is_integer", "is_signed", "has_infinity"):
        kind = type.kind
        return static(BOOL, {"is_integer": kind in "bui", "is_signed": kind in "if", "has_infinity": kind == "f"}[name])
    if type.kind == "f":
        return static(type, _float_limit(type, name, of))
    limits = {
        "max": type.high, "min": type.low, "lowest": type.low, "finite_max": type.high, "finite_min": type.low,
        "digits": type.bits - (type.kind == "i"), "infinity": 0, "quiet_NaN": 0, "epsilon": 0,
    }  # fmt: skip
    if name not in limits:
        raise Problem(f"{of}<{type}>::{name} is not known")
    return static(INT if name == "digits" else type, limits[name])


def _float_limit(type: ScalarType, name: str, of: str) -> Any:
    info: Any = ml_dtypes.finfo(type.dtype)
    if of == "Limits" and name in ("max", "min"):
        return math.inf if name == "max" else -math.inf
    values = {
        "max": info.max, "lowest": -info.max, "min": info.smallest_normal, "finite_max": info.max,
        "finite_min": -info.max, "epsilon": info.eps, "infinity": math.inf, "quiet_NaN": math.nan,
        "signaling_NaN": math.nan, "denorm_min": info.smallest_subnormal, "digits": info.nmant + 1,
    }  # fmt: skip
    if name not in values:
        raise Problem(f"{of}<{type}>::{name} is not known")
    return values[name]


_INTEGERS = {
    "CHAR_BIT": 8, "SCHAR_MAX": 127, "SCHAR_MIN": -128, "FLT_RADIX": 2, "FLT_DIG": 6, "FLT_MANT_DIG": 24,
    "FLT_MAX_EXP": 128, "FLT_MIN_EXP": -125, "FLT_MAX_10_EXP": 38, "FLT_MIN_10_EXP": -37, "FP_ILOGB0": -(2**31),
    "FP_ILOGBNAN": -(2**31),
}  # fmt: skip


def _constants() -> dict[str, Scalar]:
    constants: dict[str, Scalar] = {}
    numbers = {
        "PI": math.pi, "PI_2": math.pi / 2, "PI_4": math.pi / 4, "1_PI": 1 / math.pi, "2_PI": 2 / math.pi, "E": math.e,
        "LOG2E": math.log2(math.e), "LOG10E": math.log10(math.e), "LN2": math.log(2), "LN10": math.log(10),
        "SQRT2": math.sqrt(2), "SQRT1_2": math.sqrt(0.5), "2_SQRTPI": 2 / math.sqrt(math.pi),
    }  # fmt: skip
    for name, value in numbers.items():
        constants[f"M_{name}_F"], constants[f"M_{name}_H"] = static(FLOAT, value), static(HALF, value)
        constants[f"M_{name}"] = static(FLOAT, value)
    for prefix, type in (("FLT", FLOAT), ("HALF", HALF)):
        info: Any = ml_dtypes.finfo(type.dtype)
        constants[f"{prefix}_MAX"], constants[f"{prefix}_MIN"] = (
            static(type, info.max),
            static(type, info.smallest_normal),
        )
        constants[f"{prefix}_EPSILON"] = static(type, info.eps)
    constants["INFINITY"] = constants["HUGE_VALF"] = static(FLOAT, math.inf)
    constants["NAN"] = static(FLOAT, math.nan)
    constants["HUGE_VALH"] = static(HALF, math.inf)
    constants["MAXFLOAT"], constants["MAXHALF"] = constants["FLT_MAX"], constants["HALF_MAX"]
    for name, value in _INTEGERS.items():
        constants[name] = static(INT, value)
    for name, bits in (("CHAR", 8), ("SHRT", 16), ("INT", 32), ("LONG", 64)):
        from .types import SCALARS

        label = {"CHAR": "char", "SHRT": "short", "INT": "int", "LONG": "long"}[name]
        signed, unsigned = SCALARS[label], SCALARS[f"u{label}"]
        constants[f"{name}_MAX"], constants[f"{name}_MIN"] = static(signed, signed.high), static(signed, signed.low)
        constants[f"U{name}_MAX"] = static(unsigned, unsigned.high)
        if bits > 8:
            constants[f"INT{bits}_MAX"], constants[f"INT{bits}_MIN"] = (
                constants[f"{name}_MAX"],
                constants[f"{name}_MIN"],
            )
            constants[f"UINT{bits}_MAX"] = constants[f"U{name}_MAX"]
    constants["UINT8_MAX"], constants["INT8_MAX"], constants["INT8_MIN"] = (
        constants["UCHAR_MAX"],
        constants["CHAR_MAX"],
        constants["CHAR_MIN"],
    )
    orders = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
    for k, name in enumerate(orders):
        constants[f"memory_order_{name}"] = static(INT, k)
    return constants


CONSTANTS = _constants()
