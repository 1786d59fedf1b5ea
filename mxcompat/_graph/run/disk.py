"""Disk: compiled executables, kept from one process to the next.

What is found in the folder is handed to `pickle`, and to XLA as machine code: whoever can write to it can do anything
as its user. That is why the folder must be private, see `folder`. Checksums only guard against accidents: an entry that
is damaged, or that is not what its name says, is ignored, said once, and replaced.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
from functools import cache
from typing import Any

import jax
import numpy as np

from .. import policy
from ..ir.program import Program
from . import background, folder
from .digest import NoDigest, digest

__all__ = ["holds", "key_of", "load", "store_soon"]

_MAGIC = b"mxcompat executable 1\n"
_HEADER = struct.Struct(f"<{len(_MAGIC)}sQ32s")

_LAPACK = b"lapack_"
"""In the bytes of an executable that calls LAPACK."""


def key_of(program: Program, *rest: Any) -> bytes | None:
    """What an executable is known by, but for the options that it is compiled with; None if it is not kept on the disk.

    Args:
        rest: all that it is made of besides the Program, plain data.
    """
    if folder.directory() is None:
        return None
    try:
        return digest(program, *rest)
    except NoDigest:
        return None


def load(key: bytes | None, options: dict[str, Any]) -> jax.stages.Compiled | None:
    """The executable that was stored under this key, if there is one; it is neither traced nor lowered nor compiled."""
    if key is None:
        return None
    name = _name(key, options)
    data = folder.read(name)
    if data is None:
        return None
    try:
        return _unpacked(data, name)
    except Exception as error:  # of any type: pickle's and XLA's
        folder.remove(name)
        folder.say("damaged", f"an executable in {folder.directory()} is damaged and compiled again: {error}")
        return None


def holds(key: bytes | None, options: dict[str, Any]) -> bool:
    """Whether there is an entry for this key."""
    return key is not None and folder.holds(_name(key, options))


def store_soon(
    key: bytes | None, options: dict[str, Any], compiled: jax.stages.Compiled, seconds: float,
    instead_of: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Store an executable, in the background, if the `seconds` that it took to compile make that worth it.

    Args:
        instead_of: the options of the one that is not needed any more then.
    """
    if key is None or seconds < policy.STORED_SECONDS or _given_by_jax():
        return

    def job() -> None:
        name = _name(key, options)
        try:
            data = _packed(compiled, name)
        except (ValueError, TypeError, NotImplementedError, pickle.PicklingError, jax.errors.JaxRuntimeError):
            return  # it holds what no file can, so it is compiled in each process
        folder.write(name, data)
        if instead_of is not None:
            folder.remove(_name(key, instead_of))

    background.submit(job, lasting=True)


def _name(key: bytes, options: dict[str, Any]) -> str:
    return hashlib.sha256(key + repr(sorted(options.items())).encode()).hexdigest()


def _given_by_jax() -> bool:
    """Whether an executable may come from JAX's own cache on the disk. Of such a one XLA serializes but a part, and
    what is made of that fails when it is run."""
    config: Any = jax.config
    return bool(config.jax_enable_compilation_cache and config.jax_compilation_cache_dir)


def _packed(compiled: jax.stages.Compiled, name: str) -> bytes:
    from jax.experimental.serialize_executable import serialize

    payload = pickle.dumps(serialize(compiled))
    return _HEADER.pack(_MAGIC, len(payload), _checksum(name, payload)) + payload


def _unpacked(data: bytes, name: str) -> jax.stages.Compiled:
    """The executable in an entry. Nothing is unpickled before it is known to be what was once written."""
    from jax.experimental.serialize_executable import deserialize_and_load

    if len(data) < _HEADER.size:
        raise ValueError("it is cut short")
    magic, length, checksum = _HEADER.unpack_from(data)
    payload = memoryview(data)[_HEADER.size :]
    if magic != _MAGIC:
        raise ValueError("it is something else")
    if len(payload) != length or _checksum(name, payload) != checksum:
        raise ValueError("its checksum is wrong")
    if _LAPACK in data:
        _start_lapack()
    return deserialize_and_load(*pickle.loads(payload), execution_devices=jax.devices()[:1])


def _checksum(name: str, payload: Any) -> bytes:
    found = hashlib.sha256(name.encode())
    found.update(payload)
    return found.digest()


@cache
def _start_lapack() -> None:
    """Have JAX look up LAPACK's functions, as it does when it lowers a call of one."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))
