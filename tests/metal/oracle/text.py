"""The C++ text of a kernel: address spaces, includes and loops are rewritten. A function that unpacks the kernel's
arguments follows."""

import re

from mxcompat._metal.signature import ATTRIBUTES, TYPE_NAMES

__all__ = ["cooperates", "unit"]

_TOGETHER = re.compile(r"\b(simd_\w+|quad_\w+|threadgroup_barrier|simdgroup_barrier)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def cooperates(text):
    """Return True if a thread of this kernel may have to wait for others."""
    return bool(_TOGETHER.search(text))


def unit(name, source, header, signature):
    """Return the C++ text of a kernel: a namespace, and a C function with this name."""
    together = cooperates(source + header)
    header, source = (_rewritten(text, together) for text in (header, source))
    kinds = {"dtype": "typename", "int": "int", "bool": "bool"}
    template = ", ".join(f"{kinds[v.kind]} {v.name}" for v in signature.template)
    values = ", ".join(v.argument for v in signature.template)
    parameters, arguments = [], []

    def add(declared, argument):
        parameters.append(declared)
        arguments.append(argument.replace("@", f"b[{len(arguments)}]"))

    for parameter in signature.inputs:
        kind = f"const {TYPE_NAMES[parameter.dtype]}"
        add(
            f"{kind}{'&' if parameter.is_reference else '*'} {parameter.name}",
            f"{'*' * parameter.is_reference}({kind}*)@",
        )
        if parameter.wants_shape:
            add(f"const int* {parameter.name}_shape", "(const int*)@")
        if parameter.wants_strides:
            add(f"const int64_t* {parameter.name}_strides", "(const int64_t*)@")
        if parameter.wants_ndim:
            add(f"const int& {parameter.name}_ndim", "*(const int*)@")
    for output in signature.outputs:
        kind = f"atomic<{TYPE_NAMES[output.dtype]}>" if output.is_atomic else TYPE_NAMES[output.dtype]
        add(f"{kind}* {output.name}", f"({kind}*)@")
    for attribute in signature.attributes:
        parameters.append(f"{ATTRIBUTES[attribute]} {attribute}")
        arguments.append(f"p.{attribute}")
    return f"""
namespace mxo {{ namespace {name}_ {{
using namespace metal;
#line 1 "header"
{header}
{f"template <{template}>" if template else "inline"}
void body({", ".join(parameters)}) {{
#line 1 "source"
{source}
}}
inline void call(void* data, const Position& p) {{
  void** b = (void**)data;
  body{f"<{values}>" if template else ""}({", ".join(arguments)});
}}
}} }}
extern "C" void {name}(void** b, const mxo::Launch* launch) {{
  mxo::run(*launch, {str(not together).lower()}, mxo::{name}_::call, b);
}}
"""


def _rewritten(text, together):
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    text = re.sub(r"^[ \t]*#[ \t]*(include|pragma)\b.*$", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"\bconst(expr)?\s+constant\b|\bconstant\s+const(expr)?\b", lambda f: f"const{f[1] or f[2] or ''}", text
    )
    text = re.sub(r"\bconstant\b", "const", text)
    text = re.sub(r"\bthreadgroup\b(?=(\s+|\bconst\b|[\w:]+|<[^<>;]*>)*?\s*[*&)>])", "", text)
    text = re.sub(r"\bthreadgroup\b(?!\s*_)", "static", text)
    return _with_turns(text) if together else text


_AROUND, _WITHIN = "if (mxo::InLoop loop_; false) {} else ", " if (mxo::turn()) {} else "


def _with_turns(text):
    """Return the text with a counter of iterations in each loop."""
    parts, at = [], 0
    for match in re.finditer(r"\b(for|while|do)\b", text):
        if match[1] == "do":
            parts += [text[at : match.start()], _AROUND, "do", _WITHIN]
            at = match.end()
            continue
        end = _closing(text, text.index("(", match.end()))
        if match[1] == "while" and text[end:].lstrip().startswith(";"):
            continue
        parts += [text[at : match.start()], _AROUND, text[match.start() : end], _WITHIN]
        at = end
    return "".join(parts) + text[at:]


def _closing(text, start):
    """Return the position after the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    raise ValueError("a parenthesis is not closed")
