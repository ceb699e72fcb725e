"""Nearest upsampling joined to another array in one pass: a sum or a concatenation.

`upsample_add_p` and `upsample_concat_fwd_p` are linear in both operands. The transpose
of the sum is `upsample_nearest_bwd_p` and the cotangent itself, that of the
concatenation `upsample_concat_bwd_p`, which reads its part in place, and a slice.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import ad, mlir
from jax.sharding import AxisType

from jax_upsample import _arguments, _linear_pair, _resize_nearest, _upsample_nearest
from jax_upsample._arguments import Implementation
from jax_upsample._nearest_rules import Rule
from jax_upsample._upsample_nearest import (
    as_moved,
    movable,
    sum_dtype,
    upsample_nearest_bwd_p,
    upsample_nearest_fwd_p,
)


def upsample_add(
    x: jax.typing.ArrayLike,
    lateral: jax.typing.ArrayLike,
    scale: int | Sequence[int] | None = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    rule: Rule = "jax",
    implementation: Implementation | None = None,
) -> jax.Array:
    """`lateral` plus nearest upsampling of `x`: the merge of a feature pyramid.

    Equals, for floats of 16 bits and less added in float32 and rounded once, ::

        lateral + upsample_nearest(x, scale, axes=axes)
        lateral + resize_nearest(x, lateral.shape, rule=rule)           # scale=None

    but reads and writes each array once where XLA would stop at a custom call. Linear
    in both; the gradient of `x` is the sum of each window of the cotangent, as of
    `upsample_nearest`, that of `lateral` the cotangent. All derivatives and vmap.

    Args:
      x: array of a numeric dtype and of rank 1 or more.
      lateral: array of that dtype, of the shape of the upsampled `x`.
      scale: how often to repeat, a positive int for all axes or one for each axis;
        `None` takes `x` to the sizes of `lateral`, whatever they are.
      axes: the spatial axes, one to three of them, negative ones counted from the end.
      rule: with `scale=None`, of `resize_nearest`.
      implementation: `"kernel"` for the custom call, `"xla"` for plain XLA, which fuses
        it into one loop, `None` for the form that measured faster: on NVIDIA GPUs the
        kernel for integer scales where rows are whole vectors of 16 bytes, else plain
        XLA. All give the same bits forward, but for the payload of a NaN.

    Returns:
      An array like `lateral`.

    Raises:
      TypeError: an operand is no array of numbers, or their dtypes differ, or `scale`
        or `axes` are no integers.
      ValueError: `lateral` is not of the upsampled shape, or as `upsample_nearest` and
        `resize_nearest`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import upsample_add
      >>> upsample_add(jnp.array([1, 2]), jnp.array([10, 20, 30, 40]), axes=0)
      Array([11, 21, 32, 42], dtype=int32)
      >>> upsample_add(jnp.array([1, 2]), jnp.array([10, 20, 30]), None, axes=0)
      Array([11, 22, 32], dtype=int32)
    """
    function = "upsample_add"
    x, lateral, params = _canonicalize(
        function, x, "lateral", lateral, scale, axes, rule, implementation
    )
    if not jnp.issubdtype(x.dtype, np.number):
        raise TypeError(f"{function}: x must hold numbers, got {x.dtype}")
    return upsample_add_p.bind(x, lateral, **params)


def upsample_concat(
    x: jax.typing.ArrayLike,
    skip: jax.typing.ArrayLike,
    scale: int | Sequence[int] | None = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    concat_axis: int = -1,
    skip_first: bool = False,
    rule: Rule = "jax",
    implementation: Implementation | None = None,
) -> jax.Array:
    """Nearest upsampling of `x`, concatenated with `skip`: the merge of a U-Net.

    Equals, bit for bit and for every dtype, ::

        jnp.concatenate([upsample_nearest(x, scale, axes=axes), skip], concat_axis)
        jnp.concatenate([resize_nearest(x, sizes, rule=rule), skip], concat_axis)
                                      # scale=None: sizes of skip, but for concat_axis

    in one pass. Linear in both; the gradient of `x` sums each window of its part of the
    cotangent where it lies, without a copy. All derivatives and vmap.

    Before a convolution, `upsample_conv(x, kernel, skip=skip)` needs neither array.

    Args:
      x: array of any dtype and of rank 1 or more.
      skip: array of that dtype, of the shape of the upsampled `x` but for
        `concat_axis`.
      scale: how often to repeat, a positive int for all axes or one for each axis;
        `None` takes `x` to the sizes of `skip`, whatever they are.
      axes: the spatial axes, one to three of them, negative ones counted from the end.
      concat_axis: the axis along which to concatenate, none of `axes`.
      skip_first: whether `skip` comes first.
      rule: with `scale=None`, of `resize_nearest`.
      implementation: as of `upsample_add`. The kernel takes a `concat_axis` after all
        of `axes` (NHWC), or before all of them if they are at most two (NCHW).

    Returns:
      An array of that dtype, like `skip` but for `concat_axis`.

    Raises:
      TypeError: an operand is no array, or their dtypes differ, or `scale`, `axes` or
        `concat_axis` are no integers.
      ValueError: `skip` is not of the upsampled shape, `concat_axis` is out of range or
        one of `axes`, or as `upsample_nearest` and `resize_nearest`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import upsample_concat
      >>> upsample_concat(jnp.array([[1], [2]]), jnp.zeros((4, 2), int), axes=0)
      Array([[1, 0, 0],
             [1, 0, 0],
             [2, 0, 0],
             [2, 0, 0]], dtype=int32)
    """
    function = "upsample_concat"
    x = _arguments.array(function, x)  # once: it may be a copy to the device
    concat_axis = _arguments.integer(function, "concat_axis", concat_axis)
    (concat_axis,) = _arguments.canonical_axes(
        function, concat_axis, x.ndim, name="concat_axis"
    )
    if not isinstance(skip_first, bool | np.bool_):
        raise TypeError(f"{function}: skip_first must be a bool, got {skip_first!r}")
    x, skip, params = _canonicalize(
        function, x, "skip", skip, scale, axes, rule, implementation, concat_axis
    )
    params |= {"concat_axis": concat_axis, "skip_first": bool(skip_first)}
    sizes = _concat_fwd_shape(x.shape, skip.shape, **params)
    _arguments.check_output_size(function, x, sizes, f"skip has shape {skip.shape}")
    return upsample_concat_fwd_p.bind(x, skip, **params)


# ------------------------------------------------------------------------- arguments


def _canonicalize(
    function: str,
    x: Any,
    name: str,
    other: Any,
    scale: Any,
    axes: Any,
    rule: Any,
    implementation: Any,
    concat_axis: int | None = None,
) -> tuple[jax.Array, jax.Array, dict[str, Any]]:
    """Checks the arguments; the operands and the parameters of `upsample_nearest`.

    To other sizes than multiples, `x` is resized, and nothing is left to be scaled.
    """
    x = _arguments.array(function, x)
    other = _arguments.array(function, other, name)
    if x.dtype != other.dtype:
        raise TypeError(
            f"{function}: x and {name} must have one dtype, got {x.dtype} and "
            f"{other.dtype}"
        )
    canonical_axes = _arguments.canonical_axes(function, axes, x.ndim)
    if concat_axis in canonical_axes:
        raise ValueError(
            f"{function}: concat_axis must be none of axes, got {concat_axis} and "
            f"{canonical_axes}"
        )
    _resize_nearest.check_rule(function, rule)
    if x.ndim != other.ndim:
        raise ValueError(
            f"{function}: {name} must have the rank of x, got shapes {other.shape} and "
            f"{x.shape}"
        )
    if scale is None:
        wanted = [
            n if axis in canonical_axes else m
            for axis, (m, n) in enumerate(zip(x.shape, other.shape, strict=True))
        ]
        factors: Any = [
            1
            if x.shape[a] == other.shape[a]
            else _resize_nearest.repeats(rule, x.shape[a], other.shape[a], None)
            for a in canonical_axes
        ]
    else:
        factors = _arguments.canonical_scales(function, scale, len(canonical_axes))
        by_axis = dict(zip(canonical_axes, factors, strict=True))
        wanted = [size * by_axis.get(axis, 1) for axis, size in enumerate(x.shape)]
    if concat_axis is not None:
        wanted[concat_axis] = other.shape[concat_axis]
    if tuple(wanted) != other.shape:
        raise ValueError(
            f"{function}: {name} must have shape {tuple(wanted)} for x of shape "
            f"{x.shape}, scale {scale} and axes {canonical_axes}, got {other.shape}"
        )
    if None in factors:
        _arguments.check_implementation(function, implementation, x.dtype)
        sizes = tuple(
            m if axis == concat_axis else n
            for axis, (m, n) in enumerate(zip(x.shape, wanted, strict=True))
        )
        # Plain XLA fuses it with what follows.
        x = _resize_nearest.to_sizes(
            function, x, sizes, {}, rule, implementation or "xla"
        )
        factors = (1,) * len(canonical_axes)
    x, params = _upsample_nearest.canonicalize(
        function, x, factors, canonical_axes, implementation
    )
    x, other = _linear_pair.alike(x, other)
    types: Any = jax.typeof(x), jax.typeof(other)
    shardings = [of.sharding for of in types]
    is_explicit = any(AxisType.Explicit in s.mesh.axis_types for s in shardings)
    if is_explicit and shardings[0].spec != shardings[1].spec:
        raise ValueError(
            f"{function}: x and {name} must be sharded alike over Explicit axes of a "
            f"mesh, got {types[0]} and {types[1]}"
        )
    return x, other, params


# ------------------------------------------------------------------------ plain forms


def _add_lax(x: jax.Array, lateral: jax.Array, **params: Any) -> jax.Array:
    up, wide = _upsample_nearest.fwd_lax(x, **params), sum_dtype(x.dtype)
    return (lateral.astype(wide) + up.astype(wide)).astype(x.dtype)


def _concat_fwd_lax(
    x: jax.Array,
    skip: jax.Array,
    *,
    concat_axis: int,
    skip_first: bool,
    **params: Any,
) -> jax.Array:
    parts = [_upsample_nearest.fwd_lax(movable(x), **params), movable(skip)]
    y = lax.concatenate(parts[::-1] if skip_first else parts, concat_axis)
    return as_moved(y, x.dtype)


def _concat_bwd_lax(
    ct: jax.Array, *, concat_axis: int, start: Any, size: Any, **params: Any
) -> jax.Array:
    part = lax.slice_in_dim(ct, start, start + size, axis=concat_axis)
    return _upsample_nearest.bwd_lax(part, **params)


# -------------------------------------------------------------------------- transposes


def _add_transpose(ct: jax.Array, x: Any, lateral: Any, **params: Any) -> list[Any]:
    cotangents: list[Any] = [None, None]
    if ad.is_undefined_primal(x):
        scaled = bool(params["axes"])
        # Plain XLA fuses the sums with what makes the cotangent: by kernel a pyramid's
        # step took 1.05 to 1.12 times as long on an H200.
        params["implementation"] = params["implementation"] or "xla"
        cotangents[0] = upsample_nearest_bwd_p.bind(ct, **params) if scaled else ct
    if ad.is_undefined_primal(lateral):
        cotangents[1] = ct
    return cotangents


def _concat_fwd_transpose(
    ct: jax.Array,
    x: Any,
    skip: Any,
    *,
    concat_axis: int,
    skip_first: bool,
    **params: Any,
) -> list[Any]:
    sizes = [
        (operand.aval if ad.is_undefined_primal(operand) else operand).shape[
            concat_axis
        ]
        for operand in (x, skip)
    ]
    start, skip_start = (sizes[1], 0) if skip_first else (0, sizes[0])
    cotangents: list[Any] = [None, None]
    if ad.is_undefined_primal(x):
        cotangents[0] = upsample_concat_bwd_p.bind(
            ct, concat_axis=concat_axis, start=start, size=sizes[0], **params
        )
    if ad.is_undefined_primal(skip):
        cotangents[1] = lax.slice_in_dim(
            ct, skip_start, skip_start + sizes[1], axis=concat_axis
        )
    return cotangents


def _concat_bwd_transpose(
    ct: jax.Array, whole: Any, *, concat_axis: int, start: Any, size: Any, **params: Any
) -> list[Any]:
    rest = whole.aval.shape[concat_axis] - start - size
    y = upsample_nearest_fwd_p.bind(ct, **params) if params["axes"] else ct
    padding = [
        (start, rest, 0) if axis == concat_axis else (0, 0, 0) for axis in range(y.ndim)
    ]
    return [lax.pad(y, jnp.zeros((), y.dtype), padding)]


# ------------------------------------------------------------------------- primitives


def _add_shape(
    shape: tuple[Any, ...], lateral_shape: tuple[Any, ...], **params: Any
) -> tuple[Any, ...]:
    return lateral_shape


def _concat_fwd_shape(
    shape: tuple[Any, ...],
    skip_shape: tuple[Any, ...],
    *,
    concat_axis: int,
    **params: Any,
) -> tuple[Any, ...]:
    sizes = list(skip_shape)
    sizes[concat_axis] += shape[concat_axis]
    return tuple(sizes)


def _concat_bwd_shape(
    shape: tuple[Any, ...], *, concat_axis: int, start: Any, size: Any, **params: Any
) -> tuple[Any, ...]:
    part = (*shape[:concat_axis], size, *shape[concat_axis + 1 :])
    return _upsample_nearest.bwd_shape(part, **params)


_call_concat_fwd = _upsample_nearest.kernel("jax_upsample_concat_fwd_v1")
_call_concat_bwd = _upsample_nearest.kernel("jax_upsample_concat_bwd_v1", backward=True)


def _concat_fwd_kernel(
    ctx: mlir.LoweringRuleContext, *operands: Any, skip_first: bool, **params: Any
) -> Any:
    skip: Any = ctx.avals_in[1]
    start = skip.shape[params["concat_axis"]] if skip_first else 0
    return _call_concat_fwd(ctx, *operands, start=start, **params)


def _concat_bwd_kernel(
    ctx: mlir.LoweringRuleContext, *operands: Any, size: int, **params: Any
) -> Any:
    return _call_concat_bwd(ctx, *operands, **params)


def _has_no_concat_kernel(
    ctx: mlir.LoweringRuleContext,
    *,
    axes: tuple[int, ...],
    concat_axis: int,
    **params: Any,
) -> bool:
    """Whether the equation of the kernels (upsample_nearest.h) cannot say the part."""
    known = all(
        isinstance(size, int) and size > 0
        for aval in (*ctx.avals_in, *ctx.avals_out)
        for size in aval.shape
    )
    if not known or not axes:
        return True
    if concat_axis < axes[0]:
        return len(axes) > 2
    operand: Any = ctx.avals_in[0]
    between = operand.shape[axes[-1] + 1 : concat_axis]
    return concat_axis < axes[-1] or (len(axes) > 2 and math.prod(between) != 1)


upsample_add_p = _linear_pair.define_one(
    "upsample_add",
    _linear_pair.Map(
        _add_shape,
        _add_lax,
        _upsample_nearest.kernel("jax_upsample_add_v1"),
        lambda ctx, *, axes, **params: not axes,
    ),
    _add_transpose,
    sums=True,
)
upsample_concat_fwd_p = _linear_pair.define_one(
    "upsample_concat_fwd",
    _linear_pair.Map(
        _concat_fwd_shape,
        _concat_fwd_lax,
        _concat_fwd_kernel,
        _has_no_concat_kernel,
    ),
    _concat_fwd_transpose,
)
upsample_concat_bwd_p = _linear_pair.define_one(
    "upsample_concat_bwd",
    _linear_pair.Map(
        _concat_bwd_shape,
        _concat_bwd_lax,
        _concat_bwd_kernel,
        _has_no_concat_kernel,
    ),
    _concat_bwd_transpose,
    sums=True,
)
