"""Rules of Fourier transforms. Their derivatives are transforms, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD

from .numpy_fft import resized, transformed
from .transforms import FFT, FREQUENCIES, SHIFT

__all__: list[str] = []


@HOST.of(FFT)
def _host_fft(out: Any, params: tuple, x: Any) -> Any:
    return transformed(x, *params)


_TURNED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@PULLBACK.of(FFT)
def _pull_fft(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> Any:
    kind, sizes, axes, norm = params
    last = axes[-1]
    if kind == "irfft":
        gx = transformed(g, "rfft", sizes, axes, _TURNED[norm])
        # in the full spectrum, each of these frequencies has a conjugate partner
        twice = np.full(gx.shape[last], 2, np.float32)
        twice[0] = 1
        if sizes[-1] % 2 == 0:
            twice[-1] = 1
        gx = gx.conj() * twice.reshape([-1 if k == last else 1 for k in range(gx.ndim)])
    else:
        gx = transformed(g, "ifft" if kind == "ifft" else "fft", sizes, axes, norm)
        gx = gx.real if kind == "rfft" else gx
    return (resized(gx, x.shape),)


@PUSHFORWARD.of(FFT)
def _push_fft(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return transformed(tangents[0], *params)


@BATCH.of(FFT)
def _batch_fft(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    kind, sizes, axes, norm = params
    return apply(op, inputs, (kind, sizes, tuple([axis + 1 for axis in axes]), norm))


def _rolled(x: Any, shifts: Any, axes: Any) -> Any:
    return np.roll(x, shifts, axes) if len(axes) else x


@HOST.of(SHIFT)
def _host_shift(out: Any, params: tuple, x: Any) -> Any:
    return _rolled(x, *params)


@PULLBACK.of(SHIFT)
def _pull_shift(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> Any:
    shifts, axes = params
    return (_rolled(g, [-n for n in shifts], axes),)


@PUSHFORWARD.of(SHIFT)
def _push_shift(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _rolled(tangents[0], *params)


@BATCH.of(SHIFT)
def _batch_shift(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    shifts, axes = params
    return apply(op, inputs, (shifts, tuple([axis + 1 if axis >= 0 else axis for axis in axes])))


@HOST.of(FREQUENCIES)
def _host_frequencies(out: Any, params: tuple, d: Any) -> Any:
    n, half = params
    order = np.arange(n // 2 + 1) if half else np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return order.astype(np.float32) * (np.float32(1) / (np.float32(n) * np.float32(d)))
