"""Products with stored matrices in XLA's programs: the call of C, its derivatives, and where it is not made."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.run.foreign import TARGET, register
from mxcompat._native import native
from mxcompat._ops.products import foreign
from mxcompat._ops.quantized import primitive
from mxcompat._ops.quantized.primitive import multiply
from mxcompat._ops.quantized.quantize import Scheme

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

SCHEMES = [
    Scheme("affine", 32, 3),
    Scheme("affine", 64, 4),
    *[Scheme(*s) for s in (("mxfp8", 32, 8), ("nvfp4", 16, 4))],
]

OFFSETS = {
    "FfiExtension": ("XLA_FFI_{}", {"size": "struct_size", "kind": "type", "next": "next"}),
    "FfiVersion": (
        "XLA_FFI_Api_Version",
        {"size": "struct_size", "extension": "extension_start", "major": "major_version", "minor": "minor_version"},
    ),
    "FfiMetadata": ("XLA_FFI_Metadata", {"size": "struct_size", "version": "api_version", "traits": "traits"}),
    "FfiMetadataExtension": ("XLA_FFI_Metadata_Extension", {"base": "extension_base", "metadata": "metadata"}),
    "FfiError": (
        "XLA_FFI_Error_Create_Args",
        {"size": "struct_size", "extension": "extension_start", "message": "message", "code": "errc"},
    ),
    "FfiFunctions": (
        "XLA_FFI_Api",
        {
            "size": "struct_size", "extension": "extension_start", "version": "api_version", "internal": "internal_api",
            "make_error": "XLA_FFI_Error_Create",
        },
    ),
    "FfiBuffer": (
        "XLA_FFI_Buffer",
        {
            "size": "struct_size", "extension": "extension_start", "dtype": "dtype", "data": "data", "rank": "rank",
            "shape": "dims",
        },
    ),
    "FfiBuffers": (
        "XLA_FFI_Args",
        {"size": "struct_size", "extension": "extension_start", "count": "size", "kinds": "types", "buffers": "args"},
    ),
    "FfiArray": ("XLA_FFI_Array", {"dtype": "dtype", "count": "size", "data": "data"}),
    "FfiAttributes": (
        "XLA_FFI_Attrs",
        {
            "size": "struct_size", "extension": "extension_start", "count": "size", "kinds": "types", "names": "names",
            "values": "attrs",
        },
    ),
    "FfiCall": (
        "XLA_FFI_CallFrame",
        {
            "size": "struct_size", "extension": "extension_start", "functions": "api", "context": "ctx",
            "stage": "stage", "arguments": "args", "results": "rets", "attributes": "attrs",
        },
    ),
}  # fmt: skip
VALUES = {
    "FFI_MAJOR": "XLA_FFI_API_MAJOR", "FFI_METADATA": "XLA_FFI_Extension_Metadata",
    "FFI_EXECUTE": "XLA_FFI_ExecutionStage_EXECUTE", "FFI_ARRAY": "XLA_FFI_AttrType_ARRAY",
    "FFI_INVALID_ARGUMENT": "XLA_FFI_Error_Code_INVALID_ARGUMENT",
    "FFI_EXHAUSTED": "XLA_FFI_Error_Code_RESOURCE_EXHAUSTED", "FFI_INT64": "XLA_FFI_DataType_S64",
    "FFI_BOOL": "XLA_FFI_DataType_PRED", "FFI_INT32": "XLA_FFI_DataType_S32",
    "FFI_FLOAT16": "XLA_FFI_DataType_F16", "FFI_FLOAT32": "XLA_FFI_DataType_F32",
    "FFI_BFLOAT16": "XLA_FFI_DataType_BF16",
}  # fmt: skip


def test_the_structures_are_those_of_jaxlib(tmp_path):
    """Assert that the structures that `ffi.h` declares equal those of jaxlib's header."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    if compiler is None:
        pytest.skip("no compiler of C")
    base = "InternalExtension" if "XLA_FFI_InternalExtension" in header.read_text() else "Extension_Base"
    lines = ['#include "xla/ffi/api/c_api.h"', '#include "ffi.h"']
    for ours, (theirs, fields) in OFFSETS.items():
        for field, other in fields.items():
            name = theirs.format(base)
            lines += [
                f'_Static_assert(offsetof({ours}, {field}) == offsetof({name}, {other}), "{ours}.{field}");',
                f'_Static_assert(sizeof((({ours} *)0)->{field}) <= sizeof((({name} *)0)->{other}), "{ours}.{field}");',
            ]
    lines += [f'_Static_assert((int){ours} == (int){theirs}, "{ours}");' for ours, theirs in VALUES.items()]
    lines.append('_Static_assert(offsetof(XLA_FFI_Rets, rets) == offsetof(FfiBuffers, buffers), "results");')
    source = tmp_path / "offsets.c"
    source.write_text("\n".join(lines))
    folders = [f"-I{jax.ffi.include_dir()}", f"-I{ROOT / 'mxcompat' / '_native'}"]
    process = subprocess.run([compiler, *folders, "-fsyntax-only", source], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def parts_of(shape, how, dtype="float32"):
    w = mx.array(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).astype(getattr(mx, dtype))
    words, *rest = mx.quantize(w, how.group_size, how.bits, how.mode)
    return [*[p.__jax_array__() for p in rest], words.__jax_array__()]


def data(*shape, dtype="float32", seed=1):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).astype(dtype)


def close(result, expected, tolerance=1e-5):
    for f, w in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        assert f.shape == w.shape
        assert f.dtype == w.dtype
        f, w = (np.asarray(a).astype(np.float64) for a in (f, w))
        np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance * (np.abs(w).max() + 1e-30))


def plainly(call, *args):
    """Return the result of a function without the foreign call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(primitive, "_is_read", lambda *_: False)
        return call(*args)


@pytest.mark.parametrize("how", SCHEMES, ids=str)
@pytest.mark.parametrize("transpose", [True, False])
def test_products(how, transpose):
    for dtype in ("float32", "bfloat16", "float16"):
        parts = parts_of((96, 128), how, dtype)
        for shape in ((), (1,), (3,), (2, 3), (40,)):
            x = data(*shape, 128 if transpose else 96, dtype=dtype)

            def call(x, *parts):
                return multiply(x, *parts, how=how, transpose=transpose)

            text = jax.jit(call).lower(x, *parts).as_text()
            assert TARGET in text
            assert "stablehlo.dot_general" not in text
            # The result without the foreign call rounds the matrix to half precision first.
            close(
                jax.jit(call)(x, *parts),
                plainly(jax.jit(lambda *a: call(*a)), x, *parts),
                1e-5 if dtype == "float32" else 3e-2,
            )


@pytest.mark.parametrize("how", SCHEMES[1:], ids=str)
def test_several_matrices_and_chosen_ones(how):
    parts = parts_of((4, 32, 64), how)
    lhs, rhs = jnp.asarray([[9], [0], [3]]), jnp.asarray([[2, 0], [3, 3], [2, 9]], jnp.uint32)
    units = (data(4) ** 2,) if how.mode == "nvfp4" else ()
    for x, flags, more in (
        (data(4, 3, 64), {}, ()), (data(5, 1, 2, 64), {}, ()),
        (data(5, 2, 3, 64), {"left": True, "right": True}, (lhs, rhs)),
        (data(2, 3, 64), {"right": True}, (rhs[:1],)), (data(10, 3, 64), {"left": True}, (lhs,)),
        (data(4, 1, 64), {"scaled": True}, units),
    ):  # fmt: skip
        if flags.get("scaled") and not units:
            continue
        call = partial(multiply, how=how, transpose=True, **flags)
        close(jax.jit(call)(x, *parts, *more), plainly(call, x, *parts, *more))
        assert TARGET in jax.jit(call).lower(x, *parts, *more).as_text()

        def loss(x, call=call, more=more):
            return (call(x, *parts, *more) ** 2).sum()

        close(jax.jit(jax.grad(loss))(x), plainly(jax.grad(loss), x), 1e-4)


@pytest.mark.parametrize("transpose", [True, False])
def test_derivatives(transpose):
    how = Scheme("affine", 32, 4)
    scales, biases, words = parts_of((32, 64), how)
    for shape in ((), (3,), (2, 3)):
        x = data(*shape, 64 if transpose else 32)

        def loss(x, scales, biases):
            return jnp.sin(multiply(x, scales, biases, words, how=how, transpose=transpose)).sum()

        for order in (jax.grad, lambda f, **k: jax.grad(lambda *a: (jax.grad(f)(*a) ** 2).sum(), **k)):
            call = order(loss, argnums=(0, 1, 2))
            close(jax.jit(call)(x, scales, biases), plainly(lambda *a, c=call: c(*a), x, scales, biases), 1e-4)
        tangents = tuple([data(*p.shape, seed=5) for p in (x, scales, biases)])

        def forward(*args, tangents=tangents):
            return jax.jvp(loss, args, tangents)

        close(jax.jit(forward)(x, scales, biases), plainly(lambda *a: forward(*a), x, scales, biases), 1e-4)
    text = jax.jit(jax.grad(lambda x: loss(x, scales, biases))).lower(x).as_text()
    assert text.count(f"@{TARGET}") == 2
    assert "stablehlo.dot_general" not in text


def test_over_an_axis_more():
    how = SCHEMES[1]
    parts, several = parts_of((32, 64), how), parts_of((5, 32, 64), how)
    call = partial(multiply, how=how, transpose=True)
    for x, operands, dims in (
        (data(5, 64), parts, 0), (data(3, 64, 5), parts, 2), (data(5, 2, 3, 64), parts, 0),
        (data(4, 5, 3, 64), several, 0), (data(4, 3, 64), several, 0),
    ):  # fmt: skip
        over = jax.vmap(call, (dims, *[None] * len(operands)))
        close(jax.jit(over)(x, *operands), plainly(lambda *a, o=over: o(*a), x, *operands))
        assert TARGET in jax.jit(over).lower(x, *operands).as_text()
    all_over = jax.vmap(call)
    close(jax.jit(all_over)(data(5, 3, 64), *several), plainly(lambda *a: all_over(*a), data(5, 3, 64), *several))
    rhs = jnp.asarray([3, 0])
    chosen = jax.vmap(partial(multiply, how=how, transpose=True, right=True), (0, None, None, None, None))
    close(jax.jit(chosen)(data(6, 1, 64), *several, rhs), plainly(lambda *a: chosen(*a), data(6, 1, 64), *several, rhs))


def test_within_loops_and_checkpoints():
    how = SCHEMES[1]
    parts = parts_of((64, 64), how)
    call = partial(multiply, how=how, transpose=True)

    def looped(x):
        out, _ = jax.lax.scan(lambda x, _: (jnp.tanh(jax.checkpoint(call)(x, *parts) / 8), None), x, None, 5)
        return jax.lax.cond(x.sum() > 0, lambda: out, lambda: call(out, *parts)).sum()

    x = data(2, 64)
    close(jax.jit(jax.value_and_grad(looped))(x), plainly(jax.value_and_grad(lambda x: looped(x)), x), 1e-4)


def test_what_is_exported_calls_nothing_of_ours():
    parts = [mx.array(np.asarray(p)) for p in parts_of((32, 64), SCHEMES[1])]

    def fun(x):
        return mx.quantized_matmul(x, parts[2], parts[0], parts[1])

    assert TARGET not in ext.stablehlo(fun, mx.ones((3, 64))).text
    exported = ext.export(fun, mx.ones((3, 64)), batch_axes=0, vjp_order=1)
    np.testing.assert_allclose(np.array(exported(mx.ones((7, 64)))), np.array(fun(mx.ones((7, 64)))), rtol=1e-4)
    assert TARGET not in jax.jit(lambda x: x).trace(1.0).lower().as_text()


def test_several_devices():
    """Over a mesh the matrix is unpacked by XLA, which divides it."""
    code = f"""
import jax, numpy as np, jax.numpy as jnp
from jax.sharding import PartitionSpec as P, NamedSharding
from tests.test_ffi import *
parts = parts_of((32, 64), SCHEMES[1])
mesh = jax.make_mesh((2,), ("rows",))
x = jax.device_put(data(4, 64), NamedSharding(mesh, P("rows")))
call = partial(multiply, how=SCHEMES[1], transpose=True)
assert {TARGET!r} not in jax.jit(call).lower(x, *parts).as_text()
close(jax.jit(call)(x, *parts), plainly(lambda *a: call(*a), data(4, 64), *parts))
"""
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    run(code, environment)


def run(code, environment):
    own = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MXCOMPAT_"))}
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
        env={**own, **environment},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("how", SCHEMES[:2], ids=str)
def test_without_c(how, monkeypatch):
    """The first scheme is then lowered to JAX operations at once, and the second is a primitive for the kernel."""
    monkeypatch.setattr(foreign, "native", None)
    monkeypatch.setattr(foreign, "register", lambda: False)
    x = data(3, 64)
    call = partial(multiply, how=how, transpose=True)
    parts = parts_of((32, 64), how)
    assert TARGET not in jax.jit(call).lower(x, *parts).as_text()
    assert jax.jit(call)(x, *parts).shape == (3, 32)


def test_where_xla_does_not_take_the_function(monkeypatch):
    monkeypatch.setattr(foreign, "register", lambda: False)
    call = partial(multiply, how=SCHEMES[1], transpose=True)
    assert TARGET not in jax.jit(call).lower(data(3, 64), *parts_of((32, 64), SCHEMES[1])).as_text()


def test_another_version_is_refused(monkeypatch):
    def refuse(*args, **more):
        raise RuntimeError("FFI handler for this platform has another version")

    register.cache_clear()
    monkeypatch.setattr(jax.ffi, "register_ffi_target", refuse)
    assert not register()
    monkeypatch.undo()
    register.cache_clear()
    assert register()


class Version(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class Metadata(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("version", Version), ("traits", ctypes.c_uint32))


class Extension(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("kind", ctypes.c_int), ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    )  # fmt: skip


Maker = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Functions(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("version", Version), ("internal", ctypes.c_void_p),
        ("make_error", Maker),
    )  # fmt: skip


class Call(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.POINTER(Extension)), ("functions", ctypes.POINTER(Functions)),
        ("context", ctypes.c_void_p), ("stage", ctypes.c_int), ("rest", ctypes.c_size_t * 32),
    )  # fmt: skip


def called(call):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(Call))(get(native.multiply_for_xla, None))
    return function(ctypes.byref(call))


@pytest.mark.parametrize(("theirs", "version"), [((0, 3), (0, 3)), ((0, 7), (0, 7)), ((1, 2), (0, 0))])
def test_the_version_that_is_told(theirs, version):
    metadata = Metadata(0, Version(0, None, 9, 9), 9)
    extension = Extension(0, 1, None, ctypes.pointer(metadata))
    functions = Functions(0, None, Version(0, None, *theirs))
    assert called(Call(0, ctypes.pointer(extension), ctypes.pointer(functions), None, 0)) is None
    assert (metadata.version.major, metadata.version.minor, metadata.traits) == (*version, 0)


def test_a_call_that_does_not_fit_is_an_error():
    codes = []

    def make(error):
        codes.append(ctypes.cast(error + 24, ctypes.POINTER(ctypes.c_int))[0])
        return 1

    functions = Functions(0, None, Version(0, None, 0, 3), None, Maker(make))
    assert called(Call(0, None, ctypes.pointer(functions), None, 3)) == 1
    assert codes == [3]
    assert called(Call(0, None, ctypes.pointer(functions), None, 0)) is None  # 0 is a stage that does nothing

    good = parts_of((32, 64), SCHEMES[1])
    register()
    for numbers in ([3] * 13, [3, 0, 0, 0, 0, 1, 64, 64, 32, 2, 1, 1, 1], [3, 0, 1, 0, 0, 1, 64, 64, 32, 1, 1, 1, 1]):
        call = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct((1, 32), np.float32))
        wrong = jax.jit(lambda x, call=call, n=numbers: call(x, good[2], *good[:2], numbers=np.array(n, np.int64)))
        with pytest.raises(jax.errors.JaxRuntimeError, match="fit"):
            wrong(data(1, 64)).block_until_ready()


def test_programs_on_the_disk(tmp_path):
    """Assert that a second process loads an executable that calls C, and that one without C compiles its own."""
    code = """
import numpy as np, mxcompat.core as mx
from mxcompat._graph.run import background
from mxcompat._graph.run.events import stats
x = mx.array(np.linspace(-1, 1, 3 * 256, dtype=np.float32).reshape(3, 256))
w = mx.array(np.linspace(0, 3, 64 * 256, dtype=np.float32).reshape(64, 256) % 1)
parts = mx.quantize(w)
mx.eval(parts)
for _ in range(3):
    y = mx.sin(mx.quantized_matmul(x, *parts))
    mx.eval(y)
background.settle()
print(stats.compiles, stats.loaded, float(mx.abs(y).sum().item()))
"""
    environment = {"MXCOMPAT_HOST": "0", "MXCOMPAT_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (run(code, environment).split() for _ in range(2))
    without = run(code, {**environment, "MXCOMPAT_NATIVE": "0"}).split()
    assert int(first[0]) > 0
    assert int(second[0]) == 0
    assert int(second[1]) > 0
    assert int(without[0]) > 0
    assert first[2] == second[2]
    assert abs(float(without[2]) - float(first[2])) < 1e-3
