"""Statements: blocks, branches, loops and jumps."""

from __future__ import annotations

from collections.abc import Callable

from .errors import Place
from .parse_expressions import ExpressionParser
from .syntax import (
    Binary,
    Block,
    Break,
    Case,
    Continue,
    Declaration,
    Declarator,
    DoWhile,
    ExpressionStatement,
    For,
    If,
    Index,
    Literal,
    Name,
    Postfix,
    Return,
    SizeOf,
    Statement,
    StaticAssert,
    Switch,
    TypeName,
    While,
)  # fmt: skip

__all__ = ["StatementParser"]


class StatementParser(ExpressionParser):
    """The parser of statements."""

    # The subclasses define these names.
    _declaration: Callable[..., list[Statement]]
    _defines_type: Callable[..., bool]
    _starts_declaration: Callable[[], bool]
    _struct_or_enum: Callable[..., list[Statement]]

    def text(self) -> list[Statement]:
        """Parse all statements up to the end of the text."""
        statements: list[Statement] = []
        while self.token.kind != "end":
            statements.extend(self.statement())
        return statements

    def statement(self) -> list[Statement]:
        """Parse a statement. Return a list: a namespace gives several statements, and some declarations give none."""
        at, text = self.at, self.token.text
        if text == "[" and self.peek() == "[":
            self.attributes()
            return self.statement()
        method = _STATEMENTS.get(text) if self.token.kind in ("name", "op") else None
        if method is not None:
            parsed = getattr(self, method)()
            return parsed if isinstance(parsed, list) else [parsed]
        if self._defines_type():
            return self._struct_or_enum(())
        if self._starts_declaration():
            return self._declaration(())
        value = self.expression()
        self.expect(";")
        return [ExpressionStatement(at, value)]

    def block(self) -> Block:
        at = self.expect("{").place
        body: list[Statement] = []
        with self.scope():
            while self.token.text != "}":
                if self.token.kind == "end":
                    self.fail("this { has no }", at)
                body.extend(self.statement())
        self.expect("}")
        return Block(at, body)

    def _one(self) -> Statement:
        """Parse the body of an `if` or a loop."""
        at = self.at
        with self.scope():
            statements = self.statement()
        return statements[0] if len(statements) == 1 else Block(at, statements)

    def _empty(self) -> list[Statement]:
        self.next()
        return []

    def _if(self) -> If:
        at = self.next().place
        self.accept("constexpr")
        self.expect("(")
        before: list[Statement] = []
        if self._starts_declaration():
            before = self._declaration((), ends=False)
            if self.accept(";"):
                condition = self.expression()
            else:
                condition = Name(at, before[0].items[0].name)  # type: ignore[attr-defined]
        else:
            condition = self.expression()
        self.expect(")")
        then = self._one()
        other = self._one() if self.accept("else") else None
        return If(at, condition, then, other, before[0] if before else None)

    def _for(self) -> Statement:
        at = self.next().place
        self.expect("(")
        with self.scope():
            start: Statement | None = None
            if self.token.text == ";":
                self.next()
            elif self._starts_declaration():
                (start,) = self._declaration((), ends=False)
                if self.accept(":"):
                    return self._for_each(at, start)
                self.expect(";")
            else:
                start = ExpressionStatement(self.at, self.expression())
                self.expect(";")
            condition = None if self.token.text == ";" else self.expression()
            self.expect(";")
            step = None if self.token.text == ")" else self.expression()
            self.expect(")")
            return For(at, start, condition, step, self._one())

    def _for_each(self, at: Place, each: Statement) -> For:
        """Parse `for (T v : array)` as a loop over a counter. Its body declares the variable."""
        assert isinstance(each, Declaration)
        (item,) = each.items
        array = self.expression()
        self.expect(")")
        counter = Name(at, f"index of {item.name}")
        zero = Literal(at, "int", 0)
        length = Binary(at, "/", SizeOf(at, array), SizeOf(at, Index(at, array, zero)))
        item.value = Index(at, array, counter)
        start = Declaration(at, [Declarator(at, counter.id, TypeName(at, "uint"), value=zero)])
        body = Block(at, [each, self._one()])
        return For(at, start, Binary(at, "<", counter, length), Postfix(at, "++", counter), body)

    def _while(self) -> While:
        at = self.next().place
        self.expect("(")
        condition = self.expression()
        self.expect(")")
        return While(at, condition, self._one())

    def _do(self) -> DoWhile:
        at = self.next().place
        body = self._one()
        self.expect("while")
        self.expect("(")
        condition = self.expression()
        self.expect(")")
        self.accept(";")
        return DoWhile(at, condition, body)

    def _switch(self) -> Switch:
        at = self.next().place
        self.expect("(")
        subject = self.expression()
        self.expect(")")
        self.expect("{")
        cases: list[Case] = []
        with self.scope():
            while self.token.text != "}":
                if self.token.text in ("case", "default"):
                    label = self.next()
                    value = self.expression() if label.text == "case" else None
                    self.expect(":")
                    if cases and not cases[-1].body:
                        cases[-1].values.append(value)
                    else:
                        cases.append(Case(label.place, [value], []))
                elif not cases:
                    self.fail("expected 'case' or 'default'")
                else:
                    cases[-1].body.extend(self.statement())
        self.expect("}")
        return Switch(at, subject, cases)

    def _break(self) -> Break:
        at = self.next().place
        self.expect(";")
        return Break(at)

    def _continue(self) -> Continue:
        at = self.next().place
        self.expect(";")
        return Continue(at)

    def _return(self) -> Return:
        at = self.next().place
        value = None if self.token.text == ";" else self.assignment()
        self.expect(";")
        return Return(at, value)

    def _static_assert(self) -> StaticAssert:
        at = self.next().place
        self.expect("(")
        condition = self.assignment()
        message = self.next().text if self.accept(",") else ""
        self.expect(")")
        self.expect(";")
        return StaticAssert(at, condition, message)


_STATEMENTS = {
    ";": "_empty", "{": "block", "if": "_if", "for": "_for", "while": "_while", "do": "_do", "switch": "_switch",
    "break": "_break", "continue": "_continue", "return": "_return", "static_assert": "_static_assert",
    "namespace": "_namespace", "using": "_using", "typedef": "_typedef", "template": "_template",
}  # fmt: skip
