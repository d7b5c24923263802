"""What Inductor may ask of a kernel and the generic kernel does not compute, each with its reason.

Together with `vector_ops.EMITTERS`, `decompositions.DECOMPOSED` and what the recorder takes itself this is Inductor's
whole list; a test holds them against it.
"""

from __future__ import annotations

__all__ = ["UNSUPPORTED"]

_BY_REASON = {
    "sorts, searches and partial reductions are not built yet": "partial_accumulate sort dot bucketize",
    "random numbers are not built yet; call eval() or use p=0 for dropout, pass random tensors in as inputs": (
        "load_seed rand randn randint64 rand_eager"
    ),
    "this special function has no lane implementation": (
        "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma gammainc gammaincc i0 i0e i1 i1e igamma igammac"
        " log_ndtr"
        " modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr ndtri polygamma"
        " scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 zeta"
        " chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w"
        " shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v"
        " shifted_chebyshev_polynomial_w legendre_polynomial_p hermite_polynomial_h hermite_polynomial_he"
        " laguerre_polynomial_l"
    ),
    "other backends' own operation; it does not reach this one": (
        "output placeholder halide_clamp inline_asm_elementwise"
    ),
}

UNSUPPORTED: dict[str, str] = {name: reason for reason, names in _BY_REASON.items() for name in names.split()}
"""Operation name to reason."""
