"""The drop-in and the command line: programs written for MLX import mxcompat. Each case runs in a separate process."""

import ast
import os
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import mxcompat

ROOT = Path(__file__).parent.parent


def python(*args, cwd=ROOT, status=0, stdin=""):
    """Run Python with these arguments and `stdin` as input, assert the exit status, and return the output."""
    command = [sys.executable, "-W", "error", *map(str, args)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        command, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == status, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout + process.stderr


def code(text):
    return python("-c", textwrap.dedent(text))


@pytest.fixture
def program(tmp_path):
    """Return a function that writes a program into a new folder."""

    def write(text, name="program.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_every_way_to_import_gives_the_same_modules():
    code("""
        import mxcompat, sys
        mxcompat.install_as_mlx()
        import mlx
        assert mlx.core is mxcompat.core
        import mlx.core, mlx.core as mx
        from mlx import core, nn, optimizers, utils
        import mlx.nn, mlx.optimizers as optim, mlx.utils
        assert mlx.core is mx is core is mxcompat.core
        assert nn is mlx.nn is mxcompat.nn and optim is optimizers is mxcompat.optimizers
        assert utils is mlx.utils is mxcompat.utils
        assert sys.modules["mlx.core"] is sys.modules["mxcompat.core"]
        assert mx.__spec__.name == "mxcompat.core" and mx.__name__ == "mlx.core"
        assert mx.array is mxcompat.array
        assert mlx.__file__ is None  # as in MLX, where it is a namespace
    """)


def test_what_is_public_says_that_it_is_of_mlx(program):
    """Assert that public objects name MLX's modules: `type(x).__module__ == "mlx.core"`, `xp.__name__ ==
    "mlx.core"`."""
    path = program("""
        import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim, mlx.utils
        linear = nn.Linear(2, 2)
        for value in (mx.array(1), mx.float32, mx.array(1).at, mx.cpu, iter(mx.array([1])), linear, optim.SGD(0.1)):
            print(type(value))
        modules = [mx, mx.random, mx.fast, mx.fft, mx.linalg, mx.distributed, mx.metal, mlx.utils, optim]
        modules += [nn, nn.layers, nn.layers.linear, nn.losses, nn.init, nn.utils, optim.optimizers, optim.schedulers]
        for module in modules:
            print(module.__name__)
            for name, value in sorted(vars(module).items()):
                of = getattr(value, "__module__", None)
                if not name.startswith("_") and callable(value) and str(of).startswith(("mlx", "mxcompat")):
                    print(name, of)
        for ask in (lambda: mx.no_such, lambda: nn.no_such, lambda: mx.add(linear, 1)):
            try:
                ask()
            except (AttributeError, ValueError) as error:
                print(error)
    """)
    ours, real = python("-m", "mxcompat", path), python(path)
    different = set(real.splitlines()) - set(ours.splitlines())
    assert different == set()


def test_errors_of_python_name_the_classes_of_mlx(program):
    path = program("""
        import mlx.core as mx
        x, device = mx.array([1.0]), mx.default_device()
        class Sub(mx.array):
            pass
        values = [x, x.at, iter(x), mx.float32, device, mx.default_stream(device), mx.finfo(mx.float32), mx.cpu]
        for value in (*values, mx.floating, mx.custom_function(abs), mx.distributed.init(), mx.stream(device), Sub(1)):
            try:
                value.no_such
            except AttributeError as error:
                print(error, type(value).__name__, type(value).__qualname__)
        for wrong in (x, lambda: round(x, 1)):
            try:
                wrong()
            except TypeError as error:
                print(error)
    """)
    assert python("-m", "mxcompat", path) == python(path)


def test_what_was_made_before_the_import_is_collected_after_it():
    code("""
        import gc, weakref
        class Node: pass
        node, held = Node(), Node()
        node.own, holder = node, [held]
        node_lives = weakref.ref(node)
        import mxcompat
        assert any(found is holder for found in gc.get_referrers(held))
        del node
        gc.collect()
        assert node_lives() is None and gc.isenabled() and gc.get_freeze_count() < 1000  # Python 3.12 has 375
    """)


def test_what_is_imported_is_not_looked_through_again():
    code("""
        import gc, os
        from os import path
        import mxcompat.core as mx
        assert gc.isenabled() and gc.get_freeze_count() > 10_000
    """)
    code("""
        import gc
        gc.disable()
        import mxcompat.core as mx
        assert not gc.isenabled() and gc.get_freeze_count() < 1000
    """)


def test_collections_come_as_often_for_each_array_as_in_mlx():
    young = "import gc; gc.set_threshold({}, 10, 10)\nimport mxcompat\nassert gc.get_threshold() == ({}, 10, 10)"
    code(young.format(700, 2100))
    code(young.format(50_000, 50_000))
    code(young.format(0, 0))
    code("""
        import gc
        from mxcompat._collector import _DEFAULT_THRESHOLD
        assert gc.get_threshold()[0] > _DEFAULT_THRESHOLD
    """)


def test_every_submodule():
    names = ["core.random", "nn.utils", "optimizers.schedulers", "utils"]
    for package in (mxcompat.core, mxcompat.nn, mxcompat.optimizers):
        prefix = package.__name__.removeprefix("mxcompat.") + "."
        names += [module.name for module in pkgutil.walk_packages(package.__path__, prefix)]
    code(f"""
        import importlib, sys, mxcompat
        mxcompat.install_as_mlx()
        for name in {names}:
            module = importlib.import_module("mlx." + name)
            assert module is sys.modules["mxcompat." + name] is sys.modules["mlx." + name]
            assert module.__spec__.name == "mxcompat." + name
    """)


def test_what_a_package_imports_is_in_sys_modules():
    """Assert that an import loads the subpackages that real MLX loads: `mlx.core.fast`, `mlx.nn.losses`."""
    show = """
        import sys, mlx.core, mlx.nn, mlx.optimizers, mlx.utils
        print(sorted(name for name in sys.modules if name.startswith("mlx.") and "._" not in name))
    """
    assert code("import mxcompat; mxcompat.install_as_mlx()\n" + textwrap.dedent(show)) == code(show)


def test_what_mlx_does_not_have_is_not_found():
    code("""
        import importlib, mxcompat
        mxcompat.install_as_mlx()
        for name in ["mlx.nonsense", "mlx.core.nonsense", "mlx.extension", "mlx.ext", "mlx._graph"]:
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                assert error.name == name, error
            else:
                raise AssertionError(name)
    """)


def test_other_projects_in_the_namespace_are_found(program):
    path = program("x = 1", "site/mlx/data/__init__.py")
    code(f"""
        import sys, mxcompat
        sys.path.append({str(path.parent.parent.parent)!r})
        mxcompat.install_as_mlx()
        import mlx.data, mlx.core
        assert mlx.data.x == 1 and mlx.core is mxcompat.core
    """)


def test_find_spec_and_metadata():
    code("""
        import importlib.metadata as metadata, importlib.util as util
        import mxcompat
        from mxcompat._version import MLX_VERSION
        mxcompat.install_as_mlx()
        for imported in (False, True):
            assert util.find_spec("mlx") and util.find_spec("mlx.core") and util.find_spec("mlx.nn")
            assert util.find_spec("mlx.core.nonsense") is None
            import mlx.core
        assert metadata.version("mlx") == MLX_VERSION == metadata.distribution("mlx").version
        assert metadata.distribution("mlx").metadata["Name"] == "mlx"
        assert "mlx" in metadata.packages_distributions()["mlx"]
        assert metadata.version("numpy")
        assert mxcompat.installed() and mlx.core.__mxcompat__ == mxcompat.__version__
        assert mlx.core.__version__ == MLX_VERSION
    """)


def test_what_programs_ask_of_a_distribution():
    code("""
        import importlib.metadata as metadata, importlib.util as util
        import mxcompat
        assert not mxcompat.installed()
        mxcompat.install_as_mlx()
        import mlx.core, mlx.nn
        assert mxcompat.installed()
        assert metadata.metadata("mlx")["Version"] == metadata.version("MLX") == mlx.core.__version__
        assert [d.metadata["Name"] for d in metadata.distributions(name="mlx")][0] == "mlx"
        assert not metadata.requires("mlx") and not metadata.entry_points(group="no such", name="mlx")
        assert util.find_spec("mlx").submodule_search_locations is not None
        assert util.find_spec("mlx.nn").submodule_search_locations is not None
        assert mlx.core.__file__ == mxcompat.core.__file__
        assert {"mlx", "numpy"} <= {d.metadata["Name"] for d in metadata.distributions()}
    """)


def test_pickles_of_aliased_classes_and_arrays():
    code("""
        import pickle, mxcompat
        mxcompat.install_as_mlx()
        import mlx.core as mx
        assert pickle.loads(pickle.dumps(mx.array)) is mxcompat.core.array
        assert pickle.loads(pickle.dumps(mx.array([1.0, 2.0]))).tolist() == [1.0, 2.0]
        assert pickle.loads(pickle.dumps(mx.float32)) is mx.float32
        assert pickle.loads(b"cmlx.core\\narray\\n.") is mx.array
    """)


def test_pickles_go_from_one_to_the_other(program):
    write = program("""
        import pickle, sys, mlx.core as mx, mlx.nn as nn
        pickle.dump((nn.Linear, {"w": mx.array([1.5, 2.0], mx.float16), "n": mx.array(3)}), open(sys.argv[1], "wb"))
    """)
    read = program(
        """
        import pickle, sys, mlx.core as mx, mlx.nn as nn
        kind, tree = pickle.load(open(sys.argv[1], "rb"))
        print(kind is nn.Linear, type(tree["w"]) is mx.array, tree)
        """,
        "read.py",
    )
    for of, other in (((), ("-m", "mxcompat")), (("-m", "mxcompat"), ())):
        data = write.parent / "data.pickle"
        python(*of, write, data)
        assert python(*other, read, data).startswith("True True {'w': array([1.5, 2], dtype=float16), 'n': array(3, d")


def test_the_namespace_of_an_array(program):
    path = program("""
        import mlx.core as mx

        print(mx.ones(1).__array_namespace__() is mx)
        try:
            mx.ones(1).__array_namespace__(api_version="2023.12")
        except ValueError as error:
            print(error)
    """)
    assert python("-m", "mxcompat", path) == python(path)


def test_what_arrays_have_for_the_standard_alone_is_not_there(program):
    """Assert that names of the array standard are hidden: `device` makes libraries take an array for PyTorch's."""
    path = program("""
        import mlx.core as mx
        import mlx.nn

        x = mx.array([1, 2])
        for name in ("device", "to_device", "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__"):
            print(hasattr(x, name), hasattr(mx.array, name), name in dir(x))
            try:
                getattr(x, name)
            except AttributeError as error:
                print(error)
        for operation in (lambda: 1 & x, lambda: 1 | x, lambda: 1 ^ x, lambda: 1 << x, lambda: 1 >> x):
            try:
                print(operation())
            except TypeError as error:
                print(error)
        print(x & 1, x | x, x << 1)
    """)
    assert python("-m", "mxcompat", path) == python(path)


def test_installing_twice_and_uninstalling():
    code("""
        import sys, mxcompat
        from mxcompat import _dropin
        _dropin.uninstall()
        before = list(sys.meta_path)
        mxcompat.install_as_mlx()
        mxcompat.install_as_mlx()
        assert _dropin.installed() and len(sys.meta_path) == len(before) + 1
        import mlx.core, mlx.nn
        mxcompat.install_as_mlx()
        assert mlx.nn.Linear.__module__ == "mlx.nn.layers.linear" and mxcompat.core.add.__module__ == "mlx.core"
        assert not hasattr(mxcompat.array, "device") and not hasattr(mxcompat.array, "__rand__")
        _dropin.uninstall()
        try:
            mxcompat.array(5).no_such
        except AttributeError as error:
            assert str(error) == "'array' object has no attribute 'no_such'"
        assert mxcompat.array(5).device == mxcompat.core.default_device() and (4 & mxcompat.array(5)).item() == 4
        assert mxcompat.nn.Linear.__module__ == "mxcompat.nn.layers.linear"
        assert mxcompat.core.__name__ == mxcompat.array.__module__ == "mxcompat.core"
        assert mxcompat.core.add.__module__.startswith("mxcompat.")
        assert sys.meta_path == before and not any(m.split(".")[0] == "mlx" for m in sys.modules)
        import mlx.core as real
        assert real is not mxcompat.core
        assert real.__version__ == __import__("importlib.metadata").metadata.version("mlx")
    """)


def test_after_real_mlx_it_raises():
    code("""
        import mlx.core, mxcompat
        try:
            mxcompat.install_as_mlx()
        except RuntimeError as error:
            assert str(error).startswith("[install_as_mlx] Real MLX is imported already (mlx.core)"), error
        else:
            raise AssertionError
        assert not mxcompat._dropin.installed()
    """)


def test_after_a_mere_look_for_real_mlx_it_works():
    code("""
        import importlib.util, mxcompat
        assert importlib.util.find_spec("mlx.core")
        mxcompat.install_as_mlx()
        import mlx.core
        assert mlx.core is mxcompat.core
    """)


def test_a_script_runs_with_its_arguments_and_neighbours(program):
    program("import mlx.core as mx\nvalue = mx.array(3.0)", "neighbour.py")
    path = program("""
        import pickle, sys
        import mlx.core as mx
        import mxcompat.core
        from neighbour import value

        class Own:
            pass

        assert mx is mxcompat.core
        assert __name__ == "__main__" and isinstance(pickle.loads(pickle.dumps(Own())), Own)
        print(sys.argv[1:], sys.argv[0] == __file__, value.item())
    """)
    assert python("-m", "mxcompat", path, "--flag", "x").strip() == "['--flag', 'x'] True 3.0"


def test_a_module_runs(program):
    text = "import sys, mlx.core as mx\nprint(sys.argv[1:], hasattr(mx, '__mxcompat__'), __package__)"
    path = program(text, "package/job.py")
    program("", "package/__init__.py")
    out = python("-m", "mxcompat", "-m", "package.job", "a", "-b", cwd=path.parent.parent)
    assert out.strip() == "['a', '-b'] True package"


def test_exit_status_and_errors_of_a_script(program):
    python("-m", "mxcompat", program("raise SystemExit(7)"), status=7)
    out = python("-m", "mxcompat", program("import mlx.core\n1 / 0\n"), status=1)
    assert "ZeroDivisionError" in out
    assert "program.py" in out


def test_processes_that_a_script_starts_see_it_too(program):
    path = program("""
        import multiprocessing, subprocess, sys

        def where(_):
            import mlx.core as mx
            from mlx import nn
            import mxcompat.nn
            return hasattr(mx, "__mxcompat__"), nn.Linear is mxcompat.nn.Linear

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(where, [0]))
            subprocess.run([sys.executable, "-c", "import mlx.core as mx; print(mx.__mxcompat__)"], check=True)
    """)
    out = python("-m", "mxcompat", path)
    assert out.split("\n")[:2] == ["[(True, True)]", mxcompat.__version__]


def test_wrong_command_lines():
    assert "SCRIPT" in python("-m", "mxcompat", "--help")
    assert "SCRIPT" in python("-m", "mxcompat", status=2)
    assert "no such script: nowhere.py" in python("-m", "mxcompat", "nowhere.py", status=2)
    assert "unknown option -x" in python("-m", "mxcompat", "-x", status=2)
    assert "no such file or directory: nowhere" in python("-m", "mxcompat", "check", "nowhere", status=2)


def test_info():
    out = python("-m", "mxcompat", "info")
    for word in ("mxcompat", "MLX 0.32.4", "jax", "Python", "backend"):
        assert word in out


def test_processes_with_an_environment_of_their_own(program):
    """Assert that child processes see the program's environment, and that their `mlx` is mxcompat, in grandchildren
    too."""
    path = program(
        """
        import asyncio, os, subprocess, sys

        ask = "import os, sys; print('other' in map(os.path.basename, sys.path), end=' ');"
        ask += "import mlx.core as mx; print(mx.__spec__.name, os.environ.get('KEY'))"
        further = "import mlx.core, subprocess, sys; subprocess.run([sys.executable, '-c', "
        further += f"{ask!r}], env={{'PYTHONPATH': 'other'}})"

        def run(code, **options):
            subprocess.run([sys.executable, "-c", code], check=True, **options)

        given = {"PYTHONPATH": "other", "KEY": "1"}
        run(ask, env=given)
        run(ask, env={b"PYTHONPATH": b"other", b"KEY": b"2"})
        run(further, env={**os.environ, "PYTHONPATH": "elsewhere"})
        assert given == {"PYTHONPATH": "other", "KEY": "1"}
        run("import mlx.core as mx; print(mx.__spec__.name, 'PATH' in __import__('os').environ)", env={})

        async def later():
            await (await asyncio.create_subprocess_exec(sys.executable, "-c", ask, env=given)).wait()

        asyncio.run(later())
        os.environ["PYTHONPATH"] = "other"
        run(ask)
        del os.environ["PYTHONPATH"]
        run("import mlx.core as mx; print(mx.__spec__.name)")
        subprocess.Popen([sys.executable, "-c", ask], -1, None, None, None, None, None, True, False, None, given).wait()
        """
    )
    name = "mxcompat.core"
    lines = [f"True {name} 1", f"True {name} 2", f"True {name} None", f"{name} False", f"True {name} 1"]
    lines += [f"True {name} None", name, f"True {name} 1"]
    assert python("-m", "mxcompat", path, cwd=path.parent).splitlines() == lines


def test_a_child_without_site_packages_finds_no_mlx(tmp_path):
    """Assert that a child without site-packages finds no `mlx`, as real MLX lies there."""
    path = tmp_path / "program.py"
    path.write_text(
        "import subprocess, sys\n"
        "ask = 'try: import mlx.core\\nexcept ModuleNotFoundError as error: print(error, error.name)'\n"
        "subprocess.run([sys.executable, '-S', '-c', ask], check=True)\n"
    )
    assert python("-m", "mxcompat", path, cwd=tmp_path) == "No module named 'mlx' mlx\n"


def test_where_mxcompat_lies_hides_nothing_of_the_program(tmp_path):
    """Assert that a checkout hides no module of a program, such as its package `tests` without `__init__`."""
    (tmp_path / "program.py").write_text("import sys, mlx.core; print(sys.path)")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def path(*command):
        process = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        return ast.literal_eval(process.stdout) if process.returncode == 0 else None

    if path("-c", "import mxcompat, sys; print(sys.path)") is None:
        pytest.skip("mxcompat is not installed in this environment")
    first, ours, *others = path("-m", "mxcompat", "program.py")
    assert (first, Path(ours).name) == (str(tmp_path), "_children")
    assert str(ROOT) not in others


ABOUT_MAIN = """
    import atexit, os, pickle, sys, threading
    import mlx.core as mx
    import mlx.nn as nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = mx.ones(2)

    names = sorted(name for name in globals() if name.startswith("__"))
    print(globals().get("__file__"), globals().get("__cached__"), __package__, __spec__ and __spec__.name, names)
    print(sys.argv, repr(sys.path[0]), getattr(__loader__, "__name__", type(__loader__).__name__), __name__, __doc__)
    print(sys.modules["__main__"].__dict__ is globals(), Net.__init__.__annotations__, type(Net).__name__)
    net = Net()
    atexit.register(lambda: print(len(pickle.dumps(net)) > 0, sys.modules["__main__"].Net is Net))
    os.chdir("/")
    print(os.path.exists(globals().get("__file__") or "/"))
"""


@pytest.mark.parametrize("name", ["program.py", "./program.py", "../{}/program.py", "link.py"])
def test_a_script_is_the_main_module_as_it_is_python_s(program, name):
    path = program(ABOUT_MAIN)
    (path.parent / "link.py").symlink_to(path)
    name = name.format(path.parent.name)
    assert python("-m", "mxcompat", name, "x", cwd=path.parent) == python(name, "x", cwd=path.parent)


@pytest.mark.parametrize("name", ["package", "package.module", "module"])
def test_a_module_is_the_main_module_as_it_is_python_s(program, name):
    path = program(ABOUT_MAIN, "module.py")
    program("", "package/__init__.py")
    program(ABOUT_MAIN, "package/__main__.py")
    program(ABOUT_MAIN, "package/module.py")
    assert python("-m", "mxcompat", "-m", name, "x", cwd=path.parent) == python("-m", name, "x", cwd=path.parent)


@pytest.mark.parametrize("name", ["missing", "package.missing", "package"])
def test_a_missing_module_is_named_as_by_python(program, name):
    path = program("", "package/__init__.py")
    status = {"cwd": path.parent.parent, "status": 1}
    assert python("-m", "mxcompat", "-m", name, **status) == python("-m", name, **status)


def test_code_and_what_is_piped_in():
    text = textwrap.dedent(ABOUT_MAIN)
    assert python("-m", "mxcompat", "-c", text, "x") == python("-c", text, "x")
    assert python("-m", "mxcompat", "-", "x", stdin=text) == python("-", "x", stdin=text)


def test_a_compiled_script_and_an_archive(program):
    path = program("import mlx.core as mx; print(mx.__name__, mx.arange(3))", "__main__.py")
    python("-c", f"import py_compile; py_compile.compile({str(path)!r}, {str(path.parent / 'c.pyc')!r})")
    python("-c", "import zipfile; zipfile.ZipFile('app.zip', 'w').write('__main__.py')", cwd=path.parent)
    for name in ("c.pyc", "app.zip", "."):
        assert python("-m", "mxcompat", name, cwd=path.parent) == python(path)


def test_what_the_runner_imports_from_the_future_is_not_the_script_s(program):
    path = program("import mlx.core\ndef f(x: int): pass\nprint(f.__annotations__)")
    assert python("-m", "mxcompat", path) == python(path)
