"""Tests of the extension in C as such: what it does to reference counts and memory, on success and on failure, built by
any compiler's headers and loaded by any Python.

`cases` says what a case is, the `cases_of_*` have them for every function and slot, `members` which there are.
`references` counts, `allocations` lets allocations fail, `libraries` builds the extension for other Pythons. What the
functions return is tested beside: tests/test_native*.py.
"""
