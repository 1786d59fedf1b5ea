"""Random programs that write to their arguments, to aliases and to captured arrays, within nested transforms.

A program is lines of source: functions whose bodies are drawn from `_statement`, then calls of them under transforms
of transforms. `outcomes` runs them on one side, and reports each result with the arguments and the captured state
afterwards.

Two cases are excluded, because real MLX gets them wrong (see docs/differences.md). The first is a write, within a
`vmap`, by an index that does not depend on a mapped argument. The second is the number of runs of a `checkpoint`.
"""

from __future__ import annotations

import copy
import random
from typing import Any

__all__ = ["lines", "outcomes"]

PLACES = ("x", "y", "z", "t['a']", "t['b'][0]")
ALIASES = (
    "x * 1", "mx.array(x)", "x[...]", "mx.stop_gradient(x)", "x.reshape(-1)", "copy.copy(x)", "mx.sin(x)", "x[:]",
)  # fmt: skip
INNER = ("x += 1", "x[0] = 5.0", "x *= 2", "x -= x")
INNER_OF_TREE = ("t['a'] = t['a'] + x", "t['a'] += 1", "t['b'][0] *= 2", "t = dict(t); t['a'] = x * 2")
RETURNED = ("x + y + z", "x * y + t['a']", "z * 2 + t['b'][0]", "x + z", "t['a'] + y", "z")
AROUND = (
    "f", "mx.compile(f)", "mx.checkpoint(f)", "mx.compile(mx.compile(f))", "mx.custom_function(f)",
    "(lambda x, t: mx.vjp(lambda q: f(q, t), [x], [x * 0 + 1])[1][0])",
    "(lambda x, t: mx.grad(lambda q: f(q, t).sum())(x))",
    "(lambda x, t: mx.value_and_grad(lambda q, u: f(q, u).sum())(x, t)[1])",
    "(lambda x, t: mx.vmap(lambda q: f(q, t))(mx.stack([x, x * 2]))[1])",
    "(lambda x, t: mx.jvp(lambda q: f(q, t), [x], [x])[1][0])",
    "(lambda x, t: mx.grad(lambda u: f(x, u).sum())(t)['a'])",
)  # fmt: skip
CALLS = (
    "F(point(), tree())", "(lambda x, t: [F(x, t), x, t])(point(), tree())",
    "mx.compile(lambda x: F(x, tree()))(point())",
    "mx.grad(lambda x: F(x, tree()).sum())(point())", "mx.vmap(lambda x: F(x, tree()))(mx.stack([point(), -point()]))",
    "mx.value_and_grad(lambda x, t: F(x, t).sum(), (0, 1))(point(), tree())",
    "mx.compile(lambda x, t: [F(x, t), x, t['a']])(point(), tree())",
    "mx.jvp(lambda x: F(x, tree()), [point()], [point()])", "mx.checkpoint(lambda x: F(x, tree()))(point())",
    "mx.grad(mx.checkpoint(lambda x: F(x, tree()).sum()))(point())",
    "mx.compile(mx.grad(lambda x: F(x, tree()).sum()))(point())",
    "mx.vmap(mx.grad(lambda x: F(x, tree()).sum()))(mx.stack([point(), -point()]))",
)  # fmt: skip


def lines(seed: int) -> list[str]:
    """Return the program of a seed."""
    rng = random.Random(seed)
    statements = [
        "C = {'k': mx.array(2.0)}", "def point(): return mx.array([1.0, 2.0, 3.0])",
        "def tree(): return {'a': mx.array([1.0, 1.0, 2.0]), 'b': [mx.array([0.5, 0.5, -1.0])]}",
        f"def inner(x):\n    {rng.choice(INNER)}\n    return x * 2",
        f"def inner_of_tree(x, t):\n    x = x * 1\n    {rng.choice(INNER_OF_TREE)}\n    return x, t['a']",
    ]  # fmt: skip
    for name in ("inner", "inner_of_tree"):
        if rng.random() < 0.5:
            statements.append(f"{name} = mx.{rng.choice(('compile', 'checkpoint', 'custom_function'))}({name})")
    body = "".join(f"\n    {_statement(rng)}" for _ in range(rng.randrange(2, 8)))
    statements.append(f"def f(x, t):\n    z = x\n    y = t['a']{body}\n    return {rng.choice(RETURNED)}")
    for _ in range(3):
        statements += [f"F = {rng.choice(AROUND)}", rng.choice(CALLS), rng.choice(CALLS)]
    written_by_index = "] = 5.0" in statements[3] or "[::2] = " in statements[-10]
    statements = [line for line in statements if not (written_by_index and "vmap" in line)]
    return statements if any("checkpoint" in line for line in statements) else [*statements, "C"]


def _statement(rng: random.Random) -> str:
    place = rng.choice(PLACES)
    return rng.choice(
        (
            f"{place} {rng.choice(('+=', '*=', '-='))} {rng.choice((*PLACES, '2.0'))}", f"{place}[::2] = x[0]",
            f"z = {rng.choice(PLACES)}", f"y = {rng.choice(ALIASES)}", f"t['a'] = {rng.choice(PLACES)} * 2",
            f"t['a'] = {rng.choice(PLACES)}", f"t['b'][0] = {rng.choice(PLACES)} * 1.5", f"z = inner({place})",
            f"y, z = inner_of_tree({place}, t)", "x, y = y, x", "z = z + C['k'] * x.sum()",
            f"{place} = {place} + mx.cumsum({rng.choice(PLACES)})",
        )
    )  # fmt: skip


def outcomes(mx: Any, program: list[str]) -> list[Any]:
    """Return the result of each line that is an expression, or its exception."""
    names: dict[str, Any] = {"mx": mx, "copy": copy}
    results = []
    for line in program:
        try:
            code = compile(line, "<line>", "eval")
        except SyntaxError:
            exec(line, names)
            continue
        try:
            value = eval(code, names)
            mx.eval(value)
            results.append(value)
        except Exception as error:
            results.append(error)
    return results
