"""Draws the results of the benchmarks.

    python benchmarks/plots.py benchmarks/results/h200

For every JSON file in the folder a picture of all its cases, and `overview.svg` of all
files: how many times as fast as the best plain XLA form each case is.
"""

import json
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

# Of each form: its name in the legend, its colour, its mark. One colour for JAX's own
# function, one for PyTorch's, one for this package; those of Okabe and Ito, which
# colour-blind readers can tell apart.
STYLES = {
    "resize": ("jax.image.resize", "#999999", "o"),
    "torch": ("PyTorch", "#D55E00", "s"),
    "probe": ("stream of the same bytes", "#000000", "|"),
    "ours": ("jax_upsample", "#0072B2", "D"),
}
# What stands for this package, and what a user would write without it.
OURS = ("default", "folded", "ours")
PLAIN = ("resize", "repeat", "broadcast", "xla")
TITLES = {
    "upsample_nearest": "upsample_nearest",
    "resize_nearest": "resize_nearest",
    "upsample_join": "upsample_add, upsample_concat",
    "upsample_conv": "upsample_conv",
    "models": "whole Flax models",
}

Speeds = dict[str, dict[str, float]]  # case: form: times as fast as the best plain one


def speeds(results: list[dict[str, Any]], direction: str) -> Speeds:
    """Of the cases of a direction, by the medians."""
    by_case: dict[str, dict[str, float]] = {}
    for row in results:
        if row["direction"] == direction and row["median_us"] is not None:
            by_case.setdefault(row["case"], {})[row["form"]] = row["median_us"]
    relative: Speeds = {}
    for case, us in by_case.items():
        best = min(us[form] for form in PLAIN if form in us)
        ours = next(us[form] for form in OURS if form in us)
        shown = {form: us[form] for form in STYLES if form in us} | {"ours": ours}
        relative[case] = {form: best / time for form, time in shown.items()}
    return relative


def directions(results: list[dict[str, Any]]) -> list[str]:
    """In the order in which they were timed."""
    return list(dict.fromkeys(row["direction"] for row in results))


def _scale(axes: Axes) -> None:
    axes.axvline(1, color="#444444", linewidth=1, zorder=0)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,))
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("times as fast as the best plain XLA form")
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.5)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _points(axes: Axes, form: str, x: list[float], y: list[float]) -> Any:
    label, colour, mark = STYLES[form]
    size = 70 if mark == "|" else 22
    return axes.scatter(x, y, size, color=colour, marker=mark, zorder=3, label=label)


def draw_cases(data: dict[str, Any], title: str) -> Figure:
    """Every case of a benchmark, a panel for each direction."""
    results = data["results"]
    panels = [(name, speeds(results, name)) for name in directions(results)]
    most = max(len(cases) for _, cases in panels)
    figure = Figure(figsize=(11, 1.7 + 0.24 * most), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    marks: dict[str, Any] = {}
    for axes, (direction, cases) in zip(grid, panels, strict=True):
        for form in STYLES:
            at = [(of[form], i) for i, of in enumerate(cases.values()) if form in of]
            if at:
                x, y = zip(*at, strict=True)
                marks[form] = _points(axes, form, list(x), list(y))
        axes.set_yticks(range(len(cases)), list(cases), fontsize=7)
        axes.set_ylim(len(cases) - 0.4, -0.6)
        axes.set_title(direction)
        _scale(axes)
    machine = data["machine"]
    figure.suptitle(f"{title} on one {_text(machine)}", fontsize=10)
    figure.legend(
        handles=list(marks.values()), loc="outside lower center", ncols=4, frameon=False
    )
    return figure


def draw_overview(files: dict[str, dict[str, Any]]) -> Figure:
    """All cases of all benchmarks, a line for each direction of an op."""
    lines: list[tuple[str, Speeds]] = [
        (f"{TITLES[name]}\n{direction}, {len(cases)} cases", cases)
        for name, data in files.items()
        for direction in directions(data["results"])
        for cases in [speeds(data["results"], direction)]
    ]
    figure = Figure(figsize=(9, 1.4 + 0.42 * len(lines)), layout="constrained")
    axes = figure.subplots()
    marks: dict[str, Any] = {}
    for form, shift in (("resize", 0.14), ("ours", -0.14)):
        at = [
            (of[form], line + shift)
            for line, (_, cases) in enumerate(lines)
            for of in cases.values()
        ]
        x, y = zip(*at, strict=True)
        marks[form] = _points(axes, form, list(x), list(y))
        marks[form].set_alpha(0.6)
    axes.set_yticks(range(len(lines)), [name for name, _ in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    _scale(axes)
    latest = max((data["machine"] for data in files.values()), key=itemgetter("date"))
    axes.set_title(f"Every case on one {_text(latest)}", fontsize=10)
    figure.legend(
        handles=list(marks.values()), loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _text(machine: dict[str, str]) -> str:
    return f"{machine['device']}, jax {machine['jax']}, {machine['date']}"


def draw(folder: Path) -> Iterator[Path]:
    """Writes the pictures next to the results and names them."""
    mpl.rcParams["svg.hashsalt"] = "jax_upsample"  # the same bytes each time
    files = {
        name: json.loads((folder / f"{name}.json").read_text())
        for name in TITLES
        if (folder / f"{name}.json").exists()
    }
    figures = {name: draw_cases(data, TITLES[name]) for name, data in files.items()}
    figures["overview"] = draw_overview(files)
    for name, figure in figures.items():
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata={"Date": None})
        yield path


if __name__ == "__main__":
    for path in draw(Path(sys.argv[1])):
        print(path)
