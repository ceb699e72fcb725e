"""`resize_nearest`, `resize` and `interpolate`: values, gradients, transformations.

The silent bugs guarded here: a pixel that is off by one, a backward that is not the
transpose of the forward, sums in bfloat16, a batching rule that moves the wrong axis.
Which index a rule means is in test_nearest_rules.py; the oracle here is numpy.
"""

import functools
import inspect
import math
import re
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import (
    assert_equal,
    assert_same_bits,
    poison,
    primitives,
    skip_or_fail,
)
from jax import export, lax
from jax.dtypes import float0

from jax_upsample import (
    export_disabled_checks,
    interpolate,
    resize,
    resize_nearest,
)

FWD, BWD = "resize_nearest_fwd", "resize_nearest_bwd"
RULES = ("jax", "half_pixel", "asymmetric", "torch", "torch_exact")

# (shape, resized): every place of one to four axes, up, down and both.
LAYOUTS = {
    "NHWC-up": ((2, 3, 5, 16), (2, 7, 8, 16)),
    "NHWC-down": ((2, 9, 7, 8), (2, 4, 3, 8)),
    "NHWC-mixed-C3": ((2, 5, 7, 3), (2, 8, 4, 3)),
    "NHWC-C1": ((2, 5, 7, 1), (2, 7, 12, 1)),
    "NCHW-up": ((2, 3, 5, 7), (2, 3, 8, 16)),
    "NCHW-down": ((2, 3, 25, 38), (2, 3, 10, 16)),
    "NCHW-mixed": ((2, 3, 9, 5), (2, 3, 4, 13)),
    "NCHW-H-only": ((2, 3, 5, 8), (2, 3, 7, 8)),
    "NHWC-W-only": ((2, 3, 5, 4), (2, 3, 13, 4)),
    "W-up": ((37,), (101,)),
    "W-down": ((37,), (11,)),
    "NDHWC": ((2, 3, 4, 5, 3), (2, 5, 3, 7, 3)),
    "NCDHW": ((2, 3, 3, 5, 4), (2, 3, 5, 2, 9)),
    "apart": ((3, 2, 4, 5), (5, 2, 6, 5)),
    "apart-3": ((2, 3, 2, 5, 2, 3), (2, 4, 2, 3, 2, 5)),
    "first-last": ((3, 4, 5), (7, 4, 3)),
    "4-axes": ((2, 3, 5, 4), (3, 5, 2, 7)),
    "to-1": ((2, 7, 5, 4), (2, 1, 1, 4)),
    "from-1": ((2, 1, 1, 4), (2, 5, 7, 4)),
    "multiple-on-one": ((2, 3, 5, 6), (2, 6, 7, 6)),
    "copy": ((2, 3, 4), (2, 3, 4)),
    "to-0": ((2, 3, 4), (2, 0, 4)),
}


def by_layout(function):
    return pytest.mark.parametrize(
        ("shape", "resized"), LAYOUTS.values(), ids=LAYOUTS.keys()
    )(function)


def exact_indices(rule, m, n):
    """floor((i + 1/2) m / n) or floor(i m / n), in Python's integers."""
    if m == n:
        return list(range(n))
    if rule == "half_pixel":
        return [(2 * i + 1) * m // (2 * n) for i in range(n)]
    return [i * m // n for i in range(n)]


def numpy_resize(x, resized, rule):
    y = x.view(f"V{x.dtype.itemsize}")  # bytes: no dtype can interfere
    for axis, n in enumerate(resized):
        y = np.take(y, np.array(exact_indices(rule, x.shape[axis], n), int), axis)
    return np.ascontiguousarray(y).view(x.dtype)


def numpy_sums(g, shape, rule):
    """The exact transpose, in float64 or as many bits as `g` has."""
    y = g.astype(np.float64) if g.dtype.kind not in "ciu" else g
    for axis, m in enumerate(shape):
        matrix = np.zeros((m, g.shape[axis]), y.dtype)
        for i, source in enumerate(exact_indices(rule, m, g.shape[axis])):
            matrix[source, i] = 1
        y = np.moveaxis(np.tensordot(matrix, y, (1, axis)), 0, axis)
    return y


def integers(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def transpose(shape, resized, dtype, rule="half_pixel", implementation=None):
    """The jitted transpose."""
    f = functools.partial(
        resize_nearest, shape=resized, rule=rule, implementation=implementation
    )
    x = jax.ShapeDtypeStruct(shape, oracle.dtype_of(dtype))
    return jax.jit(lambda g: jax.linear_transpose(f, x)(g)[0])


# ---------------------------------------------------------------------------- forward


@by_layout
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("rule", ["half_pixel", "asymmetric"])
def test_every_layout_copies_bits(shape, resized, dtype, rule, implementation):
    x = oracle.random_bits(shape, dtype)
    poison(resized, x.dtype)
    y = resize_nearest(
        jnp.asarray(x), resized, rule=rule, implementation=implementation
    )
    assert_same_bits(y, numpy_resize(x, resized, rule))


@by_layout
def test_every_layout_is_image_resize(shape, resized, implementation):
    if 0 in resized:
        pytest.skip("jax.image.resize knows no empty results")
    x = oracle.random_bits(shape, "int32")
    wanted = jax.jit(lambda x: jax.image.resize(x, resized, "nearest"))(x)
    poison(resized, x.dtype)
    assert_same_bits(resize_nearest(x, resized, implementation=implementation), wanted)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_many_sizes_are_image_resize(layout, implementation):
    """A few hundred pairs, those that rounding decides among them, in one program."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(1, [[130, 260]], (100, 2)).tolist()
    pairs += [[10, 25], [10, 55], [22, 55], [25, 10], [129, 250], [7, 84], [2, 82]]
    image = np.arange(130, dtype=np.int32)
    sizes = [(m, n, *pairs[i - 1]) for i, (m, n) in enumerate(pairs)]

    def program(image, function):
        results = []
        for m, n, other_m, other_n in sizes:
            x = image[:m, None] * 1000 + image[None, :other_m]
            if layout == "NHWC":
                x, shape = x[None, :, :, None], (1, n, other_n, 1)
            else:
                x, shape = x[None, None], (1, 1, n, other_n)
            results.append(function(x, shape))
        return results

    ours = functools.partial(resize_nearest, implementation=implementation)
    theirs = functools.partial(jax.image.resize, method="nearest")
    options = {"xla_backend_optimization_level": 0}
    run = jax.jit(program, static_argnums=1, compiler_options=options)
    for a, b in zip(run(image, ours), run(image, theirs), strict=True):
        assert_same_bits(a, b)


@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_every_dtype_copies_bits(dtype, implementation):
    x = oracle.random_bits((2, 5, 7, 4), dtype)
    f = functools.partial(
        resize_nearest,
        shape=(2, 8, 3, 4),
        rule="half_pixel",
        implementation=implementation,
    )
    assert_same_bits(jax.jit(f)(x), numpy_resize(x, (2, 8, 3, 4), "half_pixel"))


def test_int4_takes_the_plain_form():
    values = np.arange(5) % 5
    y = resize_nearest(jnp.asarray(values, jnp.int4), (8,), rule="half_pixel")
    assert y.dtype == jnp.int4
    wanted = values[exact_indices("half_pixel", 5, 8)]
    np.testing.assert_array_equal(np.asarray(y.astype(jnp.int32)), wanted)


def test_float4_takes_the_plain_form():
    values = np.float32([0, 1, 2, 3, 4])
    x = jnp.asarray(values, jnp.float4_e2m1fn)
    f = functools.partial(resize_nearest, shape=(8,), rule="half_pixel")
    wanted = values[exact_indices("half_pixel", 5, 8)]
    np.testing.assert_array_equal(f(x).astype(jnp.float32), wanted)
    (counts,) = jax.linear_transpose(f, x)(jnp.ones(8, x.dtype))
    assert counts.dtype == x.dtype
    wanted = np.bincount(exact_indices("half_pixel", 5, 8))
    np.testing.assert_array_equal(counts.astype(jnp.float32), wanted)


def test_prng_keys_are_copied():
    keys = jax.random.split(jax.random.key(0), 5)
    y = resize_nearest(keys, (8,), rule="half_pixel")
    wanted = np.asarray(jax.random.key_data(keys))[exact_indices("half_pixel", 5, 8)]
    np.testing.assert_array_equal(jax.random.key_data(y), wanted)


# --------------------------------------------------------------------------- backward


@by_layout
@pytest.mark.parametrize("rule", RULES)
def test_backward_is_the_transpose(shape, resized, rule, implementation):
    """<f(x), g> = <x, f^T(g)> for integers, and zero where nothing was copied."""
    x, g = integers(shape, 1, np.float32), integers(resized, 2, np.float32)
    y = resize_nearest(x, resized, rule=rule, implementation=implementation)
    poison(shape, x.dtype)
    down = np.asarray(transpose(shape, resized, "float32", rule, implementation)(g))
    assert (down.shape, down.dtype) == (shape, x.dtype)
    assert np.vdot(np.float64(y), g) == np.vdot(np.float64(x), down)
    if rule in ("half_pixel", "asymmetric"):
        np.testing.assert_array_equal(down, numpy_sums(g, shape, rule))
    indices = np.arange(x.size, dtype=np.int64).reshape(shape)
    copied = np.asarray(resize_nearest(indices, resized, rule=rule))
    counts = np.bincount(copied.ravel(), minlength=x.size).reshape(shape)
    ones = transpose(shape, resized, "float32", rule, implementation)(np.ones_like(g))
    np.testing.assert_array_equal(ones, counts)


@pytest.mark.parametrize("dtype", [*oracle.FLOATS, *oracle.COMPLEX])
@pytest.mark.parametrize("resized", [(2, 8, 3, 16), (2, 4, 11, 16)])
def test_every_float_sums(dtype, resized, implementation):
    shape = (2, 5, 7, 16)
    small = np.random.default_rng(0).integers(-1, 2, resized)
    g = small.astype(np.float32).astype(oracle.dtype_of(dtype))
    if dtype in oracle.COMPLEX:
        g = g + g.dtype.type(2j) * g
    sums = transpose(shape, resized, dtype, implementation=implementation)(g)
    assert sums.dtype == g.dtype
    wide = g if dtype in oracle.COMPLEX else small
    expected = numpy_sums(wide, shape, "half_pixel")
    np.testing.assert_array_equal(np.asarray(sums).astype(expected.dtype), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("channels", [1, 8])
def test_large_windows_are_rounded_once(dtype, channels, implementation):
    """3 -> 4100: 1367 terms each, and bfloat16 would stop at 256."""
    g = oracle.random_normal((4100, channels), dtype)
    g = (g.astype(np.float32) + 1).astype(g.dtype)
    shape = (3, channels)
    f = transpose(shape, g.shape, dtype, implementation=implementation)
    wide = g.astype(np.float64)
    exact = numpy_sums(wide, shape, "half_pixel")
    bound = oracle.half_ulp(exact, g.dtype)
    u = 2.0**-24
    terms = 1368
    accumulated = terms * u
    if dtype == "float32" and implementation == "kernel":
        accumulated = (terms * u) ** 2
    bound = bound + accumulated * numpy_sums(np.abs(wide), shape, "half_pixel")
    error = np.abs(np.asarray(f(g)).astype(np.float64) - exact)
    assert np.all(error <= bound * (1 + 1e-6))
    counts = np.bincount(exact_indices("half_pixel", 3, 4100)).astype(np.float64)
    ones = np.asarray(f(np.ones_like(g)))[:, 0]
    assert_equal(ones, counts.astype(g.dtype))


@pytest.mark.parametrize("resized", [(3, 3, 3, 3), (3, 3, 3, 4)])
def test_four_axes_are_rounded_once(resized, implementation):
    """One call of a kernel sums three axes: what it leaves may not fit in float16."""
    g = np.zeros(resized, np.float16)
    g[0], g[1], g[2] = 30000, -30000, 1
    f = transpose((1,) * 4, resized, "float16", implementation=implementation)
    assert_equal(f(g), np.full((1,) * 4, math.prod(resized[1:]), np.float16))


def test_kernel_float32_sums_are_compensated(kernel):
    g = np.float32([1e8, 1.0, -1e8, -0.5, 1, 3e7, 0.125, 0.25, -3e7])
    # 2 -> 9 half_pixel: outputs 0 to 3 and 4 to 8.
    g = np.where(np.arange(9) == 4, np.float32(0), g)
    sums = transpose((2,), (9,), "float32", implementation=kernel)(g)
    assert_equal(sums, np.float32([0.5, 0.375]))


@pytest.mark.parametrize("resized", [(2, 41, 50, 8), (2, 9, 50, 8)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradient_is_deterministic(resized, dtype, implementation):
    f = transpose((2, 17, 19, 8), resized, dtype, implementation=implementation)
    g = oracle.random_normal(resized, dtype)
    first = np.asarray(f(g)).tobytes()
    assert all(np.asarray(f(g)).tobytes() == first for _ in range(10))


@pytest.mark.parametrize("axis", [0, 1])
def test_gradient_of_an_empty_result_is_zero(axis, implementation):
    resized = tuple(0 if a == axis else n for a, n in enumerate((5, 7)))
    poison((5, 7), np.float32)
    f = transpose((5, 7), resized, "float32", implementation=implementation)
    assert_equal(f(np.zeros(resized, np.float32)), np.zeros((5, 7), np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("resized", [(13, 8), (3, 8)])
def test_infinities_and_nans_stay_where_they_are(dtype, resized, implementation):
    """A NaN that goes to one source does not touch its neighbours."""
    n = resized[0]
    sources = exact_indices("half_pixel", 5, n)
    f = transpose((5, 8), resized, dtype, implementation=implementation)
    counts = np.bincount(sources, minlength=5)
    for i in range(n):
        for value in (np.nan, np.inf, -np.inf):
            g = np.ones(resized, oracle.dtype_of(dtype))
            g[i, 3] = value
            wanted = np.repeat(counts[:, None], 8, 1).astype(np.float64)
            wanted[sources[i], 3] = value
            np.testing.assert_array_equal(np.asarray(f(g), np.float64), wanted)


# --------------------------------------------------------------------- transformations

SHAPE, RESIZED = (2, 3, 5, 2), (2, 5, 4, 2)
X, T = integers(SHAPE, 1), integers(SHAPE, 3)
W, CT = integers(RESIZED, 4), integers(RESIZED, 5)


def of(implementation, resized=RESIZED):
    return functools.partial(
        resize_nearest, shape=resized, rule="half_pixel", implementation=implementation
    )


def up(x):
    return numpy_resize(x, RESIZED, "half_pixel")


def down(g):
    return numpy_sums(g, SHAPE, "half_pixel")


def cubic(f):
    return lambda x: (W * f(x) ** 3).sum()


GRADIENT = down(3 * W * up(X) ** 2)
HESSIAN = np.diag(down(6 * W * up(X)).ravel()).reshape(SHAPE * 2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        jax.jit,
        jax.checkpoint,
        lambda f: jax.checkpoint(f, policy=jax.checkpoint_policies.nothing_saveable),
        lambda f: jax.jit(jax.checkpoint(f)),
    ],
    ids=["eager", "jit", "remat", "nothing_saveable", "jit of remat"],
)
def test_wrapped(wrap, implementation):
    f = wrap(of(implementation))
    assert_equal(f(X), up(X))
    assert_equal(jax.grad(cubic(f))(X), GRADIENT)
    y, tangent = jax.jvp(f, (X,), (T,))
    assert_equal(y, up(X))
    assert_equal(tangent, up(T))


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_second_derivative(outer, inner, implementation):
    assert_equal(outer(inner(cubic(of(implementation))))(X), HESSIAN)


def test_hessian(implementation):
    assert_equal(jax.jit(jax.hessian(cubic(of(implementation))))(X), HESSIAN)


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_jacobian(jacobian, implementation):
    unit = np.eye(X.size).reshape(SHAPE * 2)
    wanted = numpy_resize(unit, (*RESIZED, *SHAPE), "half_pixel")
    assert_equal(jacobian(of(implementation))(X), wanted)


def test_linearize(implementation):
    y, linear = jax.linearize(of(implementation), X)
    assert_equal(y, up(X))
    assert_equal(linear(T), up(T))


def test_linear_transpose_twice(implementation):
    once = jax.linear_transpose(of(implementation), X)
    assert_equal(once(CT)[0], down(CT))
    twice = jax.linear_transpose(lambda g: once(g)[0], CT)
    assert_equal(twice(T)[0], up(T))


@pytest.mark.parametrize("out_axis", range(5))
@pytest.mark.parametrize("in_axis", range(5))
def test_vmap(in_axis, out_axis, implementation):
    """Also between the spatial axes, and of the gradient."""
    xs = np.stack([X, T, X * T])
    f = jax.vmap(of(implementation), in_axis, out_axis)
    y = f(np.moveaxis(xs, 0, in_axis))
    assert_equal(np.moveaxis(y, out_axis, 0), np.stack([up(x) for x in xs]))
    gradient = jax.vmap(jax.grad(cubic(of(implementation))), in_axis, out_axis)
    wanted = np.stack([down(3 * W * up(x) ** 2) for x in xs])
    actual = gradient(np.moveaxis(xs, 0, in_axis))
    assert_equal(np.moveaxis(actual, out_axis, 0), wanted)


@pytest.mark.parametrize("axis", range(5))
def test_vmap_transposes_nothing(axis, implementation):
    xs = np.moveaxis(np.stack([X, T]), 0, axis)
    f = jax.vmap(of(implementation), axis, axis)
    assert primitives(f, xs) == [FWD]
    g = np.zeros(f(xs).shape)
    pull = jax.linear_transpose(f, xs)
    assert primitives(lambda g: pull(g)[0], g) == [BWD]


def test_grad_of_vmap_and_of_scan(implementation):
    xs, ws = integers((3, *SHAPE), 6), integers((3, *RESIZED), 7)
    f = of(implementation)
    wanted = np.stack([down(w) for w in ws])
    assert_equal(jax.grad(lambda xs: (ws * jax.vmap(f)(xs)).sum())(xs), wanted)

    def scanned(xs):
        return (ws * lax.scan(lambda c, x: (c, f(x)), 0, xs)[1]).sum()

    assert_equal(jax.grad(scanned)(xs), wanted)


def test_integers_have_float0_tangents(implementation):
    x = X.astype(np.int32)
    f = of(implementation)
    y, tangent = jax.jvp(f, (x,), (np.zeros(SHAPE, float0),))
    assert_equal(y, up(x))
    assert (tangent.shape, tangent.dtype) == (RESIZED, float0)
    loss = lambda x: f(x).astype(float).sum()  # noqa: E731
    gradient = jax.grad(loss, allow_int=True)
    assert gradient(x).dtype == float0
    assert BWD not in primitives(gradient, x)


def test_eval_shape(implementation):
    x = jax.ShapeDtypeStruct((2**15, 2**15, 1000, 2**10), jnp.bfloat16)
    f = of(implementation, (2**15, 2**15, 1777, 2**10))
    y = jax.eval_shape(f, x)
    assert (y.shape, y.dtype) == ((2**15, 2**15, 1777, 2**10), jnp.bfloat16)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("dimensions", "resized", "shape"),
    [
        ("b, 10, 10, 3", lambda b, h, w, c: (b, 25, 16, c), (4, 10, 10, 3)),
        ("b, h, w, 3", lambda b, h, w, c: (b, 2 * h + 1, 100, c), (2, 10, 13, 3)),
        ("b, h, w, 3", lambda b, h, w, c: (b, h // 2, w, c), (2, 9, 4, 3)),
    ],
    ids=["batch", "up", "down"],
)
def test_export(dimensions, resized, shape, rule, implementation):
    """Written to bytes with sizes left open, read back: values and gradient."""

    def f(x):
        return resize_nearest(
            x, resized(*x.shape), rule=rule, implementation=implementation
        )

    spec = jax.ShapeDtypeStruct(export.symbolic_shape(dimensions), np.float64)
    checks = [] if implementation == "xla" else export_disabled_checks()
    exported = export.export(jax.jit(f), disabled_checks=checks)(spec)
    restored = export.deserialize(exported.serialize(vjp_order=1))
    x = integers(shape)
    y = np.asarray(restored.call(x))
    if rule != "jax":  # symbolic sizes divide truly, which "jax" under jit does not
        assert_equal(y, f(x))
    w = integers(y.shape, 1)
    gradient = jax.grad(lambda x: (w * restored.call(x)).sum())(x)
    numbers = np.arange(x.size, dtype=np.float64).reshape(shape)
    copied = np.asarray(restored.call(numbers)).astype(int).ravel()
    wanted = np.bincount(copied, w.ravel(), x.size).reshape(shape)
    assert_equal(gradient, wanted)


def test_export_of_a_kernel_needs_disabled_checks(kernel):
    spec = jax.ShapeDtypeStruct(SHAPE, np.float64)
    with pytest.raises(ValueError, match="jax_upsample_resize_nearest_fwd_v1"):
        export.export(jax.jit(of(kernel)))(spec)


# ------------------------------------------------------------ what programs are made of


@pytest.mark.parametrize("rule", RULES)
def test_integer_multiples_are_upsample_nearest(rule):
    f = functools.partial(resize_nearest, shape=(2, 6, 15, 3), rule=rule)
    assert primitives(f, np.zeros((2, 3, 5, 3))) == ["upsample_nearest_fwd"]


def test_torch_2_to_82_is_no_integer_multiple():
    f = functools.partial(resize_nearest, shape=(82,), rule="torch")
    assert primitives(f, np.zeros(2)) == [FWD]
    f = functools.partial(resize_nearest, shape=(82,), rule="half_pixel")
    assert primitives(f, np.zeros(2)) == ["upsample_nearest_fwd"]


@pytest.mark.parametrize("rule", RULES)
def test_equal_sizes_are_no_operation(rule, implementation):
    f = functools.partial(
        resize_nearest, shape=SHAPE, rule=rule, implementation=implementation
    )
    assert primitives(f, X) == []
    x = jnp.asarray(X)
    assert f(x) is x


def test_plain_gradient_sums_without_a_scatter():
    def text(f):
        pull = jax.linear_transpose(f, jax.ShapeDtypeStruct((2, 25, 38, 8), np.float32))
        g = np.zeros((2, 38, 25, 8), np.float32)
        return jax.jit(lambda g: pull(g)[0]).lower(g).compile().as_text()

    forbidden = r" (scatter|sort)\w*\("
    ours = text(of("xla", (2, 38, 25, 8)))
    theirs = text(lambda x: jax.image.resize(x, (2, 38, 25, 8), "nearest"))
    assert not re.search(forbidden, ours)
    # XLA:CPU may make a loop of it: its metadata still says what it was.
    assert "/scatter" in theirs
    assert "/scatter" not in ours


# ------------------------------------------------------------------------------- scale


def indices(m, scale, rule="asymmetric"):
    return np.asarray(resize_nearest(np.arange(m), scale=scale, axes=0, rule=rule))


def test_C032_a_fraction_is_exact():
    assert len(indices(88, Fraction(120, 88))) == 120
    assert len(indices(88, 120 / 88)) == 119


def test_C033_sizes_are_rounded_down():
    assert [len(indices(32, s)) for s in (0.1234, 0.9999, 1.8)] == [3, 31, 57]


def test_C035_the_same_size_is_a_copy():
    assert indices(3, 1.3).tolist() == [0, 1, 2]
    assert len(indices(4, 1.3)) == 5


def test_C037_the_factor_says_where_outputs_lie():
    assert indices(4, 1.6).tolist() == [0, 0, 1, 1, 2, 3]
    y = resize_nearest(np.arange(4), (6,), rule="asymmetric")
    assert y.tolist() == [0, 0, 1, 2, 2, 3]


def test_scales_of_several_axes(implementation):
    x = integers((2, 4, 10, 3))
    y = resize_nearest(
        x,
        scale=(0.5, 1.6),
        axes=(-2, 1),
        rule="asymmetric",
        implementation=implementation,
    )
    assert_equal(y, x[:, [0, 0, 1, 1, 2, 3]][:, :, ::2])


def test_scales_of_four_axes(implementation):
    x = integers((4, 4, 4, 4))
    y = resize_nearest(
        x,
        scale=1.6,
        axes=range(4),
        rule="asymmetric",
        implementation=implementation,
    )
    at = [0, 0, 1, 1, 2, 3]
    assert_equal(y, x[np.ix_(at, at, at, at)])


@pytest.mark.parametrize(
    "scale",
    [
        1.6,
        np.float64(1.6),
        np.float32(1.6),
        np.array(1.6),
        np.array([1.6]),
        jnp.asarray(1.6, jnp.float32),
        [1.6],
        Fraction(8, 5),
    ],
    ids=lambda scale: f"{type(scale).__name__} {scale}",
)
def test_a_scale_is_the_decimal_that_it_prints_as(scale):
    """The float32 next to 1.6 is above it: by that, 5 would read 0 0 1 1 2 3 3 4."""
    assert indices(5, scale).tolist() == [0, 0, 1, 1, 2, 3, 3, 4]
    assert len(indices(10**6, scale)) == 1_600_000


@pytest.mark.parametrize(
    "scale", [1e308, 10**400, Fraction(10**400, 3)], ids=["float", "int", "Fraction"]
)
def test_a_scale_beyond_all_sizes_is_refused(scale):
    with pytest.raises(ValueError, match=r"^resize_nearest: .* wanted|axis 0 may have"):
        indices(40, scale)


# ------------------------------------------------------------------------------ errors

MAP = np.zeros((2, 4, 5, 3), np.float32)
EXACT = {"rule": "half_pixel"}
BAD = [
    ({"shape": (2, 4, 5)}, ValueError, "one size for each of the 4 axes"),
    ({"shape": (2, 4, 5, -3)}, ValueError, "must not be negative"),
    ({"shape": (2, 4, 5.0, 3)}, TypeError, "shape must hold integers, got 5.0"),
    ({"shape": (2, 4, True, 3)}, TypeError, "shape must hold integers, got True"),
    ({"shape": 8}, TypeError, "shape must be a sequence, got 8"),
    ({"shape": "2453"}, TypeError, "shape must be a sequence"),
    ({"shape": np.array(8)}, TypeError, "shape must be a sequence"),
    ({}, TypeError, "one of shape and scale must be given"),
    (
        {"shape": (2, 8, 8, 3), "scale": 2, **EXACT},
        TypeError,
        "one of shape and scale must be given",
    ),
    ({"shape": (2, 4, 5, 3), "rule": "area"}, ValueError, "rule must be one of"),
    ({"shape": (2, 4, 5, 3), "rule": 1}, ValueError, "rule must be one of"),
    ({"scale": 2}, ValueError, 'rule="jax" has no scale'),
    ({"scale": 0, **EXACT}, ValueError, "positive and finite, got 0"),
    ({"scale": -1.5, **EXACT}, ValueError, "positive and finite, got -1.5"),
    ({"scale": math.nan, **EXACT}, ValueError, "positive and finite, got nan"),
    ({"scale": math.inf, **EXACT}, ValueError, "positive and finite, got inf"),
    ({"scale": "2", **EXACT}, TypeError, "scale must hold numbers, got '2'"),
    ({"scale": True, **EXACT}, TypeError, "scale must hold numbers, got True"),
    ({"scale": (2, None), **EXACT}, TypeError, "scale must hold numbers, got None"),
    ({"scale": (2, 2, 2), **EXACT}, ValueError, "one for each of the 2 axes"),
    ({"scale": 2, "axes": (1, 4), **EXACT}, ValueError, "axes must lie in [-4, 4)"),
    ({"scale": 2, "axes": (1, 1), **EXACT}, ValueError, "axes must not repeat"),
    (
        {"shape": (2, 4, 5, 3), "implementation": "gpu"},
        ValueError,
        'implementation must be None, "kernel" or "xla"',
    ),
    ({"shape": (2**20, 2**20, 2**20, 3)}, ValueError, "2^63 bytes"),
]


@pytest.mark.parametrize(
    ("arguments", "exception", "message"),
    BAD,
    ids=[" ".join(f"{k}={v!r}" for k, v in a.items()) or "none" for a, _, _ in BAD],
)
def test_bad_argument_is_refused(arguments, exception, message):
    """With the function's name, and before anything is traced."""
    pattern = f"^resize_nearest: .*{re.escape(message)}"

    def program(x):
        with pytest.raises(exception, match=pattern):
            resize_nearest(x, **arguments)
        return x

    program(MAP)
    assert jax.make_jaxpr(program)(MAP).eqns == []


@pytest.mark.parametrize("name", ["shape", "scale"])
def test_traced_argument_is_refused(name):
    @jax.jit
    def program(value):
        argument = (2, 4, value, 3) if name == "shape" else value
        with pytest.raises(TypeError, match=f"{name} must be static, got the traced"):
            resize_nearest(MAP, **{name: argument}, rule="half_pixel")
        return value

    program(2)


@pytest.mark.parametrize("x", [[1.0], None, "12", 3.0], ids=repr)
def test_no_array_is_refused(x):
    with pytest.raises(TypeError, match=r"^resize_nearest: x must be an array"):
        resize_nearest(x, (2,))


@pytest.mark.parametrize(
    ("arguments", "exception", "message"),
    [
        ({"size": 8, "mode": "linear"}, ValueError, "mode must be one of"),
        ({"size": (8, 8, 8)}, ValueError, "one for each of the 2 spatial axes"),
        ({"size": 8.0}, TypeError, "size must hold integers"),
        ({}, TypeError, "one of size and scale_factor"),
        ({"size": 8, "scale_factor": 2}, TypeError, "one of size and scale_factor"),
        ({"scale_factor": (2, 2, 2)}, ValueError, "one for each of the 2"),
    ],
)
def test_interpolate_refuses(arguments, exception, message):
    with pytest.raises(exception, match=message):
        interpolate(MAP, **arguments)


@pytest.mark.parametrize("rank", [1, 2, 6])
def test_interpolate_refuses_other_ranks(rank):
    with pytest.raises(ValueError, match="one to three spatial axes"):
        interpolate(np.zeros((2,) * rank), 3)


# --------------------------------------------------------------- resize and interpolate


def test_resize_has_the_signature_of_image_resize():
    ours, theirs = (inspect.signature(f).parameters for f in (resize, jax.image.resize))
    assert list(ours) == list(theirs)
    assert [p.default for p in ours.values()] == [p.default for p in theirs.values()]
    assert [p.kind for p in ours.values()] == [p.kind for p in theirs.values()]


@pytest.mark.parametrize("method", ["linear", "cubic", "lanczos3"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_leaves_other_methods_to_jax(method, antialias):
    x = oracle.random_normal((2, 9, 7, 3), "float32")
    arguments = (x, (2, 5, 12, 3), method, antialias)
    assert_same_bits(resize(*arguments), jax.image.resize(*arguments))


@pytest.mark.parametrize(
    "shape",
    [8, np.array([8]), jnp.array([8]), iter([8]), [np.int64(8)]],
    ids=lambda shape: type(shape).__name__,
)
def test_resize_takes_every_shape_of_image_resize(shape):
    x = np.arange(5)
    program = jax.jit(lambda x: resize(x, shape, "nearest"))
    assert_equal(program(x), x[exact_indices("half_pixel", 5, 8)])


@pytest.mark.parametrize("x", [3.0, True, np.float32(3), jnp.int32(3)], ids=repr)
def test_resize_takes_scalars(x):
    y = resize(x, (), "nearest")
    assert (y.shape, y.dtype) == ((), jnp.asarray(x).dtype)
    assert y == x


@pytest.mark.parametrize("method", ["nearest", jax.image.ResizeMethod.NEAREST])
def test_resize_by_nearest(method):
    x = oracle.random_bits((2, 10, 25, 3), "float32")
    wanted = jax.jit(lambda x: jax.image.resize(x, (2, 25, 10, 3), "nearest"))(x)
    assert_same_bits(resize(x, (2, 25, 10, 3), method), wanted)


def test_resize_refuses_unknown_methods():
    with pytest.raises(ValueError, match="nearly"):
        resize(MAP, (2, 8, 8, 3), "nearly")


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(
    ("spatial", "arguments"),
    [
        ((5,), {"size": 8}),
        ((9,), {"scale_factor": 0.7}),
        ((5, 7), {"size": (8, 3)}),
        ((5, 7), {"size": 11}),
        ((2, 4), {"size": (82, 9)}),
        ((5, 7), {"scale_factor": (1.6, 0.5)}),
        ((5, 7), {"scale_factor": 2.3}),
        ((3, 4, 5), {"size": (5, 3, 8)}),
        ((3, 4, 5), {"scale_factor": 1.7}),
    ],
)
def test_interpolate_is_torch(mode, spatial, arguments):
    try:
        import torch
    except ImportError:
        skip_or_fail("torch", "torch is not installed")
    x = oracle.random_normal((2, 8, *spatial), "float32")
    layouts = {2: torch.channels_last, 3: torch.channels_last_3d}
    y = torch.from_numpy(x)
    if len(spatial) > 1:
        y = y.contiguous(memory_format=layouts[len(spatial)])
    y = torch.nn.functional.interpolate(y, mode=mode, **arguments)
    assert_same_bits(interpolate(x, mode=mode, **arguments), y.numpy())


# ---------------------------------------------------------------------- reported cases


@pytest.mark.parametrize(("rule", "at"), [("torch", 0), ("half_pixel", 2)])
def test_C040_gradient_of_a_quarter(rule, at, implementation):
    g = np.ones((1, 1, 1, 1), np.float32)
    down = transpose((1, 1, 4, 4), g.shape, "float32", rule, implementation)(g)
    wanted = np.zeros((1, 1, 4, 4), np.float32)
    wanted[0, 0, at, at] = 1
    assert_equal(down, wanted)


def test_C041_zeros_stay_zeros(implementation):
    shape, resized = (2, 256, 45, 18), (2, 256, 14, 24)
    poison(shape, np.float32)
    f = transpose(shape, resized, "float32", "torch", implementation)
    assert_equal(f(np.zeros(resized, np.float32)), np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("n", "rule", "dtype", "counts"),
    [
        pytest.param(82, "torch", "float32", [42, 40], id="C045"),
        pytest.param(41, "torch_exact", "float32", None, id="C046"),
        pytest.param(82, "torch", "float64", [42, 40], id="C046 float64"),
    ],
)
def test_C045_C046_as_many_come_back_as_were_copied(
    n, rule, dtype, counts, implementation
):
    copied = resize_nearest(
        np.arange(2), (n,), rule=rule, implementation=implementation
    )
    wanted = np.bincount(np.asarray(copied))
    assert counts is None or wanted.tolist() == counts
    f = transpose((2,), (n,), dtype, rule, implementation)
    assert_equal(f(np.ones(n, dtype)), wanted.astype(dtype))


@pytest.mark.parametrize("rule", RULES)
def test_C096_no_channels(rule, implementation):
    y = resize_nearest(
        np.zeros((4, 0, 16, 16)),
        (4, 0, 15, 17),
        rule=rule,
        implementation=implementation,
    )
    assert y.shape == (4, 0, 15, 17)


@pytest.mark.parametrize(
    ("shape", "resized", "axis"),
    [
        pytest.param((1, 1, 0, 4), (1, 1, 8, 8), 2, id="C097"),
        pytest.param((17, 10, 0, 0), (17, 10, 1, 1), 2, id="C099"),
        pytest.param((1, 0, 4, 3), (1, 8, 8, 3), 1, id="C100"),
    ],
)
def test_C097_C099_C100_no_neighbours(shape, resized, axis):
    with pytest.raises(ValueError, match=f"axis {axis} of x is empty"):
        resize_nearest(np.zeros(shape), resized)


def test_C097_nothing_from_nothing(implementation):
    y = resize_nearest(
        np.zeros((1, 1, 0, 4)), (1, 1, 0, 8), implementation=implementation
    )
    assert y.shape == (1, 1, 0, 8)


def test_C100_negative_size():
    with pytest.raises(ValueError, match=r"must not be negative, got \(-5,\)"):
        resize_nearest(np.arange(3), (-5,))
