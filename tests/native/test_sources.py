"""The sources use no feature of newer Pythons only, so that one build serves all from 3.11 on."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from .libraries import pythons
from .members import SOURCES, code_of

FORBIDDEN = {
    r"\bPy_RETURN_\w+": "makes no reference in headers from 3.12 on: `return none();`, `PyBool_FromLong(...)`",
    r"\breturn\s*\(?\s*Py_(None|True|False|NotImplemented|Ellipsis)\b": "is no new reference",
    r"\b_?Py_(SET_REFCNT|REFCNT|Is_?Immortal|SetImmortal)\b": "is another number where None is immortal",
    r"\bPyUnstable_\w+|\b_Py\w+": "is in no stable interface",
}
"""Patterns that no source has, with the reason."""


def matches(pattern: str) -> list[str]:
    return [f"{p.name}: {m[0]}" for p in SOURCES for m in re.finditer(pattern, code_of(p))]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_source_relies_on_immortal_objects(pattern: str) -> None:
    assert not matches(pattern), FORBIDDEN[pattern]


def test_no_format_has_sizes() -> None:
    """Assert that no format contains "#". Its length is an int before Python 3.13 unless a macro is set, and later
    Py_ssize_t."""
    formats = re.compile(
        r'\b(?:Py_BuildValue|PyArg_\w+|PyObject_Call(?:Method|Function))\s*\([^;]*?"([^"]*)"', re.DOTALL
    )
    pairs = [(p.name, m[1]) for p in SOURCES for m in formats.finditer(p.read_text())]
    assert len(pairs) > 5
    assert not [(name, text) for name, text in pairs if "#" in text]


def test_these_patterns_find_what_they_forbid() -> None:
    for line in (
        "Py_RETURN_NONE;", "Py_RETURN_NOTIMPLEMENTED;", "return Py_True;", "return (Py_None);", "Py_SET_REFCNT(x, 1);",
        "_Py_IsImmortal(x)", "Py_RETURN_RICHCOMPARE(a, b, op);", "PyUnstable_SetImmortal(x);",
    ):  # fmt: skip
        assert any(re.search(pattern, line) for pattern in FORBIDDEN), line
    for line in ("return none();", "x == Py_None", "return new_node(op, Py_None);", "Py_NewRef(x)"):
        assert not any(re.search(pattern, line) for pattern in FORBIDDEN), line


NEEDED = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
PyObject *returned(void) { Py_RETURN_NONE; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler of C")
def test_which_headers_need_it(tmp_path) -> None:
    """Assert that only headers before 3.12 create a reference in the macro. If newer ones do again, drop `none`."""
    (tmp_path / "a.c").write_text(NEEDED)
    code = "import sysconfig; print(sysconfig.get_path('include'))"
    for python in pythons():
        include = subprocess.check_output([python.path, "-c", code], text=True).strip()
        command = ["cc", "-E", "-DPy_LIMITED_API=0x030B0000", f"-I{include}", tmp_path / "a.c"]
        text = subprocess.check_output(command, text=True)
        makes_one = "NewRef" in text[text.index("returned(void)") :]
        assert makes_one == (python.version < (3, 12)), python
