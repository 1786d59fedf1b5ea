"""Optimizers and schedules, compared with real MLX step by step, state included."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple

import numpy as np
import pytest

from tests.nn_oracle import OURS, REAL, check_on, ordered
from tests.oracle import ours, real, same

RNG = np.random.default_rng(1)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


PARAMETERS = {"w": normal(4, 3), "b": normal(3), "deep": [{"conv": normal(2, 2, 3), "scale": np.float32(0.7)}]}


def arrays(mx, tree, dtype=None):
    """Return NumPy arrays as the side's own."""
    if isinstance(tree, dict):
        return {k: arrays(mx, v, dtype) for k, v in tree.items()}
    if isinstance(tree, list):
        return [arrays(mx, v, dtype) for v in tree]
    x = mx.array(tree)
    return x if dtype is None else x.astype(getattr(mx, dtype))


OPTIMIZERS = [
    "SGD(0.1)",
    "SGD(0.1, momentum=0.9)",
    "SGD(0.1, momentum=0.9, weight_decay=0.1, dampening=0.2)",
    "SGD(0.1, momentum=0.9, nesterov=True)",
    "SGD(optim.linear_schedule(0.1, 0.01, 3))",
    "RMSprop(0.1)",
    "RMSprop(0.1, alpha=0.5, eps=1e-3)",
    "Adagrad(0.1)",
    "AdaDelta(0.1, rho=0.5, eps=1e-3)",
    "Adam(0.1)",
    "Adam(0.1, [0.5, 0.6], 1e-3, bias_correction=True)",
    "Adam(optim.cosine_decay(0.1, 3))",
    "AdamW(0.1, weight_decay=0.3)",
    "AdamW(0.1, bias_correction=True)",
    "Adamax(0.1)",
    "Lion(0.1)",
    "Lion(0.1, betas=(0.5, 0.6), weight_decay=0.2)",
    "Adafactor()",
    "Adafactor(0.1, relative_step=False, scale_parameter=False, weight_decay=0.1)",
    "Adafactor(beta_1=0.5, warmup_init=True)",
    "Muon(0.1)",
    "Muon(0.1, momentum=0.5, weight_decay=0.0, nesterov=False, ns_steps=2)",
    "MultiOptimizer([optim.SGD(0.1), optim.Adam(0.01)], [lambda path, g: g.ndim > 1 and path != 'w'])",
]


@pytest.mark.parametrize("build", OPTIMIZERS)
def test_steps(build: str) -> None:
    def run(mx, lib):
        optimizer = eval(f"optim.{build}", {"optim": lib.optim})
        parameters = arrays(mx, PARAMETERS)
        seen = []
        for step in range(3):
            gradients = lib.utils.tree_map(lambda p, k=step: mx.sin(3 * p + k), parameters)
            parameters = optimizer.apply_gradients(gradients, parameters)
            seen.append(ordered((parameters, dict(optimizer.state))))
        return seen, optimizer.learning_rate if "learning_rate" in optimizer.state else None

    check_on(run, tol=2e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("build", ["SGD(0.1, 0.9)", "Adam(0.1, bias_correction=True)", "Adafactor()", "Lion(0.1)"])
def test_half_precision_keeps_its_dtype(build: str, dtype: str) -> None:
    def run(mx, lib):
        optimizer = eval(f"optim.{build}", {"optim": lib.optim})
        parameters = arrays(mx, PARAMETERS, dtype)
        gradients = lib.utils.tree_map(lambda p: p * 0.5, parameters)
        parameters = optimizer.apply_gradients(gradients, parameters)
        return optimizer.apply_gradients(gradients, parameters), optimizer.state

    # Fused, XLA keeps intermediate values in float32; real MLX rounds after every op.
    check_on(run, tol=3e-2)


def test_update_of_a_model() -> None:
    """Compare updates with frozen parameters, a changed learning rate and an existing state."""

    def run(mx, lib, x):
        mx.random.seed(0)
        # Without a bias below BatchNorm: its gradient is rounding noise, which Adam would blow up.
        model = lib.nn.Sequential(lib.nn.Linear(3, 4, False), lib.nn.BatchNorm(4), lib.nn.ReLU(), lib.nn.Linear(4, 2))
        model.layers[3].freeze(keys="bias")
        optimizer = lib.optim.Adam(0.01)
        optimizer.init(model.trainable_parameters())
        before = str(lib.utils.tree_map(lambda s: s.shape, optimizer.state))
        step = lib.nn.value_and_grad(model, lambda x: mx.square(model(x)).mean())
        losses = []
        for rate in (0.01, 0.02, 0.03):
            optimizer.learning_rate = rate
            loss, gradients = step(x)
            optimizer.update(model, gradients)
            losses.append(loss)
        return losses, lib.utils.tree_flatten(model.parameters()), optimizer.state, before, optimizer.step

    check_on(run, normal(5, 3), tol=1e-4)


PATCHED = [
    ("instance", "apply_gradients"), ("instance", "apply_single"), ("kind", "apply_gradients"),
    ("kind", "apply_single"), ("kind", "init_single"), ("model", "update"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "name"), PATCHED)
def test_methods_that_were_replaced_are_called(place: str, name: str, monkeypatch) -> None:
    """Assert that replaced methods are called at every step, with MLX's arguments. Tests, loggers and clipping rely
    on it."""

    def run(mx, lib):
        model, optimizer = lib.nn.Linear(3, 2), lib.optim.Adam(0.1)
        model.weight = mx.ones((2, 3))
        gradients = {"weight": mx.ones((2, 3)), "bias": mx.ones(2)}
        optimizer.update(model, gradients)
        owner = {"instance": optimizer, "kind": lib.optim.Adam, "model": type(model)}[place]
        original, calls = getattr(owner, name), []

        def replacement(*args):
            calls.append([getattr(x, "shape", None) for x in args])
            return original(*args)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, replacement)
            for _ in range(2):
                optimizer.update(model, gradients)
            optimizer.init({**gradients, "more": mx.ones(1)})
        return model.parameters(), calls

    check_on(run)


def test_state_that_a_step_leaves_alone_is_the_same_array() -> None:
    """Assert that state which a step leaves unchanged is the same array, so that a compiled function may capture it."""

    def run(mx, lib):
        optimizer, p = lib.optim.SGD(0.1), {"w": mx.ones(3)}
        optimizer.init(p)
        slot = optimizer.state["w"]["v"]
        new = optimizer.apply_gradients({"w": mx.ones(3)}, p)
        return slot is optimizer.state["w"]["v"], mx.compile(lambda x: x + optimizer.state["w"]["v"])(p["w"]), new

    check_on(run)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("gradients", ["Pair(mx.ones(1), mx.ones(2))", "(mx.ones(1), mx.ones(2))"])
def test_tuples_of_gradients(gradients: str) -> None:
    """Assert that tuples of gradients work for trees, and that modules refuse them."""

    def run(mx, lib):
        value = eval(gradients, {"mx": mx, "Pair": Pair})
        optimizer, model = lib.optim.Adam(0.1), lib.nn.Module()
        new = optimizer.apply_gradients({"t": value}, {"t": value})
        model.t = list(value)
        try:
            lib.optim.SGD(0.1).update(model, {"t": value})
        except ValueError as error:
            return new, str(error), model.t
        return new

    check_on(run)


def test_weight_decay_of_integers_moves_them() -> None:
    """Assert that weight decay changes integers: the decayed gradient and the learning rate are floats."""

    def run(mx, lib):
        optimizer = lib.optim.SGD(0.1, momentum=0.9, weight_decay=0.01, dampening=0.1)
        parameters = {"a": mx.array([3, -2])}
        for _ in range(3):
            parameters = optimizer.apply_gradients({"a": mx.array([1, 2])}, parameters)
        return parameters, optimizer.state["a"]

    check_on(run)


def test_state_grows_with_the_parameters() -> None:
    def run(mx, lib):
        optimizer = lib.optim.SGD(0.1, 0.9)
        optimizer.init({"a": mx.ones(2), "l": [mx.ones(1)]})
        optimizer.state["a"]["v"] = mx.full((2,), 5.0)
        optimizer.init({"a": mx.ones(2), "l": [mx.ones(1), mx.ones(3)], "t": (mx.ones(1), {"x": mx.ones(2)})})
        return optimizer.state

    check_on(run)


def test_state_moves_through_a_file(tmp_path) -> None:
    """Assert that each library continues from a state that the other saved."""

    def run(mx, lib, steps, start=None, write=None):
        optimizer = lib.optim.AdamW(optimizer_rate(lib))
        parameters = arrays(mx, PARAMETERS)
        if start is not None:
            loaded = lib.utils.tree_unflatten(list(mx.load(start).items()))
            parameters, optimizer.state = loaded["p"], loaded["s"]
        for _ in range(steps):
            parameters = optimizer.apply_gradients(parameters, parameters)
        if write is not None:
            flat = lib.utils.tree_flatten({"p": parameters, "s": optimizer.state}, destination={})
            mx.save_safetensors(write, flat)
        return ordered((parameters, optimizer.state))

    def optimizer_rate(lib):
        return lib.optim.exponential_decay(0.1, 0.9)

    whole = run(real, REAL, 4)
    for writer, reader in [((real, REAL), (ours, OURS)), ((ours, OURS), (ours, OURS))]:
        path = str(tmp_path / f"{writer[0].__name__}.safetensors")
        run(*writer, 2, write=path)
        same(run(*reader, 2, start=path), whole, 1e-4)


def test_compiled_step() -> None:
    """Compare ``mx.compile`` with captured model and optimizer state, as in MLX's documentation."""

    def run(mx, lib, x):
        mx.random.seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Dropout(0.2), lib.nn.Linear(4, 1))
        optimizer = lib.optim.SGD(lib.optim.linear_schedule(0.1, 0.01, 4), momentum=0.8)
        optimizer.init(model.trainable_parameters())
        state = [model.state, optimizer.state, mx.random.state]

        def step(x):
            loss, gradients = lib.nn.value_and_grad(model, lambda m, x: mx.square(m(x)).mean())(model, x)
            optimizer.update(model, gradients)
            return loss

        compiled = mx.compile(step, inputs=state, outputs=state)
        losses = [compiled(x) for _ in range(4)]
        return losses, lib.utils.tree_flatten(model.parameters()), optimizer.state

    check_on(run, normal(5, 3), tol=1e-4)


SCHEDULES = [
    "exponential_decay(0.1, 0.9)",
    "step_decay(0.1, 0.9, 3)",
    "cosine_decay(0.1, 5, 0.01)",
    "linear_schedule(0.1, 0.3, 4)",
    "join_schedules([o.linear_schedule(0.0, 0.1, 3), o.cosine_decay(0.1, 4), o.step_decay(1, 0.5, 1)], [3, 6])",
]


@pytest.mark.parametrize("build", SCHEDULES)
def test_schedule(build: str) -> None:
    def run(mx, lib):
        schedule = eval(f"o.{build}", {"o": lib.optim})
        steps = [mx.array(k, mx.uint64) for k in range(8)]
        return [schedule(step) for step in steps], schedule(mx.array(2)), schedule(3)

    check_on(run)


CLIPPED = [
    lambda mx, f: f({"a": mx.array([3.0, 4.0]), "b": [mx.array([[12.0]])]}, 1.0),
    lambda mx, f: f({"a": mx.array([0.3, 0.4])}, 1.0),
    lambda mx, f: f({"a": mx.array([1, 2])}, 1),
    lambda mx, f: f({"a": mx.array([300.0, 200.0], dtype=mx.float16)}, 2),
    lambda mx, f: f({"a": mx.array([3.0, 2.0], dtype=mx.bfloat16), "b": mx.ones(2)}, 2),
    lambda mx, f: f({}, 1),
    lambda mx, f: f({"a": mx.ones(2)}, 0),
    lambda mx, f: f({"a": mx.ones(2)}, -1),
]


@pytest.mark.parametrize("call", CLIPPED)
def test_clip_grad_norm(call) -> None:
    check_on(lambda mx, lib: call(mx, lib.optim.clip_grad_norm))


MISTAKES = [
    "RMSprop(0.1, alpha=-1)", "RMSprop(0.1, eps=0)", "Adagrad(0.1, eps=0)", "AdaDelta(0.1, eps=0)",
    "AdaDelta(0.1, rho=-1)", "Adam(0.1, eps=-1)", "Adam(0.1, betas=[1.0, 0.9])", "AdamW(0.1, betas=[0.9, -0.1])",
    "Adamax(0.1, betas=(0.5, 1.0))", "Adamax(0.1, eps=-1)", "Lion(0.1, betas=[1, 0.9])", "SGD(0.1, nesterov=True)",
    "SGD(0.1, 0.9, 0, 0.1, nesterov=True)", "SGD(None)", "MultiOptimizer([o.SGD(0.1)], [1])",
    "MultiOptimizer([o.SGD(0.1), o.Adam(0.1)])", "MultiOptimizer([o.SGD(0.1)]).step",
    "MultiOptimizer.state.fset(o.MultiOptimizer([o.SGD(0.1)]), {})", "step_decay(1, 0.9, 0)", "cosine_decay(1, 0)",
    "linear_schedule(1, 0, 0)", "linear_schedule(1, 0, 0.5)", "step_decay(1, 0.9, 0.5)", "cosine_decay(1, 0.5)",
    "join_schedules([], [])", "join_schedules([o.linear_schedule(1, 0, 2)], [1])",
    "Optimizer().apply_single(1, 2, 3)", "Optimizer().init_single(1, 3)", "Optimizer().learning_rate",
    "SGD(lambda step: 0.1).apply_gradients({'w': mx.ones(2)}, {'w': mx.ones(2)})",
    "Adam(lambda step: (step,)).apply_gradients({'w': mx.ones(2)}, {'w': mx.ones(2)})", "AdaDelta(0.1, eps='a')",
    "Adafactor().learning_rate", "Muon(0.1)._zeropower_via_newtonschulz5(o.mx.ones(2), 1)",
    "SGD(0.1).init([mx.ones(2)])", "Adam(0.1).init((mx.ones(2),))", "Muon(0.1).apply_gradients([mx.ones(2)], [1.0])",
    *[
        f"{name}(0.1, betas={betas}).apply_gradients({{'w': mx.ones(2)}}, {{'w': mx.ones(2)}})"
        for name in ("Adam", "AdamW", "Adamax", "Lion")
        for betas in ([0.9], (0.9, 0.9, 0.9))
    ],
]  # fmt: skip


@pytest.mark.parametrize("call", MISTAKES)
def test_mistakes_raise_what_mlx_raises(call: str) -> None:
    def run(mx, lib):
        names = {k: getattr(lib.optim, k) for k in dir(lib.optim)} | {"mx": mx}
        return eval(f"o.{call}", {"o": type("Names", (), names), "mx": mx})

    assert isinstance(check_on(run), Exception)


@pytest.mark.parametrize("listed", ["inputs", "outputs", "both"])
@pytest.mark.parametrize("build", ["SGD(0.1)", "SGD(0.1, momentum=0.9)", "Adam(0.1)", "Muon(0.1)"])
def test_compiled_step_with_another_learning_rate(build: str, listed: str) -> None:
    def run(mx, lib):
        optimizer = eval(f"o.{build}", {"o": lib.optim})
        lists = {k: optimizer.state for k in ("inputs", "outputs") if listed in (k, "both")}
        step = mx.compile(lambda p, g: optimizer.apply_gradients(g, p), **lists)
        parameters, seen = {"w": mx.array([[1.0, 2.0]])}, []
        for k in range(4):
            try:
                parameters = step(parameters, {"w": mx.array([[0.5, 0.25]])})
                mx.eval(parameters)
            except RuntimeError as error:  # a state that is read must be among the outputs
                return [*seen, str(error).partition("primitive")[0]]
            seen.append(parameters["w"].tolist())
            optimizer.learning_rate = 0.1 * (k + 2)
        return seen

    check_on(run)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_compiled_step_without_the_optimizer_state_is_traced_again(name: str) -> None:
    """Compare a smaller last batch. The trace left a counter without value, which matters only if it is read."""

    def run(mx, lib):
        model = lib.nn.Linear(2, 1, bias=False)
        model.weight = mx.array([[0.5, -0.5]])
        optimizer = getattr(lib.optim, name)(0.1)

        def step(x):
            loss, gradients = lib.nn.value_and_grad(model, lambda m, x: m(x).sum())(model, x)
            optimizer.update(model, gradients)
            return loss

        compiled = mx.compile(step, inputs=model.state, outputs=model.state)
        seen = []
        for rows in (3, 2, 3):
            try:
                loss = compiled(mx.ones((rows, 2)))
                mx.eval(model.state)
                seen.append(loss.item())
            except RuntimeError as error:
                seen.append(str(error).partition("primitive")[0])
        return seen

    check_on(run)


def test_namespace() -> None:
    """Assert that every optimizer and schedule of real MLX exists with the same arguments and defaults."""
    import inspect

    compared = 0
    for name in dir(REAL.optim):
        thing = getattr(REAL.optim, name)
        if getattr(thing, "__module__", "").startswith("mlx.optimizers"):
            want = inspect.signature(thing).parameters
            got = inspect.signature(getattr(OURS.optim, name)).parameters
            assert [(p.name, p.default, p.kind) for p in got.values()] == [
                (p.name, p.default, p.kind) for p in want.values()
            ], name
            compared += 1
    assert compared == 18
    for name in ("Module", "tree_flatten", "tree_map", "tree_merge", "tree_reduce", "tree_unflatten"):
        assert getattr(OURS.optim, name) is getattr(OURS.nn if name == "Module" else OURS.utils, name)
        assert getattr(OURS.optim.optimizers, name) is getattr(OURS.optim, name)


PAIR = [normal(2), normal(2)]
NO_DICTIONARIES = {
    "nothing": [],
    "one": PAIR[:1],
    "two": PAIR,
    "three": [*PAIR, *PAIR[:1]],
    "a dictionary": [{"a": PAIR[0]}],
    "a dictionary and an array": [{"a": PAIR[0]}, PAIR[1]],
    "an array and a dictionary": [PAIR[1], {"a": PAIR[0]}],
    "a list": [PAIR],
    "an empty list": [[]],
}


@pytest.mark.parametrize("tree", NO_DICTIONARIES.values(), ids=NO_DICTIONARIES.keys())
@pytest.mark.parametrize("known", [{}, {"a": PAIR[0]}], ids=["new", "begun"])
@pytest.mark.parametrize("name", ["SGD", "Adafactor"])
def test_parameters_in_a_list(name, known, tree) -> None:
    """Compare the error for parameters in a list: it is a dictionary's, because the state is one."""

    def init(mx, lib):
        optimizer = getattr(lib.optim, name)(learning_rate=0.1)
        optimizer.init(arrays(mx, known))
        optimizer.init(arrays(mx, tree))

    check_on(init)


@pytest.mark.parametrize("second", [PAIR, PAIR[:1], {"b": PAIR[0]}, PAIR[0]], ids=["two", "one", "a tree", "an array"])
@pytest.mark.parametrize("first", [PAIR, PAIR[:1], {"b": PAIR[0]}, PAIR[0]], ids=["two", "one", "a tree", "an array"])
def test_parameters_that_change(first, second) -> None:
    def init(mx, lib):
        optimizer = lib.optim.SGD(learning_rate=0.1)
        for tree in (first, second):
            optimizer.init({"a": arrays(mx, tree)})
        return ordered(optimizer.state)

    check_on(init)


@pytest.mark.parametrize("build", [b for b in OPTIMIZERS if not any(f in b for f in ("linear_", "cosine_", "lambda"))])
def test_moves_with_its_state(build: str) -> None:
    """Assert that an optimizer keeps its state through pickle, copy, and assignment of its attributes to a new one."""

    def run(mx, lib):
        def step(optimizer, k):
            gradients = lib.utils.tree_map(lambda p: mx.sin(3 * p + k), parameters)
            return ordered((optimizer.apply_gradients(gradients, parameters), dict(optimizer.state)))

        parameters = arrays(mx, PARAMETERS)
        first = eval(f"optim.{build}", {"optim": lib.optim})
        results = [step(first, 1)]
        filled = type(first).__new__(type(first))
        filled.__dict__.update(copy.deepcopy(vars(first)))
        for other in (pickle.loads(pickle.dumps(first)), copy.deepcopy(first), filled):
            results.append(step(other, 2))
        return results, sorted(vars(first)), step(copy.copy(first), 2)

    check_on(run, tol=2e-4)


@pytest.mark.parametrize("kind", ["AdamW", "Adamax", "Adam"])
def test_methods_of_bases_that_were_replaced_are_called(kind: str, monkeypatch) -> None:
    """Assert that replaced base methods are called through `super()`, also for an optimizer that has made a step."""

    def run(mx, lib):
        old, gradients, seen = getattr(lib.optim, kind)(0.1), {"a": mx.ones(2)}, []
        seen.append(old.apply_gradients(gradients, {"a": mx.zeros(2)}))
        original = lib.optim.Adam.apply_single
        with monkeypatch.context() as patch:
            patch.setattr(lib.optim.Adam, "apply_single", lambda self, g, p, state: original(self, -2 * g, p, state))
            for optimizer in (old, getattr(lib.optim, kind)(0.1), old):
                seen.append(optimizer.apply_gradients(gradients, {"a": mx.zeros(2)}))
        return [*seen, old.apply_gradients(gradients, {"a": mx.zeros(2)})]

    check_on(run)


@pytest.mark.parametrize(
    ("make", "slot"),
    [
        ("Adam(0.1)", "m"), ("Adam(0.1)", "v"), ("AdamW(0.1)", None), ("Adamax(0.1)", "m"), ("Adamax(0.1)", None),
        ("AdaDelta(0.1)", "v"), ("AdaDelta(0.1)", None), ("Adafactor()", "exp_avg_sq_row"), ("Adafactor()", None),
        ("SGD(0.1, momentum=0.9)", None), ("Lion(0.1)", None), ("Muon(0.1)", None), ("RMSprop(0.1)", None),
    ],
)  # fmt: skip
def test_an_update_of_an_incomplete_state_names_its_first_missing_slot(make: str, slot: str | None) -> None:
    """Assert that a state of another optimizer raises the same error, and stays unchanged."""

    def run(mx, lib):
        optimizer = eval(f"optim.{make}", {"optim": lib.optim})
        state = {} if slot is None else {slot: mx.ones(2)}
        optimizer.init({})
        optimizer.state["step"] = mx.array(1)
        with pytest.raises((KeyError, TypeError)) as caught:
            optimizer.apply_single(mx.ones((2, 2)), mx.zeros((2, 2)), state)
        return caught.type.__name__, str(caught.value), state

    check_on(run)
