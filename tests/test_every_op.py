"""Every op under every transformation of JAX, against the same of lines in jnp.

The plain lines are first held against loops in numpy. test_transforms.py goes deeper,
for `upsample_nearest` alone.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, jet

from jax_upsample import (
    pixel_shuffle,
    pixel_unshuffle,
    resize_nearest,
    upsample_add,
    upsample_concat,
    upsample_conv,
    upsample_nearest,
)


def integers(seed, *shape):
    """Small integers, whose sums and products are exact."""
    return jnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape), float)


X = integers(0, 1, 2, 3, 8)
LARGE, KERNEL = integers(1, 1, 4, 6, 8), integers(2, 3, 3, 8, 2)
COLUMNS = np.array([0, 0, 1, 2, 2])  # of jax.image.resize, 3 -> 5


def repeated(x):
    return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)


def convolved(x):
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        repeated(x), KERNEL, (1, 1), "SAME", dimension_numbers=numbers
    )


def shuffled(x):
    n, h, w, c = x.shape
    y = x.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, 2 * h, 2 * w, c // 4)


def unshuffled(x):  # 1 x 3 pixels become channels
    n, h, w, c = x.shape
    y = x.reshape(n, h, 1, w // 3, 3, c).transpose(0, 1, 3, 2, 4, 5)
    return y.reshape(n, h, w // 3, 3 * c)


# Both are functions of one array and linear in it but for a constant.
OPS = {
    "nearest": (upsample_nearest, repeated),
    "resize": (
        lambda x, **by: resize_nearest(x, (1, 2, 5, 8), **by),
        lambda x: x[:, :, COLUMNS],
    ),
    "add": (
        lambda x, **by: upsample_add(x, LARGE, **by),
        lambda x: repeated(x) + LARGE,
    ),
    "concat": (
        lambda x, **by: upsample_concat(x, LARGE, **by),
        lambda x: jnp.concatenate([repeated(x), LARGE], -1),
    ),
    "shuffle": (
        lambda x, **by: pixel_shuffle(x, channel_order="tf", **by),
        shuffled,
    ),
    "unshuffle": (
        lambda x, **by: pixel_unshuffle(x, (1, 3), channel_order="tf", **by),
        unshuffled,
    ),
    "conv": (lambda x, **by: upsample_conv(x, KERNEL, **by), convolved),
    "conv of phases": (
        lambda x, **by: upsample_conv(x, KERNEL, method="phases", **by),
        convolved,
    ),
}


def loss(f):
    """Cubic, so that three derivatives differ."""
    return lambda x: jnp.sum(f(x) ** 3) / 64


def direction(x):
    return jnp.cos(jnp.arange(x.size, dtype=x.dtype)).reshape(x.shape)


def stacked(x):
    return jnp.stack([x, direction(x), -x])


def linear(f):
    """`f` less its constant."""
    return lambda x: f(x) - f(jnp.zeros_like(x))


def pull(f):
    return lambda x: jax.vjp(f, x)[1](direction(f(x)))[0]


def push(f):
    return lambda x: jax.jvp(f, (x,), (direction(x),))


def scan(f):
    def total(x):
        return lax.scan(lambda c, x: (c + loss(f)(x), f(x)), 0.0, stacked(x))[0]

    return total


def loop(f):
    def body(i, c):
        return c + jnp.sum(f(c)) / 1024 + i

    return lambda x: lax.fori_loop(0, 2, body, x)


def branch(f):
    return lambda x: lax.cond(x[0, 0, 0, 0] > 9, jnp.sum, loss(f), x)


def checked(f):
    check = checkify.checkify(f, errors=checkify.float_checks)

    def run(x):
        error, y = check(x)
        error.throw()
        return y

    return run


def remat(**options):
    return lambda f: jax.grad(loss(jax.checkpoint(f, **options)))


def replayed(f):
    """On GPUs one CUDA graph, recorded once and replayed for other arrays."""
    options = {"xla_gpu_graph_min_graph_size": 1}
    step = jax.jit(jax.grad(loss(f)), compiler_options=options)
    return lambda x: [step(x), step(direction(x)), step(-x), step(x)]


POLICIES = jax.checkpoint_policies
REVERSE = {  # transformation of f, applied to X; with reverse mode at most
    "eager": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(loss(f)),
    "grad of jit": lambda f: jax.grad(loss(jax.jit(f))),
    "jit of grad": lambda f: jax.jit(jax.grad(loss(f))),
    "value_and_grad": lambda f: jax.value_and_grad(loss(f)),
    "CUDA graph of grad": replayed,
    "vjp": pull,
    "vjp of vjp": lambda f: pull(pull(f)),
    "jacrev": jax.jacrev,
    "jacrev of jacrev": lambda f: jax.jacrev(jax.jacrev(loss(f))),
    "reverse over reverse": lambda f: jax.grad(
        lambda x: jnp.vdot(jax.grad(loss(f))(x), direction(x))
    ),
    "third order": lambda f: jax.grad(
        lambda x: jnp.sum(jax.grad(lambda x: jnp.sum(jax.grad(loss(f))(x)))(x))
    ),
    "remat": remat(),
    "remat, everything": remat(policy=POLICIES.everything_saveable),
    "remat, nothing": remat(policy=POLICIES.nothing_saveable),
    "remat, dots": remat(policy=POLICIES.dots_saveable),
    "grad of scan": lambda f: jax.grad(scan(f)),
    "grad of map": lambda f: jax.grad(
        lambda x: jnp.sum(lax.map(f, stacked(x)) ** 2),
    ),
    "grad of cond": lambda f: jax.grad(branch(f)),
    "fori_loop": loop,
    "vmap": lambda f: lambda x: jax.vmap(f)(stacked(x)),
    "vmap, last axis": lambda f: (
        lambda x: jax.vmap(f, -1, -1)(jnp.moveaxis(stacked(x), 0, -1))
    ),
    "vmap, between": lambda f: (
        lambda x: jax.vmap(f, 2, 1)(jnp.moveaxis(stacked(x), 0, 2))
    ),
    "vmap of vmap": lambda f: lambda x: jax.vmap(jax.vmap(f))(stacked(stacked(x))),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(loss(f)))(stacked(x)),
    "grad of vmap": lambda f: jax.grad(
        lambda x: jnp.sum(jax.vmap(loss(f))(stacked(x)))
    ),
    "checkify": checked,
    "checkify of grad": lambda f: checked(jax.grad(loss(f))),
    "stop_gradient": lambda f: jax.grad(
        lambda x: jnp.vdot(lax.stop_gradient(f(x)), f(x))
    ),
}
FORWARD = {  # what a custom_vjp refuses
    "jvp": push,
    "jvp of jit": lambda f: push(jax.jit(f)),
    "jvp of jvp": lambda f: push(push(f)),
    "jvp of vjp": lambda f: push(pull(f)),
    "vjp of jvp": lambda f: pull(lambda x: push(f)(x)[1]),
    "jvp of remat": lambda f: push(jax.checkpoint(f)),
    "jvp of fori_loop": lambda f: push(loop(f)),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](direction(x)),
    "jacfwd": jax.jacfwd,
    "hessian": lambda f: jax.hessian(loss(f)),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(loss(f))),
    "forward over reverse": lambda f: push(jax.grad(loss(f))),
    "reverse over forward": lambda f: jax.grad(lambda x: push(loss(f))(x)[1]),
    "vmap of jvp": lambda f: lambda x: jax.vmap(push(f))(stacked(x)),
    "vmap of hessian": lambda f: (
        lambda x: jax.vmap(jax.hessian(loss(f)))(stacked(x)[:2])
    ),
    "linear_transpose": lambda f: (
        lambda x: jax.linear_transpose(linear(f), x)(direction(f(x)))
    ),
    "linear_transpose twice": lambda f: (
        lambda x: jax.linear_transpose(
            lambda w: jax.linear_transpose(linear(f), x)(w)[0], f(x)
        )(direction(x))
    ),
    "jet": lambda f: lambda x: jet.jet(f, (x,), ([direction(x), x],)),
}


@functools.cache
def expected(op, name):
    _, plain = OPS[op]
    return (REVERSE | FORWARD)[name](plain)(X)


def test_the_plain_lines():
    """Against indices."""
    x = np.asarray(X)
    up = np.array([[x[0, i // 2, j // 2] for j in range(6)] for i in range(4)])
    wanted = {"nearest": up, "add": up + LARGE[0]}
    wanted["concat"] = np.concatenate([up, LARGE[0]], -1)
    wanted["resize"] = x[0, :, [0, 0, 1, 2, 2]].swapaxes(0, 1)
    wanted["shuffle"] = [
        [x[0, i // 2, j // 2].reshape(2, 2, 2)[i % 2, j % 2] for j in range(6)]
        for i in range(4)
    ]
    wanted["unshuffle"] = x[0].reshape(2, 1, 24)
    padded = np.pad(up, ((1, 1), (1, 1), (0, 0)))
    windows = [[padded[i : i + 3, j : j + 3] for j in range(6)] for i in range(4)]
    wanted["conv"] = np.einsum("ijhwc,hwco->ijo", np.array(windows), KERNEL)
    for op, value in wanted.items():
        np.testing.assert_array_equal(OPS[op][1](X)[0], value, err_msg=op)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", [*REVERSE, *FORWARD])
def test_every_op(op, name, implementation):
    ours, _ = OPS[op]
    function = functools.partial(ours, implementation=implementation)
    transformed = (REVERSE | FORWARD)[name](function)
    if name in FORWARD and op == "conv":
        # AttributeError: jet of jax 0.12, which no custom_vjp survives.
        with pytest.raises((TypeError, NotImplementedError, AttributeError)):
            transformed(X)
        return
    actual = jax.tree.leaves(transformed(X))
    for a, b in zip(actual, jax.tree.leaves(expected(op, name)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
