"""Load damaged files of every format, one after the other.

Usage: `python -m tests.hostile FORMAT FIRST LAST`, in an empty folder. Each damage is drawn from its number. A line
of JSON counts the outcomes. An exception of another library ends the process.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mxcompat.core as mx

MEMORY = 8 << 30
"""Limit of the address space in bytes: XLA's reservation fits, sizes promised by a header do not."""

FORMATS = ("npy", "npz", "safetensors", "gguf", "mlxfn")
REFUSED = (ValueError, TypeError, IndexError, RuntimeError, OverflowError)


class Payload:
    """An object whose unpickling would leave a trace."""

    def __reduce__(self) -> tuple:
        return os.mkdir, ("executed",)


def whole(kind: str) -> bytes:
    """Return an undamaged file."""
    path = f"whole.{kind}"
    arrays = {"a": mx.arange(12).reshape(3, 4), "b.c": mx.ones((2, 2), mx.float16), "d": mx.array([True, False])}
    if kind == "npy":
        mx.save(path, arrays["a"])
    elif kind == "npz":
        mx.savez(path, **arrays)
    elif kind == "safetensors":
        mx.save_safetensors(path, arrays, {"made": "here"})
    elif kind == "gguf":
        mx.save_gguf(path, {"a": mx.ones((4, 32)), "b": mx.ones(3)}, {"name": "x", "n": mx.array(3)})
    else:
        mx.export_function(path, lambda x: mx.softmax(x @ mx.ones((4, 4)), axis=-1), mx.ones((2, 4)))
    return Path(path).read_bytes()


def flipped(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def grown(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + draw.randbytes(draw.choice((1, 8, 100))) + data[place:]


def huge(data: bytes, draw: random.Random) -> bytes:
    """Return a file with another number in its header: a size, a count, an offset."""
    place = draw.randrange(max(1, min(len(data) - 8, 400)))
    number = draw.choice((0, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1))
    return data[:place] + struct.pack("<Q", number) + data[place + 8 :]


def digits(data: bytes, draw: random.Random) -> bytes:
    """Return a file with a digit of its header changed or repeated."""
    places = [k for k, byte in enumerate(data[:600]) if chr(byte).isdigit()]
    if not places:
        return flipped(data, draw)
    place = draw.choice(places)
    return data[:place] + draw.choice((b"9" * 12, b"-1", b"0", b"1e9", b"[]")) + data[place + 1 :]


def swapped(data: bytes, draw: random.Random) -> bytes:
    first, last = sorted(draw.randrange(len(data)) for _ in range(2))
    return data[last:] + data[first:last] + data[:first]


def pickled(data: bytes, draw: random.Random) -> bytes:
    return pickle.dumps(Payload(), protocol=draw.choice((0, 2, 4))) + data[: draw.choice((0, len(data)))]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (flipped, cut, grown, huge, digits, swapped, pickled)


def load(path: str) -> None:
    contents = mx.import_function(path)(mx.ones((2, 4))) if path.endswith("mlxfn") else mx.load(path)
    mx.eval(contents)
    for x in (
        contents.values() if isinstance(contents, dict) else [contents] if isinstance(contents, mx.array) else contents
    ):
        np.array(x.astype(mx.float32))


def main(kind: str, first: str, last: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    original = whole(kind)
    endings: Counter[str] = Counter()
    for number in range(int(first), int(last)):
        draw = random.Random(number)
        data = original
        for _ in range(draw.choice((1, 1, 2, 5))):
            data = draw.choice(DAMAGES)(data, draw) or b"\0" * 9
        path = Path(f"damaged.{kind}")
        path.write_bytes(data)
        try:
            load(str(path))
        except REFUSED as error:
            endings[type(error).__name__] += 1
        else:
            endings["loaded"] += 1
        if os.path.exists("executed"):
            raise SystemExit(f"number {number} was executed")
    sys.stdout.write(json.dumps(endings) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
