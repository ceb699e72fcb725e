"""`upsample_add` and `upsample_concat`, against numpy and the plain lines they replace.

The silent bugs guarded here: a part of the concatenation that is written or read where
another lies, a sum that is rounded twice, cotangents that go to the wrong operand.
"""

import functools
import itertools
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import assert_equal, assert_same_bits, poison, primitives
from jax import export

from jax_upsample import resize_nearest, upsample_add, upsample_concat

# shape, axes, scale
LAYOUTS = {
    "NHWC": ((2, 3, 5, 16), (1, 2), (2, 2)),
    "NHWC-C3": ((2, 3, 5, 3), (1, 2), (2, 3)),
    "NHWC-C1": ((1, 4, 4, 1), (1, 2), (2, 2)),
    "NHWC-H-only": ((2, 2, 3, 16), (1,), (5,)),
    "NHWC-W-only": ((2, 2, 3, 16), (2,), (3,)),
    "NCHW": ((2, 3, 4, 8), (2, 3), (2, 2)),
    "NCHW-odd": ((2, 3, 5, 7), (2, 3), (3, 2)),
    "NCHW-x4": ((2, 2, 8, 8), (2, 3), (4, 4)),
    "NCHW-H-only": ((2, 3, 8, 4), (2,), (3,)),
    "NWC": ((3, 5, 8), (1,), (2,)),
    "NDHWC": ((2, 2, 3, 4, 8), (1, 2, 3), (2, 2, 2)),
    "NCDHW": ((2, 2, 3, 4, 8), (2, 3, 4), (2, 1, 2)),
    "apart": ((3, 2, 4, 5), (0, 3), (2, 3)),
    "first": ((2, 3, 2, 4, 3), (0, 1), (2, 3)),
}
CHANNELS = (1, 3, 8)

by_layout = pytest.mark.parametrize(
    ("shape", "axes", "scale"), LAYOUTS.values(), ids=LAYOUTS.keys()
)


def integers(shape, dtype="float32", seed=0, smallest=-4):
    values = np.random.default_rng(seed).integers(smallest, 5, shape)
    return values.astype(oracle.dtype_of(dtype))


def scaled(shape, axes, scale, concat_axis=None, channels=None):
    """The shape of the second operand."""
    sizes = list(shape)
    for axis, factor in zip(axes, scale, strict=True):
        sizes[axis] *= factor
    if concat_axis is not None:
        sizes[concat_axis] = channels
    return tuple(sizes)


def concatenations(shape, axes):
    """Every axis, number of channels and order."""
    free = [axis for axis in range(len(shape)) if axis not in axes]
    return itertools.product(free, CHANNELS, (False, True))


def split(y, concat_axis, channels, skip_first):
    """The part of x and that of skip."""
    at = channels if skip_first else y.shape[concat_axis] - channels
    parts = np.split(np.asarray(y), [at], concat_axis)
    return parts[::-1] if skip_first else parts


# ---------------------------------------------------------------------------- forward


@by_layout
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_add_is_the_sum(shape, axes, scale, dtype, implementation):
    x, lateral = integers(shape, dtype), integers(scaled(shape, axes, scale), dtype, 1)
    poison(lateral.shape, lateral.dtype)
    y = upsample_add(x, lateral, scale, axes=axes, implementation=implementation)
    assert_equal(y, oracle.upsample(x, axes, scale) + lateral)


@pytest.mark.parametrize("dtype", oracle.FLOATS)
def test_add_rounds_once(dtype, implementation):
    """As in float32 or float64; infinities, NaNs and zeros of both signs too."""
    x = oracle.random_bits((64, 16), dtype)
    lateral = oracle.random_bits((128, 16), dtype, seed=1)
    if dtype in ("float32", "float64"):  # XLA may take their subnormals for zeros
        x, lateral = (
            np.where(np.abs(a) < np.finfo(dtype).tiny, 0, a).astype(dtype)
            for a in (x, lateral)
        )
    y = upsample_add(x, lateral, axes=0, implementation=implementation)
    wide = np.float64 if dtype == "float64" else np.float32
    with np.errstate(all="ignore"):
        wanted = (np.repeat(x, 2, 0).astype(wide) + lateral.astype(wide)).astype(
            x.dtype
        )
    wanted_nan = np.isnan(wanted.astype(wide))
    np.testing.assert_array_equal(np.isnan(np.asarray(y).astype(wide)), wanted_nan)
    assert_same_bits(np.asarray(y)[~wanted_nan], wanted[~wanted_nan])


@by_layout
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex128"])
def test_concat_copies_bits(shape, axes, scale, dtype, implementation):
    for concat_axis, channels, skip_first in concatenations(shape, axes):
        x = oracle.random_bits(shape, dtype)
        other = scaled(shape, axes, scale, concat_axis, channels)
        skip = oracle.random_bits(other, dtype, seed=1)
        parts = [oracle.upsample(x, axes, scale), skip]
        as_bytes = [part.view(f"V{part.dtype.itemsize}") for part in parts]
        wanted = np.concatenate(
            as_bytes[::-1] if skip_first else as_bytes, concat_axis
        ).view(x.dtype)
        poison(wanted.shape, wanted.dtype)
        y = upsample_concat(
            x,
            skip,
            scale,
            axes=axes,
            concat_axis=concat_axis,
            skip_first=skip_first,
            implementation=implementation,
        )
        assert_same_bits(y, wanted)


@pytest.mark.parametrize("scale", [1, 2, None])
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_concat_takes_every_dtype(dtype, scale, implementation):
    """NaN payloads too, which some backends would lose."""
    sizes = {1: (3, 4), 2: (6, 8), None: (5, 7)}[scale]
    x = oracle.random_bits((2, 3, 4, 6), dtype)
    skip = oracle.random_bits((2, *sizes, 10), dtype, seed=1)
    y = upsample_concat(x, skip, scale, implementation=implementation)
    up, rest = split(y, 3, 10, False)
    assert_same_bits(rest, skip)
    wanted = resize_nearest(x, (2, *sizes, 6), implementation="xla")
    assert_same_bits(up, np.asarray(wanted))


@pytest.mark.parametrize("dtype", ["int32", "int4", "uint8"])
def test_add_takes_integers(dtype):
    x, lateral = jnp.arange(3).astype(dtype), jnp.ones(6, dtype)
    y = upsample_add(x, lateral, axes=0)
    assert y.dtype == x.dtype
    assert y.astype(int).tolist() == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("rule", ["jax", "asymmetric"])
@pytest.mark.parametrize(
    ("shape", "other", "axes"),
    [
        ((2, 43, 7, 8), (2, 85, 13, 8), (1, 2)),  # a feature pyramid of odd sizes
        ((2, 3, 8, 6), (2, 3, 5, 12), (2, 3)),
        ((2, 4, 5, 8), (2, 8, 15, 8), (1, 2)),  # integer scales
        ((2, 4, 5, 8), (2, 4, 5, 8), (1, 2)),
    ],
    ids=["odd", "down", "integers", "equal"],
)
def test_without_a_scale_the_sizes_decide(shape, other, axes, rule, implementation):
    x, y = integers(shape), integers(other, seed=1)
    up = np.asarray(resize_nearest(x, other, rule=rule, implementation="xla"))
    options = {"axes": axes, "rule": rule, "implementation": implementation}
    assert_equal(upsample_add(x, y, None, **options), up + y)
    joined = upsample_concat(x, y, None, concat_axis=0, **options)
    assert_equal(joined, np.concatenate([up, y]))


@pytest.mark.parametrize("channels", [(0, 3), (3, 0), (0, 0)])
def test_concat_of_no_channels(channels, implementation):
    x = integers((2, 3, 4, channels[0]))
    skip = integers((2, 6, 8, channels[1]))
    y = upsample_concat(x, skip, implementation=implementation)
    assert_equal(y, np.concatenate([oracle.upsample(x, (1, 2), (2, 2)), skip], 3))


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
def test_many_blocks_of_both_parts(dtype, implementation):
    """In several ratios, and one of them has items of both."""
    for c1, c2 in ((8, 8), (8, 264), (264, 8), (40, 16), (3, 5)):
        x = oracle.random_bits((1, 19, 23, c1), dtype)
        skip = oracle.random_bits((1, 38, 46, c2), dtype, seed=1)
        poison((1, 38, 46, c1 + c2), dtype)
        y = upsample_concat(x, skip, implementation=implementation)
        up, rest = split(y, 3, c2, False)
        assert_same_bits(up, oracle.upsample(x, (1, 2), (2, 2)))
        assert_same_bits(rest, skip)


# --------------------------------------------------------------------------- transposes


@by_layout
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
def test_transpose_of_add(shape, axes, scale, dtype, implementation):
    x, lateral = integers(shape, dtype), integers(scaled(shape, axes, scale), dtype, 1)
    f = functools.partial(
        upsample_add, scale=scale, axes=axes, implementation=implementation
    )
    ct = integers(lateral.shape, dtype, 2)
    poison(shape, dtype)
    dx, dlateral = jax.linear_transpose(f, x, lateral)(ct)
    assert_equal(dlateral, ct)
    wide = np.complex128 if dtype == "complex64" else np.float64
    sums, _ = oracle.window_sums(ct.astype(wide), axes, scale)
    np.testing.assert_array_equal(np.asarray(dx).astype(wide), sums)


@by_layout
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64"])
def test_transpose_of_concat(shape, axes, scale, dtype, implementation):
    wide = np.complex128 if dtype == "complex64" else np.float64
    for concat_axis, channels, skip_first in concatenations(shape, axes):
        x = integers(shape, dtype)
        other = scaled(shape, axes, scale, concat_axis, channels)
        skip = integers(other, dtype, 1)
        f = functools.partial(
            upsample_concat,
            scale=scale,
            axes=axes,
            concat_axis=concat_axis,
            skip_first=skip_first,
            implementation=implementation,
        )
        ct = integers(jax.eval_shape(f, x, skip).shape, dtype, 2)
        poison(shape, dtype)
        dx, dskip = jax.linear_transpose(f, x, skip)(ct)
        of_x, of_skip = split(ct, concat_axis, channels, skip_first)
        assert_equal(dskip, of_skip)
        sums, _ = oracle.window_sums(of_x.astype(wide), axes, scale)
        np.testing.assert_array_equal(np.asarray(dx).astype(wide), sums)


def test_sums_of_a_part_are_rounded_once(implementation):
    """4096 ones: bfloat16 would stop at 256."""
    f = functools.partial(upsample_concat, scale=64, implementation=implementation)
    x, skip = (
        jnp.zeros((1, 2, 2, 8), jnp.bfloat16),
        jnp.zeros((1, 128, 128, 8), "bfloat16"),
    )
    ct = jnp.ones((1, 128, 128, 16), jnp.bfloat16)
    dx, _ = jax.linear_transpose(f, x, skip)(ct)
    assert_equal(dx, np.full((1, 2, 2, 8), 4096, dx.dtype))


# --------------------------------------------------------------------- transformations

X, SKIP = integers((2, 3, 4, 2), "float64", 1), integers((2, 6, 8, 2), "float64", 2)


def of(name, implementation, **options):
    function = {"add": upsample_add, "concat": upsample_concat}[name]
    return functools.partial(function, implementation=implementation, **options)


def plain(name):
    def up(x):
        return jnp.repeat(jnp.repeat(x, 2, -3), 2, -2)

    if name == "add":
        return lambda x, other: up(x) + other
    return lambda x, other: jnp.concatenate([up(x), other], -1)


both_ops = pytest.mark.parametrize("name", ["add", "concat"])


@both_ops
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_gradients_and_second_order(name, argnums, implementation):
    """Of a cubic function: with one operand constant, and with none."""

    def losses(f):
        return lambda x, skip: (f(x, skip) ** 3).sum()

    ours, theirs = losses(of(name, implementation)), losses(plain(name))
    for wrap in (jax.grad, jax.hessian):
        actual = jax.jit(wrap(ours, argnums))(X, SKIP)
        wanted = wrap(theirs, argnums)(X, SKIP)
        jax.tree.map(assert_equal, actual, wanted)


@both_ops
def test_forward_mode(name, implementation):
    f, g = of(name, implementation), plain(name)
    tangents = (X[::-1], SKIP[::-1])
    jax.tree.map(
        assert_equal, jax.jvp(f, (X, SKIP), tangents), jax.jvp(g, (X, SKIP), tangents)
    )
    for fixed in (lambda h: lambda x: h(x, SKIP), lambda h: lambda x: h(x, 2 * SKIP)):
        actual, wanted = (jax.jvp(fixed(h), (X,), (X[::-1],)) for h in (f, g))
        jax.tree.map(assert_equal, actual, wanted)
    y, linear = jax.linearize(f, X, SKIP)
    assert_equal(linear(X, SKIP), np.asarray(y))


@both_ops
def test_transposed_twice(name, implementation):
    f = of(name, implementation)
    once = jax.linear_transpose(f, X, SKIP)
    y = f(X, SKIP)
    twice = jax.linear_transpose(lambda ct: once(ct), y)
    assert_equal(twice((X, SKIP))[0], np.asarray(y))


@both_ops
@pytest.mark.parametrize("in_axes", [(0, 0), (4, 1), (2, None), (None, 3)])
def test_vmap(name, in_axes, implementation):
    """Each operand's batch anywhere, also between the spatial axes, or nowhere."""

    def stacked(x, axis):
        return x if axis is None else np.stack([x, 2 * x, x + 1], axis)

    operands = [stacked(x, axis) for x, axis in zip((X, SKIP), in_axes, strict=True)]
    f, g = of(name, implementation), plain(name)
    assert_equal(
        jax.vmap(f, in_axes)(*operands), np.asarray(jax.vmap(g, in_axes)(*operands))
    )
    ours, theirs = (
        jax.vmap(jax.grad(lambda x, s, h=h: (h(x, s) ** 2).sum(), (0, 1)), in_axes)
        for h in (f, g)
    )
    jax.tree.map(assert_equal, ours(*operands), theirs(*operands))


@both_ops
def test_remat_and_scan(name, implementation):
    f = jax.checkpoint(of(name, implementation))

    def total(x):
        return jax.lax.scan(lambda c, x: (c + f(x, SKIP).sum(), None), 0.0, x)[0]

    xs = np.stack([X, 2 * X])
    assert_equal(jax.grad(total)(xs), np.full_like(xs, 4))


def test_one_primitive_each_way():
    """The gradient of a concatenation slices for `skip` alone."""

    def pull(name):
        f = of(name, None)
        y = jax.eval_shape(f, X, SKIP)
        return primitives(
            lambda ct: jax.linear_transpose(f, X, SKIP)(ct), np.zeros(y.shape)
        )

    assert primitives(of("add", None), X, SKIP) == ["upsample_add"]
    assert primitives(of("concat", None), X, SKIP) == ["upsample_concat_fwd"]
    assert pull("add") == ["upsample_nearest_bwd"]
    assert sorted(pull("concat")) == ["slice", "upsample_concat_bwd"]


SHARD_MAP = """
import jax, jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P
from jax_upsample import upsample_add, upsample_concat

def up(x):
    return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)

pairs = (
    (upsample_add, lambda x, y: up(x) + y),
    (upsample_concat, lambda x, y: jnp.concatenate([up(x), y], 3)),
)
mesh = jax.make_mesh((2,), ("b",), axis_types=(AxisType.Auto,))
for ours, plain in pairs:
    for n, m, specs in ((1, 2, (P(), P("b"))), (2, 1, (P("b"), P()))):
        x = jnp.arange(n * 16.0).reshape(n, 2, 2, 4)
        y = jnp.arange(m * 64.0).reshape(m, 4, 4, 4)

        def gradients(f):
            g = jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=P("b"))
            return jax.grad(lambda x, y: (g(x, y) ** 2).sum(), (0, 1))(x, y)

        for a, b in zip(gradients(ours), gradients(plain), strict=True):
            assert (a == b).all(), (ours, specs)
"""


def test_shard_map_sums_the_gradient_of_a_replicated_operand():
    """One operand on every device, the other split: two devices, so a process."""
    flags = os.environ.get("XLA_FLAGS", "")
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count=2",
    }
    program = [sys.executable, "-c", SHARD_MAP]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@both_ops
def test_export_with_symbolic_sizes(name, implementation):
    b, h = export.symbolic_shape("b, h")
    f = jax.jit(of(name, implementation))
    x = jax.ShapeDtypeStruct((b, h, 4, 2), np.float64)
    skip = jax.ShapeDtypeStruct((b, 2 * h, 8, 2), np.float64)
    checks = [
        export.DisabledSafetyCheck.custom_call(f"jax_upsample_{target}_v1")
        for target in ("add", "concat_fwd")
    ]
    exported = export.export(f, disabled_checks=checks)(x, skip)
    assert_equal(exported.call(X, SKIP), np.asarray(plain(name)(X, SKIP)))


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("arguments", "exception", "message"),
    [
        ({"other": (2, 6, 8)}, ValueError, "must have the rank of x"),
        ({"other": (2, 6, 9, 3)}, ValueError, "must have shape (2, 6, 8, 3)"),
        (
            {"other": (2, 6, 8, 3), "scale": 3},
            ValueError,
            "must have shape (2, 9, 12, 3)",
        ),
        (
            {"other": (3, 6, 8, 3), "scale": None},
            ValueError,
            "must have shape (2, 6, 8",
        ),
        ({"scale": 0}, ValueError, "scale must be at least 1"),
        ({"scale": 2**70}, ValueError, "scale must be below 2^63"),
        ({"scale": 1.5}, TypeError, "scale must hold integers"),
        ({"axes": (1, 5)}, ValueError, "axes must lie in"),
        ({"rule": "area", "scale": None}, ValueError, "rule must be one of"),
        ({"implementation": "gpu"}, ValueError, "implementation must be None"),
        ({"dtype": "int32"}, TypeError, "must have one dtype, got float32 and int32"),
        ({"dtype": None}, TypeError, "must be an array"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
@both_ops
def test_bad_argument_is_refused(name, arguments, exception, message):
    arguments = dict(arguments)
    other = np.zeros(arguments.pop("other", (2, 6, 8, 3)), np.float32)
    dtype = arguments.pop("dtype", "float32")
    other = other.astype(dtype) if dtype else [1.0]
    function = {"add": upsample_add, "concat": upsample_concat}[name]
    with pytest.raises(exception, match=f"^upsample_{name}: .*{re.escape(message)}"):
        function(np.zeros((2, 3, 4, 3), np.float32), other, **arguments)


@pytest.mark.parametrize(
    ("axis", "exception", "message"),
    [
        (4, ValueError, "concat_axis must lie in"),
        (1, ValueError, "concat_axis must be none of axes"),
        (-3, ValueError, "concat_axis must be none of axes"),
        (1.0, TypeError, "concat_axis must hold integers"),
    ],
)
def test_bad_concat_axis_is_refused(axis, exception, message):
    with pytest.raises(exception, match=f"^upsample_concat: {message}"):
        upsample_concat(
            np.zeros((2, 3, 4, 3)), np.zeros((2, 6, 8, 3)), concat_axis=axis
        )


@pytest.mark.parametrize("value", [None, "no", 1, np.ones(2, bool)], ids=str)
def test_skip_first_must_be_a_bool(value):
    with pytest.raises(TypeError, match=r"^upsample_concat: skip_first must be a bool"):
        upsample_concat(
            np.zeros((2, 3, 4, 3)), np.zeros((2, 6, 8, 3)), skip_first=value
        )


@pytest.mark.parametrize("scale", [2, None])
def test_huge_concatenation_is_refused(scale):
    x, skip = (
        jax.ShapeDtypeStruct(s, np.int8) for s in ((2**30, 2**30), (2**31, 2**33))
    )
    with pytest.raises(ValueError, match=r"^upsample_concat: .* 2\^63 bytes"):
        jax.eval_shape(
            lambda *a: upsample_concat(*a, scale, axes=0, rule="half_pixel"), x, skip
        )


@both_ops
def test_nothing_has_no_neighbours(name):
    x, other = np.zeros((2, 0, 3, 2)), np.zeros((2, 5, 6, 2))
    function = {"add": upsample_add, "concat": upsample_concat}[name]
    with pytest.raises(ValueError, match=f"^upsample_{name}: axis 1 of x is empty"):
        function(x, other, None)


def test_add_refuses_what_holds_no_numbers():
    with pytest.raises(
        TypeError, match=r"^upsample_add: x must hold numbers, got bool"
    ):
        upsample_add(np.zeros(2, bool), np.zeros(4, bool), axes=0)


# ---------------------------------------------------------- the handlers, by themselves


def call(target, operands, shape, dtype="float32", **attributes):
    attributes = {
        name: np.array(value, np.int64) if isinstance(value, tuple) else np.int64(value)
        for name, value in attributes.items()
    }
    result = jax.ShapeDtypeStruct(shape, dtype)
    function = jax.ffi.ffi_call(f"jax_upsample_{target}_v1", result)
    return jax.block_until_ready(function(*operands, **attributes))


def zeros(*shape, dtype="float32"):
    return jnp.zeros(shape, dtype)


BOTH = {"axes": (1, 2), "scale": (2, 2), "tiled": 0}
PART = BOTH | {"concat_axis": 3, "start": 0}
SMALL, LARGE, WHOLE = zeros(2, 3, 4, 5), zeros(2, 6, 8, 5), zeros(2, 6, 8, 7)
REST = zeros(2, 6, 8, 2)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("target", "operands", "shape", "attributes", "message"),
    [
        ("add", (SMALL, REST), LARGE.shape, BOTH, "lateral must be like the result"),
        (
            "add",
            (SMALL, LARGE.astype("int32")),
            LARGE.shape,
            BOTH,
            "lateral must be like",
        ),
        (
            "add",
            (SMALL, LARGE),
            LARGE.shape,
            BOTH | {"scale": (2, 3)},
            "must be 3 times",
        ),
        ("concat_fwd", (SMALL, LARGE), WHOLE.shape, PART, "skip must be what"),
        ("concat_fwd", (SMALL, REST), WHOLE.shape, PART | {"start": 1}, "at one end"),
        ("concat_fwd", (SMALL, REST), WHOLE.shape, PART | {"start": 9}, "must lie in"),
        ("concat_fwd", (SMALL, REST), WHOLE.shape, PART | {"start": -1}, "must lie in"),
        (
            "concat_fwd",
            (SMALL, REST),
            WHOLE.shape,
            PART | {"concat_axis": 4},
            "must lie",
        ),
        (
            "concat_fwd",
            (SMALL, REST),
            WHOLE.shape,
            PART | {"concat_axis": -1},
            "must lie",
        ),
        ("concat_fwd", (SMALL, REST), WHOLE.shape, PART | {"scale": (2, 3)}, "3 times"),
        (
            "concat_fwd",
            (zeros(2, 3, 4, 0), WHOLE),
            WHOLE.shape,
            PART,
            "no operand may be empty",
        ),
        (
            "concat_fwd",
            (zeros(2, 3, 4, 5), zeros(2, 2, 8, 5)),
            (2, 5, 8, 5),
            BOTH | {"axes": (0, 2), "scale": (1, 2), "concat_axis": 2, "start": 0},
            "must be|no kernel for concat_axis",
        ),
        (
            "concat_bwd",
            (zeros(2, 9, 4, 5),),
            (1, 3, 2, 5),
            PART | {"axes": (0, 2), "concat_axis": 1, "start": 3},
            "no kernel for concat_axis 1",
        ),
        ("concat_bwd", (WHOLE,), SMALL.shape, PART | {"start": 3}, "must lie in"),
        ("concat_bwd", (zeros(7),), SMALL.shape, PART, "must lie in"),
    ],
)
def test_handlers_refuse(target, operands, shape, attributes, message):
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call(target, operands, shape, **attributes)


@pytest.mark.usefixtures("kernel")
def test_handlers_of_empty_results_do_nothing():
    small, large = zeros(0, 3, 4, 5), zeros(0, 6, 8, 5)
    assert call("add", (small, large), large.shape, **BOTH).size == 0
    assert (
        call("concat_fwd", (small, zeros(0, 6, 8, 2)), (0, 6, 8, 7), **PART).size == 0
    )
    assert call("concat_bwd", (zeros(0, 6, 8, 7),), small.shape, **PART).size == 0


# ------------------------------------------------------------------ kernel or plain XLA


def cuda_calls(program, *operands):
    """The targets that the program of a GPU calls, as text: it needs none."""
    traced = jax.jit(program).trace(*operands)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r"custom_call @jax_upsample_(\w+)_v1", text)


@pytest.mark.usefixtures("cuda_kernels")
def test_kernel_on_request_is_one_call():
    x, skip = (jax.ShapeDtypeStruct(s, "float32") for s in ((2, 4, 4, 3), (2, 8, 8, 3)))
    assert cuda_calls(of("add", "kernel"), x, skip) == ["add"]
    assert cuda_calls(of("concat", "kernel"), x, skip) == ["concat_fwd"]
    whole = jax.ShapeDtypeStruct((2, 8, 8, 6), "float32")
    pull = jax.linear_transpose(of("concat", "kernel"), x, skip)
    assert cuda_calls(lambda ct: pull(ct)[0], whole) == ["concat_bwd"]


@both_ops
@pytest.mark.parametrize("platform", ["cpu", "tpu", "rocm"])
def test_other_platforms_run_plain_xla(name, platform):
    def text(implementation):
        operands = [jax.ShapeDtypeStruct(a.shape, "bfloat16") for a in (X, SKIP)]
        traced = jax.jit(of(name, implementation)).trace(*operands)
        return traced.lower(lowering_platforms=(platform,)).as_text()

    assert text(None) == text("xla")
    assert not re.search(r"custom_call|gather|scatter", text(None))
