"""Run every example of the package's docstrings, and compare its output, on mxcompat and on real MLX."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxcompat as mx
from mxcompat import nn
from mxcompat import optimizers as optim

ROOT = Path(__file__).parent.parent
THE_DROP_IN = "mxcompat._dropin"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

LEFT_OUT = ("mxcompat._children", "mxcompat._graph", "mxcompat.__main__")
"""Modules without examples to run: those on the graph show how to register an op, and registering twice is an error."""

SAME_AS_MLX = tuple(f"mxcompat.{part}" for part in ("_array", "_io", "_ops", "_transforms", "nn", "optimizers"))

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(mx.__path__, "mxcompat.")
    # the drop-in only re-exports
    if not module.name.startswith(LEFT_OUT) and not module.name.startswith("mxcompat.core")
)


def members(module):
    """Yield the members that a module defines, and the exported functions that it had created in another module."""
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) == module.__name__:
            yield name, thing
        elif name in getattr(module, "__all__", ()) and callable(thing):
            home = importlib.import_module(getattr(thing, "__module__", None) or module.__name__)
            if thing not in vars(home).values():
                yield name, thing


def examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = [doctest.DocTestParser().get_doctest(module.__doc__ or "", {}, name, module.__file__, 0)]
    for label, thing in members(module):
        if inspect.isroutine(thing) or inspect.isclass(thing):
            tests += finder.find(thing, f"{name}.{label}", module=False, globs={})
    return [test for test in tests if test.examples]


@pytest.fixture
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("in_a_folder_of_its_own")
@pytest.mark.parametrize("name", [name for name in MODULES if name != THE_DROP_IN])
def test_examples(name):
    run_examples(name)


def test_examples_of_the_drop_in():
    """Run the drop-in's examples in a process of their own, because they replace `mlx`."""
    command = f"from tests.test_doctests import run_examples; run_examples({THE_DROP_IN!r})"
    process = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr


OURS = {"mx": mx, "nn": nn, "optim": optim, "np": np}


def run_examples(name, scope=OURS, but=()):
    report = []
    for test in examples(name):
        if test.name.rpartition(".")[2] in but:
            continue
        scope["mx"].random.seed(0)
        test.globs = dict(scope)
        doctest.DocTestRunner(optionflags=OPTIONS, verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


NOT_IN_MLX = {
    "clear_streams": "it then has not even its own",
    "custom_gradient": "it is JAX's",
    "gather_qqmm": "not implemented there on a CPU",
    "metal_kernel": "it needs Metal there",
    "cuda_kernel": "it needs CUDA there",
}
"""Examples that real MLX does not run, or prints differently, with the reasons."""


@pytest.mark.usefixtures("in_a_folder_of_its_own")
@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(SAME_AS_MLX)])
def test_examples_on_real_mlx(name):
    import mlx.core
    import mlx.nn
    import mlx.optimizers

    real = {"mx": mlx.core, "nn": mlx.nn, "optim": mlx.optimizers, "np": np}
    run_examples(name, real, NOT_IN_MLX)


def test_examples_have_one_form():
    """Assert that every section named Example holds `>>>` lines and their output."""
    wrong = []
    for name in MODULES:
        for label, thing in members(importlib.import_module(name)):
            inside = vars(thing).items() if inspect.isclass(thing) else ()
            for place, it in ((label, thing), *((f"{label}.{k}", v) for k, v in inside)):
                doc = inspect.cleandoc(getattr(it, "__doc__", None) or "")
                if re.search(r"^ *Examples?:$", doc, re.M) and ">>>" not in doc:
                    wrong.append(f"{name}.{place}")
    assert not wrong, wrong
