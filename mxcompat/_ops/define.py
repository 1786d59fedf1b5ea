"""Helpers that define ops, from a record to the public function.

Each helper takes the parts that distinguish an op: its JAX implementation, its dtype rule and its docstring. It returns
the function that users call, with the `Op` record as `function.op`. `TABLE` holds every record; the tests iterate over
it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import converted
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.aval import bool_ as _bool
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._jax import jnp

from .arguments import require_array
from .examples import example

__all__ = [
    "SAMPLES",
    "TABLE",
    "Sample",
    "as_bool",
    "as_float",
    "as_floats",
    "binary",
    "broadcast",
    "halves_in_float32",
    "op",
    "same",
    "unary",
]  # fmt: skip

TABLE: dict[str, Op] = {}
"""Every op, by name."""


def op(
    name: str,
    impl: Callable[..., Any],
    infer: Callable[..., Any] | None = None,
    params: tuple[str, ...] = (),
    *,
    indices: int | None = None,
    in_place: bool = False,
    smooth: slice = slice(None),
    reads: slice = slice(None),
    draws: bool = False,
) -> Op:
    """Add an entry to the table and return it, see `Op`. Raises ValueError if the name is taken."""
    if name in TABLE:
        raise ValueError(f"op {name} is defined twice")
    TABLE[name] = record = Op(
        name, impl, infer, params, indices=indices, in_place=in_place, smooth=smooth, reads=reads, draws=draws
    )
    return record


def same(dtype: Dtype) -> Dtype:
    """Return the result dtype for ops that keep the operand's dtype."""
    return dtype


def as_float(dtype: Dtype) -> Dtype:
    """Return the result dtype for floating-point ops: the operand's dtype if it is inexact, else float32."""
    return dtype if dtype._kind in "fc" else _float32


def as_bool(*dtypes: Dtype) -> Dtype:
    """Return the result dtype for comparisons: bool."""
    return _bool


def as_floats(a: Dtype, b: Dtype) -> Dtype:
    """Return the result dtype for floating-point ops of two operands: the promoted dtype if it is inexact, else
    float32."""
    return as_float(promote(a, b))


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that these shapes broadcast to. Raises MLX's ValueError if they do not."""
    out = shapes[0]
    for shape in shapes[1:]:
        if shape == out:
            continue
        longer, shorter = (out, shape) if len(out) >= len(shape) else (shape, out)
        offset = len(longer) - len(shorter)
        sizes = list(longer)
        for k, n in enumerate(shorter):
            m = longer[offset + k]
            if m == 1:
                sizes[offset + k] = n
            elif n not in (1, m):
                both = " and ".join(map(format_shape, (out, shape)))
                raise ValueError(f"[broadcast_shapes] Shapes {both} cannot be broadcast.")
        out = tuple(sizes)
    return out


class Sample(NamedTuple):
    """The settings for the tests of an elementwise op: the range of its inputs, and the allowed distance from real MLX.

    Args:
        low, high: the range of real inputs, and of both parts of complex inputs.
        second: the range for the second operand of a binary op, if it differs.
        tolerance: the relative and absolute tolerance for float32 values, if not the usual 2e-5; `reason` explains it.
        kinds: the dtype kinds to test, of "b", "u", "i", "f" and "c".
        smooth: whether the derivative exists and is worth a test.
        operands: the number of operands; `unary` and `binary` fill it in.
    """

    low: float = -3.0
    high: float = 3.0
    second: tuple[float, float] | None = None
    tolerance: float | None = None
    reason: str = ""
    kinds: str = "buifc"
    smooth: bool = True
    operands: int = 1


SAMPLES: dict[str, Sample] = {}
"""The test settings of each elementwise op, by name."""


def halves_in_float32(impl: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of `impl` that computes half precision in float32 and rounds once. `impl` is a function of JAX
    arrays with one dtype."""

    def rounded_once(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize != 2 or not jnp.issubdtype(dtype, jnp.floating):
            return impl(*xs)
        return impl(*[x.astype(jnp.float32) for x in xs]).astype(dtype)

    return rounded_once


def unary(
    name: str, impl: Callable[..., Any], result: Callable[[Dtype], Dtype], summary: str, *,
    sample: Sample = Sample(), arrays_only: bool = False, not_for: str = "", message: str = "",
    in_float32: bool | None = None, of_bools: Callable[..., array] | None = None,
) -> Callable[..., array]:  # fmt: skip
    """Make the public function of an elementwise op of one array.

    Args:
        impl: the JAX implementation. Its input is already cast to `result(dtype)`, unless that is bool.
        result: the dtype of the result.
        summary: the first line of the docstring.
        sample: how to test the op.
        arrays_only: whether Python numbers are refused, as MLX does for some ops.
        not_for: the dtype kinds that MLX refuses, with `message`; the default message is "Not supported for" the dtype.
        in_float32: whether half precision is computed in float32 and rounded once; by default if `result` is
            `as_float`.
        of_bools: the function for bools, if they have another.
    """
    if in_float32 is None:
        in_float32 = result is as_float
    rounded_once = halves_in_float32(impl) if in_float32 else impl

    def lower(x: Any) -> Any:
        want = result(from_numpy(x.dtype))  # type: ignore[arg-type]
        x = jnp.asarray(x)
        return rounded_once(x if want._kind == "b" or x.dtype.kind == "c" else x.astype(want._numpy))

    def infer(a: Aval) -> Aval:
        if a.dtype._kind in not_for:
            raise ValueError(f"[{name}] {message or f'Not supported for {a.dtype._label}.'}")
        return aval(a.shape, result(a.dtype))

    record = op(name, lower, infer)
    SAMPLES[name] = _tested(sample, not_for)
    convert: Callable[[Any], Node] = (lambda a: require_array(a, name)) if arrays_only else operands.node

    def function(a: Any, /, *, stream: Any = None) -> array:
        if stream is not None:
            check_stream(stream)
        node = a._node if type(a) is array else convert(a)
        if of_bools is not None and node.aval.dtype._kind == "b":
            return of_bools(wrap(node))
        return wrap(apply(record, (node,)))

    about = (f"a: {'an array' if arrays_only else 'an array or a number'}, of any shape.",)
    return _named(function, record, _document(name, summary, about, _dtypes(result), _refused(not_for, "the dtype is")))


def binary(
    name: str, impl: Callable[..., Any], summary: str, result: Callable[[Dtype, Dtype], Dtype] = promote,
    compute: Callable[[Dtype, Dtype], Dtype] | None = None, *, sample: Sample = Sample(), not_for: str = "",
    message: str = "", positional: bool = False, alone: bool = False,
) -> Callable[..., array]:  # fmt: skip
    """Make the public function of an elementwise op of two arrays.

    Args:
        impl: the JAX implementation. Its inputs are cast to `compute(dtype, dtype)`, by default the dtype of the
            result, but not broadcast yet.
        summary: the first line of the docstring.
        result: the dtype of the result.
        sample: how to test the op.
        not_for: the kinds of promoted dtypes that MLX refuses, with `message`; the default message is "Not supported
            for" the dtype.
        positional: whether the operands are positional-only and `stream` keyword-only.
        alone: whether a number has the dtype that it would have alone, instead of one that fits the array beside it.
    """
    compute = compute or result

    def infer(a: Aval, b: Aval) -> Aval:
        kind = promote(a.dtype, b.dtype)
        if kind._kind in not_for:
            raise ValueError(f"[{name}] {message or f'Not supported for {kind._label}.'}")
        return aval(broadcast(a.shape, b.shape), result(a.dtype, b.dtype))

    def lower(x: Any, y: Any) -> Any:
        want = compute(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
        return impl(converted(x, want), converted(y, want))

    record = op(name, lower, infer)
    SAMPLES[name] = _tested(sample, not_for)._replace(operands=2)

    convert, pair = (_alone, _alone_both) if alone else (operands.node, operands.pair)

    def function(a: Any, b: Any, stream: Any = None) -> array:
        if stream is not None:
            check_stream(stream)
        if type(a) is array:
            x = a._node
            y = b._node if type(b) is array else convert(b, x.aval.dtype)
        else:
            x, y = pair(a, b)
        return wrap(apply(record, (x, y)))

    about = ("a: an array or a number.", "b: an array or a number. The operands broadcast against each other.")
    dtypes = "bool." if result is as_bool else "the promoted dtype of the operands."
    if result is as_floats:
        dtypes = "the promoted dtype of the operands (float32 for integers and bool)."
    errors = ("ValueError: if the shapes cannot be broadcast.", *_refused(not_for, "the promoted dtype is"))
    document = _document(name, summary, about, dtypes, errors)
    return _named(_positional(function) if positional else function, record, document)


def _positional(function: Any) -> Any:
    """Return `function(a, b, stream=None)` with the signature `function(a, b, /, *, stream=None)`.

    The result has its own code object. A wrapper would make each call take 1.5 times as long.
    """
    code = function.__code__.replace(co_argcount=2, co_posonlyargcount=2, co_kwonlyargcount=1)
    copy = FunctionType(code, function.__globals__, closure=function.__closure__)
    copy.__annotations__, copy.__kwdefaults__ = function.__annotations__, {"stream": None}
    return copy


def _alone(value: Any, like: Dtype | None = None) -> Node:
    return operands.node(value)


def _alone_both(a: Any, b: Any) -> tuple[Node, Node]:
    return operands.node(a), operands.node(b)


def _tested(sample: Sample, not_for: str) -> Sample:
    return sample._replace(kinds="".join(k for k in sample.kinds if k not in not_for))


def _named(function: Callable[..., array], record: Op, doc: str) -> Callable[..., array]:
    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = doc
    function.op = record  # type: ignore[attr-defined]
    return function


def _dtypes(result: Callable[[Dtype], Dtype]) -> str:
    if result is as_bool:
        return "bool."
    if result is same:
        return "the dtype of `a`."
    if result is as_float:
        return "the dtype of `a` (float32 for integers and bool)."
    return "the dtype of `a`; float32 for complex64."


_OF_KIND = {"b": "bool", "u": "an unsigned integer", "i": "a signed integer", "f": "floating-point", "c": "complex64"}


def _refused(not_for: str, when: str) -> tuple[str, ...]:
    """Return the "Raises" entries of a docstring for the dtype kinds that the op refuses."""
    kinds = " or ".join(_OF_KIND[kind] for kind in not_for)
    return (f"ValueError: if {when} {kinds}.",) if kinds else ()


def _document(name: str, summary: str, arguments: tuple[str, ...], dtypes: str, errors: tuple[str, ...]) -> str:
    """Return the docstring of an elementwise function."""
    lines = "\n    ".join([*arguments, "stream: accepted, and ignored."])
    shape = "the shape of `a`" if len(arguments) == 1 else "the broadcast shape of the operands"
    raises = "\n    ".join(["\nRaises:", *errors, ""]).rstrip(" ") if errors else ""
    return f"""{summary}

Args:
    {lines}

Returns:
    An array with {shape} and {dtypes}
{raises}
Example:
{example(name)}
"""
