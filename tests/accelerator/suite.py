"""The tests on an accelerator: which of them are about the CPU, and how near to MLX's numbers the others come.

Real MLX computes on the CPU and is the oracle there, too. The tolerances are those of `mxcompat.testing`, widened here
and nowhere else. Products are computed in full float32 (`JAX_DEFAULT_MATMUL_PRECISION=highest`): with TF32, which has
10 bits, they would differ in the third digit, and a wrong op might not show. The benchmarks leave JAX's default, and
compare with `jax.jit` on the same device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxcompat import testing

__all__ = ["ABOUT_THE_CPU", "AT_LEAST", "run"]

ROOT = Path(__file__).parent.parent.parent

ABOUT_THE_CPU = {
    "tests/host": "the host's rules in NumPy, against XLA's on the CPU, digit by digit",
    "tests/soak": "what the executables of a CPU hold in this process's memory",
    "tests/sweep": "run by its own command; its causes are those of the CPU",
    "tests/test_benchmarks.py": "run as a step of its own",
    "tests/test_bits.py": "the bits of the CPU's arithmetic",
    "tests/test_disk_cache.py": "executables of the CPU, as files",
    "tests/test_distributed.py": "several processes, which would share the one device",
    "tests/test_examples.py": "the same digits as real MLX on the CPU, over whole trainings",
    "tests/test_host_evaluation.py": "what runs in NumPy, and when",
    "tests/test_lowering.py": "what can be known without a device",
    "tests/test_notebooks.py": "the digits in the notebooks are the CPU's",
    "tests/test_project.py": "the files of the project",
    "tests/test_reproducible.py": "the bits of the CPU's arithmetic",
    "tests/test_sharding.py": "virtual devices of the CPU",
    "tests/test_sizes.py": "what fits into the memory of this process",
    "tests/test_sweep.py": "the sweep's page",
    "tests/test_tiers.py": "what runs in NumPy, in a hurry, and for speed",
}
"""The files that are left out, and why."""

AT_LEAST = {"float16": 4e-3, "bfloat16": 3.2e-2, "float32": 2e-4, "float64": 1e-9, "complex64": 2e-4}
"""The tolerances of an accelerator, relative and absolute, by dtype: it adds in an order of its own, in tiles of 32 to
128, and its exponentials and logarithms are right to two units of the last digit, where the CPU's are to one. A test
that allows more itself has its own."""

A_FEW = ["tests/test_elementwise.py", "tests/test_matmul.py", "-k", "matmul or tanh"]


def run(dry: bool, output: Path) -> bool:
    """Run the tests that apply; in a dry run a few of them."""
    left_out = [f"--ignore={path}" for path in ABOUT_THE_CPU]
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "tests.accelerator.suite", f"--junitxml={output / 'tests.xml'}",
        *left_out, *(A_FEW if dry else ["tests"]),
    ]  # fmt: skip
    environment = os.environ | {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}
    return subprocess.call(command, cwd=ROOT, env=environment) == 0


@pytest.fixture(autouse=True, scope="session")
def _tolerances_of_an_accelerator():
    """As a plugin of pytest: the tolerances of this file, wherever results are compared with MLX's."""
    with pytest.MonkeyPatch.context() as patch:
        for dtype, tolerance in AT_LEAST.items():
            patch.setitem(testing.TOLERANCE, dtype, max(tolerance, testing.TOLERANCE[dtype]))
        own = testing.Given.limit
        patch.setattr(testing.Given, "limit", lambda given, usual: max(own(given, usual), usual))
        yield
