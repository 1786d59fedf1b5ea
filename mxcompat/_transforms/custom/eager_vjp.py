"""Derivatives in parts, for bodies that call custom functions whose rules may read values.

The body is cut at the calls. In reverse mode, the code after a call is differentiated first, which gives the call's
cotangents as ordinary nodes. The user's rule maps them to cotangents of the call's inputs, and the sweep continues
backward. Forward mode works the same way from the first call to the last. All nodes belong to the enclosing graph. So
enclosing transforms see the function and the operations of its rule, as in MLX.

The nodes are made lazily: rules run on promises of their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import Body, Capture, Promise
from mxcompat._graph.ir.node import Node, apply, items, leaf
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import EFFECT

from ..calls import run, smooth_inputs, without_custom_rules
from ..derivative_dtypes.mixed_forward import dtypes_differ, pushed
from ..derivative_dtypes.mixed_reverse import MIXED_PULL, added, dtype_differs
from ..derivative_dtypes.tangents import tangent_avals
from ..programs.dependence import dependent_slots, reached_inputs, reached_slots
from ..programs.split import PULL, Segment, cotangent_like, segments, zeros
from ..programs.split_at_effects import called, parts
from ..transform_ops import VJP

__all__ = ["Forward", "Reverse", "Rule"]


class Rule(NamedTuple):
    """A user's rule, traced for one call.

    Args:
        program: Its inputs are the first `count` inputs of the call, then the cotangents and outputs (vjp) or the
            tangents of the active inputs (jvp), then the captured nodes. Its outputs are the cotangents of the inputs
            (vjp) or the tangents of the outputs (jvp).
        captured: nodes from outside the rule.
        count: the number of the call's inputs that the rule takes.
        active: for each input that may have a derivative, whether it depends on the primals.
        within: for a call whose Program contains other calls: that Program with the rules included, and its captured
            nodes.
    """

    program: Program
    captured: list[Node]
    count: int
    active: tuple[bool, ...]
    within: tuple[Program, list[Node]] | None = None


class Sweep:
    """The lazy sweep over one body.

    Args:
        capture: the capture of the body.
        body: the body, whose Program contains calls.
        primals: the nodes that the placeholders stand for.
        seeds: the cotangents of the first outputs (vjp), or the tangents of the primals (jvp).
        calls: the slots of the calls.
    """

    _behind_stops = False
    """True if rules also run for calls whose results reach the outputs only through a `stop_gradient`."""

    def __init__(
        self, capture: Capture, body: Body, primals: Sequence[Node], seeds: Sequence[Node], calls: set[int]
    ) -> None:
        self.has_read = False
        self.mixes_dtypes = False  # True if a cotangent or tangent has another dtype than its value
        self.mode = "call" if capture.is_enclosed else "plain"
        self.rules: dict[int, Rule] = {}
        self._capture = capture
        self._program = program = body.program
        self._primals = primals
        self._seeds = seeds
        self._values: dict[int, Node] = {~k: n for k, n in enumerate((*primals, *body.captured))}
        self._results: dict[int, list[Node]] = {}  # the results of calls
        self._moving: dict[int, Node] = {}  # the cotangents (vjp) or tangents (jvp) of slots
        self._active = dependent_slots(program, len(primals))
        self._calls = calls

    def reached(self, outputs: int) -> set[int]:
        """Return the slots on the path from the primals to the first outputs."""
        return reached_slots(self._program, range(outputs), self._behind_stops) & self._active

    def ruled(self, reached: set[int]) -> list[int]:
        """Return the calls among these slots, in order; the derivative needs their rules."""
        calls = self._calls & reached
        return [part[0] for part in self._parts if part[0] in calls] if len(calls) > 1 else [*calls]

    def passes_integers(self, reached: set[int]) -> bool:
        """Return True if the derivative passes through integers: integer primals, or integers among the calls' inputs
        and results."""
        if any(p.aval.dtype._kind not in "fc" for p in self._primals):
            return True
        calls = self._calls & reached
        passed = {s for call in calls for s in self._program.instructions[call][2]} & self._active
        passed |= {s for call in calls for s, _ in self._items(call)} & reached
        return any(self._program.aval(s).dtype._kind not in "fc" for s in passed)

    def take_rule(self, call: int, rule: Rule) -> None:
        """Store the traced rule of a call."""
        self.rules[call] = rule

    def active_inputs(self, call: int) -> tuple[bool, ...]:
        """Return, for each input of a call that may have a derivative, whether it depends on the primals."""
        op, params, slots = self._program.instructions[call]
        return tuple([s in self._active for s in slots[smooth_inputs(op, params)]])

    def inputs(self, call: int) -> list[Promise]:
        """Return promises of the inputs of a call."""
        slots = self._program.instructions[call][2]
        return [self._promise(self._program.aval(s), lambda s=s: self._value(s)) for s in slots]

    def results(self, call: int) -> list[Promise]:
        """Return promises of the results of a call."""
        avals = self._program.avals[call]
        return [self._promise(a, lambda k=k: self._called(call)[k]) for k, a in enumerate(avals)]

    def _promise(self, aval: Aval, find: Callable[[], Node]) -> Promise:
        def asked() -> Node:
            self.has_read = True
            return find()

        return Promise(aval, asked)

    def _moves(self, slot: int) -> bool:
        """Return True if a slot has a cotangent or tangent."""
        return slot in self._active and not isinstance(self._program.aval(slot), tuple)

    def _items(self, call: int) -> list[tuple[int, int]]:
        """Return (slot, result number) pairs for the slots that hold results of a call."""
        instructions = self._program.instructions
        return [(s, instructions[s][1][0]) for s in self._parts[self._place[call]][1:]]

    @cached_property
    def _parts(self) -> list[list[int]]:
        return parts(self._program, self._calls)

    @cached_property
    def _place(self) -> dict[int, int]:
        """Map each slot to the number of the part that contains it."""
        return {slot: k for k, part in enumerate(self._parts) for slot in part}

    @cached_property
    def _segments(self) -> list[Segment]:
        cut = segments(self._program, self._parts, self._moves, self.mode)
        assert cut is not None, "the results of an op that has several are in its part"
        return cut

    def _value(self, slot: int) -> Node:
        if slot not in self._values:
            k = self._place[slot]
            if self._parts[k][0] in self._calls:
                self._called(self._parts[k][0])
            else:
                self._store_outputs(k, items(run(self._segments[k].program, self._inputs(k))))
        return self._values[slot]

    def _inputs(self, k: int) -> tuple[Node, ...]:
        segment = self._segments[k]
        return (*[self._value(s) for s in segment.inputs], *segment.captured)

    def _store_outputs(self, k: int, outputs: Sequence[Node]) -> None:
        self._values.update(zip(self._segments[k].outputs, outputs, strict=False))

    def _called(self, call: int) -> list[Node]:
        """Return the results of a call, and make the call's node on first use."""
        if call not in self._results:
            op, params, slots = self._program.instructions[call]
            inputs = tuple([self._value(s) for s in slots])
            if op in EFFECT or self.mode != "plain":
                self._store_results(call, items(apply(op, inputs, params)))
            else:
                self._store_results(call, items(called(*without_custom_rules(op, params, inputs))))
        return self._results[call]

    def _store_results(self, call: int, results: list[Node]) -> None:
        self._results[call] = results
        self._values.update({slot: results[k] for slot, k in self._items(call)})

    def take_values(self, call: int, values: Sequence[Any]) -> None:
        """Store the results of an effect that has run already, because the user's function read them; it must not run
        again."""
        self._store_results(call, [leaf(v, a) for v, a in zip(values, self._program.avals[call], strict=True)])

    def _apply(self, call: int, seeds: Sequence[Node]) -> list[Node]:
        """Inline the rule of a call and return its results."""
        program, captured, count, *_ = self.rules[call]
        inputs = [self._value(s) for s in self._program.instructions[call][2][:count]]
        return program.rebuild((*inputs, *seeds, *self._in_outer_graph(captured)))

    def _in_outer_graph(self, captured: list[Node]) -> list[Node]:
        """Map nodes of the body to nodes of the enclosing graph; other nodes stay as they are."""
        inner = [n for n in captured if n.trace >= self._capture.id]
        if not inner:
            return captured
        body = self._capture.close(inner)
        inputs = (*self._primals, *body.captured)
        outer = dict(zip(inner, body.program.rebuild(inputs), strict=True))
        return [outer.get(n, n) for n in captured]


class Reverse(Sweep):
    """The sweep of a vjp. The rules must be run from the last call to the first."""

    @cached_property
    def _frontier(self) -> int:
        """The number of the earliest part whose cotangents are known."""
        outputs = zip(self._program.out_slots, self._seeds, strict=False)
        for slot, cotangent in outputs:
            if self._moves(slot):
                self._add(slot, cotangent_like(cotangent, self._program.aval(slot)))
        return len(self._parts)

    def take_rule(self, call: int, rule: Rule) -> None:
        super().take_rule(call, rule)
        pairs = zip(self._program.instructions[call][2], rule.program.out_avals, strict=False)
        self.mixes_dtypes |= any(self._moves(s) and dtype_differs(c, self._program.aval(s)) for s, c in pairs)

    def cotangents(self, call: int) -> list[Promise]:
        """Return promises of the cotangents of a call's results."""
        avals = self._program.avals[call]
        if self.mixes_dtypes:  # a promise has no dtype until the cotangent is made
            avals = [c.aval for c in self._cotangents(call)]
        return [self._promise(a, lambda k=k: self._cotangents(call)[k]) for k, a in enumerate(avals)]

    def derived(self, outputs: int) -> Node:
        """Make the node of the outputs and the gradients. All rules must have been run."""
        self._pull_to(0)
        values = [self._value(s) for s in self._program.out_slots]
        avals = self._program.in_avals[: len(self._primals)]
        return apply(TUPLE, (*values, *[self._moving.get(~k) or zeros(a) for k, a in enumerate(avals)]))

    def _add(self, slot: int, cotangent: Node) -> None:
        value = self._program.aval(slot)
        if not dtype_differs(cotangent.aval, value):
            cotangent = cotangent_like(cotangent, value)
        known = self._moving.get(slot)
        self._moving[slot] = cotangent if known is None else added(known, cotangent)

    def _cotangents(self, call: int) -> list[Node]:
        self._pull_to(self._place[call] + 1)
        cotangents: list[Node | None] = [None] * len(self._program.avals[call])
        for slot, k in self._items(call):
            known = self._moving.get(slot)
            if known is not None:
                cotangents[k] = known if cotangents[k] is None else added(cotangents[k], known)  # type: ignore[arg-type]
        return [c or zeros(a) for c, a in zip(cotangents, self._program.avals[call], strict=True)]

    def _pull_to(self, k: int) -> None:
        while self._frontier > k:
            self._frontier -= 1
            first = self._parts[self._frontier][0]
            if first in self._calls:
                self._pull_call(first)
            else:
                self._pull(self._frontier)

    def _pull(self, k: int) -> None:
        whole, slots, active, outputs, moving, _ = self._segments[k]
        known = tuple([j for j, s in enumerate(outputs[:moving]) if s in self._moving])
        if not known:
            return
        inputs = self._inputs(k)
        cotangents = [self._moving[outputs[j]] for j in known]
        program, params = whole.giving(known), (active, len(known))
        if any(dtype_differs(c.aval, value) for c, value in zip(cotangents, program.out_avals, strict=True)):
            gradients = items(apply(MIXED_PULL, (*inputs, *cotangents), (program, *params)))
        elif self._values.keys() >= {*outputs}:
            gradients = items(apply(PULL, (*inputs, *cotangents), (program, *params)))
        else:
            order = (*known, *[j for j in range(len(outputs)) if j not in known])
            node = apply(VJP, (*inputs, *cotangents), (whole.giving(order), *params))
            self._values.update(zip([outputs[j] for j in order], items(node), strict=False))
            gradients = items(node, len(outputs))
        reached = reached_inputs(program, frozenset(range(len(known))))
        for j, (slot, gradient) in enumerate(zip(slots, gradients, strict=False)):
            if j in reached:
                self._add(slot, gradient)

    def _pull_call(self, call: int) -> None:
        if call in self.rules and any(slot in self._moving for slot, _ in self._items(call)):
            cotangents = self._apply(call, [*self._cotangents(call), *self._called(call)])
            for slot, cotangent in zip(self._program.instructions[call][2], cotangents, strict=False):
                if self._moves(slot):
                    self._add(slot, cotangent)


class Forward(Sweep):
    """The sweep of a jvp. The rules must be run from the first call to the last."""

    _behind_stops = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.mixes_dtypes = dtypes_differ([t.aval for t in self._seeds], [x.aval for x in self._primals])

    @cached_property
    def _frontier(self) -> int:
        """The number of parts, from the first, whose tangents are known."""
        self._moving.update({~k: t for k, t in enumerate(self._seeds)})
        return 0

    def take_rule(self, call: int, rule: Rule) -> None:
        super().take_rule(call, rule)
        self.mixes_dtypes |= dtypes_differ(rule.program.out_avals, self._program.avals[call])

    def tangents(self, call: int) -> list[Promise]:
        """Return promises of the tangents of a call's active inputs."""
        avals = [self._program.aval(s) for s in self._tangent_slots(call)]
        if self.mixes_dtypes:
            avals = [t.aval for t in self._tangents(call)]
        return [self._promise(a, lambda k=k: self._tangents(call)[k]) for k, a in enumerate(avals)]

    def derived(self, outputs: int) -> Node:
        """Make the node of all outputs, and the tangents of the first `outputs`. All rules must have been run."""
        self._push_to(len(self._parts))
        slots = self._program.out_slots
        values = [self._value(s) for s in slots]
        avals = tangent_avals(self._program, [t.aval.dtype for t in self._seeds], outputs)
        tangents = [self._moving.get(s) or zeros(a) for s, a in zip(slots, avals, strict=False)]
        return apply(TUPLE, (*values, *tangents))

    def _tangent_slots(self, call: int) -> list[int]:
        slots = self._program.instructions[call][2]
        return [s for s, on in zip(slots, self.active_inputs(call), strict=False) if on]

    def _tangents(self, call: int) -> list[Node]:
        self._push_to(self._place[call])
        return [self._moving.get(s) or zeros(self._program.aval(s)) for s in self._tangent_slots(call)]

    def _value(self, slot: int) -> Node:
        if slot >= 0:  # values are computed together with their tangents
            self._push_to(self._place[slot] + 1)
        return super()._value(slot)

    def _push_to(self, k: int) -> None:
        while self._frontier < k:
            self._frontier += 1
            first = self._parts[self._frontier - 1][0]
            if first in self._calls:
                self._push_call(first)
            else:
                self._push(self._frontier - 1)

    def _push(self, k: int) -> None:
        program, slots, active, outputs, moving, _ = self._segments[k]
        known = [self._moving.get(s) for s in slots[:active]]
        if not any(known):
            return
        tangents = [t or zeros(self._program.aval(s)) for t, s in zip(known, slots, strict=False)]
        node = pushed(program, self._inputs(k), tangents, moving)
        self._store_outputs(k, items(node)[: len(outputs)])
        self._moving.update(zip(outputs[:moving], items(node, len(outputs)), strict=True))

    def _push_call(self, call: int) -> None:
        if call in self.rules:
            tangents = self._apply(call, self._tangents(call))
            for slot, k in self._items(call):
                if self._moves(slot):
                    self._moving[slot] = tangents[k]
