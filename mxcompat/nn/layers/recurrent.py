"""Recurrent layers. All take (..., time, features) and return the state after every step."""

from __future__ import annotations

import math
from collections.abc import Callable

import mxcompat.core as mx
from mxcompat.nn.layers.activations import tanh
from mxcompat.nn.layers.base import Module
from mxcompat.nn.layers.linear import affine

__all__ = ["GRU", "LSTM", "RNN"]


def _uniform(hidden_size: int, *shape: int) -> mx.array:
    limit = 1 / math.sqrt(hidden_size)
    return mx.random.uniform(low=-limit, high=limit, shape=shape)


class RNN(Module):
    """A recurrent layer, ``h = f(Wxh x + Whh h + bias)``.

    Parameters: ``Wxh`` (hidden_size, input_size), ``Whh`` (hidden_size, hidden_size), ``bias`` (hidden_size,).

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add a bias.
        nonlinearity: the function f; default ``tanh``.

    Raises:
        ValueError: if ``nonlinearity`` is not callable; at call time, for an input of another size.

    Example:
        >>> nn.RNN(3, 5)(mx.ones((2, 7, 3))).shape
        (2, 7, 5)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: Callable | None = None
    ) -> None:
        super().__init__()
        self.nonlinearity = nonlinearity or tanh
        if not callable(self.nonlinearity):
            raise ValueError(f"Nonlinearity must be callable. Current value: {nonlinearity}.")
        self.hidden_size = hidden_size
        self.Wxh = _uniform(hidden_size, hidden_size, input_size)
        self.Whh = _uniform(hidden_size, hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={self.nonlinearity}, bias={self.bias is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """Run over the time axis, starting from ``hidden`` (..., hidden_size) or zero."""
        x = affine(x, self.Wxh, self.bias)
        recurrent = self.Whh.T
        states = []
        for step in range(x.shape[-2]):
            now = x[..., step, :]
            hidden = self.nonlinearity(now if hidden is None else mx.addmm(now, hidden, recurrent))
            states.append(hidden)
        return mx.stack(states, axis=-2)


class GRU(Module):
    """A gated recurrent unit (GRU) with gates in the order reset, update, new.

    Parameters: ``Wx`` (3 hidden_size, input_size), ``Wh`` (3 hidden_size, hidden_size), ``b`` (3 hidden_size,) and
    ``bhn`` (hidden_size,), a bias of the state's term in the new value.

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add the biases.

    Raises:
        ValueError: at call time, for an input of another size.

    Example:
        >>> nn.GRU(4, 8)(mx.ones((2, 5, 4))).shape
        (2, 5, 8)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 3 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 3 * hidden_size, hidden_size)
        self.b = _uniform(hidden_size, 3 * hidden_size) if bias else None
        self.bhn = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.b is not None}"

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """Run over the time axis, starting from ``hidden`` (..., hidden_size) or zero."""
        size = self.hidden_size
        x = affine(x, self.Wx, self.b)
        x_gates, x_new = x[..., : 2 * size], x[..., 2 * size :]
        recurrent = self.Wh.T
        states = []
        for step in range(x.shape[-2]):
            gates, new = x_gates[..., step, :], x_new[..., step, :]
            if hidden is None:
                # If the state is zero, only the bias remains of the state's term in the new value.
                gates = mx.sigmoid(gates)
                reset, update = gates[..., :size], gates[..., size:]
                new = new if self.bhn is None else new + reset * self.bhn
                hidden = (1 - update) * mx.tanh(new)
            else:
                h = hidden @ recurrent
                h_new = h[..., 2 * size :]
                if self.bhn is not None:
                    h_new = h_new + self.bhn
                gates = mx.sigmoid(gates + h[..., : 2 * size])
                reset, update = gates[..., :size], gates[..., size:]
                hidden = (1 - update) * mx.tanh(new + reset * h_new) + update * hidden
            states.append(hidden)
        return mx.stack(states, axis=-2)


class LSTM(Module):
    """A long short-term memory (LSTM) with gates in the order input, forget, cell, output.

    Parameters: ``Wx`` (4 hidden_size, input_size), ``Wh`` (4 hidden_size, hidden_size), ``bias`` (4 hidden_size,).

    Args:
        input_size: features of the input.
        hidden_size: features of the state.
        bias: whether to add a bias.

    Raises:
        ValueError: at call time, for an input of another size.

    Example:
        >>> states, cells = nn.LSTM(4, 8)(mx.ones((2, 5, 4)))
        >>> states.shape, cells.shape
        ((2, 5, 8), (2, 5, 8))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 4 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 4 * hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, 4 * hidden_size) if bias else None

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.bias is not None}"

    def __call__(
        self, x: mx.array, hidden: mx.array | None = None, cell: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """Run over the time axis, starting from ``hidden`` and ``cell`` (..., hidden_size) or zero.

        Returns:
            The states and the cells after every step, each (..., time, hidden_size).
        """
        x = affine(x, self.Wx, self.bias)
        recurrent = self.Wh.T
        states, cells = [], []
        for step in range(x.shape[-2]):
            now = x[..., step, :]
            gates = now if hidden is None else mx.addmm(now, hidden, recurrent)
            write, keep, value, read = mx.split(gates, 4, axis=-1)
            value = mx.sigmoid(write) * mx.tanh(value)
            cell = value if cell is None else mx.sigmoid(keep) * cell + value
            hidden = mx.sigmoid(read) * mx.tanh(cell)
            states.append(hidden)
            cells.append(cell)
        return mx.stack(states, axis=-2), mx.stack(cells, axis=-2)
