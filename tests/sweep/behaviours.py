"""Cases without computation: printing, indexing, assignment, construction, promotion, protocols, files, modules,
trees."""

from __future__ import annotations

import itertools
import random

from tests.sweep.cases import DTYPES, Case, Given, table

__all__ = ["cases"]

SINGLE = ("float32",)

PRINTED = """
! {{repr,str}}(A([0, 1, 1, 0], D))
! {{repr,str}}(A([[1, 2], [3, 4]], D))
! {{repr,str}}(A([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], D))
! {{repr,str}}(A(1, D))
! {{repr,str}}(mx.zeros({{(0,);(2, 0);(0, 3);(1, 1, 1)}}, D))
! {{repr,str}}(mx.arange(0, 100).astype(D))
! {{repr,str}}(mx.arange(0, 2000).astype(D))
! {{repr,str}}(mx.arange(0, 1000).astype(D))
! {{repr,str}}(mx.arange(0, 1001).astype(D))
! {{repr,str}}(mx.arange(0, 2000).reshape(20, 100).astype(D))
! {{repr,str}}(mx.arange(0, 2400).reshape(4, 10, 60).astype(D))
! {{repr,str}}(mx.arange(0, 1200).reshape(2, 2, 2, 150).astype(D))
! {{repr,str}}(mx.arange(0, 1200).reshape(1200, 1).astype(D))
! {{repr,str}}(mx.zeros((1001, 0), D))
! {{repr,str}}(A([1.5, -2.25, 1e-3, 123456.0, 0.1], D))
! {{repr,str}}(A([nan, inf, -inf, -0.0, 0.0]).astype(D))
! {{repr,str}}(A([1e10, 1e-10, 1e5, 1e6, 123456789.0, 1.0000001, 0.3333333]).astype(D))
! {{repr,str}}(A([65504.0, 3.4e38, 1e-45, 1.17e-38]).astype(D))
! {{repr,str}}(A([1+2j, complex(nan, inf), complex(-0.0, 1e-9), -1j, 1e10+1j]).astype(D))
! {{repr,str}}(D)
! {{repr,str}}(mx.finfo(mx.{{float16,bfloat16,float32,float64,complex64}}))
! {{repr,str}}(mx.iinfo(mx.{{int8,uint8,int64,uint64,int32}}))
! f'{A([1.5, 2], D)}'
! f'{A(1.5)}'
! f'{A(1.5):.3f}'
! '%s' % A([1, 2], D)
! repr([A([1, 2], D)])
"""

MADE = (
    "1", "1.5", "True", "1j", "-3", "2**31", "2**40", "2**63", "2**64", "-2**31", "-2**63", "[]", "[[]]", "[[], []]",
    "()", "[1, 2]", "(1, 2)", "[1, 2.5]", "[True, 2]", "[True, 2.5]", "[True, False]", "[1, 2j]", "[2.5, 2j]",
    "[[1, 2], [3, 4.5]]", "[[1, 2], [3]]", "[1, [2]]", "[[1], 2]", "[2**40, 1]", "[2**31, 1]", "[1, 2**63]", "[[[1]]]",
    "'a'", "[1, 'a']", "None", "[None]", "{}", "range(3)", "{1, 2}", "b'abc'", "bytearray(b'abc')",
    "memoryview(b'abc')", "np.float32(1.5)", "np.float64(1.5)", "np.float16(1.5)", "np.int8(3)", "np.uint64(3)",
    "np.int64(2**40)", "np.bool_(True)", "np.complex64(1j)", "np.complex128(1j)", "np.arange(3)", "np.ones((2, 2))",
    "np.ones((2, 2), np.float16)", "np.ones((2, 0))", "np.array(1.5)", "np.array([True, False])", "np.array([1j, 2])",
    "np.arange(6).reshape(2, 3).T", "np.arange(6)[::-2]", "np.array(['a'])", "np.array([None])",
    "np.arange(3, dtype='u2')",
    "[np.float32(1), np.int8(2)]", "[np.arange(2), np.arange(2)]", "[np.arange(2), np.arange(3)]", "[A(1), A(2)]",
    "[A([1, 2]), A([3, 4])]", "[A([1, 2]), [3, 4]]", "[A([1, 2]), A([3])]", "[A(1), 2.5]", "[A(1, mx.int8), A(1.5)]",
    "A([1, 2], mx.int8)", "[[True], [2.5]]", "[nan, inf, 1]", "float('nan')", "[1.5, None]", "(x for x in [1, 2])",
    "[(1, 2), [3, 4]]", "np.arange(3, dtype='>i4')", "3.4e39", "1e-50", "[300, -1]",
)  # fmt: skip

BINARY = ("+", "-", "*", "/", "//", "%", "**", "==", "<", "&", "|", "^", "<<", ">>")
BINARY_FUNCTIONS = (
    "maximum", "minimum", "logaddexp", "arctan2", "matmul", "outer", "inner", "logical_and", "isclose", "array_equal",
    "divmod", "kron", "vecdot", "bitwise_and", "power",
)  # fmt: skip
NUMBERS = (
    "True", "-1", "300", "2**31", "2**40", "-0.5", "nan", "inf", "1e300", "1 - 2j", "np.float32(2.5)", "np.int64(7)",
)  # fmt: skip

PLACES = (
    "1", "-1", "0:2", "1:", "::2", "::-1", "-2:", "3:1", "2:0:-1", "None", "...", "mx.array(1)", "mx.array([0, 2, 1])",
    "mx.array([[0, 1], [2, -1]])", "[0, 2]", "mx.array([0, 1], mx.uint8)", "0:0", "-5:9", "True",
)  # fmt: skip
MASKS = (
    "mx.array([True, False, True, False])", "mx.array([[True, False, True, True, False]] * 4)", "mx.array(True)",
    "[True, False, True, False]", "mx.array([False] * 4)", "mx.ones((4, 5, 3), mx.bool_)", "x > 0",
)  # fmt: skip
WRONG = (
    "1.5", "'a'", "mx.array([1.5])", "(0, 0, 0, 0)", "(..., ...)", "(None, 'a')", "[0, 1.5]", "[[0, 1]]", "[]", "()",
    "1:'a'", "::0", "{}", "mx.array([True, False])", "(1, mx.array([True] * 5))", "np.array([0, 1])", "np.int32(1)",
    "np.array([True, False, True, False])", "[True, 1]", "0:2.5", "mx.array([])",
    "(mx.array([0, 1]), mx.array([0, 1, 2]))",
    "mx.array(1):", "False", "(True, 1)", "(0, True)", "b'a'", "range(2)", "(0, [0, 1], None)", "(([0], [1]),)",
)  # fmt: skip

MODULES = """
! plain(model().{{parameters,trainable_parameters,children,leaf_modules}}())
! [name for name, _ in model().named_modules()]
! len(model().modules())
! repr(model())
! str(nn.{{Linear(3, 4);Conv2d(2, 4, 3);Embedding(3, 4);LayerNorm(3);Dropout(0.3);BatchNorm(3)}})
! str(nn.{{MultiHeadAttention(8, 2);ELU();GLU();HardShrink()}})
! str(nn.{{LSTM(2, 3);GRU(2, 3);PReLU();ReLU();GELU();Sequential(nn.Linear(2, 3), nn.ReLU());RMSNorm(3);Step()}})
! str(nn.{{GroupNorm(2, 4);InstanceNorm(4);MaxPool2d(2);AvgPool1d(3, 2);Upsample(2);RoPE(4);ALiBi();Bilinear(2, 3, 4)}})
! str(nn.{{Conv1d(2, 4, 3);Conv3d(2, 4, 3);ConvTranspose1d(2, 4, 3);ConvTranspose2d(2, 4, 3);Softmax();Identity()}})
! str(nn.{{QuantizedLinear(64, 8);QuantizedEmbedding(5, 64);Dropout2d();Dropout3d();SinusoidalPositionalEncoding(8)}})
! str(nn.{{TransformerEncoderLayer(8, 2);Transformer(8, 2, 1, 1);LeakyReLU();Softplus();CELU()}})
! plain((m := model(), m.freeze(), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(keys={{'bias';['bias', 'weight'];['w'];'no'}}), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(keys='no', strict=True), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(recurse=False), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(), m.unfreeze(keys='bias'), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(), m.unfreeze(), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(), m.unfreeze(keys='no', strict=True), m.trainable_parameters())[-1])
! plain((m := model(), m.freeze(), m.unfreeze(recurse=False), m.trainable_parameters())[-1])
! plain((m := model(), m.apply(lambda p: p * 2), m.parameters())[-1])
! plain((m := model(), m.apply(lambda p: p * 2, lambda module, k, v: k == 'bias'), m.parameters())[-1])
! plain((m := model(), m.filter_and_map(lambda module, k, v: k == 'bias'))[-1])
! plain((m := model(), m.filter_and_map(nn.Module.valid_parameter_filter, lambda p: p.shape))[-1])
! plain((m := model(), m.filter_and_map(nn.Module.valid_child_filter, is_leaf=nn.Module.is_module))[-1]).keys()
! plain((m := model(), m.update({'first': {'weight': x}}), m.parameters())[-1]) | 4,3
! plain((m := model(), m.update({'no': {'weight': x}}), m.parameters())[-1]) | 4,3
! plain((m := model(), m.update({'no': {'weight': x}}, strict=False), m.parameters())[-1]) | 4,3
! plain((m := model(), m.update({'first': x}), m.parameters())[-1]) | 4,3
! plain((m := model(), m.update({'first': x}, strict=False), m.parameters())[-1]) | 4,3
! plain((m := model(), m.update({'first': {'weight': 3}}), m.parameters())[-1])
! plain((m := model(), m.update({'layers': [{'weight': x}]}), m.parameters())[-1]) | 4,4
! plain((m := model(), m.update({'layers': [{}, {'weight': x}]}), m.parameters())[-1]) | 4,4
! plain((m := model(), m.update({'layers': [{}, {}, {'weight': x}]}), m.parameters())[-1]) | 4,4
! plain((m := model(), m.update({'layers': {'weight': x}}), m.parameters())[-1]) | 4,4
! plain((m := model(), m.update_modules({'first': nn.Linear(3, 2)}), m.parameters())[-1])
! plain((m := model(), m.update_modules({'no': nn.Linear(3, 2)}), m.parameters())[-1])
! plain((m := model(), m.update_modules({'no': nn.Linear(3, 2)}, strict=False), m.parameters())[-1])
! plain((m := model(), m.update_modules({'first': 3}), m.parameters())[-1])
! plain((m := model(), m.load_weights([('first.weight', x)], strict=False), m.parameters())[-1]) | 4,3
! plain((m := model(), m.load_weights([('first.weight', x)]), m.parameters())[-1]) | 4,3
! plain((m := model(), m.load_weights([('no.weight', x)], strict=False), m.parameters())[-1]) | 4,3
! plain((m := model(), m.load_weights([('no', x), *flat(m)[1:]]), m.parameters())[-1]) | 4,3
! plain((m := model(), m.load_weights([*flat(m), ('no', x)]), m.parameters())[-1]) | 4,3
! plain((m := model(), m.load_weights([(flat(m)[0][0], x), *flat(m)[1:]]), m.parameters())[-1]) | 2,2
! plain((m := model(), m.load_weights([(flat(m)[0][0], 3), *flat(m)[1:]]), m.parameters())[-1])
! model().load_weights('no.safetensors')
! model().save_weights('no.txt')
! reloaded(model(), '{{safetensors,npz}}')
! (m := model(), m.eval(), [k.training for k in m.modules()], m.train(), [k.training for k in m.modules()])[2::2]
! (m := model(), m.train(False), m.training)[-1]
! (m := model(), m.set_dtype(D), [(k, v.dtype) for k, v in flat(m)])[-1]
! (m := model(), m.set_dtype(D, lambda d: True), [(k, v.dtype) for k, v in flat(m)])[-1]
! (m := model(), m.set_dtype(D, None), [(k, v.dtype) for k, v in flat(m)])[-1]
! sorted(model().state)
! sorted(vars(model()))
! sorted(model())
! ('first' in model(), model().get('no'), list(model().items())[0][0])
! model().no_such
! (m := model(), delattr(m, 'first'), sorted(m))[-1]
! (m := model(), setattr(m, 'first', 3), sorted(m), m.first)[2:]
! (m := model(), setattr(m, 'extra', A([1, 2])), sorted(m.parameters()))[-1]
! (m := model(), m.update({}), m is m.update({}))[-1]
! nn.Module()(1)
! (m := nn.Module(), m.is_module(m), nn.Module.is_module(3))[1:]
! nn.quantize(model())
! repr((m := nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.quantize(m), m)[-1])
! repr((m := pair(), nn.quantize(m, 32, 8, class_predicate=lambda p, l: p[-1] == '1'), m)[-1])
! repr((m := pair(), nn.quantize(m, class_predicate=lambda p, l: {'bits': 2, 'group_size': 32}), m)[-1])
! plain(copy.deepcopy(model()).parameters())
! pickle.loads(pickle.dumps(nn.Linear(2, 3))).weight
! model() == model()
! plain(nn.value_and_grad(model(), lambda x: x)(x)) | 2
"""

TREES = """
! utils.tree_flatten({'a': [1, 2, {'b': 3}], 'c': (4,), 'd': {}})
! utils.tree_flatten({'a': [1, 2]}, prefix='.p')
! utils.tree_flatten([1, [2, [3]]], is_leaf=lambda v: isinstance(v, list) and len(v) == 1)
! utils.tree_flatten({'a': [1, 2]}, destination={})
! utils.tree_flatten({'a': [1, 2]}, destination=[])
! utils.tree_flatten({{3;[];{};None;'a';x}}) | 2
! utils.tree_flatten({'a': 1}, destination=3)
! utils.tree_unflatten([('a.0', 1), ('a.1', 2), ('b.c', 3)])
! utils.tree_unflatten({'a.0': 1, 'b': 2})
! utils.tree_unflatten([('', 5)])
! utils.tree_unflatten([])
! utils.tree_unflatten([('0', 1), ('2', 3)])
! utils.tree_unflatten([('a', 1), ('a.b', 3)])
! utils.tree_unflatten([('1', 1), ('0', 0), ('10', 10)])
! utils.tree_unflatten(utils.tree_flatten({'a': [x, {'b': y}], 'c': (x,)})) | 2 3
! utils.tree_map(lambda v: v + 1, {'a': [1, 2], 'b': (3,)})
! utils.tree_map(lambda v, w: v + w, [1, {'a': 2}], [3, {'a': 4}])
! utils.tree_map(lambda v, w: v + w, {'a': 1, 'b': 2}, {'a': 3})
! utils.tree_map(lambda v, w: v + w, [1, 2], [3])
! utils.tree_map(lambda v: v, [1, [2]], is_leaf=lambda v: isinstance(v, list))
! utils.tree_map(lambda v: v * 2, x) | 2
! utils.tree_map_with_path(lambda k, v: (k, v), {'a': [1, 2], 'b': (3,)})
! utils.tree_map_with_path(lambda k, v: k, [1, [2]], prefix='p')
! utils.tree_map_with_path(lambda k, v, w: (k, v + w), {'a': 1}, {'a': 2})
! utils.tree_reduce(lambda a, b: a + b, {'a': [1, 2], 'b': (3,)}, 0)
! utils.tree_reduce(lambda a, b: a + b, [1, 2])
! utils.tree_reduce(lambda a, b: a + b, [])
! utils.tree_reduce(lambda a, b: a + b, [[1, 2], [3]], [], lambda v: isinstance(v, list) and isinstance(v[0], int))
! ordered(utils.tree_merge({'a': 1}, {'b': [2, 3]}))
! ordered(utils.tree_merge({'a': {'b': 1}}, {'a': {'c': 2}}))
! utils.tree_merge([1, 2], [3])
! utils.tree_merge({'a': 1}, {'a': 2})
! utils.tree_merge({'a': 1}, {'a': 2}, lambda a, b: (a, b))
! utils.tree_merge([], [1])
! utils.tree_merge(None, 1)
! utils.tree_merge({}, None)
"""

FILES = """
! kept('{{npy,npz,npz-compressed,safetensors,gguf}}', x) | 2,3
! kept('{{npy,npz,safetensors,gguf}}', x) | ()
! kept('{{npy,npz,safetensors,gguf}}', x) | 0,3
! kept('{{npy,npz,safetensors,gguf}}', x.T) | 2,3
! kept('{{npy,npz,safetensors}}', x[::2, ::-1]) | 4,3
! kept('safetensors', x, metadata={'a': 'b'}) | 2
! kept('gguf', x, metadata={'a': 'b', 'c': A([1, 2]), 'd': ['e', 'f']}) | 2
! in_memory('{{npy,npz,safetensors}}', x) | 2,3
! mx.load('no-such-file.{{npy,npz,safetensors,gguf}}')
! mx.load('no-such-file')
! mx.load('no-such-file.txt')
! mx.load('no-such-file.npy', format='{{no,npz}}')
! mx.load(3)
! mx.save('/no/such/folder/x.npy', x) | 2
! mx.save_safetensors('/no/such/folder/x', {'a': x}) | 2
! mx.save(3, x) | 2
! mx.savez(3, x) | 2
! mx.save_safetensors(3, {'a': x}) | 2
! mx.save_safetensors('x', x) | 2
! mx.save_gguf(3, {'a': x}) | 2
"""


def printing() -> list[Case]:
    return table(PRINTED, "printing")


def construction() -> list[Case]:
    """Return cases that construct an array from each value, with and without a dtype."""
    all_cases = [Case(f"mx.array({v})", (), True, dtypes=SINGLE, family="construction") for v in MADE]
    all_cases += [Case(f"mx.array({v}, D)", (), True, family="construction") for v in MADE]
    return all_cases + [Case(f"mx.asarray({v})", (), True, dtypes=SINGLE, family="construction") for v in MADE]


def promotion() -> list[Case]:
    """Return binary ops of all pairs of dtypes, and with Python's and NumPy's numbers."""
    all_cases = []
    first = Given((2, 2), low=1)
    for other in DTYPES:
        second = Given((2, 2), dtype=other, low=1)
        expressions = [f"x {op} y" for op in BINARY] + [f"mx.{name}(x, y)" for name in BINARY_FUNCTIONS]
        expressions += ["mx.where(x > 1, x, y)", "mx.concatenate([x, y])", "mx.stack([x, y])", "mx.clip(x, y, None)"]
        expressions += ["put(x, np.s_[0], y[0])", "x.at[0].add(y[0])", "mx.addmm(x, x, y)", "mx.einsum('ij,jk', x, y)"]
        expressions += [f"inplace(x, '{op}=', y)" for op in ("+", "*", "/", "**", "|")]
        all_cases += [Case(e, (first, second), True, family="promotion") for e in expressions]
    for number in NUMBERS:
        expressions = [f"x {op} {number}" for op in BINARY] + [f"{number} {op} x" for op in BINARY]
        expressions += [f"mx.{name}(x, {number})" for name in ("maximum", "arctan2", "power", "logaddexp")]
        expressions += [f"mx.where(x > 1, x, {number})", f"put(x, np.s_[0], {number})", f"mx.clip(x, {number}, None)"]
        expressions += [f"mx.full((2,), {number}, D)", f"inplace(x, '+=', {number})", f"mx.full_like(x, {number})"]
        all_cases += [Case(e, (first,), True, family="promotion") for e in expressions]
    return all_cases


def indexing() -> list[Case]:
    """Return reads, with derivatives, and writes, at indices of every kind and their combinations."""
    draw = random.Random(0)
    pairs = [f"{a}, {b}" for a, b in itertools.product(PLACES, PLACES)]
    triples = [", ".join(draw.choices(PLACES, k=3)) for _ in range(200)]
    masked = [*MASKS, *[f"{m}, {p}" for m in MASKS[:1] for p in PLACES], *[f"{p}, {MASKS[0]}" for p in PLACES[:2]]]
    x = Given((4, 5, 3))
    all_cases = []
    for place in (*PLACES, *pairs, *triples):
        all_cases.append(Case(f"x[{place}]", (x,), dtypes=SINGLE, family="indexing"))
    for place in (*PLACES, *pairs, *triples, *masked, *WRONG):
        keep = place in PLACES or place in WRONG or place in MASKS
        expressions = [
            f"put(x, np.s_[{place}], {v})" for v in ("7", "mx.array([1.0, 2.0, 3.0])", "x[0]")[: 3 if keep else 2]
        ]
        expressions += [f"x.at[{place}].{op}(2.0)" for op in ("add", "maximum")[: 2 if keep else 1]]
        if place in masked or place in WRONG:
            expressions.append(f"x[{place}]")
        all_cases += [Case(e, (x,), True, dtypes=SINGLE, family="indexing") for e in expressions]
    for place in (*PLACES, *MASKS[:3]):
        all_cases.append(Case(f"put(x, np.s_[{place}], 1)", (x,), True, family="indexing"))
    for place in ("0", "...", "None", "()", "0:1", "[0]", "mx.array(0)"):
        for shape in ((), (0,), (1,), (0, 3)):
            expressions = (f"x[{place}]", f"put(x, np.s_[{place}], 1)")
            expressions = expressions if 0 not in shape or place != "0" else ()
            all_cases += [Case(e, (Given(shape),), True, dtypes=SINGLE, family="indexing") for e in expressions]
    return all_cases


def cases() -> list[Case]:
    """Return all cases of this file."""
    all_cases = [*printing(), *construction(), *promotion(), *indexing()]
    all_cases += table(MODULES, "modules", dtypes=("float16", "bfloat16", "float32"))
    all_cases += table(TREES, "trees", dtypes=SINGLE)
    return all_cases + table(FILES, "files")
