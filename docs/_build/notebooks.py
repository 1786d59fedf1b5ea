"""Run the notebooks with Jupyter, each with its own kernel, and store their output."""

from __future__ import annotations

import copy
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

__all__ = ["NOTEBOOKS", "executed", "shown", "store"]

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def executed(path: Path) -> Any:
    """Return the notebook with its current output. Progress bars and warnings on standard error are left out."""
    notebook = copy.deepcopy(nbformat.read(path, as_version=4))
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search, "MXCOMPAT_CACHE": "0"}
    kernel = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}})
    kernel.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output["execution_count"] = None
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def shown(cell: Any) -> tuple[str, int]:
    """Return the printed text of a code cell, and its number of pictures."""
    texts = []
    pictures = 0
    for output in cell.outputs:
        data = output.get("data", {})
        if any(kind.startswith("image/") for kind in data):
            pictures += 1
        else:
            texts.append(output.get("text") or data.get("text/plain", ""))
    return re.sub(r"\s+\Z", "", "".join(texts)), pictures


def store(path: Path) -> None:
    """Run a notebook and store its output."""
    print(path.name, file=sys.stderr)
    nbformat.write(executed(path), path)
