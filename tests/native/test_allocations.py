"""A failed allocation gives an exception or a correct result: no crash, and no leak."""

from __future__ import annotations

import gc
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from mxcompat._native import native

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(native is None, reason="no compiler of C"),
    pytest.mark.skipif(importlib.util.find_spec("_testcapi") is None, reason="this Python has no _testcapi"),
]


@pytest.mark.skipif(hasattr(sys, "gettotalrefcount"), reason="CPython's own faults end a debug build")
def test_every_allocation_may_fail() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.native.allocations"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    assert process.returncode == 0, f"{lines[-1:]}\n{process.stderr}"
    cases, reports = lines[::2], lines[1::2]
    wrong = {case["case"]: report["wrong"] for case, report in zip(cases, reports, strict=True) if report["wrong"]}
    assert not wrong, json.dumps(wrong, indent=1)
    assert len(cases) > 300
    assert sum(report["points"] for report in reports) > 20 * len(cases)


@pytest.mark.skipif(sys.getallocatedblocks() == 0, reason="blocks of memory are not counted")
def test_what_is_wrong_is_seen() -> None:
    """Test the detector itself. It runs alone, since threads of a test session also allocate."""
    program = "from tests.native.test_allocations import write_seen_faults; write_seen_faults()"
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    forgotten, kept = json.loads(process.stdout)
    assert any("[]" in text for text in forgotten)
    assert any("lost" in text for text in kept)


def write_seen_faults() -> None:
    """Write to stdout the faults of a function that drops an error, and of one that leaks its objects at an error."""
    from .allocations import faults
    from .cases import Case

    leaked = []
    gc.collect()
    gc.freeze()  # each try collects garbage, which takes 0.1 s with all that the imports made

    def forgets() -> list:
        try:
            return [bytearray(500)]
        except MemoryError:
            return []

    def leaks() -> None:
        leaked.append(bytearray(5))
        leaked.append(bytearray(500))

    sys.stdout.write(json.dumps([faults(Case("", function.__name__, function))[1] for function in (forgets, leaks)]))
