"""Every construct of Metal's that programs use, in NumPy and in XLA, against the same source compiled by g++."""

import pytest

from .cases import CASES
from .kernels import by_numpy, by_oracle, by_xla, compiled, differences, needs_oracle

pytestmark = needs_oracle

NAMES = list(CASES)
TOGETHER = 12


@pytest.fixture(scope="module")
def wanted():
    """Return the outputs of all cases, computed by g++."""
    made = compiled(CASES.values())
    return {name: by_oracle(case, one) for (name, case), one in zip(CASES.items(), made, strict=True)}


@pytest.mark.parametrize("name", NAMES)
def test_in_numpy(wanted, name):
    case = CASES[name]
    assert not differences(by_numpy(case), wanted[name], case.tol), case.source


@pytest.mark.parametrize(
    "names", [NAMES[k : k + TOGETHER] for k in range(0, len(NAMES), TOGETHER)], ids=lambda names: names[0]
)
def test_in_xla(wanted, names):
    """Compare a dozen cases in one program, as one compile takes as long as a dozen kernels in NumPy."""
    found = {}
    for name, got in zip(names, by_xla([CASES[name] for name in names]), strict=True):
        found[name] = differences(got, wanted[name], CASES[name].tol)
    assert not any(found.values()), {name: wrong for name, wrong in found.items() if wrong}
