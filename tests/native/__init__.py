"""Tests of the C extension itself: reference counts and memory, on success and on failure, for several Pythons.

`cases` defines a case, the `cases_of_*` list them for every function and slot, and `members` lists these.
`references` counts references, `allocations` makes allocations fail, `libraries` builds the extension for other
Pythons. Results of the functions are tested in tests/test_native*.py.
"""
