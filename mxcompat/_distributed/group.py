"""Groups: the processes that take part in a collective."""

from __future__ import annotations

from typing import Any, NoReturn

from mxcompat._array.errors import small_int

from . import members
from .call import Call

__all__ = ["Group", "group_for"]


class Group:
    """A group of processes that can communicate. `init` returns the group of all processes, and `split` makes smaller
    groups.

    Raises:
        TypeError: always.

    Example:
        >>> group = mx.distributed.init()
        >>> group.rank(), group.size()
        (0, 1)
    """

    __slots__ = ("_backend", "_rank", "_ranks")

    _backend: str
    _rank: int
    _ranks: tuple[int, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.distributed.Group: no constructor defined!")

    def rank(self) -> int:
        """Return the rank of this process in the group, counted from 0."""
        return self._rank

    def size(self) -> int:
        """Return the number of processes in the group."""
        return len(self._ranks)

    def split(self, color: int, key: int = -1) -> Group:
        """Split the group by color, and return the new group of this process. All members of the group must call it.

        Args:
            color: the number of the new group for this process.
            key: the position in the new group: processes with smaller keys come first. By default the order stays the
                same.

        Raises:
            RuntimeError: for a group of one process, and for the backend "ring", which cannot be split.
        """
        color, key = small_int(color, "split", "color"), small_int(key, "split", "key")
        world = members.joined() if self.size() > 1 else None
        if world is None:
            raise RuntimeError("Cannot split the distributed group further.")
        if self._backend == "ring":
            raise RuntimeError("[ring] Group split not supported.")
        call = Call("split", f"a group of {self.size()}", "", "split")
        said = world.agree(self._ranks, call, (color, self._rank if key < 0 else key))
        chosen = sorted((k, r) for r, (c, k) in zip(self._ranks, said, strict=True) if c == color)
        return _new_group(tuple([r for _, r in chosen]), world.rank, self._backend)


Group.__module__ = "mxcompat.core.distributed"


def _new_group(ranks: tuple[int, ...], rank: int, backend: str) -> Group:
    group = object.__new__(Group)
    group._ranks = ranks
    group._rank = ranks.index(rank)
    group._backend = backend
    return group


_alone = _new_group((0,), 0, "any")


def group_for(backend: str) -> Group:
    """Return the group of all processes for one of MLX's backends, or of this process alone if that backend is not
    available."""
    world = members.joined()
    if world is None or backend not in world.backends:
        return _alone
    only = world.backends[1:] if backend == "any" else (backend,)
    return _new_group(tuple(range(world.size)), world.rank, only[0] if len(only) == 1 else "any")
