"""The notebooks run from top to bottom, each in a process of its own, and print what they show."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

RUNNER = """
import ast, contextlib, io, json, sys

namespace = {"__name__": "__main__"}
shown = []
for number, source in enumerate(json.load(sys.stdin), 1):
    *body, last = ast.parse(source, f"cell {number}").body
    value = last.value if isinstance(last, ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(ast.Module(body if value else [*body, last], []), f"cell {number}", "exec"), namespace)
        result = eval(compile(ast.Expression(value), f"cell {number}", "eval"), namespace) if value else None
    shown.append(out.getvalue() + ("" if result is None else repr(result)))
print(json.dumps(shown))
"""


def run(sources):
    """What each of these cells prints, and shows of its last expression."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps(sources), cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(output):
    return "".join(output["text"] if "text" in output else output["data"]["text/plain"])


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == {"porting", "tour"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    got = run(["".join(cell["source"]) for cell in cells])
    for cell, printed in zip(cells, got, strict=True):
        assert printed.strip() == "".join(map(text, cell["outputs"])).strip(), "".join(cell["source"])


def test_the_runner_shows_what_a_notebook_would():
    assert run(["x = 2\nprint(x)\nx + 1", "x = 3", "'a'"]) == ["2\n3", "", "'a'"]
