"""Stored programs: every target, written by an earlier version, means the same now.

Reports C124 (attributes that are arrays) and C127 (custom calls).

`python tests/test_export.py` writes the program anew. That is for new targets only, in
a new file: the stored ones are what a version promises.
"""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from jax_upsample import (
    _ffi,
    export_disabled_checks,
    pixel_shuffle,
    resize_nearest,
    upsample_add,
    upsample_concat,
    upsample_conv,
    upsample_nearest,
)

STORED = Path(__file__).parent / "exported"
SHAPES = ((2, 4, 6, 16), (2, 8, 12, 16), (3, 3, 16, 8), (8,))


def integers(seed, shape):
    """Small integers, of which float32 sums are exact in any order."""
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return jnp.asarray(values, jnp.float32)


def every_target(implementation):
    """Values and gradients by all ops, which call all targets."""
    by = {"implementation": implementation}

    def ops(x, y, kernel, bias):
        return (
            upsample_nearest(x, (2, 3), **by),
            resize_nearest(x, (2, 5, 9, 16), **by),
            upsample_add(x, y, **by),
            upsample_concat(x, y, **by),
            pixel_shuffle(x, channel_order="tf", **by),
            upsample_conv(x, kernel, bias=bias, activation="relu", **by),
        )

    def program(x, y, kernel, bias):
        results, transpose = jax.vjp(ops, x, y, kernel, bias)
        return results, transpose(results)

    return program


def exported(implementation, platforms=None):
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in SHAPES]
    return export.export(
        jax.jit(every_target(implementation)),
        platforms=platforms,
        disabled_checks=export_disabled_checks(),
    )(*specs)


def targets(program):
    return set(re.findall(r"jax_upsample_\w+_v\d+", program.mlir_module()))


def test_no_check_is_left_on(kernel):
    """The helper names every target but the probe's, which no op calls."""
    assert targets(exported(kernel)) == _ffi.EXTENSION.targets - {
        "jax_upsample_stream_probe_v1"
    }


def test_a_target_is_refused_unless_asked_for(kernel):
    with pytest.raises(ValueError, match="jax_upsample_nearest_fwd_v1"):
        export.export(jax.jit(lambda x: upsample_nearest(x, implementation=kernel)))(
            jax.ShapeDtypeStruct((1, 2, 2, 8), jnp.float32)
        )


def test_plain_programs_call_no_target():
    assert targets(exported("xla")) == set()


@pytest.fixture
def however_old():
    """JAX itself promises to read what it stored for half a year."""
    name = "jax_export_deserialize_expired_versions"
    if hasattr(jax.config, name):
        jax.config.update(name, True)
        yield
        jax.config.update(name, False)
    else:
        yield


@pytest.mark.filterwarnings("ignore:Exported being deserialized")
@pytest.mark.parametrize("stored", sorted(STORED.iterdir()), ids=lambda path: path.name)
def test_stored_programs_run_on(stored, kernel, however_old):
    program = export.deserialize(bytearray(stored.read_bytes()))
    assert targets(program) <= _ffi.EXTENSION.targets
    operands = [integers(seed, shape) for seed, shape in enumerate(SHAPES)]
    actual, wanted = program.call(*operands), every_target("xla")(*operands)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3)


if __name__ == "__main__":
    program = exported("kernel", ["cpu", "cuda"])
    path = STORED / f"{min(targets(program), key=len)[-2:]}-jax-{jax.__version__}.bin"
    path.write_bytes(program.serialize())
    print(path, *sorted(targets(program)))
