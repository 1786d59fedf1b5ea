"""The types for type checkers: the stub of `array` agrees with the class, and `__all__` with the modules."""

import ast
import importlib
import inspect
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

import mxcompat as mx

STUB = Path(mx.__file__).parent / "_array" / "array.pyi"
NOT_WRITTEN = {"__annotations__", "__doc__", "__module__", "__slots__", "__weakref__", "__dict__", "_node"}
NOT_WRITTEN |= {"_computed", "_memory"}  # read by methods of the base class, which itself has the two buffer methods
OF_THE_BASE = {"__buffer__", "__release_buffer__"}
NOT_WRITTEN |= {"__firstlineno__", "__static_attributes__"}  # in every class from Python 3.13 on
MODULES = {name for name, value in vars(mx.core).items() if isinstance(value, ModuleType)}
PACKAGES = ("core", "nn", "nn.layers", "optimizers", "ext", *(f"core.{name}" for name in sorted(MODULES)))


@pytest.fixture(scope="module")
def stub():
    """Return the stub, executed as a module: its classes have names and signatures only."""
    loader = SourceFileLoader("mxcompat._array.stub", str(STUB))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def parameters(function):
    """Return the name, kind and default of each parameter after the array itself."""
    arguments = list(inspect.signature(function).parameters.values())[1:]
    return [(p.name, p.kind.description, p.default) for p in arguments]


def test_the_stub_has_the_names_of_the_class(stub):
    assert vars(stub.array).keys() - NOT_WRITTEN - OF_THE_BASE == vars(mx.array).keys() - NOT_WRITTEN


def test_the_stub_has_the_signatures_of_the_class(stub):
    wrong = []
    for name in sorted(vars(mx.array).keys() - NOT_WRITTEN - {"__eq__", "__hash__", "__ne__"}):
        actual, written = vars(mx.array)[name], vars(stub.array)[name]
        if isinstance(actual, property) or isinstance(written, property):
            same = type(actual) is type(written)
        else:
            same = parameters(actual) == parameters(written)
        if not same:
            wrong.append(f"array.{name}{inspect.signature(actual)}: the stub has {inspect.signature(written)}")
    assert not wrong, "\n".join(wrong)


def test_the_stubs_export_the_names_of_their_modules():
    stubs = sorted(Path(mx.__file__).parent.rglob("*.pyi"))
    assert STUB in stubs
    for stub in stubs:
        exported = []
        for path in (stub, stub.with_suffix(".py")):
            (names,) = (
                ast.literal_eval(statement.value)
                for statement in ast.parse(path.read_text()).body
                if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
            )
            exported.append(names)
        assert exported[0] == exported[1], stub


@pytest.mark.parametrize("name", PACKAGES)
def test_all_lists_what_is_imported(name):
    module = importlib.import_module(f"mxcompat.{name}")
    public = {key for key, value in vars(module).items() if key[0] != "_" and not isinstance(value, ModuleType)}
    listed = {key for key in module.__all__ if key[0] != "_" and not isinstance(getattr(module, key), ModuleType)}
    public |= {"state"} if name == "core.random" else set()  # provided by the module's `__getattr__`, as in MLX
    assert listed == public, f"mxcompat.{name}.__all__ differs from what the file imports"
    assert len(module.__all__) == len(set(module.__all__))


def test_all_of_core_lists_its_modules():
    assert {key for key in mx.core.__all__ if isinstance(getattr(mx.core, key), ModuleType)} == MODULES
