"""Random state: keys, and the implicit key for draws without a key.

A key is an ordinary uint32 array of shape (2,). The implicit key of a thread is the single item of a list, `state`.
Each draw replaces the item, so that a compiled function can have the list as an input and as an output.
"""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.construct import node_of
from mxcompat._array.errors import expected, incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.aval import int32 as _int32
from mxcompat._graph.ir.aval import uint32 as _uint32
from mxcompat._graph.ir.node import ITEM, Node, apply, scalar
from mxcompat._graph.ir.outputs import register_outputs
from mxcompat._graph.run.evaluate import lock
from mxcompat._jax import lax

from ..arguments import integer, require_array
from ..define import op
from .bits import check_bits, split_words

__all__ = ["CHAIN", "LINK", "SPLIT", "key", "key_node", "seed", "split", "state"]


def key(seed: int) -> array:
    """Return the key for a seed.

    Args:
        seed: an integer in [0, 2**64).

    Returns:
        A uint32 array of shape (2,): the upper and the lower half of the seed.

    Raises:
        TypeError: if the seed is not such an integer.

    Example:
        >>> mx.random.key(2**33)
        array([2, 0], dtype=uint32)
    """
    return wrap(_seeded(seed, "key"))


def seed(seed: int) -> None:
    """Set the implicit key of this thread to `key(seed)`.

    Args:
        seed: an integer in [0, 2**64).

    Raises:
        TypeError: if the seed is not such an integer.

    Example:
        >>> mx.random.seed(0)
    """
    _cell()[0] = wrap(_seeded(seed, "seed"))


def _seeded(seed: Any, caller: str) -> Node:
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise incompatible(caller, f"Expected an int in [0, 2**64), got {seed!r}.")
    return node_of(np.array([number >> 32, number & 0xFFFFFFFF], np.uint32))


def _infer_split(key: Aval, num: int) -> Aval:
    check_bits(key, (num, 2))
    return aval((num, 2), _uint32)


SPLIT = op(
    "random_split", lambda key, num: split_words(key, 2 * num).reshape(num, 2), _infer_split, ("num",), draws=True
)


def split(key: array, num: int = 2, stream: Any = None) -> array:
    """Return independent keys, split from one key.

    Args:
        key: a key, uint32 of shape (2,).
        num: the number of keys to return.

    Returns:
        A uint32 array of shape (num, 2).

    Raises:
        ValueError: if `key` is not a key, or if `num` is negative.

    Example:
        >>> first, second = mx.random.split(mx.random.key(0))
    """
    check_stream(stream)
    source = require_array(key, "split", "an array as key")
    try:
        num = integer(num)
    except TypeError:
        raise expected("split", "an int as num", num) from None
    return wrap(apply(SPLIT, (source,), (num,)))


def _chain(key: Any, count: int) -> tuple[Any, Any]:
    def step(key: Any, _: None) -> tuple[Any, Any]:
        pair = split_words(key, 4).reshape(2, 2)
        return pair[0], pair

    return lax.scan(step, key, None, length=count)


def _infer_chain(key: Aval, count: int) -> tuple[Aval, Aval]:
    check_bits(key, (2,))
    return _chain_avals(count)


def _chain_avals(count: int) -> tuple[Aval, Aval]:
    return _KEY, aval((count, 2, 2), _uint32)


_KEY = aval((2,), _uint32)
CHAIN = op("random_chain", _chain, _infer_chain, ("count",), draws=True)
"""An op that splits a key `count` times. Its results are the final implicit key and, for each draw, two keys: the
implicit key after the draw and the key of the draw."""

LINK = op("random_link", lambda links, row, column: links[row, column], lambda *_, **__: _KEY, ("column",), draws=True)
"""One key of a chain. The row is a runtime number, so that draws that differ only in the row share one program."""

_ROW = aval((), _int32)


def key_node(key: Any, caller: str, *others: Any) -> Node:
    """Return the node of the key for a draw: the user's key, or one split off the implicit key.

    If another argument of the draw is None, it raises before the implicit key changes.
    """
    for other in others:
        if other is None:
            raise expected(caller, "a number or an array", other)
    if type(key) is array:
        return key._node
    if key is None:
        cell = _local.cell or _cell()
        chain, links, row = _extended(cell[0]._node)
        tip = Node(ITEM, (0,), (chain,), _KEY, chain.trace)
        register_outputs(chain, [tip])
        cell[0] = wrap(tip)
        return Node(LINK, (1,), (links, scalar(row, _ROW)), _KEY, chain.trace)
    return require_array(key, caller, "an array or None as key")


def _extended(tip: Node) -> tuple[Node, Node, int]:
    """Return a chain with one more link than the chain that ends in `tip` (or a new chain), its links, and the last
    row.

    A pending chain grows in place, and its former end becomes one of its rows, so nodes keep their meaning. A hundred
    draws in a program are then one loop. Without this, a hundred splits would each be compiled.
    """
    if _ends_chain(tip) and lock.acquire(blocking=False):
        try:
            if _ends_chain(tip):
                (chain,) = tip.inputs
                row = chain.params[0]
                chain.params, chain.aval = (row + 1,), _chain_avals(row + 1)
                links = _local.links() or _links_of(chain)
                links.aval = chain.aval[1]
                tip.rewrite(LINK, (0,), (links, scalar(row - 1, _ROW)))
                return chain, links, row
        finally:
            lock.release()
    chain = apply(CHAIN, (tip,), (1,))
    _local.chain = ref(chain)
    return chain, _links_of(chain), 0


def _links_of(chain: Node) -> Node:
    """Return the node of a chain's links, which the draws hold. The keys are freed with the last of these draws."""
    links = Node(ITEM, (1,), (chain,), chain.aval[1], chain.trace)
    _local.links = ref(links)
    return links


def _ends_chain(tip: Node) -> bool:
    """Return True if `tip` ends this thread's chain, and the chain is pending."""
    if tip.op is not ITEM or not tip.inputs or tip.inputs[0] is not _local.chain():
        return False
    links = _local.links()
    return tip.inputs[0].value is None and tip.value is None and (links is None or links.value is None)


class _Local(threading.local):
    cell: list[array] | None = None
    chain: Callable[[], Node | None] = staticmethod(lambda: None)
    links: Callable[[], Node | None] = staticmethod(lambda: None)


_local = _Local()


_FIRST_SEED = time.time_ns() // 1_000_000
"""The seed of the implicit keys: the clock at the import of this module, in milliseconds since 1970."""


def _cell() -> list[array]:
    """Return the list that holds the implicit key of this thread. Its first seed is the same in all threads."""
    cell = _local.cell
    if cell is None:
        cell = _local.cell = [key(_FIRST_SEED)]
    return cell


class RandomState(list):
    """The implicit key as a list of one array, the key of the current thread.

    Reads and writes go through to the key. So the list can be in the `inputs` and `outputs` of `mx.compile`, and its
    item can be saved and restored. Its length does not change.
    """

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[array]:
        return iter(_cell())

    def __reversed__(self) -> Iterator[array]:
        return reversed(_cell())

    def __getitem__(self, index: Any) -> Any:
        try:
            return _cell()[index]
        except IndexError:
            raise IndexError("random state index out of range") from None

    def __setitem__(self, index: Any, value: Any) -> None:
        cell = _cell()
        changed = list(cell)
        changed[index] = value
        if len(changed) != 1 or not isinstance(changed[0], array):
            raise ValueError("[random] The random state holds exactly one array.")
        cell[0] = changed[0]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(_cell())

    def __contains__(self, value: object) -> bool:
        return value in _cell()

    def __add__(self, other: Any) -> NoReturn:
        raise TypeError("the random state holds exactly one array")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("cannot pickle the random state; keep a copy of its item instead")

    def _fixed(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AttributeError("the random state holds exactly one array")

    append = extend = insert = pop = remove = clear = reverse = copy = count = index = _fixed
    sort = _fixed  # type: ignore[assignment]
    __delitem__ = _fixed
    __radd__ = __iadd__ = __mul__ = __rmul__ = __imul__ = __add__


state = RandomState()
"""The implicit key of this thread, as a list of one array."""
