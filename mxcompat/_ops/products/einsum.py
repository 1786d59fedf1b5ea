"""Einstein summation: `einsum` contracts two operands at a time, each pair by one matrix product or one elementwise
product.

The dtypes follow from the contractions: a sum widens small integers, and a matrix product needs floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import require_text, variadic
from ..define import op
from ..movement.diagonals import sum_dtype
from .einsum_notation import parse
from .einsum_path import Contraction, contraction_order, describe
from .matmul import common, inexact, precision, wide

__all__ = ["EINSUM", "at_once", "einsum", "einsum_path", "own_sums"]


def _einsum_aval(*avals: Aval, subscripts: str) -> Aval:
    equation = parse(subscripts, [a.shape for a in avals], "einsum")
    at_hand = [(a.dtype, t) for a, t in zip(avals, equation.terms, strict=True)]
    for contraction in contraction_order(equation):
        operands = [at_hand[p] for p in contraction.places]
        at_hand = [x for k, x in enumerate(at_hand) if k not in contraction.places]
        at_hand.append((_contraction_dtype(operands, contraction), "".join(sorted(contraction.kept))))
    dtype, labels = at_hand[0]
    if len(labels) < len(equation.output):
        raise ValueError(f"[transpose] Received {len(equation.output)} axes for array with {len(labels)} dimensions.")
    return aval(tuple([equation.sizes[c] for c in equation.output]), dtype)


def _contraction_dtype(operands: Sequence[tuple[Dtype, str]], contraction: Contraction) -> Dtype:
    """Return the dtype of a contraction's result. Raises MLX's error for a matrix product of integers."""
    dtypes = [d for d, _ in operands]
    if at_once(dtypes):
        dtype = reduce(promote, dtypes)
        return sum_dtype(dtype) if contraction.labels - contraction.kept else dtype
    shared = [c for c in contraction.labels - contraction.kept if sum(c in labels for _, labels in operands) > 1]
    summed = [sum_dtype(d) if own_sums(k, operands, contraction) else d for k, (d, _) in enumerate(operands)]
    return inexact(*summed) if shared else reduce(promote, summed)


def at_once(dtypes: Sequence[Dtype]) -> bool:
    """Return True if a contraction is one product of all its operands, followed by a sum.

    MLX does this when its search for an order gives up. The difference is visible only for integers, which have no
    matrix product. Floats get the same result with fewer operations.
    """
    return len(dtypes) > 2 and all(d._kind in "biu" for d in dtypes)


def own_sums(place: int, operands: Sequence[tuple[Any, str]], contraction: Contraction) -> list[str]:
    """Return the labels that occur only in this operand of a contraction, and not in its result."""
    others = {c for k, (_, labels) in enumerate(operands) if k != place for c in labels}
    return sorted(set(operands[place][1]) - contraction.kept - others)


def _einsum_impl(*xs: Any, subscripts: str) -> Any:
    equation = parse(subscripts, [jnp.shape(x) for x in xs], "einsum")
    at_hand = [(jnp.asarray(x), t) for x, t in zip(xs, equation.terms, strict=True)]
    for contraction in contraction_order(equation):
        operands = [at_hand[p] for p in contraction.places]
        at_hand = [x for k, x in enumerate(at_hand) if k not in contraction.places]
        at_hand.append(_contract(operands, contraction))
    x, labels = at_hand[0]
    x = jnp.transpose(x, [labels.index(c) for c in equation.output])
    return jnp.broadcast_to(x, [equation.sizes[c] for c in equation.output])


def _contract(operands: Sequence[tuple[Any, str]], contraction: Contraction) -> tuple[Any, str]:
    """Run one contraction: reduce each operand alone first, then multiply."""
    ready = []
    together = at_once([from_numpy(x.dtype) for x, _ in operands])  # type: ignore[arg-type]
    for k, (x, labels) in enumerate(operands):
        x, labels = _take_diagonals(x, labels)
        reduced = [] if together else own_sums(k, operands, contraction)
        ready.append(_total(x, labels, reduced) if reduced else (x, labels))
    if len(ready) == 1:
        return ready[0]
    while len(ready) > 2:  # if the search for an order gave up, multiply first and sum at the end
        ready[:2] = [_pair(ready[0], ready[1], contraction.labels)]
    x, labels = _pair(ready[0], ready[1], contraction.labels if together else contraction.kept)
    reduced = [c for c in labels if c not in contraction.kept]
    return _total(x, labels, reduced) if reduced else (x, labels)


def _total(x: Any, labels: str, reduced: Sequence[str]) -> tuple[Any, str]:
    """Return the sum over some labels."""
    dtype = sum_dtype(from_numpy(x.dtype))._numpy  # type: ignore[arg-type]
    total = jnp.sum(x, axis=tuple([labels.index(c) for c in reduced]), dtype=wide(dtype))
    return total.astype(dtype), "".join([c for c in labels if c not in reduced])


def _take_diagonals(x: Any, labels: str) -> tuple[Any, str]:
    """Return the array with each label on one axis only."""
    for c in sorted(set(labels)):
        while labels.count(c) > 1:
            first = labels.index(c)
            second = labels.index(c, first + 1)
            x = jnp.diagonal(x, axis1=first, axis2=second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + c
    return x, labels


def _pair(a: tuple[Any, str], b: tuple[Any, str], kept: Any) -> tuple[Any, str]:
    """Return the product of two operands, summed over their shared labels that are not kept."""
    (x, left), (y, right) = a, b
    dtype = common(x, y)
    x, y = x.astype(dtype), y.astype(dtype)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in kept]
    summed = [c for c in shared if c not in kept]
    if not summed:
        labels = "".join([*left, *[c for c in right if c not in left]])
        x = jnp.reshape(x, x.shape + (1,) * (len(labels) - len(left)))
        order = [right.index(c) for c in labels if c in right]
        places = [k for k, c in enumerate(labels) if c in right]
        shape = [1] * len(labels)
        for k, axis in zip(places, order, strict=True):
            shape[k] = y.shape[axis]
        return x * jnp.reshape(jnp.transpose(y, order), shape), labels
    sizes = {c: max(x.shape[left.index(c)], y.shape[right.index(c)]) for c in shared}
    sizes |= {c: 0 for c in shared if 0 in (x.shape[left.index(c)], y.shape[right.index(c)])}
    x, y = _stretched(x, left, sizes), _stretched(y, right, sizes)
    axes = [[labels.index(c) for c in group] for group in (summed, batch) for labels in (left, right)]
    numbers = ((axes[0], axes[1]), (axes[2], axes[3]))
    out = jax.lax.dot_general(x, y, numbers, precision=precision(dtype))
    return out, "".join([*batch, *[c for c in left if c not in shared], *[c for c in right if c not in shared]])


def _stretched(x: Any, labels: str, sizes: dict[str, int]) -> Any:
    """Return the array with its shared axes of size 1 repeated to their full size."""
    return jnp.broadcast_to(x, [sizes.get(c, n) for c, n in zip(labels, x.shape, strict=True)])


EINSUM = op("einsum", _einsum_impl, _einsum_aval, ("subscripts",))


def einsum(subscripts: str, *operands: array, stream: Any = None) -> array:
    """Return an Einstein summation: products of arrays, summed over axes with the same letter.

    Args:
        subscripts: for each operand a letter per axis, separated by commas, then `->` and the letters of the result.
            Without `->`, the result has the letters that occur once, in alphabetic order. `...` stands for further
            axes, which broadcast.
        *operands: the arrays.
        stream: accepted, and ignored.

    Returns:
        An array. A sum over a letter that two operands share is a matrix product, which needs floats.

    Raises:
        ValueError: if the subscripts are malformed or do not fit the shapes, or for a matrix product of integers.

    Example:
        >>> mx.einsum("bij,bjk->bik", mx.ones((5, 2, 3)), mx.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    check_stream(stream)
    require_text(subscripts, "einsum", "subscripts")
    nodes = variadic(operands, "einsum")
    if not nodes:
        raise ValueError("[einsum] At least one operand is required.")
    return wrap(apply(EINSUM, tuple(nodes), (subscripts,)))


def einsum_path(subscripts: str, *operands: array) -> tuple[list[tuple[int, ...]], str]:
    """Return the order in which `einsum` contracts its operands.

    Args:
        subscripts: as for `einsum`.
        *operands: the arrays. Only their shapes matter.

    Returns:
        A list of contractions, and a text on the cost. Each one holds the indices of the operands that it takes; its
        result goes to the end of the list of operands.

    Raises:
        ValueError: if the subscripts are malformed or do not fit the shapes.

    Example:
        >>> mx.einsum_path("ij,jk,kl->il", mx.ones((2, 3)), mx.ones((3, 50)), mx.ones((50, 4)))[0]
        [(1, 2), (0, 1)]
    """
    require_text(subscripts, "einsum_path", "subscripts")
    return describe(subscripts, [n.aval.shape for n in variadic(operands, "einsum_path")])
