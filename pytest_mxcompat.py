"""A plugin of pytest's: `pytest --mlx mxcompat` runs tests that were written for MLX on mxcompat, `--mlx real` on real
MLX, and `--mlx both` on each, in processes of their own, and says what differs in outcome and in time.

It is a module by itself because pytest imports it whenever it starts: importing `mxcompat` would import JAX. Without
the option it does nothing, but for the fixture `mx` where a test asks for it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SIDES = ("mxcompat", "real")
_OPTIONS = ("--mlx", "--mlx-record")
NOTABLE_RATIO, NOTABLE_SECONDS = 2.0, 0.5
"""How much longer than on the other side a test must take, and how long, for its time to be mentioned."""
_WIDTH = shutil.get_terminal_size().columns


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mxcompat", "tests written for MLX")
    group.addoption("--mlx", choices=[*SIDES, "both"], help="what `mlx` is: mxcompat, real MLX, or each in turn")
    about = "write the outcome and time of every test to FILE, as JSON; with `--mlx both` those of each side"
    group.addoption("--mlx-record", metavar="FILE", help=about)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before the first conftest.py, which may import `mlx`."""
    # pytest rewrites the asserts of all that a distribution with a plugin has, and adds names to every module: not here
    getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", set()).discard("mxcompat")
    side = early_config.known_args_namespace.mlx
    if side == "mxcompat":
        from mxcompat._tools.running import as_mlx

        try:
            as_mlx()
        except RuntimeError as error:  # a plugin has imported real MLX
            raise pytest.UsageError(f"--mlx mxcompat: {error}") from None
    elif side is not None and importlib.util.find_spec("mlx.core") is None:
        raise pytest.UsageError(f"--mlx {side}: real MLX is not installed")
    elif side is not None and _mlx() != "real MLX":
        raise pytest.UsageError(f"--mlx {side}: `mlx` is mxcompat in this process already")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_fixtures(config.option.mlx), "mxcompat-fixtures")
    if config.option.mlx_record and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(Path(config.option.mlx_record)), "mxcompat-recorder")


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.option.mlx is None:
        return None
    return f"mlx: {_mlx()} {importlib.metadata.version('mlx')}"


def _mlx() -> str:
    """What `mlx` is in this process."""
    dropin = sys.modules.get("mxcompat._dropin")
    return "mxcompat with the API of MLX" if dropin is not None and dropin.installed() else "real MLX"


def _fixtures(side: str | None) -> Any:
    """A plugin with the fixture `mx`: `mlx.core` where `--mlx` says what that is; else both, one after the other."""

    class Fixtures:
        @pytest.fixture(params=None if side else SIDES)
        def mx(self, request: pytest.FixtureRequest) -> Any:
            """The module `mlx.core`: mxcompat's and, where it is installed, real MLX's."""
            if side is not None or request.param == "real":
                return pytest.importorskip("mlx.core", reason="real MLX is not installed")
            return importlib.import_module("mxcompat.core")

    return Fixtures()


class _Recorder:
    """Writes a line for each test when it has run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, Run] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.tests[report.nodeid] = Run("error" if report.failed else "skipped", 0.0, _message(report))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for setup, call and teardown: the outcome is the call's, unless something goes wrong elsewhere."""
        before = self.tests.get(report.nodeid, Run("", 0.0, ""))
        outcome, message = before.outcome, before.message
        if report.when == "call" or not report.passed:
            outcome, message = _outcome(report), _message(report)
        self.tests[report.nodeid] = Run(outcome, before.seconds + report.duration, message)

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.tests))


class Run(NamedTuple):
    """How a test went: "passed", "failed", "error" (not in the test itself), "skipped", "xfailed" or "xpassed"; how
    long it took; and, if it did not pass, what it said."""

    outcome: str
    seconds: float
    message: str

    def __str__(self) -> str:
        return f"{self.outcome}: {self.message}" if self.message else self.outcome


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return "error" if report.failed and report.when != "call" else report.outcome


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The error in a line, or why a test was skipped."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = [line for line in (crash.message if crash else report.longreprtext).splitlines() if line.strip()]
    return (lines[0] if crash else lines[-1]).strip() if lines else ""


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """With `--mlx both`, run the tests twice in place of here."""
    if config.option.mlx != "both" or config.option.help or config.option.version:
        return None
    runs: dict[str, dict[str, Run]] = {}
    statuses = []
    with tempfile.TemporaryDirectory() as folder:
        for side in SIDES:
            print(f" mlx: {side} ".center(_WIDTH, "#"), flush=True)
            record = Path(folder) / f"{side}.json"
            statuses.append(subprocess.run(_command(config, side, record), cwd=config.invocation_params.dir).returncode)
            found = json.loads(record.read_text()) if record.exists() else {}
            runs[side] = {name: Run(*run) for name, run in found.items()}
    if config.option.mlx_record:
        Path(config.option.mlx_record).write_text(json.dumps(runs))
    lines, differ = compare(runs)
    print(" mxcompat and real MLX ".center(_WIDTH, "#"), *lines, sep="\n", flush=True)
    return next((status for status in statuses if status), 1 if differ else 0)


def _command(config: pytest.Config, side: str, record: Path) -> list[str]:
    """What runs the same tests with another `--mlx` and record. These options come first, since `--` may end them."""
    given = []
    args = iter(map(str, config.invocation_params.args))
    for arg in args:
        if arg in _OPTIONS:
            next(args, None)  # what it is
        elif arg.partition("=")[0] not in _OPTIONS:
            given.append(arg)
    return [sys.executable, "-m", "pytest", "--mlx", side, "--mlx-record", str(record), *given]


def compare(runs: dict[str, dict[str, Run]]) -> tuple[list[str], bool]:
    """What differs between two runs of the same tests.

    Args:
        runs: for each of `SIDES` the tests by their ids.

    Returns:
        The lines of a report, and whether any outcome differs.
    """
    outcomes = sorted({run.outcome for side in runs.values() for run in side.values()})
    lines = [" " * 10 + "".join(f"{word:>9}" for word in outcomes) + "  seconds"]
    for side, tests in runs.items():
        counts = [sum(run.outcome == word for run in tests.values()) for word in outcomes]
        total = sum(run.seconds for run in tests.values())
        lines.append(f"{side:<10}" + "".join(f"{count:>9}" for count in counts) + f"{total:>9.1f}")
    ours, theirs = (runs[side] for side in SIDES)
    missing = Run("not run", 0.0, "")
    pairs = {name: (ours.get(name, missing), theirs.get(name, missing)) for name in {**ours, **theirs}}
    differ = {name: pair for name, pair in pairs.items() if pair[0].outcome != pair[1].outcome}
    lines += ["", f"{len(pairs)} tests, {len(differ)} with another outcome"]
    for name, pair in differ.items():
        lines += [name, *[f"    {side:<9} {run}" for side, run in zip(SIDES, pair, strict=True)]]
    notable = [name for name, pair in pairs.items() if name not in differ and _notable(*pair)]
    if notable:
        lines += ["", f"{len(notable)} with another time (seconds: mxcompat, real)"]
        lines += [f"{pairs[name][0].seconds:9.2f}{pairs[name][1].seconds:9.2f}  {name}" for name in notable]
    return lines, bool(differ)


def _notable(a: Run, b: Run) -> bool:
    short, long = sorted((a.seconds, b.seconds))
    return long > NOTABLE_SECONDS and long > NOTABLE_RATIO * short
