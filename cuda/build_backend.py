"""The build backend: scikit-build-core, plus NVIDIA's compiler where it is wanted.

Only a backend can ask for it: an extra of the package does not reach the isolated
environment that pip builds in, and most builds have no use for a fixed requirement of
104 MB.
"""

import ctypes
import os
import shutil
from collections.abc import Mapping

from scikit_build_core import build as _scikit_build
from scikit_build_core.build import *  # noqa: F403  The hooks not defined here.

# One release of all parts: the nvcc of one cannot work with the NVVM of another.
_COMPILER = "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*"
_OLDEST_DRIVER = 13000  # As cuDriverGetVersion reports it: what CUDA 13 needs.

_Settings = Mapping[str, list[str] | str] | None


def get_requires_for_build_wheel(config_settings: _Settings = None) -> list[str]:
    """What scikit-build-core requires, and the compiler where it is wanted."""
    requires = _scikit_build.get_requires_for_build_wheel(config_settings)
    return requires + _compiler(config_settings)


def get_requires_for_build_editable(config_settings: _Settings = None) -> list[str]:
    """As for a wheel."""
    requires = _scikit_build.get_requires_for_build_editable(config_settings)
    return requires + _compiler(config_settings)


def _compiler(config_settings: _Settings) -> list[str]:
    mode: object = os.environ.get("JAX_UPSAMPLE_CUDA", "AUTO")
    mode = (config_settings or {}).get("cmake.define.JAX_UPSAMPLE_CUDA", mode)
    wanted = mode == "PIP" or (mode == "AUTO" and _has_driver() and not _has_toolkit())
    return [_COMPILER] if wanted else []


def _has_driver() -> bool:
    """Whether this machine could run what the compiler produces."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return False
    return version.value >= _OLDEST_DRIVER


def _has_toolkit() -> bool:
    """Whether CMakeLists.txt, which looks in the same places, will find an nvcc."""
    homes = [
        os.environ.get("CUDA_HOME"),
        os.environ.get("CUDA_PATH"),
        "/usr/local/cuda",
    ]
    path = [os.path.join(home, "bin") for home in homes if home]
    path.append(os.environ.get("PATH", os.defpath))
    return bool(
        os.environ.get("CUDACXX") or shutil.which("nvcc", path=os.pathsep.join(path))
    )
