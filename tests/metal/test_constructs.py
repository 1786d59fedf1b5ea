"""Every construct of Metal's that programs use, in NumPy and in XLA, against the same source compiled by g++."""

import pytest

from .cases import CASES
from .kernels import by_numpy, by_oracle, by_xla, compiled, differences, needs_oracle

pytestmark = needs_oracle

NAMES = list(CASES)
TOGETHER = 12


@pytest.fixture(scope="module")
def expected():
    """Return the outputs of all cases, computed by g++."""
    kernels = compiled(CASES.values())
    return {name: by_oracle(case, one) for (name, case), one in zip(CASES.items(), kernels, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_in_numpy(expected, name):
    case = CASES[name]
    assert not differences(by_numpy(case), expected[name], case.tol), case.source


@pytest.mark.parametrize(
    "names", [NAMES[k : k + TOGETHER] for k in range(0, len(NAMES), TOGETHER)], ids=lambda names: names[0]
)
def test_in_xla(expected, names):
    """Compare a dozen cases in one program, as one compile takes as long as a dozen kernels in NumPy."""
    faults = {}
    for name, got in zip(names, by_xla([CASES[name] for name in names]), strict=True):
        faults[name] = differences(got, expected[name], CASES[name].tol)
    assert not any(faults.values()), {name: wrong for name, wrong in faults.items() if wrong}
