"""The C code for modules and optimizers behaves as its Python twins do."""

import copy

import pytest

import mxcompat.core as mx
import mxcompat.nn as nn
import mxcompat.optimizers as optim
from mxcompat._native import native
from mxcompat.nn.layers import _walk
from mxcompat.optimizers import _walk as steps

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")


class _Reversed(list):
    """A list that iterates from its end."""

    def __iter__(self):
        return iter(list.__getitem__(self, slice(None, None, -1)))


def _array():
    return mx.zeros((1,))


def _layer(**entries):
    module = nn.Module()
    for name, value in entries.items():
        module[name] = value
    return module


def _modules():
    yield nn.Module()
    yield nn.Linear(2, 3)
    yield nn.Sequential(nn.Linear(2, 2), nn.relu, nn.Sequential(nn.Linear(2, 1, bias=False)))
    yield nn.Linear(2, 2).freeze()
    part = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    part.layers[0].freeze(keys="bias")
    yield part
    yield nn.Transformer(4, 2, 1, 1, 8)
    inner = nn.Linear(1, 1)
    mixed = _layer(
        w=_array(), _hidden=_array(), t=(_array(),), n=3, d={"a": _array(), "_b": _array(), 3: inner, "x": 1, "s": "x"},
        l=[_array(), inner, [_array(), {}], None, (1, 2)], r=_Reversed([_array(), inner]), e={}, again=inner,
    )  # fmt: skip
    yield mixed
    frozen = copy.copy(mixed)
    frozen._no_grad = {"w", "l.0", "d.a", "l.2.0", "r", "n"}
    yield frozen
    odd = _layer(w=_array())
    odd._no_grad = ["w"]
    yield odd


@pytest.mark.parametrize("trainable", [False, True])
def test_parameters_are_collected_as_by_python(trainable):
    accept = nn.Module.trainable_parameter_filter if trainable else nn.Module.valid_parameter_filter
    for module in _modules():
        parameters = native.parameters(module, trainable)
        expected = _walk.unwrap_module(module, accept, None, None, nn.Module)
        assert repr(parameters) == repr(expected)
        assert _ids(parameters) == _ids(expected)


def _ids(tree):
    return [id(x) for _, x in nn.utils.tree_flatten(tree)]


def test_names_that_are_no_strings():
    module = _layer(w=_array())
    module[3] = _array()
    for collect in (
        lambda: native.parameters(module, False),
        lambda: _walk.unwrap_module(module, nn.Module.valid_parameter_filter, None, None, nn.Module),
    ):
        with pytest.raises(AttributeError, match="'int' object has no attribute 'startswith'"):
            collect()


def test_filters_of_a_subclass_are_asked():
    class Half(nn.Linear):
        @staticmethod
        def valid_parameter_filter(module, key, value):
            return key == "bias"

    class Whole(nn.Linear):
        def filter_and_map(self, filter_fn, map_fn=None, is_leaf_fn=None):
            return {"mine": _array()}

    assert [*Half(2, 2).parameters()] == ["bias"]
    assert [*Half(2, 2).trainable_parameters()] == ["weight", "bias"]
    assert [*Whole(2, 2).parameters()] == ["mine"]


def _updates():
    """Yield a module, an update for it, and True if the update is simple enough for C."""
    a = _array
    yield nn.Linear(2, 1), {"weight": a(), "bias": a()}, True
    yield nn.Linear(2, 1), {}, True
    yield nn.Sequential(nn.Linear(1, 1), nn.relu), {"layers": [{"weight": a()}, {}]}, True
    yield nn.Sequential(nn.Linear(1, 1), nn.relu), {"layers": []}, True
    yield _layer(d={"a": a(), "b": [a()]}, e={}), {"d": {"b": [a()]}, "e": {}}, True
    yield nn.Linear(2, 1), {"weight": 3}, False
    yield nn.Linear(2, 1), {"other": a()}, False
    yield nn.Linear(2, 1), {"bias": a(), "other": a()}, False
    yield nn.Linear(2, 1), [a()], False
    yield nn.Linear(2, 1), a(), False
    yield nn.Linear(2, 1), {"weight": {"w": a()}}, False
    yield nn.Sequential(nn.Linear(1, 1)), {"layers": [{}, {}]}, False
    yield nn.Sequential(nn.Linear(1, 1)), {"layers": [{"weight": a()}, {"weight": a()}]}, False
    yield nn.Sequential(nn.relu), {"layers": [[]]}, False
    yield _layer(t=(a(),)), {"t": (a(),)}, False


@pytest.mark.parametrize("strict", [False, True])
def test_parameters_are_replaced_as_by_python(strict):
    for module, new, simple in _updates():
        before = repr(_ids(module))
        outcomes = []
        for update in (lambda m, n: m.update(n, strict=strict), lambda m, n: _planned(m, n, strict)):
            own = _same(module)
            try:
                update(own, new)
            except (KeyError, TypeError, ValueError) as error:
                outcomes.append((type(error), str(error)))
            else:
                outcomes.append(_ids(own))
        assert outcomes[0] == outcomes[1], new
        own = _same(module)
        assert native.replace(own, new) is simple, new
        assert simple or repr(_ids(own)) == before


def _planned(module, new, strict):
    plan = []
    _walk.plan_parameters(module, new, strict, plan)
    _walk.carry_out(plan)


def _same(tree):
    """Return a copy of the tree with the same arrays."""
    if isinstance(tree, nn.Module):
        clone = copy.copy(tree)
        for key, value in tree.items():
            dict.__setitem__(clone, key, _same(value))
        return clone
    if isinstance(tree, dict):
        return {key: _same(value) for key, value in tree.items()}
    return [*map(_same, tree)] if isinstance(tree, list) else tree


def test_a_subclass_may_assign_in_its_own_way():
    seen = []

    class Watched(nn.Linear):
        def __setitem__(self, key, value):
            seen.append(key)
            super().__setitem__(key, value)

    module = Watched(2, 1)
    seen.clear()
    module.update({"bias": mx.ones((1,))})
    assert seen == ["bias"]
    assert module.bias.item() == 1


def _steps():
    """Yield gradients, parameters and states."""
    a = [_array() for _ in range(12)]
    yield {"w": a[0]}, {"w": a[1], "x": a[2]}, {"w": {"m": a[3]}}
    states = {"l": [{}, {"w": {"v": a[4]}}], "e": {}}
    yield {"l": [a[0], {"w": a[1]}], "e": {}}, {"l": [a[2], {"w": a[3]}], "e": {}}, states
    yield [a[0], (a[1],)], [a[2], (a[3],)], [{"m": a[4], "v": a[5]}, ({},)]
    yield _Reversed([a[0], a[1]]), [a[2], a[3]], [{}, {}]
    yield {"w": 3.0}, {"w": a[0]}, {"w": {}}
    yield {"w": a[0]}, {}, {}
    yield {"w": a[0]}, {"w": a[1]}, {}
    yield [a[0]], [], []
    yield (a[0],), (a[1],), ({},)
    yield {"w": (a[0],)}, {"w": (a[1],)}, {"w": ({},)}


@pytest.mark.parametrize("placed", [False, True])
def test_gradients_are_gathered_as_by_python(placed):
    for trees in _steps():
        outcomes = []
        for gather in (native.gather, steps._gather):
            leaves, places = [], [] if placed else None
            try:
                gather(*trees, leaves, places)
            except (KeyError, IndexError, ValueError) as error:
                outcomes.append((type(error), str(error)))
            else:
                outcomes.append(([[*map(id, leaf)] for leaf in leaves], places and [(id(c), k) for c, k in places]))
        assert outcomes[0] == outcomes[1]


def test_operands_and_results_as_by_python():
    a = [_array() for _ in range(6)]
    own = type("Own", (mx.array,), {})(1.0)
    for leaves in (
        [], [(a[0], a[1], {})], [(a[0], a[1], {"m": a[2], "v": a[3]}), (a[4], a[5], {"m": a[2]})],
        [(a[0], 1.0, {})], [(1.0, a[0], {})], [(a[0], a[1], {"m": 2})], [(a[0], a[1], a[2])], [(a[0], own, {})],
    ):  # fmt: skip
        operands = [native.operands(leaves), steps._operands(leaves)]
        assert repr(operands[0]) == repr(operands[1])
        if operands[0] is None:
            continue
        assert [*map(id, operands[0][0])] == [*map(id, operands[1][0])]
        results = [mx.array(float(k)) for k in range(8)]
        ends = []
        for assign in (native.assign, steps._assign):
            entries = [(g, p, dict(state)) for g, p, state in leaves]
            new = assign(entries, results)
            ends.append(([*map(id, new)], [[(k, id(v)) for k, v in state.items()] for _, _, state in entries]))
        assert ends[0] == ends[1]


def test_optimizers_do_the_same_without_c(monkeypatch):
    def trained():
        mx.random.seed(0)
        model, optimizer = nn.Sequential(nn.Linear(2, 3), nn.tanh, nn.Linear(3, 1)), optim.AdamW(0.1)
        step = nn.value_and_grad(model, lambda x: mx.square(model(x) - 1).mean())
        for _ in range(4):
            _loss, grads = step(mx.ones((2, 2)))
            optimizer.update(model, grads)
        return [x.tolist() for _, x in nn.utils.tree_flatten([model.parameters(), optimizer.state])]

    with_c = trained()
    for place, name in (("_rule", "operands"), ("_rule", "assign"), ("_base", "gather")):
        monkeypatch.setattr(f"mxcompat.optimizers.{place}.{name}", getattr(steps, f"_{name}"))
    for place in ("base", "_walk"):
        monkeypatch.setattr(f"mxcompat.nn.layers.{place}.native", None)
    assert trained() == with_c


def test_what_walks_over_modules_refuse():
    for function, args in (
        (native.parameters, ({}, False)),
        (native.parameters, (nn.Module(),)),
        (native.replace, ({},)),
        (native.gather, ({}, {}, {}, (), None)),
        (native.gather, (1, {}, {}, [], None)),
        (native.operands, ((),)),
        (native.assign, ([], ())),
    ):
        with pytest.raises(TypeError):
            function(*args)
    with pytest.raises(IndexError):
        native.assign([(1, 2, {"m": 3})], [4])
