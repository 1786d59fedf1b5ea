"""Memory of long processes: the program caches are bounded in bytes, and those bytes are accurate.

The long forms run on request (`-m soak`), each in a separate process.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MB = 10**6


def worked(name, rounds, count, *, host, limit=None, seconds=300):
    """Return the reports of `worker`, one per round."""
    settings = {"MXCOMPAT_CACHE": "0", "MXCOMPAT_HOST": str(int(host)), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    if limit is not None:
        settings["MXCOMPAT_CACHE_LIMIT"] = str(limit)
    process = subprocess.run(
        [sys.executable, "-m", "tests.soak.worker", name, str(rounds), str(count)], cwd=ROOT,
        env=os.environ | settings, capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    print(f"\n{name} x {count}, host {host}\n{process.stdout}")
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_executables_stay_within_the_limit():
    reports = worked("structures", 3, 12, host=False, limit=8 * MB)
    assert all(0 < r["executables"] <= 6 * MB and 0 < r["count"] < 12 for r in reports)
    assert all(r["structures"] <= 2 * MB for r in reports)
    assert reports[-1]["resident"] - reports[0]["resident"] < 32 * MB  # the allocator's reserve varies: 1 to 29 MB


def test_structures_stay_within_the_limit():
    reports = worked("structures", 3, 300, host=True, limit=4 * MB)
    assert all(0.5 * MB < r["structures"] <= MB for r in reports)
    assert reports[-1]["resident"] - reports[0]["resident"] < 12 * MB


@pytest.mark.soak
@pytest.mark.parametrize(("name", "count"), [("structures", 200), ("batches", 40)])
def test_the_bytes_of_executables_are_true(name, count):
    (report,) = worked(name, 1, count, host=False, limit=2000 * MB, seconds=1200)
    held = report["executables"] + report["structures"]
    assert held / 2 < report["resident"] < 2 * held


@pytest.mark.soak
def test_the_bytes_of_structures_are_true():
    (report,) = worked("structures", 1, 3000, host=True, limit=1000 * MB, seconds=1200)
    assert report["structures"] / 2 < report["resident"] < 2 * report["structures"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "count", "most"),
    [("batches", 200, 500), ("structures", 3000, 1000), ("loops", 100, 500), ("suite", 650, 500)],
)
def test_long_processes(name, count, most):
    """Assert that memory is flat once the limit is reached, which takes two rounds."""
    _, second, third = worked(name, 3, count, host=True, seconds=1200)
    assert third["resident"] < most * MB
    assert third["resident"] < 1.1 * second["resident"] + 20 * MB


@pytest.mark.soak
@pytest.mark.parametrize(("name", "count", "limit"), [("batches", 60, 64), ("structures", 300, 64), ("loops", 15, 128)])
def test_long_processes_that_compile_everything(name, count, limit):
    """Assert that resident memory is flat from the third round on, under a cache limit that the workload reaches.

    By then the quickly compiled programs have been compiled again, for speed. Beyond the limit, a process needs up
    to 120 MB: the memory of a compile, and fragments that malloc cannot return. This part varies from round to
    round, as does the number of cached executables.
    """
    _, _, third, _, fifth, sixth = worked(name, 6, count, host=False, limit=limit * MB, seconds=1200)
    assert max(fifth["resident"], sixth["resident"]) < (2 * limit + 150) * MB
    assert min(fifth["resident"], sixth["resident"]) < 1.1 * third["resident"] + 30 * MB
