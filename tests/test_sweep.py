"""The sweep (`tests.sweep`) is complete: a sample of its cells in every run, all of them under `-m exhaustive`."""

from __future__ import annotations

import random

import mlx.nn
import mlx.optimizers
import mlx.utils
import pytest

from tests.stub import entries
from tests.sweep import behaviours, layers, ops
from tests.sweep.cases import Case, names_in
from tests.sweep.causes import CAUSES
from tests.sweep.comparison import KINDS
from tests.sweep.page import PAGE, faults, mentions, section, share, subject, written
from tests.sweep.worker import Finding, all_cells, sweep

QUICK = 400
MOST = 1.0
"""Limit for the percentage of cells that differ, without derivatives with respect to integers."""


def all_cases() -> list[Case]:
    return [*ops.cases(), *layers.cases(), *behaviours.cases()]


def test_every_callable_is_swept_or_has_a_reason() -> None:
    public = {e.name for e in entries() if e.kind in ("function", "method")}
    swept = set().union(*[names_in(case.expression) for case in all_cases()])
    assert not public - swept - set(ops.NOT_SWEPT)
    assert not swept & set(ops.NOT_SWEPT), "swept after all"
    assert set(ops.NOT_SWEPT) <= public, "no public name"


@pytest.mark.parametrize("package", ["nn", "nn.losses", "nn.init", "optimizers", "utils"])
def test_every_name_of_the_packages_is_swept_or_has_a_reason(package: str) -> None:
    module = {
        "nn": mlx.nn, "nn.losses": mlx.nn.losses, "nn.init": mlx.nn.init, "optimizers": mlx.optimizers,
        "utils": mlx.utils,
    }[package]  # fmt: skip
    home = f"mlx.{package}"
    public = {
        name
        for name, value in vars(module).items()
        if name[0] != "_" and callable(value) and getattr(value, "__module__", "").startswith(home)
    }
    prefix = package.replace("optimizers", "optim") + "."
    text = " ".join(case.expression for case in all_cases())
    missing = {name for name in public if f"{prefix}{name}" not in text}
    assert missing == set(layers.NOT_SWEPT.get(package, ()))


def test_a_sample_of_the_cells() -> None:
    cells = [cell for cell in all_cells() if cell.way != "xla"]  # each needs a compile
    sample = sorted(random.Random(4).sample(cells, QUICK))
    wrong = faults(list(sweep(sample, processes=1)))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.exhaustive
def test_all_cells_and_the_page() -> None:
    cells = all_cells()
    findings = list(sweep(cells))
    wrong = faults(findings)
    assert not wrong, "\n".join(map(str, wrong))
    assert share(findings, len(cells)) < MOST
    page = PAGE.read_text()
    now = written(page, section(findings, len(cells)))
    by_chance = {cause.reason for cause in CAUSES if cause.by_chance}
    before, after = ({r: seen for r, seen in mentions(p).items() if r not in by_chance} for p in (page, now))
    assert before == after, "run python -m tests.sweep --write"


def test_what_is_seen_by_chance_is_on_the_page() -> None:
    """Assert that the page lists every cause that appears by chance. Comparisons of the page's causes omit these."""
    assert {cause.reason for cause in CAUSES if cause.by_chance} <= mentions(PAGE.read_text()).keys()


def test_a_difference_is_noticed_and_explained_or_not() -> None:
    unknown = Finding("mx.exp(x)", "float32", "plain", "elementwise", "value", "1", "2")
    known = Finding("mx.all(x)", "float32", "jvp", "reductions", "value", "1", "2")
    integer = known._replace(dtype="int32", way="vjp")
    refused = unknown._replace(what=next(iter(KINDS)))
    assert faults([unknown, known, integer, refused]) == [unknown]
    assert share([unknown, known, integer, refused], 8) == 25.0


def test_the_section_can_be_read_back() -> None:
    integer = Finding("x << y", "int32", "vjp", "elementwise", "value", "1", "2")
    page = written(PAGE.read_text(), section([integer], 10))
    ((reason, names),) = mentions(page).items()
    assert reason.startswith("Derivatives with respect to integers")
    assert names == {"<<"} == {subject(integer.expression)}
