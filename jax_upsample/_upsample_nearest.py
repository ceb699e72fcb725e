"""Nearest upsampling by integer scales: the function and its primitive pair.

`upsample_nearest_fwd_p` repeats, `upsample_nearest_bwd_p` sums what was repeated.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir

from jax_upsample import _arguments, _linear_pair
from jax_upsample._arguments import Implementation
from jax_upsample._calls import call_of_small_and_large


def upsample_nearest(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    implementation: Implementation | None = None,
) -> jax.Array:
    """Repeats every element of `x` `scale` times along each of `axes`.

    Equals, bit for bit and for every dtype, ::

        jax.image.resize(x, shape, "nearest")     # shape[a] = x.shape[a] * scale
        jnp.repeat(jnp.repeat(x, scale, 1), scale, 2)                  # axes=(1, 2)

    It is linear in `x`. Its transpose, which the gradient runs, sums each window of
    the cotangent: in float32 for floats of 16 bits and less (rounded once), with
    compensation in float32 by the kernels, in a fixed order and without atomics, so
    equal calls give equal bits. Both directions have every derivative, in both modes,
    and batch along any axis.

    Args:
      x: array of any dtype and of rank 1 or more.
      scale: how often to repeat, a positive int for all axes or one for each axis.
      axes: the spatial axes, one to three of them, negative ones counted from the
        end: `(1, 2)` is NHWC, `(2, 3)` is NCHW, `(1,)` is NWC, `(1, 2, 3)` is NDHWC.
      implementation: `None` for the form that measured faster (on NVIDIA GPUs the CUDA
        kernels, but for sums of large windows of few pixels, as of 1x1 to 64x64; plain
        XLA elsewhere), `"kernel"` for the custom call (CUDA, or
        the host build of the same kernels on CPUs), `"xla"` for broadcast and reshape.
        All give the same bits forward; backward they differ in how float32 and wider
        sums are rounded (and in the sign of a zero). The sums of integers and of
        float8_e8m0fnu, which no gradient of a kernel's dtype needs, are plain XLA under
        `"kernel"` too.

    Returns:
      An array of the dtype of `x`, `x.shape[a] * scale` long along each axis `a`.

    Raises:
      TypeError: `x` is no array, or `scale` or `axes` are no integers.
      ValueError: an `x` of rank 0, a `scale` below 1, `axes` out of range, repeated or
        not matching `scale`, an unknown `implementation`, `"kernel"` where there is
        none, or an output of 2^63 bytes or more.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import upsample_nearest
      >>> upsample_nearest(jnp.array([[1, 2], [3, 4]]), axes=(0, 1))
      Array([[1, 1, 2, 2],
             [1, 1, 2, 2],
             [3, 3, 4, 4],
             [3, 3, 4, 4]], dtype=int32)
    """
    array, params = canonicalize("upsample_nearest", x, scale, axes, implementation)
    if not params["axes"]:
        return array
    return upsample_nearest_fwd_p.bind(array, **params)


def upsample_nearest_custom_vjp(
    x: jax.typing.ArrayLike,
    scale: int | Sequence[int] = 2,
    axes: int | Sequence[int] = (1, 2),
    implementation: Implementation | None = None,
) -> jax.Array:
    """`upsample_nearest` as a `jax.custom_vjp` over the same two primitives.

    Its gradient is the very program of `upsample_nearest`'s. Prefer that one: a
    `jax.custom_vjp` refuses forward mode (`jvp`, `jacfwd`, `linearize`) and
    `linear_transpose`. This form is for code that wants reverse-mode rules spelled out,
    or that wraps them.

    Args, returns and errors are those of `upsample_nearest`.
    """
    array, params = canonicalize(
        "upsample_nearest_custom_vjp", x, scale, axes, implementation
    )
    if not params["axes"]:
        return array
    return _custom_vjp(array, params["axes"], params["scale"], params["implementation"])


# ------------------------------------------------------------------------- arguments


def canonicalize(
    function: str,
    x: Any,
    scale: Any,
    axes: Any,
    implementation: Any,
) -> tuple[jax.Array, dict[str, Any]]:
    """Checks the arguments; the array, and the parameters of the primitives.

    In the parameters axes increase and every scale is above 1, so that calls that do
    the same are the same.
    """
    array = _arguments.array(function, x)
    axes = _arguments.canonical_axes(function, axes, array.ndim)
    scales = _arguments.canonical_scales(function, scale, len(axes))
    _arguments.check_implementation(function, implementation, array.dtype)
    scaled = sorted((a, s) for a, s in zip(axes, scales, strict=True) if s != 1)
    by_axis = dict(scaled)
    sizes = [size * by_axis.get(axis, 1) for axis, size in enumerate(array.shape)]
    _arguments.check_output_size(function, array, sizes, f"scale by axis is {by_axis}")
    return array, {
        "axes": tuple(a for a, _ in scaled),
        "scale": tuple(s for _, s in scaled),
        "implementation": implementation,
    }


# ------------------------------------------------------------------------ plain forms


def fwd_lax(
    x: jax.Array, *, axes: tuple[int, ...], scale: tuple[int, ...]
) -> jax.Array:
    """Broadcasts to [.., H, sh, W, sw, ..] and merges the scales into their axes."""
    split, place = _split_shape(x.shape, axes, scale)
    y = lax.broadcast_in_dim(x, split, [p for p in range(len(split)) if p not in place])
    return lax.reshape(y, _fwd_shape(x.shape, axes, scale))


def bwd_lax(
    g: jax.Array, *, axes: tuple[int, ...], scale: tuple[int, ...]
) -> jax.Array:
    """Splits to [.., H, sh, W, sw, ..] and sums the scales, in float32 or wider."""
    split, place = _split_shape(bwd_shape(g.shape, axes, scale), axes, scale)
    windows = lax.reshape(g, split)
    sums = jnp.sum(windows, axis=place, dtype=sum_dtype(g.dtype))
    return sums.astype(g.dtype)


def movable(x: jax.Array) -> jax.Array:
    """`x`, narrow floats as integers, to be copied bit for bit in a loop of XLA.

    Some backends widen them there, and NaNs do not come back as they were.
    """
    if jnp.issubdtype(x.dtype, jnp.floating):
        bits = jnp.finfo(x.dtype).bits
        if bits in (8, 16):
            return lax.bitcast_convert_type(x, jnp.dtype(f"uint{bits}"))
    return x


def as_moved(x: jax.Array, dtype: Any) -> jax.Array:
    """What `movable` took, of its `dtype` again."""
    return x if x.dtype == dtype else lax.bitcast_convert_type(x, dtype)


def sum_dtype(dtype: Any) -> Any:
    """What the plain forms add in: float32 for the floats that are narrower."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4
    return jnp.dtype(jnp.float32) if narrow else dtype


def _split_shape(
    shape: tuple[Any, ...], axes: tuple[int, ...], scale: tuple[int, ...]
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """`shape` with each scale after its axis, and the places of the scales in it."""
    by_axis = dict(zip(axes, scale, strict=True))
    split: list[Any] = []
    place = []
    for axis, size in enumerate(shape):
        split.append(size)
        if axis in by_axis:
            place.append(len(split))
            split.append(by_axis[axis])
    return tuple(split), tuple(place)


# ------------------------------------------------------------------------- primitives


def _fwd_shape(
    shape: tuple[Any, ...], axes: tuple[int, ...], scale: tuple[int, ...]
) -> tuple[Any, ...]:
    by_axis = dict(zip(axes, scale, strict=True))
    return tuple(size * by_axis.get(axis, 1) for axis, size in enumerate(shape))


def bwd_shape(
    shape: tuple[Any, ...], axes: tuple[int, ...], scale: tuple[int, ...]
) -> tuple[Any, ...]:
    sizes = list(shape)
    for axis, factor in zip(axes, scale, strict=True):
        sizes[axis], remainder = divmod(sizes[axis], factor)
        if isinstance(remainder, int) and remainder != 0:
            raise ValueError(
                f"upsample_nearest_bwd: dimension {axis} of {tuple(shape)} must be a "
                f"multiple of its scale {factor}"
            )
    return tuple(sizes)


def kernel(target: str, *, backward: bool = False) -> Callable[..., Any]:
    """The lowering rule that calls a target, further attributes being integers.

    Forward the first operand is small and all else large, backward the result.
    """

    def rule(
        ctx: mlir.LoweringRuleContext,
        *operands: Any,
        axes: tuple[int, ...],
        scale: tuple[int, ...],
        **further: int,
    ) -> Any:
        large = (backward,) + (not backward,) * len(operands)
        result: Any = ctx.avals_out[0]
        return call_of_small_and_large(
            ctx,
            target,
            *operands,
            large=large,
            axes=axes,
            scale=scale,
            shared=further.get("concat_axis", result.ndim),
            **further,
        )

    return rule


upsample_nearest_fwd_p, upsample_nearest_bwd_p = _linear_pair.define(
    "upsample_nearest",
    fwd=_linear_pair.Map(_fwd_shape, fwd_lax, kernel("jax_upsample_nearest_fwd_v1")),
    bwd=_linear_pair.Map(
        bwd_shape, bwd_lax, kernel("jax_upsample_nearest_bwd_v1", backward=True)
    ),
)


# ------------------------------------------------------------------------- custom_vjp


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _custom_vjp(
    x: jax.Array,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    implementation: str | None,
) -> jax.Array:
    return upsample_nearest_fwd_p.bind(
        x, axes=axes, scale=scale, implementation=implementation
    )


def _custom_vjp_fwd(x: jax.Array, *params: Any) -> tuple[jax.Array, None]:
    # Not `_custom_vjp(x, ..)`, which would make reverse over reverse differentiate
    # through the custom_vjp again.
    axes, scale, implementation = params
    y = upsample_nearest_fwd_p.bind(
        x, axes=axes, scale=scale, implementation=implementation
    )
    return y, None


def _custom_vjp_bwd(
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    implementation: str | None,
    _: None,
    cotangent: jax.Array,
) -> tuple[jax.Array]:
    return (
        upsample_nearest_bwd_p.bind(
            cotangent, axes=axes, scale=scale, implementation=implementation
        ),
    )


_custom_vjp.defvjp(_custom_vjp_fwd, _custom_vjp_bwd)
