"""The launch planner, a pure function: what would run, seen without a GPU."""

import math

import oracle
import pytest

from jax_upsample import _ffi

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
