"""The state that a traced loop carries: variables and memory that an iteration changes, in forms that it preserves.

The forms are found by walking the body: first once to see which cells it changes, then as the body of the loop. If an
iteration returns another form than it was given, the form is widened and the body is walked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mxcompat._jax import jax, jnp

from .buffers import Memory
from .congruence import UNKNOWN, Congruence, joined
from .derivatives import forward_only
from .errors import Problem
from .values import Array, Cell, Closure, NoValue, Pointer, Scalar, Struct, Value, Vector, leaves, rebuild, static

__all__ = ["Carry", "Moved"]


class Moved(Exception):
    """A pointer goes from one buffer to another in a loop, so that no form of it holds for all iterations."""


class Widen(Exception):
    """An iteration changed a cell that was not carried, or the form of a carried one."""


class Leaf(NamedTuple):
    """The form of a scalar: its type, its coefficients, the shape, bounds and congruence of its base. For an array of
    a `Stack`, the type is None, and only the shape matters."""

    type: Any
    coefs: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]
    low: int | None
    high: int | None
    known: Congruence = UNKNOWN


class Form(NamedTuple):
    """The form of a cell: a value of the same structure, and the form of each leaf. Memory has no form."""

    like: Any
    parts: tuple[Leaf, ...]


class Carry:
    """The carry of one traced loop: the cells (variables and memory) that its iterations change, and their forms.

    Args:
        walk: the walk over the kernel.
        statement: the loop in the syntax tree. The walk remembers the forms of its cells for the next visit.
        body: walks the body of the loop for one iteration, given the iteration's number.
        first: cells that are always carried. They come before the others.
        one_way: the error message for reverse-mode differentiation, or "" if the loop supports it.
    """

    def __init__(
        self, walk: Any, statement: Any, body: Callable[[Any], None], first: list[Cell], one_way: str = ""
    ) -> None:
        self.walk, self.body, self.first, self.one_way = walk, body, first, one_way
        self.mark = walk.cells
        self.key = (id(statement), self.mark)
        self.old: dict[Any, Any] = {}
        self.forms: dict[Any, Form | None] = {}

    def run(self, go: Callable[[Any, Any], Any]) -> None:
        """Trace the loop. `go(step, carry)` runs the loop and returns the final carry."""
        walk = self.walk
        for cell in self.first:
            self._include(cell, cell.value)
        out = self._traced(go)
        self._reset()
        walk.forms[self.key] = {cell.number: form for cell, form in self.forms.items()}
        for cell, value in zip(self.forms, out, strict=True):
            walk.log(cell, self.old[cell])
            if self.one_way:
                value = jax.tree.map(self._marked, value)
            self._set(cell, self._unpacked(cell, value))

    def _traced(self, go: Callable[[Any, Any], Any]) -> Any:
        if not self._remembered():
            jax.eval_shape(self._discover)
        for _ in range(24):
            try:
                return go(self._step, self._initial())
            except Widen:
                self._reset()
        raise Problem("a loop whose variables change their form at every step")

    def _marked(self, x: Any) -> Any:
        return forward_only(x, self.one_way) if jnp.issubdtype(x.dtype, np.floating) else x

    def _remembered(self) -> bool:
        known = self.walk.forms.get(self.key)
        if known is None:
            return False
        for number, form in known.items():
            cell = self.walk.by_number.get(number)
            if cell is None:
                return False
            if cell not in self.forms:
                self._include(cell, self._value(cell))
            if form is not None:
                self._widen(cell, form)
        return True

    def _widen(self, cell: Any, form: Form) -> None:
        mine = self.forms[cell]
        kinds = [None if f is None else [leaf.type for leaf in f.parts] for f in (mine, form)]
        if mine is None or kinds[0] != kinds[1]:
            self.forms[cell] = form
            return
        parts = tuple([self._union(a, b) for a, b in zip(mine.parts, form.parts, strict=True)])
        self.forms[cell] = Form(mine.like, parts)

    def _discover(self) -> None:
        changes = self._walked(np.int32(0))
        for cell, (old, new) in changes.items():
            if cell not in self.forms:
                self._include(cell, self._before(cell, old, new))
        self._reset()
        for cell, (_, new) in changes.items():
            self._join(cell, new)

    def _walked(self, k: Any) -> dict[Any, tuple[Any, Any]]:
        """Walk an iteration. Return the cells that it changed, with their values before and after."""
        walk = self.walk
        before = (walk.mask, walk.depth, walk.scope, len(walk.frame.loops), walk.trace)
        walk.cells, walk.trace = self.mark, object()
        walk.logs.append({})
        try:
            self.body(k)
            log = walk.logs[-1]
            changes = {c: (old, self._value(c)) for c, old in log.items() if c.number <= self.mark}
        except BaseException:
            for cell, old in walk.logs[-1].items():
                self._set(cell, old)
            raise
        finally:
            walk.logs.pop()
            walk.mask, walk.depth, walk.scope, loops, walk.trace = before
            del walk.frame.loops[loops:]
        return changes

    def _step(self, k: Any, carry: Any) -> Any:
        for cell, value in zip(self.forms, carry, strict=True):
            self._set(cell, self._unpacked(cell, value))
        changed = self._walked(k)
        missing = False
        for cell, (old, new) in changed.items():
            if cell not in self.forms:
                self._include(cell, self._before(cell, old, new))
                missing = True
            missing = self._join(cell, new) or missing
        if missing:
            for cell, (old, _) in changed.items():
                if cell not in self.old:
                    self._set(cell, old)
            raise Widen
        return tuple([self._packed(cell, self._value(cell)) for cell in self.forms])

    def _value(self, cell: Any) -> Any:
        return cell.held if isinstance(cell, Memory) else cell.value

    def _set(self, cell: Any, value: Any) -> None:
        if isinstance(cell, Memory):
            cell.held = value
        else:
            cell.value, cell.guarded, cell.mask = value, None, None

    def _include(self, cell: Any, value: Any) -> None:
        self.old[cell] = value
        if isinstance(cell, Memory):
            self.forms[cell] = None
        else:
            self.forms[cell] = Form(self._blank(value), tuple([self._leaf(leaf) for leaf in leaves(value)]))

    def _blank(self, value: Value) -> Value:
        """Return a value of the same structure that refers to no tracer."""
        shape = (1,) * self.walk.axes.rank
        return rebuild(value, iter([
            static(leaf.type, 0) if isinstance(leaf, Scalar) else np.zeros((len(leaf), *shape), leaf.dtype)
            for leaf in leaves(value)
        ]))  # fmt: skip

    def _before(self, cell: Any, old: Any, new: Any) -> Any:
        """Return the value of a cell before the loop, or zero for a variable without a value."""
        return self.walk.zero(new.type) if old is None and isinstance(new, Value) else old

    def _reset(self) -> None:
        for cell, value in self.old.items():
            self._set(cell, value)

    def _initial(self) -> tuple[Any, ...]:
        return tuple([self._packed(cell, self.old[cell]) for cell in self.forms])

    def _leaf(self, leaf: Any) -> Leaf:
        if not isinstance(leaf, Scalar):
            return Leaf(None, (), tuple(leaf.shape), None, None)
        return Leaf(leaf.type, leaf.coefs, tuple(np.shape(leaf.base)), leaf.low, leaf.high, leaf.congruence)

    def _join(self, cell: Any, new: Any) -> bool:
        """Widen the form of a cell so that it fits a new value, too. Return True if the form has changed."""
        form = self.forms[cell]
        if form is None:
            return False
        self._check(form.like, new)
        like, new = self.walk.alike(form.like, new)
        if like is not form.like:
            _, old = self.walk.alike(like, self.old[cell])
            self.forms[cell] = Form(self._blank(like), tuple([self._leaf(leaf) for leaf in leaves(old)]))
            self._join(cell, new)
            return True
        parts = [self._leaf(leaf) for leaf in leaves(new)]
        if len(parts) != len(form.parts):
            raise Problem("a variable changes its type in a loop")
        widened = tuple([self._union(a, b) for a, b in zip(form.parts, parts, strict=True)])
        if widened == form.parts:
            return False
        narrower = any(
            a.known != b.known or (b.low is not None and a.low is not None and (b.low < a.low or b.high > a.high))  # type: ignore[operator]
            for a, b in zip(form.parts, widened, strict=True)
        )
        if narrower and self.tries > 1:  # drop bounds and congruences that may change at every step
            widened = tuple([
                b._replace(low=None, high=None, known=UNKNOWN)
                if (b.low, b.high, b.known) != (a.low, a.high, a.known) else b
                for a, b in zip(form.parts, widened, strict=True)
            ])  # fmt: skip
        self.tries += narrower
        self.forms[cell] = Form(like, widened)
        return True

    tries = 0

    def _check(self, a: Any, b: Any) -> None:
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.target is not b.target:
            raise Moved
        if isinstance(a, (Struct, Vector, Array)) and isinstance(b, (Struct, Vector, Array)):
            for x, y in zip(a.parts, b.parts, strict=False):
                self._check(x, y)
        if isinstance(a, (Closure, NoValue)) and a is not b:
            raise Problem("a function that changes in a loop is not in the supported language")

    def _union(self, a: Leaf, b: Leaf) -> Leaf:
        if a.type is None:
            return Leaf(None, (), tuple(np.broadcast_shapes(a.shape, b.shape)), None, None)
        low = high = None
        if a.low is not None and b.low is not None and a.high is not None and b.high is not None:
            low, high = min(a.low, b.low), max(a.high, b.high)
        if a.coefs == b.coefs:
            shape = self._shape(a.shape, b.shape)
            if not any(shape and shape[axis] > 1 for axis, _ in a.coefs):
                return Leaf(a.type, a.coefs, shape, low, high, joined(a.known, b.known))
        known = joined(self._whole(a), self._whole(b)) if a.type.kind in "ui" else UNKNOWN
        return Leaf(a.type, (), self._shape(self._full(a), self._full(b)), low, high, known)

    def _whole(self, leaf: Leaf) -> Congruence:
        return self.walk.n.whole(Scalar(leaf.type, None, leaf.coefs, leaf.low, leaf.high, (), leaf.known))

    def _shape(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(np.broadcast_shapes(a, b))

    def _full(self, leaf: Leaf) -> tuple[int, ...]:
        if not leaf.coefs:
            return leaf.shape
        axes = self.walk.axes
        shape = list(leaf.shape or (1,) * axes.rank)
        for axis, _ in leaf.coefs:
            shape[axis] = axes.extents[axis]
        return tuple(shape)

    def _packed(self, cell: Any, value: Any) -> Any:
        form = self.forms[cell]
        if form is None:
            return self.walk.space.asarray(cell.filled(value))
        _, value = self.walk.alike(form.like, value)
        return tuple([self._pack(leaf, part) for leaf, part in zip(leaves(value), form.parts, strict=True)])

    def _pack(self, leaf: Any, form: Leaf) -> Any:
        if form.type is None:
            return jnp.broadcast_to(self.walk.space.asarray(leaf), form.shape)
        if form.coefs:
            base = leaf.base
            if isinstance(base, int):
                base = leaf.type.dtype.type(leaf.type.wrap(base))
        else:
            base = self.walk.n.array(leaf)
        return jnp.broadcast_to(self.walk.space.asarray(base, form.type.dtype), form.shape)

    def _unpacked(self, cell: Any, value: Any) -> Any:
        form = self.forms[cell]
        if form is None:
            return value
        parts = [
            array if leaf.type is None else Scalar(leaf.type, array, leaf.coefs, leaf.low, leaf.high, (), leaf.known)
            for array, leaf in zip(value, form.parts, strict=True)
        ]
        return rebuild(form.like, iter(parts))
