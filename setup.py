"""What pyproject.toml cannot say: the C of what every program does all the time (mxcompat/_native). One build
serves all versions of Python from 3.11 on. Where there is no compiler it is left out, and nothing else is."""

import sysconfig

from setuptools import Extension, setup

FILES = ("in_c", "nodes", "code", "numbers", "arrays", "trees", "modules", "layout", "rows", "random")

NATIVE = Extension(
    "mxcompat._native.in_c",
    [f"mxcompat/_native/{name}.c" for name in FILES],
    depends=["mxcompat/_native/in_c.h"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)

if sysconfig.get_config_var("Py_GIL_DISABLED"):  # such a Python has no stable interface
    setup()
else:
    setup(ext_modules=[NATIVE], options={"bdist_wheel": {"py_limited_api": "cp311"}})
