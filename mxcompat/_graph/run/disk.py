"""Disk: compiled executables, stored for later processes.

Files from the folder go to `pickle`, and to XLA as machine code, so anybody who can write to the folder can run any
code as its user. That is why the folder must be private, see `folder`. Checksums only guard against accidents: an entry
that is damaged or misnamed is ignored with one warning, and replaced.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from mxcompat._compat.xla import deserialized, serialized, serialized_executables
from mxcompat._jax import jax

from .. import policy
from ..ir.program import Program
from . import background, folder
from .arguments import baked
from .blas import calls_lapack
from .digest import NoDigest, digest, sha256
from .foreign import TARGETS, register

__all__ = ["Entry", "entries"]

_MAGIC = b"mxcompat executable 1\n"
_HEADER = struct.Struct(f"<{len(_MAGIC)}sQ32s")

_FOREIGN = tuple(target.encode() for target in TARGETS)
"""Bytes that occur in an executable that calls C code of mxcompat."""


class Entry:
    """An entry of the cache on the disk: the executable of a Program, which may or may not be stored there yet.

    Args:
        program: the Program that it is compiled from.
        scalars: the values of the program's scalars.
        lifted: maps each scalar that is an argument to the first scalar that shares the argument. The others are
            constants.
        donated: the positions of donated buffers.
    """

    __slots__ = ("_code", "_key", "_note", "lifted", "loaded_bytes")

    def __init__(self, program: Program, scalars: tuple, lifted: Mapping[int, int], donated: tuple[int, ...]) -> None:
        self.lifted = lifted
        self.loaded_bytes = 0
        self._code = program.code
        self._key = _key(program, baked(scalars, lifted), tuple(lifted.items()), donated)
        self._note = _key(program, donated, "lifted") if lifted else None

    def load(self, options: dict[str, Any]) -> jax.stages.Compiled | None:
        """Return the stored executable for these options, or None. Nothing is traced or lowered."""
        name = self._name(options)
        return _load(name, self._executable) if name is not None else None

    def _executable(self, payload: bytes) -> jax.stages.Compiled:
        self.loaded_bytes = len(payload)
        if calls_lapack(self._code):
            _start_lapack()
        if not register() and any(target in payload for target in _FOREIGN):
            raise ValueError("the executable calls C code that is not available")
        return deserialized(payload)

    def holds(self, options: dict[str, Any]) -> bool:
        """Return True if an executable for these options is stored. `load` may still find it damaged."""
        name = self._name(options)
        return name is not None and folder.holds(name)

    def store_soon(
        self, options: dict[str, Any], compiled: jax.stages.Compiled, seconds: float, weigh: Callable[[int], None],
        instead_of: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Store an executable in the background, if its compile took long enough (`seconds`).

        Args:
            weigh: called with the serialized size, stored or not, if it can be determined.
            instead_of: the options of an executable that the new one replaces.
        """
        name, note = self._name(options), self._note
        if _given_by_jax():
            return
        if name is None or seconds < policy.STORED_SECONDS:
            background.submit(lambda: weigh(len(serialized(compiled))))
            return
        unneeded = self._name(instead_of) if instead_of is not None else None

        def job() -> None:
            payload = serialized(compiled)
            weigh(len(payload))
            if not payload:
                return
            folder.write(name, _packed(payload, name))
            if note is not None:
                payload = ",".join(f"{k}:{first}" for k, first in self.lifted.items()).encode()
                folder.write(note.hex(), _packed(payload, note.hex()))
            if unneeded is not None:
                folder.remove(unneeded)

        background.submit(job, lasting=True)

    def _name(self, options: dict[str, Any]) -> str | None:
        if self._key is None:
            return None
        return sha256(self._key + repr(sorted(options.items())).encode()).hexdigest()


def entries(program: Program, scalars: tuple, lifted: Mapping[int, int], donated: tuple[int, ...]) -> Iterator[Entry]:
    """Yield the entries whose executable can run the Program: first the entry with exactly these scalars lifted, then,
    if the executable that was stored last has more scalars lifted, its entry. An earlier process may have found more
    varying numbers, because that depends on timing."""
    yield Entry(program, scalars, lifted, donated)
    note = _key(program, donated, "lifted") if len(lifted) < len(scalars) else None
    more = _load(note.hex(), _lifted) if note is not None else None
    if more is not None and _is_more(more, lifted, scalars):
        yield Entry(program, scalars, more, donated)


def _is_more(more: Mapping[int, int], lifted: Mapping[int, int], scalars: tuple) -> bool:
    """Return True if `more` lifts all scalars of `lifted` and others.

    Scalars that share an argument in `more` must be the same number now, and in all earlier runs.
    """
    return (
        more.keys() > lifted.keys()
        and max(more) < len(scalars)
        and all(scalars[k] is scalars[first] and lifted.get(k) == lifted.get(first) for k, first in more.items())
    )


def _key(program: Program, *rest: Any) -> bytes | None:
    if folder.directory() is None or not serialized_executables.holds:
        return None
    try:
        return digest(program, *rest)
    except NoDigest:
        return None


def _given_by_jax() -> bool:
    """Return True if an executable may come from JAX's own cache on the disk. XLA serializes such an executable
    incompletely, and it fails when it is loaded and run."""
    config: Any = jax.config
    return bool(config.jax_enable_compilation_cache and config.jax_compilation_cache_dir)


def _packed(payload: bytes, name: str) -> bytes:
    return _HEADER.pack(_MAGIC, len(payload), _checksum(name, payload)) + payload


def _load(name: str, make: Callable[[bytes], Any]) -> Any:
    """Return `make(payload)` for an entry. Return None if there is no entry, or if it is damaged."""
    data = folder.read(name)
    if data is None:
        return None
    try:
        return make(_payload(data, name))
    except Exception as error:  # pickle and XLA may raise any type
        folder.remove(name)
        folder.say("damaged", f"an executable in {folder.directory()} is damaged and compiled again: {error}")
        return None


def _payload(data: bytes, name: str) -> bytes:
    """Return the payload that was written under this name. Raise ValueError if the data is anything else."""
    if len(data) < _HEADER.size:
        raise ValueError("it is incomplete")
    magic, length, checksum = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if magic != _MAGIC:
        raise ValueError("it has another format")
    if len(payload) != length or _checksum(name, payload) != checksum:
        raise ValueError("its checksum is wrong")
    return payload


def _checksum(name: str, payload: bytes) -> bytes:
    digest_of_both = sha256(name.encode())
    digest_of_both.update(payload)
    return digest_of_both.digest()


def _lifted(payload: bytes) -> dict[int, int]:
    pairs = [pair.split(b":") for pair in payload.split(b",")]
    return {int(k): int(first) for k, first in pairs}


@cache
def _start_lapack() -> None:
    """Let JAX register LAPACK's functions, which it does when it lowers a call of one."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))
