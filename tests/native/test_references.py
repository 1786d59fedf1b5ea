"""Every function and slot of the extension keeps all reference counts and the memory balanced, however it ends."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from mxcompat._native import native

from .cases import Case
from .libraries import built, pythons

if native is None:
    pytest.skip("no compiler of C", allow_module_level=True)

from .members import members
from .references import drift
from .table import CASES, SHARED

ROOT = Path(__file__).parents[2]
BY_MEMBER = {name: [*some] for name, some in groupby(sorted(CASES, key=lambda c: c.member), key=lambda c: c.member)}


@pytest.fixture(autouse=True, scope="module")
def small_collections() -> None:
    """Exclude the objects of earlier tests from garbage collections: each of the thousand collections here would take a
    second."""
    gc.collect()
    gc.freeze()


def test_every_member_has_its_cases() -> None:
    assert members(native) - set(BY_MEMBER) == set(), "add cases to tests/native/cases_of_*"
    assert set(BY_MEMBER) - members(native) == set(), "no such function, method or slot"
    twice = [str(c) for c in CASES if sum(str(c) == str(d) for d in BY_MEMBER[c.member]) > 1]
    assert not twice
    functions = [name for name in BY_MEMBER if "." not in name and BY_MEMBER[name][0].function is getattr(native, name)]
    succeeding = {name for name in functions if any(c.raises is None for c in BY_MEMBER[name])}
    assert set(functions) == succeeding, "no case in which it succeeds"


@pytest.mark.parametrize("member", BY_MEMBER)
def test_no_reference_is_lost_or_kept(member: str) -> None:
    lost = {}
    for case in BY_MEMBER[member]:
        drifts = drift(case, case.calls, SHARED)
        if drifts:
            lost[str(case)] = drifts
    assert not lost


@pytest.mark.skipif(sys.getallocatedblocks() == 0, reason="blocks of memory are not counted")
def test_what_is_lost_is_seen() -> None:
    kept: list = []
    x = object()
    near = partial(pytest.approx, rel=0.1)
    if sys.version_info < (3, 12):
        assert drift(Case("", "a reference to None", kept.append, (None,)), 1000)["None"] == near(1)
        held = [None] * 70_000
        assert drift(Case("", "one of None's", held.pop), 1000)["None"] == near(-1)
    assert drift(Case("", "its argument", kept.append, (x,)), 1000)["an object of object"] == near(1)
    assert drift(Case("", "an object", lambda: kept.append(object())), 1000)["blocks"] == near(1)
    assert drift(Case("", "nothing", len, ((),)), 1000) == {}


def _report(library: Path) -> list[dict]:
    command = [sys.executable, "-m", "tests.native.references", str(library)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stdout + process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="None is immortal here: nothing is to be seen of its references"
)
def test_a_build_with_newer_headers_loses_nothing_either(tmp_path: Path) -> None:
    """Run the library that the newest available Python builds in this Python."""
    if pythons()[-1].version < (3, 12):
        pytest.skip("there is no newer Python with its headers")
    *lost, end = _report(built(pythons()[-1], tmp_path))
    assert end["cases"] == len(CASES)
    assert not lost
