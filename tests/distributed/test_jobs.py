"""The jobs, run by groups of mxcompat's processes and, if supported, of real MLX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxcompat.testing import TOLERANCE

from .jobs import JOBS, OURS_ONLY
from .processes import ours, real

SHARED = [name for name in JOBS if name not in OURS_ONLY]


WAYS = ("exchanged", "by XLA")
"""Ways to communicate small arrays: the default one, and the forced one."""
SOME = [*JOBS][::3]
"""Jobs that the default run does by XLA, too: two processes take a second to compile the programs of a job."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def real_two(folder):
    return real(folder, 2, SHARED)


@pytest.fixture(scope="module")
def two(folder, real_two):
    """Return the results of two mxcompat ranks and two real MLX ranks; mxcompat's second rank is late for each job."""
    return ours(folder, 2, [*JOBS], 0.02, "exchanged"), real_two


@pytest.fixture(scope="module")
def two_by_xla(request, folder, real_two):
    """Do the same with the forced way, for the jobs of this run."""
    jobs = [*JOBS] if request.config.option.markexpr == "exhaustive" else SOME
    return ours(folder, 2, jobs, 0.02, "by XLA"), real_two


@pytest.fixture(scope="module")
def real_four(folder):
    return real(folder, 4, SHARED)


@pytest.fixture(scope="module", params=WAYS)
def four(request, folder, real_four):
    return ours(folder, 4, [*JOBS], 0.1, request.param), real_four


@pytest.mark.parametrize("job", JOBS)
def test_two_ranks(two, job):
    compare(*two, job)


@pytest.mark.parametrize("job", [pytest.param(j, marks=() if j in SOME else pytest.mark.exhaustive) for j in JOBS])
def test_two_ranks_by_xla(two_by_xla, job):
    compare(*two_by_xla, job)


@pytest.mark.exhaustive
@pytest.mark.parametrize("job", JOBS)
def test_four_ranks(four, job):
    compare(*four, job)


def compare(ours: list[dict[str, Any]], real: list[dict[str, Any]], job: str) -> None:
    for rank, results in enumerate(ours):
        result = results[job]
        assert not _failed(result), f"rank {rank}: {result}"
        if job in OURS_ONLY:
            assert result is None  # the job itself has compared
        else:
            assert not _failed(real[rank][job]), f"real MLX, rank {rank}: {real[rank][job]}"
            _same(result, real[rank][job], f"rank {rank}")


def _failed(result: Any) -> bool:
    return isinstance(result, tuple) and result[:1] == ("error",)


def _same(got: Any, want: Any, where: str) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want), where
        for key in want:
            _same(got[key], want[key], f"{where}[{key!r}]")
    elif isinstance(want, tuple) and len(want) == 2 and isinstance(want[1], np.ndarray):
        (dtype, values), (expected_dtype, expected) = got, want
        assert dtype == expected_dtype, where
        assert values.shape == expected.shape, where
        tolerance = TOLERANCE.get(dtype, 0)
        np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance, err_msg=where)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), where
        for k, (a, b) in enumerate(zip(got, want, strict=True)):
            _same(a, b, f"{where}[{k}]")
    else:
        assert got == want, where
