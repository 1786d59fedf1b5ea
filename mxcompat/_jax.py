"""JAX, imported when something of it is first asked for.

Importing it takes longer than importing all the rest, and a program whose arrays NumPy computes never needs it. So no
other file imports JAX: they take its modules from here, which are stand-ins at first. Once JAX has been imported, by
whomever, the stand-ins give way to the modules themselves in all of mxcompat. What is looked up while mxcompat is
imported, in a table of functions, say, is looked up in `lazy`.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property, update_wrapper
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any

__all__ = [
    "ad", "batching", "import_jax", "in_a_thread", "is_array", "is_imported", "is_tracer", "jax", "jnp", "lax", "lazy",
    "mlir", "stand_in", "when_imported",
]  # fmt: skip


class _Module(ModuleType):
    """What stands for a module until that is imported, which happens when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        import_jax()
        module = importlib.import_module(self.__name__)
        _give_way(self, module)
        return getattr(module, name)


jax = _Module("jax")
jnp = _Module("jax.numpy")
lax = _Module("jax.lax")
ad = _Module("jax.interpreters.ad")
batching = _Module("jax.interpreters.batching")
mlir = _Module("jax.interpreters.mlir")

_STAND_INS = [jax, jnp, lax, ad, batching, mlir]


def stand_in(name: str) -> Any:
    """A stand-in for another module that comes with JAX, or the module if it has been imported."""
    if name in sys.modules:
        return sys.modules[name]
    _STAND_INS.append(_Module(name))
    return _STAND_INS[-1]


def _give_way(stand_in: _Module, module: ModuleType) -> None:
    """Let what has the name of a stand-in, in mxcompat, be the module: to look something up there takes no longer then
    than if JAX had been imported first."""
    for name, user in list(sys.modules.items()):
        if name.partition(".")[0] == "mxcompat":
            for key in [key for key, value in list(vars(user).items()) if value is stand_in]:
                setattr(user, key, module)


def is_imported() -> bool:
    """Whether JAX has been imported, or is being imported, by whomever."""
    return "jax" in sys.modules


def is_array(value: Any) -> bool:
    """`isinstance(value, jax.Array)`. JAX is not imported for that: without it there are none."""
    found = sys.modules.get("jax")
    return found is not None and isinstance(value, getattr(found, "Array", ()))


def is_tracer(value: Any) -> bool:
    """`isinstance(value, jax.core.Tracer)`, likewise."""
    found = sys.modules.get("jax.core")
    return found is not None and isinstance(value, getattr(found, "Tracer", ()))


_came = False
_waiting: list[Callable[[], Any]] = []


def import_jax() -> None:
    """Import JAX, unless it has been. It could not be imported again if an interrupt cut that short."""
    if _came:
        return
    if not is_imported() and threading.current_thread() is threading.main_thread():
        in_a_thread(_try_to_import)
    importlib.import_module("jax")  # waits for whoever imports it, and raises what there is to raise
    _is_there()


def in_a_thread(imports: Callable[[], Any]) -> None:
    """Have something import what it needs in another thread, where no interrupt comes. None can be started at exit,
    from Python 3.12 on: then nothing is done."""
    thread = threading.Thread(target=imports, name="mxcompat-import")
    with suppress(RuntimeError):
        thread.start()
        thread.join()


def _try_to_import() -> None:
    with suppress(Exception):
        importlib.import_module("jax")


def when_imported(call: Callable[[], Any]) -> None:
    """Have something called once JAX has been imported, by whomever: at once, if it has been."""
    _waiting.append(call)
    if _came:
        _is_there()


def _is_there() -> None:
    global _came
    if not _came:
        for stand_in in _STAND_INS:
            if stand_in.__name__ in sys.modules:
                _give_way(stand_in, sys.modules[stand_in.__name__])
        _came = True
    while _waiting:
        _waiting.pop()()


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """JAX draws some of NumPy's global ones when it is imported, which need not be at the same place in each run."""
    random = sys.modules.get("numpy.random")
    state = random.get_state(legacy=False) if random is not None else None
    try:
        yield
    finally:
        if random is not None:
            random.set_state(state)


class _Finder:
    """Finds JAX where the other finders do, and sees it come."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "jax":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads JAX by its own loader, and tells that it has come."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with _same_random_numbers():
            self._loader.exec_module(module)
        for finder in [finder for finder in sys.meta_path if type(finder) is _Finder]:
            sys.meta_path.remove(finder)
        _is_there()


if is_imported():
    import_jax()
else:
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


_DECORATORS = ("custom_batching.custom_vmap", "custom_jvp", "jit")


class _Lazy:
    """`jax`, or something of it by its path, which is looked up when it is first called. To decorate a function is not
    to call the decorator."""

    def __init__(self, path: str) -> None:
        self.__module__, self.__qualname__ = "jax", path

    def __getattr__(self, name: str) -> _Lazy:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Lazy(f"{self.__qualname__}.{name}".removeprefix("."))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.__qualname__ in _DECORATORS:
            return _Decorated(self.__qualname__, *args, **kwargs)
        return _looked_up(self.__qualname__)(*args, **kwargs)


@cache
def _looked_up(path: str) -> Callable[..., Any]:
    return attrgetter(path)(jax)


class _Decorated:
    """A function that is decorated, and given its rules, when it is first called."""

    def __init__(self, decorator: str, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self._decorator, self._function, self._options = decorator, function, options
        self._rules: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def defjvp(self, rule: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        self._rules.append(("defjvp", rule, options))
        return rule

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        self._rules.append(("def_vmap", rule, {}))
        return rule

    @cached_property
    def _made(self) -> Callable[..., Any]:
        made = _looked_up(self._decorator)(self._function, **self._options)
        for kind, rule, options in self._rules:
            getattr(made, kind)(rule, **options)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._made(*args, **kwargs)


lazy = _Lazy("")
