"""What is used here although nobody promises it: JAX's internals, what XLA reads and writes, what CPython does inside.

Each such use is an `Unpromised` with a name, a probe, and a fallback (`registry`). `python -m mxcompat info` lists
which hold; `MXCOMPAT_WITHOUT` takes some away. No other folder may name `jax._src`, `jaxlib`'s modules or CPython's
private names. JAX's documented points of extension count as promised: `jax.extend`, `jax.stages`, and primitives with
their rules in `jax.interpreters`.
"""
