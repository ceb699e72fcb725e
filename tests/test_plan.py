"""The launch planner, a pure function: what would run, seen without a GPU."""

import collections
import glob
import itertools
import math
import random
import subprocess

import jax
import jax.numpy as jnp
import oracle
import pytest
from conftest import platform

import jax_upsample
from jax_upsample import _ffi, launch_plan, upsample_nearest

pytestmark = pytest.mark.skipif(
    _ffi.EXTENSION.module is None, reason=str(_ffi.EXTENSION.problem)
)


def plan(direction, dtype, shape, scales, alignment=16):
    return _ffi.EXTENSION.module.launch_plan(direction, dtype, shape, scales, alignment)


def fields(plan, *names):
    return tuple(plan[name] for name in names)


@pytest.mark.parametrize(
    ("dtype", "shape", "scales", "unit_bytes", "stored", "scale", "contiguous", "flat"),
    [
        # NHWC whose channels fill 16 bytes: one unit a work item.
        ("bfloat16", [2, 8, 8, 64], [1, 2, 2, 1], 16, 1, 2, False, False),
        ("float32", [2, 8, 8, 4], [1, 2, 3, 1], 16, 1, 3, False, False),
        ("complex128", [2, 8, 8, 1], [1, 2, 4, 1], 16, 1, 4, False, False),
        # Few channels: units gathered into 16 bytes of a row.
        ("float32", [2, 8, 8, 3], [1, 2, 2, 1], 4, 4, 2, False, False),
        ("uint8", [2, 8, 8, 3], [1, 2, 2, 1], 1, 16, 2, False, False),
        ("bfloat16", [2, 8, 8, 12], [1, 2, 2, 1], 8, 2, 2, False, False),
        # NCHW: neighbouring sources, the channel arithmetic gone.
        ("bfloat16", [2, 3, 8, 8], [1, 1, 2, 2], 2, 8, 2, True, False),
        ("uint8", [2, 3, 8, 16], [1, 1, 3, 3], 1, 16, 3, True, False),
        ("float32", [2, 3, 8, 8], [1, 1, 5, 5], 4, 4, 0, True, False),
        # Rows that 16 bytes do not divide: the array end to end.
        ("bfloat16", [2, 3, 5, 7], [1, 1, 2, 2], 2, 8, 0, False, True),
        ("float32", [2, 3, 5, 3], [1, 3, 3, 1], 4, 4, 0, False, True),
    ],
)
def test_forward_units(
    dtype, shape, scales, unit_bytes, stored, scale, contiguous, flat
):
    p = plan("fwd", dtype, shape, scales)
    names = ("unit_bytes", "stored", "scale_constant", "contiguous", "flat")
    assert fields(p, *names) == (unit_bytes, stored, scale, contiguous, flat)


@pytest.mark.parametrize("alignment", [1, 2, 4, 8])
def test_unaligned_addresses_get_narrow_units(alignment):
    fwd = plan("fwd", "uint8", [2, 8, 8, 64], [1, 2, 2, 1], alignment)
    assert fields(fwd, "unit_bytes", "stored") == (alignment, 1)
    for shape, scales in (([2, 8, 8, 64], [1, 2, 2, 1]), ([2, 8, 8], [1, 2, 2])):
        bwd = plan("bwd", "bfloat16", shape, scales, alignment)
        assert fields(bwd, "loaded", "stored") == (1, 1)


@pytest.mark.parametrize(
    ("dtype", "shape", "scales", "loaded", "stored", "scale", "rows", "contiguous"),
    [
        ("bfloat16", [2, 8, 8, 64], [1, 2, 2, 1], 8, 8, 2, 2, False),
        ("float32", [2, 8, 8, 64], [1, 3, 3, 1], 4, 4, 3, 3, False),
        ("float32", [2, 8, 8, 64], [1, 2, 3, 1], 4, 4, 3, 0, False),
        ("float32", [2, 8, 8, 8, 64], [1, 2, 2, 2, 1], 4, 4, 2, 0, False),
        ("complex64", [2, 8, 8, 2], [1, 2, 2, 1], 4, 4, 2, 2, False),
        ("bfloat16", [2, 3, 8, 8], [1, 1, 2, 2], 8, 8, 2, 2, True),
        # Odd rows of one channel: a window's row is still one load.
        ("float32", [2, 3, 5, 7], [1, 1, 2, 2], 2, 1, 2, 2, True),
        ("bfloat16", [2, 3, 5, 7], [1, 1, 4, 4], 4, 1, 4, 4, True),
        ("float64", [2, 3, 5, 7], [1, 1, 4, 4], 1, 1, 4, 4, False),
        ("float32", [2, 3, 5, 7], [1, 1, 3, 3], 1, 1, 3, 3, False),
        ("float32", [2, 8, 8, 3], [1, 2, 2, 1], 1, 1, 2, 2, False),
        # Scales of run time.
        ("float32", [2, 8, 8, 4], [1, 5, 5, 1], 4, 4, 0, 0, False),
        ("float32", [2, 3, 8, 8], [1, 1, 5, 5], 1, 1, 0, 0, False),
        ("bfloat16", [64, 64, 64, 64], [1, 1, 8, 8], 8, 1, 0, 0, False),
        ("float8_e5m2", [2, 8, 8, 16], [1, 2, 2, 1], 16, 16, 0, 0, False),
    ],
)
def test_backward_units(dtype, shape, scales, loaded, stored, scale, rows, contiguous):
    p = plan("bwd", dtype, shape, scales)
    names = ("loaded", "stored", "scale_constant", "rows_constant", "contiguous")
    assert fields(p, *names) == (loaded, stored, scale, rows, contiguous)
    assert p["lanes"] == 1


@pytest.mark.parametrize(
    ("dtype", "shape", "scales", "loaded", "lanes", "adjacent"),
    [
        # Along the columns of a window, or a few channels side by side.
        ("float32", [2, 3, 1, 1], [1, 1, 64, 64], 4, 256, True),
        ("float32", [2, 3, 1, 1], [1, 1, 17, 17], 1, 64, True),
        ("bfloat16", [2, 3, 1, 1], [1, 1, 16, 16], 8, 8, True),
        ("bfloat16", [2, 1, 1, 64], [1, 64, 64, 1], 8, 64, False),
        ("bfloat16", [2, 1, 1, 16], [1, 64, 64, 1], 8, 128, False),
        ("bfloat16", [2, 1, 1, 8], [1, 64, 64, 1], 8, 256, False),
        ("bfloat16", [2, 8, 8, 64], [1, 8, 8, 1], 8, 16, False),
        # Windows enough for every thread of a GPU are not shared.
        ("bfloat16", [64, 64, 64, 8], [1, 8, 8, 1], 8, 1, False),
    ],
)
def test_large_windows_are_shared(dtype, shape, scales, loaded, lanes, adjacent):
    p = plan("bwd", dtype, shape, scales)
    assert fields(p, "loaded", "lanes", "lanes_adjacent") == (loaded, lanes, adjacent)


@pytest.mark.parametrize("direction", ["fwd", "bwd"])
@pytest.mark.parametrize(
    ("shape", "scales"),
    [
        ([2, 8, 8, 64], [1, 2, 2, 1]),
        ([2, 3, 5, 7], [1, 1, 2, 2]),
        ([1, 3, 1, 1], [1, 1, 512, 512]),
        ([3], [300]),
    ],
)
def test_counts(direction, shape, scales):
    """Bytes are each operand once; threads cover the items and no block is spare."""
    p = plan(direction, "float32", shape, scales)
    small = 4 * math.prod(shape)
    large = small * math.prod(scales)
    traffic = (small, large) if direction == "fwd" else (large, small)
    assert fields(p, "bytes_read", "bytes_written") == traffic
    threads = p["items"] * p["lanes"]
    assert (p["grid"] - 1) * p["block"] < threads <= p["grid"] * p["block"]


def test_a_large_scale_is_spread_over_work_items():
    """1x1 -> 512x512: no thread stores more than four rows' vectors."""
    p = plan("fwd", "float32", [1, 1, 1, 1], [1, 1, 512, 512])
    assert p["rows_per_item"] == 4
    assert p["items"] == 128 * 128


@pytest.mark.parametrize(
    ("direction", "dtype", "shape", "scales", "wide"),
    [
        # 2^32 elements of bfloat16 are 2^29 units: 32-bit arithmetic.
        ("fwd", "bfloat16", [2**14, 2**14, 4], [2, 2, 1], False),
        ("bwd", "bfloat16", [2**14, 2**14, 8], [2, 2, 1], False),
        ("fwd", "uint8", [2**31, 3], [3, 1], True),
        ("fwd", "bfloat16", [1], [2**32], True),
        ("bwd", "bfloat16", [1], [2**32], True),
        ("bwd", "bfloat16", [1, 8], [2**32, 1], True),
        # 2^32 large rows, though every count of elements a kernel divides is less.
        ("bwd", "bfloat16", [2**20, 1], [4096, 2], True),
        ("bwd", "bfloat16", [2, 2**20 + 1, 1], [2, 4096, 2], True),
        ("fwd", "uint8", [2**29, 8], [8, 2], True),
        ("bwd", "float8_e5m2", [2**31, 3], [2, 1], True),
    ],
)
def test_index_width(direction, dtype, shape, scales, wide):
    p = plan(direction, dtype, shape, scales)
    assert p["wide_index"] is wide


def test_dtypes_are_those_of_the_oracle():
    module = _ffi.EXTENSION.module
    assert set(module.FWD_DTYPES) == set(oracle.DTYPES)
    assert set(module.BWD_DTYPES) == set(oracle.FLOATS + oracle.COMPLEX)


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "float32", [2, 3], [1, 2]),
        ("fwd", "int4", [2, 3], [1, 2]),
        ("bwd", "int32", [2, 3], [1, 2]),
        ("fwd", "float32", [2, 3], [2]),
        ("fwd", "float32", [2, 0], [1, 2]),
        ("fwd", "float32", [2, 3], [1, 0]),
        ("fwd", "float32", [2] * 4, [2] * 4),
        ("fwd", "float32", [2**40, 2**20], [2, 2]),
        ("fwd", "float32", [2, 3], [1, 2], 0),
        ("fwd", "float32", [2, 3], [1, 2], 12),
    ],
)
def test_problems_that_have_no_plan(arguments):
    with pytest.raises(ValueError, match=r"direction|dtype|shape|alignment"):
        plan(*arguments)


# -------------------------------------------------------------------------- launch_plan


def test_launch_plan_of_a_decoder():
    """SD's VAE decoder: 16 bytes a unit, each stored in two rows of two columns."""
    forward = launch_plan((4, 64, 64, 512), "bfloat16")
    assert forward == jax_upsample.LaunchPlan(
        name="upsample_nearest_fwd",
        kernel="UpsampleNearestFwd<16, 1, 2, false, unsigned int, CopyTarget>",
        dtype="bfloat16",
        operand_shape=(4, 64, 64, 512),
        output_shape=(4, 128, 128, 512),
        launches=1,
        grid=8192,
        block=256,
        elements_per_thread=16,
        unit_bytes=16,
        compiled_scale=2,
        bytes_read=2 * 4 * 64 * 64 * 512,
        bytes_written=2 * 4 * 128 * 128 * 512,
        has_backward=True,
        is_default=True,
    )
    backward = launch_plan((4, 64, 64, 512), jnp.bfloat16, direction="backward")
    assert (backward.operand_shape, backward.output_shape) == (
        forward.output_shape,
        forward.operand_shape,
    )
    assert (backward.bytes_read, backward.bytes_written) == (
        forward.bytes_written,
        forward.bytes_read,
    )
    assert backward.kernel == (
        "UpsampleNearestBwd<BFloat16, 8, 8, 2, 2, false, unsigned int>"
    )
    assert (backward.elements_per_thread, backward.is_default) == (32, True)


@pytest.mark.parametrize(
    ("shape", "dtype", "scale", "axes", "direction", "kernel", "elements"),
    [
        ((2, 5, 7), "uint8", 2, (1, 2), "forward", "FwdFlat<1, 16", 16),
        ((2, 3, 8, 8), "float32", 5, (2, 3), "forward", "Fwd<4, 4, 0, true", 16),
        ((2, 8, 8, 1), "complex128", 2, (1, 2), "forward", "Fwd<16, 1, 2", 2),
        ((2, 8, 8, 2), "complex64", 2, (1, 2), "backward", "Bwd<Float32, 4", 8),
        ((1, 3, 1, 1), "float32", 64, (2, 3), "backward", "BwdLanes<Float32, 4", 16),
        ((1, 3, 1, 1), "float32", 17, (2, 3), "backward", "BwdLanes<Float32, 1", 5),
        (
            (2, 8, 9),
            "float8_e5m2",
            3,
            (1, 2),
            "backward",
            "BwdLanes<SmallFloat<5, 2",
            9,
        ),
    ],
)
def test_launch_plan_names_the_kernel(
    shape, dtype, scale, axes, direction, kernel, elements
):
    p = launch_plan(shape, dtype, scale, axes=axes, direction=direction)
    assert kernel in p.kernel
    assert p.elements_per_thread == elements
    # Every element of the large array is some thread's.
    large = math.prod(shape) * scale ** len(axes)
    assert p.grid * p.block * p.elements_per_thread >= large


def test_launch_plan_says_what_the_default_is():
    window = launch_plan((1, 1, 1, 64), "bfloat16", 512, direction="backward")
    assert not window.is_default
    assert "plain XLA on NVIDIA GPUs" in str(window)


@pytest.mark.parametrize(
    ("shape", "scale"), [((2, 0, 4, 8), 2), ((2, 4, 4, 8), 1), ((0, 4, 4, 8), (1, 1))]
)
def test_launch_plan_of_nothing(shape, scale):
    p = launch_plan(shape, "float32", scale)
    assert (p.launches, p.grid, p.kernel, p.elements_per_thread) == (0, 0, None, 0)
    assert p.output_shape == upsample_nearest(jnp.zeros(shape, "float32"), scale).shape
    assert "launches nothing" in str(p)


def test_launch_plan_of_integers_has_no_backward():
    assert not launch_plan((2, 4, 4, 8), "int32").has_backward


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((4, "float32"), {}, TypeError, "launch_plan: shape must be a sequence"),
        (((2, 2.5), "float32"), {}, TypeError, "shape must hold integers, got 2.5"),
        (((2, -1, 3), "float32"), {}, ValueError, "no negative size"),
        (((), "float32"), {}, ValueError, "at least one axis"),
        (((2, 3), "float32"), {}, ValueError, r"axes must lie in \[-2, 2\)"),
        (((2, 3, 4), "float32", 0), {}, ValueError, "scale must be at least 1"),
        (((2, 3, 4), "int4"), {}, ValueError, "no kernel of forward takes dtype int4"),
        (
            ((2, 3, 4), "int32"),
            {"direction": "backward"},
            ValueError,
            "no kernel of backward takes dtype int32",
        ),
        (((2, 3, 4), "float32"), {"direction": "fwd"}, ValueError, "direction must be"),
        (((2, 2**31, 2**31), "float32"), {}, ValueError, "2\\^63 bytes"),
    ],
)
def test_launch_plan_refuses(arguments, options, error, message):
    with pytest.raises(error, match=message):
        launch_plan(*arguments, **options)


# ------------------------------------------------------------ the plan is what happens


def problems(count):
    """Random small arrays, (direction, dtype, shape, axes, scale)."""
    choose = random.Random(0)
    for _ in range(count):
        rank = choose.randint(1, 5)
        number = choose.randint(1, min(3, rank))
        axes = sorted(choose.sample(range(rank), number))
        direction = choose.choice(["fwd", "bwd"])
        dtypes = sorted(_ffi.EXTENSION.dtypes(direction))
        sizes = [1, 2, 3, 7, 8, 16, 25, 64, 128]
        yield (
            direction,
            choose.choice(dtypes),
            [choose.choice(sizes) for _ in range(rank)],
            axes,
            [choose.choice([2, 3, 4, 5, 8, 64]) for _ in axes],
        )


def test_handlers_run_the_plan_that_is_shown(compiled):
    """The handlers themselves, over launchers that print what they are to launch."""
    sources = ("upsample_nearest_ffi.cc", "upsample_nearest_plan.cc")
    headers = ("-isystem", jax.ffi.include_dir())
    program = compiled("handler_plans", sources, *headers)
    asked = list(problems(2000))
    lines = [
        " ".join(map(str, (way, dtype, len(shape), *shape, len(axes), *axes, *scale)))
        for way, dtype, shape, axes, scale in asked
    ]
    ran = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    answers = ran.stdout.splitlines()
    for (way, dtype, shape, axes, scale), answer in zip(asked, answers, strict=True):
        by_axis = dict(zip(axes, scale, strict=True))
        shown = plan(way, dtype, shape, [by_axis.get(a, 1) for a in range(len(shape))])
        assert shown.pop("kernel"), "no kernel for the plan"
        got = dict(field.split("=") for field in answer.split())
        assert got == {name: str(int(value)) for name, value in shown.items()}


@pytest.mark.skipif(platform() != "cuda", reason="there is no NVIDIA GPU")
def test_gpu_runs_the_plan_that_is_shown(tmp_path):
    """What CUPTI saw of a gradient: kernels, grids and blocks."""
    cases = [
        ((2, 64, 64, 256), "bfloat16", 2, (1, 2)),
        ((2, 3, 25, 25), "float32", 2, (2, 3)),
        ((2, 8, 16, 16), "float16", 3, (2, 3)),
        ((4, 16, 16, 24), "float32", 5, (1, 2)),
    ]
    calls = []
    for shape, dtype, scale, axes in cases:
        x = jnp.ones(shape, dtype)
        up = jax.jit(
            lambda x, scale=scale, axes=axes: upsample_nearest(
                x, scale, axes=axes, implementation="kernel"
            )
        )
        down = jax.jit(lambda g, up=up, x=x: jax.linear_transpose(up, x)(g)[0])
        calls.append((up, down, x))
    for up, down, x in calls:
        jax.block_until_ready(down(up(x)))  # compiled before it is traced
    with jax.profiler.trace(tmp_path):
        for up, down, x in calls:
            jax.block_until_ready(down(up(x)))
    (trace,) = glob.glob(str(tmp_path / "**" / "*.xplane.pb"), recursive=True)
    seen = collections.Counter()
    for plane in jax.profiler.ProfileData.from_file(trace).planes:
        for event in itertools.chain.from_iterable(line.events for line in plane.lines):
            details = dict(event.stats).get("kernel_details")
            if details and "jax_upsample" in event.name:
                grid, block = (
                    int(details.split(f"{name}:")[1].split(",")[0])
                    for name in ("grid", "block")
                )
                seen[event.name.replace("jax_upsample::", ""), grid, block] += 1
    for shape, dtype, scale, axes in cases:
        for direction in ("forward", "backward"):
            p = launch_plan(shape, dtype, scale, axes=axes, direction=direction)
            like = [
                key
                for key in seen
                if p.kernel in key[0] and key[1:] == (p.grid, p.block)
            ]
            assert like, f"{p}\nnot among {seen}"
