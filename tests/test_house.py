"""House rules for names and imports, checked with `ast`.

`__all__` means one thing everywhere: the names that other modules of mxcompat take from a module. In a public module
(no part of its name begins with an underscore) it also lists the names for users.
"""

import ast
from collections import defaultdict

from .test_project import SOURCES, module_name, tree_of

TREES = {module_name(path): tree_of(path) for path in SOURCES}
PACKAGES = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
POLICY = {name for name in TREES if name.startswith("mxcompat._graph.policy")}
MODULES = sorted(set(TREES) - PACKAGES - {"mxcompat.__main__"} - POLICY)

MLX_HAS_IT = {("mxcompat._array.printing", "_PrintOptionsContext")}
"""Names that MLX itself uses."""

FOR_OTHERS = {
    "mxcompat._metal.signature": {"ATTRIBUTES"},
    "mxcompat._ops.fast.metal": {"run_kernel"},
    "mxcompat._ops.fast.metal_contract": {"input_nodes", "signature_of"},
    "mxcompat._tools.running": {"as_mlx"},
    "mxcompat._distributed.launch": {"launch_jaccl", "launch_ring"},
}
"""Names used only by `pytest_mxcompat`, which is outside the package, by a test, or by programs written for MLX."""


def source(node, module):
    """Return the full name of the module that an import statement names."""
    if not node.level:
        return node.module
    package = module.split(".") if module in PACKAGES else module.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def taken_by(module):
    """Return the names that a module takes from others of mxcompat.

    These are `from other import name`, and `other.name` of an imported module.
    """
    imported = {}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom):
            for item in node.names:
                whole = f"{source(node, module)}.{item.name}"
                if whole in TREES:
                    imported[item.asname or item.name] = whole
                elif source(node, module) in TREES:
                    yield source(node, module), item.name
        elif isinstance(node, ast.Import):
            imported |= {item.asname: item.name for item in node.names if item.asname and item.name in TREES}
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield imported[node.value.id], node.attr


TAKEN = defaultdict(set)
for _module in TREES:
    for _other, _name in taken_by(_module):
        TAKEN[_other].add(_name)


def assigned(tree):
    """Yield each name that a module defines, and its value if it is assigned one."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from ((name.id, node.value) for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, node.value
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, None


NAMES = {module: dict(assigned(TREES[module])) for module in MODULES}
PRIVATE = [module for module in MODULES if any(part.startswith("_") for part in module.split("."))]


def exported(module):
    """Return the names in a module's `__all__`."""
    return set(ast.literal_eval(NAMES[module]["__all__"]))


def offenders(names_of, modules=MODULES):
    """Return the modules for which a function returns names, with these names."""
    return {module: names for module in modules if (names := names_of(module))}


def test_every_module_has_all():
    missing = [module for module in MODULES if "__all__" not in NAMES[module]]
    assert not missing, "say what others may take; an empty list if nothing"


def test_all_is_what_others_take():
    unlisted = offenders(lambda module: TAKEN[module] - exported(module))
    assert not unlisted, "taken, but not in __all__"
    unused = offenders(lambda module: exported(module) - TAKEN[module] - FOR_OTHERS.get(module, set()), PRIVATE)
    assert not unused, "in __all__, but taken by nobody"
    elsewhere = offenders(lambda module: exported(module) - set(NAMES[module]), PRIVATE)
    assert not elsewhere, "to be taken from the modules that define them"


def left_over(module):
    registered = {node.name for node in TREES[module].body if getattr(node, "decorator_list", ())}
    read = {node.id for node in ast.walk(TREES[module]) if isinstance(node, ast.Name) and type(node.ctx) is ast.Load}
    unused = set(NAMES[module]) - read - exported(module) - registered - FOR_OTHERS.get(module, set())
    return {name for name in unused if not name.startswith("__")}


def test_nothing_is_left_over():
    """Assert that each definition is read in its module or taken by another. Rules are exempt: a decorator registers
    them."""
    assert not offenders(left_over)


def test_no_module_takes_what_is_private_to_another():
    private = {(module, n) for module, names in TAKEN.items() for n in names if n[0] == "_" and n[:2] != "__"}
    assert private == MLX_HAS_IT


def test_every_threshold_is_read():
    """Assert that another module reads every name of `policy`."""
    own = {  # read by the functions that set limits
        "GROWN_SHARE", "MOST_CACHE_BYTES", "OTHER_SHARE", "_default_cache_bytes",
        "_given_cache_bytes",
    }  # fmt: skip
    assert {name for module in POLICY for name, _ in assigned(TREES[module])} - own == TAKEN["mxcompat._graph.policy"]


def test_these_checks_see_what_there_is():
    assert "sin" in TAKEN["mxcompat._ops.elementwise.unary"]
    assert "LARGE_GRAPH" in TAKEN["mxcompat._graph.policy"]
    assert "linearize" in TAKEN["mxcompat._graph.ir.linearize"]
    assert len(MODULES) > 200
