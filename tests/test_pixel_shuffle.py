"""Channels to space and back, against loops over the definition and against PyTorch."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_equal, skip_or_fail

from jax_upsample import pixel_shuffle, pixel_unshuffle

ORDERS = ("torch", "tf")


def shuffle_by_definition(x, scales, axes, channel_axis, order):
    """The docstring's formula, an element at a time."""
    channels = x.shape[channel_axis] // np.prod(scales)
    shape = list(x.shape)
    shape[channel_axis] = channels
    for axis, scale in zip(axes, scales, strict=True):
        shape[axis] *= scale
    y = np.zeros(shape, x.dtype)
    for place in np.ndindex(*shape):
        source = list(place)
        phase = 0
        for axis, scale in zip(axes, scales, strict=True):
            source[axis], residue = divmod(place[axis], scale)
            phase = phase * scale + residue
        c = place[channel_axis]
        windows = int(np.prod(scales))
        source[channel_axis] = (
            c * windows + phase if order == "torch" else phase * channels + c
        )
        y[place] = x[tuple(source)]
    return y


LAYOUTS = {
    "NHWC": ((2, 3, 2, 12), (2, 3), (1, 2), 3),
    "NCHW": ((2, 12, 3, 2), (2, 3), (2, 3), 1),
    "channels between": ((2, 3, 12, 2), (2, 2), (1, 3), 2),
    "axes in another order": ((2, 3, 2, 12), (2, 3), (2, 1), 3),
    "NWC": ((2, 5, 6), (3,), (1,), 2),
    "NDHWC": ((1, 2, 1, 3, 8), (2, 2, 2), (1, 2, 3), 4),
    "no channel left over": ((1, 2, 2, 4), (2, 2), (1, 2), 3),
    "empty": ((0, 2, 2, 4), (2, 2), (1, 2), 3),
    "scale 1": ((1, 2, 2, 4), (1, 2), (1, 2), 3),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shape", "scale", "axes", "channel_axis"), LAYOUTS.values(), ids=LAYOUTS.keys()
)
def test_it_is_the_definition_and_undone_by_the_inverse(
    shape, scale, axes, channel_axis, order
):
    options = {"axes": axes, "channel_axis": channel_axis, "channel_order": order}
    x = np.arange(np.prod(shape)).reshape(shape)
    y = pixel_shuffle(x, scale, **options)
    assert_equal(y, shuffle_by_definition(x, scale, axes, channel_axis, order))
    assert_equal(pixel_unshuffle(y, scale, **options), x)


@pytest.mark.parametrize("order", ORDERS)
def test_each_is_the_others_transpose(order):
    x = jnp.arange(2 * 3 * 2 * 8, dtype=jnp.float32).reshape(2, 3, 2, 8)
    y, transpose = jax.vjp(lambda x: pixel_shuffle(x, channel_order=order), x)
    g = y[::-1]
    assert_equal(transpose(g)[0], np.asarray(pixel_unshuffle(g, channel_order=order)))


def test_torch_order_is_that_of_torch():
    try:
        import torch
    except ImportError:
        skip_or_fail("torch", "torch is not installed")
    x = np.random.default_rng(0).standard_normal((2, 12, 3, 5)).astype(np.float32)
    y = torch.nn.functional.pixel_shuffle(torch.from_numpy(x), 2).numpy()
    options = {"axes": (2, 3), "channel_axis": 1}
    assert_equal(pixel_shuffle(x, 2, **options), y)
    back = torch.nn.functional.pixel_unshuffle(torch.from_numpy(y), 2).numpy()
    assert_equal(pixel_unshuffle(y, 2, **options), back)


def test_negative_axes_and_batches():
    x = jnp.arange(3 * 2 * 2 * 4).reshape(3, 2, 2, 4)
    by_name = jax.vmap(lambda x: pixel_shuffle(x, axes=(-3, -2)))(x)
    assert_equal(by_name, np.asarray(pixel_shuffle(x)))


X = np.zeros((1, 2, 3, 8), np.float32)

ERRORS = [
    (pixel_shuffle, {"scale": 3}, ValueError, "9, must divide the 8 channels of x"),
    (pixel_shuffle, {"scale": 0}, ValueError, "scale must be at least 1, got 0"),
    (pixel_shuffle, {"scale": 2.0}, TypeError, "scale must hold integers, got 2.0"),
    (pixel_shuffle, {"channel_axis": 2}, ValueError, "none of axes (1, 2), got 2"),
    (pixel_shuffle, {"channel_axis": 4}, ValueError, "channel_axis must be an axis"),
    (pixel_shuffle, {"channel_order": "keras"}, ValueError, "got 'keras'"),
    (pixel_unshuffle, {}, ValueError, "scale 2 must divide axis 2 of x, got shape"),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), ERRORS)
def test_errors_name_the_argument(function, options, error, message):
    with pytest.raises(error) as caught:
        function(X, **options)
    assert str(caught.value).startswith(f"{function.__name__}: ")
    assert message in str(caught.value)


def test_every_dtype_moves_unchanged():
    for dtype, order in itertools.product(
        (bool, jnp.int8, jnp.bfloat16, jnp.float8_e4m3fn, jnp.complex64), ORDERS
    ):
        x = jnp.arange(16).reshape(1, 2, 2, 4).astype(dtype)
        y = pixel_shuffle(x, channel_order=order)
        assert y.dtype == x.dtype
        back = pixel_unshuffle(y, channel_order=order)
        assert np.asarray(back).tobytes() == np.asarray(x).tobytes()
