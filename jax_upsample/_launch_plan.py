"""What a call of `upsample_nearest` launches, from the planner of its handlers."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp

from jax_upsample import _arguments, _ffi

Direction = Literal["forward", "backward"]

_SUFFIX = {"forward": "fwd", "backward": "bwd"}


@dataclasses.dataclass(frozen=True)
class LaunchPlan:
    """One call of a kernel; `print` it.

    Attributes:
      name: the primitive, `"upsample_nearest_fwd"` or `"upsample_nearest_bwd"`.
      kernel: the kernel with its template arguments, as profilers show it; None where
        nothing is launched.
      dtype: of both arrays.
      operand_shape: the shape that the call reads.
      output_shape: the shape that it writes.
      launches: 1; 0 for empty arrays and for scales of 1.
      grid: the blocks of the launch, along one dimension.
      block: the threads of a block, along one dimension.
      elements_per_thread: how many elements of the large array a thread writes
        (forward) or reads (backward), at most.
      unit_bytes: the bytes that the kernel moves as one (forward), or of the numbers
        that it adds (backward).
      compiled_scale: the scale of the last axis if the kernel is compiled for it; None
        if it reads it at run time.
      bytes_read: of the operand, once.
      bytes_written: of the result, once.
      has_backward: whether there is a kernel for the transpose of this dtype.
      is_default: whether `implementation=None` takes the kernel on NVIDIA GPUs.
    """

    name: str
    kernel: str | None
    dtype: str
    operand_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    launches: int
    grid: int
    block: int
    elements_per_thread: int
    unit_bytes: int
    compiled_scale: int | None
    bytes_read: int
    bytes_written: int
    has_backward: bool
    is_default: bool

    def __str__(self) -> str:
        arrays = f"{self.dtype} {self.operand_shape} -> {self.output_shape}"
        if self.kernel is None:
            return f"{self.name}  {arrays}\n  launches nothing"
        launch = f"grid {self.grid}, block {self.block}"
        scale = "read at run time" if self.compiled_scale is None else "compiled in"
        default = "this kernel" if self.is_default else "plain XLA"
        backward = "by kernel" if self.has_backward else "by plain XLA"
        lines = {
            "kernel": self.kernel,
            "launch": f"{launch}, {self.elements_per_thread} elements a thread",
            "units": f"{self.unit_bytes} bytes, scale {scale}",
            "memory": f"{self.bytes_read} bytes read, {self.bytes_written} written",
            "default": f"{default} on NVIDIA GPUs",
            "backward": backward,
        }
        text = (f"  {name:9} {value}" for name, value in lines.items())
        return "\n".join((f"{self.name}  {arrays}", *text))


def launch_plan(
    shape: Sequence[int],
    dtype: jax.typing.DTypeLike,
    scale: int | Sequence[int] = 2,
    *,
    axes: int | Sequence[int] = (1, 2),
    direction: Direction = "forward",
) -> LaunchPlan:
    """What `upsample_nearest` of such an array would launch; needs no GPU.

    It is the plan of the handlers' own planner, for arrays at addresses that are
    multiples of 16 bytes, as XLA's are. Of a program of several devices each launches
    the plan of its own part.

    Args:
      shape: the shape of `x`, in both directions.
      dtype: its dtype.
      scale: as of `upsample_nearest`.
      axes: as of `upsample_nearest`.
      direction: `"forward"` or, for the transpose that gradients run, `"backward"`.

    Returns:
      A `LaunchPlan`.

    Raises:
      TypeError: `shape`, `scale` or `axes` are no integers, or `dtype` no dtype.
      ValueError: a `shape` of no axes or negative, a `scale` or `axes` that
        `upsample_nearest` would refuse, an unknown `direction`, or a `dtype` that no
        kernel of that direction takes.
      RuntimeError: the compiled module, which holds the planner, is not there.

    Example:
      >>> from jax_upsample import launch_plan
      >>> print(launch_plan((4, 128, 128, 512), "bfloat16"))
      upsample_nearest_fwd  bfloat16 (4, 128, 128, 512) -> (4, 256, 256, 512)
        kernel    UpsampleNearestFwd<16, 1, 2, false, unsigned int, CopyTarget>
        launch    grid 32768, block 256, 16 elements a thread
        units     16 bytes, scale compiled in
        memory    67108864 bytes read, 268435456 written
        default   this kernel on NVIDIA GPUs
        backward  by kernel
    """
    function = "launch_plan"
    sizes = _canonical_shape(function, shape)
    canonical_axes = _arguments.canonical_axes(function, axes, len(sizes))
    scales = _arguments.canonical_scales(function, scale, len(canonical_axes))
    if direction not in _SUFFIX:
        raise ValueError(
            f'{function}: direction must be "forward" or "backward", got {direction!r}'
        )
    suffix = _SUFFIX[direction]
    name = jnp.dtype(dtype).name
    extension = _ffi.EXTENSION
    if extension.module is None:
        raise RuntimeError(f"{function}: no planner, for {extension.problem}")
    if name not in extension.dtypes(suffix):
        raise ValueError(f"{function}: no kernel of {direction} takes dtype {name}")

    by_axis = dict(zip(canonical_axes, scales, strict=True))
    large = tuple(n * by_axis.get(axis, 1) for axis, n in enumerate(sizes))
    _arguments.check_output_size(
        function, jax.ShapeDtypeStruct(sizes, name), large, f"scale is {scales}"
    )
    operand, output = (sizes, large) if suffix == "fwd" else (large, sizes)
    launches = 0 if 0 in sizes or large == sizes else 1
    fields = planned(suffix, name, sizes, canonical_axes, scales) if launches else {}
    return LaunchPlan(
        name=f"upsample_nearest_{suffix}",
        kernel=fields["kernel"].replace("jax_upsample::", "") if launches else None,
        dtype=name,
        operand_shape=operand,
        output_shape=output,
        launches=launches,
        grid=fields.get("grid", 0),
        block=fields.get("block", 0),
        elements_per_thread=_elements_per_thread(
            fields, name, 1 if suffix == "fwd" else math.prod(scales)
        ),
        unit_bytes=fields.get("unit_bytes", 0),
        compiled_scale=fields.get("scale_constant") or None,
        bytes_read=fields.get("bytes_read", 0),
        bytes_written=fields.get("bytes_written", 0),
        has_backward=name in extension.dtypes("bwd"),
        is_default=suffix == "fwd" or not is_shared(fields),
    )


def planned(
    direction: str,
    dtype: str,
    shape: Sequence[int],
    axes: Sequence[int],
    scale: Sequence[int],
) -> dict[str, Any]:
    """The planner's own fields (`VisitFields` in cuda/upsample_nearest.h).

    `direction` is "fwd" or "bwd", `shape` the small array's, of no size 0.
    """
    by_axis = dict(zip(axes, scale, strict=True))
    scales = [by_axis.get(axis, 1) for axis in range(len(shape))]
    module: Any = _ffi.EXTENSION.module
    return module.launch_plan(direction, dtype, list(shape), scales)


def is_shared(fields: dict[str, Any]) -> bool:
    """Whether the threads of a block share windows, being large ones of few pixels."""
    return fields.get("lanes", 1) > 1


def _canonical_shape(function: str, value: Any) -> tuple[int, ...]:
    sizes = _arguments.integers(function, "shape", value)
    if isinstance(sizes, int):
        raise TypeError(f"{function}: shape must be a sequence, got {value!r}")
    if not sizes or min(sizes) < 0:
        raise ValueError(
            f"{function}: shape must have at least one axis and no negative size, "
            f"got {value!r}"
        )
    return sizes


def _elements_per_thread(fields: dict[str, Any], dtype: str, window: int) -> int:
    """As of `LaunchPlan`; a backward that is shared has `window / lanes` a number."""
    if not fields:
        return 0
    numbers = fields["stored"] * fields["unit_bytes"] / jnp.dtype(dtype).itemsize
    rows = 1 if fields["flat"] else fields["rows_per_item"]
    return math.ceil(numbers * rows * window / fields["lanes"])
