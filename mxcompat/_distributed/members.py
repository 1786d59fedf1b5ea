"""Whether this process is a member of a group."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from mxcompat._graph.run import platform

from .environment import peers

if TYPE_CHECKING:
    from .world import World

__all__ = ["joined"]


_world: World | None = None
_joining = threading.RLock()


def joined() -> World | None:
    """Join the world on the first call. Return the world, or None if the process was started alone."""
    global _world
    with _joining:
        if _world is None and (described := peers()) is not None:
            platform.before_start.clear()
            if platform.has_started():
                raise RuntimeError(
                    "[init] JAX has started on this process's devices alone. Call mx.distributed.init() first."
                )
            from .world import World  # its sockets are a tenth of the import of mxcompat

            _world = World(described)
        return _world


if peers() is not None:
    platform.before_start.append(joined)
