"""`mx.ext.reproducible`: equal bits in every run and process, and after a restart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat import optimizers as optim
from mxcompat._graph import policy
from mxcompat._graph.run.plan import Call, Compile, Segments, Split
from mxcompat.ext.debug import clear_cache, compiles
from tests.reproducible_worker import PROGRAMS, digest

ROOT = Path(__file__).parent.parent


def run(program: str, first: int, last: int, path: Path, **more: str) -> list[str]:
    command = [sys.executable, "-m", "tests.reproducible_worker", program, str(first), str(last), str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MXCOMPAT_REPRODUCIBLE": "1", **more}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_restarted_run_goes_on_as_the_first_did(program: str, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    whole = run(program, 0, 40, path)
    assert len({*whole}) == 40
    disk = {"MXCOMPAT_CACHE": "1", "MXCOMPAT_CACHE_DIR": str(tmp_path / "cache"), "JAX_ENABLE_COMPILATION_CACHE": "0"}
    for last in (40, 24):  # compiled afresh and stored, then loaded
        assert run(program, 20, last, path, **disk) == whole[20:last]
        assert any((tmp_path / "cache").iterdir())


def repeated(program: str, times: int) -> list[str]:
    """Return the bits of the first step, repeated from the same state."""
    workload = PROGRAMS[program]()
    start = {name: np.array(value) for name, value in workload.state().items()}
    digests = []
    for _ in range(times):
        workload.restore({name: mx.array(value) for name, value in start.items()})
        digests.append(digest(workload.step(0)))
    return digests


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_step_has_been_through_does_not_show(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that bits do not depend on earlier steps in NumPy, other executables, or the number of runs."""
    clear_cache()
    with ext.reproducible():
        (first,) = repeated(program, 1)
    monkeypatch.setattr(policy, "HEAVY_SECONDS", 0.0)
    monkeypatch.setattr(policy, "HEAVY_SHARE", 0.0)
    monkeypatch.setattr(policy, "AUTOTUNED_SECONDS", 0.0)
    other = repeated(program, 3)
    compiles()  # waits for background compiles
    other += repeated(program, 2)
    assert len({*other, first}) > 1, "this program has the same bits anyway"
    with ext.reproducible():
        assert {*repeated(program, 40)} == {first}


def test_buffers_that_others_hold_are_copied(plans) -> None:
    """Assert that bits do not depend on other references: the executable always donates, after a copy if needed."""
    data = np.arange(1 << 16, dtype=np.float32)
    with ext.reproducible():
        for held in (False, True, False):
            x = mx.array(data) * 0.1
            mx.eval(x)
            other = x._node if held else None
            x[5:9] = x[5:9] * 0.3 + 1
            mx.eval(x)
            want = data * np.float32(0.1)
            if other is not None:
                np.testing.assert_array_equal(np.array(other.value), want)
            want[5:9] = want[5:9] * np.float32(0.3) + 1
            np.testing.assert_allclose(np.array(x), want, rtol=1e-6)
    writes = [p for p in plans if isinstance(p, Call) and p.executable.donated]
    assert [bool(p.copied) for p in writes] == [False, True, False]
    assert len({id(p.executable) for p in writes}) == 1


def test_one_executable_for_all_numbers(plans) -> None:
    x = mx.array(np.linspace(0, 1, 50, dtype=np.float32))
    with ext.reproducible():
        before = compiles()
        for k in range(5):
            mx.eval(mx.exp(x * (0.1 * k)) * 3 + k)
        assert compiles() == before + 1
    assert [type(p) for p in plans] == [Compile, *[Call] * 5]
    assert len({id(p.executable) for p in plans[1:]}) == 1


def test_numbers_are_not_folded() -> None:
    """Assert that numbers are arguments: XLA would fold the constants of `x * 0.1 * 0.3`."""
    x = np.linspace(0.1, 9, 1000, dtype=np.float32)
    with ext.reproducible():
        for a, b in ((0.1, 0.3), (0.1, 0.3), (0.7, 0.9)):
            got = np.array(mx.array(x) * a * b)
            np.testing.assert_array_equal(got, x * np.float32(a) * np.float32(b))


def test_a_huge_derivative_is_cut_in_the_same_way_each_time(plans) -> None:
    def loop(x):
        for _ in range(400):
            x = mx.sin(x) * 0.9 + x * 0.05
        return x.sum()

    with ext.reproducible():
        x = mx.array(np.linspace(0, 1, 6, dtype=np.float32))
        gradients = []
        for _ in range(3):
            gradients.append(np.array(mx.grad(loop)(x)))
            gradients.append(np.array(mx.grad(loop)(x * 1)))  # together with another computation
    for got in gradients[2:]:
        np.testing.assert_array_equal(got, gradients[0])
    assert sum(isinstance(p, Segments | Split) for p in plans) >= 3


def test_the_switch_and_the_context() -> None:
    before = policy.REPRODUCIBLE
    try:
        ext.reproducible(False)
        with ext.reproducible():
            assert policy.REPRODUCIBLE
            with ext.reproducible(False):
                assert not policy.REPRODUCIBLE
            assert policy.REPRODUCIBLE
        assert not policy.REPRODUCIBLE
        ext.reproducible()
        assert policy.REPRODUCIBLE
        with pytest.raises(ValueError, match="broken"), ext.reproducible(False):
            raise ValueError("broken")
        assert policy.REPRODUCIBLE
    finally:
        ext.reproducible(before)


def test_an_optimizer_forgets_its_past() -> None:
    """Assert that results do not depend on an optimizer's history: of many settings, only the first ones are
    compiled."""
    start = np.linspace(-1, 1, 200, dtype=np.float32)

    def update(optimizer):
        optimizer.weight_decay = 0.25
        parameters = {"w": mx.array(start)}
        optimizer.state = {
            "step": mx.array(0, mx.uint64), "learning_rate": mx.array(0.1),
            "w": {"m": mx.array(np.sin(start)), "v": mx.array(start**2)},
        }  # fmt: skip
        new = optimizer.apply_gradients({"w": mx.array(np.cos(start))}, parameters)
        mx.eval(new)
        return np.array(new["w"])

    with ext.reproducible():
        used = optim.AdamW(learning_rate=0.1)
        for k in range(20):
            used.weight_decay = 0.01 * k
            mx.eval(used.apply_gradients({"w": mx.array(start)}, {"w": mx.array(start)}))
        np.testing.assert_array_equal(update(used), update(optim.AdamW(learning_rate=0.1)))


QUANTIZED = """
import os
import mxcompat.core as mx
words, scales, _ = mx.quantize(mx.random.normal((1, 32), key=mx.random.key(26)), 32, 2)
mx.eval(words)
print(words.tolist(), os.environ.get("XLA_FLAGS"))
"""


@pytest.mark.parametrize("flags", ["", "--xla_cpu_enable_fast_math=false"])
def test_codes_of_random_weights_are_compiled_in_the_end(flags: str) -> None:
    """Assert that a loop over random bits compiles. LLVM searches it for a checksum without end, unless disabled."""
    inherited = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    environment = {**inherited, "PYTHONPATH": str(ROOT), "MXCOMPAT_REPRODUCIBLE": "1", "MXCOMPAT_HOST": "0",
                   "JAX_ENABLE_COMPILATION_CACHE": "0", **({"XLA_FLAGS": flags} if flags else {})}  # fmt: skip
    process = subprocess.run(
        [sys.executable, "-c", QUANTIZED], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert process.returncode == 0, process.stderr
    words, _, printed_flags = process.stdout.strip().rpartition("]] ")
    assert words == "[[2733370010, 3722984361"  # the words of real MLX
    assert printed_flags == (flags or "None")
