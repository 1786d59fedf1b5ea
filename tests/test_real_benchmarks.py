"""The benchmarks of real size measure equal work: at a tiny size, each gives real MLX's numbers on mxcompat."""

import json
import os
import subprocess
import sys

import pytest

from tests.benchmarks import processes, real_models, real_quantized, real_sides, real_times, table
from tests.benchmarks.agreement import agree, digest
from tests.oracle import ours, real

_HALF = 3e-2  # real MLX adds products in half precision


def small(product):
    return product._replace(k=256, n=64)


@pytest.mark.parametrize("product", sorted({small(p) for p in real_quantized.PRODUCTS}), ids=lambda p: p.name)
def test_quantized_products_give_what_real_mlx_gives(product):
    mine, theirs = (product.mlx(mx)() for mx in (ours, real))
    assert mine.shape == theirs.shape == (product.rows, product.n)
    assert str(mine.dtype) == str(theirs.dtype) == f"mlx.core.{product.dtype}"
    values = [digest(y.astype(mx.float32)[0, :16]) for y, mx in ((mine, ours), (theirs, real))]
    assert max(map(abs, values[1])) > 0.1
    assert agree(*values, 1e-4 if product.dtype == "float32" else _HALF)


@pytest.mark.parametrize("product", sorted({small(p) for p in real_quantized.PRODUCTS}), ids=lambda p: p.name)
def test_the_size_of_a_product_is_that_of_its_matrix(product):
    w = real.zeros((product.n, product.k), getattr(real, product.dtype))
    matrix = real.quantize(w, group_size=product.group, bits=product.bits, mode=product.mode)
    assert product.size == sum(array.nbytes for array in matrix)


def test_a_row_of_a_product_is_compared_with_memory(monkeypatch):
    product = real_quantized.Product(bits=3)
    runs = {
        "mxcompat": [{"first": 9.0, "second": 5.0, "warm": 3.0, "np.sum": 1.0}],
        "MLX": [{"first": 8.0, "second": 8.0, "warm": 8.0, "np.sum": 2.0}],
    }
    monkeypatch.setattr(real_quantized, "in_turn", lambda *args: runs)
    rows = list(real_quantized.rows(lambda name: name == product.name, 1))
    assert [row.targets for row in rows] == [{"1 x MLX": False}, {"4 x np.sum": False}, {"4 x np.sum": True}]
    assert table.show(rows[2]).endswith("4 x np.sum ok; np.sum 1.00")


def test_sides_run_in_turn_and_must_agree(monkeypatch):
    results = {"mxcompat": 1.0, "MLX": 1.0}
    order = []

    def run(module, side, name):
        order.append(side)
        return {"result": [results[side]], "parameters": 3}

    monkeypatch.setattr(real_sides, "_run", run)
    measurements = real_sides.in_turn("module", ["row"], list(results), 3, once=["MLX"])
    assert order == ["mxcompat", "MLX", "mxcompat", "mxcompat"]
    assert {side: len(runs) for side, runs in measurements.items()} == {"mxcompat": 3, "MLX": 1}
    results["MLX"] = 1.1
    with pytest.raises(AssertionError, match="row"):
        real_sides.in_turn("module", ["row"], list(results), 1)


_TINY = """
import dataclasses, json, sys
from pathlib import Path
from tests.benchmarks import real_models, real_qwen, real_sides, real_times
side, root = sys.argv[1], Path(sys.argv[2])
assert "mxcompat" not in sys.modules
real_sides.use(side)
found = {}
for model in real_models.MODELS:
    folder = root / str(model.bits) if model.build is None else None
    if folder and side == "MLX":
        folder.mkdir()
        real_qwen.save(folder, model.bits, **model.tiny)
    if side in model.sides:
        found[model.name] = real_models.measure(side, model, folder, **model.tiny)
if side != "PyTorch":
    import mlx.core as mx
    for program in real_times.PROGRAMS:
        short = dataclasses.replace(program, counts=(1, 3))
        found[f"{program.name}, {program.counts}"] = real_times.times(mx, short, **program.tiny)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The measurements of each side, of models and programs at a tiny size."""
    root = str(tmp_path_factory.mktemp("models"))
    environment = {**os.environ, "MXCOMPAT_BENCHMARK_SLOW": "1", "OMP_NUM_THREADS": "1"}
    measurements = {}
    for side in ("MLX", "mxcompat", *(["PyTorch"] if real_sides.has_torch() else [])):
        command = [sys.executable, "-c", _TINY, side, root]
        process = subprocess.run(command, cwd=processes.ROOT, env=environment, check=True, stdout=subprocess.PIPE)
        measurements[side] = json.loads(process.stdout)
    return measurements


@pytest.mark.parametrize("model", real_models.MODELS, ids=lambda model: model.name)
def test_models_give_what_real_mlx_gives(model, tiny):
    mine, theirs = (tiny[side][model.name] for side in ("mxcompat", "MLX"))
    assert mine.keys() == theirs.keys()
    assert model.limits.keys() <= mine.keys()
    assert mine["result"]
    assert agree(mine["result"], theirs["result"], 1e-4 if model.build else _HALF)
    for side in model.sides:
        assert tiny[side][model.name].get("parameters") == theirs.get("parameters")


@pytest.mark.parametrize("program", real_times.PROGRAMS, ids=lambda program: f"{program.name}, {program.counts}")
def test_programs_give_what_real_mlx_gives(program, tiny):
    mine, theirs = (tiny[side][f"{program.name}, {program.counts}"] for side in ("mxcompat", "MLX"))
    assert [*mine] == [*theirs] == ["1", "3", "result"]
    assert 0 < mine["1"] < mine["3"]
    assert agree(mine["result"], theirs["result"])


def test_the_time_to_n_is_limited_by_that_of_real_mlx(monkeypatch):
    runs = {"mxcompat": [{"1": 90.0, "2": 1200.0}], "MLX": [{"1": 50.0, "2": 1000.0}]}
    short = real_times.Program("short", lambda mx: iter([]), (1, 2))
    long = real_times.Program("long", lambda mx: iter([]), (2,), of_mlx=1 / 3, room=None)
    monkeypatch.setattr(real_times, "in_turn", lambda *args: runs)
    monkeypatch.setattr(real_times, "PROGRAMS", (short, long))
    targets = [row.targets for row in real_times.rows(lambda name: True, 1)]
    assert targets == [{"1.1 x MLX or 100 ms": True}, {"1.1 x MLX or 1050 ms": False}, {"0.333 x MLX": False}]


def test_slow_models_of_real_mlx_are_measured_when_asked_for(monkeypatch):
    (model,) = (model for model in real_models.MODELS if model.build == "gpt2")
    monkeypatch.delenv("MXCOMPAT_BENCHMARK_SLOW", raising=False)
    assert "MLX" not in model.sides
    monkeypatch.setenv("MXCOMPAT_BENCHMARK_SLOW", "1")
    assert "MLX" in model.sides


def test_the_peak_of_a_model_is_limited_by_that_of_real_mlx(monkeypatch):
    model = real_models.Model("model", "bert", limits={"first": [("PyTorch", 4.0)]})
    runs = {
        "mxcompat": [{"first": 9.0, "peak memory": 700.0, "parameters": 3, "result": [1.0]}] * 2,
        "MLX": [{"first": 8.0, "peak memory": 500.0, "parameters": 3, "result": [1.0]}],
        "PyTorch": [{"first": 3.0, "peak memory": 800.0, "parameters": 3, "result": []}] * 2,
    }
    monkeypatch.setattr(real_models, "in_turn", lambda *args: runs)
    monkeypatch.setattr(real_models, "MODELS", (model,))
    first, peak = real_models.rows(lambda name: True, 2)
    assert first.targets == {"4 x PyTorch": True}
    assert peak.targets == {"1.15 x MLX or 775 MB": True}
    assert (first.unit, peak.unit) == ("ms", "MB")
