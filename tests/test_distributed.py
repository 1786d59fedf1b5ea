"""`distributed` in a group of one, and the namespace info of the array API."""

import subprocess
import sys

import numpy as np
import pytest

from tests.oracle import check, ours

X = np.array([1.0, 2.0], np.float32)
COLLECTIVES = ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_gives_back_what_went_in(name):
    check(
        lambda mx, x: [
            getattr(mx.distributed, name)(v, group=group)
            for v in (x, mx.array(1), x.astype(mx.bfloat16), mx.zeros((0, 2)), np.ones(2), 3)
            for group in (None, mx.distributed.init())
        ],
        X,
    )


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_under_transforms(name):
    def case(mx, x):
        f = getattr(mx.distributed, name)
        return mx.grad(lambda x: (f(x) * x).sum())(x), mx.compile(lambda x: f(x) + 1)(x)

    check(case, X)
    f = getattr(ours.distributed, name)
    same_as = ours.vmap(lambda a: f(a) * 2)(ours.array(X))
    assert same_as.tolist() == [2, 4]


@pytest.mark.parametrize(
    "case",
    [
        *[lambda mx, n=n: getattr(mx.distributed, n)([1, 2]) for n in COLLECTIVES],
        *[lambda mx, n=n: getattr(mx.distributed, n)(mx.ones(2), group=3) for n in COLLECTIVES],
        lambda mx: (mx.distributed.init().rank(), mx.distributed.init(backend="ring").size()),
        lambda mx: mx.distributed.init().split(0),
        lambda mx: mx.distributed.init().split(color=0, key=1),
        lambda mx: mx.distributed.init().split("a"),
        lambda mx: mx.distributed.init(backend="foo"),
        lambda mx: mx.distributed.init(strict=True),
        lambda mx: mx.distributed.init(True, "mpi"),
        *[
            lambda mx, backend=backend, factory=factory: mx.distributed.init(
                backend=backend, all_gather_factory=factory
            ).size()
            for backend in ("any", "mpi", "ring", "jaccl", "foo")
            for factory in (None, 5, "x", lambda rank, size: None)
        ],
        lambda mx: mx.distributed.init(True, "jaccl", all_gather_factory=lambda rank, size: None),
        lambda mx: mx.distributed.init(True, "nccl"),
        lambda mx: mx.distributed.is_available(),
        lambda mx: [mx.distributed.is_available(name) for name in ("any", "ring", "mpi", "nccl", "jaccl")],
        lambda mx: mx.distributed.is_available("foo"),
        lambda mx: mx.distributed.is_available(3),
        lambda mx: mx.distributed.Group(),
        lambda mx: mx.distributed.send(mx.ones(2), 0),
        lambda mx: mx.distributed.send(mx.ones(2), "a"),
        lambda mx: mx.distributed.recv((2,), mx.float32, 0),
        lambda mx: mx.distributed.recv(2, mx.float32, 0),
        lambda mx: mx.distributed.recv((2,), 3, 0),
        lambda mx: mx.distributed.recv_like(mx.ones(2), 0),
    ],
)
def test_as_real_mlx(case):
    check(case)


def test_a_process_alone(monkeypatch):
    with pytest.raises(RuntimeError, match="alone"):
        ours.distributed.init(strict=True, backend="ring")
    monkeypatch.setenv("MLX_RANK", "1")
    assert ours.distributed.init().size() == 1  # real MLX gives 1, too


def test_metal_and_cuda():
    check(lambda mx: (mx.metal.is_available(), mx.cuda.is_available(), mx.metal.device_info()))
    check(lambda mx: (mx.metal.start_capture("a.gputrace"), mx.metal.stop_capture(), mx.metal.clear_cache()))
    check(lambda mx: mx.metal.start_capture(3))
    previous = ours.metal.set_cache_limit(1 << 30)
    assert ours.set_cache_limit(previous) == 1 << 30


def test_what_has_moved_says_so_once():
    program = """
import {module} as mx
for name in sorted(n for n in dir(mx.metal) if n.islower() and n[0] != "_" and not n.endswith("_capture")):
    for _ in range(2):
        getattr(mx.metal, name)(*[1 << 30] * name.startswith("set"))
"""
    said = [
        subprocess.run([sys.executable, "-c", program.format(module=m)], capture_output=True, text=True, check=True)
        for m in ("mlx.core", "mxcompat.core")
    ]
    assert said[0].stderr.count("deprecated") == 9
    assert said[1].stderr == said[0].stderr


@pytest.mark.parametrize(
    "case",
    [
        lambda info, mx: info.capabilities(),
        lambda info, mx: info.default_device(),
        lambda info, mx: info.default_dtypes(),
        lambda info, mx: info.default_dtypes(device=mx.Device(mx.cpu)),
        lambda info, mx: info.default_dtypes(device=mx.cpu),
        lambda info, mx: info.default_dtypes("cpu"),
        lambda info, mx: info.devices(),
        lambda info, mx: sorted(map(str, info.dtypes().items())),
        lambda info, mx: sorted(info.dtypes(device=mx.Device(mx.gpu))),
        lambda info, mx: info.dtypes(device=mx.cpu),
        *[
            lambda info, mx, kind=kind: sorted(info.dtypes(kind=kind))
            for kind in (
                "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
                "numeric", ("bool", "integral"), (), "foo", ["bool"],
            )
        ],
    ],
)  # fmt: skip
def test_array_namespace_info(case):
    check(lambda mx: case(mx.__array_namespace_info__(), mx))


def test_what_transforms_return_has_a_type():
    for f in (ours.grad(ours.sin), ours.vmap(ours.sin), ours.compile(ours.sin)):
        assert isinstance(f, ours._gc_func)
    with pytest.raises(TypeError):
        ours._gc_func()
