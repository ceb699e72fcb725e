"""Channels to space and back: the reordering behind sub-pixel convolutions.

Both are reshape, transpose, reshape, so XLA fuses them with what is around, and every
transformation of JAX applies.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax import lax

from jax_upsample import _arguments

ChannelOrder = Literal["torch", "tf"]

CHANNEL_ORDERS = ("torch", "tf")


def pixel_shuffle(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    channel_axis: int = -1,
    channel_order: ChannelOrder = "torch",
) -> jax.Array:
    """Spreads groups of channels over the pixels of a `scale` times larger image.

    For two axes of scales s and t, and `out` channels,
    y[n, s i + a, t j + b, c] = x[n, i, j, channel], where channel is

    - `"torch"`: (c s + a) t + b, as `torch.nn.PixelShuffle` (in NCHW there) has it;
    - `"tf"`: (a t + b) out + c, as `tf.nn.depth_to_space` has it.

    Equals ::

        # channel_order="tf", axes=(1, 2), x of shape (n, h, w, s * t * out)
        x.reshape(n, h, w, s, t, out).transpose(0, 1, 3, 2, 4, 5).reshape(
            n, h * s, w * t, out)

    It moves every element once; `pixel_unshuffle` is its inverse and its transpose.
    Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient
    Sub-Pixel Convolutional Neural Network", CVPR 2016, equation 4.

    Args:
      x: array of any dtype and of rank 2 or more.
      scale: a positive int for all axes or one for each axis.
      axes: the spatial axes, one to three of them, negative ones counted from the end.
      channel_axis: the axis of the channels, no spatial one; the product of the scales
        divides its size.
      channel_order: which channels go where, see above.

    Returns:
      An array of the dtype of `x`, `scale` times as long along each of `axes`, its
      channels divided by the product of the scales.

    Raises:
      TypeError: `x` is no array, or `scale`, `axes` or `channel_axis` no integers.
      ValueError: an `x` of rank 0, a `scale` below 1, `axes` out of range, repeated or
        not matching `scale`, a `channel_axis` out of range or among `axes`, channels
        that do not divide, or an unknown `channel_order`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import pixel_shuffle
      >>> pixel_shuffle(jnp.arange(8).reshape(1, 2, 4), axes=(0, 1))[..., 0]
      Array([[0, 1, 4, 5],
             [2, 3, 6, 7]], dtype=int32)
    """
    function = "pixel_shuffle"
    array, by_axis, channel = _canonicalize(
        function, x, scale, axes, channel_axis, channel_order
    )
    window = math.prod(by_axis.values())
    if array.shape[channel] % window != 0:
        raise ValueError(
            f"{function}: the product of the scales, {window}, must divide the "
            f"{array.shape[channel]} channels of x (shape {array.shape})"
        )
    return shuffle(array, by_axis, channel, channel_order)


def pixel_unshuffle(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    channel_axis: int = -1,
    channel_order: ChannelOrder = "torch",
) -> jax.Array:
    """Gathers each window of `scale` pixels into channels: undoes `pixel_shuffle`.

    Equals `torch.nn.PixelUnshuffle` (`"torch"`) or `tf.nn.space_to_depth` (`"tf"`).

    Args:
      x: array of any dtype and of rank 2 or more, its sizes along `axes` multiples of
        `scale`.
      scale: as in `pixel_shuffle`.
      axes: likewise.
      channel_axis: likewise.
      channel_order: likewise.

    Returns:
      An array of the dtype of `x`, `scale` times shorter along each of `axes`, its
      channels multiplied by the product of the scales.

    Raises:
      TypeError: as `pixel_shuffle`.
      ValueError: as `pixel_shuffle`, and sizes that do not divide.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import pixel_unshuffle
      >>> pixel_unshuffle(jnp.arange(8).reshape(2, 4, 1), axes=(0, 1))[0]
      Array([[0, 1, 4, 5],
             [2, 3, 6, 7]], dtype=int32)
    """
    function = "pixel_unshuffle"
    array, by_axis, channel = _canonicalize(
        function, x, scale, axes, channel_axis, channel_order
    )
    for axis, factor in by_axis.items():
        if array.shape[axis] % factor != 0:
            raise ValueError(
                f"{function}: scale {factor} must divide axis {axis} of x, got shape "
                f"{array.shape}"
            )
    return unshuffle(array, by_axis, channel, channel_order)


def _canonicalize(
    function: str,
    x: Any,
    scale: Any,
    axes: Any,
    channel_axis: Any,
    channel_order: Any,
) -> tuple[jax.Array, dict[int, int], int]:
    """Checks the arguments; the array, the scale of each axis, the channels' axis."""
    array = _arguments.array(function, x)
    rank = array.ndim
    axes = _arguments.canonical_axes(function, axes, rank)
    scales = _arguments.canonical_scales(function, scale, len(axes))
    channel = _arguments.integer(function, "channel_axis", channel_axis)
    if not -rank <= channel < rank or channel % rank in axes:
        raise ValueError(
            f"{function}: channel_axis must be an axis of x (rank {rank}) that is "
            f"none of axes {axes}, got {channel_axis!r}"
        )
    if channel_order not in CHANNEL_ORDERS:
        raise ValueError(
            f"{function}: channel_order must be one of {CHANNEL_ORDERS}, "
            f"got {channel_order!r}"
        )
    # The channels count the windows in the order in which the caller names the axes.
    return array, dict(zip(axes, scales, strict=True)), channel % rank


def shuffle(
    x: jax.Array, by_axis: dict[int, int], channel: int, channel_order: str = "tf"
) -> jax.Array:
    """`pixel_shuffle` of arguments that are known to be right."""
    sizes = list(x.shape)
    sizes[channel] //= math.prod(by_axis.values())
    split, order = _split(sizes, by_axis, channel, channel_order)
    for axis, scale in by_axis.items():
        sizes[axis] *= scale
    return lax.reshape(lax.transpose(lax.reshape(x, split), order), sizes)


def unshuffle(
    x: jax.Array, by_axis: dict[int, int], channel: int, channel_order: str = "tf"
) -> jax.Array:
    """`pixel_unshuffle` of arguments that are known to be right."""
    sizes = list(x.shape)
    for axis, scale in by_axis.items():
        sizes[axis] //= scale
    split, order = _split(sizes, by_axis, channel, channel_order)
    sizes[channel] *= math.prod(by_axis.values())
    x = lax.reshape(x, [split[place] for place in order])
    return lax.reshape(lax.transpose(x, np.argsort(order)), sizes)


def _split(
    sizes: Sequence[int], by_axis: dict[int, int], channel: int, channel_order: str
) -> tuple[list[int], list[int]]:
    """The shuffle's operand with its channels apart, and the order of its dimensions.

    `sizes` are those that both images share: few pixels, few channels.
    """
    scales = list(by_axis.values())
    tf = channel_order == "tf"
    kept = channel + (len(scales) if tf else 0)
    first_scale = channel + (0 if tf else 1)
    split = list(sizes)
    split[channel : channel + 1] = (
        [*scales, sizes[channel]] if tf else [sizes[channel], *scales]
    )
    order = []
    for axis in range(len(sizes)):
        after = axis + len(scales)
        order.append(axis if axis < channel else kept if axis == channel else after)
        if axis in by_axis:
            order.append(first_scale + list(by_axis).index(axis))
    return split, order
