"""Draws which input each output copies, by every rule of `resize_nearest`.

    pip install matplotlib
    python docs/rules.py                     # writes docs/rules.svg

Needs the package installed, as the examples do. The indices are what `resize_nearest`
returns for 0, 1, 2, ..
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from jax_upsample import resize_nearest

RULES = ("jax", "half_pixel", "torch_exact", "asymmetric", "torch")
CASES = ((5, 8), (5, 3))
# Okabe and Ito's, light enough for black figures: colour-blind readers tell them apart.
COLOURS = ("#56B4E9", "#F0E442", "#E69F00", "#CC79A7", "#009E73")


def draw_row(axes: Axes, y: int, indices: list[int], width: int) -> None:
    """Cells of equal widths, `width` together, each of the colour of its input."""
    step = width / len(indices)
    for i, index in enumerate(indices):
        colour = COLOURS[index]
        cell = Rectangle((i * step, y), step, 0.8, facecolor=colour, edgecolor="white")
        axes.add_patch(cell)
        middle = ((i + 0.5) * step, y + 0.4)
        axes.annotate(str(index), middle, ha="center", va="center", fontsize=9)


def draw_case(axes: Axes, m: int, n: int) -> None:
    """The input and below it, just as wide, the output by each rule."""
    x = jnp.arange(m)
    draw_row(axes, 0, x.tolist(), m)
    names = ["input"]
    for y, rule in enumerate(RULES, start=1):
        draw_row(axes, y, resize_nearest(x, (n,), rule=rule).tolist(), m)
        names.append(f'"{rule}"')
    axes.set_title(f"{m} \N{RIGHTWARDS ARROW} {n}", fontsize=11)
    axes.set_xlim(0, m)
    axes.set_ylim(len(names), -0.2)
    axes.set_xticks([])
    axes.set_yticks([y + 0.4 for y in range(len(names))], names, family="monospace")
    axes.tick_params(length=0)
    axes.set_frame_on(False)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    output = Path(__file__).with_suffix(".svg")
    parser.add_argument("--output", type=Path, default=output, help="SVG to write")
    arguments = parser.parse_args()
    # The same bytes on every run.
    mpl.rcParams["svg.hashsalt"] = "rules"
    figure = Figure(figsize=(8.5, 2.6), layout="constrained")
    for axes, (m, n) in zip(figure.subplots(1, len(CASES)), CASES, strict=True):
        draw_case(axes, m, n)
    figure.savefig(arguments.output, metadata={"Date": None})


if __name__ == "__main__":
    main()
