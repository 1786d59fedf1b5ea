"""The tests. They form a package, so that no other package called `tests` on the path can replace it."""
