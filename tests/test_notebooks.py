"""The notebooks run from top to bottom, each with its own kernel, and reproduce their stored outputs."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from docs._build import notebooks

ROOT = Path(__file__).parent.parent

RUN = """
import sys
from pathlib import Path
import nbformat
from docs._build.notebooks import executed
nbformat.write(executed(Path(sys.argv[1])), sys.argv[2])
"""


def run(path, out):
    """Return the notebook with its new outputs, run in a separate process: Jupyter starts threads and an event loop."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN, path, out], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return nbformat.read(out, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert {path.stem for path in notebooks.NOTEBOOKS} == {"flow", "lora", "metal", "porting", "tour", "transforms"}


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_stored(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    for was, now in zip(code(stored), code(run(path, tmp_path / path.name)), strict=True):
        assert notebooks.shown(now) == notebooks.shown(was), now.source


@pytest.mark.parametrize("path", notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_a_picture_and_no_more_bytes_than_it_needs(path):
    cells = code(nbformat.read(path, as_version=4))
    assert sum(notebooks.shown(cell)[1] for cell in cells) >= 1
    assert path.stat().st_size < 400_000


def test_what_fails_is_seen(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in ("x = 2\nprint(x)\nx + 1", "'a'")])
    nbformat.write(notebook, tmp_path / "made.ipynb")
    assert [notebooks.shown(cell) for cell in code(run(tmp_path / "made.ipynb", tmp_path / "out.ipynb"))] == [
        ("2\n3", 0),
        ("'a'", 0),
    ]
    notebook.cells[0].source = "1 / 0"
    nbformat.write(notebook, tmp_path / "made.ipynb")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run(tmp_path / "made.ipynb", tmp_path / "out.ipynb")
