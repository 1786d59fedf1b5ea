"""The notice of a long compile: shown once, and only at a terminal that waits for it."""

import io
import threading
from types import SimpleNamespace

import pytest

import mxcompat as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background, notice


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(notice, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(policy, "NOTICE_SECONDS", 0.0)
    monkeypatch.setattr(notice, "_said", threading.Event())
    return terminal


def test_a_long_compile_says_so_once(terminal):
    for _ in range(2):
        with notice.if_long(1234):
            assert notice._said.wait(30)
    assert terminal.getvalue().count("XLA is compiling a program of 1234 operations") == 1


def test_compiles_are_within_it(terminal, xla_only):
    mx.eval(mx.tan(mx.ones((3, 11, 13)) + 4))
    assert notice._said.is_set()


def test_a_short_one_says_nothing(terminal, monkeypatch):
    monkeypatch.setattr(policy, "NOTICE_SECONDS", 3600.0)
    with notice.if_long(1234):
        pass
    assert terminal.getvalue() == ""


def test_nothing_is_said_outside_a_terminal(terminal, monkeypatch):
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    with notice.if_long(1234):
        assert threading.active_count() == len(threading.enumerate())
    assert not notice._said.wait(0.05)


def test_nobody_waits_for_what_is_compiled_in_the_background(terminal):
    def job():
        with notice.if_long(1234):
            notice._said.wait(0.05)

    background.submit(job)
    background.settle()
    assert not notice._said.is_set()
