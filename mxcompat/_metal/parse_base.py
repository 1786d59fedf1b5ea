"""The base of the parsers: the tokens, the names of types in scope, and the parsing of types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from .errors import Place, Problem
from .lexer import Token
from .syntax import Conditional, Expression, TypeName

__all__ = ["BUILTIN_TEMPLATES", "BUILTIN_TYPES", "ParserBase"]

_SCALARS = (
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float", "double",
)  # fmt: skip
_NUMBERED = ("int", "uint")

BUILTIN_TYPES: set[str] = {
    *_SCALARS, "void", "auto", "signed", "unsigned", "size_t", "ptrdiff_t", "bfloat16_t", "float16_t", "complex64_t",
    *(f"{name}{bits}_t" for name in _NUMBERED for bits in (8, 16, 32, 64)),
    *(f"{p}{name}{n}" for p in ("", "packed_") for name in _SCALARS for n in (2, 3, 4)),
    *(f"atomic_{name}" for name in ("int", "uint", "bool", "float", "ulong")),
    "uintptr_t", "intptr_t", "longlong2", "longlong3", "longlong4",
    "dim3", "__half", "__nv_bfloat16", "half_t", "simd_vote", "vote_t",
    *(f"{t}{a}x{b}" for t in ("float", "half") for a in "234" for b in "234"),
}  # fmt: skip

BUILTIN_TRAITS = ("is_same", "is_floating_point", "is_integral", "is_signed", "is_unsigned")
"""Type traits, used as `is_same<A, B>::value` or `is_same_v<A, B>`."""

BUILTIN_TEMPLATES: set[str] = {
    "vec", "packed_vec", "atomic", "_atomic", "array", "numeric_limits", "Limits", "enable_if_t", "enable_if",
    "conditional_t", "is_same", "is_floating_point", "is_integral", "is_signed", "is_unsigned", "remove_cv_t",
    "remove_reference_t", "make_unsigned_t", "make_signed_t", "decay_t",
}  # fmt: skip

UNSUPPORTED = re.compile(
    r"(texture|depth)(1d|2d|3d|cube|_buffer).*|sampler"
    "|imageblock|visible_function_table|intersector|tensor|.*_acceleration_structure"
)
"""Regular expression for the types that are not supported."""

QUALIFIERS: set[str] = {
    "const", "constexpr", "constant", "device", "threadgroup", "thread", "static", "inline", "volatile", "extern",
    "mutable", "typename", "struct", "register", "restrict", "__restrict__", "__restrict", "METAL_FUNC", "METAL_CONST",
    "threadgroup_imageblock", "coherent", "__shared__", "__device__", "__host__", "__constant__", "__forceinline__",
    "__inline__", "__noinline__", "kernel", "object_data", "alignas", "noexcept", "explicit", "virtual", "friend",
    "__attribute__", "__global__", "union", "class", "enum",
}  # fmt: skip

_UNSUPPORTED_WORDS = {
    "new", "delete", "typeid", "alignof", "dynamic_cast", "concept", "requires", "thread_local", "co_await", "co_yield",
    "co_return", "try", "catch", "throw", "goto", "asm", "__asm__",
}  # fmt: skip
_STATEMENT_WORDS = {
    "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "return", "using", "typedef",
    "namespace", "template", "static_assert",
}  # fmt: skip
"""Keywords that cannot be names, and do not begin an expression."""

_SPACES = {"device": "device", "threadgroup": "threadgroup", "thread": "thread", "constant": "constant"}
_SPACES |= {"__shared__": "threadgroup", "__constant__": "constant"}


class ParserBase:
    """Tokens and scopes."""

    def __init__(self, tokens: Sequence[Token], end: Place, types: set[str], templates: set[str], spaces: set[str]):
        self.tokens = [*tokens, Token("end", "", tokens[-1].place if tokens else end)]
        self.k = 0
        self.types: list[set[str]] = [types]
        self.templates: list[set[str]] = [templates]
        self.spaces = spaces

    @property
    def token(self) -> Token:
        return self.tokens[self.k]

    @property
    def at(self) -> Place:
        return self.tokens[self.k].place

    def peek(self, ahead: int = 1) -> str:
        return self.tokens[min(self.k + ahead, len(self.tokens) - 1)].text

    def next(self) -> Token:
        token = self.tokens[self.k]
        if token.kind != "end":
            self.k += 1
        return token

    def accept(self, *texts: str) -> bool:
        if self.token.text in texts and self.token.kind in ("op", "name"):
            self.k += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            self.fail(f"expected {text!r}, but found {self._found()}")
        return self.next()

    def name(self) -> str:
        self.refuse_keyword("a name")
        if self.token.kind != "name":
            self.fail(f"expected a name, but found {self._found()}")
        return self.next().text

    def refuse_keyword(self, expected: str) -> None:
        """Raise Problem at a keyword that cannot be the first word of a name or an expression."""
        text = self.token.text
        if text in _UNSUPPORTED_WORDS:
            self.fail(f"{text} is not in the supported language")
        if text in _STATEMENT_WORDS:
            self.fail(f"expected {expected}, but found {self._found()}")

    def _found(self) -> str:
        return "the end of the text" if self.token.kind == "end" else repr(self.token.text)

    def fail(self, reason: str, place: Place | None = None) -> NoReturn:
        raise Problem(reason, place or self.at)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope for type names: those declared in this context are dropped at its end."""
        self.types.append(set())
        self.templates.append(set())
        try:
            yield
        finally:
            self.types.pop()
            self.templates.pop()

    def is_type(self, name: str) -> bool:
        if any(name in scope for scope in reversed(self.types)) or name in BUILTIN_TYPES or name in BUILTIN_TEMPLATES:
            return True
        return UNSUPPORTED.fullmatch(name) is not None

    def is_template(self, name: str) -> bool:
        if any(name in scope for scope in reversed(self.templates)) or name in BUILTIN_TEMPLATES:
            return True
        return name.endswith("_v") and name.removesuffix("_v") in BUILTIN_TRAITS

    def starts_type(self, ahead: int = 0) -> bool:
        """Return True if a type begins at this token: with a qualifier, or with a type name after any namespaces."""
        k = self.k + ahead
        while True:
            token = self.tokens[k]
            if token.kind != "name":
                return token.text == "::" and self.tokens[k + 1].kind == "name"
            if token.text in QUALIFIERS or token.text == "decltype":
                return True
            if token.text in self.spaces and self.tokens[k + 1].text == "::":
                k += 2
                continue
            return self.is_type(token.text)

    def qualifiers(self) -> tuple[str, bool]:
        """Parse qualifiers. Return the address space ("" if there is none) and True if the type is const."""
        space, const = "", False
        while True:
            text = self.token.text
            if text == "[" and self.peek() == "[":
                self.attributes()
            elif self.token.kind == "name" and text in QUALIFIERS:
                self.next()
                space = _SPACES.get(text, space)
                const = const or text in ("const", "constexpr", "constant", "__constant__")
                if text in ("alignas", "__attribute__"):
                    self.balanced("(", ")")
            else:
                return space, const

    def attributes(self) -> None:
        while self.token.text == "[" and self.peek() == "[":
            self.balanced("[", "]")

    def balanced(self, opening: str, closing: str) -> None:
        """Skip the tokens between brackets."""
        start = self.at
        depth = 0
        while True:
            text = self.next().text
            depth += (text == opening) - (text == closing)
            if depth == 0:
                return
            if self.token.kind == "end":
                self.fail(f"this {opening} has no {closing}", start)

    def type_name(self) -> TypeName:
        """Parse a type with its `*` and `&`."""
        return self.declarator_type(self.base_type())

    def base_type(self) -> TypeName:
        """Parse a type without `*` and `&`."""
        space, const = self.qualifiers()
        at = self.at
        if self.token.text == "decltype":
            self.next()
            self.expect("(")
            of = self.expression()
            self.expect(")")
            type = TypeName(at, "decltype", of=of)
        else:
            self.accept("::")
            while self.token.text in self.spaces and self.peek() == "::":
                self.next()
                self.next()
            type = self._named(at)
        after_space, after_const = self.qualifiers()
        type.space, type.const = space or after_space, const or after_const
        return type

    def _named(self, at: Place) -> TypeName:
        name = self.name()
        if UNSUPPORTED.fullmatch(name):
            self.fail(f"{name} is not in the supported language", at)
        if name in ("unsigned", "signed", "long", "short", "int", "char"):
            name = self._integer(name)
        elif not self.is_type(name):
            self.fail(f"unknown type name {name!r}", at)
        arguments = self.template_arguments() if self.is_template(name) and self.token.text == "<" else None
        type = TypeName(at, name, arguments)
        while self.token.text == "::" and self.peek() in ("type", "value_type", "index_t"):
            self.next()
            type = TypeName(at, self.name(), outer=type)
        return type

    def _integer(self, first: str) -> str:
        """Parse the rest of a type such as `unsigned long long int`, and return its name in Metal."""
        words = [first]
        while self.token.text in ("unsigned", "signed", "long", "short", "int", "char"):
            words.append(self.next().text)
        base = next((w for w in ("char", "short", "long") if w in words), "int")
        return (
            {"char": "uchar", "short": "ushort", "int": "uint", "long": "ulong"}[base] if "unsigned" in words else base
        )

    def declarator_type(self, base: TypeName) -> TypeName:
        """Parse the `*` and `&` after a type, and return the complete type."""
        pointers, reference = 0, False
        while True:
            if self.token.text == "*":
                pointers += 1
                self.next()
            elif self.token.text in ("&", "&&"):
                reference = True
                self.next()
            elif self.token.kind == "name" and self.token.text in (
                "const", "volatile", "restrict", "__restrict__", "__restrict", "device", "thread", "threadgroup",
            ):  # fmt: skip
                self.next()
            else:
                break
        if not pointers and not reference:
            return base
        return TypeName(
            base.at, base.name, base.arguments, base.space, base.pointers + pointers, base.reference or reference,
            base.const, base.of, base.outer,
        )  # fmt: skip

    def template_arguments(self) -> tuple[Any, ...]:
        """Parse template arguments, such as `<A, 3>`."""
        self.expect("<")
        arguments: list[Any] = []
        while self.token.text != ">":
            if self.token.text == ">>":
                break
            arguments.append(self.template_argument())
            if not self.accept(","):
                break
        if self.token.text == ">>":  # `>>` ends two nested templates
            here = self.token
            self.tokens[self.k] = here._replace(text=">")
            self.tokens.insert(self.k, here._replace(text=">"))
        self.expect(">")
        return tuple(arguments)

    def template_argument(self) -> TypeName | Expression:
        if self.starts_type():
            mark = self.k
            type = self.type_name()
            if self.token.text in (",", ">", ">>"):
                return type
            self.k = mark
        return self._argument_value()

    def _argument_value(self) -> Expression:
        """Parse a template argument that is a value. The first `>` outside of parentheses ends it."""
        left = self.binary(1, stop=(">", ">>"))
        if self.token.text != "?":
            return left
        at = self.next().place
        then = self._argument_value()
        self.expect(":")
        return Conditional(at, left, then, self._argument_value())

    # The subclasses define these names.

    def expression(self) -> Expression:
        raise NotImplementedError

    def binary(self, lowest: int, stop: tuple[str, ...] = ()) -> Expression:
        raise NotImplementedError
