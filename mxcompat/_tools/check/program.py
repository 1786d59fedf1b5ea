"""Check one program: visit its syntax tree once and look up every use of MLX."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from .findings import Finding, Report
from .kernels import look_at_kernel, template_kinds
from .names import foreign_module, has_attribute, is_mlx, lookup, missing, parameters
from .scopes import Scope
from .slow import slow
from .types import ARRAY, Instance, Known, Types, called

__all__ = ["look_through"]

_KERNELS = {Known(f"mlx.core.fast.{language}_kernel"): language for language in ("metal", "cuda")}
_COMPILED_KERNEL = "mlx.core.fast.precompiled_cuda_kernel"
_OTHER_WAYS = "write it with mx operations, or in JAX or Pallas by mxcompat.ext.jax_function"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_EXPECTED = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}


def look_through(tree: ast.Module, path: str, report: Report) -> None:
    """Add the findings for a program to the report."""
    _Program(tree, path, report).look()


class _Program:
    def __init__(self, tree: ast.Module, path: str, report: Report) -> None:
        self.tree = tree
        self.path = path
        self.report = report
        self.names: set[str] = set()
        self.found: dict[Finding, None] = {}  # a dict keeps the order and drops duplicates
        self.types = Types()
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        self.stored = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        self.loops: list[ast.AST] = []
        self.guarded = False
        self.asked: dict[Scope, set[str]] = defaultdict(set)  # the expressions that the program tests, by scope

    def look(self) -> None:
        self._visit(self.tree, Scope(self.tree))
        self.report.files += bool(self.names)
        self.report.names |= self.names
        self.report.findings += self.found

    def _say(self, node: ast.AST, kind: str, message: str, cure: str = "") -> None:
        self.found[Finding(self.path, getattr(node, "lineno", 1), kind, message, cure)] = None

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        outer, guarded = self.loops, self.guarded
        if node in scope.inner:
            inner = scope.inner[node]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                self.loops = []  # the body runs when the function is called, not in the loop
            for child in ast.iter_child_nodes(node):
                self._visit(child, scope if _is_outside(node, child) else inner)
        elif isinstance(node, ast.Try):
            self.guarded = guarded or _expects(node)
            for child in node.body:
                self._visit(child, scope)
            self.guarded = guarded
            for child in (*node.handlers, *node.orelse, *node.finalbody):
                self._visit(child, scope)
        else:
            self._inspect(node, scope)
            if isinstance(node, _LOOPS):
                self.loops = [*outer, node]
            for child in ast.iter_child_nodes(node):
                self._visit(child, scope)
        self.loops, self.guarded = outer, guarded

    def _inspect(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in _imports(node):
                self._note_use(node, name)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, scope)
        elif isinstance(node, ast.Call):
            self._note_type_tests(node, scope)
            self._call(node, scope)
        if self.loops or isinstance(node, (ast.For, ast.comprehension)):
            for message, cure in slow(node, self.loops, scope, self.types):
                self._say(node if hasattr(node, "lineno") else node.iter, "slow", message, cure)  # type: ignore[attr-defined]

    def _note_use(self, node: ast.AST, name: str, asked: bool = False) -> None:
        """Record the use of an MLX name."""
        self.names.add(name)
        other = foreign_module(name)
        if other is not None:
            self._say(node, "other", f"{other} is a module of another distribution's, which is imported as it is")
            return
        lacking = missing(name)
        if lacking is not None:
            self._report_missing(node, lacking, asked)
        elif name == _COMPILED_KERNEL:
            self._say(
                node, "kernel", "a compiled kernel cannot run", f"give its source to cuda_kernel, or {_OTHER_WAYS}"
            )

    def _report_missing(self, node: ast.AST, name: str, asked: bool) -> None:
        self._say(node, "guarded" if self.guarded or asked else "missing", f"{name} is not in mxcompat")

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        type_ = self.types.of(node, scope)
        if isinstance(type_, Known):
            self._note_use(node, type_.name, self._is_type_tested(node, scope))
            return
        base = self.types.of(node.value, scope)
        if not isinstance(base, Instance) or not isinstance(node.ctx, ast.Load) or has_attribute(base.cls, node.attr):
            return
        if base == ARRAY or node.attr not in self.stored:  # layers accept any attribute, arrays do not
            self._report_missing(node, f"{_name(base)}.{node.attr}", self._is_type_tested(node.value, scope))

    def _note_type_tests(self, node: ast.Call, scope: Scope) -> None:
        """Record expressions that the program tests with `isinstance` or `hasattr`, if the known type gives False: the
        program then handles another type, too."""
        if not isinstance(node.func, ast.Name) or len(node.args) != 2 or scope.find(node.func.id) is not None:
            return
        about, asked = node.args
        type_ = self.types.of(about, scope)
        if node.func.id == "isinstance" and isinstance(type_, Instance):
            classes = [self.types.of(cls, scope) for cls in _alternatives(asked)]
            objects = [lookup(cls.name) if isinstance(cls, Known) else None for cls in classes]
            if not any(isinstance(cls, type) and issubclass(type_.cls, cls) for cls in objects):
                self.asked[scope].add(ast.unparse(about))
        elif node.func.id == "hasattr" and isinstance(asked, ast.Constant) and isinstance(asked.value, str):
            if isinstance(type_, Known):
                self.asked[scope].add(f"{ast.unparse(about)}.{asked.value}")
            elif isinstance(type_, Instance) and not has_attribute(type_.cls, asked.value):
                self.asked[scope].add(ast.unparse(about))

    def _is_type_tested(self, node: ast.expr, scope: Scope) -> bool:
        texts = {ast.unparse(node)}
        while isinstance(node, ast.Attribute):
            node = node.value
            texts.add(ast.unparse(node))
        where: Scope | None = scope
        while where is not None and texts.isdisjoint(self.asked[where]):
            where = where.parent
        return where is not None

    def _call(self, node: ast.Call, scope: Scope) -> None:
        type_ = self.types.of(node.func, scope)
        language = _KERNELS.get(type_) if type_ is not None else _language_by_name(node.func)  # type: ignore[call-overload]
        if language is not None:
            self.names.add(f"mlx.core.fast.{language}_kernel")
            self._kernel(node, scope, language)
        function = called(type_)
        known = parameters(function) if callable(function) else None
        if known is None:
            return
        for keyword in node.keywords:
            if keyword.arg is not None and keyword.arg not in known:
                text = f"{ast.unparse(node.func)} has no argument named {keyword.arg}"
                self._say(keyword, "argument", text)

    def _kernel(self, node: ast.Call, scope: Scope, language: str) -> None:
        verdict = look_at_kernel(node, scope, template_kinds(self.tree), language)
        cure = _OTHER_WAYS if verdict.kind == "kernel" else ""
        self.found[Finding(self.path, verdict.line or node.lineno, verdict.kind, verdict.message, cure)] = None


def _name(type_: Instance) -> str:
    return "mlx.core.array" if type_ == ARRAY else f"mlx.{type_.cls.__module__.split('.')[1]}.{type_.cls.__name__}"


def _language_by_name(function: ast.expr) -> str | None:
    """Return the language of a kernel that a call of `….fast.metal_kernel` defines, where the module is not known: a
    program may get it from a function."""
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Attribute):
        return None
    language = function.attr.removesuffix("_kernel")
    return language if function.value.attr == "fast" and language in _KERNELS.values() else None


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """Return the classes in the second argument of `isinstance`."""
    if isinstance(node, ast.Tuple):
        return [cls for element in node.elts for cls in _alternatives(element)]
    if isinstance(node, ast.BinOp):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (item.name for item in node.names if is_mlx(item.name))
    elif not node.level and node.module and is_mlx(node.module):
        yield node.module
        yield from (f"{node.module}.{item.name}" for item in node.names if item.name != "*")


def _is_outside(node: ast.AST, child: ast.AST) -> bool:
    """Return True if `child`, a part of a function or class, is evaluated at the definition: decorators, bases,
    defaults."""
    body = getattr(node, "body", None)
    inside = body if isinstance(body, list) else [body]
    comprehension = isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
    return not comprehension and child not in inside


def _expects(node: ast.Try) -> bool:
    """Return True if a `try` handles a missing name."""
    caught = [name for handler in node.handlers for name in _caught(handler)]
    return not _EXPECTED.isdisjoint(caught)


def _caught(handler: ast.ExceptHandler) -> Iterator[str]:
    if handler.type is None:
        yield "BaseException"
    else:
        yield from (node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name))
