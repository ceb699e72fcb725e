"""Modules for Flax NNX: `from jax_upsample import nnx as upsample_nnx`.

Arrays are channels-last with any number of batch axes, as those of `flax.nnx.Conv`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from flax import nnx

from jax_upsample import _modules
from jax_upsample._arguments import Implementation
from jax_upsample._modules import DataFormat
from jax_upsample._nearest_rules import Rule, Scale
from jax_upsample._pixel_shuffle import Activation, ChannelOrder
from jax_upsample._upsample_conv import Method

__all__ = ["PixelShuffle", "Upsample", "UpsampleAdd", "UpsampleConcat", "UpsampleConv"]

# Of nnx.Module: how to compare and to print.
_module = dataclasses.dataclass(eq=False, repr=False)


@_module
class Upsample(nnx.Module):
    """Nearest upsampling of (*batch, *spatial, channels) by a scale or to a size.

    Equals `upsample_nearest` for integer scales, else `resize_nearest`.

    Args:
      scale: a positive factor for all spatial axes or one for each; 2 without `size`.
      size: instead of `scale`, the sizes of the spatial axes of the result, one for all
        or one for each. (What Keras calls `size` is `scale`.)
      axes: the spatial axes, negative ones counted from the end.
      data_format: instead of `axes`, "channels_last" (the default) or
        "channels_first", of as many spatial axes as `scale` or `size` has entries, of
        two for one number.
      rule: of `resize_nearest`; a `scale` that is no integer needs one but `"jax"`.
      implementation: of `upsample_nearest` and `resize_nearest`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import nnx as upsample_nnx
      >>> x = jnp.ones((1, 8, 8, 3))
      >>> upsample_nnx.Upsample()(x).shape
      (1, 16, 16, 3)
      >>> upsample_nnx.Upsample(size=(13, 17))(x).shape
      (1, 13, 17, 3)
    """

    scale: Scale | Sequence[Scale] | None = None
    size: int | Sequence[int] | None = None
    axes: int | Sequence[int] | None = None
    data_format: DataFormat | None = None
    rule: Rule = "jax"
    implementation: Implementation | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        """The upsampled `x`."""
        return _modules.upsample(self, x, "channels_last")


@_module
class UpsampleAdd(nnx.Module):
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
      >>> from jax_upsample import nnx as upsample_nnx
      >>> x, lateral = jnp.ones((1, 4, 4, 3)), jnp.ones((1, 7, 8, 3))
      >>> upsample_nnx.UpsampleAdd(scale=None)(x, lateral).shape
      (1, 7, 8, 3)
    """

    scale: int | Sequence[int] | None = 2
    axes: int | Sequence[int] | None = None
    data_format: DataFormat | None = None
    rule: Rule = "jax"
    implementation: Implementation | None = None

    def __call__(self, x: jax.Array, lateral: jax.Array) -> jax.Array:
        """`lateral` plus the upsampled `x`."""
        return _modules.add(self, x, lateral, "channels_last")


@_module
class UpsampleConcat(nnx.Module):
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
      >>> from jax_upsample import nnx as upsample_nnx
      >>> x, skip = jnp.ones((1, 4, 4, 3)), jnp.ones((1, 8, 8, 2))
      >>> upsample_nnx.UpsampleConcat()(x, skip).shape
      (1, 8, 8, 5)
    """

    scale: int | Sequence[int] | None = 2
    axes: int | Sequence[int] | None = None
    data_format: DataFormat | None = None
    concat_axis: int | None = None
    skip_first: bool = False
    rule: Rule = "jax"
    implementation: Implementation | None = None

    def __call__(self, x: jax.Array, skip: jax.Array) -> jax.Array:
        """The upsampled `x` beside `skip`."""
        return _modules.concat(self, x, skip, "channels_last")


@_module
class PixelShuffle(nnx.Module):
    """Groups of channels spread over the pixels of a larger image: `pixel_shuffle`.

    Args:
      scale: a positive int for all spatial axes or one for each.
      axes: as of `Upsample`.
      data_format: likewise.
      channel_order: `"torch"` or `"tf"`, of `pixel_shuffle`.
      implementation: of `pixel_shuffle`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import nnx as upsample_nnx
      >>> upsample_nnx.PixelShuffle()(jnp.ones((1, 8, 8, 12))).shape
      (1, 16, 16, 3)
    """

    scale: int | Sequence[int] = 2
    axes: int | Sequence[int] | None = None
    data_format: DataFormat | None = None
    channel_order: ChannelOrder = "torch"
    implementation: Implementation | None = None

    def __call__(self, x: jax.Array) -> jax.Array:
        """The larger image."""
        return _modules.shuffle(self, x, "channels_last")


class UpsampleConv(nnx.Conv):
    """`nnx.Conv` of the nearest upsampling, which is never stored: `upsample_conv`.

    Its parameters are named, shaped and initialised as those of `nnx.Conv`, so what was
    saved of an `nnx.Conv` after an upsampling loads as it is. Equals, but for
    rounding, ::

        conv(jnp.concatenate([upsample_nearest(x, scale), skip], -1))
        # of conv = nnx.Conv(in_features, out_features, kernel_size, ...)

    Args:
      in_features: channels of the input, and of the skip if there is one.
      out_features: channels of the result.
      kernel_size: as of `nnx.Conv`, for one to three spatial axes.
      scale: a positive int for all spatial axes or one for each.
      activation: `None`, `"relu"` or `"silu"`, applied last.
      method: of `upsample_conv`; forward mode needs `"phases"` or `"plain"`.
      implementation: of `upsample_conv`.
      rngs: as of `nnx.Conv`.
      **options: other arguments of `nnx.Conv`: `padding` of the upsampled array (not
        `"REFLECT"`), `kernel_dilation`, `feature_group_count` (1 with a skip),
        `use_bias`, `dtype`, `param_dtype`, `precision`, `kernel_init`, ..

    Raises:
      TypeError: `strides`, `input_dilation`, `mask` or `conv_general_dilated`.

    Example:
      >>> import jax.numpy as jnp
      >>> from flax import nnx
      >>> from jax_upsample import nnx as upsample_nnx
      >>> conv = upsample_nnx.UpsampleConv(16 + 8, 4, (3, 3), rngs=nnx.Rngs(0))
      >>> conv.kernel.shape
      (3, 3, 24, 4)
      >>> conv(jnp.ones((1, 8, 8, 16)), skip=jnp.ones((1, 16, 16, 8))).shape
      (1, 16, 16, 4)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: int | Sequence[int],
        scale: int | Sequence[int] = 2,
        *,
        activation: Activation | None = None,
        method: Method | None = None,
        implementation: Implementation | None = None,
        rngs: nnx.Rngs,
        **options: Any,
    ):
        _modules.refuse_unsupported(self, options)
        super().__init__(in_features, out_features, kernel_size, rngs=rngs, **options)
        self.scale = scale
        self.activation = activation
        self.method = method
        self.implementation = implementation

    def __call__(self, inputs: jax.Array, skip: jax.Array | None = None) -> jax.Array:
        """Convolves the upsampled (*batch, *spatial, channels) and `skip` beside it."""
        bias = None if self.bias is None else self.bias[...]
        inputs, kernel, bias, skip = self.promote_dtype(
            (inputs, self.kernel[...], bias, skip), dtype=self.dtype
        )
        return _modules.convolve(
            self,
            inputs,
            kernel,
            skip=skip,
            bias=bias,
            rhs_dilation=self.kernel_dilation,
            feature_group_count=self.feature_group_count,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
        )
