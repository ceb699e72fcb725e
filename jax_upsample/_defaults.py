"""What `implementation=None` takes where there is a CUDA kernel: that or plain XLA.

One row a primitive, each from measurements on an H200 (`benchmarks/results/h200`; the
table in docs/decoders.md has the figures). Two defaults are decided elsewhere, for they
are about other primitives: the gradient of `upsample_add` in its transpose, and the
method of `upsample_conv` by what it multiplies.
"""

import math
from collections.abc import Callable
from typing import Any

from jax.interpreters import mlir

from jax_upsample import _calls, _ffi, _launch_plan

_VECTOR_BYTES = 16  # the widest access of a GPU thread


def is_plain_faster(
    primitive: str, ctx: mlir.LoweringRuleContext, **params: Any
) -> bool:
    """Whether `implementation=None` is plain XLA, of a call that a kernel takes."""
    return _PLAIN_IS_FASTER[primitive](ctx, **params)


def _never(ctx: mlir.LoweringRuleContext, **params: Any) -> bool:
    return False


def _always(ctx: mlir.LoweringRuleContext, **params: Any) -> bool:
    return True


def _is_large_window(
    ctx: mlir.LoweringRuleContext,
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    **params: Any,
) -> bool:
    """Whether the backward kernel would share each window among threads of a block.

    XLA's reduce shares it among blocks, too, and was 1.0 to 350 times faster in each of
    16 such cases (`benchmarks/upsample_nearest.py` has some of them).
    """
    small: Any = ctx.avals_out[0]
    if not _known(small.shape) or 0 in small.shape or _ffi.EXTENSION.module is None:
        return False
    plan = _launch_plan.planned("bwd", str(small.dtype), small.shape, axes, scale)
    return _launch_plan.is_shared(plan)


def _resizes_wide_or_ragged(
    ctx: mlir.LoweringRuleContext, *, axes: tuple[int, ...], **params: Any
) -> bool:
    """Whether elements exceed 16 bits, or rows of the target are no whole vectors.

    Otherwise the kernel took 0.5 to 1.0 of plain XLA's time, here 0.9 to 1.9. Several
    devices would have to gather its operand.
    """
    target: Any = ctx.avals_out[0]
    row = target.shape[axes[-1] :]
    return (
        _calls.is_partitioned(ctx)
        or target.dtype.itemsize > 2
        or not _is_whole_vectors(row, target.dtype)
    )


def _adds_wide_or_ragged(
    ctx: mlir.LoweringRuleContext, *, axes: tuple[int, ...], **params: Any
) -> bool:
    """Whether elements exceed 16 bits, or rows are no whole vectors.

    Otherwise the kernel took 0.8 to 1.0 of plain XLA's time in most cases, here as long
    or longer.
    """
    x: Any = ctx.avals_in[0]
    y: Any = ctx.avals_out[0]
    row, inner = y.shape[axes[-1] :], x.shape[axes[-1] + 1 :]
    if x.dtype.itemsize > 2 or not _known(row + inner):
        return True
    together = row if math.prod(inner) == 1 else inner
    return not _is_whole_vectors(together, x.dtype)


def _concatenates_wide_or_ragged(
    ctx: mlir.LoweringRuleContext,
    *,
    axes: tuple[int, ...],
    concat_axis: int,
    **params: Any,
) -> bool:
    """The same, of each part of the concatenation."""
    y: Any = ctx.avals_out[0]
    parts: Any = ctx.avals_in
    step = y.shape[concat_axis + 1 :]
    return _adds_wide_or_ragged(ctx, axes=axes) or not all(
        _is_whole_vectors((part.shape[concat_axis], *step), y.dtype) for part in parts
    )


def _sums_part_wide_or_apart(
    ctx: mlir.LoweringRuleContext,
    *,
    axes: tuple[int, ...],
    scale: tuple[int, ...],
    concat_axis: int,
    start: Any,
    size: Any,
    **params: Any,
) -> bool:
    """Whether elements exceed 16 bits, columns are apart, or vectors not whole.

    Otherwise, as in NCHW, the kernel took 0.86 to 1.05 of plain XLA's time, here 0.98
    to 1.5; and as for `upsample_nearest`, whether windows are large.
    """
    whole: Any = ctx.avals_in[0]
    small: Any = ctx.avals_out[0]
    if whole.dtype.itemsize > 2 or math.prod(small.shape[axes[-1] + 1 :]) != 1:
        return True
    step = whole.shape[concat_axis + 1 :]
    distances = ((start, *step), (size, *step), (small.shape[axes[-1]],))
    return not all(
        _is_whole_vectors(sizes, whole.dtype) for sizes in distances
    ) or _is_large_window(ctx, axes=axes, scale=scale)


def _shuffles_ragged(
    ctx: mlir.LoweringRuleContext, *, axes: tuple[int, ...], **params: Any
) -> bool:
    """Whether the channels of one phase, and what is after them, are no whole vectors.

    Otherwise convolutions ended by the kernel took 0.86 to 0.97 of the time.
    """
    x: Any = ctx.avals_in[0]
    y: Any = ctx.avals_out[0]
    channels, rest = axes[-1] + 1, x.shape[axes[-1] + 2 :]
    return not all(
        _is_whole_vectors((aval.shape[channels], *rest), x.dtype) for aval in (x, y)
    )


def _known(sizes: tuple[Any, ...]) -> bool:
    """Whether no size is symbolic."""
    return all(isinstance(size, int) for size in sizes)


def _is_whole_vectors(sizes: tuple[Any, ...], dtype: Any) -> bool:
    """Whether an array is a whole number of a GPU's widest accesses."""
    return _known(sizes) and math.prod(sizes) * dtype.itemsize % _VECTOR_BYTES == 0


_PLAIN_IS_FASTER: dict[str, Callable[..., bool]] = {
    "upsample_nearest_fwd": _never,
    "upsample_nearest_bwd": _is_large_window,
    "resize_nearest_fwd": _resizes_wide_or_ragged,
    "resize_nearest_bwd": _always,  # in all but one of 22 cases
    "upsample_add": _adds_wide_or_ragged,
    "upsample_concat_fwd": _concatenates_wide_or_ragged,
    "upsample_concat_bwd": _sums_part_wide_or_apart,
    "pixel_shuffle_fwd": _shuffles_ragged,
    "pixel_shuffle_bwd": _shuffles_ragged,
    "pixel_shuffle_sum": _shuffles_ragged,
}
