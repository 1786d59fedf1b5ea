"""The words of the generator in `bits`, on the host: threefry 2x32 in C. Without the C extension, it runs on Python
integers for a few words and on NumPy for many.

A NumPy call costs as much for four words as for four hundred, and the hash needs a hundred calls. Python integers have
any length, so a few pairs are hashed together as one number. Each word has a lane of 64 bits, whose upper half receives
the carry of sums and shifts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from mxcompat._graph.policy import CACHED_ELEMENTS, MANY_ROWS
from mxcompat._native import native

__all__ = ["PARITY", "ROTATIONS", "chain", "words", "words_of_each"]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def words(key: np.ndarray, size: int) -> np.ndarray:
    """Return the first uint32 words of a key, an array of shape (size,)."""
    if size == 0:
        return np.zeros(0, np.uint32)
    if native is not None:
        return _in_c(key[None], size)[0]
    first, second = key.tolist()
    pairs = (size + 1) // 2
    if pairs > MANY_ROWS:
        return _many((first, second, first ^ second ^ PARITY), pairs, size)
    both = _few(first, second, pairs, size)
    return np.frombuffer(both.to_bytes(16 * pairs, "little"), np.uint64)[:size].astype(np.uint32)


def words_of_each(keys: np.ndarray, size: int) -> np.ndarray:
    """Return the first uint32 words of each of several keys. The keys have shape (count, 2), and each has its row."""
    if native is not None:
        return _in_c(keys, size)
    count, pairs = len(keys), (size + 1) // 2
    result = np.empty((count, 2 * pairs), np.uint32)
    result[...] = np.arange(2 * pairs, dtype=np.uint32)
    if size % 2:
        result[:, -1] = 0
    x, y = result[:, :pairs], result[:, pairs:]
    first, second = keys[:, :1], keys[:, 1:]
    schedule = (first, second, first ^ second ^ np.uint32(PARITY))
    np.add(x, first, x)
    np.add(y, second, y)
    step = max(CACHED_ELEMENTS // max(pairs, 1), 1)
    for start in range(0, count, step):
        some = slice(start, start + step)
        _hash(x[some], y[some], [part[some] for part in schedule])
    return result[:, :size]


def _in_c(keys: np.ndarray, size: int) -> np.ndarray:
    rows = np.empty((len(keys), size + size % 2), np.uint32)
    native.random_words(rows, np.ascontiguousarray(keys), size % 2)
    return rows[:, :size]


def chain(key: np.ndarray, count: int) -> np.ndarray:
    """Return a key split `count` times, an array of shape (count, 2, 2). Each row is split from the first key of the
    row before."""
    if native is not None:
        links = np.empty((count, 2, 2), np.uint32)
        for link in links:
            native.random_words(link.reshape(1, 4), key[None], 0)
            key = link[0]
        return links
    first, second = key.tolist()
    pieces = []
    for _ in range(count):
        both = _few(first, second, 2, 4)
        pieces.append(both.to_bytes(32, "little"))
        first, second = both & _WORD, both >> 64 & _WORD
    return np.frombuffer(b"".join(pieces), np.uint64).astype(np.uint32).reshape(count, 2, 2)


@lru_cache(2 * MANY_ROWS)
def _lanes(pairs: int, size: int) -> tuple[int, int, int]:
    """Return three Python integers with a 64-bit lane for each pair. The lanes hold a 1, the low counter and the high
    counter."""
    ones = sum(1 << 64 * k for k in range(pairs))
    low = sum(k << 64 * k for k in range(pairs))
    # for an odd size, the last counter has no partner, so 0 is used
    high = sum((pairs + k) % size << 64 * k for k in range(pairs))
    return ones, low, high


def _few(first: int, second: int, pairs: int, size: int) -> int:
    """Return the words of a key as one integer with a 64-bit lane for each word. For an odd `size`, it has one more
    word."""
    ones, low, high = _lanes(pairs, size)
    mask = ones * _WORD
    keys = (first * ones, second * ones, (first ^ second ^ PARITY) * ones)
    x = low + keys[0]
    y = (high + keys[1]) & mask
    for group in range(5):
        for d in ROTATIONS[group & 1]:
            x += y  # the carry of `x` stays in its lane, so only `y` needs a mask
            y = (x ^ (y << d | y >> 32 - d)) & mask
        x += keys[(group + 1) % 3]
        y = (y + keys[(group + 2) % 3] + ones * (group + 1)) & mask
    return (x & mask) | y << 64 * pairs


def _many(schedule: Sequence[int], pairs: int, size: int) -> np.ndarray:
    result = np.arange(2 * pairs, dtype=np.uint32)
    if size % 2:
        result[-1] = 0
    x, y = result[:pairs], result[pairs:]
    keys = [np.array(k, np.uint32) for k in schedule]
    np.add(x, keys[0], x)
    np.add(y, keys[1], y)
    for start in range(0, pairs, CACHED_ELEMENTS):
        _hash(x[start : start + CACHED_ELEMENTS], y[start : start + CACHED_ELEMENTS], keys)
    return result[:size]


_COUNTS = [np.array(k, np.uint32) for k in range(33)]


def _hash(x: np.ndarray, y: np.ndarray, keys: Sequence[np.ndarray]) -> None:
    """Run the twenty rounds of the hash in place."""
    add, left, right, join, mix = np.add, np.left_shift, np.right_shift, np.bitwise_or, np.bitwise_xor
    upper = np.empty_like(y)
    for group in range(5):
        for d in ROTATIONS[group & 1]:
            add(x, y, x)
            left(y, _COUNTS[d], upper)
            right(y, _COUNTS[32 - d], y)
            join(y, upper, y)
            mix(x, y, y)
        add(x, keys[(group + 1) % 3], x)
        add(y, keys[(group + 2) % 3], y)
        add(y, _COUNTS[group + 1], y)
