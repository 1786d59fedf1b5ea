"""Control flow by masks: after each statement, the mask holds the threads that continue."""

from __future__ import annotations

from typing import Any

from .errors import Problem
from .syntax import (
    Block,
    Break,
    Continue,
    Declaration,
    DoWhile,
    Enum,
    Expression,
    ExpressionStatement,
    For,
    Function,
    If,
    Node,
    Return,
    Statement,
    StaticAssert,
    StructDefinition,
    Switch,
    TypeAlias,
    While,
)  # fmt: skip
from .types import INT, VOID, Type
from .values import FALSE, TRUE, Cell, NoValue, Scalar, static
from .walk_base import WalkBase

__all__ = ["Frame", "Loop", "StatementWalk", "children"]


class Frame:
    """A function that is being walked.

    Args:
        result: the type of its result, None where that follows from the first `return`.
        reference: True if it returns a reference.
    """

    def __init__(self, result: Type | None, cell: Cell, returned: Cell, reference: bool = False) -> None:
        self.result, self.cell, self.returned, self.reference = result, cell, returned, reference
        self.loops: list[Loop] = []
        self.place: Any = None


class Loop:
    """A loop or switch during the walk. `waiting` is the mask of threads that wait for its next step or its end."""

    def __init__(self, continued: Cell | None) -> None:
        self.continued = continued
        self.waiting: Scalar = FALSE
        self.switch = continued is None


class StatementWalk(WalkBase):
    """The walk over statements other than loops."""

    frame: Frame

    def run(self, statement: Statement) -> None:
        """Walk a statement."""
        if self.mask.static and not self.mask.base and not isinstance(
            statement, (Function, StructDefinition, TypeAlias, Enum)
        ):  # fmt: skip
            return
        self.place_now = statement.at
        _RULES[type(statement)](self, statement)

    def run_all(self, statements: list[Statement]) -> None:
        for statement in statements:
            self.run(statement)

    def _block(self, statement: Block) -> None:
        with self.inner():
            self.run_all(statement.body)

    def _expression(self, statement: ExpressionStatement) -> None:
        if statement.value is not None:
            self.effect(statement.value)

    def _if(self, statement: If) -> None:
        with self.inner():
            if statement.before is not None:
                self.run(statement.before)
            condition = self.truth(statement.condition)
            if condition.static:
                chosen = statement.then if condition.base else statement.other
                if chosen is not None:
                    with self.inner():
                        self.run(chosen)
                return
            self.branch(condition, statement.then, statement.other)

    def branch(self, condition: Scalar, then: Statement, other: Statement | None) -> None:
        """Walk both branches of a condition, each with the mask of its threads."""
        whole = self.mask
        ends: list[tuple[Scalar, Scalar]] = []
        self.depth += 1
        for chosen, body in ((condition, then), (self.n.negate(condition), other)):
            start = self.mask = self.narrowed(whole, chosen)
            if body is not None and self.anyone():
                with self.inner():
                    self.run(body)
            ends.append((start, self.mask))
        self.depth -= 1
        if all(start is end for start, end in ends):
            self.mask = whole
        else:
            self.mask = self.n.logical("|", ends[0][1], ends[1][1])

    def narrowed(self, mask: Scalar, condition: Scalar) -> Scalar:
        """Return the mask of the threads that are in `mask` and fulfil a condition. With NumPy, the result is the
        constant TRUE or FALSE if all or none do."""
        narrow = self.n.logical("&", mask, condition)
        if not self.space.traced and not narrow.static:
            if not narrow.base.any():
                return FALSE
            if narrow.base.all():
                return TRUE
        return narrow

    def anyone(self) -> bool:
        return not self.mask.static or bool(self.mask.base)

    def _return(self, statement: Return) -> None:
        frame = self.frame
        if statement.value is not None:
            if frame.reference and frame.cell.value is None:
                frame.place = self.place(statement.value)
                value = frame.place.get(self)
            else:
                frame.place, value = None, self.value_as(statement.value, frame.result)
            if frame.cell.value is None or isinstance(frame.cell.value, NoValue):
                self.log(frame.cell, frame.cell.value)
                frame.cell.value, frame.cell.mask = value, self.mask
            else:
                if frame.result is None:
                    value = self.as_type(value, frame.cell.value.type)
                self.log(frame.cell, frame.cell.value)
                frame.cell.value = self.select(self.mask, value, frame.cell.value)
                frame.cell.mask = self.mask
        if frame.loops:
            self.log(frame.returned, frame.returned.value)
            frame.returned.value = self.n.logical("|", frame.returned.value, self.mask)
        self.mask = FALSE

    def _break(self, statement: Break) -> None:
        if not self.frame.loops:
            raise Problem("break outside of a loop", statement.at)
        loop = self.frame.loops[-1]
        if loop.switch:
            loop.waiting = self.n.logical("|", loop.waiting, self.mask)
        self.mask = FALSE

    def _continue(self, statement: Continue) -> None:
        loop = next((loop for loop in reversed(self.frame.loops) if not loop.switch), None)
        if loop is None:
            raise Problem("continue outside of a loop", statement.at)
        loop.waiting = self.n.logical("|", loop.waiting, self.mask)
        self.mask = FALSE

    def _switch(self, statement: Switch) -> None:
        subject = self.scalar(statement.subject)
        whole = self.mask
        loop = Loop(None)
        self.frame.loops.append(loop)
        matched: list[Scalar] = []
        hits: list[Scalar | None] = []
        for case in statement.cases:
            hit: Scalar | None = FALSE
            for label in case.values:
                if label is None:
                    hit = None
                elif hit is not None:
                    hit = self.n.logical("|", hit, self.n.binary("==", subject, self.scalar(label)))
            hits.append(hit)
            if hit is not None:
                matched.append(hit)
        others = TRUE
        for hit in matched:
            others = self.n.logical("&", others, self.n.negate(hit))
        uniform = all((h if h is not None else others).static for h in hits)
        self.depth += not uniform
        self.mask = FALSE
        with self.inner():
            for case, hit in zip(statement.cases, hits, strict=True):
                entering = self.narrowed(whole, hit if hit is not None else others)
                # threads of the previous case fall through
                self.mask = self.n.logical("|", self.mask, entering)
                if self.anyone():
                    self.run_all(case.body)
        self.depth -= not uniform
        self.frame.loops.pop()
        through = FALSE if any(h is None for h in hits) else self.narrowed(whole, others)
        self.mask = self.n.logical("|", self.n.logical("|", self.mask, loop.waiting), through)
        if not _leaves(statement):
            self.mask = whole

    def _static_assert(self, statement: StaticAssert) -> None:
        held = self.truth(statement.condition)
        if held.static and not held.base:
            raise Problem(f"static assertion failed {statement.message}".rstrip(), statement.at)

    def _enum(self, statement: Enum) -> None:
        of = self.resolve(statement.type) if statement.type is not None else INT
        last = -1
        from .places import ValuePlace

        names = {}
        for name, expression in statement.items:
            value = self.scalar(expression) if expression is not None else static(INT, last + 1)
            last = int(value.base)
            names[name] = ValuePlace(static(of, last))  # type: ignore[arg-type]
        if not statement.scoped:
            self.scope.names.update(names)
        if statement.name:
            self.scope.names[statement.name] = of
            self.scope.names[f"{statement.name}::"] = names

    def _alias(self, statement: TypeAlias) -> None:
        if statement.templates:
            self.scope.names[statement.name] = statement
            return
        of = self.resolve(statement.type)
        self.scope.names[statement.name] = self.with_dimensions(of, statement.dimensions)

    def returned_value(self, frame: Frame) -> Any:
        return frame.cell.value if frame.cell.value is not None else NoValue(VOID)

    # The subclasses define these names.

    def effect(self, expression: Expression) -> None:
        raise NotImplementedError

    def truth(self, expression: Expression) -> Scalar:
        raise NotImplementedError

    def scalar(self, expression: Expression) -> Scalar:
        raise NotImplementedError

    def value_as(self, expression: Expression, type: Type | None) -> Any:
        raise NotImplementedError

    def as_type(self, value: Any, type: Type) -> Any:
        raise NotImplementedError

    def resolve(self, type: Any) -> Type:
        raise NotImplementedError

    def with_dimensions(self, type: Type, dimensions: Any) -> Type:
        raise NotImplementedError

    def declare(self, statement: Declaration) -> None:
        raise NotImplementedError

    def define_function(self, statement: Function) -> None:
        raise NotImplementedError

    def define_struct(self, statement: StructDefinition) -> None:
        raise NotImplementedError

    def loop(self, statement: For | While | DoWhile) -> None:
        raise NotImplementedError


def children(node: Any) -> list[Any]:
    """Return the direct children of a syntax node."""
    nodes: list[Any] = []
    for slot in _slots(type(node)):
        part = getattr(node, slot)
        if isinstance(part, Node):
            nodes.append(part)
        elif isinstance(part, (list, tuple)) and slot != "at":
            for item in part:
                if isinstance(item, Node):
                    nodes.append(item)
                elif isinstance(item, (tuple, list)):
                    nodes.extend(x for x in item if isinstance(x, Node))
    return nodes


def _slots(kind: type) -> list[str]:
    return [s for base in reversed(kind.__mro__) for s in getattr(base, "__slots__", ())]


def _leaves(node: Any) -> bool:
    """Return True if a statement contains a return or a continue. Nested functions do not count."""
    if isinstance(node, (Return, Continue)):
        return True
    if isinstance(node, Function):
        return False
    return any(_leaves(child) for child in children(node))


_RULES: dict[type, Any] = {
    Block: StatementWalk._block,
    ExpressionStatement: StatementWalk._expression,
    If: StatementWalk._if,
    Return: StatementWalk._return,
    Break: StatementWalk._break,
    Continue: StatementWalk._continue,
    Switch: StatementWalk._switch,
    StaticAssert: StatementWalk._static_assert,
    Enum: StatementWalk._enum,
    TypeAlias: StatementWalk._alias,
    Declaration: lambda walk, s: walk.declare(s),
    Function: lambda walk, s: walk.define_function(s),
    StructDefinition: lambda walk, s: walk.define_struct(s),
    For: lambda walk, s: walk.loop(s),
    While: lambda walk, s: walk.loop(s),
    DoWhile: lambda walk, s: walk.loop(s),
}
