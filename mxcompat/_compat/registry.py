"""The registry of unpromised things: what each is for, whether it is as expected, and what is done without it.

A probe runs when somebody first asks whether the thing holds, and its answer is kept. A use that fails later says so
(`fails`), and the fallback serves from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["everything", "unknown_names", "unpromised"]

REGISTRY: dict[str, Unpromised] = {}
"""All that are defined so far, by name. Those of a module are there once it has been imported."""

_WITHOUT = frozenset(os.environ.get("MXCOMPAT_WITHOUT", "").replace(",", " ").split())


class Unpromised:
    """A thing that JAX, XLA or CPython does not promise, and that is used only where it is as expected.

    Args:
        name: its name in `MXCOMPAT_WITHOUT` and in `python -m mxcompat info`.
        purpose: what it is used for.
        fallback: what is done without it.
        probe: returns True if the thing is as expected. Another result, or an exception, says that it is not.
    """

    def __init__(self, name: str, purpose: str, fallback: str, probe: Callable[[], bool]) -> None:
        if name in REGISTRY:
            raise ValueError(f"[unpromised] Expected a new name, got {name!r} for the second time.")
        self.name = name
        self.purpose = purpose
        self.fallback = fallback
        self.reason = ""
        """Why it does not hold."""
        self._probe = probe
        self._holds: bool | None = None
        REGISTRY[name] = self

    @property
    def holds(self) -> bool:
        """True if the thing is as expected. The first question runs the probe."""
        if self._holds is None:
            self._holds = self._found()
        return self._holds

    def _found(self) -> bool:
        if self.name in _WITHOUT:
            self.reason = "MXCOMPAT_WITHOUT names it"
            return False
        try:
            found = self._probe()
        except MemoryError:
            raise
        except Exception as error:  # of any type: what is probed may have become anything
            self.reason = f"{type(error).__name__}: {error}"
            found = False
        if found is not True:
            self.reason = self.reason or "it is not as expected"
            _log().info("%s does not hold (%s): %s", self.name, self.reason, self.fallback)
        return found is True

    def fails(self, error: BaseException) -> None:
        """Do without the thing from now on, since a use of it raised this error. The first time is logged."""
        self.note(error)
        self._holds = False

    def note(self, error: BaseException) -> None:
        """Log that a use of the thing has raised this error, and the fallback has served. Only the first is logged."""
        if not self.reason:
            self.reason = f"{type(error).__name__}: {error}"
            _log().warning("%s failed (%s): %s", self.name, self.reason, self.fallback, exc_info=error)


def unpromised(name: str, purpose: str, fallback: str) -> Callable[[Callable[[], bool]], Unpromised]:
    """Decorate a probe, which becomes the `Unpromised` that it is the probe of."""
    return lambda probe: Unpromised(name, purpose, fallback, probe)


def everything() -> list[Unpromised]:
    """All that are defined anywhere in mxcompat, by their modules. JAX is not imported for that."""
    package = Path(__file__).parent
    for name in sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__"):
        import_module(f"{__package__}.{name}")
    import_module("mxcompat._graph.passes.barriers")  # which is made of what the passes are made of
    return list(REGISTRY.values())


def unknown_names() -> list[str]:
    """The names in `MXCOMPAT_WITHOUT` that stand for nothing. All modules have been imported."""
    return sorted(_WITHOUT.difference(REGISTRY))


def _log() -> Any:
    import logging  # here, since it takes long to import

    return logging.getLogger(__name__)
