"""Check the kernels of a program: find out if their source, where it is known, is in the supported language."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from mxcompat._metal import Input, KernelError, Output, Signature, TemplateValue, parse_kernel

from .scopes import Scope
from .texts import Text, text_of

__all__ = ["look_at_kernel", "template_kinds"]

_ARGUMENTS = ("name", "input_names", "output_names", "source", "header")


class Verdict(NamedTuple):
    """The result of the check of a kernel.

    Args:
        kind: "runs" (it is in the supported language), "kernel" (it is not) or "unknown" (its text is made when the
            program runs).
        message: an explanation.
        line: the line of the program with the error; 0 for the line of the call.
    """

    kind: str
    message: str
    line: int = 0


def look_at_kernel(call: ast.Call, scope: Scope, kinds: dict[str, str], language: str) -> Verdict:
    """Check the kernel that a call of `metal_kernel` or `cuda_kernel` defines.

    Args:
        call: the call.
        scope: the scope of the call.
        kinds: the result of `template_kinds` for the whole program.
        language: "metal" or "cuda".
    """
    arguments = dict(zip(_ARGUMENTS, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    named = text_of(arguments["name"], scope) if "name" in arguments else None
    name = named.text if named is not None else "kernel"
    source = text_of(arguments["source"], scope) if "source" in arguments else None
    header = text_of(arguments["header"], scope) if "header" in arguments else Text("")
    if source is None or header is None:
        return Verdict("unknown", f"the text of {name} is made when the program runs; it is checked at the first call")
    inputs = tuple(Input(one, "float32", (8,), (1,)) for one in _names(arguments.get("input_names")))
    outputs = tuple(Output(one, "float32", (8,)) for one in _names(arguments.get("output_names")))
    errors = []
    for values in _templates(source.text, kinds):
        try:
            parse_kernel(source.text, header.text, Signature(name, inputs, outputs, values, language=language))
            return Verdict("runs", f"{name} is in the supported language")
        except KernelError as error:
            errors.append(error)
    if not (source.is_whole and header.is_whole):
        return Verdict("unknown", f"the text of {name} depends on the run; it is checked at the first call")
    error = max(errors, key=lambda error: (error.line, error.column))
    part = header if error.part == "header" else source
    where = f"{error.part} line {error.line}, column {error.column}"
    line = part.line + error.line - 1 if part.line else 0
    return Verdict("kernel", f"{name} is outside of the supported language: {where}: {error.reason}", line)


def template_kinds(tree: ast.AST) -> dict[str, str]:
    """Return the kinds of the values in `template=[("T", …)]` of a program, "" for a kind that is unknown."""
    kinds: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Tuple, ast.List)) or len(node.elts) != 2:
            continue
        name, value = node.elts
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier():
            kinds[name.value] = _kind(value)
    return kinds


def _kind(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return "bool" if isinstance(value.value, bool) else "int"
    if isinstance(value, (ast.Compare, ast.BoolOp)):
        return "bool"
    text = ast.unparse(value)
    return "dtype" if "dtype" in text or re.search(r"\.(u?int|b?float|bool_|complex)\d*$", text) else ""


def _templates(source: str, kinds: dict[str, str]) -> Iterator[tuple[TemplateValue, ...]]:
    """Yield template values for the names in a source: all kinds that they may have, the likeliest first."""
    named = [name for name in kinds if re.search(rf"\b{name}\b", source)]
    open_ = [name for name in named if not kinds[name]][:_MOST_OPEN]
    first = ["dtype" if _is_type(name, source) else "int" for name in open_]
    choices = [(kind, "int" if kind == "dtype" else "dtype") for kind in first]
    for chosen in itertools.product(*choices):
        known = kinds | dict(zip(open_, chosen, strict=True))
        yield tuple(TemplateValue(name, known[name] or "int", _VALUES[known[name] or "int"]) for name in named)


_MOST_OPEN = 4
_VALUES = {"dtype": "float32", "int": 1, "bool": True}


def _is_type(name: str, source: str) -> bool:
    """Return True if a name is used as a type: before a parenthesis or a variable, or in angle brackets."""
    return bool(
        re.search(rf"\b{name}\s*\(|\b{name}\s*\*?\s+\w+\s*[=;\[,)]|<\s*{name}\s*[>,*]|\({name}\s*\*?\)", source)
    )


def _names(node: ast.expr | None) -> list[str]:
    elements = list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else []
    return [
        element.value for element in elements if isinstance(element, ast.Constant) and isinstance(element.value, str)
    ]
