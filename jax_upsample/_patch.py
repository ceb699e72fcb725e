"""A trial of the package on a model as it is, by replacing `jax.image.resize`."""

import contextlib
import contextvars
import functools
import threading
from collections.abc import Iterator
from typing import Any

import jax

from jax_upsample._resize import jax_image_resize, resize

_is_inside = contextvars.ContextVar("jax_upsample.patch", default=False)
_lock = threading.Lock()
_threads_inside = 0


@functools.wraps(jax_image_resize)
def _dispatch(*args: Any, **kwargs: Any) -> jax.Array:
    """`resize` inside of `patch`, of this thread or task; elsewhere what was before."""
    return (resize if _is_inside.get() else jax_image_resize)(*args, **kwargs)


@contextlib.contextmanager
def patch() -> Iterator[None]:
    """Makes `jax.image.resize(.., "nearest")` this package's `resize` for a while.

    For a trial of the package on a model as it is; a model that stays with it should
    call `jax_upsample.resize`. A context manager, or with parentheses a decorator::

        with jax_upsample.patch():
            losses = train(model)

    Forward the values are the same, bit for bit, and other methods than `"nearest"` are
    as before. What differs is the gradient, in speed and in its rounding.

    Only the thread or task that enters traces to it. JAX does not know that a traced
    function depends on this, so its caches are cleared on entry and exit
    (`jax.clear_caches`): functions compile again, in every thread. A jitted function
    that another thread calls meanwhile may be the one traced here. What was bound by
    `from jax.image import resize` before is not affected.

    Raises:
      RuntimeError: `jax.image.resize` has been replaced by something else.

    Example:
      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jax_upsample
      >>> with jax_upsample.patch():
      ...     y = jax.image.resize(jnp.arange(3), (6,), "nearest")
      >>> y
      Array([0, 0, 1, 1, 2, 2], dtype=int32)
    """
    _install()
    was_inside = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(was_inside)
        _uninstall()


def _install() -> None:
    global _threads_inside
    with _lock:
        if jax.image.resize not in (jax_image_resize, _dispatch):
            raise RuntimeError(
                "jax_upsample.patch: jax.image.resize has been replaced already, by "
                f"{jax.image.resize!r}"
            )
        jax.image.resize = _dispatch
        _threads_inside += 1
    jax.clear_caches()


def _uninstall() -> None:
    global _threads_inside
    with _lock:
        _threads_inside -= 1
        if _threads_inside == 0 and jax.image.resize is _dispatch:
            jax.image.resize = jax_image_resize
    jax.clear_caches()
