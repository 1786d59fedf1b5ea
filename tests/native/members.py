"""The members of the extension: functions of its method table, methods of its types, and their slots."""

from __future__ import annotations

import re
from pathlib import Path
from types import MethodDescriptorType, ModuleType

__all__ = ["SOURCES", "code_of", "members"]

SOURCES = sorted((Path(__file__).parents[2] / "mxcompat" / "_native").rglob("*.[ch]"))

_SLOTS = re.compile(r"PyType_Slot (\w+)\[\] = \{(.*?)\{0, NULL\},?\s*\};", re.DOTALL)
_SPEC = re.compile(r'\.name = "[\w.]+\.(\w+)",.*?\.slots = (\w+)', re.DOTALL)


def code_of(path: Path) -> str:
    """Return the text of a source without its comments and the contents of its strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', lambda m: '""' if m[0][0] == '"' else " ", path.read_text(),
                  flags=re.DOTALL)  # fmt: skip


def _slots() -> set[str]:
    """Return `Type.tp_slot` for all slots that hold functions or members."""
    names = set()
    for path in SOURCES:
        text = path.read_text()
        tables = {name: re.findall(r"\{Py_(\w+),", content) for name, content in _SLOTS.findall(text)}
        types = {slots: name for name, slots in _SPEC.findall(text)}
        assert set(types) == set(tables), f"{path.name}: a type without slots, or slots without a type"
        names |= {f"{types[table]}.{slot}" for table, slots in tables.items() for slot in slots}
    return {name for name in names if not name.endswith((".tp_doc", ".tp_methods"))}


def members(module: ModuleType) -> set[str]:
    """Return the names of all functions, methods and slots of the extension."""
    names = _slots()
    for name, value in vars(module).items():
        if isinstance(value, type):
            methods = [n for n, v in vars(value).items() if isinstance(v, MethodDescriptorType)]
            names |= {f"{name}.{method}" for method in methods if not method.startswith("__")}
        elif callable(value) and not name.startswith("__"):
            names.add(name)
    return names
