"""The code on the pages: each block is run, page by page in one process, and what it prints is compared.

A block of ```` ```python ```` or ```` ```sh ````; a block of ```` ```text ```` right behind it is what it prints, an
exception as its last line, `...` for anything. A comment before a block says what is special about it:

    <!-- file: train.py -->       the block is this file, in the page's own folder
    <!-- file: train.py, run -->  and is run with the others of the page
    <!-- another process -->      what follows does not know what was before
    <!-- needs: torch -->         run only where this can be imported
    <!-- not run: why -->

`python -m docs._build blocks PAGE` writes what the blocks of a page print into the page.
"""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "blocks", "matches", "pages", "printed", "wanting", "written"]

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^[ ]*<!-- (?P<mark>[^\n]*?) -->\n\n?)?"
    r"^(?P<indent> *)```(?P<kind>python|sh)[^\n]*\n(?P<code>.*?)^(?P=indent)```\n"
    r"(?:\n*^(?P=indent)```text[^\n]*\n(?P<shown>.*?)^(?P=indent)```\n)?",
    re.DOTALL | re.MULTILINE,
)

_RUNNER = """
import contextlib, io, json, sys

namespace = {"__name__": "__main__"}
shown = []
for name, source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(source, name, "exec"), namespace)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
            shown.append([out.getvalue(), True])
        else:
            shown.append([out.getvalue(), False])
print(json.dumps(shown))
"""


class Block(NamedTuple):
    """A block of code on a page.

    Args:
        kind: `python` or `sh`.
        code: its text, without indentation.
        shown: what the page says it prints; None if it says nothing.
        mark: the comment before it.
        line: where on the page.
        process: the number of the process that it runs in; shell blocks have none of their own.
    """

    kind: str
    code: str
    shown: str | None
    mark: str
    line: int
    process: int

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix("file:").removesuffix(", run").strip() if self.mark.startswith("file:") else None

    @property
    def runs(self) -> bool:
        return not self.mark.startswith("not run:") and (self.file is None or self.mark.endswith(", run"))


def pages() -> list[Path]:
    """The pages that are written by hand."""
    generated = {"coverage.md"}
    return sorted(path for path in DOCS.rglob("*.md") if path.name not in generated)


def blocks(text: str) -> list[Block]:
    """The blocks of a page."""
    found = []
    process = 0
    for match in _BLOCK.finditer(text):
        mark = match["mark"] or ""
        process += mark == "another process"
        code, shown = (_unindented(match[part], match["indent"]) for part in ("code", "shown"))
        line = text.count("\n", 0, match.start("kind")) + 1
        found.append(Block(match["kind"], code or "", shown, mark, line, process))
    return found


def _unindented(text: str | None, indent: str) -> str | None:
    return None if text is None else re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


def wanting(block: Block) -> str | None:
    """What a block needs that is not installed."""
    needs = block.mark.removeprefix("needs:").strip() if block.mark.startswith("needs:") else ""
    return next((name for name in needs.split() if importlib.util.find_spec(name) is None), None)


def printed(found: list[Block], page: str, keep: Path | None = None) -> dict[Block, tuple[str, bool]]:
    """Run blocks in a folder of their own: Python's, in order, then the shell's.

    Args:
        found: the blocks of a page.
        page: its name, for tracebacks.
        keep: where to copy the pictures that they make.

    Returns:
        What each block that was run printed, and whether it raised.
    """
    results: dict[Block, tuple[str, bool]] = {}
    ready = [block for block in found if block.runs and not wanting(block)]
    with tempfile.TemporaryDirectory() as folder:
        for block in found:
            if block.file:
                Path(folder, block.file).write_text(block.code)
        for _, group in groupby((b for b in ready if b.kind == "python"), lambda b: b.process):
            mine = list(group)
            results |= dict(zip(mine, _python(mine, page, folder), strict=True))
        for block in ready:
            if block.kind == "sh":
                results[block] = _shell(block.code, folder)
        if keep is not None:
            for picture in Path(folder).glob("*.svg"):
                shutil.copy(picture, keep)
    return results


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PATH": path, "PYTHONPATH": search, "MPLBACKEND": "Agg", "COLUMNS": "100"}


def _shell(code: str, folder: str) -> tuple[str, bool]:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=_environment(), capture_output=True, text=True, timeout=300
    )
    return done.stdout + (done.stderr if done.returncode else ""), bool(done.returncode)


def _python(found: list[Block], page: str, folder: str) -> list[tuple[str, bool]]:
    sources = json.dumps([(f"{page}:{block.line}", block.code) for block in found])
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER], input=sources, cwd=folder, env=_environment(), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{page}: {done.stderr}")
    return [(text, raised) for text, raised in json.loads(done.stdout)]


def matches(block: Block, text: str, raised: bool) -> bool:
    """Whether a block printed what the page says. What a page does not show may be anything but an exception."""
    if block.shown is None:
        return not raised
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(block.shown.strip() + "\n", text.strip() + "\n", options)


def written(page: Path) -> str:
    """A page with what its blocks print, where it shows that."""
    text = page.read_text()
    found = blocks(text)
    results = printed(found, page.name, DOCS / "assets")
    for match, block in reversed([*zip(_BLOCK.finditer(text), found, strict=True)]):
        if block.shown is not None and block in results and not matches(block, *results[block]):
            new = re.sub("^(?=.)", match["indent"], results[block][0].rstrip() + "\n", flags=re.MULTILINE)
            text = text[: match.start("shown")] + new + text[match.end("shown") :]
    return text
