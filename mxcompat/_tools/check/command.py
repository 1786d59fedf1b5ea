"""`python -m mxcompat check PATH`: find uses of MLX in a program that mxcompat lacks, or that will be slow.

It reads the source and runs nothing. It follows `import mlx.core as mx` and the like, and arrays, layers and optimizers
whose type is clear from the code.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import os
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from .findings import Finding, Report
from .program import look_through

__all__ = ["check"]

_QUIET = ("guarded", "other")


def check(argv: list[str]) -> int:
    """Check files and folders, and print the findings.

    Returns:
        The exit status: 1 if a name is missing or a file cannot be read, 2 if a path does not exist, else 0.
    """
    options = _parser().parse_args(argv)
    absent = [path for path in options.paths if not os.path.exists(path)]
    if absent:
        print(f"mxcompat: no such file or directory: {', '.join(absent)}", file=sys.stderr)
        return 2
    report = Report()
    for path in _with_progress(list(_sources(options.paths))):
        _read(path, report)
    report.findings.sort()
    shown = [finding for finding in report.findings if options.all or finding.kind not in _QUIET]
    if options.json:
        summary = {"files": report.files, "names": sorted(report.names), "fits": report.fits}
        print(json.dumps(summary | {"findings": [asdict(finding) for finding in report.findings]}, indent=1))
    else:
        for finding in shown:
            print(finding)
        print(report)
    return 0 if report.fits else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m mxcompat check",
        description="Say what of programs written for MLX mxcompat does not have, and what will be slow.",
        epilog="Exit status: 1 if something is missing or cannot be read; slow uses do not count.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder of them")
    parser.add_argument("--json", action="store_true", help="write the findings as JSON")
    parser.add_argument("--all", action="store_true", help="show also what needs no action")
    return parser


def _read(path: Path, report: Report) -> None:
    try:
        with tokenize.open(path) as file:
            tree = ast.parse(file.read(), str(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        line = getattr(error, "lineno", None) or 1
        message = f"cannot be read: {error.__class__.__name__}: {error}"
        report.findings.append(Finding(str(path), line, "unreadable", message))
        return
    look_through(tree, str(path), report)


def _sources(paths: Iterable[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(path.rglob("*.py"))
            yield from (p for p in files if not any(part.startswith(".") for part in p.relative_to(path).parts))
        else:
            yield path


def _with_progress(paths: list[Path]) -> Iterable[Path]:
    """Wrap the paths in a progress bar, in a terminal and if tqdm is installed. It appears after half a second."""
    if not sys.stderr.isatty() or importlib.util.find_spec("tqdm") is None:
        return paths
    return importlib.import_module("tqdm").tqdm(paths, unit=" files", delay=0.5, leave=False)
