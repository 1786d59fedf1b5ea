"""Cases that real MLX may refuse once it knows the values, and their outcomes.

After a failed evaluation, a later one of real MLX may wait for ever. So each case runs in a separate process, forked
from one that has only imported MLX. `CASES` has functions of the module.

    python tests/failing_worker.py results.pickle
"""

import os
import pickle
import signal
import sys

import numpy as np

NAN, INFINITY = float("nan"), float("inf")

PATIENCE = 60
"""Limit in seconds for a case, a hundred times its need."""

MATRICES = {
    "zeros": [[0, 0], [0, 0]],
    "equal rows": [[1, 2], [2, 4]],
    "one to nine": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    "a column of zeros": [[-0.0, 1], [0, 1]],
    "a row of zeros": [[0, 0], [1, 1]],
    "a diagonal": np.diag([1, 0, 2, 0]),
    "one element": [[0]],
    "nearly singular": [[1e-30, 0], [0, 1e-30]],
    "zeros on the diagonal": [[0, 1], [1, 0]],
    "a batch": np.stack([np.eye(4), np.diag([1, 1, 0, 0]), np.diag([1, 0, 1, 1])]),
}
NOT_FINITE = {
    "an infinite pivot": [[INFINITY, 0], [0, 1]],
    "an infinite row": [[1, INFINITY], [0, 1]],
    "an infinite column": [[1, 0], [INFINITY, 1]],
    "NaN": [[1, NAN], [2, 4]],
}

CALLS = {
    "inv": lambda mx, a: mx.linalg.inv(a),
    "solve": lambda mx, a: mx.linalg.solve(a, mx.ones((*a.shape[:-2], a.shape[-1], 2))),
    "solve one": lambda mx, a: mx.linalg.solve(a, mx.ones(a.shape[-1:])),
    "tri_inv": lambda mx, a: mx.linalg.tri_inv(a),
    "tri_inv upper": lambda mx, a: mx.linalg.tri_inv(a, upper=True),
    "solve_triangular": lambda mx, a: mx.linalg.solve_triangular(a, mx.ones((*a.shape[:-2], a.shape[-1], 1))),
    "solve_triangular upper": lambda mx, a: mx.linalg.solve_triangular(a, mx.ones(a.shape), upper=True),
    "cholesky_inv": lambda mx, a: mx.linalg.cholesky_inv(a),
}

SPECTRAL = {
    "svd": lambda mx, a: mx.linalg.svd(a),
    "singular values": lambda mx, a: mx.linalg.svd(a, compute_uv=False),
    "pinv": lambda mx, a: mx.linalg.pinv(a),
    "nuclear": lambda mx, a: mx.linalg.norm(a, "nuc", axis=(-2, -1)),
    "largest": lambda mx, a: mx.linalg.norm(a, 2, axis=(-1, -2)),
    "frobenius": lambda mx, a: mx.linalg.norm(a, "fro", axis=(-2, -1)),
}


def _singular(mx):
    return mx.ones((2, 2))


def _batch(mx, axis=0):
    return mx.stack([mx.eye(2), _singular(mx)], axis)


def _in_a_sum(mx):
    a = _singular(mx)
    return (a + a) @ mx.linalg.inv(a * 2) + mx.linalg.svd(a / (a - 1) * 0, compute_uv=False)


def _state_of_a_step(mx):
    state = [mx.zeros(2)]

    def step(a):
        state[0] = state[0] + 1
        return mx.linalg.inv(a * state[0])

    compiled = mx.compile(step, inputs=state, outputs=state)
    for a in (mx.eye(2), _singular(mx), mx.eye(2)):
        compiled(a)
        mx.eval(state)
    return state


WITHIN = {
    "compile": lambda mx: mx.compile(mx.linalg.inv)(_singular(mx)),
    "compile, twice": lambda mx: mx.compile(lambda a: mx.compile(mx.linalg.inv)(a) + 1)(_singular(mx)),
    "vmap": lambda mx: mx.vmap(mx.linalg.inv)(_batch(mx)),
    "vmap, other axes": lambda mx: mx.vmap(mx.linalg.inv, 2, 1)(_batch(mx, 2)),
    "vmap, twice": lambda mx: mx.vmap(mx.vmap(mx.linalg.inv))(_batch(mx)[None]),
    "compile of vmap": lambda mx: mx.compile(mx.vmap(mx.linalg.inv))(_batch(mx)),
    "checkpoint": lambda mx: mx.checkpoint(mx.linalg.inv)(_singular(mx)),
    "custom_function": lambda mx: mx.custom_function(lambda a: mx.linalg.inv(a))(_singular(mx)),
    "a constant of grad": lambda mx: mx.grad(lambda x: (x * mx.linalg.inv(_singular(mx))).sum())(mx.ones((2, 2))),
    "a sum": _in_a_sum,
    "multivariate_normal": lambda mx: mx.random.multivariate_normal(mx.zeros(2), mx.array([[1.0, NAN], [0.0, 1.0]])),
    "beside": lambda mx: mx.compile(lambda a: (a + 1, mx.linalg.inv(a)))(_singular(mx))[0],
    "beside, compiled twice": lambda mx: mx.compile(mx.compile(lambda a: (mx.linalg.inv(a), a * 2)))(_singular(mx))[1],
    "beside, in a state": _state_of_a_step,
    "beside a gradient": lambda mx: mx.value_and_grad(lambda x: ((x * x).sum(), mx.linalg.inv(_singular(mx))))(
        mx.ones((2, 2))
    )[1],
}


def _of(call, a):
    return lambda mx: call(mx, mx.array(a))


def _holding_nan(shape, dtype):
    a = np.ones(shape, dtype)
    a[..., 1, 0] = NAN
    return a


CASES = {
    **{
        f"{name}: {matrix} {dtype}": _of(call, np.array(a, dtype))
        for name, call in CALLS.items()
        for matrix, a in MATRICES.items()
        for dtype in "fd"
        if not (name == "solve one" and np.ndim(a) == 3)
    },
    **{
        f"{name}: {matrix}": _of(CALLS[name], np.array(a, "f"))
        for name in ("inv", "solve")
        for matrix, a in NOT_FINITE.items()
    },
    **{
        f"{name}: {shape} {dtype}": _of(call, _holding_nan(shape, dtype))
        for name, call in SPECTRAL.items()
        for shape in ((2, 2), (2, 3), (3, 2), (2, 3, 3))
        for dtype in "fdF"
    },
    **WITHIN,
}


def outcome(mx, case):
    """Return the outcome of a case: the arrays' values, or the error's type and message."""
    try:
        with mx.stream(mx.cpu):
            out = CASES[case](mx)
            mx.eval(out)
        return [np.array(x) for x in (out if isinstance(out, (tuple, list)) else [out])]
    except Exception as error:
        return type(error).__name__, str(error)


def _in_a_process(mx, case):
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        with os.fdopen(sending, "wb") as file:
            file.write(pickle.dumps(outcome(mx, case)))
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


if __name__ == "__main__":
    import mlx.core

    results = {case: _in_a_process(mlx.core, case) for case in CASES}
    with open(sys.argv[1], "wb") as file:
        pickle.dump(results, file)
