"""Choose the donated input into whose buffer each output is written.

JAX pairs inputs and outputs of equal type in the order in which they come. XLA then copies an input that is read after
its output is written, or whose buffer holds an in-place update of another input. So each output is paired with the
input that it is an update of: the nearest input through elementwise operations and writes to a few elements.

AdamW on 8 arrays of 4 MB takes 26 to 33 ms of core time with this pass, and 82 to 121 ms without it (JAX 0.12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mxcompat._compat.dialects import ir

from .modules import COSTLY, FUSED, bodies, called

__all__ = ["pair_updates"]

_ALIAS = "tf.aliasing_output"
_WRITES = frozenset({"stablehlo.dynamic_update_slice", "stablehlo.scatter"})
"""Operations whose result is their first operand with some elements replaced."""


class _Origin(NamedTuple):
    """The number of the input that a value is an update of, and the number of operations between them."""

    steps: int
    argument: int


def pair_updates(module: Any) -> None:
    """Pair each donated input with its own update, in place in a StableHLO module."""
    functions = bodies(module)
    block = functions["main"]
    main = block.owner
    attributes = [{a.name: a.attr for a in of_one} for of_one in main.attributes["arg_attrs"]]
    jax_pairs = {k: ir.IntegerAttr(a[_ALIAS]).value for k, a in enumerate(attributes) if _ALIAS in a}
    if not jax_pairs:
        return
    *_, end = block.operations
    origins = _origins(block, {block.arguments[k]: _Origin(0, k) for k in jax_pairs}, functions)
    pairs = _paired(jax_pairs, [origins.get(value) for value in end.operands], [str(v.type) for v in end.operands])
    with module.context:
        kind = ir.IntegerType.get_signless(32)
        for k, output in pairs.items():
            attributes[k][_ALIAS] = ir.IntegerAttr.get(kind, output)
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])


def _paired(jax_pairs: Mapping[int, int], origins: Sequence[_Origin | None], types: Sequence[str]) -> dict[int, int]:
    """Return the output to write into each donated input.

    The output is the input's update if there is one, and otherwise an unused output of equal type.
    """
    pairs: dict[int, int] = {}
    near = sorted((origin, output) for output, origin in enumerate(origins) if origin is not None)
    for (_, argument), output in near:
        pairs.setdefault(argument, output)
    left = {kind: [k for k, t in enumerate(types) if t == kind and k not in pairs.values()] for kind in {*types}}
    return pairs | {k: left[types[output]].pop(0) for k, output in jax_pairs.items() if k not in pairs}


def _origins(block: Any, known: dict[Any, _Origin], functions: Mapping[str, Any]) -> dict[Any, _Origin]:
    """Return the origin of each value of a block that is an update of a donated input. `known` has the origins of the
    block's arguments."""
    for op in block.operations:
        function = called(op.operation)
        if function is not None:
            inner = functions[function]
            arguments = zip(inner.arguments, op.operands, strict=True)
            inside = _origins(inner, {a: known[x] for a, x in arguments if x in known}, functions)
            *_, end = inner.operations
            known.update((r, inside[x]) for r, x in zip(op.results, end.operands, strict=True) if x in inside)
            continue
        name = op.operation.name
        read = op.operands if name in FUSED or name in COSTLY else [*op.operands][:1] if name in _WRITES else ()
        for result in op.results:
            near = [known[x] for x in read if x in known and x.type == result.type]
            if near:
                steps, argument = min(near)
                known[result] = _Origin(steps + 1, argument)
    return known
