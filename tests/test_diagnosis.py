"""`import jax_upsample` never breaks JAX, and the package says what it could not load.

Each test runs a fresh Python on a copy of the package whose compiled module was taken
away, broken, or built for an XLA that does not exist yet.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jax_upsample
from jax_upsample import _ffi

PACKAGE = Path(jax_upsample.__file__).parent

USE = """
import jax, jax.numpy as jnp, jax_upsample
x = jnp.arange(4.0).reshape(1, 2, 2, 1)
g = jax.grad(lambda x: (jax_upsample.upsample_nearest(x) ** 2).sum())(x)
assert (g == 8 * x).all(), g
try:
    jax_upsample.upsample_nearest(x, implementation="kernel")
except ValueError as error:
    print(error)
"""


def python(*arguments, path=None, **environment):
    """Runs Python away from the source tree; stdout and stderr together, exit code."""
    # A test process may hold most of a GPU's memory; its children need little.
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | environment
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    finished = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | environment,
        cwd=Path(sys.executable).parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return finished.stdout, finished.returncode


@pytest.fixture
def copy(tmp_path):
    """The folder of a copy of the package without its compiled module."""
    if (PACKAGE.parent / "CMakeLists.txt").exists():
        pytest.skip("an editable install is imported before any copy")
    ignored = shutil.ignore_patterns("_kernels*.so", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "jax_upsample", ignore=ignored)
    return tmp_path


def report(path=None):
    """`python -m jax_upsample` as a dict of its lines, and its exit code."""
    output, code = python("-m", "jax_upsample", path=path)
    lines = (line.partition("  ") for line in output.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}, code


@pytest.mark.usefixtures("kernel")
def test_report_of_a_working_install():
    facts, code = report()
    assert code == 0, facts
    assert facts["jax_upsample"].startswith(jax_upsample.__version__)
    assert facts["compiled module"] == _ffi.EXTENSION.module.__file__
    assert facts["kernels for"] == ", ".join(sorted(_ffi.EXTENSION.platforms))
    assert facts["CUDA build"] == _ffi.EXTENSION.module.BUILD_NOTE
    assert facts["FFI API, compiled"] == "0.1"
    for implementation in ("default", "kernel", "xla"):
        assert facts[f"self-test {implementation}"] == "ok"


def check_fallback(path, problem):
    facts, code = report(path)
    assert code == 1
    assert problem in facts["not used because"]
    assert facts["kernels for"] == "none"
    assert facts["self-test xla"] == "ok"
    output, code = python("-c", USE, path=path, JAX_PLATFORMS="cpu")
    assert code == 0, output
    assert 'upsample_nearest: implementation="kernel" but there are no' in output
    assert problem in output


def test_missing_module(copy):
    check_fallback(copy, "could not be imported: cannot import name '_kernels'")


def test_source_tree(copy):
    (copy / "CMakeLists.txt").touch()
    check_fallback(copy, "imported from its source tree")


def test_corrupt_module(copy):
    (copy / "jax_upsample" / "_kernels.abi3.so").write_bytes(b"\x7fELF broken")
    check_fallback(copy, "could not be imported: ")


def test_module_of_a_newer_ffi_api(copy):
    """Registered, it would keep every JAX backend from starting."""
    (copy / "jax_upsample" / "_kernels.py").write_text(
        "FFI_API_VERSION = (0, 999)\n"
        "BUILD_NOTE = 'none'\n"
        "CUDA_ARCHITECTURES = FWD_DTYPES = BWD_DTYPES = ()\n"
        "def registrations(platform): raise AssertionError('must not register')\n"
    )
    check_fallback(copy, "needs the XLA FFI API 0.999, the installed jaxlib has 0.")


def test_import_costs_little():
    """Less than an eighth of the CPU time of `import jax`; the best of three."""
    program = (
        "import time; start = time.process_time(); import jax; "
        "between = time.process_time(); import jax_upsample; "
        "print((time.process_time() - between) / (between - start))"
    )
    part = min(float(python("-c", program)[0].split()[-1]) for _ in range(3))
    assert part < 1 / 8
