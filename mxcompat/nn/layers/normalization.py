"""Normalization layers; channels are the last axis everywhere."""

from __future__ import annotations

import math
from typing import ClassVar

import mxcompat.core as mx
from mxcompat.nn.layers._walk import read
from mxcompat.nn.layers.base import Module

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


def _standardized(x: mx.array, mean: mx.array, var: mx.array, eps: float) -> mx.array:
    return (x - mean) * mx.rsqrt(var + eps)


class _Norm(Module):
    """Base class with a positive ``eps``, parameters that scale and shift, and a description.

    ``_mx_description`` is a format string. ``{0}`` is the layer, and ``{affine}`` is True if it has a weight.
    """

    eps: float
    _mx_description: ClassVar[str] = "{0.dims}, eps={0.eps}, affine={affine}"

    def __init__(self, eps: float) -> None:
        super().__init__()
        if eps <= 0:
            raise ValueError(f"[{type(self).__name__}] 'eps' must be positive but got {eps}.")
        self.eps = eps

    def _mx_add(self, dims: int, *parameters: str) -> None:
        """Make the named parameters, each of shape (dims,)."""
        for name in parameters:
            self[name] = mx.ones((dims,)) if name == "weight" else mx.zeros((dims,))

    def _extra_repr(self) -> str:
        return self._mx_description.format(self, affine="weight" in self)

    def _mx_affine(self, x: mx.array) -> mx.array:
        return read(self, "weight") * x + read(self, "bias") if "weight" in self else x


class InstanceNorm(_Norm):
    """A layer that normalizes each channel of each example over its spatial axes: (N, ..., C) to the same shape.

    Parameters if ``affine``: ``weight`` and ``bias`` (dims,).

    Args:
        dims: number of channels.
        eps: added to the variance.
        affine: whether to scale and shift afterwards.

    Raises:
        ValueError: if ``eps`` is not positive; at call time, for an input without spatial axes or, if ``affine``, with
            other channels.

    Example:
        >>> nn.InstanceNorm(1)(mx.array([[[-100.0], [100.0]]]))
        array([[[-1],
                [1]]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__(eps)
        self._mx_add(dims, *(["weight", "bias"] if affine else []))
        self.dims = dims

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            needed = "InstanceNorm expects inputs with at least 3 dimensions (N, ..., C)"
            raise ValueError(f"{needed} but the input has {x.ndim} dimensions.")
        channels = x.reshape(x.shape[0], -1, x.shape[-1]).swapaxes(1, 2)
        # `layer_norm` computes the statistics of all dtypes in float32
        normed = mx.fast.layer_norm(channels, None, None, self.eps)
        return self._mx_affine(normed.swapaxes(1, 2).reshape(x.shape))


class LayerNorm(_Norm):
    """A layer that normalizes over the last axis: (..., dims) to the same shape.

    Parameters if ``affine``: ``weight`` (dims,) and, if ``bias``, ``bias`` (dims,).

    Args:
        dims: size of the last axis.
        eps: added to the variance.
        affine: whether to scale (and shift) afterwards.
        bias: whether to shift.

    Raises:
        ValueError: if ``eps`` is not positive; at call time, if ``affine``, for an input of another size.

    Example:
        >>> nn.LayerNorm(2)(mx.array([[-100.0, 100.0], [100.0, 500.0]]))
        array([[-1, 1],
               [-1, 1]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True) -> None:
        super().__init__(eps)
        exists = {"weight": affine, "bias": affine and bias}
        self._mx_add(dims, *filter(exists.get, exists))
        self.dims = dims

    def __call__(self, x: mx.array) -> mx.array:
        weight = read(self, "weight") if "weight" in self else None
        bias = read(self, "bias") if "bias" in self else None
        return mx.fast.layer_norm(x, weight, bias, self.eps)


class RMSNorm(_Norm):
    """A layer that divides by the root mean square over the last axis, and scales: (..., dims) to the same shape.

    Parameter: ``weight`` (dims,).

    Args:
        dims: size of the last axis.
        eps: added to the mean square.

    Raises:
        ValueError: if ``eps`` is not positive; at call time, for an input of another size.

    Example:
        >>> nn.RMSNorm(2)(mx.array([[100.0, -100.0], [70.0, 10.0]]))
        array([[1, -1],
               [1.4, 0.2]], dtype=float32)
    """

    _mx_description = "{0.weight.size}, eps={0.eps}"

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__(eps)
        self._mx_add(dims, "weight")

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self["weight"], self.eps)


class GroupNorm(_Norm):
    """A layer that normalizes groups of channels together over all axes but the first: (N, ..., C) to the same shape.

    Parameters if ``affine``: ``weight`` and ``bias`` (dims,).

    Args:
        num_groups: the number of groups.
        dims: number of channels.
        eps: added to the variance.
        affine: whether to scale and shift afterwards.
        pytorch_compatible: groups of neighbouring channels, as PyTorch has them; otherwise channel ``c`` is in group
            ``c % num_groups``.

    Raises:
        ValueError: for numbers that are not positive, or groups that do not divide the channels; at call time, for an
            input with other channels.

    Example:
        >>> layer = nn.GroupNorm(2, 4, pytorch_compatible=True)
        >>> layer(mx.array([[-100.0, 100.0, 300.0, 100.0]]))
        array([[-1, 1, 1, -1]], dtype=float32)
    """

    _mx_description = (
        "{0.num_groups}, {0.dims}, eps={0.eps}, affine={affine}, pytorch_compatible={0.pytorch_compatible}"
    )

    def __init__(
        self, num_groups: int, dims: int, eps: float = 1e-5, affine: bool = True, pytorch_compatible: bool = False
    ) -> None:
        super().__init__(eps)
        for what, number in {"groups": num_groups, "features": dims}.items():
            if number <= 0:
                raise ValueError(f"The number of {what} ({number}) must be a positive integer.")
        if dims % num_groups:
            raise ValueError(
                f"The number of features ({dims}) must be evenly divisible by the number of groups ({num_groups})."
            )
        self._mx_add(dims, *(["bias", "weight"] if affine else []))
        self.num_groups, self.dims = num_groups, dims
        self.pytorch_compatible = pytorch_compatible

    def _pytorch_compatible_group_norm(self, x: mx.array) -> mx.array:
        """Standardize groups of neighbouring channels."""
        batch, *_, dims = x.shape
        groups = x.reshape(batch, -1, self.num_groups, dims // self.num_groups).swapaxes(1, 2)
        normed = mx.fast.layer_norm(groups.flatten(2), eps=self.eps, weight=None, bias=None)
        return normed.reshape(groups.shape).swapaxes(1, 2).reshape(x.shape)

    def _group_norm(self, x: mx.array) -> mx.array:
        """Standardize groups of every ``num_groups``-th channel."""
        batch, *_, _ = x.shape
        groups = x.reshape(batch, -1, self.num_groups)
        mean, var = (moment(groups, axis=1, keepdims=True) for moment in (mx.mean, mx.var))
        return _standardized(groups, mean, var, self.eps).reshape(x.shape)

    def __call__(self, x: mx.array) -> mx.array:
        standardize = self._pytorch_compatible_group_norm if self.pytorch_compatible else self._group_norm
        return self._mx_affine(standardize(x))


class BatchNorm(_Norm):
    """A layer that normalizes each channel over all other axes: (N, C), (N, L, C) or (N, H, W, C) to the same shape.

    In training it uses the statistics of the batch, and updates running statistics (the variance with Bessel's
    correction). In evaluation it uses the running statistics. ``running_mean`` and ``running_var`` (num_features,) are
    frozen parameters; ``weight`` and ``bias`` (num_features,) exist if ``affine``.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: the weight of the new batch in the running statistics.
        affine: whether to scale and shift afterwards.
        track_running_stats: whether to keep running statistics.

    Raises:
        ValueError: if ``eps`` is not positive; at call time, for an input with another number of axes or, in training,
            with a single value per channel.

    Example:
        >>> layer = nn.BatchNorm(1)
        >>> layer(mx.array([[-100.0], [100.0]]))
        array([[-1],
               [1]], dtype=float32)
        >>> layer.running_var
        array([2000.9], dtype=float32)
    """

    _mx_description = (
        "{0.num_features}, eps={0.eps}, momentum={0.momentum}, affine={affine}, "
        "track_running_stats={0.track_running_stats}"
    )
    _mx_statistics = ("running_mean", "running_var")

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(eps)
        self._mx_add(num_features, *(["weight", "bias"] if affine else []))
        self.num_features, self.momentum = num_features, momentum
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.running_mean, self.running_var = mx.zeros((num_features,)), mx.ones((num_features,))
            self._mx_freeze_statistics()

    def _mx_freeze_statistics(self) -> None:
        self.freeze(recurse=False, keys=list(self._mx_statistics))

    def unfreeze(self, *args, **kwargs) -> None:
        """Unfreeze all but the running statistics."""
        super().unfreeze(*args, **kwargs)
        self._mx_freeze_statistics()

    def _calc_stats(self, x: mx.array, ddof: int = 0) -> tuple[mx.array, mx.array]:
        """Return the mean and variance of each channel."""
        others = tuple(range(x.ndim - 1))
        return mx.mean(x, axis=others), mx.var(x, axis=others, ddof=ddof)

    def _mx_unbiased(self, x: mx.array, var: mx.array) -> mx.array:
        """Return the variance with Bessel's correction: computed from ``var``, unless `_calc_stats` has been
        overridden."""
        if getattr(self._calc_stats, "__func__", None) is not _CALC_STATS:
            return self._calc_stats(x, ddof=1)[1]
        count = math.prod(x.shape[:-1])
        return var * (count / (count - 1))

    def _mx_remember(self, *statistics: mx.array) -> None:
        """Blend the mean and variance of a batch into the running statistics."""
        for name, new in zip(self._mx_statistics, statistics, strict=True):
            setattr(self, name, getattr(self, name) * (1 - self.momentum) + new * self.momentum)

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim not in (2, 3, 4):
            raise ValueError(f"Expected input tensor to have 2, 3 or 4 dimensions, but got {x.ndim}")
        if self.training and math.prod(x.shape[:-1]) == 1:
            raise ValueError("BatchNorm training requires more than one value per channel.")
        mean, var = self._calc_stats(x)
        if self.track_running_stats:
            if self.training:
                self._mx_remember(mean, self._mx_unbiased(x, var))
            else:
                mean, var = self.running_mean, self.running_var
        return self._mx_affine(_standardized(x, mean, var, self.eps))


_CALC_STATS = BatchNorm._calc_stats
