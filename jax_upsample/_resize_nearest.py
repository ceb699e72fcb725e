"""Nearest neighbours at any sizes: the function and its primitive pair.

`resize_nearest_fwd_p` copies by a table of indices, `resize_nearest_bwd_p` sums what
was copied by the table of first outputs, so that it is the transpose under every rule.
Both tables are of `_nearest_rules`; nothing here or in the kernels knows a rule.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jax_upsample import _arguments, _calls, _linear_pair, _nearest_rules
from jax_upsample._arguments import Implementation
from jax_upsample._nearest_rules import RULES, Rule, Scale
from jax_upsample._upsample_nearest import movable, sum_dtype, upsample_nearest_fwd_p

_UNROLLED_COPIES = 8


def resize_nearest(
    x: jax.typing.ArrayLike,
    shape: Sequence[int] | None = None,
    *,
    scale: Scale | Sequence[Scale] | None = None,
    axes: int | Sequence[int] = (1, 2),
    rule: Rule = "jax",
    implementation: Implementation | None = None,
) -> jax.Array:
    """Resizes `x` to any `shape`, up or down, each element a copy of its nearest.

    Equals, bit for bit and for every dtype, ::

        jax.image.resize(x, shape, "nearest")             # rule="jax", under jit

    Rules say which input index `i`-th outputs copy, for an axis of size m that becomes
    n; an axis that keeps its size is copied. For integer multiples the exact ones mean
    `i // k`, and so do those that round but for some sizes (`"torch"` at 294 of the
    6238 multiples up to 1024, `"jax"` and `"torch_exact"` only near 2^23). Where all
    of up to three axes do, this is `upsample_nearest`.

    - `"jax"`: what the installed jax does under jit, rounding and all.
    - `"half_pixel"`: floor((2 i + 1) m / 2 n) in integers; a coordinate that is an
      integer exactly takes that integer. Pillow's, but for its rounding at such ties.
    - `"asymmetric"`: floor(i m / n) in integers; torch's `"nearest"` but for rounding.
    - `"torch"`: torch's `mode="nearest"`, float32 rounding and all.
    - `"torch_exact"`: torch's `mode="nearest-exact"`, likewise; TensorFlow 2.

    With `shape`, the sizes say where an output lies in the input; with `scale`, the
    factor does, and the output is floor(m scale) long.

    It is linear in `x`. Its transpose, which the gradient runs, sums for each input the
    cotangents of its copies, in a fixed order and without atomics: in float32 for
    floats of 16 bits and less (rounded once), with compensation in float32 by the
    kernels; zero where nothing was copied. Both have every derivative, in both modes,
    and batch along any axis.

    Args:
      x: array of any dtype and of rank 1 or more.
      shape: the shape of the result, one size for each axis of `x`, also for those that
        do not change.
      scale: instead of `shape`, one factor for all of `axes` or one for each. A float
        gives floor(m * scale) in float64 and stands for the decimal that it prints as;
        an int or a `fractions.Fraction` is exact (`Fraction(120, 88)` takes 88 to 120,
        the float 120 / 88 to 119).
      axes: of `scale`: the axes that it scales, any number of them, negative ones
        counted from the end.
      rule: one of those above.
      implementation: `"kernel"` for the custom call (CUDA, or the host build of the
        same kernels on CPUs), `"xla"` for gathers of plain XLA, `None` for the form
        that measured faster: the kernel on NVIDIA GPUs for elements of up to 16 bits
        in rows of whole 16 bytes (a row is the last resized axis and those after it),
        else plain XLA, also for the transpose. Integer multiples are
        `upsample_nearest`. All give the same bits forward; backward they differ in
        how float32 and wider sums are rounded (and in the sign of a zero).

    Returns:
      An array of the dtype of `x` and of that shape.

    Raises:
      TypeError: `x` is no array, `shape` or `axes` no integers, `scale` no numbers, or
        neither or both of `shape` and `scale` are given.
      ValueError: a `shape` of another length than the rank of `x`, negative, or not
        empty for an empty `x`, a `scale` that is not positive and finite or not one for
        each of `axes`, an unknown `rule` or `implementation`, `rule="jax"` with `scale`
        (`jax.image.resize` knows no factors), an axis of 2^31 elements or more that no
        exact rule repeats, or a result of 2^63 bytes or more.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import resize_nearest
      >>> resize_nearest(jnp.arange(4), (6,))
      Array([0, 1, 1, 2, 3, 3], dtype=int32)
      >>> resize_nearest(jnp.arange(4), (6,), rule="asymmetric")
      Array([0, 0, 1, 2, 2, 3], dtype=int32)
      >>> resize_nearest(jnp.arange(4), scale=1.6, axes=0, rule="asymmetric")
      Array([0, 0, 1, 1, 2, 3], dtype=int32)
    """
    function = "resize_nearest"
    array = _arguments.array(function, x)
    check_rule(function, rule)
    _arguments.check_implementation(function, implementation, array.dtype)
    if (shape is None) == (scale is None):
        raise TypeError(
            f"{function}: one of shape and scale must be given, "
            f"got shape={shape!r}, scale={scale!r}"
        )
    scales: dict[int, Scale | None] = {}
    if scale is None:
        sizes = _canonical_shape(function, shape, array.ndim)
    else:
        scales = _canonical_scales(function, scale, axes, array.ndim, rule)
        sizes = tuple(
            size if scales.get(axis) is None else _scaled(function, size, scales[axis])
            for axis, size in enumerate(array.shape)
        )
    return to_sizes(function, array, sizes, scales, rule, implementation)


def to_sizes(
    function: str,
    x: jax.Array,
    sizes: tuple[Any, ...],
    scales: dict[int, Scale | None],
    rule: str,
    implementation: str | None,
) -> jax.Array:
    """The resize, of arguments that are checked but for the sizes themselves."""
    _check_sizes(function, x, sizes, scales, rule)
    axes = tuple(a for a, n in enumerate(sizes) if n != x.shape[a])
    if not axes:
        return x
    maps = tuple((rule, x.shape[a], sizes[a], scales.get(a)) for a in axes)
    factors = tuple(repeats(*of_axis) for of_axis in maps)
    if None not in factors and len(axes) <= _arguments.MAX_AXES:
        return upsample_nearest_fwd_p.bind(
            x, axes=axes, scale=factors, implementation=implementation
        )
    return resize_nearest_fwd_p.bind(
        x, axes=axes, maps=maps, implementation=implementation
    )


def repeats(rule: str, in_size: Any, out_size: Any, scale: Scale | None) -> int | None:
    """The k of a rule that is `i // k`, else None."""
    if isinstance(in_size, int) and isinstance(out_size, int):
        if in_size > 0 and _nearest_rules.is_repeat(rule, in_size, out_size, scale):
            return out_size // in_size
        return None
    if not _nearest_rules.is_exact(rule) or isinstance(in_size, int):
        return None  # rounding depends on the sizes, which are not known yet
    factor, rest = divmod(out_size, in_size)
    return factor if isinstance(factor, int) and rest == 0 else None


# ------------------------------------------------------------------------- arguments


def _canonical_shape(function: str, value: Any, rank: int) -> tuple[Any, ...]:
    value = _arguments.concrete(value)
    if not _arguments.is_sequence(value):
        raise TypeError(f"{function}: shape must be a sequence, got {value!r}")
    if len(value) != rank:
        raise ValueError(
            f"{function}: shape must have one size for each of the {rank} axes of x, "
            f"got {value!r}"
        )
    entries: Any = value
    sizes = tuple(
        size
        if export.is_symbolic_dim(size)
        else _arguments.integer(function, "shape", size)
        for size in entries
    )
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise ValueError(f"{function}: shape must not be negative, got {value!r}")
    return sizes


def _canonical_scales(
    function: str, value: Any, axes: Any, rank: int, rule: str
) -> dict[int, Scale | None]:
    if rule == "jax":
        raise ValueError(
            f'{function}: rule="jax" has no scale, for jax.image.resize knows sizes '
            f"only: give shape, or another rule with scale={value!r}"
        )
    axes = _arguments.canonical_axes(function, axes, rank, most=rank)
    value = _arguments.concrete(value)
    several = _arguments.is_sequence(value)
    values = tuple(value) if several else (value,) * len(axes)
    if len(values) != len(axes):
        raise ValueError(
            f"{function}: scale must be one number or one for each of the {len(axes)} "
            f"axes, got {value!r}"
        )
    return {a: _scale(function, v) for a, v in zip(axes, values, strict=True)}


def _scale(function: str, value: Any) -> Scale:
    value = _arguments.concrete(value)
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{function}: scale must be static, got the traced {value}")
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.integer):
        value = int(value)
    elif jnp.issubdtype(type(value), np.floating):
        value = float(str(value))  # np.float32(1.6) means 1.6
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise TypeError(f"{function}: scale must hold numbers, got {value!r}")
    if not 0 < value < math.inf:
        raise ValueError(
            f"{function}: scale must be positive and finite, got {value!r}"
        )
    return value


def _scaled(function: str, size: Any, scale: Any) -> int:
    if not isinstance(size, int):
        raise ValueError(
            f"{function}: an axis of symbolic size {size} needs shape, got {scale=}"
        )
    try:
        return _nearest_rules.output_size(size, scale)
    except OverflowError:  # of float64
        raise ValueError(
            f"{function}: the output would have 2^63 bytes or more: scale is {scale}, "
            f"wanted {size} times as many elements of an axis"
        ) from None


def check_rule(function: str, rule: Any) -> None:
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"{function}: rule must be one of {RULES}, got {rule!r}")


def _check_sizes(
    function: str,
    x: jax.Array,
    sizes: tuple[Any, ...],
    scales: dict[int, Scale | None],
    rule: str,
) -> None:
    for axis, (m, n) in enumerate(zip(x.shape, sizes, strict=True)):
        if not (isinstance(m, int) and isinstance(n, int)):
            continue  # symbolic: known when the exported program is called
        if m == 0 and n > 0:
            raise ValueError(
                f"{function}: axis {axis} of x is empty and has no neighbours for "
                f"{n} outputs: x has shape {x.shape}, wanted {sizes}"
            )
        long = max(m, n) > _nearest_rules.MAX_TABLE
        if m != n and long and repeats(rule, m, n, scales.get(axis)) is None:
            raise ValueError(
                f"{function}: axis {axis} may have up to 2^31 - 1 elements, "
                f"got {m} -> {n} by rule {rule!r}"
            )
    _arguments.check_output_size(function, x, sizes, f"wanted {sizes}")


# ------------------------------------------------------------------------ tables

# How one axis maps: rule, size of the source, size of the target, scale or None.
AxisMap = tuple[str, Any, Any, Scale | None]


def _table(direction: str, of_axis: AxisMap) -> Any:
    """The table that a direction needs: a constant, or computed for symbolic sizes."""
    _, m, n, _ = of_axis
    known = isinstance(m, int) and isinstance(n, int)
    if direction == "fwd":
        if known:
            return _nearest_rules.index_table(*of_axis)
        return _nearest_rules.traced_index_table(*of_axis)
    if known:
        return _nearest_rules.first_output_table(*of_axis)
    return _nearest_rules.traced_first_output_table(*of_axis)


def _most_copies(of_axis: AxisMap, firsts: Any) -> Any:
    """How many outputs copy one input, at most."""
    rule, m, n, _ = of_axis
    if isinstance(firsts, np.ndarray):
        return int(np.diff(firsts).max(initial=0))
    # One more than ceil(n / m), for the rules that round.
    return (n + m - 1) // m + (not _nearest_rules.is_exact(rule))


# ------------------------------------------------------------------------ plain forms


def _fwd_lax(
    x: jax.Array, *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
) -> jax.Array:
    """A gather an axis: XLA fuses them into one loop over the target."""
    dtype = x.dtype
    x = movable(x)
    for axis, of_axis in zip(axes, maps, strict=True):
        x = _take(x, _table("fwd", of_axis), axis)
    return x if x.dtype == dtype else lax.bitcast_convert_type(x, dtype)


def _bwd_lax(
    g: jax.Array, *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
) -> jax.Array:
    """Gathers the copies of each source element and sums them, an axis at a time.

    No scatter: XLA fuses the gathers into the sums, loops over the source in a fixed
    order.
    """
    dtype = g.dtype
    g = g.astype(sum_dtype(dtype))
    for axis, of_axis in zip(axes, maps, strict=True):
        g = _sum_copies(g, of_axis, axis)
    return g.astype(dtype)


def _sum_copies(g: jax.Array, of_axis: AxisMap, axis: int) -> jax.Array:
    """[.., n, ..] to [.., m, ..]: the sums of what was copied from each of m."""
    _, m, n, _ = of_axis
    table = _table("bwd", of_axis)
    most = _most_copies(of_axis, table)
    if isinstance(most, int) and most == 0:
        return jnp.zeros((*g.shape[:axis], m, *g.shape[axis + 1 :]), g.dtype)
    if not isinstance(n, int):
        # It may be 0, and JAX takes nothing from what may be empty.
        padding = [(0, int(a == axis), 0) for a in range(g.ndim)]
        g = lax.pad(g, jnp.zeros((), g.dtype), padding)
    firsts = jnp.asarray(table)
    first, end = firsts[:-1], firsts[1:]

    def copies(index: jax.Array, end: jax.Array) -> jax.Array:
        """The elements of `g` at these places of `axis`, zero from `end` on."""
        present = index < end
        taken = _take(g, jnp.where(present, index, 0), axis)
        inner = (1,) * (g.ndim - axis - 1)
        present = jnp.broadcast_to(present.reshape(*present.shape, *inner), taken.shape)
        return jnp.where(present, taken, jnp.zeros((), g.dtype))

    if isinstance(most, int) and most <= _UNROLLED_COPIES:
        # XLA may store the array of all copies before it sums them; single terms fuse.
        return functools.reduce(lax.add, (copies(first + k, end) for k in range(most)))
    place = jnp.arange(most, dtype=jnp.int32)
    terms = copies(first[:, None] + place[None, :], end[:, None])
    return jnp.sum(terms, axis=axis + 1, dtype=g.dtype)


def _take(x: jax.Array, indices: Any, axis: int) -> jax.Array:
    at = (slice(None),) * axis + (jnp.asarray(indices),)
    return x.at[at].get(mode="promise_in_bounds")


# ------------------------------------------------------------------------- primitives


def _fwd_shape(
    shape: tuple[Any, ...], *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
) -> tuple[Any, ...]:
    return _replace(shape, axes, (n for _, _, n, _ in maps))


def _bwd_shape(
    shape: tuple[Any, ...], *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
) -> tuple[Any, ...]:
    return _replace(shape, axes, (m for _, m, _, _ in maps))


def _replace(
    shape: tuple[Any, ...], axes: tuple[int, ...], sizes: Iterable[Any]
) -> tuple[Any, ...]:
    by_axis = dict(zip(axes, sizes, strict=True))
    return tuple(by_axis.get(axis, size) for axis, size in enumerate(shape))


def _kernel(direction: str, shape_rule: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering rule that calls the target of a direction."""

    def call(
        x: jax.Array, *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
    ) -> jax.Array:
        shape = shape_rule(x.shape, axes=axes, maps=maps)
        tables = [_table(direction, of_axis) for of_axis in maps]
        target = f"jax_upsample_resize_nearest_{direction}_v1"
        with jax.named_scope(f"resize_nearest_{direction}"):
            return jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(shape, x.dtype))(
                x, *tables, axes=np.array(axes, np.int64)
            )

    def calls(
        x: jax.Array, *, axes: tuple[int, ...], maps: tuple[AxisMap, ...]
    ) -> jax.Array:
        """As many calls as the axes need."""
        dtype = x.dtype
        if direction == "bwd" and len(axes) > _arguments.MAX_AXES:
            x = x.astype(sum_dtype(dtype))  # to round once, after the last call
        for start in range(0, len(axes), _arguments.MAX_AXES):
            group = slice(start, start + _arguments.MAX_AXES)
            x = call(x, axes=axes[group], maps=maps[group])
        return x.astype(dtype)

    return _calls.lower(calls)


resize_nearest_fwd_p, resize_nearest_bwd_p = _linear_pair.define(
    "resize_nearest",
    fwd=_linear_pair.Map(_fwd_shape, _fwd_lax, _kernel("fwd", _fwd_shape)),
    bwd=_linear_pair.Map(_bwd_shape, _bwd_lax, _kernel("bwd", _bwd_shape)),
)
