"""A profile as text for a terminal."""

from __future__ import annotations

import linecache
import os
import textwrap
from collections.abc import Iterator

from .record import KINDS, Compile, Profile

__all__ = ["memory", "shares", "short", "source", "table", "why"]


def table(profile: Profile, program: str, top: int) -> Iterator[str]:
    """Yield the lines of the text: totals, the most expensive lines of the program, and the compilations."""
    yield f"{program}: {profile.wall:.3f} s"
    yield "  " + ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares(profile))
    yield f"  {memory(profile)}"
    yield ""
    yield "times   ops" + "".join(f"{kind:>9}" for kind in ("seconds", *KINDS)) + "  line"
    lines = sorted(profile.lines.items(), key=lambda item: -item[1].total)
    for place, line in lines[:top]:
        numbers = [line.total, *line.seconds.values()]
        text = "".join(f"{x:9.3f}" if x else " " * 9 for x in numbers)
        yield f"{line.count or '':>5} {line.ops or '':>5}{text}  {short(place)}  {source(place)}".rstrip()
    if len(lines) > top:
        yield f"and {len(lines) - top} lines more (--top)"
    yield ""
    yield f"{len(profile.compiles)} compiles, {profile.background:.3f} s of them in the background"
    for compile in sorted(profile.compiles, key=lambda c: -c.seconds)[:top]:
        reason = textwrap.shorten(why(compile), 100, placeholder=" ...")
        yield f"{compile.seconds:9.3f} s {compile.ops:>6} ops  {short(compile.place)}: {reason}"


def why(compile: Compile) -> str:
    """Return the reason for a compilation, and whether it ran in the background."""
    loaded = ", loaded from disk" if compile.loaded else ""
    return ("in the background, " if compile.background else "") + compile.reason + loaded


def shares(profile: Profile) -> list[tuple[str, float]]:
    """Return the share of time of each kind of work."""
    total = sum(map(profile.total, KINDS)) or 1.0
    return [(kind, profile.total(kind) / total) for kind in KINDS]


def memory(profile: Profile) -> str:
    """Return a text about the peak memory."""
    peak, before = profile.memory["peak"], profile.memory["before"]
    text = f"memory: {peak / 1e6:.0f} MB at most, {before / 1e6:.0f} MB before the program began"
    if "device" in profile.memory:
        text += f"; {profile.memory['device'] / 1e6:.0f} MB on the device"
    return text


def short(place: str) -> str:
    """Return a place, which is `file:line`, with a relative path if the file is in the working directory."""
    here = os.getcwd() + os.sep
    return place.removeprefix(here)


def source(place: str) -> str:
    """Return the source line at a place, which is `file:line`; empty for code without a file."""
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file else ""
