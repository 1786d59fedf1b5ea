"""The command for machines with an accelerator, on one without."""

import subprocess
import sys

import pytest

from tests.accelerator import suite, transfers
from tests.benchmarks.processes import ROOT


def test_what_is_left_out_is_there():
    for path, reason in suite.ABOUT_THE_CPU.items():
        assert (ROOT / path).exists(), path
        assert reason


@pytest.mark.parametrize("name", suite.NOT_THERE)
def test_what_is_left_out_of_a_file_is_there(name):
    path, _, test = name.partition("::")
    assert f"def {test}" in (ROOT / path).read_text()


def test_a_training_loop_moves_nothing():
    """Assert that a training loop transfers no data, with an accelerator's choices, and that batches of the host are
    counted."""
    assert transfers.counted(dry=True) == {"host-to-device": 0, "device-to-host": 0}
    assert transfers.counted(dry=True, fresh=True)["host-to-device"] == 2 * transfers.STEPS


def test_without_an_accelerator_it_says_so(tmp_path):
    out = command(1, "--here", "--output", tmp_path)
    assert "There is no accelerator here" in out


@pytest.mark.exhaustive
def test_the_dry_run(tmp_path):
    out = command(0, "--dry-run", "--output", tmp_path)
    assert out.rstrip().endswith("all is well")
    assert {"tests.xml", "benchmarks.json", "memory.json", "transfers.txt"} == {p.name for p in tmp_path.iterdir()}


def command(status, *arguments):
    process = subprocess.run(
        [sys.executable, "-m", "tests.accelerator", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == status, process.stdout + process.stderr
    return process.stdout
