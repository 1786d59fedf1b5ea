"""Examples for names whose docstrings have none, such as names defined with the graph. Their output comes from running
them when the site is built."""

from __future__ import annotations

import ast
import io
from contextlib import redirect_stdout
from typing import Any

__all__ = ["EXAMPLES", "WITHOUT", "example_of", "ran"]

EXAMPLES: dict[str, str] = {"mxcompat.core.Dtype": "mx.float32.size, mx.float32 == mx.float16"}
"""Statements by full name; the last may be an expression whose value is shown."""

WITHOUT = {
    "mxcompat.core.FunctionExporter": "what `mx.exporter` gives; its example is there",
    **dict.fromkeys(
        (f"mxcompat.core.distributed.{name}" for name in ("recv", "recv_like", "send")), "takes two processes"
    ),
    "mxcompat.core.fast.precompiled_cuda_kernel": "raises",
    **dict.fromkeys(
        (f"mxcompat.core.metal.{name}" for name in ("device_info", "start_capture", "stop_capture")),
        "there is no Metal",
    ),
    "mxcompat.ext.sharding.Collective": "what `collectives` returns",
    "mxcompat.ext.sharding.PartitionSpec": "JAX's own",
    **dict.fromkeys((f"mxcompat.testing.{name}" for name in ("Comparison", "Difference")), "what `compare` returns"),
}
"""Names without an example, with the reasons."""


def ran(code: str, given: dict[str, Any]) -> str:
    """Run code in a namespace, and return its output as in an interactive session."""
    *body, last = ast.parse(code).body
    value = None
    with redirect_stdout(io.StringIO()) as out:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(body, []), "example", "exec"), given)
            value = eval(compile(ast.Expression(last.value), "example", "eval"), given)
        else:
            exec(compile(ast.Module([*body, last], []), "example", "exec"), given)
    return out.getvalue() + ("" if value is None else repr(value))


def example_of(name: str, text: str) -> list[str]:
    """Return the example section of a name whose docstring has none."""
    code = EXAMPLES.get(name)
    if code is None or ">>>" in text:
        return []
    import mxcompat as mx
    from mxcompat import nn, optimizers

    mx.random.seed(0)
    given = {"mx": mx, "nn": nn, "optim": optimizers}
    statements = [ast.unparse(statement) for statement in ast.parse(code).body]
    lines = [f">>> {line}" for statement in statements for line in statement.split("\n")]
    shown = [*lines, *ran(code, given).splitlines()]
    return ["\n".join(["Examples:", *(f"    {line}" for line in shown)])]
