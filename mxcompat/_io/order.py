"""The order in which MLX writes the arrays of a file: that of a hash table of its C++ library on Linux.

A checksum of a file is then the same, whoever wrote it. The table (libstdc++'s `unordered_map`) has a list for each
bucket, new ones in front, and grows to the next of a list of primes when there are as many names as buckets.
"""

from __future__ import annotations

from typing import Any

__all__ = ["as_written"]

_SIZES = (
    13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679,
    5967347, 12117689, 24607243, 49969847,
)  # fmt: skip
"""How many buckets there are, one after the other."""

_FACTOR, _SEED, _WORD = 0xC6A4A7935BD1E995, 0xC70F6907, (1 << 64) - 1


def as_written(arrays: dict[str, Any]) -> dict[str, Any]:
    """The same items, in the order in which they are written."""
    entries = [(_hash(name.encode()), name) for name in arrays]
    found: list[tuple[int, str]] = []
    for size in _SIZES:  # what was there when it had grown to this size, in the order of before, and what came since
        if len(found) == len(entries):
            break
        found = _listed([*found, *entries[len(found) : size]], size)
    return {name: arrays[name] for _, name in found}


def _listed(entries: list[tuple[int, str]], size: int) -> list[tuple[int, str]]:
    """The newest bucket is the first, and in it the newest entry."""
    buckets: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        buckets.setdefault(entry[0] % size, []).append(entry)
    return [entry for bucket in reversed(buckets.values()) for entry in reversed(bucket)]


def _hash(data: bytes) -> int:
    """MurmurHash64A, as `std::hash` of a string."""
    found = _SEED ^ (len(data) * _FACTOR & _WORD)
    for start in range(0, len(data), 8):
        part = data[start : start + 8]
        word = int.from_bytes(part, "little")
        if len(part) == 8:
            word = _mixed(word * _FACTOR & _WORD) * _FACTOR & _WORD
        found = (found ^ word) * _FACTOR & _WORD
    return _mixed(_mixed(found) * _FACTOR & _WORD)


def _mixed(word: int) -> int:
    return word ^ word >> 47
