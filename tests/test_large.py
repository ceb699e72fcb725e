"""More than 2^31 elements: many gigabytes, so only on request (`pytest -m large`).

PyTorch once returned zeros past 2^31 elements; the guard is to look there.
"""

import jax
import jax.numpy as jnp
import pytest

from jax_upsample import upsample_nearest

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
