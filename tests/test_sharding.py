"""`mx.ext.sharding`, in separate processes, because JAX fixes the number of devices at its start."""

import json
import os
import re
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mxcompat._graph.run.collectives import Collective, collectives, summary

ROOT = Path(__file__).parent.parent


def run(*commands, devices=8):
    """Run these Python commands concurrently, and return their outputs."""
    with ExitStack() as stack:
        started = [stack.enter_context(_process(*command, devices=devices)) for command in commands]
        outs = [process.communicate(timeout=900)[0] for process in started]
        assert [process.returncode for process in started] == [0] * len(started), "\n".join(outs)
    return outs


@contextmanager
def _process(*arguments, devices):
    flags = f"--xla_force_host_platform_device_count={devices}"
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, env={**os.environ, "XLA_FLAGS": flags},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("marked", ["not exhaustive", pytest.param("exhaustive", marks=pytest.mark.exhaustive)])
def test_programs_over_eight_devices(marked):
    (out,) = run(("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/sharding_cases.py", "-m", marked))
    assert " passed" in out


def test_a_mesh_over_two_processes():
    """Run the same program in two processes, each on its half of the devices."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    first, second = run(*[("tests/sharding_worker.py", port, rank) for rank in range(2)], devices=2)
    assert first.splitlines()[-1] == second.splitlines()[-1]
    assert first.splitlines()[-1].startswith("losses")


def test_the_example(tmp_path):
    """Check the example on two devices: equal losses, half the memory, the collectives, and a plot."""
    plot = tmp_path / "plot.svg"
    small = ["--steps", 2, "--dims", 32, "--layers", 1, "--context", 8, "--vocabulary", 64, "--batch", 4]
    (out,) = run(("examples/sharded_gpt.py", "--devices", 2, *small, "--plot", plot), devices=1)
    apart = [float(n) for n in re.findall(r"([\d.e-]+) apart", out)]
    assert len(apart) == 2
    assert max(apart) < 1e-4
    assert re.search(r"partitioned: \d+ ops over \{'data': 2\}: .*1 all-reduce among 2 devices of \d+ bytes", out), out
    assert "all-gather" in out.partition("fully sharded")[2]
    lines = ElementTree.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    heights = [[float(p.split(",")[1]) for p in line.get("points").split()] for line in lines]
    assert heights[0][0] == heights[0][1], "data parallel, each device holds the whole"
    assert 250 - heights[1][1] < 0.8 * (250 - heights[1][0]), "fully sharded, but for what is small"


def test_a_training_step_for_256_devices():
    """Check the claims of docs/scaling.md: the collectives of each layout, their numbers of devices, their bytes."""
    (out,) = run(("tests/sharding_pod.py",), devices=256)
    report = json.loads(out)
    size, loss = report["parameters"], 4
    collectives = {name: [tuple(c) for c in cs] for name, cs in report["collectives"].items()}
    assert collectives["data parallel"] == [("all-reduce", size + loss, 256)]
    assert sorted(collectives["fully sharded, told"]) == [
        ("all-gather", size // 2, 256),
        ("all-gather", size // 2, 256),
        ("all-reduce", size + loss, 256),
    ]
    assert max(bytes for _, bytes, _ in collectives["fully sharded"]) < size // 4
    rows, width = 1024 // 64, 1024
    assert sorted(collectives["tensor parallel"]) == [
        ("all-reduce", 4 * rows * width, 4),
        ("all-reduce", size // 4 + loss, 64),
    ]


class Text:
    """Stand-in for an executable: its text."""

    def __init__(self, *lines):
        self.lines = lines

    def as_text(self):
        return "\n".join(["HloModule jit_f", *self.lines])


def test_collectives_are_read_off_the_text():
    text = Text(
        "  %all-reduce.1 = f32[16,8]{1,0} all-reduce(%x), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%add",
        "  ROOT %ag = bf16[4,4]{0,1} all-gather(%copy), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={1}",
        "  %all-reduce.3 = (f32[4]{0}, pred[]) all-reduce(%a, %b), replica_groups=mesh['x'=2,'y'=4] {'y'}, to_apply=%f",
        "  %p = s4[4]{0} all-to-all(%a), replica_groups=mesh['x'=8], device_ids=([8]) {'x':(1)2}, metadata={}",
        "  %s = (f32[2]{0}, f32[8]{0}) all-gather-start(%a), replica_groups={{0,1,2,3}}, dimensions={0}",
        "  %d = f32[8]{0} all-gather-done(%s)",
        "  %c = f32[1,16]{1,0} collective-permute(%a), channel_id=5, source_target_pairs={{0,2},{1,3}}, metadata={}",
        "  %f = f32[16,8]{1,0} fusion(%all-reduce.1), kind=kLoop",
    )
    result = collectives(text)
    assert result == [
        Collective("all-reduce", 512, 2),
        Collective("all-gather", 32, 4),
        Collective("all-reduce", 17, 4),
        Collective("all-to-all", 2, 2),
        Collective("all-gather", 32, 4),
        Collective("collective-permute", 64, 2),
    ]
    assert summary(result[:3]) == (
        "1 all-reduce among 2 devices of 512 bytes, 1 all-gather among 4 devices of 32 bytes, "
        "1 all-reduce among 4 devices of 17 bytes"
    )
    assert summary([]) == "no collectives"
