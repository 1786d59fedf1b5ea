"""Files: each library reads the other's files, and broken or hostile files are refused."""

import io
import json
import os
import stat
import struct
import sys
import threading
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.oracle import check, ours, real, run, same

DTYPES = (
    "bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64",
)  # fmt: skip
SAFETENSORS = tuple(d for d in DTYPES if d != "float64")
GGUF = ("int8", "int16", "int32", "float16", "float32")
SHAPES = ((2, 3), (), (0, 2), (5,))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sample(mx, dtype, shape=(2, 3)):
    count = int(np.prod(shape))
    with mx.stream(mx.cpu):
        return (mx.arange(count) * 3 - 2).reshape(shape).astype(getattr(mx, dtype))


def crossing(save, load, make):
    """Write on each side, read on the other, and compare."""
    for writer, reader in ((ours, real), (real, ours), (ours, ours)):
        with real.stream(real.cpu):
            save(writer, make(writer))
            got, want = load(reader), make(real)
            real.eval(want)
        if reader is real:
            same(ours_of(got), want)
        else:
            same(got, want)


def ours_of(tree):
    """Return a tree of real MLX's arrays as mxcompat's."""
    if isinstance(tree, dict):
        return {k: ours_of(v) for k, v in tree.items()}
    if tree.dtype == real.bfloat16:
        return ours.array(np.array(tree.view(real.uint16)).view(ml_dtypes.bfloat16))
    return ours.array(np.array(tree), dtype=getattr(ours, str(tree.dtype).rpartition(".")[2].replace("bool", "bool_")))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_npy_crosses_over(dtype, shape):
    crossing(lambda mx, x: mx.save("a.npy", x), lambda mx: mx.load("a.npy"), lambda mx: sample(mx, dtype, shape))


def in_order(arrays):
    return dict(sorted(arrays.items()))


def several(mx, dtypes):
    return {f"{d}{k}": sample(mx, d, shape) for d in sorted(dtypes) for k, shape in enumerate(SHAPES)}


@pytest.mark.parametrize("function", ["savez", "savez_compressed"])
def test_npz_crosses_over(function):
    crossing(
        lambda mx, arrays: getattr(mx, function)("a", **arrays),
        lambda mx: in_order(mx.load("a.npz")),
        lambda mx: several(mx, DTYPES),
    )


def test_safetensors_cross_over():
    crossing(
        lambda mx, arrays: mx.save_safetensors("a", arrays, {"k": "v", "é": "ü"}),
        lambda mx: in_order(mx.load("a.safetensors")),
        lambda mx: several(mx, SAFETENSORS),
    )


def test_gguf_crosses_over():
    crossing(
        lambda mx, arrays: mx.save_gguf("a", arrays, {}),
        lambda mx: in_order(mx.load("a.gguf")),
        lambda mx: several(mx, GGUF),
    )


@pytest.mark.parametrize("metadata", [None, {}, {"k": "v", "w": ""}])
def test_safetensors_metadata_cross_over(metadata):
    for writer, reader in ((ours, real), (real, ours), (ours, ours)):
        writer.save_safetensors("a", {"x": writer.ones(2)}, metadata)
        arrays, loaded = reader.load("a.safetensors", return_metadata=True)
        assert list(arrays) == ["x"]
        assert loaded == (metadata or {})


def gguf_metadata(mx):
    numbers = {d: sample(mx, d, (3,)) for d in DTYPES if d not in ("float16", "bfloat16", "float64", "complex64")}
    return {"text": "hello ü", "none": "", "list": ["a", "", "ccc"], "nothing": [], "zero": mx.array(7), **numbers}


def test_gguf_metadata_cross_over():
    for writer, reader in ((ours, real), (real, ours), (ours, ours)):
        writer.save_gguf("a", {"x": writer.ones(2)}, gguf_metadata(writer))
        loaded = reader.load("a.gguf", return_metadata=True)[1]
        want = gguf_metadata(real)
        assert loaded.keys() == want.keys()
        for key, value in want.items():
            if isinstance(value, real.array):
                got = loaded[key] if reader is ours else ours_of(loaded[key])
                same(got, value, where=key)
            else:
                assert loaded[key] == value


def test_the_packages_read_what_we_write():
    import gguf
    import safetensors.numpy

    arrays = several(ours, SAFETENSORS)
    ours.save_safetensors("a", arrays)
    contents = safetensors.numpy.load_file("a.safetensors")
    assert contents.keys() == arrays.keys()
    for name, x in arrays.items():
        assert contents[name].tobytes() == bytes(x)
    np.savez("b.npz", x=np.asfortranarray(np.arange(6.0).reshape(2, 3)), y=np.arange(3, dtype=">i4"))
    loaded = ours.load("b.npz")
    np.testing.assert_array_equal(np.array(loaded["x"]), np.arange(6.0).reshape(2, 3))
    assert np.array(loaded["y"]).tolist() == [0, 1, 2]
    ours.save_gguf("a", {"w": ours.arange(6.0).reshape(2, 3)}, {"general.name": "n"})
    (tensor,) = gguf.GGUFReader("a.gguf").tensors
    assert tensor.data.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("name", ["x", "x.npy", "x.foo"])
def test_endings_are_added(name):
    for mx in (ours, real):
        mx.save(name, mx.ones(2))
        mx.savez(name, mx.ones(2))
        mx.save_safetensors(name, {"x": mx.ones(2)})
        mx.save_gguf(name, {"x": mx.ones(2)}, {})
        names = sorted(os.listdir())
        for file in names:
            os.remove(file)
        if mx is ours:
            mine = names
    assert mine == names


def test_paths(folder):
    x = ours.arange(3)
    ours.save(folder / "p", x)
    assert ours.load(folder / "p.npy").tolist() == [0, 1, 2]
    assert ours.load("p.npy", "npy").tolist() == ours.load("p.npy", format="npy").tolist() == [0, 1, 2]
    os.rename("p.npy", "other")
    assert ours.load("other", format="npy").tolist() == [0, 1, 2]


class Unseekable(io.RawIOBase):
    def __init__(self, data):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, view):
        return self.data.readinto(view)


@pytest.mark.parametrize("wrap", [io.BytesIO, lambda data: io.BufferedReader(io.BytesIO(data)), Unseekable])
@pytest.mark.parametrize("format", ["npy", "npz", "safetensors"])
def test_file_objects(format, wrap):
    if format == "npz" and wrap is Unseekable:
        pytest.skip("zip files are read from their end")
    x = ours.arange(6).reshape(2, 3)
    target = io.BytesIO()
    if format == "npy":
        ours.save(target, x)
    elif format == "npz":
        ours.savez(target, x=x)
    else:
        ours.save_safetensors(target, {"x": x})
    loaded = ours.load(wrap(target.getvalue()), format=format)
    assert (loaded if format == "npy" else loaded["x"]).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_files_one_after_the_other_in_a_stream():
    target = io.BytesIO(b"prefix")
    target.seek(6)
    ours.save(target, ours.ones(2))
    ours.save_safetensors(target, {"x": ours.zeros(3)})
    ours.save(target, ours.arange(2))
    target.seek(6)
    assert ours.load(target, format="npy").tolist() == [1, 1]
    assert ours.load(target, format="safetensors")["x"].tolist() == [0, 0, 0]
    assert ours.load(target, format="npy").tolist() == [0, 1]


def test_the_format_of_a_file_object_is_told_by_its_name():
    ours.save("a", ours.ones(2))
    with open("a.npy", "rb") as file:
        assert ours.load(file).tolist() == [1, 1]


def directory(name):
    """Create a directory, and return its name."""
    Path(name).mkdir(exist_ok=True)
    return name


class OnlyReads:
    """A file object that is neither binary nor named."""

    def read(self, count=-1):
        return b""


ERRORS = [
    lambda mx: mx.save("a", 3),
    lambda mx: mx.save(None, mx.ones(2)),
    lambda mx: mx.save(3, mx.ones(2)),
    lambda mx: mx.save("nowhere/a", mx.ones(2)),
    lambda mx: mx.save(io.StringIO(), mx.ones(2)),
    lambda mx: mx.savez("a", 3),
    lambda mx: mx.savez("a", [1, 2]),
    lambda mx: mx.savez("a", mx.ones(2), arr_0=mx.ones(2)),
    lambda mx: mx.savez(None, mx.ones(2)),
    lambda mx: mx.savez("nowhere/a", mx.ones(2)),
    lambda mx: mx.save_safetensors("a", {"x": 3}),
    lambda mx: mx.save_safetensors("a", [mx.ones(2)]),
    lambda mx: mx.save_safetensors("a", {"x": mx.ones(2)}, {"k": 3}),
    lambda mx: mx.save_safetensors("a", {3: mx.ones(2)}),
    lambda mx: mx.save_safetensors(None, {}),
    lambda mx: mx.save_safetensors(3, {}),
    lambda mx: mx.save_safetensors("nowhere/a", {}),
    lambda mx: mx.save_safetensors("a", {"x": sample(mx, "float64")}),
    lambda mx: mx.save_safetensors("/no/such/folder/a", {"x": sample(mx, "float64")}),
    lambda mx: mx.save_safetensors(3, {"x": sample(mx, "float64")}),
    lambda mx: mx.save_gguf("a", {"x": 3}, {}),
    lambda mx: mx.save_gguf(None, {}, {}),
    lambda mx: mx.save_gguf(io.BytesIO(), {}, {}),
    lambda mx: mx.save_gguf("nowhere/a", {}, {}),
    lambda mx: mx.save_gguf("a", {}, {"k": 3}),
    lambda mx: mx.save_gguf("a", {}, {"k": [3]}),
    lambda mx: mx.save_gguf("a", {}, {"k": mx.ones((2, 2))}),
    lambda mx: mx.save_gguf("a", {}, {"k": mx.zeros(0)}),
    lambda mx: mx.save_gguf("a", {}, {"k": mx.ones(2, mx.float16)}),
    *[lambda mx, d=d: mx.save_gguf("a", {"x": sample(mx, d)}, {}) for d in DTYPES if d not in GGUF],
    lambda mx: mx.save("a" * 300, mx.ones(2)),
    lambda mx: mx.save_safetensors("a" * 300, {"x": mx.ones(2)}),
    lambda mx: mx.save_gguf("a" * 300, {"x": mx.ones(2)}, {}),
    lambda mx: mx.load("a" * 300 + ".npy"),
    lambda mx: mx.load(directory("a.npy")),
    lambda mx: mx.load(directory("a.safetensors")),
    lambda mx: mx.save(directory("a.npy"), mx.ones(2)),
    lambda mx: mx.load("missing.npy"),
    lambda mx: mx.load("missing.npz"),
    lambda mx: mx.load("missing.safetensors"),
    lambda mx: mx.load("missing.gguf"),
    lambda mx: mx.load("missing"),
    lambda mx: mx.load("missing.foo"),
    lambda mx: mx.load("."),
    lambda mx: mx.load("./missing"),
    lambda mx: mx.load(io.StringIO("a")),
    lambda mx: mx.load(OnlyReads()),
    lambda mx: mx.load("a.npy", format="foo"),
    lambda mx: mx.load(None),
    lambda mx: mx.load(3),
    lambda mx: mx.load(b"a.npy"),
    lambda mx: mx.load(io.BytesIO()),
    lambda mx: mx.load(io.StringIO("a"), format="npy"),
    lambda mx: mx.load(io.BytesIO(), format="npy"),
    lambda mx: mx.load(io.BytesIO(), format="gguf"),
    lambda mx: mx.load("a.npy", return_metadata=True),
    lambda mx: mx.load("a.npz", return_metadata=True),
    lambda mx: mx.load("a.npy", return_metadata=1),
]


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    check(case)


NPY = b"\x93NUMPY\x01\x00"
HEADERS = [
    (b"", None),
    (b"\x93NUM", None),
    (b"garbage garbage garbage", "load"),
    (NPY, None),
    (NPY + b"\x44\x00{'descr'", None),
    (NPY + b"\x03\x00abc", "load"),
    (NPY + b"\x05\x00[1,2]", "load"),
]


@pytest.mark.parametrize(("data", "_"), HEADERS)
def test_a_broken_npy(data, _):
    with open("a.npy", "wb") as file:
        file.write(data)
    error = run(ours, lambda mx: mx.load("a.npy"))
    assert isinstance(error, RuntimeError)
    if _ is None:
        check(lambda mx: mx.load("a.npy"))


def npy(descr, shape, data=b"", fortran=False):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode()
    return NPY + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        npy("<f4", (10**6, 10**9)),
        npy("<f4", (3,), b"12345678901"),
        npy("<f4", (-1,), b"1234"),
        npy("<f4", (2.0,), b"12345678"),
        npy("<f4", (10**30,), b"1234"),
        npy("<f4", 3, b"1234"),
        NPY + b"\x20\x00" + b"__import__('os').system('touch x')",
        NPY + struct.pack("<H", 20_000) + b"(" * 20_000,
    ],
)
def test_a_hostile_npy(data):
    with pytest.raises(RuntimeError, match=r"Invalid header|Failed to read"):
        ours.load(io.BytesIO(data), format="npy")
    assert not os.path.exists("x")


@pytest.mark.parametrize("descr", ["|O", "<U1", "<U12", "<c16", "<M8[s]", [("a", "<i4")], "nonsense", "<i3", "<f16"])
def test_npy_files_of_what_no_array_holds(descr, tmp_path):
    (tmp_path / "x.npy").write_bytes(npy(descr, (1,), bytes(64)))
    error = check(lambda mx: mx.load(str(tmp_path / "x.npy")), message=True)
    assert "Unsupported array protocol type-string" in str(error)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_pickled_objects_are_not_loaded():
    np.savez("a.npz", fine=np.ones(2), evil=np.array([Evil()], dtype=object))
    np.save("b.npy", np.array([Evil()], dtype=object))
    for name in ("a.npz", "b.npy"):
        with pytest.raises(ValueError, match="Unsupported array protocol"):
            ours.load(name)
    assert not os.path.exists("executed")


def zipped(**members):
    with zipfile.ZipFile("a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name + ".npy", data)


def test_a_broken_npz():
    for content in (b"", b"hello", b"PK\x03\x04" + bytes(50)):
        with open("a.npz", "wb") as file:
            file.write(content)
        check(lambda mx: mx.load("a.npz"))
    zipped(a=b"hello")
    assert isinstance(run(ours, lambda mx: mx.load("a.npz")), RuntimeError)
    for shape, message in (((10**12,), "Invalid header"), ((10**6, 10**6), "Unable to read")):
        zipped(a=npy("<f4", shape, bytes(100)))
        with pytest.raises(RuntimeError, match=message):
            ours.load("a.npz")
    ours.savez("a.npz", x=ours.arange(100))
    whole = Path("a.npz").read_bytes()
    for place in (60, 120, 300, len(whole) - 30):  # damages a header, the data and the directory
        damaged = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        result = run(ours, lambda mx, damaged=damaged: mx.load(io.BytesIO(damaged), format="npz"))
        assert isinstance(result, (RuntimeError, ValueError))


def test_a_zip_bomb_is_refused():
    ours.savez_compressed("a.npz", x=ours.zeros(1000))
    whole = bytearray(Path("a.npz").read_bytes())
    entry = whole.rindex(b"PK\x01\x02")
    whole[entry + 24 : entry + 28] = struct.pack("<I", 4_000_000_000)
    with pytest.raises(RuntimeError, match=r"Failed to read x\.npy"):
        ours.load(io.BytesIO(bytes(whole)), format="npz")


def test_closed_files():
    def closed():
        file = io.BytesIO()
        file.close()
        return file

    for call in (
        lambda mx: mx.save(closed(), mx.ones(2)),
        lambda mx: mx.savez(closed(), mx.ones(2)),
        lambda mx: mx.save_safetensors(closed(), {"a": mx.ones(2)}),
        *[lambda mx, kind=kind: mx.load(closed(), format=kind) for kind in ("npy", "npz", "safetensors", "gguf")],
    ):
        check(call)


def test_an_archive_beyond_the_memory_is_refused_before_it_is_unpacked(monkeypatch):
    from mxcompat._graph import policy
    from mxcompat._graph.run import allocation

    ours.savez_compressed("a.npz", **{f"x{k}": ours.zeros(100_000) for k in range(8)})
    assert os.path.getsize("a.npz") < 100_000
    monkeypatch.setattr(policy, "LARGE_ALLOCATION", 1000)
    monkeypatch.setattr(allocation, "_available", lambda: 1_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *args: pytest.fail("unpacked"))
    with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate 320\d{4} bytes, of which 1000000"):
        ours.load("a.npz")


def test_many_small_arrays():
    """Assert that loading many arrays pauses Python's collector, and restores it afterwards."""
    import gc

    ours.savez("a.npz", **{f"x{k}": ours.array([k, k + 1]) for k in range(3000)})
    ours.save_safetensors("a", {f"x{k}": ours.array([k, k + 1]) for k in range(3000)})
    for name in ("a.npz", "a.safetensors"):
        enabled = gc.isenabled()
        arrays = ours.load(name)
        assert gc.isenabled() == enabled
        assert len(arrays) == 3000
        assert arrays["x77"].tolist() == [77, 78]
        total = ours.stack(list(arrays.values())).sum()
        assert total.item() == 3000 * 3000


def tensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open("a.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


SAME_MESSAGE = [
    ({"a": entry()}, b"1234"),
    ({"a": entry(shape=(3,))}, b"12345678"),
    ({"a": entry("F33")}, b"12345678"),
    ({"a": entry("F64", (1,))}, b"12345678"),
    ({"a": entry(offsets=(8, 0))}, b"12345678"),
    ({"a": entry(offsets=(0,))}, b"12345678"),
    (b"[]", b""),
    (b"", b""),
]


@pytest.mark.parametrize(("header", "data"), SAME_MESSAGE)
def test_a_broken_safetensors_file(header, data):
    tensors(header, data)
    check(lambda mx: mx.load("a.safetensors"), message=header not in (b"[]", b""))


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"{abc", b""),
        (b"[" * 100_000, b""),
        (b"\xff\xfe{}", b""),
        ({"a": 3}, b""),
        ({"a": {"dtype": "F32"}}, b""),
        ({"a": entry(shape=(10**12,), offsets=(0, 4 * 10**12))}, b""),
        ({"a": entry(shape=(-2,), offsets=(0, -8))}, b""),
        ({"a": entry(shape=(2**63, 2**63), offsets=(0, 0))}, b""),
        ({"a": entry(offsets=(-8, 0))}, b"12345678"),
        ({"a": entry("F32", (1.5,), (0, 6))}, b"12345678"),
        ({"a": entry("F32", (1.5, 1), (0, 4))}, b"12345678"),
        ({"a": entry("F32", (1e999,))}, b"12345678"),
        ({"a": entry(), "b": entry(offsets=(4, 12))}, b"123456789012"),
        ({"a": entry(), "b": entry()}, b"12345678"),
        (b'{"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}, "a": 3}', b"1"),
        ({"__metadata__": {"k": 3}}, b""),
        ({"__metadata__": [1]}, b""),
        ({"a": entry(["F32"])}, b"12345678"),
    ],
)
def test_a_hostile_safetensors_file(header, data):
    tensors(header, data)
    with pytest.raises(RuntimeError, match=r"load_safetensors|safetensor"):
        ours.load("a.safetensors")


@pytest.mark.parametrize("length", [0, 3, 99_999_999, 100_000_000, 100_000_001, 10**12, 2**63 + 5, 2**64 - 1])
def test_a_bad_header_length(length):
    """Test wrong header lengths, as in an incomplete download."""
    tensors(b"{}", length=length)
    check(lambda mx: mx.load("a.safetensors"))
    check(lambda mx: mx.load(io.BytesIO(Path("a.safetensors").read_bytes()), format="safetensors"))
    with open("a.safetensors", "wb") as file:
        file.write(b"abc")
    check(lambda mx: mx.load("a.safetensors"))


def test_gaps_padding_and_8_bit_floats_are_read():
    tensors(b'{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[1,3]},"__metadata__":null}   ', b"-\x38\x40rest")
    check(lambda mx: mx.load("a.safetensors", return_metadata=True))


HEADER = json.dumps({"a": entry()}).encode()


@pytest.mark.parametrize(
    "header",
    [
        HEADER + b"\0\0\0",
        HEADER + b"\0 and more",
        b"\xef\xbb\xbf" + HEADER,
        HEADER.replace(b"[2]", b"[2.0]"),
        HEADER.replace(b"[2]", b"[2e0, 1.0]"),
        HEADER.replace(b"[0, 8]", b"[0.0, 8.0]"),
    ],
)
def test_headers_as_others_write_them(header):
    tensors(header, np.arange(2, dtype="f4").tobytes())
    check(lambda mx: mx.load("a.safetensors"))


@pytest.mark.parametrize("version", [0, 3, 4, 9])
def test_versions_of_npy(version):
    data = bytearray(npy("<f4", (2,), b"12345678"))
    data[6] = version
    Path("a.npy").write_bytes(data)
    check(lambda mx: mx.load("a.npy"))
    check(lambda mx: mx.load(io.BytesIO(bytes(data)), format="npy"))


@pytest.mark.parametrize("version", [0, 1, 2, 4, 9])
def test_versions_of_gguf_are_read_alike(version):
    ours.save_gguf("a", {"w": ours.arange(3)})
    data = Path("a.gguf").read_bytes()
    Path("b.gguf").write_bytes(data[:4] + struct.pack("<I", version) + data[8:])
    check(lambda mx: mx.load("b.gguf"))


def test_a_broken_gguf_file():
    ours.save_gguf("a", {"w": ours.ones((2, 3))}, {"s": "hello", "l": ["a", "b"], "v": ours.arange(3)})
    whole = Path("a.gguf").read_bytes()
    for size in (*range(0, len(whole) - 8, 7), len(whole) - 9):
        with open("b.gguf", "wb") as file:
            file.write(whole[:size])
        error = run(ours, lambda mx: mx.load("b.gguf"))
        assert isinstance(error, RuntimeError), size
    for place in range(8, len(whole) - 32):  # damages counts, lengths, types and offsets
        with open("b.gguf", "wb") as file:
            file.write(whole[:place] + b"\xff" + whole[place + 1 :])
        result = run(ours, lambda mx: mx.load("b.gguf", return_metadata=True))
        assert isinstance(result, (RuntimeError, ValueError, tuple)), place


def write_gguf(name, tensors, fill=None):
    import gguf

    writer = gguf.GGUFWriter(name, "llama")
    if fill:
        fill(writer)
    for tensor, data, kind in tensors:
        writer.add_tensor(tensor, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "BF16", "Q6_K", "Q2_K"])
def test_quantized_gguf_files(kind):
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    number = GGMLQuantizationType[kind]
    rng = np.random.default_rng(0)
    if kind in ("Q6_K", "Q2_K"):
        data = rng.integers(0, 60, size=(2, GGML_QUANT_SIZES[number][1]), dtype=np.uint8)
    else:
        data = quants.quantize(rng.standard_normal((4, 64)).astype(np.float32), number)
    write_gguf("q.gguf", [("block.weight", data, number), ("other", data, number)])
    check(lambda mx: in_order(mx.load("q.gguf")))


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q6_K"])
def test_quantized_gguf_files_are_read_when_needed(kind):
    """Assert that loading reads no blocks: a file that is cut off afterwards is found at the first use."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    number = GGMLQuantizationType[kind]
    data = np.zeros((2, GGML_QUANT_SIZES[number][1]), np.uint8)
    write_gguf("q.gguf", [("block.weight", data, number)])
    arrays = ours.load("q.gguf")
    os.truncate("q.gguf", os.path.getsize("q.gguf") - data.nbytes)
    for x in arrays.values():
        with pytest.raises(RuntimeError, match="Unable to read"):
            ours.eval(x)


def test_other_quantizations_are_expanded_too():
    from gguf import GGMLQuantizationType, quants

    values = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    data = quants.quantize(values, GGMLQuantizationType.Q5_0)
    write_gguf("q.gguf", [("w", data, GGMLQuantizationType.Q5_0)])
    np.testing.assert_allclose(np.array(ours.load("q.gguf")["w"]), values, atol=0.2)


def test_without_the_gguf_package(monkeypatch):
    from gguf import GGMLQuantizationType, quants

    data = quants.quantize(np.ones((1, 64), np.float32), GGMLQuantizationType.Q5_0)
    write_gguf("q.gguf", [("w", data, GGMLQuantizationType.Q5_0)])
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(RuntimeError, match="pip install gguf"):
        ours.load("q.gguf")


@pytest.mark.parametrize(
    "fill",
    [
        lambda w: w.add_uint8("k", 1),
        lambda w: w.add_int8("k", -1),
        lambda w: w.add_uint64("k", 2**40),
        lambda w: w.add_bool("k", True),
        lambda w: w.add_int64("k", -5),
        lambda w: w.add_array("k", [1.0, 2.0]),
        lambda w: w.add_array("k", ["x", "yy"]),
        lambda w: w.add_array("k", [True, False]),
        lambda w: w.add_array("k", [[1, 2], [3]]),
        lambda w: w.add_array("k", []),
    ],
)
def test_gguf_metadata_of_others(fill):
    write_gguf("m.gguf", [("w", np.ones((2, 2), np.float32), None)], fill)
    check(lambda mx: in_order(mx.load("m.gguf", return_metadata=True)[1]))


class Failing(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("a.npy", lambda: ours.save("a.npy", ours.ones(3))),
        ("a.npz", lambda: ours.savez("a.npz", x=ours.ones(3))),
        ("a.safetensors", lambda: ours.save_safetensors("a.safetensors", {"x": ours.ones(3)})),
        ("a.gguf", lambda: ours.save_gguf("a.gguf", {"x": ours.ones(3)}, {})),
    ],
)
def test_a_failed_save_leaves_the_old_file_whole(name, save, monkeypatch):
    from mxcompat._io import gguf_io, npy, safetensors_io

    save()
    before = Path(name).read_bytes()

    def failing(x):
        raise Failing

    for module in (gguf_io, npy, safetensors_io):
        monkeypatch.setattr(module, "array_bytes", failing)
    with pytest.raises(Failing):
        save()
    assert Path(name).read_bytes() == before
    assert os.listdir() == [name]


def test_a_save_keeps_permissions_and_links():
    ours.save("a", ours.ones(2))
    os.chmod("a.npy", 0o640)
    os.symlink("a.npy", "link.npy")
    ours.save("link", ours.zeros(2))
    assert os.path.islink("link.npy")
    assert ours.load("a.npy").tolist() == [0, 0]
    assert stat.S_IMODE(os.stat("a.npy").st_mode) == 0o640


def test_saving_over_the_file_that_is_being_read():
    ours.save_safetensors("a", {"x": ours.ones(4), "y": ours.zeros(4)})
    arrays = ours.load("a.safetensors")
    arrays["x"] = arrays["x"] + 1
    ours.save_safetensors("a", arrays)
    again = ours.load("a.safetensors")
    assert again["x"].tolist() == [2] * 4
    assert again["y"].tolist() == [0] * 4


def test_arrays_are_read_when_they_are_needed(monkeypatch):
    from mxcompat._io import reading

    ours.save_safetensors("a", {"x": ours.arange(4.0), "y": ours.zeros(4)})
    arrays = ours.load("a.safetensors")
    count = []
    fill = reading.PathSource.fill
    monkeypatch.setattr(reading.PathSource, "fill", lambda *args: count.append(1) or fill(*args))
    z = arrays["x"] * 2
    assert (z.shape, z.dtype, count) == ((4,), ours.float32, [])
    threads = [threading.Thread(target=lambda: ours.eval(arrays["x"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert z.tolist() == [0, 2, 4, 6]
    assert count == [1]


def test_a_file_cut_short_after_it_was_opened():
    ours.save_safetensors("a", {"x": ours.ones(4)})
    x = ours.load("a.safetensors")["x"]
    os.truncate("a.safetensors", os.path.getsize("a.safetensors") - 4)
    with pytest.raises(RuntimeError, match="Unable to read"):
        ours.eval(x)


def test_a_file_changed_after_it_was_opened():
    """Assert that an array is never made of other data than those of the file that was opened."""
    ours.save_safetensors("a", {"x": ours.ones(4)})
    x = ours.load("a.safetensors")["x"]
    with open("a.safetensors", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"1234")
    later = os.stat("a.safetensors").st_mtime_ns + 10**9
    os.utime("a.safetensors", ns=(later, later))  # the clock of a file may be coarser than this test
    with pytest.raises(RuntimeError, match="Unable to read") as raised:
        ours.eval(x)
    assert "a.safetensors was changed" in str(raised.value.__notes__)


def test_a_file_replaced_or_removed_after_it_was_opened():
    ours.save_safetensors("a", {"x": ours.ones(4)})
    x = ours.load("a.safetensors")["x"]
    ours.save_safetensors("a", {"x": ours.zeros(4)})
    y = ours.load("a.safetensors")["x"]
    os.remove("a.safetensors")
    assert (x.tolist(), y.tolist()) == ([1] * 4, [0] * 4)


def test_large_arrays_are_read_in_two_parts(monkeypatch):
    from mxcompat._graph import policy
    from mxcompat._io import reading

    monkeypatch.setattr(policy, "LARGE_BYTES", 1 << 10)
    reads = []
    read = reading.PathSource._fill
    monkeypatch.setattr(reading.PathSource, "_fill", lambda *args: reads.append(len(args[1])) or read(*args))
    ours.save_safetensors("a", {"x": ours.arange(1001), "y": ours.arange(1001) + 1, "z": ours.arange(9)})
    arrays = ours.load("a.safetensors")
    reads.clear()
    ours.eval(arrays)
    assert all(np.array_equal(arrays[name], np.arange(1001) + k) for k, name in enumerate("xy"))
    assert sorted(reads) == [36, 2002, 2002, 2002, 2002]


@pytest.mark.parametrize("cut", [1, 20, 39, 40, 41, 100, 160, 163, 168])
@pytest.mark.parametrize("stream", [False, True])
def test_an_npy_cut_short_is_found_when_it_is_needed(cut, stream):
    np.save("a.npy", np.arange(10, dtype=np.float32))
    whole = Path("a.npy").read_bytes()
    Path("a.npy").write_bytes(whole[:-cut])

    def loaded(mx):
        return mx.load("a.npy", stream=mx.cpu if stream else None)

    def together(mx):
        x = loaded(mx)
        good, bad, results = mx.abs(mx.ones(2)), x + 1, [x.shape]  # real MLX may evaluate it twice, in place
        try:
            mx.eval(good, bad)
        except RuntimeError as error:
            results.append(str(error).partition("\n")[0])
        return [*results, good.tolist()]

    check(lambda mx: loaded(mx).shape)
    check(lambda mx: loaded(mx).tolist())
    check(together)
    if cut <= 40:
        with pytest.raises(RuntimeError) as raised:
            ours.eval(loaded(ours))
        assert f"a.npy: [read] Unable to read {cut} bytes" in "".join(raised.value.__notes__)


def test_loaded_arrays_are_ordinary():
    ours.save_safetensors("a", {"x": ours.arange(4.0)})
    load = lambda: ours.load("a.safetensors")["x"]  # noqa: E731
    assert ours.grad(lambda x: (x * x).sum())(load()).tolist() == [0, 2, 4, 6]
    w = load()
    assert ours.compile(lambda y: y + w)(ours.ones(4)).tolist() == [1, 2, 3, 4]
    assert ours.vmap(lambda a: a * 2)(load()).tolist() == [0, 2, 4, 6]
    y = load()
    y += 1
    assert y.tolist() == [1, 2, 3, 4]
    assert load()[1].item() == 1
    np.testing.assert_array_equal(np.array(load()), [0, 1, 2, 3])


def test_a_bool_is_0_or_1_whatever_the_file_says():
    x = ours.load(io.BytesIO(npy("|b1", (3,), b"\x00\x02\xff")), format="npy")
    assert x.astype(ours.int32).tolist() == [0, 1, 1]


@pytest.mark.parametrize("data", [b"hello " * 20, b"PK\3\4" + bytes(60), b""], ids=["text", "zip", "empty"])
def test_what_a_file_object_without_a_header_is_called(data, tmp_path):
    """Assert that errors name a path, but not a file object, even if it has a name."""
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    check(lambda mx: mx.load(io.BytesIO(data), format="npy"))
    check(lambda mx: mx.load(str(path), format="npy"))
    with path.open("rb") as opened:
        check(lambda mx: mx.load((opened.seek(0), opened)[1], format="npy"))


def test_gguf_metadata_that_are_none(tmp_path):
    check(lambda mx: mx.save_gguf(str(tmp_path / "x.gguf"), {"a": mx.ones(2)}, {"k": None}))


def written(folder, mx, save):
    """Return the files that a function writes into a folder, as bytes."""
    folder = folder / ("real" if mx is real else "ours")
    folder.mkdir()
    save(mx, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def some(mx, n=7):
    arrays = {
        "b": mx.arange(6).reshape(2, 3), "a": mx.ones(3, mx.float16), "zz": mx.array(2.5), "none": mx.zeros((0, 3)),
        "layers.0.weight": mx.array([1, 2, 3], mx.int8), "row": mx.ones((1, 4)), "é\n\"/": mx.full((2, 2), 3.5),
    }  # fmt: skip
    return dict(list(arrays.items())[:n])


def views(mx):
    x, deep = mx.arange(24).reshape(4, 6), mx.arange(24).reshape(2, 3, 4)
    return {
        "broadcast": mx.broadcast_to(x[0], (3, 6)), "of one": mx.broadcast_to(x[0, 0], (2, 3)), "rows": x[1:3],
        "columns": x[:, 1:3], "column": x[:, 1], "steps": x[::2, ::3], "back": x[::-1, ::-1], "empty": x[:, :0].T,
        "two axes": deep.swapaxes(0, 1), "axes": deep.transpose(2, 0, 1), "there and back": x.T.T, "one": x[:1].T,
        "windows": mx.as_strided(x, (3, 3), (1, 2)), "bytes": x.view(mx.uint8), "diagonal": mx.diagonal(x),
        "columns, rows": x.T.reshape(3, 8), "copied": mx.contiguous(x.T),
    }  # fmt: skip


SAME_BYTES = {
    "npy of views": lambda mx, p: [mx.save(str(p / name), x) for name, x in views(mx).items()],
    "npz of views": lambda mx, p: mx.savez(str(p / "x"), *views(mx).values()),
    "safetensors of views": lambda mx, p: mx.save_safetensors(
        str(p / "x"), {**views(mx), "transposed": mx.arange(6).reshape(2, 3).T}
    ),
    "npy": lambda mx, p: [mx.save(str(p / name), x) for name, x in zip("abcdefg", some(mx).values(), strict=True)],
    "npy of bfloat16": lambda mx, p: mx.save(str(p / "x"), mx.ones((2, 3), mx.bfloat16)),
    "npy of many axes": lambda mx, p: mx.save(str(p / "x"), mx.zeros((1,) * 20)),
    "npz": lambda mx, p: mx.savez(str(p / "x"), mx.ones(2), mx.zeros((2, 3)), **some(mx)),
    "npz, compressed": lambda mx, p: mx.savez_compressed(str(p / "x"), mx.ones(2), mx.zeros(1000), **some(mx)),
    "safetensors": lambda mx, p: [mx.save_safetensors(str(p / f"{n}"), some(mx, n)) for n in range(8)],
    "safetensors with metadata": lambda mx, p: mx.save_safetensors(
        str(p / "x"), some(mx), {"format": "mlx", "b": 'c"\n\x01é/', "a": ""}
    ),
    "safetensors of thousands": lambda mx, p: mx.save_safetensors(
        str(p / "x"), {f"layers.{i}.{name}": mx.full(i % 3, i) for i in range(1500) for name in ("weight", "bias")}
    ),
    "gguf": lambda mx, p: [mx.save_gguf(str(p / f"{n}"), some(mx, n)) for n in range(8)],
    "gguf with metadata": lambda mx, p: mx.save_gguf(
        str(p / "x"), some(mx), {"n": mx.array(3), "name": "x", "tokens": ["a", "", "bc"], "v": mx.array([1.5, 2])}
    ),
}  # fmt: skip


@pytest.mark.parametrize("save", SAME_BYTES.values(), ids=SAME_BYTES.keys())
def test_files_are_the_same_to_the_last_byte(tmp_path, save):
    want, got = written(tmp_path, real, save), written(tmp_path, ours, save)
    assert want.keys() == got.keys()
    for name, data in want.items():
        assert got[name] == data, name
