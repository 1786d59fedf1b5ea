"""The launcher, and the discovery of a group's processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from threading import Thread

import pytest

from mxcompat._distributed import processes
from mxcompat._distributed.common import Host, Hostfile
from mxcompat._distributed.environment import peers, timeout
from mxcompat._distributed.launch import main

from .processes import PATIENCE, ROOT, environment, free_ports, launch

SUM = """
import mlx.core as mx
mx.random.seed(0)
mx.default_device()
x = mx.ones(2) + 1
group = mx.distributed.init({arguments})
print(group.rank(), group.size(), mx.distributed.all_sum(x).tolist())
"""


def dry_run(capsys, *options):
    assert main([*options, "--dry-run"] if "--dry-run" not in options else [*options]) == 0
    return capsys.readouterr().out.splitlines()


def test_commands_for_this_machine(capsys):
    first, second = dry_run(capsys, "-n", "2", "--env", "A=b c", "-p", "7000", "--dry-run", "script.py", "-n", "3")
    assert first.split(" MLX_RANK")[0] == "'A=b c'"
    assert "MLX_RANK=1 MLX_WORLD_SIZE=2" in second
    assert "MXCOMPAT_COORDINATOR=127.0.0.1:7000" in second
    assert second.endswith(f"{sys.executable} -m mxcompat script.py -n 3")


def test_commands_for_other_machines(capsys, tmp_path):
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps({"backend": "ring", "envs": ["A=1"], "hosts": [
        {"ssh": "one", "ips": ["10.0.0.1"]}, {"ssh": "two"},
    ]}))  # fmt: skip
    first, second = dry_run(
        capsys, "--hostfile", str(hosts), "--cwd", "/there", "--python", "py", "--dry-run", "-m", "mod", "-x"
    )
    assert first.startswith("ssh -tt -o LogLevel=ERROR one 'exec sh -c ")
    assert "cd /there || exit; env " in first
    assert "MXCOMPAT_COORDINATOR=10.0.0.1:32323" in second
    assert "MXCOMPAT_BACKEND=ring" in second
    assert "A=1" in second
    assert "py -m mxcompat -m mod -x; exit" in second
    lines = dry_run(capsys, "--hosts", "a,b", "-n", "2", "--dry-run", "--", "echo", "hi")
    assert [line.split()[4] for line in lines] == ["a", "a", "b", "b"]
    assert all("echo hi; exit" in line for line in lines)
    assert "MXCOMPAT_COORDINATOR=one:" in dry_run(capsys, "--hosts", "me@one,me@two", "--dry-run", "x.py")[1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-n", "2"], "No script is provided"),
        (["-n", "0", "x"], "invalid positive_number value: '0'"),
        (["--backend", "foo", "x.py"], "The backend should be one of"),
        (["--hosts", "a,,b", "x.py"], "Hostname cannot be empty"),
        (["--", "/none"], "No such file or directory: '/none'"),
        (["--hostfile", "none.json", "x.py"], "Hostfile none.json doesn't exist"),
    ],
)
def test_command_lines_that_are_wrong(options, text, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(options)
    assert text in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # real MLX leaves files open
def test_hostfiles_as_real_mlx(tmp_path):
    from mlx._distributed_utils import common

    for content in (
        '{"backend": "ring", "envs": ["A=1"], "hosts": [{"ssh": "x", "ips": ["1.1.1.1"]}, {"ssh": "y", "rdma": [0]}]}',
        '[{"ssh": "x", "ips": ["1.1.1.1"]}]', '{"hosts": [{"ips": []}]}', "nonsense",
    ):  # fmt: skip
        path = tmp_path / "hosts.json"
        path.write_text(content)
        assert _read(Hostfile, path) == _read(common.Hostfile, path)
    assert _read(Hostfile, tmp_path / "none") == _read(common.Hostfile, tmp_path / "none")
    assert repr(Hostfile.from_list("a,1.2.3.4", 2)) == repr(common.Hostfile.from_list("a,1.2.3.4", 2))
    assert repr(Host(0, "a", [], [])) == repr(common.Host(0, "a", [], []))


def _read(kind, path):
    try:
        hosts = kind.from_file(path)
    except ValueError as error:
        return str(error)
    return repr(hosts), hosts.to_json()


ENVIRONMENTS = {
    "mxcompat": {"MXCOMPAT_COORDINATOR": "{first}", "MLX_RANK": "{rank}", "MLX_WORLD_SIZE": "2"},
    "ring": {"MLX_RANK": "{rank}", "MLX_HOSTFILE": "{hosts}"},
    "nccl": {"MLX_RANK": "{rank}", "MLX_WORLD_SIZE": "2", "NCCL_HOST_IP": "127.0.0.1", "NCCL_PORT": "{port}"},
    "jax": {"JAX_COORDINATOR_ADDRESS": "{first}", "JAX_PROCESS_ID": "{rank}", "JAX_NUM_PROCESSES": "2"},
    "mpi": {
        "OMPI_MCA_orte_hnp_uri": "{port}.0;tcp://127.0.0.1:1", "OMPI_COMM_WORLD_RANK": "{rank}",
        "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "{rank}",
    },
}  # fmt: skip
"""Environment variables that are set by launchers of processes."""


@pytest.mark.parametrize(
    "kind", ["ring", *[pytest.param(k, marks=pytest.mark.exhaustive) for k in ("nccl", "jax", "mpi")]]
)
def test_two_processes_find_each_other(kind, tmp_path):
    """Assert that two processes find each other with every launcher, also if much code precedes init."""
    port, other = free_ports(2)
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"], [f"127.0.0.1:{other}"]]))
    program = tmp_path / "program.py"
    program.write_text(SUM.format(arguments="" if kind == "jax" else f"True, {kind!r}"))
    processes = []
    for rank in (0, 1):
        variables = {
            k: v.format(rank=rank, first=f"127.0.0.1:{port}", port=port, hosts=hosts)
            for k, v in ENVIRONMENTS[kind].items()
        }
        line = [sys.executable, "-m", "mxcompat", str(program)]
        processes.append(
            subprocess.Popen(
                line,
                env=environment(**variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=tmp_path,
            )
        )
    try:
        for rank, process in enumerate(processes):
            out, err = process.communicate(timeout=PATIENCE)
            assert f"{rank} 2 [4.0, 4.0]" in out, err
            assert process.returncode == 0, err
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun here")
def test_mpirun(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SUM.format(arguments="True, 'mpi'"))
    line = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-m", "mxcompat"]
    result = subprocess.run(
        [*line, str(program)], env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    expected = sorted("0 2 [4.0, 4.0]\n1 2 [4.0, 4.0]\n")
    assert sorted(result.stdout) == expected  # mpirun may interleave the output of ranks


def test_who_is_meant(monkeypatch):
    for name, value in ENVIRONMENTS["nccl"].items():
        monkeypatch.setenv(name, value.format(rank=1, port=5))
    monkeypatch.setenv("MXCOMPAT_MEMBER", "")  # a set and a delete, so that monkeypatch restores the variable
    monkeypatch.delenv("MXCOMPAT_MEMBER")
    group = peers()
    assert group is not None
    assert (group.rank, group.size, group.address, group.backends) == (1, 2, "127.0.0.1:5", ("any", "nccl"))
    monkeypatch.setenv("MXCOMPAT_MEMBER", str(os.getppid()))  # the member is the parent; a child is not a member
    assert peers() is None


def test_the_limit(monkeypatch):
    monkeypatch.delenv("MXCOMPAT_DISTRIBUTED_TIMEOUT", raising=False)
    assert timeout() == 100
    for wrong in ("soon", "-1", "0"):
        monkeypatch.setenv("MXCOMPAT_DISTRIBUTED_TIMEOUT", wrong)
        with pytest.raises(ValueError, match="MXCOMPAT_DISTRIBUTED_TIMEOUT must be a number of seconds"):
            timeout()


def test_output_input_and_status():
    program = (
        "import os, sys; rank = os.environ['MLX_RANK']; print('out', end=' '); print('of', rank); "
        "sys.stderr.write('err\\n'); sys.exit(3 if rank == '1' else 0)"
    )
    result = launch(2, "--", sys.executable, "-c", program)
    assert result.returncode == 3
    assert sorted(result.stdout.splitlines()) == ["[0] out of 0", "[1] out of 1"]
    assert "[0] err" in result.stderr
    assert "rank 1 ended with status 3" in result.stderr
    line = [sys.executable, "-m", "mxcompat", "launch", "-n", "2", "--", sys.executable, "-c", "print(input('? ') * 2)"]
    process = subprocess.run(
        line, input="ab\n", env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert process.stdout.count("abab") == 2


def test_an_interrupt_ends_all():
    # short sleeps, because Python misses a signal that comes just before a sleep until the sleep ends
    program = "import time; print('ready', flush=True); [time.sleep(0.01) for _ in range(100_000)]"
    line = [sys.executable, "-m", "mxcompat", "launch", "-n", "2", "--", sys.executable, "-c", program]
    process = subprocess.Popen(
        line, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(2)) == ["[0] ready\n", "[1] ready\n"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert err.count("KeyboardInterrupt") == 2


@pytest.fixture
def ranks(monkeypatch):
    """Yield the list of created ranks, and close their streams at the end."""
    instances = []

    class Rank(processes._Rank):
        def __init__(self, start):
            super().__init__(start)
            instances.append(self)

    monkeypatch.setattr(processes, "_Rank", Rank)
    yield instances
    for rank in instances:
        for stream in (rank.process.stdin, rank.process.stdout, rank.process.stderr):
            stream.close()


def test_an_interrupt_while_they_start(ranks, monkeypatch):
    """Assert that an interrupt is passed to the ranks and ends them, however early it comes."""
    program = "import time; print('ready', flush=True); time.sleep(1000)"
    starts = [processes.Start([sys.executable, "-c", program], environment(), None, False) for _ in range(2)]

    def feed(*args, target, **kwargs):
        if target is processes._feed:
            for rank in ranks:
                assert rank.process.poll() is None
            raise KeyboardInterrupt
        return Thread(*args, target=target, **kwargs)

    monkeypatch.setattr(processes.threading, "Thread", feed)
    assert processes.run_all(starts) == 130
    assert [rank.process.poll() is None for rank in ranks] == [False, False]


@pytest.mark.usefixtures("ranks")
def test_an_interrupt_before_all_is_read(tmp_path, monkeypatch, capfd):
    """Assert that the ranks' output at an interrupt is passed on, although the launcher has not yet read all of it."""
    program = "import os, time; open(str(os.getpid()), 'w').close(); time.sleep(1000)"
    starts = [processes.Start([sys.executable, "-c", program], environment(), str(tmp_path), False) for _ in range(2)]
    readers = []

    class Reader(Thread):
        def start(self):
            readers.append(self)
            if len(readers) == 4:
                while len([*tmp_path.iterdir()]) < 2:
                    time.sleep(0.01)
                raise KeyboardInterrupt
            super().start()

    monkeypatch.setattr(processes.threading, "Thread", Reader)
    assert processes.run_all(starts) == 130
    assert capfd.readouterr().err.count("KeyboardInterrupt") == 2


def said_by(folder, text):
    """Return the sorted output lines of a program that `python -m mxcompat program.py` runs in a new folder."""
    program = folder / "program.py"
    program.write_text(text)
    result = subprocess.run(
        [sys.executable, "-m", "mxcompat", str(program)], env=environment(), cwd=folder, capture_output=True,
        text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    return sorted(result.stdout.splitlines())


def test_what_mlx_lm_takes_of_the_launcher(tmp_path):
    """Assert that `mlx_lm.share` can start itself on the hosts of a file, through MLX's own names."""
    lines = said_by(
        tmp_path,
        "import argparse, sys\n"
        "from mlx._distributed_utils.common import Hostfile\n"
        "from mlx._distributed_utils.launch import launch_ring\n"
        "hosts = Hostfile.from_list('127.0.0.1', 2).hosts\n"
        "args = argparse.Namespace(cwd=None, env=['A=7'], verbose=False, python=None, starting_port=None)\n"
        'code = \'import os; print(os.environ["A"], os.environ["MLX_RANK"])\'\n'
        "launch_ring(None, hosts, args, [sys.executable, '-c', code])\n",
    )
    assert lines == ["[0] 7 0", "[1] 7 1"]


def test_a_search_path_for_the_ranks(tmp_path):
    """Assert that under `mlx.launch --env PYTHONPATH=...` the ranks import mxcompat as `mlx`, here and on other
    hosts."""
    lines = said_by(
        tmp_path,
        "import subprocess, sys\n"
        "launch = 'import sys; from mlx._distributed_utils.launch import main; sys.exit(main())'\n"
        "code = 'import sys, mlx.core as mx; print(any(x.endswith(\"there\") for x in sys.path), mx.__spec__.name)'\n"
        "line = [sys.executable, '-c', launch, '--env', 'PYTHONPATH=there']\n"
        "subprocess.run([*line, '-n', '2', '--', sys.executable, '-c', code], check=True)\n"
        "subprocess.run([*line, '--hosts', 'far', '--dry-run', '--', 'true'], check=True)\n",
    )
    *local, afar = lines
    assert local == ["[0] True mxcompat.core", "[1] True mxcompat.core"]
    assert "_children:there" in afar


@pytest.mark.exhaustive
def test_mlx_lm_share(tmp_path):
    """Assert that `mlx_lm.share` copies a folder from the rank that has it to the other."""
    pytest.importorskip("mlx_lm")
    source, got, hosts = tmp_path / "given", tmp_path / "got", tmp_path / "hosts.json"
    (source / "sub").mkdir(parents=True)
    (source / "weights").write_bytes(bytes(range(256)) * 5000)
    (source / "sub" / "text").write_text("text")
    (source / "empty").touch()
    (source / "link").symlink_to("sub/text")
    hosts.write_text(json.dumps({"backend": "ring", "hosts": [{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}] * 2}))
    line = [sys.executable, "-m", "mxcompat", "-m", "mlx_lm", "share", "--path", str(source), "--dst", str(got)]
    subprocess.run(
        [*line, "--tmpdir", str(tmp_path), "--hostfile", str(hosts)], env=environment(), cwd=tmp_path,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    names = [sorted(p.relative_to(folder) for p in folder.rglob("*")) for folder in (got, source)]
    assert names[0] == names[1]
    assert (got / "weights").read_bytes() == (source / "weights").read_bytes()
    assert (got / "link").is_symlink()
    assert (got / "link").read_text() == "text"
