"""The parser of statements and declarations, the parts of a kernel's header and body."""

from __future__ import annotations

from .parse_statements import StatementParser
from .syntax import (
    Block,
    Declaration,
    Declarator,
    Enum,
    Expression,
    Function,
    Parameter,
    Statement,
    StructDefinition,
    TemplateParameter,
    TypeAlias,
    TypeName,
)  # fmt: skip

__all__ = ["Parser"]


class Parser(StatementParser):
    """The parser of statements and declarations."""

    def _namespace(self) -> list[Statement]:
        self.next()
        while self.token.text != "{":
            name = self.name()
            self.spaces.add(name)
            if self.accept("="):
                while not self.accept(";"):
                    self.next()
                return []
            self.accept("::")
        self.expect("{")
        statements: list[Statement] = []
        while not self.accept("}"):
            if self.token.kind == "end":
                self.fail("expected '}', but found the end of the text")
            statements.extend(self.statement())
        return statements

    def _using(self) -> list[Statement]:
        at = self.next().place
        if self.accept("namespace") or self.peek() != "=":
            while not self.accept(";"):
                self.next()
            return []
        return [self._alias(at, ())]

    def _alias(self, at: object, templates: tuple[TemplateParameter, ...]) -> TypeAlias:
        name = self.name()
        self.expect("=")
        of = self.type_name()
        self.expect(";")
        self.types[-1 - bool(templates)].add(name)
        if templates:
            self.templates[-2].add(name)
        return TypeAlias(of.at, name, of, templates=templates)

    def _typedef(self) -> list[Statement]:
        at = self.next().place
        if self._defines_type(anonymous=True):
            return self._struct_or_enum((), typedef=True)
        of = self.type_name()
        name = self.name()
        dimensions = self._dimensions()
        self.expect(";")
        self.types[-1].add(name)
        return [TypeAlias(at, name, of, dimensions)]

    def _template(self) -> list[Statement]:
        self.next()
        if self.token.text != "<":  # this is an explicit instantiation
            while not self.accept(";"):
                self.next()
            return []
        with self.scope():
            parameters = self._template_parameters()
            if self.token.text == "requires":
                self.fail("constraints are not in the supported language")
            if self.token.text == "using":
                at = self.next().place
                return [self._alias(at, parameters)]
            if self._defines_type():
                return self._struct_or_enum(parameters)
            return self._declaration(parameters, template=True)

    def _template_parameters(self) -> tuple[TemplateParameter, ...]:
        self.expect("<")
        parameters: list[TemplateParameter] = []
        while self.token.text != ">":
            at = self.at
            if self.token.text in ("typename", "class") and (
                self.peek() in (",", ">", "=", "...") or self.peek(2) in (",", ">", "=", ">>")
            ):
                self.next()
                if self.token.text == "...":
                    self.fail("variadic templates are not in the supported language")
                name = self.name() if self.token.kind == "name" else ""
                self.types[-1].add(name)
                default = self.type_name() if self.accept("=") else None
                parameters.append(TemplateParameter(at, name, None, default))
            else:
                kind = self.type_name()
                name = self.name() if self.token.kind == "name" else ""
                value = self.template_argument() if self.accept("=") else None
                parameters.append(TemplateParameter(at, name, kind, value))
            if not self.accept(","):
                break
        self.expect(">")
        return tuple(parameters)

    def _defines_type(self, anonymous: bool = False) -> bool:
        """Return True if the definition of a struct, union or enum begins here."""
        k = 0
        while self.peek(k) in ("static", "constexpr", "const", "inline", "threadgroup", "__shared__"):
            k += 1
        if self.peek(k) not in ("struct", "class", "union", "enum"):
            return False
        k += 1
        depth = 0
        while self.peek(k) and (depth > 0 or self.peek(k) not in ("{", ";", "(", "=", ")", "*", "&")):
            depth += {"<": 1, ">": -1, ">>": -2}.get(self.peek(k), 0)
            k += 1
        return self.peek(k) == "{" or (self.peek(k) == ";" and self.peek(k - 2) in ("struct", "class", "union", "enum"))

    def _struct_or_enum(self, templates: tuple[TemplateParameter, ...], typedef: bool = False) -> list[Statement]:
        space = ""
        while self.token.text not in ("struct", "class", "union", "enum"):
            space = "threadgroup" if self.next().text in ("threadgroup", "__shared__") else space
        if self.token.text == "enum":
            statements: list[Statement] = [self._enum()]
        else:
            statements = [self._struct(templates)]
        definition = statements[0]
        assert isinstance(definition, (Enum, StructDefinition))
        if typedef:
            name = self.name()
            self.types[-1].add(name)
            if definition.name:
                statements.append(TypeAlias(definition.at, name, TypeName(definition.at, definition.name)))
            else:
                definition.name = name
        elif self.token.text != ";" and self.token.kind == "name":
            items = [self._declarator(TypeName(definition.at, definition.name, space=space))]
            while self.accept(","):
                items.append(self._declarator(TypeName(definition.at, definition.name, space=space)))
            statements.append(Declaration(definition.at, items))
        self.accept(";")
        return statements

    def _enum(self) -> Enum:
        at = self.next().place
        scoped = self.accept("class", "struct")
        name = self.name() if self.token.kind == "name" else ""
        of = self.type_name() if self.accept(":") else None
        self.types[-1].add(name)
        items: list[tuple[str, Expression | None]] = []
        self.expect("{")
        while self.token.text != "}":
            item = self.name()
            items.append((item, self.assignment() if self.accept("=") else None))
            if not self.accept(","):
                break
        self.expect("}")
        return Enum(at, name, of, items, scoped)

    def _struct(self, templates: tuple[TemplateParameter, ...]) -> StructDefinition:
        at, word = self.at, self.next().text
        self.qualifiers()
        name = self.name() if self.token.kind == "name" else ""
        for outer in self.types[-2:] if templates else self.types[-1:]:
            outer.add(name)
        if templates:
            self.templates[-2].add(name)
        struct = StructDefinition(at, name, [], [], [], templates, union=word == "union")
        if (templates == () and self.token.text == "<") or self.token.text == "<":
            struct.specialized = self.template_arguments()
        if self.accept(":"):
            while self.token.text != "{":
                self.accept("public", "private", "protected")
                struct.bases += (self.base_type(),)
                self.accept(",")
        if self.token.text == ";":
            return struct
        self.expect("{")
        with self.scope():
            while not self.accept("}"):
                if self.token.kind == "end":
                    self.fail("this struct has no }", at)
                self._member(struct)
        return struct

    def _member(self, of: StructDefinition) -> None:
        if self.token.text in ("public", "private", "protected") and self.peek() == ":":
            self.next()
            self.next()
            return
        if self.token.text in ("~",):
            self.fail("destructors are not in the supported language")
        mark = self.k
        self.qualifiers()
        if self.token.text == of.name and self.peek() == "(":
            at = self.next().place
            of.methods.append(self._function(of.name, None, (), at))
            return
        if self.token.text == "operator" and self.tokens[self.k + 1].kind == "name":
            at = self.at
            name = self.operator_name()
            of.methods.append(self._function(name, TypeName(at, name.split()[1]), (), at))
            return
        static = any(self.tokens[k].text in ("static", "constexpr") for k in range(mark, self.k))
        self.k = mark
        for statement in self.statement():
            if isinstance(statement, Declaration) and not static:
                of.fields.extend(statement.items)
            elif isinstance(statement, Function):
                of.methods.append(statement)
                if statement.templates:
                    self.templates[0].add(statement.name)
            else:
                of.members.append(statement)

    def _starts_declaration(self) -> bool:
        """Return True if a declaration begins here: a type, then the name or the `*` and `&` of a declarator."""
        if not self.starts_type():
            return False
        mark, tokens = self.k, len(self.tokens)
        try:
            base = self.base_type()
            text, kind = self.token.text, self.token.kind
            if kind == "name" or text in ("*", "&", "&&"):
                return True
            if text == "[" and base.name == "auto":  # as in `auto [a, b] = …`
                return True
            return text == ";"
        finally:
            self.k = mark
            assert len(self.tokens) >= tokens

    def _declaration(
        self, templates: tuple[TemplateParameter, ...], ends: bool = True, template: bool = False
    ) -> list[Statement]:
        at = self.at
        base = self.base_type()
        if self.accept(";"):
            return []
        if base.name == "auto" and self.token.text == "[":
            return self._bindings(base)
        first = self.declarator_type(base)
        name_at = self.at
        if self.token.text == "operator":
            return [self._function(self.operator_name(), first, templates, at)]
        name = self.name()
        if template or self.token.text in ("(", "<"):
            specialized = self.template_arguments() if self.token.text == "<" else None
            if self.token.text == "(" and (template or self._is_function()):
                if template:
                    self.templates[-2].add(name)
                function = self._function(name, first, templates, at)
                function.specialized = specialized
                return [function]
        items = [self._declarator_rest(name_at, name, first)]
        while self.accept(","):
            items.append(self._declarator(base))
        if ends:
            self.expect(";")
        if template:
            self.templates[-2].add(name)
            return [Declaration(at, items)]
        return [Declaration(at, items)]

    def _bindings(self, base: TypeName) -> list[Statement]:
        at = self.expect("[").place
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        self.expect("]")
        self.expect("=")
        value = self.assignment()
        self.expect(";")
        return [Declaration(at, [Declarator(at, "", base, value=value, names=tuple(names))])]

    def _is_function(self) -> bool:
        """Return True if the parentheses hold parameters, not arguments."""
        if self.peek() == ")":
            return True
        return self.starts_type(1) and not self._is_construction()

    def _is_construction(self) -> bool:
        mark = self.k
        self.next()
        try:
            self.base_type()
            return self.token.text in ("{", "::") or (self.token.text == "(" and self.peek() not in "&*")
        finally:
            self.k = mark

    def _declarator(self, base: TypeName) -> Declarator:
        of = self.declarator_type(base)
        at = self.at
        return self._declarator_rest(at, self.name(), of)

    def _declarator_rest(self, at: object, name: str, of: TypeName) -> Declarator:
        declarator = Declarator(at, name, of, self._dimensions())  # type: ignore[arg-type]
        if self.token.text == ":" and self.tokens[self.k + 1].kind == "number":
            self.fail("bit-fields are not in the supported language")
        self.attributes()
        if self.accept("="):
            declarator.value = self.assignment()
        elif self.token.text == "(":
            declarator.arguments = self.arguments()
        elif self.token.text == "{":
            declarator.value = self.initializers()
        return declarator

    def _dimensions(self) -> tuple[Expression | None, ...]:
        sizes: list[Expression | None] = []
        while self.token.text == "[" and self.peek() != "[":
            self.next()
            sizes.append(None if self.token.text == "]" else self.expression())
            self.expect("]")
        return tuple(sizes)

    def _function(
        self, name: str, result: TypeName | None, templates: tuple[TemplateParameter, ...], at: object
    ) -> Function:
        function = Function(at, name, result, [], None, templates)  # type: ignore[arg-type]
        with self.scope():
            function.parameters = self.parameters()
            while True:
                if self.token.text in ("const", "thread", "device", "constant", "threadgroup", "noexcept", "override"):
                    self.next()
                elif self.accept("->"):
                    function.result = self.type_name()
                elif self.token.text == "[" and self.peek() == "[":
                    self.attributes()
                else:
                    break
            if self.accept(":"):
                function.initializers = self._initializers_of_members()
            if self.accept("="):
                if self.next().text != "default":
                    self.fail("deleted functions are not in the supported language")
                function.body = Block(self.at, [])
            elif self.token.text == "{":
                function.body = self.block()
                return function
        self.expect(";")
        return function

    def _initializers_of_members(self) -> tuple[tuple[str, list[Expression]], ...]:
        members: list[tuple[str, list[Expression]]] = []
        while True:
            name = self.name()
            items = self.arguments() if self.token.text == "(" else self.initializers().items
            members.append((name, items))
            if not self.accept(","):
                return tuple(members)

    def parameters(self) -> list[Parameter]:
        self.expect("(")
        parsed: list[Parameter] = []
        while self.token.text != ")":
            at = self.at
            if self.token.text == "void" and self.peek() == ")":
                self.next()
                break
            of = self.type_name()
            parenthesized = self.token.text == "(" and self.accept("(")
            if parenthesized:
                of = self.declarator_type(of)
            name = self.name() if self.token.kind == "name" else ""
            if parenthesized:
                self.expect(")")
            dimensions = self._dimensions()
            self.attributes()
            parsed.append(Parameter(at, name, of, dimensions, self.assignment() if self.accept("=") else None))
            if not self.accept(","):
                break
        self.expect(")")
        return parsed
