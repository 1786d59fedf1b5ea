"""``Module``: the dictionary that is the base of all layers and users' models.

Arrays, dictionaries, lists and tuples that are assigned to a module become entries of the dictionary: its parameters
and sub-modules. Other values become ordinary attributes. All walks over the tree start here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import mxcompat.core as mx
from mxcompat._native import native
from mxcompat.nn.layers import _walk
from mxcompat.utils import tree_flatten, tree_unflatten

__all__ = ["Module"]

_ENTRY = (dict, list, mx.array)
"""Types that may hold parameters."""


def _is_floating(dtype: mx.Dtype) -> bool:
    return mx.issubdtype(dtype, mx.floating)


class Module(dict):
    """Base class of all layers and models.

    A subclass sets its arrays and sub-modules in ``__init__`` (after ``super().__init__()``) and computes in
    ``__call__``. Entries whose name starts with ``_`` are not parameters.

    Attributes:
        training: whether the module is in training mode (see :meth:`train`).
        state: the module itself, a tree that ``mx.compile`` and ``mx.eval`` accept.

    Example:
        >>> class MLP(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.layers = [nn.Linear(2, 8), nn.Linear(8, 1)]
        ...
        ...     def __call__(self, x):
        ...         return self.layers[1](nn.relu(self.layers[0](x)))
    """

    __call__: Callable

    def __init__(self) -> None:
        self._no_grad: set[str] = set()
        self._training = True

    @property
    def training(self) -> bool:
        """True if the module is in training mode."""
        return self._training

    @property
    def state(self) -> Module:
        """The module itself, with its parameters and all other entries."""
        return self

    def _extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        children = tree_flatten(self.children(), is_leaf=self.is_module)
        lines = [f"{type(self).__name__}({self._extra_repr()}"]
        lines += [textwrap.indent(f"({name}): {child!r}", "  ") for name, child in children]
        return "\n".join(lines) + ("\n)" if children else ")")

    def __getattr__(self, key: str) -> Any:
        value = self.get(key)
        if value is not None:
            return value
        # Repeat the ordinary lookup, to raise its error or the error of a property.
        return super().__getattribute__(key)

    def __setattr__(self, key: str, val: Any) -> None:
        if isinstance(val, (mx.array, dict, list, tuple)):
            if key not in self and hasattr(self, key):
                super().__delattr__(key)
            self[key] = val
        else:
            super().__setattr__(key, val)
            self.pop(key, None)

    def __delattr__(self, name: str) -> None:
        if self.get(name) is not None:
            del self[name]
        else:
            super().__delattr__(name)

    def load_weights(self, file_or_weights: str | list[tuple[str, mx.array]], strict: bool = True) -> Module:
        """Set the parameters from a file or from ``(path, array)`` pairs.

        Args:
            file_or_weights: the path of a ``.npz`` or ``.safetensors`` file, or a list of pairs.
            strict: require exactly the module's parameters, with their shapes. Otherwise unknown names are ignored and
                shapes are not checked.

        Returns:
            The module.

        Raises:
            ValueError: in strict mode, if names are missing or too many, a value is not an array, or a shape differs.
                The module is then unchanged.

        Example:
            >>> model = nn.Linear(2, 3)
            >>> model.save_weights("weights.safetensors")
            >>> model.load_weights("weights.safetensors").bias.shape
            (3,)
            >>> model.load_weights([("weight", mx.zeros((3, 2)))], strict=False).weight.sum()
            array(0, dtype=float32)
        """
        weights = file_or_weights
        if isinstance(weights, str):
            loaded: Any = mx.load(weights)
            weights = list(loaded.items())
        if strict:
            _walk.check_weights(tree_flatten(self.parameters(), destination={}), dict(weights))
        if len(weights) != 0:
            self.update(tree_unflatten(weights), strict=False)
        return self

    def save_weights(self, file: str) -> None:
        """Write the parameters to a ``.npz`` or ``.safetensors`` file, under their dotted paths.

        Args:
            file: the path; its extension selects the format.

        Raises:
            ValueError: for another file name extension.
        """
        weights = tree_flatten(self.parameters(), destination={})
        if file.endswith(".npz"):
            mx.savez(file, **weights)
        elif file.endswith(".safetensors"):
            mx.save_safetensors(file, weights)
        else:
            raise ValueError(f"Unsupported file extension for {file}. Use '.npz' or '.safetensors'.")

    @staticmethod
    def is_module(value: Any) -> bool:
        """Return True if ``value`` is a module."""
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module: Module, key: str, value: Any) -> bool:
        """Return True for entries that are or may hold modules."""
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """Return True for entries that are or may hold parameters. Names that start with ``_`` do not count."""
        return isinstance(value, _ENTRY) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """Return True for entries that are or may hold parameters that are not frozen."""
        return isinstance(value, _ENTRY) and not key.startswith("_") and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Callable[[Module, str, Any], bool],
        map_fn: Callable | None = None,
        is_leaf_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> dict[str, Any]:
        """Collect the entries that pass a filter, as a tree.

        Args:
            filter_fn: called as ``filter_fn(module, key, value)``; if false, the entry and everything below it are
                dropped.
            map_fn: applied to each leaf.
            is_leaf_fn: called like the filter; if true, the value is a leaf. By default, all values except modules,
                dictionaries and lists are leaves.

        Returns:
            Nested dictionaries and lists with the leaves.
        """
        if native and map_fn is None and is_leaf_fn is None and filter_fn in _PARAMETERS:
            parameters = native.parameters(self, filter_fn is Module.trainable_parameter_filter)
            if parameters is not None:
                return parameters
        return _walk.unwrap_module(self, filter_fn, map_fn, is_leaf_fn, Module)

    def parameters(self) -> dict[str, Any]:
        """Return all arrays of the module and its sub-modules, as a tree."""
        return self.filter_and_map(self.valid_parameter_filter)

    def trainable_parameters(self) -> dict[str, Any]:
        """Return the parameters that are not frozen, as a tree."""
        return self.filter_and_map(self.trainable_parameter_filter)

    def children(self) -> dict[str, Any]:
        """Return the direct sub-modules, as a tree."""
        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=lambda m, k, v: isinstance(v, Module))

    def leaf_modules(self) -> dict[str, Any]:
        """Return the sub-modules that have no sub-modules, as a tree."""

        def is_leaf(module: Module, key: str, value: Any) -> bool:
            return isinstance(value, Module) and not tree_flatten(value.children())

        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=is_leaf)

    def update(self, parameters: dict, strict: bool = True) -> Module:
        """Replace parameters by those of a tree, which may be incomplete. Shapes are not checked.

        Args:
            parameters: nested dictionaries and lists with arrays.
            strict: raise an error for names that the module does not have, and for values that are not arrays.
                Otherwise such names are ignored and such values accepted.

        Returns:
            The module.

        Raises:
            ValueError: in strict mode, if something does not fit. The module is then unchanged.
        """
        _walk.replace_parameters(self, parameters, strict)
        return self

    def apply(
        self,
        map_fn: Callable[[mx.array], mx.array],
        filter_fn: Callable[[Module, str, Any], bool] | None = None,
    ) -> Module:
        """Replace each parameter ``p`` by ``map_fn(p)``.

        Args:
            map_fn: from array to array.
            filter_fn: selects entries; by default all parameters.

        Returns:
            The module.

        Example:
            >>> nn.Linear(2, 3).apply(lambda p: p.astype(mx.float16)).weight.dtype
            mlx.core.float16
        """
        return self.update(self.filter_and_map(filter_fn or Module.valid_parameter_filter, map_fn))

    def update_modules(self, modules: dict, strict: bool = True) -> Module:
        """Replace sub-modules by those of a tree, which may be incomplete.

        Args:
            modules: nested dictionaries and lists with modules (``{}`` leaves a place as it is).
            strict: raise an error for entries that do not fit; otherwise they are ignored.

        Returns:
            The module.

        Raises:
            ValueError: in strict mode, if something does not fit. The module is then unchanged.
        """
        plan: _walk.Plan = []
        _walk.plan_modules(self, modules, strict, plan, Module)
        _walk.carry_out(plan)
        return self

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Module:
        """Call ``apply_fn(path, module)`` for this module (path ``""``) and all modules below it.

        Returns:
            The module.
        """
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            path, module = stack.pop()
            apply_fn(path, module)
            # the call may have changed the children, so look them up now
            prefix = f".{path}" if path else ""
            stack.extend(tree_flatten(module.children(), prefix=prefix, is_leaf=self.is_module))
        return self

    def modules(self) -> list[Module]:
        """Return this module and all modules below it."""
        result: list[Module] = []
        self.apply_to_modules(lambda _, module: result.append(module))
        return result

    def named_modules(self) -> list[tuple[str, Module]]:
        """Return ``(path, module)`` for this module (path ``""``) and all modules below it."""
        pairs: list[tuple[str, Module]] = []
        self.apply_to_modules(lambda path, module: pairs.append((path, module)))
        return pairs

    def _validate_keys(self, keys: str | list[str], strict: bool) -> list[str]:
        keys = keys if isinstance(keys, list) else [keys]
        if strict:
            for key in keys:
                if key not in self:
                    raise KeyError(f"Module doesn't contain member {key}.")
        return keys

    def _validate_keys_recursive(self, keys: str | list[str]) -> None:
        modules = self.modules()
        for key in keys if isinstance(keys, list) else [keys]:
            if not any(key in module for module in modules):
                raise KeyError(f"Module doesn't contain member {key}.")

    def freeze(self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False) -> Module:
        """Freeze parameters: remove them from the trainable parameters.

        Args:
            recurse: whether to include sub-modules.
            keys: the entries to freeze; by default all.
            strict: raise an error for a key that no module has.

        Returns:
            The module.

        Raises:
            KeyError: in strict mode, for an unknown key. The module is then unchanged.

        Example:
            >>> sorted(nn.Linear(2, 3).freeze(keys="bias").trainable_parameters())
            ['weight']
        """

        def visit(module: Module, strict: bool) -> None:
            names = keys
            if names is None:
                own = module.filter_and_map(
                    lambda m, k, v: not isinstance(v, Module) and m.valid_parameter_filter(m, k, v)
                )
                names = [name for name, _ in tree_flatten(own)]
            module._no_grad.update(module._validate_keys(names, strict))

        return _visit(self, visit, recurse, keys, strict)

    def unfreeze(self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False) -> Module:
        """Make parameters trainable again: the inverse of :meth:`freeze`, with the same arguments.

        Returns:
            The module.

        Raises:
            KeyError: in strict mode, for an unknown key. The module is then unchanged.
        """

        def visit(module: Module, strict: bool) -> None:
            if keys is None:
                module._no_grad.clear()
            else:
                module._no_grad.difference_update(module._validate_keys(keys, strict))

        return _visit(self, visit, recurse, keys, strict)

    def _set_training_mode(self, mode: bool) -> None:
        self._training = mode

    def train(self, mode: bool = True) -> Module:
        """Set this module and all modules below it to training mode, or to evaluation mode with ``mode=False``.

        Returns:
            The module.
        """
        return self.apply_to_modules(lambda _, module: module._set_training_mode(mode))

    def eval(self) -> Module:
        """Set this module and all modules below it to evaluation mode, and return the module."""
        return self.train(False)

    def set_dtype(self, dtype: mx.Dtype, predicate: Callable[[mx.Dtype], bool] | None = _is_floating) -> None:
        """Cast the parameters.

        Args:
            dtype: the new dtype.
            predicate: selects the dtypes to cast. By default these are the floating-point dtypes; ``None`` selects all.
        """
        chosen = predicate or (lambda _: True)
        self.apply(lambda x: x.astype(dtype) if chosen(x.dtype) else x)


def _visit(module: Module, visit: Callable[[Module, bool], None], recurse: bool, keys: Any, strict: bool) -> Module:
    """Call ``visit(module, strict)`` on the modules that ``freeze`` and ``unfreeze`` select. A key must exist in at
    least one of them."""
    if not recurse:
        visit(module, strict)
        return module
    if strict and keys is not None:
        module._validate_keys_recursive(keys)
        strict = False
    return module.apply_to_modules(lambda _, each: visit(each, strict))


_PARAMETERS = (Module.valid_parameter_filter, Module.trainable_parameter_filter)
"""The filters that the C module evaluates itself, without a call into Python."""

if native:
    native.connect_modules(Module)
