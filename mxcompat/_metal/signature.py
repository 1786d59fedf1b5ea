"""Signatures of kernels: the parameters that MLX generates in front of a body, as values, and the whole text.

A signature is hashable and holds plain Python values. With the source and the header it determines a kernel.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

__all__ = [
    "ATTRIBUTES", "TYPE_NAMES", "Input", "Output", "Signature", "TemplateValue", "as_tuples", "attributes_in",
    "full_text", "signature_from",
]  # fmt: skip

TYPE_NAMES = {
    "bool": "bool", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "float16": "float16_t",
    "bfloat16": "bfloat16_t", "float32": "float", "complex64": "complex64_t",
}  # fmt: skip
"""Metal's names of MLX's dtypes. Metal has no type for other dtypes."""

ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": "uint", "dispatch_simdgroups_per_threadgroup": "uint",
    "dispatch_threads_per_threadgroup": "uint3", "grid_origin": "uint3", "grid_size": "uint3",
    "quadgroup_index_in_threadgroup": "uint", "quadgroups_per_threadgroup": "uint",
    "simdgroup_index_in_threadgroup": "uint", "simdgroups_per_threadgroup": "uint", "thread_execution_width": "uint",
    "thread_index_in_quadgroup": "uint", "thread_index_in_simdgroup": "uint", "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3", "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3", "threadgroups_per_grid": "uint3", "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint", "threads_per_threadgroup": "uint3",
}  # fmt: skip
"""Types of Metal's attributes of a thread. The attributes that occur in the source become parameters of the kernel."""

_CONSTANT = 8
"""Number of elements below which an input is in Metal's constant address space."""


class Input(NamedTuple):
    """An input of a kernel.

    Args:
        name: its parameter.
        dtype: name of an MLX dtype, a key of `TYPE_NAMES`.
        shape: sizes of the axes.
        strides: elements from one index of an axis to the next.
        wants_shape, wants_strides, wants_ndim: True if there is a parameter `NAME_shape` and so on.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    wants_shape: bool = False
    wants_strides: bool = False
    wants_ndim: bool = False

    @property
    def is_reference(self) -> bool:
        """True if the parameter is a reference, as for each 0-d input, and False if it is a pointer."""
        return not self.shape

    @property
    def address_space(self) -> str:
        """The address space: "constant" or "device"."""
        return "constant" if math.prod(self.shape) < _CONSTANT else "device"


class Output(NamedTuple):
    """An output of a kernel. `is_atomic` is True if its elements are of type `atomic<T>`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_atomic: bool = False


class TemplateValue(NamedTuple):
    """A template parameter and its value. `kind` is "dtype" (the value is the name of a dtype), "int" or "bool"."""

    name: str
    kind: str
    value: str | int | bool

    @property
    def argument(self) -> str:
        """The value in Metal's syntax."""
        if self.kind == "dtype":
            return TYPE_NAMES[str(self.value)]
        return str(self.value).lower()


class Signature(NamedTuple):
    """Everything in front of a kernel's body.

    Args:
        name: its name.
        inputs, outputs, template: its parameters.
        attributes: those of `ATTRIBUTES` that are parameters.
        language: "metal" or "cuda".
        shared_memory: bytes of group memory for arrays that are declared without a size, in CUDA.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    template: tuple[TemplateValue, ...] = ()
    attributes: tuple[str, ...] = ()
    language: str = "metal"
    shared_memory: int = 0

    @property
    def function(self) -> str:
        """The name of the generated function."""
        return "_".join((f"custom_kernel_{self.name}", *(value.argument for value in self.template)))


def as_tuples(value: Any) -> Any:
    """Return the signature as nested plain tuples, which can be stored in files."""
    return tuple([as_tuples(part) for part in value]) if isinstance(value, tuple) else value


def signature_from(value: Any) -> Signature:
    """Return the signature from the result of `as_tuples`. Raises ValueError if the value is not a signature."""
    name, inputs, outputs, template, attributes, language, shared_memory = value
    signature = Signature(
        name, tuple([Input(*part) for part in inputs]), tuple([Output(*part) for part in outputs]),
        tuple([TemplateValue(*part) for part in template]), attributes, language, shared_memory,
    )  # fmt: skip
    names = [name, *[part.name for part in (*signature.inputs, *signature.outputs, *signature.template)]]
    dtypes = [part.dtype for part in (*signature.inputs, *signature.outputs)]
    sizes = [n for part in (*signature.inputs, *signature.outputs) for n in part.shape]
    if not all(isinstance(n, str) for n in names) or not all(type(n) is int and n >= 0 for n in sizes):
        raise ValueError("a signature of other types")
    if language not in ("metal", "cuda") or type(shared_memory) is not int:
        raise ValueError("a signature of an unknown language")
    if not set(dtypes) <= set(TYPE_NAMES) or not set(attributes) <= set(ATTRIBUTES):
        raise ValueError("a signature of unknown dtypes or attributes")
    return signature


def attributes_in(source: str) -> tuple[str, ...]:
    """Return the attributes that occur in a source, even in a comment."""
    return tuple(name for name in ATTRIBUTES if name in source)


def full_text(signature: Signature, source: str, header: str = "") -> str:
    """Return the text that `verbose` prints: header, generated signature, body and template instance."""
    lines, arguments = [], []
    if signature.template:
        kinds = {"dtype": "typename", "int": "int", "bool": "bool"}
        lines.append(f"template <{', '.join(f'{kinds[value.kind]} {value.name}' for value in signature.template)}>")
    for parameter in signature.inputs:
        kind = "&" if parameter.is_reference else "*"
        arguments.append((f"const {parameter.address_space} {TYPE_NAMES[parameter.dtype]}{kind} {parameter.name}", ""))
        if parameter.wants_shape:
            arguments.append((f"const constant int* {parameter.name}_shape", ""))
        if parameter.wants_strides:
            arguments.append((f"const constant int64_t* {parameter.name}_strides", ""))
        if parameter.wants_ndim:
            arguments.append((f"const constant int& {parameter.name}_ndim", ""))
    for output in signature.outputs:
        element = TYPE_NAMES[output.dtype]
        arguments.append((f"device {f'atomic<{element}>' if output.is_atomic else element}* {output.name}", ""))
    arguments = [(text, f"buffer({place})") for place, (text, _) in enumerate(arguments)]
    arguments += [(f"{ATTRIBUTES[name]} {name}", name) for name in signature.attributes]
    lines.append(f"[[kernel]] void {signature.function}(")
    lines.append(",\n".join(f"  {text} [[{attribute}]]" for text, attribute in arguments) + ") {")
    instance = ""
    if signature.template:
        named = f"{signature.function}<{', '.join(value.argument for value in signature.template)}>"
        instance = f'\n\ntemplate [[host_name("{signature.function}")]] [[kernel]] decltype({named}) {named};\n'
    return f"{header}\n" + "\n".join(lines) + f"\n{source}\n}}\n{instance}"
