"""What must be refused, and how the refusal reads.

The silent bug behind this file: an argument that is nearly right (a float scale, an
axis given twice, a traced integer) and is rounded, wrapped or ignored instead of
refused. Every bad input has its exception type here, and a message that names the
function, the argument, what came and what was wanted.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_upsample import _ffi, upsample_nearest, upsample_nearest_custom_vjp
from jax_upsample._upsample_nearest import upsample_nearest_bwd_p

X = np.zeros((2, 4, 5, 3), np.float32)

BAD_ARGUMENTS = [
    # scale: positive integers, one or as many as axes
    ({"scale": 0}, ValueError, "scale must be at least 1, got 0"),
    ({"scale": -1}, ValueError, "scale must be at least 1, got -1"),
    ({"scale": (2, 0)}, ValueError, "scale must be at least 1, got (2, 0)"),
    ({"scale": 1.5}, TypeError, "scale must hold integers, got 1.5"),
    ({"scale": 2.0}, TypeError, "scale must hold integers, got 2.0"),
    ({"scale": True}, TypeError, "scale must hold integers, got True"),
    ({"scale": np.True_}, TypeError, "scale must hold integers, got np.True_"),
    ({"scale": "2"}, TypeError, "scale must hold integers, got '2'"),
    ({"scale": None}, TypeError, "scale must hold integers, got None"),
    ({"scale": [2, None]}, TypeError, "scale must hold integers, got None"),
    ({"scale": [2, True]}, TypeError, "scale must hold integers, got True"),
    ({"scale": np.float64(2)}, TypeError, "scale must hold integers, got np.float64"),
    ({"scale": np.array([[2]])}, TypeError, "scale must hold integers, got array([2])"),
    (
        {"scale": (2, 2, 2)},
        ValueError,
        "scale must be one integer or one for each of the 2 axes, got (2, 2, 2)",
    ),
    (
        {"scale": ()},
        ValueError,
        "scale must be one integer or one for each of the 2 axes, got ()",
    ),
    # axes: one to three different integers in [-rank, rank)
    (
        {"axes": (1, 4)},
        ValueError,
        "axes must lie in [-4, 4) for an array of rank 4, got (1, 4)",
    ),
    (
        {"axes": -5},
        ValueError,
        "axes must lie in [-4, 4) for an array of rank 4, got -5",
    ),
    ({"axes": (1, 1)}, ValueError, "axes must not repeat, got (1, 1)"),
    ({"axes": (1, -3)}, ValueError, "axes must not repeat, got (1, -3)"),
    (
        {"axes": (0, 1, 2, 3)},
        ValueError,
        "axes must name 1 to 3 axes, got (0, 1, 2, 3)",
    ),
    ({"axes": ()}, ValueError, "axes must name 1 to 3 axes, got ()"),
    ({"axes": 1.0}, TypeError, "axes must hold integers, got 1.0"),
    ({"axes": (1, 2.0)}, TypeError, "axes must hold integers, got 2.0"),
    ({"axes": True}, TypeError, "axes must hold integers, got True"),
    ({"axes": (1, False)}, TypeError, "axes must hold integers, got False"),
    ({"axes": "12"}, TypeError, "axes must hold integers, got '12'"),
    ({"axes": None}, TypeError, "axes must hold integers, got None"),
    # implementation: one of three values
    (
        {"implementation": "gpu"},
        ValueError,
        'implementation must be None, "kernel" or "xla", got \'gpu\'',
    ),
    (
        {"implementation": "Kernel"},
        ValueError,
        'implementation must be None, "kernel" or "xla", got \'Kernel\'',
    ),
    (
        {"implementation": np.array("xla")},
        ValueError,
        'implementation must be None, "kernel" or "xla", got array',
    ),
    # size: a scale of the right type that no buffer can hold
    ({"scale": 2**40}, ValueError, "2^63 bytes"),
    ({"scale": 2**70}, ValueError, "below 2^63"),
]
BAD_ARGUMENT_IDS = [
    " ".join(f"{name}={value!r}" for name, value in arguments.items())
    for arguments, _, _ in BAD_ARGUMENTS
]

NO_ARRAYS = [
    [1.0, 2.0],
    (1.0, 2.0),
    None,
    "12",
    3.0,
    True,
    jax.ShapeDtypeStruct((2, 4, 5, 3), np.float32),
]


@pytest.fixture(params=[upsample_nearest, upsample_nearest_custom_vjp])
def function(request):
    """Each public function: both check the same arguments."""
    return request.param


def begins_with(function, message):
    """A pattern for `match`: the function's name, and the message literally."""
    return f"^{function.__name__}: .*{re.escape(message)}"


@pytest.mark.parametrize(
    ("arguments", "exception", "message"), BAD_ARGUMENTS, ids=BAD_ARGUMENT_IDS
)
def test_bad_argument_is_refused(function, arguments, exception, message):
    """The exception has the right type, and names function, argument and value."""
    with pytest.raises(exception, match=begins_with(function, message)):
        function(X, **arguments)


@pytest.mark.parametrize(
    ("arguments", "exception", "message"), BAD_ARGUMENTS, ids=BAD_ARGUMENT_IDS
)
def test_bad_argument_is_refused_before_anything_is_traced(
    function, arguments, exception, message
):
    """Under a trace the refusal is the same, and leaves no equation behind."""

    def program(x):
        with pytest.raises(exception, match=begins_with(function, message)):
            function(x, **arguments)
        return x

    assert jax.make_jaxpr(program)(X).eqns == []


@pytest.mark.parametrize("x", NO_ARRAYS, ids=repr)
def test_x_that_is_no_array_is_refused(function, x):
    """Lists and Python scalars are not converted: the message says what came."""
    message = f"booleans or keys, got {type(x).__name__}"
    with pytest.raises(TypeError, match=begins_with(function, message)):
        function(x, axes=0)


@pytest.mark.parametrize("axes", [0, -1, (1, 2)])
def test_rank_0_array_is_refused(function, axes):
    """A scalar has no axis to repeat along."""
    message = "x must have at least one axis, got rank 0"
    with pytest.raises(ValueError, match=begins_with(function, message)):
        function(jnp.float32(1), axes=axes)


@pytest.mark.parametrize("name", ["scale", "axes"])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v, 2)], ids=["bare", "tuple"])
@pytest.mark.parametrize("value", [1, np.array([1, 2])], ids=["rank 0", "rank 1"])
def test_traced_argument_is_refused(function, name, value, wrap):
    """Shapes depend on `scale` and `axes`, so the message asks for static values."""
    message = f"{name} must be static, got the traced JitTracer"

    @jax.jit
    def program(value):
        with pytest.raises(TypeError, match=begins_with(function, message)):
            function(X, **{name: wrap(value)})
        return value

    program(value)


class TestOutputSize:
    """The bound of 2^63 bytes; shapes alone, nothing is allocated."""

    @pytest.mark.parametrize(
        ("shape", "dtype", "scale"),
        [
            ((2**40,), "int8", 2**23),
            ((2**40,), "float32", 2**21),
            ((2**30, 2**30), "complex128", 1 + 2**19),
            ((2**40, 2**22), "bool", (2, 1)),
            ((0, 2**40), "int8", (1, 2**23)),
        ],
    )
    def test_2_to_the_63_bytes_are_refused(self, function, shape, dtype, scale):
        """At the bound the message names the dtype, the shape and the scale."""
        x = jax.ShapeDtypeStruct(shape, dtype)
        axes = tuple(range(len(shape)))
        message = "2^63 bytes"
        with pytest.raises(ValueError, match=begins_with(function, message)) as error:
            jax.eval_shape(lambda x: function(x, scale, axes=axes), x)
        assert f"x is {dtype}{shape}" in str(error.value)

    @pytest.mark.parametrize(
        ("shape", "dtype", "scale"),
        [
            ((2**40,), "int8", 2**23 - 1),
            ((2**40,), "float32", 2**21 - 1),
            ((0, 2**40), "float32", 2**21),
        ],
    )
    def test_less_is_accepted(self, function, shape, dtype, scale):
        """One step below the bound, and beside a dimension of 0, shapes are right."""
        x = jax.ShapeDtypeStruct(shape, dtype)
        y = jax.eval_shape(lambda x: function(x, scale, axes=-1), x)
        assert y.shape == (*shape[:-1], shape[-1] * scale)
        assert y.dtype == x.dtype


class TestKernelWhereThereIsNone:
    """`implementation="kernel"` never falls back: it says why it cannot serve."""

    PROBLEM = "the compiled module could not be imported: it was eaten"

    @pytest.fixture
    def no_extension(self, monkeypatch):
        """A process in which the compiled module did not load."""
        extension = _ffi.Extension(
            None, self.PROBLEM, None, None, frozenset(), frozenset()
        )
        monkeypatch.setattr(_ffi, "EXTENSION", extension)

    @pytest.mark.usefixtures("no_extension")
    def test_missing_module_is_named(self, function):
        """The message holds the reason why the module did not load."""
        with pytest.raises(ValueError, match=begins_with(function, self.PROBLEM)):
            function(X, implementation="kernel")

    @pytest.mark.usefixtures("no_extension")
    def test_missing_module_leaves_xla(self, function):
        """Without the module plain XLA still serves, and upsamples."""
        y = function(np.arange(6).reshape(2, 3), axes=1, implementation="xla")
        np.testing.assert_array_equal(y, [[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]])

    def test_packed_dtype_is_named(self, function, kernel):
        """int4 shares bytes in XLA's buffers, where kernels would overrun them."""
        message = 'implementation="kernel" but no kernel takes dtype int4'
        with pytest.raises(ValueError, match=begins_with(function, message)):
            function(jnp.zeros((2, 4, 5, 3), jnp.int4), implementation=kernel)

    @pytest.mark.parametrize("direction", ["fwd", "bwd"])
    def test_other_platform_is_refused(self, function, kernel, direction):
        """Lowering for a platform without kernels fails, and lists those with."""

        def forward(x):
            return function(x, implementation=kernel)

        def backward(x):
            return jax.grad(lambda x: forward(x).sum())(x)

        program = {"fwd": forward, "bwd": backward}[direction]
        traced = jax.jit(program).trace(X)
        platforms = ", ".join(sorted(_ffi.EXTENSION.platforms))
        message = f'"kernel" but .* kernels exist for {platforms} only'
        with pytest.raises(ValueError, match=message):
            traced.lower(lowering_platforms=("tpu",))


@pytest.mark.parametrize("bind", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_cotangent_of_no_multiple_is_refused(bind):
    """The backward primitive, bound by hand, drops no rest of a division."""

    def program(g):
        return upsample_nearest_bwd_p.bind(
            g, axes=(1,), scale=(2,), implementation=None
        )

    message = "dimension 1 of (2, 5) must be a multiple of its scale 2"
    with pytest.raises(
        ValueError, match=f"^upsample_nearest_bwd: {re.escape(message)}"
    ):
        bind(program)(np.zeros((2, 5), np.float32))


@pytest.mark.parametrize("wrap", [list, np.array, jnp.array], ids=["list", "np", "jnp"])
def test_sequences_of_integers_are_accepted(function, wrap):
    """Lists and concrete arrays serve as well as tuples, also under a trace."""
    scale, axes = wrap((2, 3)), wrap((1, 2))

    @jax.jit
    def program(x):
        return function(x, scale, axes=axes)

    assert program(X).shape == (2, 8, 15, 3)
    assert function(X, range(2, 4), axes=range(1, 3)).shape == (2, 8, 15, 3)
