"""Linear primitives, most of them in pairs of which each is the other's transpose.

The two make every order of derivative, in both modes. What an op brings is a `Map` a
direction; the rules that JAX asks for are the same for all of them.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import jet
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from jax_upsample import _calls, _defaults, _ffi


@dataclasses.dataclass(frozen=True)
class Map:
    """One direction of an op. Parameters always include `axes` and `implementation`.

    Attributes:
      shape: (shapes of the operands, **parameters) -> the result's shape.
      plain: (operands, **parameters) -> the result, in lax.
      kernel: a lowering rule, (ctx, operands, **parameters) -> the custom call.
      plain_only: (ctx, **parameters) -> whether no kernel takes these operands.
    """

    shape: Callable[..., tuple[Any, ...]]
    plain: Callable[..., jax.Array]
    kernel: Callable[..., Any]
    plain_only: Callable[..., bool] = lambda ctx, **parameters: False


def define(op: str, fwd: Map, bwd: Map) -> tuple[Primitive, Primitive]:
    """The primitives `{op}_fwd` and `{op}_bwd`, with all their rules."""
    fwd_p = define_one(
        f"{op}_fwd", fwd, lambda ct, x, **params: [bwd_p.bind(ct, **params)]
    )
    bwd_p = define_one(
        f"{op}_bwd", bwd, lambda ct, g, **params: [fwd_p.bind(ct, **params)], sums=True
    )
    return fwd_p, bwd_p


def define_one(
    name: str, of: Map, transpose: Callable[..., Any], *, sums: bool = False
) -> Primitive:
    """The primitive `name`, linear in all its operands, with all its rules.

    `transpose(cotangent, operands, **parameters)` gives the operands' cotangents.
    `sums` says that the kernel reads numbers, and so takes fewer dtypes.
    """
    primitive = define_without_derivatives(name, of, sums=sums)
    ad.deflinear2(primitive, transpose)
    jet.deflinear(primitive)
    return primitive


def define_without_derivatives(name: str, of: Map, *, sums: bool = False) -> Primitive:
    """The primitive `name` with all rules but those, for use below a custom_vjp."""
    primitive = Primitive(name)
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(functools.partial(_abstract_eval, of))
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    for platform in (None, "cpu", "cuda"):
        rule = _lowering(name, of, "bwd" if sums else "fwd", platform)
        mlir.register_lowering(primitive, rule, platform=platform)
    return primitive


def _abstract_eval(
    of: Map, x: Any, *others: Any, implementation: str | None, **params: Any
) -> Any:
    if any(varying(other) != varying(x) for other in others):
        raise ValueError("operands must vary over the same mesh axes: alike() them")
    shape = of.shape(x.shape, *(other.shape for other in others), **params)
    # `update` keeps what else is known of x: sharding, varying axes.
    weak_type = all(aval.weak_type for aval in (x, *others))
    return x.update(shape=shape, weak_type=weak_type)


def varying(x: Any) -> frozenset[str]:
    """The mesh axes of a shard_map over which an array or its type varies."""
    aval = jax.typeof(x) if isinstance(x, jax.Array) else x
    manual = getattr(aval, "manual_axis_type", None)  # of newer JAX
    return manual.varying if manual is not None else getattr(aval, "vma", frozenset())


def alike(*operands: jax.Array) -> list[jax.Array]:
    """The operands, all varying over the axes over which any does.

    The cast's transpose sums over those axes, which a replicated operand needs.
    """
    union = frozenset[str]().union(*map(varying, operands))

    def cast(x: jax.Array) -> jax.Array:
        lacking = tuple(sorted(union - varying(x)))
        if not lacking:
            return x
        if hasattr(lax, "pcast"):
            return lax.pcast(x, lacking, to="varying")
        older: Any = lax
        return older.pvary(x, lacking)

    return list(map(cast, operands))


def _batch(
    primitive: Primitive,
    operands: tuple[jax.Array, ...],
    dims: tuple[int | None, ...],
    *,
    axes: tuple[int, ...],
    **params: Any,
) -> tuple[jax.Array, int]:
    # The batch dimension stays where it is, also between two spatial axes; that of a
    # second operand moves there.
    (batch_dim, size), *_ = (
        (dim, operand.shape[dim])
        for operand, dim in zip(operands, dims, strict=True)
        if isinstance(dim, int)
    )

    def batched(operand: jax.Array, dim: int | None) -> jax.Array:
        if isinstance(dim, int):
            return jnp.moveaxis(operand, dim, batch_dim)
        shape = (*operand.shape[:batch_dim], size, *operand.shape[batch_dim:])
        return jnp.broadcast_to(jnp.expand_dims(operand, batch_dim), shape)

    def moved(axis: int) -> int:
        return axis + (axis >= batch_dim)

    for name in ("concat_axis", "channel_axis"):
        if name in params:
            params[name] = moved(params[name])
    operands = tuple(map(batched, operands, dims))
    axes = tuple(map(moved, axes))
    return primitive.bind(*operands, axes=axes, **params), batch_dim


def _lowering(
    name: str, of: Map, direction: str, platform: str | None
) -> Callable[..., Any]:
    """The lowering rule for a platform; None is every one that has no kernels."""
    plain = _calls.lower(of.plain)

    def rule(
        ctx: mlir.LoweringRuleContext,
        *operands: Any,
        implementation: str | None,
        **params: Any,
    ) -> Any:
        if (
            _has_kernel(name, direction, platform, implementation, ctx)
            and not of.plain_only(ctx, **params)
            and not (
                implementation is None
                and _defaults.is_plain_faster(name, ctx, **params)
            )
        ):
            return of.kernel(ctx, *operands, **params)
        return plain(ctx, *operands, **params)

    return rule


def _has_kernel(
    name: str,
    direction: str,
    platform: str | None,
    implementation: str | None,
    ctx: mlir.LoweringRuleContext,
) -> bool:
    """Whether there is a kernel to be taken for this call."""
    extension = _ffi.EXTENSION
    forced = implementation == "kernel"
    if not forced and (implementation == "xla" or platform != "cuda"):
        return False
    if platform not in extension.platforms:
        if forced:
            lacking = set(ctx.module_context.platforms) - extension.platforms
            where = platform or ", ".join(sorted(lacking))
            raise ValueError(
                f'{name}: implementation="kernel" but there is no kernel for '
                f"{where}: {extension.why_no_kernel(where)}"
            )
        _ffi.warn_no_cuda_kernel()
        return False
    aval: Any = ctx.avals_in[0]
    return str(aval.dtype) in extension.dtypes(direction)
