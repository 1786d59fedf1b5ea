"""Random kernels, in NumPy and in XLA, against g++."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .kernels import by_numpy, by_oracle, by_xla, compiled, differences, needs_oracle
from .random_kernels import kernels

pytestmark = needs_oracle


def agree(cases, xla):
    """Assert that g++ and mxcompat agree on each of these kernels, which are compiled together."""
    expected = [by_oracle(case, kernel) for case, kernel in zip(cases, compiled(cases), strict=True)]
    results = by_xla(cases) if xla else map(by_numpy, cases)
    for case, want, got in zip(cases, expected, results, strict=True):
        wrong = differences(got, want, 0.0)
        assert not wrong, f"{case.source}\ngroup {case.threadgroup}, init_value {case.init_value}\n" + "\n".join(wrong)


def several(count):
    return st.lists(kernels(), min_size=count, max_size=count)


def a_few(examples):
    return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))


@given(several(8))
@a_few(6)
def test_in_numpy(cases):
    agree(cases, xla=False)


@given(several(4))
@a_few(3)
def test_in_xla(cases):
    agree(cases, xla=True)


@pytest.mark.exhaustive
@given(several(10))
@a_few(300)
def test_many_in_numpy(cases):
    agree(cases, xla=False)


@pytest.mark.exhaustive
@given(several(5))
@a_few(100)
def test_many_in_xla(cases):
    agree(cases, xla=True)
