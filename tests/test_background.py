"""Background compilation: it runs concurrently with the program, and its duration is limited."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mxcompat._graph import policy
from mxcompat._graph.run import background, cache, events, priority
from tests.unpromised import needs

_WAITED = """
import threading, time
from mxcompat._graph.run import background

def job():
    main = threading.main_thread()
    while main.is_alive():
        time.sleep(0.01)
    background.give_up_at_exit()
    print("went on")

background.submit(job)
"""


def _printed(program: str) -> str:
    environment = {**os.environ, "MXCOMPAT_CACHE": "0", "JAX_ENABLE_COMPILATION_CACHE": "0"}
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120
    )
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def test_a_job_is_given_up_where_the_process_ends():
    assert _printed(_WAITED) == ""


def test_a_job_goes_on_while_another_thread_works():
    worker = """
done = threading.Event()
threading.Thread(target=done.wait).start()
background.submit(done.set)
"""
    assert _printed(_WAITED + worker) == "went on\n"


def test_no_thread_can_be_started_at_exit(monkeypatch):
    """Assert that a job is dropped if Python refuses new threads, as it does at exit from 3.12 on; later jobs run."""

    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    background.settle()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    finished = []
    background.submit(lambda: finished.append(1), lasting=True)
    background.wait(lambda: False)
    assert not background.is_busy()
    monkeypatch.undo()
    background.submit(lambda: finished.append(2))
    background.settle()
    assert finished == [2]


@pytest.fixture
def waits(monkeypatch) -> list[float | None]:
    """Compile programs in their second run. Return the time limit of each wait for a compile."""
    waited = []
    wait = background.wait
    monkeypatch.setattr(background, "wait", lambda until, seconds=None: (waited.append(seconds), wait(until, seconds)))
    for name in ("HEAVY_SHARE", "HOT_SHARE", "IMPORT_SECONDS", "WORTH_WAITING"):
        monkeypatch.setattr(policy, name, 0.0)
    return waited


def run_four_times(size: int) -> None:
    import mxcompat.core as mx

    x = mx.ones((3, size))
    for _ in range(4):
        expected = 3 * size * (1 + 0.4546487)
        assert mx.sum(mx.sin(x) * mx.cos(x) + x).item() == pytest.approx(expected, rel=1e-5)


def test_a_compile_that_takes_long_is_not_waited_for(waits, monkeypatch):
    """Assert that a computation waits once for its compile if NumPy is likely to take longer, and no longer than
    NumPy takes."""
    goes_on = threading.Event()
    executable = cache.Executable
    monkeypatch.setattr(cache, "Executable", lambda *args, **named: (goes_on.wait(), executable(*args, **named))[1])
    try:
        run_four_times(41)
        assert not goes_on.is_set()
        assert len(waits) == 1
        assert waits[0] < 10
    finally:
        goes_on.set()
        background.settle()


def test_a_compile_that_others_are_before_is_not_waited_for(waits):
    begun, goes_on = threading.Event(), threading.Event()
    background.submit(lambda: (begun.set(), goes_on.wait()))
    assert begun.wait(10)
    try:
        run_four_times(42)
        assert not waits
    finally:
        goes_on.set()
        background.settle()


def test_a_job_that_is_asked_for_comes_first():
    begun, goes_on = threading.Event(), threading.Event()
    done = []
    jobs = [lambda k=k: done.append(k) for k in range(3)]
    running = lambda: (begun.set(), goes_on.wait())  # noqa: E731
    background.submit(running)
    assert begun.wait(10)
    for job in jobs:
        background.submit(job)
    assert not background.is_next(jobs[2])
    assert background.is_next(running)
    goes_on.set()
    background.settle()
    assert done == [2, 0, 1]
    assert background.is_next(jobs[0])


@needs("compiler-threads")
def test_threads_that_compile_come_behind_those_that_run():
    program = """
import os
from pathlib import Path
import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background, priority

policy.HEAVY_SHARE = policy.HOT_SHARE = policy.IMPORT_SECONDS = 0.0

def step(x):
    for k in range(60):
        x = mx.sin(x @ x[k:].T @ x[k:]) + mx.cumsum(x, axis=k % 2) * mx.softmax(x, axis=-1)
    return x

x = mx.random.normal((64, 64))
for _ in range(3):
    mx.eval(step(x))
background.settle()
for _ in range(3):
    mx.eval(step(x))

niceness = {"compile": [], "run": []}
for task in Path("/proc/self/task").iterdir():
    if task.name == str(os.getpid()) or (task / "comm").read_text().startswith("tf_XLAEigen"):
        niceness["run"].append(os.getpriority(os.PRIO_PROCESS, int(task.name)))
    else:
        niceness["compile"].append(os.getpriority(os.PRIO_PROCESS, int(task.name)))
base = os.getpriority(os.PRIO_PROCESS, 0)
assert set(niceness["run"]) == {base}, niceness
assert niceness["compile"].count(base + policy.COMPILER_NICENESS) >= 1, niceness
assert niceness["compile"].count(base) >= 1, niceness
print("seen")
"""
    assert _printed(program) == "seen\n"


@needs("compiler-threads")
def test_a_long_run_is_not_taken_for_a_compile():
    program = """
import os
import time
from pathlib import Path
import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background, priority

policy.HOST = False
policy.QUIET_SECONDS = 0.05  # much less than a run takes
policy.KNOWN_MIN_RUNS = policy.LIKELY_MIN_RUNS = 1_000_000  # nothing is compiled in the background

def run():
    mx.eval(mx.random.normal((4000, 4000)))

run()
background.settle()
base = os.getpriority(os.PRIO_PROCESS, 0)

def job():
    with background.behind():
        time.sleep(3)

background.submit(job)
for _ in range(4):
    run()
assert priority._candidates
for task in Path("/proc/self/task").iterdir():
    assert os.getpriority(os.PRIO_PROCESS, int(task.name)) == base, (task / "comm").read_text()
print("seen")
"""
    assert _printed(program) == "seen\n"


@needs("compiler-threads")
@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_thread_that_ends_while_it_is_looked_at(error, monkeypatch):
    """Assert that a thread may end while its file in /proc is read; an open file then raises ProcessLookupError."""

    def read_text(self):
        raise error(str(self))

    gone = 2**22 + 1  # no process has this identifier
    monkeypatch.setattr(priority, "_candidates", set())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", read_text)
        priority.candidates({gone})
        assert priority._busy() == {}
    assert not priority._candidates
    priority._lower(gone)


def test_what_numpy_cannot_do_is_not_compiled_twice(monkeypatch):
    """Assert that ops without NumPy rules keep their first executable while the whole program compiles in the
    background."""
    import mxcompat.core as mx

    def gradient(f):
        return mx.grad(lambda x: mx.real(f(x)).sum())

    monkeypatch.setattr(policy, "FEW_INSTRUCTIONS", 0)  # it is computed in segments
    second = gradient(gradient(lambda x: mx.logcumsumexp(x) * x))
    z = mx.array([-1.5j, -1.5 + 3j, -0.5 + 0.25j])
    goes_on = threading.Event()
    background.settle()
    background.submit(goes_on.wait)  # delays all compiles
    compiled = []

    def note(what, program, why):
        if what in ("compile", "load") and program.is_nested:
            compiled.append(program)

    events.observers.append(note)
    try:
        for _ in range(5):
            mx.eval(mx.sin(second(z)) * z)
        assert background.is_busy()
        assert len([p for p in compiled if len(p.instructions) == 1]) == 1
    finally:
        events.observers.remove(note)
        goes_on.set()
        background.settle()
