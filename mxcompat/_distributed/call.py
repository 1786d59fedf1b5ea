"""The description of a collective that ranks agree on before they start it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Call"]


class Call(NamedTuple):
    """A collective that a rank is about to start.

    Args:
        op: the name of the op.
        what: a description of its arrays.
        where: the user's line that called it.
        kind: further facts that must be the same on all ranks, besides `what`.
    """

    op: str
    what: str
    where: str
    kind: str

    def __str__(self) -> str:
        return f"[{self.op}] {self.what}" + (f" ({self.where})" if self.where else "")
