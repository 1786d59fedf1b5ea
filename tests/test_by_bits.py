"""Reads of bfloat16 elements in XLA's programs: no bit changes, and no copy of the whole array is made."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._ops.elementwise.by_bits import by_bits


def test_an_embedding_is_not_copied():
    lookup = by_bits(lambda w, i: w[i], reads_few=True)
    weight = jnp.zeros((1 << 12, 64), jnp.bfloat16)
    compiled = jax.jit(lookup).lower(weight, jnp.array([5, 9])).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < weight.nbytes // 16


@pytest.mark.parametrize("read", [lambda w, i: w[i], lambda w, i: mx.take_along_axis(w, i[:, None], 0)])
def test_reads_keep_the_bits_of_nans(read, monkeypatch):
    monkeypatch.setattr(policy, "HOST", False)
    bits = np.array([[0x7FC1, 0xFFA0], [0x7F81, 0x0001]], np.uint16)
    weight, index = mx.array(bits).view(mx.bfloat16), mx.array([1, 0])
    words = np.array(read(weight, index).view(mx.uint16))
    assert words[:, 0].tolist() == [0x7F81, 0x7FC1]
