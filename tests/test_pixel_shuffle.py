"""Channels to space and back, against loops over the definition and against PyTorch.

The silent bugs guarded here: a phase that lands beside its place, memory of the result
that nothing wrote, a sum that is rounded twice.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import assert_equal, assert_same_bits, poison, skip_or_fail

from jax_upsample import pixel_shuffle, pixel_unshuffle
from jax_upsample._pixel_shuffle import (
    pixel_shuffle_bwd_p,
    pixel_shuffle_fwd_p,
    pixel_shuffle_sum_p,
)

ORDERS = ("torch", "tf")


def shuffle_by_definition(x, scales, axes, channel_axis, order):
    """The docstring's formula, an element at a time."""
    channels = x.shape[channel_axis] // np.prod(scales)
    shape = list(x.shape)
    shape[channel_axis] = channels
    for axis, scale in zip(axes, scales, strict=True):
        shape[axis] *= scale
    y = np.zeros(shape, x.dtype)
    for place in np.ndindex(*shape):
        source = list(place)
        phase = 0
        for axis, scale in zip(axes, scales, strict=True):
            source[axis], residue = divmod(place[axis], scale)
            phase = phase * scale + residue
        c = place[channel_axis]
        windows = int(np.prod(scales))
        source[channel_axis] = (
            c * windows + phase if order == "torch" else phase * channels + c
        )
        y[place] = x[tuple(source)]
    return y


LAYOUTS = {
    "NHWC": ((2, 3, 2, 12), (2, 3), (1, 2), 3),
    "NCHW": ((2, 12, 3, 2), (2, 3), (2, 3), 1),
    "channels between": ((2, 3, 12, 2), (2, 2), (1, 3), 2),
    "axes in another order": ((2, 3, 2, 12), (2, 3), (2, 1), 3),
    "whole vectors": ((2, 3, 2, 48), (2, 3), (1, 2), 3),
    "odd channels": ((2, 3, 2, 28), (2, 2), (1, 2), 3),
    "axes after the channels": ((2, 3, 2, 12, 5), (2, 3), (1, 2), 3),
    "no batch": ((3, 2, 8), (2, 2), (0, 1), 2),
    "NWC": ((2, 5, 6), (3,), (1,), 2),
    "NDHWC": ((1, 2, 1, 3, 8), (2, 2, 2), (1, 2, 3), 4),
    "no channel left over": ((1, 2, 2, 4), (2, 2), (1, 2), 3),
    "empty": ((0, 2, 2, 4), (2, 2), (1, 2), 3),
    "scale 1": ((1, 2, 2, 4), (1, 2), (1, 2), 3),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("shape", "scale", "axes", "channel_axis"), LAYOUTS.values(), ids=LAYOUTS.keys()
)
def test_it_is_the_definition_and_undone_by_the_inverse(
    shape, scale, axes, channel_axis, order, implementation
):
    options = {"axes": axes, "channel_axis": channel_axis, "channel_order": order}
    options["implementation"] = implementation
    x = np.arange(np.prod(shape)).reshape(shape)
    y = pixel_shuffle(x, scale, **options)
    assert_equal(y, shuffle_by_definition(x, scale, axes, channel_axis, order))
    assert_equal(pixel_unshuffle(y, scale, **options), x)


@pytest.mark.parametrize("order", ORDERS)
def test_each_is_the_others_transpose(order, implementation):
    """And so on: to any order, in both modes."""
    options = {"channel_order": order, "implementation": implementation}
    x = jnp.arange(2 * 3 * 2 * 8, dtype=jnp.float32).reshape(2, 3, 2, 8)
    y, transpose = jax.vjp(lambda x: pixel_shuffle(x, **options), x)
    g = y[::-1]
    assert_equal(transpose(g)[0], np.asarray(pixel_unshuffle(g, **options)))
    back, transpose = jax.vjp(lambda y: pixel_unshuffle(y, **options), y)
    assert_equal(transpose(back)[0], np.asarray(y))
    _, tangent = jax.jvp(lambda x: pixel_shuffle(x, **options), (x,), (x,))
    assert_equal(tangent, np.asarray(y))


def test_torch_order_is_that_of_torch():
    try:
        import torch
    except ImportError:
        skip_or_fail("torch", "torch is not installed")
    x = np.random.default_rng(0).standard_normal((2, 12, 3, 5)).astype(np.float32)
    y = torch.nn.functional.pixel_shuffle(torch.from_numpy(x), 2).numpy()
    options = {"axes": (2, 3), "channel_axis": 1}
    assert_equal(pixel_shuffle(x, 2, **options), y)
    back = torch.nn.functional.pixel_unshuffle(torch.from_numpy(y), 2).numpy()
    assert_equal(pixel_unshuffle(y, 2, **options), back)


def test_negative_axes_and_batches(implementation):
    """Batches along any axis, between the spatial axes too."""

    def shuffle(x):
        return pixel_shuffle(
            x, axes=(-3, -2), channel_order="tf", implementation=implementation
        )

    x = jnp.arange(3 * 2 * 2 * 4).reshape(3, 2, 2, 4)
    for batch in range(4):
        moved = jnp.moveaxis(x, 0, batch)
        y = jax.vmap(shuffle, in_axes=batch, out_axes=batch)(moved)
        assert_equal(jnp.moveaxis(y, batch, 0), np.asarray(shuffle(x)))


# -------------------------------------------------------------- crops, sums: primitives


CROPS = {  # packed shape, scale, first, last
    "as of 3x3": ((2, 4, 3, 32), (2, 2), (1, 1), (1, 1)),
    "uneven": ((2, 3, 3, 24), (3, 1), (2, 0), (3, 1)),
    "more than a window": ((1, 4, 3, 8), (2, 2), (3, 0), (2, 5)),
    "1-D": ((2, 5, 6), (2,), (1,), (0,)),
    "3-D": ((1, 3, 2, 3, 64), (2, 2, 2), (1, 0, 1), (1, 1, 0)),
    "nothing left": ((1, 2, 1, 8), (2, 2), (2, 1), (2, 0)),
}
by_crop = pytest.mark.parametrize(
    ("shape", "scale", "first", "last"), CROPS.values(), ids=CROPS.keys()
)


def cropped(shape, scale, first, last, **options):
    """The primitives' parameters, and how to cut the shuffled image."""
    axes = tuple(range(1, 1 + len(scale)))
    cut = [slice(None)] * len(shape)
    for axis, factor, low, high in zip(axes, scale, first, last, strict=True):
        cut[axis] = slice(low, shape[axis] * factor - high)
    params = {"axes": axes, "scale": scale, "first": first, "last": last}
    return params | {"channel_axis": len(shape) - 1} | options, tuple(cut)


@by_crop
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex128"])
def test_cropped(shape, scale, first, last, dtype, implementation):
    """What the image does not hold is zero in the transpose, whatever was there."""
    params, cut = cropped(shape, scale, first, last, implementation=implementation)
    # XLA's loops on CPUs take the subnormals of bfloat16 for zeros.
    random = oracle.random_normal if dtype == "bfloat16" else oracle.random_bits
    x = random(shape, dtype)
    axes, channel = params["axes"], params["channel_axis"]
    whole = shuffle_by_definition(x, scale, axes, channel, "tf")
    poison(whole[cut].shape, dtype)
    y = jax.jit(lambda x: pixel_shuffle_fwd_p.bind(x, **params))(x)
    assert_same_bits(y, whole[cut])

    kept = np.zeros_like(whole)
    kept[cut] = whole[cut]
    poison(shape, dtype)
    back = jax.jit(lambda y: pixel_shuffle_bwd_p.bind(y, **params))(y)
    again = shuffle_by_definition(np.asarray(back), scale, axes, channel, "tf")
    assert_same_bits(again, kept)


@by_crop
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_sum_rounds_once(shape, scale, first, last, dtype, activation, implementation):
    """shuffle + bias (+ an image) and the activation, in float32 or wider."""
    params, cut = cropped(shape, scale, first, last, implementation=implementation)
    axes, channel = params["axes"], params["channel_axis"]
    x = oracle.random_normal(shape, dtype)
    whole = shuffle_by_definition(x, scale, axes, channel, "tf")[cut]
    bias = oracle.random_normal(whole.shape[-1:], dtype, 1)
    added = oracle.random_normal(whole.shape, dtype, 2)
    wide = np.float64 if dtype == "float64" else np.float32
    for others in ((bias,), (bias, added)):
        poison(whole.shape, dtype)
        y = jax.jit(
            lambda *operands: pixel_shuffle_sum_p.bind(
                *operands, activation=activation, **params
            )
        )(x, *others)
        wanted = whole.astype(wide)
        for term in others[::-1]:
            wanted = wanted + term.astype(wide)
        if activation == "relu":
            wanted = np.maximum(wanted, 0)
        if activation == "silu":
            exact = wanted.astype(np.float64)
            exact = exact / (1 + np.exp(-exact))
            spacing = np.abs(exact) * float(jnp.finfo(dtype).eps)
            error = np.abs(np.asarray(y).astype(np.float64) - exact)
            assert (error <= 0.51 * spacing + 3e-7 * np.abs(exact)).all()
        else:
            assert_equal(y, wanted.astype(whole.dtype))


def test_sum_of_special_values(implementation):
    """NaN stays NaN and infinities go where the activations take them."""
    values = [np.nan, np.inf, -np.inf, -0.0, 200.0, -200.0, 1e-30, -1.0]
    x = np.array(values, np.float32).reshape(1, 1, 1, 8)
    bias = np.zeros(8, np.float32)
    one = {"axes": (1, 2), "scale": (1, 1), "first": (0, 0), "last": (0, 0)}
    for activation, function in (("relu", jax.nn.relu), ("silu", jax.nn.silu)):
        y = pixel_shuffle_sum_p.bind(
            x,
            bias,
            channel_axis=3,
            activation=activation,
            implementation=implementation,
            **one,
        )
        np.testing.assert_allclose(y, function(x), rtol=1e-6, atol=0)


def test_sum_in_batches(implementation):
    """Every operand with a batch or without, a bias of its own for each included."""
    params, _ = cropped((2, 3, 3, 16), (2, 2), (1, 1), (1, 1))
    params |= {"activation": "relu", "implementation": implementation}
    whole = [
        oracle.random_normal(shape, "float32", seed)
        for seed, shape in enumerate(((2, 3, 3, 5, 16), (4, 5), (5, 2, 4, 4, 4)))
    ]

    def one(*operands):
        return pixel_shuffle_sum_p.bind(*operands, **params)

    for dims in itertools.product((None, 3), (None, 1), (None, 0)):
        if dims == (None, None, None):
            continue
        operands = [
            operand if dim is not None else operand.take(0, axis)
            for operand, dim, axis in zip(whole, dims, (3, 1, 0), strict=True)
        ]
        y = jax.vmap(one, in_axes=dims)(*operands)
        for i in range(5):
            alone = [
                operand if dim is None else operand.take(i, dim)
                for operand, dim in zip(operands, dims, strict=True)
            ]
            assert_equal(y[i], np.asarray(one(*alone)))


# ------------------------------------------------------------------------ the handlers


def call(name, operands, shape, **attributes):
    result = jax.ShapeDtypeStruct(shape, operands[0].dtype)
    target = f"jax_upsample_pixel_shuffle_{name}_v1"
    vectors = {
        key: np.array(value, np.int64) if isinstance(value, tuple) else np.int64(value)
        for key, value in attributes.items()
    }
    return jax.block_until_ready(jax.ffi.ffi_call(target, result)(*operands, **vectors))


def zeros(*shape, dtype=np.float32):
    return jnp.zeros(shape, dtype)


GOOD = {"axes": (1, 2), "scale": (2, 2), "first": (0, 0)}
PACKED, IMAGE, BIAS = zeros(2, 3, 4, 8), zeros(2, 6, 8, 2), zeros(2)
SUM = GOOD | {"activation": 0}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("name", "operands", "shape", "attributes", "message"),
    [
        ("fwd", (PACKED,), (2, 6, 8), GOOD, "must have one rank"),
        ("fwd", (PACKED,), (2, 6, 8, 3), GOOD, "channels of packed must be"),
        ("fwd", (PACKED,), (3, 6, 8, 2), GOOD, "dimension 0 must be one in both"),
        ("fwd", (PACKED,), (2, 7, 8, 2), GOOD, "no element 0 . 6 along axis 1"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"first": (1, 0)}, "no element 1 . 5"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"first": (0, -1)}, "no element -1"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"scale": (2, 0)}, "of scale 0"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"scale": (2**62, 2)}, "no element"),
        (
            "fwd",
            (zeros(2, 1, 1, 8),),
            (2, 1, 1, 2),
            GOOD | {"scale": (2**32, 2**32)},
            "channels of packed must be",
        ),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"axes": (2, 1)}, "from axes.0. = 2"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"axes": (0, 2)}, "be consecutive"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"axes": (-1, 0)}, "from axes.0. = -1"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"axes": (2, 3)}, "from axes.0. = 2"),
        ("fwd", (PACKED,), IMAGE.shape, GOOD | {"axes": (1,)}, "one length of 1 to 3"),
        ("fwd", (zeros(2),), (2,), dict.fromkeys(GOOD, ()), "one length of 1 to 3"),
        ("bwd", (IMAGE,), (2, 3, 4, 4), GOOD, "channels of packed must be"),
        ("bwd", (IMAGE,), (2, 3, 3, 8), GOOD, "no element 0 . 7 along axis 2"),
        ("sum", (PACKED, zeros(3)), IMAGE.shape, SUM, "bias must have the dtype"),
        ("sum", (PACKED, zeros(1, 2)), IMAGE.shape, SUM, "bias must have the dtype"),
        (
            "sum",
            (PACKED, zeros(2, dtype=np.float16)),
            IMAGE.shape,
            SUM,
            "bias must have the dtype",
        ),
        ("sum", (PACKED, BIAS), IMAGE.shape, SUM | {"activation": 3}, "got 3 and 2"),
        ("sum", (PACKED, BIAS, IMAGE, IMAGE), IMAGE.shape, SUM, "got 0 and 4"),
        ("sum", (PACKED, BIAS, PACKED), IMAGE.shape, SUM, "must be like the image"),
        (
            "sum",
            (PACKED.astype(np.float64), BIAS.astype(np.float64)),
            IMAGE.shape,
            SUM,
            "no kernel for dtype float64",
        ),
        (
            "sum",
            (zeros(2, 3, 4, 8, 1), BIAS),
            (2, 6, 8, 2, 1),
            SUM,
            "bias must have the dtype",
        ),
    ],
)
def test_handlers_refuse(name, operands, shape, attributes, message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call(name, operands, shape, **attributes)


@pytest.mark.usefixtures("kernel")
def test_handlers_of_empty_arrays():
    """Nothing to do; but the transpose of an empty image is all zeros."""
    assert call("fwd", (zeros(0, 3, 4, 8),), (0, 6, 8, 2), **GOOD).size == 0
    assert call("sum", (zeros(0, 3, 4, 8), BIAS), (0, 6, 8, 2), **SUM).size == 0
    poison((2, 3, 4, 8), np.float32)
    packed = call("bwd", (zeros(2, 0, 8, 2),), (2, 3, 4, 8), **GOOD)
    assert_equal(packed, np.zeros((2, 3, 4, 8), np.float32))


# ----------------------------------------------------------------------------- errors


X = np.zeros((1, 2, 3, 8), np.float32)

ERRORS = [
    (pixel_shuffle, {"scale": 3}, ValueError, "9, must divide the 8 channels of x"),
    (pixel_shuffle, {"scale": 0}, ValueError, "scale must be at least 1, got 0"),
    (pixel_shuffle, {"scale": 2.0}, TypeError, "scale must hold integers, got 2.0"),
    (pixel_shuffle, {"channel_axis": 2}, ValueError, "none of axes (1, 2), got 2"),
    (pixel_shuffle, {"channel_axis": 4}, ValueError, "channel_axis must be an axis"),
    (pixel_shuffle, {"channel_order": "keras"}, ValueError, "got 'keras'"),
    (pixel_shuffle, {"implementation": "cuda"}, ValueError, "got 'cuda'"),
    (pixel_unshuffle, {}, ValueError, "scale 2 must divide axis 2 of x, got shape"),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), ERRORS)
def test_errors_name_the_argument(function, options, error, message):
    with pytest.raises(error) as caught:
        function(X, **options)
    assert str(caught.value).startswith(f"{function.__name__}: ")
    assert message in str(caught.value)


def test_every_dtype_moves_unchanged():
    for dtype, order in itertools.product(
        (bool, jnp.int8, jnp.bfloat16, jnp.float8_e4m3fn, jnp.complex64), ORDERS
    ):
        x = jnp.arange(16).reshape(1, 2, 2, 4).astype(dtype)
        y = pixel_shuffle(x, channel_order=order)
        assert y.dtype == x.dtype
        back = pixel_unshuffle(y, channel_order=order)
        assert np.asarray(back).tobytes() == np.asarray(x).tobytes()
