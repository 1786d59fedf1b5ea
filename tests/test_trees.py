"""Trees of any nesting through the transforms, compared with real MLX."""

import sys
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mxcompat as mx
from tests.oracle import check

LEAF = st.integers(1, 4)
"""Strategy for leaves: a number that stands for an array filled with it."""


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
    """Return the tree with an array for each number."""
    if isinstance(tree, int):
        return mx.array(np.full((2,), tree, np.float32))
    if isinstance(tree, dict):
        return {k: arrays(mx, v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(arrays(mx, v) for v in tree)
    return tree


def total(mx, tree):
    """Return a sum that weighs each array by its place, so that swapped arrays show."""
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


class Pair(NamedTuple):
    a: Any
    b: Any = None


class Items(list):
    pass


class Things(dict):
    pass


class Row(tuple):
    pass


class Two(tuple):
    """A tuple whose constructor does not take its items."""

    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))


KINDS = {
    "named tuple": lambda x, y: Pair(x, y),
    "nested": lambda x, y: Pair(Pair(x, y), y),
    "in a list": lambda x, y: [Pair(x, y), x],
    "in a dict": lambda x, y: {"p": Pair(x, y)},
    "in a tuple": lambda x, y: (Pair(x, y),),
    "of others": lambda x, y: Pair(Items([x]), Things(a=y)),
    "list": lambda x, y: Items([x, y]),
    "dict": lambda x, y: Things(a=x, b=y),
    "ordered": lambda x, y: OrderedDict(b=x, a=y),
    "tuple": lambda x, y: Row([x, y]),
    "tuple that cannot be made": lambda x, y: Two(x, y),
    "with a number": lambda x, y: Pair(x, 3),
}


def described(tree):
    """Return the types of a tree's nodes."""
    if isinstance(tree, dict):
        return (type(tree).__name__, {k: described(v) for k, v in tree.items()})
    if isinstance(tree, (list, tuple)):
        return (type(tree).__name__, [described(v) for v in tree])
    return type(tree).__name__


def twice(mx, tree):
    """Return the tree with its arrays doubled."""
    if isinstance(tree, dict):
        return type(tree)({k: twice(mx, v) for k, v in tree.items()})
    if hasattr(tree, "_fields"):
        return type(tree)(*[twice(mx, v) for v in tree])
    if isinstance(tree, Two):
        return Two(*[twice(mx, v) for v in tree])
    return type(tree)(twice(mx, v) for v in tree) if isinstance(tree, (list, tuple)) else tree * 2


def compiled_twice(mx, function, tree):
    compiled = mx.compile(function)
    return compiled(tree), compiled(tree)


def ruled(mx, function, tree, seen):
    custom = mx.custom_function(function)
    custom.vjp(lambda *arguments: (seen.append(described(arguments)), arguments[0])[1])
    return mx.grad(lambda t: total(mx, custom(t)))(tree)


def replaced(mx, function, tree):
    state = {"x": tree}

    def step(w):
        state["x"] = function(state["x"])
        return w

    compiled = mx.compile(step, inputs=state, outputs=state)
    compiled(mx.array(1.0))
    compiled(mx.array(1.0))
    return state


THROUGH = {
    "grad": lambda mx, f, t, seen: mx.grad(lambda t: total(mx, f(t)))(t),
    "grad by name": lambda mx, f, t, seen: mx.grad(lambda t: total(mx, f(t)), argnames="t")(t=t),
    "not differentiated": lambda mx, f, t, seen: mx.grad(lambda w, t: w * total(mx, f(t)))(mx.array(1.0), t),
    "value_and_grad": lambda mx, f, t, seen: mx.value_and_grad(lambda t: (total(mx, t), f(t)))(t),
    "vmap": lambda mx, f, t, seen: mx.vmap(f)(t),
    "compile": lambda mx, f, t, seen: compiled_twice(mx, f, t),
    "checkpoint": lambda mx, f, t, seen: mx.checkpoint(f)(t),
    "custom_function": lambda mx, f, t, seen: mx.custom_function(f)(t),
    "rule": lambda mx, f, t, seen: ruled(mx, f, t, seen),
    "state": lambda mx, f, t, seen: replaced(mx, f, t),
}


# Real MLX takes only arrays as outputs of a function with a rule; numbers among them work here.
CASES = [(t, k) for t in THROUGH for k in KINDS if (t, k) != ("rule", "with a number")]


@pytest.mark.parametrize(("through", "kind"), CASES)
def test_types_of_trees_are_kept_where_mlx_keeps_them(through, kind):
    seen: dict[Any, list] = {}

    def run(mx, x, y):
        log = seen.setdefault(mx, [])

        def function(tree):
            log.append(described(tree))
            return twice(mx, tree)

        result = THROUGH[through](mx, function, KINDS[kind](x, y), log)
        log.append(described(result))
        return result

    check(run, np.ones(2, np.float32), np.full(2, 2, np.float32))
    first, second = seen.values()
    named = [str(log).replace("ArrayImpl", "array") for log in (first, second)]
    assert named[0] == named[1]


def nested(leaf, levels, kind):
    """Return a leaf within `levels` nested lists, tuples or dicts."""
    for _ in range(levels):
        leaf = [leaf] if kind is list else (leaf,) if kind is tuple else {"a": leaf}
    return leaf


def innermost(mx, tree):
    while not isinstance(tree, mx.array):
        (tree,) = tree.values() if isinstance(tree, dict) else tree
    return tree


@pytest.mark.parametrize("kind", [list, tuple, dict])
@pytest.mark.parametrize("levels", [400, 1000, 5000])
class TestDeepTrees:
    def test_eval(self, kind, levels):
        def both(mx, x):
            tree = nested(x * 2, levels, kind)
            mx.eval(tree)
            mx.async_eval(tree)
            return innermost(mx, tree)

        check(both, X)

    def test_grad(self, kind, levels):
        def both(mx, x):
            def loss(tree):
                return (innermost(mx, tree) ** 2).sum()

            tree = nested(x, levels, kind)
            value, gradient = mx.value_and_grad(loss)(tree)
            return value, innermost(mx, gradient), innermost(mx, mx.grad(loss)(tree))

        check(both, X)

    def test_value_and_grad_returns_it(self, kind, levels):
        def both(mx, x):
            (_, aux), gradient = mx.value_and_grad(lambda x: ((x**2).sum(), nested(x * 3, levels, kind)))(x)
            return innermost(mx, aux), gradient

        check(both, X)

    def test_compile(self, kind, levels):
        def both(mx, x):
            state = [nested(x, levels, kind)]
            through = mx.compile(lambda tree: nested(innermost(mx, tree) * 2, levels, kind))
            reads = mx.compile(lambda y: y + innermost(mx, state[0]), inputs=state)
            twice = innermost(mx, through(through(state[0])))
            return twice, reads(x), reads(x * 2)

        check(both, X)

    def test_vmap_and_checkpoint(self, kind, levels):
        def both(mx, x):
            tree = nested(x, levels, kind)

            def double(tree):
                return nested(innermost(mx, tree) * 2, levels, kind)

            return innermost(mx, mx.vmap(double)(tree)), innermost(mx, mx.checkpoint(double)(tree))

        check(both, X)

    def test_the_limit_of_recursion_is_as_before(self, kind, levels):
        before = sys.getrecursionlimit()
        mx.eval(nested(mx.ones((2,)), levels, kind))
        assert sys.getrecursionlimit() == before


X = np.array([1.0, 2.0, 3.0], np.float32)
