"""Skip tests of features that JAX, XLA or Python do not promise, if a feature does not work."""

from __future__ import annotations

import pytest

from mxcompat._tools.features import everything

__all__ = ["needs"]


def needs(name: str) -> pytest.MarkDecorator:
    """Return the mark of tests that are skipped without a feature, for example under `MXCOMPAT_WITHOUT=frames`."""
    (feature,) = [one for one in everything() if one.name == name]
    return pytest.mark.skipif(not feature.holds, reason=f"{name} does not hold: {feature.fallback}")
