"""Executables kept on disk: a second process compiles nothing, and nothing that lies there can do harm."""

import os
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import aval, float32, int32
from mxcompat._graph.ir.linearize import linearize
from mxcompat._graph.run import background, disk, folder
from mxcompat._graph.run.compile import Executable
from mxcompat._graph.run.digest import NoDigest, digest
from mxcompat._graph.run.events import stats
from mxcompat.ext import debug, jax_function

ROOT = Path(__file__).parent.parent


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The cache is on, in a directory that is not there yet; JAX's own is off."""
    path = tmp_path / "cache"
    monkeypatch.delenv("MXCOMPAT_CACHE")
    monkeypatch.setenv("MXCOMPAT_CACHE_DIR", str(path))
    monkeypatch.setattr(disk, "_given_by_jax", lambda: False)
    monkeypatch.setattr(folder, "_said", set())
    monkeypatch.setattr(folder, "_bytes", None)
    return path


def environment(path, **more):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MXCOMPAT_"))}
    return {**own, "MXCOMPAT_CACHE_DIR": str(path), "PYTHONPATH": str(ROOT), **more}


def start(code, path, **more):
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.Popen(command, env=environment(path, **more), stdout=-1, stderr=-1, text=True)


def finish(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out.split("\n")


def entries(path):
    return sorted(path.glob("*.xla"))


def program_of(x):
    return linearize([x._node]).structure.program((0,))


def executable(program, scalars=(), lifted=(), hurry=False):
    """An executable, once it has been stored."""
    made = Executable(program, scalars, lifted, (), hurry=hurry)
    background.settle()
    return made


def counted(make):
    """What `make` returns, and how many programs were compiled and loaded for it."""
    before = stats.compiles, stats.loaded
    made = make()
    return made, stats.compiles - before[0], stats.loaded - before[1]


X = mx.array(np.linspace(0, 1, 12).reshape(3, 4).astype(np.float32))
mx.eval(X)


def some_program(scale=2.0):
    return program_of(mx.sin(X) @ X.T + mx.exp(X).sum() * scale)


TRAINING = """
    import numpy as np
    import mxcompat.core as mx, mxcompat.nn as nn, mxcompat.optimizers as optim
    from mxcompat._graph.run import background
    from mxcompat._graph.run.events import stats
    from mxcompat.ext import debug

    mx.random.seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = optim.Adam(learning_rate=lambda t: 0.01 / (1 + t))
    step = nn.value_and_grad(model, lambda x, y: ((model(x) - y) ** 2).mean())
    x = mx.random.normal((128, 8))
    buffer = mx.zeros((64, 1024))  # large enough to be written over
    with debug.explain() as messages:
        for k in range(6):
            loss, grads = step(x, x[:, :1])
            optimizer.update(model, grads)
            buffer[k] = loss
            mx.eval(loss, model.parameters(), optimizer.state, buffer)
            background.settle()
        q, r = mx.linalg.qr(x[:8])
        v = mx.vmap(mx.grad(lambda t: mx.sin(t).sum()))(x)
        mx.eval(q, r, v)
    print(stats.compiles, stats.optimised, stats.loaded)
    print(loss.item(), [float(np.abs(np.array(a)).sum()) for a in (buffer, q, r, v, model.layers[0].weight)])
    print([m.partition(":")[0] for m in messages])
"""


@pytest.mark.parametrize("host", ["0", "1"])
def test_a_second_process_compiles_nothing(tmp_path, host):
    first, second, third = [finish(start(TRAINING, tmp_path / "cache", MXCOMPAT_HOST=host)) for _ in range(3)]
    compiles, optimised, loaded = map(int, first[0].split())
    assert (compiles >= 1 or host == "1") and loaded == 0
    assert "loaded from disk" not in first[2]
    for later in (second, third):
        assert later[0].split()[:2] == ["0", "0"]
        assert int(later[0].split()[2]) == compiles
        assert "'compile'" not in later[2]
    # What ran in a hurry in the first process is the version for speed in the others.
    assert np.allclose(*[np.array(eval(f"[{run[1].replace(' ', ',', 1)}]")[1]) for run in (first, second)], rtol=1e-5)
    assert second[1] == third[1]


def test_arguments_in_every_place(place):
    """Lifted and baked scalars, and donated buffers that are passed in another order."""
    k, y = mx.array(3), mx.array(np.ones((64, 1024), np.float32))
    x = mx.array(np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024))
    mx.eval(x, y, k)
    y2, x2 = mx.array(y), mx.array(x)
    mx.eval(x2, y2)
    first = mx.slice_update(y, x[:1] * 2.5, k, (0,))
    second = mx.slice_update(x2, y2[:1] * 4.0, k, (0,))
    stretch = linearize([second._node, first._node])
    program = stretch.structure.program(tuple(sorted(stretch.roots)))
    scalars = tuple(stretch.leaves[k].value for k in program.scalars)
    arrays = [n for n in stretch.leaves if n.aval.shape != () or n.op is None]
    arrays = [n for n in arrays if type(n.value) not in (int, float)]
    positions = tuple(p for p, n in enumerate(arrays) if n in (y._node, x2._node))
    assert len(scalars) >= 2 and len(positions) == 2

    def run(made):
        return [np.array(v) for v in made([np.array(n.value) for n in arrays], scalars)]

    made = [Executable(program, scalars, (0,), positions, hurry=True)]
    background.settle()
    again, compiles, loaded = counted(lambda: Executable(program, scalars, (0,), positions, hurry=True))
    assert (compiles, loaded) == (0, 1)
    for a, b in zip(run(made[0]), run(again), strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_a_buffer_that_may_be_written_over_is(place):
    import jax

    x = mx.array(np.zeros((64, 1024), np.float32))
    mx.eval(x)
    program = program_of(mx.slice_update(x, mx.ones((1, 1024)), mx.array(2), (0,)))
    for loads in (0, 1):
        made, _, loaded = counted(lambda: Executable(program, _scalars(program), (), (0,), hurry=False))
        background.settle()
        assert loaded == loads
        values = [jax.numpy.ones(a.shape, a.dtype.numpy) for a in program.in_avals]
        made(values, _scalars(program))
        assert [v.is_deleted() for v in values] == [True] + [False] * (len(values) - 1)


def _scalars(program):
    return tuple(1.0 for _ in program.scalars)


def test_the_version_for_speed_takes_the_place_of_the_other(place, monkeypatch):
    monkeypatch.setattr(policy, "PATIENCE_LIGHT", 1)
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    made = executable(program, scalars, hurry=True)
    (hurried,) = entries(place)
    made([X._node.value] * (len(program.in_avals) - len(scalars)), scalars)
    background.settle()
    (fast,) = entries(place)
    assert fast != hurried
    again, compiles, loaded = counted(lambda: executable(program, scalars, hurry=True))
    assert (compiles, loaded) == (0, 1)
    assert again._patience == 0


def test_settings_of_this_run_are_part_of_the_key(place):
    import jax

    program = some_program()
    plain = disk.key_of(program, (2.0,))
    assert plain is not None and plain == disk.key_of(program, (2.0,))
    others = [disk.key_of(program, (value,)) for value in (2, True, -2.0, 0.0, -0.0, float("nan"), None, 2 + 0j, "2.0")]
    with jax.default_matmul_precision("float32"):
        others.append(disk.key_of(program, (2.0,)))
    others += [
        disk.key_of(program, ((2.0,),)),
        disk.key_of(program, (2.0,), ()),
        disk.key_of(program_of(X + 1), (2.0,)),
    ]
    assert None not in others
    assert len({plain, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: X.astype(mx.int32), lambda: X.astype(mx.int64)),
        (lambda: X.sum(0), lambda: X.sum(1)),
        (lambda: mx.concatenate([X, mx.sin(X)]), lambda: mx.concatenate([mx.sin(X), X])),
        (lambda: mx.vmap(mx.sin)(X), lambda: mx.vmap(mx.cos)(X)),
        (lambda: mx.grad(lambda a: mx.sin(a).sum())(X), lambda: mx.grad(lambda a: mx.cos(a).sum())(X)),
        (lambda: mx.sin(X), lambda: mx.sin(X[:2])),
        (lambda: X @ X.T, lambda: X.T @ X),
    ],
)
def test_other_programs_have_other_keys(one, other):
    made = [_whole(one()), _whole(one()), _whole(other())]
    debug.clear_cache()  # what was remembered of the programs is not what makes their keys equal
    keys = [digest(p) for p in (*made, _whole(one()))]
    assert keys[0] == keys[1] == keys[3] != keys[2]


def _whole(x):
    stretch = linearize([x._node])
    return stretch.structure.program((len(stretch.order) - 1,))


def test_a_function_of_the_users_is_not_kept(place):
    twice = jax_function(lambda x: x * 2)
    inner = mx.vmap(lambda x: twice(x))(X)
    for x in (twice(X), inner):
        program = _whole(x)
        with pytest.raises(NoDigest):
            digest(program)
        assert disk.key_of(program) is None
    executable(_whole(twice(X)))
    assert not place.exists()
    with pytest.raises(NoDigest, match="ndarray"):
        digest(some_program(), np.zeros(2))


def test_plain_data_of_other_kinds():
    kinds = [None, 1, 1.0, "1", b"1", (1,), (1, ()), int32, float32, aval((1,), int32), slice(1), ..., np.float32(1)]
    assert len({digest(some_program(), kind) for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:30],
        lambda data: data[:-1],
        lambda data: data + b"more",
        lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
        lambda data: b"something else entirely" * 10,
    ],
)
def test_a_damaged_entry_is_said_once_and_replaced(place, damage):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    executable(program, scalars)
    (entry,) = entries(place)
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    with pytest.warns(RuntimeWarning, match="damaged"):
        _, compiles, loaded = counted(lambda: executable(program, scalars))
    assert (compiles, loaded) == (1, 0)
    _, compiles, loaded = counted(lambda: executable(program, scalars))
    assert (compiles, loaded) == (0, 1)
    entry.write_bytes(damage(good))
    _, compiles, loaded = counted(lambda: executable(program, scalars))  # a warning would be an error
    assert (compiles, loaded) == (1, 0)


def test_nothing_is_unpickled_that_was_not_written_here(place, monkeypatch):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    executable(program, scalars)
    (entry,) = entries(place)
    other = entry.with_name("0" * 64 + ".xla")
    entry.rename(other)  # whole, but not what its name says
    monkeypatch.setattr(disk.pickle, "loads", lambda data: pytest.fail("unpickled"))
    with pytest.raises(ValueError, match="checksum"):
        disk._unpacked(other.read_bytes(), entry.stem)


def test_what_xla_refuses_is_compiled(place, monkeypatch):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    executable(program, scalars)
    (entry,) = entries(place)
    payload = disk.pickle.dumps((b"no executable", None, None))
    checksum = disk._checksum(entry.stem, payload)
    entry.write_bytes(disk._HEADER.pack(disk._MAGIC, len(payload), checksum) + payload)
    with pytest.warns(RuntimeWarning, match="damaged"):
        _, compiles, _ = counted(lambda: executable(program, scalars))
    assert compiles == 1
