"""Random kernels, drawn by hypothesis.

They have variables of all types, branches, nested loops whose length differs among threads, early returns, arrays,
group memory, barriers and SIMD groups. A kernel's result is the same on every platform: without overflow in a
conversion, division by zero, shifts beyond the width, or races. Floats are small whole numbers after each assignment.
So sums and products are exact in float32, and are rounded equally in half and bfloat.
"""

from __future__ import annotations

from hypothesis import strategies as st

from .cases import Case
from .cases.case import BF16, DATA

__all__ = ["kernels"]

INTS = {
    "int": "i", "uint": "u", "short": "s", "ushort": "t", "char": "c", "uchar": "d", "long": "l", "ulong": "m",
}  # fmt: skip
FLOATS = {"float": "f", "half": "h", "bfloat16_t": "b"}
DTYPES = {
    "int": "int32", "uint": "uint32", "short": "int16", "ushort": "uint16", "char": "int8", "uchar": "uint8",
    "long": "int64", "ulong": "uint64", "float": "float32", "half": "float16", "bfloat16_t": "bfloat16", "bool": "bool",
}  # fmt: skip
SIZE = 70

_INPUTS = dict(DATA)
_INPUTS["h"] = (_INPUTS["h"] * 4).round().astype("float16")
_INPUTS["b"] = (_INPUTS["b"].astype("float32") * 4).round().astype(BF16)
_INPUTS["f"] = _INPUTS["f"].round()


class _Writer:
    """Writes one kernel from random choices."""

    def __init__(self, draw, together):
        self.draw, self.together = draw, together
        self.variables: dict[str, str] = {}
        self.counters = 0
        self.loops = 0
        self.depth = 0
        self.returns = False

    def pick(self, *options):
        return self.draw(st.sampled_from(options))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def chance(self, one_in):
        return self.number(1, one_in) == one_in

    def type(self):
        return self.pick(*INTS, *FLOATS, "int", "uint", "float")

    def of(self, kinds):
        return [name for name, kind in self.variables.items() if kind in kinds]

    # Expressions of ints wrap around; expressions of floats have small whole values.

    def integer(self, depth=2):
        leaves = [*self.of(INTS), "I", "lid"]
        choice = self.number(0, 11) if depth else self.number(0, 2)
        a = self.integer(depth - 1) if choice > 2 else ""
        if choice == 0:
            return self.pick(*leaves)
        if choice == 1:
            return f"{self.pick(*INTS.values())}[{self.index()}]"
        if choice == 2:
            return self.pick("1", "3u", "-7", "0xffu", "5l", "100", "17ul", str(self.number(0, 9)))
        if choice == 3:
            return f"({a} {self.pick('+', '-', '*', '&', '|', '^')} {self.integer(depth - 1)})"
        if choice == 4:
            return f"({a} {self.pick('<<', '>>')} {self.pick('1', '3u', '(I & 7)')})"
        if choice == 5:
            return f"({a} {self.pick('/', '%')} {self.pick('7', '3u', '(int(I & 7) + 1)', '13l')})"
        if choice == 6:
            return f"{self.pick(*INTS)}({a})"
        if choice == 7:
            return f"({self.condition(depth - 1)} ? {a} : {self.integer(depth - 1)})"
        if choice == 8:
            return f"({self.condition(depth - 1)})"
        if choice == 9:
            return f"{self.pick('~', '-', '+')}({a})"
        if choice == 10:
            kind = self.pick("int", "uint", "long")
            return f"{self.pick('min', 'max')}({kind}({a}), {kind}({self.integer(depth - 1)}))"
        return f"int(clamp({self.real(depth - 1)}, -90.0f, 90.0f))"

    def real(self, depth=2):
        """Return an expression of type float."""
        return f"(float)({self.floating('float', depth)})"

    def floating(self, kind, depth=2):
        leaves = [*self.of([kind])]
        choice = self.number(0, 8) if depth else self.number(0, 3)
        if choice == 0 and leaves:
            return self.pick(*leaves)
        if choice <= 1:
            return f"{kind}({FLOATS[kind]}[{self.index()}])"
        if choice == 2:
            return f"{kind}({self.number(-9, 9)})"
        if choice == 3:
            return f"{kind}(int({self.pick(*self.of(INTS), 'I')}) & 15)"
        a, b = self.floating(kind, depth - 1), self.floating(kind, depth - 1)
        if choice == 4:
            return f"({a} {self.pick('+', '-', '*')} {b})"
        if choice == 5:
            return f"({self.condition(depth - 1)} ? {a} : {b})"
        if choice == 6:
            return f"{self.pick('min', 'max')}({kind}({a}), {kind}({b}))"
        if choice == 7:
            return f"{self.pick('abs', 'floor', 'trunc', 'sign')}({kind}({a}))"
        return f"({a} {self.pick('+', '-', '*')} {self.pick('2', '(int(I) & 3)', kind + '(3)')})"

    def condition(self, depth=1):
        choice = self.number(0, 4)
        compare = self.pick("<", ">", "<=", ">=", "==", "!=")
        if choice == 0:
            return f"{self.real(depth)} {compare} {self.real(depth)}"
        if choice == 1 and depth:
            return f"({self.condition(depth - 1)}) {self.pick('&&', '||')} ({self.condition(depth - 1)})"
        if choice == 2 and depth:
            return f"!({self.condition(depth - 1)})"
        if choice == 3:
            return f"({self.integer(depth)} & {self.pick('1', '2', '4u')}) != 0"
        return f"{self.integer(depth)} {compare} {self.integer(depth)}"

    def index(self):
        return self.pick("I", "I", "(I * 7) % 70", "69 - I", "lid", f"uint({self.pick(*self.of(INTS), 'I')}) % 70")

    def value(self, kind):
        if kind in FLOATS:
            return f"clamp(rint({kind}({self.floating(kind)})), {kind}(-64), {kind}(64))"
        return self.integer()

    def block(self, length):
        known = dict(self.variables)
        lines = [self.statement() for _ in range(length)]
        self.variables = known
        return " ".join(lines)

    def statement(self):
        nested = self.depth < 3
        choice = self.number(0, 13)
        if choice <= 1 or not self.variables:
            return self.declaration()
        if choice <= 4:
            return self.assignment()
        if choice == 5 and self.of(INTS):
            name = self.pick(*self.of(INTS))
            return self.pick(
                f"{name}++;", f"--{name};", f"{name} {self.pick('+=', '^=', '*=', '>>=')} {self.pick('3', 'I & 3')};"
            )
        if choice == 6:
            return f"a[{self.integer(1)} & 3] = {self.integer(1)};"
        if choice == 7 and self.of(INTS):
            return f"{self.pick(*self.of(INTS))} = a[{self.integer(1)} & 3];"
        if choice == 8 and self.loops:
            return f"if ({self.condition()}) {self.pick('break', 'continue')};"
        if choice == 9 and self.together and self.of(INTS):
            return f"{self.pick(*self.of(INTS))} = {self.of_group()};"
        if choice == 10 and self.returns and self.chance(3):
            return f"if ({self.condition()} && (I % 5) == {self.number(0, 4)}) return;"
        if nested and choice == 11:
            return self.loop()
        if nested:
            self.depth += 1
            then, other = self.block(self.number(1, 3)), self.block(self.number(1, 2))
            self.depth -= 1
            return f"if ({self.condition()}) {{ {then} }}" + (f" else {{ {other} }}" if self.chance(2) else "")
        return self.assignment()

    def declaration(self):
        kind = self.type()
        text = self.value(kind)
        name = f"v{self.counters}"
        self.counters += 1
        self.variables[name] = kind
        return f"{kind} {name} = {text};"

    def assignment(self):
        name = self.pick(*self.variables)
        return f"{name} = {self.value(self.variables[name])};"

    def loop(self):
        counter = f"n{self.counters}"
        self.counters += 1
        most = self.pick("3", "(I % 4)", f"(uint({self.integer(1)}) % 5)", "(lid & 3)")
        self.depth += 1
        self.loops += 1
        body = self.block(self.number(1, 3))
        self.loops -= 1
        self.depth -= 1
        kind = self.number(0, 2)
        if kind == 0:
            return f"for (uint {counter} = 0; {counter} < {most}; {counter}++) {{ {body} }}"
        if kind == 1:
            return f"uint {counter} = {most}; while ({counter}-- > 0) {{ {body} }}"
        return f"uint {counter} = 0; do {{ {counter}++; {body} }} while ({counter} < {most});"

    def of_group(self):
        a = self.integer(1)
        return self.pick(
            f"simd_sum(int({a}))", f"simd_max(int({a}))", f"simd_min(uint({a}))", f"simd_or(uint({a}))",
            f"simd_prefix_exclusive_sum(uint({a}))", f"simd_prefix_inclusive_sum(int({a}))",
            f"simd_broadcast_first(int({a}))", f"int(simd_any(({a}) & 1))", f"int(simd_all(({a}) & 3))",
            "int(simd_is_first())", f"int(ulong(simd_ballot(({a}) & 1)))",
        )  # fmt: skip

    def exchange(self):
        """Write a value to group memory and read those of other threads, between barriers that all remaining threads
        reach."""
        barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
        name = self.pick(*self.of(["int"]), "w")
        place = self.pick("(lid + 1)", "(lid * 3 + 5)", "0")
        return f"{barrier} shared[lid] = {self.integer(1)}; {barrier} {name} = shared[{place} % n];"


@st.composite
def kernels(draw):
    """Draw a `Case` of a random kernel."""
    together = draw(st.booleans())
    write = _Writer(draw, together)
    write.variables = {"w": "int"}
    lines = [write.declaration() for _ in range(draw(st.integers(2, 4)))]
    write.returns = draw(st.integers(0, 2)) == 0
    for _ in range(draw(st.integers(1, 3))):
        lines += [write.statement() for _ in range(draw(st.integers(1, 4)))]
        if together and draw(st.booleans()):
            exchange = write.exchange()
            lines.append(f"for (int r = 0; r < 3; r++) {{ {exchange} }}" if draw(st.booleans()) else exchange)
    names = list(write.variables)[:6]
    for place, name in enumerate(names):
        lines.append(f"y{place or ''}[I] = {name};")
    source = (
        "uint I = thread_position_in_grid.x, lid = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x; "
        "int w = 1; int a[4] = {1, 2, 3, int(I)}; threadgroup int shared[72]; shared[lid] = k[I]; " + "\n".join(lines)
    )
    letters = [*INTS.values(), *FLOATS.values(), "k"]
    group = draw(st.sampled_from([32, 40, 64, 70, 16]))
    outputs = tuple(((SIZE,), DTYPES[write.variables[name]]) for name in names)
    return Case(
        source,
        tuple(_INPUTS[letter] for letter in letters),
        outputs,
        (SIZE, 1, 1),
        (group, 1, 1),
        names=tuple(letters),
        init_value=draw(st.sampled_from([None, 1])),
    )
