"""Executables on disk: a second process compiles nothing, and damaged files do no harm."""

import io
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import mxcompat.core as mx
from mxcompat import ext
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
    """Enable the cache in a directory that does not exist yet; JAX's own is off."""
    path = tmp_path / "cache"
    monkeypatch.delenv("MXCOMPAT_CACHE")
    monkeypatch.setenv("MXCOMPAT_CACHE_DIR", str(path))
    monkeypatch.setattr(folder, "_said", set())
    monkeypatch.setattr(folder, "_bytes", None)
    own = jax.config.jax_enable_compilation_cache
    try:
        jax.config.update("jax_enable_compilation_cache", False)
        compilation_cache.reset_cache()
        yield path
        background.settle()
    finally:
        jax.config.update("jax_enable_compilation_cache", own)
        compilation_cache.reset_cache()


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
    subgraph = linearize([x._node])
    return subgraph.structure.program(tuple(subgraph.roots))


def executable(program, scalars=(), lifted=None, hurry=False):
    """Compile a program, and return its executable after it was stored."""
    result = Executable(program, scalars, lifted or {}, (), hurry=hurry)
    background.settle()
    return result


def counted(make):
    """Return the result of `make`, and the numbers of programs compiled and loaded for it."""
    before = stats.compiles, stats.loaded
    result = make()
    return result, stats.compiles - before[0], stats.loaded - before[1]


X = mx.array(np.linspace(0, 1, 12).reshape(3, 4).astype(np.float32))
mx.eval(X)


def some_program(scale=2.0):
    return program_of(mx.sin(X) @ X.T + mx.exp(X).sum() * scale)


TRAINING = """
    import numpy as np
    import mxcompat.core as mx, mxcompat.nn as nn, mxcompat.optimizers as optim
    from mxcompat._graph import policy
    from mxcompat._graph.run import background
    from mxcompat._graph.run.events import stats
    from mxcompat.ext import debug

    policy.STORED_SECONDS = 0.0  # however fast the machine is
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
    compiles, _, loaded = map(int, first[0].split())
    assert loaded == 0
    if host == "0":  # with the host tier, timings decide which programs are compiled
        assert compiles >= 3
        assert "loaded from disk" not in first[2]
        for later in (second, third):
            assert later[0].split() == ["0", "0", str(compiles)]
            assert "loaded from disk" in later[2]
            assert "'compile'" not in later[2]
    values = [np.array(eval(run[1].replace(" ", ",", 1))[1]) for run in (first, second, third)]
    assert np.allclose(values[0], values[1], rtol=1e-4)
    assert np.allclose(values[1], values[2], rtol=1e-4)


def test_arguments_in_every_place(place):
    """Compare lifted and constant scalars, and donated buffers in another order."""
    x, y = (mx.array(np.full((64, 1024), k, np.float32)) for k in range(2))
    at = mx.array(3)
    mx.eval(x, y, at)
    first = mx.slice_update(y, x[:1] * 2.5, at, (0,))
    second = mx.slice_update(x, y[:1] * 4.0, at, (0,))
    subgraph = linearize([second._node, first._node])
    program = subgraph.structure.program(tuple(sorted(subgraph.roots)))
    scalars = tuple(subgraph.leaves[k].value for k in program.scalars)
    arrays = [n for k, n in enumerate(subgraph.leaves) if k not in program.scalars]
    positions = tuple(p for p, n in enumerate(arrays) if n in (x._node, y._node))
    assert len(scalars) >= 2
    assert len(positions) == 2

    def run(call):
        return [np.array(v) for v in call([np.array(n.value) for n in arrays], scalars)]

    executables = [Executable(program, scalars, {0: 0}, positions, hurry=True)]
    background.settle()
    again, compiles, loaded = counted(lambda: Executable(program, scalars, {0: 0}, positions, hurry=True))
    assert (compiles, loaded) == (0, 1)
    for a, b in zip(run(executables[0]), run(again), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


def test_a_buffer_that_may_be_written_over_is(place):
    x = mx.array(np.zeros((64, 1024), np.float32))
    mx.eval(x)
    y, at = mx.array(np.ones((1, 1024), np.float32)), mx.array(2)
    program = program_of(mx.slice_update(x, y, at, (0,)))
    assert not program.scalars
    donated = program.in_avals.index(x._node.aval)
    for loads in (0, 1):
        compiled, _, loaded = counted(lambda: Executable(program, (), {}, (donated,), hurry=False))
        background.settle()
        assert loaded == loads
        values = [jax.numpy.ones(a.shape, a.dtype._numpy) for a in program.in_avals]
        compiled(values, ())
        assert [k for k, v in enumerate(values) if v.is_deleted()] == [donated]


def test_the_version_for_speed_takes_the_place_of_the_other(place, monkeypatch):
    monkeypatch.setattr(policy, "LIKELY_MIN_RUNS", 1)
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    compiled = executable(program, scalars, hurry=True)
    (hurried,) = entries(place)
    compiled([X._node.value] * (len(program.in_avals) - len(scalars)), scalars)
    background.settle()
    (fast,) = entries(place)
    assert fast != hurried
    again, compiles, loaded = counted(lambda: executable(program, scalars, hurry=True))
    assert (compiles, loaded) == (0, 1)
    assert again._patience == 0


def test_settings_of_this_run_are_part_of_the_key():
    program = some_program()
    plain = digest(program, (2.0,))
    assert plain == digest(program, (2.0,))
    values = (2, True, -2.0, 0.0, -0.0, float("nan"), None, 2 + 0j, "2.0", (2.0,))
    others = [digest(program, (value,)) for value in values]
    with jax.default_matmul_precision("float32"):
        others.append(digest(program, (2.0,)))
    others += [digest(program, (2.0,), ()), digest(program_of(X + 1), (2.0,))]
    assert len({plain, *others}) == len(others) + 1
    with jax.default_device(jax.devices()[0]), pytest.raises(NoDigest):
        digest(program, (2.0,))


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
    programs = [program_of(one()), program_of(one()), program_of(other())]
    debug.clear_cache()  # the keys must be equal without the cached programs
    keys = [digest(p) for p in (*programs, program_of(one()))]
    assert keys[0] == keys[1] == keys[3] != keys[2]


def test_a_function_of_the_users_is_not_kept(place):
    twice = jax_function(lambda x: x * 2)
    inner = mx.vmap(lambda x: twice(x))(X)
    for x in (twice(X), inner):
        program = program_of(x)
        with pytest.raises(NoDigest):
            digest(program)
        executable(program)
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
    _, compiles, loaded = counted(lambda: executable(program, scalars))  # tests treat a warning as an error
    assert (compiles, loaded) == (1, 0)


def test_nothing_is_unpickled_that_is_not_what_its_name_says(place, monkeypatch):
    one, other = some_program(), program_of(mx.cos(X) @ X.T)
    executable(other)
    (entry,) = entries(place)
    data = entry.read_bytes()
    scalars = (2.0,) * len(one.scalars)
    executable(one, scalars)
    (entry,) = set(entries(place)) - {entry}
    entry.write_bytes(data)  # undamaged, but of another program
    monkeypatch.setattr(pickle, "loads", lambda data: pytest.fail("unpickled"))
    with pytest.warns(RuntimeWarning, match="checksum"):
        executable(one, scalars)


def test_what_no_file_can_hold_is_compiled_without_a_word(place, monkeypatch, caplog):
    monkeypatch.setattr(policy, "HOST", False)
    sort = ext.host_callback(np.sort, lambda x: x)
    assert mx.compile(lambda x: sort(x) * 2)(mx.array([3.0, 1.0, 2.0])).tolist() == [2, 4, 6]
    assert mx.vmap(sort)(mx.array([[2.0, 1.0]])).tolist() == [[1, 2]]
    background.settle()
    assert not entries(place)
    assert not caplog.records


def test_what_xla_refuses_is_compiled(place, monkeypatch):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    executable(program, scalars)
    (entry,) = entries(place)
    entry.write_bytes(disk._packed(pickle.dumps((b"no executable", None, None)), entry.stem))
    with pytest.warns(RuntimeWarning, match="damaged"):
        _, compiles, _ = counted(lambda: executable(program, scalars))
    assert compiles == 1


def test_what_varied_in_an_earlier_process_is_an_argument_at_once(place):
    program = some_program()
    count = len(program.scalars)
    assert count >= 1
    executable(program, (2.0,) * count, {k: k for k in range(count)})
    assert len(entries(place)) == 2
    compiled, compiles, loaded = counted(lambda: executable(program, (5.0,) * count))
    assert (compiles, loaded) == (0, 1)
    assert compiled.lifted == {k: k for k in range(count)}
    executable(program, (2.0,) * count)
    assert len(entries(place)) == 2


def test_what_was_one_number_in_an_earlier_process_is_one_argument(place):
    program = program_of(mx.sin(X) * 2.0 + (X @ X.T).sum() * 2.0)
    count = len(program.scalars)
    assert count >= 2
    rate = 1 / 3
    compiled = executable(program, (rate,) * count, dict.fromkeys(range(count), 0))
    again, compiles, loaded = counted(lambda: executable(program, (1 / 5,) * count))
    assert (compiles, loaded) == (0, 1)
    assert again.lifted == compiled.lifted == dict.fromkeys(range(count), 0)
    different, compiles, loaded = counted(lambda: executable(program, tuple(1 / (5 + k) for k in range(count))))
    assert (compiles, loaded) == (1, 0)
    assert different.lifted == {}


def test_explain_says_where_a_program_came_from(place, monkeypatch):
    monkeypatch.setattr(policy, "HOST", False)
    for says in ("compile: ", "loaded from disk: "):
        with debug.explain(io.StringIO()) as messages:
            mx.eval(mx.tan(X) @ X.T)
        background.settle()
        assert [m[: len(says)] for m in messages if not m.startswith("plan: ")] == [says]
        debug.clear_cache()


def test_nothing_is_kept_if_that_is_not_wanted(place, monkeypatch):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    with monkeypatch.context() as only:
        only.setenv("MXCOMPAT_CACHE", "0")
        executable(program, scalars)
    with monkeypatch.context() as only:
        only.setattr(policy, "STORED_SECONDS", 1e9)
        executable(program, scalars)
    with monkeypatch.context() as only:  # executables from JAX's own cache lack their code
        only.setattr(disk, "_given_by_jax", lambda: True)
        executable(program, scalars)
    assert not place.exists()
    executable(program, scalars)
    assert len(entries(place)) == 1


def test_the_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("MXCOMPAT_CACHE")
    monkeypatch.delenv("MXCOMPAT_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert folder.directory() == tmp_path / ".cache" / "mxcompat"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert folder.directory() == Path("/elsewhere/mxcompat")
    monkeypatch.setenv("MXCOMPAT_CACHE_DIR", "/mine")
    assert folder.directory() == Path("/mine")
    monkeypatch.setenv("MXCOMPAT_CACHE", "0")
    assert folder.directory() is None


def test_it_is_made_for_the_user_alone(place):
    before = os.umask(0)
    try:
        folder.write("a", b"1")
    finally:
        os.umask(before)
    assert place.stat().st_mode & 0o777 == 0o700
    assert entries(place)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_one_that_others_can_write_to_is_not_touched(place, mode):
    folder.write("a", b"1")
    place.chmod(mode)
    with pytest.warns(RuntimeWarning, match="can be written to by others"):
        assert folder.read("a") is None
    folder.write("b", b"2")  # silently, because it was reported before
    assert not folder.holds("a")
    assert folder.clear() == folder.usage() == (0, 0)
    assert [e.name for e in entries(place)] == ["a.xla"]


def test_one_of_somebody_else_is_not_touched(place, monkeypatch):
    folder.write("a", b"1")
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        assert folder.read("a") is None
    folder.write("b", b"2")
    assert [e.name for e in entries(place)] == ["a.xla"]


def test_links_are_not_followed(place, tmp_path):
    folder.write("a", b"1")
    (tmp_path / "elsewhere").write_bytes(b"2")
    (place / "b.xla").symlink_to(tmp_path / "elsewhere")
    assert folder.read("b") is None
    assert folder.usage().entries == 1


def test_a_read_only_directory_is_read(place, monkeypatch):
    program = some_program()
    scalars = (2.0,) * len(program.scalars)
    executable(program, scalars)

    def refused(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    place.chmod(0o500)
    if os.getuid() == 0:  # root ignores permissions
        for name in ("replace", "unlink", "utime"):
            monkeypatch.setattr(os, name, refused)
    _, compiles, loaded = counted(lambda: executable(program, scalars))
    assert (compiles, loaded) == (0, 1)
    with pytest.warns(RuntimeWarning, match="can be stored"):
        folder.write("a", b"1")
    folder.write("b", b"1")
    place.chmod(0o700)


def test_no_directory_can_be_made(place):
    place.write_bytes(b"a file")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        executable(some_program(), (2.0,) * len(some_program().scalars))
    assert folder.usage() == (0, 0)


def test_the_size_is_bounded(place, monkeypatch):
    monkeypatch.setattr(policy, "STORED_BYTES", 1000)
    for k in range(10):
        folder.write(f"{k}", bytes(100))
        os.utime(place / f"{k}.xla", (k, k))
    assert folder.usage() == (10, 1000)
    assert folder.read("0") is not None  # marks it as used, so that it is not evicted next
    (place / "left.part").write_bytes(bytes(100))
    os.utime(place / "left.part", (0, 0))
    (place / "fresh.part").write_bytes(b"")
    (place / "notes.txt").write_bytes(bytes(5000))  # a file of the user's
    folder.write("10", bytes(100))
    names = {e.name for e in place.iterdir()}
    assert names == {"0.xla", *[f"{k}.xla" for k in range(5, 11)], "notes.txt", "fresh.part"}
    assert folder.clear() == (8, 700)
    assert [e.name for e in place.iterdir()] == ["notes.txt"]


def test_threads_and_processes_write_at_once(place):
    code = """
        import sys
        from mxcompat._graph.run import folder
        for k in range(200):
            folder.write(str(k % 5), bytes([k % 5]) * 100_000)
            found = folder.read(str((k + 2) % 5))
            assert found is None or found == bytes([(k + 2) % 5]) * 100_000
    """
    others = [start(code, place) for _ in range(2)]
    errors = []

    def work():
        for k in range(100):
            folder.write(str(k % 5), bytes([k % 5]) * 100_000)
            data = folder.read(str((k + 1) % 5))
            if data is not None and data != bytes([(k + 1) % 5]) * 100_000:
                errors.append(k)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for process in others:
        finish(process)
    assert not errors
    assert folder.usage() == (5, 500_000)
    assert not list(place.glob("*.part"))


def test_what_a_process_has_compiled_is_stored_when_it_ends(place):
    finished = []
    started = threading.Event()
    background.submit(lambda: (started.set(), time.sleep(0.2)))
    started.wait()
    background.submit(lambda: finished.append("improved"))
    background.submit(lambda: finished.append("stored"), lasting=True)
    background.settle()
    assert finished == ["stored", "improved"]
    code = """
        import mxcompat.core as mx
        mx.eval(mx.tan(mx.ones((8, 8))) @ mx.ones((8, 8)))
    """
    finish(start(code, place, MXCOMPAT_HOST="0"))
    assert entries(place)


def test_an_executable_is_for_processes_with_the_same_options_of_xla(place):
    """Assert that only a process with the same XLA options loads it. One that starts XLA itself has no options of
    mxcompat."""
    code = """
        {first}
        import mxcompat.core as mx
        mx.eval(mx.tan(mx.ones((8, 8))) @ mx.ones((8, 8)))
        from mxcompat.ext import debug
        print(debug.compiles())
    """
    own, theirs = (code.format(first=first) for first in ("", "import jax; jax.devices()"))
    flags = {"XLA_FLAGS": "", "MXCOMPAT_HOST": "0"}
    counts = [int(finish(start(program, place, **flags))[0]) for program in (own, own, theirs, theirs)]
    assert counts[1] == counts[3] == 0
    assert counts[0] == counts[2] > 0


def test_the_command_line(tmp_path):
    path = tmp_path / "cache"

    def command(word, **more):
        arguments = [sys.executable, "-W", "error", "-m", "mxcompat", word]
        return finish(subprocess.Popen(arguments, env=environment(path, **more), stdout=-1, stderr=-1, text=True))

    assert f"cache     {path}, 0 compiled programs of 0.0 MB" in command("info")
    assert not path.exists()
    path.mkdir(mode=0o700)
    (path / "a.xla").write_bytes(bytes(1_200_000))
    assert f"cache     {path}, 1 compiled programs of 1.2 MB" in command("info")
    assert f"removed 1 compiled programs of 1.2 MB from {path}" in command("clear-cache")
    assert not entries(path)
    assert "cache     off" in command("info", MXCOMPAT_CACHE="0")
    assert "nothing" in command("clear-cache", MXCOMPAT_CACHE="0")[0]
