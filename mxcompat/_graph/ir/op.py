"""The op record: the name of an operation, its static parameters, and its plain properties.

Its lowering, derivatives and batching are in the registries of `rules`, keyed by records. Records are made in `_ops`
and `_transforms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._jax import jax

from .. import policy
from .aval import Aval, aval, from_numpy
from .rules import LOWERING, SHAPE

__all__ = ["Op"]


class Op:
    """One operation.

    Args:
        name: MLX's name for it, also used in error messages.
        lowering: the op on JAX arrays, see `rules.LOWERING`.
        shape: the result's avals from the operands' avals, see `rules.SHAPE`. Results are memoised.
        params: names of the static parameters, which must be hashable. A number that may change from call to call (a
            slice start, a scale) is an input instead: a scalar leaf, see `node.scalar`.
        indices: the position of the first input that is an index. Indices have no gradient.
        in_place: whether the result is the first input except for a few elements, so that an in-place update is
            worthwhile.
        smooth: the inputs that may have a derivative.
        reads: the inputs whose values are read. Only the shape of the others counts.
        draws: whether it draws random numbers. It should then run before its consumers, because XLA would draw the
            numbers again in each of them.
        uncacheable: whether the params are unique to each call (they hold a user's function, for example). Programs
            with such a node are not cached.
    """

    __slots__ = (
        "__weakref__",
        "draws",
        "in_place",
        "indices",
        "memo",
        "name",
        "params",
        "reads",
        "smooth",
        "uncacheable",
    )

    def __init__(
        self,
        name: str,
        lowering: Callable[..., Any],
        shape: Callable[..., Any] | None = None,
        params: tuple[str, ...] = (),
        *,
        indices: int | None = None,
        in_place: bool = False,
        smooth: slice = slice(None),
        reads: slice = slice(None),
        draws: bool = False,
        uncacheable: bool = False,
    ) -> None:
        self.name = name
        self.params = params
        self.indices = indices
        self.in_place = in_place
        self.smooth = smooth
        self.reads = reads
        self.draws = draws
        self.uncacheable = uncacheable
        self.memo: dict[tuple, Any] = {}
        LOWERING[self] = lowering
        if shape is not None:
            SHAPE[self] = shape

    def __repr__(self) -> str:
        return self.name

    def infer(self, key: tuple) -> Any:
        """Return the result's aval(s) for `key = (params, *input avals)`, and store them in `memo` unless the op is
        uncacheable."""
        params, *avals = key
        rule = SHAPE.get(self)
        try:
            if rule is None:
                result = self.abstract(params, avals)
            else:
                result = rule(*avals, **dict(zip(self.params, params, strict=True))) if params else rule(*avals)
        except OverflowError as error:
            raise OverflowError(f"[{self.name}] {error}") from None
        if not self.uncacheable:
            if len(self.memo) >= policy.MOST_ENTRIES:
                self.memo.clear()
            self.memo[key] = result
        return result

    def lower(self, params: tuple, inputs: Sequence[Any]) -> Any:
        """Run the op on JAX values."""
        return LOWERING[self](*inputs, **dict(zip(self.params, params, strict=True)))

    def abstract(self, params: tuple, avals: Sequence[Aval]) -> Any:
        """Return the result's aval(s) by tracing the lowering. Errors that the lowering raises for bad params pass
        through."""
        named = dict(zip(self.params, params, strict=True))
        with jax.enable_x64(True):
            structs = [jax.ShapeDtypeStruct(a.shape, a.dtype._numpy) for a in avals]
            out = jax.eval_shape(lambda *xs: LOWERING[self](*xs, **named), *structs)
        if isinstance(out, (tuple, list)):
            return tuple(_as_aval(o) for o in out)
        return _as_aval(out)


def _as_aval(struct: Any) -> Aval:
    dtype = from_numpy(struct.dtype)
    assert dtype is not None, f"no dtype for {struct.dtype}"
    return aval(struct.shape, dtype)
