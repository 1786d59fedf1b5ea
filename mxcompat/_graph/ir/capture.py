"""Capture: run the user's Python on placeholders and close the nodes that it built into a Program.

Every transform starts here. Inside a `Capture`, nodes that depend on the placeholders carry its trace id. `close` makes
the Program. Leaving the context ends the trace, also after an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .aval import Aval
from .linearize import Subgraph, linearize
from .liveness import live_out
from .node import ITEM, Node, aliases, new_trace, node
from .op import Op
from .outputs import register_outputs
from .program import Program
from .rules import HOST, SPECIALIZE
from .trace_stack import under_way

__all__ = ["ALIAS", "PLACEHOLDER", "PROMISE", "Body", "Capture", "Derive", "Promise", "keep_promise"]

ALIAS = Op("alias", lambda x: x, lambda a: a)
"""The op of a placeholder that stands for a real array and may be evaluated (`grad`, `vjp`, `jvp`, `checkpoint`)."""


def _read_placeholder(*_: Any) -> None:
    if under_way.live:
        raise ValueError(
            "[eval] Attempting to eval an array during function transformations like compile or vmap is not allowed."
        )
    raise RuntimeError(
        "[eval] Attempting to eval an array without a primitive.\nIt was made inside a function under compile or vmap "
        "and outlived the call. Return it from the function, or list it in compile's outputs."
    )


PLACEHOLDER = Op("placeholder", _read_placeholder)
"""The op of a placeholder without a value (`vmap`, `compile`)."""


class Promise:
    """The argument of a placeholder whose node is made only if its value is read.

    Args:
        aval: the aval of the node that `find` returns.
        find: makes and returns the node.
    """

    __slots__ = ("__weakref__", "aval", "find")

    def __init__(self, aval: Aval, find: Callable[[], Node]) -> None:
        self.aval = aval
        self.find = find


PROMISE = Op("promise", _read_placeholder, lambda promise: promise.aval, ("promise",), uncacheable=True)
"""The op of a placeholder for a promise that is not resolved yet (in the rules of custom functions)."""


def keep_promise(node: Node, capture: Capture | None = None) -> bool:
    """Resolve a PROMISE placeholder: rewrite it as an ALIAS of the promised node. This happens when its value is read,
    or when another captured function closes over it."""
    node.rewrite(ALIAS, (), (node.params[0].find(),))
    return True


SPECIALIZE[PROMISE] = keep_promise
HOST[PLACEHOLDER] = _read_placeholder  # this raises the error without a compilation


class Body(NamedTuple):
    """The result of closing a capture.

    Args:
        program: Its inputs are the placeholders, then the captured nodes. Its outputs are the outputs, then the kept
            nodes.
        captured: the nodes from outside that the body reads.
        outputs: the output nodes, then the kept nodes: body nodes that something outside the graph refers to.
        derived: the node of the derivative, if closing the body made one. Its results are the outputs, then the
            gradients or tangents.
    """

    program: Program
    captured: list[Node]
    outputs: list[Node]
    derived: Node | None = None

    def redirect(self, node: Node) -> None:
        """Turn the body's outputs into outputs of `node`, the node of the transform, so that existing handles refer to
        it."""
        for k, old in enumerate(self.outputs):
            if old.trace > node.trace and old.op is not ALIAS:
                old.trace = node.trace
                if old.value is None or node.trace:
                    old.rewrite(ITEM, (k,), (node,))
                else:
                    old.set_value(old.value)
        register_outputs(node, self.outputs)


Derive = Callable[["Capture", Subgraph, Body], "Node | bool"]
"""A callback of vjp and jvp, which `Capture.close` calls if the body may contain calls of custom functions or effects.

It runs the rules of the calls. If it must make the node of the derivative itself, it returns this node. If it rewrote
the calls, it returns True, and the body is closed again. If there is no call, it returns False.
"""


class Capture:
    """A capture that is in progress.

    Args:
        arguments: a node, a Promise or an aval for each placeholder. A placeholder for a node or a Promise can be
            evaluated if the node can. A placeholder for an aval has no value.
        mode: the kind of transform, which decides how custom functions in the body are rewritten. "vjp", "jvp" and
            "vmap" have rules for them. "call" leaves them to the enclosing transforms. "plain" says that no transform
            will see the body.
        size: the size of the mapped axis, under "vmap".
        any_shape: True if the Program will also be used for arguments of other shapes.

    While the function runs, `other_arguments` holds the nodes of the arguments that have no placeholder.
    """

    def __init__(
        self, arguments: Sequence[Node | Aval | Promise], *, mode: str = "call", size: int = 0, any_shape: bool = False
    ) -> None:
        self.id = new_trace()
        self.mode = mode
        self.size = size
        self.any_shape = any_shape
        self.other_arguments: Sequence[Node] = ()
        # under "vmap", if known: the arrays with the mapped axes, and these axes
        self.mapped: tuple[list[Node], list] | None = None
        kinds = {*map(type, arguments)}
        self._valueless = not kinds <= {Node, Promise}
        self.placeholders = (
            aliases(ALIAS, [*arguments], self.id) if kinds == {Node} else [*map(self._placeholder, arguments)]
        )

    def _placeholder(self, argument: Node | Aval | Promise) -> Node:
        if type(argument) is Aval:
            return node(PLACEHOLDER, (), (), argument, self.id)
        if type(argument) is Promise:
            return node(PROMISE, (argument,), (), argument.aval, self.id)
        return aliases(ALIAS, [argument], self.id)[0]

    def __enter__(self) -> Capture:
        under_way.live.append(self)
        under_way.valueless += self._valueless
        return self

    def __exit__(self, *exc: object) -> None:
        under_way.live.remove(self)
        under_way.valueless -= self._valueless

    @property
    def is_enclosed(self) -> bool:
        """Return True if an enclosing transform with rules for custom functions may see the results of this capture."""
        for capture in reversed(under_way.live):
            if capture.id < self.id and capture.mode != "call":
                return capture.mode != "plain"
        return False

    def close(self, outputs: Sequence[Node], *, keep: bool = False, derive: Derive | None = None) -> Body:
        """Close the body that computes `outputs`.

        With `keep`, body nodes that something outside the graph refers to become outputs as well. The caller must then
        refer to body nodes only through `outputs`, and must `redirect` them.
        """
        subgraph = self._subgraph(outputs)
        roots, slots = list(outputs), subgraph.roots
        derives = derive is not None and subgraph.structure.code.specialized
        if keep:
            others = [k for k in live_out(subgraph) if k not in slots and subgraph.order[k].value is None]
            if derives:  # a derivative in segments cannot return several results as one value
                others = [k for k in others if not isinstance(subgraph.order[k].aval, tuple)]
            roots += [subgraph.order[k] for k in others]
            slots += tuple(others)
        body = Body(subgraph.structure.program(slots), subgraph.leaves[len(self.placeholders) :], roots)
        if not derives:
            return body
        derived = derive(self, subgraph, body)  # type: ignore[misc]
        if derived is False:
            return body
        del subgraph, roots
        if derived is not True:
            return body._replace(derived=derived)
        del body
        return self.close(outputs, keep=keep)

    def _subgraph(self, outputs: Sequence[Node]) -> Subgraph:
        seen: set[Node] = set()
        while True:
            subgraph = linearize(outputs, self.id, self.placeholders)
            if not subgraph.structure.code.specialized:
                return subgraph
            special = [n for n in subgraph.order if n.op in SPECIALIZE and n not in seen]  # type: ignore[union-attr]
            seen.update(special)
            rewritten = [SPECIALIZE[node.op](node, self) for node in special]  # type: ignore[union-attr, misc]
            if not any(rewritten):
                return subgraph
