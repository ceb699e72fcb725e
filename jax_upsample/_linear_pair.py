"""Pairs of linear primitives, each the other's transpose: every op is one.

The two make every order of derivative, in both modes. What an op brings is a `Map` a
direction; the rules that JAX asks for are the same for all of them.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from jax_upsample import _ffi


@dataclasses.dataclass(frozen=True)
class Map:
    """One direction of an op. Parameters always include `axes` and `implementation`.

    Attributes:
      shape: (shape, **parameters) -> the result's shape.
      plain: (x, **parameters) -> the result, in lax.
      kernel: a lowering rule, (ctx, x, **parameters) -> the custom call.
      plain_is_faster: (ctx, **parameters) -> whether `implementation=None` should take
        the plain form although there is a kernel.
    """

    shape: Callable[..., tuple[Any, ...]]
    plain: Callable[..., jax.Array]
    kernel: Callable[..., Any]
    plain_is_faster: Callable[..., bool] = lambda ctx, **parameters: False


def define(op: str, fwd: Map, bwd: Map) -> tuple[Primitive, Primitive]:
    """The primitives `{op}_fwd` and `{op}_bwd`, with all their rules."""
    fwd_p = _primitive(op, "fwd", fwd)
    bwd_p = _primitive(op, "bwd", bwd)
    ad.deflinear2(fwd_p, lambda ct, x, **params: [bwd_p.bind(ct, **params)])
    ad.deflinear2(bwd_p, lambda ct, g, **params: [fwd_p.bind(ct, **params)])
    return fwd_p, bwd_p


def _primitive(op: str, direction: str, of: Map) -> Primitive:
    primitive = Primitive(f"{op}_{direction}")
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(functools.partial(_abstract_eval, of))
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    for platform in (None, "cpu", "cuda"):
        rule = _lowering(op, direction, of, platform)
        mlir.register_lowering(primitive, rule, platform=platform)
    return primitive


def _abstract_eval(
    of: Map, x: Any, *, implementation: str | None, **params: Any
) -> Any:
    # `update` keeps what else is known of x: weak type, sharding, varying axes.
    return x.update(shape=of.shape(x.shape, **params))


def _batch(
    primitive: Primitive,
    operands: tuple[jax.Array],
    dims: tuple[int],
    *,
    axes: tuple[int, ...],
    **params: Any,
) -> tuple[jax.Array, int]:
    # The batch dimension stays where it is, also between two spatial axes.
    (x,), (batch_dim,) = operands, dims
    axes = tuple(axis + (axis >= batch_dim) for axis in axes)
    return primitive.bind(x, axes=axes, **params), batch_dim


def _lowering(
    op: str, direction: str, of: Map, platform: str | None
) -> Callable[..., Any]:
    """The lowering rule for a platform; None is every one that has no kernels."""
    plain = mlir.lower_fun(of.plain, multiple_results=False)

    def rule(
        ctx: mlir.LoweringRuleContext,
        x: Any,
        *,
        implementation: str | None,
        **params: Any,
    ) -> Any:
        if _has_kernel(op, direction, platform, implementation, ctx) and (
            implementation == "kernel" or not of.plain_is_faster(ctx, **params)
        ):
            return of.kernel(ctx, x, **params)
        return plain(ctx, x, **params)

    return rule


def _has_kernel(
    op: str,
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
            name = platform or ", ".join(sorted(lacking))
            raise ValueError(
                f'{op}: implementation="kernel" but there is no kernel for '
                f"{name}: {extension.why_no_kernel(name)}"
            )
        _ffi.warn_no_cuda_kernel()
        return False
    aval: Any = ctx.avals_in[0]
    return str(aval.dtype) in extension.dtypes(direction)
