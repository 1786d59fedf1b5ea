"""The types that users and pyright see: the stub of `array` says what the class has, `__all__` what the modules have."""

import importlib
import inspect
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

import mxcompat as mx

MODULES = ("core", "core.random", "core.linalg", "nn", "optimizers", "ext")
STUB = Path(mx.__file__).parent / "_array" / "array.pyi"
OF_EVERY_CLASS = {"__annotations__", "__doc__", "__module__", "__slots__", "__weakref__", "__dict__", "_node"}


@pytest.fixture(scope="module")
def stub():
    """The stub, run as if it were a module: its classes have the names and the signatures, and do nothing."""
    spec = spec_from_loader("mxcompat._array.stub", SourceFileLoader("mxcompat._array.stub", str(STUB)))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parameters(function):
    """The name, kind and default of each parameter after the array itself."""
    given = list(inspect.signature(function).parameters.values())[1:]
    return [(p.name, p.kind.description, p.default) for p in given]


def test_the_stub_has_the_names_of_the_class(stub):
    assert vars(stub.array).keys() - OF_EVERY_CLASS == vars(mx.array).keys() - OF_EVERY_CLASS


def test_the_stub_has_the_signatures_of_the_class(stub):
    wrong = []
    for name in sorted(vars(mx.array).keys() - OF_EVERY_CLASS - {"__eq__", "__hash__", "__ne__"}):
        actual, written = vars(mx.array)[name], vars(stub.array)[name]
        if isinstance(actual, property):
            same = isinstance(written, property)
        else:
            same = not isinstance(written, property) and parameters(actual) == parameters(written)
        if not same:
            wrong.append(f"array.{name}: the class has {actual}, the stub {written}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", MODULES)
def test_all_lists_the_public_names(name):
    module = importlib.import_module(f"mxcompat.{name}")
    public = {key for key, value in vars(module).items() if not key.startswith("_") and not submodule(module, value)}
    listed = {key for key in module.__all__ if not submodule(module, getattr(module, key))}
    assert len(module.__all__) == len(set(module.__all__))
    assert listed == public


def submodule(module, value):
    """A module that Python itself puts into its package once something imports it."""
    return isinstance(value, ModuleType)
