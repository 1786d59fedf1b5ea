"""Digest: a name for an executable, the same in all processes in which the executable would be the same.

It is a hash of the Program's text, the constants and the options. It also covers the source files of mxcompat, and the
properties of the machine, the versions and the settings on which XLA's code may depend. A Program has no digest if a
param is not plain data, or if an op comes from elsewhere.
"""

from __future__ import annotations

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

from ..ir.analyses import analysis
from ..ir.aval import Aval, Dtype
from ..ir.op import Op
from ..ir.program import Program
from ..ir.rules import LOWERING
from .foreign import TARGETS
from .platform import backend, options_in_effect, processors

__all__ = ["NoDigest", "digest", "sha256"]

_OWN = ("mxcompat._graph.", "mxcompat._array.", "mxcompat._metal.", "mxcompat._ops.", "mxcompat._transforms.", "jax.")
"""Modules whose ops are identified by their names. Ops made from a user's function come from other modules."""

_ENVIRONMENT = ("XLA_FLAGS", "TF_XLA_FLAGS", "LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE", "MXCOMPAT_WITHOUT")

_NO_MATTER = re.compile("cache|log|traceback|dump|pprint|distributed|transfer")
"""Matches the settings of JAX that do not affect the compiled code."""

_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
"""Fields of /proc/cpuinfo that determine the instruction set and the speed of instructions."""


class NoDigest(Exception):
    """A Program or a value has no digest, because it is not plain data."""


def sha256(data: bytes) -> Any:
    """Return the hash object of some bytes."""
    import hashlib  # imported here because the import is slow

    return hashlib.sha256(data)


def digest(program: Program, *rest: Any) -> bytes:
    """Return the digest, 32 bytes, of this Program as compiled with `rest` by this process.

    Args:
        rest: plain data: the baked scalars, the options and so on.

    Raises:
        NoDigest: if the Program or `rest` has no digest.
    """
    if jax.config.jax_default_device is not None or jax.process_count() > 1:  # type: ignore[attr-defined]
        raise NoDigest("it is not for the first device")
    text = "\n".join([_process(), _settings(), _program(program), *[_text(item) for item in rest]])
    return sha256(text.encode()).digest()


def _program_text(program: Program) -> str:
    """Return the canonical text of a Program, with the digests of its nested Programs. Raise NoDigest if it has
    none."""
    if program.placement is not None:
        raise NoDigest("it is for several devices")
    lines = [" ".join(map(_text, program.in_avals)), _text(program.scalars)]
    lines += [f"{_op(op)}{_text(params)}{list(slots)}" for op, params, slots in program.instructions]
    lines += [_text(program.out_slots), " ".join(map(_text, program.out_avals))]
    return "\n".join(lines)


def _program(program: Program) -> str:
    """Return the digest of a Program's text, in hexadecimal. Raise NoDigest if it has none."""
    digest = _program_digest(program)
    if isinstance(digest, NoDigest):
        raise NoDigest(*digest.args)
    return digest


@analysis
def _program_digest(program: Program) -> str | NoDigest:
    try:
        return sha256(_program_text(program).encode()).hexdigest()
    except NoDigest as error:
        return error


def _op(op: Op) -> str:
    lowering = LOWERING[op]
    origin = f"{getattr(lowering, '__module__', '')}.{getattr(lowering, '__qualname__', '')}"
    if op.uncacheable or not origin.startswith(_OWN):
        raise NoDigest(f"[{op}] is made from a user's function")
    return f"{op.name}:{origin}"


_PLAIN = {type(None), bool, int, float, complex, str, bytes, type(...)}


def _text(value: Any) -> str:
    """Return plain data as text that is unique for its value and type. -0.0 and nan have their own texts."""
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
    raise NoDigest(f"a {kind.__name__} is not plain data")


def _class(kind: type) -> str:
    if not kind.__module__.startswith(_OWN):
        raise NoDigest(f"{kind.__name__} is not a class of the library's own")
    return f"{kind.__module__}.{kind.__qualname__}"


def _settings() -> str:
    """Return the settings of JAX that may affect the code. Some settings are per thread."""
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
    """Return the digest of everything that all Programs of this process share. Starts JAX's back-end."""
    from importlib.metadata import version  # imported here because the import is slow

    from jax.extend.backend import get_backend  # imported here because the import is slow

    backend()  # starts XLA with mxcompat's options, which `get_backend` would not
    client = get_backend()
    versions = [f"{name} {version(name)}" for name in ("jax", "jaxlib", "numpy")]
    lines = [
        *versions, sys.version, sys.platform, platform.machine(), f"{' '.join(TARGETS)} {native is not None}",
        f"{client.platform} {client.platform_version} {jax.local_devices()[0].device_kind}",
        *[f"{name}={os.environ.get(name)}" for name in _ENVIRONMENT], options_in_effect(),
        *_processor(), *_sources(),
    ]  # fmt: skip
    return sha256("\n".join(lines).encode()).hexdigest()


def _processor() -> Iterable[str]:
    """Yield the number of cores that this process may use, among which XLA divides the work, and the processor."""
    yield str(processors())
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        # the processor's details are unknown, so identify the machine
        yield f"{platform.processor()} of {platform.node()}"
        return
    for line in first.splitlines():
        if line.partition(":")[0].strip() in _CPU:
            yield line


def _sources() -> Iterable[str]:
    """Yield the path of mxcompat, and the modification time and size of each file, which is faster than to read
    them."""
    package = Path(__file__).parents[2]
    yield str(package)
    for path in sorted(package.rglob("*.py")):
        status = path.stat()
        yield f"{path.relative_to(package)} {status.st_mtime_ns} {status.st_size}"
