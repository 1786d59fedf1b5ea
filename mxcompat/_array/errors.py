"""Errors in the words of MLX's binding layer: what it says of arguments that no overload of a function takes."""

from __future__ import annotations

from typing import Any

__all__ = ["bad_cast", "expected", "incompatible", "no_derivative", "no_format"]


def incompatible(function: str, what: str) -> TypeError:
    """The error for arguments of wrong types.

    Args:
        function: the name of the function; empty where it is not known, then `what` goes on in lower case.
        what: a sentence that says what was expected and what was given.
    """
    if not function:
        return TypeError(f"incompatible function arguments: {what}")
    return TypeError(f"{function}(): incompatible function arguments. {what}")


def expected(function: str, wanted: str, given: Any) -> TypeError:
    """The same, for one argument, of which the type says enough: "Expected a Dtype, got str."."""
    return incompatible(function, f"{'Expected' if function else 'expected'} {wanted}, got {type(given).__name__}.")


def bad_cast(why: str) -> RuntimeError:
    """The error for data that no dtype fits. MLX says no more than its name; a note says why."""
    error = RuntimeError("std::bad_cast")
    error.add_note(why)
    return error


def no_format(dtype: str) -> ValueError:
    """The error for a dtype that Python's buffers, and so NumPy, have not."""
    return ValueError(f"{dtype!r} is not a valid PEP 3118 buffer format string")


def no_derivative(name: str, what: str, transform: str) -> str:
    """What MLX says of a derivative ("VJP" or "JVP") of an op with respect to what has none."""
    return (
        f"[{name}] Cannot calculate {transform} with respect to {what}. Use stop_gradient on {what} to stop gradients "
        "from being computed."
    )
