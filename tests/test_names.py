"""Compare every name and signature of real MLX's stubs: parameter names, order, kinds and defaults.

Each difference has a reason. The list is strict: an exception that no longer differs fails.
"""

import importlib
import inspect
import pkgutil
import typing
from operator import attrgetter
from types import ModuleType

import mlx.nn
import mlx.optimizers
import mlx.utils
import pytest

import mxcompat
import mxcompat.optimizers
from tests.oracle import ours, real
from tests.stub import difference, entries

_STUB = "the stub says keywords are taken, real MLX raises TypeError for them as we do"
_LENIENT = "real MLX refuses what is not in its stub; here it is taken as well"

EXCEPTIONS = {
    **dict.fromkeys(
        (
            "full_like", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "concatenate", "concat", "stack",
            "repeat", "pad", "conj", "conjugate", "issubdtype", "bitwise_invert", "hadamard_transform",
        ),
        _STUB,
    ),
    "vecdot": "the stub says axis is keyword-only, real MLX takes it by position as we do",
    "count_nonzero": "the stub says axis is keyword-only, real MLX takes it by position as we do",
    "quantize": "the stub says global_scale is keyword-only, real MLX takes it by position as we do",
    "astype": "the stub says dtype is positional-only, real MLX takes it by keyword as we do",
    "roll": "the stub says shift and axis are positional-only, real MLX takes them by keyword as we do",
    "save_gguf": "the stub says metadata are required, real MLX can do without as we can",
    "var": "the stub leaves out correction, which real MLX takes as we do",
    "std": "the stub leaves out correction, which real MLX takes as we do",
    "arange": "two overloads in the stub, one Python function here, with sentinels for what is not given",
    "array.cumsum": _LENIENT,
    "array.cumprod": _LENIENT,
    "array.round": _LENIENT,
    "array.view": _LENIENT,
    "_PrintOptionsContext.__init__": "not made by users; the stub gives its parameter no name",
}  # fmt: skip

ENTRIES = entries()


def test_the_stubs_are_read():
    names = {e.name for e in ENTRIES}
    assert len(names) == len(ENTRIES) > 500
    assert {"add", "array.sum", "linalg.norm", "distributed.Group.rank", "inf", "atan2", "save", "fast.rope"} <= names


@pytest.mark.parametrize("entry", ENTRIES, ids=[e.name for e in ENTRIES])
def test_signature(entry):
    differs = difference(ours, entry)
    if entry.name in EXCEPTIONS:
        assert differs, f"{entry.name} has no need to be an exception"
    else:
        assert not differs, f"{entry.name}: {differs}"


def test_every_exception_is_a_name():
    assert EXCEPTIONS.keys() <= {e.name for e in ENTRIES}


KEYWORDS = {
    "full_like": lambda mx: mx.full_like(a=mx.ones(2), vals=1),
    "isnan": lambda mx: mx.isnan(a=mx.ones(2)),
    "isinf": lambda mx: mx.isinf(a=mx.ones(2)),
    "isfinite": lambda mx: mx.isfinite(a=mx.ones(2)),
    "isposinf": lambda mx: mx.isposinf(a=mx.ones(2)),
    "isneginf": lambda mx: mx.isneginf(a=mx.ones(2)),
    "concatenate": lambda mx: mx.concatenate(arrays=[mx.ones(2)]),
    "concat": lambda mx: mx.concat(arrays=[mx.ones(2)]),
    "stack": lambda mx: mx.stack(arrays=[mx.ones(2)]),
    "repeat": lambda mx: mx.repeat(array=mx.ones(2), repeats=2),
    "pad": lambda mx: mx.pad(a=mx.ones(2), pad_width=1),
    "conj": lambda mx: mx.conj(a=mx.ones(2)),
    "conjugate": lambda mx: mx.conjugate(a=mx.ones(2)),
    "issubdtype": lambda mx: mx.issubdtype(arg1=mx.int32, arg2=mx.int32),
    "bitwise_invert": lambda mx: mx.bitwise_invert(a=mx.array([1])),
    "hadamard_transform": lambda mx: mx.hadamard_transform(a=mx.ones(2)),
}


@pytest.mark.parametrize("name", [n for n, reason in EXCEPTIONS.items() if reason is _STUB])
def test_the_stub_is_wrong_about_keywords(name):
    for mx in (real, ours):
        with pytest.raises(TypeError):
            KEYWORDS[name](mx)


def test_the_stub_is_wrong_about_positions():
    for mx in (real, ours):
        assert mx.count_nonzero(mx.ones((2, 2)), 0).shape == (2,)
        assert mx.astype(mx.ones(2), dtype=mx.int32).dtype == mx.int32
        assert mx.roll(mx.arange(2), shift=1).tolist() == [1, 0]


MACHINERY = {"__doc__", "__loader__", "__file__", "__getattr__", "_RandomState"}


@pytest.mark.parametrize("part", ["", "random", "linalg", "fft", "fast", "distributed", "metal", "cuda"])
def test_dir_shows_what_real_mlx_shows(part):
    mine, theirs = (getattr(mx, part) if part else mx for mx in (ours, real))
    assert set(dir(theirs)) - set(dir(mine)) <= MACHINERY
    for name in dir(theirs):
        if not name.startswith("_"):
            assert isinstance(getattr(theirs, name), ModuleType) is isinstance(getattr(mine, name), ModuleType), name


def test_dir_of_an_array():
    assert set(dir(real.array)) - set(dir(ours.array)) <= MACHINERY


def test_aliases_are_the_same_function():
    functions = [n for n in dir(real) if callable(getattr(real, n)) and not n.startswith("_")]
    for a in functions:
        for b in functions:
            if a < b and getattr(real, a) is getattr(real, b):
                assert getattr(ours, a) is getattr(ours, b), f"{a} is {b}"


def test_public_functions_are_documented():
    for module in (ours, ours.random, ours.linalg, ours.fft, ours.fast, ours.distributed, ours.metal, ours.cuda):
        for name in dir(module):
            member = getattr(module, name)
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, type)):
                assert inspect.getdoc(member), f"{module.__name__}.{name}"


def test_everything_in_core_is_at_the_top():
    for entry in ENTRIES:
        if entry.name.count(".") == 0 and not entry.name.startswith("_"):
            assert getattr(mxcompat, entry.name) is getattr(ours, entry.name)


STANDARD = {
    "Any", "Callable", "Dict", "List", "Literal", "Optional", "Tuple", "Union", "accumulate", "ceil", "defaultdict",
    "get_args", "lru_cache", "math", "operator", "partial", "product", "reduce", "wraps", "zip_longest",
}  # fmt: skip
"""Names of Python's library that MLX's modules import and therefore export."""


@pytest.mark.parametrize(
    "module",
    [
        "nn", "nn.init", "nn.layers", "nn.losses", "nn.utils", "optimizers", "optimizers.optimizers",
        "optimizers.schedulers", "utils",
    ],
)  # fmt: skip
def test_what_a_star_imports(module):
    theirs, mine = {}, {}
    exec(f"from mlx.{module} import *", theirs)
    exec(f"from mxcompat.{module} import *", mine)
    assert len(theirs) > 5
    assert set(theirs) - set(mine) <= STANDARD
    assert set(mine) <= set(theirs)


def public_modules() -> list[str]:
    """Every module of MLX without an underscore in its name, below `mlx`: "core", "core.fft", "nn.layers.linear"."""
    names = ["core", "nn", "optimizers", "utils"]
    names += [f"core.{name}" for name, value in vars(real).items() if isinstance(value, ModuleType)]
    for package in (mlx.nn, mlx.optimizers):
        prefix = package.__name__.removeprefix("mlx.") + "."
        names += [name for _, name, _ in pkgutil.walk_packages(package.__path__, prefix)]
    return [name for name in names if not any(part.startswith("_") for part in name.split("."))]


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_is_here(name):
    """Assert that every public name exists, except names that MLX's module imports from Python or from another module
    of MLX."""
    mine, theirs = (attrgetter(name)(package) for package in (mxcompat, mlx))
    assert isinstance(mine, ModuleType)
    missing = {n for n in dir(theirs) if not n.startswith("_")} - set(dir(mine)) - STANDARD
    homes = {n: getattr(getattr(theirs, n), "__module__", None) for n in missing}
    elsewhere = {n for n, home in homes.items() if home != theirs.__name__ and str(home).startswith("mlx.")}
    assert missing - {"mx"} <= elsewhere


@pytest.mark.parametrize("module", ["core", "nn", "optimizers"])
def test_type_hints_of_classes_resolve(module):
    """Resolve the type hints of classes, as configuration and command-line libraries do, and of subclasses."""
    namespace = importlib.import_module(f"mxcompat.{module}")
    for kind in vars(namespace).values():
        if isinstance(kind, type):
            typing.get_type_hints(kind)

    class Mine(mxcompat.optimizers.Adam):
        extra: float = 0.1

    assert typing.get_type_hints(Mine) == {"extra": float}
