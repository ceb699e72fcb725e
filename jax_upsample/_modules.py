"""What the modules of every framework do with their attributes and their inputs."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jax_upsample import _arguments
from jax_upsample._pixel_shuffle import pixel_shuffle
from jax_upsample._resize_nearest import resize_nearest
from jax_upsample._upsample_conv import upsample_conv
from jax_upsample._upsample_join import upsample_add, upsample_concat
from jax_upsample._upsample_nearest import upsample_nearest

DataFormat = Literal["channels_last", "channels_first"]

DATA_FORMATS = ("channels_last", "channels_first")

# Of a framework's convolution, which ours inherits from.
_UNSUPPORTED = (
    "strides",
    "stride",
    "input_dilation",
    "mask",
    "conv_general_dilated",
    "conv_general_dilated_cls",
)

# Padding that copies pixels, by its mode in `jnp.pad`: copies of padded pixels are the
# padded copies. ("REFLECT" is not among them: it leaves out copies at the border.)
_PADS_OF_PIXELS = {"CIRCULAR": "wrap", "REPLICATE": "edge"}


def upsample(module: Any, x: jax.Array, default: DataFormat) -> jax.Array:
    """`upsample_nearest` by integers, else `resize_nearest`."""
    name, scale, size = type(module).__name__, module.scale, module.size
    if scale is not None and size is not None:
        raise TypeError(
            f"{name}: only one of scale and size may be given, got scale={scale!r}, "
            f"size={size!r}"
        )
    options = {"rule": module.rule, "implementation": module.implementation}
    if size is None:
        scale = 2 if scale is None else scale
        axes, _ = _place(module, scale, default)
        factors = scale if isinstance(scale, Sequence) else (scale,)
        if all(isinstance(factor, Integral) for factor in factors):
            del options["rule"]
            return upsample_nearest(x, scale, axes=axes, **options)
        return resize_nearest(x, scale=scale, axes=axes, **options)
    axes, _ = _place(module, size, default)
    rank = jnp.ndim(x)
    axes = _arguments.canonical_axes(name, axes, rank, most=rank)
    sizes = size if isinstance(size, Sequence) else (size,) * len(axes)
    if len(sizes) != len(axes):
        raise ValueError(
            f"{name}: size must be one integer or one for each of the {len(axes)} "
            f"axes, got {size!r}"
        )
    by_axis = dict(zip(axes, sizes, strict=True))
    shape = [by_axis.get(axis, n) for axis, n in enumerate(jnp.shape(x))]
    return resize_nearest(x, shape, **options)


def add(
    module: Any, x: jax.Array, lateral: jax.Array, default: DataFormat
) -> jax.Array:
    """`upsample_add`."""
    axes, _ = _place(module, module.scale, default)
    return upsample_add(
        x,
        lateral,
        module.scale,
        axes=axes,
        rule=module.rule,
        implementation=module.implementation,
    )


def concat(
    module: Any, x: jax.Array, skip: jax.Array, default: DataFormat
) -> jax.Array:
    """`upsample_concat`, by default along the channels."""
    axes, channel_axis = _place(module, module.scale, default)
    return upsample_concat(
        x,
        skip,
        module.scale,
        axes=axes,
        concat_axis=channel_axis if module.concat_axis is None else module.concat_axis,
        skip_first=module.skip_first,
        rule=module.rule,
        implementation=module.implementation,
    )


def shuffle(module: Any, x: jax.Array, default: DataFormat) -> jax.Array:
    """`pixel_shuffle`."""
    axes, channel_axis = _place(module, module.scale, default)
    return pixel_shuffle(
        x,
        module.scale,
        axes=axes,
        channel_axis=channel_axis,
        channel_order=module.channel_order,
        implementation=module.implementation,
    )


def _place(
    module: Any, by_axis: Any, default: DataFormat
) -> tuple[tuple[int, ...], int]:
    """The spatial axes and the channel axis, from the end: batch axes may be any.

    Without `axes` they are as many as entries in `by_axis`, two for one number.
    """
    name, axes, data_format = type(module).__name__, module.axes, module.data_format
    if axes is not None and data_format is not None:
        raise ValueError(
            f"{name}: only one of axes and data_format may be given, "
            f"got axes={axes!r}, data_format={data_format!r}"
        )
    if data_format not in (None, *DATA_FORMATS):
        raise ValueError(
            f"{name}: data_format must be None or one of {DATA_FORMATS}, "
            f"got {data_format!r}"
        )
    is_last = (data_format or default) == "channels_last"
    if axes is None:
        count = len(by_axis) if isinstance(by_axis, Sequence) else 2
        end = -1 if is_last else 0
        axes = tuple(range(end - count, end))
    elif isinstance(axes, Integral):
        axes = (int(axes),)
    return axes, -1 if is_last else -len(axes) - 1


def refuse_unsupported(module: Any, options: Mapping[str, Any]) -> None:
    """Raises for what a framework's convolution takes and `upsample_conv` does not."""
    for name in _UNSUPPORTED:
        if name in options:
            raise TypeError(
                f"{type(module).__name__}: {name} is not supported, got "
                f"{options[name]!r}: what "
                "follows the upsampling is a plain convolution of stride 1"
            )


def convolve(
    module: Any,
    x: jax.Array,
    kernel: jax.Array,
    *,
    skip: jax.Array | None,
    bias: jax.Array | None,
    padding_mode: str | None = None,
    rhs_dilation: Any,
    dimension_numbers: tuple[str, str, str] | None = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> jax.Array:
    """`upsample_conv` of any number of batch axes, with the frameworks' paddings.

    `padding_mode` is how to pad, where the module's `padding` says only how much.
    """
    name, window = type(module).__name__, module.kernel_size
    window = (window,) if isinstance(window, int) else tuple(window)
    count = len(window)
    if x.ndim <= count:
        raise ValueError(
            f"{name}: the input must have {count} spatial axes and one of channels, "
            f"got shape {x.shape}"
        )
    batch = x.shape[: x.ndim - count - 1]
    if skip is not None:
        if skip.ndim != x.ndim or skip.shape[: len(batch)] != batch:
            raise ValueError(
                f"{name}: skip must have the input's rank and batch axes, got shapes "
                f"{skip.shape} and {x.shape}"
            )
        skip = _one_batch_axis(skip, batch)
    x = _one_batch_axis(x, batch)

    scale = _arguments.canonical_scales(name, module.scale, count)
    dilation = _arguments.canonical_scales(
        name, rhs_dilation or 1, count, name="dilation of the kernel"
    )
    reach = [(k - 1) * d for k, d in zip(window, dilation, strict=True)]
    padding = module.padding
    if isinstance(padding, str) and padding.upper() in ("CIRCULAR", "REFLECT"):
        padding, padding_mode = "SAME", padding.upper()
    padding = _amounts(name, padding, reach)
    if padding_mode is not None:
        if padding_mode not in _PADS_OF_PIXELS:
            raise ValueError(
                f"{name}: padding {padding_mode!r} cannot be done before the "
                "upsampling: use Upsample and a convolution"
            )
        mode = _PADS_OF_PIXELS[padding_mode]
        # Whole pixels, of which the convolution crops what is too much.
        pixels = [
            (-(-low // s), -(-high // s))
            for (low, high), s in zip(padding, scale, strict=True)
        ]
        copies = [
            (low * s, high * s) for (low, high), s in zip(pixels, scale, strict=True)
        ]
        padding = [
            (low - more, high - much)
            for (low, high), (more, much) in zip(padding, copies, strict=True)
        ]
        first = 1 if dimension_numbers is None else 2
        x = _pad(x, first, pixels, mode)
        skip = None if skip is None else _pad(skip, first, copies, mode)
    if bias is not None:
        bias = bias.astype(preferred_element_type or x.dtype)
    y = upsample_conv(
        x,
        kernel,
        scale,
        skip=skip,
        bias=bias,
        activation=module.activation,
        padding=padding,
        rhs_dilation=dilation,
        dimension_numbers=dimension_numbers,
        preferred_element_type=preferred_element_type,
        method=module.method,
        implementation=module.implementation,
        **options,
    )
    return y if len(batch) == 1 else y.reshape(*batch, *y.shape[1:])


def _one_batch_axis(x: jax.Array, batch: tuple[int, ...]) -> jax.Array:
    if len(batch) == 1:
        return x
    return x.reshape(math.prod(batch), *x.shape[len(batch) :])


def _pad(
    x: jax.Array, first: int, amounts: Sequence[tuple[int, int]], mode: str
) -> jax.Array:
    """Pads the spatial axes, the first of which is `first`."""
    before, after = [(0, 0)] * first, [(0, 0)] * (x.ndim - first - len(amounts))
    return jnp.pad(x, [*before, *amounts, *after], mode)


def _amounts(name: str, padding: Any, reach: list[int]) -> Any:
    """(low, high) for each spatial axis, of a kernel that reaches so far.

    What is none of the frameworks' is left for `upsample_conv` to refuse.
    """
    if isinstance(padding, str):
        match padding.upper():
            case "SAME":
                return [(r // 2, r - r // 2) for r in reach]
            case "SAME_LOWER":
                return [(r - r // 2, r // 2) for r in reach]
            case "VALID":
                return [(0, 0)] * len(reach)
            case "CAUSAL" if len(reach) == 1:
                return [(reach[0], 0)]
            case "CAUSAL":
                raise ValueError(
                    f"{name}: padding {padding!r} needs one spatial axis, got "
                    f"{len(reach)}"
                )
        return padding
    if isinstance(padding, Integral):
        padding = [padding] * len(reach)
    return [(p, p) if isinstance(p, Integral) else p for p in padding]
