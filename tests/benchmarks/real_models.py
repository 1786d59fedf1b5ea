"""Time whole models of published sizes, and measure their memory: the first step of a process, the next, and warm.

Each side runs in a separate process:

    python -m tests.benchmarks.real_models SIDE NAME [FOLDER]     prints milliseconds and MB, as JSON

SIDE is `mxcompat`, `MLX` or `PyTorch`. Models of language are loaded from FOLDER. Real MLX takes up to 70 s for a step
of some models. It is left out there, unless the environment variable MXCOMPAT_BENCHMARK_SLOW is set; it then runs in
one round.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import processes, real_qwen
from .agreement import digest
from .real_sides import has_torch, in_turn, megabytes, timed, use, wait_for_compiles
from .table import Row, compared, present

__all__ = ["MODELS", "Model", "measure", "rows"]

_SLOW = "MXCOMPAT_BENCHMARK_SLOW"
_WARM_STEPS = 3
_PEAK = "peak memory"

Limits = dict[str, list[tuple[str | None, float]]]


@dataclass(frozen=True)
class Model:
    """A model, its steps, and its targets.

    Args:
        build: name of the function in `real_networks` and `real_torch`; None for Qwen2.
        following: number of steps after the first whose total is shown.
        warm: True to show the median of steps after all compiles, too.
        bits: bits of a weight of Qwen2; 16 is bfloat16.
        slow: True if real MLX takes more than half a minute.
        above_imports: True to show memory above that of the imported libraries.
        limits: by measurement, pairs of a side and the multiple of its value; without a side, a value. Without one of
            its own, the peak of memory is limited by real MLX's.
        tiny: sizes for tests.
    """

    name: str
    build: str | None = None
    following: int = 1
    warm: bool = False
    bits: int = 16
    slow: bool = False
    above_imports: bool = False
    limits: Limits = field(default_factory=dict)
    tiny: dict[str, Any] = field(default_factory=dict)

    @property
    def sides(self) -> list[str]:
        skipped = {"jax.jit", *(["MLX"] if self.slow and not os.environ.get(_SLOW) else [])}
        torch = has_torch() and (self.build is not None or self.bits == 16)
        return [*(side for side in present() if side not in skipped), *(["PyTorch"] if torch else [])]


_TINY_QWEN = {
    "hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256, "num_attention_heads": 4, "vocab_size": 512,
}  # fmt: skip
_TINY_BLOCKS = {"width": 32, "heads": 4, "layers": 2}
_VISION: Limits = {"first": [("PyTorch", 4.0)], "warm": [("PyTorch", 1.5)]}

MODELS = (
    Model(
        "Qwen2 0.5B, 4 bits",
        bits=4,
        slow=True,
        limits={"load": [(None, 100.0)], "a token": [(None, 100.0)], _PEAK: [(None, 820.0)]},
        tiny=_TINY_QWEN,
    ),
    Model("Qwen2 0.5B, bfloat16", limits={"load": [(None, 100.0)]}, tiny=_TINY_QWEN),
    Model(
        "GPT-2 small, 2x256, AdamW",
        "gpt2",
        following=3,
        slow=True,
        limits={"first": [("PyTorch", 1.2)], "next 3": [("PyTorch", 1.0)], _PEAK: [(None, 3700.0)]},
        tiny={**_TINY_BLOCKS, "vocabulary": 50, "length": 8},
    ),
    Model(
        "BERT base, 8x128",
        "bert",
        following=4,
        slow=True,
        limits={_PEAK: [(None, 830.0)]},
        tiny={**_TINY_BLOCKS, "vocabulary": 50, "length": 8},
    ),
    Model(
        "ViT-B/16, 4 images",
        "vit",
        following=4,
        warm=True,
        slow=True,
        limits={**_VISION, _PEAK: [(None, 735.0)]},
        tiny={**_TINY_BLOCKS, "size": 32, "classes": 10},
    ),
    Model(
        "ResNet-50, 2 images",
        "resnet50",
        following=2,
        warm=True,
        limits=_VISION,
        tiny={"size": 32, "blocks": (1, 2), "width": 8, "classes": 10},
    ),
    Model(
        "Whisper base's encoder, 30 s",
        "whisper",
        warm=True,
        slow=True,
        limits={**_VISION, _PEAK: [(None, 820.0)]},
        tiny={**_TINY_BLOCKS, "frames": 20, "mels": 8},
    ),
    Model(
        "AdamW of 30 M parameters",
        "adamw",
        following=4,
        warm=True,
        above_imports=True,
        limits={"warm": [("MLX", 0.25)], _PEAK: [(None, 600.0)]},
        tiny={"matrices": 2, "width": 16},
    ),
)
"""The limits of memory are 1.15 times real MLX's peak and 200 MB, rounded, where real MLX is slow."""


def measure(side: str, model: Model, folder: Path | None = None, **sizes: Any) -> dict[str, Any]:
    """Return a process's milliseconds and MB by name, the number of parameters, and the first step's result.

    Args:
        folder: where the model is, if it is loaded from files.
        sizes: sizes in place of the published ones.
    """
    if folder is not None:
        return real_qwen.measure(side, folder)
    assert model.build is not None
    use(side)
    networks = importlib.import_module(f"{__package__}.{'real_torch' if side == 'PyTorch' else 'real_networks'}")
    imported = _imported(side) if model.above_imports else 0.0
    step, parameters = getattr(networks, model.build)(**sizes)
    results: list[Any] = []
    times = [timed(lambda: results.append(step()))]
    result = [] if side == "PyTorch" else digest(results.pop())
    times += [timed(step) for _ in range(model.following)]
    figures: dict[str, Any] = {"first": times[0], f"next {model.following}": sum(times[1:])}
    if model.warm:
        wait_for_compiles(side)
        timed(step)
        figures["warm"] = statistics.median(timed(step) for _ in range(_WARM_STEPS))
    figures[_PEAK] = megabytes("VmHWM") - imported
    figures["memory after"] = megabytes("VmRSS") - imported
    return {**figures, "parameters": parameters, "result": result}


def _imported(side: str) -> float:
    """Return the memory after all imports, in MB, and reset the peak."""
    if side == "mxcompat":
        import jax  # noqa: F401  # which mxcompat imports when it first needs it
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return megabytes("VmRSS")


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the models whose names are selected, in turn on each side."""
    for model in MODELS:
        if is_selected(model.name):
            if model.build is None and not importlib.util.find_spec("mlx_lm"):
                yield Row(f"{model.name}: mlx-lm is not installed", "ms", {})
            else:
                yield from _rows(model, rounds)


def _rows(model: Model, rounds: int) -> Iterator[Row]:
    with _files(model) as words:
        tolerance = 1e-3 if model.build else 5e-2  # the logits of Qwen2 are in bfloat16
        once = ["MLX"] if model.slow else []
        measurements = in_turn("real_models", [model.name, *words], model.sides, rounds, tolerance, once)
    labels = [label for label in measurements["mxcompat"][0] if label not in ("parameters", "result")]
    for k, label in enumerate(labels):
        times = {side: [run[label] for run in runs] for side, runs in measurements.items()}
        medians = {side: statistics.median(several) for side, several in times.items()}
        whole = {side: several for side, several in times.items() if len(several) == len(times["mxcompat"])}
        name = f"{model.name}: {label}" if k == 0 else f"  {label}"
        if label == _PEAK and model.above_imports:
            name += ", above the imports"
        row = Row(name, "MB" if "memory" in label else "ms", medians, *compared(whole))
        for side, most in model.limits.get(label, []):
            row.limit(side, most)
        if label == _PEAK and not row.targets:
            row.limit("MLX", 1.15, 1.15 * medians.get("MLX", 0.0) + 200)
        yield row


@contextlib.contextmanager
def _files(model: Model) -> Iterator[list[str]]:
    """Yield a folder with the model's files, if it is loaded from files."""
    if model.build is not None:
        yield []
        return
    writer = "MLX" if "MLX" in present() else "mxcompat"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", f"{__package__}.real_qwen", writer, folder, str(model.bits)]
        subprocess.run(command, cwd=processes.ROOT, check=True)
        yield [folder]


def main(side: str, name: str, *folder: str) -> None:
    (model,) = (model for model in MODELS if model.name == name)
    print(json.dumps(measure(side, model, *map(Path, folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
