"""Failures in a group are reported on every remaining rank, with the op, the ranks and the line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .processes import launch

PROGRAM = Path(__file__).with_name("failing.py")
HERE = f"{PROGRAM}:"


def outcome(what: str, limit: int = 240, size: int = 2) -> tuple[int, dict[int, list[str]]]:
    """Return the exit status, and each rank's error from each of two collectives."""
    result = launch(size, str(PROGRAM), what, MXCOMPAT_DISTRIBUTED_TIMEOUT=str(limit))
    lines = [line.partition("is told: ") for line in result.stdout.splitlines()]
    messages: dict[int, list[str]] = {rank: [] for rank in range(size)}
    for start, _, text in lines:
        if text:
            assert start.startswith(f"[{start.split()[-1]}] rank"), "each line says which rank wrote it"
            messages[int(start.split()[-1])].append(text)
    return result.returncode, messages


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("shape", ("[all_sum] float32[3] over 2 ranks", "[all_sum] float32[4] over 2 ranks")),
        pytest.param("dtype", ("[all_sum] float32[3]", "[all_sum] int32[3]"), marks=pytest.mark.exhaustive),
        pytest.param("op", ("[all_sum] float32[3]", "[all_max] float32[3]"), marks=pytest.mark.exhaustive),
        pytest.param("both send", ("from rank 0 to rank 1", "from rank 1 to rank 0"), marks=pytest.mark.exhaustive),
    ],
)
def test_ranks_that_differ(what, texts):
    """Assert that every rank is told what each rank called, and where, and can continue."""
    status, messages = outcome(what)
    assert status == 0
    for rank in (0, 1):
        assert len(messages[rank]) == 2
        for text in messages[rank]:
            assert "The ranks do not agree on what comes next" in text
            assert HERE in text
            assert all(part in text for part in texts)


def test_a_small_array_of_another_shape():
    """Assert that the receiver of a small array with another shape reports it, as the send does not block."""
    status, messages = outcome("sent")
    assert status == 0
    assert messages[0] == ["nothing"] * 2
    for text in messages[1]:
        assert "rank 0 is at [send] float32[3] from rank 0 to rank 1" in text
        assert "rank 1 is at [recv] float32[4] from rank 0 to rank 1" in text


@pytest.mark.parametrize(
    ("what", "status", "why"),
    [
        ("killed", 137, "Rank 1 has ended."),
        pytest.param("killed in it", 137, "A rank has ended in the middle of it", marks=pytest.mark.exhaustive),
        pytest.param("raised", 1, "Rank 1 has ended.", marks=pytest.mark.exhaustive),
        pytest.param("ended", 0, "Rank 1 has ended.", marks=pytest.mark.exhaustive),
    ],
)
def test_a_rank_that_ends(what, status, why):
    """Assert that the end of a rank is reported to the other at once, and again at a retry.

    The launcher's status is that of the rank that failed first.
    """
    found_status, messages = outcome(what)
    assert found_status == status
    assert messages[1] == []
    first, second = messages[0]
    assert f"[all_sum] float32[{65536 if what == 'killed in it' else 3}] over 2 ranks" in first
    assert HERE in first
    assert "on rank 0" in first
    assert why in first
    assert "The ranks have come apart before" in second


@pytest.mark.exhaustive
def test_a_rank_that_is_elsewhere():
    status, messages = outcome("elsewhere", limit=10)
    assert status == 0
    assert "After 10 s rank 1 had not come to the same point." in messages[0][0]
    assert "have come apart before" in messages[0][1]


@pytest.mark.exhaustive
def test_a_rank_that_is_interrupted():
    """Interrupt a rank that has sent its array: the other rank gets the sum.

    The message of the second try must not be taken for that of the next collective.
    """
    status, messages = outcome("interrupted")
    assert status == 0
    assert messages[0][0] == "nothing"
    assert messages[1][0] == "interrupted"
    for rank in (0, 1):
        assert "Rank 1 was interrupted at [all_sum] float32[3] over 2 ranks" in messages[rank][1]


@pytest.mark.exhaustive
def test_a_rank_that_is_lost_in_the_middle():
    """Assert that an unresponsive rank is reported, as when its machine loses the network. Gloo would wait for ever."""
    status, messages = outcome("stopped in it", limit=6)
    assert status == 1
    assert "[all_sum] float32[65536] over 2 ranks" in messages[0][0]
    assert "It had not ended after 6 s: a rank has been lost." in messages[0][0]
    assert "have come apart before" in messages[0][1]


@pytest.mark.exhaustive
def test_a_rank_that_starts_late():
    status, messages = outcome("late", size=3)
    assert status == 0
    assert messages == {rank: ["nothing"] * 2 for rank in range(3)}


@pytest.mark.exhaustive
def test_a_rank_that_never_starts():
    """Assert that rank 0 names a rank that never starts."""
    program = "import os, sys, mxcompat as mx\nif os.environ['MLX_RANK'] == '1': sys.exit(0)\nmx.distributed.init()"
    result = launch(3, "--", sys.executable, "-c", program, MXCOMPAT_DISTRIBUTED_TIMEOUT="8")
    assert result.returncode == 1
    assert "[init] Of 3 ranks, rank 1 did not come in time." in result.stderr
