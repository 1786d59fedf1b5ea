"""Export of functions as StableHLO, to run elsewhere: `stablehlo`, `export` and `load`.

The format is that of `jax.export` for a function written for JAX. Servers, IREE and converters to other formats accept
it, and so does JAX without this library.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mxcompat._array.array import array, handles, nodes_of, wrap, wrap_all
from mxcompat._graph.ir.aval import Aval, aval, number
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import SCALAR, Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.ir.rules import SUBPROGRAMS
from mxcompat._graph.ir.trace_stack import modes_of
from mxcompat._graph.run.evaluate import evaluate
from mxcompat._jax import jax, jnp
from mxcompat._ops.random.state import state as random_state
from mxcompat._transforms.control.customs import close_specialized
from mxcompat._transforms.functions import check_callable
from mxcompat._transforms.trees import flatten
from mxcompat._transforms.vectorize import flat_axes

from .symbolic import SIZES, any_size, same_values

__all__ = ["Exported", "StableHLO", "export", "load", "stablehlo"]


class StableHLO(NamedTuple):
    """A function as StableHLO.

    Args:
        text: MLIR text, for people and for compilers that accept it.
        bytecode: the same as a portable artifact, which later versions of StableHLO can read, too.
    """

    text: str
    bytecode: bytes


class Exported:
    """A lazy function of trees of arrays that needs no Python source and can be written to a file.

    Args:
        exported: the object that `jax.export` made or read.
        vjp_order: the number of times that it can be differentiated; None for a loaded function, whose file stores the
            number.
    """

    def __init__(self, exported: jax.export.Exported, vjp_order: int | None = None) -> None:
        self.jax = exported
        self._vjp_order = vjp_order
        self._op = Op("exported", self._lowered)
        SUBPROGRAMS[self._op] = self._derivative

    def __call__(self, *args: Any) -> Any:
        """Call the function on arrays like those that it was exported for.

        Raises:
            ValueError: if the trees, shapes or dtypes differ. Also if it is differentiated more than `vjp_order` times,
                or in forward mode.
        """
        leaves, _ = _flatten(args, "exported")
        self._check(leaves, jax.tree.structure((args, {}), is_leaf=_is_array))
        results = wrap_all(apply(self._op, tuple(nodes_of(leaves))))
        return jax.tree.unflatten(self.jax.out_tree, results)

    def __repr__(self) -> str:
        return f"Exported({self.jax.fun_name}, {', '.join(map(str, self.jax.in_avals))})"

    def serialize(self) -> bytes:
        """Return the bytes that `load` and `jax.export.deserialize` read.

        Raises:
            ImportError: without the package flatbuffers (`pip install 'mxcompat[export]'`).
            ValueError: for a function that was loaded.
        """
        if self._vjp_order is None:
            raise ValueError("[exported] What was loaded is in its file already.")
        with jax.enable_x64(True):
            return bytes(self.jax.serialize(vjp_order=self._vjp_order))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the serialized function to a file."""
        Path(file).write_bytes(self.serialize())

    @property
    def stablehlo(self) -> StableHLO:
        """The function as StableHLO."""
        return StableHLO(self.jax.mlir_module(), self.jax.mlir_module_serialized)

    def _lowered(self, *arrays: Any) -> tuple[Any, ...]:
        args, kwargs = jax.tree.unflatten(self.jax.in_tree, [jnp.asarray(x) for x in arrays])
        return tuple(jax.tree.leaves(self.jax.call(*args, **kwargs)))

    def _derivative(self, params: tuple, active: set[int], transform: str) -> list:
        if transform == "JVP" or not (self.jax.has_vjp() if self._vjp_order is None else self._vjp_order):
            cure = "vjp_order=1" if transform == "VJP" else "grad or vjp instead of jvp"
            raise ValueError(f"[exported] Cannot calculate {transform}: it was exported without. Use {cure}.")
        return []

    def _check(self, leaves: Sequence[array], tree: Any) -> None:
        if tree != self.jax.in_tree:
            raise ValueError(f"[exported] Expected arguments of the tree {self.jax.in_tree}, got {tree}.")
        symbols: dict[Any, int] = {}
        for k, (x, expected) in enumerate(zip(leaves, self.jax.in_avals, strict=True)):
            fits = x._node.aval.dtype._numpy == expected.dtype and x.ndim == len(expected.shape)
            for n, m in zip(x.shape, expected.shape, strict=False):
                fits = fits and n == (m if isinstance(m, int) else symbols.setdefault(m, n))
            if not fits:
                raise ValueError(f"[exported] Array {k} of the arguments must be {expected}, not {x._node.aval}.")


def _is_array(x: Any) -> bool:
    return isinstance(x, array)


def _flatten(tree: Any, function: str) -> tuple[list[array], Any]:
    """Return the arrays of a tree in JAX's order, and the tree's structure."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=_is_array)
    for x in leaves:
        if not _is_array(x):
            raise ValueError(
                f"[{function}] Arguments and results must be trees of arrays, but there is a {type(x).__name__} in one."
            )
    return leaves, structure


def stablehlo(
    fun: Callable[..., Any], *args: Any, batch_axes: Any = None, platforms: Sequence[str] | None = None
) -> StableHLO:
    """Convert a function to StableHLO, for compilers that accept it: IREE, converters to CoreML, XLA.

    The arguments are those of `export`.

    Returns:
        The text and the bytecode.

    Raises:
        ValueError: as `export` does.

    Example:
        >>> module = mx.ext.stablehlo(mx.exp, mx.zeros((2, 3)))
        >>> "stablehlo.exponential" in module.text, len(module.bytecode) > 100
        (True, True)
    """
    return _exported("stablehlo", fun, args, batch_axes, 0, platforms).stablehlo


def export(
    fun: Callable[..., Any], *args: Any, batch_axes: Any = None, vjp_order: int = 0,
    platforms: Sequence[str] | None = None,
) -> Exported:  # fmt: skip
    """Convert a function to one that can be written to a file, and that runs without its Python source, also in later
    versions.

    Args:
        fun: takes and returns trees (of lists, tuples and dicts) of arrays. Arrays that it captures, the weights of a
            module for example, become constants.
        args: example arguments; only their shapes and dtypes count.
        batch_axes: the axes that may have any size, which is the same for all of them: an int, or a tree of ints and
            None, as for `vmap`. The function is run for three sizes, to find the numbers that depend on the size. With
            None, only the sizes of the examples are supported.
        vjp_order: the number of times that it can be differentiated in reverse mode. The rules of custom functions are
            included.
        platforms: the platforms to run on: "cpu", "cuda", "rocm" or "tpu". The default is JAX's platform here.

    Returns:
        A lazy function of the same arguments, with `save`, `serialize` and `stablehlo`. Its attribute `jax` is the
        object of `jax.export`.

    Raises:
        ValueError: if an argument or a result is not a tree of arrays; if `fun` draws random numbers without a key
            (every call would draw the same ones); if it uses host code; or if its graph depends on the size of the
            batch.

    Example:
        >>> f = mx.ext.export(lambda x: x * mx.array([1.0, 2.0]), mx.zeros((1, 2)), batch_axes=0, vjp_order=1)
        >>> again = mx.ext.load(f.serialize())
        >>> again(mx.ones((3, 2))).shape, mx.grad(lambda x: again(x).sum())(mx.ones((1, 2)))
        ((3, 2), array([[1, 2]], dtype=float32))
    """
    return _exported("export", fun, args, batch_axes, vjp_order, platforms)


def load(file: str | os.PathLike[str] | bytes) -> Exported:
    """Load a function that `export` or `jax.export` has written.

    Args:
        file: a path, or the bytes themselves.

    Raises:
        ValueError: if the data are not an exported function.
        ImportError: without the package flatbuffers (`pip install 'mxcompat[export]'`).

    Example:
        >>> data = mx.ext.export(lambda x: mx.exp(x).sum(), mx.zeros(3)).serialize()
        >>> mx.ext.load(data)(mx.zeros(3))
        array(3, dtype=float32)
    """
    data = bytes(file) if isinstance(file, (bytes, bytearray)) else Path(file).read_bytes()
    try:
        with jax.enable_x64(True):
            return Exported(jax.export.deserialize(bytearray(data)))
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"[load] This is no exported function: {error}") from error


class _Trace(NamedTuple):
    """The graph that a function builds for one size of the batch."""

    program: Program
    captured: list[Node]
    out_tree: Any


def _exported(
    name: str, fun: Callable[..., Any], args: tuple, batch_axes: Any, vjp_order: int, platforms: Sequence[str] | None
) -> Exported:
    check_callable(fun, name)
    leaves, tree = _flatten(args, name)
    avals = [x._node.aval for x in leaves]
    if batch_axes is None:
        trace = _traced(name, fun, avals, tree, vjp_order)
        values = [number(n.value, n.aval.dtype) if n.op is SCALAR else n.value for n in trace.captured]
        program, shapes = trace.program, [a.shape for a in avals]
    else:
        axes = _in_jax_order(args, batch_axes)
        (symbol,) = jax.export.symbolic_shape("batch")
        traces = [_traced(name, fun, _sized(avals, axes, n), tree, vjp_order) for n in SIZES]
        trace = traces[0]
        program = any_size([t.program for t in traces], symbol)
        if len({len(t.captured) for t in traces}) > 1:
            raise ValueError(f"[{name}] The function captures other arrays for each size of the batch.")
        values = [same_values(nodes, symbol) for nodes in zip(*[t.captured for t in traces], strict=True)]
        shapes = [program.in_avals[k].shape for k in range(len(avals))]
    specs = [jax.ShapeDtypeStruct(s, a.dtype._numpy) for s, a in zip(shapes, avals, strict=True)]
    dtypes = [a.dtype._numpy for a in program.in_avals[len(avals) :]]

    def function(*arguments: Any) -> Any:
        constants = [jnp.asarray(v, d) for v, d in zip(values, dtypes, strict=True)]
        outs = program.replay([*jax.tree.leaves(arguments), *constants])
        return jax.tree.unflatten(
            trace.out_tree, [jnp.asarray(o, a.dtype._numpy) for o, a in zip(outs, program.out_avals, strict=True)]
        )

    function.__name__ = getattr(fun, "__name__", "function")
    try:
        with jax.enable_x64(True):
            exporter = jax.export.export(jax.jit(function), platforms=platforms)
            return Exported(exporter(*jax.tree.unflatten(tree, specs)), vjp_order)
    except Exception as error:
        slot = getattr(error, "mxcompat_slot", None)
        where = f" the op {program.instructions[slot][0]} of" if slot is not None else ""
        raise ValueError(f"[{name}] Cannot export{where} this function: {error}") from error


def _traced(name: str, fun: Callable[..., Any], avals: Sequence[Aval], tree: Any, vjp_order: int) -> _Trace:
    key = random_state[0]._node
    with Capture(avals, any_shape=True) as capture:
        value = fun(*jax.tree.unflatten(tree, handles(capture.placeholders)))
        results, out_tree = _flatten(value, name)
        body = close_specialized(capture, nodes_of(results), (("vjp", 0),) * vjp_order)
    if random_state[0]._node is not key:
        random_state[0] = wrap(key)
        raise ValueError(
            f"[{name}] The function draws random numbers without a key, which would be the same ones in every call. "
            "Give it a key as an argument."
        )
    if modes_of(body.captured):
        raise ValueError(f"[{name}] Cannot export a function that uses the arguments of one around it.")
    evaluate([n for n in body.captured if n.value is None])
    return _Trace(body.program, body.captured, out_tree)


def _in_jax_order(args: tuple, batch_axes: Any) -> list[int | None]:
    """Return the axis of each array, in JAX's order of leaves, which sorts dicts."""
    ordered = _sorted(args)
    return flat_axes(ordered[0] if len(args) == 1 else ordered, flatten(ordered), batch_axes, "")


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _sorted(tree[k]) for k in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        return type(tree)([_sorted(t) for t in tree])
    return tree


def _sized(avals: Sequence[Aval], axes: Sequence[int | None], size: int) -> list[Aval]:
    return [
        a if axis is None else aval((*a.shape[:axis], size, *a.shape[axis + 1 :]), a.dtype)
        for a, axis in zip(avals, axes, strict=True)
    ]
