"""The contract of `mx.fast.metal_kernel`: MLX's checks of a definition and of a call, and the signature of a call.

All functions are pure, and do not parse or run the kernel. `define` is called once per kernel, `launch` once per call.
"""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as short
from typing import Any, NamedTuple

from mxcompat._array.construct import node_of
from mxcompat._array.errors import bad_cast, expected, incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval
from mxcompat._graph.ir.node import Node
from mxcompat._metal.signature import TYPE_NAMES, Input, Output, Signature, TemplateValue, attributes_in

from ..arguments import any_number, flag, integers, is_sequence, require_text

__all__ = ["Definition", "Launch", "define", "input_nodes", "launch", "signature_of"]

_CALL = "__call__"
_LOW, _HIGH = -(2**31), 2**31 - 1
_MOST_THREADS = 1024
"""The largest number of threads in a group, on every device that MLX supports."""


class Definition(NamedTuple):
    """The definition of a kernel. `math_mode` has no effect: arithmetic is always that of Metal's safe mode."""

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    source: str
    header: str
    ensure_row_contiguous: bool
    atomic_outputs: bool
    math_mode: str
    language: str = "metal"
    shared_memory: int = 0


class Launch(NamedTuple):
    """A call of a kernel.

    Args:
        signature: everything in front of the body.
        grid: threads along each axis.
        threadgroup: threads of a group along each axis, at most those of the grid.
        init_value: the initial value of the outputs, None for 0.
        verbose: print the generated text.
    """

    signature: Signature
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    init_value: float | None
    verbose: bool


def define(
    name: Any, input_names: Any, output_names: Any, source: Any, header: Any = "", ensure_row_contiguous: Any = True,
    atomic_outputs: Any = False, compile_options: Any = None, *, function: str = "metal_kernel", shared_memory: int = 0,
) -> Definition:  # fmt: skip
    """Check the definition of a kernel.

    Raises:
        TypeError: for arguments of other types.
        ValueError: if there is no output, or for options that MLX does not have.
        RuntimeError: for options that are not strings.
    """
    for argument, value in (("name", name), ("source", source), ("header", header)):
        require_text(value, function, argument)
    for argument, names in (("input_names", input_names), ("output_names", output_names)):
        for one in names if is_sequence(names) else (None,):
            require_text(one, function, f"each of {argument}")
    flag(ensure_row_contiguous, function, "ensure_row_contiguous")
    flag(atomic_outputs, function, "atomic_outputs")
    math_mode = _math_mode(compile_options)
    if not output_names:
        raise ValueError(f"[{function}] Must specify at least one output.")
    return Definition(
        name, tuple(input_names), tuple(output_names), source, header, ensure_row_contiguous, atomic_outputs, math_mode,
        function.removesuffix("_kernel"), shared_memory,
    )  # fmt: skip


def _math_mode(options: Any) -> str:
    mode = "safe"
    if options is None:
        return mode
    if not isinstance(options, dict):
        raise ValueError("[metal_kernel] Expected `compile_options` to be a dict.")
    for key, value in options.items():
        if not isinstance(key, str):
            raise bad_cast("the names of compile options are strings")
        if key != "math_mode":
            raise ValueError(f"[metal_kernel] Unknown compile option `{key}`.")
        if not isinstance(value, str):
            raise bad_cast("math_mode is a string")
        if value not in ("safe", "relaxed", "fast"):
            raise ValueError("[metal_kernel] Expected math_mode to be 'safe', 'relaxed', or 'fast'.")
        mode = value
    return mode


def input_nodes(inputs: Any) -> list[Node]:
    """Return the nodes of a call's inputs. Raises ValueError unless they are arrays, numbers or buffers, and TypeError
    for None."""
    if not is_sequence(inputs):
        raise expected(_CALL, "inputs to be a list of arrays and numbers", inputs)
    if any(inputs[place] is None for place in range(len(inputs))):
        raise incompatible(_CALL, "Expected each of inputs to be an array or a number, got NoneType.")
    return [node_of(inputs[place]) for place in range(len(inputs))]


def launch(
    definition: Definition, *, inputs: Any, output_shapes: Any, output_dtypes: Any, grid: Any, threadgroup: Any,
    template: Any = None, init_value: Any = None, verbose: Any = False, stream: Any = None,
) -> tuple[Launch, list[Node]]:  # fmt: skip
    """Check the arguments of a call, in MLX's order.

    Returns:
        The call as a value, and the nodes of its inputs.

    Raises:
        TypeError: for arguments of other types.
        ValueError: for a wrong number of inputs, shapes or dtypes, for invalid template values, for a dtype that Metal
            does not have, or for a group of more than 1024 threads.
    """
    shapes = [_ints(shape, "each of output_shapes") for shape in _items(output_shapes, "output_shapes")]
    dtypes = _items(output_dtypes, "output_dtypes")
    for dtype in dtypes:
        if type(dtype) is not Dtype:
            raise expected(_CALL, "each of output_dtypes to be a Dtype", dtype)
    sizes = _three(grid, "grid"), _three(threadgroup, "threadgroup")
    pairs = [_pair(item) for item in _items(template, "template")] if template is not None else []
    if init_value is not None:
        init_value = any_number(init_value, _CALL, "init_value")
    flag(verbose, _CALL, "verbose")
    check_stream(stream)
    nodes = input_nodes(inputs)
    values = tuple(_template_value(name, value) for name, value in pairs)
    for what, items, names in (
        ("inputs", nodes, definition.input_names),
        ("output_shapes", shapes, definition.output_names),
        ("output_dtypes", dtypes, definition.output_names),
    ):
        if len(items) != len(names):
            raise ValueError(f"[metal_kernel] Expected `{what}` to have size {len(names)} but got size {len(items)}.\n")
    outputs = [_output_aval(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    signature = signature_of(definition, [node.aval for node in nodes], outputs, values)
    cut, group = _clipped(*sizes)
    if definition.language == "cuda":  # CUDA runs whole blocks, even at the edge of the grid
        cut = tuple([-(-n // t) * t for n, t in zip(cut, group, strict=True)])
    return Launch(signature, cut, group, init_value, verbose), nodes


def signature_of(
    definition: Definition, inputs: Sequence[Aval], outputs: Sequence[Aval], template: tuple[TemplateValue, ...] = ()
) -> Signature:
    """Return the signature for inputs and outputs of these avals. Raises ValueError for a dtype that Metal does not
    have."""
    source = definition.source
    checked = []
    for name, a in zip(definition.input_names, inputs, strict=True):
        wants = [a.ndim > 0 and f"{name}_{what}" in source for what in ("shape", "strides", "ndim")]
        checked.append(Input(name, _type_of(name, a.dtype), a.shape, _row_contiguous(a.shape), *wants))
    results = [
        Output(name, _type_of(name, a.dtype), a.shape, definition.atomic_outputs)
        for name, a in zip(definition.output_names, outputs, strict=True)
    ]
    return Signature(
        definition.name, tuple(checked), tuple(results), template, attributes_in(source), definition.language,
        definition.shared_memory,
    )  # fmt: skip


def _row_contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array in row-major order, the order of all arrays here."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _type_of(name: str, dtype: Dtype) -> str:
    if dtype._label not in TYPE_NAMES:
        raise ValueError(f"[metal_kernel] `{name}` is of {dtype._label}, which Metal lacks. Cast it to float32.")
    return dtype._label


def _clipped(grid: tuple[int, int, int], group: tuple[int, int, int]) -> tuple[Any, Any]:
    """Return the grid, and the group without the part beyond the grid. Raises ValueError for sizes that cannot be
    launched."""
    if min(grid) < 0:
        raise ValueError(f"[metal_kernel] The grid must not have negative sizes, got {grid}.")
    if min(group) < 1:
        raise ValueError(f"[metal_kernel] The threadgroup must have at least one thread, got {group}.")
    threads = group[0] * group[1] * group[2]
    if threads > _MOST_THREADS:
        raise ValueError(
            f"[metal_kernel] Thread group size ({threads}) is greater than the maximum allowed threads per threadgroup "
            f"({_MOST_THREADS})."
        )
    if grid[0] * grid[1] * grid[2] > _HIGH:
        raise ValueError(
            f"[metal_kernel] The grid must have at most {_HIGH} threads, got {grid[0] * grid[1] * grid[2]} of {grid}. "
            "Start the kernel several times, or let each thread compute more."
        )
    return grid, tuple(min(pair) for pair in zip(grid, group, strict=True))


def _output_aval(shape: tuple[int, ...], dtype: Dtype) -> Aval:
    if any(size < 0 for size in shape):
        raise ValueError(f"[metal_kernel] Negative dimensions not allowed, got {shape} in output_shapes.")
    return aval(shape, dtype)


def _template_value(name: str, value: Any) -> TemplateValue:
    if isinstance(value, bool):
        return TemplateValue(name, "bool", value)
    if isinstance(value, int) and _LOW <= value <= _HIGH:
        return TemplateValue(name, "int", int(value))
    if type(value) is Dtype:
        return TemplateValue(name, "dtype", _type_of(name, value))
    raise ValueError("[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.")


def _items(value: Any, what: str) -> list[Any]:
    if not is_sequence(value):
        raise expected(_CALL, f"{what} to be a list", value)
    return [value[place] for place in range(len(value))]


def _pair(item: Any) -> tuple[str, Any]:
    pair = _items(item, "each of template")
    if len(pair) != 2 or not isinstance(pair[0], str):
        raise expected(_CALL, "each of template to be a name and a value", item)
    return pair[0], pair[1]


def _ints(value: Any, what: str) -> tuple[int, ...]:
    try:
        return integers(value)
    except TypeError:
        raise incompatible(_CALL, f"Expected {what} to be a sequence of ints of 32 bits, got {short(value)}.") from None


def _three(value: Any, what: str) -> tuple[int, int, int]:
    sizes = _ints(value, what)
    if len(sizes) != 3:
        raise incompatible(_CALL, f"Expected {what} to be three ints, got {len(sizes)}.")
    return sizes[0], sizes[1], sizes[2]
