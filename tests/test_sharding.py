"""Programs of several devices: what can be sharded shards without collectives.

Eight CPU devices, each test in a process that has them, run the host kernels through
the calls that XLA partitions. Where an axis cannot be sharded XLA gathers it, and the
values are right all the same.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import re, sys
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
from jax_upsample import *

implementation, axis_type = sys.argv[1], AxisType[sys.argv[2]]
COLLECTIVE = r" (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)"
devices = np.array(jax.devices()).reshape(4, 2)
mesh = Mesh(devices, ("a", "b"), axis_types=(axis_type,) * 2)
options = {"implementation": implementation}


def normal(seed, *shape):
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return jnp.asarray(values, jnp.float32)


def conv(x, skip, kernel, bias):
    return upsample_conv(x, kernel, skip=skip, bias=bias, activation="relu", **options)


def shuffle(x):
    return pixel_shuffle(x, channel_order="tf", **options)


nhwc, large = normal(0, 8, 4, 6, 16), normal(1, 8, 8, 12, 16)
nchw, beside = normal(0, 4, 8, 4, 6), normal(1, 4, 3, 8, 12)
kernel, bias = normal(2, 3, 3, 32, 8), normal(3, 8)
FIRST = {"axes": (2, 3), **options}
CASES = {  # function, operands, how each is sharded: without collectives
    "nearest": (lambda x: upsample_nearest(x, **options), (nhwc,), (P("a"),)),
    "nearest NCHW": (lambda x: upsample_nearest(x, **FIRST), (nchw,), (P("a", "b"),)),
    "two axes of the mesh": (
        lambda x: upsample_nearest(x, **options), (nhwc,), (P(("a", "b")),)
    ),
    "add": (lambda x, y: upsample_add(x, y, **options), (nhwc, large), (P("a"),) * 2),
    "concat": (
        lambda x, y: upsample_concat(x, y, **options), (nhwc, large), (P("a"),) * 2
    ),
    "concat NCHW": (
        lambda x, y: upsample_concat(x, y, concat_axis=1, **FIRST),
        (nchw, beside),
        (P("a"),) * 2,
    ),
    "rows": (lambda x: upsample_nearest(x, **options), (nhwc,), (P(None, "a"),)),
    "columns": (
        lambda x: upsample_nearest(x, **options), (nhwc,), (P("a", None, "b"),)
    ),
    "channels": (
        lambda x: upsample_nearest(x, **options), (nhwc,), (P(None, "b", None, "a"),)
    ),
    "rows NCHW": (
        lambda x: upsample_nearest(x, **FIRST), (nchw,), (P("b", None, "a"),)
    ),
    "add rows": (
        lambda x, y: upsample_add(x, y, **options),
        (nhwc, large),
        (P(None, "a", "b"),) * 2,
    ),
    "concat columns": (
        lambda x, y: upsample_concat(x, y, **options),
        (nhwc, large),
        (P("a", None, "b"),) * 2,
    ),
    "shuffle": (shuffle, (nhwc,), (P("a"),)),
    "conv": (conv, (nhwc, large, kernel, bias), (P("a"), P("a"), P(), P())),
}
# What has to be gathered; but right. Not the rows of a convolution: over part of a mesh
# XLA itself multiplies the gradient of the kernel by the size of the rest.
OTHERS = {
    "of concatenated channels": (*CASES["concat"][:2], (P(None, None, None, "a"),) * 2),
    "concat NCHW rows": (*CASES["concat NCHW"][:2], (P(None, None, "a"),) * 2),
    "unlike": (*CASES["add"][:2], (P("a"), P(None, "b"))),
    "shuffled rows": (*CASES["shuffle"][:2], (P(None, "a"),)),
    "of the kernel": (*CASES["conv"][:2], (P(), P(), P(None, None, None, "b"), P())),
}


def pull(function, operands):
    def both(*operands):
        y, transpose = jax.vjp(function, *operands)
        return y, transpose(2 * y)

    return both


def check(name, function, operands, specs, collectives):
    both = pull(function, operands)
    placed = [
        jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(operands, specs)
    ]
    compiled = jax.jit(both).lower(*placed).compile()
    text = compiled.as_text()
    if implementation == "kernel":
        assert "jax_upsample_" in text, name
    found = set(re.findall(COLLECTIVE, text))
    if collectives is not None:
        # The gradients of what every device has are summed over the devices.
        shared = any(spec == P() for spec in specs)
        assert found <= ({"all-reduce"} if shared else set()), (name, found)
    y, cotangents = compiled(*placed)
    if collectives is not None:
        assert not y.sharding.is_fully_replicated, name
    wanted = jax.jit(both)(*operands)
    for a, b in zip(jax.tree.leaves((y, cotangents)), jax.tree.leaves(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3, err_msg=name)


for name, case in CASES.items():
    check(name, *case, collectives=())
for name, case in OTHERS.items():
    if name == "unlike" and axis_type == AxisType.Explicit:
        try:
            check(name, *case, collectives=None)
        except ValueError as error:
            assert "must be sharded alike" in str(error)
            continue
        raise AssertionError("joined what is sharded in two ways")
    check(name, *case, collectives=None)
if axis_type == AxisType.Explicit:
    for spec in P("b", "a"), P("a", None, "b"):
        check("rows", conv, CASES["conv"][1], (spec, spec, P(), P()), collectives=None)
    for function in pixel_shuffle, pixel_unshuffle:  # in the order of PyTorch
        y = jax.jit(function)(jax.device_put(nhwc, NamedSharding(mesh, P("a"))))
        assert jax.typeof(y).sharding.spec == P("a", None, None, None)
        np.testing.assert_array_equal(y, function(nhwc))
    print("all right")
    sys.exit()

# Uneven parts, also of fewer rows than devices: a gradient of wrong parts is silent.
def constrained(function, specs):
    def run(*operands):
        def cut(x, spec):
            return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

        y, transpose = jax.vjp(function, *map(cut, operands, specs))
        return y, transpose(cut(2 * y, specs[-1]))

    return jax.jit(run)


for size in (1, 2, 3, 6):
    for axis in range(1, 4):
        few = [jax.lax.slice_in_dim(nhwc, 0, min(size, nhwc.shape[axis]), axis=axis)]
        factor = 2 if axis < 3 else 1
        few.append(
            jax.lax.slice_in_dim(large, 0, factor * few[0].shape[axis], axis=axis)
        )
        spec = P(*(None,) * axis, ("a", "b"))
        for name, count in (("nearest", 1), ("add", 2)) + (("concat", 2),) * (axis < 3):
            function, operands = CASES[name][0], few[:count]
            got = constrained(function, (spec,) * count)(*operands)
            wanted = pull(function, operands)(*operands)
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted)):
                np.testing.assert_array_equal(a, b, err_msg=f"{name} {size} {axis}")
print("all right")
"""


OTHER_WAYS = """
import re, sys
import numpy as np
import jax, jax.numpy as jnp
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax_upsample import *

implementation = sys.argv[1]
GATHERS = r" (all-gather|all-to-all|collective-permute|reduce-scatter)"
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
x = jnp.asarray(np.random.default_rng(0).integers(-4, 5, (8, 4, 6, 16)), jnp.float32)


def up(x):
    return upsample_nearest(x, implementation=implementation)


def add(x):
    return upsample_add(x, up(x), implementation=implementation)


def conv(x):
    kernel = jnp.ones((3, 3, 16, 8))
    return upsample_conv(x, kernel, implementation=implementation)


def both(f):
    def run(x):
        y, transpose = jax.vjp(f, x)
        return y, transpose(2 * y)[0]

    return run


def same(actual, expected, name):
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)


for f in up, add, conv:
    wanted = both(f)(x)
    for check_vma in True, False:
        for names, spec in (
            ({"a", "b"}, P(("a", "b"))),
            ({"a", "b"}, P("a", "b")),
            ({"a"}, P("a")),  # XLA partitions what is left, over b
        ):
            if f is conv and spec == P("a", "b"):
                continue  # its windows reach over the seams of the rows
            cut = jax.shard_map(
                both(f), mesh=mesh, in_specs=spec, out_specs=spec, axis_names=names,
                check_vma=check_vma,
            )
            rows = P("a", "b") if names == {"a"} else spec
            placed = jax.device_put(x, NamedSharding(mesh, rows))
            compiled = jax.jit(cut).lower(placed).compile()
            same(compiled(placed), wanted, f"{f.__name__} {names} {spec}")
            if f is not conv:
                assert not re.search(GATHERS, compiled.as_text()), (f, names, spec)

    apart = jax.tree.map(lambda a: a[:, None], wanted)
    same(jax.pmap(both(f))(x[:, None]), apart, "pmap")

    # Stacked images, the stack over a mesh axis.
    stack = jnp.stack([x, 2 * x, 3 * x, 4 * x])
    placed = jax.device_put(stack, NamedSharding(mesh, P("a")))
    mapped = jax.jit(jax.vmap(both(f), spmd_axis_name="a"))
    same(mapped(placed), jax.vmap(both(f))(stack), "vmap")
    assert not re.search(GATHERS, mapped.lower(placed).compile().as_text())

    # A loop over a sharded array.
    def scanned(x):
        return lax.scan(lambda total, x: (total + f(x).sum(), f(x)), 0.0, x)

    placed = jax.device_put(stack, NamedSharding(mesh, P(None, "a")))
    same(jax.jit(scanned)(placed), scanned(stack), "scan")

    # A stored program of eight devices.
    rows = NamedSharding(mesh, P(None, "a"))
    stored = export.export(
        jax.jit(f, in_shardings=rows), disabled_checks=export_disabled_checks()
    )(x).serialize()
    again = jax.jit(export.deserialize(stored).call)
    placed = jax.device_put(x, rows)
    same(again(placed), f(x), "export")
    if f is not conv:
        assert not re.search(GATHERS, again.lower(placed).compile().as_text())
print("all right")
"""


def run(program, *arguments, **variables):
    """`program` in a process of eight CPU devices; what it prints."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        **variables,
    }
    finished = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parent,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "all right" in finished.stdout
    return finished.stdout


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
@pytest.mark.parametrize("implementation", ["kernel", "xla"])
def test_arrays_shard_without_collectives(implementation, axis_type, kernel):
    """Forward and gradient of every op; and any other sharding gives right values.

    Over Explicit axes the type of the result says how it is sharded. Reports C113,
    C114, C116.
    """
    run(PROGRAM, implementation, axis_type)


@pytest.mark.parametrize("implementation", ["kernel", "xla"])
def test_other_ways_to_several_devices(implementation, kernel):
    """shard_map, pmap, vmap over a mesh axis, scan, export. Reports C115, C117."""
    run(OTHER_WAYS, implementation)


def test_the_partitioner_before_shardy(kernel):
    """Report C118."""
    run(PROGRAM, kernel, "Auto", JAX_USE_SHARDY_PARTITIONER="0")


CACHED = """
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax_upsample import *

found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name))
rows = NamedSharding(Mesh(jax.devices(), "d"), P(None, "d"))
for sharding in None, rows:
    x = jax.device_put(jnp.ones((1, 8, 8, 16)), sharding)
    up = jax.jit(lambda x: upsample_nearest(x, implementation="kernel"))
    found.clear()
    jax.block_until_ready(up(x))
    print(found.count("/jax/compilation_cache/cache_hits"), end=" ")
print("all right")
"""


def test_compiled_programs_are_found_again(kernel, tmp_path):
    """By another process, on one device and on eight. Report C140."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    assert run(CACHED, **cache).startswith("0 0")
    assert run(CACHED, **cache).startswith("1 1")
