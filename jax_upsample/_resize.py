"""Other libraries' resizing functions, by their names and arguments."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jax_upsample import _arguments
from jax_upsample._resize_nearest import resize_nearest

# As it was on import: `patch` replaces the attribute for a while.
jax_image_resize = jax.image.resize

_INTERPOLATE_RULES = {"nearest": "torch", "nearest-exact": "torch_exact"}


def resize(
    image: jax.typing.ArrayLike,
    shape: Sequence[int],
    method: str | jax.image.ResizeMethod,
    antialias: bool = True,
    precision: Any = lax.Precision.HIGHEST,
) -> jax.Array:
    """`jax.image.resize`, with `"nearest"` by `resize_nearest`.

    Takes what `jax.image.resize` takes and returns what it returns under jit, bit for
    bit; other methods and arrays without axes it does itself. What differs is the
    gradient of `"nearest"`: a sum of copies in float32 instead of scatters in the dtype
    of `image`.

    Args:
      image: array of any dtype.
      shape: the shape of the result, one size for each axis of `image`.
      method: as of `jax.image.resize`: `"nearest"`, `"linear"`, `"cubic"`, ..
      antialias: of the other methods, when they shrink.
      precision: of the other methods.

    Returns:
      An array of that shape, for `"nearest"` of the dtype of `image`.

    Raises:
      TypeError, ValueError: as `resize_nearest`, or as `jax.image.resize`.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import resize
      >>> resize(jnp.arange(4), (6,), "nearest")
      Array([0, 1, 1, 2, 3, 3], dtype=int32)
    """
    if isinstance(method, str):
        method = jax.image.ResizeMethod.from_string(method)
    if method == jax.image.ResizeMethod.NEAREST and jnp.ndim(image) > 0:
        if isinstance(shape, Iterator):
            shape = tuple(shape)
        elif not isinstance(shape, Iterable):
            shape = (shape,)
        return resize_nearest(image, shape)
    return jax_image_resize(image, shape, method, antialias, precision)


def interpolate(
    x: jax.typing.ArrayLike,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
) -> jax.Array:
    """`torch.nn.functional.interpolate` of the nearest modes, for those who port.

    Equals what torch computes from float32 on CUDA, and on CPUs in channels_last (but
    for a `scale_factor` that leaves a size as it is: here that is a copy; and one near
    2 that doubles it: on CUDA torch goes by the factor, here and on CPUs by 2). The
    gradient is the exact transpose, which torch's on CUDA is not for every size. ::

        resize_nearest(x, x.shape[:2] + size, rule="torch")         # mode="nearest"
        resize_nearest(x, x.shape[:2] + size, rule="torch_exact")   # "nearest-exact"

    Args:
      x: array of any dtype, (N, C) and then one to three spatial axes.
      size: the spatial sizes of the result, one for all axes or one for each.
      scale_factor: instead of `size`, a factor for all axes or one for each: sizes are
        floor(size * scale_factor), and the factor says where an output lies in the
        input, as torch does by default. With torch's `recompute_scale_factor=True` the
        sizes do: give that `size`.
      mode: `"nearest"` or `"nearest-exact"`.

    Returns:
      An array of the dtype of `x`.

    Raises:
      TypeError: `x` is no array, or neither or both of `size` and `scale_factor` are
        given, or they are no numbers.
      ValueError: an `x` of another rank than 3 to 5, another `mode`, or a `size` or
        `scale_factor` of another length than the spatial axes or out of range.

    Example:
      >>> import jax.numpy as jnp
      >>> from jax_upsample import interpolate
      >>> interpolate(jnp.arange(5)[None, None], size=3)
      Array([[[0, 1, 3]]], dtype=int32)
    """
    function = "interpolate"
    array = _arguments.array(function, x)
    if not 3 <= array.ndim <= 5:
        raise ValueError(
            f"{function}: x must be (N, C) and one to three spatial axes, "
            f"got shape {array.shape}"
        )
    if not isinstance(mode, str) or mode not in _INTERPOLATE_RULES:
        raise ValueError(
            f"{function}: mode must be one of {tuple(_INTERPOLATE_RULES)}, got {mode!r}"
        )
    if (size is None) == (scale_factor is None):
        raise TypeError(
            f"{function}: one of size and scale_factor must be given, "
            f"got size={size!r}, scale_factor={scale_factor!r}"
        )
    rule: Any = _INTERPOLATE_RULES[mode]
    axes = tuple(range(2, array.ndim))
    if scale_factor is not None:
        return resize_nearest(array, scale=scale_factor, axes=axes, rule=rule)
    sizes = _arguments.integers(function, "size", size)
    if isinstance(sizes, int):
        sizes = (sizes,) * len(axes)
    if len(sizes) != len(axes):
        raise ValueError(
            f"{function}: size must be one integer or one for each of the {len(axes)} "
            f"spatial axes, got {size!r}"
        )
    return resize_nearest(array, array.shape[:2] + sizes, rule=rule)
