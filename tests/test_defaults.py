"""What `implementation=None` takes on NVIDIA GPUs: the table in docs/decoders.md."""

import functools
import re

import jax
import pytest

from jax_upsample import (
    pixel_shuffle,
    pixel_unshuffle,
    resize_nearest,
    upsample_add,
    upsample_concat,
    upsample_conv,
    upsample_nearest,
)

NCHW = {"axes": (2, 3)}
NCHW_CONCAT = {**NCHW, "concat_axis": 1}
TF = {"channel_order": "tf"}
TF_NCHW = {**TF, **NCHW, "channel_axis": 1}
BF16, F32 = "bfloat16", "float32"
SHUFFLE, UNSHUFFLE = ["pixel_shuffle_fwd"], ["pixel_shuffle_bwd"]
NEAREST, RESIZE = ["nearest_fwd"], ["resize_nearest_fwd"]
WINDOWS, CONCAT, PART = ["nearest_bwd"], ["concat_fwd"], ["concat_bwd"]


def cuda_calls(program, dtype, *shapes):
    """The targets that the program of a GPU calls, as text: it needs none."""
    traced = jax.jit(program).trace(*(jax.ShapeDtypeStruct(s, dtype) for s in shapes))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r"custom_call @jax_upsample_(\w+)_v1", text)


@pytest.mark.usefixtures("cuda_kernels")
@pytest.mark.parametrize(
    ("op", "shapes", "dtype", "options", "calls"),
    [
        # Forward, always the kernel.
        (upsample_nearest, [(2, 4, 4, 3)], F32, {}, NEAREST),
        (upsample_nearest, [(2, 3, 5, 5)], "uint8", NCHW, NEAREST),
        # To any size: of elements of up to 16 bits, in rows of whole 16 bytes.
        (resize_nearest, [(2, 4, 4, 8)], BF16, {"shape": (2, 7, 6, 8)}, RESIZE),
        (resize_nearest, [(2, 4, 4, 8)], F32, {"shape": (2, 7, 6, 8)}, []),
        (resize_nearest, [(2, 4, 4, 3)], BF16, {"shape": (2, 7, 7, 3)}, []),
        (resize_nearest, [(2, 3, 4, 5)], "uint8", {"shape": (2, 3, 7, 16)}, RESIZE),
        # A sum: the same, by integer scales.
        (upsample_add, [(2, 4, 4, 8), (2, 8, 8, 8)], BF16, {}, ["add"]),
        (upsample_add, [(2, 8, 4, 4), (2, 8, 8, 8)], BF16, NCHW, ["add"]),
        (upsample_add, [(2, 4, 4, 8), (2, 8, 8, 8)], F32, {}, []),
        (upsample_add, [(2, 4, 4, 3), (2, 8, 8, 3)], BF16, {}, []),
        (upsample_add, [(2, 4, 4, 8), (2, 8, 8, 8)], "uint8", {}, []),
        (upsample_add, [(2, 4, 4, 8), (2, 7, 7, 8)], BF16, {"scale": None}, []),
        # A concatenation: the same, of each part.
        (upsample_concat, [(2, 4, 4, 8), (2, 8, 8, 16)], BF16, {}, CONCAT),
        (upsample_concat, [(2, 8, 4, 4), (2, 3, 8, 8)], BF16, NCHW_CONCAT, CONCAT),
        (upsample_concat, [(2, 4, 4, 8), (2, 8, 8, 16)], F32, {}, []),
        (upsample_concat, [(2, 4, 4, 8), (2, 8, 8, 3)], BF16, {}, []),
        (upsample_concat, [(2, 4, 4, 8), (2, 8, 8, 0)], BF16, {}, []),
        # .. along an axis after all of the others, or before all.
        (upsample_concat, [(2, 8, 4, 8), (4, 3, 4, 16)], BF16,
         {"axes": (0, 3), "concat_axis": 1}, []),
        # A shuffle: in TensorFlow's order, of whole 16 bytes of one phase.
        (pixel_shuffle, [(2, 4, 4, 32)], BF16, TF, SHUFFLE),
        (pixel_unshuffle, [(2, 4, 4, 8)], BF16, TF, UNSHUFFLE),
        (pixel_shuffle, [(2, 4, 4, 8, 8)], "int8", {**TF, "channel_axis": 3}, SHUFFLE),
        (pixel_shuffle, [(2, 4, 4, 32)], BF16, {}, []),
        (pixel_shuffle, [(2, 4, 4, 16)], BF16, TF, []),
        (pixel_shuffle, [(2, 4, 4, 32)], BF16, {**TF, "axes": (2, 1)}, []),
        (pixel_shuffle, [(2, 32, 4, 4)], BF16, TF_NCHW, []),
        # A convolution: folded where it multiplies less, and ended as a shuffle.
        (upsample_conv, [(2, 4, 4, 8), (3, 3, 8, 8)], BF16, {}, SHUFFLE),
        (upsample_conv, [(2, 4, 4, 8), (3, 3, 8, 3)], BF16, {}, []),
        # A 1x1 kernel convolves before the upsampling, and nothing is interleaved.
        (upsample_conv, [(2, 4, 4, 8), (1, 1, 8, 8)], BF16, {}, NEAREST),
        (upsample_conv, [(2, 4, 4, 8), (3, 3, 8, 8)], BF16, {"scale": 1}, []),
    ],
)  # fmt: skip
def test_forward(op, shapes, dtype, options, calls):
    assert cuda_calls(functools.partial(op, **options), dtype, *shapes) == calls


@pytest.mark.usefixtures("cuda_kernels")
@pytest.mark.parametrize(
    ("op", "shapes", "dtype", "options", "calls"),
    [
        # Sums of windows, but for large ones, which XLA's reduce shares among blocks.
        (upsample_nearest, [(2, 3, 3, 8)], BF16, {"scale": 4}, WINDOWS),
        (upsample_nearest, [(2, 3, 5, 5)], F32, NCHW, WINDOWS),
        (upsample_nearest, [(2, 3, 3, 8)], BF16, {"scale": 16}, []),
        (upsample_nearest, [(1, 1, 1, 64)], BF16, {"scale": 64}, []),
        # .. unless there are windows enough for every thread of a GPU.
        (upsample_nearest, [(64, 64, 64, 64)], BF16, {"scale": 8}, WINDOWS),
        (upsample_nearest, [(0, 1, 1, 64)], BF16, {"scale": 64}, WINDOWS),
        (resize_nearest, [(2, 4, 4, 8)], BF16, {"shape": (2, 7, 6, 8)}, []),
        # It fuses with what makes the cotangent.
        (upsample_add, [(2, 4, 4, 8), (2, 8, 8, 8)], BF16, {}, []),
        # Of columns side by side, in whole vectors.
        (upsample_concat, [(2, 8, 8, 8), (2, 8, 16, 16)], BF16, NCHW_CONCAT, PART),
        (upsample_concat, [(2, 8, 8, 8), (2, 8, 16, 16)], F32, NCHW_CONCAT, []),
        (upsample_concat, [(2, 8, 5, 5), (2, 8, 10, 10)], BF16, NCHW_CONCAT, []),
        (upsample_concat, [(2, 4, 4, 8), (2, 8, 8, 16)], BF16, {}, []),
        (pixel_shuffle, [(2, 4, 4, 32)], BF16, TF, UNSHUFFLE),
        (pixel_shuffle, [(2, 4, 4, 16)], BF16, TF, []),
    ],
)  # fmt: skip
def test_transpose(op, shapes, dtype, options, calls):
    """Of the first operand, which is upsampled."""
    like = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    forward = functools.partial(op, **options)
    result = jax.eval_shape(forward, *like)
    pull = jax.linear_transpose(forward, *like)
    assert cuda_calls(lambda ct: pull(ct)[0], dtype, result.shape) == calls


@pytest.mark.usefixtures("cuda_kernels")
def test_by_name_it_is_the_kernel_whatever_measured_faster():
    def up(x):
        return upsample_nearest(x, 64, implementation="kernel")

    pull = jax.linear_transpose(up, jax.ShapeDtypeStruct((1, 1, 1, 64), F32))
    assert cuda_calls(pull, F32, (1, 64, 64, 64)) == WINDOWS
