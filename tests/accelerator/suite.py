"""The test suite on an accelerator: the tests that are excluded there, and the tolerances of the others.

Real MLX on the CPU is the oracle here, too. The tolerances are those of `mxcompat.testing`, and only this file
widens them. Products are computed in full float32 (`JAX_DEFAULT_MATMUL_PRECISION=highest`). TF32 has 10 bits, so
products would differ in the third digit and could hide a wrong op. NumPy's tier is off (`MXCOMPAT_HOST=0`), or small
arrays would be tested on the CPU. The benchmarks leave both defaults, and compare with `jax.jit` on the same device.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxcompat import testing

__all__ = ["ABOUT_THE_CPU", "AT_LEAST", "NOT_THERE", "run"]

ROOT = Path(__file__).parent.parent.parent

ABOUT_THE_CPU = {
    "tests/host": "the host's rules in NumPy, against XLA's on the CPU, digit by digit",
    "tests/soak": "what the executables of a CPU hold in this process's memory",
    "tests/sweep": "run by its own command; its causes are those of the CPU",
    "tests/test_benchmarks.py": "run as a step of its own",
    "tests/test_bits.py": "the bits of the CPU's arithmetic",
    "tests/test_browser.py": "the documentation",
    "tests/test_constants.py": "a pass over the CPU's code",
    "tests/test_disk_cache.py": "executables of the CPU, as files",
    "tests/test_distributed.py": "several processes, which would share the one device",
    "tests/test_docs.py": "the documentation",
    "tests/test_doctests.py": "the digits in the examples are the CPU's",
    "tests/test_examples.py": "the same digits as real MLX on the CPU, over whole trainings",
    "tests/test_host_evaluation.py": "what runs in NumPy, and when",
    "tests/test_importing_jax.py": "what NumPy does without JAX, which is asked for its devices here",
    "tests/test_late_outputs.py": "bytes of this process",
    "tests/test_layout.py": "what NumPy copies",
    "tests/test_lowering.py": "what can be known without a device",
    "tests/test_materialize_shared.py": "a pass over the CPU's code",
    "tests/test_matvec_layout.py": "a pass over the CPU's code",
    "tests/test_memory.py": "bytes of this process",
    "tests/test_nn_distributed.py": "several processes, which would share the one device",
    "tests/test_notebooks.py": "the digits in the notebooks are the CPU's",
    "tests/test_order_of_sums.py": "the bits of the CPU's arithmetic",
    "tests/test_packaging.py": "the files of the project",
    "tests/test_project.py": "the files of the project",
    "tests/test_reproducible.py": "the bits of the CPU's arithmetic",
    "tests/test_rounding.py": "a pass over the CPU's code",
    "tests/test_sharding.py": "virtual devices of the CPU",
    "tests/test_sink_into_branch.py": "a pass over the CPU's code",
    "tests/test_sizes.py": "what fits into the memory of this process",
    "tests/test_sum_to_matmul.py": "a pass over the CPU's code",
    "tests/test_sweep.py": "the sweep's page",
    "tests/test_tiers.py": "what runs in NumPy, in a hurry, and for speed",
    "tests/test_tree_reduce.py": "a pass over the CPU's code",
    "tests/test_unroll.py": "a pass over the CPU's code",
}
"""Excluded test files, with the reasons."""

_BUFFERS = "a buffer shares the memory of this process, in which a GPU's arrays are not"
_SIGNS = "of eigenvectors and singular vectors the signs, and of eigenvalues the order, are the solver's"
_OWN_DEVICE = "real MLX has no GPU here"

NOT_THERE = {
    "tests/test_array.py::test_a_buffer_": _BUFFERS,
    "tests/test_array.py::test_buffers": _BUFFERS,
    "tests/test_array.py::test_conversions_that_say_no_in_other_words": _BUFFERS,
    "tests/test_array.py::test_numpy_and_dlpack_know_every_dtype": _BUFFERS,
    "tests/test_array.py::test_numpy_views_are_shared_and_writable": _BUFFERS,
    "tests/test_array.py::test_views_share_memory_and_keep_it": _BUFFERS,
    "tests/test_array.py::test_what_a_buffer_holds": _BUFFERS,
    "tests/test_array.py::test_what_interrupts_a_buffer_is_not_lost": _BUFFERS,
    "tests/test_array.py::test_without_a_compiler_of_c": _BUFFERS,
    "tests/test_devices.py": _OWN_DEVICE,
    "tests/test_division.py::test_exact_by_roots": "of a root, which XLA does not round there",
    "tests/test_fast.py::test_attention_arguments": _OWN_DEVICE,
    "tests/test_linalg.py::test_batches": _SIGNS,
    "tests/test_linalg.py::test_dtypes": _SIGNS,
    "tests/test_linalg.py::test_eig": _SIGNS,
    "tests/test_linalg.py::test_rectangular": _SIGNS,
    "tests/test_linalg.py::test_factorizations_have_one_thread": "LAPACK's threads",
    "tests/test_reductions.py::test_long_sums_of_bytes_are_exact": "takes gigabytes, of which a GPU may have few",
    "tests/test_reductions.py::test_no_wide_copy_is_made": "bytes of this process",
}
"""Excluded tests of other files, by prefix, with the reason.

A GPU may keep any of several values written to one place, so a few tests of `tests/test_indexing.py` may fail in
some runs.
"""

AT_LEAST = {"float16": 4e-3, "bfloat16": 3.2e-2, "float32": 2e-4, "float64": 1e-9, "complex64": 2e-4}
"""Tolerances of an accelerator, relative and absolute, by dtype.

An accelerator adds in tiles of 32 to 128. Its exponentials and logarithms are accurate to two units of the last
digit, those of the CPU to one. A test with a larger tolerance keeps its own.
"""

A_FEW = ["tests/test_elementwise.py", "tests/test_matmul.py", "-k", "matmul or tanh"]


def run(dry: bool, output: Path) -> bool:
    """Run the tests that apply, or a few of them in a dry run."""
    left_out = [*[f"--ignore={path}" for path in ABOUT_THE_CPU], *[f"--deselect={name}" for name in NOT_THERE]]
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "tests.accelerator.suite", f"--junitxml={output / 'tests.xml'}",
        *left_out, *(A_FEW if dry else ["tests"]),
    ]  # fmt: skip
    environment = os.environ | {"JAX_DEFAULT_MATMUL_PRECISION": "highest", "MXCOMPAT_HOST": "0"}
    return subprocess.call(command, cwd=ROOT, env=environment) == 0


@pytest.fixture(autouse=True, scope="session")
def _tolerances_of_an_accelerator():
    """Apply the tolerances of this file to every comparison with MLX, as a plugin of pytest."""
    with pytest.MonkeyPatch.context() as patch:
        for dtype, tolerance in AT_LEAST.items():
            patch.setitem(testing.TOLERANCE, dtype, max(tolerance, testing.TOLERANCE[dtype]))
        own = testing.Given.limit
        patch.setattr(testing.Given, "limit", lambda settings, usual: max(own(settings, usual), usual))
        yield
