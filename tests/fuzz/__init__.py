"""The fuzz: calls of the sweep's tables, each with one argument replaced.

    python -m tests.fuzz                    # 2 000 calls, on both sides
    python -m tests.fuzz 100000             # that many calls
    python -m tests.fuzz --only 4711        # one call: its text, and its outcome on both sides

No call may end the process, take more than ten seconds, or raise an error that MLX would not: another type, or words
of JAX, XLA or NumPy. The outcomes of the same calls on real MLX are counted for comparison.
"""
