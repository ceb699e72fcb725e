"""The backward sums each window once: accurate, deterministic, the exact transpose.

The silent bugs guarded here: sums kept in bfloat16 (1 -> 4096 gives 256), gradients
that change from run to run, and a backward that is not the forward's transpose.
"""

import jax
import numpy as np
import oracle
import pytest
from conftest import poison
from test_forward import by_layout

from jax_upsample import upsample_nearest


def transpose(x_like, scale, axes, implementation):
    """The transpose of the upsampling that takes an array like `x_like`."""
    return jax.jit(
        lambda g: jax.linear_transpose(
            lambda x: upsample_nearest(
                x, scale, axes=axes, implementation=implementation
            ),
            x_like,
        )(g)[0]
    )


def check_window_sums(shape, axes, scale, dtype, implementation):
    x_like = jax.ShapeDtypeStruct(shape, oracle.dtype_of(dtype))
    large = oracle.upsample(np.zeros(shape, np.uint8), axes, scale).shape
    g = oracle.random_normal(large, dtype)
    if dtype in oracle.FLOATS_8:
        g = (g.astype(np.float32) / 4).astype(
            g.dtype
        )  # sums stay below 15.5, e3m4's end
    poison(shape, g.dtype)
    sums = transpose(x_like, scale, axes, implementation)(g)
    assert sums.dtype == g.dtype
    assert sums.shape == shape
    oracle.assert_summed(sums, g, axes, scale, implementation)


@by_layout
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "complex64"])
def test_every_layout_sums_its_windows(shape, axes, scale, dtype, implementation):
    check_window_sums(shape, axes, scale, dtype, implementation)


@pytest.mark.parametrize("dtype", [*oracle.FLOATS, *oracle.COMPLEX, *oracle.INTEGERS])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize("scale", [2, 3, 7])
def test_every_dtype_sums_its_windows(dtype, axes, scale, implementation):
    check_window_sums((2, 4, 8, 16), axes, scale, dtype, implementation)


@pytest.mark.parametrize("dtype", oracle.FLOATS_8 + ("float16", "bfloat16"))
def test_every_code_of_a_small_float_is_read(dtype, kernel):
    """Subnormals, infinities and NaNs decode as ml_dtypes says: window (code, 0)."""
    size = oracle.dtype_of(dtype).itemsize
    codes = np.arange(256**size, dtype=f"uint{8 * size}").view(oracle.dtype_of(dtype))
    g = np.stack([codes, np.zeros_like(codes)], 1).reshape(-1)
    x_like = jax.ShapeDtypeStruct(codes.shape, codes.dtype)
    sums = np.asarray(transpose(x_like, 2, (0,), kernel)(g), np.float32)
    wanted = codes.astype(np.float32)
    # XLA:CPU may flush what is subnormal in float32, which only bfloat16 holds.
    tiny = np.abs(wanted) < np.finfo(np.float32).tiny
    np.testing.assert_array_equal(sums[~tiny], wanted[~tiny])
    assert np.all((sums[tiny] == wanted[tiny]) | (sums[tiny] == 0))


@pytest.mark.parametrize("dtype", oracle.FLOATS_8 + ("float16", "bfloat16"))
def test_every_rounding_of_a_small_float(dtype, kernel):
    """Sums of two codes round to nearest even and overflow as ml_dtypes says."""
    size = oracle.dtype_of(dtype).itemsize
    rng = np.random.default_rng(0)
    if size == 1:
        pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256)), -1).reshape(-1, 2)
    else:
        pairs = rng.integers(0, 65536, (200_000, 2))
    g = pairs.astype(f"uint{8 * size}").view(oracle.dtype_of(dtype))
    x_like = jax.ShapeDtypeStruct((len(pairs),), g.dtype)
    sums = np.asarray(transpose(x_like, 2, (0,), kernel)(g.reshape(-1)))
    with np.errstate(all="ignore"):
        exact = g.astype(np.float32).sum(1, dtype=np.float32)
        wanted = exact.astype(g.dtype).astype(np.float32)
    tiny = np.abs(np.column_stack([g.astype(np.float32), exact]))
    normal = ~((tiny > 0) & (tiny < np.finfo(np.float32).tiny)).any(1)  # as above
    np.testing.assert_array_equal(sums.astype(np.float32)[normal], wanted[normal])


@pytest.mark.parametrize(
    ("small", "large"), [((1, 1), (64, 64)), ((1, 1), (512, 512)), ((2, 3), (64, 96))]
)
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_large_windows(small, large, axes, dtype, implementation):
    scale = (large[0] // small[0], large[1] // small[1])
    shape = (1, *small, 8) if axes == (1, 2) else (1, 3, *small)
    check_window_sums(shape, axes, scale, dtype, implementation)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_gradient_holds_infinities_and_nans(dtype, implementation):
    """inf stays inf (compensation must not make it NaN), inf - inf and NaN are NaN."""
    g = np.ones((5, 4), oracle.dtype_of(dtype))
    g[0, 0] = np.inf
    g[1, 2] = -np.inf
    g[2, :2] = np.inf, -np.inf
    g[3, 3] = np.nan
    x_like = jax.ShapeDtypeStruct((5, 1), g.dtype)
    sums = transpose(x_like, 4, (1,), implementation)(g)
    np.testing.assert_array_equal(
        np.asarray(sums, np.float64)[:, 0], [np.inf, -np.inf, np.nan, np.nan, 4]
    )


def test_kernel_float32_sums_are_rounded_once(kernel):
    """1e8 + 1 - 1e8 - 0.5 .. in float32: plain summation loses what remains."""
    g = np.float32([[1e8, 1.0, -1e8, -0.5], [3e7, 0.125, 0.25, -3e7]])
    x_like = jax.ShapeDtypeStruct((2, 1), np.float32)
    sums = transpose(x_like, 4, (1,), kernel)(g)
    np.testing.assert_array_equal(np.asarray(sums)[:, 0], [0.5, 0.375])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradient_is_deterministic(dtype, implementation):
    g = oracle.random_normal((2, 64, 64, 24), dtype)
    backward = transpose(
        jax.ShapeDtypeStruct((2, 4, 4, 24), g.dtype), 16, (1, 2), implementation
    )
    first = np.asarray(backward(g)).tobytes()
    assert all(np.asarray(backward(g)).tobytes() == first for _ in range(20))


@by_layout
def test_backward_is_the_transpose(shape, axes, scale, implementation):
    """<up(x), g> == <x, down(g)>, exactly: the values are small integers."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    y = upsample_nearest(x, scale, axes=axes, implementation=implementation)
    g = rng.integers(-9, 9, y.shape).astype(np.float32)
    down = transpose(x, scale, axes, implementation)(g)
    assert np.vdot(np.float64(y), g) == np.vdot(np.float64(x), down)
