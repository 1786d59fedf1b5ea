"""Rules of the ops that make keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST

from .noise import random_words
from .rows import one_by_one, takes_several_keys
from .state import CHAIN, LINK, SPLIT
from .threefry import chain

__all__: list[str] = []


@HOST.of(SPLIT)
def _split(out: Aval, params: tuple, key: np.ndarray) -> np.ndarray:
    return random_words(key, out.shape)


takes_several_keys(SPLIT)


@HOST.of(CHAIN)
def _chain(out: tuple[Aval, Aval], params: tuple, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    links = chain(key, params[0])
    return (links[-1, 0].copy() if len(links) else key), links


@HOST.of(LINK)
def _link(out: Aval, params: tuple, links: np.ndarray, row: Any) -> np.ndarray:
    return links[int(row), params[0]]


BATCH.of(SPLIT, LINK)(one_by_one)
