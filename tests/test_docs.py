"""The documentation: code blocks print the shown output, and tables agree with both libraries.

The site builds without a warning, and every public name is described with an example that ran.
"""

import ast
import importlib
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

from docs._build import blocks, hooks, names
from docs._build.badge import figures
from docs._build.errors import OF_ANY_ARRAY, WITHOUT_ERRORS
from docs._build.examples import EXAMPLES, WITHOUT, ran
from docs._build.facts import outcomes
from docs._build.generated import generated

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

PAGES = {page.relative_to(DOCS).as_posix(): blocks.blocks(page.read_text()) for page in blocks.pages()}


@pytest.fixture(scope="module")
def results():
    """Return the output of all blocks of all pages."""
    return blocks.printed(PAGES)


@pytest.mark.parametrize("page", [name for name, examples in PAGES.items() if examples])
def test_the_code_of_a_page_prints_what_the_page_shows(page, results):
    ran_blocks = [block for name, block in results if name == page]
    wrong = [
        f"{page}:{block.line}\n{block.code}\n{results[page, block][0]}"
        for block in ran_blocks
        if not blocks.matches(block, *results[page, block])
    ]
    assert not wrong, "\n".join(wrong)
    left_out = [block for block in PAGES[page] if block not in ran_blocks]
    assert all(block.mark.startswith(("not run:", "needs:", "file:")) for block in left_out)


def test_few_blocks_are_not_run():
    every = [block for examples in PAGES.values() for block in examples]
    left_out = [block for block in every if block.mark.startswith("not run:")]
    assert len(left_out) < len(every) / 4
    assert all(block.mark.removeprefix("not run:").strip() for block in left_out)


def test_the_runner_sees_what_is_wrong():
    page = "```python\nx = 1\nprint(x)\n```\n\n```text\n2\n```\n\n```python\nraise ValueError(x)\n```\n"
    examples = blocks.blocks(page)
    results = blocks.printed({"page": examples})
    assert list(results.values()) == [("1\n", False), ("ValueError: 1\n", True)]
    assert not any(blocks.matches(block, *result) for (_, block), result in results.items())


def test_start_is_short():
    """Assert that the examples of the start page have at most ten lines."""
    codes = [block.code for block in PAGES["index.md"]]
    assert len(codes) > 6
    assert all(len([line for line in code.splitlines() if line.strip()]) <= 10 for code in codes)


def rows(page, heading):
    """Return the cells of the first table behind a heading with three columns: the subject and both sides."""
    text = page.partition(f"## {heading}\n")[2].partition("\n|---|---|---|\n")[2]
    lines = re.match(r"(?:\|.*\n)+", text)[0].splitlines()
    return [tuple(cell.strip().strip("`") for cell in line.strip("|").split(" | ")) for line in lines]


def equal(want, got):
    """Return True if two results, of any library, are equal trees of equal numbers."""
    if isinstance(want, (tuple, list)):
        return len(want) == len(got) and all(map(equal, want, got))
    want, got = (np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (want, got))
    return want.shape == got.shape and np.allclose(got, want, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("heading", "other"), [("From JAX", "jax"), ("From PyTorch", "torch")])
def test_both_sides_of_a_table_are_equal(heading, other):
    if other == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    page = (DOCS / "coming-from.md").read_text()
    (setup,) = (b.code for b in blocks.blocks(page) if f"import {other}\n" in b.code)
    import mxcompat as mx

    sides = []
    for module in (importlib.import_module(other), mx):
        scope = {}
        exec(setup, scope)
        scope |= {name: scope[name][module] for name in "xy" if name in scope}
        sides.append(scope)
    table = rows(page, heading)
    assert len(table) > 15
    for what, theirs, ours in table:
        want, got = (eval(code, scope) for code, scope in zip((theirs, ours), sides, strict=True))
        assert equal(want, got), (what, want, got)


class Links(HTMLParser):
    """Collect a page's links and its link targets."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.anchors = [], {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[key] for key in ("id", "name") if attributes.get(key)}
        self.targets += [attributes[key] for key in ("href", "src") if attributes.get(key)]


def test_no_link_is_broken(site):
    pages = {path: Links(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 45
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (there in pages and unquote(parts.fragment) not in pages[there].anchors):
                broken.append(f"{path.relative_to(site)}: {target}")
    assert not broken, broken


def test_the_versions_are_at_the_top(site):
    import jax

    import mxcompat

    for name in ("index.html", "reference/ops/elementwise.html"):
        page = (site / name).read_text()
        assert f"MLX {mxcompat.core.__version__}" in page
        assert f"JAX {jax.__version__}" in page


def test_every_public_name_is_on_one_page_of_the_reference(site):
    seen = [name for page in names.PAGES for name in page.names]
    assert len(seen) == len(set(seen)) > 550
    for page in names.PAGES:
        text = (site / "reference" / f"{page.path}.html").read_text()
        for name in page.names:
            there = f'id="{name}"' if names.described(name) else f"<code>{names.short(name)}</code>"
            assert there in text, name


DESCRIBED = [name for page in names.PAGES for name in page.names if names.described(name)]


def test_every_public_name_has_an_example():
    without = [n for n in DESCRIBED if ">>>" not in (inspect.getdoc(names.thing(n)) or "") and n not in EXAMPLES]
    assert sorted(without) == sorted(WITHOUT)
    unknown = EXAMPLES.keys() - set(DESCRIBED)
    assert not unknown


def test_every_public_name_says_what_it_raises():
    without = [n for n in DESCRIBED if "Raises:\n" not in (inspect.getdoc(names.thing(n)) or "")]
    assert sorted(without) == sorted(WITHOUT_ERRORS)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", OF_ANY_ARRAY)
def test_what_takes_any_array_does(name, shape):
    import mxcompat as mx

    function = names.thing(name)
    for dtype in (mx.bool_, mx.uint8, mx.int32, mx.uint64, mx.float16, mx.bfloat16, mx.float32, mx.complex64):
        x = mx.ones(shape, dtype)
        mx.eval(function(mx, x) if name == "mxcompat.testing.to_numpy" else function(x))


def test_the_examples_print_the_same_on_real_mlx():
    import mlx.core
    import mlx.nn
    import mlx.optimizers

    import mxcompat as mx
    from mxcompat import nn, optimizers

    sides = ({"mx": mx, "nn": nn, "optim": optimizers}, {"mx": mlx.core, "nn": mlx.nn, "optim": mlx.optimizers})
    for name, code in EXAMPLES.items():
        ours, theirs = (ran(code, dict(side)) for side in sides)
        assert ours == theirs, name


@pytest.mark.parametrize("name", ["mxcompat.core.exp", "mxcompat.core.argmax", "mxcompat.core.matmul"])
def test_the_dtypes_of_the_reference_are_those_of_real_mlx(name):
    import mlx.core as real

    short = name.rpartition(".")[2]
    for dtype, outcome in outcomes(name).items():
        x = real.array([[2.0, 0.5], [0.5, 1.0]]).astype(getattr(real, dtype))
        try:
            got = getattr(real, short)(*([x, x] if short == "matmul" else [x])).dtype
            got = str(got).removeprefix("mlx.core.")
        except ValueError:
            got = "raises ValueError"
        assert outcome == got or (outcome == "the same" and got == dtype.rstrip("_")), dtype


def test_what_is_generated_is_up_to_date():
    stale = [path.name for path, text in generated().items() if path.read_text() != text]
    assert not stale, f"run `python -m docs._build`: {stale}"


def test_the_badge_counts_what_the_sweep_found():
    same, differ = figures()
    assert (
        f"{100 * same / (same + differ):.1f} % of {same + differ} cells"
        in (DOCS / "assets" / "conformance.svg").read_text()
    )
    assert "docs/assets/conformance.svg" in (ROOT / "README.md").read_text()


def test_the_navigation_leaves_out_what_is_not_there():
    nav = [{"Here": "index.md"}, {"Section": [{"Not": "no_such_page.md"}]}]
    assert hooks.existing(nav, DOCS) == [{"Here": "index.md"}]


def test_the_navigation_lists_the_benchmarks_of_each_pair_of_versions():
    ((pages,),) = [item.values() for item in hooks.existing([{"Benchmarks": "benchmarks/"}], DOCS)]
    assert pages[0] == "benchmarks/index.md"
    assert "benchmarks/python-3.11-jax-0.10.2/index.md" in pages


def test_the_code_of_the_builder_is_python():
    for path in (DOCS / "_build").glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
