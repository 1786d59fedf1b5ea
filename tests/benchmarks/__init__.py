"""Benchmarks: mxcompat, hand-written `jax.jit` and real MLX on the same work. Run with `python -m tests.benchmarks`."""
