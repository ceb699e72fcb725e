"""Nearest upsampling by integer scales: the function, its primitive pair, its rules.

`upsample_nearest_fwd_p` repeats, `upsample_nearest_bwd_p` sums what was repeated. Each
is linear and the other's transpose, so `deflinear2` makes every order of derivative,
in both modes, out of the two.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from jax_upsample import _ffi

Implementation = Literal["kernel", "xla"]

_MAX_AXES = 3
_MAX_BYTES = 2**63 - 1


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
        All give the same values. The sums of integers and of float8_e8m0fnu, which no
        gradient of a kernel's dtype needs, are plain XLA under `"kernel"` too.

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
    array, params = _canonicalize("upsample_nearest", x, scale, axes, implementation)
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
    array, params = _canonicalize(
        "upsample_nearest_custom_vjp", x, scale, axes, implementation
    )
    if not params["axes"]:
        return array
    return _custom_vjp(array, params["axes"], params["scale"], params["implementation"])


# ------------------------------------------------------------------------- arguments


def _canonicalize(
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
    array = _array(function, x)
    axes = _canonical_axes(function, axes, array.ndim)
    scales = _canonical_scales(function, scale, len(axes))
    named = isinstance(implementation, str) and implementation in ("kernel", "xla")
    if implementation is not None and not named:
        raise ValueError(
            f'{function}: implementation must be None, "kernel" or "xla", '
            f"got {implementation!r}"
        )
    if implementation == "kernel":
        _check_kernel_exists(function, array.dtype)
    scaled = sorted((a, s) for a, s in zip(axes, scales, strict=True) if s != 1)
    _check_output_size(function, array, scaled)
    return array, {
        "axes": tuple(a for a, _ in scaled),
        "scale": tuple(s for _, s in scaled),
        "implementation": implementation,
    }


def _array(function: str, x: Any) -> jax.Array:
    try:
        if isinstance(x, bool | int | float | complex):
            raise TypeError
        if not hasattr(x, "__jax_array__"):
            jax.typeof(x)  # lists and foreign arrays have no type in JAX
        array = jnp.asarray(x)
    except TypeError:
        raise TypeError(
            f"{function}: x must be an array of numbers, booleans or keys, got "
            f"{type(x).__name__}" + (f" of {x.dtype}" if hasattr(x, "dtype") else "")
        ) from None
    if array.ndim == 0:
        raise ValueError(f"{function}: x must have at least one axis, got rank 0")
    return array


def _integers(function: str, name: str, value: Any) -> tuple[int, ...] | int:
    """`value` as one integer or several, all of them static."""
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        value = np.asarray(value)  # iterating a jax.Array would trace
    text = isinstance(value, str | bytes)
    rank_0 = isinstance(value, np.ndarray) and value.ndim == 0
    if isinstance(value, Sequence | np.ndarray) and not text and not rank_0:
        return tuple(_integer(function, name, entry) for entry in value)
    return _integer(function, name, value)


def _integer(function: str, name: str, value: Any) -> int:
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{function}: {name} must be static, got the traced {value}")
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}: {name} must hold integers, got {value!r}"
        ) from None


def _canonical_axes(function: str, value: Any, rank: int) -> tuple[int, ...]:
    axes = _integers(function, "axes", value)
    if isinstance(axes, int):
        axes = (axes,)
    if not 1 <= len(axes) <= _MAX_AXES:
        raise ValueError(
            f"{function}: axes must name 1 to {_MAX_AXES} axes, got {value!r}"
        )
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(
                f"{function}: axes must lie in [{-rank}, {rank}) for an array of "
                f"rank {rank}, got {value!r}"
            )
    axes = tuple(axis % rank for axis in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{function}: axes must not repeat, got {value!r}")
    return axes


def _canonical_scales(function: str, value: Any, count: int) -> tuple[int, ...]:
    scales = _integers(function, "scale", value)
    if isinstance(scales, int):
        scales = (scales,) * count
    if len(scales) != count:
        raise ValueError(
            f"{function}: scale must be one integer or one for each of the {count} "
            f"axes, got {value!r}"
        )
    if min(scales) < 1:
        raise ValueError(f"{function}: scale must be at least 1, got {value!r}")
    return scales


def _check_kernel_exists(function: str, dtype: Any) -> None:
    extension = _ffi.EXTENSION
    if not extension.platforms:
        raise ValueError(
            f'{function}: implementation="kernel" but there are no kernels: '
            f"{extension.problem}"
        )
    if str(dtype) not in extension.dtypes("fwd"):
        raise ValueError(
            f'{function}: implementation="kernel" but no kernel takes dtype {dtype}'
        )


def _check_output_size(
    function: str, array: jax.Array, scaled: list[tuple[int, int]]
) -> None:
    if not all(isinstance(size, int) for size in array.shape):
        return  # symbolic: known when the exported program is called
    by_axis = dict(scaled)
    shape = [size * by_axis.get(axis, 1) for axis, size in enumerate(array.shape)]
    # No axis may be longer, not even beside one of size 0.
    if max(math.prod(shape) * array.dtype.itemsize, *shape) > _MAX_BYTES:
        raise ValueError(
            f"{function}: the output would have 2^63 bytes or more: x is "
            f"{array.dtype}{array.shape}, scale by axis is {by_axis}"
        )


# ------------------------------------------------------------------------ plain forms


def _fwd_lax(
    x: jax.Array, *, axes: tuple[int, ...], scale: tuple[int, ...]
) -> jax.Array:
    """Broadcasts to [.., H, sh, W, sw, ..] and merges the scales into their axes."""
    split, place = _split_shape(x.shape, axes, scale)
    y = lax.broadcast_in_dim(x, split, [p for p in range(len(split)) if p not in place])
    return lax.reshape(y, _fwd_shape(x.shape, axes, scale))


def _bwd_lax(
    g: jax.Array, *, axes: tuple[int, ...], scale: tuple[int, ...]
) -> jax.Array:
    """Splits to [.., H, sh, W, sw, ..] and sums the scales, in float32 or wider."""
    split, place = _split_shape(_bwd_shape(g.shape, axes, scale), axes, scale)
    narrow = jnp.issubdtype(g.dtype, jnp.floating) and g.dtype.itemsize < 4
    windows = lax.reshape(g, split)
    sums = jnp.sum(windows, axis=place, dtype=jnp.float32 if narrow else g.dtype)
    return sums.astype(g.dtype)


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


def _bwd_shape(
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


def _abstract_eval(
    shape_rule: Callable[..., tuple[Any, ...]],
    x: Any,
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    implementation: str | None,
) -> Any:
    # `update` keeps what else is known of x: weak type, sharding, varying axes.
    return x.update(shape=shape_rule(x.shape, axes, scale))


def _lowering(
    direction: str, lax_form: Callable[..., jax.Array], platform: str | None
) -> Callable[..., Any]:
    """The lowering rule for a platform; None is every one that has no kernels."""
    target = f"jax_upsample_nearest_{direction}_v1"
    plain = mlir.lower_fun(lax_form, multiple_results=False)

    def rule(
        ctx: mlir.LoweringRuleContext,
        x: Any,
        *,
        axes: tuple[int, ...],
        scale: tuple[int, ...],
        implementation: str | None,
    ) -> Any:
        if _takes_kernel(direction, platform, implementation, ctx, axes, scale):
            attributes = {
                "axes": np.array(axes, np.int64),
                "scale": np.array(scale, np.int64),
            }
            return jax.ffi.ffi_lowering(target)(ctx, x, **attributes)
        return plain(ctx, x, axes=axes, scale=scale)

    return rule


def _takes_kernel(
    direction: str,
    platform: str | None,
    implementation: str | None,
    ctx: mlir.LoweringRuleContext,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
) -> bool:
    """Whether a lowering takes the kernel or the plain form; nothing else decides."""
    extension = _ffi.EXTENSION
    forced = implementation == "kernel"
    if not forced and (implementation == "xla" or platform != "cuda"):
        return False
    if platform not in extension.platforms:
        if forced:
            lacking = set(ctx.module_context.platforms) - extension.platforms
            name = platform or ", ".join(sorted(lacking))
            raise ValueError(
                f'upsample_nearest: implementation="kernel" but there is no kernel for '
                f"{name}: {extension.why_no_kernel(name)}"
            )
        _ffi.warn_no_cuda_kernel()
        return False
    aval: Any = ctx.avals_in[0]
    if str(aval.dtype) not in extension.dtypes(direction):
        return False
    return forced or direction == "fwd" or not _is_large_window(ctx, axes, scale)


def _is_large_window(
    ctx: mlir.LoweringRuleContext, axes: tuple[int, ...], scale: tuple[int, ...]
) -> bool:
    """Whether the backward kernel would share each window among threads of a block.

    XLA's reduce shares it among blocks, too, and was 1.0 to 350 times faster in each of
    16 such cases on an H200 (`benchmarks/upsample_nearest.py` has some of them).
    """
    small: Any = ctx.avals_out[0]
    module = _ffi.EXTENSION.module
    sized = all(isinstance(size, int) and size > 0 for size in small.shape)
    if module is None or not sized:
        return False
    by_axis = dict(zip(axes, scale, strict=True))
    scales = [by_axis.get(axis, 1) for axis in range(len(small.shape))]
    plan = module.launch_plan("bwd", str(small.dtype), list(small.shape), scales)
    return plan["lanes"] > 1


def _batch(
    primitive: Primitive,
    operands: tuple[jax.Array],
    dims: tuple[int],
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    implementation: str | None,
) -> tuple[jax.Array, int]:
    # The batch dimension stays where it is, also between two spatial axes.
    (x,), (batch_dim,) = operands, dims
    axes = tuple(axis + (axis >= batch_dim) for axis in axes)
    y = primitive.bind(x, axes=axes, scale=scale, implementation=implementation)
    return y, batch_dim


def _define(
    direction: str,
    shape_rule: Callable[..., tuple[Any, ...]],
    lax_form: Callable[..., jax.Array],
) -> Primitive:
    primitive = Primitive(f"upsample_nearest_{direction}")
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(functools.partial(_abstract_eval, shape_rule))
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    for platform in (None, "cpu", "cuda"):
        rule = _lowering(direction, lax_form, platform)
        mlir.register_lowering(primitive, rule, platform=platform)
    return primitive


upsample_nearest_fwd_p = _define("fwd", _fwd_shape, _fwd_lax)
upsample_nearest_bwd_p = _define("bwd", _bwd_shape, _bwd_lax)
ad.deflinear2(
    upsample_nearest_fwd_p,
    lambda ct, x, **params: [upsample_nearest_bwd_p.bind(ct, **params)],
)
ad.deflinear2(
    upsample_nearest_bwd_p,
    lambda ct, g, **params: [upsample_nearest_fwd_p.bind(ct, **params)],
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
