# SPDX-License-Identifier: Apache-2.0
"""Linear algebra room: ``paddle.linalg``, thin forms over the factorisation rows of the op table.

Everything is batched over leading axes; empty batches are fine. Complex eigenvalues have no kernels yet.
"""
import math

from . import _core
from .tensor_algebra import cdist, cross, dot, mv  # noqa: F401
from .tensor_ops import full, norm  # noqa: F401

ops = _core.ops
Tensor = _core.Tensor
eigh = ops.eigh

__all__ = [
    "cholesky", "cholesky_solve", "cholesky_inverse", "cond", "corrcoef", "cov", "cross", "det", "eigh", "eigvalsh", "inv", "inverse",
    "lstsq", "lu", "lu_unpack", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "triangular_solve", "vecdot", "vector_norm", "matrix_exp",
]


def _common(x, y):
    """Both expanded to their common batch."""
    from .tensor_ops import broadcast_shape
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    return (x.broadcast_to(batch + x.shape[-2:]) if x.shape[:-2] != batch else x,
            y.broadcast_to(batch + y.shape[-2:]) if y.shape[:-2] != batch else y)


def _eye_like(x):
    return ops.eye_static(x.shape[-2], x.shape[-1], x.dtype)


def matrix_transpose(x, name=None):
    """The last two axes exchanged."""
    return ops.swapaxes(x, -1, -2)


def cholesky(x, upper=False, name=None):
    """Triangular factor of symmetric positive definite matrices."""
    return matrix_transpose(ops.cholesky_lower(matrix_transpose(x))) if upper else ops.cholesky_lower(x)


def cholesky_solve(x, y, upper=False, name=None):
    """z with A z = x, where ``y`` is the Cholesky factor of A."""
    a, b = _common(y, x)
    first, second = (matrix_transpose(a), a) if upper else (a, matrix_transpose(a))
    return ops.triangular_core(second, ops.triangular_core(first, b, False, False), True, False)


def cholesky_inverse(x, upper=False, name=None):
    """Inverse of the matrix whose Cholesky factor is ``x``."""
    return cholesky_solve(_eye_like(x).broadcast_to(x.shape), x, upper)


def solve(x, y, left=True, name=None):
    """z with x z = y (z x = y when ``left`` is False); ``y`` may be a vector."""
    if not left:
        return matrix_transpose(solve(matrix_transpose(x), matrix_transpose(y)))
    vector = y.ndim == 1
    a, b = _common(x, y.unsqueeze(-1) if vector else y)
    out = ops.solve_core(a, b, "solve")
    return out.squeeze(-1) if vector else out


def triangular_solve(x, y, upper=True, transpose=False, unitriangular=False, name=None):
    """z with x z = y for triangular ``x``."""
    a, b = _common(matrix_transpose(x) if transpose else x, y)
    return ops.triangular_core(a, b, upper != transpose, unitriangular)


def inv(x, name=None):
    """Inverse matrices; ValueError for a singular one."""
    return ops.solve_core(x, _eye_like(x).broadcast_to(x.shape), "inv")


inverse = inv


def slogdet(x, name=None):
    """Sign and logarithm of the absolute determinant, stacked along a new first axis."""
    return ops.stack(list(ops.slogdet_core(x)), 0)


def det(x, name=None):
    """Determinants."""
    sign, log = ops.slogdet_core(x)
    return sign * ops.exp(log)


def lu(x, pivot=True, get_infos=False, name=None):
    """LU factors in one matrix and row exchanges (from 1); with ``get_infos`` also zeros."""
    factors, pivots = ops.lu_core(x)
    return (factors, pivots, full(x.shape[:-2], 0, "int32")) if get_infos else (factors, pivots)


def lu_unpack(x, y, unpack_ludata=True, unpack_pivots=True, name=None):
    """P, L and U of what ``lu`` gives (one matrix)."""
    n = x.shape[-1]
    order = list(range(n))
    for i, p in enumerate(y.tolist()):
        order[i], order[p - 1] = order[p - 1], order[i]
    eye = ops.eye_static(n, n, x.dtype)
    from .tensor import to_tensor
    rows = ops.index_axis(eye, to_tensor(order, "int64"), 0, "lu_unpack")
    return matrix_transpose(rows), ops.tril(x, -1) + eye, ops.triu(x)


def qr(x, mode="reduced", name=None):
    """Q and R ('reduced' or 'complete'), or only R ('r')."""
    if mode == "r":
        return ops.qr_core(x, "reduced")[1]
    return ops.qr_core(x, mode)


def svd(x, full_matrices=False, name=None):
    """U, singular values and V^H."""
    if full_matrices and x.shape[-1] != x.shape[-2]:
        raise NotImplementedError("svd: full_matrices=True of a matrix that is not square is not built; expected False.")
    return ops.svd_core(x)


def svdvals(x, name=None):
    """Singular values, descending."""
    return ops.svd_core(x)[1]


def eigvalsh(x, UPLO="L", name=None):
    """Eigenvalues of symmetric matrices, ascending."""
    return eigh(x, UPLO)[0]


def pinv(x, rcond=1e-15, hermitian=False, name=None):
    """Pseudo-inverse; singular values at most rcond * the largest count as 0."""
    u, s, vh = ops.svd_core(x)
    limit = ops.max(s, [-1], True) * rcond
    keep = ops.greater_than(s, limit)
    inverse_s = ops.where(keep, 1.0 / ops.where(keep, s, 1.0), 0.0)
    return ops.matmul(matrix_transpose(vh) * inverse_s.unsqueeze(-2), u, False, True)


def matrix_rank(x, tol=None, hermitian=False, atol=None, rtol=None, name=None):
    """How many singular values are above the tolerance."""
    s = ops.svd_core(x)[1]
    eps = {"float64": 2.220446049250313e-16}.get(x.dtype.name, 1.1920929e-07)
    if tol is None and atol is None and rtol is None:
        rtol = eps * max(x.shape[-2:])
    limit = ops.max(s, [-1], True) * (rtol or 0.0)
    floor = tol if tol is not None else atol
    if floor is not None:
        limit = ops.maximum(limit, floor)
    return ops.sum(ops.greater_than(s, limit), -1, "int64")


def matrix_power(x, n, name=None):
    """x multiplied n times; the inverse for negative n."""
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(f"matrix_power: the matrix is not square, got shape {x.shape}.")
    if n < 0:
        return matrix_power(inv(x), -n)
    out, base = None, x
    while n:
        if n & 1:
            out = base if out is None else ops.matmul(out, base)
        n >>= 1
        base = ops.matmul(base, base) if n else base
    return ops.assign(_eye_like(x).broadcast_to(x.shape)) if out is None else out


def matrix_exp(x, name=None):
    """Matrix exponential by scaling (2^-10) and a Taylor series of degree 12."""
    a = x * 2.0**-10
    eye = _eye_like(x)
    out = eye + a * (1.0 / 12)
    for k in range(11, 0, -1):
        out = eye + ops.matmul(a * (1.0 / k), out)
    for _ in range(10):
        out = ops.matmul(out, out)
    return out


def multi_dot(x, name=None):
    """Product of matrices in the cheapest order."""
    n = len(x)
    if n < 2:
        raise ValueError(f"multi_dot: too few matrices, got {n}; expected at least two.")
    left, right = x[0].ndim == 1, x[-1].ndim == 1
    x = [x[0].unsqueeze(0) if left else x[0], *x[1:-1], x[-1].unsqueeze(-1) if right else x[-1]]
    size = [t.shape[-2] for t in x] + [x[-1].shape[-1]]
    best = {(i, i): (0, i) for i in range(n)}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + size[i] * size[k + 1] * size[j + 1], k) for k in range(i, j))

    def product(i, j):
        if i == j:
            return x[i]
        k = best[i, j][1]
        return ops.matmul(product(i, k), product(k + 1, j))

    out = product(0, n - 1)
    out = out.squeeze(0) if left else out
    return out.squeeze(-1) if right else out


def lstsq(x, y, rcond=None, driver=None, name=None):
    """Least squares: solution, residuals, rank and singular values."""
    u, s, vh = ops.svd_core(x)
    eps = {"float64": 2.220446049250313e-16}.get(x.dtype.name, 1.1920929e-07)
    limit = ops.max(s, [-1], True) * (eps * max(x.shape[-2:]) if rcond is None else rcond)
    keep = ops.greater_than(s, limit)
    inverse_s = ops.where(keep, 1.0 / ops.where(keep, s, 1.0), 0.0)
    z = ops.matmul(vh, inverse_s.unsqueeze(-1) * ops.matmul(u, y, True, False), True, False)
    tall = x.shape[-2] > x.shape[-1]
    residuals = ops.sum(ops.square(ops.matmul(x, z) - y), -2) if tall else full([0], 0.0, x.dtype)
    return z, residuals, ops.sum(keep, -1, "int32"), s


def cond(x, p=None, name=None):
    """Condition number: the norm of x times that of its inverse."""
    if p in (None, 2, -2):
        s = ops.svd_core(x)[1]
        big, small = ops.max(s, -1), ops.min(s, -1)
        return big / small if p != -2 else small / big
    return matrix_norm(x, p) * matrix_norm(inv(x), p)


def nuclear_norm(x, axis, keepdim):
    """Sum of singular values over two axes."""
    axis = [0, 1] if axis is None and x.ndim == 2 else [a % x.ndim for a in axis]
    rest = [a for a in range(x.ndim) if a not in axis]
    out = ops.sum(ops.svd_core(x.transpose(rest + axis))[1], -1, x.dtype)
    return out.reshape([1 if k in axis else n for k, n in enumerate(x.shape)]) if keepdim else out


def matrix_norm(x, p="fro", axis=[-2, -1], keepdim=False, name=None):  # noqa: B006
    """Norm of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf."""
    a, b = (v % x.ndim for v in axis)
    if p == "fro":
        return ops.p_norm(x, 2.0, [a, b], keepdim)
    if p == "nuc":
        return nuclear_norm(x, [a, b], keepdim)
    if p in (2, -2):
        rest = [k for k in range(x.ndim) if k not in (a, b)]
        s = ops.svd_core(x.transpose(rest + [a, b]))[1]
        out = ops.max(s, -1) if p > 0 else ops.min(s, -1)
        return out.reshape([1 if k in (a, b) else n for k, n in enumerate(x.shape)]) if keepdim else out
    if abs(p) not in (1, math.inf):
        raise ValueError(f"matrix_norm: unknown p, got {p!r}; expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf.")
    inner, outer = (a, b) if abs(p) == 1 else (b, a)
    sums = ops.sum(ops.abs(x), inner, x.dtype, True)
    out = ops.max(sums, outer, True) if p > 0 else ops.min(sums, outer, True)
    return out if keepdim else out.squeeze([a, b])


def vector_norm(x, p=2.0, axis=None, keepdim=False, name=None):
    """p-norm of vectors over axes."""
    return ops.p_norm(x, float(p), axis if axis is None or isinstance(axis, int) else list(axis), keepdim)


def vecdot(x, y, axis=-1, name=None):
    """Sum of products along an axis."""
    return ops.sum(x * y, axis, x.dtype)


def cov(x, rowvar=True, ddof=True, fweights=None, aweights=None, name=None):
    """Covariance matrix of variables in rows (columns when ``rowvar`` is False)."""
    x = x.unsqueeze(0) if x.ndim < 2 else x
    x = x if rowvar or x.shape[0] == 1 else matrix_transpose(x)
    w = None
    if fweights is not None:
        w = fweights.astype(x.dtype)
    if aweights is not None:
        w = aweights.astype(x.dtype) if w is None else w * aweights.astype(x.dtype)
    n = x.shape[1]
    if w is None:
        d = x - ops.mean(x, 1, True)
        return ops.matmul(d, d, False, True) / float(n - 1 if ddof else n)
    total = ops.sum(w)
    d = x - (ops.sum(x * w, 1, x.dtype) / total).unsqueeze(1)
    divisor = total
    if ddof:
        divisor = total - (1.0 if aweights is None else ops.sum(w * aweights.astype(x.dtype)) / total)
    return ops.matmul(d * w, d, False, True) / divisor


def corrcoef(x, rowvar=True, name=None):
    """Correlation matrix of variables in rows."""
    c = cov(x, rowvar)
    d = ops.sqrt(ops.diagonal(c))
    return ops.clip(c / (d.unsqueeze(0) * d.unsqueeze(1)), -1.0, 1.0)


for _name in __all__:
    if _name not in ("multi_dot", "lu_unpack"):
        setattr(Tensor, _name, globals()[_name])
del _name
