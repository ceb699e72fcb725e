"""The forward copies bits: equal to jnp.repeat and jax.image.resize to the last."""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import poison

from jax_upsample import upsample_nearest

# (shape, axes, scale): every place of one to three axes, odd sizes, C = 3, vectors that
# fit and that do not, compile-time scales (last axis 2 to 4) and others.
LAYOUTS = {
    "NHWC": ((2, 3, 5, 16), (1, 2), 2),
    "NHWC-C3": ((2, 3, 5, 3), (1, 2), 2),
    "NHWC-C1": ((2, 4, 3, 1), (1, 2), 3),
    "NHWC-C6-x4": ((1, 3, 2, 6), (1, 2), 4),
    "NHWC-C32-2x3": ((2, 3, 4, 32), (1, 2), (2, 3)),
    "NCHW": ((2, 3, 4, 8), (2, 3), 2),
    "NCHW-odd": ((2, 3, 5, 7), (2, 3), 2),
    "NCHW-x3": ((2, 2, 3, 16), (2, 3), 3),
    "NCHW-x4": ((2, 2, 3, 16), (2, 3), 4),
    "NCHW-x5": ((2, 2, 3, 4), (2, 3), 5),
    "NCHW-1x2": ((2, 3, 5, 7), (2, 3), (1, 2)),
    "NCHW-2x1": ((2, 3, 5, 7), (2, 3), (2, 1)),
    "NCHW-7x17": ((1, 2, 3, 2), (2, 3), (7, 17)),
    "NCHW-x8": ((1, 2, 3, 5), (2, 3), 8),
    "NCHW-1x1-x2": ((3, 5, 1, 1), (2, 3), 2),
    "NHWC-C5-odd": ((1, 3, 3, 5), (1, 2), 3),
    "NDHWC-odd": ((2, 3, 2, 3, 3), (1, 2, 3), (2, 1, 3)),
    "NCDHW-odd": ((1, 3, 3, 2, 3), (2, 3, 4), 3),
    "NWC": ((3, 5, 4), (1,), 2),
    "NCW": ((3, 5, 6), (2,), 3),
    "W": ((37,), (0,), 2),
    "W-x300": ((1,), (0,), 300),
    "NDHWC": ((2, 2, 3, 4, 5), (1, 2, 3), 2),
    "NCDHW": ((2, 3, 2, 3, 4), (2, 3, 4), (2, 3, 4)),
    "NCDHW-5x1x2": ((1, 2, 2, 3, 8), (2, 3, 4), (5, 1, 2)),
    "apart": ((3, 2, 4, 5), (0, 2), 2),
    "apart-3": ((2, 3, 2, 3, 2, 3), (1, 3, 5), (2, 3, 2)),
    "first-last": ((3, 4, 5), (0, -1), (2, 3)),
    "descending": ((2, 3, 4, 5), (2, 1), (3, 2)),
    "1x1-to-64x64": ((2, 1, 1, 8), (1, 2), 64),
    "NCHW-1x1-to-64x64": ((2, 3, 1, 1), (2, 3), 64),
}


def by_layout(function):
    return pytest.mark.parametrize(
        ("shape", "axes", "scale"), LAYOUTS.values(), ids=LAYOUTS.keys()
    )(function)


@by_layout
@pytest.mark.parametrize(
    "dtype", ["uint8", "bfloat16", "float32", "float64", "complex128"]
)
def test_every_layout_repeats_bits(shape, axes, scale, dtype, implementation):
    """NaN payloads and negative zeros included; a unit of 1, 2, 4, 8 and 16 bytes."""
    x = oracle.random_bits(shape, dtype)
    wanted = oracle.upsample(x, axes, scale)
    poison(wanted.shape, x.dtype)
    y = upsample_nearest(
        jnp.asarray(x), scale, axes=axes, implementation=implementation
    )
    assert y.dtype == x.dtype
    assert y.shape == wanted.shape
    assert np.asarray(y).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", oracle.DTYPES)
@pytest.mark.parametrize("axes", [(1, 2), (2, 3)], ids=["NHWC", "NCHW"])
def test_every_dtype_repeats_bits(dtype, axes, implementation):
    x = oracle.random_bits((2, 4, 8, 16), dtype)
    y = jax.jit(
        lambda x: upsample_nearest(x, 2, axes=axes, implementation=implementation)
    )(x)
    assert y.dtype == x.dtype
    assert np.asarray(y).tobytes() == oracle.upsample(x, axes, 2).tobytes()


@by_layout
def test_equals_image_resize_and_repeat(shape, axes, scale, implementation):
    """The promise of the docstring, against the installed JAX itself."""
    x = jnp.asarray(oracle.random_normal(shape, "float32"))
    y = upsample_nearest(x, scale, axes=axes, implementation=implementation)
    scales = (scale,) * len(axes) if isinstance(scale, int) else scale
    repeated = x
    for axis, factor in zip(axes, scales, strict=True):
        repeated = jnp.repeat(repeated, factor, axis)
    resized = jax.jit(jax.image.resize, static_argnums=(1, 2))(x, y.shape, "nearest")
    np.testing.assert_array_equal(y, repeated)
    np.testing.assert_array_equal(y, resized)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float4_e2m1fn"])
def test_packed_dtypes_take_the_plain_form(dtype):
    """XLA packs elements of less than a byte: a kernel would overrun its buffer."""
    if not hasattr(jnp, dtype):
        pytest.skip(f"this jax has no {dtype}")
    values = jnp.asarray(np.arange(6).reshape(2, 3) % 2, jnp.float32).astype(dtype)
    y = upsample_nearest(values, 2, axes=(0, 1))
    wanted = np.repeat(np.repeat(np.arange(6).reshape(2, 3) % 2, 2, 0), 2, 1)
    assert y.dtype == values.dtype
    np.testing.assert_array_equal(np.asarray(y.astype(jnp.float32)), wanted)


def test_prng_keys_are_repeated():
    keys = jax.random.split(jax.random.key(0), (2, 3))
    y = upsample_nearest(keys, 2, axes=(0, 1))
    wanted = np.repeat(np.repeat(jax.random.key_data(keys), 2, 0), 2, 1)
    np.testing.assert_array_equal(jax.random.key_data(y), wanted)


@pytest.mark.parametrize(
    "shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)]
)
def test_empty_arrays(shape, implementation):
    y = upsample_nearest(jnp.zeros(shape), 2, implementation=implementation)
    n, h, w, c = shape
    assert y.shape == (n, 2 * h, 2 * w, c)


@pytest.mark.parametrize("scale", [1, (1, 1)])
def test_scale_one_is_no_operation(scale, implementation):
    x = jnp.ones((2, 3, 4, 5))
    jaxpr = jax.make_jaxpr(
        lambda x: upsample_nearest(x, scale, implementation=implementation)
    )(x)
    assert not jaxpr.eqns


@pytest.mark.parametrize("rank", range(1, 7))
def test_ranks_one_to_six(rank, implementation):
    shape = tuple(range(2, 2 + rank))
    x = oracle.random_bits(shape, "float32")
    axes = tuple(range(rank))[-3:]
    y = upsample_nearest(x, 2, axes=axes, implementation=implementation)
    assert np.asarray(y).tobytes() == oracle.upsample(x, axes, 2).tobytes()


def test_plain_and_kernel_agree_inside_one_program(kernel):
    """Both in one jitted program: neither disturbs the other's buffers."""
    x = oracle.random_bits((2, 4, 4, 8), "uint32")

    @jax.jit
    def both(x):
        forms = [upsample_nearest(x, 2, implementation=i) for i in (kernel, "xla")]
        return (forms[0] == forms[1]).all()

    assert both(x)
