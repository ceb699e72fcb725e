"""Times `upsample_conv` x2, 3x3, and its training step against the plain form.

    python benchmarks/upsample_conv.py --output results.json

The columns are its methods and the plain form with `jax.image.resize` and with a
broadcast, which XLA may fuse: forward, and value and gradients of a mean square. Each
is checked against the plain form before it is timed. What the figures are, harness.py
says.
"""

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import harness
import jax
from jax import lax

from jax_upsample import upsample_conv, upsample_nearest

Form = Callable[[jax.Array, jax.Array], jax.Array]

FORMS = ("resize", "broadcast", "plain", "phases", "folded")
TOLERANCE = 1e-2  # bfloat16 keeps 8 bits, TF32 11


@dataclasses.dataclass(frozen=True)
class Case:
    """An NHWC operand, and the outputs of the 3x3 kernel."""

    shape: tuple[int, int, int, int]
    outputs: int
    dtype: str

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape))} -> {self.outputs} {self.dtype}"


CASES = (
    Case((4, 64, 64, 512), 512, "bfloat16"),
    Case((1, 256, 256, 512), 512, "bfloat16"),
    Case((1, 512, 512, 256), 256, "bfloat16"),
    Case((8, 32, 32, 640), 640, "bfloat16"),
    Case((16, 64, 64, 128), 64, "bfloat16"),
    Case((16, 64, 64, 128), 64, "float32"),
    Case((8, 256, 256, 64), 32, "bfloat16"),
)
QUICK = (Case((1, 16, 16, 32), 16, "float32"), Case((2, 8, 8, 16), 16, "bfloat16"))


def form(name: str) -> Form:
    """The forward of a column."""

    def resize(x: jax.Array) -> jax.Array:
        n, h, w, c = x.shape
        return jax.image.resize(x, (n, 2 * h, 2 * w, c), "nearest")

    def broadcast(x: jax.Array) -> jax.Array:
        return upsample_nearest(x, implementation="xla")

    if name in ("resize", "broadcast"):
        up = resize if name == "resize" else broadcast
        numbers = ("NHWC", "HWIO", "NHWC")
        return lambda x, kernel: lax.conv_general_dilated(
            up(x), kernel, (1, 1), "SAME", dimension_numbers=numbers
        )
    method: Any = name
    return lambda x, kernel: upsample_conv(x, kernel, method=method)


def rows(case: Case, iterations: int) -> Iterator[harness.Row]:
    """Checks and times every form of a case."""
    clock = harness.times()
    close = functools.partial(harness.close, tolerance=TOLERANCE)
    by_both = functools.partial(harness.step, argnums=(0, 1))
    window = (3, 3, case.shape[-1], case.outputs)
    x = jax.random.normal(jax.random.key(0), case.shape, case.dtype)
    kernel = jax.random.normal(jax.random.key(1), window, case.dtype)
    kernel /= math.sqrt(9 * case.shape[-1])
    for direction, wrap in (("forward", lambda f: f), ("step", by_both)):
        expected = jax.jit(wrap(form("broadcast")))(x, kernel)
        for name in FORMS:
            function = jax.jit(wrap(form(name)))
            right = jax.tree.all(jax.tree.map(close, function(x, kernel), expected))
            us = clock(lambda both, f=function: f(*both), (x, kernel), iterations)
            yield {
                "direction": direction,
                "form": name,
                "right": right,
                "us": us,
            }


def report(results: list[harness.Row]) -> Iterator[str]:
    """Tables; the last column is the gain of "folded", the default of all cases."""
    for direction in ("forward", "step"):
        yield ""
        yield f"| {direction}, us | " + " | ".join(FORMS) + " | gain |"
        yield "| --- |" + " ---: |" * (len(FORMS) + 1)
        gains = []
        chosen = [row for row in results if row["direction"] == direction]
        for case in dict.fromkeys(row["case"] for row in chosen):
            of_case = {row["form"]: row for row in chosen if row["case"] == case}
            best = min(of_case[f]["median_us"] for f in ("resize", "broadcast"))
            gains.append(best / of_case["folded"]["median_us"])
            cells = [
                f"{row['median_us']:.0f}" + ("" if row["right"] else " wrong")
                for row in (of_case[f] for f in FORMS)
            ]
            yield f"| {case} | {' | '.join(cells)} | {gains[-1]:.2f} |"
        yield ""
        yield f"geometric mean of the gains: {statistics.geometric_mean(gains):.2f}"


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run_rows(description, CASES, QUICK, rows, report, iterations=7)
