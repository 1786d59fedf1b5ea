"""Large arrays of files, which the background thread reads after `eval`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from mxcompat._graph import policy
from mxcompat._graph.run import background
from mxcompat._io import reading
from tests.oracle import ours


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def large(monkeypatch):
    """Return a file's arrays, of which `x` counts as large. The background thread reads when the second item is set."""
    monkeypatch.setattr(policy, "LARGE_BYTES", 1 << 10)
    ours.save_safetensors("a", {"x": ours.arange(1000.0), "y": ours.ones(3)})
    go = threading.Event()
    background.submit(lambda: go.wait(60))
    yield ours.load("a.safetensors"), go
    go.set()
    background.settle()


def test_eval_lets_the_background_thread_read_large_arrays(large, monkeypatch):
    arrays, go = large
    fill, threads = reading.PathSource.fill, {}

    def counted(source, view, offset):
        threads.setdefault(threading.current_thread().name, []).append(len(view))
        return fill(source, view, offset)

    monkeypatch.setattr(reading.PathSource, "fill", counted)
    ours.eval(arrays)
    ours.eval(arrays)
    ours.async_eval(arrays["x"])
    assert threads == {threading.current_thread().name: [12]}
    go.set()
    background.settle()
    assert threads.pop(background.THREAD) == [4000]
    assert arrays["x"].tolist() == [*range(1000)]
    assert len(threads) == 1


def test_a_large_array_is_needed_before_its_turn(large):
    arrays, _ = large
    ours.eval(arrays)
    assert (arrays["x"] + 1).tolist() == [k + 1 for k in range(1000)]


def test_a_large_array_is_dropped_before_its_turn(large, monkeypatch):
    arrays, go = large
    ours.eval(arrays)
    del arrays["x"]
    monkeypatch.setattr(reading.PathSource, "fill", None)
    go.set()
    background.settle()


@pytest.mark.parametrize("evaluated", [False, True])
def test_a_file_of_a_large_array_is_cut_short(large, evaluated):
    arrays, go = large
    if evaluated:
        ours.eval(arrays)
    later = os.stat("a.safetensors").st_mtime_ns + 10**9
    os.truncate("a.safetensors", 1000)
    os.utime("a.safetensors", ns=(later, later))
    go.set()
    background.settle()
    for need in (ours.eval, lambda x: (x + 1).tolist(), ours.eval):
        with pytest.raises(RuntimeError, match="Unable to read") as raised:
            need(arrays["x"])
        assert "a.safetensors was changed" in str(raised.value.__notes__)


def test_a_file_of_large_arrays_is_saved_over(large):
    arrays, _ = large
    ours.eval(arrays)
    ours.save_safetensors("a.safetensors", {"x": arrays["x"] * 2, "z": arrays["x"]})
    again = ours.load("a.safetensors")
    assert again["x"].tolist() == [2 * k for k in range(1000)]
    assert again["z"].tolist() == arrays["x"].tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_is_forked_while_a_large_array_is_read():
    """Assert that the child reads an array itself that a thread of its parent was reading."""
    program = """
import os, threading
import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._io import reading

policy.LARGE_BYTES = 1 << 10
mx.save_safetensors("a", {"x": mx.arange(1000)})
x = mx.load("a.safetensors")["x"]
reads, go, fill = threading.Event(), threading.Event(), reading.PathSource.fill

def slow(*args):
    reads.set()
    go.wait(60)
    return fill(*args)

reading.PathSource.fill = slow
mx.eval(x)
reads.wait(60)
child = os.fork()
go.set()
assert x.tolist() == [*range(1000)]
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=120)
