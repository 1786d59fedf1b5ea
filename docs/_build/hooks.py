"""Hooks of mkdocs for building the site: versions at the top, the navigation, the pages of the reference."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import jax  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

from docs._build.names import PAGES, Page, described, short, thing  # noqa: E402
from mxcompat._version import MLX_VERSION, __version__  # noqa: E402
from tests.benchmarks.report import pairs  # noqa: E402

__all__ = ["existing", "on_config", "on_files", "on_post_page", "without_foreign_scripts"]


def on_config(config: Any) -> Any:
    """Insert the versions, and remove missing pages from the navigation."""
    config.extra["versions"] = {"mxcompat": __version__, "MLX": MLX_VERSION, "JAX": jax.__version__}
    config.nav = existing(config.nav, Path(config.docs_dir))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference."""
    for page in PAGES:
        files.append(File.generated(config, f"reference/{page.path}.md", content=_text(page)))
    files.append(File.generated(config, "reference/index.md", content=_contents()))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Leave out scripts that may load from elsewhere. Have the links of notebooks lead to pages: they name files, so that
    they lead somewhere in the repository, too."""
    if page.file.src_uri.endswith(".ipynb"):
        output = re.sub(r'(href="(?!https?:)[^"#]+)\.(?:md|ipynb)(?=["#])(?!" title="Download)', r"\1.html", output)
    return without_foreign_scripts(output)


def without_foreign_scripts(output: str) -> str:
    """Return a page without the scripts that name an address: mkdocs-jupyter's, for formulas and diagrams.

    No notebook has either. Each version of mkdocs-jupyter puts in others: 0.26 Mermaid in the pages of notebooks, 0.27
    MathJax in every page.
    """
    return re.sub(r"<script\b.*?</script>", lambda m: "" if "https://" in m[0] else m[0], output, flags=re.DOTALL)


def existing(nav: list[Any], folder: Path) -> list[Any]:
    """Return the navigation without missing pages, with the pages of the reference in place of `reference/`, and those
    of the benchmarks in place of `benchmarks/`."""
    found: list[Any] = []
    for item in nav:
        ((title, target),) = item.items()
        if target == "reference/":
            found.append({title: _reference()})
        elif target == "benchmarks/":
            found.append({title: [f"benchmarks/{name}index.md" for name in ("", *_pairs(folder))]})
        elif isinstance(target, list):
            inside = existing(target, folder)
            if inside:
                found.append({title: inside})
        elif (folder / target).exists():
            found.append({title: target})
    return found


def _pairs(folder: Path) -> list[str]:
    return [f"{name}/" for name in pairs(folder / "benchmarks")]


_SECTIONS = {"ops": "Operations", "nn": "Neural networks", "ext": "Beyond MLX"}


def _reference() -> list[Any]:
    nav: list[Any] = [{"All names": "reference/index.md"}]
    for page in PAGES:
        item = {page.title: f"reference/{page.path}.md"}
        folder = page.path.partition("/")[0] if "/" in page.path else None
        if folder is None:
            nav.append(item)
        elif list(nav[-1]) == [_SECTIONS[folder]]:
            nav[-1][_SECTIONS[folder]].append(item)
        else:
            nav.append({_SECTIONS[folder]: [item]})
    return nav


def _text(page: Page) -> str:
    lines = [f"# {page.title}", "", page.about, ""]
    plain = [name for name in page.names if not described(name)]
    if plain:
        lines += ["| name | value |", "| --- | --- |"]
        lines += [f"| `{short(name)}` | `{thing(name)!r}` |" for name in plain]
    for name in page.names:
        if name not in plain:
            lines += ["", f"::: {name}"]
    return "\n".join([*lines, ""])


def _contents() -> str:
    lines = ["# All names", "", "Every public name, with what it does. `mx` is `mxcompat` or `mxcompat.core`.", ""]
    for page in PAGES:
        lines += ["", f"## {page.title}", "", page.about, "", "| name | what |", "| --- | --- |"]
        for name in page.names:
            if described(name):
                first = (inspect.getdoc(thing(name)) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
                lines.append(f"| [`{short(name)}`][{name}] | {first} |")
            else:
                lines.append(f"| [`{short(name)}`]({page.path}.md) | `{thing(name)!r}` |")
    return "\n".join([*lines, ""])
