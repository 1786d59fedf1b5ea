"""The walk over loops. NumPy runs the iterations. JAX traces one iteration, or all if their number is small and known.

An iteration has effect for the threads that are still in the loop. A first walk over it shows which cells it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.run.endless import while_loop
from mxcompat._jax import lax

from .buffers import Memory
from .calls import CallWalk
from .carry import Carry, Moved
from .errors import Problem
from .masks import Loop
from .places import CellPlace
from .syntax import (
    Assign,
    Binary,
    Declaration,
    DoWhile,
    Expression,
    For,
    Name,
    Postfix,
    Return,
    Unary,
    While,
)
from .tree import assigned_in, breaks, exits, has, indexed_in, is_named, names_in, weight
from .types import INT, ArrayType, ScalarType
from .values import FALSE, Cell, Scalar

__all__ = ["LoopWalk", "TooLong"]

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


class Trips(NamedTuple):
    """A loop with a counter.

    Args:
        place: the counter's variable.
        start: the initial value of the variable.
        step: the increment of each iteration.
        count: the largest number of iterations of any thread.
        uniform: True if all threads have the same number of iterations.
    """

    place: CellPlace
    start: Scalar
    step: int
    count: int
    uniform: bool


class _Unknown(Exception):
    """Raised if a loop does not have the assumed form."""


class TooLong(Exception):
    """Raised when NumPy reaches the limit of iterations."""


class LoopWalk(CallWalk):
    """The walk over loops. `most_steps` is the limit of iterations in NumPy, or None for no limit."""

    steps = 0
    most_steps: int | None = None

    kernel: Any

    def loop(self, statement: For | While | DoWhile) -> None:
        with self.inner():
            if isinstance(statement, For) and statement.start is not None:
                self.run(statement.start)
            if not self.space.traced:
                self._directly(statement, None)
                return
            trips = self._trips(statement) if isinstance(statement, For) else None
            size = weight(statement.body)
            if trips is not None:
                if trips.count == 0:
                    return
                assert isinstance(statement, For)
                if self._is_unrolled(statement, trips, size):
                    self._directly(statement, trips.count)
                    return
                if self._attempt(lambda: self._counted(statement, trips, size)):
                    return
            elif self._attempt(lambda: self._few(statement, size)):
                return
            if self._attempt(lambda: self._general(statement)):
                return
            self._moving(statement, trips)

    def _is_unrolled(self, statement: For, trips: Trips, weight: int) -> bool:
        """Return True if a loop should be unrolled, because it is short or indexes a local array.

        The indices are then known, so that the elements of the array are separate values.
        """
        if trips.count <= policy.FEW_STEPS and trips.count * weight <= policy.MOST_UNROLLED:
            return True
        if trips.count > policy.MOST_REGISTERS or trips.count * weight > 2 * policy.MOST_UNROLLED:
            return False
        variables = [self.scope.get(name) for name in indexed_in(statement.body)]
        return any(isinstance(place, CellPlace) and isinstance(place.type, ArrayType) for place in variables)

    def _attempt(self, way: Callable[[], None]) -> bool:
        """Walk a loop that is assumed to have a certain form. If it has not, undo all changes and return False."""
        before = (self.mask, self.depth, self.scope, len(self.frame.loops), self.cells)
        self.logs.append({})
        try:
            way()
        except (_Unknown, Moved):
            for cell, old in self.logs.pop().items():
                self.put(cell, old)
            self.mask, self.depth, self.scope, _, self.cells = before
            del self.frame.loops[before[3] :]
            return False
        for cell, old in self.logs.pop().items():
            self.log(cell, old)
        return True

    def _moving(self, statement: For | While | DoWhile, trips: Trips | None) -> None:
        """Unroll a loop that moves a pointer from one buffer to another: each iteration then has its own pointers."""
        count = None if trips is None else trips.count
        limit = None if count is not None and count <= policy.MOST_TRIED else policy.MOST_TRIED
        if not self._attempt(lambda: self._directly(statement, count, limit)):
            Problem.at(
                statement.at,
                "a pointer that goes from one buffer to another in a long loop is not in the supported language",
            )

    def _few(self, statement: For | While | DoWhile, weight: int) -> None:
        limit = max(1, min(policy.MOST_TRIED, 4 * policy.MOST_UNROLLED // weight))
        self._directly(statement, None, limit)

    def _directly(self, statement: For | While | DoWhile, count: int | None, limit: int | None = None) -> None:
        """Iterate in Python, `count` times or until the condition is False for all threads."""
        frame, whole = self.frame, self.mask
        loop = Loop(self.cell(FALSE))
        frame.loops.append(loop)
        added = int(exits(statement.body))
        self.depth += added
        first, steps = isinstance(statement, DoWhile), 0
        while count is None or steps < count:
            if not first and statement.condition is not None:
                held = self.truth(statement.condition)
                if held.static and not held.base:
                    break
                if not held.static:
                    if limit is not None:
                        raise _Unknown
                    self.depth += 1 - added
                    added = 1
                    self.mask = self.narrowed(self.mask, held)
            first = False
            if not self.anyone():
                break
            if steps == limit:
                raise _Unknown
            steps += 1
            self.steps += 1
            if self.steps == self.most_steps:
                raise TooLong
            with self.inner():
                self.run(statement.body)
            self.mask, loop.waiting = self.n.logical("|", self.mask, loop.waiting), FALSE
            if isinstance(statement, For) and statement.step is not None and self.anyone():
                self.effect(statement.step)
        frame.loops.pop()
        self.depth -= added
        self._after(statement, whole)

    def _after(self, statement: For | While | DoWhile, whole: Scalar) -> None:
        """Set the mask after a loop: the threads that entered the loop and have not returned."""
        self.mask = whole
        if has(statement.body, Return):
            self.mask = self.n.logical("&", whole, self.n.negate(self.frame.returned.value))

    def _iterations_per_pass(self, cells: Carry, trips: Trips, size: int) -> int:
        """Return the number of iterations that XLA computes in one pass over the threads. It divides the total number.

        It is 1 if an iteration writes to memory, because XLA would recompute the iteration's values for the next one.
        """
        if any(isinstance(cell, Memory) for cell in cells.forms):
            return 1
        most = max(1, policy.MOST_UNROLLED // size)
        return max(k for k in range(1, min(most, trips.count) + 1) if trips.count % k == 0)

    def _counted(self, statement: For, trips: Trips, size: int) -> None:
        """Trace a loop whose number of iterations is known."""
        whole, frame = self.mask, self.frame
        leaves = has(statement.body, Return) or breaks(statement.body)
        masked = leaves or not trips.uniform
        active = self.cell(self.mask)
        variable = trips.place.cell
        kind = variable.value.type
        stays = trips.count > policy.MOST_UNROLLED and leaves

        def body(k: Any) -> None:
            counter = Scalar(kind, self.space.cast(k, kind.dtype), (), 0, trips.count - 1)
            moved = self.n._ring("*", counter, Scalar(kind, trips.step, (), trips.step, trips.step))
            value = self.n._ring("+", trips.start, moved)
            variable.value, variable.mask, variable.guarded = value, self.mask, None
            loop = Loop(self.cell(FALSE))
            frame.loops.append(loop)
            self.depth += masked or exits(statement.body)
            if masked:
                self.mask = active.value
                if not trips.uniform:
                    assert statement.condition is not None
                    self.mask = self.n.logical("&", self.mask, self.truth(statement.condition))
            with self.inner():
                self.run(statement.body)
            if variable.value is not value:
                raise _Unknown
            self.mask = self.n.logical("|", self.mask, loop.waiting)
            frame.loops.pop()
            if leaves:
                self.log(active, active.value)
                active.value = self.mask

        def go(step: Any, carry: Any) -> Any:
            def one(k: Any, carry: Any) -> Any:
                if not stays:
                    return step(k, carry)
                going = self.space.xp.any(carry[0][0])
                return lax.cond(going, lambda c: step(k, c), lambda c: c, carry)

            unroll = 1 if stays else self._iterations_per_pass(cells, trips, size)
            return lax.fori_loop(np.int32(0), np.int32(trips.count), one, carry, unroll=unroll)

        old = variable.value
        cells = Carry(self, statement, body, [active] if leaves else [])
        try:
            cells.run(go)
        finally:
            variable.value = old
        self._after(statement, whole)

    def _general(self, statement: For | While | DoWhile) -> None:
        """Trace a loop whose number of iterations depends on the data."""
        whole, frame = self.mask, self.frame
        self.depth += 1
        if isinstance(statement, DoWhile) or statement.condition is None:
            start = self.mask
        else:
            start = self.n.logical("&", self.mask, self.truth(statement.condition))
        if start.static and not start.base:
            self.depth -= 1
            return
        active = self.cell(start)

        def body(_: Any) -> None:
            loop = Loop(self.cell(FALSE))
            frame.loops.append(loop)
            self.mask = active.value
            with self.inner():
                self.run(statement.body)
            self.mask = self.n.logical("|", self.mask, loop.waiting)
            frame.loops.pop()
            if isinstance(statement, For) and statement.step is not None and self.anyone():
                self.effect(statement.step)
            if statement.condition is not None and self.anyone():
                self.mask = self.n.logical("&", self.mask, self.truth(statement.condition))
            self.log(active, active.value)
            active.value = self.mask

        def go(step: Any, carry: Any) -> Any:
            loop = while_loop if self.kernel.may_not_end else lax.while_loop
            return loop(lambda c: self.space.xp.any(c[0][0]), lambda c: step(None, c), carry)

        Carry(self, statement, body, [active], self._one_way(statement)).run(go)
        self.depth -= 1
        self._after(statement, whole)

    def _one_way(self, statement: For | While | DoWhile) -> str:
        at = statement.at
        return (
            f"[metal_kernel] {self.kernel.signature.name}: {at.part} line {at.line}: the data tell how often this loop "
            "runs, so that it has no derivative in reverse mode. Give the kernel one with mx.custom_function, or the "
            "loop a length that is known."
        )

    def _trips(self, statement: For) -> Trips | None:
        """Return the number of iterations of a loop that counts up or down to a fixed bound; None for other loops."""
        condition, step = statement.condition, statement.step
        if not isinstance(condition, Binary) or condition.op not in _TURNED or step is None:
            return None
        if not isinstance(statement.start, Declaration):
            return None
        op, name, bound = condition.op, condition.left, condition.right
        declared = {item.name for item in statement.start.items}
        if not (isinstance(name, Name) and name.id in declared):
            op, name, bound = _TURNED[op], bound, name
        if not (isinstance(name, Name) and name.id in declared):
            return None
        changed = assigned_in(statement.body)
        place = self.scope.get(name.id)
        if name.id in changed or not isinstance(place, CellPlace) or not isinstance(place.cell.value, Scalar):
            return None
        if names_in(bound) & (changed | {name.id}) or place.type is not place.cell.value.type:
            return None
        by = self._step_of(step, name.id, changed)
        start, kind = place.cell.value, place.type
        if by is None or not by or not isinstance(kind, ScalarType) or kind.kind not in "ui":
            return None
        limit = self.value(bound)
        if not isinstance(limit, Scalar) or limit.type.kind not in "ui":
            return None
        return self._counts(place, start, by, op, limit)

    def _counts(self, place: CellPlace, start: Scalar, by: int, op: str, limit: Scalar) -> Trips | None:
        n = self.n
        if not (n.is_exact(start) and n.is_exact(limit)):
            return None
        if op == "!=" and abs(by) != 1:
            return None
        if op == "!=":
            op = "<" if by > 0 else ">"
        if (by > 0) != (op in ("<", "<=")):
            return None
        first, last = (start, limit) if by > 0 else (limit, start)
        known = n._difference(last, first)
        if known is None or not (isinstance(start.base, int) and isinstance(limit.base, int)):
            return None
        low, high = known[0] + (op in ("<=", ">=")), known[1] + (op in ("<=", ">="))
        most, least = max(0, -(-high // abs(by))), max(0, -(-low // abs(by)))
        return Trips(place, start, by, most, most == least)

    def _step_of(self, step: Expression, name: str, changed: set[str]) -> int | None:
        """Return the increment of a variable in each iteration, or None if it is unknown."""
        if isinstance(step, (Unary, Postfix)) and step.op in ("++", "--") and is_named(step.operand, name):
            return 1 if step.op == "++" else -1
        if not isinstance(step, Assign) or not is_named(step.target, name):
            return None
        op, value = step.op, step.value
        if op == "" and isinstance(value, Binary) and value.op in ("+", "-") and is_named(value.left, name):
            op, value = value.op, value.right
        if op not in ("+", "-") or names_in(value) & (changed | {name}):
            return None
        increment = self.value(value)
        if not isinstance(increment, Scalar) or not increment.static or increment.type.kind not in "ui":
            return None
        by = int(increment.base) if increment.type.bits == 64 else INT.wrap(int(increment.base))
        return by if op == "+" else -by

    def put(self, cell: Any, value: Any) -> None:
        """Restore the value of a cell."""
        if isinstance(cell, Cell):
            cell.value, cell.guarded = value, None
        else:
            cell.held = value
