"""The benchmarks measure equal work: each workload gives real MLX's numbers on mxcompat."""

import json
import shutil
import sys
import xml.etree.ElementTree as ET
from functools import partial
from importlib import metadata

import pytest

from tests.benchmarks import __main__, cold, everyday, firsts, report, table, timing
from tests.benchmarks.agreement import agree, digest
from tests.oracle import ours, real

_FEW = {firsts.small_expression: 2, firsts.single_ops: len(firsts.OPS), firsts.random_structures: 6}
_SHORT = {
    firsts.unevaluated_adam: partial(firsts.unevaluated_adam, steps=5),
    firsts.gpt_steps: partial(firsts.gpt_steps, layers=1),
}


def same(ours_gives, real_gives, tolerance=1e-3):
    assert agree(digest(ours_gives), digest(real_gives), tolerance), f"{ours_gives}, real MLX: {real_gives}"


@pytest.mark.parametrize("row", {c.steps: c for c in cold.COLD if "MLX" in c.sides}.values(), ids=lambda row: row.name)
def test_cold_workloads_compute_what_real_mlx_does(row):
    steps, count = _SHORT.get(row.steps, row.steps), min(row.count, _FEW.get(row.steps, 2))
    runs = [cold.timed(steps(mx), count) for mx in (ours, real)]
    assert len(runs[0].seconds) == len(runs[0].results) == count
    for results in zip(*(run.results for run in runs), strict=True):
        assert all(results)
        same(*results, row.tolerance)


def test_a_gpt_by_hand_computes_the_same():
    steps = [firsts.gpt_steps(real, layers=1), firsts.gpt_steps_jax(1)]
    for _ in range(2):
        same(*(next(step)() for step in steps))


def test_structures_and_shapes_do_not_recur():
    def shapes(steps, count):
        return [step.__defaults__[0].shape for _, step in zip(range(count), steps, strict=False)]

    assert len(set(shapes(firsts.small_expression(real), 50))) == 50
    recipes = [step.args[1] for _, step in zip(range(3000), firsts.random_structures(real), strict=False)]
    assert len(set(recipes)) == 3000


@pytest.mark.parametrize("workload", everyday.EVERYDAY, ids=lambda workload: workload.name)
def test_everyday_calls_give_what_real_mlx_gives(workload):
    steps = [workload.mlx(mx) for mx in (ours, real)]
    for _ in range(2):
        results = [step() for step in steps]
        assert digest(results[0])
        same(*results)


@pytest.mark.parametrize(
    ("one", "other"),
    [([1.0, 2.0], [2.0, 1.0]), ([1.0], [1.0, 1.0]), ("1.5", "1.25"), (list(range(20)), list(range(20))[::-1]),
     (float("nan"), 1.0), (float("inf"), 1e38), ({"a": 1, "b": 2}, {"a": 2, "b": 1})],
)  # fmt: skip
def test_what_differs_does_not_agree(one, other):
    assert agree(digest(one), digest(one)) or one != one
    assert not agree(digest(one), digest(other))


def test_a_side_that_computes_something_else_is_an_error():
    wrong = everyday.Workload("wrong", lambda mx: lambda: 1.0 if mx is ours else 2.0)
    with pytest.raises(AssertionError, match="wrong"):
        timing.steps(wrong)


def test_targets():
    row = table.Row("row", "ms", {"mxcompat": 0.2, "MLX": 0.01})
    row.limit("MLX", 3, 0.25)
    row.limit("MLX", 3)
    row.limit("jax.jit", 3)  # a side that was not measured
    row.limit(None, 1)
    assert row.targets == {"3 x MLX or 0.25 ms": True, "3 x MLX": False, "1 ms": True}


def test_processes_begin_with_nothing_on_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/elsewhere")
    environment = cold.processes.fresh(str(tmp_path))
    assert not [key for key in environment if "CACHE" in key and key != "XDG_CACHE_HOME"]
    assert environment["HOME"] == str(tmp_path)


@pytest.mark.parametrize("words", [["cold", "small expression"], ["everyday", "item"]])
def test_the_tables_print_rows(words, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--rounds", "1", "--json", str(tmp_path / "rows")])
    missed = __main__.main()
    printed = capsys.readouterr().out
    assert words[1] in printed
    assert ("MISSED" in printed) == missed
    rows = json.loads((tmp_path / "rows").read_text())
    assert all({"mxcompat", "MLX"} == set(row["values"]) for row in rows)


def test_ratios_are_compared_round_by_round():
    ratios, spread = table.compared({"mxcompat": [1.0, 2.0, 3.0], "MLX": [2.0, 2.0, 2.0]})
    assert ratios == {"mxcompat": 1.0, "MLX": 1.0}
    assert spread == {"mxcompat": (1.0, 1.0), "MLX": (0.75, 1.25)}
    assert table.compared({"mxcompat": [2.0], "MLX": [1.0]})[1]["MLX"] == (2.0, 2.0)


PAIR = f"python-{sys.version_info[0]}.{sys.version_info[1]}-jax-{metadata.version('jax')}"


def _rows():
    times = {"mxcompat": [1.0, 2.0, 3.0], "MLX": [1.0, 1.0, 1.0]}
    row = table.Row("one <row>", "us", {"mxcompat": 2.0, "MLX": 1.0}, *table.compared(times))
    return {"warm": [row, table.Row("  compiles", "", {"mxcompat": 0.0})]}


def test_a_report_has_ratios_their_spread_and_the_machine(tmp_path):
    report.save(tmp_path, _rows() | {"another": _rows()["warm"][1:]})
    report.write(tmp_path)
    page = (tmp_path / PAIR / "index.md").read_text()
    assert "| one <row> | us | 2 | – | 1 | – | 2.00 (1.50 to 2.50) |" in page
    assert "## Another" in page
    assert "Over their limit" not in page
    assert report.machine() in page
    assert f"jax {sys.modules['jax'].__version__}" in page
    assert {path.name for path in tmp_path.glob("*/*.svg")} == {"warm-light.svg", "warm-dark.svg"}
    drawn = ET.parse(tmp_path / PAIR / "warm-dark.svg").getroot()
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert "one <row>: 2.00 x MLX" in titles


def test_a_report_lists_the_pairs_of_versions(tmp_path):
    report.save(tmp_path, _rows())
    for name in ("python-3.9-jax-0.10.2", "python-3.99-jax-9.0"):
        shutil.copytree(tmp_path / PAIR, tmp_path / name)
    report.write(tmp_path)
    lines = [line for line in (tmp_path / "index.md").read_text().splitlines() if line.startswith("| [")]
    names = ["python-3.9-jax-0.10.2", *sorted([PAIR, "python-3.99-jax-9.0"])]
    assert [line.partition("](")[2].partition("/index.md)")[0] for line in lines] == names
    assert lines[0].startswith("| [Python 3.9, JAX 0.10.2](python-3.9-jax-0.10.2/index.md)")
    assert all(line.endswith("| 2 | 0 |") for line in lines)
    assert "# Benchmarks with Python 3.99, JAX 9.0" in (tmp_path / names[-1] / "index.md").read_text()


def test_a_table_may_be_measured_alone(tmp_path):
    report.save(tmp_path, _rows())
    report.save(tmp_path, {"cold": _rows()["warm"]})
    path = tmp_path / PAIR / "figures.json"
    assert json.loads(path.read_text())["sections"].keys() == {"warm", "cold"}
    path.write_text(path.read_text().replace(f'"jax": "{metadata.version("jax")}"', '"jax": "0.1"'))
    report.save(tmp_path, {"cold": _rows()["warm"]})
    assert json.loads(path.read_text())["sections"].keys() == {"cold"}, "what other versions measured is dropped"


def test_a_row_over_its_line_needs_a_note(tmp_path):
    rows = _rows()
    rows["warm"][0].limit("MLX", 1.5)
    rows["warm"][1].limit(None, 1)
    report.save(tmp_path, rows)
    assert report.unexplained(tmp_path, rows) == ["one <row>: 1.5 x MLX"]
    report.write(tmp_path)
    page = (tmp_path / PAIR / "index.md").read_text()
    assert "| one <row> \\* | us | 2 |" in page
    assert "| ↳ compiles |" in page
    assert "- one <row>, at most 1.5 x MLX: **no note yet**." in page
    assert (tmp_path / "index.md").read_text().rstrip().endswith("| 2 | 1 |")
    (tmp_path / PAIR / "notes.toml").write_text('"one <row>" = "XLA is slower: 1 us before, 2 us now."\n')
    assert report.unexplained(tmp_path, rows) == []
    assert "1.5 x MLX: XLA is slower: 1 us before, 2 us now." in report.files(tmp_path)[f"{PAIR}/index.md"]


def test_a_report_without_figures_says_how_to_take_them(tmp_path):
    (page,) = report.files(tmp_path).values()
    assert "No figures have been taken" in page
    assert "--report" in page


@pytest.mark.parametrize("note", [None, "Measured by a test."])
def test_the_option_writes_a_report_of_every_table(note, monkeypatch, tmp_path, capsys):
    words = ["build one add", "small expression", "--rounds", "1", "--report", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    monkeypatch.setattr(table.Row, "limit", lambda row, *_: row.targets.update({"never": False}))
    folder = tmp_path / PAIR
    if note:
        folder.mkdir()
        names = ["build one add", *(row.name.strip() for row in cold.COLD if "small expression" in row.name)]
        (folder / "notes.toml").write_text("\n".join(f'"{name}" = "{note}"' for name in names))
    status = __main__.main()
    figures = json.loads((folder / "figures.json").read_text())
    assert figures["sections"].keys() == {"warm", "cold"}
    assert (folder / "index.md").exists()
    unexplained = [line for line in capsys.readouterr().out.splitlines() if line.startswith("over its limit")]
    assert (status, bool(unexplained)) == ((0, False) if note else (1, True))
    assert note or any(line.endswith("build one add: never") for line in unexplained)
