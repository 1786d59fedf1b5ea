"""The op that runs a Metal kernel. Its params are the kernel's text, its signature and the grid. They are plain data,
so equal calls have the same structure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap_all
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import DTYPES, Aval, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.rules import COST, ENDLESS, HOST
from mxcompat._graph.run.values import numpy_value
from mxcompat._jax import jnp
from mxcompat._metal import Signature, parse_kernel
from mxcompat._metal.signature import full_text

from ..arguments import integer
from ..define import op
from ..elementwise.quotient import quotient
from .metal_contract import Definition, Launch, define, launch

__all__ = ["METAL_KERNEL", "check_bounds", "cuda_kernel", "metal_kernel", "run_kernel"]

_PARAMS = ("source", "header", "signature", "grid", "threadgroup", "init_value")
_BY_LABEL = {d._label: d for d in DTYPES}


@lru_cache(maxsize=policy.MOST_PROGRAMS)
def _parsed(source: str, header: str, signature: Signature) -> Any:
    """Return the parsed kernel. Raises KernelError if it does not parse."""
    return parse_kernel(source, header, signature)


def _lowered(
    *inputs: Any, source: str, header: str, signature: Signature, grid: Any, threadgroup: Any, init_value: Any
) -> tuple[Any, ...]:
    return tuple(_parsed(source, header, signature).run(jnp, inputs, grid, threadgroup, init_value, quotient=quotient))


def _avals(*inputs: Aval, signature: Signature, **_: Any) -> tuple[Aval, ...]:
    if [(a.shape, a.dtype._label) for a in inputs] != [(i.shape, i.dtype) for i in signature.inputs]:
        raise ValueError(f"[metal_kernel] {signature.name} was made for {signature.inputs}, but is given {inputs}.")
    return tuple([aval(o.shape, _BY_LABEL[o.dtype]) for o in signature.outputs])


METAL_KERNEL = op("metal_kernel", _lowered, _avals, _PARAMS)


ENDLESS[METAL_KERNEL] = lambda params: _parsed(*params[:3]).may_not_end


@HOST.of(METAL_KERNEL)
def _on_host(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple[Any, ...] | None:
    source, header, signature, grid, threadgroup, init_value = params
    kernel = _parsed(source, header, signature)
    from mxcompat._metal.loops import TooLong  # imported here because few programs have kernels

    most = policy.MOST_KERNEL_STEPS
    try:
        return tuple(kernel.run(np, inputs, grid, threadgroup, init_value, most_steps=most))
    except TooLong:
        return None


@COST.of(METAL_KERNEL)
def _cost(out: tuple[Aval, ...], params: tuple, *avals: Aval) -> float:
    source, _, _, grid, *_ = params
    elements = max(grid[0] * grid[1] * grid[2], sum(a.size for a in (*out, *avals)))
    return (source.count("\n") + 1) * (policy.LINE_SECONDS + policy.THREAD_SECONDS * elements)


def check_bounds(node: Node) -> None:
    """Run a kernel in NumPy, and look for reads and writes out of bounds.

    Args:
        node: a node of the op whose inputs have values.

    Raises:
        IndexError: names the kernel, the line, the thread and the index.
    """
    source, header, signature, grid, threadgroup, init_value = node.params
    inputs = [np.asarray(numpy_value(n)) for n in node.inputs]
    _parsed(source, header, signature).run(np, inputs, grid, threadgroup, init_value, checked=True)


def run_kernel(definition: Definition, launch: Launch, nodes: Sequence[Node]) -> list[array]:
    """Return the outputs of a call, lazily.

    Raises:
        KernelError: if the kernel does not parse.
    """
    _parsed(definition.source, definition.header, launch.signature)
    params = (
        definition.source, definition.header, launch.signature, launch.grid, launch.threadgroup, launch.init_value,
    )  # fmt: skip
    return wrap_all(apply(METAL_KERNEL, tuple(nodes), params))


def metal_kernel(
    name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = "",
    ensure_row_contiguous: bool = True, atomic_outputs: bool = False, compile_options: Any = None,
) -> Callable[..., list[array]]:  # fmt: skip
    """Define a kernel in Metal. It is translated to array operations, runs wherever XLA does, and has derivatives.

    The page docs/guides/metal.md describes the supported parts of the language, and the cost of a kernel.

    Args:
        name: the kernel's name.
        input_names: names of the parameters that are inputs.
        output_names: names of the parameters that are outputs.
        source: the body of the function; its signature is generated.
        header: source code before the function: other functions, macros, structs.
        ensure_row_contiguous: accepted; all arrays are row-contiguous here.
        atomic_outputs: True if outputs are declared as `device atomic<T>*`.
        compile_options: `{"math_mode": "safe"}`, "relaxed" or "fast"; arithmetic is always that of "safe".

    Returns:
        A function that returns the list of outputs. It has keyword arguments only: `inputs` (arrays or numbers),
        `output_shapes`, `output_dtypes`, `grid` (threads along x, y and z), `threadgroup` (threads of a group along
        each axis, cut to the grid), `template` (pairs of a name and a dtype, int or bool), `init_value` (the initial
        value of outputs, zero by default), `verbose` (True prints the generated text), `stream` (ignored).

    Raises:
        TypeError, ValueError: for arguments that MLX refuses, here and when the kernel is called.
        RuntimeError: `KernelError`, when the kernel is called, if the source does not parse, or has an unsupported
            construct: compare-and-swap, fences of device memory, textures.

    Example:
        >>> double = mx.fast.metal_kernel(
        ...     name="double", input_names=["x"], output_names=["y"],
        ...     source="uint i = thread_position_in_grid.x; y[i] = 2 * x[i];",
        ... )
        >>> x = mx.arange(3.0)
        >>> double(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(3, 1, 1), threadgroup=(3, 1, 1))
        [array([0, 2, 4], dtype=float32)]
    """
    definition = define(
        name, input_names, output_names, source, header, ensure_row_contiguous, atomic_outputs, compile_options
    )  # fmt: skip
    return _callable(definition)


def cuda_kernel(
    name: str, input_names: Sequence[str], output_names: Sequence[str], source: str, header: str = "",
    ensure_row_contiguous: bool = True, shared_memory: int = 0,
) -> Callable[..., list[array]]:  # fmt: skip
    """Define a kernel in CUDA. It is translated to array operations, as Metal kernels are, and needs no CUDA.

    Real MLX without CUDA raises RuntimeError here.

    Args:
        name: the kernel's name.
        input_names: names of the parameters that are inputs.
        output_names: names of the parameters that are outputs.
        source: the body of the function; its signature is generated.
        header: source code before the function: other functions, macros, structs.
        ensure_row_contiguous: accepted; all arrays are row-contiguous here.
        shared_memory: bytes of dynamic shared memory.

    Returns:
        A function like that of `metal_kernel`. `grid` is in threads; all blocks are whole.

    Raises:
        TypeError, ValueError, RuntimeError: as `metal_kernel` does.

    Example:
        >>> double = mx.fast.cuda_kernel(
        ...     name="double", input_names=["x"], output_names=["y"],
        ...     source="int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 3) y[i] = 2 * x[i];",
        ... )
        >>> x = mx.arange(3.0)
        >>> double(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(3, 1, 1), threadgroup=(32, 1, 1))
        [array([0, 2, 4], dtype=float32)]
    """
    definition = define(
        name, input_names, output_names, source, header, ensure_row_contiguous, function="cuda_kernel",
        shared_memory=integer(shared_memory),
    )  # fmt: skip
    return _callable(definition)


def _callable(definition: Definition) -> Callable[..., list[array]]:
    def kernel(
        *, inputs: Any, output_shapes: Any, output_dtypes: Any, grid: Any, threadgroup: Any, template: Any = None,
        init_value: Any = None, verbose: Any = False, stream: Any = None,
    ) -> list[array]:  # fmt: skip
        """Run the kernel; see `metal_kernel`."""
        call, nodes = launch(
            definition, inputs=inputs, output_shapes=output_shapes, output_dtypes=output_dtypes, grid=grid,
            threadgroup=threadgroup, template=template, init_value=init_value, verbose=verbose, stream=stream,
        )  # fmt: skip
        if call.verbose:
            sys.stdout.write(full_text(call.signature, definition.source, definition.header) + "\n")
        return run_kernel(definition, call, nodes)

    kernel.__qualname__ = "kernel"
    return kernel
