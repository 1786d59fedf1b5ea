"""Rules for the project as a whole: layers of the code, its files, imports, and promises of the README."""

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "mxcompat").rglob("*.py"))
MOST_LINES = 450  # the aim is about 400

LAYERS = ("_native", "_compat", "_graph", "_metal", "_array", "_distributed", "_ops", "_io", "_transforms", "_export")
"""Layers from the bottom up. A module imports from its own layer and those below. Other folders are public, on top."""


def module_name(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer(module):
    """Return the index of a module's layer. `_version` and `_jax` import nothing of the package, so they are lowest.
    `_started` is in the layer of its imports."""
    parts = module.split(".")
    if parts[1:2] in (["_version"], ["_jax"]):
        return -1
    if parts[1:2] == ["_started"]:
        return LAYERS.index("_compat")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else len(LAYERS)


@cache
def tree_of(path):
    """Return the syntax tree of a file. Callers share it, so they leave it unchanged."""
    return ast.parse(path.read_text())


def for_type_checkers(tree):
    """Return the nodes that only type checkers see."""
    guarded = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    return {node for guard in guarded for statement in guard.body for node in ast.walk(statement)}


def imports(path, for_types=True):
    """Yield the full name of every module that a file imports, at any place in the file, also by `import_module`.

    With `for_types=False`, imports for type checkers alone are left out.
    """
    tree = tree_of(path)
    left_out = set() if for_types else for_type_checkers(tree)
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(tree):
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for item in node.names:
                whole = f"{module}.{item.name}"
                yield from [whole] if whole in MODULES else [module, whole]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "import_module":
            yield from (argument.value for argument in node.args if isinstance(argument, ast.Constant))


MODULES = {module_name(path) for path in SOURCES}


def test_imports_flow_one_way():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        for name in imports(path)
        if name.startswith("mxcompat.") and layer(name) > layer(module_name(path))
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_are_seen():
    """Assert that imports within functions and by `import_module` count."""
    path = ROOT / "mxcompat" / "_tools" / "features.py"
    assert {"mxcompat._graph.passes.barriers", "mxcompat._compat.registry", "pathlib.Path"} <= {*imports(path)}


def test_the_layers_know_their_order():
    assert [layer(f"mxcompat.{name}.x") for name in LAYERS] == list(range(10))
    assert layer("mxcompat.core") == layer("mxcompat") == 10
    imported = list(imports(ROOT / "mxcompat" / "_ops" / "define.py"))
    assert "mxcompat._graph.ir.op" in imported
    assert "mxcompat._array.operands" in imported


def test_no_modules_import_each_other():
    """Assert that modules can be put in an order in which each imports only earlier ones. Packages are left out of the
    imports of their own modules."""
    remaining = {}
    for path in SOURCES:
        module = module_name(path)
        names = MODULES.intersection(imports(path, for_types=False))
        remaining[module] = {name for name in names if not f"{module}.".startswith(f"{name}.")}
    while ready := {module for module, names in remaining.items() if names.isdisjoint(remaining)}:
        remaining = {module: names for module, names in remaining.items() if module not in ready}
    assert not remaining, "these are in an import circle, or import one that is"


def test_files_are_short():
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > MOST_LINES}
    assert not long, f"one idea a file: split these along their seams: {long}"


def test_every_file_says_what_it_is():
    silent = [str(p.relative_to(ROOT)) for p in SOURCES if tree_of(p).body and not ast.get_docstring(tree_of(p))]
    assert not silent


def test_nothing_stray_is_kept():
    """Assert that no output of programs or tests is committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {".ci", ".github", "docs", "examples", "mxcompat", "tests"}
    files = {".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md"}
    files |= {"mkdocs.yml", "pyproject.toml", "pytest_mxcompat.py", "setup.py"}
    assert {name.split("/")[0] for name in kept} <= folders | files


def unpromised_names(path):
    """Yield the names in a file that JAX, jaxlib and CPython do not promise: their private modules, also in a string,
    private attributes of imported modules, and reference counts."""
    tree = tree_of(path)
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for name in imports(path):
        if not name.startswith(("mxcompat", "__future__")):
            private = any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
            if private or name.startswith(("jaxlib", "sys.getrefcount", "jax.experimental.serialize_executable")):
                yield name
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    modules = {item.asname or item.name.partition(".")[0] for node in plain for item in node.names}
    modules |= {"jax", "lax", "jnp", "mlir", "ad", "batching"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            whole = f"{node.value.id}.{node.attr}"
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            # `os._exit` is in Python's documentation
            if whole != "os._exit" and (private or node.attr == "getrefcount"):
                yield whole
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield from re.findall(r"\bjax\._src\b[\w.]*|\bjaxlib\.[\w.]+|\b_getframe\b|\bgetrefcount\b", node.value)


def test_one_folder_has_what_is_not_promised():
    unpromised = {p.relative_to(ROOT).as_posix(): [*unpromised_names(p)] for p in SOURCES}
    elsewhere = {name: names for name, names in unpromised.items() if names and "/_compat/" not in name}
    assert elsewhere == {}


def test_what_is_not_promised_is_seen():
    unpromised = {p.name: {*unpromised_names(p)} for p in SOURCES if p.parent.name == "_compat"}
    assert {"jax._src.lib", "jaxlib._jax"} <= unpromised["jax_internals.py"]
    assert {"jaxlib.mlir.ir", "jaxlib.mlir.dialects.stablehlo"} <= unpromised["dialects.py"]
    assert {"jax._src.api", "threading._shutdown", "atexit._run_exitfuncs"} <= unpromised["processes.py"]
    assert "jax.experimental.serialize_executable" in unpromised["xla.py"]
    assert "sys.getrefcount" in unpromised["references.py"]
    assert {"sys._getframe", "_signal"} <= unpromised["python.py"]


def run(code):
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_importing_and_using_it_changes_no_setting_of_jax():
    run("""
import jax
before = dict(jax.config.values)
import mxcompat as mx
import mxcompat.core, mxcompat.nn, mxcompat.optimizers, mxcompat.utils, mxcompat.ext, mxcompat.testing
assert dict(jax.config.values) == before
x = mx.array([1.0, 2.0], dtype=mx.float64)
mx.eval(mx.grad(lambda x: (x * x).sum())(x))
assert dict(jax.config.values) == before
assert jax.numpy.arange(3.0).dtype == "float32" and jax.numpy.arange(3).dtype == "int32"
""")


def test_the_import_loads_little():
    out = run("import sys, mxcompat; print([m for m in sys.modules if m.startswith('mxcompat.')])")
    loaded = set(ast.literal_eval(out))
    for name in ("nn", "optimizers", "ext", "testing"):
        assert f"mxcompat.{name}" not in loaded
    assert "mxcompat.core" in loaded


def test_the_import_loads_little_of_jax():
    """Assert that the import loads few modules of JAX beyond `import jax`. Those would add a fifth to the time."""
    out = run("import sys, jax; jaxs = {*sys.modules}; import mxcompat.nn; print(sorted({*sys.modules} - jaxs))")
    assert not [name for name in ast.literal_eval(out) if name.startswith("jax")]


def test_the_top_level_has_all_of_core_and_the_packages():
    import mxcompat

    for name in dir(mxcompat.core):
        if not name.startswith("__"):
            assert getattr(mxcompat, name) is getattr(mxcompat.core, name)
    for name in ("nn", "optimizers", "utils", "ext", "testing"):
        assert getattr(mxcompat, name).__name__ == f"mxcompat.{name}"
        assert name in dir(mxcompat)
    with pytest.raises(AttributeError, match="no_such_name"):
        mxcompat.no_such_name  # noqa: B018


def readme_commands():
    return re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.S)


def test_the_readme_has_one_command_to_run_and_one_to_test():
    main, tests = readme_commands()
    assert main.startswith("python3 -m venv .venv && .venv/bin/pip install -e '.[examples]' && ")
    assert main.endswith(".venv/bin/python -m mxcompat examples/digits.py")
    assert tests.endswith(".venv/bin/python -m pytest -n auto")


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert script.count("    " + readme_commands()[1]) == 1
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def _program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def _fake_python(path, version):
    """Write a fake Python that reports this version and creates environments; as 3.13 it fails its tests."""
    tests = f"echo tested by {version}; {'exit 1' if version == '3.13' else 'exit 0'}"
    _program(
        path,
        f"""
case "$*" in
    *ensurepip*) echo "{version} $0" ;;
    *python-*) echo "python-{version}.0" ;;
    *"-m venv .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/pip ;;
    *"-m pytest"*) {tests} ;;
esac
""",
    )


_TOOLS = "awk bash cat chmod cp cut dirname grep mkdir mktemp rm sed sh sort tar uniq"


def _run_ci(home, **environment):
    for tool in _TOOLS.split():  # hide the machine's own Pythons
        if not (home / "bin" / tool).exists():
            (home / "bin" / tool).symlink_to(shutil.which(tool))
    environment = {"HOME": str(home), "PATH": f"{home}/bin", "PYENV_ROOT": str(home / "pyenv"), **environment}
    command = [shutil.which("bash"), ROOT / ".ci" / "run"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return process.returncode, re.findall("tested by (.*)", process.stdout), process.stdout + process.stderr


def test_ci_tests_with_the_oldest_and_the_newest_python(tmp_path):
    for version in ("3.11", "3.12", "3.14"):
        _fake_python(tmp_path / "pyenv" / "versions" / f"{version}.1" / "bin" / "python3", version)
    for name in ("python3", "python3.15"):  # names without a version, as pyenv installs them
        _program(tmp_path / "bin" / name, "exit 127")
    for version in ("3.11", "3.12", "3.13"):
        _fake_python(tmp_path / "bin" / f"python{version}", version)
    assert _run_ci(tmp_path)[:2] == (0, ["3.11", "3.14"])
    status, tested, output = _run_ci(tmp_path, MXCOMPAT_CI_PYTHONS="all")
    assert tested == ["3.11", "3.12", "3.13", "3.14"]
    assert status == 1, output  # the failure of 3.13 does not stop the other versions
    one = str(tmp_path / "bin" / "python3.12")
    assert _run_ci(tmp_path, MXCOMPAT_CI_PYTHONS=one)[:2] == (0, ["3.12"])
    assert _run_ci(tmp_path, MXCOMPAT_CI_PYTHONS=str(tmp_path / "none"))[0] != 0


def test_the_readmes_links_lead_somewhere():
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            is_built = target.startswith(
                ("https://", "reference/")
            )  # docs/_build creates the references, see test_docs
            assert is_built or (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_map_has_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `mxcompat/")]
    named = [name for row in rows for name in re.findall(r"`(mxcompat/[\w/]+)`", row)]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in SOURCES} - {"mxcompat"}
    folders |= {parent.as_posix() for f in folders for parent in Path(f).parents} - {"mxcompat", "."}
    assert len(set(named)) == len(named)
    assert set(named) == folders


def test_every_environment_variable_is_documented():
    page = (ROOT / "docs" / "environment.md").read_text()
    documented = set(re.findall(r"`((?:MXCOMPAT|MLX)_\w+)`", page))
    source = "".join(path.read_text() for path in SOURCES)
    read = set(re.findall(r'environ(?:\.get\(|\[)"((?:MXCOMPAT|MLX)_\w+)"', source))
    read |= set(re.findall(r'"((?:MXCOMPAT|MLX)_\w+)" (?:not )?in os\.environ', source))
    assert documented == read


def test_the_readmes_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert float(run(example)) < 1e-6


def test_lint():
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", "."]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize("extra", ["test", "examples", "docs", "cuda", "tpu"])
def test_extras(extra):
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"][extra]


def numbers_at_module_level(path):
    """Return the module-level names that a file binds to numbers, or to expressions of numbers only."""
    for node in tree_of(path).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            plain = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                plain += (ast.Tuple, ast.Load)
            parts = list(ast.walk(node.value))
            numbers = [p.value for p in parts if isinstance(p, ast.Constant) and type(p.value) in (int, float)]
            if any(numbers) and all(isinstance(p, plain) for p in parts):
                yield ast.unparse(node)


FACTS = {
    "_array/constants.py": ["euler_gamma: float = 0.5772156649015329"],
    "_array/construct.py": ["_HEAP_TYPE = 1 << 9"],  # defined by CPython
    "_array/printing.py": ["_EDGE = 3"],  # number of elements per axis that MLX prints
    "_collector.py": ["_DEFAULT_THRESHOLD = 2000", "_OBJECTS_PER_ARRAY = 3"],  # of CPython, and of our arrays
    "_compat/jax_internals.py": ["_LONGEST_ADDRESS = 1024"],
    "_compat/references.py": ["_UNKNOWN = 1 << 40"],  # larger than any count
    "_distributed/launch.py": ["_PORT = 32323"],  # of MLX's launcher
    "_export/functions.py": ["_VERSION = 1"],
    "_export/fusion.py": ["_DEPTH = 11"],  # defined by MLX
    "_graph/ir/aval.py": ["_LONGEST_AXIS = (1 << 31) - 1", "_MOST_BYTES = (1 << 63) - 1"],  # of MLX, and of XLA
    "_graph/ir/trace_stack.py": ["_NO_TRACE = 1 << 62"],  # larger than any trace number
    "_graph/run/chains.py": ["_MOST_ARRAYS, _TEMPORARIES = (32, 16)"],  # of `_native/elementwise.c`
    "_graph/run/heap.py": [
        "_TRIM_THRESHOLD, _MMAP_THRESHOLD = (-1, -3)",
        "_MOST_TRIMMED = (1 << 31) - 1",
    ],  # defined by glibc
    "_compat/aligned_memory.py": ["ALIGNMENT = 64"],  # defined by XLA
    "_io/gguf_blocks.py": ["_Q4_0, _Q4_1, _Q8_0, _BF16 = (2, 3, 8, 30)"],
    "_io/gguf_io.py": ["_STRING, _ARRAY = (8, 9)", "_MOST_AXES = 8", "_ALIGNMENT = 32"],
    "_io/npy.py": ["_LONGEST_HEADER = 10000"],  # a file with a longer header counts as damaged
    "_io/npz.py": ["_MOST_INFLATION = 1100"],
    # defined by MurmurHash
    "_io/order.py": ["_FACTOR, _SEED, _WORD = (14313749767032793493, 3339675911, (1 << 64) - 1)"],
    "_io/safetensors_io.py": ["_LONGEST_HEADER = 100000000"],
    "_metal/signature.py": ["_CONSTANT = 8"],  # of MLX
    "_ops/fast/metal_contract.py": ["_LOW, _HIGH = (-2 ** 31, 2 ** 31 - 1)", "_MOST_THREADS = 1024"],
    "_ops/arguments.py": ["_LOW, _HIGH = (-2 ** 31, 2 ** 31 - 1)"],
    "_ops/elementwise/erf.py": ["_ERF_LIMIT = 3.95"],  # float32 erf(x) rounds to 1 from here on
    "_ops/elementwise/logarithm.py": [
        "_LOG10_OF_2 = 30102999566398119521373889472449302676818988146210854131",
        "_SCALE = 10 ** 56",
    ],
    "_ops/linalg/failures.py": ["_NAN = -4"],  # defined by LAPACK
    "_ops/indexing/plan.py": ["_LIMIT = 1 << 31"],  # the limit of int32
    "_tools/check/kernels.py": ["_MOST_OPEN = 4"],  # template parameters that are tried in all ways
    "_tools/check/texts.py": ["_MOST = 10"],  # names that stand for one another
    "_ops/quantized/fp8.py": ["E4M3_MAX = 448.0", "E2M1_FAR = 2.0 ** 27"],
    "_ops/random/threefry.py": ["PARITY = 466688986", "_WORD = 4294967295"],
}
"""Numbers that are not thresholds: facts of mathematics, file formats and other software."""


def test_thresholds_are_in_one_folder():
    package = ROOT / "mxcompat"
    by_file = {p.relative_to(package).as_posix(): list(numbers_at_module_level(p)) for p in SOURCES}
    thresholds = [by_file.pop(name) for name in list(by_file) if name.startswith("_graph/policy/")]
    assert sum(map(len, thresholds)) > 60
    assert {name: numbers for name, numbers in by_file.items() if numbers} == FACTS


def test_a_threshold_has_a_name_of_its_own():
    """Test that no name is bound twice in the modules of policy. The package imports all, so the last one would win."""
    names = Counter()
    for path in (ROOT / "mxcompat" / "_graph" / "policy").glob("*.py"):
        for node in tree_of(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(n.id for target in targets if target for n in ast.walk(target) if isinstance(n, ast.Name))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_all_rules_are_registered():
    """Assert that `all_rules` imports each module of rules, because the import registers the rules."""
    folder = ROOT / "mxcompat" / "_ops"
    modules = {module_name(path) for path in folder.rglob("*_rules.py") if path.parent != folder}
    assert len(modules) > 10
    assert modules - set(imports(folder / "all_rules.py")) == set()


def test_the_rooms_are_not_crowded():
    graph = {p.name: len(p.read_text().splitlines()) for p in (ROOT / "mxcompat" / "_graph").rglob("*.py")}
    assert max(graph.values()) <= 250, graph
    assert len(list((ROOT / "mxcompat" / "_ops").glob("*.py"))) <= 10
