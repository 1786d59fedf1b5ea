"""The environment: a separate Python with JAX for the accelerator, and MLX for CUDA if it can be installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["device", "prepared"]

ROOT = Path(__file__).parent.parent.parent


def prepared(folder: Path, extra: str) -> Path:
    """Return the Python of the environment in a folder, after creating it if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", f"{ROOT}[{extra},test]"], check=True)
    if extra == "cuda":
        _install_mlx(python)
    return python


def _install_mlx(python: Path) -> None:
    """Install MLX's CUDA back-end, in the version of the tests, if there is a wheel for this machine.

    Without it real MLX computes on the CPU. The tests accept that, and the tables say so.
    """
    try:
        release = version("mlx")
    except PackageNotFoundError:
        release = subprocess.check_output(
            [str(python), "-c", "from importlib.metadata import version; print(version('mlx'))"], text=True
        ).strip()
    process = subprocess.run([str(python), "-m", "pip", "install", "-q", f"mlx[cuda13]=={release}"])
    if process.returncode:
        print("No wheel of MLX for CUDA installs here: real MLX computes on the CPU.")


def device() -> str:
    """Return JAX's devices, queried in a separate process so that the GPU's memory stays free for measurements."""
    code = "import jax; d = jax.devices(); print(d[0].platform, d[0].device_kind, len(d), sep=', ')"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()
