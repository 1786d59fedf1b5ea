"""What `check` finds, and the whole of it."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Finding", "Report"]


@dataclass(frozen=True, order=True)
class Finding:
    """A place in a program, and what is to be known of it.

    Args:
        kind: "missing" (mxcompat does not have it), "argument" (a function has no such argument), "unreadable" (a file
            that is no Python), "kernel" (in CUDA, or in Metal outside of the supported language), "runs" (a kernel
            within it), "unknown" (a kernel whose text is made at run time), "slow", "guarded" (missing, but the
            program expects that it may be) or "other" (a module of another distribution's).
        cure: what to do about it; may be empty.
    """

    path: str
    line: int
    kind: str
    message: str
    cure: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" + (f"; {self.cure}" if self.cure else "")


@dataclass
class Report:
    """How many files use MLX, which of its names, and what was found, in the order of the places."""

    files: int = 0
    names: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def count(self, *kinds: str) -> int:
        return sum(finding.kind in kinds for finding in self.findings)

    @property
    def fits(self) -> bool:
        """Whether nothing is missing: what is slow, or has another way to go, runs."""
        return self.count("missing", "argument", "unreadable") == 0

    def __str__(self) -> str:
        missing = self.count("missing", "argument", "unreadable")
        parts = [f"{self.files} files use {len(self.names)} names of MLX", f"{missing} places use what is missing"]
        for kind, text in _MORE.items():
            if self.count(kind):
                parts.append(f"{self.count(kind)} {text}")
        return "; ".join(parts) + "."


_MORE = {
    "guarded": "do, and expect that it may be",
    "runs": "define kernels in the supported language",
    "unknown": "define kernels whose text is made at run time",
    "kernel": "define kernels which do not run",
    "slow": "will be slow",
    "other": "import what other distributions have under MLX's name",
}
