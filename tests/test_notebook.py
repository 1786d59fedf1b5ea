"""`%load_ext mxcompat` in IPython, and the display of arrays and modules in a notebook."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mxcompat as mx
import mxcompat.nn as nn
from mxcompat._tools.notebook import array_html, module_html

ROOT = Path(__file__).parent.parent


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Linear(2, 3, bias=False), nn.ReLU()]
        self.scale = mx.ones((5,), dtype=mx.float16)

    def _extra_repr(self):
        return "a<b"


def test_an_array_shows_its_shape_and_size():
    text = array_html(mx.zeros((100, 30)))
    assert text.startswith("<pre>array([[0, 0, 0, ..., 0, 0, 0],")
    assert text.endswith("<small>float32[100, 30], 12 KB</small>")
    assert "bool[], 1 bytes" in array_html(mx.array(True))


def test_a_module_shows_its_parts_and_their_sizes():
    text = module_html(Net().eval())
    lines = re.sub(r"</?(?:div|details|summary|small|b)[^>]*>", "\n", text).split("\n")
    assert [line.strip() for line in lines if line.strip()] == [
        "Net(a&lt;b)", "11 parameters, 34 bytes, not in training mode",
        "blocks", "list", "6 parameters, 24 bytes",
        "0", "Linear(input_dims=2, output_dims=3, bias=False)", "6 parameters, 24 bytes, not in training mode",
        "weight", "float32[3, 2]",
        "1", "ReLU()", "0 parameters, 0 bytes, not in training mode",
        "scale", "float16[5]",
    ]  # fmt: skip
    for tag in ("div", "details", "summary", "small", "b"):
        assert len(re.findall(f"<{tag}[ >]", text)) == text.count(f"</{tag}>")


SESSION = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "mxcompat")
shell.run_cell("import mlx.core as mx, mlx.nn as nn, mxcompat")
html = shell.display_formatter.formatters["text/html"]
print(shell.user_ns["mx"].__spec__.name, shell.user_ns["mxcompat"].installed(), bool(shell.user_ns["mx"].__mxcompat__))
print("float32[2]" in html(shell.user_ns["mx"].ones(2)), "3 parameters" in html(shell.user_ns["nn"].Linear(2, 1)))
shell.run_line_magic("unload_ext", "mxcompat")
print(shell.user_ns["mxcompat"].installed(), html(shell.user_ns["mx"].ones(2)), html(shell.user_ns["nn"].Linear(2, 1)))
"""


def test_in_ipython(tmp_path):
    pytest.importorskip("IPython", reason="IPython is not installed")
    process = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout.split("\n")[:3] == ["mxcompat.core True True", "True True", "False None None"]
