"""Metal kernels, translated to array operations."""
