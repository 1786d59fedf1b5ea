"""MLX's primitives behind our ops, with their arguments: one op may be several, as a sum and the axis taken out of it.

What is not in these tables is one primitive, named after the op, with the op's parameters as its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from mxcompat._graph.ir.aval import Aval, aval, complex64
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import Rules
from mxcompat._ops.define import TABLE

from .chain import Chain, Source, Step
from .composed import COMPOSED
from .composed_elementwise import ELEMENTWISE
from .composed_fast import FAST
from .composed_indexing import INDEXING
from .composed_products import PRODUCTS

__all__ = ["is_known", "primitive_name", "steps"]

_PRIMITIVES = {
    "addmm": "AddMM", "argpartition": "ArgPartition", "argsort": "ArgSort", "arctan2": "ArcTan2",
    "astype": "AsType", "broadcast_to": "Broadcast", "cast": "AsType",
    "block_masked_mm": "BlockMaskedMM", "conv": "Convolution", "fft": "FFT", "linalg_cholesky": "Cholesky",
    "linalg_inv": "Inverse", "linalg_qr": "QRF", "linalg_svd": "SVD", "logaddexp": "LogAddExp",
    "logsumexp": "LogSumExp", "searchsorted": "SearchSorted", "where": "Select",
    **dict.fromkeys(("all", "any", "sum", "prod", "max", "min"), "Reduce"),
    **dict.fromkeys(("argmax", "argmin"), "ArgReduce"),
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), "Scan"),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"), "BitwiseBinary"),
    **dict.fromkeys(("log2", "log10", "log"), "Log"),
}  # fmt: skip
"""MLX's names of the primitives behind ops, where they are not the op's own name in capitals."""


_STEPS = Rules()
"""`rule(op, params, given, results)`: the steps of an op, from its params by name and the avals of what it reads and
returns; None if these are those of an op without a rule."""

_ARGUMENTS = Rules()
"""`rule(params, given, results)`: the arguments of the one primitive of an op; None if they are its params."""

_COMPOSED = {TABLE[name]: rule for name, rule in (COMPOSED | ELEMENTWISE | FAST | INDEXING | PRODUCTS).items()}
"""`rule(chain, **params)` puts the steps of an op together; None if they are not known."""


def primitive_name(name: str) -> str:
    """The name that MLX gives an op's primitive."""
    return _PRIMITIVES.get(name) or "".join(part.capitalize() for part in name.split("_"))


def steps(
    op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval], numbers: Sequence[Any]
) -> list[Step]:
    """The primitives that MLX has for an op, the last of which returns what the op returns.

    Args:
        given: the avals of its inputs, `numbers` their values where they are Python numbers.
    """
    if op in _COMPOSED:
        chain = Chain(given, numbers)
        if _COMPOSED[op](chain, **params) is not None:
            return chain.steps
    found = _STEPS[op](op, params, given, results) if op in _STEPS else None
    if found is not None:
        return list(found)
    arguments = _ARGUMENTS[op](params, given, results) if op in _ARGUMENTS else None
    if arguments is None:
        arguments = [list(p) if isinstance(p, tuple) else p for p in params.values()]
    return [Step(primitive_name(op.name), list(range(len(given))), list(results), arguments)]


def is_known(op: Op, params: tuple) -> bool:
    """Whether an op of one result is told as MLX tells it."""
    return op in _COMPOSED or op in _STEPS or op in _ARGUMENTS or (op in TABLE.values() and not params)


def _records(*names: str) -> list[Op]:
    return [TABLE[name] for name in names]


def _code(*names: str) -> dict[str, int]:
    return {name: k for k, name in enumerate(names)}


_REDUCE = _code("all", "any", "sum", "prod", "min", "max")
_SCAN = _code("cummax", "cummin", "cumsum", "cumprod", "logcumsumexp")
_BITWISE = _code("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
_LOG = _code("log2", "log10", "log")
_MODE = _code("affine", "mxfp4", "mxfp8", "nvfp4")


def _kept(a: Aval, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([1 if k in axes else n for k, n in enumerate(a.shape)])


@_STEPS.of(*_records(*_REDUCE, "argmin", "argmax", "logsumexp"))
def _reduced(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Any:
    axes = params.get("axes", params.get("axis"))
    if axes is None or axes == ():
        return None
    axes = [axes] if isinstance(axes, int) else list(axes)
    name = op.name
    arguments: list[Any] = [_REDUCE[name], axes] if name in _REDUCE else []
    if name in ("argmin", "argmax"):
        arguments = [int(name == "argmax"), axes[0]]
    elif name == "logsumexp" and axes != [given[0].ndim - 1]:
        return None
    kept = aval(_kept(given[0], axes), results[0].dtype)
    first = [Step(primitive_name(name), [0], [kept], arguments)]
    if kept.shape == given[0].shape and name in _REDUCE:  # MLX has nothing to reduce
        first = [Step("AsType", [0], [kept], [kept.dtype])] if kept.dtype is not given[0].dtype else []
    place = ~0 if first else 0
    return first if params["keepdims"] else [*first, Step("Squeeze", [place], list(results), [axes])]


_ARITHMETIC = _records(
    "add", "arctan2", "divide", "floor_divide", "logaddexp", "maximum", "minimum", "multiply", "power", "remainder",
    "subtract",
)  # fmt: skip
_COMPARING = _records(
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "not_equal", "where"
)  # fmt: skip


@_STEPS.of(*_ARITHMETIC, *_COMPARING, *_records(*_BITWISE))
def _elementwise(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Iterator[Step]:
    """Operands are cast and broadcast first."""
    result = results[0]
    inputs: list[Source] = []
    made = 0
    for k, a in enumerate(given):
        place = k
        if op in _ARITHMETIC and a.dtype is not result.dtype:
            a = aval(a.shape, result.dtype)
            yield Step("AsType", [place], [a], [a.dtype])
            place, made = ~made, made + 1
        if a.shape != result.shape:
            yield Step("Broadcast", [place], [aval(result.shape, a.dtype)], [result.shape])
            place, made = ~made, made + 1
        inputs.append(place)
    yield Step(primitive_name(op.name), inputs, list(results), [_BITWISE[op.name]] if op.name in _BITWISE else [])


@_STEPS.of(*_records("broadcast_to", "reshape"))
def _shaped(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> list[Step]:
    shape = tuple(params["shape"])
    return [] if given[0].shape == shape else [Step(primitive_name(op.name), [0], list(results), [shape])]


@_STEPS.of(TABLE["array_equal"])
def _equal(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Any:
    a, b = given
    axes = list(range(a.ndim))
    if a != b or not axes:
        return None
    dtype = results[0].dtype
    return [
        Step("Equal", [0, 1], [aval(a.shape, dtype)], list(params.values())),
        Step("Reduce", [~0], [aval(_kept(a, axes), dtype)], [_REDUCE["all"], axes]),
        Step("Squeeze", [~1], list(results), [axes]),
    ]


@_STEPS.of(TABLE["isnan"])
def _isnan(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> list[Step]:
    return [Step("NotEqual", [0, 0], list(results), [])]


@_STEPS.of(TABLE["stack"])
def _stack(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Iterator[Step]:
    axis = params["axis"] % results[0].ndim
    for k, a in enumerate(given):
        yield Step("ExpandDims", [k], [aval((*a.shape[:axis], 1, *a.shape[axis:]), a.dtype)], [[axis]])
    if len(given) > 1:
        yield Step("Concatenate", [~k for k in range(len(given))], list(results), [axis])


@_STEPS.of(TABLE["fft"])
def _fft(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Iterator[Step]:
    kind = params["kind"]
    place = 0
    if given[0].dtype is not complex64 and ("rfft" not in kind.removeprefix("i") or kind.startswith("ir")):
        yield Step("AsType", [0], [aval(given[0].shape, complex64)], [complex64])
        place = ~0
    arguments = [list(params["axes"]), kind.startswith("i"), "r" in kind, False]
    yield Step("FFT", [place], list(results), arguments)


def _scheme(params: dict[str, Any]) -> list[int]:
    mode, group_size, bits = params["how"]
    return [group_size, bits, _MODE[mode]]


@_STEPS.of(*_records("quantized_matmul", "quantized_matmul_fp"))
def _quantized(op: Op, params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Any:
    """The packed weights, the last operand of ours, are the second of MLX's."""
    order: list[Source] = [0, len(given) - 1, *range(1, len(given) - 1)]
    return [Step("QuantizedMatmul", order, list(results), [*_scheme(params), params["transpose"]])]


def _scan(name: str) -> Callable[..., Any]:
    def told(params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Any:
        return None if params["axis"] is None else [_SCAN[name], *params.values()]

    return told


def _axis(params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> list[Any]:
    return [params["axis"] % given[0].ndim] if params["axis"] is not None else [None]


def _split(params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> list[Any]:
    axis = params["axis"] % given[0].ndim
    return [tuple(accumulate(r.shape[axis] for r in results[:-1])), axis]


def _pad(params: dict[str, Any], given: Sequence[Aval], results: Sequence[Aval]) -> Any:
    widths = params["widths"]
    if params["mode"] != "constant":
        return None
    if len(widths) == 1:
        widths = widths * given[0].ndim
    return [list(range(given[0].ndim)), tuple([w[0] for w in widths]), tuple([w[1] for w in widths])]


_TOLD: dict[str, Callable[[dict[str, Any], Sequence[Aval], Sequence[Aval]], list[Any] | None]] = {
    **{name: _scan(name) for name in _SCAN},
    **{name: lambda p, xs, ys, code=code: [code] for name, code in _LOG.items()},  # type: ignore[misc]
    "concatenate": _axis,
    "depends": lambda p, xs, ys: [],
    "dynamic_slice": lambda p, xs, ys: [list(p["axes"]), ys[0].shape],
    "flatten": lambda p, xs, ys: [k % xs[0].ndim for k in p.values()] if xs[0].ndim else None,
    "gather_axis": _axis,
    "linalg_inv": lambda p, xs, ys: [False, True],
    "pad": _pad,
    "linalg_svd": lambda p, xs, ys: [True],
    "quantize": lambda p, xs, ys: [*_scheme(p), False],
    "searchsorted": lambda p, xs, ys: [p["side"] == "right"],
    "softmax": lambda p, xs, ys: [False] if p["axes"] == (xs[0].ndim - 1,) else None,
    "split": _split,
}
_ARGUMENTS.update({TABLE[name]: told for name, told in _TOLD.items()})
