"""JAX, imported when it is first used.

The import of JAX takes longer than all other imports, and a program whose arrays NumPy computes never needs JAX. So no
other file imports it. The other files get its modules from here, as proxies at first. When any code imports JAX, the
real modules replace the proxies in all modules of mxcompat. A table or decorator that needs a function of JAX while
mxcompat is imported gets it from `lazy`.
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
    "mlir", "module_proxy", "when_imported",
]  # fmt: skip


class _Module(ModuleType):
    """A proxy for a module, which it imports at the first access to an attribute."""

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

_PROXIES = [jax, jnp, lax, ad, batching, mlir]


def module_proxy(name: str) -> Any:
    """Return a proxy for another module of JAX, or the module itself if it is imported."""
    if name in sys.modules:
        return sys.modules[name]
    _PROXIES.append(_Module(name))
    return _PROXIES[-1]


def _give_way(proxy: _Module, module: ModuleType) -> None:
    """Replace a proxy by the real module in all modules of mxcompat, so that later accesses cost nothing extra."""
    for name, user in list(sys.modules.items()):
        if name.partition(".")[0] == "mxcompat":
            for key in [key for key, value in list(vars(user).items()) if value is proxy]:
                setattr(user, key, module)


def is_imported() -> bool:
    """Return True if any code has imported JAX, or is importing it."""
    return "jax" in sys.modules


def is_array(value: Any) -> bool:
    """Return `isinstance(value, jax.Array)`, without importing JAX: before its import, there are no such arrays."""
    module = sys.modules.get("jax")
    return module is not None and isinstance(value, getattr(module, "Array", ()))


def is_tracer(value: Any) -> bool:
    """Return `isinstance(value, jax.core.Tracer)`, without importing JAX."""
    module = sys.modules.get("jax.core")
    return module is not None and isinstance(value, getattr(module, "Tracer", ()))


_came = False
_waiting: list[Callable[[], Any]] = []


def import_jax() -> None:
    """Import JAX if it is not imported yet. An interrupt must not stop the import half-way, because JAX could then not
    be imported again."""
    if _came:
        return
    if not is_imported() and threading.current_thread() is threading.main_thread():
        in_a_thread(_try_to_import)
    importlib.import_module("jax")  # this waits for a thread that is importing JAX, and raises the errors of the import
    _is_there()


def in_a_thread(imports: Callable[[], Any]) -> None:
    """Call a function that imports modules in another thread, which interrupts cannot reach. At exit, from Python 3.12
    on, no thread can be started, and nothing is done."""
    thread = threading.Thread(target=imports, name="mxcompat-import")
    with suppress(RuntimeError):
        thread.start()
        thread.join()


def _try_to_import() -> None:
    with suppress(Exception):
        importlib.import_module("jax")


def when_imported(call: Callable[[], Any]) -> None:
    """Call `call` once JAX is imported, or at once if it is already."""
    _waiting.append(call)
    if _came:
        _is_there()


def _is_there() -> None:
    global _came
    if not _came:
        for proxy in _PROXIES:
            if proxy.__name__ in sys.modules:
                _give_way(proxy, sys.modules[proxy.__name__])
        _came = True
    while _waiting:
        _waiting.pop()()


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Restore NumPy's global random state at the end of the context. JAX's import draws from it, at a point of the
    program that may differ from run to run."""
    random = sys.modules.get("numpy.random")
    state = random.get_state(legacy=False) if random is not None else None
    try:
        yield
    finally:
        if random is not None:
            random.set_state(state)


class _Finder:
    """An import finder that finds JAX through the other finders, and wraps its loader."""

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
    """An import loader that loads JAX by its own loader, then replaces the proxies."""

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
    """A proxy for `jax`, or for a function of it, given by its path.

    The function is looked up at the first call. If it is a decorator, the lookup waits until the decorated function is
    called.
    """

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
    """A proxy for a decorated function. At the first call, it applies JAX's decorator and registers the rules."""

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
        decorated = _looked_up(self._decorator)(self._function, **self._options)
        for kind, rule, options in self._rules:
            getattr(decorated, kind)(rule, **options)
        return decorated

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._made(*args, **kwargs)


lazy = _Lazy("")
