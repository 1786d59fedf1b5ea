"""Functions that the tables' expressions may call, besides MLX.

Each takes the side's `mx`, its packages and the cell's dtype before its own arguments.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.nn_oracle import ordered, plain

__all__ = ["HELPERS", "counting"]


def counting(mx: Any, like: Any) -> Any:
    """Return 1, 2, 3, … in the shape and dtype of an array: a direction that distinguishes its elements."""
    return mx.arange(1, like.size + 1).reshape(like.shape).astype(like.dtype)


def _put(mx: Any, lib: Any, dtype: Any, x: Any, place: Any, value: Any) -> Any:
    """Return an array after an assignment."""
    x = mx.array(x)
    x[place] = value
    return x


def _inplace(mx: Any, lib: Any, dtype: Any, x: Any, operator: str, y: Any) -> Any:
    names = {"x": mx.array(x), "y": y}
    exec(f"x {operator} y", names)
    return names["x"]


def _net(mx: Any, lib: Any, dtype: Any, module: Any) -> Any:
    """Return a module with its parameters cast to the dtype, if it is a float."""
    if mx.issubdtype(dtype, mx.floating):
        module.set_dtype(dtype)
    return module


def _trained(mx: Any, lib: Any, dtype: Any, module: Any, *xs: Any) -> Any:
    """Return a module's parameter gradients, for an output weighted by 1, 2, 3, …"""

    def loss(*arguments: Any) -> Any:
        out = module(*arguments)
        return (out * counting(mx, out)).astype(mx.float32).sum()

    _net(mx, lib, dtype, module)
    gradients = lib.nn.value_and_grad(module, loss)(*xs)[1]
    return [g for _, g in sorted(lib.utils.tree_flatten(gradients))]


def _model(mx: Any, lib: Any, dtype: Any) -> Any:
    """Return a module with modules, lists and dicts of them, an array, a number and something private."""
    mx.random.seed(3)

    class Model(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = lib.nn.Linear(3, 4)
            self.layers = [lib.nn.Linear(4, 4), lib.nn.Linear(4, 4, bias=False)]
            self.named = {"norm": lib.nn.BatchNorm(4), "drop": lib.nn.Dropout(0.1)}
            self.scale = mx.array([1.0, 2.0])
            self.number = 3
            self._private = mx.array([5.0])

        def __call__(self, x: Any) -> Any:
            return self.layers[0](self.first(x))

    model = Model()
    model.set_dtype(dtype)
    return model


def _pair(mx: Any, lib: Any, dtype: Any) -> Any:
    return lib.nn.Sequential(lib.nn.Linear(64, 64), lib.nn.Linear(64, 8))


def _flat(mx: Any, lib: Any, dtype: Any, module: Any) -> list[tuple[str, Any]]:
    return lib.utils.tree_flatten(module.parameters())


def _reloaded(mx: Any, lib: Any, dtype: Any, module: Any, kind: str) -> Any:
    """Return the parameters of a module after it loads another's weights from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"w.{kind}")
        module.save_weights(path)
        other = _model(mx, lib, dtype)
        other.apply(lambda p: p * 0)
        other.load_weights(path)
        mx.eval(other.parameters())
    return plain(other.parameters())


def _stepped(mx: Any, lib: Any, dtype: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """Return parameters and state after four steps."""
    parameters = {"a": x, "b": [y[0]]}
    for k in range(4):
        gradients = {"a": y * (k + 1), "b": [x[0] - k]}
        parameters = optimizer.apply_gradients(gradients, parameters)
    return [parameters, ordered(plain(optimizer.state)), optimizer.learning_rate]


def _resumed(mx: Any, lib: Any, dtype: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """Return parameters and state after two steps, and two more with the state flattened and restored."""
    parameters = {"a": x, "b": [y[0]]}
    for k in range(4):
        if k == 2:
            optimizer.state = lib.utils.tree_unflatten(lib.utils.tree_flatten(optimizer.state))
        parameters = optimizer.apply_gradients({"a": y, "b": [x[0]]}, parameters)
    return [parameters, ordered(plain(optimizer.state))]


def _kept(mx: Any, lib: Any, dtype: Any, kind: str, x: Any, metadata: Any = None) -> Any:
    """Return an array after saving it to a file and loading it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"x.{kind.partition('-')[0]}")
        if kind == "npy":
            mx.save(path, x)
        elif kind.startswith("npz"):
            (mx.savez if kind == "npz" else mx.savez_compressed)(path, x, named=x)
        elif kind == "safetensors":
            mx.save_safetensors(path, {"x": x, "y": x}, metadata)
        else:
            mx.save_gguf(path, {"x": x}, metadata or {})
        out = mx.load(path, return_metadata=metadata is not None)
        mx.eval(out)
    return ordered(list(out) if isinstance(out, tuple) else out)


def _in_memory(mx: Any, lib: Any, dtype: Any, kind: str, x: Any) -> Any:
    """Return an array after saving it to a file object and loading it."""
    file = io.BytesIO()
    if kind == "npy":
        mx.save(file, x)
    elif kind == "npz":
        mx.savez(file, x)
    else:
        mx.save_safetensors(file, {"x": x})
    file.seek(0)
    out = mx.load(file, format=kind)
    mx.eval(out)
    return out


def _plain(mx: Any, lib: Any, dtype: Any, tree: Any) -> Any:
    return plain(tree)


def _ordered(mx: Any, lib: Any, dtype: Any, tree: Any) -> Any:
    return ordered(tree)


HELPERS: dict[str, Callable[..., Any]] = {
    "put": _put, "inplace": _inplace, "net": _net, "trained": _trained, "model": _model, "pair": _pair, "flat": _flat,
    "reloaded": _reloaded, "stepped": _stepped, "resumed": _resumed, "kept": _kept, "in_memory": _in_memory,
    "plain": _plain, "ordered": _ordered,
}  # fmt: skip
