"""Tests of what JAX, XLA or Python does not promise, which are left out where it does not hold."""

from __future__ import annotations

import pytest

from mxcompat._tools.features import everything

__all__ = ["needs"]


def needs(name: str) -> pytest.MarkDecorator:
    """Return the mark of tests that are left out without a feature, such as with `MXCOMPAT_WITHOUT=frames`."""
    (feature,) = [one for one in everything() if one.name == name]
    return pytest.mark.skipif(not feature.holds, reason=f"{name} does not hold: {feature.fallback}")
