"""What a machine with an accelerator can tell of mxcompat. Run with `python -m tests.accelerator`."""
