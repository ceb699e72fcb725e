"""Shared by all tests: strict JAX settings, and the implementations under test."""

import os
import shutil
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jax_upsample import _ffi

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def platform() -> str:
    """The lowering platform of the default backend: "cpu", "cuda", "tpu", .."""
    backend = jax.default_backend()
    return "cuda" if backend == "gpu" else backend


# Beside GPUs the default is "xla", which test_lowering.py sees to.
IMPLEMENTATIONS = (None, "kernel", "xla") if platform() == "cuda" else ("kernel", "xla")


def skip_or_fail(feature: str, reason: str) -> None:
    """Skips for want of a feature, or fails where JAX_UPSAMPLE_REQUIRE names it.

    Features are "kernel" (kernels for the default backend), "cuda" (the CUDA build),
    "h100" (compiling for an H100 without one) and "torch": CI requires what it has, so
    that a broken build cannot pass as a skip.
    """
    if feature in os.environ.get("JAX_UPSAMPLE_REQUIRE", "").split(","):
        pytest.fail(f"JAX_UPSAMPLE_REQUIRE names {feature}, but {reason}")
    pytest.skip(reason)


@pytest.fixture
def kernel() -> str:
    """The value "kernel" of `implementation`, where this platform has kernels."""
    if platform() not in _ffi.EXTENSION.platforms:
        why = _ffi.EXTENSION.why_no_kernel(platform())
        skip_or_fail("kernel", f"there are no kernels: {why}")
    return "kernel"


@pytest.fixture
def cuda_kernels() -> None:
    """The CUDA build, with or without a GPU."""
    if "cuda" not in _ffi.EXTENSION.platforms:
        why = _ffi.EXTENSION.why_no_kernel("cuda")
        skip_or_fail("cuda", f"there are no CUDA kernels: {why}")


@pytest.fixture(params=IMPLEMENTATIONS, ids=str)
def implementation(request: pytest.FixtureRequest) -> str | None:
    """Every implementation that differs on this platform."""
    if request.param == "kernel":
        return request.getfixturevalue("kernel")
    return request.param


@pytest.fixture
def compiled(tmp_path):
    """A function that compiles a C++ program of tests/ with sources of cuda/."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    tests = Path(__file__).parent
    cuda = tests.parent / "cuda"

    def build(name: str, sources: tuple[str, ...], *flags: str) -> Path:
        program = tmp_path / name
        files = (tests / f"{name}.cc", *(cuda / source for source in sources))
        command = [compiler, "-std=c++17", *flags, f"-I{cuda}", *files, "-o", program]
        subprocess.run(command, check=True)
        return program

    return build


def poison(shape: tuple[int, ...], dtype: object) -> None:
    """Fills and frees memory of that size, so that what a kernel skips shows up."""
    garbage = jax.numpy.full(shape, 113).astype(dtype)
    jax.block_until_ready(garbage)
    garbage.delete()


def assert_equal(actual, expected):
    """Equal shapes, dtypes and values."""
    np.testing.assert_array_equal(np.asarray(actual), expected, strict=True)


def assert_same_bits(actual, expected):
    """Equal shapes, dtypes and bytes, NaN payloads included."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    assert actual.tobytes() == expected.tobytes()


def equations(program, *args):
    """All equations in the jaxpr of `program`, those of inner jaxprs included."""

    def inner(jaxpr):
        for eqn in jaxpr.eqns:
            yield eqn
            for leaf in jax.tree.leaves(list(eqn.params.values())):
                if isinstance(leaf, ClosedJaxpr):
                    yield from inner(leaf.jaxpr)
                elif isinstance(leaf, Jaxpr):
                    yield from inner(leaf)

    return list(inner(jax.make_jaxpr(program)(*args).jaxpr))


def primitives(program, *args):
    """The names of the primitives of those equations."""
    return [eqn.primitive.name for eqn in equations(program, *args)]
