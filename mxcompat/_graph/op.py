"""The op record: everything the library knows of one operation.

`impl` computes it on JAX arrays, `infer` says what comes out (or raises what MLX raises) from the avals alone.
Records are made in `_ops`; the graph only calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from .aval import Aval, aval, from_numpy

__all__ = ["Op"]

_MEMO_LIMIT = 4096


class Op:
    """One operation.

    Args:
        name: MLX's name of it, also used in error messages.
        impl: `impl(*inputs, **params)`, a pure function of JAX arrays (or NumPy scalars, where an input is a Python
            number baked into the program) that returns an array, or a tuple of them if the op has several outputs.
            It casts its inputs itself; its result has the dtype that `infer` promised.
        infer: `infer(*avals, **params)` returns the result's `Aval` (a tuple of them for several outputs) or raises
            MLX's error. Without it, `jax.eval_shape` of `impl` is used. Either way the answer is memoised.
        params: names of the static parameters, which must be hashable. What may change from call to call
            (a slice start, a scale) is an input instead: a scalar leaf, see `node.scalar`.
        indices: the position from which on the inputs are indices, with respect to which there is no gradient.
        in_place: whether the result is the first input but for a few elements, so that it is worth writing over it.
        specialise: `specialise(node, capture)`, called on each node of a body that a transform closes over, may rewrite
            the node into what it means under that transform (`capture.mode`), and says whether it did.
        early: whether it had better run before what reads it: XLA would compute a random draw again in each reader.
        host: set for ops that only move data, see `_ops/hosted.py`.
        pieces: set for ops that run a Program. `pieces(node)` gives nodes that compute the same in smaller steps, one
            for each result, or None if the op had better run as a whole.
        unique: whether the params of each call are like no other's (they hold a user's function, say), so that what
            has such a node had better not be remembered.
    """

    __slots__ = (
        "_infer", "early", "host", "impl", "in_place", "indices", "memo", "name", "params", "pieces", "specialise",
        "unique",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        impl: Callable[..., Any],
        infer: Callable[..., Any] | None = None,
        params: tuple[str, ...] = (),
        indices: int | None = None,
        in_place: bool = False,
        specialise: Callable[[Any, Any], bool] | None = None,
        unique: bool = False,
    ) -> None:
        self.unique = unique
        self.early = False
        self.host: Callable[..., Any] | None = None
        self.pieces: Callable[[Any], Sequence[Any] | None] | None = None
        self.in_place = in_place
        self.indices = indices
        self.specialise = specialise
        self.name = name
        self.impl = impl
        self.params = params
        self._infer = infer
        self.memo: dict[tuple, Any] = {}

    def __repr__(self) -> str:
        return self.name

    def infer(self, key: tuple) -> Any:
        """The result's aval(s) for `key = (params, *input avals)`; remembered in `memo`."""
        params, *avals = key
        named = dict(zip(self.params, params, strict=True))
        result = self._infer(*avals, **named) if self._infer else self._eval_shape(avals, named)
        if len(self.memo) >= _MEMO_LIMIT:
            self.memo.clear()
        self.memo[key] = result
        return result

    def lower(self, params: tuple, inputs: list) -> Any:
        """Run `impl` on JAX values."""
        if not params:
            return self.impl(*inputs)
        return self.impl(*inputs, **dict(zip(self.params, params, strict=True)))

    def _eval_shape(self, avals: list[Aval], named: dict[str, Any]) -> Any:
        with jax.enable_x64(True):
            structs = [jax.ShapeDtypeStruct(a.shape, a.dtype.numpy) for a in avals]
            out = jax.eval_shape(lambda *xs: self.impl(*xs, **named), *structs)
        if isinstance(out, (tuple, list)):
            return tuple(_as_aval(o) for o in out)
        return _as_aval(out)


def _as_aval(struct: Any) -> Aval:
    dtype = from_numpy(struct.dtype)
    assert dtype is not None, f"no dtype for {struct.dtype}"
    return aval(struct.shape, dtype)
