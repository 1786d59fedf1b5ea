"""Tests that `test_sharding` runs in a process with eight devices: sharded arrays give the results of one device.

By hand: XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m pytest tests/sharding_cases.py
"""

import copy
import io
import pickle

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

import mxcompat as mx
import mxcompat.nn as nn
import mxcompat.optimizers as optim
from mxcompat._graph import policy
from mxcompat._graph.run.digest import NoDigest, digest
from mxcompat._graph.run.plan import Call, Compile
from mxcompat.ext import sharding
from mxcompat.ext.debug import compiles, eager, explain, nan_check
from mxcompat.utils import tree_flatten, tree_map
from tests.thinned import thinned

MESH = sharding.mesh(data=4, model=2)
OTHER = sharding.mesh(row=8)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def spread(data, spec="data", mesh=MESH):
    return sharding.shard(mx.array(data), mesh, spec)


def close(got, want, rtol=1e-5, atol=1e-5):
    for (path, x), (_, y) in zip(tree_flatten(got), tree_flatten(want), strict=True):
        assert x.dtype == y.dtype, path
        assert x.shape == y.shape, path
        np.testing.assert_allclose(np.array(x), np.array(y), rtol, atol, err_msg=path)


def test_there_are_eight_devices():
    assert len(jax.devices()) == 8


# Meshes and specs


def test_meshes():
    assert dict(MESH.shape) == {"data": 4, "model": 2}
    assert dict(sharding.mesh().shape) == {"data": 8}
    assert dict(sharding.mesh(a=2, b=-1).shape) == {"a": 2, "b": 4}
    assert dict(sharding.mesh(devices="all").shape) == {"data": 8}
    assert [d.id for d in sharding.mesh(a=2, devices=jax.devices()[4:]).devices] == [4, 5]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"data": 16}, r"needs 16 devices, and there are 8"),
        ({"data": 3, "model": 4}, r"needs 12 devices, and there are 8"),
        ({"data": 16, "model": -1}, r"needs 16 devices, and there are 8"),
        ({"data": 0}, "positive sizes"),
        ({"data": -1, "model": -1}, "-1 for one axis at most"),
        ({"data": 2.0}, "positive sizes"),
        ({"data": 2, "devices": "some"}, '"local", "all" or a sequence'),
    ],
)
def test_meshes_that_cannot_be(axes, message):
    with pytest.raises(ValueError, match=message):
        sharding.mesh(**axes)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("data", P("data")),
        (None, P()),
        ((None, "model"), P(None, "model")),
        (("data", None), P("data")),
        ((("data", "model"),), P(("data", "model"))),
        (P("model", "data"), P("model", "data")),
        (lambda path, x: "data" if x.ndim == 2 else None, P("data")),
    ],
)
def test_specs(spec, expected):
    data = numbers(8, 8)
    x = spread(data, spec)
    assert x.sharding.spec == expected
    assert x.sharding.mesh == MESH
    np.testing.assert_array_equal(np.array(x), data)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("data", "Axis 0 of an array of shape (6, 4) has 6 entries, which 4 devices along 'data' do not"),
        ((("model", "data"),), "has 6 entries, which 8 devices along 'model' and 'data' do not"),
        ("rows", "has the axes ('data', 'model'), and none called 'rows'"),
        ((None, None, "data"), "a spec of at most 2 axes for an array of shape (6, 4)"),
        (("model", "model"), "each axis of the mesh once"),
    ],
)
def test_specs_that_do_not_fit(spec, message):
    for x in (mx.zeros((6, 4)), mx.array(numbers(6, 4))):
        with pytest.raises(ValueError) as error:
            sharding.shard(x, MESH, spec)
        assert message in str(error.value)


def test_trees_of_specs():
    tree = {"a": [mx.zeros((4, 2)), mx.ones(8)], "b": (mx.ones((2, 2)), "text")}
    result = sharding.shard(tree, MESH, {"a": ["data", ("model",)], "b": (None, "model")})
    assert [x.sharding.spec for x in result["a"]] == [P("data"), P("model")]
    assert result["b"][0].sharding.spec == P(None, "model")
    assert result["b"][1] == "text"
    seen = []
    sharding.shard(tree, MESH, lambda path, x: seen.append((path, x.shape)))
    assert seen == [("a.0", (4, 2)), ("a.1", (8,)), ("b.0", (2, 2))]
    with pytest.raises(ValueError, match=r"Axis 1 of a\.0, of shape \(4, 2\) has 2 entries, which 4 devices"):
        sharding.shard(tree, MESH, (None, "data"))


@given(st.data())
@settings(max_examples=25)
def test_whatever_the_shape_and_the_spec(data):
    names = data.draw(st.permutations([None, "data", "model", None]))[:3]
    shape = [data.draw(st.integers(0, 3)) * MESH.shape.get(name, 1) for name in names]
    values = numbers(*shape)
    x = spread(values, tuple(names))
    np.testing.assert_array_equal(np.array(x), values)
    np.testing.assert_array_equal(np.array(x.T), values.T)
    close({"sum": x.sum(axis=1)}, {"sum": mx.array(values).sum(axis=1)})
    held = sharding.bytes_per_device(x)
    parts = int(np.prod([MESH.shape[name] for name in names if name]))
    assert {*held.values()} == {values.nbytes // parts}


# Ops and transforms

OPS = {
    "add": lambda x, y: x + 1,
    "broadcast": lambda x, y: x + y[0],
    "product": lambda x, y: x @ y,
    "transposed product": lambda x, y: y @ x.T,
    "sum": lambda x, y: x.sum(axis=0),
    "mean of all": lambda x, y: x.mean(),
    "softmax": lambda x, y: mx.softmax(x, axis=0),
    "sort": lambda x, y: mx.sort(x, axis=0),
    "argmax": lambda x, y: mx.argmax(x, axis=0),
    "cumsum": lambda x, y: mx.cumsum(x, axis=0),
    "slices": lambda x, y: x[1:5, ::2],
    "gather": lambda x, y: x[mx.array([3, 0, 7])],
    "concatenate": lambda x, y: mx.concatenate([x, y], axis=0),
    "where": lambda x, y: mx.where(x > y, x, y),
    "norm": lambda x, y: mx.fast.rms_norm(x, y[0], 1e-5),
    "several results": lambda x, y: mx.split(x, 2, axis=0)[1],
    "reshape": lambda x, y: x.reshape(4, 16),
    "cast": lambda x, y: x.astype(mx.bfloat16).astype(mx.float32),
    "complex": lambda x, y: mx.abs(mx.fft.fft(x, axis=0)),
    "inverse": lambda x, y: mx.linalg.inv(x @ x.T + mx.eye(8)),
    "convolution": lambda x, y: mx.conv1d(x[None], y.reshape(8, 1, 8)),
    "grad": lambda x, y: mx.grad(lambda x: (mx.tanh(x @ y) ** 2).sum())(x),
    "jvp": lambda x, y: mx.jvp(lambda x: mx.sin(x) * y, [x], [y])[1][0],
    "vmap": lambda x, y: mx.vmap(lambda row: mx.softmax(row * 2).sum())(x),
    "vmap over what is spread": lambda x, y: mx.vmap(lambda a, b: a @ b, in_axes=(0, 0))(x, y),
    "compile": lambda x, y: mx.compile(lambda x, y: mx.sin(x) @ y)(x, y),
    "checkpoint": lambda x, y: mx.grad(lambda x: mx.checkpoint(lambda x: mx.sin(x) @ y)(x).sum())(x),
    "custom function": lambda x, y: mx.grad(lambda x: _doubled(x).sum())(x),
    "hessian": lambda x, y: mx.grad(lambda x: (mx.grad(lambda x: (x**3).sum())(x) * y).sum())(x),
    "in place": lambda x, y: _written(x, y),
    "at": lambda x, y: x.at[mx.array([1, 1, 6])].add(y[:3]),
}


@mx.custom_function
def _doubled(x):
    return x * x


@_doubled.vjp
def _doubled_vjp(primals, cotangents, outputs):
    return cotangents * 2 * primals


def _written(x, y):
    z = mx.array(x)
    z[2] = 5.0
    z[:, 1:3] += y[:, :2]
    return z


SPECS = [("data", "data"), ((None, "model"), "data"), (("data", "model"), None)]


@pytest.mark.parametrize(("name", "specs"), thinned(len(SPECS), OPS, SPECS))
def test_an_op_gives_what_it_gives_on_one_device(name, specs):
    data = numbers(8, 8), numbers(8, 8, seed=1)
    want = OPS[name](*map(mx.array, data))
    got = OPS[name](*[spread(x, s) for x, s in zip(data, specs, strict=True)])
    assert got.sharding is not None
    assert want.sharding is None
    close({"": got}, {"": want}, 1e-4, 1e-4)


def test_shardings_are_kept():
    x = spread(numbers(8, 8))
    for y in (x * 2, mx.exp(x) + 1, x @ mx.ones((8, 2)), mx.grad(lambda x: (x * x).sum())(x), x[:, 2:4]):
        assert y.sharding.spec == P("data")
    assert x.T.sharding.spec == P(None, "data")
    assert x.sum().sharding.is_fully_replicated


def test_what_is_not_spread_stays_on_one_device():
    x = spread(numbers(8, 8))
    mx.random.seed(1)
    noise = mx.random.normal((8, 8))
    step = mx.array(1) + 1
    total = (x + noise).sum()
    mx.eval(total, noise, step)
    assert noise.sharding is None
    assert step.sharding is None
    assert mx.random.state[0].sharding is None
    assert mx.ext.to_jax(noise).devices() == {jax.devices()[0]}
    mx.random.seed(1)
    close({"": noise}, {"": mx.random.normal((8, 8))}, 1e-6)


def test_random_numbers_of_a_sharded_program_are_the_same():
    x = spread(np.zeros((8, 4), np.float32))
    for draw in (mx.random.uniform, lambda shape: mx.random.bernoulli(0.3, shape)):
        mx.random.seed(7)
        ours = x + draw(shape=(8, 4))
        mx.random.seed(7)
        np.testing.assert_array_equal(np.array(ours), np.array(draw(shape=(8, 4))))


def test_shard_within_a_function():
    def f(w, x):
        hidden = sharding.shard(mx.maximum(x @ w, 0), MESH, ("data", "model"))
        return (hidden * hidden).sum(), hidden

    w, x = numbers(8, 16), numbers(8, 8, seed=1)
    want = mx.value_and_grad(lambda w, x: (mx.maximum(x @ w, 0) ** 2).sum())(mx.array(w), mx.array(x))
    for args in ((mx.array(w), mx.array(x)), (mx.array(w), spread(x)), (spread(w, (None, "model")), spread(x))):
        close(mx.value_and_grad(lambda w, x: f(w, x)[0])(*args), want, 1e-4)
        assert f(*args)[1].sharding.spec == P("data", "model")
        assert mx.compile(f)(*args)[1].sharding.spec == P("data", "model")
    rows = mx.vmap(lambda row: sharding.shard(row * 2, MESH, "model"))(spread(x))
    np.testing.assert_array_equal(np.array(rows), x * 2)


def test_what_was_not_evaluated_is_made_where_it_goes(plans):
    w = sharding.shard(mx.random.normal((256, 64)) * 2, MESH, ("data", "model"))
    mx.eval(w)
    assert [type(plan) for plan in plans] == [Compile, Call]
    assert w.sharding.spec == P("data", "model")


def test_nothing_runs_in_numpy_or_comes_from_the_disk(plans):
    x = spread(numbers(8, 8))
    for k in range(4):
        mx.eval(mx.sin(x) * 2 + k)
    assert {type(plan) for plan in plans} == {Compile, Call}
    programs = [plan.program for plan in plans if type(plan) is Call]
    assert all(program.placement is not None for program in programs)
    with pytest.raises(NoDigest):
        digest(programs[0])


def test_numbers_that_vary_are_compiled_twice_at_most():
    x = spread(numbers(8, 8))
    before = compiles()
    for k in range(6):
        y = mx.sin(x) * (0.5 + k)
        np.testing.assert_allclose(np.array(y), np.sin(np.array(x)) * (0.5 + k), 1e-5)
    assert compiles() - before == 2


def test_each_layout_is_compiled_once():
    data = numbers(8, 8)
    before = compiles()
    for spec in ("data", (None, "model"), "data", None, (None, "model")):
        mx.eval(mx.cos(spread(data, spec)) - 0.25)
    assert compiles() - before == 3


def test_one_device_is_a_mesh():
    mesh = sharding.mesh(data=1)
    x = sharding.shard(mx.array(numbers(8, 8)), mesh, "data")
    assert (x + 1).sharding.mesh == mesh
    np.testing.assert_allclose(np.array(mx.sin(x)), np.sin(np.array(x)), 1e-5)


# Two meshes


def test_two_meshes_do_not_mix():
    x, y = spread(numbers(8, 8)), spread(numbers(8, 8), "row", OTHER)
    for f in (lambda: x + y, lambda: mx.grad(lambda x: (x * y).sum())(x), lambda: mx.compile(mx.add)(x, y)):
        with pytest.raises(ValueError, match=r"\{'data': 4, 'model': 2\} and \{'row': 8\}") as error:
            mx.eval(f())
        assert "sharding_cases.py:" in error.value.__notes__[0]
    moved = sharding.shard(y, MESH, "data")
    np.testing.assert_array_equal(np.array(x + moved), np.array(x) + np.array(y))


def test_two_meshes_at_the_same_time():
    x, y = spread(numbers(8, 8)), spread(numbers(8, 8), "row", OTHER)
    a, b, c = x + 1, y * 2, mx.ones(3) + 1
    mx.eval(a, b, c)
    assert [v.sharding and v.sharding.mesh for v in (a, b, c)] == [MESH, OTHER, None]
    one, _ = mx.compile(lambda x, y: (x + 1, y + 1))(x, y)
    with pytest.raises(ValueError, match="spread over one mesh"):
        mx.eval(one)
    np.testing.assert_array_equal(np.array(b), 2 * np.array(y))


# Exports from the library


def test_reading_gathers(tmp_path):
    data = numbers(8, 4)
    x = spread(data, ("data", "model"))
    np.testing.assert_array_equal(np.array(x), data)
    assert repr(x) == repr(mx.array(data))
    assert x.tolist() == data.tolist()
    assert x[3, 2].item() == data[3, 2]
    assert [row.tolist() for row in x] == data.tolist()
    assert copy.deepcopy(x).sharding == x.sharding
    back = pickle.loads(pickle.dumps(x))
    assert back.sharding is None
    np.testing.assert_array_equal(np.array(back), data)
    mx.save(str(tmp_path / "x.npy"), x)
    mx.savez(str(tmp_path / "x.npz"), x=x)
    mx.save_safetensors(str(tmp_path / "x.safetensors"), {"x": x})
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), data)
    for name in ("x.npz", "x.safetensors"):
        np.testing.assert_array_equal(np.array(mx.load(str(tmp_path / name))["x"]), data)


def test_what_numpy_reads_is_a_copy():
    data = numbers(8, 4)
    for spec in ("data", None):
        x = spread(data, spec)
        view = np.asarray(x)
        view[:] = 0
        np.testing.assert_array_equal(np.array(x), data)
        with pytest.raises(ValueError, match="copy"):
            np.array(x, copy=False)


def test_what_is_spread_shares_no_memory_with_the_host():
    x = mx.array(numbers(64, 64))
    view = np.asarray(x)
    before = view.copy()
    for spec in ("data", None):
        y = sharding.shard(x, MESH, spec)
        view[:] = 0
        np.testing.assert_array_equal(np.array(y), before)
        view[:] = before


def test_bfloat16_and_other_types():
    for dtype in (mx.bfloat16, mx.float16, mx.int8, mx.uint32, mx.int64, mx.bool_, mx.complex64, mx.float64):
        x = mx.array(np.arange(16) % 2).astype(dtype)
        y = sharding.shard(x, MESH, "data")
        assert y.dtype == dtype
        assert mx.array_equal(mx.concatenate([y, y]), mx.concatenate([x, x])).item()


def test_memory_is_counted_on_every_device():
    before = mx.get_active_memory()
    x = sharding.shard(mx.array(numbers(512, 512)), MESH, None)
    mx.eval(x)
    assert mx.get_active_memory() - before >= 8 * 512 * 512 * 4
    assert sharding.bytes_per_device({"x": x}) == dict.fromkeys(jax.devices(), 512 * 512 * 4)


# JAX


def test_arrays_of_jax_keep_their_layout():
    data = numbers(8, 8)
    there = jax.device_put(data, jax.sharding.NamedSharding(MESH, P("data", "model")))
    x = mx.ext.from_jax(there)
    assert (x * 2).sharding == there.sharding
    assert mx.ext.to_jax(x + 1).sharding == there.sharding
    assert mx.array(there).sharding == there.sharding
    traced = jax.jit(lambda a: mx.ext.to_jax(mx.sin(mx.array(a)) @ sharding.shard(mx.array(data), MESH, "model")))
    np.testing.assert_allclose(np.asarray(traced(there)), np.sin(data) @ data, 1e-4, 1e-4)


# Debugging


def test_eager_and_nan_check():
    x = spread(numbers(8, 8))
    with eager():
        y = mx.sin(x) + 1
        assert y.sharding.spec == P("data")
    with nan_check(), pytest.raises(FloatingPointError, match="log"):
        mx.log(-1 - x * x)


def test_reproducible_runs():
    x = spread(numbers(64, 64))
    with mx.ext.reproducible():
        first, again = [np.array(mx.grad(lambda x: mx.softmax(x @ x.T).sum())(x)) for _ in range(2)]
    np.testing.assert_array_equal(first, again)


def test_explain_names_the_collectives():
    x, w = spread(numbers(8, 16)), sharding.replicate(MESH)(mx.array(numbers(16, 4)))
    with explain(io.StringIO()) as messages:
        mx.eval(mx.grad(lambda w: (x @ w).sum() * 3)(w))
    (message,) = [m for m in messages if m.startswith("partitioned")]
    assert "over {'data': 4, 'model': 2}: 1 all-reduce among 4 devices of" in message
    assert "sharding_cases.py:" in message
    with explain(io.StringIO()) as messages:
        mx.eval(x - 0.125)
    assert any("no collectives" in m for m in messages)


# Writing over


def test_writes_are_in_place():
    """Assert that each device writes in place to its part of a cache with no other reference."""
    cache = spread(np.zeros((8, 256, 64), np.float32), ("data", None, "model"))
    mx.eval(cache)

    def places():
        return [part.data.unsafe_buffer_pointer() for part in mx.ext.to_jax(cache).addressable_shards]

    row = spread(numbers(8, 1, 64), ("data", None, "model"))
    seen = []
    for k in range(6):
        cache[:, k : k + 1] = row
        mx.eval(cache)
        seen.append(places())
    assert seen[-1] == seen[-2] == seen[-3]
    assert cache.sharding.spec == P("data", None, "model")
    np.testing.assert_array_equal(np.array(cache)[:, :6], np.repeat(np.array(row), 6, axis=1))


def test_what_others_hold_is_not_written_over(monkeypatch):
    monkeypatch.setattr(policy, "SMALL_BYTES", 0)
    data = numbers(64, 64)
    for spec in ("data", None):
        x = spread(data, spec)
        other, moved = mx.array(x), sharding.shard(x, MESH, (None, "model"))
        x[3] = 0.0
        x[5] = 1.0
        mx.eval(x)
        for y in (other, moved):
            np.testing.assert_array_equal(np.array(y), data)


# Training


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm(16)
        self.up = nn.Linear(16, 128)
        self.drop = nn.Dropout(0.1)
        self.down = nn.Linear(128, 4)

    def __call__(self, x):
        return self.down(self.drop(nn.gelu(self.up(self.norm(x)))))


def column_then_row(path, x):
    """Compute a tensor-parallel MLP: the first layer's outputs are sharded, and the second's inputs."""
    return {"up.weight": ("model", None), "up.bias": "model", "down.weight": (None, "model")}.get(path)


LAYOUTS = {
    "data parallel": lambda model: None,
    "replicated": lambda model: model.apply(sharding.replicate(MESH)),
    "fully sharded": lambda model: model.update(
        sharding.shard(model.parameters(), MESH, sharding.fsdp(MESH, smallest=128))
    ),
    "tensor parallel": lambda model: model.update(sharding.shard(model.parameters(), MESH, column_then_row)),
}


def train(layout, optimizer, steps=5, compiled=False):
    mx.random.seed(3)
    model = MLP()
    opt = optimizer()
    x, y = mx.random.normal((32, 16)), mx.random.randint(0, 4, (32,))
    if layout is not None:
        x, y = sharding.shard((x, y), MESH, "data")
        layout(model)
    loss_and_grad = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="mean"))

    def step(x, y):
        loss, grads = loss_and_grad(model, x, y)
        grads, _ = optim.clip_grad_norm(grads, 1.0)
        opt.update(model, grads)
        return loss

    state = [model.state, opt.state, mx.random.state]
    run = mx.compile(step, inputs=state, outputs=state) if compiled else step
    losses, counts = [], []
    for _ in range(steps):
        loss = run(x, y)
        mx.eval(model.parameters(), opt.state, loss)
        losses.append(loss.item())
        counts.append(compiles())
    return model, opt, losses, counts


def sgd():
    return optim.SGD(0.1, momentum=0.9)


def adamw():
    return optim.AdamW(1e-2)


@pytest.mark.parametrize("optimizer", [pytest.param(sgd, marks=pytest.mark.exhaustive), adamw])
@pytest.mark.parametrize("name", LAYOUTS)
def test_training_gives_what_one_device_gives(name, optimizer):
    _, _, want, _ = train(None, optimizer)
    model, opt, losses, counts = train(LAYOUTS[name], optimizer)
    np.testing.assert_allclose(losses, want, 2e-4)
    assert counts[-1] == counts[1], "the steps after the second compile nothing"
    specs = {path: x.sharding.spec for path, x in tree_flatten(model.trainable_parameters())}
    if name == "fully sharded":
        assert specs["up.weight"] == P("data")
        assert specs["down.weight"] == P(None, "data")
    elif name == "tensor parallel":
        assert specs["up.weight"] == P("model")
        assert specs["down.weight"] == P(None, "model")
    else:
        assert {*specs.values()} == {P()}
    moments = {path: x for path, x in tree_flatten(opt.state) if path.endswith("weight.v")}
    for path, x in moments.items():
        assert x.sharding.spec == specs[path.removesuffix(".v")], path


@pytest.mark.parametrize("name", ["data parallel", "fully sharded"])
def test_a_compiled_step_with_its_state(name):
    _, _, want, _ = train(None, adamw, compiled=True)
    _, _, losses, counts = train(LAYOUTS[name], adamw, compiled=True)
    np.testing.assert_allclose(losses, want, 2e-4)
    assert counts[-1] == counts[2]
    assert mx.random.state[0].sharding is None


def test_a_fully_sharded_model_takes_a_part_of_the_memory():
    model, opt, _, _ = train(LAYOUTS["fully sharded"], adamw, steps=1)
    held = sharding.bytes_per_device([model.up.weight, opt.state["up"]["weight"]])
    assert {*held.values()} == {3 * model.up.weight.nbytes // 4}


def test_a_checkpointed_model_goes_on_elsewhere(tmp_path):
    """Load weights, saved from one layout, into another."""
    model, _, _, _ = train(LAYOUTS["fully sharded"], adamw, steps=2)
    model.save_weights(str(tmp_path / "w.safetensors"))
    again = MLP()
    again.load_weights(str(tmp_path / "w.safetensors"))
    LAYOUTS["tensor parallel"](again)
    model.eval(), again.eval()
    x = mx.array(numbers(4, 16))
    np.testing.assert_allclose(np.array(again(x)), np.array(model(x)), 1e-4, 1e-5)
    assert again.up.weight.sharding.spec == P("model")


def test_gradients_are_accumulated_and_averaged():
    w, x = sharding.replicate(MESH)(mx.array(numbers(8, 4))), spread(numbers(16, 8))
    grads = [mx.grad(lambda w, x: mx.tanh(x @ w).mean())(w, part) for part in (x[:8], x[8:])]
    total = tree_map(lambda a, b: (a + b) / 2, *grads)
    whole = mx.grad(lambda w: mx.tanh(mx.array(numbers(16, 8)) @ w).mean())(mx.array(numbers(8, 4)))
    close({"": total}, {"": whole})


# Larger than one executable


def test_a_long_graph_runs_in_segments(monkeypatch, plans):
    monkeypatch.setattr(policy, "LARGE_GRAPH", 50)
    data = numbers(8, 8)
    results = []
    for x in (mx.array(data), spread(data)):
        for k in range(60):
            x = mx.sin(x) * 0.9 + 0.01 * k
        results.append(np.array(x))
    np.testing.assert_allclose(*results, 1e-5)
    assert any(str(plan).startswith("in ") for plan in plans)


def test_a_huge_derivative_runs_in_segments(monkeypatch, plans):
    monkeypatch.setattr(policy, "HUGE_NESTED", 100)
    monkeypatch.setattr(policy, "LARGE_PROGRAM", 60)
    monkeypatch.setattr(policy, "SEGMENT_SIZE", 30)

    def loop(x):
        for k in range(50):
            x = mx.tanh(x * 0.9) + 0.01 * (k % 3)
        return x.sum()

    data = numbers(8, 8)
    want = np.array(mx.grad(loop)(mx.array(data)))
    plans.clear()
    np.testing.assert_allclose(np.array(mx.grad(loop)(spread(data))), want, 1e-4)
    assert any("split" in str(plan) for plan in plans)


# Serving


def test_tokens_of_a_tensor_parallel_model():
    """Compare attention over a growing cache whose heads are sharded."""
    heads, width, room = 8, 16, 64
    weights = [numbers(heads * width, heads * width, seed=k) / 12 for k in range(4)]

    def generate(place):
        q, k, v = [place(w, (None, "model")) for w in weights[:3]]
        o = place(weights[3], ("model", None))
        keys, values = (place(np.zeros((1, heads, room, width), np.float32), (None, "model")) for _ in range(2))
        x = mx.array(numbers(1, 1, heads * width, seed=9))
        out = []
        for t in range(6):
            split = lambda y: y.reshape(1, 1, heads, width).transpose(0, 2, 1, 3)  # noqa: E731
            keys[..., t : t + 1, :] = split(x @ k)
            values[..., t : t + 1, :] = split(x @ v)
            y = mx.fast.scaled_dot_product_attention(
                split(x @ q), keys[..., : t + 1, :], values[..., : t + 1, :], scale=width**-0.5
            )
            x = mx.tanh(y.transpose(0, 2, 1, 3).reshape(1, 1, -1) @ o + x)
            mx.eval(x, keys, values)
            out.append(np.array(x))
        return np.stack(out), keys

    want, _ = generate(lambda w, spec: mx.array(w))
    got, keys = generate(lambda w, spec: spread(w, spec))
    np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    assert keys.sharding.spec == P(None, "model")


def test_quantized_weights():
    w, x = mx.array(numbers(64, 128)), mx.array(numbers(8, 128, seed=1))
    parts = mx.quantize(w, group_size=32, bits=4)
    want = mx.quantized_matmul(x, *parts, group_size=32, bits=4)
    packed = [sharding.shard(p, MESH, "model") for p in parts]
    got = mx.quantized_matmul(spread(np.array(x)), *packed, group_size=32, bits=4)
    assert got.sharding.spec == P("data", "model")
    close({"": got}, {"": want}, 1e-4, 1e-4)
