"""The handlers check everything again: a stored program can call them with anything.

Called directly through `jax.ffi.ffi_call`, past every check of the Python side. Wrong
calls must come back as errors that name what was got, never as a crash or as values.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

from jax_upsample import _ffi

FWD, BWD = "jax_upsample_nearest_fwd_v1", "jax_upsample_nearest_bwd_v1"

pytestmark = pytest.mark.usefixtures("kernel")


def call(target, operand, shape, axes, scale, dtype=None, tiled=0):
    result = jax.ShapeDtypeStruct(shape, dtype or operand.dtype)
    attributes = {"axes": np.array(axes, np.int64), "scale": np.array(scale, np.int64)}
    attributes["tiled"] = np.int64(tiled)
    return jax.block_until_ready(
        jax.ffi.ffi_call(target, result)(operand, **attributes)
    )


@pytest.mark.parametrize(
    ("shape", "result", "axes", "scale"),
    [
        ((2, 3, 1, 4, 1, 5), (2, 3, 2, 4, 3, 5), (2, 4), (2, 3)),
        ((2, 3, 1, 4, 1), (2, 3, 2, 4, 2), (2, 4), (2, 2)),
        ((3, 1), (3, 7), (1,), (7,)),
    ],
    ids=["NHWC", "NCHW", "W"],
)
def test_interleaved_form(shape, result, axes, scale):
    """[.., H, 1, W, 1, ..] -> [.., H, sh, W, sw, ..], as sharded programs need it."""
    x = oracle.random_normal(shape, "float32")
    y = call(FWD, jnp.asarray(x), result, axes, scale)
    np.testing.assert_array_equal(y, oracle.upsample(x, axes, scale))
    g = oracle.random_normal(result, "float32")
    sums = call(BWD, jnp.asarray(g), shape, axes, scale)
    oracle.assert_summed(sums, g, axes, scale, "kernel")


X = (2, 3, 4, 5)
Y = (2, 6, 8, 5)


@pytest.mark.parametrize(
    ("small", "large", "axes", "scale", "message"),
    [
        (X, (2, 6, 8), (1, 2), (2, 2), "must have one rank, got 4 and 3"),
        (
            X,
            Y,
            (1, 2),
            (2,),
            "axes and scale must have one length of at most 3, got 2 and 1",
        ),
        ((1,) * 4, (1,) * 4, (0, 1, 2, 3), (1,) * 4, "at most 3, got 4 and 4"),
        (X, Y, (1, 4), (2, 2), r"lie in \[0, 4\), got \(1, 4\)"),
        (X, Y, (-1, 2), (2, 2), r"lie in \[0, 4\), got \(-1, 2\)"),
        (X, Y, (2, 1), (2, 2), r"must increase .* got \(2, 1\)"),
        (X, Y, (1, 1), (2, 2), r"must increase .* got \(1, 1\)"),
        (X, Y, (1, 2), (2, 0), r"scale must be positive, got \(2, 0\)"),
        (X, Y, (1, 2), (2, -2), r"scale must be positive, got \(2, -2\)"),
        (
            X,
            Y,
            (1, 2),
            (2, 3),
            "dimension 2 of the large array must be 3 times 4, got 8",
        ),
        (
            X,
            Y,
            (1, 2),
            (2, 2**62),
            "dimension 2 .* must be 4611686018427387904 times 4",
        ),
        (X, (2, 6, 8, 6), (1, 2), (2, 2), "dimension 3 .* must be 1 times 5, got 6"),
        (X, (3, 6, 8, 5), (1, 2), (2, 2), "dimension 0 .* must be 1 times 2, got 3"),
        (X, X, (1, 2), (2, 2), "dimension 1 .* must be 2 times 3, got 3"),
    ],
)
@pytest.mark.parametrize("target", [FWD, BWD])
def test_disagreeing_sizes(target, small, large, axes, scale, message):
    """As of an uneven shard: an error with names and numbers, never wrong values."""
    operand, result = (small, large) if target == FWD else (large, small)
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call(target, jnp.zeros(operand), result, axes, scale)


@pytest.mark.parametrize(
    ("small", "large", "axes", "scale"),
    [
        ((2, 3, 4, 5, 1, 1), (2, 3, 4, 5, 2, 3), (1, 2), (2, 2)),
        ((2, 3, 4, 5, 1, 2), (2, 3, 4, 5, 2, 2), (1, 2), (2, 2)),
        ((2, 3, 4, 5, 1, 1), (2, 3, 4, 5, 2, 2), (1, 4), (2, 2)),
        ((2, 3, 4, 5, 1, 1), (2, 3, 4, 5, 2, 2), (-1, 2), (2, 2)),
        ((2, 3, 4, 5, 1, 1), (2, 3, 3, 5, 2, 2), (1, 2), (2, 2)),
        ((2, 3, 4, 5, 1), (2, 3, 4, 5, 2, 2), (1, 2), (2, 2)),
        ((1,), (1,), (1, 2), (2, 2)),
        (X, Y, (1, 2), (2, 2)),
    ],
)
@pytest.mark.parametrize("target", [FWD, BWD])
def test_tiled_sizes_that_disagree(target, small, large, axes, scale):
    """As of a part of an array that another device has the rest of."""
    operand, result = (small, large) if target == FWD else (large, small)
    message = "no tiled array|must have one rank|dimension|must increase"
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        call(target, jnp.zeros(operand), result, axes, scale, tiled=1)


@pytest.mark.parametrize("target", [FWD, BWD])
def test_disagreeing_dtypes(target):
    operand, result = (X, Y) if target == FWD else (Y, X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="must have one dtype"):
        call(target, jnp.zeros(operand), result, (1, 2), (2, 2), dtype=jnp.int32)


def test_packed_dtype():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"the dtype of XLA.s code"):
        call(FWD, jnp.zeros(X, jnp.int4), Y, (1, 2), (2, 2))


@pytest.mark.parametrize("dtype", ["int32", "bool", "float8_e8m0fnu"])
def test_dtypes_without_a_sum(dtype):
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"no kernel for dtype {dtype}"
    ):
        call(BWD, jnp.ones(Y, dtype), X, (1, 2), (2, 2))


@pytest.mark.parametrize(
    "attributes",
    [
        {"axes": np.array([1, 2]), "scale": np.array([2, 2], np.int32)},
        {"axes": np.array([1, 2]), "scale": np.array([2.0, 2.0])},
        {"axes": np.array([1, 2]), "scale": np.int64(2)},
        {"axes": np.array([1, 2]), "scale": np.array([2, 2]), "more": np.int64(2)},
        {"axes": np.array([1, 2])},
    ],
    ids=["int32", "float", "scalar", "one too many", "one missing"],
)
def test_wrong_attributes(attributes):
    call = jax.ffi.ffi_call(FWD, jax.ShapeDtypeStruct(Y, jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"[Ww]rong|scale"):
        jax.block_until_ready(
            call(jnp.zeros(X, jnp.float32), tiled=np.int64(0), **attributes)
        )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_buffers(shape):
    large = (shape[0] * 2, shape[1])
    assert call(FWD, jnp.zeros(shape), large, (0,), (2,)).shape == large
    assert call(BWD, jnp.zeros(large), shape, (0,), (2,)).shape == shape


def test_no_axes_is_a_copy():
    x = oracle.random_normal((3, 5), "float32")
    np.testing.assert_array_equal(call(FWD, jnp.asarray(x), (3, 5), (), ()), x)
    np.testing.assert_array_equal(call(BWD, jnp.asarray(x), (3, 5), (), ()), x)


# -------------------------------------------------------------------- API versions


@pytest.mark.parametrize(
    ("compiled", "runtime", "message"),
    [
        ((0, 1), (0, 1), None),
        ((0, 1), (0, 5), None),
        ((0, 5), (0, 4), r"needs the XLA FFI API 0\.5, the installed jaxlib has 0\.4"),
        ((0, 1), (1, 0), r"needs the XLA FFI API 0\.1, the installed jaxlib has 1\.0"),
        ((0, 1), None, "could not be read"),
    ],
)
def test_api_versions_are_compared(compiled, runtime, message):
    problem = _ffi.version_problem(compiled, runtime)
    if message is None:
        assert problem is None
    else:
        assert re.search(message, problem)


def test_the_loaded_module_serves_this_runtime():
    extension = _ffi.EXTENSION
    assert extension.problem is None
    assert extension.runtime_api_version == _ffi.runtime_api_version()
    assert extension.api_version <= extension.runtime_api_version
    assert "cpu" in extension.platforms
