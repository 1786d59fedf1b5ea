"""Lower programs for absent accelerators, and make an accelerator's choices on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import pytest

import mxcompat as mx
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._graph.run import arguments, compile, donation, host
from mxcompat._transforms.trees import flatten

__all__ = ["as_on_an_accelerator", "lower", "ops_of", "program_of"]

BACKENDS = {"cuda": "gpu", "tpu": "tpu"}
"""JAX's name for its back-end, by platform."""

BY_CALLBACK = {"cuda": set(), "tpu": {"linalg_eig", "linalg_eigvals"}}
"""Ops that the host computes on an accelerator. A callback can only be lowered for the present platform."""


@contextmanager
def as_on_an_accelerator(backend: str = "gpu") -> Iterator[None]:
    """Make the library decide, within this context, as if JAX computed on a GPU or a TPU.

    Executables compiled before or within the context are dropped, because ops choose their form at trace time.
    """
    mx.default_device()  # the library determines the platform once
    mx.ext.debug.clear_cache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: backend)
        for module in (compile, host):
            patch.setattr(module, "on_cpu", lambda: False)
        patch.setattr(donation, "is_cpu", lambda: False)
        yield
    mx.ext.debug.clear_cache()


def program_of(tree: Any) -> tuple[Program, tuple] | None:
    """Return the Program that computes the arrays of a tree, and the values of its scalars; None if they have
    values."""
    nodes = [x._node for x in flatten(tree) if x._node.value is None]
    subgraph = linearize(nodes)
    if not subgraph.order:
        return None
    program = subgraph.structure.program(tuple(sorted({k for k in subgraph.roots if k >= 0})))
    return program, tuple([subgraph.leaves[k].value for k in program.scalars])


def lower(program: Program, scalars: tuple) -> None:
    """Lower a Program, with these numbers in it, for CUDA and for TPUs. JAX raises if it cannot."""
    replay, specs = arguments.function(program, scalars, {})
    names = {op.name for op in ops_of(program)}
    for platform, backend in BACKENDS.items():
        if names & BY_CALLBACK[platform]:
            continue
        with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax, "default_backend", lambda backend=backend: backend)
            jax.jit(lambda *args: replay(*args)).trace(*specs).lower(lowering_platforms=(platform,))


def ops_of(program: Program) -> set[Op]:
    """Return the ops of a Program, at any depth."""
    inner = [p for _, params, _ in program.instructions for p in params if isinstance(p, Program)]
    return {op for op, _, _ in program.instructions}.union(*map(ops_of, inner))
