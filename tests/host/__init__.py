"""Tests that compare the host rules of every op with XLA and JAX's derivatives."""
