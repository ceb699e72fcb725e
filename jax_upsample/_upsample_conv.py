"""Convolutions of nearest upsamplings, computed on the small array.

Taps of the kernel that fall on copies of one pixel are added up beforehand: sub-pixel
convolution. Per axis, with scale s, kernel size k, dilation d and low padding lo,
output o reads the large array at o + d t - lo for every tap t. With m = ceil(lo / s)
and r0 = s m - lo, output o + r0 = s p + a of phase a in [0, s) reads the small array at

    p - m + r,  r = floor((a + d t) / s),

so that each phase is a convolution of its own, its tap r the sum of those taps t. All
phases together ("folded") are one convolution with s times the outputs, which
`pixel_shuffle` interleaves and r0 and the output's size crop. That pass also adds what
follows: the convolution of `skip`, the bias, the activation.

With zeros between the pixels in place of copies, the same is the transpose of a
convolution of stride s, whose kernel, the *widened* one, has the sums of s taps in a
row; the phases read every s-th of them. So that convolution of stride s, of the
cotangent, is the gradient.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jax_upsample import _arguments, _linear_pair
from jax_upsample._arguments import Implementation
from jax_upsample._pixel_shuffle import (
    ACTIVATIONS,
    Activation,
    add_and_activate,
    pixel_shuffle_fwd_p,
    pixel_shuffle_sum_p,
)
from jax_upsample._upsample_nearest import sum_dtype, upsample_nearest

Method = Literal["folded", "phases", "plain"]

METHODS = ("folded", "phases", "plain")


def upsample_conv(
    x: jax.typing.ArrayLike,
    kernel: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    skip: jax.typing.ArrayLike | None = None,
    bias: jax.typing.ArrayLike | None = None,
    activation: Activation | None = None,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    rhs_dilation: int | Sequence[int] = 1,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    precision: lax.PrecisionLike = None,
    preferred_element_type: jax.typing.DTypeLike | None = None,
    method: Method | None = None,
    implementation: Implementation | None = None,
) -> jax.Array:
    """Convolves the `scale` times upsampled `x` without ever storing it.

    Equals, but for rounding, ::

        up = upsample_nearest(x, scale, axes=spatial)
        up = jnp.concatenate([up, skip], channel_axis)             # with skip
        y = lax.conv_general_dilated(
            up, kernel, (1,) * n, padding, rhs_dilation=rhs_dilation,
            dimension_numbers=dimension_numbers, ...)
        y = activation(y + bias)                      # in float32, rounded once

    A 3x3 kernel at scale 2 needs 4/9 of the multiplications, a 5x5 one 9/25; and with
    `skip`, the first convolution of a U-Net's decoder, there is no concatenation
    either. Its own gradient has the same savings.

    Args:
      x: array (n, *spatial, channels), or as `dimension_numbers` says, with one to
        three spatial axes; of floats, complex numbers or integers.
      kernel: array (*window, channels, outputs), or as `dimension_numbers` says, of the
        dtype of `x`; with `skip`, its channels are those of `x`, then those of `skip`.
      scale: a positive int for all spatial axes or one for each, in the order of the
        kernel's, as padding and dilation there.
      skip: array of the dtype of `x` and of the shape of `x` upsampled, but for its
        channels.
      bias: array (outputs,) of the result's dtype, added.
      activation: `"relu"` or `"silu"`, applied last, of floats. Where a gradient is
        taken, `"silu"` is one more pass, over the sum rounded to the result's dtype.
      padding: `"SAME"`, `"SAME_LOWER"`, `"VALID"`, or (low, high) for each spatial
        axis, in pixels of the large array; negative ones crop it.
      rhs_dilation: the distance of the taps in the large array, one int or one for
        each spatial axis.
      dimension_numbers: as in `jax.lax.conv_general_dilated`, but that None means
        channels last as in Flax: ("NHWC", "HWIO", "NHWC") for two spatial axes.
      feature_group_count: as there; 1 with `skip`.
      precision: as there. Taps are added up in float32 or wider at the highest
        precision and rounded once.
      preferred_element_type: as there, the dtype of the result.
      method: `"folded"`, one convolution for all phases; `"phases"`, one for each;
        `"plain"`, the lines above; `None` for `"folded"` where that multiplies less,
        else `"plain"`. `"folded"` is a `jax.custom_vjp`, which refuses forward mode:
        `jvp`, `jacfwd` and `linearize` need one of the other two.
      implementation: of the pass that interleaves the phases of `"folded"` and adds to
        them, and of the upsampling of `"plain"`: `"kernel"` for the custom call,
        `"xla"` for plain XLA, `None` for the form that measured faster, as in
        `pixel_shuffle`. The kernel takes floats of 16 and 32 bits and channels last.

    Returns:
      The array (n, *spatial, outputs), or as `dimension_numbers` says.

    Raises:
      TypeError: an argument is no array, the dtypes differ, or `scale`, `rhs_dilation`,
        `padding` or `feature_group_count` hold no integers, or `activation` is given no
        floats.
      ValueError: shapes that do not fit together, or an unknown `padding`,
        `dimension_numbers`, `activation` or `method`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import upsample_conv
      >>> x = jnp.arange(4.0).reshape(1, 2, 2, 1)
      >>> upsample_conv(x, jnp.ones((3, 3, 1, 1)))[0, ..., 0]
      Array([[ 0.,  2.,  4.,  4.],
             [ 4.,  9., 12., 10.],
             [ 8., 15., 18., 14.],
             [ 8., 14., 16., 12.]], dtype=float32)
    """
    function = "upsample_conv"
    array = _arguments.array(function, x)
    weights = _arguments.array(function, kernel, "kernel")
    conv = _canonicalize(
        function,
        array,
        weights,
        scale,
        padding,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        precision,
        preferred_element_type,
        implementation,
    )
    if method is not None and method not in METHODS:
        raise ValueError(
            f"{function}: method must be None or one of {METHODS}, got {method!r}"
        )
    if activation is not None and activation not in tuple(ACTIVATIONS):
        names = tuple(filter(None, ACTIVATIONS))
        raise ValueError(
            f"{function}: activation must be None or one of {names}, got {activation!r}"
        )
    dtype = conv.preferred_element_type or array.dtype
    if activation is not None and not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"{function}: activation needs floats, got {dtype}")
    taps = lax.transpose(weights, conv.rhs_spec)  # outputs, channels, *window
    beside = None
    if skip is None:
        _check_channels(function, array, taps, conv, 0)
    else:
        beside = _arguments.array(function, skip, "skip")
        _check_skip(function, array, beside, conv)
        _check_channels(function, array, taps, conv, beside.shape[conv.channel])
    if bias is not None:
        bias = _canonical_bias(function, bias, taps, conv)

    def form(
        x: jax.Array, taps: jax.Array, bias: jax.Array | None, skip: jax.Array | None
    ) -> jax.Array:
        added, channels = None, x.shape[conv.channel]
        if skip is not None:
            of_skip = taps[:, channels:]
            added = _convolve(skip, of_skip, conv.padding, conv, conv.rhs_dilation)
            taps = taps[:, :channels]
        return _upsampled(x, taps, bias, added, conv, activation, method)

    return _over_explicit_axes(form, array, taps, conv)(array, taps, bias, beside)


# ------------------------------------------------------------------------- arguments


@dataclasses.dataclass(frozen=True)
class _Conv:
    """What is static: dimension numbers, options, and one entry a spatial axis."""

    lhs_spec: tuple[int, ...]  # batch, channel, *spatial
    rhs_spec: tuple[int, ...]  # outputs, channels, *window
    out_spec: tuple[int, ...]
    window: tuple[int, ...]
    scale: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    rhs_dilation: tuple[int, ...]
    groups: int
    precision: Any
    preferred_element_type: Any
    implementation: Implementation | None

    @property
    def channel(self) -> int:
        return self.lhs_spec[1]

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes of the operand, those of the result in the same order."""
        return self.lhs_spec[2:]


def _canonicalize(
    function: str,
    x: jax.Array,
    kernel: jax.Array,
    scale: Any,
    padding: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    groups: Any,
    precision: Any,
    preferred_element_type: Any,
    implementation: Any,
) -> _Conv:
    count = x.ndim - 2
    if not 1 <= count <= _arguments.MAX_AXES or kernel.ndim != x.ndim:
        raise ValueError(
            f"{function}: x and kernel must both have rank 3 to "
            f"{2 + _arguments.MAX_AXES}, got shapes {x.shape} and {kernel.shape}"
        )
    if x.dtype != kernel.dtype:
        raise TypeError(
            f"{function}: x and kernel must have one dtype, got {x.dtype} and "
            f"{kernel.dtype}"
        )
    if dimension_numbers is None:
        names = "DHW"[-count:]
        dimension_numbers = (f"N{names}C", f"{names}IO", f"N{names}C")
    try:
        numbers = lax.conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{function}: dimension_numbers must be those of conv_general_dilated, got "
            f"{dimension_numbers!r}: {error}"
        ) from None
    scales = _arguments.canonical_scales(function, scale, count)
    dilation = _arguments.canonical_scales(
        function, rhs_dilation, count, name="rhs_dilation"
    )
    _arguments.check_implementation(function, implementation, x.dtype)
    window = tuple(kernel.shape[axis] for axis in numbers.rhs_spec[2:])
    groups = _arguments.integer(function, "feature_group_count", groups)
    outputs = kernel.shape[numbers.rhs_spec[0]]
    if groups < 1 or outputs % groups != 0:
        raise ValueError(
            f"{function}: feature_group_count must be positive and divide the "
            f"{outputs} outputs of kernel, got {groups}"
        )
    sizes = [
        x.shape[axis] * s for axis, s in zip(numbers.lhs_spec[2:], scales, strict=True)
    ]
    return _Conv(
        lhs_spec=tuple(numbers.lhs_spec),
        rhs_spec=tuple(numbers.rhs_spec),
        out_spec=tuple(numbers.out_spec),
        window=window,
        scale=scales,
        padding=_canonical_padding(function, padding, sizes, window, dilation),
        rhs_dilation=dilation,
        groups=groups,
        precision=lax.Precision(precision) if isinstance(precision, str) else precision,
        preferred_element_type=(
            None
            if preferred_element_type is None
            else jnp.dtype(preferred_element_type)
        ),
        implementation=implementation,
    )


def _canonical_padding(
    function: str,
    value: Any,
    sizes: Sequence[int],
    window: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    if isinstance(value, str):
        if value.upper() not in ("SAME", "SAME_LOWER", "VALID"):
            raise ValueError(
                f'{function}: padding must be "SAME", "SAME_LOWER", "VALID" or pairs '
                f"of integers, got {value!r}"
            )
        pads = lax.padtype_to_pads(sizes, reach, (1,) * len(sizes), value.upper())
        return tuple((int(low), int(high)) for low, high in pads)
    pairs = tuple(value) if isinstance(value, Sequence | np.ndarray) else ()
    entries = [_arguments.integers(function, "padding", pair) for pair in pairs]
    if len(entries) != len(sizes) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in entries
    ):
        raise ValueError(
            f"{function}: padding must be a string or a (low, high) pair for each of "
            f"the {len(sizes)} spatial axes, got {value!r}"
        )
    return tuple(entries)  # type: ignore[arg-type]


def _check_channels(
    function: str, x: jax.Array, taps: jax.Array, conv: _Conv, of_skip: int
) -> None:
    channels = x.shape[conv.channel] + of_skip
    if channels != taps.shape[1] * conv.groups:
        raise ValueError(
            f"{function}: kernel must have {channels} input channels"
            + (f" / {conv.groups} groups" if conv.groups != 1 else "")
            + (f" ({of_skip} of them skip's)" if of_skip else "")
            + f", got {taps.shape[1]}"
        )


def _check_skip(function: str, x: jax.Array, skip: jax.Array, conv: _Conv) -> None:
    wanted = list(x.shape)
    for axis, s in zip(conv.axes, conv.scale, strict=True):
        wanted[axis] *= s
    rest = [a for a in range(x.ndim) if a != conv.channel]
    if skip.ndim != x.ndim or [skip.shape[a] for a in rest] != [
        wanted[a] for a in rest
    ]:
        raise ValueError(
            f"{function}: skip must have the shape {tuple(wanted)} of the upsampled x, "
            f"but for axis {conv.channel}, got {skip.shape}"
        )
    if skip.dtype != x.dtype:
        raise TypeError(
            f"{function}: x and skip must have one dtype, got {x.dtype} and "
            f"{skip.dtype}"
        )
    if conv.groups != 1:
        raise ValueError(
            f"{function}: skip needs feature_group_count=1, got {conv.groups}"
        )


def _canonical_bias(
    function: str, bias: Any, taps: jax.Array, conv: _Conv
) -> jax.Array:
    array = _arguments.array(function, bias, "bias")
    outputs, dtype = taps.shape[0], conv.preferred_element_type or taps.dtype
    if array.shape != (outputs,):
        raise ValueError(
            f"{function}: bias must have the shape ({outputs},) of the outputs, "
            f"got {array.shape}"
        )
    if array.dtype != dtype:
        raise TypeError(
            f"{function}: bias must have the dtype {dtype} of the result, "
            f"got {array.dtype}"
        )
    return array


# ------------------------------------------------------------------------ geometry


@dataclasses.dataclass(frozen=True)
class _Axis:
    """One spatial axis: the formulas at the top of this file."""

    size: int
    window: int
    scale: int
    low: int
    high: int
    dilation: int

    @property
    def outputs(self) -> int:
        reach = (self.window - 1) * self.dilation + 1
        return self.size * self.scale + self.low + self.high - reach + 1

    @property
    def m(self) -> int:
        return -(-self.low // self.scale)

    @property
    def r0(self) -> int:
        return self.scale * self.m - self.low

    def taps(self, phase: int) -> int:
        """The taps of a phase."""
        return (phase + self.dilation * (self.window - 1)) // self.scale + 1

    @property
    def most_taps(self) -> int:
        return self.taps(self.scale - 1)

    @property
    def positions(self) -> int:
        """How many p there are: the size of the folded convolution's result."""
        return -(-(self.outputs + self.r0) // self.scale)

    def widen(self, kernel: jax.Array, place: int) -> jax.Array:
        """The kernel, along axis `place`, of the array upsampled but for zeros between.

        Its tap u, from 1 - s on, is the sum of the s taps from u on.
        """
        dtype, pads = kernel.dtype, [(0, 0, 0)] * kernel.ndim
        shifted = []
        for j in range(self.scale):
            pads[place] = (self.scale - 1 - j, j, self.dilation - 1)
            shifted.append(lax.pad(kernel, jnp.zeros((), dtype), pads))
        return functools.reduce(lax.add, shifted)

    def split(self, wide: jax.Array, place: int) -> jax.Array:
        """[phase, tap] of a widened kernel: its tap s r - a is tap r of phase a."""
        s, r = self.scale, self.most_taps
        pads = [(0, 0, 0)] * wide.ndim
        pads[place] = (0, s * r - wide.shape[place], 0)
        wide = lax.pad(wide, jnp.zeros((), wide.dtype), pads)
        wide = lax.reshape(wide, (*wide.shape[:place], r, s, *wide.shape[place + 1 :]))
        return jnp.swapaxes(lax.rev(wide, (place + 1,)), place, place + 1)

    def pads(self, first: int, count: int, taps: int) -> tuple[int, int]:
        """Padding of a convolution that gives `count` positions from `first` on."""
        low = self.m - first
        return low, count + taps - 1 - self.size - low


def _geometry(x: jax.Array, conv: _Conv) -> list[_Axis]:
    return [
        _Axis(x.shape[a], k, s, low, high, d)
        for a, k, s, (low, high), d in zip(
            conv.axes,
            conv.window,
            conv.scale,
            conv.padding,
            conv.rhs_dilation,
            strict=True,
        )
    ]


# ----------------------------------------------------------------------------- forms


def _upsampled(
    x: jax.Array,
    taps: jax.Array,
    bias: jax.Array | None,
    added: jax.Array | None,
    conv: _Conv,
    activation: str | None,
    method: str | None,
) -> jax.Array:
    """The convolution of the upsampled `x`; `taps` is [outputs, channels, *window].

    To it come `bias` and `added`, an array like it, and the activation.
    """
    # Along an axis of one tap and no padding, upsampling commutes with the convolution.
    commute = [
        k == 1 and pad == (0, 0)
        for k, pad in zip(conv.window, conv.padding, strict=True)
    ]
    after = [s if c else 1 for s, c in zip(conv.scale, commute, strict=True)]
    before = [1 if c else s for s, c in zip(conv.scale, commute, strict=True)]
    axes = _geometry(x, conv)
    empty = 0 in x.shape or any(axis.outputs <= 0 for axis in axes)
    if method is None:
        method = _choose(axes)
    finish = (bias, added, activation)
    if method == "plain" or empty:
        y = upsample_nearest(
            x, conv.scale, axes=conv.axes, implementation=conv.implementation
        )
        y = _convolve(y, taps, conv.padding, conv, conv.rhs_dilation)
        return add_and_activate(y, *finish, conv.out_spec[1])
    if conv.preferred_element_type is not None and not jnp.issubdtype(
        x.dtype, jnp.inexact
    ):  # in which sums of taps do not overflow
        x, taps = (a.astype(conv.preferred_element_type) for a in (x, taps))
    conv = dataclasses.replace(conv, scale=tuple(before))
    if method == "folded" and not any(commute):
        return _folded(*_alike(x, taps, bias, added), conv, activation)
    if all(commute):
        y = _convolve(x, taps, conv.padding, conv, conv.rhs_dilation)
    elif method == "folded":
        y = _folded(*_alike(x, taps), None, None, conv, None)
    else:
        y = _phases(x, taps, conv)
    y = upsample_nearest(
        y, after, axes=conv.out_spec[2:], implementation=conv.implementation
    )
    return add_and_activate(y, *finish, conv.out_spec[1])


def _choose(axes: list[_Axis]) -> Method:
    """Folded where that multiplies less, for each output, than the plain form.

    It then was 1.7 to 3.0 times as fast on an H200, its training step 1.7 to 2.7, and
    always before the phases (`benchmarks/upsample_conv.py`).
    """
    folded = math.prod(
        1 / axis.scale if axis.window == 1 else axis.most_taps for axis in axes
    )
    return "folded" if folded < math.prod(axis.window for axis in axes) else "plain"


def _widen(taps: jax.Array, axes: list[_Axis]) -> jax.Array:
    """[outputs, channels, *window] to those of the upsampling by zeros."""
    wide = taps.astype(sum_dtype(taps.dtype))
    for place, axis in enumerate(axes, 2):
        wide = axis.widen(wide, place)
    return wide.astype(taps.dtype)


def _fold(taps: jax.Array, axes: list[_Axis]) -> jax.Array:
    """[outputs, channels, *window] to [outputs, channels, phase, tap, ...]."""
    folded = _widen(taps, axes)
    for place, axis in zip(itertools.count(2, 2), axes):
        folded = axis.split(folded, place)
    return folded


def _phases(x: jax.Array, taps: jax.Array, conv: _Conv) -> jax.Array:
    """A convolution for each phase, interleaved."""
    axes = _geometry(x, conv)
    folded = _fold(taps, axes)
    counts = [-(-axis.outputs // axis.scale) for axis in axes]
    results = {}
    for residues in itertools.product(*(range(axis.scale) for axis in axes)):
        index: list[Any] = [slice(None), slice(None)]
        pads = []
        for axis, residue, count in zip(axes, residues, counts, strict=True):
            first, phase = divmod(residue + axis.r0, axis.scale)
            index += [phase, slice(axis.taps(phase))]
            pads.append(axis.pads(first, count, axis.taps(phase)))
        results[residues] = _convolve(x, folded[tuple(index)], pads, conv)
    y = _interleave(results, (), axes, conv)
    for place, axis in zip(conv.out_spec[2:], axes, strict=True):
        y = lax.slice_in_dim(y, 0, axis.outputs, axis=place)
    return y


def _interleave(
    results: dict[tuple[int, ...], jax.Array],
    residues: tuple[int, ...],
    axes: list[_Axis],
    conv: _Conv,
) -> jax.Array:
    """The phases that begin with these residues, those of every further axis merged."""
    depth = len(residues)
    if depth == len(axes):
        return results[residues]
    parts = [
        _interleave(results, (*residues, residue), axes, conv)
        for residue in range(axes[depth].scale)
    ]
    place = conv.out_spec[2 + depth]
    y = jnp.stack(parts, place + 1)
    merged = parts[0].shape[place] * len(parts)
    return lax.reshape(y, (*y.shape[:place], merged, *y.shape[place + 2 :]))


def _alike(*operands: jax.Array | None) -> list[jax.Array | None]:
    """`_linear_pair.alike` of those that are there."""
    there = iter(_linear_pair.alike(*(x for x in operands if x is not None)))
    return [None if x is None else next(there) for x in operands]


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _folded(
    x: jax.Array,
    taps: jax.Array,
    bias: jax.Array | None,
    added: jax.Array | None,
    conv: _Conv,
    activation: str | None,
) -> jax.Array:
    """One convolution for all phases, shuffled, cropped and finished in one pass."""
    axes = _geometry(x, conv)
    kernel = _folded_kernel(taps, axes, conv)
    pads = [axis.pads(0, axis.positions, axis.most_taps) for axis in axes]
    y = _convolve(x, kernel, pads, conv)
    shuffle = _shuffle(axes, conv)
    if conv.groups != 1:
        y = _by_group(functools.partial(pixel_shuffle_fwd_p.bind, **shuffle), y, conv)
        return add_and_activate(y, bias, added, activation, conv.out_spec[1])
    if bias is None and added is None and activation is None:
        return pixel_shuffle_fwd_p.bind(y, **shuffle)
    if bias is None:
        y, bias = _linear_pair.alike(y, jnp.zeros(taps.shape[:1], y.dtype))
    operands = (y, bias) if added is None else (y, bias, added)
    return pixel_shuffle_sum_p.bind(*operands, activation=activation, **shuffle)


def _folded_fwd(
    x: jax.Array,
    taps: jax.Array,
    bias: jax.Array | None,
    added: jax.Array | None,
    conv: _Conv,
    activation: str | None,
) -> Any:
    if activation == "silu":  # whose derivative needs the sum
        total = _folded(x, taps, bias, added, conv, None)
        wide = total.astype(sum_dtype(total.dtype))
        y = ACTIVATIONS[activation](wide).astype(total.dtype)
    else:
        y = total = _folded(x, taps, bias, added, conv, activation)
    return y, (x, taps, bias, added, None if activation is None else total)


def _folded_bwd(
    conv: _Conv, activation: str | None, residuals: Any, cotangent: jax.Array
) -> Any:
    """By one convolution of the cotangent: of stride s, with the widened kernel.

    Its value is the gradient of `x`, its gradient by the kernel that of `taps`. XLA's
    own gradient of the folded convolution is 4 to 20 times slower on an H200.
    """
    x, taps, bias, added, total = residuals
    if activation is not None:  # relu(relu(y)) has the derivative of relu(y)
        _, activated = jax.vjp(ACTIVATIONS[activation], total)
        (cotangent,) = activated(cotangent)
    bias_bar = None
    if bias is not None:
        channel = conv.out_spec[1]
        others = [axis for axis in range(cotangent.ndim) if axis != channel]
        wide = sum_dtype(cotangent.dtype)
        bias_bar = jnp.sum(cotangent, others, dtype=wide).astype(bias.dtype)
    added_bar = None if added is None else cotangent
    axes = _geometry(x, conv)
    transposed = functools.partial(_transposed, cotangent.astype(x.dtype), axes, conv)
    x_bar, of_taps = jax.vjp(transposed, taps)
    return x_bar, *of_taps(x), bias_bar, added_bar


_folded.defvjp(_folded_fwd, _folded_bwd)


def _transposed(
    cotangent: jax.Array, axes: list[_Axis], conv: _Conv, taps: jax.Array
) -> jax.Array:
    """The gradient of `x`: at i, the sum over u of wide[u] cotangent[s i + lo - u]."""
    wide = _widen(taps, axes)
    wide = lax.reshape(
        wide, (conv.groups, taps.shape[0] // conv.groups, *wide.shape[1:])
    )
    wide = lax.rev(jnp.swapaxes(wide, 1, 2), tuple(range(3, wide.ndim)))
    pads = [
        (reach - low, reach - high)
        for reach, (low, high) in zip(
            (axis.dilation * (axis.window - 1) for axis in axes),
            conv.padding,
            strict=True,
        )
    ]
    return lax.conv_general_dilated(
        cotangent,
        lax.collapse(wide, 0, 2),
        conv.scale,
        pads,
        dimension_numbers=lax.ConvDimensionNumbers(
            conv.out_spec, tuple(range(wide.ndim - 1)), conv.lhs_spec
        ),
        feature_group_count=conv.groups,
        precision=conv.precision,
    )


def _folded_kernel(taps: jax.Array, axes: list[_Axis], conv: _Conv) -> jax.Array:
    """[groups * phases * outputs of a group, channels, *most taps]."""
    folded = _fold(taps, axes)
    outputs, channels = taps.shape[0] // conv.groups, taps.shape[1]
    places = range(3, 3 + 2 * len(axes), 2)
    folded = lax.reshape(folded, (conv.groups, outputs, *folded.shape[1:]))
    order = (0, *places, 1, 2, *(place + 1 for place in places))
    most = [axis.most_taps for axis in axes]
    return jnp.reshape(lax.transpose(folded, order), (-1, channels, *most))


def _shuffle(axes: list[_Axis], conv: _Conv) -> dict[str, Any]:
    """The parameters of the shuffle; an axis more before the channels of groups."""
    channel, shift = conv.out_spec[1], int(conv.groups != 1)
    ends = [axis.positions * axis.scale - axis.r0 - axis.outputs for axis in axes]
    return {
        "axes": tuple(a + shift * (a > channel) for a in conv.out_spec[2:]),
        "scale": tuple(axis.scale for axis in axes),
        "first": tuple(axis.r0 for axis in axes),
        "last": tuple(ends),
        "channel_axis": channel + shift,
        "implementation": conv.implementation,
    }


def _by_group(
    reorder: Callable[..., jax.Array], y: jax.Array, conv: _Conv
) -> jax.Array:
    """`reorder` of [groups, phases, outputs of a group], which the channels are."""
    channel = conv.out_spec[1]
    split = (conv.groups, y.shape[channel] // conv.groups)
    y = reorder(lax.reshape(y, (*y.shape[:channel], *split, *y.shape[channel + 1 :])))
    merged = conv.groups * y.shape[channel + 1]
    return lax.reshape(y, (*y.shape[:channel], merged, *y.shape[channel + 2 :]))


def _over_explicit_axes(
    form: Callable[..., jax.Array], x: jax.Array, taps: jax.Array, conv: _Conv
) -> Callable[..., jax.Array]:
    """`form`, over Explicit mesh axes too, within which XLA finds the shardings.

    The result is sharded like `x`, its channels like the outputs of the kernel.
    """
    sharding: Any = jax.typeof(x).sharding
    if AxisType.Explicit not in sharding.mesh.axis_types:
        return form
    of_taps: Any = jax.typeof(taps).sharding
    spec: list[Any] = [None] * x.ndim
    for place, axis in zip(conv.out_spec, conv.lhs_spec, strict=True):
        spec[place] = sharding.spec[axis]
    spec[conv.out_spec[1]] = of_taps.spec[0]
    result = NamedSharding(sharding.mesh, PartitionSpec(*spec))
    return jax.sharding.auto_axes(form, out_sharding=result)


def _convolve(
    x: jax.Array,
    taps: jax.Array,
    padding: Sequence[tuple[int, int]],
    conv: _Conv,
    dilation: tuple[int, ...] | None = None,
) -> jax.Array:
    return lax.conv_general_dilated(
        x,
        taps,
        (1,) * len(padding),
        padding,
        rhs_dilation=dilation,
        dimension_numbers=lax.ConvDimensionNumbers(
            conv.lhs_spec, tuple(range(x.ndim)), conv.out_spec
        ),
        feature_group_count=conv.groups,
        precision=conv.precision,
        preferred_element_type=conv.preferred_element_type,
    )
