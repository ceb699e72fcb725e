"""Inside a Flax model under jit and grad: the use that the package is for."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jax_upsample import upsample_nearest

STEPS = 10


@pytest.fixture(autouse=True)
def standard_promotion():
    """Optax counts its steps in int32 and promotes them."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def repeat(x):
    return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)


class UNet(nnx.Module):
    """One level: down, up, concatenate the skip, convolve."""

    def __init__(self, upsample, rngs):
        def conv(channels_in, channels_out, strides=1):
            return nnx.Conv(channels_in, channels_out, (3, 3), strides, rngs=rngs)

        self.upsample = upsample
        self.first = conv(2, 8)
        self.down = conv(8, 16, strides=2)
        self.last = conv(24, 2)

    def __call__(self, x):
        skip = nnx.relu(self.first(x))
        x = self.upsample(nnx.relu(self.down(skip)))
        return self.last(jnp.concatenate([x, skip], axis=-1))


def losses(upsample, wrap=lambda step: step):
    """The loss of each of a few training steps."""
    model = UNet(upsample, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (4, 8, 8, 2), jnp.float32)

    @nnx.jit
    def step(model, optimizer):
        @nnx.value_and_grad
        def loss(model):
            return ((wrap(model)(x) - x) ** 2).mean()

        value, gradients = loss(model)
        optimizer.update(model, gradients)
        return value

    return [float(step(model, optimizer)) for _ in range(STEPS)]


def test_nnx_model_trains_as_with_repeat(implementation):
    """The same model with jnp.repeat gives the same loss curve."""
    ours = losses(lambda x: upsample_nearest(x, 2, implementation=implementation))
    assert ours[-1] < 0.7 * ours[0]
    np.testing.assert_allclose(ours, losses(repeat), rtol=2e-5)


def test_nnx_model_trains_under_remat(implementation):
    def up(x):
        return upsample_nearest(x, 2, implementation=implementation)

    rematerialized = losses(up, wrap=lambda m: nnx.remat(lambda x: m(x)))
    np.testing.assert_allclose(rematerialized, losses(up), rtol=2e-5)


def test_linen_module_differentiates(implementation):
    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(8, (3, 3))(x)
            x = upsample_nearest(x, 2, implementation=implementation)
            return nn.Conv(1, (3, 3))(x)

    model, x = Decoder(), jnp.ones((2, 4, 4, 3), jnp.float32)
    variables = model.init(jax.random.key(0), x)
    loss = jax.jit(jax.grad(lambda v: (model.apply(v, x) ** 2).sum()))
    gradients = jax.tree.leaves(loss(variables))
    assert all(jnp.abs(g).sum() > 0 for g in gradients)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32], ids=["bf16", "f32"])
def test_module_parameters_are_arrays_too(dtype, implementation):
    """An nnx.Param, which holds an array, is upsampled as one."""
    parameter = nnx.Param(jnp.arange(4, dtype=dtype).reshape(1, 2, 2, 1))
    y = upsample_nearest(parameter, 2, implementation=implementation)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y[0, :, :, 0].astype(jnp.float32)[0], [0, 0, 1, 1])
