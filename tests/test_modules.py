"""The modules of Flax NNX, Flax Linen and Equinox."""

import io
import pickle

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from jax.sharding import AxisType, PartitionSpec

import jax_upsample
from jax_upsample import equinox as upsample_equinox
from jax_upsample import linen as upsample_linen
from jax_upsample import nnx as upsample_nnx

MODULES = {
    "nnx": upsample_nnx,
    "linen": upsample_linen,
    "equinox": upsample_equinox,
}


@pytest.fixture(autouse=True)
def standard_promotion():
    """As the frameworks expect."""
    with (
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def normal(seed, *shape, dtype=jnp.float32):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def call(module, *operands):
    """What a module without parameters returns."""
    return (
        module.apply({}, *operands)
        if isinstance(module, nn.Module)
        else module(*operands)
    )


# ------------------------------------------------------------- without parameters


@pytest.fixture(params=MODULES.values(), ids=MODULES.keys())
def modules(request):
    return request.param


def layout(modules):
    """The arrays (1, 4, 4, 8), or (8, 4, 4), and where its axes are."""
    if modules is upsample_equinox:
        return normal(0, 8, 4, 4), {"axes": (1, 2), "channel": 0}
    return normal(0, 1, 4, 4, 8), {"axes": (1, 2), "channel": 3}


@pytest.mark.parametrize("scale", [None, 2, (1, 3), 1.5])
def test_upsample_by_a_scale(modules, scale):
    x, at = layout(modules)
    y = call(modules.Upsample(scale, rule="torch"), x)
    expected = jax_upsample.resize_nearest(
        x, scale=scale or 2, axes=at["axes"], rule="torch"
    )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("size", [7, (3, 9)])
def test_upsample_to_a_size(modules, size):
    x, _ = layout(modules)
    shape = list(x.shape)
    shape[1:3] = (7, 7) if size == 7 else size
    y = call(modules.Upsample(size=size), x)
    np.testing.assert_array_equal(y, jax.image.resize(x, shape, "nearest"))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_data_format_and_axes_mean_the_same(modules, data_format, rank):
    """As many spatial axes as the scale has entries, beside any number of others."""
    spatial, scale = (3, 4, 5)[:rank], (2, 3, 1)[:rank]
    is_last = data_format == "channels_last"
    shape = (2, *spatial, 6) if is_last else (2, 6, *spatial)
    axes = tuple(range(1, 1 + rank)) if is_last else tuple(range(2, 2 + rank))
    x = normal(0, *shape)
    named = call(modules.Upsample(scale, data_format=data_format), x)
    numbered = call(modules.Upsample(scale, axes=axes), x)
    expected = jax_upsample.upsample_nearest(x, scale, axes=axes)
    np.testing.assert_array_equal(named, expected)
    np.testing.assert_array_equal(numbered, expected)


def test_one_axis_by_its_number(modules):
    x = jnp.arange(3)
    np.testing.assert_array_equal(call(modules.Upsample(axes=0), x), [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("scale", [2, None])
def test_add_and_concat(modules, scale):
    x, at = layout(modules)
    other = normal(1, *(8 if n == 4 else n for n in x.shape))
    axes = at["axes"]
    np.testing.assert_array_equal(
        call(modules.UpsampleAdd(scale), x, other),
        jax_upsample.upsample_add(x, other, axes=axes),
    )
    for first in (False, True):
        np.testing.assert_array_equal(
            call(modules.UpsampleConcat(scale, skip_first=first), x, other),
            jax_upsample.upsample_concat(
                x, other, axes=axes, concat_axis=at["channel"], skip_first=first
            ),
        )


def test_concat_along_another_axis(modules):
    x, other = normal(0, 2, 4, 4, 3), normal(1, 5, 8, 8, 3)
    module = modules.UpsampleConcat(axes=(1, 2), concat_axis=0)
    assert call(module, x, other).shape == (7, 8, 8, 3)


@pytest.mark.parametrize("order", ["torch", "tf"])
def test_pixel_shuffle(modules, order):
    x, at = layout(modules)
    np.testing.assert_array_equal(
        call(modules.PixelShuffle(channel_order=order), x),
        jax_upsample.pixel_shuffle(
            x, axes=at["axes"], channel_axis=at["channel"], channel_order=order
        ),
    )


def test_errors_name_the_module(modules):
    x, _ = layout(modules)

    def raises(error, match):
        return pytest.raises(error, match=match)

    with raises(TypeError, r"Upsample: only one of scale and size .* scale=2, size=3"):
        call(modules.Upsample(2, 3), x)
    with raises(ValueError, "Upsample: only one of axes and data_format"):
        call(modules.Upsample(axes=1, data_format="channels_last"), x)
    with raises(ValueError, r"PixelShuffle: data_format must be .* got 'NHWC'"):
        call(modules.PixelShuffle(data_format="NHWC"), x)
    with raises(ValueError, r"Upsample: size must be one integer or .* the 1 axes"):
        call(modules.Upsample(size=(3, 4), axes=1), x)
    with raises(ValueError, r"Upsample: axes must lie in .* got \(7,\)"):
        call(modules.Upsample(size=3, axes=7), x)


# -------------------------------------------------------------------- convolutions


def nnx_pair(in_features, out_features, kernel_size, scale=2, **options):
    plain_options = {k: v for k, v in options.items() if k not in OURS}
    plain = nnx.Conv(
        in_features, out_features, kernel_size, rngs=nnx.Rngs(1), **plain_options
    )
    ours = upsample_nnx.UpsampleConv(
        in_features, out_features, kernel_size, scale, rngs=nnx.Rngs(2), **options
    )
    if plain.bias is not None:
        plain.bias[...] = normal(3, out_features).astype(plain.bias.dtype)
    nnx.update(ours, nnx.state(plain))  # loads what was saved of the plain one
    return plain, ours


def linen_pair(in_features, out_features, kernel_size, scale=2, **options):
    plain_options = {k: v for k, v in options.items() if k not in OURS}
    plain = nn.Conv(out_features, kernel_size, **plain_options)
    ours = upsample_linen.UpsampleConv(
        out_features, kernel_size, scale=scale, **options
    )
    x = jnp.ones((1, *(3 for _ in kernel_size), in_features))
    variables = plain.init(jax.random.key(1), x)
    if "bias" in variables["params"]:
        variables["params"]["bias"] = normal(3, out_features)
    return plain.bind(variables), ours.bind(variables)


OURS = ("activation", "method", "implementation")
PAIRS = {"nnx": nnx_pair, "linen": linen_pair}


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def pair(request):
    return request.param


def repeat(x, scale, axes):
    for axis, s in zip(axes, scale, strict=True):
        x = jnp.repeat(x, s, axis)
    return x


CONVOLUTIONS = {
    "3x3": {},
    "5x4": {"kernel_size": (5, 4)},
    "x3": {"scale": 3},
    "1x2": {"scale": (1, 2)},
    "1-D": {"kernel_size": (3,), "scale": (4,)},
    "3-D": {"kernel_size": (3, 2, 3), "scale": (2, 1, 2)},
    "no bias": {"use_bias": False},
    "valid": {"padding": "VALID"},
    "one number": {"padding": 2},
    "a number for each": {"padding": (2, 0)},
    "pairs": {"padding": ((0, 1), (2, 3))},
    "circular": {"padding": "CIRCULAR"},
    "circular x3 5x4": {"padding": "CIRCULAR", "scale": 3, "kernel_size": (5, 4)},
    "causal": {"padding": "CAUSAL", "kernel_size": (4,), "scale": (3,)},
    "dilated": {"kernel_dilation": (2, 3)},
    "dilation of None": {"kernel_dilation": None},
    "circular dilated": {"padding": "CIRCULAR", "kernel_dilation": 2},
    "groups": {"feature_group_count": 2},
    "phases": {"method": "phases"},
    "precision": {"precision": "highest"},
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_conv_is_flax_conv_of_the_upsampling(pair, case):
    """With the very parameters of the framework's `Conv`."""
    options = {"kernel_size": (3, 3), "scale": 2} | case
    count = len(options["kernel_size"])
    scale = options["scale"]
    scales = scale if isinstance(scale, tuple) else (scale,) * count
    plain, ours = pair(4, 6, **options)
    x = normal(0, 2, *(5, 4, 3)[:count], 4)
    expected = plain(repeat(x, scales, range(1, 1 + count)))
    np.testing.assert_allclose(ours(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["SAME", "CIRCULAR", 2])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0, 3)])
def test_conv_with_a_skip_and_any_batch_axes(pair, padding, batch):
    plain, ours = pair(6, 5, (3, 3), padding=padding)
    x, skip = normal(0, *batch, 4, 3, 4), normal(1, *batch, 8, 6, 2)
    both = jnp.concatenate([repeat(x, (2, 2), (-3, -2)), skip], -1)
    np.testing.assert_allclose(ours(x, skip), plain(both), rtol=1e-4, atol=1e-5)


def test_conv_activation(pair):
    plain, ours = pair(4, 5, (3, 3), activation="silu")
    x = normal(0, 1, 4, 4, 4)
    expected = jax.nn.silu(plain(repeat(x, (2, 2), (1, 2))))
    np.testing.assert_allclose(ours(x), expected, rtol=1e-4, atol=1e-5)


DTYPES = {
    "float32": ({}, jnp.float32, jnp.float32),
    "input bfloat16": ({}, jnp.bfloat16, jnp.float32),
    "dtype": ({"dtype": jnp.bfloat16}, jnp.float32, jnp.bfloat16),
    "param_dtype": (
        {"dtype": jnp.bfloat16, "param_dtype": jnp.bfloat16},
        jnp.bfloat16,
        jnp.bfloat16,
    ),
}


@pytest.mark.parametrize("case", DTYPES.values(), ids=DTYPES.keys())
def test_conv_dtypes(pair, case):
    options, of_x, of_y = case
    plain, ours = pair(6, 5, (3, 3), **options)
    x, skip = normal(0, 1, 4, 4, 4, dtype=of_x), normal(1, 1, 8, 8, 2)
    assert ours(x, skip).dtype == of_y
    both = jnp.concatenate([repeat(x, (2, 2), (1, 2)), skip], -1)
    assert plain(both).dtype == of_y
    np.testing.assert_allclose(
        ours(x, skip).astype(np.float32), plain(both).astype(np.float32), atol=0.1
    )


def test_conv_preferred_element_type():
    plain, ours = nnx_pair(
        4, 5, (3, 3), dtype=jnp.bfloat16, preferred_element_type=jnp.float32
    )
    x = normal(0, 1, 4, 4, 4)
    y, expected = ours(x), plain(repeat(x, (2, 2), (1, 2)))
    assert y.dtype == expected.dtype == jnp.float32
    np.testing.assert_allclose(y, expected, atol=0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("strides", 2), ("input_dilation", 2), ("mask", np.ones((3, 3, 4, 5)))],
)
def test_conv_refuses_what_is_no_plain_convolution(name, value):
    options = {name: value}
    match = rf"UpsampleConv: {name} is not supported, got "
    with pytest.raises(TypeError, match=match):
        upsample_nnx.UpsampleConv(4, 5, (3, 3), rngs=nnx.Rngs(0), **options)
    module = upsample_linen.UpsampleConv(5, (3, 3), **options)
    with pytest.raises(TypeError, match=match):
        module.init(jax.random.key(0), jnp.ones((1, 4, 4, 4)))


def test_conv_errors(pair):
    _, reflect = pair(4, 5, (3, 3), padding="REFLECT")
    with pytest.raises(ValueError, match="UpsampleConv: padding 'REFLECT' cannot"):
        reflect(jnp.ones((1, 4, 4, 4)))
    _, causal = pair(4, 5, (3,), scale=(2,), padding="CAUSAL")
    assert causal(jnp.ones((1, 4, 4))).shape == (1, 8, 5)
    _, conv = pair(6, 5, (3, 3))
    with pytest.raises(ValueError, match="skip must have the input's rank and batch"):
        conv(jnp.ones((1, 4, 4, 4)), jnp.ones((2, 8, 8, 2)))
    with pytest.raises(ValueError, match="input must have 2 spatial axes"):
        conv(jnp.ones((4, 6)))


# ------------------------------------------------------------------------- equinox

EQX_CONVOLUTIONS = {
    "3x3": {"padding": "SAME"},
    "by default": {},
    "1-D": {"num_spatial_dims": 1, "padding": 1, "scale": 3},
    "3-D": {"num_spatial_dims": 3, "padding": "SAME_LOWER", "kernel_size": 2},
    "no bias": {"use_bias": False, "padding": ((1, 0), (0, 2))},
    "dilated": {"dilation": 2, "padding": "SAME"},
    "groups": {"groups": 2},
    "circular": {"padding": 1, "padding_mode": "CIRCULAR"},
    "replicate": {"padding": (2, 1), "padding_mode": "REPLICATE", "scale": 3},
    "replicate same": {"padding": "SAME", "padding_mode": "REPLICATE"},
}


def equinox_pair(**options):
    defaults = {"num_spatial_dims": 2, "kernel_size": 3, "dtype": jnp.float32}
    options = defaults | options
    scale = options.pop("scale", 2)
    plain = eqx.nn.Conv(in_channels=4, out_channels=6, key=jax.random.key(1), **options)
    ours = upsample_equinox.UpsampleConv(
        in_channels=4, out_channels=6, scale=scale, key=jax.random.key(2), **options
    )
    saved = io.BytesIO()
    eqx.tree_serialise_leaves(saved, plain)
    saved.seek(0)
    return plain, eqx.tree_deserialise_leaves(saved, ours), scale


@pytest.mark.parametrize("case", EQX_CONVOLUTIONS.values(), ids=EQX_CONVOLUTIONS.keys())
def test_conv_is_equinox_conv_of_the_upsampling(case):
    """With what was serialised of Equinox's own."""
    plain, ours, scale = equinox_pair(**case)
    count = plain.num_spatial_dims
    x = normal(0, 4, *(5, 4, 3)[:count])
    expected = plain(repeat(x, (scale,) * count, range(1, 1 + count)))
    np.testing.assert_allclose(ours(x), expected, rtol=1e-4, atol=1e-5)


def test_equinox_conv_with_a_skip_and_a_batch():
    plain, ours, _ = equinox_pair(padding="SAME")
    x, skip = normal(0, 2, 3, 5, 5), normal(1, 2, 1, 10, 10)
    both = jnp.concatenate([repeat(x, (2, 2), (2, 3)), skip], 1)
    np.testing.assert_allclose(
        jax.vmap(ours)(x, skip), jax.vmap(plain)(both), rtol=1e-4, atol=1e-5
    )


def test_equinox_conv_refuses_strides():
    with pytest.raises(TypeError, match="UpsampleConv: stride is not supported, got 2"):
        upsample_equinox.UpsampleConv(2, 4, 5, 3, stride=2, key=jax.random.key(0))


def test_equinox_conv_refuses_to_reflect():
    _, ours, _ = equinox_pair(padding=1, padding_mode="REFLECT")
    with pytest.raises(ValueError, match="padding 'REFLECT' cannot be done before"):
        ours(jnp.ones((4, 5, 5)))


def test_equinox_modules_transform_and_differentiate():
    """Everything but the weights is static, under plain jax.jit too."""
    _, ours, _ = equinox_pair(padding="SAME")
    model = eqx.nn.Sequential([upsample_equinox.Upsample((2, 2)), ours])
    x = normal(0, 3, 4, 4, 4)

    @jax.jit
    @jax.grad
    def gradient(model, x):
        return (jax.vmap(model)(x) ** 2).sum()

    leaves = jax.tree.leaves(gradient(model, x))
    assert len(leaves) == 2
    assert all(jnp.abs(leaf).sum() > 0 for leaf in leaves)
    assert "Upsample(scale=(2, 2))" in str(model)
    assert pickle.loads(pickle.dumps(model.layers[0])) == model.layers[0]


# ----------------------------------------------------------------- in a whole model


class UNet(nnx.Module):
    """Two levels, by our modules or by `jnp.repeat` and `nnx.Conv`."""

    def __init__(self, is_ours, rngs):
        def conv(channels_in, channels_out, strides=1):
            return nnx.Conv(channels_in, channels_out, (3, 3), strides, rngs=rngs)

        def up(channels_in, channels_out):
            if is_ours:
                return upsample_nnx.UpsampleConv(
                    channels_in, channels_out, (3, 3), rngs=rngs
                )
            return conv(channels_in, channels_out)

        self.is_ours = is_ours
        self.first = conv(2, 8)
        self.down = conv(8, 12, strides=2)
        self.deeper = conv(12, 16, strides=2)
        self.up = up(16 + 12, 8)
        self.upper = up(8 + 8, 2)
        self.preview = upsample_nnx.Upsample(4) if is_ours else None
        self.to_preview = conv(16, 2)
        self.merge = upsample_nnx.UpsampleConcat()

    def __call__(self, x):
        first = nnx.relu(self.first(x))
        down = nnx.relu(self.down(first))
        deeper = nnx.relu(self.deeper(down))
        preview = self.to_preview(deeper)
        if self.is_ours:
            y = self.upper(nnx.relu(self.up(deeper, down)), first)
            return y + self.preview(preview)
        y = jnp.concatenate([repeat(deeper, (2, 2), (1, 2)), down], -1)
        y = repeat(nnx.relu(self.up(y)), (2, 2), (1, 2))
        y = self.upper(jnp.concatenate([y, first], -1))
        return y + repeat(preview, (4, 4), (1, 2))


def losses(model, steps=50):
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    x = normal(1, 4, 8, 8, 2)

    @nnx.jit
    def step(model, optimizer):
        @nnx.value_and_grad
        def loss(model):
            return ((model(x) - x) ** 2).mean()

        value, gradients = loss(model)
        optimizer.update(model, gradients)
        return value

    return np.array([step(model, optimizer) for _ in range(steps)])


def test_nnx_unet_trains_as_with_repeat():
    """float32, one seed, fifty steps: the same loss curve."""
    ours = losses(UNet(True, nnx.Rngs(0)))
    plain = losses(UNet(False, nnx.Rngs(0)))
    assert ours[-1] < 0.3 * ours[0]
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5)


def test_nnx_checkpoint_of_the_plain_model_loads(tmp_path):
    """Saved by orbax with `nnx.Conv`, restored into `UpsampleConv`."""
    plain, ours = UNet(False, nnx.Rngs(0)), UNet(True, nnx.Rngs(7))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "model", nnx.state(plain))
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "model", nnx.state(ours))
    nnx.update(ours, restored)
    x = normal(0, 1, 8, 8, 2)
    np.testing.assert_allclose(ours(x), plain(x), rtol=1e-4, atol=1e-5)


def test_nnx_modules_under_every_transformation():
    model = UNet(True, nnx.Rngs(0))
    x = normal(0, 3, 1, 8, 8, 2)
    y = jnp.stack([model(each) for each in x])
    mapped = nnx.vmap(lambda m, x: m(x), in_axes=(None, 0))(model, x)
    remat = nnx.remat(lambda m, x: m(x))(model, x[0])
    scanned = nnx.scan(
        lambda m, x: (m, m(x)), in_axes=(nnx.Carry, 0), out_axes=(nnx.Carry, 0)
    )(model, x)[1]
    for found, expected in ((mapped, y), (remat, y[0]), (scanned, y)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_nnx_repr_and_tabulate():
    model = UNet(True, nnx.Rngs(0))
    assert "scale=4" in repr(model.preview)
    table = nnx.tabulate(model, jnp.ones((1, 8, 8, 2)))
    assert "UpsampleConv" in table
    assert "Upsample " in table


def test_nnx_sharding_annotations():
    """As those of `nnx.Conv`: on the initialiser."""
    kernel_init = nnx.with_partitioning(
        nnx.initializers.lecun_normal(), (None, None, None, "model")
    )
    with jax.set_mesh(jax.make_mesh((1,), ("model",), (AxisType.Auto,))):
        conv = upsample_nnx.UpsampleConv(
            4, 8, (3, 3), kernel_init=kernel_init, rngs=nnx.Rngs(0)
        )
    specs = nnx.get_partition_spec(nnx.state(conv))
    leaves = jax.tree.leaves(specs, is_leaf=lambda x: isinstance(x, PartitionSpec))
    assert PartitionSpec(None, None, None, "model") in leaves


class LinenDecoder(nn.Module):
    """A model whose upsampling and convolution can be one."""

    is_ours: bool

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(8, (3, 3))(x))
        if self.is_ours:
            return upsample_linen.UpsampleConv(2, (3, 3), name="Conv_1")(x)
        return nn.Conv(2, (3, 3))(repeat(x, (2, 2), (1, 2)))


def test_linen_checkpoint_of_the_plain_model_loads():
    x = normal(0, 2, 4, 4, 3)
    plain, ours = LinenDecoder(False), LinenDecoder(True)
    variables = plain.init(jax.random.key(0), x)
    assert jax.tree.structure(variables) == jax.tree.structure(
        ours.init(jax.random.key(1), x)
    )
    np.testing.assert_allclose(
        ours.apply(variables, x), plain.apply(variables, x), rtol=1e-4, atol=1e-5
    )
    assert "UpsampleConv" in ours.tabulate(jax.random.key(0), x)
