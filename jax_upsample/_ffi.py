"""The compiled module `_kernels`: whether it serves here, if not why, and its targets.

An FFI target built for a newer FFI API than the runtime's does not fail by itself: the
whole JAX backend then refuses to start, later, where no `except` can help. So the two
versions are compared before anything is registered.
"""

import dataclasses
import functools
import re
import warnings
from pathlib import Path
from types import ModuleType

import jax
import jax.export

_REGISTERED_AS = {"cpu": "cpu", "cuda": "CUDA"}  # lowering platform: FFI platform


@dataclasses.dataclass(frozen=True)
class Extension:
    """The outcome of loading `_kernels`.

    Attributes:
      module: the compiled module, or None if it could not be imported.
      problem: why its kernels are not used, in a sentence; None if they are.
      api_version: the FFI API version (major, minor) that it was compiled with.
      runtime_api_version: the version of the installed jaxlib.
      platforms: the lowering platforms ("cpu", "cuda") that have kernels.
      targets: the names of the FFI targets.
    """

    module: ModuleType | None
    problem: str | None
    api_version: tuple[int, int] | None
    runtime_api_version: tuple[int, int] | None
    platforms: frozenset[str]
    targets: frozenset[str]

    def dtypes(self, direction: str) -> frozenset[str]:
        """Names of the dtypes that the kernels of `direction` ("fwd", "bwd") take."""
        if self.module is None:
            return frozenset()
        return frozenset(getattr(self.module, f"{direction.upper()}_DTYPES"))

    def why_no_kernel(self, platform: str) -> str:
        """Why `platform` has no kernel, in a sentence."""
        if self.problem is not None:
            return self.problem
        if platform == "cuda" and self.module is not None:
            return self.module.BUILD_NOTE
        return f"kernels exist for {', '.join(sorted(self.platforms))} only"


def _import_problem(error: ImportError) -> str:
    package = Path(__file__).parent
    if (package.parent / "CMakeLists.txt").exists() and not list(
        package.glob("_kernels.*.so")
    ):
        return (
            f"jax_upsample was imported from its source tree ({package.parent}), which "
            "holds no compiled module: start Python elsewhere to import the installed "
            "package, or install with `pip install -e .`"
        )
    return f"the compiled module could not be imported: {error}"


def runtime_api_version() -> tuple[int, int] | None:
    """The FFI API version of the installed jaxlib; None if its headers do not say."""
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    try:
        text = header.read_text()
    except OSError:
        return None
    found = [
        re.search(rf"#define XLA_FFI_API_{part} (\d+)", text)
        for part in ("MAJOR", "MINOR")
    ]
    major, minor = found
    if major is None or minor is None:
        return None
    return int(major[1]), int(minor[1])


def version_problem(
    compiled: tuple[int, int], runtime: tuple[int, int] | None
) -> str | None:
    """Why a module of FFI API version `compiled` cannot serve a `runtime`, or None.

    XLA accepts handlers of its own major version and of no newer minor version.
    """
    if runtime is None:
        return "the FFI API version of the installed jaxlib could not be read"
    if compiled[0] != runtime[0] or compiled[1] > runtime[1]:
        return (
            f"the compiled module needs the XLA FFI API {compiled[0]}.{compiled[1]}, "
            f"the installed jaxlib has {runtime[0]}.{runtime[1]}: upgrade jaxlib, or "
            "reinstall jax_upsample built against an older one"
        )
    return None


def load() -> Extension:
    """Imports `_kernels` and registers its targets."""
    try:
        from jax_upsample import _kernels
    except ImportError as error:
        why = _import_problem(error)
        return Extension(None, why, None, None, frozenset(), frozenset())
    compiled, runtime = _kernels.FFI_API_VERSION, runtime_api_version()
    problem = version_problem(compiled, runtime)
    platforms, targets = set[str](), set[str]()
    if problem is None:
        for platform, registered_as in _REGISTERED_AS.items():
            for name, handler in _kernels.registrations(platform).items():
                jax.ffi.register_ffi_target(name, handler, platform=registered_as)
                jax.ffi.register_ffi_target_as_batch_partitionable(name)
                platforms.add(platform)
                targets.add(name)
    return Extension(
        _kernels, problem, compiled, runtime, frozenset(platforms), frozenset(targets)
    )


# At import, not at first use: a stored program that calls the targets needs no more
# than `import jax_upsample`.
EXTENSION = load()


def export_disabled_checks() -> list[jax.export.DisabledSafetyCheck]:
    """What `jax.export.export` must not check of programs that call the kernels.

    JAX exports no custom calls unasked, for it cannot know whether they will mean the
    same later. These will: a target with another meaning gets another name. Programs of
    `implementation="xla"` need none of it.

    Returns:
      `DisabledSafetyCheck.custom_call` of every target, for `disabled_checks`.

    Example:
      >>> import jax
      >>> import jax_upsample
      >>> exported = jax.export.export(
      ...     jax.jit(jax_upsample.upsample_nearest),
      ...     disabled_checks=jax_upsample.export_disabled_checks(),
      ... )(jax.ShapeDtypeStruct((1, 2, 2, 8), "float32"))
      >>> exported.out_avals[0].shape
      (1, 4, 4, 8)
    """
    call = jax.export.DisabledSafetyCheck.custom_call
    return [call(target) for target in sorted(EXTENSION.targets)]


@functools.cache
def warn_no_cuda_kernel() -> None:
    """Says, once a process, that a GPU runs plain XLA for want of kernels."""
    warnings.warn(
        "jax_upsample has no CUDA kernels here and uses plain XLA: "
        f"{EXTENSION.why_no_kernel('cuda')}",
        RuntimeWarning,
        stacklevel=2,
    )
