"""Eight threads build, evaluate, compile, transform and save concurrently, and every value is checked.

A few seconds by default, five minutes with `-m soak`. (Free-threaded Python is untested: JAX has no builds for it.)
"""

import random
import threading
from time import monotonic

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import nn
from mxcompat.ext.debug import clear_cache

THREADS = 8


def built(draw, folder):
    x = np.asarray([draw.random() for _ in range(draw.randint(1, 9))], np.float32)
    y, want = mx.array(x), x.astype(np.float64)
    for _ in range(draw.randint(1, 6)):
        y, want = draw.choice([
            lambda y, w: (mx.sin(y), np.sin(w)), lambda y, w: (y * 2 + 1, w * 2 + 1),
            lambda y, w: (y - y.mean(), w - w.mean()),
        ])(y, want)  # fmt: skip
    return y, want


def transformed(draw, folder):
    a, n = draw.random(), draw.randint(1, 6)
    x = np.arange(n, dtype=np.float32)
    gradient = mx.vmap(mx.grad(lambda x: mx.sin(x * a) + x**3))(mx.array(x))
    return gradient, a * np.cos(x * a) + 3 * x**2


def compiled(draw, folder):
    a, n = draw.randint(1, 4), draw.randint(1, 5)
    return _power(mx.arange(n) + 0.5, a), (np.arange(n) + 0.5) * a + a


@mx.compile
def _power(x, a):
    return x * a + a


def saved(draw, folder):
    x = np.asarray([draw.random() for _ in range(5)], np.float32)
    path = f"{folder}/{threading.get_ident()}.{draw.choice(['npz', 'safetensors'])}"
    if path.endswith("npz"):
        mx.savez(path, x=mx.array(x) + 1)
    else:
        mx.save_safetensors(path, {"x": mx.array(x) + 1})
    return mx.load(path)["x"], x + 1


def trained(draw, folder):
    w = draw.random()
    layer = nn.Linear(2, 1)
    layer.weight, layer.bias = mx.array([[w, 1.0]]), mx.array([0.5])
    _, gradients = nn.value_and_grad(layer, lambda x: (layer(x) ** 2).sum())(mx.array([[1.0, 2.0]]))
    return gradients["weight"], np.array([[1.0, 2.0]]) * 2 * (w + 2.5)


def shared(draw, folder):
    """Read an array that all threads share, and that one of them evaluates."""
    return SHARED["y"] * 1, SHARED["want"]


SHARED = {}
WORK = (built, transformed, compiled, saved, trained, shared)


def run(seconds, folder):
    end, checks, errors = monotonic() + seconds, [0] * THREADS, []
    SHARED.update(want=np.sin(np.arange(40.0)), y=mx.sin(mx.arange(40) + 0.0))

    def work(number):
        draw = random.Random(number)
        try:
            while monotonic() < end and not errors:
                got, want = draw.choice(WORK)(draw, folder)
                np.testing.assert_allclose(np.array(got), want, rtol=2e-4, atol=1e-5)
                checks[number] += 1
                if not number and draw.random() < 0.01:
                    clear_cache()
                    SHARED["y"] = mx.sin(mx.arange(40) + 0.0)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 240)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]
    assert all(checks)
    print(f"{sum(checks)} checks by {THREADS} threads, none wrong")


def test_threads_for_a_few_seconds(tmp_path):
    run(4, tmp_path)


@pytest.mark.soak
def test_threads_for_five_minutes(tmp_path):
    run(300, tmp_path)
