"""One rank of a group: it runs jobs and records the results. With real MLX, or under `python -m mxcompat`:

    member.py OUT SECONDS JOB...

OUT.RANK is a pickle of {job: tree with NumPy arrays, or the error's type and text}. A rank waits for SECONDS times
its number before each job, so that ranks arrive at different times. With COLLECTIVES="by XLA" small arrays use the
path of large ones.
"""

import os
import pickle
import sys
import time
import traceback
from pathlib import Path

import mlx.core as mx
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from jobs import JOBS


def plain(tree):
    if isinstance(tree, mx.array):
        wide = tree.astype(mx.float32) if tree.dtype == mx.bfloat16 else tree
        return str(tree.dtype).removeprefix("mlx.core."), np.array(wide)
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([plain(v) for v in tree])
    return tree


def main(out, seconds, *names):
    if os.environ.get("COLLECTIVES") == "by XLA":
        from mxcompat._graph import policy

        policy.MOST_EXCHANGED = 0
    mx.random.seed(0)  # user programs may seed before init
    group = mx.distributed.init(strict=True, backend="ring")
    results = {}
    for name in names:
        time.sleep(float(seconds) * group.rank())
        try:
            result = JOBS[name](group)
            mx.eval(result)
            results[name] = plain(result)
        except Exception as error:
            traceback.print_exc()
            results[name] = ("error", type(error).__name__, str(error))
    Path(f"{out}.{group.rank()}").write_bytes(pickle.dumps(results))


main(*sys.argv[1:])
