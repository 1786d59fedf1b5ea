"""Child processes: forked, spawned, or of a fork server, also under `python -m mxcompat`. None deadlocks."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")

CHILD = """
import os, signal, warnings
warnings.simplefilter("ignore")  # of JAX, at the fork
import mxcompat.core as mx
from mxcompat.ext.debug import host_disabled

def inside():
{inside}

{before}
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it, where it would wait for ever
    try:
        inside()
        code = 0
    except RuntimeError as error:
        print(error, flush=True)
        code = 3
    os._exit(code)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
{after}
"""

XLA = "with host_disabled(): mx.eval(mx.sinh(mx.ones((40, 40))) @ mx.ones((40, 40)))"


def ran(code, *arguments):
    process = subprocess.run(
        [sys.executable, *arguments, code] if arguments else [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=240, env=os.environ | {"MXCOMPAT_CACHE": "0"}, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


def forked(before, inside, after=""):
    """Return the output lines of a process that forks after `before`, and whose child runs `inside`."""
    inside = textwrap.indent(inside, "    ")
    return ran(CHILD.format(before=before, inside=inside, after=after)).splitlines()


def test_a_child_has_a_clear_error_where_xla_is_needed():
    message, ended, parent = forked(XLA, XLA.replace("sinh", "cosh"), f"{XLA}\nprint('parent goes on')")
    assert message.startswith("[fork] This process was forked from one in which XLA runs")
    assert "spawn" in message
    assert ended == "child 3"
    assert parent == "parent goes on"


def test_an_executable_of_the_parents_is_refused_too():
    assert forked(XLA, XLA)[-1] == "child 3"


def test_a_child_computes_in_numpy():
    inside = "print(mx.grad(lambda x: (x * x).sum())(mx.arange(4) * 2.0).tolist(), (kept + 1).tolist(), flush=True)"
    before = f"{XLA}\nkept = mx.sin(mx.zeros(2)); mx.eval(kept)"
    assert forked(before, inside) == ["[0.0, 4.0, 8.0, 12.0] [1.0, 1.0]", "child 0"]


def test_a_child_reads_what_xla_has_made():
    before = "with host_disabled(): kept = mx.exp(mx.zeros(3)) + 1; mx.eval(kept)"
    assert forked(before, "print(kept.tolist(), flush=True)") == ["[2.0, 2.0, 2.0]", "child 0"]


def test_a_child_of_a_process_without_xla_starts_afresh():
    inside = f"{XLA}\nprint('computed', flush=True)"
    assert forked("x = mx.ones(3) + 1", inside) == ["computed", "child 0"]


def test_a_fork_waits_for_an_evaluation_of_another_thread():
    """Assert that a fork waits for an evaluation: the child must not inherit the lock of a thread that it lacks."""
    before = """
    import threading
    stop = threading.Event()
    def work():
        while not stop.is_set():
            mx.eval(mx.sin(mx.ones((50, 50))) + 1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()"""
    after = "stop.set(); [thread.join() for thread in threads]"
    assert forked(textwrap.dedent(before), "mx.eval(mx.cos(mx.ones(3)) + 2)", after) == ["child 0"]


PROGRAM = """
    import multiprocessing
    import mlx.core as mx

    def squares(n):
        x = mx.arange(n) + 0.0
        return mx.grad(lambda x: (x * x).sum())(x).tolist(), hasattr(mx, "__mxcompat__")

    if __name__ == "__main__":
        mx.eval(mx.ones((64, 64)) @ mx.ones((64, 64)))
        for method in ("spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                print(method, pool.map(squares, [2, 3]))
"""


def test_pools_of_a_script(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    expected = [([0.0, 2.0], True), ([0.0, 2.0, 4.0], True)]
    assert ran(str(script), "-m", "mxcompat").splitlines() == [f"spawn {expected}", f"forkserver {expected}"]
