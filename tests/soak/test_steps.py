"""Training and transforms leak and lose nothing: some thousand calls by default, 200 000 with `-m soak`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.native.libraries import built, pythons

ROOT = Path(__file__).parents[2]
NAMES = (
    "training", "grad", "value_and_grad", "vjp", "jvp", "vmap", "compile", "checkpoint", "custom_function",
)  # fmt: skip
MB = 10**6


def soaked(count: int, *arguments: Any) -> None:
    """Run `count` calls, and assert that every count is unchanged afterwards."""
    command = [sys.executable, "-m", "tests.soak.steps", str(count), *map(str, arguments)]
    settings = os.environ | {"MXCOMPAT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    process = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=3000)
    assert process.returncode == 0, process.stdout + process.stderr
    for line in process.stdout.splitlines():
        print(line)
        report = json.loads(line)
        assert all(abs(n) < 100 for n in report["references"].values()), line
        assert abs(report["blocks"]) < 500, line
        assert report["resident"] < 8 * MB, line
    names = [name for name in NAMES if name in arguments] or [*NAMES]
    assert [json.loads(line)["name"] for line in process.stdout.splitlines()] == names


def test_some_thousand_calls() -> None:
    soaked(4000)


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_200_000_calls(name: str) -> None:
    soaked(200_000, name)


@pytest.mark.soak
def test_100_000_calls_with_a_library_of_the_newest_python(tmp_path: Path) -> None:
    if pythons()[-1].version[:2] == sys.version_info[:2]:
        pytest.skip("there is no newer Python with its headers")
    soaked(100_000, "--library", built(pythons()[-1], tmp_path))
