"""Undocumented features of JAX, XLA and CPython hold here. Without them, results are the same and nothing raises."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat as mx
from mxcompat._compat import dialects, jax_internals, python, references, registry, xla
from mxcompat._compat.registry import Unpromised
from mxcompat._graph.passes import barriers, integers
from mxcompat._graph.passes.modules import named
from mxcompat._graph.run import allocation, collectives, jax_traces, lowering, options, values
from mxcompat._graph.run.options import FAST, compile_with
from mxcompat._tools.features import everything
from tests.test_project import ROOT

NAMES = sorted(one.name for one in everything())


def without(*names: str, **settings: str) -> dict[str, str]:
    """Return the environment of a process in which these features are disabled."""
    return {**os.environ, "MXCOMPAT_WITHOUT": ",".join(names), **settings}


def output(*arguments: str, env: dict[str, str]) -> str:
    command = [sys.executable, *arguments]
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes an entry, `entry(probe)`, in an empty registry."""
    monkeypatch.setattr(registry, "REGISTRY", {})
    return lambda probe: Unpromised("x", "a purpose", "a fallback", probe)


class TestRegistry:
    def test_the_probe_runs_once_and_when_asked(self, entry: Any) -> None:
        calls: list[int] = []
        feature = entry(lambda: calls.append(1) is None)
        assert not calls
        assert [feature.holds, feature.holds] == [True, True]
        assert calls == [1]

    @pytest.mark.parametrize("answer", [False, None, 1, "yes"])
    def test_what_is_not_true_does_not_hold(self, entry: Any, answer: Any) -> None:
        feature = entry(lambda: answer)
        assert not feature.holds
        assert feature.reason == "it is not as expected"

    def test_what_a_probe_raises_is_the_reason(self, entry: Any, caplog: Any) -> None:
        def probe() -> bool:
            raise ImportError("gone")

        feature = entry(probe)
        with caplog.at_level(logging.INFO, registry.__name__):
            assert not feature.holds
        assert feature.reason == "ImportError: gone"
        (record,) = caplog.records
        assert "a fallback" in record.getMessage()

    def test_memory_and_interrupts_are_no_answers(self, entry: Any) -> None:
        for error in (MemoryError, KeyboardInterrupt):

            def probe(error: type[BaseException] = error) -> bool:
                raise error

            registry.REGISTRY.clear()
            with pytest.raises(error):
                _ = entry(probe).holds

    def test_a_failure_in_use_is_logged_once(self, entry: Any, caplog: Any) -> None:
        feature = entry(lambda: True)
        assert feature.holds
        for _ in range(2):
            feature.fails(TypeError("another signature"))
        assert not feature.holds
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert "another signature" in record.getMessage()

    def test_a_name_is_taken_once(self, entry: Any) -> None:
        entry(lambda: True)
        with pytest.raises(ValueError, match="second time"):
            entry(lambda: True)

    def test_all_of_it_holds_here(self) -> None:
        missing = {one.name: one.reason for one in everything() if not one.holds}
        missing.pop("compiler-threads" if sys.platform != "linux" else None, None)
        assert missing == {}

    def test_each_says_what_it_is_for_and_what_is_done_without(self) -> None:
        said = [text for one in everything() for text in (one.purpose, one.fallback)]
        assert all(said)
        assert len(NAMES) > 18

    def test_info_lists_them(self) -> None:
        out = output("-m", "mxcompat", "info", env=without("frames", "no-such-thing"))
        listed = out.partition("do not promise:\n")[2].splitlines()
        lines = [line.split(None, 2) for line in listed if line.startswith("  ")]
        assert sorted(name for name, *_ in lines) == NAMES
        assert {name for name, word, _ in lines if word == "does"} == {"frames"}
        assert "MXCOMPAT_WITHOUT has unknown names: no-such-thing" in out


def results(*names: str, host: bool) -> dict[str, Any]:
    env = without(*names, MXCOMPAT_HOST=str(int(host)))
    return json.loads(output("-m", "tests.without_worker", env=env))


@pytest.fixture(scope="module")
def expected() -> Callable[[bool], dict[str, Any]]:
    """Return a function for the results with all features enabled, with or without NumPy's tier."""
    known: dict[bool, dict[str, Any]] = {}

    def of(host: bool) -> dict[str, Any]:
        if host not in known:
            known[host] = results(host=host)
        return known[host]

    return of


def same(result: Any, expected: Any) -> None:
    """Assert that results are equal, up to the last digits of numbers."""
    assert type(result) is type(expected)
    if isinstance(expected, dict):
        assert result.keys() == expected.keys()
        for key in expected:
            same(result[key], expected[key])
    elif isinstance(expected, list):
        assert len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            same(one, other)
    elif isinstance(expected, float):
        assert result == pytest.approx(expected, rel=1e-5)  # training steps accumulate float32's rounding errors
    else:
        assert result == expected


PLAIN = {"stablehlo-edits", "barriers"}
"""Features without which XLA's options must be available."""


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize(
    "names",
    [
        pytest.param({*NAMES} - PLAIN, id="all but passes"),
        pytest.param({*NAMES} - {"compile-options"}, id="all but options"),
        *[pytest.param({name}, id=name, marks=pytest.mark.exhaustive) for name in NAMES],
    ],
)
def test_results_are_the_same_without(names: set[str], host: bool, expected: Any) -> None:
    same(results(*names, host=host), expected(host))


class TestReferences:
    def test_each_form_is_counted(self) -> None:
        for get, count in references._counters():
            assert count() == 0
            for hold in references._HOLDERS:
                assert hold(get, count) >= 1, hold.__name__
            assert count() == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param(lambda real, x: 2, id="always the same"),
            pytest.param(lambda real, x: min(real(x), 3), id="no more than one other"),
            pytest.param(lambda real, x: real(x) // 2, id="every other one"),
            pytest.param(lambda real, x: 1 << 32, id="immortal"),
            pytest.param(lambda real, x: -real(x), id="backwards"),
        ],
    )
    def test_a_count_that_misses_somebody_is_not_trusted(self, wrong: Any, monkeypatch: Any) -> None:
        real = sys.getrefcount
        before = {name: getattr(references, name) for name in ("BY_COUNTING", "_by_place")}
        try:
            monkeypatch.setattr(references, "getrefcount", lambda x: wrong(real, x))
            assert not references.reference_counts._probe()
        finally:
            vars(references).update(before)

    def test_other_counts_that_miss_nobody_are(self, monkeypatch: Any) -> None:
        """Simulate a version of Python in which a temporary holds no reference."""
        real = sys.getrefcount
        before = {name: getattr(references, name) for name in ("BY_COUNTING", "_by_place")}
        try:
            monkeypatch.setattr(references, "getrefcount", lambda x: real(x) - 1)
            assert references.reference_counts._probe()
        finally:
            vars(references).update(before)

    @pytest.mark.exhaustive
    def test_the_suite_is_right_without(self) -> None:
        """Run tests of results, but none of which buffers are reused."""
        files = ["tests/test_lifetimes.py", "tests/test_autodiff.py", "tests/test_host_evaluation.py"]
        command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not step_updates", *files]
        output(*command, env=without("reference-counts"))

    @pytest.mark.parametrize(
        ("file", "which"),
        [
            pytest.param("test_lifetimes.py", "", marks=pytest.mark.exhaustive),
            ("test_lifetimes.py", "step_updates or after_a_part"),
            ("test_memory.py", "place or reach or written_over"),
        ],
    )
    def test_no_count_is_taken_for_granted(self, file: str, which: str) -> None:
        """Assert that memory is reused even if each count is larger by the same number."""
        program = (
            "import sys, pytest\nreal = sys.getrefcount\nsys.getrefcount = lambda x: real(x) + 5\n"
            f"sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', '-k', '{which}', 'tests/{file}']))"
        )
        output("-c", program, env=without())

    def test_nothing_is_written_over_without(self) -> None:
        program = """
import mxcompat.core as mx
import numpy as np
x = mx.zeros((1024, 1024))
mx.eval(x)
places = set()
for _ in range(3):
    x = mx.abs(x)
    mx.eval(x)
    places.add(np.array(x, copy=False).ctypes.data)
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.ir.liveness import live_out, unreachable_leaves
y = mx.sin(mx.cos(x))
graph = linearize([y._node])
print(live_out(graph), unreachable_leaves(graph, [0]))
"""
        assert output("-c", program, env=without("reference-counts")).split("\n")[0] == "[0, 1] []"


class TestPasses:
    @staticmethod
    def lowered(f: Callable[..., Any], *arguments: Any) -> lowering.Lowered:
        def trace() -> Any:
            return jax.jit(lambda *xs: f(*xs)).trace(*arguments)

        return lowering.lower(trace(), trace)

    @pytest.mark.parametrize("one", [lowering.round_products, lowering.cut_chains, lowering.wrap_around])
    def test_one_that_fails_half_way_is_left_out(self, one: Any, monkeypatch: Any, caplog: Any) -> None:
        n = np.array([2**17 + 3, 5], np.int32)
        passes = lowering._passes
        failing = self._failing(one.__name__)
        monkeypatch.setattr(lowering, "_passes", lambda m: [failing if p is one else p for p in passes(m)])
        right = lowering._FOR_RIGHT_CODE
        monkeypatch.setattr(lowering, "_FOR_RIGHT_CODE", {failing if p is one else p for p in right})
        monkeypatch.setattr(dialects, "_failed", set())
        for _ in range(2):
            lowered = self.lowered(lambda n: n * n // 7, n)
            assert lowered.is_plain == (one in right)
            wrapped = n * n // 7
            assert compile_with(lowered, FAST)(n).tolist() == wrapped.tolist()
        (record,) = caplog.records
        assert one.__name__ in record.getMessage()
        assert record.exc_info is not None

    @staticmethod
    def _failing(name: str) -> Any:
        def change(module: Any) -> None:
            """Make wrong code, and then raise."""
            (product,) = named(module, "stablehlo.multiply")
            with module.context, dialects.ir.Location.unknown(), dialects.ir.InsertionPoint(product):
                other = dialects.stablehlo.add(*product.operands)
            product.results[0].replace_all_uses_with(other)
            raise AttributeError("walk")

        change.__name__ = name
        return change

    def test_memory_that_runs_out_is_no_failure_of_a_pass(self) -> None:
        def change(module: Any) -> None:
            raise MemoryError

        with pytest.raises(MemoryError):
            dialects.attempt(change, None)

    def test_how_long_loops_take_need_not_be_known(self, monkeypatch: Any, caplog: Any) -> None:
        def longest_loop(module: Any) -> float:
            raise TypeError("no such type")

        monkeypatch.setattr(options, "longest_loop", longest_loop)
        monkeypatch.setattr(dialects, "_failed", set())
        x = np.ones(3, np.float32)
        assert compile_with(self.lowered(jnp.sin, x), FAST)(x).tolist() == jnp.sin(x).tolist()
        assert "longest_loop" in caplog.text

    def test_all_names_that_passes_use_are_looked_for(self) -> None:
        used: dict[str, set[str]] = {"ir": set(), "func": set(), "stablehlo": set()}
        places = [*(ROOT / "mxcompat/_graph").rglob("*.py"), ROOT / "mxcompat/_ops/elementwise/quotient.py"]
        for path in places:
            text = path.read_text()
            if "_compat.dialects import" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in used:
                    used[node.value.id].add(node.attr)
        assert used == {key: {*names} for key, names in dialects._NAMES.items()}

    def test_a_missing_name_is_seen(self, monkeypatch: Any) -> None:
        monkeypatch.setitem(dialects._NAMES, "ir", ("WalkResult", "NoSuchName"))
        with pytest.raises(AttributeError, match=r"ir\.NoSuchName"):
            dialects.stablehlo_edits._probe()

    @pytest.mark.parametrize("name", ["hidden", "keep"])
    def test_barriers_that_xla_sees_through_are_seen(self, name: str, monkeypatch: Any) -> None:
        assert barriers.barriers._probe()
        monkeypatch.setattr(barriers, name, lambda *_: None)
        assert not barriers.barriers._probe()

    def test_without_barriers_nothing_is_simplified(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(barriers.barriers, "_holds", False)
        monkeypatch.setattr(dialects, "_failed", {"prevent_fp_rewrites"})
        x = np.full(3, 1000, np.float32)
        lowered = self.lowered(lambda x: jnp.log(jax.lax.pow(x, x)), x)
        assert lowered.is_plain
        assert compile_with(lowered, FAST)(x).tolist() == [float("inf")] * 3
        assert not self.lowered(lambda x: jnp.sin(x), x).is_plain

    def test_what_is_not_promised_of_stablehlo_can_all_be_missing(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(dialects.stablehlo_edits, "_holds", False)
        monkeypatch.setattr(integers, "replace", None)
        n = np.array([2**17 + 3, 5], np.int32)
        lowered = self.lowered(lambda n: n * n // 7, n)
        assert lowered.is_plain
        assert compile_with(lowered, FAST)(n).tolist() == (n * n // 7).tolist()


class Refusing:
    """A lowered function that XLA does not compile with options, and says so in other words."""

    is_plain = False

    def __init__(self, error: str, always: bool = False) -> None:
        self._error, self._always = error, always
        self.calls: list[dict[str, Any]] = []

    def compiler_ir(self, dialect: str) -> Any:
        return jax.jit(jnp.sin).lower(np.ones(3, np.float32)).compiler_ir(dialect)

    def compile(self, options: dict[str, Any]) -> str:
        self.calls.append(options)
        if options or self._always:
            raise jax.errors.JaxRuntimeError(self._error)
        return "compiled"


class TestXLA:
    @pytest.fixture(autouse=True)
    def _as_before(self, monkeypatch: Any) -> None:
        for one in (xla.compile_options, xla.executable_text, xla.memory_analysis):
            monkeypatch.setattr(one, "_holds", one.holds)
            monkeypatch.setattr(one, "reason", "")
        monkeypatch.setattr(options, "_unknown", set())

    def test_options_are_left_out_together_if_xla_does_not_name_one(self, caplog: Any) -> None:
        refusing: Any = Refusing("INVALID_ARGUMENT: what is that?")
        assert compile_with(refusing, FAST) == "compiled"
        assert len(refusing.calls) == 2
        assert "what is that?" in caplog.text
        assert not options._unknown

    def test_one_by_one_if_it_does(self, caplog: Any) -> None:
        refusing: Any = Refusing("INVALID_ARGUMENT: No such compile option: 'xla_allow_excess_precision'")
        with pytest.raises(jax.errors.JaxRuntimeError):
            Refusing("INTERNAL: other", always=True).compile({})
        compile_with(refusing, FAST)
        assert "xla_allow_excess_precision" in options._unknown
        assert "xla_allow_excess_precision" not in refusing.calls[1]

    def test_other_errors_are_raised(self) -> None:
        for text, tries in (("INTERNAL: it has crashed", 2), ("RESOURCE_EXHAUSTED: no room", 1)):
            refusing: Any = Refusing(text, always=True)
            with pytest.raises(jax.errors.JaxRuntimeError, match=text):
                compile_with(refusing, FAST)
            assert len(refusing.calls) == tries

    def test_a_plain_compile_without_options_is_told(self, monkeypatch: Any, caplog: Any) -> None:
        monkeypatch.setattr(xla.compile_options, "_holds", False)
        refusing: Any = Refusing("")
        refusing.is_plain = True
        assert compile_with(refusing, FAST) == "compiled"
        assert "simplifies all the same" in caplog.text

    def test_another_text_is_not_read(self, caplog: Any) -> None:
        class Other:
            def as_text(self) -> Any:
                return "module @jit_f"

        compiled: Any = Other()
        assert options.has_divided_loops(compiled)
        assert not xla.executable_text.holds
        assert "module @jit_f" in caplog.text
        assert collectives.described(compiled) == "collectives that are not known"
        with pytest.raises(RuntimeError, match=r"\[collectives\] Expected XLA's text"):
            collectives.collectives(compiled)

    def test_memory_need_not_be_known(self) -> None:
        class Other:
            def memory_analysis(self) -> Any:
                return {"temp": 3}

        compiled: Any = Other()
        assert allocation.needs(compiled) == (0, 0)
        assert not xla.memory_analysis.holds

    def test_errors_need_not_be_understood(self, monkeypatch: Any) -> None:
        error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12 bytes.")
        assert str(allocation.out_of_memory(error)) == "[malloc] Unable to allocate 12 bytes."
        monkeypatch.setattr(xla.error_texts, "_holds", False)
        assert allocation.out_of_memory(error) is None
        assert str(allocation.out_of_memory(MemoryError("array is too big"))).startswith("[malloc]")

    def test_llvm_is_told_nothing_that_it_may_not_know(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(jax, "__version_info__", (0, 99, 0))
        assert not xla.hash_recognition._probe()
        monkeypatch.setattr(xla.hash_recognition, "_holds", False)
        program = "import os, mxcompat.core as mx, jax; (mx.ones(3) + 1).tolist(); print(len(jax.devices()))"
        env = without("hash-recognition", MXCOMPAT_HOST="0")
        env.pop("XLA_FLAGS", None)
        assert output("-c", program, env=env) == "1\n"

    def test_loops_that_write_into_arrays_are_loops_of_xla(self) -> None:
        """Test that XLA does not compile such a loop into one function, in which each write copies the array."""
        program = """
import jax, mxcompat.core as mx
mx.eval(mx.ones(3) + 1)
loop = jax.jit(lambda x: jax.lax.fori_loop(0, 1000, lambda i, x: x.at[i].set(x[(i + 1) % 1000] + 1), x))
text = loop.lower(jax.ShapeDtypeStruct((1000, 512), "float32")).compile().as_text()
print("while(" in text, "xla_cpu_small_call" in text)
"""
        env = {**os.environ, "MXCOMPAT_HOST": "0"}
        env.pop("XLA_FLAGS", None)
        assert output("-c", program, env=env) == "True False\n"


@pytest.mark.parametrize("name", ["serialized-executables", "settings"])
def test_nothing_is_kept_on_disk_without(name: str, tmp_path: Path) -> None:
    program = """
import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run import background
policy.STORED_SECONDS = 0
print(mx.compile(lambda x: mx.linalg.cholesky(x, stream=mx.cpu) @ x)(mx.eye(8)).sum().item())
background.settle()
"""
    settings = {"MXCOMPAT_CACHE_DIR": str(tmp_path / "kept"), "MXCOMPAT_HOST": "0"}
    settings |= {"JAX_ENABLE_COMPILATION_CACHE": "0", "MXCOMPAT_CACHE": "1"}
    first = [output("-c", program, env=without(name, **settings)) for _ in range(2)]
    assert first == ["8.0\n", "8.0\n"]
    assert not [*tmp_path.rglob("*.xla")]
    output("-c", program, env=without(**settings))
    assert [*tmp_path.rglob("*.xla")]


class TestJAX:
    @pytest.mark.parametrize("dtype", ["int64", "float64", "float16", "bool", "complex64", "uint8"])
    def test_data_become_arrays_without(self, dtype: str, monkeypatch: Any) -> None:
        data = np.array([[1, 0], [3, 4]], dtype)
        array = values.to_jax(data)
        monkeypatch.setattr(jax_internals.device_put, "_holds", False)
        other = values.to_jax(data)
        for each in (array, other):
            assert each.dtype == data.dtype
            assert np.array_equal(np.asarray(each), data)
        assert array.sharding == other.sharding

    def test_traces_are_not_counted_without(self, monkeypatch: Any) -> None:
        cleared = []
        monkeypatch.setattr(jax_internals.trace_cache, "_holds", False)
        monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(1))
        assert jax_traces.count() == jax_traces.held() == 0
        jax_traces.make_room()
        assert not cleared
        jax_traces.clear()
        assert cleared == [1]

    def test_an_array_without_a_buffer_is_read_by_numpy(self, monkeypatch: Any) -> None:
        """Assert that NumPy reads an array without a buffer, as JAX's arrays may lack one some day."""

        class Other:
            def __init__(self, value: Any) -> None:
                self._value = value

            def __getattr__(self, name: str) -> Any:
                return getattr(self._value, name)

            def __array__(self, *_: Any, **__: Any) -> Any:
                return np.asarray(self._value)

        for shape, expected in (((2, 2), [[1.0, 1.0], [1.0, 1.0]]), ((), 1.0)):
            x = mx.array(jnp.ones(shape, np.float32))
            x._node.value = Other(x._node.value)
            with pytest.raises(TypeError):
                memoryview(x._node.value)
            assert x.tolist() == expected
            assert np.array(x).tolist() == expected
            assert shape or x.item() == 1.0
            assert bytes(x) == np.ones(shape, np.float32).tobytes()


class TestPython:
    def test_errors_name_no_line_without_frames(self) -> None:
        program = """
import sys
import mxcompat.core as mx
from mxcompat import ext
from mxcompat._compat.python import get_frame
assert get_frame is None
with ext.debug.explain() as said:
    (mx.ones(3) + 1).tolist()
print("an unknown place" in " ".join(said))
try:
    mx.eval(mx.linalg.inv(mx.zeros((4, 4)), stream=mx.cpu))
except RuntimeError as error:
    print(error.__notes__)
"""
        for native in ("1", "0"):
            out = output("-c", program, env=without("frames", MXCOMPAT_NATIVE=native))
            assert out.startswith("True\n"), out
            assert "called at an unknown place" in out

    def test_a_profile_names_no_line_without_frames(self, tmp_path: Path) -> None:
        script = tmp_path / "program.py"
        script.write_text("import mlx.core as mx\nprint((mx.ones(3) + 1).sum().item())\n")
        command = [sys.executable, "-m", "mxcompat", "profile", str(script)]
        process = subprocess.run(command, env=without("frames"), capture_output=True, text=True, timeout=120)
        assert (process.returncode, process.stdout) == (0, "6.0\n"), process.stderr
        assert "an unknown place" in process.stderr

    def test_signals_are_held_up_without(self) -> None:
        program = """
import signal
from mxcompat._compat import python
from mxcompat._graph.run.interrupts import uninterrupted
assert python.getsignal is signal.getsignal and python.setsignal is signal.signal
def work():
    signal.raise_signal(signal.SIGINT)
    print("done")
try:
    uninterrupted(work)
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        assert output("-c", program, env=without("signals")) == "done\ninterrupted True\n"

    def test_the_faster_signals_are_used_where_they_are(self) -> None:
        assert python.getsignal.__module__ == "_signal"

    def test_a_process_ends_without(self, tmp_path: Path) -> None:
        """Assert that a process without this feature waits for the running job, with the same output and status."""
        program = """
import atexit, sys, time
from mxcompat._graph.run import background
atexit.register(lambda: print("handler"))
began = []
background.submit(lambda: (began.append(1), time.sleep(0.3), print("job")))
while not began:
    time.sleep(0.001)
print("program")
sys.exit(3)
"""
        command = [sys.executable, "-m", "mxcompat", "-c", program]
        process = subprocess.run(command, env=without("process-end"), capture_output=True, text=True, timeout=120)
        assert (process.returncode, process.stdout.split()) == (3, ["program", "job", "handler"]), process.stderr

    def test_processes_that_inherit_the_environment_have_mlx_without(self, tmp_path: Path) -> None:
        script = tmp_path / "program.py"
        script.write_text(
            "import subprocess, sys, os\n"
            "line = [sys.executable, '-c', 'import mlx.core as mx; print(hasattr(mx, \"__mxcompat__\"))']\n"
            "print(subprocess.run(line, capture_output=True, text=True).stdout)\n"
            "print(subprocess.Popen.__init__.__module__, hasattr(subprocess.Popen.__init__, '__wrapped__'))\n"
        )
        out = output("-m", "mxcompat", str(script), env=without("process-start"))
        assert out.split() == ["True", "subprocess", "False"]


def test_the_variable_and_the_names_are_documented() -> None:
    page = (ROOT / "docs" / "environment.md").read_text()
    assert "MXCOMPAT_WITHOUT" in page
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in NAMES)
