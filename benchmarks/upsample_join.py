"""Times `upsample_add` and `upsample_concat` x2 and their transposes against plain XLA.

    python benchmarks/upsample_join.py --output results.json

Peers: the sum or concatenation of `jax.image.resize`, of `jnp.repeat` and of the plain
form of this package ("broadcast"), which XLA fuses, and of its kernel unfused; then the
fused kernel and the default. Forward, and the gradients by `x` and, of a concatenation,
by `skip` (that of `lateral` is the cotangent itself). Each is checked before it is
timed. What the figures are, harness.py says.
"""

import dataclasses
import statistics
from collections.abc import Iterator
from typing import Any

import harness
import jax
import jax.numpy as jnp

from jax_upsample import upsample_add, upsample_concat, upsample_nearest

PLAIN = ("resize", "repeat", "broadcast")
FORMS = (*PLAIN, "unfused", "kernel", "default")


@dataclasses.dataclass(frozen=True)
class Case(harness.Case):
    """An operand, and the channels to concatenate; none for a sum."""

    channels: int | None = None

    @property
    def channel_axis(self) -> int:
        """The axis of concatenation."""
        return self.layout.index("C")

    @property
    def other(self) -> tuple[int, ...]:
        """The shape of the second operand."""
        sizes = [n * (2 if a in self.axes else 1) for a, n in enumerate(self.shape)]
        if self.channels is not None:
            sizes[self.channel_axis] = self.channels
        return tuple(sizes)

    def __str__(self) -> str:
        op = "add" if self.channels is None else f"concat {self.channels}"
        return f"{op}: {super().__str__()}"


def both_layouts(
    n: int, h: int, w: int, c: int, dtype: str, channels: int | None = None
) -> tuple[Case, Case]:
    """The case in NHWC and in NCHW."""
    return (
        Case((n, h, w, c), "NHWC", dtype, channels),
        Case((n, c, h, w), "NCHW", dtype, channels),
    )


CASES = (
    *both_layouts(16, 64, 64, 128, "bfloat16", 64),
    *both_layouts(16, 64, 64, 128, "float32", 64),
    *both_layouts(16, 32, 32, 256, "bfloat16", 128),
    *both_layouts(16, 32, 32, 256, "float32", 128),
    *both_layouts(16, 16, 16, 512, "bfloat16", 512),
    *both_layouts(8, 128, 128, 64, "bfloat16", 64),
    Case((8, 100, 100, 96), "NHWC", "bfloat16", 3),  # no whole vectors
    *both_layouts(8, 100, 168, 256, "bfloat16"),
    *both_layouts(8, 100, 168, 256, "float32"),
    *both_layouts(8, 48, 80, 256, "bfloat16"),
    *both_layouts(16, 64, 64, 64, "bfloat16"),
    *both_layouts(16, 64, 64, 64, "float32"),
    *both_layouts(4, 32, 32, 512, "bfloat16"),
)
QUICK = (
    *both_layouts(1, 8, 8, 16, "float32"),
    *both_layouts(1, 8, 8, 16, "bfloat16", 8),
    Case((1, 6, 6, 6), "NHWC", "bfloat16", 3),
)


def form(name: str, case: Case) -> harness.Function:
    """The forward of a column, of both operands."""

    def up(x: jax.Array) -> jax.Array:
        if name == "resize":
            shape = [n * (2 if a in case.axes else 1) for a, n in enumerate(x.shape)]
            return jax.image.resize(x, shape, "nearest")
        if name == "repeat":
            for axis in case.axes:
                x = jnp.repeat(x, 2, axis)
            return x
        implementation: Any = "kernel" if name == "unfused" else "xla"
        return upsample_nearest(x, axes=case.axes, implementation=implementation)

    implementation: Any = "kernel" if name == "kernel" else None
    options = {"axes": case.axes, "implementation": implementation}
    if case.channels is None:
        if name in ("kernel", "default"):
            return lambda x, lateral: upsample_add(x, lateral, **options)
        return lambda x, lateral: lateral + up(x)
    if name in ("kernel", "default"):
        axis = case.channel_axis
        return lambda x, skip: upsample_concat(x, skip, concat_axis=axis, **options)
    return lambda x, skip: jnp.concatenate([up(x), skip], case.channel_axis)


def transpose(forward: harness.Function, case: Case) -> harness.Function:
    """The gradients that are arrays of their own."""
    like = [jax.ShapeDtypeStruct(s, case.dtype) for s in (case.shape, case.other)]

    def pull(cotangent: jax.Array) -> Any:
        cotangents = jax.linear_transpose(forward, *like)(cotangent)
        return cotangents[:1] if case.channels is None else cotangents

    return pull


def rows(case: Case, iterations: int) -> Iterator[harness.Row]:
    """Checks and times every form of a case."""
    clock = harness.times()
    operands = tuple(harness.random(s, case.dtype) for s in (case.shape, case.other))
    cotangent = harness.random(
        jax.eval_shape(form("broadcast", case), *operands).shape, case.dtype
    )
    for direction in harness.DIRECTIONS:
        expected = None
        for name in ("broadcast", *(f for f in FORMS if f != "broadcast")):
            forward = form(name, case)
            argument: Any
            if direction == "forward":
                function, argument = jax.jit(lambda both, f=forward: f(*both)), operands
            else:
                function, argument = jax.jit(transpose(forward, case)), cotangent
            actual = function(argument)
            expected = actual if expected is None else expected
            equal = jax.tree.map(lambda a, b: bool((a == b).all()), actual, expected)
            us = clock(function, argument, iterations)
            yield {
                "direction": direction,
                "form": name,
                "right": jax.tree.all(equal),
                "us": us,
            }


def report(results: list[harness.Row]) -> Iterator[str]:
    """Tables; the last columns are parts of the best plain form's time."""
    ours = [f for f in ("kernel", "default") if any(r["form"] == f for r in results)]
    columns = [*PLAIN, "unfused", *ours]
    for direction in harness.DIRECTIONS:
        yield ""
        heads = [*columns, *(f"{name}/plain" for name in ours)]
        yield f"| {direction}, us | {' | '.join(heads)} |"
        yield "| --- |" + " ---: |" * len(heads)
        parts: dict[str, list[float]] = {name: [] for name in ours}
        chosen = [row for row in results if row["direction"] == direction]
        for case in dict.fromkeys(row["case"] for row in chosen):
            of_case = {row["form"]: row for row in chosen if row["case"] == case}
            best = min(of_case[f]["median_us"] for f in PLAIN)
            for name in ours:
                parts[name].append(of_case[name]["median_us"] / best)
            cells = [
                f"{row['median_us']:.1f}" + ("" if row["right"] else " wrong")
                for row in (of_case[f] for f in columns)
            ]
            cells += [f"{parts[name][-1]:.2f}" for name in ours]
            yield f"| {case} | {' | '.join(cells)} |"
        yield ""
        means = (f"{f} {statistics.geometric_mean(p):.2f}" for f, p in parts.items())
        yield f"geometric means: {', '.join(means)}"


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run_rows(description, CASES, QUICK, rows, report, iterations=10)
