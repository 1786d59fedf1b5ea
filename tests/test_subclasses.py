"""Subclasses of layers and optimizers, with method names of their own and overridden private methods.

Names that only mxcompat's classes have must not collide with those of a subclass. MLX's private methods must exist
here, and be called.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.nn_oracle import OURS, REAL, check_on

OWN = "_mx_"
"""Prefixes of names that MLX's class lacks."""

CLASSES = sorted(
    (package, name)
    for package in ("nn", "optim")
    for name, value in vars(getattr(REAL, package)).items()
    if inspect.isclass(value) and value.__module__.startswith("mlx.")
)

INSTANCES: dict[str, Callable[[Any, Any], Any]] = {
    "Module": lambda nn, optim: nn.Module(),
    "Linear": lambda nn, optim: nn.Linear(4, 4),
    "Conv2d": lambda nn, optim: nn.Conv2d(2, 4, 3),
    "ConvTranspose1d": lambda nn, optim: nn.ConvTranspose1d(2, 4, 3),
    "Dropout2d": lambda nn, optim: nn.Dropout2d(0.5),
    "MaxPool2d": lambda nn, optim: nn.MaxPool2d(2),
    "BatchNorm": lambda nn, optim: nn.BatchNorm(4),
    "GroupNorm": lambda nn, optim: nn.GroupNorm(2, 4),
    "GELU": lambda nn, optim: nn.GELU("fast"),
    "QuantizedLinear": lambda nn, optim: nn.QuantizedLinear(64, 4),
    "QuantizedEmbedding": lambda nn, optim: nn.QuantizedEmbedding(4, 64),
    "QQLinear": lambda nn, optim: nn.QQLinear(64, 4),
    "MultiHeadAttention": lambda nn, optim: nn.MultiHeadAttention(4, 2),
    "TransformerEncoder": lambda nn, optim: nn.TransformerEncoder(1, 4, 2),
    "Transformer": lambda nn, optim: nn.Transformer(4, 2, 1, 1),
    "SinusoidalPositionalEncoding": lambda nn, optim: nn.SinusoidalPositionalEncoding(4),
    "RoPE": lambda nn, optim: nn.RoPE(4),
    "ALiBi": lambda nn, optim: nn.ALiBi(),
    "Upsample": lambda nn, optim: nn.Upsample(2),
    "GRU": lambda nn, optim: nn.GRU(2, 3),
    "LSTM": lambda nn, optim: nn.LSTM(2, 3),
    "Optimizer": lambda nn, optim: optim.Optimizer(),
    "SGD": lambda nn, optim: optim.SGD(0.1),
    "RMSprop": lambda nn, optim: optim.RMSprop(0.1),
    "Adam": lambda nn, optim: optim.Adam(0.1),
    "Adafactor": lambda nn, optim: optim.Adafactor(),
    "Muon": lambda nn, optim: optim.Muon(0.1),
    "MultiOptimizer": lambda nn, optim: optim.MultiOptimizer([optim.SGD(0.1)]),
}

OPTIMIZERS = [name for name in INSTANCES if hasattr(OURS.optim, name) and name != "Module"]


def _taken(names: set[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith((OWN, "__")))


@pytest.mark.parametrize(("package", "name"), CLASSES)
def test_classes_have_no_names_that_subclasses_might_use(package: str, name: str) -> None:
    real, ours = (getattr(getattr(side, package), name) for side in (REAL, OURS))
    assert _taken(set(dir(ours)) - set(dir(real))) == []


@pytest.mark.parametrize(("package", "name"), CLASSES)
def test_classes_have_the_names_that_subclasses_may_override(package: str, name: str) -> None:
    real, ours = (getattr(getattr(side, package), name) for side in (REAL, OURS))
    assert set(dir(real)) - set(dir(ours)) - {"__slotnames__"} == set()  # Python adds it if an instance is copied


@pytest.mark.parametrize("name", INSTANCES)
def test_instances_have_the_attributes_and_entries_that_subclasses_may_read(name: str) -> None:
    real, ours = (INSTANCES[name](side.nn, side.optim) for side in (REAL, OURS))
    assert set(vars(real)) - set(vars(ours)) == set()
    if isinstance(real, dict):
        assert list(ours) == list(real)


@pytest.mark.parametrize("name", INSTANCES)
def test_instances_have_no_attributes_that_subclasses_might_use(name: str) -> None:
    real, ours = (INSTANCES[name](side.nn, side.optim) for side in (REAL, OURS))
    assert _taken(set(vars(ours)) - set(vars(real))) == []


def test_a_model_may_check_and_walk_by_itself() -> None:
    def program(mx: Any, lib: Any) -> Any:
        class Model(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = lib.nn.Linear(2, 2)

            def _check_weights(self) -> None:
                raise RuntimeError("not asked for")

            def _walk_modules(self, depth: int) -> int:
                return depth

            def _for_frozen(self) -> bool:
                return False

        model = Model().freeze(keys="bias")
        model.load_weights([("inner.weight", mx.ones((2, 2))), ("inner.bias", mx.zeros(2))])
        return model.parameters(), [path for path, _ in model.named_modules()], sorted(model.inner._no_grad)

    check_on(program)


def test_a_model_decides_what_its_walks_reach() -> None:
    def program(mx: Any, lib: Any) -> Any:
        class Student(lib.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.student, self.teacher = lib.nn.Linear(2, 2), lib.nn.Linear(2, 2)

            def apply_to_modules(self, apply_fn: Any) -> Any:
                self.student.apply_to_modules(apply_fn)
                return self

        model = Student()
        walks = [path for path, _ in model.named_modules()], len(model.modules())
        return walks, sorted(model.freeze(keys="bias").trainable_parameters()["teacher"])

    check_on(program)


def test_an_attention_may_project_by_itself() -> None:
    def program(mx: Any, lib: Any, x: Any) -> Any:
        class Attention(lib.nn.MultiHeadAttention):
            def _project(self, x: Any) -> Any:
                return super().__call__(x, x, x)

        attention = Attention(4, 2)
        attention.apply(mx.ones_like)
        return attention._project(x)

    check_on(program, np.arange(12, dtype=np.float32).reshape(1, 3, 4) / 12)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_settings_of_optimizers_are_in_mlxs_order(name: str) -> None:
    def settings(side: Any) -> list[str]:
        return [each for each in vars(INSTANCES[name](side.nn, side.optim)) if not each.startswith("_")]

    assert settings(OURS) == settings(REAL)


def test_an_optimizer_may_have_a_rule_a_rate_and_a_step_of_its_own() -> None:
    def program(mx: Any, lib: Any) -> Any:
        class Warm(lib.optim.Adam):
            def __init__(self, rate: float) -> None:
                super().__init__(rate)
                self._rule, self._together = "warm", None

            def _rate(self) -> Any:
                return 2 * self.learning_rate

            def _step(self, gradients: Any) -> Any:
                return self.apply_gradients(gradients, {"w": mx.ones(2)})

            def _keep(self) -> None: ...

            def _blend(self) -> None: ...

        optimizer = Warm(0.1)
        return optimizer._rate(), optimizer._step({"w": mx.array([1.0, -2.0])}), optimizer.state

    check_on(program)


@pytest.mark.parametrize("compatible", [False, True])
def test_a_group_norm_may_standardize_by_itself(compatible: bool) -> None:
    def program(mx: Any, lib: Any, x: Any) -> Any:
        class Halved(lib.nn.GroupNorm):
            def _group_norm(self, x: Any) -> Any:
                return super()._group_norm(x) / 2

            def _pytorch_compatible_group_norm(self, x: Any) -> Any:
                return super()._pytorch_compatible_group_norm(x) / 3

        layer = Halved(2, 4, pytorch_compatible=compatible)
        layer.bias = mx.ones(4)
        return layer(x), layer._group_norm(x), layer._pytorch_compatible_group_norm(x)

    check_on(program, np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("tracking", [True, False])
@pytest.mark.parametrize("patched", [True, False])
def test_a_batch_norm_may_calculate_its_statistics(training: bool, tracking: bool, patched: bool) -> None:
    def program(mx: Any, lib: Any, x: Any) -> Any:
        seen = []

        def calculate(self: Any, x: Any, ddof: int = 0) -> Any:
            seen.append(ddof)
            return mx.median(x, axis=0), mx.abs(x).max(axis=0) - ddof

        with pytest.MonkeyPatch.context() as patch:
            cls = lib.nn.BatchNorm if patched else type("Robust", (lib.nn.BatchNorm,), {})
            patch.setattr(cls, "_calc_stats", calculate)
            layer = cls(3, track_running_stats=tracking).train(training)
            return layer(x), layer.parameters(), seen

    check_on(program, np.arange(12, dtype=np.float32).reshape(4, 3) ** 2)


POOLED = np.random.default_rng(1).normal(size=(2, 6, 7, 3)).astype(np.float32)


@pytest.mark.parametrize("settings", [(2,), (3, 1), ((2, 3), None, (0, 1)), (2, 2, 1)])
def test_a_pool_may_have_a_function_and_a_padding_of_its_own(settings: tuple) -> None:
    def program(mx: Any, lib: Any, x: Any) -> Any:
        seen = []

        def smallest(windows: Any, axes: Any) -> Any:
            seen.append((windows.shape, axes))
            return mx.min(windows, axes)

        pool = lib.nn.MaxPool2d(*settings)
        pool._pooling_function, pool._padding_value = smallest, 100.0
        return pool(x), seen, pool._kernel_size, pool._stride, pool._padding, pool._axes

    check_on(program, POOLED)


@pytest.mark.parametrize("settings", [(2,), (3, 2, 1), ((2, 3),), (0,), (2, 2, -1), ("2",)])
def test_a_pool_of_ones_own(settings: tuple) -> None:
    def program(mx: Any, lib: Any, x: Any) -> Any:
        base = inspect.getmodule(lib.nn.MaxPool2d)._Pool2d

        class LpPool2d(base):
            def __init__(self, *settings: Any) -> None:
                super().__init__(lambda w, axes: mx.sqrt(mx.square(w).sum(axes)), 0, *settings)

        pool = LpPool2d(*settings)
        return pool(x), repr(pool), isinstance(lib.nn.AvgPool2d(2), base)

    check_on(program, POOLED)


@pytest.mark.parametrize("recurse", [True, False])
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("keys", [None, "bias", ["weight"], "nowhere"])
def test_a_model_may_check_the_keys_that_are_frozen(recurse: bool, strict: bool, keys: Any) -> None:
    def program(mx: Any, lib: Any) -> Any:
        seen = []

        class Watched(lib.nn.Linear):
            def _validate_keys(self, keys: Any, strict: bool) -> Any:
                seen.append((keys, strict))
                return super()._validate_keys(keys, strict)

        model = lib.nn.Sequential(Watched(2, 2), Watched(2, 2, bias=False))
        model.gains = [mx.ones(2)]
        results = []
        for each, change in itertools.product((model.layers[0], model), ("freeze", "unfreeze")):
            try:
                getattr(each, change)(recurse=recurse, keys=keys, strict=strict)
            except KeyError as error:
                results.append(str(error))
            results.append([sorted(module._no_grad) for module in model.modules()])
        return results, seen

    check_on(program)


REPLACED: dict[tuple[str, str], Any] = {
    ("Muon", "_zeropower_via_newtonschulz5"): lambda self, X, steps: X * steps,
    ("Adafactor", "_compute_rms"): lambda self, inputs: 2 + inputs.sum() * 0,
    ("Adafactor", "_compute_learning_rate"): lambda self, step, parameter_rms: step * parameter_rms,
    ("SGD", "apply_single"): lambda self, gradient, parameter, state: parameter - 7 * gradient,
    ("SGD", "learning_rate"): property(lambda self: self.state["learning_rate"] * 5),
    ("Adam", "init_single"): lambda self, parameter, state: state.update(m=parameter, v=parameter),
}


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("of_all", [True, False])
@pytest.mark.parametrize(("name", "method"), REPLACED)
def test_a_method_of_an_optimizer_may_be_replaced_and_put_back(name: str, method: str, of_all: bool, step: int) -> None:
    def program(mx: Any, lib: Any, weight: Any) -> Any:
        optimizer = INSTANCES[name](lib.nn, lib.optim)
        new, steps = REPLACED[name, method], []
        parameters = {"weight": weight, "bias": weight[0]}
        with pytest.MonkeyPatch.context() as patch:
            for i in range(6):
                if i == step and (of_all or isinstance(new, property)):
                    patch.setattr(type(optimizer), method, new)
                elif i == step:
                    patch.setattr(optimizer, method, new.__get__(optimizer), raising=False)
                elif i == 4:
                    patch.undo()
                parameters = optimizer.apply_gradients({"weight": weight, "bias": weight[1]}, parameters)
                steps.append(parameters)
        return steps

    check_on(program, np.random.default_rng(2).normal(size=(3, 3)).astype(np.float32), tol=1e-4)  # Muon amplifies


def test_a_class_of_optimizers_may_be_given_attributes_for_a_while() -> None:
    def program(mx: Any, lib: Any) -> Any:
        optimizer, steps = lib.optim.RMSprop(0.1), []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lib.optim.RMSprop, "history", [], raising=False)
            steps.append(optimizer.apply_gradients({"w": mx.ones(2)}, {"w": mx.ones(2)}))
        steps.append(optimizer.apply_gradients({"w": mx.ones(2)}, {"w": mx.ones(2)}))
        return steps

    check_on(program)


@pytest.mark.parametrize("of_all", [True, False])
def test_the_matrix_of_alibi_is_the_classs(of_all: bool) -> None:
    def program(mx: Any, lib: Any, scores: Any) -> Any:
        seen = []
        plain = lib.nn.ALiBi.create_alibi_matrix

        def matrix(*args: Any, **options: Any) -> Any:
            seen.append((args, sorted(options)))
            return 2 * plain(*args, **options)

        with pytest.MonkeyPatch.context() as patch:
            cls = lib.nn.ALiBi if of_all else type("Steeper", (lib.nn.ALiBi,), {})
            patch.setattr(cls, "create_alibi_matrix", staticmethod(matrix))
            return cls()(scores, offset=1), seen

    check_on(program, np.ones((1, 2, 3, 4), np.float32))


READ: dict[str, tuple[int, ...]] = {
    "Linear(4, 3)": (2, 4),
    "Bilinear(4, 4, 3)": (2, 4),
    "Embedding(5, 4)": (2, 3),
    "Conv1d(4, 4, 2)": (1, 5, 4),
    "Conv2d(4, 4, 2)": (1, 5, 5, 4),
    "ConvTranspose1d(4, 4, 2)": (1, 5, 4),
    "InstanceNorm(4, affine=True)": (2, 3, 4),
    "LayerNorm(4)": (2, 4),
    "RMSNorm(4)": (2, 4),
    "GroupNorm(2, 4)": (2, 3, 4),
    "BatchNorm(4)": (3, 4),
    "BatchNorm(4).eval()": (3, 4),
    "QuantizedLinear(64, 8)": (2, 64),
    "QuantizedEmbedding(5, 64)": (2, 3),
    "PReLU()": (2, 4),
    "AllToShardedLinear(4, 3)": (2, 4),
    "ShardedToAllLinear(4, 3)": (2, 4),
}


@pytest.mark.parametrize("layer", READ)
def test_a_parameter_may_be_a_property(layer: str) -> None:
    """Compare parameters that are properties, as in weight normalization; layers read entries or attributes."""

    def program(mx: Any, lib: Any, x: Any) -> Any:
        seen = []

        def scaled(name: str) -> property:
            def write(self: Any, value: Any) -> None:
                seen.append(f"{name} is set")
                self[name] = value

            return property(lambda self: seen.append(name) or self[name], write)

        module = eval(f"nn.{layer}", {"nn": lib.nn})
        module.__class__ = type("Scaled", (type(module),), {name: scaled(name) for name in module})
        taken = module(mx.arange(x.size).reshape(x.shape) % 5 if "Embedding" in layer else x)
        called = sorted(set(seen))
        seen.clear()
        if hasattr(module, "as_linear"):
            module.as_linear(mx.ones((2, 64 if "Quantized" in layer else 4)))
        as_linear = sorted(set(seen))
        seen.clear()
        return taken.shape, called, as_linear, repr(module), sorted(set(seen))

    check_on(program, np.random.default_rng(3).normal(size=READ[layer]).astype(np.float32))
