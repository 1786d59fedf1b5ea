"""The syntax tree of a kernel: expressions, types as they are written, statements and declarations.

Nodes compare by identity. Each knows its place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import Place

__all__ = [
    "Assign", "Binary", "Block", "Break", "Call", "Case", "Cast", "Conditional", "Construct", "Continue", "Declaration",
    "Declarator", "DoWhile", "Enum", "Expression", "ExpressionStatement", "For", "Function", "If", "Index",
    "Initializers", "Lambda", "Literal", "Member", "Name",
    "Node", "Parameter", "Postfix", "Return", "Scoped", "SizeOf", "Statement",
    "StaticAssert", "StructDefinition", "Switch", "TemplateParameter", "TypeAlias", "TypeName", "Unary", "While",
]  # fmt: skip


@dataclass(slots=True, eq=False)
class Node:
    """A node of the syntax tree."""

    at: Place


class Expression(Node):
    """An expression: it has a value."""

    __slots__ = ()


class Statement(Node):
    """A statement: it is executed."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class TypeName(Node):
    """A type as it is written.

    Args:
        name: its name, without namespaces; "auto" too.
        arguments: the template arguments, types or expressions.
        space: the address space, "" where none is given.
        pointers: the number of `*` that follow.
        reference: True if a `&` follows.
        const: True for `const`, `constexpr` and `constant`.
        of: for `decltype(x)`, the expression.
        outer: for `A<T>::name`, the type `A<T>`.
    """

    name: str
    arguments: tuple[Any, ...] | None = None
    space: str = ""
    pointers: int = 0
    reference: bool = False
    const: bool = False
    of: Expression | None = None
    outer: TypeName | None = None


@dataclass(slots=True, eq=False)
class Literal(Expression):
    """A number or a bool: the name of its type, and its value; or a string."""

    type: str
    value: Any


@dataclass(slots=True, eq=False)
class Name(Expression):
    """A name, with the namespaces in front of it, and template arguments if it has some."""

    id: str
    spaces: tuple[str, ...] = ()
    arguments: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Scoped(Expression):
    """`Type::name`."""

    type: TypeName
    name: str
    arguments: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Unary(Expression):
    """A prefix operator: one of + - ! ~ * & ++ --."""

    op: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Postfix(Expression):
    """`x++` or `x--`."""

    op: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """A binary operator, "," too."""

    op: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Assign(Expression):
    """`=` (op is ""), or a compound assignment with its operator."""

    op: str
    target: Expression
    value: Expression


@dataclass(slots=True, eq=False)
class Conditional(Expression):
    """`c ? a : b`."""

    condition: Expression
    then: Expression
    other: Expression


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A call of a function, a member or a lambda."""

    function: Expression
    arguments: list[Expression]


@dataclass(slots=True, eq=False)
class Index(Expression):
    """`x[i]`."""

    target: Expression
    index: Expression


@dataclass(slots=True, eq=False)
class Member(Expression):
    """`x.name` or `x->name`."""

    target: Expression
    name: str
    arrow: bool
    arguments: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Cast(Expression):
    """`(T)x`, or `static_cast`, `reinterpret_cast`, `const_cast` and `as_type`, which `kind` names."""

    kind: str
    type: TypeName
    operand: Expression


@dataclass(slots=True, eq=False)
class Construct(Expression):
    """`T(a, b)` or `T{a, b}`."""

    type: TypeName
    arguments: list[Expression]
    braces: bool


@dataclass(slots=True, eq=False)
class Initializers(Expression):
    """A braced initializer list, `{a, b}` or `{.x = a}`. `names` has the field of each item, or None."""

    items: list[Expression]
    names: list[str | None] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class SizeOf(Expression):
    """`sizeof` of a type or an expression."""

    operand: TypeName | Expression


@dataclass(slots=True, eq=False)
class Lambda(Expression):
    """A lambda."""

    function: Function


@dataclass(slots=True, eq=False)
class Block(Statement):
    """A block of statements, `{…}`."""

    body: list[Statement]


@dataclass(slots=True, eq=False)
class ExpressionStatement(Statement):
    """An expression whose value is not used; None for an empty statement."""

    value: Expression | None


@dataclass(slots=True, eq=False)
class Declarator(Node):
    """One variable of a declaration.

    Args:
        type: its type, with its own `*` and `&`.
        dimensions: the sizes of an array, None where left out.
        value: the initializer.
        arguments: those of `T x(a, b)` or `T x{a, b}`.
    """

    name: str
    type: TypeName
    dimensions: tuple[Expression | None, ...] = ()
    value: Expression | None = None
    arguments: list[Expression] | None = None
    names: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Declaration(Statement):
    """A declaration of variables."""

    items: list[Declarator]


@dataclass(slots=True, eq=False)
class If(Statement):
    """`if`, with `constexpr` or without."""

    condition: Expression
    then: Statement
    other: Statement | None
    before: Statement | None = None


@dataclass(slots=True, eq=False)
class For(Statement):
    """`for`."""

    start: Statement | None
    condition: Expression | None
    step: Expression | None
    body: Statement


@dataclass(slots=True, eq=False)
class While(Statement):
    """`while`."""

    condition: Expression
    body: Statement


@dataclass(slots=True, eq=False)
class DoWhile(Statement):
    """`do … while`."""

    condition: Expression
    body: Statement


@dataclass(slots=True, eq=False)
class Case(Statement):
    """A label of a switch: its values, None for `default`, and the statements up to the next label."""

    values: list[Expression | None]
    body: list[Statement]


@dataclass(slots=True, eq=False)
class Switch(Statement):
    """`switch`."""

    subject: Expression
    cases: list[Case]


@dataclass(slots=True, eq=False)
class Break(Statement):
    """`break`."""


@dataclass(slots=True, eq=False)
class Continue(Statement):
    """`continue`."""


@dataclass(slots=True, eq=False)
class Return(Statement):
    """`return`."""

    value: Expression | None


@dataclass(slots=True, eq=False)
class StaticAssert(Statement):
    """`static_assert`."""

    condition: Expression
    message: str


@dataclass(slots=True, eq=False)
class TypeAlias(Statement):
    """`using name = T` or `typedef T name`, with template parameters if it has some."""

    name: str
    type: TypeName
    dimensions: tuple[Expression | None, ...] = ()
    templates: tuple[TemplateParameter, ...] = ()


@dataclass(slots=True, eq=False)
class TemplateParameter(Node):
    """A parameter of a template: a type (`kind` is None) or a value of the type `kind`."""

    name: str
    kind: TypeName | None
    default: TypeName | Expression | None = None


@dataclass(slots=True, eq=False)
class Parameter(Node):
    """A parameter of a function."""

    name: str
    type: TypeName
    dimensions: tuple[Expression | None, ...] = ()
    default: Expression | None = None


@dataclass(slots=True, eq=False)
class Function(Statement):
    """A function, a member function, a constructor (without a result) or the function of a lambda.

    Args:
        captures: for a lambda, the names captured by value, "=" for all.
        initializers: for a constructor, `: name(a, b)`.
        specialized: for a specialization, its template arguments.
    """

    name: str
    result: TypeName | None
    parameters: list[Parameter]
    body: Block | None
    templates: tuple[TemplateParameter, ...] = ()
    captures: tuple[str, ...] = ()
    initializers: tuple[tuple[str, list[Expression]], ...] = ()
    specialized: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class StructDefinition(Statement):
    """A struct or union."""

    name: str
    fields: list[Declarator]
    methods: list[Function]
    members: list[Statement]
    templates: tuple[TemplateParameter, ...] = ()
    bases: tuple[TypeName, ...] = ()
    union: bool = False
    specialized: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Enum(Statement):
    """An enum: its values in order, each with its expression or None."""

    name: str
    type: TypeName | None
    items: list[tuple[str, Expression | None]]
    scoped: bool
