"""Calls with one argument replaced, on both sides: a few by default, 100 000 with `-m exhaustive`."""

from __future__ import annotations

import pytest

from tests.fuzz.campaign import Ending, campaign, fault, table
from tests.fuzz.mutations import call


def faults(numbers: range) -> list[str]:
    endings = list(campaign(numbers, processes=1))
    print(table(endings))
    assert len(endings) == len(numbers)
    assert sum(ours.how == real.how == "value" for _, ours, real in endings) > len(endings) / 20
    wrong = [(fault(ours, real), number, ours, real) for number, ours, real in endings]
    return [f"{what} | {call(number)} | {ours} | MLX: {real}" for what, number, ours, real in wrong if what]


def test_a_few() -> None:
    wrong = faults(range(150))
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
def test_many() -> None:
    wrong = faults(range(100_000))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("ours", "real", "what"),
    [
        (Ending("crash", "-6"), Ending("value", "array"), "crash"),
        (Ending("hang", "-27"), Ending("error", "TypeError"), "hang"),
        (Ending("hang", "-27"), Ending("hang", "-27"), ""),
        (Ending("hang", "-27"), Ending("error", "MemoryError"), ""),
        (Ending("hang", "-27"), Ending("crash", "-6", "what(): std::bad_alloc"), ""),
        (Ending("error", "TypeError", "'numpy.str_' object is no integer"), Ending("error", "TypeError"), ""),
        (Ending("error", "KeyError", "'a'"), Ending("error", "TypeError"), "KeyError is no exception of MLX's"),
        (Ending("error", "KeyError", "'a'"), Ending("error", "KeyError"), ""),
        (Ending("error", "ValueError", "lax.add got 1"), Ending("value", "array"), "words of the inside"),
        (Ending("error", "TypeError", "Expected an array, got numpy.ndarray."), Ending("error", "TypeError"), ""),
        (Ending("error", "TypeError", "numpy.linalg failed"), Ending("error", "TypeError"), "words of the inside"),
        (Ending("error", "JaxRuntimeError", ""), Ending("crash", "-6"), "JaxRuntimeError is no exception of MLX's"),
        (Ending("value", "array"), Ending("error", "ValueError"), ""),
        (Ending("error", "NameError", "name 'x' is not defined"), Ending("crash", "-6"), ""),
        (Ending("error", "AttributeError", "'list' object has no attribute 'astype'"), Ending("crash", "-11"), ""),
        (
            Ending("error", "AttributeError", "'array' object has no attribute 'list'"),
            Ending("crash", "-6"),
            "AttributeError is no exception of MLX's",
        ),
    ],
)
def test_what_a_fault_is(ours: Ending, real: Ending, what: str) -> None:
    assert fault(ours, real) == what
