"""Normalization layers; channels are the last axis everywhere."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat.nn.layers.base import Module

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


def _check_eps(layer: str, eps: float) -> None:
    if eps <= 0:
        raise ValueError(f"[{layer}] 'eps' must be positive but got {eps}.")


class InstanceNorm(Module):
    """Normalizes each channel of each example over its spatial axes: (N, ..., C) to the same shape.

    Parameters if ``affine``: ``weight`` and ``bias`` (dims,).

    Args:
        dims: number of channels.
        eps: added to the variance.
        affine: whether to scale and shift afterwards.

    Raises:
        ValueError: ``eps`` is not positive; at call time, an input without spatial axes.
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        _check_eps("InstanceNorm", eps)
        if affine:
            self.weight = mx.ones((dims,))
            self.bias = mx.zeros((dims,))
        self.dims = dims
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(
                "InstanceNorm expects inputs with at least 3 dimensions (N, ..., C) "
                f"but the input has {x.ndim} dimensions."
            )
        axes = tuple(range(1, x.ndim - 1))
        mean = mx.mean(x, axis=axes, keepdims=True)
        var = mx.var(x, axis=axes, keepdims=True)
        x = (x - mean) * mx.rsqrt(var + self.eps)
        return self.weight * x + self.bias if "weight" in self else x


class LayerNorm(Module):
    """Normalizes over the last axis.

    Parameters if ``affine``: ``weight`` (dims,) and, if ``bias``, ``bias`` (dims,).

    Args:
        dims: size of the last axis.
        eps: added to the variance.
        affine: whether to scale (and shift) afterwards.
        bias: whether to shift.

    Raises:
        ValueError: ``eps`` is not positive.
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True) -> None:
        super().__init__()
        _check_eps("LayerNorm", eps)
        if affine:
            self.weight = mx.ones((dims,))
            if bias:
                self.bias = mx.zeros((dims,))
        self.eps = eps
        self.dims = dims

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    """Divides by the root mean square over the last axis and scales by ``weight`` (dims,).

    Args:
        dims: size of the last axis.
        eps: added to the mean square.

    Raises:
        ValueError: ``eps`` is not positive.
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        _check_eps("RMSNorm", eps)
        self.weight = mx.ones((dims,))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self["weight"], self.eps)


class GroupNorm(Module):
    """Normalizes groups of channels together over all axes but the first: (N, ..., C) to the same shape.

    Parameters if ``affine``: ``weight`` and ``bias`` (dims,).

    Args:
        num_groups: how many groups.
        dims: number of channels.
        eps: added to the variance.
        affine: whether to scale and shift afterwards.
        pytorch_compatible: groups of neighbouring channels, as PyTorch has them; otherwise channel ``c`` is in
            group ``c % num_groups``.

    Raises:
        ValueError: numbers that are not positive, or groups that do not divide the channels.
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ) -> None:
        super().__init__()
        _check_eps("GroupNorm", eps)
        if num_groups <= 0:
            raise ValueError(f"The number of groups ({num_groups}) must be a positive integer.")
        if dims <= 0:
            raise ValueError(f"The number of features ({dims}) must be a positive integer.")
        if dims % num_groups != 0:
            raise ValueError(
                f"The number of features ({dims}) must be evenly divisible by the number of groups ({num_groups})."
            )
        if affine:
            self.bias = mx.zeros((dims,))
            self.weight = mx.ones((dims,))
        self.num_groups = num_groups
        self.dims = dims
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def _pytorch_compatible_group_norm(self, x: mx.array) -> mx.array:
        batch, *rest, dims = x.shape
        groups = self.num_groups
        x = x.reshape(batch, -1, groups, dims // groups).transpose(0, 2, 1, 3)
        normed = mx.fast.layer_norm(x.reshape(batch, groups, -1), None, None, self.eps)
        normed = normed.reshape(batch, groups, -1, dims // groups).transpose(0, 2, 1, 3)
        return normed.reshape(batch, *rest, dims)

    def _group_norm(self, x: mx.array) -> mx.array:
        batch, *rest, dims = x.shape
        x = x.reshape(batch, -1, self.num_groups)
        mean = mx.mean(x, axis=1, keepdims=True)
        var = mx.var(x, axis=1, keepdims=True)
        return ((x - mean) * mx.rsqrt(var + self.eps)).reshape(batch, *rest, dims)

    def __call__(self, x: mx.array) -> mx.array:
        x = self._pytorch_compatible_group_norm(x) if self.pytorch_compatible else self._group_norm(x)
        return self.weight * x + self.bias if "weight" in self else x


class BatchNorm(Module):
    """Normalizes each channel over all other axes: (N, C), (N, L, C) or (N, H, W, C) to the same shape.

    In training the statistics are those of the batch, and running means of them are kept (the variance with Bessel's
    correction); in evaluation the running statistics are used. ``running_mean`` and ``running_var`` (num_features,)
    are parameters that stay frozen; ``weight`` and ``bias`` (num_features,) exist if ``affine``.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: the weight of the new batch in the running statistics.
        affine: whether to scale and shift afterwards.
        track_running_stats: whether to keep running statistics.

    Raises:
        ValueError: ``eps`` is not positive; at call time, an input with another number of axes or, in training, with
            a single value per channel.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        _check_eps("BatchNorm", eps)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = mx.ones((num_features,))
            self.bias = mx.zeros((num_features,))
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self._freeze_statistics()

    def _freeze_statistics(self) -> None:
        self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def unfreeze(self, *args, **kwargs) -> None:
        """Unfreeze all but the running statistics."""
        super().unfreeze(*args, **kwargs)
        self._freeze_statistics()

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={'weight' in self}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _calc_stats(self, x: mx.array, ddof: int = 0) -> tuple[mx.array, mx.array]:
        """Mean and variance of each channel."""
        axes = tuple(range(x.ndim - 1))
        return mx.mean(x, axis=axes), mx.var(x, axis=axes, ddof=ddof)

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim not in (2, 3, 4):
            raise ValueError(f"Expected input tensor to have 2, 3 or 4 dimensions, but got {x.ndim}")
        if self.training and x.size // x.shape[-1] <= 1:
            raise ValueError("BatchNorm training requires more than one value per channel.")
        if self.training or not self.track_running_stats:
            mean, var = self._calc_stats(x)
        else:
            mean, var = self.running_mean, self.running_var
        if self.training and self.track_running_stats:
            keep, count = 1 - self.momentum, x.size // x.shape[-1]
            self.running_mean = keep * self.running_mean + self.momentum * mean
            self.running_var = keep * self.running_var + self.momentum * (var * (count / (count - 1)))
        x = (x - mean) * mx.rsqrt(var + self.eps)
        return self.weight * x + self.bias if "weight" in self else x
