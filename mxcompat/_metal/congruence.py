"""Congruences of integers: the remainder of the base of an affine form, modulo a number.

A congruence is a pair (modulus, residue). The modulus is 0 if the number is known, and 1 if nothing is known. So the
base `256 * k` of a loop's counter can be divided by 8, and a read at `row[i] * 32 + column` is one of rows.
"""

from __future__ import annotations

from math import gcd

from .types import ScalarType

__all__ = ["UNKNOWN", "Congruence", "joined", "product", "reduced", "total", "within", "wrapped"]

Congruence = tuple[int, int]

UNKNOWN: Congruence = (1, 0)


def reduced(modulus: int, residue: int) -> Congruence:
    """Return a congruence with its residue between 0 and the modulus."""
    return modulus, residue % modulus if modulus else residue


def total(a: Congruence, b: Congruence, sign: int = 1) -> Congruence:
    """Return the congruence of a sum or, if `sign` is -1, of a difference."""
    return reduced(gcd(a[0], b[0]), a[1] + sign * b[1])


def product(a: Congruence, b: Congruence) -> Congruence:
    return reduced(gcd(a[0] * b[0], a[0] * b[1], b[0] * a[1]), a[1] * b[1])


def joined(a: Congruence, b: Congruence) -> Congruence:
    """Return the congruence that two numbers both have."""
    return reduced(gcd(a[0], b[0], a[1] - b[1]), a[1])


def within(type: ScalarType, low: int | None, high: int | None, a: Congruence) -> Congruence:
    """Return the congruence of a number that is stored in a type. Wraparound keeps it only modulo powers of two."""
    if a[0] == 1 or type.kind == "i" or (low is not None and high is not None and type.low <= low <= high <= type.high):
        return a  # the overflow of a signed integer is undefined
    return wrapped(type.bits, a)


def wrapped(bits: int, a: Congruence) -> Congruence:
    """Return the congruence of a number that is wrapped around to a number of bits."""
    return reduced(gcd(a[0], 1 << bits), a[1])
