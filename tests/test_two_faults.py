"""Calls with two faulty arguments: the error names the same one as real MLX's.

A case is a call with all its arguments, and a fault for each. Types come before values.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.oracle import check

Z, C, TEXT = np.zeros, lambda *shape: np.zeros(shape, np.complex64), "x"
REDUCED = {"a": [Z((), "f"), Z(0, "f"), C(2, 3)], "axis": [9, (0, 0), (9, "a"), ("a", 9), "a"], "keepdims": [TEXT, 2]}
SCANNED = {"a": [Z((), "f"), C(2, 3)], "axis": [9, "a"], "reverse": [TEXT], "inclusive": [TEXT]}
SPECTRAL = {"a": [Z((), "f"), C(4, 4)], "n": [0, -1, "a"], "axis": [9, "a"], "norm": ["foo", 3]}
MATRIX = [Z(3, "f"), Z((3, 3), "i"), Z((2, 3), "f"), C(3, 3)]
X = Z((2, 3), "f")

CASES: dict[str, tuple[dict[str, Any], dict[str, list]]] = {
    **{name: ({"a": X, "axis": 0, "keepdims": False}, REDUCED) for name in (
        "sum", "mean", "max", "min", "any", "all", "prod", "logsumexp", "median", "argmax", "argmin",
    )},
    **{name: ({"a": X, "axis": 0, "keepdims": False, "ddof": 0}, {**REDUCED, "ddof": ["a", 1.5]}) for name in (
        "var", "std",
    )},
    **{name: ({"a": X, "axis": 0, "reverse": False, "inclusive": True}, SCANNED) for name in (
        "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp",
    )},
    **{f"fft.{name}": ({"a": Z((4, 4), "f"), "n": None, "axis": -1, "norm": "backward"}, SPECTRAL) for name in (
        "fft", "ifft", "rfft", "irfft",
    )},
    "softmax": (
        {"a": X, "axis": 0, "precise": False}, {"a": [Z((), "f"), Z(0, "f")], "axis": [9, (9, "a")], "precise": [TEXT]},
    ),
    "eye": ({"n": 3, "m": 3, "k": 0, "dtype": None}, {"n": [-1, "a"], "m": [-1], "k": ["a"], "dtype": ["a"]}),
    "identity": ({"n": 3, "dtype": None}, {"n": [-1, "a"], "dtype": ["a"]}),
    "linspace": ({"start": 0, "stop": 1, "num": 5, "dtype": None}, {"num": [-1, "a"], "dtype": ["a"], "stop": ["a"]}),
    "arange": ({"start": 0, "stop": 5, "step": 1}, {"start": [np.nan], "stop": [np.inf], "step": [0, np.nan]}),
    "diag": ({"a": X, "k": 0}, {"a": [Z((), "f"), Z((2, 2, 2), "f")], "k": ["a"]}),
    "as_strided": ({"a": Z(6, "f"), "shape": (2, 3), "strides": (3, 1)}, {"shape": [(-1, 3)], "strides": [(1,), "a"]}),
    "pad": (
        {"a": X, "pad_width": 1, "mode": "constant", "constant_values": 0},
        {"pad_width": [-1, "a", [(1,)]], "mode": ["foo", 3], "constant_values": [Z(7, "f"), "a", None]},
    ),
    "round": ({"a": X, "decimals": 0}, {"a": ["q"], "decimals": ["a"]}),
    "nan_to_num": (
        {"a": X, "nan": 0.0, "posinf": None, "neginf": None},
        {"a": [C(2)], "nan": ["a"], "posinf": ["a", 1j], "neginf": ["a"]},
    ),
    "addmm": (
        {"c": Z((2, 4), "f"), "a": X, "b": Z((3, 4), "f")},
        {"c": [C(2, 4), Z((2, 4), "i")], "a": [Z((), "f"), Z((2, 5), "f")], "b": [Z((), "f"), Z((7, 4), "f")]},
    ),
    "quantize": (
        {"w": Z((4, 64), "f"), "group_size": 64, "bits": 4, "mode": "affine"},
        {"w": [Z(64, "f"), Z((4, 30), "f")], "group_size": ["a"], "bits": ["a"], "mode": ["foo"]},
    ),
    "quantized_matmul": (
        {"x": Z((2, 64), "f"), "w": Z((4, 8), np.uint32), "scales": Z((4, 1), "f"), "biases": Z((4, 1), "f"),
         "transpose": True, "group_size": 64, "bits": 4},
        {"x": [Z((2, 63), "f"), Z((), "f")], "biases": [None], "transpose": [TEXT], "group_size": ["a"], "bits": ["a"]},
    ),
    "linalg.norm": (
        {"a": Z((3, 3), "f"), "ord": None, "axis": None, "keepdims": False},
        {"ord": ["foo", 0.5], "axis": [(0, 9)], "keepdims": [TEXT]},
    ),
    "linalg.svd": ({"a": Z((3, 3), "f"), "compute_uv": True}, {"a": MATRIX[:2], "compute_uv": [TEXT]}),
    **{f"linalg.{name}": ({"a": Z((3, 3), "f"), "upper": False}, {"a": MATRIX, "upper": [TEXT]}) for name in (
        "cholesky", "tri_inv", "cholesky_inv",
    )},
    "random.uniform": (
        {"low": 0, "high": 1, "shape": (2,), "dtype": "float32"},
        {"low": ["a", Z(5, "f")], "high": [None, Z(7, "f")], "shape": [(-1,), "a"], "dtype": ["int32"]},
    ),
    "random.permutation": ({"x": X, "axis": 0}, {"x": [Z((), "f"), -1, "a"], "axis": [9, "a"]}),
    "fast.rope": (
        {"a": Z((1, 2, 8), "f"), "dims": 8, "traditional": False, "base": 1e4, "scale": 1.0, "offset": 0},
        {"a": [Z(8, "f")], "base": [None], "offset": ["a", Z(2, "i")], "dims": ["a", 7]},
    ),
}  # fmt: skip

KEYWORDS = {"group_size", "bits", "traditional", "base", "scale", "offset", "upper", "compute_uv", "mode"}
"""Arguments that some functions of MLX take by keyword only."""


@pytest.mark.parametrize("name", CASES)
def test_which_of_two_faults_is_named(name: str) -> None:
    right, wrong = CASES[name]
    for first, second in combinations(wrong, 2):
        for one in wrong[first]:
            for other in wrong[second]:
                arguments = {**right, first: one, second: other}

                def call(mx: Any, arguments: dict[str, Any] = arguments) -> Any:
                    values = {k: mx.array(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
                    if values.get("dtype") in ("int32", "float32"):
                        values["dtype"] = getattr(mx, values["dtype"])
                    function = mx
                    for part in name.split("."):
                        function = getattr(function, part)
                    rest = {k: v for k, v in values.items() if k in KEYWORDS}
                    return function(*[v for k, v in values.items() if k not in KEYWORDS], **rest)

                try:
                    check(call)
                except AssertionError as error:
                    raise AssertionError(f"{first}={one!r}, {second}={other!r}: {error}") from None
