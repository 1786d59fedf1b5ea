"""Time products of a few rows by quantized matrices of real size: the first call in a process, the second, and warm.

Each side runs in a separate process:

    python -m tests.benchmarks.real_quantized SIDE NAME     prints milliseconds, as JSON

The anchor is memory bandwidth: a process also times `np.sum` over as many bytes as the packed matrix has with its
scales and biases, in turn with the product.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .agreement import digest
from .real_sides import in_turn, timed, use, wait_for_compiles
from .table import Row, compared, present

__all__ = ["PRODUCTS", "Product", "rows"]

_WARM_SECONDS = 0.3
_LEAST_MB = 4.0
"""Size of the smallest matrix that is compared with `np.sum`: smaller ones fit into caches."""
_READ = "np.sum"


class Product(NamedTuple):
    """A product of `rows` rows by a quantized matrix of `n` rows and `k` columns, transposed as in a linear layer."""

    k: int = 4096
    n: int = 4096
    bits: int = 4
    mode: str = "affine"
    dtype: str = "float32"
    rows: int = 1

    @property
    def name(self) -> str:
        kind = f"{self.bits} bits" if self.mode == "affine" else self.mode
        return f"{self.rows} by {self.k}x{self.n}, {kind}, {self.dtype}"

    @property
    def group(self) -> int:
        return {"affine": 64, "nvfp4": 16}.get(self.mode, 32)

    @property
    def size(self) -> int:
        """Bytes of the packed matrix, its scales and its biases."""
        scale = 1 if self.mode != "affine" else 8 if self.dtype == "float32" else 4
        return self.n * self.k * self.bits // 8 + self.n * self.k // self.group * scale

    @property
    def of_sum(self) -> float:
        """Limit as a multiple of `np.sum`'s time."""
        return 2.0 if self.bits in (4, 8) else 4.0

    def mlx(self, mx: Any) -> Callable[[], Any]:
        rng = np.random.default_rng(0)
        dtype = getattr(mx, self.dtype)  # the elements of the result are about 1, to be compared
        x = mx.array((rng.normal(size=(self.rows, self.k)) * self.k**-0.5).astype(np.float32)).astype(dtype)
        words = rng.integers(0, 1 << 32, (self.n, self.k * self.bits // 32), dtype=np.uint32)
        if self.mode == "mxfp8":
            words &= 0x77777777  # leave out the bytes that encode NaN
        shape = (self.n, self.k // self.group)
        if self.mode == "affine":
            scales = rng.uniform(1, 2, shape) * 2.0 ** (1 - self.bits)
            scales = mx.array(scales.astype(np.float32)).astype(dtype)
            matrix = [mx.array(words), scales, scales * -(2.0 ** (self.bits - 1))]
        else:  # the least scale: 1/2 as a float of 8 bits, 1/8 and 1/256 as exponents; elements of mxfp8 are larger
            low = {"nvfp4": 48, "mxfp4": 124, "mxfp8": 119}[self.mode]
            matrix = [mx.array(words), mx.array(rng.integers(low, low + 4, shape, dtype=np.uint8))]
        mx.eval(x, matrix)
        product = partial(mx.quantized_matmul, group_size=self.group, bits=self.bits, mode=self.mode)

        def step() -> Any:
            y = product(x, *matrix)
            mx.eval(y)
            return y

        return step


PRODUCTS = (
    *(Product(k, n) for k, n in ((896, 4864), (4864, 896), (4096, 4096), (4096, 14336), (14336, 4096), (896, 151936))),
    Product(n=14336, bits=8),
    *(Product(bits=bits) for bits in (8, 2, 3, 5, 6)),
    *(Product(bits=bits, mode=mode) for bits, mode in ((4, "mxfp4"), (4, "nvfp4"), (8, "mxfp8"))),
    *(Product(dtype=dtype) for dtype in ("bfloat16", "float16")),
    *(Product(bits=bits, dtype="bfloat16") for bits in (8, 3)),
    *(Product(bits=bits, mode=mode, dtype="bfloat16") for bits, mode in ((4, "mxfp4"), (4, "nvfp4"), (8, "mxfp8"))),
    Product(896, 151936, dtype="bfloat16"),
    *(Product(dtype=dtype, rows=8) for dtype in ("float32", "bfloat16")),
    Product(mode="mxfp4", dtype="bfloat16", rows=8),
    Product(n=14336, rows=8),
)


def measure(side: str, product: Product) -> dict[str, Any]:
    """Return milliseconds of the first call, of the second, of a warm one, and of `np.sum` beside it."""
    use(side)
    import mlx.core as mx

    step = product.mlx(mx)
    data = np.ones(product.size // 4, np.float32)
    first, second = timed(step), timed(step)
    end = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < end:
        timed(step)
    wait_for_compiles(side)
    timed(step)
    pairs = []
    end = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < end or len(pairs) < 3:
        pairs.append((timed(step), timed(data.sum)))
    warm, read = map(statistics.median, zip(*pairs, strict=True))
    result = digest(step().astype(mx.float32).reshape(-1)[:16])
    return {"first": first, "second": second, "warm": warm, _READ: read, "result": result}


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the products whose names are selected, in turn on each side."""
    sides = [side for side in present() if side != "jax.jit"]
    for product in PRODUCTS:
        if not is_selected(product.name):
            continue
        tolerance = 1e-3 if product.dtype == "float32" else 0.2  # real MLX adds in half precision
        measurements = in_turn("real_quantized", [product.name], sides, rounds, tolerance)
        for label in ("first", "second", "warm"):
            times = {side: [run[label] for run in runs] for side, runs in measurements.items()}
            times[_READ] = [run[_READ] for run in measurements["mxcompat"]]
            medians = {side: statistics.median(several) for side, several in times.items()}
            name = f"{product.name}: {label}" if label == "first" else f"  {label}"
            row = Row(name, "ms", medians, *compared(times))
            if label == "first" or product.rows > 1:
                row.limit("MLX", 1.0)
            elif product.size >= _LEAST_MB * 1e6:
                row.limit(_READ, product.of_sum)
            yield row


def main(side: str, name: str) -> None:
    (product,) = (product for product in PRODUCTS if product.name == name)
    print(json.dumps(measure(side, product)))


if __name__ == "__main__":
    main(*sys.argv[1:])
