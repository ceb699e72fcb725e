"""Modules for Flax Linen: `from jax_upsample import linen as upsample_linen`.

Arrays are channels-last with any number of batch axes, as those of `flax.linen.Conv`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax

from jax_upsample import _modules
from jax_upsample._arguments import Implementation
from jax_upsample._modules import DataFormat
from jax_upsample._nearest_rules import Rule, Scale
from jax_upsample._pixel_shuffle import Activation, ChannelOrder
from jax_upsample._upsample_conv import Method

__all__ = ["PixelShuffle", "Upsample", "UpsampleAdd", "UpsampleConcat", "UpsampleConv"]

_CONV_FIELDS = dataclasses.fields(nn.Conv)


class Upsample(nn.Module):
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
      >>> from jax_upsample import linen as upsample_linen
      >>> x = jnp.ones((1, 8, 8, 3))
      >>> upsample_linen.Upsample()(x).shape
      (1, 16, 16, 3)
      >>> upsample_linen.Upsample(size=(13, 17))(x).shape
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


class UpsampleAdd(nn.Module):
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
      >>> from jax_upsample import linen as upsample_linen
      >>> x, lateral = jnp.ones((1, 4, 4, 3)), jnp.ones((1, 7, 8, 3))
      >>> upsample_linen.UpsampleAdd(scale=None)(x, lateral).shape
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


class UpsampleConcat(nn.Module):
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
      >>> from jax_upsample import linen as upsample_linen
      >>> x, skip = jnp.ones((1, 4, 4, 3)), jnp.ones((1, 8, 8, 2))
      >>> upsample_linen.UpsampleConcat()(x, skip).shape
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


class PixelShuffle(nn.Module):
    """Groups of channels spread over the pixels of a larger image: `pixel_shuffle`.

    Args:
      scale: a positive int for all spatial axes or one for each.
      axes: as of `Upsample`.
      data_format: likewise.
      channel_order: `"torch"` or `"tf"`, of `pixel_shuffle`.
      implementation: of `pixel_shuffle`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import linen as upsample_linen
      >>> upsample_linen.PixelShuffle()(jnp.ones((1, 8, 8, 12))).shape
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


class UpsampleConv(nn.Conv):
    """`nn.Conv` of the nearest upsampling, which is never stored: `upsample_conv`.

    Its parameters are named, shaped and initialised as those of `nn.Conv`, so what was
    saved of an `nn.Conv` after an upsampling loads as it is (in a compact method, give
    it that one's `name`, as "Conv_0"). Equals, but for rounding, ::

        conv(jnp.concatenate([upsample_nearest(x, scale), skip], -1))
        # of conv = nn.Conv(features, kernel_size, ...)

    Args:
      scale: a positive int for all spatial axes or one for each.
      activation: `None`, `"relu"` or `"silu"`, applied last.
      method: of `upsample_conv`; forward mode needs `"phases"` or `"plain"`.
      implementation: of `upsample_conv`.

    The others are those of `nn.Conv`: `features`, `kernel_size` for one to three
    spatial axes, `padding` of the upsampled array (not `"REFLECT"`), `kernel_dilation`,
    `feature_group_count` (1 with a skip), `use_bias`, `dtype`, `param_dtype`, ..

    Raises:
      TypeError: `strides`, `input_dilation`, `mask` or `conv_general_dilated`.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> from jax_upsample import linen as upsample_linen
      >>> x, skip = jnp.ones((1, 8, 8, 16)), jnp.ones((1, 16, 16, 8))
      >>> conv = upsample_linen.UpsampleConv(4, (3, 3))
      >>> variables = conv.init(jax.random.key(0), x, skip)
      >>> variables["params"]["kernel"].shape
      (3, 3, 24, 4)
      >>> conv.apply(variables, x, skip).shape
      (1, 16, 16, 4)
    """

    scale: int | Sequence[int] = 2
    activation: Activation | None = None
    method: Method | None = None
    implementation: Implementation | None = None

    @nn.compact
    def __call__(self, inputs: jax.Array, skip: jax.Array | None = None) -> jax.Array:
        """Convolves the upsampled (*batch, *spatial, channels) and `skip` beside it."""
        values = {f.name: getattr(self, f.name) for f in _CONV_FIELDS}
        changed = {f.name for f in _CONV_FIELDS if values[f.name] is not f.default}
        _modules.refuse_unsupported(self, {name: values[name] for name in changed})
        kernel_size = self.kernel_size
        if isinstance(kernel_size, int):
            kernel_size = (kernel_size,)
        features = inputs.shape[-1] + (0 if skip is None else skip.shape[-1])
        shape = (*kernel_size, features // self.feature_group_count, self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param(
                "bias", self.bias_init, (self.features,), self.param_dtype
            )
        arrays: Any = self.promote_dtype(inputs, kernel, bias, skip, dtype=self.dtype)
        inputs, kernel, bias, skip = arrays
        return _modules.convolve(
            self,
            inputs,
            kernel,
            skip=skip,
            bias=bias,
            rhs_dilation=self.kernel_dilation,
            feature_group_count=self.feature_group_count,
            precision=self.precision,
        )
