"""What pyproject.toml cannot say: the C of what every program does all the time (mxcompat/_native). One build
serves all versions of Python from 3.11 on. Where there is no compiler it is left out, and nothing else is."""

import compileall
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

FILES = (
    "in_c", "nodes", "code", "numbers", "arrays", "trees", "modules", "layout", "memory", "rows", "random", "pool",
    "kernels", "tiles", "stored", "products", "convolve", "few_pixels", "attention", "quantized",
    "elementwise", "interrupts", "ffi",
)  # fmt: skip
HEADERS = ("in_c", "kernels", "kernels_of", "kernels_avx512", "kernels_avx2", "kernels_plain", "ffi")

NATIVE = Extension(
    "mxcompat._native.in_c",
    [f"mxcompat/_native/{name}.c" for name in FILES],
    depends=[f"mxcompat/_native/{name}.h" for name in HEADERS],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    py_limited_api=True,
    optional=True,
)


class Build(build_ext):
    """Building with what loops over arrays need of a compiler that has the options of GCC."""

    def run(self) -> None:
        super().run()
        if self.inplace or self.editable_mode:
            # pip compiles other installations to bytecode. Without it, an import takes five times as long, and Python
            # does not write it itself where PYTHONDONTWRITEBYTECODE is set, as in many containers.
            compileall.compile_dir("mxcompat", quiet=1)

    def build_extension(self, ext: Extension) -> None:
        if self.compiler.compiler_type == "unix":
            # Products and sums are rounded apart wherever the code does not ask for both at once. Loops of square roots
            # become vectors only if a root need not set errno.
            ext.extra_compile_args = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-pthread"]
            ext.extra_link_args = ["-pthread"]
        try:
            super().build_extension(ext)
        except CompileError:  # of a compiler that has not all of these
            ext.extra_compile_args = []
            super().build_extension(ext)


if sysconfig.get_config_var("Py_GIL_DISABLED"):  # such a Python has no stable interface
    setup()
else:
    setup(ext_modules=[NATIVE], cmdclass={"build_ext": Build}, options={"bdist_wheel": {"py_limited_api": "cp311"}})
