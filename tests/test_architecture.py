"""docs/architecture.md: its walks name the files that the examples really enter, in order of first entry."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.test_project import ROOT

SHARE = 0.07
"""A walk names each file that makes more than this share of the calls."""

PAGE = (ROOT / "docs" / "architecture.md").read_text()
SECTIONS = re.findall(r"^### (.*?)\n(.*?)(?=^##)", PAGE.partition("## Walks")[2], re.DOTALL | re.MULTILINE)
WALKS = {title.replace("`", ""): text for title, text in SECTIONS}

OBSERVED = """
import ast, json, os, sys
import mxcompat.core, mxcompat
from mxcompat._native import native

tree = ast.parse(sys.argv[1])
setup, last = ast.Module(tree.body[:-1], []), ast.Module(tree.body[-1:], [])
root, calls, scope = os.path.dirname(mxcompat.__file__) + os.sep, {}, {}

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and not code.co_name.startswith("<"):
        name = code.co_filename[len(root):].replace(os.sep, "/")
        calls[name] = calls.get(name, 0) + 1

exec(compile(setup, "setup", "exec"), scope)
last = compile(last, "last", "exec")
sys.setprofile(note)
exec(last, scope)
sys.setprofile(None)
print(json.dumps([calls, native is not None]))
"""
"""Prints the number of calls of each file, in order of first entry. Comprehensions and lambdas do not count, because
Python 3.12 inlines the former."""


def observed(text):
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    settings = dict(re.findall(r"`(MXCOMPAT_\w+)=(\w+)`", text))
    env = {**os.environ, "MXCOMPAT_HOST": "1", "MXCOMPAT_CACHE": "0", **settings}
    process = subprocess.run(
        [sys.executable, "-c", OBSERVED, code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_there_is_a_walk_for_each_transform():
    assert [*WALKS] == ["eval, cold", "eval, warm", "grad", "vmap", "A custom function", "compile"]


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_names_the_files_that_are_entered(title):
    items = re.findall(r"^(\d+)\. `([\w/]+\.py)`: ", WALKS[title], re.MULTILINE)
    named = [file for _, file in items]
    assert [int(number) for number, _ in items] == [*range(1, len(items) + 1)]
    calls, has_native = observed(WALKS[title])
    assert [file for file in named if file not in calls] == [], "named, but not entered"
    assert named == [file for file in calls if file in named], "in another order"
    if has_native:  # without the C extension, Python runs other files, which make most calls
        total = sum(calls.values())
        missing = {file: n / total for file, n in calls.items() if n > SHARE * total and file not in named}
        assert missing == {}, "entered often, but not named"
