"""More than 2^31 elements: many gigabytes, so only on request (`pytest -m large`).

PyTorch once returned zeros past 2^31 elements; the guard is to look there.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_upsample import resize_nearest, upsample_nearest

pytestmark = pytest.mark.large


@pytest.mark.parametrize(
    ("shape", "axes", "scale"),
    [
        ((2**14, 2**14, 4), (0, 1), 2),  # 2^32 elements, 16 byte units
        ((4, 2**14, 2**14), (1, 2), 2),  # 2^32 elements, rows of one channel
        ((2**30 + 1,), (0,), 4),  # one axis of 2^32 + 4 elements
        ((2**29 + 1, 3), (0,), 3),  # 2^32 + 2^29 elements, unaligned rows
        ((1,), (0,), 2**32),  # one element to 2^32
    ],
    ids=["NHWC", "NCHW", "W", "WC3-x3", "1-to-2^32"],
)
def test_bfloat16_past_2_to_31_elements(shape, axes, scale, implementation):
    """Every element, compared on the device in int16; then the window sums."""
    bits = jax.random.bits(jax.random.key(0), shape, jnp.uint16) & 0x3FFF  # no NaNs

    @jax.jit
    def forward(bits):
        x = jax.lax.bitcast_convert_type(bits, jnp.bfloat16)
        y = upsample_nearest(x, scale, axes=axes, implementation=implementation)
        return jax.lax.bitcast_convert_type(y, jnp.uint16)

    @jax.jit
    def differing(bits, y):
        wanted = bits
        for axis in axes:
            wanted = jnp.repeat(wanted, scale, axis)
        return (wanted != y).sum(dtype=jnp.int64)

    y = forward(bits)
    assert y.size > 2**31
    assert differing(bits, y) == 0

    @jax.jit
    def backward(ones):
        x_like = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
        up = lambda x: upsample_nearest(  # noqa: E731
            x, scale, axes=axes, implementation=implementation
        )
        return jax.linear_transpose(up, x_like)(ones)[0]

    ones = jnp.ones(y.shape, jnp.bfloat16)
    del y
    assert (backward(ones) == float(scale) ** len(axes)).all()


def half_pixel(m, n):
    """floor((2 i + 1) m / 2 n), which fits in 64 bits for sizes below 2^31."""
    return (2 * np.arange(n) + 1) * m // (2 * n)


def test_resize_2_to_24_to_one_less(implementation):
    """Indices and positions that float32 cannot tell apart; one input is dropped."""
    m, n = 2**24, 2**24 - 1
    indices = half_pixel(m, n)
    bits = np.random.default_rng(0).integers(0, 2**16, m, np.uint16)

    def resize(x):
        return resize_nearest(x, (n,), rule="half_pixel", implementation=implementation)

    np.testing.assert_array_equal(jax.jit(resize)(bits), bits[indices])
    pull = jax.linear_transpose(resize, jax.ShapeDtypeStruct((m,), np.float32))
    counts = jax.jit(lambda g: pull(g)[0])(np.ones(n, np.float32))
    np.testing.assert_array_equal(counts, np.bincount(indices, minlength=m))


@pytest.mark.parametrize(
    ("shape", "resized"),
    [
        ((2**14, 2**14, 4), (25000, 25001, 4)),  # up to 2.5e9 elements, units of 8 B
        ((4, 2**14, 2**14), (4, 25000, 25001)),  # up, rows of one channel
        ((25000, 25001, 4), (2**14, 2**14 + 1, 4)),  # down
        ((4, 25000, 25001), (4, 2**14, 2**14 + 1)),
        ((2**14, 25001, 9), (25000, 2**14, 9)),  # both, unaligned, 3.7e9
        ((200, 2**24 + 1), (200, 2**24 - 1)),  # rows of 2^24, 3.4e9
    ],
    ids=["NHWC-up", "NCHW-up", "NHWC-down", "NCHW-down", "NHWC-C9", "NCW"],
)
def test_resize_past_2_to_31_elements(shape, resized, implementation):
    """Every element compared on the device, then each sum with its count of copies."""
    assert max(math.prod(shape), math.prod(resized)) > 2**31
    axes = [a for a, n in enumerate(resized) if n != shape[a]]
    tables = {a: half_pixel(shape[a], resized[a]) for a in axes}
    copies = {a: np.bincount(tables[a], minlength=shape[a]) for a in axes}
    indices = {a: jnp.asarray(t, jnp.int32) for a, t in tables.items()}
    counts = {a: jnp.asarray(c, jnp.bfloat16) for a, c in copies.items()}
    bits = jax.random.bits(jax.random.key(0), shape, jnp.uint8)

    def resize(x):
        return resize_nearest(
            x, resized, rule="half_pixel", implementation=implementation
        )

    @jax.jit
    def differing(x, y, indices):
        wanted = x
        for axis, table in indices.items():
            wanted = jnp.take(wanted, table, axis, mode="clip")
        return (wanted != y).sum(dtype=jnp.int64)

    y = jax.jit(resize)(bits)
    assert differing(bits, y, indices) == 0
    del bits, y

    @jax.jit
    def differing_sums(sums, counts):
        wanted = jnp.ones((1,) * len(shape), sums.dtype)
        for axis, count in counts.items():
            place = [n if a == axis else 1 for a, n in enumerate(shape)]
            wanted = wanted * jnp.reshape(count, place)
        return (jnp.broadcast_to(wanted, shape) != sums).sum(dtype=jnp.int64)

    pull = jax.linear_transpose(resize, jax.ShapeDtypeStruct(shape, jnp.bfloat16))
    sums = jax.jit(lambda g: pull(g)[0])(jnp.ones(resized, jnp.bfloat16))
    assert differing_sums(sums, counts) == 0
