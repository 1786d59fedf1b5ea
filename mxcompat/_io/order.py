"""The order in which MLX writes the arrays of a file on Linux, which is the order of a C++ hash table.

With the same order, files from MLX and mxcompat have the same checksum. The table (libstdc++'s `unordered_map`) has a
list for each bucket, with new buckets and entries at the front. When it has as many names as buckets, it grows to the
next prime of a list.
"""

from __future__ import annotations

from typing import Any

__all__ = ["as_written"]

_SIZES = (
    13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679,
    5967347, 12117689, 24607243, 49969847,
)  # fmt: skip
"""The numbers of buckets as the table grows."""

_FACTOR, _SEED, _WORD = 0xC6A4A7935BD1E995, 0xC70F6907, (1 << 64) - 1


def as_written(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the items in the order in which MLX writes them to a file."""
    entries = [(_hash(name.encode()), name) for name in arrays]
    listed: list[tuple[int, str]] = []
    for size in _SIZES:  # Rehash the entries in their previous order. Then insert further entries up to this size.
        if len(listed) == len(entries):
            break
        listed = _listed([*listed, *entries[len(listed) : size]], size)
    return {name: arrays[name] for _, name in listed}


def _listed(entries: list[tuple[int, str]], size: int) -> list[tuple[int, str]]:
    """Return the order of the entries after these insertions: newest bucket first, and within a bucket newest entry
    first."""
    buckets: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        buckets.setdefault(entry[0] % size, []).append(entry)
    return [entry for bucket in reversed(buckets.values()) for entry in reversed(bucket)]


def _hash(data: bytes) -> int:
    """Return the MurmurHash64A of a string, which is libstdc++'s `std::hash`."""
    state = _SEED ^ (len(data) * _FACTOR & _WORD)
    for start in range(0, len(data), 8):
        part = data[start : start + 8]
        word = int.from_bytes(part, "little")
        if len(part) == 8:
            word = _mixed(word * _FACTOR & _WORD) * _FACTOR & _WORD
        state = (state ^ word) * _FACTOR & _WORD
    return _mixed(_mixed(state) * _FACTOR & _WORD)


def _mixed(word: int) -> int:
    return word ^ word >> 47
