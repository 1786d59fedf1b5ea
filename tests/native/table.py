"""The table of cases: a file of mxcompat/_native with new functions has a new file of cases, which is added here."""

from __future__ import annotations

import mxcompat.core as mx
from mxcompat import nn
from mxcompat._graph.ir.node import Node
from mxcompat._native import native

from . import cases_of_code, cases_of_memory, cases_of_modules, cases_of_nodes, cases_of_products, cases_of_trees
from .cases import Case

__all__ = ["CASES", "SHARED"]

FILES = (cases_of_nodes, cases_of_code, cases_of_trees, cases_of_modules, cases_of_memory, cases_of_products)

CASES: list[Case] = [case for file in FILES for case in file.cases()]

SHARED = (native.Fields, native.Handle, native.Path, Node, mx.array, nn.Module, list, tuple, dict, int, TypeError)
"""Types whose references are counted in every case."""
