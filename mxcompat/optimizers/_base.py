"""The base of all optimizers: the state tree, its initialization, schedules, and the walk over gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mxcompat.core as mx
from mxcompat._transforms.trees import fill, like_tuple
from mxcompat.nn import Module
from mxcompat.optimizers._rule import Rule
from mxcompat.optimizers._walk import Leaf, gather
from mxcompat.utils import tree_flatten, tree_map, tree_merge, tree_unflatten

__all__ = [
    "LearningRate", "MultiOptimizer", "Optimizer", "SlotOptimizer", "blend", "blended", "check_value", "keep",
    "rate_of",
]  # fmt: skip

_PACKAGE = __name__.rpartition(".")[0] + "."

LearningRate = float | Callable[[mx.array], mx.array]


class Optimizer:
    """Base class of all optimizers. Subclasses define :meth:`init_single` and :meth:`apply_single`.

    The state is a tree. It has ``"step"`` (a uint64 scalar), scheduled values such as ``"learning_rate"`` (scalars),
    and for every parameter a dictionary of arrays, at the parameter's place in the model.

    Args:
        schedulers: functions from the step to a value of the state, by name.

    Raises:
        NotImplementedError: at the first update, if a subclass does not define both methods.
        KeyError, IndexError: at an update, for a gradient without a parameter in the same place.
        ValueError: at an update, for a gradient whose shape does not broadcast with its parameter's.

    Example:
        >>> model, optimizer = nn.Linear(2, 1), optim.SGD(learning_rate=0.1)
        >>> step = nn.value_and_grad(model, lambda x: mx.square(model(x) - 1).sum())
        >>> for _ in range(100):
        ...     loss, grads = step(mx.array([1.0, 2.0]))
        ...     optimizer.update(model, grads)
        ...     mx.eval(model.parameters(), optimizer.state)
        >>> loss.item() < 1e-6
        True
    """

    __slots__ = ("__dict__", "__weakref__", "_mx_rule")  # programs and pickle see only `__dict__`

    _mx_is_ours = False
    _mx_methods = ()
    """Names of methods. An optimizer class lists all of its methods, and each base class those that are overridden."""
    _mx_together = 12
    """Number of parameters that one node of the graph updates. A node with more would count as a large program."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._mx_is_ours = cls.__module__.startswith(_PACKAGE)
        cls._mx_methods = tuple(_defined(cls))

    def __init__(self, schedulers: dict[str, Callable] | None = None) -> None:
        self._initialized = False
        self._state: dict[str, Any] = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict((schedulers or {}).items())

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def update(self, model: Module, gradients: dict) -> None:
        """Apply the gradients to the model's parameters, in place.

        Args:
            model: the model.
            gradients: a tree like the model's trainable parameters, or a part of it.
        """
        usual = (_function(self.apply_gradients), _function(model.update)) == (_APPLY_GRADIENTS, _UPDATE)
        if not usual or not _computes_as_ours(self):
            model.update(self.apply_gradients(gradients, model))
            return
        places: list[tuple[Any, Any]] = []
        new = _step(self, gradients, model, places)
        fill(places, new)

    def init(self, parameters: dict) -> None:
        """Make the state for the parameters that have none. The first update does this if needed.

        Args:
            parameters: a tree of arrays whose root is a dictionary.

        Raises:
            IndexError, KeyError, TypeError: if the root is a list or tuple.
        """
        try:
            _grow(self, parameters, self._state)
            if isinstance(parameters, (list, tuple)):
                raise KeyError(0)
        except (IndexError, KeyError, TypeError) as error:
            if isinstance(parameters, (list, tuple)):
                error.add_note("An optimizer's state is a dictionary: give the parameters as one, {'name': array}.")
            raise
        self._initialized = True

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """Fill a parameter's (empty) state dictionary. Subclasses define this."""
        raise NotImplementedError()

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """Do one step and return the new parameters.

        Args:
            gradients: a tree of gradients.
            parameters: a tree with at least the entries of ``gradients`` (a module, for example).

        Returns:
            A tree like ``gradients``.
        """
        if not _computes_as_ours(self):
            _advance(self, gradients)
            return tree_map(self.apply_single, gradients, parameters, self.state)
        new = iter(_step(self, gradients, parameters, None))
        return tree_map(lambda _: next(new), gradients)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict) -> mx.array:
        """Return the new value of a parameter, and update its state dictionary. Subclasses define this."""
        raise NotImplementedError()

    @property
    def state(self) -> dict:
        """The state tree."""
        return self._state

    @state.setter
    def state(self, state: dict) -> None:
        self._initialized = False
        self._state = state

    @property
    def step(self) -> mx.array:
        """The number of steps done."""
        return self.state["step"]

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the last step, a scalar. It may be set to a number or an array."""
        return self.state["learning_rate"]

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        self.state["learning_rate"] = mx.array(learning_rate)

    def _maybe_schedule(self, name: str, param: LearningRate) -> None:
        """Put a value into the state: a constant, or a schedule with its first value."""
        if callable(param):
            self._schedulers[name] = param
            self.state[name] = param(self.step)
        else:
            self.state[name] = mx.array(param)


def _defined(kind: type) -> Iterator[tuple[type, tuple[str, ...]]]:
    """Yield the classes whose methods an optimizer may call, with the methods' names: the class itself with all
    methods, and its bases with overridden methods, which `super()` may call."""
    yield kind, tuple(sorted(filter(_is_method, dir(kind))))
    seen = {*vars(kind)}
    for base in kind.__mro__[1:-1]:
        hidden = sorted(filter(_is_method, seen & {*vars(base)}))
        if hidden:
            yield base, tuple(hidden)
        seen.update(vars(base))


def _is_method(name: str) -> bool:
    """Return True if a class attribute, such as a method or property, may change the result of a step."""
    return not name.startswith(("__", "_mx_"))


def _grow(optimizer: Optimizer, parameters: Any, state: Any) -> Any:
    """Extend ``state`` to the entries of ``parameters``. Dictionaries stay the same objects, because they may be the
    captured state of a compiled function."""
    if isinstance(parameters, dict):
        for key, child in parameters.items():
            state[key] = _grow(optimizer, child, state[key] if key in state else {})  # noqa: SIM401  a string?
    elif isinstance(parameters, (list, tuple)):
        known = list(state)
        known.extend({} for _ in range(len(parameters) - len(known)))
        grown = [_grow(optimizer, parameters[k], entry) for k, entry in enumerate(known)]
        return like_tuple(parameters, grown) if isinstance(parameters, tuple) else type(parameters)(grown)
    elif not state:
        optimizer.init_single(parameters, state)
    return state


def _computes_as_ours(optimizer: Optimizer) -> bool:
    """Return True if the optimizer is ours and no function of it has been replaced."""
    return optimizer._mx_is_ours and str(getattr(optimizer.apply_single, "__module__", "")).startswith(_PACKAGE)


def _advance(optimizer: Optimizer, gradients: dict) -> None:
    """Count a step, and update the scheduled values."""
    if not optimizer._initialized:
        optimizer.init(gradients)
    state, step = optimizer.state, optimizer.step
    for name, scheduler in optimizer._schedulers.items():
        state[name] = scheduler(step)
    state["step"] = step + 1


def _step(
    optimizer: Optimizer, gradients: dict, parameters: dict, places: list[tuple[Any, Any]] | None
) -> list[mx.array]:
    """Do one step and return the new parameters. Append the places of the old parameters in a module to ``places``."""
    _advance(optimizer, gradients)
    leaves: list[Leaf] = []
    if isinstance(gradients, (dict, list, tuple)):
        gather(gradients, parameters, optimizer.state, leaves, places)
    else:
        leaves.append((gradients, parameters, optimizer.state))
    return _rule(optimizer).apply(optimizer, leaves)


def _rule(optimizer: Optimizer) -> Rule:
    """Return the optimizer's Rule. It is made on first use, because the attributes may come from anywhere, such as a
    file."""
    try:
        return optimizer._mx_rule
    except AttributeError:
        optimizer._mx_rule = Rule()
        return optimizer._mx_rule


def _function(method: Any) -> Any:
    """Return the function of a bound method."""
    return getattr(method, "__func__", None)


_APPLY_GRADIENTS, _UPDATE = Optimizer.apply_gradients, Module.update


class SlotOptimizer(Optimizer):
    """An optimizer that keeps arrays like each parameter, called slots, which start at zero.

    ``_mx_slots`` has their names. :func:`keep` and :func:`blend` compute their next values.
    A rule with several slots reads all of them before it stores any, so that an incomplete state stays unchanged.
    """

    _mx_slots = ()

    def __init__(self, learning_rate: LearningRate) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)

    def init_single(self, parameter: mx.array, state: dict) -> None:
        """Set every slot to zeros like the parameter."""
        state.update((name, mx.zeros_like(parameter)) for name in self._mx_slots)


def rate_of(optimizer: Optimizer, gradient: mx.array) -> mx.array:
    """Return the learning rate, in the gradient's dtype."""
    return optimizer.learning_rate.astype(gradient.dtype)


def keep(state: dict, slot: str, value: mx.array) -> mx.array:
    """Store the slot's next value, and return it."""
    state[slot] = value
    return value


def blend(state: dict, slot: str, rate: float, new: mx.array) -> mx.array:
    """Update a slot that is a running mean, and return its next value."""
    return keep(state, slot, blended(state[slot], rate, new))


def blended(old: mx.array, rate: float, new: mx.array) -> mx.array:
    """Return the next value of a running mean: keep the share ``rate`` of it, and add the rest from ``new``."""
    return rate * old + (1 - rate) * new


def check_value(what: str, value: float, positive: bool = False) -> None:
    """Raise ValueError unless a value is positive, or at least not negative."""
    if value <= 0.0 if positive else value < 0.0:
        raise ValueError(f"{what} should be {'>0' if positive else '>=0'}, {value} was provided instead")


class MultiOptimizer(Optimizer):
    """A combination of several optimizers, each for its own parameters.

    Args:
        optimizers: the optimizers.
        filters: for all but the last, a function ``filter(path, gradient)``; a parameter goes to the first optimizer
            whose filter is true, else to the last one.

    Raises:
        ValueError: if the number of filters is not one less than the number of optimizers, or if a state of another
            form is set.

    Example:
        >>> both = optim.MultiOptimizer([optim.Muon(0.02), optim.AdamW(1e-3)], [lambda path, g: g.ndim == 2])
        >>> both.update(nn.Linear(2, 3), {"weight": mx.ones((3, 2)), "bias": mx.ones(3)})
    """

    def __init__(self, optimizers: list[Optimizer], filters: list[Callable] = []) -> None:  # noqa: B006
        super().__init__()
        self._state = {}
        if len(filters) != len(optimizers) - 1:
            raise ValueError(f"Given {len(filters)} filters but {len(optimizers) - 1} needed.")
        self.optimizers = optimizers
        self.filters = filters + [lambda *args, **kwargs: True]  # noqa: RUF005

    def _split_dictionary(self, gradients: dict) -> list[dict]:
        if len(self.optimizers) == 1:
            return [gradients]
        parts: list[list] = [[] for _ in self.optimizers]
        for path, gradient in tree_flatten(gradients):
            chosen = next(i for i, accepts in enumerate(self.filters) if accepts(path, gradient))
            parts[chosen].append((path, gradient))
        return [tree_unflatten(part) if part else {} for part in parts]

    def init(self, parameters: dict) -> None:
        """Make the state of every optimizer for its parameters."""
        for optimizer, part in zip(self.optimizers, self._split_dictionary(parameters), strict=True):
            optimizer.init(part)

    def apply_gradients(self, gradients: dict, parameters: dict) -> dict:
        """Do one step with every optimizer and return the new parameters, a tree like ``gradients``."""
        updated: dict = {}
        for optimizer, part in zip(self.optimizers, self._split_dictionary(gradients), strict=True):
            updated = tree_merge(updated, optimizer.apply_gradients(part, parameters))
        return updated

    @property
    def state(self) -> dict:
        """The optimizers' states, ``{"states": [...]}``."""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: dict) -> None:
        if "states" not in state or len(state["states"]) != len(self.optimizers):
            raise ValueError("Invalid state provided")
        for optimizer, part in zip(self.optimizers, state["states"], strict=True):
            optimizer.state = part

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimizer; setting it sets the rates of all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate
