"""Times whole Flax decoders, inference and training step, against plain XLA.

    python benchmarks/models.py --output results.json

A U-Net, the decoder of an autoencoder like Stable Diffusion's (without attention), and
the top-down path of a feature pyramid, its merges alone and with the convolution that
follows each, all with the upsampling of a column:
`jax.image.resize`, a broadcast, which XLA may fuse, and this package's functions as
they choose by themselves. A step is value and gradients of a mean square. Results are
compared before they are timed. What the figures are, harness.py says.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import jax
import jax.numpy as jnp
from flax import nnx

from jax_upsample import upsample_add, upsample_conv, upsample_nearest

FORMS = ("resize", "broadcast", "ours")
# Of all gradients together, for that of a bias before a normalisation is all rounding.
TOLERANCE = 5e-2


# ------------------------------------------------------------------------------ models


def plain_upsample(form: str, x: jax.Array) -> jax.Array:
    """x2 in NHWC by a plain form."""
    if form == "resize":
        n, h, w, c = x.shape
        return jax.image.resize(x, (n, 2 * h, 2 * w, c), "nearest")
    return upsample_nearest(x, implementation="xla")


def conv_of_upsampled(
    form: str,
    conv: nnx.Conv,
    x: jax.Array,
    skip: jax.Array | None = None,
    activation: Any = None,
) -> jax.Array:
    """What `conv` makes of the upsampled `x`, `skip` concatenated."""
    if form == "ours":
        kernel, bias = conv.kernel[...], conv.bias[...]  # type: ignore[index]
        return upsample_conv(x, kernel, skip=skip, bias=bias, activation=activation)
    y = plain_upsample(form, x)
    y = conv(y if skip is None else jnp.concatenate([y, skip], -1))
    return y if activation is None else getattr(jax.nn, activation)(y)


class UNet(nnx.Module):
    """Two convolutions a level, on the way down and on the way up."""

    def __init__(self, form: str, widths: Sequence[int], conv: Any) -> None:
        wider = list(itertools.pairwise((3, *widths)))
        self.form = form
        self.down = nnx.List([nnx.List([conv(a, b), conv(b, b)]) for a, b in wider])
        pairs = [nnx.List([conv(a + b, a), conv(a, a)]) for a, b in wider[:0:-1]]
        self.up = nnx.List(pairs)
        self.last = conv(widths[0], 3)

    def __call__(self, x: jax.Array) -> jax.Array:
        """(N, H, W, 3) to the same shape."""
        skips = []
        for level, (first, second) in enumerate(self.down):
            if level > 0:
                skips.append(x)
                x = nnx.max_pool(x, (2, 2), (2, 2))
            x = nnx.relu(second(nnx.relu(first(x))))
        for first, second in self.up:
            x = conv_of_upsampled(self.form, first, x, skips.pop(), "relu")
            x = nnx.relu(second(x))
        return self.last(x)


class ResidualBlock(nnx.Module):
    """Normalise, activate, convolve, twice, beside a shortcut."""

    def __init__(self, width_in: int, width_out: int, conv: Any) -> None:
        self.norms = nnx.List(
            [
                nnx.GroupNorm(width, 32, dtype=conv.keywords["dtype"], rngs=nnx.Rngs(0))
                for width in (width_in, width_out)
            ]
        )
        self.convs = nnx.List([conv(width_in, width_out), conv(width_out, width_out)])
        self.shortcut = (
            None
            if width_in == width_out
            else conv(width_in, width_out, kernel_size=(1, 1))
        )

    def __call__(self, x: jax.Array) -> jax.Array:
        """(N, H, W, width_in) to (N, H, W, width_out)."""
        y = x
        for norm, conv in zip(self.norms, self.convs, strict=True):
            y = conv(nnx.silu(norm(y)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class Decoder(nnx.Module):
    """Latents to pixels: three residual blocks a level, then x2 and a convolution."""

    def __init__(self, form: str, widths: Sequence[int], conv: Any) -> None:
        self.form = form
        self.first = conv(4, widths[0])
        levels, ups, width = [], [], widths[0]
        for i, wanted in enumerate(widths):
            blocks = [ResidualBlock(width, wanted, conv)]
            blocks += [ResidualBlock(wanted, wanted, conv) for _ in range(2)]
            levels.append(nnx.List(blocks))
            width = wanted
            if i + 1 < len(widths):
                ups.append(conv(width, width))
        self.levels, self.ups = nnx.List(levels), nnx.List(ups)
        self.last = conv(width, 3)

    def __call__(self, x: jax.Array) -> jax.Array:
        """(N, h, w, 4) to (N, H, W, 3)."""
        x = self.first(x)
        for i, blocks in enumerate(self.levels):
            if i > 0:
                x = conv_of_upsampled(self.form, self.ups[i - 1], x)
            for block in blocks:
                x = block(x)
        return self.last(nnx.silu(x))


def top_down(form: str, laterals: Sequence[jax.Array]) -> list[jax.Array]:
    """A feature pyramid's merges, coarse to fine."""
    merged = [laterals[0]]
    for lateral in laterals[1:]:
        merged.append(
            upsample_add(merged[-1], lateral)
            if form == "ours"
            else lateral + plain_upsample(form, merged[-1])
        )
    return merged


# ------------------------------------------------------------------------------- cases


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, the shape of its operand (of the finest lateral), its widths."""

    model: str
    shape: tuple[int, int, int, int]
    widths: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.model} {'x'.join(map(str, self.shape))} {self.dtype}"


CASES = (
    Case("U-Net", (16, 256, 256, 3), (64, 128, 256, 512), "bfloat16"),
    Case("decoder", (4, 64, 64, 4), (512, 512, 256, 128), "bfloat16"),
    Case("FPN", (8, 200, 336, 256), (256,) * 4, "bfloat16"),
    Case("merges", (8, 200, 336, 256), (256,) * 4, "bfloat16"),
    Case("merges", (8, 200, 336, 256), (256,) * 4, "float32"),
)
QUICK = (
    Case("U-Net", (1, 16, 16, 3), (8, 16), "float32"),
    Case("decoder", (1, 4, 4, 4), (32, 32), "bfloat16"),
    Case("FPN", (1, 8, 8, 16), (16,) * 3, "bfloat16"),
    Case("merges", (1, 8, 8, 16), (16,) * 3, "bfloat16"),
)


def build(case: Case, form: str) -> tuple[Callable[..., Any], Any, Any]:
    """(parameters, operand) -> result, parameters and an operand; the same each time.

    The laterals of a feature pyramid are parameters.
    """
    key, dtype = jax.random.key(1), jnp.dtype(case.dtype)
    conv = functools.partial(
        nnx.Conv,
        kernel_size=(3, 3),
        rngs=nnx.Rngs(0),
        dtype=dtype,
        param_dtype=dtype,
    )
    if case.model in ("FPN", "merges"):
        n, h, w, c = case.shape
        levels = range(len(case.widths))[::-1]
        shapes = [(n, h >> level, w >> level, c) for level in levels]
        laterals = [jax.random.normal(key, s, dtype) for s in shapes]
        if case.model == "merges":
            return lambda laterals, _: top_down(form, laterals), laterals, None
        definition, kernels = nnx.split(nnx.List([conv(c, c) for _ in levels]))

        def pyramid(parameters: Any, _: None) -> list[jax.Array]:
            kernels, laterals = parameters
            convs = nnx.merge(definition, kernels)
            maps = top_down(form, laterals)
            return [conv(merged) for conv, merged in zip(convs, maps, strict=True)]

        return pyramid, (kernels, laterals), None
    kind = UNet if case.model == "U-Net" else Decoder
    graph, parameters = nnx.split(kind(form, case.widths, conv))
    x = jax.random.normal(key, case.shape, dtype)
    return lambda parameters, x: nnx.merge(graph, parameters)(x), parameters, x


def rows(case: Case, iterations: int) -> Iterator[harness.Row]:
    """Checks and times every form of a case."""
    clock = harness.times()
    for direction, wrap in (("inference", lambda f: f), ("step", harness.step)):
        expected = None
        for name in ("broadcast", "resize", "ours"):
            forward, parameters, x = build(case, name)
            function = jax.jit(wrap(forward))
            actual = function(parameters, x)
            if direction == "step":
                _, actual = actual  # the gradients
            expected = actual if expected is None else expected
            us = clock(lambda both, f=function: f(*both), (parameters, x), iterations)
            yield {
                "direction": direction,
                "form": name,
                "right": harness.close(actual, expected, TOLERANCE),
                "us": us,
            }


def report(results: list[harness.Row]) -> Iterator[str]:
    """A table; the last column is ours by the best plain form."""
    yield ""
    yield f"| microseconds | {' | '.join(FORMS)} | ours/plain |"
    yield "| --- |" + " ---: |" * (len(FORMS) + 1)
    for case in dict.fromkeys(row["case"] for row in results):
        for direction in ("inference", "step"):
            chosen = {
                row["form"]: row
                for row in results
                if (row["case"], row["direction"]) == (case, direction)
            }
            best = min(chosen[f]["median_us"] for f in ("resize", "broadcast"))
            cells = [
                f"{row['median_us']:.0f}" + ("" if row["right"] else " wrong")
                for row in (chosen[f] for f in FORMS)
            ]
            part = chosen["ours"]["median_us"] / best
            yield f"| {case}, {direction} | {' | '.join(cells)} | {part:.2f} |"


if __name__ == "__main__":
    description = (__doc__ or "").split("\n")[0]
    harness.run_rows(description, CASES, QUICK, rows, report, iterations=5)
