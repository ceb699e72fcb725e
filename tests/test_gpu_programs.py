"""Programs compiled for an H100 on a machine without one, and read.

Needs jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version, without their CUDA
libraries (`pip install --no-deps`), and the environment

    JAX_PLATFORMS= JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1

Nothing runs: the compiled program shows the calls, the copies and the temporaries.
"""

import functools
import importlib.util
import math
import os
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from conftest import skip_or_fail
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_upsample import (
    pixel_shuffle,
    resize_nearest,
    upsample_add,
    upsample_concat,
    upsample_conv,
    upsample_nearest,
)

FWD, BWD = "jax_upsample_nearest_fwd_v1", "jax_upsample_nearest_bwd_v1"


def h100_devices(count):
    """So many H100s of one host, as something to compile for."""
    if importlib.util.find_spec("jax_cuda13_plugin") is None:
        skip_or_fail("h100", "jax-cuda13-plugin is not installed")
    if os.environ.get("JAX_SKIP_CUDA_CONSTRAINTS_CHECK") != "1":
        skip_or_fail("h100", "JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 is not set")
    from jax.experimental.topologies import get_topology_desc

    target = (Path(__file__).parent / "h100.txtpb").read_text()
    shape = f"1x1x{count}"
    topology = get_topology_desc("h100", "cuda", target_config=target, topology=shape)
    return topology.devices


@pytest.fixture(params=[4, 8])
def h100s(request, cuda_kernels):
    return h100_devices(request.param)


@pytest.fixture
def h100(cuda_kernels):
    return NamedSharding(Mesh(h100_devices(1), "device"), PartitionSpec())


class Program:
    """A function compiled for one GPU: its optimised HLO and its temporaries."""

    def __init__(self, function, device, *shapes, dtype=jnp.bfloat16):
        operands = [jax.ShapeDtypeStruct(s, dtype) for s in shapes]
        jitted = jax.jit(function, in_shardings=device, out_shardings=device)
        compiled = jitted.lower(*operands).compile()
        self.text = compiled.as_text()
        self.temporary_bytes = compiled.memory_analysis().temp_size_in_bytes

    def calls(self):
        return re.findall(r'custom_call_target="(jax_upsample\w+)"', self.text)

    def count(self, *operations):
        return sum(
            len(re.findall(rf" {o}(?:-start)?\(", self.text)) for o in operations
        )


SHAPES = {(1, 2): (4, 32, 32, 64), (2, 3): (4, 64, 32, 32), (1, 2, 3): (2, 8, 8, 8, 64)}


@pytest.mark.parametrize("axes", SHAPES.keys(), ids=["NHWC", "NCHW", "NDHWC"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32], ids=["bf16", "f32"])
def test_program_is_the_call_alone(h100, axes, dtype):
    """Forward and gradient: one call each, no copy, nothing between, no temporaries."""
    x = SHAPES[axes]
    y = tuple(2 * n if a in axes else n for a, n in enumerate(x))

    def up(x):
        return upsample_nearest(x, 2, axes=axes)

    def down(g):
        return jax.linear_transpose(up, jax.ShapeDtypeStruct(x, dtype))(g)[0]

    for function, shape, target in ((up, x, FWD), (down, y, BWD)):
        program = Program(function, h100, shape, dtype=dtype)
        assert program.calls() == [target]
        assert (
            program.count("copy", "transpose", "fusion", "scatter", "gather", "sort")
            == 0
        )
        assert program.temporary_bytes == 0


RESIZES = {"NHWC": ((4, 25, 25, 64), (4, 38, 38, 64))}
RESIZES["NCHW"] = ((4, 64, 25, 25), (4, 64, 38, 38))


@pytest.mark.parametrize(("x", "y"), RESIZES.values(), ids=RESIZES.keys())
@pytest.mark.parametrize("rule", ["jax", "half_pixel"])
def test_resize_is_the_call_alone(h100, x, y, rule):
    """25 -> 38: the tables are constants, so that nothing runs but the call."""

    def resize(x):
        return resize_nearest(x, y, rule=rule, implementation="kernel")

    def down(g):
        return jax.linear_transpose(resize, jax.ShapeDtypeStruct(x, g.dtype))(g)[0]

    for function, shape, direction in ((resize, x, "fwd"), (down, y, "bwd")):
        program = Program(function, h100, shape)
        assert program.calls() == [f"jax_upsample_resize_nearest_{direction}_v1"]
        assert (
            program.count("copy", "transpose", "fusion", "scatter", "gather", "sort")
            == 0
        )
        assert program.temporary_bytes == 0


def test_training_step_calls_each_direction_once(h100):
    """conv -> upsample -> conv and its gradient: no scatter, no copy at the calls."""

    def loss(x, kernel):
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=dims
        )
        x = upsample_nearest(x, 2)
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=dims
        )
        return (x**2).mean(dtype=jnp.float32)

    program = Program(
        jax.grad(loss, argnums=(0, 1)), h100, (4, 32, 32, 64), (3, 3, 64, 64)
    )
    assert sorted(program.calls()) == [BWD, FWD]
    assert program.count("scatter", "sort") == 0
    # XLA transposes the convolution's kernel for itself, but no activation (batch 4).
    assert not re.findall(r"\[4,[\d,]+\]\S* (?:transpose|copy)\(", program.text)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("x", "y"), RESIZES.values(), ids=RESIZES.keys())
def test_resize_by_default_is_one_call_or_fusion(h100, x, y, dtype):
    """The kernel for 16 bits in whole vectors, else plain XLA without a scatter."""

    def down(g):
        x_like = jax.ShapeDtypeStruct(x, g.dtype)
        return jax.linear_transpose(lambda x: resize_nearest(x, y), x_like)(g)[0]

    spatial = [a for a in range(len(x)) if x[a] != y[a]]
    whole = math.prod(y[spatial[-1] :]) * 2 % 16 == 0
    kernels = ["jax_upsample_resize_nearest_fwd_v1"] * (dtype == "bfloat16" and whole)
    up = Program(lambda x: resize_nearest(x, y), h100, x, dtype=dtype)
    assert up.calls() == kernels
    back = Program(down, h100, y, dtype=dtype)
    assert back.calls() == []
    for program in (up, back):
        assert program.count("scatter", "sort") == 0
        assert program.temporary_bytes == 0


JOINS = {
    "NHWC": ((4, 32, 32, 64), (4, 64, 64, 32), (1, 2), 3),
    "NCHW": ((4, 64, 32, 32), (4, 32, 64, 64), (2, 3), 1),
}


@pytest.mark.parametrize(("x", "skip", "axes", "axis"), JOINS.values(), ids=JOINS)
def test_concat_is_the_call_alone(h100, x, skip, axes, axis):
    """And its transpose a call that reads in place, beside the slice for `skip`."""

    def join(x, skip):
        return upsample_concat(
            x, skip, axes=axes, concat_axis=axis, implementation="kernel"
        )

    like = [jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in (x, skip)]
    forward = Program(join, h100, x, skip)
    assert forward.calls() == ["jax_upsample_concat_fwd_v1"]
    assert forward.count("copy", "transpose", "fusion", "concatenate", "slice") == 0
    y = jax.eval_shape(join, *like).shape
    back = Program(lambda ct: jax.linear_transpose(join, *like)(ct), h100, y)
    assert back.calls() == ["jax_upsample_concat_bwd_v1"]
    assert back.count("copy", "transpose", "scatter", "reduce") == 0
    assert forward.temporary_bytes == back.temporary_bytes == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("odd", [False, True])
def test_add_by_default_is_one_call_or_fusion(h100, dtype, odd):
    """The kernel for 16 bits and integer scales, else one loop of XLA."""
    x, lateral = (4, 43, 43, 64), (4, 85, 85, 64) if odd else (4, 86, 86, 64)
    scale = None if odd else 2

    def join(x, lateral):
        return upsample_add(x, lateral, scale)

    program = Program(join, h100, x, lateral, dtype=dtype)
    kernel = dtype == "bfloat16" and not odd
    assert program.calls() == ["jax_upsample_add_v1"] * kernel
    assert program.count("fusion") == (not kernel)
    assert program.count("copy", "transpose", "scatter", "sort") == 0
    assert program.temporary_bytes == 0


def test_upsample_conv_never_stores_the_upsampled_array(h100):
    """Forward and gradients by default; the plain form does."""
    shapes = (4, 32, 32, 64), (3, 3, 64, 48)

    def step(method):
        def loss(x, kernel):
            y = upsample_conv(x, kernel, method=method)
            return jnp.mean(jnp.square(y.astype(jnp.float32)))

        return jax.value_and_grad(loss, argnums=(0, 1))

    program = Program(step(None), h100, *shapes)
    assert program.calls() == ["jax_upsample_pixel_shuffle_fwd_v1"]
    upsampled = re.compile(r"\[4,(?:64,64,64|64,32,2,32,2|32,2,32,2,64)\]")
    assert not upsampled.search(program.text)
    assert upsampled.search(Program(step("plain"), h100, *shapes).text)


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_decoder_block_is_two_convolutions_and_one_call(h100, activation):
    """No concatenation, no loop of XLA over an activation of the network."""

    def block(x, skip, kernel, bias):
        return upsample_conv(x, kernel, skip=skip, bias=bias, activation=activation)

    shapes = (4, 32, 32, 64), (4, 64, 64, 32), (3, 3, 96, 48), (48,)
    program = Program(block, h100, *shapes)
    assert program.calls() == ["jax_upsample_pixel_shuffle_sum_v1"]
    assert program.text.count('custom_call_target="__cudnn$conv') == 2
    loops = re.findall(
        r"\[4,[\d,]+\]\S* (?:fusion|copy|transpose|concat)", program.text
    )
    assert loops == []


SHARDED = {  # function, shapes of the operands, axes that can be sharded
    "nearest": (upsample_nearest, ((8, 16, 16, 64),), (0, 1, 2, 3)),
    "nearest NCHW": (
        functools.partial(upsample_nearest, axes=(2, 3)),
        ((8, 16, 16, 64),),
        (0, 1, 2, 3),
    ),
    "add": (upsample_add, ((8, 16, 16, 64), (8, 32, 32, 64)), (0, 1, 2, 3)),
    "concat": (
        functools.partial(upsample_concat, implementation="kernel"),
        ((8, 16, 16, 64), (8, 32, 32, 32)),
        (0, 1, 2),
    ),
    "shuffle": (
        functools.partial(pixel_shuffle, channel_order="tf"),
        ((8, 16, 16, 64),),
        (0,),
    ),
    "conv": (
        functools.partial(upsample_conv, kernel=jnp.ones((3, 3, 64, 32), jnp.bfloat16)),
        ((8, 16, 16, 64),),
        (0,),
    ),
}
COLLECTIVES = "all-gather", "all-reduce", "all-to-all", "collective-permute"
EACH = [(name, axis) for name, (*_, axes) in SHARDED.items() for axis in axes]


@pytest.mark.parametrize(("name", "axis"), EACH)
def test_arrays_shard_over_gpus_without_collectives(h100s, name, axis):
    """Forward and gradient: each calls the kernels for its own part."""
    function, shapes, _ = SHARDED[name]
    over = NamedSharding(Mesh(h100s, "n"), PartitionSpec(*(None,) * axis, "n"))

    def back(cotangent):
        like = [jax.ShapeDtypeStruct(s, cotangent.dtype) for s in shapes]
        return jax.linear_transpose(function, *like)(cotangent)

    y = jax.eval_shape(function, *(jax.ShapeDtypeStruct(s, "bfloat16") for s in shapes))
    forward = Program(function, over, *shapes)
    programs = [forward]
    if name not in ("add", "conv"):  # whose gradients are plain XLA
        programs.append(Program(back, over, y.shape))
    for program in programs:
        assert program.calls()
        assert program.count(*COLLECTIVES) == 0
        # XLA transposes the kernel of a convolution for itself.
        moves = program.count("copy", "transpose", "scatter", "gather", "sort")
        assert moves == (name == "conv")
        assert program.temporary_bytes == 0 or name == "conv"
    part = [n // len(h100s) if a == axis else n for a, n in enumerate(y.shape)]
    assert str(part).replace(" ", "") in forward.text.split("->")[1].split("\n")[0]


@pytest.mark.parametrize("axis", [0, 3])
def test_resized_batches_and_channels_shard(h100s, axis):
    """By the default, which is plain XLA on several devices."""
    over = NamedSharding(Mesh(h100s, "n"), PartitionSpec(*(None,) * axis, "n"))

    def both(x):
        y, transpose = jax.vjp(lambda x: resize_nearest(x, (8, 25, 41, 64)), x)
        return y, transpose(y)

    program = Program(both, over, (8, 16, 16, 64))
    assert program.calls() == []
    assert program.count(*COLLECTIVES) == 0


def captured(function, device, dump, *shapes, smallest):
    """How many of our calls run inside and outside of the program's CUDA graphs."""
    options = {"xla_gpu_graph_min_graph_size": smallest, "xla_dump_to": str(dump)}
    operands = [jax.ShapeDtypeStruct(s, jnp.bfloat16) for s in shapes]
    jitted = jax.jit(function, in_shardings=device, out_shardings=device)
    calls = jitted.lower(*operands).compile(compiler_options=options).as_text()
    # Without the second file the passes, capture among them, changed nothing.
    (file,) = [*dump.glob("*thunk_passes.txt")] or [*dump.glob("*thunk_sequence.txt")]
    # A graph is one line, and the operations in it the indented lines that follow.
    outside, inside = [
        len(re.findall(rf"^{indent}\d+: kCustomCall", file.read_text(), re.M))
        for indent in ("", " +")
    ]
    assert inside + outside == calls.count('custom_call_target="jax_upsample')
    return inside, outside


@pytest.mark.parametrize(
    "name", ["nearest", "nearest NCHW", "add", "concat", "shuffle"]
)
def test_calls_run_in_cuda_graphs(h100, tmp_path, name):
    """C137: each alone, forward and gradient; test_every_op.py replays them."""
    function, shapes, _ = SHARDED[name]
    function = functools.partial(function, implementation="kernel")

    def both(*operands):
        y, transpose = jax.vjp(function, *operands)
        return y, transpose(y)

    assert captured(both, h100, tmp_path, *shapes, smallest=1) == (2, 0)


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_cuda_graphs_by_size(h100, tmp_path, count):
    """C139: one call is captured where XLA is told to; by itself it takes 5 or more."""

    def chain(x):
        for _ in range(count):
            x = upsample_nearest(x, (1, 2))
        return x

    shape = (1, 8, 2, 64)
    (tmp_path / "all").mkdir()
    (tmp_path / "long").mkdir()
    every = captured(chain, h100, tmp_path / "all", shape, smallest=1)
    long = captured(chain, h100, tmp_path / "long", shape, smallest=5)
    assert every == (count, 0)
    assert long == ((0, count) if count < 5 else (count, 0))


def test_the_check_of_collectives_can_fail(h100s):
    """jax.image.resize along a sharded axis gathers it."""
    rows = NamedSharding(Mesh(h100s, "h"), PartitionSpec(None, "h"))

    def resize(x):
        return jax.image.resize(x, (8, 32, 32, 64), "nearest")

    assert Program(resize, rows, (8, 16, 16, 64)).count(*COLLECTIVES) > 0


def test_the_check_can_fail(h100):
    """jax.image.resize's gradient has what the tests above look for."""

    def resize(x):
        return jax.image.resize(x, (4, 64, 64, 64), "nearest")

    def down(g):
        x_like = jax.ShapeDtypeStruct((4, 32, 32, 64), g.dtype)
        return jax.linear_transpose(resize, x_like)(g)[0]

    program = Program(down, h100, (4, 64, 64, 64))
    assert program.calls() == []
    assert "scatter" in program.text
    assert program.temporary_bytes > 0
