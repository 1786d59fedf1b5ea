"""Programs in which one rank misbehaves, by name. They print the errors of the ranks."""

import os
import signal
import sys
import time

import mlx.core as mx

D = mx.distributed
what = sys.argv[1]
if what == "late":
    time.sleep(3 * int(os.environ["MLX_RANK"]))
group = D.init()
rank = group.rank()
large = what in ("killed in it", "stopped in it", "both send")  # small arrays are buffered, so that no send blocks
x = mx.ones(1 << 16 if large else 3)
mx.eval(D.all_sum(x))


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt(*_):
    raise RuntimeError("interrupted")


def different(rank):
    if what == "shape":
        return D.all_sum(mx.ones(3 + rank))
    if what == "dtype":
        return D.all_sum(x.astype(mx.int32 if rank else mx.float32))
    if what == "op":
        return D.all_max(x) if rank else D.all_sum(x)
    if what == "killed" and rank:
        kill()
    if what in ("killed in it", "stopped in it") and rank:
        from mxcompat._ops.distributed import records

        number = signal.SIGSTOP if what == "stopped in it" else signal.SIGKILL
        records.collective = lambda *_: os.kill(os.getpid(), number)
    if what == "raised" and rank:
        raise KeyError("its own")
    if what == "ended" and rank:
        sys.exit(0)
    if what == "elsewhere" and rank:
        time.sleep(14)
        sys.exit(0)
    if what == "sent":
        return D.recv((4,), mx.float32, 0) if rank else D.send(x, 1)
    if what == "both send":
        return D.send(x, 1 - rank)
    return D.all_sum(x * 2)


if what == "interrupted" and rank:
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1)
elif what == "interrupted":
    time.sleep(3)
for _ in range(2):
    try:
        mx.eval(different(rank))
        message = "nothing"
    except RuntimeError as error:
        message = str(error)
    sys.stdout.write(f"rank {rank} is told: {message}\n")
if what == "interrupted" and rank:
    time.sleep(4)
