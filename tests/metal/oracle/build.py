"""Kernels as shared libraries: many in one text, compiled once and kept by their contents."""

import ctypes
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from mxcompat._metal.signature import Signature

from .text import unit

__all__ = ["CompileError", "Compiled", "compile_kernels", "missing"]

_FLAGS = [
    "-std=c++20", "-O0", "-fno-omit-frame-pointer", "-fsingle-precision-constant", "-fwrapv", "-ffp-contract=off",
    "-fno-strict-aliasing", "-fno-gnu-unique", "-fpermissive", "-w", "-fPIC",
]  # fmt: skip
_HERE = Path(__file__).parent
_LETTERS = {2: ("xy", "rg"), 3: ("xyz", "rgb"), 4: ("xyzw", "rgba")}


class CompileError(Exception):
    """g++ rejected a kernel; the message is its output."""


class Compiled(NamedTuple):
    """A kernel that can be run."""

    signature: Signature
    function: Any


def missing():
    """Return the reason why the oracle cannot run here, or None if it can."""
    compiler = shutil.which("g++")
    if compiler is None:
        return "there is no g++"
    version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return None if int(re.match(r"\d+", version)[0]) >= 12 else "g++ 12 or newer has _Float16"


def compile_kernels(kernels):
    """Compile kernels, all in one text.

    Args:
        kernels: triples of source, header and signature.

    Returns:
        A list of `Compiled`.
    """
    units = []
    for place, (source, header, signature) in enumerate(kernels):
        units.append(unit(f"k{place}", source, header, signature))
    text = '#include "prelude.hpp"\n' + "".join(units)
    folder = _prepared()
    library = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
    if not library.exists():
        temporary = library.with_suffix(f".{os.getpid()}")
        _gxx([*_FLAGS, "-shared", "-I", str(folder), "-x", "c++", "-", "-o", str(temporary)], text)
        temporary.rename(library)
    loaded = ctypes.CDLL(str(library))
    return [Compiled(signature, getattr(loaded, f"k{place}")) for place, (*_, signature) in enumerate(kernels)]


def _gxx(arguments, text=None):
    process = subprocess.run(["g++", *arguments], input=text, capture_output=True, text=True, check=False)
    if process.returncode:
        raise CompileError(process.stderr[:4000])


def _prepared():
    """Return the folder with the headers, after precompiling the first one."""
    headers = sorted(_HERE.glob("*.hpp"))
    key = hashlib.sha256("".join([*_FLAGS, *(h.read_text() for h in headers)]).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"mxcompat-metal-oracle-{os.getuid()}" / key
    if not (folder / "prelude.hpp.gch").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for header in headers:
            shutil.copy(header, folder)
        (folder / "swizzles.inc").write_text(_swizzles())
        temporary = folder / f"prelude.{os.getpid()}"
        _gxx([*_FLAGS, "-x", "c++-header", str(folder / "prelude.hpp"), "-o", str(temporary)])
        temporary.rename(folder / "prelude.hpp.gch")
    return folder


def _swizzles():
    """Return a macro for each vector length that declares all swizzles, by both names of the components."""
    lines = []
    for size, alphabets in _LETTERS.items():
        members = []
        for letters in alphabets:
            for length in (2, 3, 4):
                for places in itertools.product(range(size), repeat=length):
                    name = "".join(letters[k] for k in places)
                    members.append(f"swizzle<T, {size}, {', '.join(map(str, places))}> {name};")
        lines.append(f"#define MXO_SWIZZLES_{size} {' '.join(members)}\n")
    return "".join(lines)
