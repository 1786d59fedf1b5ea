"""Congruences: facts about the base of an affine form, such as "it is 3 modulo 8".

A congruence (modulus, residue) means that an integer is `residue` plus a multiple of `modulus`. Modulus 0 means that
the integer is `residue`, and modulus 1 that nothing is known.

For the counter k of a loop, `256 * k` is known to be a multiple of 8, so its quotient by 8 is exact. A read at
`row[i] * 32 + column` is known to begin at the same column of each row of 32, so whole rows can be gathered.
"""

from __future__ import annotations

from math import gcd

from .types import ScalarType

__all__ = ["UNKNOWN", "Congruence", "joined", "product", "reduced", "total", "within", "wrapped"]

Congruence = tuple[int, int]

UNKNOWN: Congruence = (1, 0)


def reduced(modulus: int, residue: int) -> Congruence:
    """Return the congruence with its residue reduced modulo the modulus."""
    return modulus, residue % modulus if modulus else residue


def total(a: Congruence, b: Congruence, sign: int = 1) -> Congruence:
    """Return the congruence of the sum of two integers or, if `sign` is -1, of their difference."""
    return reduced(gcd(a[0], b[0]), a[1] + sign * b[1])


def product(a: Congruence, b: Congruence) -> Congruence:
    return reduced(gcd(a[0] * b[0], a[0] * b[1], b[0] * a[1]), a[1] * b[1])


def joined(a: Congruence, b: Congruence) -> Congruence:
    """Return the strictest congruence that holds for integers with either of two congruences."""
    return reduced(gcd(a[0], b[0], a[1] - b[1]), a[1])


def within(type: ScalarType, low: int | None, high: int | None, a: Congruence) -> Congruence:
    """Return the congruence of an integer that is stored in a type. Wraparound keeps it only modulo powers of two."""
    if a[0] == 1 or type.kind == "i" or (low is not None and high is not None and type.low <= low <= high <= type.high):
        return a  # the overflow of a signed integer is undefined
    return wrapped(type.bits, a)


def wrapped(bits: int, a: Congruence) -> Congruence:
    """Return the congruence of an integer after wraparound to this number of bits."""
    return reduced(gcd(a[0], 1 << bits), a[1])
