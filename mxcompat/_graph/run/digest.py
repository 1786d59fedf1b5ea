"""Digest: a name for an executable that is the same in every process where the executable would be the same.

It is made from what the executable is made from: the Program's text, the numbers baked in, the options, this library's
own source, and everything about the machine, the versions and the settings that XLA's code may depend on. A Program
that holds anything but plain data and the library's own ops has no such name.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mxcompat._compat.jax_internals import setting_names
from mxcompat._jax import jax
from mxcompat._native import native

from ..ir.aval import Aval, Dtype
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import LOWERING
from .foreign import TARGET

__all__ = ["NoDigest", "digest"]

_OWN = ("mxcompat._graph.", "mxcompat._array.", "mxcompat._metal.", "mxcompat._ops.", "mxcompat._transforms.", "jax.")
"""Where ops come from whose name says what they do. One made from a user's function comes from elsewhere."""

_ENVIRONMENT = ("XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE")

_NO_MATTER = re.compile("cache|log|traceback|dump|pprint|distributed|transfer")
"""The settings of JAX that have to do with everything but the code that it makes."""

_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
"""What of /proc/cpuinfo says which instructions there are, and which are fast."""


class NoDigest(Exception):
    """What was given is more than plain data."""


def digest(program: Program, *rest: Any) -> bytes:
    """32 bytes that stand for this Program, compiled in this way, by this process.

    Args:
        rest: plain data: the baked scalars, the options and so on.

    Raises:
        NoDigest: if there is none.
    """
    if jax.config.jax_default_device is not None or jax.process_count() > 1:  # type: ignore[attr-defined]
        raise NoDigest("it is not for the first device")
    text = "\n".join([_process(), _settings(), _program(program), *[_text(item) for item in rest]])
    return hashlib.sha256(text.encode()).digest()


def _program_text(program: Program) -> str:
    """The canonical text of a Program; of those that it holds, their digests. Raises NoDigest if there is none."""
    if program.placement is not None:
        raise NoDigest("it is for several devices")
    lines = [" ".join(map(_text, program.in_avals)), _text(program.scalars)]
    lines += [f"{_op(op)}{_text(params)}{list(slots)}" for op, params, slots in program.instructions]
    lines += [_text(program.out_slots), " ".join(map(_text, program.out_avals))]
    return "\n".join(lines)


def _program(program: Program) -> str:
    """The digest of a Program's text, in hexadecimal; remembered."""
    found = program.facts.get("digest")
    if found is None:
        try:
            found = hashlib.sha256(_program_text(program).encode()).hexdigest()
        except NoDigest as error:
            found = error
        program.facts["digest"] = found
    if isinstance(found, NoDigest):
        raise NoDigest(*found.args)
    return found


def _op(op: Op) -> str:
    lowering = LOWERING[op]
    origin = f"{getattr(lowering, '__module__', '')}.{getattr(lowering, '__qualname__', '')}"
    if op.uncacheable or not origin.startswith(_OWN):
        raise NoDigest(f"[{op}] is made of a function of the user's")
    return f"{op.name}:{origin}"


_PLAIN = {type(None), bool, int, float, complex, str, bytes, type(...)}


def _text(value: Any) -> str:
    """Plain data as text: other data, or the same of another type, has another text. -0.0 and nan have their own."""
    kind = type(value)
    if kind in _PLAIN:
        return f"{kind.__name__}:{value!r}"
    if isinstance(value, tuple):
        own = "" if kind is tuple else _class(kind)
        return f"{own}({','.join(map(_text, value))})"
    if kind is Aval:
        return repr(value)
    if kind is Dtype:
        return f"dtype:{value._label}"
    if kind is Program:
        return f"program:{_program(value)}"
    if isinstance(value, Enum):
        return f"{_class(kind)}.{value.name}"
    if isinstance(value, (np.dtype, np.generic)):
        return f"numpy.{value.dtype if isinstance(value, np.generic) else 'dtype'}:{value!r}"
    if kind is slice:
        return f"slice{_text((value.start, value.stop, value.step))}"
    raise NoDigest(f"a {kind.__name__} is no plain data")


def _class(kind: type) -> str:
    if not kind.__module__.startswith(_OWN):
        raise NoDigest(f"{kind.__name__} is not a class of the library's own")
    return f"{kind.__module__}.{kind.__qualname__}"


def _settings() -> str:
    """What of JAX's settings may matter; some are different in each thread."""
    names = _setting_names()
    if names is None:
        raise NoDigest("the settings of JAX are not known")
    return "\n".join([f"{name}={getattr(jax.config, name, None)!r}" for name in names])


@cache
def _setting_names() -> list[str] | None:
    names = setting_names()
    return None if names is None else sorted(name for name in names if not _NO_MATTER.search(name))


@cache
def _process() -> str:
    """What is the same for all Programs of this process. Starts JAX's back-end."""
    from importlib.metadata import version  # here, since it takes long to import

    from jax.extend.backend import get_backend  # here, since what it imports takes long to import

    backend = get_backend()
    versions = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "numpy")]
    lines = [
        *versions, sys.version, sys.platform, platform.machine(), f"{TARGET} {native is not None}",
        f"{backend.platform} {backend.platform_version} {jax.local_devices()[0].device_kind}",
        *[f"{name}={os.environ.get(name)}" for name in _ENVIRONMENT],
        *_processor(), *_sources(),
    ]  # fmt: skip
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _processor() -> Iterable[str]:
    """The processor, and how many cores of it this process may use: XLA divides the work among them."""
    yield str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        yield f"{platform.processor()} of {platform.node()}"  # there it is not told; a machine is at least itself
        return
    for line in first.splitlines():
        if line.partition(":")[0].strip() in _CPU:
            yield line


def _sources() -> Iterable[str]:
    """This library, as far as it can be told without reading all of it: where it is, and the age and size of each
    file."""
    package = Path(__file__).parents[2]
    yield str(package)
    for path in sorted(package.rglob("*.py")):
        status = path.stat()
        yield f"{path.relative_to(package)} {status.st_mtime_ns} {status.st_size}"
