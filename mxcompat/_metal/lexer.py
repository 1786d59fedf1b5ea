"""Tokens of a kernel's text. Comments and line continuations are white space; a token knows if it begins a line, which
the preprocessor reads."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import Place, Problem

__all__ = ["Token", "tokenize"]


class Token(NamedTuple):
    """One token.

    Args:
        kind: "name", "number", "string", "char", "op" or "end".
        text: the text of the token.
        place: the position at which it begins.
        first: True if it is the first of its line.
        spaced: True if white space is in front of it.
        hidden: macros that must not be expanded again in it.
    """

    kind: str
    text: str
    place: Place
    first: bool = False
    spaced: bool = False
    hidden: frozenset[str] = frozenset()


_OPERATORS = (
    "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=",
    "&=", "|=", "^=", "::", "##", *"+-*/%&|^~!<>=?:;,.()[]{}#\\@$",
)  # fmt: skip
"""The operators, from the longest to the shortest, as the first match is taken."""

_SPELLED = {
    "and": "&&", "or": "||", "not": "!", "xor": "^", "bitand": "&", "bitor": "|", "compl": "~", "not_eq": "!=",
    "and_eq": "&=", "or_eq": "|=", "xor_eq": "^=",
}  # fmt: skip
"""The operators that C++ also spells as words."""

_PATTERN = re.compile(
    r"(?P<skip>[ \t\r\f\v]+|\\[ \t]*\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/)"
    r"|(?P<newline>\n)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>(?:0[xX][0-9A-Fa-f']+(?:\.[0-9A-Fa-f]*)?(?:[pP][+-]?\d+)?|0[bB][01']+"
    r"|(?:\d[\d']*\.?[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?)[A-Za-z]*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>'(?:\\.|[^'\\\n])+')"
    r"|(?P<op>" + "|".join(map(re.escape, _OPERATORS)) + ")",
    re.DOTALL,
)


def tokenize(text: str, part: str) -> list[Token]:
    """Return the tokens of a text, without an end mark. Raises Problem at a character that begins no token."""
    tokens: list[Token] = []
    position, line, start = 0, 1, 0
    first, spaced = True, False
    while position < len(text):
        match = _PATTERN.match(text, position)
        place = Place(part, line, position - start + 1)
        if match is None:
            Problem.at(place, f"stray character {text[position]!r}")
        kind = match.lastgroup or ""
        if kind == "op" and text.startswith("/*", position):
            Problem.at(place, "this comment has no end")
        if kind == "newline":
            first, spaced = True, True
        elif kind == "skip":
            spaced = True
        else:
            operator = _SPELLED.get(match[0])
            kind, spelling = ("op", operator) if operator else (kind, match[0])
            tokens.append(Token(kind, spelling, place, first, spaced))
            first, spaced = False, False
        lines = match[0].count("\n")
        if lines:
            line += lines
            start = match.start() + match[0].rindex("\n") + 1
        position = match.end()
    return tokens
