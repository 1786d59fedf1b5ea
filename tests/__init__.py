"""The tests. A package, so that no other package called `tests` on the path can take its place."""
