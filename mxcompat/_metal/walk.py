"""The walk over a kernel: all its parts, and the functions that are built in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import bits as _bits  # noqa: F401  its functions are in the table
from . import packing as _packing  # noqa: F401  its functions are in the table
from .atomics import ATOMICS
from .axes import Region
from .buffers import Memory
from .check import BARRIERS, IGNORED
from .errors import Problem
from .functions import FUNCTIONS
from .loops import LoopWalk
from .masks import Frame
from .matrices import MATRIX_FUNCTIONS
from .numbers import Numbers
from .simd import SIMD
from .space import Space
from .special import SPECIAL
from .syntax import Call, Declarator, Name
from .types import UINT, VOID, ScalarType, Type, vector_of
from .values import FALSE, NoValue, Scalar, Value, static

if TYPE_CHECKING:
    from .kernel import Kernel

__all__ = ["Walk"]


class Threads(NamedTuple):
    """The position of a thread in its group.

    Args:
        position: along x, y and z.
        index: its number.
        lane: its number within 32.
        simdgroup: the number of its SIMD group.
    """

    position: list[Scalar]
    index: Scalar
    lane: Scalar
    simdgroup: Scalar


class Walk(LoopWalk):
    """The walk over a kernel."""

    functions = FUNCTIONS
    vector = staticmethod(vector_of)

    def __init__(
        self, space: Space, n: Numbers, kernel: Kernel, most_steps: int | None = None, checked: bool = False
    ) -> None:
        super().__init__(space, n)
        self.kernel, self.most_steps = kernel, most_steps
        self.checked = checked and not space.traced
        space.place = self._place_text
        self.position: list[Scalar] = []
        self.forms: dict[Any, Any] = {}
        self.instances: dict[Any, Type] = {}
        self.by_number: dict[int, Any] = {}
        self.groups: dict[Any, Any] = {}

    def _place_text(self) -> str:
        at = self.place_now
        return self.kernel.signature.name + (f": {at.part} line {at.line}" if at is not None else "")

    def start(self) -> None:
        """Walk the header and the body."""
        self.frame = Frame(VOID, self.cell(None), self.cell(FALSE))
        self.run_all(self.kernel.prelude)
        self.run_all(self.kernel.declared)
        with self.inner():
            self.run_all(self.kernel.body)

    def cell(self, value: Any, const: bool = False) -> Any:
        variable = super().cell(value, const)
        self.by_number[variable.number] = variable
        return variable

    def memory(self, name: str, element: ScalarType, data: Any, const: bool) -> Memory:
        """Return a new buffer."""
        self.cells += 1
        buffer = self.by_number[self.cells] = Memory(name, element, data, 0, self.cells, const)
        return buffer

    def group_variable(self, item: Declarator, of: Type) -> Any:
        if id(item) not in self.groups:
            self.groups[id(item)] = self.group_memory(item.name, of, 1)
        return self.groups[id(item)]

    def threads(self, region: Region) -> Threads:
        n, axes = self.n, self.axes
        sizes = [static(UINT, s) for s in region.size]
        flat = axes.coefs("tl")
        if flat:
            index = Scalar(UINT, 0, flat, 0, sum(c * (axes.extents[axis] - 1) for axis, c in flat))
            rest = n.same_type("/", index, sizes[0])
            position = [n.same_type("%", index, sizes[0]), n.same_type("%", rest, sizes[1])]
            position.append(n.same_type("/", rest, sizes[1]))
            total = region.size[0] * region.size[1] * region.size[2]
            self.mask = n.compare("<", index, static(UINT, total))
        else:
            position, index, stride = [], static(UINT, 0), 1
            for k, role in enumerate(("tx", "ty", "tz")):
                coefs = axes.coefs(role)
                one = Scalar(UINT, 0, coefs, 0, region.size[k] - 1) if coefs else static(UINT, 0)
                position.append(one)
                index = n.same_type("+", index, n.same_type("*", one, static(UINT, stride)))
                stride *= region.size[k]
        width = static(UINT, 32)
        if not self.kernel.lanes:
            axes.may_split = False
        lane, simdgroup = n.same_type("%", index, width), n.same_type("/", index, width)
        axes.may_split = True
        return Threads(position, index, lane, simdgroup)

    def builtin(self, function: Name, expression: Call, used: bool) -> Value:
        name = function.id
        if name in BARRIERS or name in IGNORED:
            return NoValue(VOID)
        atomic = ATOMICS.get(name)
        if atomic is not None:
            return atomic(self, expression, used)
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, expression)
        rule = FUNCTIONS.get(name) or SIMD.get(name) or MATRIX_FUNCTIONS.get(name)
        if rule is not None:
            values = [self.value(a) for a in expression.arguments]
            self.place_now = expression.at
            return rule(self, values)
        raise Problem(f"use of undeclared function {name!r}", expression.at)
