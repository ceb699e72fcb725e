"""Calls of the FFI targets, by several devices too.

XLA gathers the operands of a call that it does not know. Where the target is registered
as batch-partitionable it cuts the `num_batch_dims` leading axes of each array instead,
which is right for parts of any size if each such axis is as long in all arrays. So in
programs of several devices the scales go to the end, *tiled*: the small array is
[.., H, W, .., 1, 1], the large one [.., H, W, .., sh, sw] with the memory layout of
[.., H, sh, W, sw, ..], so that reshape and transpose are views. Shardy is told the same
by an `sdy.sharding_rule`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import AxisType


def lower(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    """The lowering rule of (operands, **parameters) -> array, written in JAX.

    Over Explicit mesh axes the result keeps the sharding of its type, and XLA finds
    those within, for which `lax` would ask.
    """

    def rule(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Any:
        of_params = functools.partial(function, **params)
        result: Any = ctx.avals_out[0]
        mesh = result.sharding.mesh
        if AxisType.Explicit not in mesh.axis_types:
            return mlir.lower_fun(of_params, multiple_results=False)(ctx, *operands)
        automatic = jax.sharding.auto_axes(of_params, out_sharding=result.sharding)
        with jax.sharding.use_abstract_mesh(mesh):
            return mlir.lower_fun(automatic, multiple_results=False)(ctx, *operands)

    return rule


def call(
    ctx: mlir.LoweringRuleContext,
    target: str,
    *operands: Any,
    leading: int,
    layouts: Any = None,
    **attributes: int | tuple[int, ...],
) -> Any:
    """The lowering of a call of `target`.

    In programs of several devices the `leading` axes, each of one size in all arrays,
    may be sharded, and no array is gathered along them.

    Args:
      ctx: the context.
      target: its name.
      operands: the operands' values.
      leading: the number of axes that may be sharded, less than the rank.
      layouts: of operands and of results, major axis last; row-major if None.
      attributes: those of the call, 64-bit integers and vectors of them.
    """
    extra = None
    if leading > 0 and is_partitioned(ctx):
        count = mlir.ir_attribute({"num_batch_dims": str(leading)})
        extra = {
            "mhlo.frontend_attributes": count,
            "sdy.sharding_rule": _sharding_rule(ctx, leading),
        }
    of_operands, of_results = layouts or (None, None)
    lowering = jax.ffi.ffi_lowering(
        target,
        operand_layouts=of_operands,
        result_layouts=of_results,
        extra_attributes=extra,
    )
    typed: dict[str, Any] = {
        name: np.array(value, np.int64) if isinstance(value, tuple) else np.int64(value)
        for name, value in attributes.items()
    }
    return lowering(ctx, *operands, **typed)


def call_of_small_and_large(
    ctx: mlir.LoweringRuleContext,
    target: str,
    *operands: Any,
    large: tuple[bool, ...],
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    shared: int,
    **attributes: int,
) -> Any:
    """The same of a target that takes tiled arrays; `large` has operands, then result.

    The first `shared` axes may be sharded, those of `axes` included.
    """
    if not is_partitioned(ctx):
        attributes |= {"tiled": 0}
        return call(
            ctx, target, *operands, leading=0, axes=axes, scale=scale, **attributes
        )
    result: Any = ctx.avals_out[0]
    ones = (1,) * len(axes)
    shape = list(result.shape)
    for axis, factor in zip(axes, scale, strict=True):
        shape[axis] //= factor if large[-1] else 1
    shape += scale if large[-1] else ones

    def tiled(*arrays: jax.Array) -> jax.Array:
        tiles = [
            _tile(x, axes, scale) if is_large else lax.reshape(x, (*x.shape, *ones))
            for x, is_large in zip(arrays, large, strict=False)
        ]
        y = _tiled_call_p.bind(
            *tiles,
            target=target,
            shape=tuple(shape),
            large=large,
            axes=axes,
            scale=scale,
            leading=shared,
            attributes=tuple(attributes.items()),
        )
        if large[-1]:
            y = lax.transpose(y, _major_to_minor(y.ndim, axes))
        return lax.reshape(y, result.shape)

    return lower(tiled)(ctx, *operands)


def is_partitioned(ctx: mlir.LoweringRuleContext) -> bool:
    """Whether XLA may partition this program, and knows all sizes."""
    avals: Any = (*ctx.avals_in, *ctx.avals_out)
    known = all(isinstance(size, int) for aval in avals for size in aval.shape)
    return known and _number_of_devices(ctx) > 1


# ------------------------------------------------------------------------ tiled arrays


def _tile(x: jax.Array, axes: tuple[int, ...], scale: tuple[int, ...]) -> jax.Array:
    """[.., H sh, W sw, ..] to [.., H, W, .., sh, sw]."""
    by_axis = dict(zip(axes, scale, strict=True))
    split: list[int] = []
    for axis, size in enumerate(x.shape):
        factor = by_axis.get(axis)
        split += [size] if factor is None else [size // factor, factor]
    order = _major_to_minor(len(split), axes)
    return lax.transpose(lax.reshape(x, split), np.argsort(order))


def _major_to_minor(rank: int, axes: tuple[int, ...]) -> list[int]:
    """The axes of a tiled large array in the order in which it lies in memory."""
    order = []
    for axis in range(rank - len(axes)):
        order.append(axis)
        if axis in axes:
            order.append(rank - len(axes) + axes.index(axis))
    return order


def _lower_tiled_call(
    ctx: mlir.LoweringRuleContext,
    *operands: Any,
    target: str,
    shape: tuple[int, ...],
    large: tuple[bool, ...],
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    leading: int,
    attributes: tuple[tuple[str, int], ...],
) -> Any:
    rank = len(shape)
    orders = [
        _major_to_minor(rank, axes) if is_large else list(range(rank))
        for is_large in large
    ]
    layouts = [tuple(reversed(order)) for order in orders]
    return call(
        ctx,
        target,
        *operands,
        leading=leading,
        layouts=(layouts[:-1], layouts[-1:]),
        axes=axes,
        scale=scale,
        tiled=1,
        **dict(attributes),
    )


_tiled_call_p = Primitive("tiled_call")
_tiled_call_p.def_abstract_eval(
    lambda x, *others, shape, **params: x.update(shape=shape)
)
mlir.register_lowering(_tiled_call_p, _lower_tiled_call)


# ---------------------------------------------------------------------- several devices


def _number_of_devices(ctx: mlir.LoweringRuleContext) -> int:
    """Over how many devices XLA may partition this program, or this part of it."""
    context: Any = ctx.module_context.axis_context
    if hasattr(context, "num_devices"):
        return context.num_devices or 1
    mesh = getattr(context, "mesh", None)  # within a shard_map
    if mesh is None:
        return 1
    sizes = mesh.shape.items()
    return math.prod(n for name, n in sizes if name not in context.manual_axes)


def _sharding_rule(ctx: mlir.LoweringRuleContext, leading: int) -> Any:
    """Shardy's: a factor for each of the `leading` axes, the others replicated."""
    from jax.extend.mlir.dialects import sdy

    first: Any = ctx.avals_in[0]
    sizes = list(first.shape[:leading])

    def mapping(aval: Any) -> Any:
        factors = list(range(leading))
        for size in aval.shape[leading:]:
            factors.append(len(sizes))
            sizes.append(size)
        dims = [sdy.DimMappingAttr.get(factor_indices=[factor]) for factor in factors]
        return sdy.TensorMappingAttr.get(dim_mappings=dims)

    operands, results = (list(map(mapping, a)) for a in (ctx.avals_in, ctx.avals_out))
    return sdy.OpShardingRuleAttr.get(
        factor_sizes=sizes,
        operand_mappings=operands,
        result_mappings=results,
        is_custom=True,
        reduction_factors=[],
        need_replication_factors=list(range(leading, len(sizes))),
        permutation_factors=[],
    )
