"""`mlx.core.linalg`, name for name. Re-exports only."""

from mxcompat._ops.linalg.decompositions import cholesky, qr, svd
from mxcompat._ops.linalg.eigen import eig, eigh, eigvals, eigvalsh
from mxcompat._ops.linalg.lu import det, lu, lu_factor, slogdet
from mxcompat._ops.linalg.norm import cross, norm
from mxcompat._ops.linalg.solve import cholesky_inv, inv, pinv, solve, solve_triangular, tri_inv

__all__ = [
    "cholesky", "cholesky_inv", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "lu_factor", "norm",
    "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "tri_inv",
]  # fmt: skip
