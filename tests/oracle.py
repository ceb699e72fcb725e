"""Nearest upsampling in numpy: shares no code with the package.

Also the bound that a sum must keep, as a function of dtype and number of terms.
"""

import math

import ml_dtypes
import numpy as np

FLOATS_8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
FLOATS = (*FLOATS_8, "float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
# Every dtype of whole bytes that JAX has. float8_e8m0fnu has no sign, no zero and no
# gradient worth the name, so it is forward only.
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX, "float8_e8m0fnu")


def dtype_of(name):
    """numpy's or ml_dtypes' dtype of that name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def random_bits(shape, dtype, seed=0):
    """Random bit patterns: NaN payloads, infinities, subnormals, negative zeros."""
    dtype = dtype_of(dtype)
    rng = np.random.default_rng(seed)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    bits = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def random_normal(shape, dtype, seed=0):
    """Normal deviates, rounded to `dtype`."""
    dtype = dtype_of(dtype)
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _by_axis(rank, axes, scale):
    scales = (scale,) * len(axes) if isinstance(scale, int) else scale
    return {a % rank: s for a, s in zip(axes, scales, strict=True)}


def upsample(x, axes, scale):
    """Each element repeated along each axis: `np.repeat`, on bytes."""
    y = x.view(f"V{x.dtype.itemsize}")  # bytes: no dtype can interfere
    for axis, factor in _by_axis(x.ndim, axes, scale).items():
        y = np.repeat(y, factor, axis)
    return y.view(x.dtype)


def window_sums(g, axes, scale):
    """Each window of the large array `g` summed exactly, and the sum of magnitudes.

    Both in float64 or complex128 (in int64 for integers), by `math.fsum` term by term
    in effect: float64 sums of values of at most float32 are compared with bounds that
    are wider than their own error by 2^29.
    """
    wide = {"c": np.complex128, "i": np.int64, "u": np.uint64}.get(g.dtype.kind)
    values = g.astype(wide or np.float64)
    shape, places = [], []
    by_axis = _by_axis(g.ndim, axes, scale)
    for axis, size in enumerate(g.shape):
        factor = by_axis.get(axis, 1)
        shape += [size // factor, factor]
        places.append(len(shape) - 1)
    windows = values.reshape(shape)
    return windows.sum(tuple(places)), np.abs(windows).sum(tuple(places))


def half_ulp(exact, dtype):
    """Half the spacing of `dtype` around `exact`: the error of one rounding."""
    info = ml_dtypes.finfo(dtype)
    magnitude = np.maximum(np.abs(exact), float(info.smallest_normal))
    return 2.0 ** (np.floor(np.log2(magnitude)) - info.nmant - 1)


def assert_summed(actual, g, axes, scale, implementation):
    """`actual` is the window sums of `g`, rounded once to its dtype.

    On top of the one rounding come the errors of the accumulator, for n terms at most
    (n - 1) u sum|g| with the unit roundoff u of float32 (of float64 for float64), and
    for float32 in the kernels, which compensate, n^2 u^2 sum|g|: Ogita, Rump and
    Oishi (2005), equation 4.7.
    """
    actual = np.asarray(actual)
    if actual.dtype.kind == "c":
        for part in ("real", "imag"):
            assert_summed(
                getattr(actual, part), getattr(g, part), axes, scale, implementation
            )
        return
    exact, magnitudes = window_sums(g, axes, scale)
    if actual.dtype.kind in "iu":
        np.testing.assert_array_equal(actual, exact.astype(actual.dtype))
        return
    terms = math.prod(_by_axis(g.ndim, axes, scale).values())
    roundoff = 2.0**-53 if actual.dtype == np.float64 else 2.0**-24
    if actual.dtype == np.float32 and implementation == "kernel":
        accumulated = (terms * roundoff) ** 2
    else:
        accumulated = (terms - 1) * roundoff
    bound = half_ulp(exact, actual.dtype) + accumulated * magnitudes
    if actual.dtype == np.float64:
        bound = 2 * (bound + accumulated * magnitudes)  # the oracle rounds too
    error = np.abs(actual.astype(np.float64) - exact)
    assert np.all(error <= bound * (1 + 1e-6)), (
        f"error {np.max(error / bound):.3g} times its bound"
    )
