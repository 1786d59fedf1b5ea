"""The launcher: start a program as several processes, here or on other machines, that find each other.

`python -m mxcompat launch -n 4 script.py` accepts the options of MLX's `mlx.launch`. The functions that programs import
from `mlx._distributed_utils.launch` are here, too.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Sequence
from typing import Any

from mxcompat._started import with_what_is_handed_down

from .common import Host, Hostfile
from .environment import BACKENDS, MEMBER
from .links import free_port, joined
from .processes import Start, run_all

__all__ = ["main"]

_PORT = 32323
"""The port of rank 0 on another machine, whose free ports are unknown here. It is the port of MLX's launcher."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the launcher's command line and return the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.print_python:
        sys.stdout.write(f"{sys.executable}\n")
        return 0
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.module:
        command = ["-m", *args.module]
    if not command:
        parser.error("No script is provided")
    try:
        hostfile = Hostfile.from_list(args.hosts, args.repeat_hosts)
        if args.hostfile is not None:
            hostfile = Hostfile.from_file(args.hostfile)
    except ValueError as error:
        parser.error(str(error))
    backend = args.backend or hostfile.backend or "any"
    if backend not in BACKENDS:
        parser.error(f"The backend should be one of {{{', '.join(map(repr, BACKENDS))}}}")
    args.env = [*hostfile.envs, *args.env]
    try:
        return _launch(hostfile.hosts, args, command, backend)
    except OSError as error:  # the command, the directory or the host does not exist
        parser.error(str(error))


def launch_ring(parser: Any, hosts: Sequence[Host], args: argparse.Namespace, command: Sequence[str]) -> int:
    """Start a command on hosts, as `mlx.launch --backend ring` does, and return the exit status.

    Args:
        parser: ignored.
        hosts: one for each rank.
        args: options; `env`, `cwd`, `python`, `verbose` and `starting_port` are read if they exist.
        command: a script and its arguments, or any other command.
    """
    return _launch(hosts, args, command, "ring")


def launch_jaccl(parser: Any, hosts: Sequence[Host], args: argparse.Namespace, command: Sequence[str]) -> int:
    """Start a command on hosts, as `mlx.launch --backend jaccl` does. JAX uses its own communication."""
    return _launch(hosts, args, command, "jaccl")


def _launch(hosts: Sequence[Host], args: argparse.Namespace, command: Sequence[str], backend: str) -> int:
    option = vars(args).get
    settings = dict(setting.partition("=")[::2] for setting in option("env") or ())
    if "PYTHONPATH" in settings:
        settings["PYTHONPATH"] = with_what_is_handed_down(settings["PYTHONPATH"])
    coordinator = joined(_address(hosts), _port(hosts, option("starting_port")))
    whole = _with_python(command, option("python") or sys.executable)
    starts = []
    for rank, host in enumerate(hosts):
        near = [r for r, other in enumerate(hosts) if other.ssh_hostname == host.ssh_hostname]
        told = {
            **settings,
            "MLX_RANK": str(rank),
            "MLX_WORLD_SIZE": str(len(hosts)),
            "MXCOMPAT_BACKEND": backend,
            "MXCOMPAT_COORDINATOR": coordinator,
            "MXCOMPAT_LOCAL": f"{near.index(rank)}/{len(near)}",
            "PYTHONUNBUFFERED": "1",
        }
        inherited = {name: value for name, value in os.environ.items() if name != MEMBER}
        if host.is_local:
            starts.append(Start(whole, inherited | told, option("cwd"), is_remote=False))
        else:
            carried = {name: value for name, value in inherited.items() if name.startswith(_CARRIED)}
            starts.append(
                Start(_ssh_command(host, whole, carried | told, option("cwd")), inherited, None, is_remote=True)
            )
        if option("dry_run") or option("verbose"):
            shown = [f"{name}={value}" for name, value in told.items()] if host.is_local else []
            sys.stdout.write(shlex.join([*shown, *starts[-1].command]) + "\n")
    return 0 if option("dry_run") else run_all(starts)


_CARRIED = ("JAX_", "MLX_", "MXCOMPAT_", "NCCL_", "PYTHON", "XLA_")
"""Prefixes of the variables that are copied to other machines."""


def _with_python(command: Sequence[str], python: str) -> list[str]:
    """Return a command that runs a script, or a module after -m, with this Python and with mxcompat in MLX's place.
    Return other commands unchanged."""
    is_program = command[0] == "-m" or command[0].endswith(".py")
    return [python, "-m", "mxcompat", *command] if is_program else list(command)


def _ssh_command(host: Host, command: Sequence[str], told: dict[str, str], cwd: str | None) -> list[str]:
    """Return the ssh command for another machine.

    The program gets a terminal, so that it ends with ssh. A shell waits for the program, so that ssh returns an exit
    status even if a signal ends the program.
    """
    # change to the given directory, or to the current one if the host has it
    start = f"cd {shlex.quote(cwd)} || exit" if cwd else f"cd {shlex.quote(os.getcwd())} 2>/dev/null"
    settings = [f"{name}={value}" for name, value in told.items()]
    columns, rows = shutil.get_terminal_size()
    terminal = f"stty -echo -opost cols {columns} rows {rows}"
    ready = "printf '\\006'"
    script = f"{terminal}; {ready}; {start}; env {shlex.join([*settings, *command])}; exit $?"
    return ["ssh", "-tt", "-o", "LogLevel=ERROR", host.ssh_hostname, f"exec sh -c {shlex.quote(script)}"]


def _address(hosts: Sequence[Host]) -> str:
    """Return the address at which all ranks reach the first host. If this machine is the first host, return the address
    from which it reaches the others."""
    first, others = hosts[0], [host for host in hosts if not host.is_local]
    if not first.is_local or not others:
        return first.address
    with socket.socket(socket.AF_INET6 if ":" in others[0].address else socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((others[0].address, 9))  # connecting a UDP socket sends no data
        return towards.getsockname()[0]


def _port(hosts: Sequence[Host], port: int | None) -> int:
    if port is not None:
        return port
    return free_port() if hosts[0].is_local else _PORT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mxcompat launch", allow_abbrev=False,
        description="Start a program as several processes that find each other with mx.distributed.init().",
    )  # fmt: skip
    add = parser.add_argument
    add("-n", "--repeat-hosts", type=_count, default=1, metavar="N", help="how many processes to start on each host")
    add("--hosts", default="127.0.0.1", help="names or addresses, with commas between them, to reach by ssh")
    add("--hostfile", help="a JSON file with the hosts, as MLX's")
    add("--backend", help=f"the backend that mx.distributed.init() is asked for: {', '.join(BACKENDS)}")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="set a variable for the processes")
    add("--cwd", help="the directory to start in (default: this one)")
    add("--python", help="the Python for scripts (default: this one)")
    add("-p", "--starting-port", type=int, help="the port of rank 0 (default: a free one here)")
    add("--dry-run", action="store_true", help="print the commands and end")
    add("--verbose", action="store_true", help="print the commands, then run them")
    add("--print-python", action="store_true", help="print the path of this Python and end")
    for name in ("--mpi-arg", "--connections-per-ip", "--nccl-port"):
        add(name, help="accepted, and ignored")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="the program: a module")
    add("command", nargs=argparse.REMAINDER, help="the program: a script or a command, and its arguments")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"invalid positive_number value: {text!r}")
    return int(text)
