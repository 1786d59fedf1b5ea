"""The exit of a finished program: as Python's own, but without waiting for background compiles."""

from __future__ import annotations

import gzip
import importlib
import subprocess
import sys

import pytest

from mxcompat._jax import import_jax

BUSY = """
import sys, threading, time
from mxcompat._graph.run import background

background.submit(threading.Event().wait)  # which never ends
while background._jobs:
    time.sleep(0.001)
"""


def ended(program: str, *before: str, busy: bool = True, stdin: str = "") -> tuple[int, str, str]:
    """Return the status, output and errors of a process that runs this program.

    If `busy`, a background job is pending.
    """
    started = [sys.executable, *before, "-m", "mxcompat", "-c", (BUSY if busy else "import sys\n") + program]
    process = subprocess.run(started, capture_output=True, text=True, timeout=120, input=stdin)
    return process.returncode, process.stdout, process.stderr


@pytest.mark.parametrize(
    "program",
    [
        "print('done')",
        "print('done', end=' '); sys.exit()",
        "sys.exit(300)",
        "sys.exit(True)",
        "sys.exit('a message')",
        "sys.exit((1, 2))",
        "raise KeyboardInterrupt",
        "sys.excepthook = lambda kind, error, _: print('hook', kind, error); 1 / 0",
        "sys.stdout.close()",
    ],
)
def test_status_and_output_are_python_s(program):
    status, out, errors = ended(program)
    expected = ended(program, busy=False)
    assert (status, out) == expected[:2]
    assert errors.splitlines()[-1:] == expected[2].splitlines()[-1:]


def test_what_the_program_raises_is_reported_once():
    program = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('x') from error"
    status, out, errors = ended(program)
    assert (status, out) == (1, "")
    assert errors.count("ZeroDivisionError: division by zero") == errors.count("ValueError: x") == 1


def test_a_hook_that_raises():
    status, _, errors = ended("def hook(*_): raise RuntimeError('hook')\nsys.excepthook = hook\n1 / 0")
    assert status == 1
    assert "Error in sys.excepthook:" in errors
    assert errors.index("RuntimeError: hook") < errors.index("Original exception was:")
    assert errors.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_threads_handlers_and_finalizers_come_in_order():
    program = """
import atexit

class Noisy:
    def __del__(self):
        print("finalizer", NAME)

NAME = "of the main module"
noisy = Noisy()

def slow():
    time.sleep(0.2)
    print("thread")

def use():
    return noisy

threading.Thread(target=slow).start()
atexit.register(lambda: print("handler", noisy is not None))
print("program")
"""
    expected = ["program", "thread", "handler True", "finalizer of the main module"]
    assert ended(program) == (0, "\n".join([*expected, ""]), "")


@pytest.mark.parametrize("holder", ["kept", "sys.kept"])
def test_files_are_complete(tmp_path, holder):
    program = f"""
import gzip
{holder} = [open({str(tmp_path / "text")!r}, "w"), gzip.open({str(tmp_path / "packed")!r}, "wt")]
{holder}.append(open({str(tmp_path / "bytes")!r}, "wb"))
for file in {holder}[:2]:
    file.write("what is written")
{holder}[2].write(b"what is written")
"""
    assert ended(program) == (0, "", "")
    assert (tmp_path / "text").read_text() == (tmp_path / "bytes").read_text() == "what is written"
    assert gzip.decompress((tmp_path / "packed").read_bytes()) == b"what is written"


def test_jobs_for_the_processes_to_come_are_done():
    assert ended("background.submit(lambda: print('stored'), lasting=True)") == (0, "stored\n", "")


def test_what_is_submitted_at_exit_is_dropped():
    program = "import atexit; atexit.register(background.submit, lambda: print('begun'))"
    assert ended(program) == (0, "", "")
    assert ended("from mxcompat._graph.run import background\n" + program, busy=False) == (0, "", "")


def test_output_that_cannot_be_written():
    full = "sys.stdout = open('/dev/full', 'w'); print('lost')"
    status, _, errors = ended(full)
    assert (status, "No space left" in errors) == (120, True)
    assert ended(full, busy=False)[0] == 120


def test_who_has_called_it_goes_on(tmp_path):
    """Assert that a profiler that runs a program continues after it, and that the process waits for background jobs."""
    program = "background.submit(lambda: print('waited for'))"
    profiled = ["-m", "cProfile", "-o", str(tmp_path / "profile")]
    start = "from mxcompat._graph.run import background\n"
    assert ended(start + program, *profiled, busy=False) == (0, "waited for\n", "")
    assert (tmp_path / "profile").stat().st_size > 0


def test_a_prompt_follows_where_one_is_wanted():
    assert ended("print(6)", "-i", stdin="print(6 * 7)\n", busy=False)[:2] == (0, "6\n42\n")


def test_while_xla_compiles():
    program = """
import mlx.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background

policy.HEAVY_SHARE = policy.HOT_SHARE = policy.IMPORT_SECONDS = 0.0
x = mx.ones((8, 8))
for _ in range(3):
    y = x
    for k in range(400):
        y = mx.sin(y @ x) + mx.cumsum(y, axis=k % 2)
    mx.eval(y)
print(background.is_busy())
"""
    assert ended(program, busy=False) == (0, "True\n", "")


def test_the_handler_of_jax_s_that_is_left_out():
    import_jax()
    assert callable(importlib.import_module("jax._src.api").clean_up)
