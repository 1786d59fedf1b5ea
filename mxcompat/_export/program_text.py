"""Programs as plain data for files: dicts, lists, numbers and strings; writer and reader.

The reader applies each instruction again, so shapes and dtypes are inferred and cannot be forged. Ops are looked up by
name in the op table; an unknown op, or one that does not fit, is an error.
"""

from __future__ import annotations

import math
from typing import Any

from mxcompat._array import construct, nest
from mxcompat._graph.ir.aval import DTYPES, Aval, Dtype, aval, number
from mxcompat._graph.ir.capture import ALIAS, Capture
from mxcompat._graph.ir.node import ITEM, Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._metal.signature import Signature, as_tuples, signature_from
from mxcompat._ops.define import TABLE
from mxcompat._ops.quantized.quantize import Scheme, scheme
from mxcompat._transforms.calls import CALL, CHECKPOINT, PURE_CALL
from mxcompat._transforms.custom.derive import CUSTOM
from mxcompat._transforms.custom.ops import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP
from mxcompat._transforms.programs.split import PULL
from mxcompat._transforms.tracing import CONSTANT
from mxcompat._transforms.transform_ops import JVP, VJP, VMAP

__all__ = ["DamagedProgram", "ProgramReader", "ProgramWriter", "dtype_named"]

_OWN = {
    op.name: op
    for op in (
        ALIAS, ITEM, construct.CAST, construct.COPY, nest.NEST, CALL, CHECKPOINT, CONSTANT, PURE_CALL, CUSTOM_JVP,
        CUSTOM_VJP, CUSTOM_VMAP, JVP, PULL, TUPLE, VJP, VMAP,
    )
}  # fmt: skip
"""Ops that `TABLE` does not contain, by name: those of lower layers and of transforms."""

_DTYPES = {d._label: d for d in DTYPES}
_PREFIX = "graph:"


class DamagedProgram(Exception):
    """The data are not a valid Program."""


def _name(op: Op) -> str:
    if TABLE.get(op.name) is op:
        return op.name
    if _OWN.get(op.name) is op:
        return _PREFIX + op.name
    raise ValueError(f"[export_function] Cannot export the op {op}: it is not in the table of ops.")


def _op(name: Any) -> Op:
    if isinstance(name, str):
        record = _OWN.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else TABLE.get(name)
        if record is not None:
            return record
    raise DamagedProgram(f"there is no op {name!r}")


def dtype_named(name: Any) -> Dtype:
    """Return the dtype with this name. Raise DamagedProgram if there is none."""
    if not isinstance(name, str) or name not in _DTYPES:
        raise DamagedProgram(f"there is no dtype {name!r}")
    return _DTYPES[name]


class ProgramWriter:
    """Collects Programs as data in `programs`; each Program is written once."""

    def __init__(self) -> None:
        self.programs: list[dict[str, Any]] = []
        self._numbers: dict[Program, int] = {}

    def add(self, program: Program) -> int:
        """Return the number of a Program in `programs`. Programs inside it come before it."""
        if program not in self._numbers:
            code = [self._instruction(*instruction) for instruction in program.instructions]
            self._numbers[program] = len(self.programs)
            self.programs.append({
                "inputs": [[a.dtype._label, list(a.shape)] for a in program.in_avals],
                "code": code,
                "outputs": list(program.out_slots),
            })  # fmt: skip
        return self._numbers[program]

    def _instruction(self, op: Op, params: tuple, slots: tuple[int, ...]) -> list[Any]:
        if op is CUSTOM:  # the user's rules are Python code and cannot be written, so write only the function itself
            program, call = params
            op, params = PURE_CALL, (program, call.count)
        return [_name(op), [self.encode(p) for p in params], list(slots)]

    def encode(self, value: Any) -> Any:
        """Convert a static parameter or a number to data."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, complex):
            return {"complex": [self.encode(value.real), self.encode(value.imag)]}
        if isinstance(value, Scheme):
            return {"scheme": list(value)}
        if isinstance(value, Signature):
            return {"signature": self.encode(as_tuples(value))}
        if type(value) is tuple:
            return [self.encode(item) for item in value]
        if isinstance(value, Dtype):
            return {"dtype": value._label}
        if isinstance(value, Aval):
            return {"aval": [value.dtype._label, list(value.shape)]}
        if isinstance(value, Program):
            return {"program": self.add(value)}
        raise ValueError(f"[export_function] Cannot export an op with a parameter of type {type(value).__name__}.")


class ProgramReader:
    """Rebuilds the Programs that a `ProgramWriter` wrote, in the same order, as `programs`.

    Raises:
        DamagedProgram: if the data are invalid.
    """

    def __init__(self, data: Any) -> None:
        self.programs: list[Program] = []
        self._checked: set[tuple] = set()
        if not isinstance(data, list):
            raise DamagedProgram("it has no list of programs")
        for item in data:
            try:
                self.programs.append(self._program(item))
            except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
                raise DamagedProgram(f"program {len(self.programs)}: {error!r}") from error

    def _program(self, item: dict[str, Any]) -> Program:
        with Capture([_aval_of(*operands) for operands in item["inputs"]]) as capture:
            inputs, env = capture.placeholders, []

            def at(slot: int) -> Node:
                return env[slot] if slot >= 0 else inputs[~slot]

            for name, params, slots in item["code"]:
                op = _op(name)
                if len(params) != len(op.params):
                    raise DamagedProgram(f"{name} takes {len(op.params)} parameters, not {len(params)}")
                operands, params = tuple([at(s) for s in slots]), tuple([self.decode(p) for p in params])
                if op is CONSTANT:
                    value, dtype = params
                    if not isinstance(value, (int, float, complex)) or slots:
                        raise DamagedProgram(f"{value!r} is no number")
                    number(value, dtype)
                    node = Node(op, params, (), aval((), dtype), capture.id)
                else:
                    node = apply(op, operands, params)
                    self._check(node)
                env.append(node)
            body = capture.close([at(s) for s in item["outputs"]])
        if body.captured:
            raise DamagedProgram("an instruction has no inputs")
        return body.program

    def _check(self, node: Node) -> None:
        """Raise DamagedProgram if an op rejects its params, or if its result differs from the shape rule's. Shape rules
        trust params that come from library functions, but these come from a file."""
        op, avals = node.op, tuple([n.aval for n in node.inputs])
        if op is ITEM:
            (index,) = node.params
            if type(index) is not int or not 0 <= index < len(avals[0]):
                raise DamagedProgram(f"there is no output {index!r}")
            return
        if op.name in _OWN and any(type(p) is int and p < 0 for p in node.params):
            raise DamagedProgram(f"[{op}] counts {node.params!r}")
        if op.indices is not None and any(a.dtype._kind not in "bui" for a in avals[op.indices :]):
            raise DamagedProgram(f"[{op}] has indices that are no integers")
        key = (op, repr(node.params), avals)  # the key is `repr`, because 1, 1.0 and True are equal
        if key in self._checked:
            return
        try:
            inferred = op.abstract(node.params, avals)  # type: ignore[union-attr]
        except Exception as error:
            raise DamagedProgram(f"[{op}] cannot be computed with {node.params!r}") from error
        if inferred != node.aval:
            raise DamagedProgram(f"[{op}] with {node.params!r} would give {inferred}")
        self._checked.add(key)

    def decode(self, data: Any) -> Any:
        """Convert data back to the value that `ProgramWriter.encode` was given."""
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        if isinstance(data, list):
            return tuple([self.decode(item) for item in data])
        if isinstance(data, dict) and len(data) == 1:
            ((kind, value),) = data.items()
            if kind == "float" and value in ("inf", "-inf", "nan"):
                return float(value)
            if kind == "complex":
                return complex(*[self.decode(part) for part in value])
            if kind == "scheme":
                return scheme("import_function", *value)
            if kind == "signature":
                return signature_from(self.decode(value))
            if kind == "dtype":
                return dtype_named(value)
            if kind == "aval":
                return _aval_of(*value)
            if kind == "program" and type(value) is int and 0 <= value < len(self.programs):
                return self.programs[value]
        raise DamagedProgram(f"{data!r} is no parameter")


def _aval_of(name: Any, shape: Any) -> Aval:
    """Return the aval with this dtype name and shape. Raise DamagedProgram if there is none."""
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
        raise DamagedProgram(f"{shape!r} is no shape")
    return aval(tuple(shape), dtype_named(name))
