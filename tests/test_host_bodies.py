"""The kernel bodies in a program of their own, under the sanitizers.

Guards what XLA's aligned buffers and moderate sizes never reach: unaligned addresses,
the 64-bit bodies, several rows an item, and a byte read or written outside a buffer,
whatever a table says.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_host_bodies_under_sanitizers(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path / "host_bodies"
    sources = (
        ROOT / "tests" / "host_bodies.cc",
        ROOT / "cuda" / "pixel_shuffle_host.cc",
        ROOT / "cuda" / "pixel_shuffle_plan.cc",
        ROOT / "cuda" / "resize_nearest_host.cc",
        ROOT / "cuda" / "resize_nearest_plan.cc",
        ROOT / "cuda" / "upsample_add_host.cc",
        ROOT / "cuda" / "upsample_add_plan.cc",
        ROOT / "cuda" / "upsample_concat_host.cc",
        ROOT / "cuda" / "upsample_concat_plan.cc",
        ROOT / "cuda" / "upsample_nearest_host.cc",
        ROOT / "cuda" / "upsample_nearest_plan.cc",
    )
    flags = (
        "-std=c++17",
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover",
    )
    subprocess.run(
        [compiler, *flags, f"-I{ROOT / 'cuda'}", *sources, "-o", program], check=True
    )
    finished = subprocess.run([program, "4000"], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
