"""Ctrl-C at any time leaves every array unchanged or complete: a few interrupts by default, a thousand with `-m
soak`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def interrupted(count: int, seconds: float, host: str = "1") -> None:
    command = [sys.executable, "-m", "tests.soak.interrupts", str(count)]
    settings = os.environ | {"MXCOMPAT_HOST": host, "MXCOMPAT_CACHE": "0"}
    process = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=seconds)
    assert process.returncode == 0, process.stderr
    counts = json.loads(process.stdout.splitlines()[-1])
    print(counts)
    assert counts["came"] == count
    assert counts["while evaluating"] > count / 10


def test_some_interrupts():
    interrupted(25, 100)


@pytest.mark.soak
@pytest.mark.parametrize("host", ["1", "0"])
def test_a_thousand_interrupts(host):
    interrupted(1000, 1500, host)
