"""The op that runs a Metal kernel. Its params are the kernel's text, its signature and the grid: plain data, by which
equal calls are one structure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap_all
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import DTYPES, Aval, aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.rules import COST, HOST
from mxcompat._jax import jnp
from mxcompat._metal import Kernel, Signature, parse_kernel

from ..define import op
from .metal_contract import Definition, Launch

__all__ = ["METAL_KERNEL", "run_kernel"]

_PARAMS = ("source", "header", "signature", "grid", "threadgroup", "init_value")
_BY_LABEL = {d._label: d for d in DTYPES}


@lru_cache(maxsize=policy.MOST_KERNELS)
def _parsed(source: str, header: str, signature: Signature) -> Kernel:
    """The kernel. Raises KernelError where it does not parse."""
    return parse_kernel(source, header, signature)


def _lowered(
    *inputs: Any, source: str, header: str, signature: Signature, grid: Any, threadgroup: Any, init_value: Any
) -> tuple[Any, ...]:
    return tuple(_parsed(source, header, signature).run(jnp, inputs, grid, threadgroup, init_value))


def _avals(*_: Aval, signature: Signature, **__: Any) -> tuple[Aval, ...]:
    return tuple([aval(o.shape, _BY_LABEL[o.dtype]) for o in signature.outputs])


METAL_KERNEL = op("metal_kernel", _lowered, _avals, _PARAMS)


@HOST.of(METAL_KERNEL)
def _on_host(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple[Any, ...]:
    source, header, signature, grid, threadgroup, init_value = params
    return tuple(_parsed(source, header, signature).run(np, inputs, grid, threadgroup, init_value))


@COST.of(METAL_KERNEL)
def _cost(out: tuple[Aval, ...], params: tuple, *avals: Aval) -> float:
    source, _, _, grid, *_ = params
    lines = source.count("\n") + 1
    return lines * (policy.LINE_SECONDS + policy.THREAD_SECONDS * grid[0] * grid[1] * grid[2])


def run_kernel(definition: Definition, launch: Launch, nodes: Sequence[Node]) -> list[array]:
    """The outputs of a call, lazily.

    Raises:
        KernelError: if the kernel does not parse.
    """
    _parsed(definition.source, definition.header, launch.signature)
    params = (
        definition.source, definition.header, launch.signature, launch.grid, launch.threadgroup, launch.init_value,
    )  # fmt: skip
    return wrap_all(apply(METAL_KERNEL, tuple(nodes), params))
