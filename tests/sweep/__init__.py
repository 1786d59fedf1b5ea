"""The sweep: every op, layer and behaviour, in every dtype and under every transform, on real MLX and on mxcompat.

    python -m tests.sweep              compare all cells, and print the differences
    python -m tests.sweep einsum       compare those whose expression has this word
    python -m tests.sweep --write      compare all, and write the list of differences into docs/differences.md

A case (`cases`) is an expression and its data; the tables (`ops`, `layers`, `behaviours`) have one a line. A cell is
a case, a dtype and a way to run it (`ways`). Workers (`worker`) compare the cells (`comparison`) in separate
processes, since real MLX crashes on some. Each difference has a cause (`causes`), or is a fault; `page` lists them.
"""
