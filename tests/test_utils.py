"""Tree functions: the same results and errors as real MLX's, and round trips of random trees."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxcompat import utils
from tests.nn_oracle import check_on, ordered

P = namedtuple("P", "a b")
PAIR = {"pair": lambda *x: x, "P": P, "OD": OrderedDict, "DD": defaultdict}

CALLS = """\
tree_map(lambda x: x + 1, P(1, (2, 3)))
tree_map(lambda x: x + 1, (1, [2], OD(a=1), DD(int, b=2)))
tree_map(pair, {'a': 1, 'b': 2}, {'b': 3, 'a': 4, 'c': 3})
tree_map(pair, {'a': 1, 'b': 2}, {'b': 3})
tree_map(pair, [1, 2], [3])
tree_map(pair, [[1, 2], {}], [[3, 4], 5])
tree_map(pair, [1], [None])
tree_map(pair, None)
tree_map(sum, [[1, 2], [3, 4]], is_leaf=lambda x: isinstance(x[0], int))
tree_map_with_path(pair, {'a': [1, {'b': 2}], 'c': (3,)})
tree_map_with_path(pair, {'a': [1]}, {'a': [2]})
tree_map_with_path(pair, {'a': [1, {3: 2}]}, path='pre')
tree_map_with_path(pair, {'a': [1]}, path=7)
tree_map_with_path(pair, 4)
tree_map_with_path(pair, P(1, 2), path='')
tree_map_with_path(pair, {'a': [1, 2]}, is_leaf=lambda x: isinstance(x, list))
tree_flatten([[[0]]])
tree_flatten([[[0]]], prefix='.a')
tree_flatten({'a': (1, 2)}, prefix='p')
tree_flatten({'a': 1, 2: 3})
tree_flatten({'a': [], 'b': {}, 'c': ()})
tree_flatten(None)
tree_flatten(5, destination={})
tree_flatten({'a': (1, 2)}, destination={})
tree_flatten({'a': (1, 2)}, destination=[('x', 1)])
tree_flatten({'a': (1, 2)}, destination=5)
tree_flatten({'a': (1, 2)}, destination=())
tree_flatten({'a': (1, 2)}, is_leaf=lambda x: isinstance(x, tuple))
tree_flatten(P(1, 2), is_leaf=lambda x: True)
tree_unflatten([])
tree_unflatten({})
tree_unflatten([('', 5)])
tree_unflatten([('', 5), ('a', 3)])
tree_unflatten([('a.b', 3), ('a.c', 5)])
tree_unflatten({'a.2': 3, 'a.0': 5})
tree_unflatten({'0': 3, 'x': 5})
tree_unflatten({'a': 3, 'a.b': 5})
tree_unflatten([('a..b', 3)])
tree_unflatten([('-1', 3)])
tree_unflatten([('01', 1), ('1', 2), ('2', 3)])
tree_unflatten([('1', 1), ('01', 2)])
tree_unflatten([('a.01', 1), ('a.1', 2)])
tree_unflatten([('01', 1), ('2', 3)])
tree_unflatten([('+1', 1), ('0', 2)])
tree_unflatten([('1_0', 1)])
tree_unflatten([('01', 3)])
tree_unflatten([('1.0', 3)])
tree_unflatten((('a', 1),))
tree_unflatten(iter([('a', 1)]))
tree_unflatten([('a', 1, 2)])
tree_unflatten([[]])
tree_unflatten([{}])
tree_unflatten([(1, 2)])
tree_unflatten([(None, 2), ('a', 1)])
tree_unflatten(5)
tree_reduce(lambda a, x: a + x, {'a': [1, 2], 'b': 3}, 0)
tree_reduce(lambda a, x: a + x, {'a': [1, 2], 'b': 3})
tree_reduce(lambda a, x: a + x, {'a': []})
tree_reduce(lambda a, x: a + x, 5, 2)
tree_reduce(lambda a, x: a + len(x), {'a': [1, 2], 'b': [3]}, 0, is_leaf=lambda x: isinstance(x, list))
tree_reduce(pair, (1, [2, (3,)], {'z': 4}))
tree_merge({'a': {'x': 1}}, {'a': {'y': 2}})
tree_merge({'a': 1}, {'a': 2})
tree_merge({'a': 1}, {'a': 2}, lambda a, b: a + b)
tree_merge([1, 2], [3], pair)
tree_merge((1, None), [None, 4, 5])
tree_merge({}, 5)
tree_merge(5, [])
tree_merge({'a': 1}, [5])
tree_merge(None, None)
tree_merge({}, {})
tree_merge({'a': 1}, {'b': None})
tree_merge({'a': 1}, {'b': {}})
tree_merge({'a': 1}, {'b': []}, pair)
tree_merge({'a': None}, {'b': 1})
tree_merge([1], [2, None], pair)
tree_merge({}, [])
tree_merge({}, None)
tree_merge([{}, {'b': 1}], [{'c': 2}, {'d': 1}], pair)
tree_merge([{}, {}], [{}, 1])"""


@pytest.mark.parametrize("call", CALLS.splitlines())
def test_call(call: str) -> None:
    order = ordered if call.startswith("tree_merge") else lambda tree: tree
    check_on(lambda mx, lib: order(eval(f"u.{call}", {"u": lib.utils, **PAIR})), message=True)


trees = st.recursive(
    st.integers(),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_round_trips(tree) -> None:
    flat = utils.tree_flatten(tree)
    assert utils.tree_unflatten(flat) == tree
    assert utils.tree_unflatten(utils.tree_flatten(tree, destination={})) == tree
    assert utils.tree_map(lambda x: x, tree) == tree
    assert utils.tree_reduce(lambda n, _: n + 1, tree, 0) == len(flat)
    assert utils.tree_flatten(utils.tree_map_with_path(lambda path, x: (path, x), tree), is_leaf=is_pair) == [
        (path, (path or None, x)) for path, x in flat
    ]
    assert utils.tree_merge(tree, tree, lambda a, b: a + b) == utils.tree_map(lambda x: 2 * x, tree)


def is_pair(x) -> bool:
    return isinstance(x, tuple)
