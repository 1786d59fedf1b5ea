"""What pyproject.toml cannot say: a few lines of C, by which arrays offer their memory (mxcompat/_array/exporter.py).
One build serves all versions of Python from 3.11 on. Where there is no compiler it is left out, and nothing else is."""

import sysconfig

from setuptools import Extension, setup

BUFFER = Extension(
    "mxcompat._array._buffer",
    ["mxcompat/_array/_buffer.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)

if sysconfig.get_config_var("Py_GIL_DISABLED"):  # such a Python has no stable interface
    setup()
else:
    setup(ext_modules=[BUFFER], options={"bdist_wheel": {"py_limited_api": "cp311"}})
