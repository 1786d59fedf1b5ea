"""The pytest plugin: a suite written for MLX runs on mxcompat, on real MLX, and on both. Each case is a process."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_mxcompat import Run, compare

ROOT = Path(__file__).parent.parent


@pytest.fixture
def suite(tmp_path):
    """Return a function that writes a test suite and returns a function to run it."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))

        def run(*args, status=0):
            command = ["-m", "pytest", "-q", "-p", "pytest_mxcompat", *args]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = subprocess.run(
                [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
            )
            assert process.returncode == status, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
            return process.stdout + process.stderr

        return run

    return write


WHERE = """
    import subprocess, sys
    import mlx.core as mx

    def test_where():
        told = subprocess.run([sys.executable, "-c", "import mlx.core; print(dir(mlx.core))"], capture_output=True)
        assert {hasattr(mx, "__mxcompat__"), b"__mxcompat__" in told.stdout} == {OURS}
"""


def test_mlx_is_mxcompat_in_conftest_tests_and_the_processes_they_start(suite):
    conftest = "import mlx.core as mx\nassert mx.__mxcompat__"
    out = suite(conftest=conftest, test_it=WHERE.replace("OURS", "True"))("-v", "--mlx", "mxcompat")
    assert "mlx: mxcompat with the API of MLX 0.32.4" in out
    assert "1 passed" in out


def test_mlx_is_real(suite):
    out = suite(test_it=WHERE.replace("OURS", "False"))("-v", "--mlx=real")
    assert "mlx: real MLX 0.32.4" in out
    assert "1 passed" in out


def test_both_says_what_differs(suite):
    run = suite(
        test_it="""
        import pytest
        import mlx.core as mx

        @pytest.mark.parametrize("n", [1, 2])
        def test_same(n):
            assert mx.ones(n).sum().item() == n

        def test_other():
            assert not hasattr(mx, "__mxcompat__"), "not here"

        def test_skipped():
            pytest.skip("never")

        def test_with_the_fixture(mx):
            assert mx.__name__ == "mlx.core"
        """
    )
    out = run("--mlx", "both", "--", "test_it.py", status=1)
    report = out.partition(" mxcompat and real MLX ")[2].splitlines()
    assert [line.split()[:4] for line in report[1:4]] == [
        ["failed", "passed", "skipped", "seconds"],
        ["mxcompat", "1", "3", "1"],
        ["real", "0", "4", "1"],
    ]
    assert report[5:] == [
        "5 tests, 1 with another outcome",
        "test_it.py::test_other",
        "    mxcompat  failed: AssertionError: not here",
        "    real      passed",
    ]
    assert "0 with another outcome" in run("--mlx", "both", "-k", "same")


@pytest.mark.parametrize("option", [["--mlx-record", "runs.json"], ["--mlx-record=runs.json"]])
def test_both_sides_are_recorded(suite, tmp_path, option):
    out = suite(test_it="import mlx.core\n\ndef test_one():\n    pass\n")("--mlx", "both", *option)
    assert "1 tests, 0 with another outcome" in out
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert [(side, name, run[0]) for side, tests in runs.items() for name, run in tests.items()] == [
        (side, "test_it.py::test_one", "passed") for side in ("mxcompat", "real")
    ]


def test_the_fixture_is_both_without_the_option(suite):
    out = suite(test_it="def test_sum(mx):\n    assert mx.ones(3).sum().item() == 3")("-vv")
    assert sorted(re.findall(r"test_sum\[(\w+)\] PASSED", out)) == ["mxcompat", "real"]


def test_without_the_option_nothing_is_imported(suite):
    suite(
        test_it="""
        import sys

        def test_it():
            assert "pytest_mxcompat" in sys.modules
            assert not {"mlx", "mxcompat", "jax", "numpy"} & set(sys.modules)
        """
    )()


def test_too_late_for_mxcompat(suite):
    run = suite(early="import mlx.core", test_it="")
    assert "Real MLX is imported already (mlx.core)" in run("-p", "early", "--mlx", "mxcompat", status=4)


def test_what_cannot_be_collected_counts(suite):
    out = suite(test_it="import mlx.core as mx\nassert not hasattr(mx, '__mxcompat__'), 'not here'")(
        "--mlx", "both", status=2
    )
    assert "1 tests, 1 with another outcome\ntest_it.py\n    mxcompat  error:" in out


def test_times_that_differ_are_mentioned():
    ours = {"a": Run("passed", 3.0, ""), "b": Run("passed", 0.2, ""), "c": Run("failed", 9.0, "no")}
    theirs = {"a": Run("passed", 1.0, ""), "b": Run("passed", 0.01, ""), "d": Run("passed", 1.0, "")}
    lines, differ = compare({"mxcompat": ours, "real": theirs})
    assert differ
    assert lines[-2:] == ["1 with another time (seconds: mxcompat, real)", "     3.00     1.00  a"]
    assert lines[lines.index("c") : lines.index("c") + 3] == ["c", "    mxcompat  failed: no", "    real      not run"]
    assert not compare({"mxcompat": ours, "real": ours})[1]
