"""The handlers of `resize_nearest` called directly, with what no caller should send.

Wrong operands are errors that name what was got. What is in a table cannot be checked
(on a GPU nobody reads it first), so a wrong one may give wrong values, but must never
lead outside of a buffer.
"""

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import poison

FWD, BWD = "jax_upsample_resize_nearest_fwd_v1", "jax_upsample_resize_nearest_bwd_v1"

pytestmark = pytest.mark.usefixtures("kernel")


def call(target, operand, shape, axes, tables, dtype=None):
    result = jax.ShapeDtypeStruct(shape, dtype or operand.dtype)
    tables = [jnp.asarray(t) for t in tables]
    function = jax.ffi.ffi_call(target, result)
    y = function(operand, *tables, axes=np.array(axes, np.int64))
    return np.asarray(jax.block_until_ready(y))


def table(entries, fill=0, dtype=np.int32):
    return np.full(entries, fill, dtype)


X, Y = (2, 3, 4, 5), (2, 6, 7, 5)


def tables_of(target, axes=(1, 2)):
    """Right in shape and number."""
    return [table(Y[a] if target == FWD else X[a] + 1) for a in axes]


def refused(target, axes, tables, message, source=X, target_shape=Y, **options):
    operand, result = source, target_shape
    if target == BWD:
        operand, result = result, operand
    dtype = options.pop("operand_dtype", np.float32)
    name = "fwd" if target == FWD else "bwd"
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"resize_nearest_{name}: .*{message}"
    ):
        call(target, jnp.zeros(operand, dtype), result, axes, tables, **options)


both = pytest.mark.parametrize("target", [FWD, BWD], ids=["fwd", "bwd"])


# ----------------------------------------------------------------------- wrong operands


@both
def test_other_rank(target):
    refused(
        target,
        (1, 2),
        tables_of(target),
        "must have one rank, got 4 and 3",
        target_shape=(2, 6, 7),
    )


@both
@pytest.mark.parametrize(
    ("axes", "got"),
    [((2, 1), "2, 1"), ((1, 1), "1, 1"), ((1, 4), "1, 4"), ((-1, 2), "-1, 2")],
)
def test_wrong_axes(target, axes, got):
    # The tables fit where they are reached, so that the axes are what is wrong.
    tables = [tables_of(target, (a % 4,))[0] for a in axes]
    message = rf"axes must increase and lie in \[0, 4\), got \({got}\)"
    refused(target, axes, tables, message)


@both
@pytest.mark.parametrize("count", [0, 1, 3])
def test_other_number_of_tables(target, count):
    tables = (tables_of(target) * 2)[:count]
    refused(
        target,
        (1, 2),
        tables,
        f"at most 3 axes and a table for each, got 2 and {count}",
    )


@both
def test_too_many_axes(target):
    refused(target, (0, 1, 2, 3), tables_of(target, range(4)), "at most 3 axes .* 4")


@both
@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.float32, np.int16])
def test_other_dtype_of_a_table(target, dtype):
    tables = tables_of(target)
    tables[1] = tables[1].astype(dtype)
    refused(target, (1, 2), tables, "table 1 must be i32 of shape")


@both
@pytest.mark.parametrize("change", [-1, 1])
def test_other_length_of_a_table(target, change):
    tables = tables_of(target)
    wanted = len(tables[0])
    tables[0] = table(wanted + change)
    refused(
        target,
        (1, 2),
        tables,
        rf"table 0 must be i32 of shape \({wanted}\), got .*\({wanted + change}\)",
    )


@both
def test_other_rank_of_a_table(target):
    tables = tables_of(target)
    tables[0] = tables[0][None]
    refused(target, (1, 2), tables, "table 0 must be i32 of shape")


@both
def test_a_dimension_that_is_not_among_axes(target):
    message = "dimension 2 is not among axes, but 4 and 7 differ"
    refused(target, (1,), tables_of(target, (1,)), message)
    message = "dimension 3 is not among axes, but 5 and 6 differ"
    refused(target, (1, 2), tables_of(target), message, target_shape=(2, 6, 7, 6))


def test_an_empty_source_has_no_neighbours():
    # Of the forward alone: XLA removes a call whose result is empty, as the backward's.
    message = "an empty source has no neighbours"
    sizes = {"source": (0, 3), "target_shape": (6, 3)}
    refused(FWD, (0,), [table(6)], message, **sizes)


@both
def test_disagreeing_dtypes(target):
    refused(target, (1, 2), tables_of(target), "must have one dtype", dtype=jnp.int32)


@pytest.mark.parametrize("dtype", ["int32", "bool", "float8_e8m0fnu"])
def test_dtypes_without_a_sum(dtype):
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"no kernel for dtype {dtype}"
    ):
        call(BWD, jnp.ones(Y, dtype), X, (1, 2), tables_of(BWD))


@both
@pytest.mark.parametrize(
    "attributes",
    [
        {"axes": np.array([1, 2], np.int32)},
        {"axes": np.array([1.0, 2.0])},
        {"axes": np.array([1, 2]), "more": np.int64(2)},
        {},
    ],
    ids=["int32", "float", "one too many", "one missing"],
)
def test_wrong_attributes(target, attributes):
    operand, result = (X, Y) if target == FWD else (Y, X)
    function = jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(result, jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"[Ww]rong|axes"):
        jax.block_until_ready(
            function(jnp.zeros(operand, jnp.float32), *tables_of(target), **attributes)
        )


# ---------------------------------------------------------------- right and empty calls


def test_no_axes_is_a_copy():
    x = oracle.random_normal((3, 5), "float32")
    for target in (FWD, BWD):
        np.testing.assert_array_equal(call(target, jnp.asarray(x), (3, 5), (), ()), x)


def test_empty_buffers():
    y = call(FWD, jnp.zeros((3, 0)), (7, 0), (0,), [table(7)])
    assert y.shape == (7, 0)
    assert call(FWD, jnp.zeros((3, 2)), (0, 2), (0,), [table(0)]).shape == (0, 2)
    poison((3, 2), np.float64)
    zeros = call(BWD, jnp.zeros((0, 2)), (3, 2), (0,), [table(4)])
    np.testing.assert_array_equal(zeros, np.zeros((3, 2)))


# ------------------------------------------------------------------------- wrong tables

LARGEST = 2**31 - 1
SHAPES = {  # source, target, axis: rows, columns and elements; wide and not
    "rows": ((5, 8), (9, 8), 0),
    "columns": ((3, 5, 4), (3, 9, 4), 1),
    "elements": ((3, 5), (3, 9), 1),
    "odd": ((2, 5, 3, 3), (2, 9, 3, 3), 1),
}
by_shape = pytest.mark.parametrize(
    ("source", "target", "axis"), SHAPES.values(), ids=SHAPES.keys()
)
FWD_ENTRIES = {
    "beyond": [0, 1, 5, 6, 100, 3, 4, 4, 5],
    "negative": [-1, 0, -5, 1, -(2**31), 2, 3, -2, 4],
    "largest": [LARGEST] * 9,
    "not monotone": [4, 0, 3, 1, 2, 2, 4, 0, 1],
}


@by_shape
@pytest.mark.parametrize("entries", FWD_ENTRIES.values(), ids=FWD_ENTRIES.keys())
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex128"])
def test_forward_bounds_its_table(source, target, axis, entries, dtype):
    """A negative entry counts as a large one: both take the last source index."""
    x = oracle.random_bits(source, dtype)
    entries = np.int32(entries)
    y = call(FWD, jnp.asarray(x), target, (axis,), [entries])
    last = source[axis] - 1
    bounded = np.where((entries < 0) | (entries > last), last, entries)
    assert y.tobytes() == np.take(x, bounded, axis).tobytes()


def test_forward_bounds_every_table():
    x = oracle.random_bits((2, 3, 4, 5), "float32")
    tables = [np.int32(t) for t in ([1, 9, -1], [2, LARGEST, 0, 1], [-7, 0, 3])]
    y = call(FWD, jnp.asarray(x), (3, 4, 3, 5), (0, 1, 2), tables)
    wanted = x[[1, 1, 1]][:, [2, 2, 0, 1]][:, :, [3, 0, 3]]
    assert y.tobytes() == wanted.tobytes()


BWD_ENTRIES = {
    "beyond": [0, 4, 10, 100, LARGEST, LARGEST],
    "negative": [-1, 0, -5, 3, -(2**31), 9],
    "largest": [LARGEST] * 6,
    "not monotone": [9, 0, 7, 2, 5, 1],
    "descending": [9, 8, 6, 4, 2, 0],
    "all of it each time": [0, 9, 0, 9, 0, 9],
    "none": [0] * 6,
    "late": [3, 4, 5, 6, 7, 8],
}


@by_shape
@pytest.mark.parametrize("entries", BWD_ENTRIES.values(), ids=BWD_ENTRIES.keys())
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex128"])
def test_backward_bounds_its_table(source, target, axis, entries, dtype):
    """No sum holds more than the whole of its column, and none what is elsewhere."""
    g = np.ones(target, oracle.dtype_of(dtype))
    poison(source, g.dtype)
    sums = call(BWD, jnp.asarray(g), source, (axis,), [np.int32(entries)])
    values = sums.astype(np.complex128)
    assert np.isfinite(values).all()
    assert np.all((values.real >= 0) & (values.real <= target[axis]))
    np.testing.assert_array_equal(values.real, np.round(values.real))


@pytest.mark.parametrize("seed", range(10))
def test_random_tables(seed):
    """Three axes at once, any int32: finite, and bounded by the sum of everything."""
    rng = np.random.default_rng(seed)
    source, target = (3, 4, 5, 4), (5, 3, 7, 4)
    ranges = ((-(2**31), 2**31 - 1), (-10, 10))

    def tables(sizes):
        low, high = ranges[seed % 2]
        return [rng.integers(low, high, n, dtype=np.int32) for n in sizes]

    x = rng.standard_normal(source)
    y = call(FWD, jnp.asarray(x), target, (0, 1, 2), tables(target[:3]))
    assert np.isin(y, x).all()
    firsts = tables([n + 1 for n in source[:3]])
    sums = call(BWD, jnp.ones(target), source, (0, 1, 2), firsts)
    assert np.all((sums >= 0) & (sums <= 5 * 3 * 7))


def test_random_tables_of_many_rows():
    """Four rows an item, whose tables are read across: the plan of large arrays."""
    rng = np.random.default_rng(0)
    source, target = (512, 4096), (300, 4096)
    for low, high in ((-(2**31), 2**31 - 1), (0, 301)):
        firsts = rng.integers(low, high, 513, dtype=np.int32)
        g = jnp.ones(target, jnp.float32)
        sums = call(BWD, g, source, (0,), [firsts])
        assert np.all((sums >= 0) & (sums <= 300))
