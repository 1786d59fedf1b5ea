"""Cases of mxcompat/_native/modules.c."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mxcompat.core as mx
from mxcompat import nn
from mxcompat._native import native

from .cases import Case
from .cases_of_trees import Backwards, Closed, Shut, deep

__all__ = ["cases"]

a, b, c = (mx.zeros((1,)) for _ in range(3))


def _module(**entries: Any) -> nn.Module:
    module = nn.Module()
    for name, value in entries.items():
        module[name] = value
    return module


class Startless:
    """A name whose `startswith` raises."""

    def startswith(self, text: str) -> bool:
        raise RuntimeError("not to be known")


class Classless:
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise RuntimeError("of no class")


class Disguised:
    """A dictionary by its `__class__` alone, as a compiled module is a module."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return dict


class Sealed:
    """A stand-in for the names that are frozen."""

    def __contains__(self, name: str) -> bool:
        raise RuntimeError("sealed")


class Unprinted:
    """A key that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def _of_parameters() -> Iterator[Case]:
    parameters = native.parameters
    inner = nn.Linear(1, 1)
    mixed = _module(
        w=a, _hidden=b, n=3, d={"a": a, "_b": b, 3: inner}, l=[a, inner, [b, {}], None], r=Backwards([a, inner]), e={},
        f=nn.relu,
    )  # fmt: skip
    frozen = _module(w=a, d={"a": a, 3: b}, l=[a, b])
    frozen._no_grad = {"w", "d.3"}
    sealed = _module(w=a)
    sealed._no_grad = Sealed()
    textless = _module(d={Unprinted(): a})
    textless._no_grad = {"x"}
    startless, numbered = _module(w=a), _module(w=a)
    dict.__setitem__(startless, Startless(), b)
    dict.__setitem__(numbered, 3, b)
    bare = _module(w=a)
    object.__delattr__(bare, "_no_grad")

    yield Case("parameters", "all", parameters, (mixed, False))
    yield Case("parameters", "trainable", parameters, (mixed, True))
    yield Case("parameters", "some frozen", parameters, (frozen, True))
    yield Case("parameters", "what stands for others", parameters, (_module(w=a, d=[Disguised()]), False))
    yield Case("parameters", "what has no class", parameters, (_module(w=a, d=Classless()), False))
    yield Case("parameters", "frozen names that fail", parameters, (sealed, True), RuntimeError)
    yield Case("parameters", "a key without a text", parameters, (textless, True), RuntimeError)
    yield Case("parameters", "a name that is none", parameters, (numbered, False), AttributeError)
    yield Case("parameters", "a name that fails", parameters, (startless, False), RuntimeError)
    yield Case("parameters", "no frozen names", parameters, (bare, True), AttributeError)
    yield Case(
        "parameters", "a list that cannot be walked", parameters, (_module(w=a, l=Closed()), False), RuntimeError
    )
    yield Case("parameters", "too many levels", parameters, (_module(l=deep([a])), False), RecursionError, calls=100)
    yield Case("parameters", "no module", parameters, ({}, False), TypeError)
    yield Case("parameters", "one argument", parameters, (mixed,), TypeError)


class Unset(dict):
    def __setitem__(self, key: Any, value: Any) -> None:
        raise RuntimeError("not to be set")


def _of_replace() -> Iterator[Case]:
    replace = native.replace
    model = nn.Sequential(nn.Linear(1, 1), nn.relu)
    levels: Any = deep([a])
    key = Startless()
    yield Case("replace", "some", replace, (model, {"layers": [{"weight": a, "bias": b}, {}]}))
    yield Case("replace", "none", replace, (model, {}))
    yield Case("replace", "a name that is not there", replace, (model, {"other": a}))
    yield Case("replace", "more layers than there are", replace, (model, {"layers": [{}, {}, {}]}))
    yield Case("replace", "what is no array", replace, (model, {"layers": [{"weight": 3}]}))
    yield Case("replace", "an array over a tree", replace, (model, {"layers": a}))
    yield Case("replace", "a key that is no name", replace, ({key: a}, {key: b}))
    yield Case("replace", "one that cannot be set", replace, (Unset(w=a), {"w": b}), RuntimeError)
    yield Case("replace", "too many levels", replace, (levels, levels), RecursionError, calls=100)
    yield Case("replace", "one argument", replace, (model,), TypeError)


def _of_gather() -> Iterator[Case]:
    gather = native.gather
    gradients = {"w": a, "l": [b, {"k": c}]}
    parameters = {"w": b, "l": [c, {"k": a}]}
    state = {"w": {"m": a}, "l": [{}, {"k": {"v": b}}]}
    levels: Any = deep(a)
    yield Case("gather", "leaves", gather, lambda: (gradients, parameters, state, [], None))
    yield Case("gather", "leaves and places", gather, lambda: (gradients, parameters, state, [], []))
    yield Case("gather", "tuples", gather, lambda: ((a, (b,)), (b, (c,)), ({}, ({},)), [], None))
    yield Case("gather", "a list of a subclass", gather, lambda: (Backwards([a, b]), [b, c], [{}, {}], [], []))
    for name, arguments, error in (
        ("a tuple that has no place", ((a,), (b,), ({},)), ValueError), ("no parameter", ({"w": a}, {}, {}), KeyError),
        ("no state", ({"w": a}, {"w": b}, {}), KeyError), ("a shorter list", ([a], [], []), IndexError),
        ("parameters that cannot be read", ({"w": a}, Shut(), {}), RuntimeError), ("no tree", (1, {}, {}), TypeError),
        ("a list that cannot be walked", ({"l": Closed()}, {"l": []}, {"l": []}), RuntimeError),
        ("too many levels", (levels, levels, levels), RecursionError),
    ):  # fmt: skip
        calls = 100 if error is RecursionError else 10_000
        yield Case("gather", name, gather, lambda arguments=arguments: (*arguments, [], []), error, calls=calls)
    yield Case("gather", "a tuple to append to", gather, (gradients, parameters, state, (), None), TypeError)
    yield Case("gather", "four arguments", gather, (gradients, parameters, state, []), TypeError)


def _of_leaves() -> Iterator[Case]:
    operands, assign = native.operands, native.assign
    leaves = [(a, b, {"m": c, "v": a}), (c, b, {})]
    results = [mx.array(float(k)) for k in range(5)]
    yield Case("operands", "two leaves", operands, (leaves,))
    yield Case("operands", "none", operands, ([],))
    for name, leaf in (("gradient", (1.0, a, {})), ("parameter", (a, 1.0, {})), ("state", (a, b, c))):
        yield Case("operands", f"a {name} that is none", operands, ([(a, b, {}), leaf],))
    yield Case("operands", "a state of what is no array", operands, ([(a, b, {"m": a, "v": 2})],))
    yield Case("operands", "a leaf of two", operands, ([(a, b)],), IndexError)
    yield Case("operands", "a leaf that is none", operands, ([3],), SystemError)
    yield Case("operands", "leaves in a tuple", operands, ((),), TypeError)

    yield Case("assign", "two leaves", assign, (leaves, results))
    yield Case("assign", "none", assign, ([], []))
    yield Case("assign", "fewer results", assign, (leaves, results[:2]), IndexError)
    yield Case("assign", "no results", assign, (leaves, []), IndexError)
    yield Case("assign", "a leaf of two", assign, ([(a, b)], results), IndexError)
    yield Case("assign", "a leaf that is none", assign, ([3], results), SystemError)
    yield Case("assign", "a state that is none", assign, ([(a, b, 3)], results))
    yield Case("assign", "results in a tuple", assign, (leaves, ()), TypeError)
    yield Case("assign", "one argument", assign, (leaves,), TypeError)


def cases() -> Iterator[Case]:
    for some in (_of_parameters, _of_replace, _of_gather, _of_leaves):
        yield from some()
    yield Case("connect_modules", "the same again", native.connect_modules, (nn.Module,))
