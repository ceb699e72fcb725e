"""What each platform's program holds: text only, so CUDA's needs no GPU."""

import re
import warnings

import jax
import jax.numpy as jnp
import oracle
import pytest

from jax_upsample import _ffi, resize_nearest, upsample_nearest

FWD, BWD = "jax_upsample_nearest_fwd_v1", "jax_upsample_nearest_bwd_v1"


def text(platform, implementation=None, gradient=False, dtype="float32", axes=(1, 2)):
    def up(x):
        return upsample_nearest(x, (2, 3), axes=axes, implementation=implementation)

    def backward(g):
        x_like = jax.ShapeDtypeStruct((2, 4, 5, 6), g.dtype)
        return jax.linear_transpose(up, x_like)(g)[0]

    large = oracle.upsample(
        oracle.random_bits((2, 4, 5, 6), "uint8"), axes, (2, 3)
    ).shape
    operand = jax.ShapeDtypeStruct(large if gradient else (2, 4, 5, 6), dtype)
    traced = jax.jit(backward if gradient else up).trace(operand)
    return traced.lower(lowering_platforms=(platform,)).as_text()


def custom_calls(text):
    return re.findall(r"stablehlo\.custom_call @(\w+)", text)


@pytest.mark.usefixtures("cuda_kernels")
@pytest.mark.parametrize("implementation", [None, "kernel"])
@pytest.mark.parametrize("axes", [(1, 2), (2, 3), (0, 3)])
def test_cuda_calls_one_kernel_a_direction(implementation, axes):
    """One call with its attributes, row-major, and nothing else in the program."""
    for gradient, target in ((False, FWD), (True, BWD)):
        program = text("cuda", implementation, gradient, axes=axes)
        assert custom_calls(program) == [target]
        assert f"axes = dense<[{axes[0]}, {axes[1]}]> : tensor<2xi64>" in program
        assert "scale = dense<[2, 3]> : tensor<2xi64>" in program
        layout = "[dense<[3, 2, 1, 0]> : tensor<4xindex>]"
        assert f"operand_layouts = {layout}, result_layouts = {layout}" in program
        operations = set(re.findall(r"stablehlo\.\w+", program))
        assert operations == {"stablehlo.custom_call"}


@pytest.mark.usefixtures("cuda_kernels")
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_cuda_kernels_take_every_whole_byte_dtype(dtype):
    dtype = oracle.dtype_of(dtype)
    assert custom_calls(text("cuda", dtype=dtype)) == [FWD]
    if dtype.name != "bool":  # JAX transposes nothing of bool
        has_sum = dtype.name in (*oracle.FLOATS, *oracle.COMPLEX)
        backward = custom_calls(text("cuda", gradient=True, dtype=dtype))
        assert backward == ([BWD] if has_sum else [])


@pytest.mark.usefixtures("cuda_kernels")
def test_cuda_leaves_packed_dtypes_to_xla():
    assert custom_calls(text("cuda", dtype=jnp.int4)) == []


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu", "rocm"])
def test_plain_form_holds_no_call_gather_or_scatter(platform, gradient):
    program = text(platform, "xla", gradient)
    assert custom_calls(program) == []
    assert not re.search(r"gather|scatter|sort", program)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("platform", ["cpu", "tpu", "rocm"])
def test_other_platforms_default_to_the_plain_form(platform, gradient):
    assert text(platform, None, gradient) == text(platform, "xla", gradient)


@pytest.mark.parametrize("platform", ["cpu", "tpu", "rocm"])
def test_other_platforms_resize_by_the_plain_form(platform):
    def program(implementation):
        def both(x):
            y, pull = jax.vjp(
                lambda x: resize_nearest(
                    x, (2, 7, 3, 8), implementation=implementation
                ),
                x,
            )
            return pull(y)

        x = jax.ShapeDtypeStruct((2, 4, 5, 8), "bfloat16")
        return jax.jit(both).trace(x).lower(lowering_platforms=(platform,)).as_text()

    assert program(None) == program("xla")


@pytest.mark.skipif(_ffi.EXTENSION.module is None, reason="no compiled module")
def test_cpu_runs_the_host_kernels_on_request():
    assert custom_calls(text("cpu", "kernel")) == [FWD]
    assert custom_calls(text("cpu", "kernel", gradient=True)) == [BWD]


def test_gpu_without_kernels_warns_once_and_runs_plain_xla(monkeypatch):
    without = _ffi.Extension(
        None, "it was left out", None, None, frozenset(), frozenset()
    )
    monkeypatch.setattr(_ffi, "EXTENSION", without)
    _ffi.warn_no_cuda_kernel.cache_clear()
    with pytest.warns(RuntimeWarning, match="no CUDA kernels here .* it was left out"):
        program = text("cuda")
    assert custom_calls(program) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text("cuda", gradient=True)
