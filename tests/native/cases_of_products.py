"""Cases of mxcompat/_native/quantized.c and elementwise.c: products with stored matrices, their elements, casts, chains
of elementwise operations, and convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from mxcompat._native import native
from mxcompat._native.convolutions import Convolution
from mxcompat._native.products import KINDS

from .cases import Case

__all__ = ["cases"]

FLOAT, HALF = KINDS[np.dtype(np.float32)], KINDS[np.dtype(np.float16)]
BRAIN = KINDS[np.dtype(ml_dtypes.bfloat16)]
FOUR_BITS = bytes((KINDS[4], FLOAT, FLOAT, FLOAT, FLOAT))


def _of_products() -> Iterator[Case]:
    x, y = np.ones((1, 2, 64), np.float32), np.empty((1, 2, 8), np.float32)
    words, scales = np.ones((8, 8), np.uint32), np.ones((8, 1), np.float32)
    sizes = (True, 64, 64, 8, 1, 1, 1, 2)
    arguments = (y, x, words, scales, scales, None, None, None, FOUR_BITS, *sizes)

    def changed(place: int, value: object) -> tuple:
        return (*arguments[:place], value, *arguments[place + 1 :])

    multiply = native.multiply_stored
    numbers = np.zeros(1, np.int32)
    yield Case("multiply_stored", "one of 4 bits", multiply, arguments)
    yield Case("multiply_stored", "a chosen one", multiply, (*arguments[:6], numbers, numbers, *arguments[8:]))
    halves = [np.ones(shape, np.uint16) for shape in ((1, 35, 35), (1, 35, 99), (35, 99))]
    sizes_of_halves = (True, 1, 99, 35, 1, 1, 1, 35)
    yield Case("multiply_stored", "bfloat16", multiply, (*halves, *[None] * 5, bytes([BRAIN] * 5), *sizes_of_halves))
    yield Case("uses_tiles", "of this processor", native.uses_tiles, ())
    yield Case("seconds_in_kernels", "of this thread", native.seconds_in_kernels, ())
    yield Case("multiply_stored", "too few arguments", multiply, arguments[:-1], TypeError)
    yield Case("multiply_stored", "kinds that are no bytes", multiply, changed(8, [1, 2]), TypeError)
    yield Case("multiply_stored", "kinds that do not exist", multiply, changed(8, bytes([99] * 5)), ValueError)
    yield Case("multiply_stored", "a size that is no number", multiply, changed(11, "64"), TypeError)
    yield Case("multiply_stored", "a negative size", multiply, changed(12, -8), OverflowError)
    yield Case("multiply_stored", "sizes that do not fit", multiply, changed(12, 9), ValueError)
    yield Case("multiply_stored", "no buffer", multiply, changed(2, 3), TypeError)
    yield Case("multiply_stored", "a buffer out of order", multiply, changed(2, words.T), ValueError)


def _of_elements() -> Iterator[Case]:
    out, words, scales = np.empty((8, 64), np.float32), np.ones((8, 8), np.uint32), np.ones((8, 1), np.float32)
    arguments = (out, words, scales, scales, 1.0, FOUR_BITS, 64)
    unpack = native.unpack_stored
    yield Case("unpack_stored", "4 bits", unpack, arguments)
    yield Case("unpack_stored", "too few arguments", unpack, arguments[:-1], TypeError)
    yield Case("unpack_stored", "a unit that is no number", unpack, (*arguments[:4], "1", *arguments[5:]), TypeError)
    yield Case("unpack_stored", "kinds that are no bytes", unpack, (*arguments[:5], 5, 64), TypeError)
    yield Case("unpack_stored", "another group", unpack, (*arguments[:6], 32), ValueError)
    yield Case("unpack_stored", "no buffer", unpack, (out, None, *arguments[2:]), ValueError)
    yield Case("unpack_stored", "a number for a buffer", unpack, (out, 3, *arguments[2:]), TypeError)


def _of_casts() -> Iterator[Case]:
    wide, half = np.ones(40, np.float32), np.ones(40, np.float16).view(np.uint16)
    cast = native.cast_halves
    yield Case("cast_halves", "to float32", cast, (wide, half, HALF, False))
    yield Case("cast_halves", "from float32", cast, (half, wide, HALF, True))
    yield Case("cast_halves", "too few arguments", cast, (wide, half, HALF), TypeError)
    yield Case("cast_halves", "no kind of half precision", cast, (wide, half, FLOAT, False), ValueError)
    yield Case("cast_halves", "a kind that is no number", cast, (wide, half, "float16", False), TypeError)
    yield Case("cast_halves", "another length", cast, (wide[:39], half, HALF, False), ValueError)
    yield Case("cast_halves", "no buffer", cast, (wide, 3, HALF, False), TypeError)
    erf = native.erf
    yield Case("erf", "floats", erf, (np.empty(40, np.float32), wide))
    yield Case("erf", "too few arguments", erf, (wide,), TypeError)
    yield Case("erf", "another length", erf, (wide[:39].copy(), wide), ValueError)
    yield Case("erf", "no buffer", erf, (wide, 3), TypeError)


def _of_chains() -> Iterator[Case]:
    x, y, out = np.ones(600, np.float32), np.ones(1, np.float32), np.empty(600, np.float32)
    steps = ((0, 0, 1, 2), (2, 2, 0, 3))
    code = _code(2, 1, steps, 3)
    run = native.run_chain
    yield Case("run_chain", "two ops", run, (code, x, y, out))
    yield Case("run_chain", "over an operand", run, (code, out, y, out))
    yield Case("run_chain", "no arguments", run, (), TypeError)
    yield Case("run_chain", "code that is no bytes", run, (list(code), x, y, out), TypeError)
    yield Case("run_chain", "too few arrays", run, (code, x, y), ValueError)
    yield Case("run_chain", "code that is cut off", run, (code[:-4], x, y, out), ValueError)
    yield Case("run_chain", "no code", run, (b"", x, y, out), ValueError)
    yield Case("run_chain", "no such operation", run, (_code(2, 1, ((9, 0, 1, 2),), 2), x, y, out), ValueError)
    yield Case("run_chain", "no such operand", run, (_code(2, 1, ((0, 0, 18, 2),), 2), x, y, out), ValueError)
    yield Case("run_chain", "a result in an input", run, (_code(2, 1, ((0, 0, 1, 1),), 2), x, y, out), ValueError)
    yield Case("run_chain", "a result in an operand", run, (_code(2, 1, ((0, 2, 1, 2),), 2), x, y, out), ValueError)
    yield Case("run_chain", "an output that is an input", run, (_code(2, 1, steps, 0), x, y, out), ValueError)
    yield Case("run_chain", "no output", run, (_code(2, 0, steps), x, y), ValueError)
    yield Case("run_chain", "too many inputs", run, (_code(33, 1, steps, 3), x, y, out), ValueError)
    yield Case("run_chain", "another length", run, (code, x[:599], y, out), ValueError)
    yield Case("run_chain", "no buffer", run, (code, x, 3, out), TypeError)
    yield Case("run_chain", "a buffer out of order", run, (code, x[::-1], y, out), ValueError)


def _code(inputs: int, outputs: int, steps: tuple[tuple[int, ...], ...], *sources: int) -> bytes:
    return np.array([inputs, outputs, len(steps), *[n for step in steps for n in step], *sources], np.int32).tobytes()


def _of_attention() -> Iterator[Case]:
    q, k, v = (np.ones(shape, np.float32) for shape in ((2, 4, 1, 8), (2, 2, 5, 8), (2, 2, 5, 3)))
    y, mask, sinks = np.empty((2, 4, 1, 3), np.float32), np.ones((2, 4, 1, 5), np.float32), np.ones(4, np.float32)
    arguments = (y, q, k, v, mask, sinks, FLOAT, True, 5, 0.5)

    def changed(place: int, value: object) -> tuple:
        return (*arguments[:place], value, *arguments[place + 1 :])

    attend = native.attend
    seen = np.broadcast_to(np.ones((1, 1, 1, 5), bool), mask.shape)
    wide = np.ones((2, 2, 9, 16), np.float32)
    yield Case("attend", "with a mask and sinks", attend, arguments)
    yield Case("attend", "without sinks", attend, changed(5, None))
    yield Case("attend", "without a mask", attend, changed(4, None))
    yield Case("attend", "a mask of bools for all heads", attend, changed(4, seen))
    yield Case("attend", "no valid key", attend, changed(8, 0))
    yield Case("attend", "a view of keys", attend, changed(2, wide.reshape(2, 2, 18, 8)[:, :, 2:7]))
    yield Case("attend", "too few arguments", attend, arguments[:-1], TypeError)
    yield Case("attend", "a scale that is no number", attend, changed(9, "1"), TypeError)
    yield Case("attend", "a negative length", attend, changed(8, -1), OverflowError)
    yield Case("attend", "more keys than there are", attend, changed(8, 6), ValueError)
    yield Case("attend", "a kind that does not exist", attend, changed(6, 99), ValueError)
    yield Case("attend", "another kind", attend, changed(6, HALF), ValueError)
    yield Case("attend", "no buffer", attend, changed(1, 3), TypeError)
    yield Case("attend", "a number for a mask", attend, changed(4, 3), TypeError)
    yield Case("attend", "a mask of other elements", attend, changed(4, mask.astype(np.float64)), ValueError)
    yield Case("attend", "a mask of two axes", attend, changed(4, mask[0, 0]), ValueError)
    yield Case("attend", "a mask for other keys", attend, changed(4, mask[..., :4]), ValueError)
    yield Case("attend", "a number for sinks", attend, changed(5, 3), TypeError)
    yield Case("attend", "too few sinks", attend, changed(5, sinks[:3]), ValueError)
    yield Case("attend", "three axes", attend, changed(1, q[0]), ValueError)
    yield Case("attend", "elements that are apart", attend, changed(2, wide[:, :, :5, ::2]), ValueError)
    yield Case("attend", "reversed groups", attend, changed(3, v[:, ::-1]), ValueError)
    yield Case("attend", "another number of heads", attend, changed(2, np.ones((2, 3, 5, 8), np.float32)), ValueError)


def _of_convolutions() -> Iterator[Case]:
    x, w, y = (np.ones(shape, np.float32) for shape in ((2, 6, 5, 4), (3, 2, 3, 4), (2, 5, 3, 3)))
    convolution = Convolution(2, 1, 4, 3, (6, 5), (5, 3), (2, 3), (1, 1), (0, 0), (1, 1), (1, 1), (72, 24, 1, 12, 4))
    depth = Convolution(2, 4, 1, 1, (6, 5), (5, 3), (2, 3), (1, 1), (0, 0), (1, 1), (1, 1), (6, 6, 1, 3, 1))
    each, y_of_each = np.ones((4, 2, 3, 1), np.float32), np.ones((2, 5, 3, 4), np.float32)
    forward, backward = convolution.numbers(False), convolution.numbers(True)
    convolve = native.convolve

    def changed(place: int, value: int) -> np.ndarray:
        numbers = forward.copy()
        numbers[place] = value
        return numbers

    yield Case("convolve", "forward", convolve, (y, x, w, forward))
    yield Case("convolve", "the gradient of weights", convolve, (w, x, y, backward))
    yield Case("convolve", "single channels", convolve, (y_of_each, x, each, depth.numbers(False)))
    yield Case("convolve", "weights of single channels", convolve, (each, x, y_of_each, depth.numbers(True)))
    yield Case("convolve", "too few arguments", convolve, (y, x, w), TypeError)
    yield Case("convolve", "arrays in another order", convolve, (x, y, w, forward), ValueError)
    yield Case("convolve", "too few numbers", convolve, (y, x, w, forward[:-1]), ValueError)
    yield Case("convolve", "a stride of 0", convolve, (y, x, w, changed(14, 0)), ValueError)
    yield Case("convolve", "a negative size", convolve, (y, x, w, changed(1, -2)), ValueError)
    yield Case("convolve", "a size whose products overflow", convolve, (y, x, w, changed(1, 1 << 62)), ValueError)
    yield Case("convolve", "weights before the first", convolve, (y, x, w, changed(26, -1)), ValueError)
    yield Case("convolve", "weights after the last", convolve, (y, x, w, changed(29, 1 << 40)), ValueError)
    yield Case("convolve", "no buffer", convolve, (y, 3, w, forward), TypeError)


def _of_instructions() -> Iterator[Case]:
    names = {native.choose_instructions("plain")}
    native.choose_instructions(*names)
    yield Case("choose_instructions", "those in use", native.choose_instructions, tuple(names))
    yield Case("choose_instructions", "unknown ones", native.choose_instructions, ("sse9",), ValueError)
    yield Case("choose_instructions", "no text", native.choose_instructions, (3,), TypeError)


def cases() -> Iterator[Case]:
    yield from _of_products()
    yield from _of_elements()
    yield from _of_casts()
    yield from _of_chains()
    yield from _of_attention()
    yield from _of_convolutions()
    yield from _of_instructions()
