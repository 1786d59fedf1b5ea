"""The code on the pages: all blocks are run, page by page in one process, and their output is compared.

Code blocks are ```` ```python ```` or ```` ```sh ````. A ```` ```text ```` block directly after one is its output. An
exception is the last line, and `...` stands for any text. A comment before a block gives instructions:

    <!-- file: train.py -->       the block is this file, in the page's own folder
    <!-- file: train.py, run -->  and is run with the others of the page
    <!-- needs: torch -->         run only where this can be imported
    <!-- not run: why -->

`python -m docs._build blocks PAGE` writes the output of a page's blocks into the page.
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
import contextlib, io, json, os, sys

shown = []
for folder, sources in json.load(sys.stdin):
    os.chdir(folder)
    namespace = {"__name__": "__main__"}
    if "mxcompat.ext" in sys.modules:
        sys.modules["mxcompat.ext"].debug.clear_cache()
    for name, source in sources:
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
        shown: the output shown on the page; None if there is none.
        mark: the comment before the block.
        line: the line on the page.
    """

    kind: str
    code: str
    shown: str | None
    mark: str
    line: int

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix("file:").removesuffix(", run").strip() if self.mark.startswith("file:") else None

    @property
    def runs(self) -> bool:
        return not self.mark.startswith("not run:") and (self.file is None or self.mark.endswith(", run"))


def pages() -> list[Path]:
    """Return the hand-written pages."""
    generated = {"coverage.md"}
    return sorted(path for path in DOCS.rglob("*.md") if path.name not in generated)


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page."""
    found = []
    for match in _BLOCK.finditer(text):
        mark = match["mark"] or ""
        code, shown = (_unindented(match[part], match["indent"]) for part in ("code", "shown"))
        line = text.count("\n", 0, match.start("kind")) + 1
        found.append(Block(match["kind"], code or "", shown, mark, line))
    return found


def _unindented(text: str | None, indent: str) -> str | None:
    return None if text is None else re.sub(f"^{indent}", "", text, flags=re.MULTILINE)


def wanting(block: Block) -> str | None:
    """Return the module that a block needs and that is not installed, or None."""
    needs = block.mark.removeprefix("needs:").strip() if block.mark.startswith("needs:") else ""
    return next((name for name in needs.split() if importlib.util.find_spec(name) is None), None)


def printed(pages: dict[str, list[Block]], keep: Path | None = None) -> dict[tuple[str, Block], tuple[str, bool]]:
    """Run the blocks of pages: first all Python blocks, each page with its own names and folder, then the shell blocks.

    Args:
        pages: the blocks of each page, by name.
        keep: where to copy the pictures that they make.

    Returns:
        The output of each block that was run, and whether it raised an exception.
    """
    results: dict[tuple[str, Block], tuple[str, bool]] = {}
    with tempfile.TemporaryDirectory() as root:
        folders = {name: Path(root, str(k)) for k, name in enumerate(pages)}
        ready = {name: [b for b in found if b.runs and not wanting(b)] for name, found in pages.items()}
        for name, found in pages.items():
            folders[name].mkdir()
            for block in found:
                if block.file:
                    (folders[name] / block.file).write_text(block.code)
        groups = {
            name: (str(folders[name]), [(f"{name}:{b.line}", b.code) for b in found if b.kind == "python"])
            for name, found in ready.items()
        }
        order = [(name, b) for name, found in ready.items() for b in found if b.kind == "python"]
        results |= dict(zip(order, _python(list(groups.values())), strict=True))
        for name, found in ready.items():
            results |= {(name, b): _shell(b.code, folders[name]) for b in found if b.kind == "sh"}
        if keep is not None:
            for picture in Path(root).rglob("*.svg"):
                shutil.copy(picture, keep)
    return results


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PATH": path, "PYTHONPATH": search, "MPLBACKEND": "Agg", "MXCOMPAT_CACHE": "0"}


def _shell(code: str, folder: Path) -> tuple[str, bool]:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=_environment(), capture_output=True, text=True, timeout=300
    )
    return done.stdout + (done.stderr if done.returncode else ""), bool(done.returncode)


def _python(groups: list[tuple[str, list[tuple[str, str]]]]) -> list[tuple[str, bool]]:
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER], input=json.dumps(groups), env=_environment(), capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [(text, raised) for text, raised in json.loads(done.stdout)]


def matches(block: Block, text: str, raised: bool) -> bool:
    """Return True if the output of a block matches the page. Output that is not shown may be anything except an
    exception."""
    if block.shown is None:
        return not raised
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(block.shown.strip() + "\n", text.strip() + "\n", options)


def written(page: Path) -> str:
    """Return a page with the actual output of its blocks, where it shows output."""
    text = page.read_text()
    found = blocks(text)
    results = printed({page.name: found}, DOCS / "assets")
    for match, block in reversed([*zip(_BLOCK.finditer(text), found, strict=True)]):
        if block.shown is not None and (page.name, block) in results:
            got = results[page.name, block]
            if matches(block, *got):
                continue
            new = re.sub("^(?=.)", match["indent"], got[0].rstrip() + "\n", flags=re.MULTILINE)
            text = text[: match.start("shown")] + new + text[match.end("shown") :]
    return text
