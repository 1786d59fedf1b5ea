"""Random programs on real MLX and on mxcompat: plain, and under every transform and the nestings of them.

Each seed gives a program (see `tests.programs`) and a mode. The default run takes the first few; `pytest -m exhaustive`
takes 5 000.
"""

from __future__ import annotations

import pytest

from mxcompat import testing
from tests.oracle import ours, real
from tests.program_compare import NAMES, check, difference
from tests.program_worker import run_seeds
from tests.program_writes import lines, outcomes
from tests.programs import make

QUICK = 119
MANY = 5_000
BLOCK = 100


@pytest.mark.parametrize("block", range(QUICK // len(NAMES)))
def test_random_programs(block: int) -> None:
    """Compare one program for each mode."""
    for seed in range(block * len(NAMES), (block + 1) * len(NAMES)):
        report = check(seed)
        assert not report, report


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(MANY // BLOCK))
def test_many_random_programs(block: int) -> None:
    failures, died = run_seeds(range(1000 + BLOCK * block, 1000 + BLOCK * (block + 1)))
    assert not failures, "\n\n".join(failures.values())
    assert len(died) <= 2, f"real MLX died of the seeds {died}"


def check_writes(seed: int) -> None:
    """Compare the outcomes of a program with writes. Errors of real MLX are skipped: a missing rule, or an escaped
    array."""
    program = lines(seed)
    for want, got in zip(outcomes(real, program), outcomes(ours, program), strict=True):
        if not isinstance(want, Exception):
            differences = testing.differences(want, got)
            assert not differences, "\n".join([*program, *map(str, differences)])


@pytest.mark.parametrize("seed", [11, 18, 19, 34, 38, 40, 60, 63, 7180])
def test_programs_that_write(seed: int) -> None:
    """Run programs that once revealed faults."""
    check_writes(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_programs_that_write(seed: int) -> None:
    check_writes(seed)


def test_a_program_is_its_own_reproduction() -> None:
    """Assert that the same seed gives the same text, which runs on its own."""
    program = make(3)
    assert str(program) == str(make(3))
    names = {"mx": ours}
    exec("\n".join(line for line in str(program).splitlines() if line.startswith("x")), names)
    assert len([n for n in names if n.startswith("x")]) == len(program.inputs)


def test_a_wrong_result_is_noticed() -> None:
    """Assert that the comparison detects an error of one percent, and another dtype."""
    program = make(3)
    x = [real.array([1.0, 2.0])]
    assert difference(program, "plain", [real.array([1.0, 2.0])], x) == ""
    assert difference(program, "plain", [real.array([1.0, 2.02])], x)
    assert difference(program, "plain", [real.array([1, 2])], x)
    assert difference(program, "plain", [real.array([[1.0, 2.0]])], x)
