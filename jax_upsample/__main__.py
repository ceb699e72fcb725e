"""`python -m jax_upsample`: what is loaded, if not why, and whether it works.

Exits with 0 if the compiled module serves, every GPU that is there has kernels, and
every implementation passes its self-test; with 1 otherwise.
"""

import importlib.metadata
import platform
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import jax_upsample
from jax_upsample import _ffi
from jax_upsample._arguments import Implementation


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _api_version(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else f"{version[0]}.{version[1]}"


def _facts() -> Iterator[tuple[str, str]]:
    extension = _ffi.EXTENSION
    module = extension.module
    yield "jax_upsample", f"{jax_upsample.__version__} ({jax_upsample.__file__})"
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    for package in ("jax", "jaxlib", "numpy"):
        yield package, _version(package)
    for plugin in ("jax-cuda12-plugin", "jax-cuda13-plugin"):
        if _version(plugin) != "not installed":
            yield plugin, _version(plugin)
    yield "compiled module", "not loaded" if module is None else str(module.__file__)
    if extension.problem is not None:
        yield "not used because", extension.problem
    if module is not None:
        yield "CUDA build", module.BUILD_NOTE
        architectures = ", ".join(map(str, module.CUDA_ARCHITECTURES))
        yield "CUDA architectures", architectures or "none"
    yield "kernels for", ", ".join(sorted(extension.platforms)) or "none"
    yield "FFI API, compiled", _api_version(extension.api_version)
    yield "FFI API, runtime", _api_version(extension.runtime_api_version)
    yield "backend", jax.default_backend()
    for device in jax.devices():
        yield "device", f"{device} ({device.device_kind})"


def _self_test(implementation: Implementation | None) -> str | None:
    """What went wrong, or None. Values are integers, so every sum is exact."""
    shapes = {(1, 2): (2, 5, 4, 24), (2, 3): (2, 3, 5, 8), (1, 2, 3): (1, 3, 4, 2, 3)}
    for dtype in ("uint8", "bfloat16", "float32"):
        for axes, shape in shapes.items():
            values = np.arange(np.prod(shape)).reshape(shape) % 50
            x = jnp.asarray(values, dtype)
            y = jax_upsample.upsample_nearest(
                x, 2, axes=axes, implementation=implementation
            )
            wanted = values
            for axis in axes:
                wanted = np.repeat(wanted, 2, axis)
            if not np.array_equal(np.asarray(y, np.float64), wanted):
                return f"forward of {dtype}{shape}, axes={axes}: wrong values"
            if not jnp.issubdtype(dtype, jnp.floating):
                continue
            _, vjp = jax.vjp(
                lambda x, axes=axes: jax_upsample.upsample_nearest(
                    x, 2, axes=axes, implementation=implementation
                ),
                x,
            )
            (gradient,) = vjp(y)
            rounded = np.asarray(jnp.asarray(values * 2 ** len(axes), dtype))
            if not np.array_equal(gradient, rounded):
                return f"gradient of {dtype}{shape}, axes={axes}: wrong values"
    return None


def main() -> int:
    """Prints the facts and the self-tests; the exit code."""
    for name, value in _facts():
        print(f"{name:18} {value}")
    backend = jax.default_backend()
    lowering_platform = "cuda" if backend == "gpu" else backend
    extension = _ffi.EXTENSION
    healthy = extension.problem is None
    if lowering_platform == "cuda" and "cuda" not in extension.platforms:
        print(f"{'GPU':18} plain XLA only: {extension.why_no_kernel('cuda')}")
        healthy = False
    tests: tuple[Implementation | None, ...] = (None, "xla")
    if lowering_platform in extension.platforms:
        tests = (None, "kernel", "xla")
    for implementation in tests:
        problem = _self_test(implementation)
        name = f"self-test {implementation or 'default'}"
        print(f"{name:18} {'ok' if problem is None else problem}")
        healthy = healthy and problem is None
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
