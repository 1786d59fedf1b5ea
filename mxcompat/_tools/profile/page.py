"""A profile as one HTML file, without scripts and in the reader's light or dark mode, that can be sent."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from mxcompat._jax import jax
from mxcompat._version import MLX_VERSION, __version__

from .record import KINDS, Line, Profile
from .table import memory, shares, short, source, why

__all__ = ["page"]

_COLOURS = {
    "python": "#3776ab",
    "plan": "#8e7cc3",
    "host": "#4d9a5c",
    "compile": "#d98e2b",
    "run": "#c2504a",
    "wait": "#9aa0a6",
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
td:last-child, th:last-child { text-align: left; }
.scroll { overflow-x: auto; } code { font-size: .9em; } svg { display: block; width: 100%; }
.bar svg { min-width: 8rem; } .why { white-space: normal; min-width: 20rem; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
"""


def page(profile: Profile, program: str) -> str:
    """Return the whole page."""
    return "\n".join(_page(profile, program))


def _page(profile: Profile, program: str) -> Iterator[str]:
    yield "<!doctype html><html lang='en'><meta charset='utf-8'>"
    yield "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    yield f"<title>Profile of {escape(program)}</title><style>{_STYLE}</style>"
    yield f"<h1>{escape(program)}: {profile.wall:.3f} s</h1>"
    yield f"<p>{escape(memory(profile))}.</p>"
    yield _bar([(kind, share) for kind, share in shares(profile)], 24)
    yield "<dl>"
    for kind, share in shares(profile):
        yield f"<dt><span class='key' style='background:{_COLOURS[kind]}'></span>{kind} {100 * share:.1f} %</dt>"
        yield f"<dd>{escape(KINDS[kind])}</dd>"
    yield "</dl><h2>In the course of time</h2>"
    yield _timeline(profile)
    yield "<h2>Lines that asked for values</h2><div class='scroll'><table><tr>"
    yield "".join(f"<th>{word}</th>" for word in ("times", "ops", "seconds", *KINDS, "", "line")) + "</tr>"
    for place, line in sorted(profile.lines.items(), key=lambda item: -item[1].total):
        yield _row(place, line)
    yield "</table></div><h2>Compiles</h2>"
    yield f"<p>{len(profile.compiles)}, {profile.background:.3f} s of them in the background.</p>"
    yield "<div class='scroll'><table><tr><th>seconds</th><th>ops</th><th>asked for at</th><th>why</th></tr>"
    for compile in profile.compiles:
        yield f"<tr><td>{compile.seconds:.3f}</td><td>{compile.ops}</td><td>{escape(short(compile.place))}</td>"
        yield f"<td class='why'>{escape(why(compile))}</td></tr>"
    yield "</table></div>"
    backend = f"jax {jax.__version__} on {jax.devices()[0].device_kind}"
    yield f"<p><small>mxcompat {__version__} with the API of MLX {MLX_VERSION}, {escape(backend)}.</small></p></html>"


def _row(place: str, line: Line) -> str:
    numbers = [f"{x:.3f}" if x else "" for x in (line.total, *line.seconds.values())]
    cells = "".join(f"<td>{cell}</td>" for cell in (line.count or "", line.ops or "", *numbers))
    bar = _bar([(kind, seconds / (line.total or 1.0)) for kind, seconds in line.seconds.items()], 10)
    text = f"{escape(short(place))} <code>{escape(source(place))}</code>"
    return f"<tr>{cells}<td class='bar'>{bar}</td><td>{text}</td></tr>"


def _bar(parts: list[tuple[str, float]], height: int) -> str:
    """Return a bar whose parts add up to 1."""
    rects, at = [], 0.0
    for kind, part in parts:
        title = f"<title>{kind} {100 * part:.1f} %</title>"
        colour = _COLOURS[kind]
        rects.append(f"<rect x='{at:.3f}' width='{100 * part:.3f}' height='1' fill='{colour}'>{title}</rect>")
        at += 100 * part
    return f"<svg height='{height}' viewBox='0 0 100 1' preserveAspectRatio='none'>{''.join(rects)}</svg>"


def _timeline(profile: Profile) -> str:
    """Return a chart with a column for each stretch of time, divided by kind of work."""
    timeline, rects = profile.timeline, []
    for x, bin in enumerate(timeline.bins):
        top = 1.0
        for kind in KINDS:
            height = bin.get(kind, 0.0) / timeline.width
            if height > 0:
                top -= height
                rects.append(f"<rect x='{x}' y='{top:.3f}' width='1' height='{height:.3f}' fill='{_COLOURS[kind]}'/>")
    picture = f"viewBox='0 0 {len(timeline.bins) or 1} 1' preserveAspectRatio='none' shape-rendering='crispEdges'"
    scale = f"<p><small>0 to {len(timeline.bins) * timeline.width:.3f} s</small></p>"
    return f"<svg height='120' {picture}>{''.join(rects)}</svg>{scale}"
