"""`python -m docs._build`: see the package."""

from __future__ import annotations

import sys
from pathlib import Path

from docs._build import blocks, notebooks
from docs._build.generated import generated


def main(*arguments: str) -> int:
    if arguments[:1] == ("blocks",):
        for name in arguments[1:]:
            Path(name).write_text(blocks.written(Path(name)))
    elif arguments[:1] == ("notebooks",):
        for path in map(Path, arguments[1:]) if arguments[1:] else notebooks.NOTEBOOKS:
            notebooks.store(path)
    else:
        for path, text in generated().items():
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
