"""The site asks no third party for anything: no script, style, font, image, frame or import of a page has an address
elsewhere, so that it works without a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs._build.hooks import without_foreign_scripts

ELSEWHERE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
NAMED = re.compile(r"\bhttps?://(?!www\.w3\.org/)[\w.-]+", re.IGNORECASE)
"""An address in code. Addresses of the W3C are left out, because they are names of namespaces."""

LOADED_BY_CSS = re.compile(r"(?:\burl\(\s*|@import\s+)[\"']?\s*((?:https?:)?//[^\"')\s;]*)", re.IGNORECASE)
LOADED_BY_CODE = re.compile(
    r"(?:\bimport\s*\(?\s*|\bfrom\s*|\bimportScripts\(\s*|\bfetch\(\s*)[\"'`]((?:https?:)?//[^\"'`]*)"
)

POINTERS = {"alternate", "author", "canonical", "edit", "help", "license", "me", "next", "prev"}
"""Kinds of `<link>` that nothing is loaded for."""

OF_THE_THEME = {
    "https://unpkg.com/resize-observer-polyfill": "for browsers of before 2020",
    "https://unpkg.com/mermaid@11/dist/mermaid.min.js": 'on pages with class="mermaid"',
    "https://api.github.com/repos/": 'on pages with data-md-component="source"',
    "https://api.github.com/users/": 'on pages with data-md-component="source"',
    "https://${e}/api/v4/projects/": 'on pages with data-md-component="source"',
}
"""Addresses from which the theme's code would load, and the condition for it."""


class Loads(HTMLParser):
    """Collect the tag and address of everything that a browser loads from other hosts to show a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loads: list[tuple[str, str]] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._inside = tag
        names = {"src", "srcset", "poster", "background", "data", "xlink:href"}
        if (tag == "link" and not set(attributes.get("rel", "").lower().split()) <= POINTERS) or tag in (
            "base", "image", "use", "feimage",
        ):  # fmt: skip
            names.add("href")
        for name in names & attributes.keys():
            parts = attributes[name].split(",") if name == "srcset" else [attributes[name]]
            self.loads += [(tag, part) for part in parts if ELSEWHERE.match(part)]
        self.loads += [(tag, address) for address in LOADED_BY_CSS.findall(attributes.get("style", ""))]
        self.loads += [(tag, value) for name, value in attributes.items() if name[:2] == "on" and NAMED.search(value)]
        if tag == "script":
            self.loads += [
                (tag, value) for name, value in attributes.items() if name[:5] == "data-" and NAMED.search(value)
            ]
        if (
            tag == "meta"
            and attributes.get("http-equiv", "").lower() == "refresh"
            and "//" in attributes.get("content", "")
        ):
            self.loads.append((tag, attributes["content"]))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.loads += [("style", address) for address in LOADED_BY_CSS.findall(data)]
        elif self._inside == "script":
            self.loads += [("script", address) for address in NAMED.findall(data) + LOADED_BY_CODE.findall(data)]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 45
    assert {"404.html", "tour.html"} <= {path.name for path in pages}
    by_page = {path.relative_to(site).as_posix(): Loads(path.read_text()).loads for path in pages}
    assert not {name: loads for name, loads in by_page.items() if loads}


def test_no_style_or_picture_loads_anything_from_elsewhere(site: Path) -> None:
    files = [path for kind in ("css", "svg") for path in site.rglob(f"*.{kind}")]
    assert {path.suffix for path in files} == {".css", ".svg"}
    for path in files:
        text = path.read_text()
        assert not LOADED_BY_CSS.findall(text), path
        assert path.suffix == ".css" or not Loads(text).loads, path


def test_no_code_loads_anything_from_elsewhere(site: Path) -> None:
    """Assert that scripts contain no other addresses, except those of the theme for elements that no page here has."""
    literals: set[str] = set()
    for path in site.rglob("*.js"):
        literals |= set(re.findall(r"[\"'`]((?:https?:)?//[\w$][^\"'`\s]*)[\"'`]", path.read_text()))
    unknown = {text for text in literals if not text.startswith((*OF_THE_THEME, "http://www.w3.org/"))}
    assert not unknown
    for path in site.rglob("*.html"):
        page = path.read_text()
        assert not re.search(r'class="[^"]*\bmermaid\b|data-md-component="source"', page), path


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<script src='//cdn.example/x.js'></script>",
        '<script data-formulas="{&quot;url&quot;: &quot;https://cdn.example/x.js&quot;}">load()</script>',
        '<script type="module">const x = await import("https://cdn.example/x.mjs")</script>',
        "<script>document.head.append(script('https://cdn.example/x.js'))</script>",
        '<link rel="stylesheet" href="https://cdn.example/x.css">',
        '<link href="https://fonts.example" rel="preconnect" crossorigin>',
        '<link rel="icon" href="//cdn.example/x.png">',
        "<style>@import 'https://cdn.example/x.css';</style>",
        "<style>@font-face { src: url(https://cdn.example/x.woff2) }</style>",
        '<p style="background: url(//cdn.example/x.png)">',
        '<img src="https://cdn.example/x.png">',
        '<img srcset="x.png 1x, https://cdn.example/x.png 2x">',
        '<video poster="https://cdn.example/x.png">',
        '<iframe src="https://cdn.example/">',
        '<object data="https://cdn.example/x.svg">',
        '<svg><use href="https://cdn.example/x.svg#a"></svg>',
        '<svg><image xlink:href="https://cdn.example/x.png"></svg>',
        '<base href="https://cdn.example/">',
        '<meta http-equiv="refresh" content="0; url=https://cdn.example/">',
        "<body onload=\"load('https://cdn.example/x.js')\">",
    ],
)
def test_what_is_loaded_is_noticed(page: str) -> None:
    assert len(Loads(f"<p>before</p>{page}").loads) >= 1


def test_what_is_not_loaded_is_left_alone() -> None:
    page = """<html xmlns="http://www.w3.org/1999/xhtml"><link rel="canonical" href="https://example.org/">
        <a href="https://example.org/">there</a><pre>import("https://example.org/x.js")</pre>
        <script src="assets/x.js"></script><script>const space = "http://www.w3.org/2000/svg"</script>
        <svg xmlns="http://www.w3.org/2000/svg"><use href="#a"/></svg><img src="data:image/png;base64,//8=">"""
    assert not Loads(page).loads


def test_scripts_that_name_an_address_are_left_out() -> None:
    kept = '<p>https://example.org</p><script>one()</script><script src="x.js"></script>'
    foreign = '<script data-x="https://cdn.example">\nload()\n</script>'
    assert without_foreign_scripts(foreign + kept + foreign) == kept
