"""The op record: what one operation is called, which parameters it has, and its plain properties.

How it is computed, differentiated or mapped is in the registries of `rules`, which are keyed by records. Records are
made in `_ops` and `_transforms`.
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
        name: MLX's name of it, also used in error messages.
        lowering: the op on JAX arrays, see `rules.LOWERING`.
        shape: what comes out, from the avals of what goes in, see `rules.SHAPE`. The answer is memoised.
        params: names of the static parameters, which must be hashable. What may change from call to call
            (a slice start, a scale) is an input instead: a scalar leaf, see `node.scalar`.
        indices: the position from which on the inputs are indices, with respect to which there is no gradient.
        in_place: whether the result is the first input but for a few elements, so that it is worth writing over it.
        smooth: which of the inputs a derivative may pass through.
        reads: which of the inputs it reads; of the others only the shape counts.
        draws: whether it draws random numbers, and so had better run before what reads them: XLA would draw again in
            each reader.
        uncacheable: whether the params of each call are like no other's (they hold a user's function, say), so that
            what has such a node had better not be remembered.
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
        """The result's aval(s) for `key = (params, *input avals)`; remembered in `memo`, if these may come again."""
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
            if len(self.memo) >= policy.MOST_INFERRED:
                self.memo.clear()
            self.memo[key] = result
        return result

    def lower(self, params: tuple, inputs: Sequence[Any]) -> Any:
        """The op on JAX values."""
        return LOWERING[self](*inputs, **dict(zip(self.params, params, strict=True)))

    def abstract(self, params: tuple, avals: Sequence[Aval]) -> Any:
        """The result's aval(s), of what the lowering gives: whatever that raises for params that it cannot take."""
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
