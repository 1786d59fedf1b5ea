"""Tests and benchmarks of mxcompat on an accelerator. Run with `python -m tests.accelerator`."""
