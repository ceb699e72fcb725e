"""Sub-pixel convolutions, against the plain lines that the docstring gives."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import equations, primitives
from jax import lax

from jax_upsample import _upsample_conv, upsample_conv

METHODS = ("folded", "phases", "plain", None)
NHWC = ("NHWC", "HWIO", "NHWC")


def normal(seed, *shape, dtype=np.float64):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def plain(x, kernel, scale, *, dimension_numbers=NHWC, axes=(1, 2), **options):
    """Repeats and convolves; no function of the package."""
    for axis, factor in zip(axes, scale, strict=True):
        x = jnp.repeat(x, factor, axis)
    strides = (1,) * len(axes)
    options = {"padding": "SAME"} | options
    return lax.conv_general_dilated(
        x, kernel, strides, dimension_numbers=dimension_numbers, **options
    )


def with_gradients(function, *operands, seed=9):
    """The result and the gradients of a random weighting of it."""
    y, transpose = jax.vjp(function, *operands)
    return y, *transpose(normal(seed, *y.shape, dtype=y.dtype))


def assert_close(actual, expected, tolerance=1e-10):
    for a, b in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


PADDINGS = ("SAME", "SAME_LOWER", "VALID", ((0, 3), (2, -1)), ((-1, 4), (5, 0)))


@pytest.mark.parametrize("scale", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7])
def test_every_kernel_scale_padding_and_group(size, scale):
    """In float64 to 1e-10: the result and both gradients, of both forms."""
    cases = []
    for padding, groups in itertools.product(PADDINGS, (1, 2)):
        x = normal(size, 1, 4, 3, 2 * groups)
        kernel = normal(scale, size, max(1, size - 1), 2, 2 * groups)
        cases.append((padding, groups, x, kernel))

    @jax.jit
    def run():
        pairs = []
        for padding, groups, x, kernel in cases:
            options = {"padding": padding, "feature_group_count": groups}
            expected = with_gradients(
                lambda x, k, o=options: plain(x, k, (scale, scale), **o), x, kernel
            )
            for method in ("folded", "phases"):
                actual = with_gradients(
                    lambda x, k, o=options, m=method: upsample_conv(
                        x, k, scale, method=m, **o
                    ),
                    x,
                    kernel,
                )
                pairs.append((actual, expected))
        return pairs

    for actual, expected in run():
        assert_close(actual, expected)


SPATIAL = {  # shapes of x and kernel, scale, spatial axes, dimension numbers
    "NWC": ((2, 5, 3), (3, 3, 4), (2,), (1,), ("NWC", "WIO", "NWC")),
    "NCHW": ((2, 3, 4, 5), (4, 3, 3, 3), (2, 3), (2, 3), ("NCHW", "OIHW", "NCHW")),
    "to NCHW": ((2, 4, 5, 3), (3, 3, 3, 4), (2, 1), (1, 2), ("NHWC", "HWIO", "NCHW")),
    "CWNH": ((3, 5, 2, 4), (3, 2, 3, 4), (3, 2), (3, 1), ("CWNH", "HWIO", "NCHW")),
    "3-D": (
        (1, 3, 2, 4, 2),
        (3, 1, 3, 2, 3),
        (2, 2, 3),
        (1, 2, 3),
        ("NDHWC", "DHWIO", "NDHWC"),
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("x", "kernel", "scale", "axes", "numbers"), SPATIAL.values(), ids=SPATIAL.keys()
)
def test_layouts_and_ranks(x, kernel, scale, axes, numbers, method):
    options = {"dimension_numbers": numbers, "rhs_dilation": (2,) * len(scale)}
    operands = normal(0, *x), normal(1, *kernel)
    actual = with_gradients(
        lambda x, k: upsample_conv(x, k, scale, method=method, **options), *operands
    )
    expected = with_gradients(
        lambda x, k: plain(x, k, scale, axes=axes, **options), *operands
    )
    assert_close(actual, expected)


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("method", METHODS)
def test_skip_bias_and_activation(method, activation):
    """The first convolution of a U-Net's decoder, with all four gradients."""
    x, skip = normal(0, 2, 3, 4, 5), normal(1, 2, 6, 8, 3)
    kernel, bias = normal(2, 3, 3, 8, 4), normal(3, 4)
    act = {None: lambda y: y, "relu": jax.nn.relu, "silu": jax.nn.silu}[activation]

    def decoder(x, skip, kernel, bias):
        up = jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)
        y = plain(jnp.concatenate([up, skip], -1), kernel, (1, 1))
        return act(y + bias[None, None, None])

    def ours(x, skip, kernel, bias):
        return upsample_conv(
            x, kernel, skip=skip, bias=bias, activation=activation, method=method
        )

    operands = (x, skip, kernel, bias)
    assert_close(with_gradients(ours, *operands), with_gradients(decoder, *operands))
    assert "concatenate" not in primitives(ours, *operands) or method != "folded"


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("parts", ["", "bias", "skip", "skip bias"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_last_pass(dtype, parts, activation, groups, implementation):
    """Kernel or plain, result and gradients are those of float64 but for rounding."""
    if groups == 2 and "skip" in parts:
        return  # refused, see ERRORS
    of_skip = 3 * ("skip" in parts)
    exact = {
        "x": normal(0, 2, 3, 4, 4),
        "kernel": normal(1, 3, 3, 4 // groups + of_skip, 8),
    }
    if "skip" in parts:
        exact["skip"] = normal(2, 2, 6, 8, 3)
    if "bias" in parts:
        exact["bias"] = normal(3, 8)

    def run(method, implementation, operands):
        names = list(operands)

        def conv(*values):
            return upsample_conv(
                **dict(zip(names, values, strict=True)),
                activation=activation,
                feature_group_count=groups,
                method=method,
                implementation=implementation,
                precision="highest",
            )

        return with_gradients(conv, *operands.values())

    expected = run("plain", "xla", exact)
    rounded = {name: value.astype(dtype) for name, value in exact.items()}
    actual = run("folded", implementation, rounded)
    # The plain form in the same dtype has errors, too: where the sum is about 0, the
    # derivative of relu flips.
    baseline = run("plain", "xla", rounded)
    for ours, theirs, wanted in zip(actual, baseline, expected, strict=True):
        assert ours.dtype == dtype
        our_error, their_error = (
            jnp.linalg.norm(a.astype(jnp.float64) - wanted) for a in (ours, theirs)
        )
        unit = float(jnp.finfo(dtype).eps) * jnp.linalg.norm(wanted)
        assert our_error <= 1.5 * their_error + unit


@pytest.mark.usefixtures("kernel")
def test_the_last_pass_is_one_call():
    """Of the interleaving, `skip`, the bias and the activation together."""
    x, kernel = normal(0, 1, 4, 4, 2), normal(1, 3, 3, 5, 8)
    skip, bias = normal(2, 1, 8, 8, 3), normal(3, 8)

    def calls(**options):
        def conv(*operands):
            x, kernel, *others = (a.astype(jnp.bfloat16) for a in operands)
            named = dict(zip(("skip", "bias"), others, strict=False))
            return upsample_conv(x, kernel, **named, **options)

        operands = (x, kernel, skip, bias)
        text = jax.jit(conv).lower(*operands).as_text()
        return re.findall(r"custom_call @jax_upsample_(\w+)_v1", text)

    forced = {"activation": "relu", "implementation": "kernel"}
    assert calls(**forced) == ["pixel_shuffle_sum"]
    assert calls(activation="relu", implementation="xla") == []


@pytest.mark.parametrize("method", METHODS)
def test_second_order(method):
    x, kernel = normal(0, 1, 3, 2, 2), normal(1, 3, 3, 2, 2)

    def second(conv):
        def loss(x, kernel):
            return jnp.sum(conv(x, kernel) ** 3)

        def penalty(x, kernel):
            return jnp.sum(jax.grad(loss)(x, kernel) ** 2)

        return jax.grad(penalty, (0, 1))(x, kernel)

    ours = second(lambda x, k: upsample_conv(x, k, method=method))
    assert_close(ours, second(lambda x, k: plain(x, k, (2, 2))), 1e-7)


@pytest.mark.parametrize("method", ["phases", "plain"])
def test_forward_mode(method):
    operands = normal(0, 1, 3, 2, 2), normal(1, 3, 3, 2, 2)
    tangents = normal(2, 1, 3, 2, 2), normal(3, 3, 3, 2, 2)
    ours = jax.jvp(lambda x, k: upsample_conv(x, k, method=method), operands, tangents)
    assert_close(ours, jax.jvp(lambda x, k: plain(x, k, (2, 2)), operands, tangents))


@pytest.mark.parametrize("method", METHODS)
def test_batches(method):
    """vmap of the image, of the kernel and of both, equals a loop."""
    x, kernel = normal(0, 3, 2, 3, 4, 2), normal(1, 3, 3, 3, 2, 4)
    for in_axes in ((0, None), (None, 0), (0, 0)):
        batched = jax.vmap(
            lambda x, k: with_gradients(
                lambda x, k: upsample_conv(x, k, method=method), x, k
            ),
            in_axes,
        )(
            x if in_axes[0] == 0 else x[0],
            kernel if in_axes[1] == 0 else kernel[0],
        )
        for i in range(3):
            one = with_gradients(
                lambda x, k: plain(x, k, (2, 2)),
                x[i if in_axes[0] == 0 else 0],
                kernel[i if in_axes[1] == 0 else 0],
            )
            assert_close([entry[i] for entry in batched], one)


BIASED = {
    "NHWC": ((2, 4, 3, 5), (3, 3, 5, 4), ("NHWC", "HWIO", "NHWC")),
    "NCHW": ((2, 5, 4, 3), (4, 5, 3, 3), ("NCHW", "OIHW", "NCHW")),
    "NWHC": ((2, 4, 3, 5), (3, 3, 5, 4), ("NWHC", "HWIO", "NWHC")),
    "HWNC": ((4, 3, 2, 5), (3, 3, 5, 4), ("HWNC", "HWIO", "HWNC")),
}


@pytest.mark.parametrize(("x", "window", "numbers"), BIASED.values(), ids=BIASED)
def test_batches_of_a_bias(x, window, numbers, implementation):
    """Alone, and twice over, wherever the channels are."""
    x, kernel = normal(0, *x, dtype=np.float32), normal(1, *window, dtype=np.float32)
    bias = normal(2, 2, 3, 4, dtype=np.float32)

    def conv(bias):
        return upsample_conv(
            x,
            kernel,
            bias=bias,
            dimension_numbers=numbers,
            method="folded",
            implementation=implementation,
        )

    once, twice = jax.vmap(conv)(bias[0]), jax.vmap(jax.vmap(conv))(bias)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_allclose(twice[i, j], conv(bias[i, j]), atol=1e-4)
    np.testing.assert_allclose(once, twice[0], atol=1e-4)


@pytest.mark.parametrize("method", ["folded", "phases"])
def test_rounding(method):
    """float32: 1.5 times the plain form's error; bfloat16: 1 % of the largest."""
    x, kernel = normal(0, 2, 8, 8, 64), normal(1, 3, 3, 64, 32)
    exact = with_gradients(lambda x, k: plain(x, k, (2, 2)), x, kernel)

    def errors(form, dtype):
        cast = x.astype(dtype), kernel.astype(dtype)
        return [
            float(jnp.abs(a.astype(jnp.float64) - b).max() / jnp.abs(b).max())
            for a, b in zip(with_gradients(form, *cast), exact, strict=True)
        ]

    def ours(x, k):
        return upsample_conv(x, k, method=method, precision="highest")

    def theirs(x, k):
        return plain(x, k, (2, 2), precision="highest")

    for our, their in zip(
        errors(ours, jnp.float32), errors(theirs, jnp.float32), strict=True
    ):
        assert our <= 1.5 * their + 1e-7
    assert max(errors(ours, jnp.bfloat16)) < 1e-2


def test_folded_by_default_where_it_multiplies_less():
    """3x3 at scale 2 keeps the pixels few; 2x2 needs 4 taps either way: plain."""
    for window, spatial in ((3, (5, 5)), (2, (8, 8))):
        x, kernel = normal(0, 1, 4, 4, 2), normal(1, window, window, 2, 3)
        (conv,) = (
            eqn
            for eqn in equations(upsample_conv, x, kernel)
            if eqn.primitive.name == "conv_general_dilated"
        )
        assert conv.outvars[0].aval.shape[1:3] == spatial


def test_one_tap_convolves_before_it_upsamples():
    program = jax.jit(upsample_conv).lower(normal(0, 1, 4, 4, 2), normal(0, 1, 1, 2, 3))
    assert re.search(r"convolution.*-> tensor<1x4x4x3xf64>", program.as_text())


def test_no_upsampled_array_in_the_program():
    """Folded, forward and gradient: nothing of the size of the upsampled operand."""
    x, kernel = normal(0, 1, 16, 16, 24), normal(1, 3, 3, 24, 2)

    def run(x, kernel):
        return with_gradients(
            lambda x, k: upsample_conv(x, k, method="folded"), x, kernel
        )

    text = jax.jit(run).lower(x, kernel).compile().as_text()
    assert "[1,32,32,24]" not in text
    assert (
        "[1,32,32,24]"
        in jax.jit(lambda x, k: upsample_conv(x, k, method="plain"))
        .lower(x, kernel)
        .compile()
        .as_text()
    )


def test_preferred_element_type():
    x = normal(0, 1, 4, 4, 8, dtype=jnp.bfloat16)
    kernel = normal(1, 3, 3, 8, 2, dtype=jnp.bfloat16)
    wide = {"preferred_element_type": jnp.float32}
    methods = METHODS
    try:
        with_gradients(lambda x, k: plain(x, k, (2, 2), **wide), x, kernel)
    except TypeError:
        # The oldest jax mixes the dtypes in its own gradient of such a convolution.
        methods = ("folded",)
    for method in methods:
        y, *gradients = with_gradients(
            lambda x, k, m=method: upsample_conv(x, k, method=m, **wide), x, kernel
        )
        assert y.dtype == jnp.float32
        assert {g.dtype for g in gradients} == {x.dtype}


@pytest.mark.parametrize("method", METHODS)
def test_empty(method):
    """No images, no pixels, or a kernel larger than what it is to cover."""
    kernel = normal(1, 3, 3, 2, 4)
    for shape in ((0, 3, 3, 2), (1, 0, 3, 2), (1, 1, 3, 2)):
        for padding in ("SAME", "VALID"):
            x = normal(0, *shape)
            y = upsample_conv(x, kernel, padding=padding, method=method)
            expected = plain(x, kernel, (2, 2), padding=padding)
            assert_close([y], [expected])


X, K = normal(0, 1, 4, 4, 2), normal(1, 3, 3, 2, 4)

ERRORS = [
    ((X, K.astype(jnp.float32)), {}, TypeError, "must have one dtype"),
    ((X, K[0]), {}, ValueError, "x and kernel must both have rank 3 to 5"),
    ((X, K[:, :, :1]), {}, ValueError, "kernel must have 2 input channels, got 1"),
    ((X, K), {"feature_group_count": 3}, ValueError, "divide the 4 outputs"),
    ((X, K), {"padding": "FULL"}, ValueError, "got 'FULL'"),
    ((X, K), {"padding": [(1, 1)]}, ValueError, "pair for each of the 2 spatial axes"),
    ((X, K), {"padding": [(1, 1), (0.5, 1)]}, TypeError, "padding must hold integers"),
    ((X, K), {"scale": 0}, ValueError, "scale must be at least 1, got 0"),
    ((X, K), {"rhs_dilation": 0}, ValueError, "rhs_dilation must be at least 1"),
    ((X, K), {"dimension_numbers": ("NHWC",)}, ValueError, "dimension_numbers"),
    ((X, K), {"implementation": "cuda"}, ValueError, "implementation must be None"),
    ((X, K), {"method": "fft"}, ValueError, "method must be None or one of"),
    ((X, K), {"activation": ["relu"]}, ValueError, "got ['relu']"),
    (
        (X.astype(jnp.int32), K.astype(jnp.int32)),
        {"activation": "relu"},
        TypeError,
        "activation needs floats, got int32",
    ),
    ((X, K), {"activation": "gelu"}, ValueError, "activation must be None or one of"),
    ((X, K), {"bias": jnp.zeros(3)}, ValueError, "bias must have the shape (4,)"),
    ((X, K), {"bias": jnp.zeros(4, jnp.int8)}, TypeError, "bias must have the dtype"),
    ((X, K), {"skip": X}, ValueError, "skip must have the shape (1, 8, 8, 2)"),
    (
        (X, K),
        {"skip": normal(0, 1, 8, 8, 3)},
        ValueError,
        "kernel must have 5 input channels (3 of them skip's), got 2",
    ),
]


@pytest.mark.parametrize(("operands", "options", "error", "message"), ERRORS)
def test_errors_name_the_argument(operands, options, error, message):
    with pytest.raises(error) as caught:
        upsample_conv(*operands, **options)
    assert str(caught.value).startswith("upsample_conv: ")
    assert message in str(caught.value)


def test_forward_mode_of_the_folded_form_is_refused():
    with pytest.raises(TypeError, match="forward-mode autodiff"):
        jax.jvp(lambda x: upsample_conv(x, K, method="folded"), (X,), (X,))


def test_geometry():
    """The docstring of the module, worked for 3 taps at scale 2, padded by 1."""
    axis = _upsample_conv._Axis(size=5, window=3, scale=2, low=1, high=1, dilation=1)
    assert (axis.m, axis.r0, axis.outputs, axis.positions) == (1, 1, 10, 6)
    wide = axis.widen(jnp.array([1, 10, 100]), 0)
    assert wide.tolist() == [1, 11, 110, 100]
    assert axis.split(wide, 0).tolist() == [[11, 100], [1, 110]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wide", ["int32", "float32"])
def test_sums_of_taps_do_not_overflow(method, wide):
    """Integers of 8 bits, whose result may be wider."""
    x, kernel = jnp.full((1, 2, 2, 1), 3, "uint8"), jnp.full((3, 3, 1, 1), 200, "uint8")
    y = upsample_conv(x, kernel, method=method, preferred_element_type=wide)
    assert y.dtype == wide
    assert y[0, 1, 1, 0] == 9 * 3 * 200


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(2, 3, 4, 0), (0, 3, 4, 2), (2, 0, 4, 2)])
def test_nothing_to_convolve(method, shape):
    x, kernel = jnp.zeros(shape), normal(0, 3, 3, shape[-1], 4)
    y, transpose = jax.vjp(lambda *a: upsample_conv(*a, method=method), x, kernel)
    assert y.shape == (shape[0], 2 * shape[1], 8, 4)
    assert not y.any()
    assert [g.shape for g in transpose(y)] == [shape, kernel.shape]
