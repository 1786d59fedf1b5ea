"""The profiler: every evaluation has a line, every compile a reason, and the reports are consistent."""

import gzip
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import mxcompat as mx
from mxcompat._graph.run import events
from mxcompat._tools.profile.record import KINDS, recorded
from mxcompat._tools.profile.table import source, table
from mxcompat._tools.profile.timeline import Timeline

ROOT = Path(__file__).parent.parent
PROGRAM = """\
import sys
import mlx.core as mx

x = mx.random.normal((64, 64))
for step in range(50):
    x = mx.tanh(x @ x)
    mx.eval(x)  # here
print(sys.argv[1:], x.shape)
raise SystemExit(3)
"""


def line_of(text):
    """Return the location of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{[line.endswith('# ' + text) for line in lines].index(True) + 1}"


def test_a_program_of_ones_own(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = ["--html", "page.html", "--trace=trace", "program.py", "--flag", "x"]
    process = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mxcompat", "profile", *options], cwd=tmp_path, capture_output=True,
        text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert process.stdout == "['--flag', 'x'] (64, 64)\n"
    assert process.stderr.startswith("program.py --flag x: ")
    (line,) = (line for line in process.stderr.splitlines() if "program.py:7 " in line)
    assert line.split()[0] == "50"
    assert line.endswith("program.py:7  mx.eval(x)  # here")
    assert "program.py:7" in (tmp_path / "page.html").read_text()
    (trace,) = (tmp_path / "trace").rglob("perfetto_trace.json.gz")
    with gzip.open(trace) as file:
        names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
    assert names.count(f"evaluate {tmp_path}/program.py:7") == 50
    assert "open it at" in process.stderr


def test_wrong_command_lines(capsys):
    from mxcompat._tools.profile.command import profile

    with pytest.raises(SystemExit, match="2"):
        profile(["--top", "3"])
    assert "which program?" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        profile(["--no-such", "3", "x.py"])


def test_kinds_places_and_compiles(xla_only):
    mx.ext.debug.clear_cache()
    with recorded() as profile:
        for k in range(3):
            x = mx.sin(mx.ones((5, 7)) * k) + 1
            mx.eval(x)  # compiled once for its numbers, once for any, and run
        mx.exp(mx.ones((3,))).item  # never evaluated  # noqa: B018
    place = line_of("compiled once for its numbers, once for any, and run")
    line = profile.lines[place]
    assert line.count == 3
    assert line.ops == 4
    assert all(line.seconds[kind] > 0 for kind in ("python", "plan", "compile", "run"))
    assert line.seconds["host"] == 0
    reasons = [compile.reason for compile in profile.compiles if compile.place == place]
    assert reasons[0] == "a new structure"
    assert reasons[1].startswith("a number changed: 0")
    assert all(compile.seconds > 0 for compile in profile.compiles if not compile.background)


def test_all_of_the_time_is_charged():
    with recorded() as profile:
        x = mx.ones((4,))
        (x + 1).tolist()
        mx.eval(mx.grad(lambda x: (x * x).sum())(x))
    assert sum(map(profile.total, KINDS)) == pytest.approx(profile.wall, rel=1e-9)
    assert profile.lines[f"{__file__}:{line_number('(x + 1).tolist()')}"].seconds["host"] > 0
    assert profile.memory["peak"] >= profile.memory["before"] > 0
    assert not events.timers


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell")
def test_the_peak_of_memory_is_that_of_the_process_alone():
    """Assert that the peak memory excludes the parent process's, which is larger here."""
    large = bytearray(1 << 30)
    code = "from mxcompat._tools.profile.record import recorded\nwith recorded() as p: pass\nprint(p.memory['peak'])"
    peak = int(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert 1 << 20 < peak < len(large)


def line_number(text):
    return [text in line for line in Path(__file__).read_text().splitlines()].index(True) + 1


def test_an_error_leaves_nothing_open():
    with recorded() as profile:
        with pytest.raises(ValueError, match="Expected a positive"):
            mx.ext.debug.cache_limit(-1)
        with pytest.raises(ZeroDivisionError):
            mx.vmap(lambda x: 1 / 0)(mx.ones(2))
        mx.eval(mx.ones(2) + 1)  # after the errors
    assert profile.lines[line_of("after the errors")].count == 1


def test_the_table_names_what_is_left_out():
    with recorded() as profile:
        mx.eval(mx.ones(2) + 1)
        mx.eval(mx.ones(3) + 1)
    lines = list(table(profile, "x.py", 1))
    assert f"and {len(profile.lines) - 1} lines more (--top)" in lines
    assert source("after the last evaluation") == ""


def test_the_page_is_well_formed():
    from mxcompat._tools.profile.page import page

    with recorded() as profile:
        mx.eval(mx.ones(2) + 1)  # <b>not a tag</b>
    text = page(profile, "<script>")
    parser = _Tags()
    parser.feed(text)
    assert parser.open == ["html"]
    assert not {"script", "b"} & parser.seen
    assert "http" not in text


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag == "html" or tag not in ("meta", "html"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "html":
            assert self.open.pop() == tag
        else:
            assert self.open == ["html"]


def test_a_timeline_keeps_every_second():
    timeline = Timeline(most=4, width=1.0)
    timeline.add("run", 0.5, 2.5)
    assert [bin["run"] for bin in timeline.bins] == [0.5, 1.0, 0.5]
    timeline.add("wait", 2.5, 7.0)
    assert timeline.width == 2.0
    assert [(bin["run"], bin["wait"]) for bin in timeline.bins] == [(1.5, 0), (0.5, 1.5), (0, 2), (0, 1)]
