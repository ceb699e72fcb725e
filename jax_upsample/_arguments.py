"""Checks of what users pass; every error names function, argument, got and wanted."""

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jax_upsample import _ffi

Implementation = Literal["kernel", "xla"]

MAX_AXES = 3  # that one kernel call changes
_MAX_BYTES = 2**63 - 1


def array(function: str, x: Any, name: str = "x") -> jax.Array:
    try:
        if isinstance(x, bool | int | float | complex):
            raise TypeError
        if not hasattr(x, "__jax_array__"):
            jax.typeof(x)  # lists and foreign arrays have no type in JAX
        result = jnp.asarray(x)
    except TypeError:
        raise TypeError(
            f"{function}: {name} must be an array of numbers, booleans or keys, got "
            f"{type(x).__name__}" + (f" of {x.dtype}" if hasattr(x, "dtype") else "")
        ) from None
    if result.ndim == 0:
        raise ValueError(f"{function}: {name} must have at least one axis, got rank 0")
    return result


def integers(function: str, name: str, value: Any) -> tuple[int, ...] | int:
    """`value` as one integer or several, all of them static."""
    value = concrete(value)
    if is_sequence(value):
        return tuple(integer(function, name, entry) for entry in value)
    return integer(function, name, value)


def concrete(value: Any) -> Any:
    """`value`, in numpy if it is a jax.Array: to iterate over that would trace."""
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        return np.asarray(value)
    return value


def is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def integer(function: str, name: str, value: Any) -> int:
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


def canonical_axes(
    function: str,
    value: Any,
    rank: int,
    *,
    most: int = MAX_AXES,
    name: str = "axes",
) -> tuple[int, ...]:
    axes = integers(function, name, value)
    if isinstance(axes, int):
        axes = (axes,)
    if not 1 <= len(axes) <= most:
        raise ValueError(
            f"{function}: {name} must name 1 to {most} axes, got {value!r}"
        )
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(
                f"{function}: {name} must lie in [{-rank}, {rank}) for an array of "
                f"rank {rank}, got {value!r}"
            )
    axes = tuple(axis % rank for axis in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"{function}: {name} must not repeat, got {value!r}")
    return axes


def canonical_scales(
    function: str, value: Any, count: int, *, name: str = "scale"
) -> tuple[int, ...]:
    """One positive integer for each of `count` axes."""
    scales = integers(function, name, value)
    if isinstance(scales, int):
        scales = (scales,) * count
    if len(scales) != count:
        raise ValueError(
            f"{function}: {name} must be one integer or one for each of the {count} "
            f"axes, got {value!r}"
        )
    if min(scales) < 1:
        raise ValueError(f"{function}: {name} must be at least 1, got {value!r}")
    if max(scales) > _MAX_BYTES:
        raise ValueError(f"{function}: {name} must be below 2^63, got {value!r}")
    return scales


def check_output_size(
    function: str,
    x: jax.Array | jax.ShapeDtypeStruct,
    sizes: Sequence[Any],
    wanted: str,
) -> None:
    """Raises where the output would have 2^63 bytes; `wanted` is for the message."""
    if not all(isinstance(size, int) for size in sizes):
        return  # symbolic: known when the exported program is called
    # No axis may be longer, not even beside one of size 0.
    if max(math.prod(sizes) * x.dtype.itemsize, *sizes) > _MAX_BYTES:
        raise ValueError(
            f"{function}: the output would have 2^63 bytes or more: x is "
            f"{x.dtype}{x.shape}, {wanted}"
        )


def check_implementation(function: str, implementation: Any, dtype: Any) -> None:
    """Raises unless it is None or a form that exists for `dtype`."""
    named = isinstance(implementation, str) and implementation in ("kernel", "xla")
    if implementation is not None and not named:
        raise ValueError(
            f'{function}: implementation must be None, "kernel" or "xla", '
            f"got {implementation!r}"
        )
    if implementation == "kernel":
        _check_kernel_exists(function, dtype)


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
