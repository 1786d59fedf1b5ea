"""The published parts: the distributions, an environment with only the wheel, and the workflows."""

import os
import re
import subprocess
import sys
import tarfile
import textwrap
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WRONG = """\
import mxcompat as mx

x: int = mx.ones((3,))
mx.ones((3,)).frobnicate()
"""


def run(*command, cwd, status=0):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert process.returncode == status, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return process.stdout + process.stderr


def test_the_oldest_versions_are_those_of_the_project():
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / ".github" / "oldest.txt").read_text(), re.M)
    matches = [re.fullmatch(r"([\w-]+)>=([\d.]+)", text) for text in PROJECT["dependencies"]]
    bounds = [match.groups() for match in matches if match]  # the others are upper bounds
    for (name, pinned), (bound_name, bound) in zip(pins, bounds, strict=True):
        assert name == bound_name
        assert f"{pinned}.".startswith(f"{bound}.")


def test_the_workflows_run_every_python_that_is_promised():
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={promised[0]}"
    for name in ("tests", "release"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text()
        assert re.findall(r"python: \[(.*)\]", text) == [", ".join(f'"{version}"' for version in promised)]


def test_the_workflows_are_yaml_and_call_what_there_is():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        commands = [s["run"] for job in workflow["jobs"].values() for s in job["steps"] if "run" in s]
        extras = {e for group in re.findall(r"\[([\w,]+)\]", "\n".join(commands)) for e in group.split(",")}
        assert extras <= set(PROJECT["optional-dependencies"])
        for file in re.findall(r"(?:tests|examples|\.github)/[\w./]+", "\n".join(commands)):
            assert (ROOT / file).exists()


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Return the sdist and the wheel, built in a copy of what git would take."""
    if find_spec("build") is None:
        pytest.skip("build is not installed")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, cwd=ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def environment(distributions, tmp_path_factory):
    """Return the `bin` of an environment with the wheel, the examples' requirements and the type checkers."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    tools = (f"{distributions[1]}[examples]", "mypy", "pyright", "pytest")
    run(folder / "bin" / "pip", "install", "-q", *tools, cwd=folder)
    return folder / "bin"


@pytest.mark.exhaustive
def test_the_distributions_have_every_file(distributions):
    sources = {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "mxcompat").rglob("*.py*") if p.suffix in (".py", ".pyi")
    }
    sources |= {"mxcompat/py.typed", "pytest_mxcompat.py"}
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
        (entry_points,) = (wheel.read(n).decode() for n in names if n.endswith("entry_points.txt"))
    assert {name for name in names if ".dist-info/" not in name} == sources | {"mxcompat/_native/in_c.abi3.so"}
    assert "-cp311-abi3-" in distributions[1].name
    assert "[pytest11]\npytest_mxcompat = pytest_mxcompat" in entry_points
    with tarfile.open(distributions[0]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    sources |= {"setup.py", *[p.relative_to(ROOT).as_posix() for p in (ROOT / "mxcompat" / "_native").glob("*.[ch]")]}
    assert sources | {"tests/oracle.py", "tests/sweep/cases.py", "examples/digits.py", "docs/differences.md"} <= names


@pytest.mark.exhaustive
def test_twine_has_no_complaint(distributions):
    if find_spec("twine") is None:
        pytest.skip("twine is not installed")
    run(sys.executable, "-m", "twine", "check", "--strict", *distributions, cwd=ROOT)


@pytest.mark.exhaustive
def test_an_example_runs_from_the_wheel(environment, tmp_path):
    out = run(environment / "python", "-m", "mxcompat", ROOT / "examples" / "digits.py", cwd=tmp_path)
    assert "accuracy" in out
    assert str(environment.parent) in run(
        environment / "python", "-c", "import mxcompat; print(mxcompat.__file__)", cwd=tmp_path
    )


@pytest.mark.exhaustive
def test_the_plugin_is_found(environment, tmp_path):
    test = """
        import mlx.core as mx

        def test_it():
            assert mx.__mxcompat__
            assert not [name for name in dir(mx) if name.startswith("@")]  # what rewritten modules have
        """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    assert "1 passed" in run(environment / "pytest", "--mlx", "mxcompat", cwd=tmp_path)


@pytest.mark.exhaustive
def test_type_checkers_see_the_types(environment, tmp_path):
    program = ROOT / "tests" / "typed_program.py"
    (tmp_path / "program.py").write_text(program.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    python = environment / "python"
    for checker in ((environment / "mypy", "--strict"), (environment / "pyright", "--pythonpath", python)):
        run(*checker, "program.py", cwd=tmp_path)
        output = run(*checker, "wrong.py", cwd=tmp_path, status=1)
        assert re.findall(r"wrong\.py:(\d+).*error", output) == ["3", "4"]
    run(python, "program.py", cwd=tmp_path)
