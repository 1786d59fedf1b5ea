"""The examples are plain MLX programs: the same numbers on real MLX and on mxcompat. And the benchmarks run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*args):
    done = subprocess.run([sys.executable, *args], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def digits():
    """What the example prints on real MLX and on mxcompat."""
    return run("examples/digits.py"), run("-m", "mxcompat", "examples/digits.py")


def accuracies(out):
    return {name: float(value) for name, value in re.findall(r"(\w+) accuracy +([\d.]+) %", out)}


def test_digits_learns_on_mxcompat(digits):
    (_, (out, progress)) = digits
    assert accuracies(out)["test"] > 96
    assert "440/440" in progress


def test_digits_gives_the_same_numbers_on_real_mlx(digits):
    ((real, real_progress), (ours, our_progress)) = digits
    assert accuracies(ours) == accuracies(real)
    assert set(accuracies(real)) == {"train", "test"}
    (want,), (got,) = (set(re.findall(r"epoch=20, loss=([\d.]+)", p)) for p in (real_progress, our_progress))
    assert abs(float(want) - float(got)) < 2e-3


def test_digits_has_nothing_of_ours_in_it():
    text = (ROOT / "examples" / "digits.py").read_text()
    code = text.split('"""', 2)[2]
    assert "mxcompat" not in code
    assert "import mlx.core as mx" in code


def test_the_benchmarks_print_a_table():
    out, _ = run("-m", "tests.benchmarks", "one add", "--rounds", "1")
    rows = [line for line in out.splitlines() if "one add" in line]
    assert len(rows) == 2
    for row in rows:
        assert re.search(r"\d\.\d .*(ok|MISSED)$", row)
