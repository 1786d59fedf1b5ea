"""The README's badge, from the figures that the sweep writes into docs/differences.md."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["badge", "figures"]

ROOT = Path(__file__).parent.parent.parent


def figures() -> tuple[int, int]:
    """Return the number of cells equal to real MLX's, and the number of cells that differ; see docs/conformance.md."""
    page = " ".join((ROOT / "docs" / "differences.md").read_text().split())
    same = re.search(r"(\d+) \([\d.]+ %\) are the same", page)
    differ = re.search(r"(\d+) differ: (\d+) ", page)
    if not same or not differ:
        raise ValueError("docs/differences.md has no figures of the sweep")
    return int(same[1]), int(differ[2])


def badge() -> str:
    """Return an SVG with the share of equal cells."""
    same, differ = figures()
    left, right = "same as MLX", f"{100 * same / (same + differ):.1f} % of {same + differ} cells"
    widths = [10 + 6.4 * len(text) for text in (left, right)]
    total = sum(widths)
    font = "font-family=\"Verdana, 'DejaVu Sans', sans-serif\" font-size=\"11\" fill=\"#fff\" text-anchor=\"middle\""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:g}" height="20" role="img">'
        f"<title>{left}: {right}</title>"
        f'<rect width="{total:g}" height="20" rx="3" fill="#555"/>'
        f'<rect x="{widths[0]:g}" width="{widths[1]:g}" height="20" rx="3" fill="#2e7d32"/>'
        f'<text x="{widths[0] / 2:g}" y="14" {font}>{left}</text>'
        f'<text x="{widths[0] + widths[1] / 2:g}" y="14" {font}>{right}</text></svg>\n'
    )
