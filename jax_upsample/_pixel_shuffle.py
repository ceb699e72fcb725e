"""Channels to space and back: the reordering behind sub-pixel convolutions.

`pixel_shuffle_fwd_p` also crops the image, `pixel_shuffle_bwd_p` fills with zeros what
was cropped. `pixel_shuffle_sum_p` adds to the forward, which ends a convolution.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import batching, mlir
from jax.sharding import AxisType

from jax_upsample import _arguments, _calls, _linear_pair
from jax_upsample._arguments import Implementation
from jax_upsample._upsample_nearest import as_moved, movable, sum_dtype

ChannelOrder = Literal["torch", "tf"]
Activation = Literal["relu", "silu"]

CHANNEL_ORDERS = ("torch", "tf")
ACTIVATIONS: dict[str | None, Any] = {
    None: lambda y: y,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
}


def pixel_shuffle(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    channel_axis: int = -1,
    channel_order: ChannelOrder = "torch",
    implementation: Implementation | None = None,
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
      implementation: `"kernel"` for the custom call, `"xla"` for plain XLA, `None` for
        the form that measured faster: on NVIDIA GPUs the kernel where channels of one
        phase are whole vectors of 16 bytes, else plain XLA. The kernel takes the order
        "tf" and a channel axis right after `axes`, side by side (NHWC); else it is
        plain XLA. All move the same bits.

    Returns:
      An array of the dtype of `x`, `scale` times as long along each of `axes`, its
      channels divided by the product of the scales.

    Raises:
      TypeError: `x` is no array, or `scale`, `axes` or `channel_axis` no integers.
      ValueError: an `x` of rank 0, a `scale` below 1, `axes` out of range, repeated or
        not matching `scale`, a `channel_axis` out of range or among `axes`, channels
        that do not divide, an unknown `channel_order` or `implementation`, or
        `"kernel"` where there is none.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import pixel_shuffle
      >>> pixel_shuffle(jnp.arange(8).reshape(1, 2, 4), axes=(0, 1))[..., 0]
      Array([[0, 1, 4, 5],
             [2, 3, 6, 7]], dtype=int32)
    """
    function = "pixel_shuffle"
    array, by_axis, channel = _canonicalize(
        function, x, scale, axes, channel_axis, channel_order, implementation
    )
    window = math.prod(by_axis.values())
    if array.shape[channel] % window != 0:
        raise ValueError(
            f"{function}: the product of the scales, {window}, must divide the "
            f"{array.shape[channel]} channels of x (shape {array.shape})"
        )
    if window == 1 or channel_order != "tf":
        return _plain(shuffle, array, by_axis, channel, channel_order)
    return pixel_shuffle_fwd_p.bind(
        array, **_uncropped(by_axis, channel, implementation)
    )


def pixel_unshuffle(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    channel_axis: int = -1,
    channel_order: ChannelOrder = "torch",
    implementation: Implementation | None = None,
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
      implementation: likewise.

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
        function, x, scale, axes, channel_axis, channel_order, implementation
    )
    window = math.prod(by_axis.values())
    for axis, factor in by_axis.items():
        if array.shape[axis] % factor != 0:
            raise ValueError(
                f"{function}: scale {factor} must divide axis {axis} of x, got shape "
                f"{array.shape}"
            )
    if window == 1 or channel_order != "tf":
        return _plain(unshuffle, array, by_axis, channel, channel_order)
    return pixel_shuffle_bwd_p.bind(
        array, **_uncropped(by_axis, channel, implementation)
    )


def _canonicalize(
    function: str,
    x: Any,
    scale: Any,
    axes: Any,
    channel_axis: Any,
    channel_order: Any,
    implementation: Any,
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
    _arguments.check_implementation(function, implementation, array.dtype)
    # The channels count the windows in the order in which the caller names the axes.
    return array, dict(zip(axes, scales, strict=True)), channel % rank


def _uncropped(
    by_axis: dict[int, int], channel: int, implementation: str | None
) -> dict[str, Any]:
    """Parameters of the primitives."""
    return {
        "axes": tuple(by_axis),
        "scale": tuple(by_axis.values()),
        "first": (0,) * len(by_axis),
        "last": (0,) * len(by_axis),
        "channel_axis": channel,
        "implementation": implementation,
    }


# ------------------------------------------------------------------------ plain forms


def _plain(form: Callable[..., jax.Array], x: jax.Array, *rest: Any) -> jax.Array:
    """`form`, over Explicit mesh axes too: the result is sharded like `x`."""
    sharding: Any = jax.typeof(x).sharding
    if AxisType.Explicit not in sharding.mesh.axis_types:
        return form(x, *rest)
    return jax.sharding.auto_axes(lambda x: form(x, *rest), out_sharding=sharding)(x)


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


def _fwd_lax(
    x: jax.Array,
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    first: tuple[int, ...],
    last: tuple[int, ...],
    channel_axis: int,
) -> jax.Array:
    """The shuffled `x` without its `first` and `last` elements along `axes`."""
    y = shuffle(movable(x), dict(zip(axes, scale, strict=True)), channel_axis)
    for axis, low, high in zip(axes, first, last, strict=True):
        y = lax.slice_in_dim(y, low, y.shape[axis] - high, axis=axis)
    return as_moved(y, x.dtype)


def _bwd_lax(
    y: jax.Array,
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    first: tuple[int, ...],
    last: tuple[int, ...],
    channel_axis: int,
) -> jax.Array:
    padding = [(0, 0, 0)] * y.ndim
    for axis, low, high in zip(axes, first, last, strict=True):
        padding[axis] = (low, high, 0)
    whole = lax.pad(y, jnp.zeros((), y.dtype), padding)
    return unshuffle(whole, dict(zip(axes, scale, strict=True)), channel_axis)


def add_and_activate(
    y: jax.Array,
    bias: jax.Array | None,
    added: jax.Array | None,
    activation: str | None,
    channel_axis: int,
) -> jax.Array:
    """The activation of the sum, in float32 or wider and rounded once.

    `bias` is [channels], or has the leading axes of `y` before that.
    """
    if bias is None and added is None and activation is None:
        return y
    total = y.astype(sum_dtype(y.dtype))
    if added is not None:
        total = total + added.astype(total.dtype)
    if bias is not None:
        places = (*range(bias.ndim - 1), channel_axis)
        broadcast = lax.broadcast_in_dim(bias, y.shape, places)
        total = total + broadcast.astype(total.dtype)
    return ACTIVATIONS[activation](total).astype(y.dtype)


def _sum_lax(
    x: jax.Array,
    bias: jax.Array,
    *added: jax.Array,
    activation: str | None,
    channel_axis: int,
    **params: Any,
) -> jax.Array:
    y = _fwd_lax(x, channel_axis=channel_axis, **params)
    return add_and_activate(
        y, bias, added[0] if added else None, activation, channel_axis
    )


# ------------------------------------------------------------------------- primitives


def _fwd_shape(
    shape: tuple[Any, ...],
    *of_others: tuple[Any, ...],
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    first: tuple[int, ...],
    last: tuple[int, ...],
    channel_axis: int,
    **params: Any,
) -> tuple[Any, ...]:
    sizes = list(shape)
    for axis, factor, low, high in zip(axes, scale, first, last, strict=True):
        sizes[axis] = sizes[axis] * factor - low - high
    sizes[channel_axis] //= math.prod(scale)
    return tuple(sizes)


def _bwd_shape(
    shape: tuple[Any, ...],
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    first: tuple[int, ...],
    last: tuple[int, ...],
    channel_axis: int,
) -> tuple[Any, ...]:
    sizes = list(shape)
    for axis, factor, low, high in zip(axes, scale, first, last, strict=True):
        sizes[axis] = (sizes[axis] + low + high) // factor
    sizes[channel_axis] *= math.prod(scale)
    return tuple(sizes)


def _kernel(target: str) -> Any:
    def rule(
        ctx: mlir.LoweringRuleContext,
        *operands: Any,
        axes: tuple[int, ...],
        last: tuple[int, ...],
        channel_axis: int,
        **attributes: Any,
    ) -> Any:
        # The handler knows `last` and `channel_axis` from the shapes and `axes`.
        return _calls.call(
            ctx, target, *operands, leading=axes[0], axes=axes, **attributes
        )

    return rule


def _has_no_kernel(
    ctx: mlir.LoweringRuleContext,
    *,
    axes: tuple[int, ...],
    channel_axis: int,
    **params: Any,
) -> bool:
    """Whether the equation of the kernels (pixel_shuffle.h) cannot say it."""
    return (*axes, channel_axis) != tuple(range(axes[0], axes[0] + len(axes) + 1))


def _has_no_sum_kernel(
    ctx: mlir.LoweringRuleContext, *, channel_axis: int, **params: Any
) -> bool:
    x: Any = ctx.avals_in[0]
    return (
        _has_no_kernel(ctx, channel_axis=channel_axis, **params)
        or channel_axis != len(x.shape) - 1
        or str(x.dtype) not in ("float32", "float16", "bfloat16")
    )


def _sum_kernel(
    ctx: mlir.LoweringRuleContext,
    x: Any,
    bias: Any,
    *added: Any,
    axes: tuple[int, ...],
    activation: str | None,
    **params: Any,
) -> Any:
    avals: Any = ctx.avals_in
    of_x, of_bias, *of_added = avals
    if axes[0] > 0 and _calls.is_partitioned(ctx) and len(of_bias.shape) == 1:
        # A part of the leading axes then has its part of the bias.
        shape = (*of_x.shape[: axes[0]], *of_bias.shape)
        of_each = of_bias.update(shape=shape)
        spread = _calls.lower(
            lambda b: lax.broadcast_in_dim(b, shape, (len(shape) - 1,))
        )
        (bias,) = spread(ctx.replace(avals_in=[of_bias], avals_out=[of_each]), bias)
        ctx = ctx.replace(avals_in=[of_x, of_each, *of_added])
    code = list(ACTIVATIONS).index(activation)
    return _call_sum(ctx, x, bias, *added, axes=axes, activation=code, **params)


def _batch_sum(operands: Any, dims: Any, **params: Any) -> tuple[jax.Array, int]:
    x, bias, *added = operands
    size = next(
        operand.shape[dim]
        for operand, dim in zip(operands, dims, strict=True)
        if dim is not None
    )

    def at_front(operand: jax.Array, dim: int | None) -> jax.Array:
        if dim is None:
            return jnp.broadcast_to(operand, (size, *operand.shape))
        return jnp.moveaxis(operand, dim, 0)

    x, *added = map(at_front, (x, *added), (dims[0], *dims[2:]))
    if dims[1] is not None or bias.ndim > 1:
        bias = at_front(bias, dims[1])
        leading = min(*params["axes"], params["channel_axis"])
        between = () if bias.ndim > 2 else x.shape[1 : leading + 1]
        shape = (size, *between, *bias.shape[1:])
        places = (0, *range(1 + len(between), len(shape)))
        bias = lax.broadcast_in_dim(bias, shape, places)
    params["axes"] = tuple(axis + 1 for axis in params["axes"])
    params["channel_axis"] += 1
    return pixel_shuffle_sum_p.bind(x, bias, *added, **params), 0


_call_sum = _kernel("jax_upsample_pixel_shuffle_sum_v1")
pixel_shuffle_fwd_p, pixel_shuffle_bwd_p = _linear_pair.define(
    "pixel_shuffle",
    fwd=_linear_pair.Map(
        _fwd_shape,
        _fwd_lax,
        _kernel("jax_upsample_pixel_shuffle_fwd_v1"),
        _has_no_kernel,
    ),
    bwd=_linear_pair.Map(
        _bwd_shape,
        _bwd_lax,
        _kernel("jax_upsample_pixel_shuffle_bwd_v1"),
        _has_no_kernel,
    ),
)
pixel_shuffle_sum_p = _linear_pair.define_without_derivatives(
    "pixel_shuffle_sum",
    _linear_pair.Map(
        _fwd_shape,
        _sum_lax,
        _sum_kernel,
        _has_no_sum_kernel,
    ),
    sums=True,
)
batching.primitive_batchers[pixel_shuffle_sum_p] = _batch_sum
