"""Drawings as SVG text: boxes, arrows and words in two palettes, for light and for dark pages."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

__all__ = ["DARK", "LIGHT", "Drawing", "Palette"]


class Palette(NamedTuple):
    """The colours of a drawing: words, less important words, fills and the accent."""

    ink: str
    faint: str
    fill: str
    accent: str
    second: str


LIGHT = Palette("#1f2430", "#68708a", "#eef1fb", "#3f51b5", "#c2571a")
DARK = Palette("#e6e8f0", "#9aa3bd", "#2a2f42", "#8c9eff", "#ffab76")

_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


class Drawing:
    """A drawing with a width and height in pixels. Later elements are on top."""

    def __init__(self, width: int, height: int, palette: Palette, title: str) -> None:
        self.palette = palette
        self._size = (width, height)
        self._title = title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, accent: bool = False) -> None:
        stroke = self.palette.accent if accent else self.palette.faint
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{self.palette.fill}" '
            f'stroke="{stroke}"/>'
        )

    def words(
        self, x: float, y: float, text: str, size: float = 13, colour: str = "", mono: bool = False,
        anchor: str = "start", bold: bool = False,
    ) -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        family = _MONO if mono else _SANS
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-family="{family}" text-anchor="{anchor}"{weight} '
            f'fill="{colour or self.palette.ink}" xml:space="preserve">{escape(text)}</text>'
        )

    def lines(self, x: float, y: float, texts: list[str], size: float = 12, step: float = 17, **style: object) -> None:
        for k, text in enumerate(texts):
            self.words(x, y + k * step, text, size, **style)  # type: ignore[arg-type]

    def line(self, points: list[tuple[float, float]], colour: str = "", arrow: bool = True, width: float = 1.4) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour or self.palette.faint}" '
            f'stroke-width="{width:g}"{end}/>'
        )

    def dot(self, x: float, y: float, radius: float, colour: str, title: str = "") -> None:
        about = f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{colour}">{about}</circle>')

    def svg(self) -> str:
        width, height = self._size
        arrow = (
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{self.palette.faint}"/></marker></defs>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img"><title>{escape(self._title)}</title>'
        )
        return "\n".join([head, arrow, *self._parts, "</svg>", ""])
