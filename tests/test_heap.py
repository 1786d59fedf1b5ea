"""The heap: freed memory stays in the process for later arrays, unless the environment or program disables this."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys

import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import heap
from mxcompat.ext.debug import host_disabled

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's heap is set")

_FAULTS = """
import resource

import mxcompat.core as mx

x, y = mx.random.normal((512, 512)), mx.random.normal((512, 512))

def step():
    z, made = x, []
    for _ in range(6):
        z = mx.sin(z) * y
        made.append(z)
    mx.eval(made)

for _ in range(4):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10)
"""

_RESIDENT = """
import resource

import mxcompat.core as mx

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

x = mx.ones((512, 512))
made = [x + k for k in range(40)]
mx.eval(made)
full = resident()
del made
kept = resident()
mx.clear_cache()
print(full - kept, full - resident())
"""


def _run(program: str, **environment: str) -> list[int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    process = subprocess.run(
        [sys.executable, "-c", program], env=clean | environment, capture_output=True, text=True, check=True
    )
    return [int(word) for word in process.stdout.split()]


@needs_glibc
def test_a_step_takes_the_pages_of_the_last() -> None:
    """Assert that a step reuses the pages of the last.

    (Six arrays of 1 MB are 1536 pages; with glibc's defaults, a thousand are requested again in each step.)
    """
    assert _run(_FAULTS)[0] < 100


@needs_glibc
@pytest.mark.parametrize(
    "environment", [{"MALLOC_MMAP_THRESHOLD_": "131072"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}]
)
def test_what_the_environment_says_holds(environment: dict[str, str]) -> None:
    assert _run(_FAULTS, **environment)[0] > 1000


@needs_glibc
def test_clear_cache_gives_the_pages_back() -> None:
    kept, released = _run(_RESIDENT)
    assert kept < 10 << 20
    assert released > 30 << 20


def test_memory_is_given_back_before_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that an executable that took long the last time runs with as little free memory as possible."""
    calls: list[None] = []
    monkeypatch.setattr(heap, "give_back", lambda: calls.append(None))

    def trims(least: float) -> int:
        """Return how often memory was given back in the third run of an executable, if `least` is the limit."""
        x = mx.array([[1.5, 2.5], [0.5, -0.5]])
        with host_disabled():
            for k in range(3):
                if k == 2:
                    calls.clear()
                    monkeypatch.setattr(policy, "TRIMMED_SECONDS", least)
                mx.eval(mx.tanh(x) @ x)
        return len(calls)

    assert trims(float("inf")) == 0
    assert trims(0.0) == 1


def test_the_collector_runs_before_memory_is_given_back() -> None:
    """Assert that JAX can drop its references to NumPy's arrays, which it does when the collector runs."""
    phases: list[str] = []
    gc.callbacks.append(callback := lambda phase, info: phases.append(phase))
    try:
        heap.give_back()
    finally:
        gc.callbacks.remove(callback)
    assert phases[:2] == ["start", "stop"]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the settings passed to glibc."""
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(heap, "_c_function", lambda name: lambda *numbers: seen.append(numbers))
    monkeypatch.setattr(heap, "_is_set", lambda: False)
    monkeypatch.setattr("mxcompat._array.memory._limits", {})
    return seen


@pytest.mark.parametrize(("limit", "kept"), [(0, policy.FREED_BYTES), (1 << 30, 1 << 30), (1 << 40, (1 << 31) - 1)])
def test_set_cache_limit(settings: list[tuple[int, int]], limit: int, kept: int) -> None:
    assert mx.set_cache_limit(limit) == 32 << 20
    assert dict(settings) == {-3: policy.FREED_BYTES, -1: kept}
    with pytest.raises(TypeError):
        mx.set_cache_limit(-1)
    assert len(settings) == 2


def test_another_library_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: object())
    heap._c_function.cache_clear()
    try:
        heap.keep(1 << 30)
        heap.give_back()
    finally:
        heap._c_function.cache_clear()
