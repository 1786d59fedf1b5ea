"""The order in which `einsum` contracts its operands: NumPy's greedy search, as MLX runs it.

Each step takes the pair that frees the most memory (and then the cheapest) among the pairs that share a label. If there
are none, it takes one of the pairs with the newest operand. The search stops when no pair stays within two limits: the
cost of contracting everything at once, and the size of the largest operand. Then the remaining operands are contracted
together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .einsum_notation import Equation, parse

__all__ = ["Contraction", "contraction_order", "describe"]


class Contraction(NamedTuple):
    """One contraction.

    Args:
        places: the indices of its operands in the current list of operands. Its result is appended to this list.
        labels: the labels of these operands.
        kept: the labels that the result has.
    """

    places: tuple[int, ...]
    labels: frozenset[str]
    kept: frozenset[str]


def _cost(labels: Collection[str], sums: bool, operands: int, sizes: dict[str, int]) -> int:
    """Return the number of multiplications and additions of one contraction."""
    return math.prod(sizes[c] for c in labels) * (max(1, operands - 1) + sums)


def _contraction(places: tuple[int, ...], terms: Sequence[frozenset[str]], output: frozenset[str]) -> Contraction:
    labels = frozenset().union(*[terms[p] for p in places])
    needed = output.union(*[t for k, t in enumerate(terms) if k not in places])
    return Contraction(places, labels, labels & needed)


def contraction_order(equation: Equation) -> list[Contraction]:
    """Return the contractions, in order."""
    return _order(equation.terms, equation.output, tuple(equation.sizes.items()))


@lru_cache(512)
def _order(labels: tuple[str, ...], result: str, pairs: tuple[tuple[str, int], ...]) -> list[Contraction]:
    sizes = dict(pairs)
    terms = [frozenset(t) for t in labels]
    output = frozenset(c for c in result if c in sizes)
    if len(terms) <= 2:
        return [_contraction(tuple(range(len(terms))), terms, output)]
    everything = _contraction(tuple(range(len(terms))), terms, output)
    naive = _cost(everything.labels, bool(everything.labels - everything.kept), len(terms), sizes)
    # a term with a repeated label counts all its axes
    limit = max(math.prod(sizes[c] for c in t) for t in (*labels, output))
    contractions: list[Contraction] = []
    spent = 0
    known: list[tuple[tuple[int, int], Contraction]] = []
    fresh = list(itertools.combinations(range(len(terms)), 2))
    while len(terms) > 1:
        touching = [p for p in fresh if terms[p[0]] & terms[p[1]]]
        known += _ranked(touching, terms, output, sizes, limit, naive - spent)
        if not known:
            known = _ranked(fresh, terms, output, sizes, limit, naive - spent)
        if not known:
            contractions.append(_contraction(tuple(range(len(terms))), terms, output))
            break
        rank, best = min(known, key=lambda entry: entry[0])
        contractions.append(best)
        spent += rank[1]
        terms = [t for k, t in enumerate(terms) if k not in best.places] + [best.kept]
        known = [(r, _reindexed(c, best.places)) for r, c in known if not set(c.places) & set(best.places)]
        fresh = [(k, len(terms) - 1) for k in range(len(terms) - 1)]
    return contractions


def _ranked(
    pairs: Iterable[tuple[int, int]], terms: Sequence[frozenset[str]], output: frozenset[str], sizes: dict[str, int],
    limit: int, budget: int,
) -> list[tuple[tuple[int, int], Contraction]]:  # fmt: skip
    """Return the pairs within the limits. Each has a rank: minus the freed memory, then the cost."""
    ranked = []
    for places in pairs:
        contraction = _contraction(places, terms, output)
        size = math.prod(sizes[c] for c in contraction.kept)
        cost = _cost(contraction.labels, bool(contraction.labels - contraction.kept), 2, sizes)
        if size <= limit and cost <= budget:
            freed = sum(math.prod(sizes[c] for c in terms[p]) for p in places) - size
            ranked.append(((-freed, cost), contraction))
    return ranked


def _reindexed(contraction: Contraction, removed: tuple[int, ...]) -> Contraction:
    """Return a contraction with its indices adjusted to the removal of the operands at the indices `removed`."""
    return contraction._replace(places=tuple([p - sum(g < p for g in removed) for p in contraction.places]))


def describe(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], str]:
    """Return the order, and MLX's text about its savings."""
    equation = parse(subscripts, shapes, "einsum_path")
    sizes = equation.sizes
    contractions = contraction_order(equation)
    everything = frozenset().union(*map(frozenset, equation.terms))
    summed = bool(everything - frozenset(equation.output))
    costs = []
    for contraction in contractions:
        dropped = contraction.labels - contraction.kept
        costs.append(_cost(contraction.labels, bool(dropped), len(contraction.places), sizes))
    lines = (
        f"  Complete contraction:  {subscripts}",
        f"         Naive scaling:  {len(everything)}",
        f"     Optimized scaling:  {max(len(c.labels) for c in contractions)}",
        f"      Naive FLOP count:  {_cost(everything, summed, len(shapes), sizes)}",
        f"  Optimized FLOP count:  {sum(costs)}",
    )
    return [c.places for c in contractions], "\n".join(lines) + "\n"
