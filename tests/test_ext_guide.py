"""Run the examples of docs/ext.md in order, as a reader would."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mxcompat as mx

PAGE = Path(__file__).parent.parent / "docs" / "ext.md"


def test_the_guide(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    if not is_installed("flatbuffers"):
        blocks = [b for b in blocks if ".save(" not in b]
    if not is_installed("sklearn"):
        blocks = [b for b in blocks if "sklearn" not in b]
    path = os.pathsep.join([str(PAGE.parent.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("[log] made a NaN, called at")


def is_installed(module):
    return importlib.util.find_spec(module) is not None


def test_grain_feeds_mx_arrays():
    grain = pytest.importorskip("grain", reason="grain is not installed: pip install grain")
    data = [(np.full(3, k, np.float32), np.int32(k)) for k in range(10)]
    loader = grain.MapDataset.source(data).shuffle(seed=0).batch(4, drop_remainder=True)
    seen = []
    for inputs, targets in loader:
        x, y = mx.array(inputs), mx.array(targets)
        assert (x.shape, x.dtype, y.dtype) == ((4, 3), mx.float32, mx.int32)
        assert mx.array_equal(x.sum(1), 3.0 * y)
        seen += y.tolist()
    assert len({*seen}) == 8


def test_torch_feeds_mx_arrays():
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed: pip install torch")
    samples = [(np.full(3, k, np.float32), np.int32(k)) for k in range(10)]

    def collate(chosen):
        return [np.stack(column) for column in zip(*chosen, strict=True)]

    seen = []
    for inputs, targets in data.DataLoader(samples, batch_size=4, collate_fn=collate, drop_last=True, shuffle=True):
        assert mx.array_equal(mx.array(inputs).sum(1), 3.0 * mx.array(targets))
        seen += targets.tolist()
    assert len({*seen}) == 8
