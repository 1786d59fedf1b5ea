"""Settings: by default, every third cell of the parametrized tables runs, most without second derivatives.
`-m exhaustive` runs everything.

Each cell compiles several XLA programs to compare with.
"""

import zlib

import pytest

from mxcompat._graph.ir import buffers

from .harness import SETTINGS

_SHARE = 3


@pytest.fixture(autouse=True)
def _every_array_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give pullbacks NaN for arrays that they do not declare as read, as happens with large arrays."""
    monkeypatch.setattr(buffers, "smallest", 0)


@pytest.fixture(autouse=True)
def _second_derivatives(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare second derivatives in exhaustive runs, and of the fast ops, which are decomposed for them."""
    is_exhaustive = request.node.get_closest_marker("exhaustive") is not None
    monkeypatch.setitem(SETTINGS, "second", is_exhaustive or request.path.name == "test_fast.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    everything = config.option.markexpr == "exhaustive"
    for item in items:
        here = "tests/host/" in item.nodeid.replace("\\", "/")
        is_left_out = hasattr(item, "callspec") and zlib.crc32(item.nodeid.encode()) % _SHARE
        if here and (everything or is_left_out):
            item.add_marker(pytest.mark.exhaustive)
