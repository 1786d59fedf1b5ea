"""The drawings of the page on how it works, made by running the code, so that they show real Programs and plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import mxcompat as mx
from docs._build.svg import DARK, LIGHT, Drawing, Palette
from mxcompat._graph import policy
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.program import Program
from mxcompat._graph.run.events import observers

__all__ = ["DRAWINGS", "drawn"]


@contextmanager
def _plans() -> Iterator[list[Any]]:
    """Collect the plans that are carried out within this context, starting with empty caches."""
    found: list[Any] = []

    def observe(event: str, subject: Any, _: str) -> None:
        if event == "plan":
            found.append(subject)

    mx.ext.debug.clear_cache()
    observers.append(observe)
    try:
        yield found
    finally:
        observers.remove(observe)


_LIFE = ["a = mx.array([1.0, 2.0])", "b = mx.exp(a) * 2 + 1", "c = b.sum()"]


def _listed(program: Program) -> list[str]:
    """Return the lines of a Program, without the Programs inside it."""
    lines = [f"({', '.join(f'in{k}: {aval}' for k, aval in enumerate(program.in_avals))})"]
    for k, (op, params, slots) in enumerate(program.instructions):
        shown = ", ".join("program" if isinstance(p, Program) else str(p) for p in params)
        lines.append(f"%{k} = {op}{f'({shown})' if shown else ''} {_slots(slots)}")
    return [*lines, f"return {_slots(program.out_slots)}"]


def _slots(slots: tuple[int, ...]) -> str:
    return ", ".join(f"%{s}" if s >= 0 else f"in{~s}" for s in slots)


class _Box(NamedTuple):
    """A node in a drawing: its text, whether it has a value, its distance from the result, and its inputs."""

    label: str
    known: bool
    depth: int
    reads: list[int]


def _depths(node: Node, depth: int, found: dict[Node, int]) -> dict[Node, int]:
    """Return the largest distance of each node from the first."""
    found[node] = max(depth, found.get(node, 0))
    for behind in node.inputs:
        _depths(behind, depth + 1, found)
    return found


def _boxes(root: Node) -> list[_Box]:
    """Return the nodes behind a root, starting with the root."""
    depths = _depths(root, 0, {})
    order = list(depths)
    return [
        _Box(f"{node.op or 'data'} {node.aval}", node.value is not None, depth, [order.index(n) for n in node.inputs])
        for node, depth in depths.items()
    ]


def life(palette: Palette) -> Drawing:
    """Draw the life of an array: from lines of Python to nodes, a Program, a plan, a value."""
    names: dict[str, Any] = {"mx": mx}
    exec("\n".join(_LIFE), names)
    mx.eval(names["a"])
    boxes = _boxes(names["c"]._node)
    with _plans() as first:
        value = names["c"].item()
    with mx.ext.debug.host_disabled(), _plans() as compiled:
        exec("\n".join(_LIFE), names)
        names["c"].item()
    out = Drawing(760, 560, palette, "The life of an array: Python, nodes, Program, plan, value")
    title = {"size": 14, "bold": True, "colour": palette.accent}

    out.words(20, 28, "1. Python: each call makes a node", **title)
    out.box(20, 40, 300, 76)
    out.lines(34, 64, _LIFE, 13, 20, mono=True)

    out.words(400, 28, "2. Nodes: nothing has been computed", **title)
    deepest = max(box.depth for box in boxes)
    count: Counter[int] = Counter()
    place: list[tuple[float, float]] = []
    for box in boxes:
        x, y = 400 + 176 * count[box.depth], 52 + 50 * (deepest - box.depth)
        count[box.depth] += 1
        place.append((x, y))
        out.box(x, y, 164, 32, accent=box.known)
        out.words(x + 10, y + 21, box.label, 12, mono=True)
    for box, (x, y) in zip(boxes, place, strict=True):
        for bx, by in (place[k] for k in box.reads):
            out.line([(bx + 82, by + 32), (x + 82 if bx == x else x + 140, y)])
    out.line([(330, 78), (392, 78)])

    out.words(20, 330, "3. A Program: the structure, without the data", **title)
    text = _listed(first[0].program)
    out.box(20, 342, 380, 30 + 18 * len(text))
    out.lines(34, 366, text, 12, 18, mono=True)
    out.line([(396, 290), (310, 314)])

    out.words(430, 330, "4. A plan: how to compute it", **title)
    plans = [str(plan).partition(", ")[0] for plan in (first[0], compiled[-1])]
    for k, (when, plan) in enumerate(zip(("while it is new", "once it has returned often"), plans, strict=True)):
        out.box(430, 342 + 62 * k, 310, 52)
        out.words(444, 363 + 62 * k, when, 12, palette.faint)
        out.words(444, 383 + 62 * k, plan, 13)
    out.line([(404, 400), (426, 400)])

    out.words(430, 496, "5. A value", **title)
    out.box(430, 508, 310, 36, accent=True)
    out.words(444, 531, f"c.item() = {value:g}", 13, mono=True)
    out.line([(585, 460), (585, 480)])
    return out


def tiers(palette: Palette) -> Drawing:
    """Draw which tier computes a Program, and when that changes, by the thresholds of `policy`."""
    out = Drawing(760, 300, palette, "The tiers: NumPy, then XLA")
    title = {"size": 14, "bold": True, "colour": palette.accent}
    different = (1, 84, 800)
    examples = [f"{n} op{'s' * (n > 1)}: {policy.HOT_SHARE * policy.compile_seconds(n, n, 0, 0):.2g} s" for n in different]
    steps = [
        ("NumPy, op by op", ["what is new, on a CPU;", "no trace, no compiler"]),
        ("XLA, in the background", ["once it has taken NumPy half", "as long as a compile takes:", *examples]),
        ("XLA, from then on", ["the executable is swapped in", "when it is ready; and is kept", "on disk for the next start"]),
    ]
    for k, (name, lines) in enumerate(steps):
        x = 20 + 250 * k
        out.box(x, 20, 220, 140, accent=k > 0)
        out.words(x + 14, 46, name, **title)
        out.lines(x + 14, 70, lines, 12.5, 18)
        if k:
            out.line([(x - 28, 90), (x - 3, 90)])
    rules = [
        f"stays in NumPy: a single op on at most {policy.CALL_BYTES // 1024} KiB; what takes NumPy less than "
        f"{policy.MARGIN:g} of the executable's time",
        f"waits for XLA at once: what would take NumPy {policy.HOPELESS:g} times as long as the compile; "
        "what NumPy has no rule for",
        "all of it is XLA's: on a GPU or a TPU",
        f"compiled early: what takes NumPy {1000 * policy.HEAVY_SECONDS:.0f} ms or more, once it has taken "
        f"1/{1 / policy.HEAVY_SHARE:.0f} of the compile's time",
    ]
    out.lines(20, 196, ["Exceptions:"], 13, 18, bold=True)
    out.lines(20, 220, rules, 12, 22)
    return out


def training(palette: Palette) -> Drawing:
    """Draw the Program of a training step: a gradient is one instruction, which holds a Program."""

    def loss(params: Any, x: mx.array, y: mx.array) -> mx.array:
        return mx.mean(mx.square(mx.tanh(x @ params["w"]) - y))

    params, x, y = {"w": mx.zeros((3, 2))}, mx.ones((8, 3)), mx.ones((8, 2))
    mx.eval(params, x, y)
    with _plans() as found:
        value, grads = mx.value_and_grad(loss)(params, x, y)
        params = {"w": params["w"] - 0.1 * grads["w"]}
        mx.eval(value, params)
    program = found[0].program
    (inner,) = (p for _, held, _ in program.instructions for p in held if isinstance(p, Program))
    out = Drawing(760, 380, palette, "The Program of a training step")
    source = ["value, grads = mx.value_and_grad(loss)(params, x, y)", 'params = {"w": params["w"] - 0.1 * grads["w"]}',
              "mx.eval(value, params)"]  # fmt: skip
    title = {"size": 14, "bold": True, "colour": palette.accent}
    out.words(20, 28, "The step", **title)
    out.box(20, 40, 470, 76)
    out.lines(34, 64, source, 12.5, 20, mono=True)
    out.words(20, 148, "its Program", **title)
    outer = _listed(program)
    outer[0:1] = _broken(outer[0])
    out.box(20, 160, 400, 24 + 19 * len(outer))
    out.lines(34, 184, outer, 12, 19, mono=True)
    out.words(450, 148, "the Program within vjp: loss", **title)
    nested = _listed(inner)
    nested[0:1] = _broken(nested[0])
    out.box(450, 160, 300, 24 + 19 * len(nested), accent=True)
    out.lines(464, 184, nested, 12, 19, mono=True)
    row = next(k for k, line in enumerate(outer) if " = vjp" in line)
    out.line([(422, 180 + 19 * row), (447, 180 + 19 * row)])
    out.words(20, 372, "XLA compiles the vjp instruction as jax.vjp of the replay; NumPy sweeps backwards over it.", 12.5,
              palette.faint)  # fmt: skip
    return out


def _broken(heading: str) -> list[str]:
    """Return the inputs, two per line."""
    parts = heading.split(", in")
    parts = [parts[0], *("in" + p for p in parts[1:])]
    return [", ".join(parts[k : k + 2]) + ("," if k + 2 < len(parts) else "") for k in range(0, len(parts), 2)]


DRAWINGS: dict[str, Callable[[Palette], Drawing]] = {"life": life, "tiers": tiers, "training": training}


def drawn() -> dict[str, str]:
    """Return the files in docs/assets, by name."""
    return {
        f"{name}-{shade}.svg": make(palette).svg()
        for name, make in DRAWINGS.items()
        for shade, palette in (("light", LIGHT), ("dark", DARK))
    }
