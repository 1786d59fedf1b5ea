"""Settings for all tests. JAX keeps compiled programs on disk in the checkout, so a second run does not recompile.

mxcompat's own disk cache is off: it also skips tracing, and does not count as a compile. The settings are
environment variables, set before JAX is imported, so that child processes inherit them. Property tests draw the same
examples in every run; HYPOTHESIS_PROFILE=default draws others.
"""

import faulthandler
import gc
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # SIGINT is ignored in a background job of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["MXCOMPAT_CACHE"] = "0"
os.environ.setdefault(  # mxcompat's own default, for tests that start JAX first; see `_graph.run.platform`
    "XLA_FLAGS",
    "--xla_backend_extra_options=-disable-loop-idiom-hashrecognize,xla_cpu_small_while_loop_byte_threshold=1024",
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
os.environ.pop("PYTEST_ADDOPTS", None)  # child runs of pytest must not inherit this option
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode, each child process takes a second more to import


@pytest.fixture(params=["amx", "avx512vbmi", "avx512", "avx2", "plain"])
def instructions(request):
    """Let the C code use these instructions of the processor, and return their name. Skip the test if the processor
    lacks them."""
    from mxcompat._native import native

    try:
        before = native.choose_instructions(request.param)
    except ValueError as error:
        pytest.skip(str(error))
    yield request.param
    native.choose_instructions(before)


def pytest_collection_finish():
    """Exclude the present objects from garbage collection, or each collection takes a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Disable the limit of `faulthandler_timeout` for tests that run only on request, because they may take longer."""
    if not {"exhaustive", "soak"}.isdisjoint(mark.name for mark in item.iter_markers()):
        faulthandler.cancel_dump_traceback_later()


BACKGROUND_SECONDS = 900
"""Seconds to wait for background compiles that a test leaves; each takes a second or two."""


class _Failures(logging.Handler):
    """A logging handler that keeps the messages."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.messages = []

    def emit(self, record):
        self.messages.append(self.format(record))


_failures = _Failures()
logging.getLogger("mxcompat._graph.run.background").addHandler(_failures)


@pytest.fixture(autouse=True)
def failed_jobs():
    """Yield the errors of background jobs, which are otherwise only logged. A test that expects an error clears the
    list.

    At the end, wait for all jobs, so that their compiles and memory do not count in the next test.
    """
    yield _failures.messages
    background = sys.modules.get("mxcompat._graph.run.background")
    if background is not None:
        background.wait(lambda: False, BACKGROUND_SECONDS)
        assert not background.is_busy(), "a job in the background does not end"
    messages = [*_failures.messages]
    _failures.messages.clear()
    assert not messages, "\n".join(messages)


@pytest.fixture
def xla_only():
    """Compile everything: for tests of XLA's programs, and of compile counts."""
    from mxcompat.ext.debug import host_disabled  # imported here because the import loads JAX

    with host_disabled():
        yield


@pytest.fixture(params=["numpy", "xla"])
def tier(request):
    """Run the test in NumPy, then with XLA."""
    if request.param == "xla":
        request.getfixturevalue("xla_only")


@pytest.fixture
def plans():
    """Yield the list of executed plans, in order, with empty caches at the start."""
    from mxcompat._graph.run.events import observers
    from mxcompat.ext.debug import clear_cache

    subjects = []

    def observe(event, subject, reason):
        if event == "plan":
            subjects.append(subject)

    clear_cache()
    observers.append(observe)
    yield subjects
    observers.remove(observe)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the documentation, built strictly: warnings such as a broken link or anchor are errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    process = subprocess.run(
        command, cwd=Path(__file__).parent.parent, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
