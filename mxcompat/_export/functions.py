"""Functions in files: `export_function`, `import_function`, `exporter`.

A file holds, for each trace of the function, the Program and the arrays that it captured. It is a `.safetensors` file:
the arrays are its tensors, and the rest is JSON in its metadata. It contains no executable code except ops of the op
table. Files of real MLX hold MLX's own graphs and cannot be read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from mxcompat._array.array import array, handles, nodes_of, wrap, wrap_all
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import SCALAR, Node, scalar
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.trace_stack import modes_of
from mxcompat._graph.run.digest import sha256
from mxcompat._graph.run.evaluate import evaluate
from mxcompat._io.reading import PathSource
from mxcompat._io.safetensors_io import read_tensors, write_tensors
from mxcompat._io.writing import array_bytes, open_path
from mxcompat._ops.arguments import flag, require_text
from mxcompat._transforms.calls import run
from mxcompat._transforms.functions import check_callable
from mxcompat._transforms.programs.reshaping import reshaped
from mxcompat._version import __version__

from .callback import describe
from .program_text import DamagedProgram, ProgramReader, ProgramWriter, dtype_named

__all__ = ["FunctionExporter", "export_function", "exporter", "import_function"]

_FORMAT = "mxcompat.function"
_VERSION = 1


class Traced(NamedTuple):
    """One trace of a function.

    Args:
        program: Its inputs are the positional arguments, the keyword arguments in the order of `keywords`, and the
            captured nodes.
        captured: the captured nodes.
        positional: the number of positional arguments.
        keywords: the names of the keyword arguments.
        shapeless: whether arguments of other shapes are accepted.
    """

    program: Program
    captured: list[Node]
    positional: int
    keywords: tuple[str, ...]
    shapeless: bool

    @property
    def arguments(self) -> tuple[Aval, ...]:
        return self.program.in_avals[: self.positional + len(self.keywords)]

    def match_order(self, positional: Sequence[Aval], named: dict[str, Aval]) -> list[int | str] | None:
        """Return the argument of a call for each argument of the trace, as a position or a keyword.

        Unknown keywords fill the positional arguments that are missing. Return None if the arguments do not fit.
        """
        spare = [name for name in named if name not in self.keywords]
        order = [*range(len(positional)), *spare, *self.keywords]
        if len(order) != len(self.arguments) or len(positional) + len(spare) != self.positional:
            return None
        if not named.keys() >= set(self.keywords):
            return None
        avals = [positional[key] if isinstance(key, int) else named[key] for key in order]
        if self.shapeless:
            fits = all(a.ndim == b.ndim and a.dtype is b.dtype for a, b in zip(avals, self.arguments, strict=True))
        else:
            fits = tuple(avals) == self.arguments
        return order if fits else None


def _trace(fun: Callable[..., Any], args: tuple, kwargs: dict[str, Any], shapeless: bool) -> Traced:
    positional, named = _inputs(args, kwargs, "export_function")
    avals = [x._node.aval for x in (*positional, *named.values())]
    with Capture(avals, any_shape=shapeless) as capture:
        inner_arguments = handles(capture.placeholders)
        value = fun(
            *inner_arguments[: len(positional)], **dict(zip(named, inner_arguments[len(positional) :], strict=True))
        )
        outputs = [value] if isinstance(value, array) else value
        if not isinstance(outputs, (list, tuple)) or not all(isinstance(x, array) for x in outputs):
            raise ValueError("[export_function] Outputs can be either a single array, a tuple, or a list of arrays.")
        body = capture.close(nodes_of([*outputs]))
    if modes_of(body.captured):
        raise ValueError("[export_function] Cannot export a function that uses the arguments of one around it.")
    return Traced(body.program, body.captured, len(positional), tuple(named), shapeless)


def _inputs(args: tuple, kwargs: dict[str, Any], function: str) -> tuple[list[array], dict[str, array]]:
    """Return the positional and keyword arguments of a call, given separately or as a tuple, a dict, or both. Keywords
    are sorted."""
    positional: Sequence[Any] = args
    named = kwargs
    if not kwargs and args and isinstance(args[-1], dict) and len(args) <= 2:
        named = args[-1]
        positional = args[:-1]
    if len(positional) == 1 and isinstance(positional[0], (list, tuple)):
        positional = positional[0]
    elif named is not kwargs and positional:
        positional = (None,)
    fits = all(isinstance(x, array) for x in (*positional, *named.values())) and all(isinstance(n, str) for n in named)
    if not fits:
        raise ValueError(
            f"[{function}] Inputs can either be a variable number of positional and keyword arrays or a single tuple "
            "and/or dictionary of arrays."
        )
    return list(positional), dict(sorted(named.items()))


class FunctionExporter:
    """A context manager that exports several traces of one function to a file. Made by `exporter`."""

    __slots__ = ("_closed", "_file", "_fun", "_metadata", "_shapeless", "_traces")

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.FunctionExporter: no constructor defined!")

    def close(self) -> None:
        """Write the file, unless it has been closed before."""
        if not self._closed:
            _save(self._file, self._traces, self._metadata)
            self._closed = True

    def __enter__(self) -> FunctionExporter:
        return self

    def __exit__(
        self, exc_type: object | None = None, exc_value: object | None = None, traceback: object | None = None
    ) -> None:
        if exc_type is None or self._traces:  # as in MLX, keep the traces made before an exception
            self.close()
        self._closed = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Trace the function with example arguments.

        Raises:
            RuntimeError: if it was already traced with such arguments, or the exporter is closed.
            ValueError: for arguments and results that are not arrays.
        """
        if self._closed:
            raise RuntimeError("[export_function] Attempting to write after exporting is closed.")
        traced = _trace(self._fun, args, kwargs, self._shapeless)
        positional = traced.arguments[: traced.positional]
        named = dict(zip(traced.keywords, traced.arguments[traced.positional :], strict=True))
        if any(known.match_order(positional, named) for known in self._traces):
            raise RuntimeError(
                "[export_function] Attempting to export a function twice with the same signature is not allowed."
            )
        self._traces.append(traced)


FunctionExporter.__module__ = "mxcompat.core"


def exporter(
    file: str, fun: Callable[..., Any], *, shapeless: bool = False, metadata: str | None = None
) -> FunctionExporter:
    """Return a context manager that exports several traces of a function to one file.

    Args:
        file: the path. The file is written when the exporter is closed.
        fun: takes arrays and returns an array, or a list or tuple of arrays.
        shapeless: whether the imported function accepts arrays of other shapes, too.
        metadata: a string to save with the function.

    Returns:
        A context manager. Call it with each set of example arguments.

    Raises:
        RuntimeError: if the folder does not exist.

    Example:
        >>> with mx.exporter("sum.mlxfn", lambda *xs: sum(xs)) as export:
        ...     export(mx.array(1))
        ...     export(mx.array(1), mx.array(2))
    """
    _check_texts("exporter", file, metadata)
    check_callable(fun, "exporter")
    flag(shapeless, "exporter", "shapeless")
    if not os.path.isdir(os.path.dirname(file) or "."):
        raise RuntimeError(f"[export_function] Failed to open {file}")
    new = object.__new__(FunctionExporter)
    new._file, new._fun, new._shapeless, new._metadata = file, fun, shapeless, metadata
    new._traces = []
    new._closed = False
    return new


def export_function(
    file_or_callback: str | Callable[..., Any],
    fun: Callable[..., Any],
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    **kwargs: Any,
) -> None:
    """Export a function to a file.

    Args:
        file_or_callback: a path, or a function that is called with a dict for each part of the graph: its "type" is
            "inputs", "keyword_inputs", "outputs", "constants" or "primitive".
        fun: takes arrays and returns an array, or a list or tuple of arrays. Arrays that it captures are saved with it.
        *args: example arguments; or a tuple of them, a dict of keyword arguments, or both.
        shapeless: whether the imported function accepts arrays of other shapes, too.
        metadata: a string to save with the function.
        **kwargs: example arguments by keyword.

    Raises:
        ValueError: for arguments and results that are not arrays; if the function reads the value of an array; and for
            metadata with a callback.
        RuntimeError: if the file cannot be opened.

    Example:
        >>> mx.export_function("product.mlxfn", lambda x, y: x * y, mx.array(1.0), mx.array(2.0))
        >>> mx.import_function("product.mlxfn")(mx.array(3.0), mx.array(4.0))
        (array(12, dtype=float32),)
    """
    check_callable(fun, "export_function")
    flag(shapeless, "export_function", "shapeless")
    if callable(file_or_callback):
        if metadata is not None:
            raise ValueError(
                "[export_function] The metadata argument is only supported when exporting to a file, not when using a "
                "callback."
            )
        traced = _trace(fun, args, kwargs, shapeless)
        for part in describe(traced.program, traced.captured, traced.keywords, traced.positional, shapeless):
            file_or_callback(part)
        return
    if not isinstance(file_or_callback, str):
        raise RuntimeError("std::bad_cast")
    _check_texts("export_function", file_or_callback, metadata)
    _save(file_or_callback, [_trace(fun, args, kwargs, shapeless)], metadata)


def _check_texts(function: str, file: Any, metadata: Any) -> None:
    require_text(file, function, "file")
    if metadata is not None:
        require_text(metadata, function, "metadata")


def _save(file: str, traces: Sequence[Traced], metadata: str | None) -> None:
    writer = ProgramWriter()
    arrays: dict[str, array] = {}
    names: dict[tuple, str] = {}
    functions = []
    for traced in traces:
        captured = []
        evaluate([n for n in traced.captured if n.value is None])
        for node in traced.captured:
            if node.op is SCALAR:
                captured.append({"dtype": node.aval.dtype._label, "number": writer.encode(node.value)})
            else:
                # Two traces may capture equal data in different nodes; equal data are stored once.
                key = (node.aval, sha256(array_bytes(wrap(node))).digest())
                name = names.setdefault(key, str(len(names)))
                arrays[name] = wrap(node)
                captured.append({"array": name})
        functions.append({
            "program": writer.add(traced.program),
            "captured": captured,
            "positional": traced.positional,
            "keywords": list(traced.keywords),
            "shapeless": traced.shapeless,
        })  # fmt: skip
    content = {
        "format": _FORMAT,
        "version": str(_VERSION),
        "writer": f"mxcompat {__version__}",
        "metadata": metadata or "",
        "graph": json.dumps({"programs": writer.programs, "functions": functions}, separators=(",", ":")),
    }
    with open_path(file, f"[export_function] Failed to open {file}") as opened:
        write_tensors(opened, arrays, content)


def import_function(
    file: str, return_metadata: bool = False
) -> Callable[..., tuple[array, ...]] | tuple[Callable[..., tuple[array, ...]], str]:
    """Import a function from a file that `export_function` or an `exporter` wrote.

    Args:
        file: the path.
        return_metadata: whether to also return the metadata string.

    Returns:
        A function that returns a tuple of arrays. It takes arrays, given one by one or as a tuple and a dict. It can be
        differentiated, mapped and compiled. With `return_metadata`, a pair of this function and the metadata string.

    Raises:
        RuntimeError: if the file cannot be opened, is not an exported function, is damaged, or is of a newer version.

    Example:
        >>> f = mx.import_function("product.mlxfn")
        >>> f(mx.array(3.0), mx.array(4.0))
        (array(12, dtype=float32),)
    """
    require_text(file, "import_function", "file")
    flag(return_metadata, "import_function", "return_metadata")
    traces, metadata = _read(file)
    shapes: dict[tuple, tuple[Program, list[Node]]] = {}

    def imported(*args: Any, **kwargs: Any) -> tuple[array, ...]:
        positional, named = _inputs(args, kwargs, "import_function::call")
        positional_avals = [x._node.aval for x in positional]
        named_avals = {name: x._node.aval for name, x in named.items()}
        for traced in traces:
            order = traced.match_order(positional_avals, named_avals)
            if order is not None:
                break
        else:
            raise ValueError(_no_match(traces, [*positional_avals, *named_avals.values()], tuple(named)))
        nodes = [(positional[key] if isinstance(key, int) else named[key])._node for key in order]
        avals = tuple([n.aval for n in nodes])
        program, captured = traced.program, traced.captured
        if avals != traced.arguments:
            key = (id(traced), avals)
            if key not in shapes:
                shapes[key] = reshaped(program, avals, captured)
            program, captured = shapes[key]
        return tuple(wrap_all(run(program, (*nodes, *captured))))

    return (imported, metadata) if return_metadata else imported


def _read(file: str) -> tuple[list[Traced], str]:
    """Read the traces in a file, and its metadata string."""
    try:
        source = PathSource(file)
    except OSError as error:
        raise RuntimeError(f"[import_function] Failed to open {file}") from error
    try:
        arrays, content = read_tensors(source)
    except (OSError, RuntimeError) as error:
        raise RuntimeError(f"[import_function] {file} was not exported by mxcompat, or is damaged.") from error
    if content.get("format") != _FORMAT:
        raise RuntimeError(f"[import_function] {file} was not exported by mxcompat.")
    if content.get("version") != str(_VERSION):
        raise RuntimeError(
            f"[import_function] {file} has version {content.get('version')} of the format (written by "
            f"{content.get('writer')}); this is mxcompat {__version__}, which reads version {_VERSION}."
        )
    try:
        graph = json.loads(content["graph"])
        reader = ProgramReader(graph["programs"])
        return [_function(item, reader, arrays) for item in graph["functions"]], content["metadata"]
    except (DamagedProgram, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise RuntimeError(f"[import_function] {file} is damaged: {error}") from error


def _function(item: dict[str, Any], reader: ProgramReader, arrays: dict[str, array]) -> Traced:
    captured: list[Node] = []
    for held in item["captured"]:
        if "array" in held:
            captured.append(arrays[held["array"]]._node)
        else:
            number = reader.decode(held["number"])
            if not isinstance(number, (bool, int, float, complex)):
                raise DamagedProgram(f"{number!r} is no number")
            captured.append(scalar(number, aval((), dtype_named(held["dtype"]))))
    keywords = tuple(item["keywords"])
    traced = Traced(reader.programs[item["program"]], captured, item["positional"], keywords, item["shapeless"])
    count = len(traced.arguments)
    held_avals = tuple(n.aval for n in captured)
    if count != item["positional"] + len(keywords) or traced.program.in_avals[count:] != held_avals:
        raise DamagedProgram("the arguments do not fit the program")
    return traced


def _no_match(traces: Sequence[Traced], avals: Sequence[Aval], keywords: tuple[str, ...]) -> str:
    lines = [
        "[import_function::call] No imported function found which matches the given positional and keyword arguments. "
        "Possible functions include:"
    ]
    for k, t in enumerate(traces):
        lines.append(f" {k + 1}. Function with {t.positional} positional inputs and {len(t.keywords)} keyword inputs:")
        lines += _listed(t.arguments, t.keywords, "   ")
    positional = len(avals) - len(keywords)
    lines += ["", f"Called with {positional} positional inputs and {len(keywords)} keyword inputs:"]
    return "\n".join([*lines, *_listed(avals, keywords, "  "), ""])


def _listed(avals: Sequence[Aval], keywords: tuple[str, ...], indent: str) -> Iterator[str]:
    positional = len(avals) - len(keywords)
    names = [*map(str, range(1, positional + 1)), *[f'"{name}"' for name in keywords]]
    for name, a in zip(names, avals, strict=True):
        yield f"{indent}{name}: ({','.join(map(str, a.shape))}) {a.dtype._label}"
