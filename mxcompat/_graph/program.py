"""Programs: a piece of graph, closed over its inputs, as an immutable list of instructions over numbered slots.

`linearise` walks the graph; `intern` turns what it found into the one Program with that structure. Evaluation,
`grad`, `vmap`, `compile` and export all speak Program; `replay` runs one on JAX values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .aval import Aval
from .node import ITEM, SCALAR, Node, apply
from .op import Op

__all__ = ["Linear", "Program", "alone", "clear_programs", "intern", "linearise", "program_count"]

_PROGRAM_LIMIT = 4096


class Program:
    """Instructions `(op, params, input slots)`. Instruction i writes slot i; slot ~k (negative) is input k.

    Programs are interned: one structure, one object, so they compare and hash by identity. The values of Python
    numbers are not part of the structure: they are inputs, listed in `scalars`.
    """

    __slots__ = (
        "__weakref__", "differentiable", "in_avals", "instructions", "out_avals", "out_slots", "scalars", "versions",
    )  # fmt: skip

    def __init__(
        self,
        instructions: tuple[tuple[Op, tuple, tuple[int, ...]], ...],
        in_avals: tuple[Any, ...],
        scalars: tuple[int, ...],
        out_slots: tuple[int, ...],
        out_avals: tuple[Any, ...],
    ) -> None:
        self.instructions = instructions
        self.in_avals = in_avals
        self.scalars = scalars
        self.out_slots = out_slots
        self.out_avals = out_avals
        self.versions: Any = None  # what XLA has made of it, see `executables`
        self.differentiable: set[Any] = set()  # the questions `_transforms.autodiff` has settled about it

    def __repr__(self) -> str:
        lines = [f"  %{k} = {op}{list(params) or ''} {_slots(slots)}" for k, (op, params, slots) in self._numbered()]
        heading = ", ".join(f"in{k}: {a}" for k, a in enumerate(self.in_avals))
        return "\n".join([f"program({heading}):", *lines, f"  return {_slots(self.out_slots)}"])

    @property
    def is_nested(self) -> bool:
        """Whether an instruction holds a program of its own."""
        return any(isinstance(p, Program) for _, params, _ in self.instructions for p in params)

    def _numbered(self) -> Iterable[tuple[int, tuple]]:
        return enumerate(self.instructions)

    def replay(self, inputs: Sequence[Any]) -> list[Any]:
        """Run the instructions on JAX values (arrays, tracers, NumPy scalars), under whatever JAX trace is current."""
        env: list[Any] = []
        for op, params, slots in self.instructions:
            try:
                env.append(op.lower(params, [env[s] if s >= 0 else inputs[~s] for s in slots]))
            except Exception as error:
                error.mxcompat_slot = len(env)  # type: ignore[attr-defined]  # the outermost program's, in the end
                raise
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]

    def rebuild(self, inputs: Sequence[Node]) -> list[Node]:
        """Apply the instructions to nodes, as if the user's Python had run again; avals may differ from `in_avals`."""
        env: list[Node] = []
        for op, params, slots in self.instructions:
            env.append(apply(op, tuple([env[s] if s >= 0 else inputs[~s] for s in slots]), params))
        return [env[s] if s >= 0 else inputs[~s] for s in self.out_slots]


def _slots(slots: Iterable[int]) -> str:
    return ", ".join(f"%{s}" if s >= 0 else f"in{~s}" for s in slots)


class Linear(NamedTuple):
    """A stretch of graph in execution order.

    Args:
        order: the nodes to compute, inputs before consumers.
        leaves: the nodes it reads but does not compute, in the order in which they were met.
        slots: the slot of each node of both.
        code: for each node of `order`: its op, its params, its input slots, flat. Hashing it is what a cache
            lookup costs, so it holds nothing else.
        uses: how often each node of `order` is an input of another.
    """

    order: list[Node]
    leaves: list[Node]
    slots: dict[Node, int]
    code: list[Any]
    uses: list[int]


def linearise(roots: Sequence[Node], trace: int = 0, placeholders: Sequence[Node] = ()) -> Linear:
    """The graph behind `roots`, in execution order.

    Outside a capture (`trace` 0) it ends at nodes that have a value. Inside, it ends at the placeholders, which
    become the first inputs, and at every node older than the trace.
    """
    slots: dict[Node, int] = {}
    leaves: list[Node] = list(placeholders)
    order: list[Node] = []
    code: list[Any] = []
    uses: list[int] = []
    slot_of = slots.get
    for k, node in enumerate(placeholders):
        slots[node] = ~k
    for root in roots:
        if root in slots:
            continue
        if root.trace < trace if trace else root.value is not None:
            slots[root] = ~len(leaves)
            leaves.append(root)
            continue
        stack = [root]
        while stack:
            node = stack[-1]
            if node in slots:
                stack.pop()
                continue
            if node.op is ITEM and node.inputs[0].value is not None and not trace:
                node.value = node.inputs[0].value[node.params[0]]
                stack.pop()
                slots[node] = ~len(leaves)
                leaves.append(node)
                continue
            reads = []
            ready = True
            for i in node.inputs:
                slot = slot_of(i)
                if slot is None:
                    if i.trace < trace if trace else i.value is not None:
                        slot = slots[i] = ~len(leaves)
                        leaves.append(i)
                    else:
                        stack.append(i)
                        ready = False
                reads.append(slot)
            if not ready:
                continue
            stack.pop()
            slots[node] = len(order)
            order.append(node)
            code += (node.op, node.params, *reads)
            uses.append(0)
            for slot in reads:
                if slot >= 0:  # type: ignore[operator]
                    uses[slot] += 1  # type: ignore[index]
    return _linear((order, leaves, slots, code, uses))


_linear: Callable[[tuple], Linear] = partial(tuple.__new__, Linear)  # half of what calling the class costs


def alone(node: Node) -> Linear:
    """The stretch of graph that is this node, with its inputs, computed or not, for leaves."""
    leaves = list(dict.fromkeys(node.inputs))
    slots = {n: ~k for k, n in enumerate(leaves)}
    code = [node.op, node.params, *[slots[i] for i in node.inputs]]
    slots[node] = 0
    return Linear([node], leaves, slots, code, [0])


_programs: dict[tuple, Program] = {}


def intern(linear: Linear, out_slots: tuple[int, ...]) -> Program:
    """The Program with this structure and these outputs."""
    avals: list[Aval] = []
    scalars: list[int] = []
    for k, node in enumerate(linear.leaves):
        avals.append(node.aval)
        if node.op is SCALAR:
            scalars.append(k)
    key = (tuple(linear.code), tuple(avals), tuple(scalars), out_slots)
    program = _programs.get(key)
    if program is None:
        slots = linear.slots
        instructions = tuple((n.op, n.params, tuple([slots[i] for i in n.inputs])) for n in linear.order)
        out_avals = tuple([(linear.order[s] if s >= 0 else linear.leaves[~s]).aval for s in out_slots])
        program = Program(instructions, key[1], key[2], out_slots, out_avals)  # type: ignore[arg-type]  # all are ops
        while len(_programs) >= _PROGRAM_LIMIT:
            _programs.pop(next(iter(_programs)))
        program = _programs.setdefault(key, program)
    return program


def program_count() -> int:
    """How many programs are interned."""
    return len(_programs)


def clear_programs() -> None:
    """Forget the interned programs, and with them their executables."""
    _programs.clear()
