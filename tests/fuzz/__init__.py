"""The fuzz: the calls of the sweep's tables with one argument of each replaced by something else.

    python -m tests.fuzz                    # 2 000 calls, on both sides
    python -m tests.fuzz 100000             # so many
    python -m tests.fuzz --only 4711        # one call: what it is, and what the two sides make of it

No call may end the process, take more than ten seconds, or raise what MLX would not: another kind of exception, or
words of JAX, XLA or NumPy. What real MLX does with the same calls is counted beside.
"""
