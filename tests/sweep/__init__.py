"""The sweep: every op, layer and behaviour, in every dtype and under every transform, on real MLX and on mxcompat.

    python -m tests.sweep              compare all cells, and print what differs
    python -m tests.sweep einsum       those whose expression has this word
    python -m tests.sweep --write      compare all, and write the list of differences into docs/differences.md

A case (`cases`) is an expression and the data it is given; the tables (`ops`, `layers`, `behaviours`) have one a line.
A cell is a case, a dtype and a way to run it (`ways`). Workers (`worker`) compare the cells (`comparison`), in
processes of their own, since real MLX dies of some. What differs has a cause (`causes`), or is a fault; `page` writes
it down.
"""
