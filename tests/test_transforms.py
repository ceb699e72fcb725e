"""Every JAX transformation of `upsample_nearest`, against numpy.

The silent bugs behind this file: a batching rule that shifts the wrong axis, a
transpose that is not the transpose, a derivative that is right but made of scatters,
a cotangent of zero that still runs a kernel, equal calls that compile twice.

The data are small integers in float64, so that every value and every derivative is
exact in every order of summation and can be compared bit for bit. With y = up(x), S
the window sums and the loss sum(w y^3), calculus says: the gradient is S(3 w y^2),
the Hessian is diagonal with S(6 w y).
"""

import functools
import logging
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from conftest import assert_equal, equations, platform, primitives
from jax import export, lax
from jax.ad_checkpoint import checkpoint_name
from jax.dtypes import float0
from jax.experimental import checkify, jet
from jax.test_util import check_grads

from jax_upsample import (
    _ffi,
    export_disabled_checks,
    upsample_nearest,
    upsample_nearest_custom_vjp,
)

FWD, BWD = "upsample_nearest_fwd", "upsample_nearest_bwd"
SCALE = (2, 3)
LAYOUTS = {"NHWC": (1, 2), "NCHW": (2, 3)}
SHAPES = {"NHWC": (2, 3, 4, 2), "NCHW": (2, 2, 3, 4)}
AXES, SHAPE = LAYOUTS["NHWC"], SHAPES["NHWC"]
OUTPUT_SHAPE = (2, 6, 12, 2)


def integers(shape, seed=0):
    """Integers of -4 to 4 in float64."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


X, T, U = (integers(SHAPE, seed) for seed in (1, 2, 3))  # a point, two directions
W, CT = (integers(OUTPUT_SHAPE, seed) for seed in (4, 5))  # weights, a cotangent


def up(implementation, scale=SCALE, axes=AXES):
    """The function under test, of its array alone."""
    return functools.partial(
        upsample_nearest, scale=scale, axes=axes, implementation=implementation
    )


def cubic(f):
    """The loss of the module docstring."""
    return lambda x: (W * f(x) ** 3).sum()


def numpy_up(x, axes=AXES, scale=SCALE):
    return oracle.upsample(x, axes, scale)


def numpy_sums(g, axes=AXES, scale=SCALE):
    return oracle.window_sums(g, axes, scale)[0]


VALUE = np.sum(W * numpy_up(X) ** 3)
GRADIENT = numpy_sums(3 * W * numpy_up(X) ** 2)
HESSIAN = np.diag(numpy_sums(6 * W * numpy_up(X)).ravel()).reshape(SHAPE * 2)
HESSIAN_T = numpy_sums(6 * W * numpy_up(X)) * T
# up applied to each column of the unit matrix, the output's axes first.
JACOBIAN = numpy_up(np.eye(X.size).reshape(SHAPE * 2))


# -------------------------------------------------------------------- first derivatives


def with_closure_convert(f):
    """`f` through `jax.closure_convert`, whatever it closes over hoisted."""

    def converted(x):
        function, consts = jax.closure_convert(f, x)
        return function(x, *consts)

    return converted


def with_name(f):
    """`f` with its output named, for the policies that go by names."""
    return lambda x: checkpoint_name(f(x), "up")


POLICIES = jax.checkpoint_policies
WRAPPERS = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "jit(inline=True)": functools.partial(jax.jit, inline=True),
    "closure_convert": with_closure_convert,
    "remat": jax.checkpoint,
    "remat(everything_saveable)": functools.partial(
        jax.checkpoint, policy=POLICIES.everything_saveable
    ),
    "remat(nothing_saveable)": functools.partial(
        jax.checkpoint, policy=POLICIES.nothing_saveable
    ),
    "remat(dots_saveable)": functools.partial(
        jax.checkpoint, policy=POLICIES.dots_saveable
    ),
    "remat(save_only_these_names)": lambda f: jax.checkpoint(
        with_name(f), policy=POLICIES.save_only_these_names("up")
    ),
    "remat(save_any_names_but_these)": lambda f: jax.checkpoint(
        with_name(f), policy=POLICIES.save_any_names_but_these("up")
    ),
    "jit of remat": lambda f: jax.jit(jax.checkpoint(f)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
class TestWrapped:
    """Wrappers that must change no value and no derivative."""

    def test_value(self, implementation, wrap):
        """The forward is the oracle's."""
        assert_equal(wrap(up(implementation))(X), numpy_up(X))

    def test_value_and_grad(self, implementation, wrap):
        """The loss and its gradient are exact, wrapped inside."""
        value, gradient = jax.value_and_grad(cubic(wrap(up(implementation))))(X)
        assert_equal(value, VALUE)
        assert_equal(gradient, GRADIENT)

    def test_jvp(self, implementation, wrap):
        """Forward mode too, of the wrapped function."""
        y, tangent = jax.jvp(wrap(up(implementation)), (X,), (T,))
        assert_equal(y, numpy_up(X))
        assert_equal(tangent, numpy_up(T))

    def test_hessian_vector_product(self, implementation, wrap):
        """And the second order, forward over reverse."""
        gradient = jax.grad(wrap(cubic(up(implementation))))
        assert_equal(jax.jvp(gradient, (X,), (T,))[1], HESSIAN_T)


def test_disable_jit(implementation):
    """Step by step, for debugging, the numbers are the same."""
    with jax.disable_jit():
        value, gradient = jax.value_and_grad(cubic(up(implementation)))(X)
    assert_equal(value, VALUE)
    assert_equal(gradient, GRADIENT)


def test_grad(implementation):
    """The gradient of a loss that is not linear."""
    assert_equal(jax.grad(cubic(up(implementation)))(X), GRADIENT)


def test_vjp(implementation):
    """The pullback sums windows of the cotangent."""
    y, pullback = jax.vjp(up(implementation), X)
    assert_equal(y, numpy_up(X))
    (cotangent,) = pullback(CT)
    assert_equal(cotangent, numpy_sums(CT))


def test_linearize(implementation):
    """The linear part is the function itself, at any tangent."""
    y, linear = jax.linearize(up(implementation), X)
    assert_equal(y, numpy_up(X))
    assert_equal(linear(T), numpy_up(T))
    assert_equal(linear(U), numpy_up(U))


@pytest.mark.parametrize("times", [1, 2, 3])
def test_linear_transpose(implementation, times):
    """Transposed once it sums, twice it repeats, three times it sums."""
    f, example = up(implementation), X
    for _ in range(times):
        transposed = jax.linear_transpose(f, example)
        f = functools.partial(lambda f, ct: f(ct)[0], transposed)
        example = CT if example is X else X
    assert_equal(f(example), [numpy_up, numpy_sums][times % 2](example))


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_jacobian(implementation, jacobian):
    """Both modes give the dense matrix of the map."""
    assert_equal(jacobian(up(implementation))(X), JACOBIAN)


def test_transpose_is_the_adjoint(implementation):
    """<up(x), g> = <x, pullback(g)>, exactly."""
    y, pullback = jax.vjp(up(implementation), X)
    (cotangent,) = pullback(CT)
    assert np.vdot(y, CT) == np.vdot(X, cotangent)


# ------------------------------------------------------------------- higher derivatives

MODES = [jax.jacfwd, jax.jacrev]


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("inner", MODES)
def test_second_derivative(implementation, outer, inner):
    """All four orders of forward and reverse give the dense Hessian."""
    assert_equal(outer(inner(cubic(up(implementation))))(X), HESSIAN)


def test_hessian(implementation):
    """`jax.hessian`, as users call it, under jit."""
    assert_equal(jax.jit(jax.hessian(cubic(up(implementation))))(X), HESSIAN)


def test_hessian_vector_product_forward_over_reverse(implementation):
    """jvp of grad."""
    gradient = jax.grad(cubic(up(implementation)))
    assert_equal(jax.jvp(gradient, (X,), (T,))[1], HESSIAN_T)


def test_hessian_vector_product_reverse_over_forward(implementation):
    """grad of jvp."""
    loss = cubic(up(implementation))
    product = jax.grad(lambda x: jax.jvp(loss, (x,), (T,))[1])(X)
    assert_equal(product, HESSIAN_T)


def test_hessian_vector_product_reverse_over_reverse(implementation):
    """grad of <grad, t>."""
    gradient = jax.grad(cubic(up(implementation)))
    assert_equal(jax.grad(lambda x: (gradient(x) * T).sum())(X), HESSIAN_T)


def test_vjp_of_vjp(implementation):
    """The pullback is linear, and its own pullback is the forward."""

    def pull(g):
        return jax.vjp(up(implementation), X)[1](g)[0]

    summed, pullback = jax.vjp(pull, CT)
    assert_equal(summed, numpy_sums(CT))
    assert_equal(pullback(T)[0], numpy_up(T))


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_third_order_against_finite_differences(implementation, mode):
    """Three orders of each mode agree with numerical derivatives."""
    f = up(implementation, scale=(2, 3), axes=(0, 1))
    x = np.random.default_rng(0).standard_normal((2, 2))
    check_grads(lambda x: jnp.sin(f(x)), (x,), order=3, modes=[mode])


def test_jet(implementation):
    """Taylor coefficients: those of an upsampling are upsampled."""
    f = up(implementation)
    series = [integers(SHAPE, seed) for seed in (1, 2, 3)]
    y, coefficients = jet.jet(f, (X,), (series,))
    for actual, x in zip([y, *coefficients], [X, *series], strict=True):
        np.testing.assert_allclose(actual, numpy_up(x, AXES), rtol=1e-12)


# ------------------------------------------------------------------------- control flow

XS = integers((3, *SHAPE), 6)
WS = integers((3, *OUTPUT_SHAPE), 7)
XS_AXES = tuple(axis + 1 for axis in AXES)


def test_grad_of_scan(implementation):
    """Upsampling step by step, in the carry and in the stacked outputs."""
    f = up(implementation)

    def loss(xs):
        def body(total, x):
            return total + (2 * f(x)).sum(), f(x) ** 2

        total, ys = lax.scan(body, 0.0, xs)
        return total + (WS * ys).sum()

    expected = numpy_sums(2 + 2 * WS * numpy_up(XS, XS_AXES), XS_AXES)
    assert_equal(jax.grad(loss)(XS), expected)


def test_grad_of_map(implementation):
    """`lax.map` over the leading axis."""
    gradient = jax.grad(lambda xs: (WS * lax.map(up(implementation), xs)).sum())(XS)
    assert_equal(gradient, numpy_sums(WS, XS_AXES))


@pytest.mark.parametrize("taken", [True, False])
def test_grad_of_cond(implementation, taken):
    """Only the branch that is taken contributes."""
    f = up(implementation)

    def loss(x, predicate):
        y = lax.cond(predicate, f, lambda x: 5 * f(2 * x), x)
        return (W * y).sum()

    factor = 1 if taken else 10
    assert_equal(jax.grad(loss)(X, taken), factor * numpy_sums(W))


def test_jvp_of_fori_loop(implementation):
    """Forward mode through a loop whose trip count is traced."""
    f = up(implementation)

    def loop(x, count):
        start = jnp.zeros(OUTPUT_SHAPE)
        return lax.fori_loop(0, count, lambda i, y: y + i * f(x), start)

    value, tangent = jax.jit(
        lambda x, t, count: jax.jvp(lambda x: loop(x, count), (x,), (t,))
    )(X, T, 4)
    assert_equal(value, 6 * numpy_up(X))
    assert_equal(tangent, 6 * numpy_up(T))


# --------------------------------------------------------------------------------- vmap


def stacked(shape, batch_axis, seed=8, size=2):
    """A batch of arrays of `shape`, the batch at `batch_axis`."""
    return integers((*shape[:batch_axis], size, *shape[batch_axis:]), seed)


def batched_axes(axes, batch_axis):
    """Where `axes` of an unbatched array lie, beside a batch at `batch_axis`."""
    without = [a for a in range(5) if a != batch_axis]
    return tuple(without[a] for a in axes)


EVERY_BATCH_AXIS = pytest.mark.parametrize("batch_axis", range(5))
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


@EVERY_LAYOUT
@pytest.mark.parametrize("in_axis", range(5))
@pytest.mark.parametrize("out_axis", range(5))
def test_vmap(implementation, layout, in_axis, out_axis):
    """From every batch axis to every other: the forward."""
    axes = LAYOUTS[layout]
    x = stacked(SHAPES[layout], in_axis)
    f = jax.vmap(up(implementation, axes=axes), in_axis, out_axis)
    expected = numpy_up(x, batched_axes(axes, in_axis))
    assert_equal(f(x), np.moveaxis(expected, in_axis, out_axis))


@EVERY_LAYOUT
@EVERY_BATCH_AXIS
def test_vmap_of_pullback(implementation, layout, batch_axis):
    """From every batch axis: the backward."""
    axes = LAYOUTS[layout]
    f = up(implementation, axes=axes)
    x = integers(SHAPES[layout])
    g = stacked(numpy_up(x, axes).shape, batch_axis)
    pull = jax.vmap(lambda g: jax.vjp(f, x)[1](g)[0], batch_axis, batch_axis)
    assert_equal(pull(g), numpy_sums(g, batched_axes(axes, batch_axis)))


@EVERY_LAYOUT
@EVERY_BATCH_AXIS
def test_vmap_moves_no_axis(layout, batch_axis):
    """The batch stays where it is, also between the spatial axes: no transpose."""
    axes = LAYOUTS[layout]
    f = up(None, axes=axes)
    x = stacked(SHAPES[layout], batch_axis)

    def mapped(x):
        return jax.vmap(f, batch_axis, batch_axis)(x)

    assert primitives(mapped, x) == [FWD]
    assert primitives(jax.linear_transpose(mapped, x), mapped(x)) == [BWD]
    assert "transpose" not in jax.jit(mapped).lower(x).as_text()


@pytest.mark.parametrize("outer", [0, 2, 3, 5])
@pytest.mark.parametrize("inner", [0, 2, 4])
def test_nested_vmap(implementation, outer, inner):
    """Two batch axes, outside, between and beside the spatial ones."""
    shape = [*SHAPE[:inner], 2, *SHAPE[inner:]]
    x = integers([*shape[:outer], 3, *shape[outer:]], 9)
    f = jax.vmap(jax.vmap(up(implementation), inner, inner), outer, outer)
    axes = [a for a in range(6) if a != outer]
    axes = [a for i, a in enumerate(axes) if i != inner]
    assert_equal(f(x), numpy_up(x, [axes[a] for a in AXES]))
    assert primitives(f, x) == [FWD]


@EVERY_BATCH_AXIS
def test_vmap_of_grad(implementation, batch_axis):
    """Gradients by example."""
    x = stacked(SHAPE, batch_axis)
    gradient = jax.vmap(jax.grad(cubic(up(implementation))), batch_axis, batch_axis)
    examples = np.moveaxis(x, batch_axis, 0)
    expected = [numpy_sums(3 * W * numpy_up(example) ** 2) for example in examples]
    assert_equal(gradient(x), np.stack(expected, batch_axis))


@EVERY_BATCH_AXIS
def test_vmap_of_jvp(implementation, batch_axis):
    """Tangents by example, primal and tangent batched at different axes."""
    x, t = stacked(SHAPE, batch_axis), stacked(SHAPE, 0, seed=9)
    push = jax.vmap(
        lambda x, t: jax.jvp(up(implementation), (x,), (t,)), (batch_axis, 0)
    )
    value, tangent = push(x, t)
    moved = np.moveaxis(x, batch_axis, 0)
    assert_equal(value, numpy_up(moved, XS_AXES))
    assert_equal(tangent, numpy_up(t, XS_AXES))


@pytest.mark.parametrize("batch_axis", [0, 2, 4])
def test_vmap_of_hessian(implementation, batch_axis):
    """Second derivatives by example: batching under two orders."""
    x = stacked(SHAPE, batch_axis)
    hessian = jax.vmap(jax.hessian(cubic(up(implementation))), batch_axis)
    examples = np.moveaxis(x, batch_axis, 0)
    diagonals = [numpy_sums(6 * W * numpy_up(example)) for example in examples]
    expected = [np.diag(d.ravel()).reshape(SHAPE * 2) for d in diagonals]
    assert_equal(hessian(x), np.stack(expected))


def test_grad_of_vmap(implementation):
    """The other nesting, batched between the spatial axes."""
    x, w = stacked(SHAPE, 2), stacked(OUTPUT_SHAPE, 2)
    f = jax.vmap(up(implementation), 2, 2)
    gradient = jax.grad(lambda x: (w * f(x)).sum())(x)
    assert_equal(gradient, numpy_sums(w, batched_axes(AXES, 2)))


def test_vmap_leaves_an_unbatched_operand_unbatched():
    """What does not depend on the batch is computed once."""
    program = jax.vmap(lambda a, x: a * up(None)(x), in_axes=(0, None))
    jaxpr = jax.make_jaxpr(program)(np.ones(7), X)
    (eqn,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == FWD]
    assert eqn.outvars[0].aval.shape == OUTPUT_SHAPE


def test_vmap_with_collective(implementation):
    """Named batch axes: the mean over the batch, subtracted before upsampling."""
    f = up(implementation)
    program = jax.vmap(lambda x: f(2 * x - lax.psum(x, "batch")), axis_name="batch")
    x = stacked(SHAPE, 0)
    expected = numpy_up(2 * x - x.sum(0, keepdims=True), XS_AXES)
    assert_equal(program(x), expected)


# -------------------------------------------------------- what the programs are made of


def test_pullback_is_the_backward_primitive_alone():
    """The gradient's jaxpr: the backward once, the forward never."""
    pullback = jax.vjp(up(None), X)[1]
    assert primitives(pullback, CT) == [BWD]


@pytest.mark.parametrize("function", [upsample_nearest, upsample_nearest_custom_vjp])
def test_pullback_keeps_no_residuals(function):
    """The map is linear: between forward and backward nothing is stored."""
    pullback = jax.vjp(lambda x: function(x, SCALE), X)[1]
    assert jax.tree.leaves(pullback) == []


def test_pushforward_is_the_forward_primitive_alone():
    """Forward mode runs the forward on the tangent and nothing else."""
    _, linear = jax.linearize(up(None), X)
    assert set(primitives(linear, T)) - {"pjit", "jit"} == {FWD}


def test_compiled_gradient_calls_the_backward_kernel_once(kernel):
    """Of a linear loss: no forward, one backward."""
    gradient = jax.grad(lambda x: (W * up(kernel)(x)).sum())
    text = jax.jit(gradient).lower(X).as_text()
    assert len(re.findall(r"custom_call @jax_upsample_nearest_bwd", text)) == 1
    assert "jax_upsample_nearest_fwd" not in text


PROGRAMS = {
    "value_and_grad": lambda f: jax.value_and_grad(cubic(f)),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "hessian": lambda f: jax.hessian(cubic(f)),
    "vmap(grad)": lambda f: lambda x: jax.vmap(jax.grad(cubic(f)))(x[None]),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_implementation_survives_every_rule(kernel, program):
    """What was asked for is asked for still, batched, pushed and transposed."""
    kept = [
        eqn.params["implementation"]
        for eqn in equations(program(up(kernel)), X)
        if eqn.primitive.name in (FWD, BWD)
    ]
    assert len(kept) >= 2
    assert set(kept) == {kernel}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_no_gather_and_no_scatter(implementation, program):
    """Neither in what is handed to XLA nor in what XLA makes of it."""
    lowered = jax.jit(program(up(implementation))).lower(X)
    assert not re.search(r"stablehlo\.\w*(gather|scatter)", lowered.as_text())
    assert not re.search(r" \w*(gather|scatter)\(", lowered.compile().as_text())


@pytest.mark.parametrize(
    "loss",
    [
        lambda f, x: f(lax.stop_gradient(x)).sum() + x.sum(),
        lambda f, x: lax.stop_gradient(f(x)).sum() + x.sum(),
        lambda f, x: jnp.sign(f(x)).sum() + x.sum(),
    ],
    ids=["stop_gradient of x", "stop_gradient of y", "derivative 0 above"],
)
def test_zero_cotangent_runs_no_backward(implementation, loss):
    """A symbolic zero passes through, and the gradient is that of the rest."""
    gradient = jax.grad(functools.partial(loss, up(implementation)))
    assert BWD not in primitives(gradient, X)
    assert_equal(gradient(X), np.ones(SHAPE))


def test_zero_tangent_runs_no_second_forward():
    """In forward mode likewise: a constant has no tangent to repeat."""

    def push(x, t):
        return jax.jvp(lambda t: t.sum() * up(None)(x), (t,), (t,))

    assert primitives(push, X, T).count(FWD) == 1


def test_named_scope_reaches_the_program(implementation):
    """Profiles show the user's names, of the forward and of the backward."""

    @jax.jit
    def gradient(x):
        def loss(x):
            with jax.named_scope("decoder"), jax.named_scope("up1"):
                y = up(implementation)(x)
            return (W * y**2).sum()

        return jax.grad(loss)(x)

    lowered = gradient.lower(X)
    for text in lowered.as_text(debug_info=True), lowered.compile().as_text():
        assert re.search(r"[/\"]jvp\(decoder\)?/up1", text)
        assert re.search(r"transpose\(jvp\(decoder\)*/up1", text)


# --------------------------------------------------------------------- tracing, caching


def test_eval_shape(implementation):
    """Shapes without arrays, of a tensor far too large to allocate."""
    x = jax.ShapeDtypeStruct((2**15, 2**15, 2**15, 2), jnp.bfloat16)
    y = jax.eval_shape(up(implementation), x)
    assert (y.shape, y.dtype) == ((2**15, 2**16, 3 * 2**15, 2), jnp.bfloat16)


def test_weak_type_is_kept(implementation):
    """A Python scalar's array promotes after upsampling as it did before."""
    weak = jnp.broadcast_to(jnp.asarray(2.0), SHAPE)
    assert weak.weak_type
    f = up(implementation)
    assert f(weak).weak_type
    assert jax.vjp(f, weak)[1](f(weak))[0].weak_type
    assert not f(X).weak_type


EQUIVALENT_ARGUMENTS = {
    "axes swapped with their scales": {"scale": (3, 2), "axes": (2, 1)},
    "negative axes": {"scale": (2, 3), "axes": (-3, -2)},
    "axes and scales of 1 left out": {"scale": (2, 1, 3), "axes": (1, 3, 2)},
    "lists": {"scale": [2, 3], "axes": [1, 2]},
    "numpy integers": {"scale": np.array([2, 3]), "axes": np.array([1, 2], np.int8)},
    "JAX integers": {"scale": jnp.array([2, 3]), "axes": jnp.array([1, 2])},
}


@pytest.mark.parametrize(
    "arguments", EQUIVALENT_ARGUMENTS.values(), ids=EQUIVALENT_ARGUMENTS.keys()
)
class TestEquivalentArguments:
    """One operation has one form: it is traced and compiled once."""

    def test_equal_parameters(self, arguments):
        """The jaxprs are equal, parameter by parameter."""
        params = [
            jax.make_jaxpr(functools.partial(upsample_nearest, **kwargs))(X)
            .eqns[0]
            .params
            for kwargs in (arguments, {"scale": (2, 3), "axes": (1, 2)})
        ]
        assert params[0] == params[1]
        assert hash(tuple(params[0].items())) == hash(tuple(params[1].items()))

    def test_equal_values(self, implementation, arguments):
        """And the values are those of the plain spelling."""
        y = upsample_nearest(X, implementation=implementation, **arguments)
        assert_equal(y, numpy_up(X))


@pytest.mark.parametrize("arguments", [{"scale": 1}, {"scale": (1, 1), "axes": (0, 3)}])
def test_scale_1_is_no_operation(implementation, arguments):
    """Nothing is bound: the array passes through, numpy's as a JAX array."""
    f = functools.partial(upsample_nearest, implementation=implementation, **arguments)
    assert primitives(f, X) == []
    assert isinstance(f(X), jax.Array)
    assert_equal(f(X), X)


def test_equal_calls_compile_once(implementation, caplog):
    """Called eagerly, equal and equivalent calls share one compiled program."""
    x = np.ones((1, 7, 11, 13))  # of a shape that no other test compiles
    f = functools.partial(upsample_nearest, x, implementation=implementation)
    calls = [
        {"scale": (2, 3)},
        {"scale": (2, 3)},
        {"scale": (3, 2), "axes": (2, 1)},
        {"scale": [2, 3], "axes": (-3, -2)},
    ]
    compiled = []
    for arguments in calls:
        caplog.clear()
        with jax.log_compiles(), caplog.at_level(logging.WARNING):
            f(**arguments)
        compiled.append(len(re.findall(f"Compiling .*{FWD}", caplog.text)))
    assert compiled == [1, 0, 0, 0]


def test_static_arguments_of_jit(implementation):
    """The function itself can be jitted, its options static."""
    f = jax.jit(upsample_nearest, static_argnames=("scale", "axes", "implementation"))
    y = f(X, scale=SCALE, axes=AXES, implementation=implementation)
    assert_equal(y, numpy_up(X))


def test_compile_time_evaluation_inside_jit(implementation):
    """`jax.ensure_compile_time_eval` makes a constant of a constant's upsampling."""

    @jax.jit
    def program(x):
        with jax.ensure_compile_time_eval():
            constant = up(implementation)(jnp.asarray(T))
            assert isinstance(constant, jax.Array)
            assert not isinstance(constant, jax.core.Tracer)
        return constant * x.sum()

    assert_equal(program(X), numpy_up(T) * X.sum())


# --------------------------------------------------------------- debugging, and buffers


@pytest.mark.parametrize("order", ["forward", "gradient"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_debug_nans_raises(implementation, wrap, order):
    """A NaN that passes through is reported, in both directions."""
    program = wrap(up(implementation))
    x = X
    if order == "gradient":
        x, program = CT, wrap(jax.linear_transpose(up(implementation), X))
    nans = np.where(np.arange(x.size).reshape(x.shape) == 5, np.nan, x)
    program(nans)  # without the flag it passes
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        program(nans)


def test_debug_nans_lets_numbers_pass(implementation):
    """With the flag, finite numbers are no error."""
    with jax.debug_nans(True):
        gradient = jax.grad(cubic(up(implementation)))(X)
    assert_equal(gradient, GRADIENT)


def test_no_tracer_leaks(implementation):
    """No rule keeps a tracer."""
    with jax.checking_leaks():
        gradient = jax.jit(jax.grad(cubic(up(implementation))))(X)
        hessian = jax.hessian(cubic(up(implementation)))(X)
    assert_equal(gradient, GRADIENT)
    assert_equal(hessian, HESSIAN)


@pytest.mark.parametrize("sign", [1, -1], ids=["no error", "error"])
def test_checkify(implementation, sign):
    """Errors found around the function come out, its values and gradients too."""
    x = sign * (1 + np.abs(X))

    def loss(x):
        return (W * up(implementation)(jnp.sqrt(x))).sum()

    checked = checkify.checkify(jax.value_and_grad(loss), checkify.float_checks)
    error, (value, gradient) = jax.jit(checked)(x)
    if sign < 0:
        assert "nan generated by primitive: sqrt" in error.get()
        return
    assert error.get() is None
    np.testing.assert_allclose(value, np.sum(W * numpy_up(np.sqrt(x))), rtol=1e-12)
    expected = numpy_sums(W) / (2 * np.sqrt(x))
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_donation_without_a_use(implementation):
    """The output is larger than the input: JAX says so, and the value is right."""
    f = jax.jit(up(implementation), donate_argnums=0)
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        y = f(jnp.asarray(X))
    assert_equal(y, numpy_up(X))


def test_donation_into_the_result(implementation):
    """Upsampled and summed back into the buffer of the input: no read after write."""
    f = up(implementation)

    @functools.partial(jax.jit, donate_argnums=0)
    def program(x):
        return x + jax.vjp(f, x)[1](f(x) * CT)[0]

    x = jnp.array(X)
    y = program(x)
    assert x.is_deleted()
    assert_equal(y, X + numpy_sums(numpy_up(X) * CT))


# ------------------------------------------------------------------- dtypes of tangents


@pytest.mark.parametrize("function", [upsample_nearest, upsample_nearest_custom_vjp])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
class TestIntegerInput:
    """Integers have tangents of type float0, and no kernel runs for them."""

    def test_jvp(self, implementation, function, dtype):
        """A float0 tangent comes out as one, in the output's shape."""
        x = X.astype(dtype)
        f = functools.partial(function, scale=SCALE, implementation=implementation)
        y, tangent = jax.jvp(f, (x,), (np.zeros(SHAPE, float0),))
        assert_equal(y, numpy_up(x))
        assert (tangent.shape, tangent.dtype) == (OUTPUT_SHAPE, float0)

    def test_vjp(self, implementation, function, dtype):
        """The pullback of a float0 cotangent, in the input's shape."""
        f = functools.partial(function, scale=SCALE, implementation=implementation)
        _, pullback = jax.vjp(f, X.astype(dtype))
        (cotangent,) = pullback(np.zeros(OUTPUT_SHAPE, float0))
        assert (cotangent.shape, cotangent.dtype) == (SHAPE, float0)

    def test_grad_allow_int(self, implementation, function, dtype):
        """`allow_int=True` gives float0, without the backward primitive."""
        f = functools.partial(function, scale=SCALE, implementation=implementation)
        gradient = jax.grad(lambda x: f(x).astype(float).sum(), allow_int=True)
        x = X.astype(dtype)
        assert (gradient(x).shape, gradient(x).dtype) == (SHAPE, float0)
        assert BWD not in primitives(gradient, x)


def test_x64_off_makes_float32(implementation):
    """Without x64 a float64 array becomes float32 as everywhere in JAX."""
    # Arrays of this test's own: JAX 0.12 remembers the dtype of numpy constants.
    x, w = integers(SHAPE, 11), integers(OUTPUT_SHAPE, 12).astype(np.float32)
    f = up(implementation)
    with jax.enable_x64(False):
        y = f(x)
        gradient = jax.grad(lambda x: (w * f(x) ** 2).sum())(x)
        labels = f(x.astype(np.int64))
    x = x.astype(np.float32)
    assert_equal(y, numpy_up(x))
    assert_equal(gradient, numpy_sums(2 * w * numpy_up(x)).astype(np.float32))
    assert_equal(labels, numpy_up(x.astype(np.int32)))


# --------------------------------------------------------------------------- custom_vjp

LOWERED = {
    "grad": lambda f: jax.grad(cubic(f)),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](CT),
    "hessian": lambda f: jax.hessian(cubic(f)),
    "vmap(grad)": lambda f: lambda x: jax.vmap(jax.grad(cubic(f)), 2)(x[:, :, None]),
}


class TestCustomVjp:
    """`upsample_nearest_custom_vjp`: the same programs, reverse mode only."""

    @staticmethod
    def up(implementation):
        """The function under test, of its array alone."""
        return lambda x: upsample_nearest_custom_vjp(x, SCALE, AXES, implementation)

    def test_value_and_grad(self, implementation):
        """Same values and the same gradients."""
        f = self.up(implementation)
        value, gradient = jax.value_and_grad(cubic(f))(X)
        assert_equal(f(X), numpy_up(X))
        assert_equal(value, VALUE)
        assert_equal(gradient, GRADIENT)

    @pytest.mark.parametrize("outer", MODES)
    def test_second_derivative(self, implementation, outer):
        """Over reverse mode, both modes work: the rules bind the primitives."""
        f = self.up(implementation)
        assert_equal(outer(jax.jacrev(cubic(f)))(X), HESSIAN)

    @pytest.mark.parametrize("program", LOWERED.values(), ids=LOWERED.keys())
    def test_gradient_is_the_same_stablehlo(self, implementation, program):
        """Text for text, but for the module's name."""
        texts = [
            re.sub(r"module @\S+", "module", jax.jit(program(f)).lower(X).as_text())
            for f in (self.up(implementation), up(implementation))
        ]
        assert texts[0] == texts[1]

    @pytest.mark.parametrize("transform", ["jvp", "jacfwd"])
    def test_forward_mode_is_refused(self, transform):
        """JAX has no forward mode for a custom_vjp, and says so."""
        f = self.up(None)
        push = {
            "jvp": lambda: jax.jvp(f, (X,), (T,)),
            "jacfwd": lambda: jax.jacfwd(f)(X),
        }[transform]
        with pytest.raises(TypeError, match=r"forward-mode .* custom_vjp"):
            push()


# ------------------------------------------------------------------------------- export

CHECKS = export_disabled_checks()


def restored(f, *args, **options):
    """`f` exported, written to bytes with its gradient, and read back."""
    exported = export.export(jax.jit(f), **options)(*args)
    return export.deserialize(exported.serialize(vjp_order=1))


def assert_upsamples(exported, x, axes, ct_seed=10):
    """Value and gradient of a restored program."""
    y = exported.call(x)
    assert_equal(y, numpy_up(x, axes))
    w = integers(y.shape, ct_seed)
    gradient = jax.grad(lambda x: (w * exported.call(x)).sum())(x)
    assert_equal(gradient, numpy_sums(w, axes))


class TestExport:
    """Stored programs: what is saved today runs elsewhere and later."""

    def test_round_trip(self, implementation):
        """To bytes and back, gradient included."""
        f = up(implementation)
        spec = jax.ShapeDtypeStruct(SHAPE, np.float64)
        exported = restored(f, spec, disabled_checks=CHECKS)
        assert_upsamples(exported, X, AXES)

    def test_xla_needs_no_disabled_checks(self):
        """`implementation="xla"` is made of StableHLO alone."""
        exported = restored(up("xla"), jax.ShapeDtypeStruct(SHAPE, np.float64))
        assert "custom_call" not in exported.mlir_module()
        assert_upsamples(exported, X, AXES)

    def test_kernel_needs_disabled_checks(self, kernel):
        """JAX stores no custom call unasked: whoever does so, knows."""
        spec = jax.ShapeDtypeStruct(SHAPE, np.float64)
        with pytest.raises(ValueError, match="jax_upsample_nearest_fwd_v1"):
            export.export(jax.jit(up(kernel)))(spec)

    @pytest.mark.parametrize(
        ("dimensions", "output", "shape"),
        [
            ("n, 2, 3, 4", "(n, 2, 6, 12)", (5, 2, 3, 4)),
            ("2, c, 3, 4", "(2, c, 6, 12)", (2, 3, 3, 4)),
            ("2, 2, h, 4", "(2, 2, 2*h, 12)", (2, 2, 7, 4)),
            ("2, 2, 3, w", "(2, 2, 6, 3*w)", (2, 2, 3, 1)),
            ("n, c, h, w", "(n, c, 2*h, 3*w)", (5, 3, 2, 7)),
            ("n, c, 2*h, 4*h + 1", "(n, c, 4*h, 12*h + 3)", (1, 2, 6, 13)),
        ],
    )
    def test_symbolic_shapes(self, implementation, dimensions, output, shape):
        """Sizes left open: one program for all, gradient included."""
        spec = jax.ShapeDtypeStruct(export.symbolic_shape(dimensions), np.float64)
        f = up(implementation, axes=LAYOUTS["NCHW"])
        exported = restored(f, spec, disabled_checks=CHECKS)
        assert str(exported.out_avals[0].shape).replace("'", "") == output
        assert_upsamples(exported, integers(shape), LAYOUTS["NCHW"])

    def test_several_platforms(self):
        """One program for CPU, CUDA and TPU, whatever the machine that exports."""
        spec = jax.ShapeDtypeStruct(SHAPE, np.float64)
        platforms = ["cpu", "cuda", "tpu"]
        with warnings.catch_warnings():
            # Where there are no CUDA kernels the CUDA branch is plain XLA too.
            warnings.filterwarnings("ignore", "jax_upsample has no CUDA kernels")
            exported = restored(
                up(None), spec, platforms=platforms, disabled_checks=CHECKS
            )
        assert exported.platforms == tuple(platforms)
        calls = exported.mlir_module().count("custom_call @jax_upsample_nearest_fwd_v1")
        assert calls == ("cuda" in _ffi.EXTENSION.platforms)
        if platform() not in platforms:
            pytest.skip(f"exported for {platforms}, not for {platform()}")
        assert_upsamples(exported, X, AXES)
