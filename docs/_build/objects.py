"""The public names for mkdocstrings: signatures and docstrings from run time.

Most functions of `mxcompat.core` are made from records, so there is no `def` to parse. An extension of griffe gives
mkdocstrings the results of `inspect`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

from docs._build.examples import example_of
from docs._build.facts import facts_of
from docs._build.names import PAGES, described, thing

__all__ = ["RunTime", "text_of"]


class RunTime(griffe.Extension):
    """Gives each public name its signature and docstring from run time."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        for page in PAGES:
            for name in page.names:
                module, _, last = name.rpartition(".")
                parent = pkg[module.removeprefix("mxcompat.")]
                parent.set_member(last, _shown(last, thing(name), name))


def text_of(name: str) -> str:
    """Return the docstring of a public name, with an example that ran and the dtypes."""
    found = thing(name)
    doc = inspect.getdoc(found) if described(name) else None
    text = prepared(doc) if doc else f"`{found!r}`"
    return "\n\n".join([text, *facts_of(name), *example_of(name, text)])


def prepared(doc: str) -> str:
    """Convert a docstring to griffe's conventions: the section is called Examples, and results are plain text, because
    they have no names here."""
    doc = re.sub(r"^( *)Example:$", r"\1Examples:", doc, flags=re.MULTILINE)
    return re.sub(
        r"^Returns:\n((?:    .*\n?|\n(?=    ))+)",
        lambda found: "**Returns:** " + inspect.cleandoc(found[1]) + "\n",
        doc,
        flags=re.MULTILINE,
    )


def _shown(name: str, found: Any, full: str) -> griffe.Object:
    docstring = griffe.Docstring(text_of(full), parser="google", parser_options=_OPTIONS)
    if inspect.isclass(found):
        shown = griffe.Class(name, docstring=docstring)
        shown.set_member("__init__", _function("__init__", found.__init__))
        for key, member in inspect.getmembers(found):
            if not key.startswith("_") and _is_own(found, key):
                shown.set_member(key, _member(key, member))
        return shown
    if described(full):
        return _function(name, found, docstring)
    return griffe.Attribute(name, docstring=docstring)


def _is_own(cls: type, key: str) -> bool:
    """Return True if a method belongs to the class or to a base that has no page; methods of `dict` do not count for a
    Module."""
    home = next(base for base in cls.__mro__ if key in vars(base))
    return home is cls or home.__name__.startswith("_")


def _member(name: str, member: Any) -> griffe.Object:
    doc = prepared(inspect.getdoc(member) or "")
    docstring = griffe.Docstring(doc, parser="google", parser_options=_OPTIONS) if doc else None
    if callable(member):
        return _function(name, member, docstring)
    return griffe.Attribute(name, docstring=docstring)


_OPTIONS = {"warnings": False, "warn_unknown_params": False}

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: griffe.ParameterKind.positional_only,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.VAR_POSITIONAL: griffe.ParameterKind.var_positional,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
    inspect.Parameter.VAR_KEYWORD: griffe.ParameterKind.var_keyword,
}


def _function(name: str, found: Any, docstring: griffe.Docstring | None = None) -> griffe.Function:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # a class without its own __init__
        signature = inspect.Signature()
    parameters = [
        griffe.Parameter(p.name, kind=_KINDS[p.kind], default=_default(p)) for p in signature.parameters.values()
    ]
    return griffe.Function(name, parameters=griffe.Parameters(*parameters), docstring=docstring)


def _default(parameter: inspect.Parameter) -> str | None:
    """Return the text of a default value; `...` for a sentinel object."""
    default = parameter.default
    if default is inspect.Parameter.empty:
        return None
    if inspect.isroutine(default) or inspect.isclass(default):
        return default.__name__
    text = repr(default).replace("mlx.core.", "mx.")
    return "..." if text.startswith("<") else text
