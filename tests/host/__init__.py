"""The host rules of every op, held to what XLA and JAX's derivatives make of the same op."""
