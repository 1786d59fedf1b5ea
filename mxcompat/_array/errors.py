"""Errors with the messages of MLX's binding layer, for arguments that no overload of a function accepts."""

from __future__ import annotations

from operator import index
from typing import Any

__all__ = ["bad_cast", "expected", "incompatible", "no_derivative", "no_format", "small_int"]


def incompatible(function: str, what: str) -> TypeError:
    """Return the error for arguments of wrong types.

    Args:
        function: the name of the function, or "" if it is not known. In that case `what` begins in lower case.
        what: a sentence with the expected and the given arguments.
    """
    if not function:
        return TypeError(f"incompatible function arguments: {what}")
    return TypeError(f"{function}(): incompatible function arguments. {what}")


def expected(function: str, expectation: str, value: Any) -> TypeError:
    """Return the error for one argument of a wrong type: "Expected a Dtype, got str.", for example."""
    return incompatible(
        function, f"{'Expected' if function else 'expected'} {expectation}, got {type(value).__name__}."
    )


def bad_cast(why: str) -> RuntimeError:
    """Return the error for data that fit no dtype. MLX's message is only the name of the C++ error; a note gives the
    reason."""
    error = RuntimeError("std::bad_cast")
    error.add_note(why)
    return error


def no_format(dtype: str) -> ValueError:
    """Return the error for a dtype without a format in Python's buffer protocol, and so in NumPy."""
    return ValueError(f"{dtype!r} is not a valid PEP 3118 buffer format string")


def no_derivative(name: str, what: str, transform: str) -> str:
    """Return MLX's message for a derivative ("VJP" or "JVP") of an op with respect to an input without derivative."""
    return (
        f"[{name}] Cannot calculate {transform} with respect to {what}. Use stop_gradient on {what} to stop gradients "
        "from being computed."
    )


def small_int(value: Any, function: str, argument: str) -> int:
    """Return an argument as a plain int. Raises TypeError if it is not a 32-bit integer."""
    number = int(index(value)) if hasattr(value, "__index__") else None
    if number is None or not -(2**31) <= number < 2**31:
        raise incompatible(function, f"{argument} must be an int of 32 bits, got {value!r}.")
    return number
