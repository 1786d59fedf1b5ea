"""Settings of Python's garbage collector for the imported modules, and for the rate of collections.

Without this module, the collector would scan all imported objects, mostly JAX's, many times (0.1 s during the import,
more in a long process, and 0.2 s at its end). Collections are therefore disabled while mxcompat is imported, and all
existing objects are frozen afterwards. If the program already has objects, which must be collected normally, nothing is
frozen: the existing objects only move to the oldest generation.

Python starts a collection after a number of new objects, and mxcompat makes more objects for each array than MLX. The
threshold is raised so that collections come after about as many arrays as in MLX.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

__all__ = ["importing"]

_DEFAULT_THRESHOLD = 2000
"""The number of new objects after which Python collects the youngest generation by default: 700 until 3.12."""

_OBJECTS_PER_ARRAY = 3
"""The number of objects that Python's collector counts for a lazy array, relative to MLX.

(A network of scalars made 3.4 times as many objects, and its collections took 3.9 of 5.6 s. With this factor they take
1.3 of 3.3 s.)
"""

_IMPORTED = (ModuleType, FunctionType, BuiltinFunctionType, type)


@contextmanager
def importing() -> Iterator[None]:
    """Suspend collections inside the context. Objects that exist at its end are not scanned again."""
    if not gc.isenabled() or gc.get_freeze_count() > 1000:  # Python 3.12 starts with 375 frozen objects
        yield  # in this case the program controls the collector
        return
    first = _nothing_but_libraries()
    if first:
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if not first:
            gc.unfreeze()
        gc.enable()
        _collect_less_often()


def _collect_less_often() -> None:
    young, *older = gc.get_threshold()
    if 0 < young <= _DEFAULT_THRESHOLD:  # otherwise the program has set a threshold
        gc.set_threshold(_OBJECTS_PER_ARRAY * young, *older)


def _nothing_but_libraries() -> bool:
    """Return whether the program has only imported libraries so far."""
    places = (*{*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}, str(Path(__file__).parent))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file is not None and not str(file).startswith(places):
            return False
    main = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return all(name.startswith("__") or isinstance(value, _IMPORTED) for name, value in list(main.items()))
