"""Uses of undocumented behaviour: JAX's internals, XLA's options and texts, and CPython's internals.

Each use is an `Unpromised` with a name, a probe and a fallback (`registry`). `python -m mxcompat info` lists which
hold, and the environment variable `MXCOMPAT_WITHOUT` switches some off. No other folder may name `jax._src`, `jaxlib`'s
modules or CPython's private names. JAX's documented extension points count as promised: `jax.extend`, `jax.stages`, and
primitives with their rules in `jax.interpreters`.
"""
