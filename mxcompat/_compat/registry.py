"""The registry of undocumented features: the purpose, probe and fallback of each.

A probe runs when `holds` is first read, and its result is cached. If a later use fails, the user of the feature calls
`fails`, and the fallback is used from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = ["REGISTRY", "WITHOUT", "Unpromised", "unpromised"]

REGISTRY: dict[str, Unpromised] = {}
"""All features by name. Those of a module are added when it is imported."""

WITHOUT = frozenset(os.environ.get("MXCOMPAT_WITHOUT", "").replace(",", " ").split())
"""Names of features that are switched off."""


class Unpromised:
    """An undocumented feature of JAX, XLA or CPython. It is used only if it works as expected.

    Args:
        name: its name in `MXCOMPAT_WITHOUT` and in `python -m mxcompat info`.
        purpose: the purpose, as text for the user.
        fallback: the behaviour without it, as text for the user.
        probe: returns True if the feature works as expected. Any other result, or an exception, means that it does not.
    """

    def __init__(self, name: str, purpose: str, fallback: str, probe: Callable[[], bool]) -> None:
        if name in REGISTRY:
            raise ValueError(f"[unpromised] Expected a new name, got {name!r} for the second time.")
        self.name = name
        self.purpose = purpose
        self.fallback = fallback
        self.reason = ""
        """The reason why the feature does not work, or an empty string."""
        self._probe = probe
        self._holds: bool | None = None
        REGISTRY[name] = self

    @property
    def holds(self) -> bool:
        """True if the feature works as expected. The first access runs the probe."""
        if self._holds is None:
            self._holds = self._probed()
        return self._holds

    def _probed(self) -> bool:
        if self.name in WITHOUT:
            self.reason = "MXCOMPAT_WITHOUT names it"
            return False
        try:
            result = self._probe()
        except MemoryError:
            raise
        except Exception as error:  # the feature may have changed in any way, so any type of error is possible
            self.reason = f"{type(error).__name__}: {error}"
            result = False
        if result is not True:
            self.reason = self.reason or "it is not as expected"
            _log().info("%s does not hold (%s): %s", self.name, self.reason, self.fallback)
        return result is True

    def fails(self, error: BaseException) -> None:
        """Switch the feature off, because a use of it raised this error. The first error is logged."""
        self.note(error)
        self._holds = False

    def note(self, error: BaseException) -> None:
        """Log that a use of the feature raised this error, so that the fallback was used. Only the first error is
        logged."""
        if not self.reason:
            self.reason = f"{type(error).__name__}: {error}"
            _log().warning("%s failed (%s): %s", self.name, self.reason, self.fallback, exc_info=error)


def unpromised(name: str, purpose: str, fallback: str) -> Callable[[Callable[[], bool]], Unpromised]:
    """Decorate a probe. The decorator returns an `Unpromised` with this probe."""
    return lambda probe: Unpromised(name, purpose, fallback, probe)


def _log() -> Any:
    import logging  # imported here because the import is slow

    return logging.getLogger(__name__)
