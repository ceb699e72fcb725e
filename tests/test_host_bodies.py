"""The kernel bodies in a program of their own, under the sanitizers.

Guards what XLA's aligned buffers and moderate sizes never reach: unaligned addresses,
the 64-bit bodies, several rows an item, and a byte read or written outside a buffer,
whatever a table says.
"""

import subprocess

SOURCES = (
    "pixel_shuffle_host.cc",
    "pixel_shuffle_plan.cc",
    "resize_nearest_host.cc",
    "resize_nearest_plan.cc",
    "upsample_add_host.cc",
    "upsample_add_plan.cc",
    "upsample_concat_host.cc",
    "upsample_concat_plan.cc",
    "upsample_nearest_host.cc",
    "upsample_nearest_plan.cc",
)


def test_host_bodies_under_sanitizers(compiled):
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    program = compiled("host_bodies", SOURCES, *flags)
    finished = subprocess.run([program, "4000"], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
