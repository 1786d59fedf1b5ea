"""Damaged files never end the process, exhaust its memory or execute code.

A few damages by default, thousands with `-m exhaustive`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile import FORMATS

ROOT = Path(__file__).parents[1]


def endings(kind: str, count: int, folder: Path, seconds: float) -> dict[str, int]:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.hostile", kind, "0", str(count)], cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert not (folder / "executed").exists()
    counts = json.loads(process.stdout)
    assert sum(counts.values()) == count
    return counts


@pytest.mark.parametrize("kind", FORMATS)
def test_some_files(kind, tmp_path):
    counts = endings(kind, 80, tmp_path, 100)
    assert counts["RuntimeError"] > 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", FORMATS)
def test_many_files(kind, tmp_path):
    endings(kind, 4000, tmp_path, 1500)
