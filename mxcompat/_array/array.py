"""The array handle: the object that a user holds.

A handle is a reference to a Node. `x += 1` and `x[i] = v` point the same handle at a new node. So every alias of the
handle sees the change, and results computed earlier keep the old value. Methods and operators that are ops are attached
by `_ops.methods`, from the op table; the others are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Dtype, aval, from_numpy
from mxcompat._graph.ir.node import Node, items, leaf
from mxcompat._graph.run.evaluate import evaluate, evaluated
from mxcompat._graph.run.placement import layout
from mxcompat._jax import is_array, jax, when_imported
from mxcompat._native import native

from . import convert, printing
from .construct import jax_node
from .device import Device
from .devices import default_device
from .errors import expected
from .handle import Handle
from .nest import nest_of, numbers

__all__ = [
    "ArrayIterator", "array", "exchange", "handles", "nodes_of", "plain_handle", "set_namespace", "wrap", "wrap_all",
]  # fmt: skip


class array(Handle):
    """An N-dimensional array, evaluated when its value is needed.

    Args:
        val: a number, a (nested) list or tuple of numbers and arrays, a NumPy or JAX array, or any object with
            `__dlpack__`, `__mlx_array__` or the buffer protocol. The data are copied unless they are immutable.
        dtype: the type of the elements. The default is the dtype of `val`, with double precision reduced to single. For
            Python numbers it is bool, int32 (int64 if a number needs it), float32 or complex64.

    Raises:
        ValueError: if the lists are ragged, or hold other objects.

    Example:
        >>> mx.array([[1, 2], [3, 4.5]])
        array([[1, 2],
               [3, 4.5]], dtype=float32)
    """

    __slots__ = ("__weakref__",)

    if TYPE_CHECKING:  # `typing.get_type_hints`, which users call on their subclasses, must not see this
        _node: Node

    def __init__(self, val: Any, dtype: Dtype | None = None) -> None:
        if dtype is not None and type(dtype) is not Dtype:
            raise expected("array", "a Dtype", dtype)
        self._node = numbers(val, dtype) or nest_of(val, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self._node.aval.shape

    @property
    def dtype(self) -> Dtype:
        """The type of the elements."""
        return self._node.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._node.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._node.aval.size

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self._node.aval.dtype.size

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self._node.aval.nbytes

    @property
    def sharding(self) -> jax.sharding.NamedSharding | None:
        """The layout of the array over a mesh of devices (`mx.ext.sharding`), or None for an array on one device.
        Evaluates the array."""
        evaluate([self._node])
        return layout(self._node.value)

    def item(self) -> bool | int | float | complex:
        """Return the only element as a Python number.

        Raises:
            ValueError: if the array does not have exactly one element.
        """
        return convert.item(_node_of(self, "item"))

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers, or a number if the array has no axes."""
        return convert.tolist(_node_of(self, "tolist"))

    def __repr__(self) -> str:
        return printing.render(self._node)

    def __format__(self, spec: str) -> str:
        return printing.formatted(self._node, spec)

    def __len__(self) -> int:
        if not self._node.aval.ndim:
            raise TypeError("len() 0-dimensional array.")
        return self._node.aval.shape[0]

    def __iter__(self) -> ArrayIterator:
        return entries(self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(convert.item(self._node))

    def __int__(self) -> int:
        return int(convert.item(self._node))

    def __float__(self) -> float:
        return float(convert.item(self._node))

    def __complex__(self) -> complex:
        return complex(convert.item(self._node))

    def __index__(self) -> int:
        return convert.index(self._node)

    def __bytes__(self) -> bytes:
        return convert.to_bytes(self._node)

    def __copy__(self) -> array:
        return wrap(self._node)

    def __deepcopy__(self, memo: dict) -> array:
        return wrap(self._node)

    def __getstate__(self) -> tuple:
        return convert.pickled(self._node)

    def __setstate__(self, state: tuple) -> None:
        self._node = convert.unpickled(state)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return convert.numpy(self._node, dtype, copy)

    def _computed(self) -> Any:
        return convert.value(self._node)

    def _memory(self, flags: int) -> tuple[memoryview, str | None]:
        return convert.memory(self._node, flags)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return convert.to_dlpack(self._node, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return convert.dlpack_device(self._node)

    def __jax_array__(self) -> Any:
        """Return the value as a JAX array, so that JAX functions accept mxcompat arrays."""
        return evaluated(self._node)

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return the namespace of the Python array API standard, `mxcompat.ext.array_api`.

        If mxcompat is installed in MLX's place, return `mlx.core`, as MLX does.

        Raises:
            ValueError: for an unsupported version of the standard; in MLX's place, for any version.
        """
        return _find_namespace(api_version)

    @property
    def device(self) -> Device:
        """The device that operations run on. All devices share one memory."""
        return default_device()

    def to_device(self, device: Any, /, *, stream: Any = None) -> array:
        """Return the same array; all devices share one memory."""
        if not isinstance(device, Device):
            raise TypeError(f"[to_device] Expected a Device, got {type(device).__name__}.")
        return wrap(self._node)


def set_namespace(find: Callable[[str | None], Any]) -> None:
    """Set the function that returns the namespace of arrays for a version of the array API standard. The namespace
    imports this module, so this module cannot import it."""
    global _find_namespace
    _find_namespace = find


_find_namespace: Callable[[str | None], Any]

array.__module__ = "mxcompat.core"


def _node_of(x: Any, method: str) -> Node:
    """Return the node of a method's `self`, which may be any object in `map(mx.array.item, xs)`."""
    if isinstance(x, array):
        return x._node
    raise expected(method, "an array", x)


_new = array.__new__


def _wrap(node: Node) -> Any:
    """Return a new handle to a node."""
    out = _new(array)
    out._node = node
    return out


def _handles(nodes: list[Node]) -> list[array]:
    """Return new handles to nodes."""
    return [_wrap(n) for n in nodes]


def _nodes_of(arrays: list[array]) -> list[Node]:
    """Return the nodes of arrays."""
    return [x._node for x in arrays]


def _exchange(arrays: list[array], old: list[Node], new: list[Node]) -> None:
    """Point each array that still refers to its old node at its new one."""
    for x, before, after in zip(arrays, old, new, strict=True):
        if x._node is before:
            x._node = after


if native:
    native.connect_arrays(array)

wrap: Callable[[Node], Any] = native.wrap if native else _wrap
handles: Callable[[list[Node]], list[array]] = native.handles if native else _handles
nodes_of: Callable[[list[array]], list[Node]] = native.nodes_of if native else _nodes_of
exchange: Callable[[list[array], list[Node], list[Node]], None] = native.exchange if native else _exchange


def plain_handle(x: array) -> array:
    """Return `x` as a plain `array`: a user's subclass may override `shape` or `__mul__`."""
    return x if type(x) is array else wrap(x._node)


def wrap_all(node: Node, first: int = 0) -> list[array]:
    """Return handles to the outputs of a node with several outputs, starting at output `first`."""
    return handles(items(node, first))


class ArrayIterator:
    """An iterator over the entries along an array's first axis.

    Example:
        >>> rows = iter(mx.array([[1, 2], [3, 4]]))
        >>> type(rows) is mx.ArrayIterator, next(rows)
        (True, array([1, 2], dtype=int32))
    """

    __slots__ = ("_entry", "_next", "_size")

    if TYPE_CHECKING:
        _entry: Callable[[int], array]
        _next: int
        _size: int

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.ArrayIterator: no constructor defined!")

    def __iter__(self) -> ArrayIterator:
        return _iterator(self._entry, self._next, self._size)  # return a new iterator at the same position

    def __next__(self) -> array:
        k = self._next
        if k >= self._size:
            raise StopIteration
        self._next = k + 1
        return self._entry(k)


def _iterator(entry: Callable[[int], array], first: int, size: int) -> ArrayIterator:
    iterator = object.__new__(ArrayIterator)
    iterator._entry, iterator._next, iterator._size = entry, first, size
    return iterator


def entries(x: array) -> ArrayIterator:
    """Return an iterator over the first axis. It does not see later changes to `x`."""
    node = x._node
    if not node.aval.ndim:
        raise TypeError("iter() 0-dimensional array.")
    size = node.aval.shape[0]
    data = node.value
    if type(data) is np.ndarray and not node.trace and node.aval.nbytes <= policy.SMALL_BYTES:
        of_one = aval(node.aval.shape[1:], node.aval.dtype)
        return _iterator(lambda k: wrap(leaf(data[k, ...].copy(), of_one)), 0, size)
    return _iterator(wrap(node).__getitem__, 0, size)  # type: ignore[attr-defined]


def _flatten(x: array) -> tuple[tuple[Any], None]:
    node = x._node
    return (node.value if node.aval is None else evaluated(node),), None


def _unflatten(_: None, children: Any) -> array:
    """Return a handle to the object that JAX puts in an array's place. If it is not an array, the node has no aval."""
    (value,) = children
    if is_array(value):
        return wrap(jax_node(value, from_numpy(value.dtype)))
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        promised = aval(tuple(value.shape), from_numpy(value.dtype))  # type: ignore[arg-type]
        return wrap(Node(None, (), (), promised, 0, value))
    return wrap(Node(None, (), (), None, 0, value))


when_imported(lambda: jax.tree_util.register_pytree_node(array, _flatten, _unflatten))
