"""Errors of kernels, with their place in the source and the reason."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

__all__ = ["KernelError", "NoSuchType", "Place", "Problem"]


class Place(NamedTuple):
    """A position in one of the texts that make up a kernel.

    Args:
        part: which text: "source", "header" or "prelude".
        line, column: counted from 1.
    """

    part: str
    line: int
    column: int


class Problem(Exception):
    """An error at a place, raised within the front end and the walk; `parse_kernel` makes a `KernelError` of it."""

    def __init__(self, reason: str, place: Place | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place

    @staticmethod
    def at(place: Place, reason: str) -> NoReturn:
        raise Problem(reason, place)


class NoSuchType(Problem):
    """The condition of an `enable_if` does not hold: an overload with this type is left out, which is no error."""


class KernelError(RuntimeError):
    """A kernel that does not parse, or that uses something outside the supported language.

    Args:
        name: the kernel's name.
        line, column: the position in the source or the header, counted from 1.
        text: the line there.
        reason: the error itself, as a compiler would give it.
        part: "source" or "header".
    """

    def __init__(self, name: str, line: int, column: int, text: str, reason: str, part: str = "source") -> None:
        self.name, self.line, self.column, self.text, self.reason, self.part = name, line, column, text, reason, part
        where = f"{part} line {line}, column {column}"
        lead = text[: column - 1]
        caret = "".join("\t" if c == "\t" else " " for c in lead) + "^"
        super().__init__(f"[metal_kernel] {name}: {where}: {reason}\n    {text}\n    {caret}")

    def __reduce__(self) -> tuple:
        return KernelError, (self.name, self.line, self.column, self.text, self.reason, self.part)
