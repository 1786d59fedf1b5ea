"""The examples are plain MLX programs with the same output on real MLX and mxcompat; the benchmarks run."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*args):
    process = subprocess.run([sys.executable, *args], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert process.returncode in (0, 1), process.stderr
    return process.stdout, process.stderr


@pytest.fixture(scope="module")
def digits():
    """Return the output of the example on real MLX and on mxcompat."""
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


EXAMPLES = {
    "convnet.py": ["--epochs", "2"],
    "char_gpt.py": ["--steps", "6", "--report", "3", "--dims", "32", "--layers", "1", "--write", "8"],
    "flow.py": ["--steps", "20", "--layers", "4", "--hidden", "32"],
    "transforms.py": ["--steps", "8"],
    "implicit.py": ["--steps", "200"],
    "lora.py": ["--steps", "24", "--adapter-steps", "24", "--dims", "32", "--layers", "1"],
}


def printed(name, *prefix):
    """Return the output of an example without its timings."""
    out, progress = run(*prefix, f"examples/{name}", *EXAMPLES[name])
    assert out, progress
    return "\n".join(line for line in out.splitlines() if not line.endswith(" s"))


def numbers(text, *names):
    """Return the numbers that follow the names, in order."""
    return [float(n) for name in names for n in re.findall(rf"{name} +(-?[\d.]+)", text)]


def trainings(text):
    """Return the validation losses before each training of `lora.py`, and the best one of each.

    They depend on Python's version, because the training text comes from its library.
    """
    losses = [numbers(part, "validation loss") for part in text.split("\n\n")]
    return [(curve[0], min(curve)) for curve in losses]


@cache
def on_mxcompat(name):
    """Return the output of an example on mxcompat."""
    if name == "lora.py" and importlib.util.find_spec("mlx_lm") is None:
        pytest.skip("mlx-lm is not installed")
    return printed(name, "-m", "mxcompat")


SLOW_ON_MLX = {"flow.py", "lora.py", "transforms.py"}
"""Examples that take real MLX ten seconds or more."""


LEARNS = {
    "convnet.py": lambda text: numbers(text, "test accuracy")[0] > 85,
    "char_gpt.py": lambda text: numbers(text, "train loss")[-1] < numbers(text, "train loss")[0] < 5,
    "flow.py": lambda text: (
        numbers(text, "test")[-1] < numbers(text, "test")[0] - 1 and "changes nothing: True" in text
    ),
    "transforms.py": lambda text: numbers(text, "error")[-1] < numbers(text, "error")[0] - 0.03,
    "implicit.py": lambda text: (
        numbers(text, "error of a cost")[0] < 0.02
        and abs(numbers(text, "slope")[0] - numbers(text, "quotient")[0]) < 0.01
    ),
    "lora.py": lambda text: (
        all(last < first - 0.05 for first, last in trainings(text))
        and text.count("loaded: the same logits: True") == text.count("fused: the same logits: True") == 3
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_learns(name):
    text = on_mxcompat(name)
    assert LEARNS[name](text), text


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.exhaustive) if n in SLOW_ON_MLX else n for n in EXAMPLES]
)
def test_an_example_prints_the_same_on_real_mlx(name):
    text = on_mxcompat(name)
    want, digits = printed(name), r"-?\d+\.\d+|\d+"
    if name == "char_gpt.py":  # the text that an untrained model writes depends on the last bit
        want, text = (t[: t.rindex("step ") + 60].split("\n\n")[0] for t in (want, text))
    if name == "flow.py":  # so do the pictures
        want, text = (t[: t.index("there and back")] for t in (want, text))
    assert re.sub(digits, "#", text) == re.sub(digits, "#", want)
    for ours, real in zip(re.findall(digits, text), re.findall(digits, want), strict=True):
        assert float(ours) == pytest.approx(float(real), rel=5e-3, abs=5e-3), (text, want)


OURS = {"sharded_gpt.py"}
"""Examples of features that MLX lacks."""


@pytest.mark.parametrize(
    "path", [p for p in sorted((ROOT / "examples").glob("*.py")) if p.name not in OURS], ids=lambda path: path.name
)
def test_examples_have_nothing_of_ours_in_them(path):
    code = path.read_text().split('"""', 2)[2]
    assert "mxcompat" not in code
    assert "import mlx.core as mx" in code


def test_the_benchmarks_print_a_table():
    out, _ = run("-m", "tests.benchmarks", "one add", "--rounds", "1")
    rows = [line for line in out.splitlines() if "one add" in line]
    assert len(rows) == 2
    for row in rows:
        assert re.search(r"\d\.\d+ .*(ok|MISSED)$", row)
