"""The contract of `mx.fast.metal_kernel`: the checks, in MLX's order, and the signature that a call makes.

Real MLX for Linux makes every check and then says that there is no Metal. A call that it refuses before, for another
reason, is refused here for the same.
"""

import re

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as ours
from mxcompat._metal.signature import ATTRIBUTES, full_text
from mxcompat._ops.fast import metal_contract

DEFINITION = {"name": "k", "input_names": ["x"], "output_names": ["y"], "source": "y[0] = x[0];"}


def definition(**changes):
    return metal_contract.define(**{**DEFINITION, **changes})


def arguments(mx, changes):
    plain = {
        "inputs": [mx.ones(3)], "output_shapes": [(3,)], "output_dtypes": [mx.float32], "grid": (3, 1, 1),
        "threadgroup": (1, 1, 1),
    }  # fmt: skip
    return {**plain, **changes(mx)}


def launched(mx=ours, kernel=None, **changes):
    return metal_contract.launch(kernel or definition(), **arguments(mx, lambda mx: changes))[0]


CALLS = {
    "as it should be": lambda mx: {},
    "too many inputs": lambda mx: {"inputs": [mx.ones(3)] * 2},
    "no input": lambda mx: {"inputs": []},
    "an array as inputs": lambda mx: {"inputs": mx.ones(3)},
    "no input, no output": lambda mx: {"inputs": [], "output_shapes": [], "output_dtypes": []},
    "no output": lambda mx: {"output_shapes": [], "output_dtypes": []},
    "no dtype": lambda mx: {"output_dtypes": []},
    "a number": lambda mx: {"inputs": [1.0]},
    "a large number": lambda mx: {"inputs": [2**40]},
    "too large a number": lambda mx: {"inputs": [2**70]},
    "a complex number": lambda mx: {"inputs": [1j]},
    "a NumPy array": lambda mx: {"inputs": [np.ones(3)]},
    "a NumPy number": lambda mx: {"inputs": [np.float32(1)]},
    "a string": lambda mx: {"inputs": ["x"]},
    "a list": lambda mx: {"inputs": [[1, 2]]},
    "a tuple of inputs": lambda mx: {"inputs": (mx.ones(3),)},
    "None": lambda mx: {"inputs": [None]},
    "an object": lambda mx: {"inputs": [object()]},
    "inputs by name": lambda mx: {"inputs": {"x": mx.ones(3)}},
    "an iterator": lambda mx: {"inputs": iter([mx.ones(3)])},
    "text as inputs": lambda mx: {"inputs": "x"},
    "a string and no shape": lambda mx: {"inputs": ["x"], "output_shapes": []},
    "a dtype": lambda mx: {"template": [("T", mx.float32)]},
    "an int": lambda mx: {"template": [("N", -1)]},
    "a bool": lambda mx: {"template": [("B", True)]},
    "no template": lambda mx: {"template": None},
    "an empty template": lambda mx: {"template": ()},
    "a list for a pair": lambda mx: {"template": [["N", 1]]},
    "a float in the template": lambda mx: {"template": [("N", 1.5)]},
    "text in the template": lambda mx: {"template": [("N", "x")]},
    "None in the template": lambda mx: {"template": [("N", None)]},
    "a type in the template": lambda mx: {"template": [("N", float)]},
    "a NumPy int in the template": lambda mx: {"template": [("N", np.int32(3))]},
    "an array in the template": lambda mx: {"template": [("N", mx.array(3))]},
    "too large an int": lambda mx: {"template": [("N", 2**31)]},
    "a number as a name": lambda mx: {"template": [(1, 2)]},
    "a triple": lambda mx: {"template": [("T", mx.float32, 1)]},
    "a dict": lambda mx: {"template": {"T": 1}},
    "a wrong template and no input": lambda mx: {"template": [("N", 1.5)], "inputs": []},
    "a wrong template and a wrong input": lambda mx: {"template": [("N", 1.5)], "inputs": ["x"]},
    "two sizes": lambda mx: {"grid": (1, 1)},
    "sizes in a list": lambda mx: {"grid": [1, 1, 1]},
    "sizes in an array": lambda mx: {"grid": np.array([1, 1, 1])},
    "a NumPy size": lambda mx: {"grid": (np.int32(1), 1, 1)},
    "a bool as a size": lambda mx: {"grid": (True, 1, 1)},
    "a float as a size": lambda mx: {"grid": (1.0, 1, 1)},
    "too large a size": lambda mx: {"grid": (2**31, 1, 1)},
    "two sizes of a group": lambda mx: {"threadgroup": (1, 1)},
    "an empty grid": lambda mx: {"grid": (0, 1, 1)},
    "shape of a number": lambda mx: {"output_shapes": [()]},
    "shape in a list": lambda mx: {"output_shapes": [[3]]},
    "shape in a NumPy array": lambda mx: {"output_shapes": [np.array([3])]},
    "no sequence of shapes": lambda mx: {"output_shapes": [3]},
    "a float in a shape": lambda mx: {"output_shapes": [(3.0,)]},
    "a string as a dtype": lambda mx: {"output_dtypes": ["float32"]},
    "a type as a dtype": lambda mx: {"output_dtypes": [float]},
    "init_value": lambda mx: {"init_value": 1},
    "an array as init_value": lambda mx: {"init_value": mx.array(1.0)},
    "text as init_value": lambda mx: {"init_value": "x"},
    "verbose by a number": lambda mx: {"verbose": 1},
    "a stream": lambda mx: {"stream": mx.cpu},
    "no stream": lambda mx: {"stream": 3},
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_refused_as_by_mlx(name):
    changes, kinds = CALLS[name], (TypeError, ValueError, RuntimeError)
    with pytest.raises(kinds) as theirs:
        real.fast.metal_kernel(**DEFINITION)(**arguments(real, changes))
    if "No Metal back-end" in str(theirs.value):
        metal_contract.launch(definition(), **arguments(ours, changes))
        return
    with pytest.raises(kinds) as error:
        metal_contract.launch(definition(), **arguments(ours, changes))
    assert type(error.value) is type(theirs.value)
    if type(error.value) is ValueError:  # other exceptions have the binding layer's texts
        assert str(error.value) == str(theirs.value)


@pytest.mark.parametrize(
    "options",
    [None, {}, {"math_mode": "fast"}, {"math_mode": "x"}, {"mode": "x"}, {3: "x"}, {"math_mode": 3}, 3, "fast"],
    ids=repr,
)
@pytest.mark.parametrize("outputs", [["y"], []], ids=repr)
def test_compile_options(options, outputs):
    def kind(function):
        try:
            function(**{**DEFINITION, "output_names": outputs, "compile_options": options})
        except (ValueError, RuntimeError) as error:
            return type(error), str(error)
        return None

    assert kind(metal_contract.define) == kind(real.fast.metal_kernel)


def test_inputs_and_their_parameters():
    """Assert that numbers become references, and that `X_shape` and its kin are parameters if the source itself names
    them."""
    kernel = definition(input_names=["a", "b", "c"], source="a_shape; // b_strides c_shape", header="a_ndim b_shape")
    signature = launched(kernel=kernel, inputs=[ours.ones((2, 3, 4)), ours.ones((4, 2)), 3]).signature
    a, b, c = signature.inputs
    assert (a.wants_shape, a.wants_strides, a.wants_ndim) == (True, False, False)
    assert (b.wants_shape, b.wants_strides, b.wants_ndim) == (False, True, False)
    assert (c.wants_shape, c.wants_strides, c.wants_ndim) == (False, False, False), "a number has none"
    assert a.strides == (12, 4, 1)
    assert [parameter.is_reference for parameter in signature.inputs] == [False, False, True]
    assert [parameter.address_space for parameter in signature.inputs] == ["device", "device", "constant"]
    assert [parameter.dtype for parameter in signature.inputs] == ["float32", "float32", "int32"]


@pytest.mark.parametrize(("size", "space"), [(0, "constant"), (1, "constant"), (7, "constant"), (8, "device")])
def test_small_inputs_are_constants(size, space):
    (parameter,) = launched(inputs=[ours.ones(size)]).signature.inputs
    assert parameter.address_space == space
    assert not parameter.is_reference


def test_numbers_have_the_types_of_arrays_made_of_them():
    kernel = definition(input_names=list("abcd"))
    parameters = launched(kernel=kernel, inputs=[1, 1.0, True, 1j]).signature.inputs
    assert [one.dtype for one in parameters] == ["int32", "float32", "bool", "complex64"]


def test_attributes_are_found_by_name():
    source = "uint i = thread_position_in_grid.x; // threads_per_simdgroup"
    assert launched(kernel=definition(source=source, header="grid_size")).signature.attributes == (
        "thread_position_in_grid", "threads_per_simdgroup",
    )  # fmt: skip
    named = launched(kernel=definition(source=" ".join(ATTRIBUTES))).signature.attributes
    assert set(named) == set(ATTRIBUTES)


@pytest.mark.parametrize(
    ("grid", "group", "clipped"),
    [((1, 1, 1), (32, 1, 1), (1, 1, 1)), ((100, 3, 2), (32, 8, 4), (32, 3, 2)), ((0, 1, 1), (32, 1, 1), (0, 1, 1))],
)
def test_the_group_is_cut_to_the_grid(grid, group, clipped):
    launch = launched(grid=grid, threadgroup=group)
    assert (launch.grid, launch.threadgroup) == (grid, clipped)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threadgroup": (2048, 1, 1)}, r"Thread group size \(2048\) is greater than the maximum"),
        ({"threadgroup": (0, 1, 1)}, r"at least one thread, got \(0, 1, 1\)"),
        ({"grid": (-1, 1, 1)}, r"negative sizes, got \(-1, 1, 1\)"),
        ({"output_shapes": [(-3,)]}, r"Negative dimensions not allowed"),
        ({"output_dtypes": [ours.float64]}, r"`y` is of float64, which Metal lacks"),
        ({"inputs": [ours.ones(3, dtype=ours.float64)]}, r"`x` is of float64, which Metal lacks"),
        ({"template": [("T", ours.float64)]}, r"`T` is of float64, which Metal lacks"),
    ],
)
def test_what_a_device_would_refuse(changes, message):
    with pytest.raises(ValueError, match=r"^\[metal_kernel\] .*" + message):
        launched(**changes)


def test_a_signature_is_a_key():
    """Assert that equal calls have equal signatures, and that a bool in a template differs from an int."""
    assert hash(launched()) == hash(launched())
    assert launched() == launched()
    assert launched(template=[("N", 1)]) != launched(template=[("N", True)])
    assert launched(init_value=0).init_value == 0.0
    assert launched().init_value is None


TEXT = """
    #define ONE 1
    template <typename T, int N, bool B>
    [[kernel]] void custom_kernel_add_uint8_t_3_false(
      const device bfloat16_t* a [[buffer(0)]],
      const constant int* a_shape [[buffer(1)]],
      const constant float& s [[buffer(2)]],
      device atomic<int32_t>* out [[buffer(3)]])
"""


def test_the_text_that_verbose_prints():
    kernel = definition(
        name="add", input_names=["a", "s"], output_names=["out"], source="  out[0] = T(a[a_shape[0] - 1] + s);",
        header="#define ONE 1", atomic_outputs=True,
    )  # fmt: skip
    launch = launched(
        kernel=kernel, inputs=[ours.ones((4, 4), dtype=ours.bfloat16), 2.0], output_dtypes=[ours.int32],
        template=[("T", ours.uint8), ("N", 3), ("B", False)],
    )  # fmt: skip
    assert launch.signature.function == "custom_kernel_add_uint8_t_3_false"
    text = full_text(launch.signature, kernel.source, kernel.header)
    head, body = text.split("{", 1)
    assert head.split() == TEXT.split()
    assert kernel.source in body
    assert re.search(
        r'\[\[host_name\("custom_kernel_add_uint8_t_3_false"\)\]\].*decltype\(.*<uint8_t, 3, false>\)', body
    )
