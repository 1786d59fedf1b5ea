"""The preprocessor: macros, conditions and the directives that do nothing here.

Template values of a kernel are no macros: in a `#if` their names count as 0, as in C++.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .errors import Place, Problem
from .lexer import Token, tokenize

__all__ = ["Macro", "preprocess"]


class Macro(NamedTuple):
    """A `#define`.

    Args:
        parameters: names of the parameters, None for a macro without a parameter list.
        body: the replacement.
        variadic: True if the last parameter is `...`.
    """

    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False


_IGNORED = ("include", "pragma", "line", "warning", "import")


def preprocess(text: str, part: str, macros: dict[str, Macro], evaluate: Callable[[list[Token]], int]) -> list[Token]:
    """Return the tokens of a text after its directives are carried out.

    Args:
        macros: the macros that are known so far; those of the text are added.
        evaluate: returns the value of a condition, given its tokens.
    """
    out: list[Token] = []
    pending: list[Token] = []
    conditions: list[_Condition] = []

    def flush() -> None:
        out.extend(_expand(pending, macros))
        pending.clear()

    for line in _lines(tokenize(text, part)):
        active = all(c.active for c in conditions)
        if line[0].text != "#" or line[0].hidden:
            if active:
                pending.extend(line)
            continue
        if len(line) == 1:
            continue
        _, directive, *rest = line
        if directive.text in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
            if active or conditions:
                _branch(directive, rest, conditions, macros, evaluate)
        elif not active or directive.text in _IGNORED:
            continue
        elif directive.text == "define":
            flush()
            _define(directive.place, rest, macros)
        elif directive.text == "undef":
            flush()
            if rest:
                macros.pop(rest[0].text, None)
        elif directive.text == "error":
            Problem.at(directive.place, "#error " + " ".join(t.text for t in rest))
        else:
            Problem.at(directive.place, f"unknown directive #{directive.text}")
    if conditions:
        Problem.at(conditions[-1].place, "this #if has no #endif")
    flush()
    return out


def _lines(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    line: list[Token] = []
    for token in tokens:
        if token.first and line:
            yield line
            line = []
        line.append(token)
    if line:
        yield line


class _Condition:
    """An open `#if`.

    `active` is True in the branch that is used. `taken` is True once a branch has been used. `around` is True if the
    enclosing text is used.
    """

    __slots__ = ("active", "around", "place", "taken")

    def __init__(self, place: Place, around: bool, active: bool) -> None:
        self.place, self.around, self.active, self.taken = place, around, active, active


def _branch(
    directive: Token, rest: list[Token], conditions: list[_Condition], macros: dict[str, Macro],
    evaluate: Callable[[list[Token]], int],
) -> None:  # fmt: skip
    name = directive.text
    if name in ("if", "ifdef", "ifndef"):
        around = all(c.active for c in conditions)
        taken = False
        if around:
            if not rest:
                Problem.at(directive.place, f"#{name} without a condition")
            if name == "if":
                taken = bool(evaluate(_condition(rest, macros)))
            else:
                taken = (rest[0].text in macros) == (name == "ifdef")
        conditions.append(_Condition(directive.place, around, taken))
        return
    if not conditions:
        Problem.at(directive.place, f"#{name} without #if")
    here = conditions[-1]
    if name == "endif":
        conditions.pop()
    elif name == "else":
        here.active = here.around and not here.taken
        here.taken = True
    else:
        here.active = here.around and not here.taken and bool(evaluate(_condition(rest, macros)))
        here.taken = here.taken or here.active


def _condition(tokens: list[Token], macros: dict[str, Macro]) -> list[Token]:
    """Return the tokens of a condition with `defined X` evaluated, macros expanded, and other names replaced by 0."""
    answered: list[Token] = []
    k = 0
    while k < len(tokens):
        token = tokens[k]
        if token.text == "defined" and k + 1 < len(tokens):
            nested = tokens[k + 1].text == "("
            name = tokens[k + 1 + nested].text if k + 1 + nested < len(tokens) else ""
            answered.append(token._replace(kind="number", text=str(int(name in macros))))
            k += 4 if nested else 2
        elif token.text in ("__has_include", "__has_feature", "__has_builtin", "__has_attribute"):
            answered.append(token._replace(kind="number", text="0"))
            while k < len(tokens) and tokens[k].text != ")":
                k += 1
            k += 1
        else:
            answered.append(token)
            k += 1
    values = {"true": "1", "false": "0"}
    return [
        t._replace(kind="number", text=values.get(t.text, "0")) if t.kind == "name" else t
        for t in _expand(answered, macros)
    ]


def _define(place: Place, rest: list[Token], macros: dict[str, Macro]) -> None:
    if not rest or rest[0].kind != "name":
        Problem.at(place, "#define needs a name")
    name, body = rest[0].text, rest[1:]
    if not body or body[0].text != "(" or body[0].spaced:
        macros[name] = Macro(None, tuple(t._replace(first=False) for t in body))
        return
    parameters: list[str] = []
    k = 1
    while k < len(body) and body[k].text != ")":
        if body[k].text != ",":
            parameters.append(body[k].text)
        k += 1
    if k == len(body):
        Problem.at(rest[0].place, f"the parameters of macro {name} have no )")
    variadic = bool(parameters) and parameters[-1] == "..."
    if variadic:
        parameters[-1] = "__VA_ARGS__"
    macros[name] = Macro(tuple(parameters), tuple(t._replace(first=False) for t in body[k + 1 :]), variadic)


def _expand(tokens: Sequence[Token], macros: dict[str, Macro]) -> list[Token]:
    """Return the tokens with all macros expanded. The tokens of an expansion have the place of the macro's use."""
    out: list[Token] = []
    work = list(reversed(tokens))
    while work:
        token = work.pop()
        macro = macros.get(token.text) if token.kind == "name" and token.text not in token.hidden else None
        if macro is None:
            out.append(token)
            continue
        if macro.parameters is None:
            replaced = list(macro.body)
        else:
            if not work or work[-1].text != "(":
                out.append(token)
                continue
            arguments = _arguments(token, work, macro)
            replaced = _substitute(token, macro, arguments, macros)
        hidden = token.hidden | {token.text}
        for part in reversed(_pasted(replaced)):
            work.append(part._replace(place=token.place, hidden=part.hidden | hidden))
    return out


def _arguments(token: Token, work: list[Token], macro: Macro) -> list[list[Token]]:
    """Remove the arguments of a macro from the tokens to process (`work`, last token first), and return them."""
    assert macro.parameters is not None
    work.pop()
    arguments: list[list[Token]] = [[]]
    depth = 0
    while True:
        if not work:
            Problem.at(token.place, f"the arguments of macro {token.text} have no )")
        here = work.pop()
        if here.text == ")" and depth == 0:
            break
        depth += (here.text in "([{") - (here.text in ")]}") if here.kind == "op" else 0
        full = macro.variadic and len(arguments) >= len(macro.parameters)
        if here.text == "," and depth == 0 and not full:
            arguments.append([])
        else:
            arguments[-1].append(here)
    if macro.parameters == () and arguments == [[]]:
        return []
    if macro.variadic and len(arguments) == len(macro.parameters) - 1:
        arguments.append([])
    if len(arguments) != len(macro.parameters):
        Problem.at(
            token.place, f"macro {token.text} takes {len(macro.parameters)} arguments, but is given {len(arguments)}"
        )
    return arguments


def _substitute(token: Token, macro: Macro, arguments: list[list[Token]], macros: dict[str, Macro]) -> list[Token]:
    assert macro.parameters is not None
    by_name = dict(zip(macro.parameters, arguments, strict=True))
    out: list[Token] = []
    for k, part in enumerate(macro.body):
        before = macro.body[k - 1].text if k else ""
        after = macro.body[k + 1].text if k + 1 < len(macro.body) else ""
        if part.text == "#" and after in by_name:
            continue
        if part.kind == "name" and part.text in by_name:
            argument = by_name[part.text]
            if before == "#":
                text = " ".join(t.text for t in argument).replace("\\", "\\\\").replace('"', '\\"')
                out.append(part._replace(kind="string", text=f'"{text}"'))
            elif "##" in (before, after):
                out.extend(argument)
            else:
                out.extend(_expand(argument, macros))
        else:
            out.append(part)
    return out


def _pasted(tokens: list[Token]) -> list[Token]:
    """Return the tokens with the operands of each `##` joined to one token."""
    out: list[Token] = []
    k = 0
    while k < len(tokens):
        if tokens[k].text == "##" and out and k + 1 < len(tokens):
            left, right = out.pop(), tokens[k + 1]
            text = left.text + right.text
            kind = "name" if text[0].isalpha() or text[0] == "_" else "number" if text[0].isdigit() else "op"
            out.append(left._replace(kind=kind, text=text))
            k += 2
        else:
            out.append(tokens[k])
            k += 1
    return out
