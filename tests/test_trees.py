"""Trees of any nesting through the transforms: the same trees come out as from real MLX."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import check

LEAF = st.integers(1, 4)
"""Stands for an array filled with this number."""


def nests(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.sampled_from("zay"), inner, max_size=3),
        ),
        max_leaves=6,
    )


def arrays(mx, tree):
    """The tree with an array for each number."""
    if isinstance(tree, int):
        return mx.array(np.full((2,), tree, np.float32))
    if isinstance(tree, dict):
        return {k: arrays(mx, v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(arrays(mx, v) for v in tree)
    return tree


def total(mx, tree):
    """A sum that weighs each array by its place, so that none can be taken for another."""
    leaves = []

    def visit(tree):
        if isinstance(tree, mx.array):
            leaves.append(tree)
        elif isinstance(tree, dict):
            for item in tree.values():
                visit(item)
        elif isinstance(tree, (list, tuple)):
            for item in tree:
                visit(item)

    visit(tree)
    out = mx.array(0.0)
    for k, leaf in enumerate(leaves):
        out = out + (k + 1) * (leaf * leaf).sum()
    return out


@settings(max_examples=25, deadline=None, database=None)
@given(nests(LEAF))
def test_gradients_have_the_tree_of_the_argument(tree):
    check(lambda mx: mx.value_and_grad(lambda t: total(mx, t))(arrays(mx, tree)))


@settings(max_examples=25, deadline=None, database=None)
@given(nests(LEAF), nests(st.one_of(LEAF, st.sampled_from(["s", None, 2.5]))))
def test_other_values_pass_through(tree, aux):
    def run(mx):
        extra = arrays(mx, aux)
        return mx.value_and_grad(lambda t: (total(mx, t), extra))([arrays(mx, tree)])

    check(run)


@settings(max_examples=25, deadline=None, database=None)
@given(nests(st.one_of(LEAF, st.sampled_from(["s", None, 2.5]))))
def test_compile_returns_the_tree(tree):
    check(lambda mx: mx.compile(lambda t: (t, total(mx, t)))(arrays(mx, tree)))


@settings(max_examples=25, deadline=None, database=None)
@given(nests(LEAF).filter(lambda t: "1" in str(t)), st.sampled_from([0, -1]))
def test_vmap_maps_over_every_array(tree, axis):
    check(lambda mx: mx.vmap(lambda t: [t, total(mx, t)], in_axes=axis, out_axes=axis)(arrays(mx, tree)))
