"""The declarations around a kernel's body: its parameters, and the position attributes of each thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .axes import Region
from .buffers import Memory
from .cuda import DYNAMIC
from .limits import CONSTANTS
from .places import CellPlace, ValuePlace
from .signature import Input, TemplateValue
from .types import BOOL, COMPLEX, FLOAT, INT, LONG, UINT, ScalarType, array_of, dtype_named, from_dtype, vector_of
from .values import Array, Pointer, Scalar, Struct, Vector, static

if TYPE_CHECKING:
    from .kernel import Kernel
    from .walk import Walk

__all__ = ["bind"]


def bind(
    walk: Walk, kernel: Kernel, region: Region, grid: Any, group: Any, inputs: list[Any], outputs: list[Any],
    moved: tuple[int, Scalar] | None = None,
) -> list[Memory]:  # fmt: skip
    """Declare all names of the kernel in the walk's outermost scope, and return the memory of the outputs.

    Args:
        moved: an axis, and the position along it at which the region begins in place of `region.first`.
    """
    names = walk.scope.names
    names[DYNAMIC] = ValuePlace(static(INT, kernel.signature.shared_memory))
    for name, value in CONSTANTS.items():
        names[name] = ValuePlace(value)
    for parameter in kernel.signature.template:
        names[parameter.name] = _template(parameter)
    signature = kernel.signature
    for of, data in zip(signature.inputs, inputs, strict=True):
        _input(walk, names, of, data)
    memories = []
    for of, data in zip(signature.outputs, outputs, strict=True):
        memory, pointer = _buffer(walk, of.name, of.dtype, data, False)
        names[of.name] = CellPlace(pointer.type, walk.cell(pointer))
        memories.append(memory)
    _positions(walk, names, kernel, region, grid, group, moved)
    return memories


def _template(parameter: TemplateValue) -> Any:
    if parameter.kind == "dtype":
        return from_dtype(dtype_named(str(parameter.value)))
    return ValuePlace(static(BOOL if parameter.kind == "bool" else INT, parameter.value))


def _buffer(walk: Walk, name: str, dtype: str, data: Any, const: bool) -> tuple[Memory, Pointer]:
    of = from_dtype(dtype_named(dtype))
    element: Any = of if isinstance(of, ScalarType) else COMPLEX.fields[0][1]
    memory = walk.memory(name, element, data, const)
    return memory, Pointer(of, memory, static(INT, 0))


def _input(walk: Walk, names: dict[str, Any], of: Input, data: Any) -> None:
    kind = from_dtype(dtype_named(of.dtype))
    if not of.is_reference:
        _, pointer = _buffer(walk, of.name, of.dtype, data, True)
        names[of.name] = CellPlace(pointer.type, walk.cell(pointer))
    elif kind is COMPLEX:
        parts = tuple([walk.n.make(FLOAT, data[k]) for k in range(2)])
        names[of.name] = ValuePlace(Struct(COMPLEX, parts))
    else:
        assert isinstance(kind, ScalarType)
        names[of.name] = ValuePlace(walk.n.make(kind, data))
    _constants(walk, names, f"{of.name}_shape", INT, of.shape)
    _constants(walk, names, f"{of.name}_strides", LONG, of.strides)
    names[f"{of.name}_ndim"] = ValuePlace(static(INT, len(of.shape)))


def _constants(walk: Walk, names: dict[str, Any], name: str, kind: ScalarType, values: Any) -> None:
    """Bind a name to an array of constants. In Metal, it is a pointer to constant memory."""
    if not values:
        values = (0,)
    whole = Array(kind, tuple([static(kind, v) for v in values]))
    place = CellPlace(array_of(kind, len(values)), walk.cell(whole, const=True))
    names[name] = place


def _positions(
    walk: Walk, names: dict[str, Any], kernel: Kernel, region: Region, grid: Any, group: Any, moved: Any
) -> None:
    axes = walk.axes

    def coordinate(axis: int, role: str, extent: int) -> Scalar:
        coefs = axes.coefs(role)
        if moved is not None and moved[0] == axis:
            first = moved[1]
            if not walk.space.traced:
                first = static(UINT, int(first.base))
            return walk.n.same_type("+", first, Scalar(UINT, 0, coefs, 0, extent - 1) if coefs else static(UINT, 0))
        first = region.first[axis]
        return Scalar(UINT, first, coefs, first, first + extent - 1) if coefs else static(UINT, first)

    def three(parts: Any) -> ValuePlace:
        return ValuePlace(Vector(vector_of(UINT, 3), tuple(parts)))

    def known(values: Any) -> ValuePlace:
        return three([static(UINT, v) for v in values])

    def one(value: Scalar) -> ValuePlace:
        return ValuePlace(value)

    n = walk.n
    if not kernel.together:
        walk.position = [coordinate(k, r, region.size[k]) for k, r in enumerate("xyz")]
        names["thread_position_in_grid"] = three(walk.position)
        names["threads_per_grid"] = names["grid_size"] = known(grid)
        return
    groups = [coordinate(k, f"g{r}", region.groups[k]) for k, r in enumerate("xyz")]
    threads = walk.threads(region)
    spread = [n.same_type("*", g, static(UINT, group[k])) for k, g in enumerate(groups)]
    position = [n.same_type("+", s, t) for s, t in zip(spread, threads.position, strict=True)]
    walk.position = position
    names["thread_position_in_grid"] = three(position)
    names["thread_position_in_threadgroup"] = three(threads.position)
    names["threadgroup_position_in_grid"] = three(groups)
    names["threads_per_grid"] = names["grid_size"] = known(grid)
    names["threads_per_threadgroup"] = known(region.size)
    names["dispatch_threads_per_threadgroup"] = known(group)
    counts = [-(-g // t) for g, t in zip(grid, group, strict=True)]
    names["threadgroups_per_grid"] = names["dispatch_threadgroups_per_grid"] = known(counts)
    names["thread_index_in_threadgroup"] = one(threads.index)
    names["thread_index_in_simdgroup"] = one(threads.lane)
    names["simdgroup_index_in_threadgroup"] = one(threads.simdgroup)
    total = region.size[0] * region.size[1] * region.size[2]
    names["simdgroups_per_threadgroup"] = one(static(UINT, -(-total // 32)))
    full = group[0] * group[1] * group[2]
    names["dispatch_simdgroups_per_threadgroup"] = one(static(UINT, -(-full // 32)))
    names["threads_per_simdgroup"] = names["thread_execution_width"] = one(static(UINT, 32))
    four = static(UINT, 4)
    axes.may_split = kernel.lanes and "quad" in kernel.source + kernel.header
    names["thread_index_in_quadgroup"] = one(n.binary("%", threads.lane, four))
    names["quadgroup_index_in_threadgroup"] = one(n.binary("/", threads.index, four))
    axes.may_split = True
    names["quadgroups_per_threadgroup"] = one(static(UINT, -(-total // 4)))
