"""Python's garbage collector and what is imported, which stays.

It would look through all of that, JAX mostly, again and again: during the import, which takes 0.1 s, in steps of a long
process, and at its end, where it takes 0.2 s. So it waits while mxcompat is imported. Then what there is is frozen, or,
where the program has made objects of its own, which are to be collected like any others, counts as old.

Python collects after so many new objects, and mxcompat makes more of them for an array than MLX: the collector is set
to come as often, by the arrays, as it does there.
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

_IMPORTED = (ModuleType, FunctionType, BuiltinFunctionType, type)


@contextmanager
def importing() -> Iterator[None]:
    """While this lasts, nothing is collected; what there is by then is not looked through again."""
    if not gc.isenabled() or gc.get_freeze_count() > 1000:  # Python 3.12 begins with 375
        yield  # the program has its own way with it
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
    from mxcompat._graph import policy  # not before collections wait

    young, *older = gc.get_threshold()
    if 0 < young <= policy.DEFAULT_THRESHOLD:  # else the program has its own way with it
        gc.set_threshold(policy.OBJECTS_PER_ARRAY * young, *older)


def _nothing_but_libraries() -> bool:
    """Whether the program has done nothing yet but import libraries."""
    places = (*{*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}, str(Path(__file__).parent))
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file is not None and not str(file).startswith(places):
            return False
    main = vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    return all(name.startswith("__") or isinstance(value, _IMPORTED) for name, value in list(main.items()))
