"""The extension, built with the address and undefined-behaviour sanitizers, under Debian's debug build of Python.

That build (apt-get install python3-dbg) also checks reference counts and the C interface. These tests run on
request. A separate folder has a copy of the project; each finding of a sanitizer is a file, from any process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEBUG = "python{}.{}-dbg".format(*sys.version_info)
FLAGS = "-fsanitize=address,undefined"

TESTS = {
    "native": ["test_native.py", "test_native_modules.py", "native"],
    "transforms": ["test_autodiff.py", "test_vmap.py", "test_custom.py", "test_custom_reading.py", "test_compile.py"],
    "graphs": ["test_trees.py", "test_lifetimes.py", "test_module.py", "test_optimizers.py", "test_control_flow.py"],
    "memory": ["test_matvec_layout.py", "test_layout.py", "test_random.py", "test_io.py", "test_array.py"],
    "products": ["test_stored.py", "test_stored_products.py", "test_convolutions.py", "test_few_queries.py"],
    "calls": ["test_ffi.py", "test_endless.py", "test_memory.py"],
}

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which(DEBUG) is None, reason=f"there is no {DEBUG}: apt-get install python3-dbg"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]


def _library(name: str) -> str:
    return subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()


class Project:
    """A copy of the project with a sanitized extension."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.logs = folder / "project", folder / "logs"
        self.logs.mkdir()
        leave = shutil.ignore_patterns("*.so", "__pycache__")
        for name in ("mxcompat", "tests", "docs", "examples"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=leave)
        for path in ROOT.iterdir():
            if path.is_file() and not path.is_symlink():
                shutil.copy(path, self.folder)
        flags = {"CC": "gcc", "CFLAGS": f"{FLAGS} -fno-omit-frame-pointer -g -O1", "LDFLAGS": FLAGS}
        self._run([DEBUG, "setup.py", "-q", "build_ext", "--inplace"], os.environ | self._packages() | flags)

    @staticmethod
    def _packages() -> dict[str, str]:
        return {"PYTHONPATH": sysconfig.get_path("platlib")}

    def _run(self, command: list, environment: dict[str, str]) -> str:
        process = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=3000
        )
        assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-5000:]
        return process.stdout

    def run(self, *command: str) -> str:
        """Run a command in the folder, and return its output.

        Raises:
            AssertionError: if it fails, or a sanitizer has found something.
        """
        settings = {
            # memory that Python keeps until exit is no leak
            "ASAN_OPTIONS": f"detect_leaks=0:log_path={self.logs}/address",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={self.logs}/undefined",
            "LD_PRELOAD": f"{_library('libasan.so')} {_library('libstdc++.so')}",  # XLA's exceptions need libstdc++
            "PYTHONMALLOC": "malloc",
            "MXCOMPAT_CACHE": "0",
        }
        try:
            return self._run([*command], os.environ | self._packages() | settings)
        finally:
            report = "\n".join(path.read_text()[:5000] for path in sorted(self.logs.iterdir()))
            for path in self.logs.iterdir():
                path.unlink()
            assert not report, report


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("sanitized"))


def test_a_finding_is_seen(project: Project) -> None:
    """Assert that a copy beyond a buffer is reported, and that the extension has the checks compiled in."""
    code = "import ctypes; ctypes.string_at(ctypes.create_string_buffer(1 << 16), 1 << 17)"
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        project.run(DEBUG, "-c", code)
    code = "from mxcompat._native import native; print(b'__asan_report_load8' in open(native.__file__, 'rb').read())"
    assert project.run(DEBUG, "-c", code) == "True\n"


@pytest.mark.parametrize("group", TESTS)
def test_tests_without_a_finding(project: Project, group: str) -> None:
    names = [f"tests/{name}" for name in TESTS[group]]
    said = project.run(DEBUG, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider", *names)
    assert " passed" in said


FUZZ = """
import json
from tests.fuzz.campaign import endings
print(json.dumps([ending.how for _, ending in endings("ours", 0, {count})]))
"""


def test_the_fuzz_without_a_finding(project: Project) -> None:
    count = 1000
    ends = json.loads(project.run(DEBUG, "-c", FUZZ.format(count=count)))
    assert len(ends) == count
    assert "crash" not in ends
    assert ends.count("value") > count / 10


def test_failing_allocations_without_a_finding(project: Project) -> None:
    """Let allocations fail under this Python, as a debug build aborts where CPython loses an exception."""
    said = project.run(sys.executable, "-X", "faulthandler", "-m", "tests.native.allocations")
    reports = [json.loads(line) for line in said.splitlines()][1::2]
    assert len(reports) > 300
    # the debug allocator makes block counts meaningless
    assert not [text for report in reports for text in report["wrong"] if "lost" not in text]
