"""The launcher over ssh, to hosts that are network namespaces of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .hosts import Network, what_is_missing
from .processes import PATIENCE, environment

PROGRAM = """
import os, sys
import mlx.core as mx
group = mx.distributed.init()
total = mx.distributed.all_sum(mx.ones(2) * (group.rank() + 1)).tolist()
settings = [os.environ.get(name) for name in ("A", "MXCOMPAT_DISTRIBUTED_TIMEOUT", "HIDDEN")]
print([group.rank(), total, os.uname().nodename, os.getcwd(), settings, sys.argv[1:]])
half = group.split(group.rank() % 2)
mx.eval(mx.distributed.all_gather(mx.ones(2), group=half))
if sys.argv[1] == "killed" and group.rank():
    os.kill(os.getpid(), 9)
mx.eval(mx.distributed.all_sum(mx.ones(2)))
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    with Network(tmp_path_factory.mktemp("net"), ["one", "two"]) as network:
        yield network


@pytest.fixture
def start(network, tmp_path):
    """Start the launcher on the user's machine, in a directory with a program."""

    def start(*options, **pipes):
        (tmp_path / "program.py").write_text(PROGRAM)
        line = network.command(sys.executable, "-m", "mxcompat", "launch", *options)
        settings = environment(HIDDEN="1", MXCOMPAT_DISTRIBUTED_TIMEOUT="100")
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | pipes
        return subprocess.Popen(line, cwd=tmp_path, env=settings, text=True, **pipes)

    return start


def python(code):
    return ["--", sys.executable, "-c", code]


def test_ranks_on_two_hosts(start, tmp_path):
    """Run ranks on two hosts whose own names are loopback addresses. Arrays and arguments arrive unchanged."""
    words = ["a  b", "it's", "$HOME", 'x"y', "two\nlines", "é"]
    process = start("--hosts", "one,two", "-n", "2", "--env", "A=b c", "program.py", *words)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    lines = sorted(line for line in out.splitlines() if "] [" in line)  # without the messages of a host's shell
    for rank, line in enumerate(lines):
        host = "one" if rank < 2 else "two"
        assert line == f"[{rank}] {[rank, [10.0, 10.0], host, str(tmp_path), ['b c', '100', None], words]}"
    assert len(lines) == 4


@pytest.mark.exhaustive
def test_a_rank_that_is_killed_there(start, network, tmp_path):
    """Assert that the death of a remote rank ends the others, here too, with that rank's exit status."""
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([{"ssh": "localhost"}, {"ssh": "root@two"}]))
    process = start("--hostfile", str(hosts), "program.py", "killed")
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 137, err
    assert "[1] Killed" in out
    assert "on rank 0: Rank 1 has ended." in err
    assert "mxcompat: rank 1 ended with status 137; the others end, too" in err
    assert network.pids("two") == []


@pytest.mark.exhaustive
def test_what_is_typed(start):
    process = start("--hosts", "one,two", *python("import sys; print(input() * 2); print(sys.stdin.read())"),
                    stdin=subprocess.PIPE)  # fmt: skip
    out, err = process.communicate("ab\ncd", timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert sorted(out.splitlines()) == ["[0] abab", "[0] cd", "[1] abab", "[1] cd"]


@pytest.mark.exhaustive
def test_what_cannot_start(start):
    for options, status, text in (
        (["--hosts", "one,nowhere", "--", "sleep", "1000"], 255, "[1] ssh: Could not resolve hostname nowhere"),
        (["--hosts", "one", "--cwd", "/none", "--", "true"], 2, "mxcompat: rank 0 ended with status 2"),
        (["--hosts", "localhost,nowhere", "--", "true"], 2, "mxcompat launch: error: [Errno"),
    ):
        process = start(*options)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == status, err
        assert text in err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_all_end_with_the_launcher(start, network, number):
    """Assert that all ranks and their children end with the launcher, on every host, also after an interrupt."""
    code = "import subprocess, time; subprocess.Popen(['sleep', '1000']); print('ready', flush=True); time.sleep(1000)"
    process = start("--hosts", "one,two,localhost", *python(code))
    assert sorted(process.stdout.readline() for _ in range(3)) == [f"[{rank}] ready\n" for rank in range(3)]
    assert all(len(network.pids(name)) >= 3 for name in network.addresses)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert (out + err).count("KeyboardInterrupt") == (3 if number == signal.SIGINT else 0)
    deadline = time.monotonic() + 10
    while any(network.pids(name) for name in network.addresses) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(network.pids(name) for name in network.addresses)
