"""Modules for Equinox: `from jax_upsample import equinox as upsample_equinox`.

Arrays are channels-first and of one example, as those of `equinox.nn.Conv`: batch by
`jax.vmap`.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax

from jax_upsample import _modules
from jax_upsample._arguments import Implementation
from jax_upsample._modules import DataFormat
from jax_upsample._nearest_rules import Rule, Scale
from jax_upsample._pixel_shuffle import Activation, ChannelOrder
from jax_upsample._upsample_conv import Method

__all__ = ["PixelShuffle", "Upsample", "UpsampleAdd", "UpsampleConcat", "UpsampleConv"]


class Upsample(eqx.Module):
    """Nearest upsampling of (channels, *spatial) by a scale or to a size.

    Equals `upsample_nearest` for integer scales, else `resize_nearest`.

    Args:
      scale: a positive factor for all spatial axes or one for each; 2 without `size`.
      size: instead of `scale`, the sizes of the spatial axes of the result, one for all
        or one for each. (What Keras calls `size` is `scale`.)
      axes: the spatial axes, negative ones counted from the end.
      data_format: instead of `axes`, "channels_first" (the default) or
        "channels_last", of as many spatial axes as `scale` or `size` has entries, of
        two for one number.
      rule: of `resize_nearest`; a `scale` that is no integer needs one but `"jax"`.
      implementation: of `upsample_nearest` and `resize_nearest`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import equinox as upsample_equinox
      >>> x = jnp.ones((3, 8, 8))
      >>> upsample_equinox.Upsample()(x).shape
      (3, 16, 16)
      >>> upsample_equinox.Upsample(size=(13, 17))(x).shape
      (3, 13, 17)
    """

    scale: Scale | Sequence[Scale] | None = eqx.field(default=None, static=True)
    size: int | Sequence[int] | None = eqx.field(default=None, static=True)
    axes: int | Sequence[int] | None = eqx.field(default=None, static=True)
    data_format: DataFormat | None = eqx.field(default=None, static=True)
    rule: Rule = eqx.field(default="jax", static=True)
    implementation: Implementation | None = eqx.field(default=None, static=True)

    def __call__(self, x: jax.Array, *, key: jax.Array | None = None) -> jax.Array:
        """The upsampled `x`."""
        return _modules.upsample(self, x, "channels_first")


class UpsampleAdd(eqx.Module):
    """A lateral map plus nearest upsampling: `upsample_add`, a feature pyramid's merge.

    Args:
      scale: a positive int for all spatial axes or one for each; `None` takes the input
        to the sizes of the lateral map, whatever they are.
      axes: as of `Upsample`.
      data_format: likewise.
      rule: with `scale=None`, of `resize_nearest`.
      implementation: of `upsample_add`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import equinox as upsample_equinox
      >>> x, lateral = jnp.ones((3, 4, 4)), jnp.ones((3, 7, 8))
      >>> upsample_equinox.UpsampleAdd(scale=None)(x, lateral).shape
      (3, 7, 8)
    """

    scale: int | Sequence[int] | None = eqx.field(default=2, static=True)
    axes: int | Sequence[int] | None = eqx.field(default=None, static=True)
    data_format: DataFormat | None = eqx.field(default=None, static=True)
    rule: Rule = eqx.field(default="jax", static=True)
    implementation: Implementation | None = eqx.field(default=None, static=True)

    def __call__(
        self, x: jax.Array, lateral: jax.Array, *, key: jax.Array | None = None
    ) -> jax.Array:
        """`lateral` plus the upsampled `x`."""
        return _modules.add(self, x, lateral, "channels_first")


class UpsampleConcat(eqx.Module):
    """Nearest upsampling and a skip, concatenated: `upsample_concat`, a U-Net's merge.

    Before a convolution, `UpsampleConv` called with the skip is faster.

    Args:
      scale: as of `UpsampleAdd`, `None` for the sizes of the skip.
      axes: as of `Upsample`.
      data_format: likewise.
      concat_axis: the axis along which to concatenate; by default the channels', which
        is the last, or that before the spatial axes for `"channels_first"`.
      skip_first: whether the skip comes first.
      rule: with `scale=None`, of `resize_nearest`.
      implementation: of `upsample_concat`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import equinox as upsample_equinox
      >>> x, skip = jnp.ones((3, 4, 4)), jnp.ones((2, 8, 8))
      >>> upsample_equinox.UpsampleConcat()(x, skip).shape
      (5, 8, 8)
    """

    scale: int | Sequence[int] | None = eqx.field(default=2, static=True)
    axes: int | Sequence[int] | None = eqx.field(default=None, static=True)
    data_format: DataFormat | None = eqx.field(default=None, static=True)
    concat_axis: int | None = eqx.field(default=None, static=True)
    skip_first: bool = eqx.field(default=False, static=True)
    rule: Rule = eqx.field(default="jax", static=True)
    implementation: Implementation | None = eqx.field(default=None, static=True)

    def __call__(
        self, x: jax.Array, skip: jax.Array, *, key: jax.Array | None = None
    ) -> jax.Array:
        """The upsampled `x` beside `skip`."""
        return _modules.concat(self, x, skip, "channels_first")


class PixelShuffle(eqx.Module):
    """Groups of channels spread over the pixels of a larger image: `pixel_shuffle`.

    Args:
      scale: a positive int for all spatial axes or one for each.
      axes: as of `Upsample`.
      data_format: likewise.
      channel_order: `"torch"` or `"tf"`, of `pixel_shuffle`.
      implementation: of `pixel_shuffle`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import equinox as upsample_equinox
      >>> upsample_equinox.PixelShuffle()(jnp.ones((12, 8, 8))).shape
      (3, 16, 16)
    """

    scale: int | Sequence[int] = eqx.field(default=2, static=True)
    axes: int | Sequence[int] | None = eqx.field(default=None, static=True)
    data_format: DataFormat | None = eqx.field(default=None, static=True)
    channel_order: ChannelOrder = eqx.field(default="torch", static=True)
    implementation: Implementation | None = eqx.field(default=None, static=True)

    def __call__(self, x: jax.Array, *, key: jax.Array | None = None) -> jax.Array:
        """The larger image."""
        return _modules.shuffle(self, x, "channels_first")


class UpsampleConv(eqx.nn.Conv):
    """`eqx.nn.Conv` of the nearest upsampling, which is never stored: `upsample_conv`.

    Its parameters are named, shaped and initialised as those of `eqx.nn.Conv`, so what
    was saved of an `eqx.nn.Conv` after an upsampling loads as it is. Equals, but for
    rounding, ::

        conv(jnp.concatenate([upsample_nearest(x, scale, axes=spatial), skip]))
        # of conv = eqx.nn.Conv(num_spatial_dims, in_channels, ...)

    Args:
      num_spatial_dims: 1 to 3.
      in_channels: channels of the input, and of the skip if there is one.
      out_channels: channels of the result.
      kernel_size: as of `eqx.nn.Conv`.
      scale: a positive int for all spatial axes or one for each.
      activation: `None`, `"relu"` or `"silu"`, applied last.
      method: of `upsample_conv`; forward mode needs `"phases"` or `"plain"`.
      implementation: of `upsample_conv`.
      key: as of `eqx.nn.Conv`.
      **options: other arguments of `eqx.nn.Conv`: `padding` of the upsampled array (0
        by default, as there), `dilation`, `groups` (1 with a skip), `use_bias`,
        `padding_mode` (not `"REFLECT"`), `dtype`.

    Raises:
      TypeError: `stride`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jax_upsample import equinox as upsample_equinox
      >>> conv = upsample_equinox.UpsampleConv(
      ...     2, 16 + 8, 4, 3, padding="SAME", key=jax.random.key(0))
      >>> conv.weight.shape
      (4, 24, 3, 3)
      >>> conv(jnp.ones((16, 8, 8)), skip=jnp.ones((8, 16, 16))).shape
      (4, 16, 16)
    """

    scale: int | Sequence[int] = eqx.field(static=True)
    activation: Activation | None = eqx.field(static=True)
    method: Method | None = eqx.field(static=True)
    implementation: Implementation | None = eqx.field(static=True)

    def __init__(
        self,
        num_spatial_dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        scale: int | Sequence[int] = 2,
        *,
        activation: Activation | None = None,
        method: Method | None = None,
        implementation: Implementation | None = None,
        key: jax.Array,
        **options: Any,
    ):
        _modules.refuse_unsupported(self, options)
        super().__init__(
            num_spatial_dims, in_channels, out_channels, kernel_size, key=key, **options
        )
        self.scale = scale
        self.activation = activation
        self.method = method
        self.implementation = implementation

    def __call__(
        self,
        x: jax.Array,
        skip: jax.Array | None = None,
        *,
        key: jax.Array | None = None,
    ) -> jax.Array:
        """Convolves the upsampled (channels, *spatial) and `skip` beside it."""
        names = "DHW"[-self.num_spatial_dims :]
        return _modules.convolve(
            self,
            x,
            self.weight,
            skip=skip,
            bias=None if self.bias is None else self.bias.reshape(-1),
            padding_mode=None if self.padding_mode == "ZEROS" else self.padding_mode,
            rhs_dilation=self.dilation,
            dimension_numbers=(f"NC{names}", f"OI{names}", f"NC{names}"),
            feature_group_count=self.groups,
        )
