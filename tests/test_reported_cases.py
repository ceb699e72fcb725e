"""Bugs that users reported against other upsampling code, as inputs and answers.

The silent bugs behind this file really happened: gradients of 256 where 4096 was due,
labels that were never in the image, indices off by one, sums that differ from run to
run, derivatives that failed at the second order. The ids are those of the project's
collection of public reports (cases.jsonl); every test has the input and the answer of
its report. Those that need other sizes than multiples are in test_resize_nearest.py and
test_nearest_rules.py. Here are those that an integer scale can express:

- which pixel goes where: C006 (its axis 4 -> 12), C009, C014, C028, C030, C031, C045,
  C046, C086, C090, C095, C153
- dtypes: C018, C071, C072, C076, C077
- precision of sums: C066, C067, C069, C070
- determinism: C048, C049, C053, C054, C056
- gradients made of scatters, by what they are made of (never by time): C057, C058,
  C060, C062, C063
- memory: C061, C064
- layouts: C091, C094
- empty arrays: C096
- orders of derivative, and vmap: C101, C102, C104, C105, C106, C107, C110, C111, C112
- platforms and the FFI's ABI: C128, C129, C130, C132, C136
"""

import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import oracle
import pytest
from conftest import assert_equal, assert_same_bits, platform

import jax_upsample
from jax_upsample import __main__ as self_test
from jax_upsample import _ffi, upsample_nearest, upsample_nearest_custom_vjp

NHWC, NCHW, NCDHW = (1, 2), (2, 3), (2, 3, 4)
PACKAGE = Path(jax_upsample.__file__).parent


def integers(shape, dtype=np.float64, seed=0, largest=4):
    """Random integers, so that sums are exact in every order."""
    values = np.random.default_rng(seed).integers(-largest, largest + 1, shape)
    return values.astype(dtype)


def up(implementation, scale, axes):
    """The function under test, of its array alone."""
    return lambda x: upsample_nearest(
        x, scale, axes=axes, implementation=implementation
    )


def pullback(f, x):
    """The transpose of `f` at arrays like `x`."""
    return lambda g: jax.vjp(f, x)[1](g)[0]


def gradient_of(f, x, cotangent):
    """The gradient of <f(x), cotangent>, under jit."""
    return jax.jit(pullback(f, x))(cotangent)


# --------------------------------------------------------------- which pixel goes where


def test_C006_factor_3_of_an_onnx_resize(implementation):
    """4 -> 12 is [0,0,0,1,1,1,2,2,2,3,3,3] under every rule."""
    x = np.broadcast_to(np.arange(4.0), (1, 1, 4, 4))
    y = up(implementation, (1, 3), NCHW)(x)
    expected = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert_equal(y, np.broadcast_to(np.array(expected, float), (1, 1, 4, 12)))


@pytest.mark.parametrize("scale", [2, 4, 8])
def test_C009_output_index_i_is_input_index_i_over_k(implementation, scale):
    """x2 (and x4, x8) of any NCHW map takes index i // k."""
    x = oracle.random_normal((2, 3, 5, 7), "float32")
    rows, columns = np.arange(5 * scale) // scale, np.arange(7 * scale) // scale
    assert_equal(up(implementation, scale, NCHW)(x), x[:, :, rows][..., columns])


def test_C014_3x3_to_9x9(implementation):
    """Each input value fills a 3x3 block."""
    x = np.arange(9.0).reshape(3, 3)
    assert_equal(up(implementation, 3, (0, 1))(x), np.kron(x, np.ones((3, 3))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(2,), (1, 3, 2), (1, 2, 3)], ids=str)
def test_C028_C030_2_to_82_in_every_dtype_and_layout(implementation, dtype, shape):
    """Output 41 takes input 1: the index is never rounded in floating point."""
    axis = shape.index(2)
    x = integers(shape, dtype)
    y = np.moveaxis(np.asarray(up(implementation, 41, axis)(x)), axis, 0)
    expected = np.moveaxis(x, axis, 0)[[0] * 41 + [1] * 41]
    assert_equal(y, expected)


def test_C031_2_to_the_23_doubled(implementation):
    """Beyond 2^24 float32 has no odd numbers, and indices must not be float32."""
    x = (np.arange(2**23) % 251).astype(np.uint8)
    y = np.asarray(up(implementation, 2, 0)(x))
    assert y[8388609] == x[4194304]
    assert_equal(y, np.repeat(x, 2))


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [("float32", "contiguous"), ("float64", "contiguous"), ("float64", "channels")],
    ids=["C045", "C046", "C046 channels last"],
)
def test_backward_counts_are_the_forward_indices_counted(implementation, dtype, layout):
    """2 -> 82: as many cotangents reach a pixel as outputs were made of it.

    The report's own rule sends 42 outputs to pixel 0; an integer factor sends 41.
    """
    shape = (2,) if layout == "contiguous" else (1, 2, 3)
    pixels = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    f = up(implementation, 41, shape.index(2))
    indices = np.asarray(f(pixels)).ravel().astype(int)
    counts = np.bincount(indices).reshape(shape).astype(dtype)
    assert_equal(counts, np.full(shape, 41, dtype))
    assert_equal(gradient_of(f, pixels, np.ones_like(f(pixels))), counts)


def test_C086_each_value_9_times(implementation):
    """(4,256,1,1) -> 3x3, more channels than pixels."""
    x = oracle.random_normal((4, 256, 1, 1), "float32")
    assert_equal(up(implementation, 3, NCHW)(x), np.tile(x, (1, 1, 3, 3)))


def test_C090_width_32768_doubled(implementation):
    """No fixed point of 16 bits: i // 2 to the end of a wide row."""
    x = np.arange(32768, dtype=np.int32).reshape(1, 1, 1, 32768)
    y = up(implementation, (1, 2), NCHW)(x)
    assert_equal(y, (np.arange(65536, dtype=np.int32) // 2).reshape(1, 1, 1, 65536))


@pytest.mark.parametrize(
    ("axes", "shape", "expected"),
    [
        (NCHW, (3, 12, 224, 224), (3, 12, 448, 448)),
        (NHWC, (3, 224, 224, 12), (3, 448, 448, 12)),
    ],
    ids=["NCHW", "NHWC"],
)
def test_C095_both_formats(implementation, axes, shape, expected):
    """Size 2 doubles H and W, wherever they are, and never the channels."""
    x = integers(shape, np.int8)
    y = up(implementation, 2, axes)(x)
    assert y.shape == expected
    assert_equal(y, oracle.upsample(x, axes, 2))


def test_C153_rows_wwxx_wwxx_yyzz_yyzz(implementation):
    """[[W,X],[Y,Z]] x2, with data that no flip and no transpose leaves alone."""
    y = up(implementation, 2, (0, 1))(np.array([[1, 2], [3, 4]]))
    expected = [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    assert_equal(y, np.array(expected))


# ------------------------------------------------------------------------------- dtypes


def test_C018_labels_stay_labels(implementation):
    """uint8 labels {0,7}, 4x4 -> 8x8: no value in between, the dtype kept."""
    x = np.random.default_rng(0).choice(np.array([0, 7], np.uint8), (4, 4))
    y = up(implementation, 2, (0, 1))(x)
    assert y.dtype == np.uint8
    assert set(np.unique(y)) == {0, 7}


@pytest.mark.parametrize(
    ("shape", "axes", "dtype"),
    [
        pytest.param((1, 4, 32, 32), NCHW, "bfloat16", id="C071"),
        pytest.param((1, 4, 64, 64), NCHW, "float16", id="C072"),
        pytest.param((1, 64, 64, 4), NHWC, "float16", id="C072 channels last"),
        pytest.param((2, 1, 100, 150), NCHW, "bfloat16", id="C076"),
        pytest.param((1, 16, 5, 12, 20), NCDHW, "bfloat16", id="C077 video latent"),
    ],
)
def test_16_bit_floats_are_copied_bit_for_bit(implementation, shape, axes, dtype):
    """x2 keeps dtype and bits: no upcast, no NaN made quiet, no -0 made 0."""
    x = oracle.random_bits(shape, dtype)
    assert_same_bits(up(implementation, 2, axes)(x), oracle.upsample(x, axes, 2))


# -------------------------------------------------------------------- precision of sums


def test_C066_fp16_ones_of_128x128(implementation):
    """The gradient of 1x1 -> 128x128 is 16384; fp16 sums stop at 2048."""
    x = np.ones((2, 2, 1, 1), np.float16)
    ones = np.ones((2, 2, 128, 128), np.float16)
    gradient = gradient_of(up(implementation, 128, NCHW), x, ones)
    assert_equal(gradient, np.full((2, 2, 1, 1), 16384, np.float16))


@pytest.mark.parametrize("count", [300, 4096])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_C067_sum_of_ones(implementation, dtype, count):
    """(1,) -> (4096,) and (300,): summed in bf16 both came out as 256."""
    x, ones = np.ones(1, dtype), np.ones(count, dtype)
    gradient = gradient_of(up(implementation, count, 0), x, ones)
    assert_equal(gradient, np.full(1, count, dtype))


@pytest.mark.parametrize(
    ("shape", "scale", "dtype"),
    [
        pytest.param((2, 3, 8, 9), 3, ml_dtypes.bfloat16, id="C069 bfloat16"),
        pytest.param((2, 3, 8, 9), 3, np.float16, id="C069 float16"),
        pytest.param((10, 3, 200, 200), 2, ml_dtypes.bfloat16, id="C070"),
    ],
)
def test_sums_are_rounded_once(implementation, shape, scale, dtype):
    """16-bit gradients are the exact sums rounded once.

    The terms are integers that the dtype holds and float32 sums without error, so
    the answer is one number; sums in 16 bits round at every step and miss it.
    """
    largest = 256 if dtype == ml_dtypes.bfloat16 else 2048
    x = np.zeros(shape, dtype)
    g = integers((*shape[:2], *(scale * n for n in shape[2:])), dtype, largest=largest)
    gradient = gradient_of(up(implementation, scale, NCHW), x, g)
    exact, _ = oracle.window_sums(g, NCHW, scale)
    assert not np.array_equal(exact, exact.astype(dtype))  # there is what to round
    assert_equal(gradient, exact.astype(dtype))


# -------------------------------------------------------------------------- determinism


def test_C048_gradient_repeats_bit_for_bit(implementation):
    """x2 twice over the same cotangent, of values whose sums depend on order."""
    x = np.zeros((4, 16, 16, 8), np.float32)
    g = oracle.random_normal((4, 32, 32, 8), "float32")
    f = up(implementation, 2, NHWC)
    assert_same_bits(gradient_of(f, x, g), gradient_of(f, x, g))


def test_C049_works_under_deterministic_ops(implementation):
    """XLA's determinism flag refuses scatters; it changes no bit of this gradient."""
    x = np.zeros((2, 16, 16, 8), np.float32)
    g = oracle.random_normal((2, 32, 32, 8), "float32")
    f = pullback(up(implementation, 2, NHWC), x)
    options = {"xla_gpu_deterministic_ops": True}
    strict = jax.jit(f, compiler_options=options)(g)
    assert_same_bits(strict, jax.jit(f)(g))


def test_C053_unet_training_steps_repeat_bit_for_bit(implementation):
    """Pool, upsample, concatenate the skip, mix channels: three steps, run twice."""
    f = up(implementation, 2, NHWC)
    x = oracle.random_normal((2, 8, 8, 4), "float32")

    def loss(w):
        encoded = jnp.tanh(x @ w["down"])
        pooled = encoded.reshape(2, 4, 2, 4, 2, 4).mean((2, 4))
        decoded = jnp.concatenate([f(pooled @ w["deep"]), encoded], axis=3)
        return jnp.mean((decoded @ w["up"] - x) ** 2)

    @jax.jit
    def step(w):
        value, gradient = jax.value_and_grad(loss)(w)
        new = jax.tree.map(lambda w, g: w - jnp.float32(0.1) * g, w, gradient)
        return new, value

    def train():
        w = {
            "down": oracle.random_normal((4, 4), "float32", 1),
            "deep": oracle.random_normal((4, 4), "float32", 2),
            "up": oracle.random_normal((8, 4), "float32", 3),
        }
        values = []
        for _ in range(3):
            w, value = step(w)
            values.append(float(value))
        return w, values

    (first, values), (second, again) = train(), train()
    assert values == again
    assert values[2] < values[1] < values[0]
    jax.tree.map(assert_same_bits, first, second)


def text_of_gradient(implementation, shape, scale, axes, dtype=np.float32, **options):
    """What is handed to XLA for the gradient alone."""
    x = jax.ShapeDtypeStruct(shape, dtype)
    f = up(implementation, scale, axes)
    g = jax.eval_shape(f, x)
    return jax.jit(pullback(f, jnp.zeros(shape, dtype))).trace(g).lower(**options)


def test_C054_no_scatter_in_the_gradient(implementation):
    """What holds no scatter-add cannot depend on the order of atomics."""
    lowered = text_of_gradient(implementation, (2, 5, 7, 3), 2, NHWC)
    assert "scatter" not in lowered.as_text()
    assert not re.search(r" scatter\w*\(", lowered.compile().as_text())


# ----------------------------------------------- what gradients are made of, and memory


@pytest.fixture
def frugal(implementation):
    """Implementations whose temporary memory is known: elsewhere XLA decides."""
    if implementation == "xla" and platform() != "cpu":
        pytest.skip("plain XLA off the CPU: its temporaries are not the package's")
    return implementation


def test_C056_no_sort_and_no_temporaries(frugal):
    """(2,16,16,64) float32 x2 backward: scatters sort, with megabytes beside it."""
    compiled = text_of_gradient(frugal, (2, 16, 16, 64), 2, NHWC).compile()
    assert " sort(" not in compiled.as_text()
    assert compiled.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize(
    ("shape", "scale"),
    [
        pytest.param((1, 128), 40960, id="C057"),
        pytest.param((1024,), 100, id="C058"),
    ],
)
def test_many_updates_of_few_rows(implementation, shape, scale):
    """40960 terms for one row, 100 for each of 1024: a sum, not updates in turn."""
    x = np.zeros(shape, np.float32)
    g = integers((shape[0] * scale, *shape[1:]), np.float32)
    gradient = gradient_of(up(implementation, scale, 0), x, g)
    assert_equal(gradient, g.reshape(shape[0], scale, -1).sum(1).reshape(shape))
    text = text_of_gradient(implementation, shape, scale, 0).as_text()
    assert not re.search("scatter|sort|while", text)


def test_C060_sorted_rows_with_repeats_are_one_operation(implementation):
    """The gradient of rows repeated 8 times is one kernel, or one reduction."""
    x = np.zeros((64, 32), np.float32)
    g = integers((512, 32), np.float32)
    expected = np.zeros_like(x)
    np.add.at(expected, np.repeat(np.arange(64), 8), g)
    assert_equal(gradient_of(up(implementation, 8, 0), x, g), expected)
    text = text_of_gradient(implementation, x.shape, 8, 0).as_text()
    calls, reductions = text.count("custom_call @"), text.count("stablehlo.reduce(")
    assert calls + reductions == 1
    if implementation == "kernel":
        assert calls == 1


def test_C062_complex128_gradient(implementation):
    """A real loss of complex128: the gradient of sum |y|^2 is the sum of 2 conj(y)."""
    x = integers((2, 3, 4)) + 1j * integers((2, 3, 4), seed=1)

    def loss(x):
        y = up(implementation, (2, 3), (1, 2))(x)
        return (y * jnp.conj(y)).real.sum()

    assert_equal(jax.grad(loss)(x), 6 * 2 * np.conj(x))


def test_C063_on_tpu_the_gradient_is_a_dense_reduction():
    """(100,32) rows, lowered for TPU: reshape and reduce, no scatter."""
    text = text_of_gradient(
        None, (100, 32), 4, 0, lowering_platforms=("tpu",)
    ).as_text()
    assert text.count("stablehlo.reduce(") == 1
    assert not re.search("scatter|custom_call", text)


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
def test_C061_no_index_arrays(frugal, direction):
    """(128,128,128) to 2048^3, compiled and not run: no temporary at all."""
    x = jax.ShapeDtypeStruct((128, 128, 128), np.float32)
    f = up(frugal, 16, (0, 1, 2))
    y = jax.eval_shape(f, x)
    assert y.shape == (2048, 2048, 2048)
    program, argument = {
        "fwd": (f, x),
        "bwd": (lambda g: jax.linear_transpose(f, x)(g)[0], y),
    }[direction]
    compiled = jax.jit(program).lower(argument).compile()
    assert compiled.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize("batch", [1, 1024])
def test_C064_temporary_memory_is_independent_of_batch(frugal, batch):
    """A training step's pair of forward and backward: zero bytes for any batch."""
    shape = (batch, 64, 64, 3)
    f = up(frugal, 2, NHWC)
    forward = jax.jit(f).lower(jax.ShapeDtypeStruct(shape, np.float32)).compile()
    backward = text_of_gradient(frugal, shape, 2, NHWC).compile()
    for compiled in (forward, backward):
        assert compiled.memory_analysis().temp_size_in_bytes == 0


# ---------------------------------------------------------------- layouts, empty arrays


def test_C091_nhwc_has_an_nhwc_gradient(implementation):
    """The gradient has the layout of x, and is NCHW's gradient moved."""
    g = integers((2, 6, 8, 5))
    nhwc = gradient_of(up(implementation, 2, NHWC), np.zeros((2, 3, 4, 5)), g)
    nchw = gradient_of(
        up(implementation, 2, NCHW), np.zeros((2, 5, 3, 4)), np.moveaxis(g, 3, 1)
    )
    assert_equal(nhwc, oracle.window_sums(g, NHWC, 2)[0])
    assert_equal(nchw, np.moveaxis(np.asarray(nhwc), 3, 1))


@pytest.mark.parametrize("axes", [NCHW, NHWC], ids=["NCHW", "NHWC"])
def test_C094_no_layout_needs_a_transpose(implementation, axes):
    """`axes` names the spatial axes where they are, in both directions."""
    x = jax.ShapeDtypeStruct((2, 3, 4, 5), np.float32)
    forward = jax.jit(up(implementation, 2, axes)).lower(x).as_text()
    backward = text_of_gradient(implementation, x.shape, 2, axes).as_text()
    assert "transpose" not in forward
    assert "transpose" not in backward


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4, 0, 16, 16), (4, 0, 32, 32)),
        ((0, 4, 16, 16), (0, 4, 32, 32)),
        ((4, 3, 0, 16), (4, 3, 0, 32)),
        ((4, 3, 16, 0), (4, 3, 32, 0)),
    ],
    ids=["C", "N", "H", "W"],
)
def test_C096_empty_in_empty_out(implementation, shape, expected):
    """No channels, images, rows or columns: empty arrays, both ways, no launch.

    The report's own sizes, 16x16 -> 15x17, are in test_resize_nearest.py.
    """
    x = np.zeros(shape, np.float32)
    f = up(implementation, 2, NCHW)
    assert_equal(f(x), np.zeros(expected, np.float32))
    assert_equal(gradient_of(f, x, np.zeros(expected, np.float32)), x)


# ------------------------------------------------------- orders of derivative, and vmap


def test_C101_grad_of_grad(implementation):
    """The second derivative of sum(up(a x)^3) with respect to a."""
    x = integers((2, 3, 4))
    f = up(implementation, 2, (1, 2))
    second = jax.grad(jax.grad(lambda a: (f(a * x) ** 3).sum()))(5.0)
    assert second == 4 * 6 * 5 * np.sum(x**3)


def test_C102_gradient_penalty_of_a_gan(implementation):
    """The gradient, by the weights, of the squared gradient by the image."""
    x, w = integers((2, 3, 4)), integers((2, 6, 8), seed=1)
    f = up(implementation, 2, (1, 2))

    def penalty(w):
        critic = jax.grad(lambda x: (w * f(x) ** 2).sum())
        return (critic(x) ** 2).sum()

    y = oracle.upsample(x, (1, 2), 2)
    by_image, _ = oracle.window_sums(2 * w * y, (1, 2), 2)
    expected = 2 * oracle.upsample(by_image, (1, 2), 2) * 2 * y
    assert_equal(jax.jit(jax.grad(penalty))(w), expected)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(upsample_nearest, id="C104 C105"),
        pytest.param(upsample_nearest_custom_vjp, id="C104 C105 custom_vjp"),
    ],
)
def test_model_trains_under_jit(implementation, function):
    """(8,32,32,3), UpSampling2D(2), compiled as a whole: SGD finds the weights."""
    x = oracle.random_normal((8, 32, 32, 3), "float64")
    wanted = np.array([[1.0, 2, 0], [0, 1, -1], [3, 0, 1]])
    target = oracle.upsample(x @ wanted, NHWC, 2)

    @jax.jit
    def step(w):
        def loss(w):
            y = function(x @ w, 2, implementation=implementation)
            return 0.5 * ((y - target) ** 2).mean()

        return w - 2.0 * jax.grad(loss)(w)

    w = jnp.zeros((3, 3))
    for _ in range(60):
        w = step(w)
    np.testing.assert_allclose(w, wanted, atol=1e-6)


def test_C106_j_and_its_transpose(implementation):
    """jvp is J t, vjp is J^T g, and the Hessian of |y|^2 / 2 is J^T J."""
    x, t, g = integers((2, 3)), integers((2, 3), seed=1), integers((4, 6), seed=2)
    f = up(implementation, 2, (0, 1))
    j = oracle.upsample(np.eye(6).reshape(2, 3, 6), (0, 1), 2).reshape(24, 6)
    assert_equal(jax.jvp(f, (x,), (t,))[1], (j @ t.ravel()).reshape(4, 6))
    assert_equal(gradient_of(f, x, g), (j.T @ g.ravel()).reshape(2, 3))
    hessian = jax.hessian(lambda x: 0.5 * (f(x) ** 2).sum())(x)
    assert_equal(hessian, (j.T @ j).reshape(2, 3, 2, 3))


@pytest.mark.parametrize("function", [upsample_nearest, upsample_nearest_custom_vjp])
def test_C107_hessian(implementation, function):
    """`jax.hessian` works, through the custom_vjp form too."""
    x = integers((2, 3))

    def loss(x):
        return (function(x, 2, axes=(0, 1), implementation=implementation) ** 3).sum()

    expected = np.diag(4 * 6 * x.ravel()).reshape(2, 3, 2, 3)
    assert_equal(jax.hessian(loss)(x), expected)


def test_C110_vmap_of_jacfwd(implementation):
    """Batched inside a derivative: each example has the same Jacobian."""
    x = integers((5, 2, 3))
    jacobian = oracle.upsample(np.eye(6).reshape(2, 3, 2, 3), (0, 1), 2)
    batched = jax.vmap(jax.jacfwd(up(implementation, 2, (0, 1))))(x)
    assert_equal(batched, np.broadcast_to(jacobian, (5, *jacobian.shape)))


def test_C111_vmap_of_a_linear_call(implementation):
    """The transpose of the function can be mapped like the function."""
    f = up(implementation, 2, (0, 1))
    g = integers((5, 4, 6))
    transposed = jax.linear_transpose(f, np.zeros((2, 3)))
    (sums,) = jax.vmap(transposed)(g)
    assert_equal(sums, oracle.window_sums(g, (1, 2), 2)[0])


def test_C112_vmap(implementation):
    """Mapped over a leading axis: the batch is upsampled image by image."""
    x = integers((5, 2, 3))
    y = jax.vmap(up(implementation, 2, (0, 1)))(x)
    assert_equal(y, oracle.upsample(x, (1, 2), 2))


# ---------------------------------------------------------- platforms and the FFI's ABI


@pytest.mark.usefixtures("kernel")
def test_C128_module_is_built_for_the_oldest_runtime():
    """Handlers of an older FFI API load: the module's is not above the runtime's."""
    extension = _ffi.EXTENSION
    assert extension.problem is None
    assert extension.api_version[0] == extension.runtime_api_version[0]
    assert extension.api_version[1] <= extension.runtime_api_version[1]
    assert _ffi.version_problem((0, 2), (0, 3)) is None


def test_C129_newer_api_than_the_runtime_is_named():
    """API 0.4 on a 0.3 runtime: a sentence with both versions and what to do."""
    problem = _ffi.version_problem((0, 4), (0, 3))
    assert re.search(r"needs the XLA FFI API 0\.4.* has 0\.3: upgrade jaxlib", problem)


def test_C129_newer_api_registers_nothing_and_falls_back(monkeypatch):
    """A registered newer handler would stop the whole backend, so none is."""

    def registrations(platform):
        pytest.fail(f"handlers were asked for, for {platform}")

    newer = SimpleNamespace(FFI_API_VERSION=(0, 10**6), registrations=registrations)
    monkeypatch.setitem(sys.modules, "jax_upsample._kernels", newer)
    monkeypatch.setattr(jax_upsample, "_kernels", newer, raising=False)
    extension = _ffi.load()
    assert extension.platforms == frozenset()
    assert "needs the XLA FFI API 0.1000000" in extension.problem
    monkeypatch.setattr(_ffi, "EXTENSION", extension)
    x = integers((3, 129))  # of a shape that no other test compiles
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "jax_upsample has no CUDA kernels")
        y = up(None, 3, 1)(x)
    assert_equal(y, np.repeat(x, 3, 1))


def test_C130_self_test_after_registration(kernel, capsys):
    """What was registered is found and right, says `python -m jax_upsample`."""
    assert self_test.main() == 0
    assert re.search(rf"self-test {kernel} +ok", capsys.readouterr().out)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_C132_only_public_jax(path):
    """Nothing that JAX moves without notice: such imports broke between versions."""
    private = r"jax\._src|jax\.lib\b|jax\.extend\.ffi|xla_client|(import|from) jaxlib"
    assert not re.search(private, path.read_text())


@pytest.mark.parametrize("platform_name", ["tpu", "rocm", "cpu"])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_C136_every_platform_has_an_upsampling(platform_name, spatial):
    """3-D to 5-D x2 lowers for platforms without kernels, to plain StableHLO."""
    x = jax.ShapeDtypeStruct((2, *(4,) * spatial, 3), np.float32)
    f = up(None, 2, tuple(range(1, spatial + 1)))
    lowered = jax.jit(f).trace(x).lower(lowering_platforms=(platform_name,))
    assert f"tensor<2x{'8x' * spatial}3xf32>" in lowered.as_text()
    assert not re.search("custom_call|gather", lowered.as_text())
