"""The import of JAX: it happens at first use, and small programs never need it."""

import ast
import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from operator import attrgetter

import pytest

from mxcompat._graph.run import platform

from .test_project import ROOT, SOURCES

WATCHED = """
import os, sys, threading, traceback

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib"):
            frames = traceback.extract_stack(sys._current_frames()[threading.main_thread().ident])
            others = ("_jax.py", "threading.py", "__init__.py")
            own = [f for f in frames if "frozen" not in f.filename and not f.filename.endswith(others)]
            print(f"{name} is imported here:", *traceback.format_list(own[-8:]), sep="\\n", file=sys.stderr, flush=True)
            os._exit(1)

sys.meta_path.insert(0, Watch())
import tempfile
import numpy as np
import mxcompat.core as mx
import mxcompat.nn as nn
import mxcompat.optimizers as optim
import mxcompat.utils
x = mx.array([[1.0, 2.0], [3.0, 4.0]])
"""

SMALL = {
    "arithmetic": "print(mx.ones(3) + 1, -x, x ** 2, mx.exp(x), x == 1, mx.maximum(x, 2))",
    "arrays of data": "print(mx.array([1, 2]), mx.array(np.ones((2, 3))), mx.array(x), mx.array([x[0], x[1]]))",
    "data of arrays": "print(x.tolist(), x[0, 0].item(), np.array(x), float(x[0, 0]), bool(x.any()))",
    "creation": "print(mx.zeros(2), mx.arange(5), mx.eye(3), mx.linspace(0, 1, 3), mx.full((2,), 3.0), mx.tri(3))",
    "dtypes": "print(x.astype(mx.bfloat16), x.astype(mx.int32), x.dtype, mx.issubdtype(x.dtype, mx.floating))",
    "indexing": "x[0] = 1; x[mx.array([1]), 0] += 2; print(x[0], x[:, 1], x[..., None], mx.take(x, mx.array([0])))",
    "movement": "print(x.T, x.reshape(4), mx.concatenate([x, x]), mx.stack([x, x]), mx.pad(x, 1), mx.split(x, 2))",
    "reductions": "print(x.sum(), x.mean(0), x.max(axis=1), mx.argmax(x), mx.softmax(x), mx.cumsum(x), mx.sort(x))",
    "products": "print(x @ x, mx.einsum('ij,jk->ik', x, x), mx.outer(x[0], x[1]), mx.addmm(x, x, x))",
    "linear algebra": "print(mx.linalg.norm(x), mx.linalg.inv(x, stream=mx.cpu), mx.fft.fft(x))",
    "evaluation": "y = x + 1; mx.eval(x, y); mx.async_eval(y * 2); mx.synchronize(); print(y)",
    "streams": """
print(mx.add(x, 1, stream=mx.cpu))
with mx.stream(mx.cpu):
    print(x + 1)
""",
    "devices": "print(mx.default_device(), mx.is_available(mx.gpu), mx.device_info(), mx.default_stream(mx.cpu))",
    "memory": "x = mx.ones((300, 300)); mx.eval(x * 2); print(mx.get_peak_memory(), mx.set_cache_limit(0))",
    "derivatives": """
f = lambda x: (mx.sin(x) * x).sum()
print(mx.grad(f)(x), mx.value_and_grad(f)(x), mx.grad(mx.grad(mx.sin))(x[0, 0]))
print(mx.jvp(f, [x], [x]), mx.vjp(f, [x], [mx.array(1.0)]), mx.checkpoint(f)(x))
""",
    "transforms": "f = lambda x: x * x; print(mx.vmap(f)(x), mx.compile(f)(x), mx.vmap(mx.grad(f))(x[0]))",
    "random numbers": """
mx.random.seed(0)
print(mx.random.normal((3,)), mx.random.uniform(shape=(2,)), mx.random.randint(0, 5, (3,)))
print(mx.random.split(mx.random.key(1)), mx.random.permutation(5), mx.random.categorical(x))
""",
    "files": """
folder = tempfile.mkdtemp()
mx.save(folder + "/x.npy", x), mx.savez(folder + "/x.npz", x=x)
mx.save_safetensors(folder + "/x.safetensors", {"x": x})
print([mx.load(folder + "/x" + kind) for kind in (".npy", ".npz", ".safetensors")], mx.load(folder + "/x.npy") + 1)
""",
    "a large file": """
folder = tempfile.mkdtemp()
mx.save(folder + "/x.npy", mx.ones((300, 300)))
print(mx.load(folder + "/x.npy").sum())
""",
    "training": """
model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = optim.Adam(1e-3)
step = nn.value_and_grad(model, lambda model, x, y: nn.losses.mse_loss(model(x), y))
for _ in range(20):
    loss, gradients = step(model, x, mx.ones((2, 1)))
    optimizer.update(model, gradients)
    mx.eval(loss, model.parameters(), optimizer.state)
print(loss, model)
""",
    "layers": """
print(nn.Embedding(4, 3)(mx.array([1])), nn.Conv2d(1, 2, 3)(mx.ones((1, 4, 4, 1))), nn.GELU()(x), nn.GRU(2, 3)(x))
print(nn.RMSNorm(2)(x), nn.MultiHeadAttention(4, 2)(*[mx.ones((1, 3, 4))] * 3), nn.RoPE(2)(x[None]))
""",
    "mistakes": """
kept = []
mx.compile(lambda x: kept.append(x * 2) or x)(x), mx.vmap(lambda x: kept.append(x * 2) or x)(x)
for mistake in (kept[0].tolist, kept[1].tolist, lambda: mx.vmap(mx.eval)(x), lambda: mx.compile(lambda x: x.item())(x)):
    try:
        mistake()
    except (RuntimeError, ValueError) as error:
        print(traceback.format_exc())
        assert "JAX" not in traceback.format_exc()
""",
    "everything": "import mxcompat; print(mxcompat.ext.debug.cache_info(), mxcompat.ext.sharding, mxcompat.testing)",
}
"""Programs that NumPy's tier computes."""


def run(program: str, **variables: str) -> str:
    environment = {**os.environ, "MXCOMPAT_CACHE": "0", "JAX_PLATFORMS": "cpu", **variables}
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=120
    )
    assert (process.returncode, process.stderr) == (0, ""), process.stdout + process.stderr
    return process.stdout


def test_small_programs_do_not_import_it():
    """Assert that no small program imports JAX. They run in one process, and each prints its name and a result."""
    each = 'exec(program, {**globals(), "x": mx.array(x)})'
    printed = run(f"{WATCHED}\nfor name, program in {SMALL}.items():\n    print('now', name)\n    {each}\n")
    before, *sections = re.split(r"^now (.*)\n", printed, flags=re.M)
    assert (before, sections[::2]) == ("", [*SMALL])
    assert all(sections[1::2]), [name for name, said in zip(sections[::2], sections[1::2], strict=True) if not said]


LARGE = """
from mxcompat._graph import policy
policy.HOPELESS = policy.IMPORT_SECONDS = 0.0  # NumPy counts as too slow
x = mx.random.normal((500, 500))
mx.eval(mx.tanh(x @ x) + x)
assert "jax" in sys.modules
"""
"""Programs that are compiled at once."""

PLAIN = """
import mxcompat as mx
import mxcompat._array.construct, mxcompat._ops.reductions.reduce, mxcompat._graph.passes.sum_to_matmul
assert mxcompat._array.construct.jax is jax and mxcompat._ops.reductions.reduce.jnp is jax.numpy
assert mxcompat._graph.passes.sum_to_matmul.ir is jaxlib.mlir.ir
assert "exec_module" not in vars(jax.__spec__.loader) and type(jax) is type(sys)
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("mxcompat")]
(leaf,) = jax.tree.leaves(mx.ones(3))
assert isinstance(leaf, jax.Array) and isinstance(jax.tree.map(lambda x: x, mx.ones(3)), mx.array)
assert mx.array(jax.numpy.ones(3)).tolist() == [1, 1, 1]
assert jax.jit(lambda x: mx.ext.to_jax(mx.sin(mx.array(x))))(jax.numpy.zeros(2)).tolist() == [0, 0]
"""


@pytest.mark.parametrize(
    "program",
    [
        "import jax, jaxlib\nimport mxcompat.core as mx",
        "import mxcompat.core as mx\nimport jax, jaxlib",
        "import mxcompat.core as mx\nmx.eval(mx.ones(3) + 1)\nimport jax.numpy as jnp\nimport jax, jaxlib",
        "import mxcompat.core as mx" + LARGE + "import jax, jaxlib",
        "from jax import lax\nimport mxcompat.core as mx" + LARGE + "import jax, jaxlib",
    ],
    ids=["before", "after", "between", "by itself", "a part before"],
)
def test_it_may_be_imported_at_any_time(program):
    run("import sys\n" + program + "\n" + PLAIN)


def test_it_draws_no_random_numbers_of_the_programs():
    run("""
import random
import numpy as np
import mxcompat.core as mx
from mxcompat._jax import import_jax

def drawn():
    return *np.random.rand(2), random.random()

np.random.seed(0), random.seed(0)
expected = drawn()
np.random.seed(0), random.seed(0)
import_jax()
assert drawn() == expected
""")


def test_threads_may_need_it_at_once():
    run(
        """
import sys, threading
import mxcompat as mx

def work(k):
    found[k] = mx.ext.to_jax(mx.full((3,), k)).tolist() if k % 2 else __import__("jax").numpy.full(3, k).tolist()

found = {}
threads = [threading.Thread(target=work, args=[k]) for k in range(8)]
for thread in threads:
    thread.start()
work(8)
for thread in threads:
    thread.join()
assert found == {k: [k] * 3 for k in range(9)}, found
import jax, jaxlib
"""
        + PLAIN
    )


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a system without signals to threads")
def test_an_interrupt_does_not_break_it():
    run(
        """
import signal, sys, threading, time
import mxcompat.core as mx
from mxcompat._jax import import_jax

def interrupt():
    while "jax" not in sys.modules:
        time.sleep(0.001)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    import_jax()
    time.sleep(10)
except KeyboardInterrupt:
    assert threading.active_count() > 1, "it was imported already"
else:
    raise AssertionError("not interrupted")
"""
        + LARGE
        + "import jax, jaxlib\n"
        + PLAIN
    )


def test_other_devices_are_looked_for_where_there_may_be_some(tmp_path, monkeypatch):
    (tmp_path / "jax_plugins" / "none").mkdir(parents=True)
    (tmp_path / "jax_plugins" / "none" / "__init__.py").write_text("def initialize(): pass")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(tmp_path)]))
    program = "import sys, mxcompat.core as mx; print(mx.default_device(), 'jax' in sys.modules)"
    assert run(program, JAX_PLATFORMS="") == "Device(cpu, 0) True\n"


@pytest.mark.parametrize("package", ["a-1.0.dist-info", "a.egg-info"])
@pytest.mark.parametrize("group", ["jax_plugins", "console_scripts"])
def test_plugins_are_found_where_packages_declare_them(package, group, tmp_path):
    """Compare the files of packages with `importlib.metadata`, which takes long to import."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "METADATA").write_text("Name: a\nVersion: 1.0\n")
    (tmp_path / package / "PKG-INFO").write_text("Name: a\nVersion: 1.0\n")
    (tmp_path / package / "entry_points.txt").write_text(f"[{group}]\nnone = none\n")
    (distribution,) = metadata.distributions(path=[str(tmp_path)])
    declared = any(point.group == "jax_plugins" for point in distribution.entry_points)
    assert platform._has_plugin(str(tmp_path)) == declared == (group == "jax_plugins")
    assert not platform._has_plugin(str(tmp_path / "no such folder"))


@pytest.mark.parametrize("settings", [{}, {"MXCOMPAT_HOST": "0", "MXCOMPAT_CACHE": "1"}])
def test_it_may_first_be_needed_at_exit(settings, tmp_path):
    program = """
import atexit, sys
import mxcompat.core as mx

def last():
    print(mx.sum(mx.ones((2000, 2000)) @ mx.ones((2000, 2000))).item())
    import jax
    print(jax.numpy.ones(2).sum())

atexit.register(last)
"""
    assert run(program, MXCOMPAT_CACHE_DIR=str(tmp_path), **settings).startswith("8")


def at_import(tree):
    """Yield the import statements that run when a module is imported."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, (ast.ClassDef, ast.Try, ast.With)) or (
            isinstance(node, ast.If) and getattr(node.test, "id", "") != "TYPE_CHECKING"
        ):
            yield from at_import(node)


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_no_module_imports_it(path):
    for node in at_import(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [item.name for item in node.names]
        wrong = [name for name in modules if name.partition(".")[0] in ("jax", "jaxlib")]
        assert not wrong, f"line {node.lineno}: take it from mxcompat._jax"


def test_what_is_lazy_is_there():
    import jax

    names = {
        ast.unparse(node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("lazy.")
    }
    assert "lazy.lax.sin" in names
    for name in names:
        assert attrgetter(name.removeprefix("lazy."))(jax)
