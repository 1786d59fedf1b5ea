"""The findings of `check`, and its report."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Finding", "Report"]


@dataclass(frozen=True, order=True)
class Finding:
    """One finding: a place in a program and a message.

    Args:
        path: the file.
        line: the line in the file.
        kind: one of these words. For names: "missing" (mxcompat does not have the name), "guarded" (missing, but the
            program handles that), "argument" (the function has no such argument), "other" (a module of another
            distribution). For kernels: "runs" (it is in the supported language), "kernel" (it is in CUDA, or in Metal
            outside the supported language), "unknown" (its text is made at run time). For files: "unreadable" (it is
            not valid Python). And "slow", for work that runs, but slowly.
        message: the text of the finding.
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
    """The number of files that use MLX, the names that they use, and the findings in order of place."""

    files: int = 0
    names: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def count(self, *kinds: str) -> int:
        return sum(finding.kind in kinds for finding in self.findings)

    @property
    def fits(self) -> bool:
        """True if nothing is missing. Slow and guarded uses do not count, because they run."""
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
