"""Expressions, by precedence climbing."""

from __future__ import annotations

from typing import Any

from .parse_base import ParserBase
from .syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Conditional,
    Construct,
    Expression,
    Function,
    Index,
    Initializers,
    Lambda,
    Literal,
    Member,
    Name,
    Parameter,
    Postfix,
    Scoped,
    SizeOf,
    TypeName,
    Unary,
)  # fmt: skip

__all__ = ["ExpressionParser"]

_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_LEVEL = {op: k for k, ops in enumerate(_LEVELS, 1) for op in ops}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_AFTER_TEMPLATES = {"(", "{", "::", ")", ",", ";", ">", ">>", "&&", "||", "==", "!=", "?"}
"""Tokens that may follow template arguments. Otherwise, a `<` compares."""
_CASTS = ("static_cast", "reinterpret_cast", "const_cast", "as_type")


class ExpressionParser(ParserBase):
    """The parser of expressions."""

    def expression(self) -> Expression:
        """Parse an expression that may contain comma operators."""
        left = self.assignment()
        while self.token.text == ",":
            at = self.next().place
            left = Binary(at, ",", left, self.assignment())
        return left

    def assignment(self) -> Expression:
        """Parse an expression without comma operators."""
        if self.token.text == "{":
            return self.initializers()
        left = self.binary(1)
        if self.token.text == "?":
            at = self.next().place
            then = self.expression()
            self.expect(":")
            return Conditional(at, left, then, self.assignment())
        if self.token.text in _ASSIGNMENTS:
            token = self.next()
            return Assign(token.place, token.text[:-1], left, self.assignment())
        return left

    def binary(self, lowest: int, stop: tuple[str, ...] = ()) -> Expression:
        left = self.unary()
        while (level := _LEVEL.get(self.token.text, 0)) >= lowest and self.token.kind == "op":
            if self.token.text in stop:
                break
            token = self.next()
            left = Binary(token.place, token.text, left, self.binary(level + 1, stop))
        return left

    def unary(self) -> Expression:
        token = self.token
        if token.kind == "op" and token.text in ("+", "-", "!", "~", "*", "&", "++", "--"):
            self.next()
            return Unary(token.place, token.text, self.unary())
        if token.text == "sizeof":
            return self._size_of()
        if token.text == "(" and self.starts_type(1):
            mark = self.k
            self.next()
            of = self.type_name()
            if self.accept(")"):
                if self.token.text == "{":
                    return self.postfix(Construct(token.place, of, self.initializers().items, True))
                return Cast(token.place, "cast", of, self.unary())
            self.k = mark
        return self.postfix(self.primary())

    def _size_of(self) -> Expression:
        at = self.next().place
        if self.token.text == "(" and self.starts_type(1):
            self.next()
            of: TypeName | Expression = self.type_name()
            self.expect(")")
            return SizeOf(at, of)
        return SizeOf(at, self.unary())

    def postfix(self, left: Expression) -> Expression:
        while True:
            token = self.token
            if token.text == "(":
                left = Call(token.place, left, self.arguments())
            elif token.text == "[":
                self.next()
                left = Index(token.place, left, self.expression())
                self.expect("]")
            elif token.text in (".", "->"):
                self.next()
                is_template = self.accept("template")
                name = self._member_name()
                member = Member(token.place, left, name, token.text == "->")
                if self.token.text == "<" and (is_template or name == "as" or self.is_template(name)):
                    member.arguments = self.template_arguments()
                left = member
            elif token.text in ("++", "--"):
                self.next()
                left = Postfix(token.place, token.text, left)
            else:
                return left

    def _member_name(self) -> str:
        if self.token.text == "operator":
            return self.operator_name()
        return self.name()

    def operator_name(self) -> str:
        """Parse the name of an operator function, such as `operator+`."""
        self.expect("operator")
        if self.token.kind == "name":
            return f"operator {self.type_name().name}"
        text = self.next().text
        if text in "([":
            text += self.next().text
        return f"operator{text}"

    def arguments(self) -> list[Expression]:
        """Parse arguments, such as `(a, b)`."""
        self.expect("(")
        expressions: list[Expression] = []
        while self.token.text != ")":
            expressions.append(self.assignment())
            if not self.accept(","):
                break
        self.expect(")")
        return expressions

    def initializers(self) -> Initializers:
        """Parse initializers, such as `{a, b}` or `{.x = a}`."""
        braces = Initializers(self.expect("{").place, [])
        while self.token.text != "}":
            name = None
            if self.token.text == "." and self.tokens[self.k + 2].text == "=":
                self.next()
                name = self.name()
                self.expect("=")
            braces.names.append(name)
            braces.items.append(self.assignment())
            if not self.accept(","):
                break
        self.expect("}")
        return braces

    def primary(self) -> Expression:
        token = self.token
        if token.kind == "number":
            self.next()
            return self._number(token.text)
        if token.kind == "char":
            self.next()
            return Literal(token.place, "char", ord(token.text[1:-1].encode().decode("unicode_escape")[0]))
        if token.kind == "string":
            text = ""
            while self.token.kind == "string":
                text += self.next().text[1:-1]
            return Literal(token.place, "string", text)
        if token.text == "(":
            self.next()
            inner = self.expression()
            self.expect(")")
            return inner
        if token.text == "[":
            return self._lambda()
        if token.text in ("true", "false"):
            self.next()
            return Literal(token.place, "bool", token.text == "true")
        if token.text == "nullptr":
            self.next()
            return Literal(token.place, "int", 0)
        if (token.text in _CASTS and token.kind == "name") or self._metal_cast():
            return self._cast()
        self.refuse_keyword("an expression")
        if token.text == "operator":
            return Name(token.place, self.operator_name())
        if (token.kind == "name" and self.starts_type()) or token.text == "typename":
            return self._of_type()
        if token.kind == "name" or token.text == "::":
            return self._name()
        self.fail(f"expected an expression, but found {self._found()}")

    def _metal_cast(self) -> bool:
        return self.token.text in self.spaces and self.peek() == "::" and self.peek(2) in _CASTS

    def _cast(self) -> Expression:
        at = self.at
        while self.token.text in self.spaces and self.peek() == "::":
            self.next()
            self.next()
        kind = self.next().text
        self.expect("<")
        of = self.type_name()
        self.expect(">")
        self.expect("(")
        operand = self.expression()
        self.expect(")")
        return Cast(at, kind, of, operand)

    def _of_type(self) -> Expression:
        """Parse an expression that begins with a type: `T(a)`, `T{a}` or `T::name`."""
        at = self.at
        of = self.base_type()
        if self.token.text == "::":
            self.next()
            name = self._member_name()
            arguments = self.template_arguments() if self.token.text == "<" and self.is_template(name) else None
            return Scoped(at, of, name, arguments)
        if self.token.text == "(":
            return Construct(at, of, self.arguments(), False)
        if self.token.text == "{":
            return Construct(at, of, self.initializers().items, True)
        self.fail(f"expected a value, but found the type {of.name!r}", at)

    def _name(self) -> Expression:
        at = self.at
        self.accept("::")
        spaces: list[str] = []
        while self.peek() == "::" and self.token.kind == "name":
            spaces.append(self.name())
            self.next()
        name = self.operator_name() if self.token.text == "operator" else self.name()
        node = Name(at, name, tuple(spaces))
        if self.token.text == "<" and self.is_template(name):
            mark = self.k
            node.arguments = self.template_arguments()
            if self.token.text not in _AFTER_TEMPLATES:
                self.k, node.arguments = mark, None
        return node

    def _number(self, text: str) -> Literal:
        at = self.tokens[self.k - 1].place
        text = text.replace("'", "")
        lower = text.lower()
        is_hex = lower.startswith("0x")
        if not is_hex and ((not lower.startswith("0b") and any(c in lower for c in ".eh")) or "bf" in lower):
            return self._float(at, text, lower)
        if is_hex and "p" in lower:
            return Literal(at, "float", float.fromhex(lower.rstrip("fh")))
        if not is_hex and lower.endswith("f"):
            return self._float(at, text, lower)
        digits = lower.rstrip("ul")
        suffix = lower[len(digits) :]
        try:
            value = (
                int(digits, 0)
                if not digits.startswith("0") or len(digits) == 1 or digits[1] in "xb"
                else int(digits, 8)
            )
        except ValueError:
            self.fail(f"invalid number {text!r}", at)
        unsigned, wide = "u" in suffix, "l" in suffix
        other = is_hex or digits.startswith("0")
        kinds = [("int", 31), ("uint", 32), ("long", 63), ("ulong", 64)]
        for kind, bits in kinds:
            allowed = (kind[0] == "u") == unsigned or (kind[0] == "u" and other)
            if value < 1 << bits and allowed and (not wide or bits > 32):
                return Literal(at, kind, value)
        self.fail(f"the number {text} is too large for its type", at)

    def _float(self, at: Any, text: str, lower: str) -> Literal:
        kind = "float"
        for suffix, name in (("bf", "bfloat"), ("h", "half"), ("f", "float"), ("l", "float")):
            if lower.endswith(suffix):
                lower, kind = lower[: -len(suffix)], name
                break
        try:
            return Literal(at, kind, float(lower))
        except ValueError:
            self.fail(f"invalid number {text!r}", at)

    def _lambda(self) -> Expression:
        at = self.expect("[").place
        captures: list[str] = []
        while self.token.text != "]":
            reference = self.accept("&")
            if self.token.text == "=":
                captures.append(self.next().text)
            elif self.token.kind == "name":
                name = self.name()
                if not reference:
                    captures.append(name)
            self.accept(",")
        self.expect("]")
        with self.scope():
            parameters = self.parameters() if self.token.text == "(" else []
            while self.accept("mutable", "constexpr", "noexcept", "thread"):
                pass
            result = self.type_name() if self.accept("->") else TypeName(at, "auto")
            body = self.block()
        return Lambda(at, Function(at, "lambda", result, parameters, body, captures=tuple(captures)))

    # The subclasses define these names.

    def parameters(self) -> list[Parameter]:
        raise NotImplementedError

    def block(self) -> Block:
        raise NotImplementedError
