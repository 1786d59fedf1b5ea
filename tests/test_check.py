"""`python -m mxcompat check`: it reports missing names, arguments and methods, and slow code with a cure.

Other code is not reported.
"""

import json
import textwrap
from pathlib import Path

import pytest

from mxcompat._tools.check import command

ROOT = Path(__file__).parent.parent


@pytest.fixture
def check(tmp_path, capsys):
    """Return a function that checks a program: findings as (line, kind, message), and exit status."""

    def run(text, name="program.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        status = command.check(["--json", str(path)])
        report = json.loads(capsys.readouterr().out)
        assert status == (0 if report["fits"] else 1)
        return [(f["line"], f["kind"], f["message"]) for f in report["findings"]]

    return run


def test_names_that_are_missing(check):
    findings = check("""
        import mlx.core as mx
        import mlx.nonsense
        from mlx.core import array, nothing_like_it
        from mlx import core

        x = mx.array([1]) + array(2)
        y = mx.frobnicate(x)
        z = core.array.no_such_method
        other.frobnicate(mx)
        def f(mx):
            return mx.frobnicate
    """)
    assert findings == [
        (2, "missing", "mlx.nonsense is not in mxcompat"),
        (3, "missing", "mlx.core.nothing_like_it is not in mxcompat"),
        (7, "missing", "mlx.core.frobnicate is not in mxcompat"),
        (8, "missing", "mlx.core.array.no_such_method is not in mxcompat"),
    ]


ARRAYS = [
    "mx.ones(3)",
    "-x",
    "x.T",
    "x + a",
    "2 * x",
    "x[a:]",
    "x.sum(axis=0)",
    "x < a",
    "x if a else -x",
    "mx.split(x, 2)[0]",
]


@pytest.mark.parametrize("expression", ARRAYS)
def test_methods_of_arrays(check, expression):
    text = f"import mlx.core as mx\ndef f(a, x: mx.array):\n    y = {expression}\n    y.frobnicate()\n    y.shape\n"
    assert check(text) == [(4, "missing", "mlx.core.array.frobnicate is not in mxcompat")]


UNKNOWN = ["a", "a + a", "a[x]", "mx.load(a)", "(x, x)", "x.split(2)", "x in a", "not x", "x.shape", "x if a else a"]


@pytest.mark.parametrize("expression", UNKNOWN)
def test_what_is_not_plainly_an_array_is_left_alone(check, expression):
    text = f"import mlx.core as mx\ndef f(a, x: mx.array):\n    y = {expression}\n    y.frobnicate()\n"
    assert check(text) == []


def test_a_name_with_several_meanings_has_none(check):
    assert check("import mlx.core as mx\nx = mx.ones(3)\nx = open('f')\nx.read()") == []
    findings = check("import mlx.core as mx\nx = mx.ones(3)\nfor k in range(3):\n    x = x + k\nx.frobnicate")
    assert findings == [(5, "missing", "mlx.core.array.frobnicate is not in mxcompat")]


def test_layers_and_optimizers(check):
    findings = check("""
        import mlx.nn as nn
        import mlx.optimizers as optim

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(3, 4, biass=False)
                self.layer.mine = 1

            def __call__(self, x):
                self.layer.weight, self.layer.mine, self.whatever
                return self.layer.frobnicate(self.layer(x).sum().nothing)

        opt = optim.Adam(learning_rate=1e-3, momentum=0.9)
        opt.updat(Net(), {})
        opt.update(Net(), gradient={})
    """)
    assert findings == [
        (7, "argument", "nn.Linear has no argument named biass"),
        (12, "missing", "mlx.core.array.nothing is not in mxcompat"),
        (12, "missing", "mlx.nn.Linear.frobnicate is not in mxcompat"),
        (14, "argument", "optim.Adam has no argument named momentum"),
        (15, "missing", "mlx.optimizers.Adam.updat is not in mxcompat"),
        (16, "argument", "opt.update has no argument named gradient"),
    ]


def test_a_layer_that_is_replaced_from_outside_may_be_any(check):
    text = """
        import mlx.nn as nn

        class Net(nn.Module):
            def __init__(self):
                self.layer = nn.Linear(3, 4)

            def __call__(self, x):
                return self.layer.frobnicate

        """
    assert [kind for _, kind, _ in check(text)] == ["missing"]
    assert check(text + "net = Net()\n        net.layer = other") == []


def test_arguments(check):
    findings = check("""
        import mlx.core as mx
        x = mx.zeros((3,), dtype=mx.float32, stream=mx.cpu)
        x.sum(axis=0, keepdim=True)
        mx.sum(x, keep=1, **{})
        mx.savez("f", anything=x)
    """)
    assert findings == [
        (3, "argument", "x.sum has no argument named keepdim"),
        (4, "argument", "mx.sum has no argument named keep"),
    ]


def test_what_a_program_expects_to_be_missing(check):
    findings = check("""
        import mlx.core as mx
        try:
            from mlx.core import frobnicate
        except ImportError:
            frobnicate = None
        try:
            mx.frobnicate()
        except ValueError:
            mx.sin(1.0)
    """)
    assert [kind for _, kind, _ in findings] == ["guarded", "missing"]


ASKED = [
    "if isinstance(self.layer, nn.QuantizedLinear): self.layer.scales",
    "if isinstance(self.layer, (nn.QuantizedLinear, Other)): self.layer.scales",
    "if isinstance(self.layer, nn.QuantizedLinear | Other): self.layer.scales",
    "if not isinstance(self.layer, Other): return\n        self.layer.scales",
    "return self.layer.bits if isinstance(self.layer, nn.QuantizedLinear) else 0",
    "return isinstance(self.layer, nn.QuantizedLinear) and [self.layer.bits for _ in x]",
    "if hasattr(self.layer, 'scales'): self.layer.biases",
    "if hasattr(mx, 'frobnicate'): mx.frobnicate(x)",
    "if hasattr(mx.fast, 'frobnicate'): mx.fast.frobnicate.more(x)",
    "if isinstance(y, np.ndarray): y.setflags()",
]
NOT_ASKED = [
    "if isinstance(self.layer, nn.Linear): self.layer.scales",
    "if isinstance(self.layer, (nn.Module, Other)): self.layer.scales",
    "if isinstance(self.other, nn.QuantizedLinear): self.layer.scales",
    "if hasattr(self.layer, 'weight'): self.layer.scales",
    "if hasattr(mx, 'sin'): mx.frobnicate(x)",
    "if hasattr(mx, 'frobnicate'): mx.fast.frobnicate(x)",
    "if hasattr(mx, 'frobnicate'): mx.frobnicate_twice(x)",
    "if isinstance(y, mx.array): y.setflags()",
    "self.layer.scales\n        isinstance(self.layer, nn.QuantizedLinear)",
    "hasattr = isinstance = other\n        hasattr(self.layer, 'scales')\n        self.layer.scales",
]


@pytest.mark.parametrize(
    ("statement", "kind"), [*((s, "guarded") for s in ASKED), *((s, "missing") for s in NOT_ASKED)]
)
def test_what_a_program_asks_about_may_be_something_else(check, statement, kind):
    text = f"""
import mlx.core as mx
import mlx.nn as nn
import numpy as np

class Net(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(3, 4)
        self.other = nn.Linear(3, 4)

    def __call__(self, x):
        y = mx.ones(3)
        {statement}
"""
    assert {label for _, label, _ in check(text)} == {kind}


SLOW = [
    ("x[i].item()", "waits for one entry"),
    ("float(x[i, 0])", "waits for one entry"),
    ("x[i] = 1.0", "writes one entry"),
    ("x = mx.concatenate([x, x[:1]])", "an array that grows"),
    ("y = x[: i + 1].sum()", "a slice whose length changes"),
    ("y = mx.compile(g)(x)", "traced at each turn"),
]


@pytest.mark.parametrize(("statement", "message"), SLOW)
def test_what_is_slow_in_a_loop(check, statement, message):
    text = f"import mlx.core as mx\nx = mx.ones((9, 9))\nfor i in range(9):\n    {statement}\n"
    ((line, kind, said),) = check(text)
    assert (line, kind) == (4, "slow")
    assert message in said
    assert check(text.replace("for i in range(9):", "if i:")) == []


QUICK = [
    "x[i : i + 2].sum()",
    "x[n : n + i]; n = n + i",
    "x[mx.array([0])] = 1.0",
    "loss = (x * i).sum()",
    "y[i].item()",
    "x.sum().item()",
]


@pytest.mark.parametrize("statement", QUICK)
def test_what_is_not_slow_in_a_loop(check, statement):
    assert check(f"import mlx.core as mx\nx = mx.ones((9, 9))\nfor i in range(9):\n    {statement}\n") == []


def test_a_function_within_a_loop_is_not_the_loop(check):
    text = "import mlx.core as mx\nx = mx.ones(3)\nfor i in range(9):\n    def f():\n        return mx.compile(g)\n"
    assert check(text) == []


def test_arrays_taken_apart(check):
    findings = check("import mlx.core as mx\nx = mx.ones(3)\nfor y in x:\n    pass\nz = [y.frobnicate for y in x]")
    assert [(line, kind) for line, kind, _ in findings] == [(3, "slow"), (5, "missing"), (5, "slow")]


def test_kernels(check):
    metal, cuda = "mx.fast.metal_kernel(name='k', source='')", "mx.fast.cuda_kernel('c', [], ['y'], '')"
    wrong = "mx.fast.cuda_kernel('w', [], ['y'], 'y[threadIdx.x] = ;')"
    compiled = "mx.fast.precompiled_cuda_kernel(name='p', compiled_source=b'', inputs=[])"
    findings = check(f"import mlx.core as mx\n{metal}\n{cuda}\n{wrong}\n{compiled}\n")
    assert findings[0] == (2, "runs", "k is in the supported language")
    assert findings[1] == (3, "runs", "c is in the supported language")
    assert findings[2][:2] == (4, "kernel")
    assert "w is outside of the supported language: source line 1, column" in findings[2][2]
    assert findings[3][:2] == (5, "kernel")
    assert "a compiled kernel cannot run" in findings[3][2]


def test_modules_under_the_name_of_mlx_that_are_folders_without_init(check, tmp_path, monkeypatch):
    (tmp_path / "mlx" / "plain").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert [kind for _, kind, _ in check("import mlx.plain.part")] == ["other"]
    assert check("from mlx._distributed_utils.launch import main") == []


def test_kernels_outside_of_the_language_are_named_with_the_line(check):
    ((line, kind, message),) = check("""
        import mlx.core as mx

        SOURCE = '''
            uint i = thread_position_in_grid.x;
            atomic_compare_exchange_weak_explicit(&y[i], &x[i], 3, memory_order_relaxed, memory_order_relaxed);
        '''
        mx.fast.metal_kernel("swap", ["x"], ["y"], SOURCE, atomic_outputs=True)
    """)
    assert (line, kind) == (5, "kernel")
    assert "swap is outside of the supported language: source line 3, column" in message
    assert "compare-and-swap" in message


def test_kernels_of_a_module_that_a_function_returns(check):
    findings = check(
        """
        mx = import_mx()
        mx.fast.metal_kernel(name="a", input_names=[], output_names=["y"], source="y[0] = 1;")
        mx.fast.metal_kernel(name="b", input_names=[], output_names=["y"], source="goto end;")
        """
    )
    assert [(line, kind) for line, kind, _ in findings] == [(2, "runs"), (3, "kernel")]


def test_texts_of_kernels_are_put_together(check):
    """Assert that kernel texts are assembled: from module constants, sums, formatted parts and template values of the
    calls."""
    findings = check("""
        import textwrap
        import mlx.core as mx

        HEADER = "#define TWICE(x) ((x) * 2)\\n" + "inline float half_(float x) { return x / 2; }"
        NAME = "added"

        def make(size):
            source = f'''
                uint i = thread_position_in_grid.x;
                T t = T(x[i]);
                float table[{size}];
                for (int k = 0; k < K; k++) t += TWICE(k) + half_(WHAT);
                y[i] = t;
            '''.replace("WHAT", "2.0f")
            return mx.fast.metal_kernel(name=NAME, input_names=["x"], output_names=["y"], source=source, header=HEADER)

        def run(x, t, k):
            return make(3)(inputs=[x], template=[("T", t), ("K", k)], output_shapes=[x.shape], output_dtypes=[t])

        broken = mx.fast.metal_kernel(name="other", input_names=[], output_names=["y"], source="float x = ;")
        made = mx.fast.metal_kernel(name="made", input_names=[], output_names=["y"], source=open("k.metal").read())
        partly = mx.fast.metal_kernel(name="partly", input_names=[], output_names=["y"], source=f"float x = {made} ;;]")
    """)
    assert [(line, kind) for line, kind, _ in findings] == [
        (15, "runs"),
        (20, "kernel"),
        (21, "unknown"),
        (22, "unknown"),
    ]
    assert findings[0][2] == "added is in the supported language"
    assert "column 11: expected" in findings[1][2]


def test_other_distributions_in_the_namespace(check, tmp_path, monkeypatch):
    (tmp_path / "mlx" / "mine").mkdir(parents=True)
    (tmp_path / "mlx" / "mine" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    findings = check("import mlx.data as dx\nfrom mlx.mine import x\ndx.buffer_from_vector([])\nimport mlx.yours")
    assert {(line, kind) for line, kind, _ in findings} == {(1, "other"), (2, "other"), (4, "missing")}


def test_a_file_that_is_no_program(check):
    ((line, kind, message),) = check("x = 1\n1 +")
    assert (line, kind) == (2, "unreadable")
    assert message.startswith("cannot be read: SyntaxError")


def test_a_folder_and_its_summary(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import mlx.core as mx\nmx.frobnicate\n")
    (tmp_path / "b.py").write_text("import numpy\n")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.py").write_text("import mlx.core as mx\nmx.frobnicate\n")
    assert command.check([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path / 'a.py'}:2: mlx.core.frobnicate is not in mxcompat",
        "1 files use 2 names of MLX; 1 places use what is missing.",
    ]
    assert command.check([str(tmp_path / "nowhere")]) == 2
    assert "no such file or directory" in capsys.readouterr().err


def test_the_examples_fit(capsys):
    assert command.check([str(ROOT / "examples")]) == 0
    assert "; 0 places use what is missing" in capsys.readouterr().out


def test_a_progress_bar_in_a_terminal_only(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    command.check([str(tmp_path)])
    assert capsys.readouterr().err == ""
    paths = [tmp_path / "a.py"] * 3
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    bar = command._with_progress(paths)
    assert type(bar).__name__ == "tqdm"
    assert list(bar) == paths
